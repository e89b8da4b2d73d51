//! Steps that fields take from loop to loop, so that flows of one loop differ from those of the
//! next.

use std::collections::HashSet;
use std::net::IpAddr;

/// What is added to each field per loop. Every field wraps around within its own width, so a value
/// repeats only after the whole range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerLoop {
    /// Added to the last 32 bits of the source address.
    pub src: u32,
    /// Added to the last 32 bits of the destination address.
    pub dst: u32,
    /// Added to the source port of TCP and UDP.
    pub src_port: u16,
    /// Added to the destination port of TCP and UDP.
    pub dst_port: u16,
    /// Added to the last 24 bits of the source MAC address.
    pub src_mac: u32,
    /// Added to the last 24 bits of the destination MAC address.
    pub dst_mac: u32,
    /// Added to the id of the outer VLAN tag.
    pub vlan: u16,
    /// Added to the last 32 bits of the address of a client, wherever it stands.
    pub clients: u32,
}

/// Steps of several fields, each with its own number of loops.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoopSteps {
    /// What is added, and the number of loops after which it is added again, 1 or more.
    pub steps: Vec<(PerLoop, u64)>,
    /// The addresses of clients in the file.
    pub clients: HashSet<IpAddr>,
}

impl LoopSteps {
    /// The sum of all steps before loop `loops_done`, counted from 0.
    pub(crate) fn after(&self, loops_done: u64) -> PerLoop {
        let sums = self.steps.iter().map(|(step, every)| step.after(loops_done / every));
        sums.fold(PerLoop::default(), |sum, step| sum.plus(&step))
    }
}

impl PerLoop {
    /// True if no field changes.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// The sum of all steps before loop `loops_done`, counted from 0.
    pub(crate) fn after(&self, loops_done: u64) -> Self {
        // Wrapping is meant: each field has its own width, which divides 2^64.
        let times = |step: u32| loops_done.wrapping_mul(u64::from(step)) as u32;
        let short = |step: u16| times(u32::from(step)) as u16;
        Self {
            src: times(self.src),
            dst: times(self.dst),
            src_port: short(self.src_port),
            dst_port: short(self.dst_port),
            src_mac: times(self.src_mac),
            dst_mac: times(self.dst_mac),
            vlan: short(self.vlan),
            clients: times(self.clients),
        }
    }

    /// Both steps together.
    fn plus(&self, other: &Self) -> Self {
        Self {
            src: self.src.wrapping_add(other.src),
            dst: self.dst.wrapping_add(other.dst),
            src_port: self.src_port.wrapping_add(other.src_port),
            dst_port: self.dst_port.wrapping_add(other.dst_port),
            src_mac: self.src_mac.wrapping_add(other.src_mac),
            dst_mac: self.dst_mac.wrapping_add(other.dst_mac),
            vlan: self.vlan.wrapping_add(other.vlan),
            clients: self.clients.wrapping_add(other.clients),
        }
    }
}

/// Adds `step` to the last four bytes of an address.
pub(crate) fn step_address(address: &mut [u8], step: u32) {
    if let Some(low) = address.last_chunk_mut::<4>() {
        *low = u32::from_be_bytes(*low).wrapping_add(step).to_be_bytes();
    }
}

/// Adds `step` to the last 24 bits of a MAC address, which are not its vendor.
pub(crate) fn step_mac(mac: &mut [u8], step: u32) {
    if let [.., a, b, c] = mac {
        let moved = u32::from_be_bytes([0, *a, *b, *c]).wrapping_add(step).to_be_bytes();
        [*a, *b, *c] = [moved[1], moved[2], moved[3]];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_repeats_only_after_the_whole_range() {
        let steps = PerLoop { src_port: 1, src: 0x10001, ..PerLoop::default() };
        let ports: HashSet<u16> = (0..65_536).map(|done| steps.after(done).src_port).collect();
        assert_eq!(ports.len(), 65_536);
        assert_eq!(steps.after(65_536).src_port, 0);
        // Behind 16 million loops as well.
        let sources: HashSet<u32> = (0..1000).map(|done| steps.after((1 << 24) + done).src).collect();
        assert_eq!(sources.len(), 1000);
    }

    #[test]
    fn each_step_has_its_own_number_of_loops() {
        let step = |src, every| (PerLoop { src, ..PerLoop::default() }, every);
        let clients = (PerLoop { clients: 2, ..PerLoop::default() }, 1);
        let steps = LoopSteps { steps: vec![step(1, 1), step(100, 3), clients], ..LoopSteps::default() };
        let sources: Vec<u32> = (0..8).map(|done| steps.after(done).src).collect();
        assert_eq!(sources, [0, 1, 2, 103, 104, 105, 206, 207]);
        assert_eq!(steps.after(7).clients, 14);
    }

    #[test]
    fn steps_carry_within_their_field() {
        let mut address = [10, 0, 0, 255];
        step_address(&mut address, 1);
        assert_eq!(address, [10, 0, 1, 0]);
        let mut mac = [2, 0, 0, 0xff, 0xff, 0xff];
        step_mac(&mut mac, 2);
        assert_eq!(mac, [2, 0, 0, 0, 0, 1]);
    }
}
