//! The mark at the end of a frame, which a receiver counts and times: magic, flow, run, number and
//! time. `measure` reads it; its documentation has the layout.
//!
//! Tunnels and translation change the front of a frame and not its end, so any frame can have one.

use super::spec::{Field, FieldMode, FrameSpec};

/// Bytes of the mark.
pub const MARK_LEN: usize = 18;
/// Its first bytes.
const MARK_MAGIC: u32 = 0x5752_4f54;

/// The mark of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameMark {
    /// The flow.
    pub flow: u16,
    /// The run.
    pub run: u16,
    /// Frames carry the time at which they are built, which costs a reading of the clock. Without
    /// it the time is 0.
    pub has_time: bool,
    /// What the number of a frame counts.
    pub counts: MarkCount,
}

/// What the numbers in marks count, from 0 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkCount {
    /// The frames of the run: all packets are one flow.
    Run,
    /// The frames of this packet.
    Packet,
}

impl MarkCount {
    fn mode(self) -> FieldMode {
        let max = u64::from(u32::MAX);
        match self {
            Self::Run => FieldMode::Number,
            Self::Packet => FieldMode::Increment { first: 0, min: 0, max, step: 1, wrap: max + 1 },
        }
    }
}

impl FrameMark {
    /// Writes the mark into the template before byte `end`, and adds its fields. Other fields do
    /// not change these bytes any more.
    ///
    /// # Panics
    /// With fewer than [`MARK_LEN`] bytes before `end`.
    pub fn add(self, end: usize, spec: &mut FrameSpec) {
        let start = end - MARK_LEN;
        let mark = &mut spec.template[start..end];
        mark.fill(0);
        mark[..4].copy_from_slice(&MARK_MAGIC.to_be_bytes());
        mark[4..6].copy_from_slice(&self.flow.to_be_bytes());
        mark[6..8].copy_from_slice(&self.run.to_be_bytes());
        spec.spare(start..end);
        spec.fields.push(Field::whole(start + 8, 4, self.counts.mode()));
        if self.has_time {
            spec.fields.push(Field::whole(start + 12, 6, FieldMode::Time));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{ChecksumField, PacketOrder, Plan, PseudoHeader, SumKind};

    const MARK: FrameMark = FrameMark { flow: 0x0102, run: 0x0304, has_time: true, counts: MarkCount::Run };

    fn frames(plan: &Plan, count: usize) -> Vec<Vec<u8>> {
        let mut cursor = plan.start();
        let mut next = |_| {
            let mut out = vec![0; plan.frame_len_max() as usize];
            let len = plan.emit(&mut cursor, 0x0910_1112_1314, &mut out);
            out.truncate(len);
            out
        };
        (0..count).map(&mut next).collect()
    }

    /// The bytes of `measure`'s test of the same mark.
    #[test]
    fn a_mark_has_flow_run_number_and_time() {
        let mut spec = FrameSpec { template: vec![0xee; 30], ..FrameSpec::default() };
        MARK.add(28, &mut spec);
        let plan = Plan::of_specs(&[spec], PacketOrder::RoundRobin);
        let frame = frames(&plan, 3).pop().expect("three frames");
        let hex: String = frame[10..].iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "57524f54".to_owned() + "0102" + "0304" + "00000002" + "091011121314" + "eeee");
    }

    #[test]
    fn packets_are_numbered_together_or_one_by_one() {
        let plan = |counts| {
            let spec = |flow| {
                let mut spec = FrameSpec { template: vec![0; 18], ..FrameSpec::default() };
                FrameMark { flow, counts, ..MARK }.add(18, &mut spec);
                spec
            };
            Plan::of_specs(&[spec(0), spec(1)], PacketOrder::RoundRobin)
        };
        let numbers = |counts| frames(&plan(counts), 4).iter().map(|frame| frame[11]).collect::<Vec<_>>();
        assert_eq!(numbers(MarkCount::Run), [0, 1, 2, 3]);
        assert_eq!(numbers(MarkCount::Packet), [0, 0, 1, 1]);
    }

    #[test]
    fn other_fields_leave_the_mark_alone_and_its_checksum_is_right() {
        let random = |offset, width| {
            let mask = u64::MAX >> (64 - 8 * width);
            let mode = FieldMode::Random { min: mask, max: mask };
            Field::whole(offset, width, mode)
        };
        let checksum = ChecksumField {
            offset: 0,
            start: 0,
            end: 40,
            pseudo_header: PseudoHeader::None,
            kind: SumKind::Internet,
            is_wrong: false,
        };
        let fields = vec![random(2, 4), random(19, 8), random(26, 8), random(39, 1)];
        let mut spec =
            FrameSpec { template: vec![0; 40], fields, checksums: vec![checksum], ..FrameSpec::default() };
        MARK.add(40, &mut spec);
        assert_eq!(spec.fields.len(), 4, "two of the frame and two of the mark: {:?}", spec.fields);
        for frame in frames(&Plan::of_specs(&[spec], PacketOrder::RoundRobin), 3) {
            assert_eq!((&frame[2..6], &frame[19..22]), (&[0xff; 4][..], &[0xff; 3][..]));
            assert_eq!(&frame[22..28], [0x57, 0x52, 0x4f, 0x54, 1, 2]);
            assert_eq!(crate::checksum::finish(crate::checksum::add(0, &frame)), 0);
        }
    }

    #[test]
    fn a_packet_without_fields_has_its_checksums_in_its_template() {
        let checksum = ChecksumField {
            offset: 2,
            start: 0,
            end: 20,
            pseudo_header: PseudoHeader::None,
            kind: SumKind::Internet,
            is_wrong: false,
        };
        let spec = FrameSpec { template: vec![7; 20], checksums: vec![checksum], ..FrameSpec::default() };
        let plan = Plan::of_specs(&[spec], PacketOrder::RoundRobin);
        assert!(plan.packets()[0].sums.is_empty());
        assert_eq!(crate::checksum::finish(crate::checksum::add(0, &frames(&plan, 1)[0])), 0);
    }
}
