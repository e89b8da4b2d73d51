//! The frames of a list of packets, in order. The reference for every engine that sends them.

use packet::plan::{FrameSpec, PacketOrder};
use packet::{Cursor, Plan, Rng};

/// Yields frames. The same packets and seed give the same frames.
#[derive(Clone, Debug)]
pub struct Expander {
    plan: Plan,
    cursor: Cursor,
    frame: Vec<u8>,
}

impl Expander {
    /// Starts before the first frame.
    pub fn new(specs: &[FrameSpec], order: PacketOrder, seed: u64) -> Self {
        let plan = Plan::of_specs(specs, order);
        let cursor = Cursor { rng: Rng(seed), ..plan.start() };
        let frame = vec![0; plan.frame_len_max() as usize];
        Self { plan, cursor, frame }
    }

    /// The next frame; `None` if there are no packets.
    pub fn next_frame(&mut self) -> Option<&[u8]> {
        if self.plan.packets().is_empty() {
            return None;
        }
        let len = self.plan.emit(&mut self.cursor, 0, &mut self.frame);
        Some(&self.frame[..len])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::plan::{Field, FieldMode};

    fn counting(first: u64) -> FrameSpec {
        let mode = FieldMode::Increment { first, min: 0, max: 255, step: 1, wrap: 256 };
        let field = Field::whole(0, 1, mode);
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
