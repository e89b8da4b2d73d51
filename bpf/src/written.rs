//! `written.bpf.c`: frames that the worker wrote into a map, handed on as clones of one skb.

use crate::shared::SharedArray;
use crate::skb::{PRIORITY_WORD, SkbHow};
use crate::sys::{self, OwnValues, ProgRun};
use crate::{BpfError, abi, log, skel};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use std::io;
use std::mem::{MaybeUninit, offset_of};
use std::os::fd::{AsFd, OwnedFd};

const OBJECT: &str = "written";
const QUEUE_AT: usize = offset_of!(abi::Written, queue_mapping);
const FRAME_AT: usize = offset_of!(abi::Written, frame);

/// One loaded program and its frames. Used by one thread.
#[derive(Debug)]
pub struct WrittenSender {
    program: OwnedFd,
    frames: OwnValues,
    slots: usize,
    run: SharedArray<abi::WrittenRun>,
}

/// What became of the frames of one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Handed {
    /// Frames that were taken, from the first on.
    pub taken: u32,
    /// Frames of those for which the queueing discipline dropped one, this or another.
    pub congested: u64,
    /// The error that met the frame behind those, as a positive errno; 0 for none, or for no room.
    pub errno: i32,
}

impl WrittenSender {
    /// Loads the program for the device `ifindex`, into its receive path when `receive`, with memory for `slots`
    /// frames.
    ///
    /// # Errors
    /// [`BpfError::Load`] when the verifier refuses (EPERM without CAP_BPF and CAP_NET_ADMIN, EINVAL before
    /// Linux 5.17, which has no `bpf_loop`), [`BpfError::MapMemory`].
    pub fn load(ifindex: u32, receive: bool, slots: u32) -> Result<Self, BpfError> {
        let (loaded, printed) = log::collect(|| load_fds(ifindex, receive, slots));
        let [program, frames, run] = loaded.map_err(|error| BpfError::Load {
            object: OBJECT,
            reason: error.to_string(),
            log: printed,
        })?;
        let slots = slots as usize;
        let bytes = slots * size_of::<abi::Written>();
        let frames = OwnValues::new(frames, bytes).map_err(|source| BpfError::MapMemory {
            map: "wr_frames",
            bytes,
            source,
        })?;
        Ok(Self { program, frames, slots, run: SharedArray::new(run.as_fd(), "run", 1)? })
    }

    /// Frames that there is memory for.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// The memory of one frame.
    ///
    /// # Panics
    /// As every call here, when there is no slot `index`.
    pub fn slot(&mut self, index: usize) -> &mut [u8] {
        let at = self.at(index);
        self.frames.bytes_mut(at + FRAME_AT, abi::WRITTEN_MAX)
    }

    /// Says how long the frame in one slot is, at most [`abi::WRITTEN_MAX`].
    pub fn set_frame_len(&mut self, index: usize, frame_len: usize) {
        assert!(frame_len <= abi::WRITTEN_MAX, "{frame_len} bytes in a slot of {}", abi::WRITTEN_MAX);
        let at = self.at(index);
        self.frames.bytes_mut(at, QUEUE_AT).copy_from_slice(&(frame_len as u32).to_ne_bytes());
    }

    /// Says which transmit queue the frame in one slot takes; `None` to have the stack choose.
    pub fn set_queue(&mut self, index: usize, queue: Option<u16>) {
        let mapping = queue.map_or(0, |queue| u32::from(queue) + 1);
        let at = self.at(index);
        self.frames.bytes_mut(at + QUEUE_AT, 4).copy_from_slice(&mapping.to_ne_bytes());
    }

    /// The bytes of the frame in one slot.
    pub fn frame(&self, index: usize) -> &[u8] {
        let at = self.at(index);
        let mut word = [0; 4];
        word.copy_from_slice(self.frames.bytes(at, QUEUE_AT));
        self.frames.bytes(at + FRAME_AT, u32::from_ne_bytes(word) as usize)
    }

    /// Hands on up to `count` frames from slot `first` on, by way of an skb that starts as `start`: its headers tell
    /// the stack the protocol. Of `how` the queue is not looked at, each slot has its own.
    ///
    /// The device is looked up in the caller's network namespace. Interrupted by a signal it returns early and
    /// without an error.
    ///
    /// # Errors
    /// What bpf(2) says; nothing was sent then.
    pub fn run(&mut self, start: &[u8], first: usize, count: usize, how: &SkbHow) -> io::Result<Handed> {
        assert!(first + count <= self.slots, "slots {first} and {count} more of {}", self.slots);
        let wanted = abi::WrittenRun {
            first: first as u32,
            left: count as u32,
            turns: how.turns,
            ..Default::default()
        };
        self.run.set(0, &wanted);
        let mut context = [0u32; PRIORITY_WORD + 1];
        context[PRIORITY_WORD] = how.priority;
        let mut run = ProgRun {
            data_in: start,
            context_in: bytemuck::cast_slice(&context),
            repeat: wanted.left.div_ceil(how.turns.max(1)),
            ..ProgRun::default()
        };
        match sys::prog_run(self.program.as_fd(), &mut run) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        let after = self.run.get(0);
        Ok(Handed {
            taken: after.taken,
            congested: after.congested,
            errno: after.last_error.unsigned_abs() as i32,
        })
    }

    fn at(&self, index: usize) -> usize {
        assert!(index < self.slots, "slot {index} of {}", self.slots);
        index * size_of::<abi::Written>()
    }
}

/// Program, frames and what a call says. The descriptors keep all of them alive.
fn load_fds(ifindex: u32, receive: bool, slots: u32) -> libbpf_rs::Result<[OwnedFd; 3]> {
    let mut storage = MaybeUninit::uninit();
    let mut open = skel::written::WrittenSkelBuilder::default().open(&mut storage)?;
    let settings = open.maps.rodata_data.as_deref_mut().expect("the program has settings");
    settings.wr_written_ifindex = ifindex;
    settings.wr_written_redirect = if receive { u64::from(libbpf_sys::BPF_F_INGRESS) } else { 0 };
    open.maps.wr_frames.set_max_entries(slots)?;
    let skel = open.load()?;
    Ok([
        skel.progs.wr_send_written.as_fd().try_clone_to_owned()?,
        skel.maps.wr_frames.as_fd().try_clone_to_owned()?,
        skel.maps.data_run.as_fd().try_clone_to_owned()?,
    ])
}
