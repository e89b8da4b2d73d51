//! The frames of a list of packets, in order. The reference for every engine that sends them.

use crate::spec::FrameSpec;
use packet::Rng;

/// Which packet is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketOrder {
    /// One after the other, then from the first again.
    RoundRobin,
    /// The first packet, then any.
    Random,
}

/// Yields frames. The same packets and seed give the same frames.
#[derive(Clone, Debug)]
pub struct Expander<'a> {
    specs: &'a [FrameSpec],
    /// Per packet, the state of each field.
    states: Vec<Vec<u64>>,
    order: PacketOrder,
    next: usize,
    rng: Rng,
    frame: Vec<u8>,
}

impl<'a> Expander<'a> {
    /// Starts before the first frame.
    pub fn new(specs: &'a [FrameSpec], order: PacketOrder, seed: u64) -> Self {
        let start = |spec: &FrameSpec| spec.fields.iter().map(|field| field.mode.start()).collect();
        let states = specs.iter().map(start).collect();
        Self { specs, states, order, next: 0, rng: Rng(seed), frame: Vec::new() }
    }

    /// The next frame; `None` if there are no packets.
    pub fn next_frame(&mut self) -> Option<&[u8]> {
        let index = self.next;
        let spec = self.specs.get(index)?;
        self.frame.clear();
        self.frame.extend_from_slice(&spec.template);
        for (field, state) in spec.fields.iter().zip(&mut self.states[index]) {
            let value = field.mode.next(state, &mut self.rng);
            field.write(&mut self.frame, value);
        }
        for checksum in &spec.checksums {
            checksum.write(&mut self.frame);
        }
        self.next = match self.order {
            PacketOrder::RoundRobin => (index + 1) % self.specs.len(),
            PacketOrder::Random => self.rng.below(self.specs.len() as u32) as usize,
        };
        Some(&self.frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{Field, FieldMode};

    fn counting(first: u64) -> FrameSpec {
        let mode = FieldMode::Increment { first, min: 0, max: 255, step: 1, wrap: 256 };
        let field = Field { offset: 0, width: 1, mask: 0xff, shift: 0, mode };
        FrameSpec { template: vec![0], fields: vec![field], ..FrameSpec::default() }
    }

    fn first_bytes(order: PacketOrder, seed: u64, count: usize) -> Vec<u8> {
        let specs = [counting(0), counting(100)];
        let mut expander = Expander::new(&specs, order, seed);
        (0..count).map(|_| expander.next_frame().expect("there are packets")[0]).collect()
    }

    #[test]
    fn round_robin_counts_each_packet_on_its_own() {
        assert_eq!(first_bytes(PacketOrder::RoundRobin, 1, 5), [0, 100, 1, 101, 2]);
    }

    #[test]
    fn random_order_is_repeated_by_the_seed() {
        let frames = first_bytes(PacketOrder::Random, 7, 40);
        assert_eq!(frames, first_bytes(PacketOrder::Random, 7, 40));
        assert_ne!(frames, first_bytes(PacketOrder::Random, 8, 40));
        assert_eq!(frames[0], 0);
    }

    #[test]
    fn no_packets_no_frames() {
        assert_eq!(Expander::new(&[], PacketOrder::Random, 0).next_frame(), None);
    }
}
