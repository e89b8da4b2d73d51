//! A ring that the first frames do not wait for.
//!
//! The kernel waits for an RCU grace period, of 15 ms and more, before a packet socket has its ring
//! (`packet_set_ring`). So the first frames go out by one call each, and a thread makes the ring
//! once they are many. A run of few frames needs none.

use super::sys::{PacketRing, RingOptions, SendSocket};
use crate::engine_kind::EngineKind;
use crate::userspace::{Accepted, TxRing};
use std::io;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};

/// Frames before a ring is made: they take about a millisecond.
const FRAMES_WITHOUT_RING: usize = 1024;

/// A call that failed, and its error.
type Failed = (&'static str, io::Error);

/// Slots for frames, which are at first memory of the process, then those of a ring.
#[derive(Debug)]
pub(super) enum PromptRing {
    /// Each frame goes out by a call of its own.
    Calls(SingleCalls),
    /// The kernel takes frames from the ring.
    Ring(TurnedRing),
}

/// A ring whose first slot has another number here: the kernel begins with its first slot, wherever
/// the frames before it ended.
#[derive(Debug)]
pub(super) struct TurnedRing {
    ring: PacketRing,
    /// The number of the first slot.
    first: usize,
}

/// Frames that are sent by one call each.
#[derive(Debug)]
pub(super) struct SingleCalls {
    options: RingOptions,
    socket: SendSocket,
    /// The slots, one after the other.
    bytes: Vec<u8>,
    frame_lens: Vec<usize>,
    /// Frames that were sent.
    sent: usize,
    /// Where the ring comes from, once it is being made.
    ring: Option<Receiver<Result<PacketRing, Failed>>>,
}

impl PromptRing {
    /// # Errors
    /// The call that failed, and its error: EPERM without CAP_NET_RAW.
    pub(super) fn open(options: RingOptions) -> Result<Self, Failed> {
        let slots = PacketRing::slots_of(&options);
        let bytes = vec![0; slots * options.frame_len_max];
        let socket = SendSocket::open(&options)?;
        Ok(Self::Calls(SingleCalls {
            options,
            socket,
            bytes,
            frame_lens: vec![0; slots],
            sent: 0,
            ring: None,
        }))
    }
}

impl SingleCalls {
    fn frame(&self, index: usize) -> &[u8] {
        &self.bytes[index * self.options.frame_len_max..][..self.frame_lens[index]]
    }

    fn slot(&mut self, index: usize) -> &mut [u8] {
        let len = self.options.frame_len_max;
        &mut self.bytes[index * len..][..len]
    }

    fn send(&mut self, first: usize, count: usize) -> io::Result<usize> {
        if self.sent >= FRAMES_WITHOUT_RING && self.ring.is_none() {
            self.ring = Some(make_ring(self.options)?);
        }
        let slots = self.frame_lens.len();
        let mut sent = 0;
        while sent < count {
            match self.socket.send(self.frame((first + sent) % slots)) {
                Ok(()) => sent += 1,
                Err(error) if sent == 0 => return Err(error),
                Err(_) => break,
            }
        }
        self.sent += sent;
        Ok(sent)
    }

    /// The ring with all frames of this memory, once it is there. The frame in slot `first` is the
    /// next one to send.
    fn ring(&self, first: usize) -> io::Result<Option<TurnedRing>> {
        let made = match self.ring.as_ref().map(Receiver::try_recv) {
            None | Some(Err(TryRecvError::Empty)) => return Ok(None),
            Some(Ok(made)) => made,
            Some(Err(TryRecvError::Disconnected)) => return Err(io::Error::other("the ring was not made")),
        };
        // By its number, an error would say that the device is full.
        let ring = made.map_err(|(call, error)| io::Error::other(format!("{call}: {error}")))?;
        let mut ring = TurnedRing { ring, first };
        for index in 0..self.frame_lens.len() {
            let frame = self.frame(index);
            let slot = ring.slot(index).ok_or_else(|| io::Error::other("a new ring is in use"))?;
            slot[..frame.len()].copy_from_slice(frame);
            ring.set_frame_len(index, frame.len());
        }
        Ok(Some(ring))
    }
}

impl TurnedRing {
    /// The slot of the ring that has this number here.
    #[inline(always)]
    fn place(&self, index: usize) -> usize {
        // A division would take longer than all else here.
        index.checked_sub(self.first).unwrap_or_else(|| index + self.ring.slots() - self.first)
    }

    #[inline(always)]
    fn slot(&mut self, index: usize) -> Option<&mut [u8]> {
        let place = self.place(index);
        self.ring.slot(place)
    }

    #[inline(always)]
    fn set_frame_len(&mut self, index: usize, frame_len: usize) {
        let place = self.place(index);
        self.ring.set_frame_len(place, frame_len);
    }
}

/// Makes the ring on a thread that is not pinned: the CPU of the caller is busy.
fn make_ring(options: RingOptions) -> io::Result<Receiver<Result<PacketRing, Failed>>> {
    let (tell, made) = sync_channel(1);
    std::thread::Builder::new().name("ring".to_owned()).spawn(move || {
        // If this is refused, the thread shares the CPU of the caller, and the ring comes later.
        let _ = host::unpin_thread();
        // The run may have ended meanwhile.
        let _ = tell.send(PacketRing::open(&options));
    })?;
    Ok(made)
}

/// Closes the socket of the single calls on a thread: the kernel waits for a grace period again.
fn close(calls: PromptRing) {
    // Without a thread it is closed here, which takes longer.
    let _ = std::thread::Builder::new().name("ring".to_owned()).spawn(move || drop(calls));
}

impl TxRing for PromptRing {
    const KIND: EngineKind = PacketRing::KIND;
    const CALL: &'static str = PacketRing::CALL;

    #[inline(always)]
    fn slots(&self) -> usize {
        match self {
            Self::Calls(calls) => calls.frame_lens.len(),
            Self::Ring(turned) => turned.ring.slots(),
        }
    }

    #[inline(always)]
    fn slot(&mut self, index: usize) -> Option<&mut [u8]> {
        match self {
            Self::Calls(calls) => Some(calls.slot(index)),
            Self::Ring(ring) => ring.slot(index),
        }
    }

    #[inline(always)]
    fn set_frame_len(&mut self, index: usize, frame_len: usize) {
        match self {
            Self::Calls(calls) => calls.frame_lens[index] = frame_len,
            Self::Ring(ring) => ring.set_frame_len(index, frame_len),
        }
    }

    #[inline(always)]
    fn frame(&self, index: usize) -> &[u8] {
        match self {
            Self::Calls(calls) => calls.frame(index),
            Self::Ring(turned) => turned.ring.frame(turned.place(index)),
        }
    }

    fn send(&mut self, first: usize, count: usize) -> io::Result<Accepted> {
        if let Self::Calls(calls) = self
            && let Some(ring) = calls.ring(first)?
        {
            close(std::mem::replace(self, Self::Ring(ring)));
        }
        let count = match self {
            Self::Calls(calls) => calls.send(first, count)?,
            Self::Ring(turned) => {
                let first = turned.place(first);
                turned.ring.send(first, count)?
            }
        };
        Ok(Accepted { count, congested: 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::{Netns, Stack};
    use std::time::{Duration, Instant};

    #[test]
    fn the_ring_takes_over_after_many_frames_and_goes_on_with_the_next_one() {
        testkit::needs!(testkit::is_root("CAP_NET_ADMIN, CAP_NET_RAW"));
        let netns = Netns::anonymous().expect("root may make a namespace");
        Stack::of(&netns).expect("netlink").set_up("lo").expect("lo goes up");
        let options = RingOptions {
            ifindex: 1,
            bypass_qdisc: true,
            priority: 0,
            send_buffer_bytes: 1 << 20,
            slots: 64,
            frame_len_max: 60,
            has_own_fcs: false,
        };
        let mut ring = netns.run(|| PromptRing::open(options)).expect("entered").expect("a socket");
        let deadline = Instant::now() + Duration::from_secs(60);
        let (mut sent, mut by_ring) = (0, 0);
        // Twice around the ring.
        while by_ring < 2 * ring.slots() {
            assert!(Instant::now() < deadline, "{sent} frames, {by_ring} of them by the ring");
            let index = sent % ring.slots();
            let Some(slot) = ring.slot(index) else { continue };
            slot[..60].fill(sent as u8);
            ring.set_frame_len(index, 60);
            assert_eq!(ring.frame(index), [sent as u8; 60]);
            // A full socket takes the frame later.
            if netns.run(|| ring.send(index, 1)).expect("entered").is_err() {
                continue;
            }
            assert_eq!(ring.frame(index), [sent as u8; 60]);
            sent += 1;
            match &ring {
                PromptRing::Ring(_) => by_ring += 1,
                PromptRing::Calls(_) => assert_eq!(by_ring, 0),
            }
        }
        assert!(sent - by_ring >= FRAMES_WITHOUT_RING, "{sent} frames, {by_ring} of them by the ring");
    }
}
