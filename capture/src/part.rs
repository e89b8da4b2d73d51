//! Whose records stand in a row, and by which clock their times in the file are.
//!
//! Records are put in order, and files end, by the time of day. What a file holds of a record may be another clock's: that
//! of a card, as it is. So records go on together with what turns the one into the other, however they are cut.

use crate::format::{Encoded, Format};
use crate::phc::Line;
use std::iter::repeat_n;

/// The clock of the times that records have in the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Dial {
    /// The kernel's, as time of day.
    #[default]
    Kernel,
    /// The device's, as time of day.
    Card,
    /// The device's as it is; the line gives the time of day.
    CardAsItIs(Line),
}

impl Dial {
    /// The time of day of a record that has this time in the file.
    #[inline]
    fn utc_ns(&self, time_ns: u64) -> u64 {
        match self {
            Self::Kernel | Self::Card => time_ns,
            Self::CardAsItIs(line) => line.utc_ns(time_ns),
        }
    }

    /// True when the device stamped the record.
    pub(crate) fn is_hardware(&self) -> bool {
        *self != Self::Kernel
    }
}

/// Records of one ring and one clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) ring: usize,
    pub(crate) count: u64,
    pub(crate) dial: Dial,
}

/// How many records these are.
pub(crate) fn count(parts: &[Part]) -> u64 {
    parts.iter().map(|part| part.count).sum()
}

/// Adds records behind the others.
pub(crate) fn push(parts: &mut Vec<Part>, part: Part) {
    match parts.last_mut() {
        Some(last) if last.ring == part.ring && last.dial == part.dial => last.count += part.count,
        _ if part.count > 0 => parts.push(part),
        _ => {}
    }
}

/// Takes the first `count` records off.
pub(crate) fn split_off(parts: &mut Vec<Part>, count: u64) -> Vec<Part> {
    let (mut left, mut whole) = (count, 0);
    while left > 0 && parts[whole].count <= left {
        left -= parts[whole].count;
        whole += 1;
    }
    let mut taken: Vec<Part> = parts.drain(..whole).collect();
    if left > 0 {
        parts[0].count -= left;
        taken.push(Part { count: left, ..parts[0] });
    }
    taken
}

/// The records of a stretch of whole ones, which are those of `parts`, with their times of day.
pub(crate) fn dated(format: Format, bytes: &[u8], parts: &[Part]) -> impl Iterator<Item = Encoded> {
    let dials = parts.iter().flat_map(|part| repeat_n(&part.dial, part.count as usize));
    let dated = |(record, dial): (Encoded, &Dial)| Encoded { time_ns: dial.utc_ns(record.time_ns), ..record };
    format.records(bytes).zip(dials).map(dated)
}

/// Makes the parts of a run: which of its records the device stamped.
#[derive(Debug)]
pub(crate) struct Parts {
    ring: usize,
    card: Dial,
    parts: Vec<Part>,
    /// Records in `parts`.
    told: u64,
}

impl Parts {
    /// For records of one ring; `card` is the clock of those that the device stamps.
    pub(crate) fn new(ring: usize, card: Dial) -> Self {
        Self { ring, card, parts: Vec::with_capacity(1), told: 0 }
    }

    /// The device stamped record `number`, counted from 0; of those before it, the ones that it is not told of it did not.
    #[inline(never)]
    pub(crate) fn stamped(&mut self, number: u64) {
        self.kernel_until(number);
        push(&mut self.parts, Part { ring: self.ring, count: 1, dial: self.card });
        self.told += 1;
    }

    /// All of them, when there were `count` records.
    pub(crate) fn end(mut self, count: u64) -> Vec<Part> {
        self.kernel_until(count);
        self.parts
    }

    fn kernel_until(&mut self, number: u64) {
        let count = number - self.told;
        push(&mut self.parts, Part { ring: self.ring, count, dial: Dial::Kernel });
        self.told = number;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcapng::Packet;

    fn parts(counts: &[(usize, u64)]) -> Vec<Part> {
        counts.iter().map(|&(ring, count)| Part { ring, count, ..Part::default() }).collect()
    }

    #[test]
    fn parts_are_split_at_a_record() {
        for (count, taken, left) in [
            (0, &[][..], &[(0, 3), (1, 2)][..]),
            (2, &[(0, 2)], &[(0, 1), (1, 2)]),
            (3, &[(0, 3)], &[(1, 2)]),
            (4, &[(0, 3), (1, 1)], &[(1, 1)]),
            (5, &[(0, 3), (1, 2)], &[]),
        ] {
            let mut all = parts(&[(0, 3), (1, 2)]);
            assert_eq!(split_off(&mut all, count), parts(taken));
            assert_eq!(all, parts(left));
        }
    }

    #[test]
    fn a_run_is_told_by_the_clocks_of_its_records() {
        let card = Dial::CardAsItIs(Line::ahead(5));
        let told = |stamped: &[u64], count| {
            let mut parts = Parts::new(3, card);
            stamped.iter().for_each(|number| parts.stamped(*number));
            let parts = parts.end(count);
            assert!(parts.iter().all(|part| part.ring == 3));
            parts.iter().map(|part| (part.dial.is_hardware(), part.count)).collect::<Vec<_>>()
        };
        assert_eq!(told(&[], 4), [(false, 4)]);
        assert_eq!(told(&[0, 1, 2], 3), [(true, 3)]);
        assert_eq!(told(&[1, 2, 5], 7), [(false, 1), (true, 2), (false, 2), (true, 1), (false, 1)]);
    }

    #[test]
    fn records_of_a_card_have_their_time_of_day() {
        let (mut bytes, line) = (Vec::new(), Line::ahead(37));
        [1_000, 1_038, 1_002].iter().for_each(|time_ns| {
            Packet { time_ns: *time_ns, ..Packet::default() }.emit(&mut bytes);
        });
        let mut parts = parts(&[(0, 1), (0, 1), (1, 1)]);
        parts[1].dial = Dial::CardAsItIs(line);
        let times: Vec<u64> = dated(Format::Pcapng, &bytes, &parts).map(|record| record.time_ns).collect();
        assert_eq!(times, [1_000, 1_001, 1_002]);
    }
}
