//! One queue: its socket, and the frames in its ring that the kernel has not consumed.

use super::socket::Xsk;
use crate::engine::Burst;
use std::collections::VecDeque;
use std::io;

/// A socket and the contents of its ring.
#[derive(Debug)]
pub(super) struct TxQueue {
    pub(super) socket: Xsk,
    pending: PendingFrames,
    /// Invalid descriptors counted so far.
    invalid: u64,
}

impl TxQueue {
    /// `each_len` is the length of each frame in bytes if all are equal.
    pub(super) fn new(socket: Xsk, each_len: Option<usize>) -> Self {
        let each = each_len
            .map(|len| RingFrame { len: len as u32, pieces: len.div_ceil(socket.chunk_len()) as u32 });
        Self { socket, pending: PendingFrames::new(each), invalid: 0 }
    }

    /// Frames that the kernel has not consumed.
    pub(super) fn pending(&self) -> u32 {
        self.pending.frames
    }

    /// Puts a frame of one chunk, written by `fill`, which returns its length, or 0 for none.
    pub(super) fn put_whole(&mut self, fill: impl FnOnce(&mut [u8]) -> usize) -> usize {
        let len = self.socket.put_whole(fill);
        if len > 0 {
            self.pending.push(RingFrame { len: len as u32, pieces: 1 });
        }
        len
    }

    /// Repeats the frame of [`Self::put_whole`] up to `most` times; returns how often.
    pub(super) fn put_again(&mut self, most: u32) -> u32 {
        let Some((len, count)) = self.socket.put_again(most) else { return 0 };
        self.pending.push_alike(RingFrame { len, pieces: 1 }, count);
        count
    }

    /// Puts a frame of any length, split into chunks.
    pub(super) fn put(&mut self, frame: &[u8]) {
        let chunk_len = self.socket.chunk_len();
        let pieces = frame.len().div_ceil(chunk_len);
        for (index, piece) in frame.chunks(chunk_len).enumerate() {
            self.socket.put(piece.len(), index + 1 < pieces, |out| out.copy_from_slice(piece));
        }
        self.pending.push(RingFrame { len: frame.len() as u32, pieces: pieces as u32 });
    }

    /// Puts an invalid descriptor.
    #[cfg(test)]
    pub(super) fn put_invalid(&mut self) {
        self.socket.put_invalid();
        let each = self.pending.each.expect("all frames are alike");
        self.pending.push(each);
    }

    /// Lets the kernel consume the ring and counts the frames.
    pub(super) fn drive(&mut self, burst: &mut Burst) -> io::Result<()> {
        if self.pending.frames == 0 {
            return Ok(());
        }
        self.socket.publish();
        let kicked = self.socket.kick();
        let (frames, bytes) = self.pending.take(self.socket.not_taken());
        let dropped = kicked.as_ref().map_or(0, |kicked| kicked.dropped).min(frames);
        burst.sent += frames - dropped;
        burst.errors.ring_full += dropped;
        burst.frame_bytes += bytes;
        kicked.map(drop)
    }

    /// Frames that a zero-copy driver has not sent: closing the socket would remove them from its
    /// ring. A lower bound for multi-buffer frames. In copy mode the kernel has its own copy.
    pub(super) fn under_way(&mut self, pieces_max: usize) -> u32 {
        if !self.socket.is_zero_copy() {
            return 0;
        }
        self.socket.reap();
        self.socket.under_way().div_ceil(pieces_max as u32)
    }

    /// Subtracts frames that were counted as sent and turned out to be invalid.
    pub(super) fn settle(&mut self, burst: &mut Burst) -> io::Result<()> {
        let invalid = self.socket.invalid_descriptors()?;
        let frames = (invalid - self.invalid).min(burst.sent);
        self.invalid = invalid;
        burst.sent -= frames;
        burst.errors.causes.invalid += frames;
        Ok(())
    }
}

/// A frame in a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RingFrame {
    /// In bytes without FCS.
    len: u32,
    /// Number of descriptors.
    pieces: u32,
}

/// Frames that are not consumed completely, oldest first.
#[derive(Debug)]
struct PendingFrames {
    /// All frames are like this one, and `queue` stays empty.
    each: Option<RingFrame>,
    queue: VecDeque<RingFrame>,
    frames: u32,
    /// Descriptors of these frames, including consumed ones of the oldest.
    descriptors: u32,
}

impl PendingFrames {
    fn new(each: Option<RingFrame>) -> Self {
        Self { each, queue: VecDeque::new(), frames: 0, descriptors: 0 }
    }

    fn push(&mut self, frame: RingFrame) {
        self.push_alike(frame, 1);
    }

    fn push_alike(&mut self, frame: RingFrame, count: u32) {
        self.frames += count;
        self.descriptors += count * frame.pieces;
        match self.each {
            Some(each) => assert_eq!(frame, each, "all frames are alike"),
            None => self.queue.extend(std::iter::repeat_n(frame, count as usize)),
        }
    }

    /// Removes the consumed frames, with `not_taken` descriptors left in the ring; returns their
    /// number and bytes. The kernel may return descriptors of a frame.
    fn take(&mut self, not_taken: u32) -> (u64, u64) {
        let mut gone = self.descriptors.saturating_sub(not_taken);
        let (mut frames, mut bytes) = (0, 0);
        if let Some(each) = self.each {
            frames = gone / each.pieces;
            self.descriptors -= frames * each.pieces;
            bytes = u64::from(frames) * u64::from(each.len);
        }
        while let Some(frame) = self.queue.front().copied().filter(|frame| frame.pieces <= gone) {
            self.queue.pop_front();
            gone -= frame.pieces;
            self.descriptors -= frame.pieces;
            frames += 1;
            bytes += u64::from(frame.len);
        }
        self.frames -= frames;
        (u64::from(frames), bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::Rng;

    #[test]
    fn frames_count_when_their_last_piece_is_taken() {
        let mut pending = PendingFrames::new(None);
        [(60, 1), (9000, 3), (5000, 2)]
            .into_iter()
            .for_each(|(len, pieces)| pending.push(RingFrame { len, pieces }));
        assert_eq!(pending.take(6), (0, 0));
        assert_eq!(pending.take(3), (1, 60));
        assert_eq!(pending.take(5), (0, 0), "the kernel gave two pieces back");
        assert_eq!(pending.take(2), (1, 9000));
        assert_eq!((pending.take(0), pending.frames), ((1, 5000), 0));
    }

    /// Whatever the kernel consumes at a time, everything is counted once.
    #[test]
    fn nothing_is_counted_twice_or_never() {
        for seed in 0..200 {
            let rng = &mut Rng(seed);
            let alike = (rng.below(2) == 0).then_some(RingFrame { len: 6000, pieces: 2 });
            let mut pending = PendingFrames::new(alike);
            let (mut put, mut counted) = ((0, 0), (0, 0));
            for _ in 0..50 {
                for _ in 0..rng.below(9) {
                    let len = 1 + rng.below(20_000);
                    let frame = alike.unwrap_or(RingFrame { len, pieces: len.div_ceil(4096) });
                    let count = rng.below(4);
                    pending.push_alike(frame, count);
                    put = (put.0 + u64::from(count), put.1 + u64::from(frame.len * count));
                }
                let (frames, bytes) = pending.take(rng.below(pending.descriptors + 1));
                counted = (counted.0 + frames, counted.1 + bytes);
                assert_eq!(put.0, counted.0 + u64::from(pending.frames), "seed {seed}");
            }
            let (frames, bytes) = pending.take(0);
            assert_eq!(put, (counted.0 + frames, counted.1 + bytes), "seed {seed}");
        }
    }
}
