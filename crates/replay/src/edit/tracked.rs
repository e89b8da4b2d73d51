//! The checksums of a frame while it is edited.
//!
//! Each write to the frame is entered into all checksums that cover it. At the end they are written
//! from the innermost to the outermost one, so that an outer one covers the new inner one.

use packet::checksum::{SumChange, crc32c_step};
use packet::headers::{SumPlace, SumProtocol};

/// Bytes of both ports.
const PORTS_LEN: usize = 4;

/// A checksum with what has changed under it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TrackedSum {
    pub(crate) place: SumPlace,
    change: SumChange,
    /// Difference of the ports of SCTP, the only bytes under its checksum that change.
    crc_change: [u8; PORTS_LEN],
    /// The right checksum before all edits, if it is to be written.
    pub(crate) right: Option<u32>,
}

impl TrackedSum {
    pub(crate) fn new(place: SumPlace) -> Self {
        Self { place, change: SumChange::default(), crc_change: [0; PORTS_LEN], right: None }
    }

    /// The right checksum for the bytes of the frame.
    pub(crate) fn computed(&self, frame: &[u8]) -> Option<u32> {
        match self.place.protocol {
            SumProtocol::Sctp => self.place.computed_crc(frame),
            _ => self.place.computed(frame).map(u32::from),
        }
    }

    /// `old` at `at` became `new`, which is `change`.
    #[inline]
    fn enter(&mut self, at: usize, old: &[u8], new: &[u8], change: SumChange) {
        let SumPlace { from, to, pseudo, protocol, .. } = self.place;
        if (from..to).contains(&at) {
            let offset = at - from;
            if protocol == SumProtocol::Sctp {
                let bytes = self.crc_change.iter_mut().skip(offset);
                bytes.zip(old.iter().zip(new)).for_each(|(byte, (old, new))| *byte ^= old ^ new);
            } else {
                self.change.add(change, offset % 2 == 1);
            }
        } else if pseudo.is_some_and(|pseudo| pseudo.src_at == at || pseudo.dst_at == at) {
            self.change.add(change, false);
        }
    }

    /// What to write: the place of the checksum, its bytes and their number.
    fn finished(&self, frame: &[u8]) -> Option<([u8; 4], usize)> {
        let place = &self.place;
        if place.protocol == SumProtocol::Sctp {
            let stored = u32::from_le_bytes(*frame.get(place.at..)?.first_chunk()?);
            let mut crc = self.right.unwrap_or(stored);
            if self.crc_change != [0; PORTS_LEN] {
                // The rest of the packet is as it was: its difference is zeros.
                let register = crc32c_step(0, &self.crc_change);
                let zeros = (place.to - place.from).saturating_sub(PORTS_LEN);
                crc ^= (0..zeros).fold(register, |register, _| crc32c_step(register, &[0]));
            }
            return (crc != stored).then_some((crc.to_le_bytes(), 4));
        }
        let stored = place.stored(frame)?;
        let is_none = place.protocol == SumProtocol::Udp && stored == 0 && self.right.is_none();
        if is_none {
            return None;
        }
        let base = self.right.map_or(stored, |right| right as u16);
        let sum = if self.change.is_none() { base } else { place.sent_as(self.change.apply(base)) };
        let [high, low] = sum.to_be_bytes();
        (sum != stored).then_some(([high, low, 0, 0], 2))
    }
}

/// Writes `new` at `at`, all of which the frame has: at most 16 bytes.
#[inline]
pub(crate) fn write(frame: &mut [u8], sums: &mut [TrackedSum], at: usize, new: &[u8]) {
    // The compiler writes code without calls for lengths that it knows.
    match new.len() {
        2 => write_array::<2>(frame, sums, at, new),
        4 => write_array::<4>(frame, sums, at, new),
        6 => write_array::<6>(frame, sums, at, new),
        16 => write_array::<16>(frame, sums, at, new),
        _ => new.iter().enumerate().for_each(|(place, byte)| {
            write_array::<1>(frame, sums, at + place, std::slice::from_ref(byte));
        }),
    }
}

#[inline]
fn write_array<const LEN: usize>(frame: &mut [u8], sums: &mut [TrackedSum], at: usize, new: &[u8]) {
    let new: &[u8; LEN] = new.first_chunk().expect("it has this length");
    let Some(place) = frame.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) else { return };
    let old = *place;
    if old != *new {
        *place = *new;
        let change = SumChange::of(&old, new);
        sums.iter_mut().for_each(|sum| sum.enter(at, &old, new, change));
    }
}

/// Writes all checksums.
pub(crate) fn finish(frame: &mut [u8], sums: &mut [TrackedSum]) {
    for place in (0..sums.len()).rev() {
        if let Some((bytes, len)) = sums[place].finished(frame) {
            let at = sums[place].place.at;
            write(frame, &mut sums[..place], at, &bytes[..len]);
        }
    }
}
