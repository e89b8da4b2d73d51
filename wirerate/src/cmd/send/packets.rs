//! Packets in trafgen's language as the frames of a run.

use crate::outcome::Failure;
use frames::{FrameSpec, PacketOrder};
use packet::general::GeneralPlan;

/// Bytes of an Ethernet header: no device sends less.
const FRAME_LEN_MIN: usize = 14;

/// The packets that a run sends.
#[derive(Clone, Debug)]
pub struct Packets {
    specs: Vec<FrameSpec>,
    order: PacketOrder,
}

impl Packets {
    /// Packets for a device.
    ///
    /// # Errors
    /// Bad usage for a packet without an Ethernet header.
    pub fn new(specs: Vec<FrameSpec>, order: PacketOrder) -> Result<Self, Failure> {
        match specs.iter().position(|spec| spec.template.len() < FRAME_LEN_MIN) {
            None => Ok(Self { specs, order }),
            Some(index) => {
                let len = specs[index].template.len();
                let act = format!("send packet {} of {len} bytes", index + 1);
                Err(Failure::usage(act, format!("a frame has at least {FRAME_LEN_MIN} bytes"))
                    .try_this("`wirerate trafgen ... -o FILE.pcap` to write it to a file"))
            }
        }
    }

    /// Mean frame length of one round, in bytes without FCS.
    pub fn mean_len(&self) -> usize {
        let bytes: usize = self.specs.iter().map(|spec| spec.template.len()).sum();
        bytes / self.specs.len().max(1)
    }

    /// The packets that thread `index` of a run sends; `None` if `cpu()` leaves it none.
    pub fn of_thread(&self, index: u32) -> Option<GeneralPlan> {
        let is_its_own = |spec: &&FrameSpec| spec.cpus.as_ref().is_none_or(|cpus| cpus.contains(&index));
        let specs: Vec<FrameSpec> = self.specs.iter().filter(is_its_own).cloned().collect();
        (!specs.is_empty()).then(|| GeneralPlan::new(&specs, self.order))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packets(text: &str) -> Result<Packets, Failure> {
        let specs =
            frames::parse(text.as_bytes(), &frames::ParseSettings::default(), &mut frames::NoCaptures);
        Packets::new(specs.expect("a good configuration"), PacketOrder::RoundRobin)
    }

    #[test]
    fn each_thread_has_the_packets_of_its_cpu() {
        let packets = packets("cpu(0): { fill(1, 20) } cpu(1-2): { fill(2, 40) }").unwrap();
        let lens = [0, 1, 2, 3].map(|index| packets.of_thread(index).map(|plan| plan.frame_len_max()));
        assert_eq!(lens, [Some(20), Some(40), Some(40), None]);
        assert_eq!(packets.mean_len(), 30);
    }

    #[test]
    fn a_packet_without_an_ethernet_header_is_not_sent() {
        let refusal = packets("{ fill(1, 14) } { fill(1, 13) }").unwrap_err().to_string();
        assert!(refusal.starts_with("wirerate: cannot send packet 2 of 13 bytes"), "{refusal}");
    }
}
