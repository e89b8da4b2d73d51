//! The 128-byte slots in which mgcap's kernel module passes frames to programs.
//!
//! Bytes 0 to 1: length of the frame on the wire, host order. 2 to 9: time in nanoseconds, host
//! order, signed. 10 to 105: the first bytes of the frame. The rest is unused. There is no captured
//! length: a reader takes as many bytes as the frame has, at most 96. Here unused bytes and bytes
//! that were not captured are zero, and a frame of 65,536 bytes or more has the length 65,535.

use std::io::{self, Read};

/// Bytes of one slot.
pub const SLOT_LEN: usize = 128;
/// Most bytes of a frame in a slot.
pub const SLOT_DATA_LEN: usize = 96;

const TIME_AT: usize = 2;
const DATA_AT: usize = 10;

/// What one slot says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MgcapSlot<'a> {
    /// Length of the frame on the wire, without FCS; 65,535 stands for that and more.
    pub frame_len: u16,
    /// Nanoseconds of whatever clock was asked for.
    pub time_ns: i64,
    /// The first bytes of the frame.
    pub data: &'a [u8],
}

impl<'a> MgcapSlot<'a> {
    /// Reads a slot. Every pattern of bytes is a valid one.
    pub fn parse(slot: &'a [u8; SLOT_LEN]) -> Self {
        let frame_len = u16::from_ne_bytes([slot[0], slot[1]]);
        let (_, rest) = slot.split_at(TIME_AT);
        let (time, rest) = rest.split_first_chunk().expect("a slot is longer than that");
        let len = usize::from(frame_len).min(SLOT_DATA_LEN);
        Self { frame_len, time_ns: i64::from_ne_bytes(*time), data: &rest[..len] }
    }
}

/// Appends a slot for a frame of which `data` was captured.
pub fn emit_slot(frame_len: u32, time_ns: i64, data: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&u16::try_from(frame_len).unwrap_or(u16::MAX).to_ne_bytes());
    out.extend_from_slice(&time_ns.to_ne_bytes());
    let len = data.len().min(SLOT_DATA_LEN).min(frame_len as usize);
    out.extend_from_slice(&data[..len]);
    out.resize(start + SLOT_LEN, 0);
}

const _: () = assert!(DATA_AT == TIME_AT + 8 && DATA_AT + SLOT_DATA_LEN <= SLOT_LEN);

/// Whole slots out of a stream that may hand over any number of bytes at a time.
#[derive(Debug)]
pub struct SlotReader<R> {
    from: R,
    buffer: Vec<u8>,
    /// Bytes of `buffer` that hold something.
    filled: usize,
}

impl<R: Read> SlotReader<R> {
    /// Reads at most `slots` slots at a time.
    pub fn new(from: R, slots: usize) -> Self {
        Self { from, buffer: vec![0; slots.max(1) * SLOT_LEN], filled: 0 }
    }

    /// Reads once and shows the slots that are whole now; how many these were, or nothing at the
    /// end of the stream.
    ///
    /// # Errors
    /// What the stream says; `UnexpectedEof` when it ends inside a slot.
    pub fn read(&mut self, mut take: impl FnMut(MgcapSlot<'_>)) -> io::Result<Option<usize>> {
        let read = self.from.read(&mut self.buffer[self.filled..])?;
        if read == 0 {
            return match self.filled {
                0 => Ok(None),
                _ => Err(io::ErrorKind::UnexpectedEof.into()),
            };
        }
        self.filled += read;
        let (slots, rest) = self.buffer[..self.filled].as_chunks::<SLOT_LEN>();
        slots.iter().for_each(|slot| take(MgcapSlot::parse(slot)));
        let (count, rest_len) = (slots.len(), rest.len());
        self.buffer.copy_within(count * SLOT_LEN..self.filled, 0);
        self.filled = rest_len;
        Ok(Some(count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Hands over its bytes in pieces of these lengths, again and again.
    struct Pieces<'a>(&'a [u8], Vec<usize>, usize);

    impl Read for Pieces<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let wanted = self.1[self.2 % self.1.len()].max(1);
            self.2 += 1;
            let len = wanted.min(buffer.len()).min(self.0.len());
            buffer[..len].copy_from_slice(&self.0[..len]);
            self.0 = &self.0[len..];
            Ok(len)
        }
    }

    /// Length, time and bytes of a slot.
    type Owned = (u16, i64, Vec<u8>);

    fn read_all(bytes: &[u8], pieces: Vec<usize>, slot_count: usize) -> (Vec<Owned>, io::Result<()>) {
        let mut reader = SlotReader::new(Pieces(bytes, pieces, 0), slot_count);
        let mut found = Vec::new();
        loop {
            match reader.read(|slot| found.push((slot.frame_len, slot.time_ns, slot.data.to_vec()))) {
                Ok(Some(_)) => {}
                Ok(None) => return (found, Ok(())),
                Err(error) => return (found, Err(error)),
            }
        }
    }

    proptest! {
        /// What is written is read, whatever was in the memory before and however the bytes come.
        #[test]
        fn slots_are_read_as_they_were_written(
            frames in prop::collection::vec((0_u32..70_000, any::<i64>(), 0_usize..200), 0..40),
            pieces in prop::collection::vec(1_usize..600, 1..8),
            slot_count in 1_usize..9,
        ) {
            let mut bytes = Vec::new();
            let mut expected = Vec::new();
            for (number, (frame_len, time_ns, captured)) in frames.iter().enumerate() {
                let data = vec![number as u8 | 1; *captured];
                emit_slot(*frame_len, *time_ns, &data, &mut bytes);
                let len = (*frame_len as usize).min(SLOT_DATA_LEN);
                let mut kept = data[..(*captured).min(len)].to_vec();
                kept.resize(len, 0);
                expected.push(((*frame_len).min(65_535) as u16, *time_ns, kept));
            }
            prop_assert_eq!(bytes.len(), frames.len() * SLOT_LEN);
            let (found, ended) = read_all(&bytes, pieces, slot_count);
            prop_assert!(ended.is_ok());
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn unused_bytes_are_zero(frame_len in any::<u32>(), captured in 0_usize..200) {
            let mut slot = vec![];
            emit_slot(frame_len, -1, &vec![0xee; captured], &mut slot);
            let used = DATA_AT + captured.min(frame_len as usize).min(SLOT_DATA_LEN);
            prop_assert!(slot[used..].iter().all(|byte| *byte == 0));
            prop_assert!(slot[DATA_AT..used].iter().all(|byte| *byte == 0xee));
        }
    }

    #[test]
    fn a_stream_that_ends_inside_a_slot_says_so_after_the_whole_ones() {
        let mut bytes = Vec::new();
        emit_slot(60, 5, &[1; 60], &mut bytes);
        emit_slot(60, 6, &[2; 60], &mut bytes);
        let (found, ended) = read_all(&bytes[..SLOT_LEN + 1], vec![50], 4);
        assert_eq!(found.len(), 1);
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    /// Any bytes: nothing panics, and every whole slot is shown exactly once.
    #[test]
    fn any_stream_is_slots_or_an_error() {
        testkit::fuzz!("any_stream_is_slots_or_an_error", 1_500_000, |seed| {
            let mut state = seed | 1;
            let mut random = move |below: usize| {
                // xorshift: fast, and the same each time.
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                (state >> 11) as usize % below
            };
            let bytes: Vec<u8> = (0..random(2000)).map(|_| random(256) as u8).collect();
            let pieces = (0..1 + random(6)).map(|_| random(700)).collect();
            let (found, ended) = read_all(&bytes, pieces, 1 + random(8));
            assert_eq!(found.len(), bytes.len() / SLOT_LEN);
            assert_eq!(ended.is_ok(), bytes.len().is_multiple_of(SLOT_LEN));
            assert!(found.iter().all(|(len, _, data)| data.len() == usize::from(*len).min(SLOT_DATA_LEN)));
        });
    }
}
