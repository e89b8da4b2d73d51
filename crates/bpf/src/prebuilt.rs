//! `prebuilt.bpf.c`: sends frames that the worker built in a map, as clones of one skb.

use crate::shared::SharedArray;
use crate::skb::{PRIORITY_WORD, SkbParams};
use crate::sys::{self, OwnValues, ProgRun};
use crate::{BpfError, abi, log, skel};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use std::io;
use std::mem::{MaybeUninit, offset_of};
use std::os::fd::{AsFd, OwnedFd};

const OBJECT: &str = "prebuilt";
const QUEUE_AT: usize = offset_of!(abi::Prebuilt, queue_mapping);
const FRAME_AT: usize = offset_of!(abi::Prebuilt, frame);

/// One loaded program and its frames. Used by one thread.
#[derive(Debug)]
pub struct PrebuiltSender {
    program: OwnedFd,
    frames: OwnValues,
    slots: usize,
    run: SharedArray<abi::PrebuiltRun>,
}

/// Result of one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrebuiltResult {
    /// Accepted frames, from the first on.
    pub accepted: u32,
    /// Accepted frames for which the qdisc dropped this or another frame.
    pub congested: u64,
    /// Positive errno for the next frame; 0 for none, or for a full device.
    pub errno: i32,
}

impl PrebuiltSender {
    /// Loads the program for the device `ifindex` (its receive path if `receive`), with memory for
    /// `slots` frames.
    ///
    /// # Errors
    /// [`BpfError::Load`] if the verifier rejects it (EPERM without CAP_BPF and CAP_NET_ADMIN,
    /// EINVAL before Linux 5.17, which has no `bpf_loop`), [`BpfError::MapMemory`].
    pub fn load(ifindex: u32, receive: bool, slots: u32) -> Result<Self, BpfError> {
        let [program, frames, run] = log::loading(OBJECT, || load_fds(ifindex, receive, slots))?;
        let slots = slots as usize;
        let bytes = slots * size_of::<abi::Prebuilt>();
        let frames = OwnValues::new(frames, bytes).map_err(|source| BpfError::MapMemory {
            map: "wr_frames",
            bytes,
            source,
        })?;
        Ok(Self { program, frames, slots, run: SharedArray::new(run.as_fd(), "run", 1)? })
    }

    /// Number of slots.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// The memory of one frame.
    ///
    /// # Panics
    /// Like every call here, if there is no slot `index`.
    pub fn slot(&mut self, index: usize) -> &mut [u8] {
        let at = self.at(index);
        self.frames.bytes_mut(at + FRAME_AT, abi::PREBUILT_LEN_MAX)
    }

    /// Sets the length of the frame in one slot, at most [`abi::PREBUILT_LEN_MAX`].
    pub fn set_frame_len(&mut self, index: usize, frame_len: usize) {
        assert!(
            frame_len <= abi::PREBUILT_LEN_MAX,
            "{frame_len} bytes in a slot of {}",
            abi::PREBUILT_LEN_MAX
        );
        let at = self.at(index);
        self.frames.bytes_mut(at, QUEUE_AT).copy_from_slice(&(frame_len as u32).to_ne_bytes());
    }

    /// Sets the transmit queue of the frame in one slot; `None` lets the stack choose.
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

    /// Sends up to `count` frames from slot `first` on, through an skb that is initialized with
    /// `start`, from whose headers the stack takes the protocol. The queue of `params` is ignored:
    /// each slot has its own.
    ///
    /// The device is looked up in the network namespace of the caller. A signal makes it return
    /// early without an error.
    ///
    /// # Errors
    /// From bpf(2); nothing was sent then.
    pub fn run(
        &mut self,
        start: &[u8],
        first: usize,
        count: usize,
        params: &SkbParams,
    ) -> io::Result<PrebuiltResult> {
        assert!(first + count <= self.slots, "slots {first} and {count} more of {}", self.slots);
        let wanted = abi::PrebuiltRun {
            first: first as u32,
            left: count as u32,
            batch: params.batch,
            ..Default::default()
        };
        self.run.set(0, &wanted);
        let mut context = [0u32; PRIORITY_WORD + 1];
        context[PRIORITY_WORD] = params.priority;
        let mut run = ProgRun {
            data_in: start,
            context_in: bytemuck::cast_slice(&context),
            repeat: wanted.left.div_ceil(params.batch.max(1)),
            ..ProgRun::default()
        };
        match sys::prog_run(self.program.as_fd(), &mut run) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        let after = self.run.get(0);
        Ok(PrebuiltResult {
            accepted: after.taken,
            congested: after.congested,
            errno: after.last_error.unsigned_abs() as i32,
        })
    }

    fn at(&self, index: usize) -> usize {
        assert!(index < self.slots, "slot {index} of {}", self.slots);
        index * size_of::<abi::Prebuilt>()
    }
}

/// Program, frames and call parameters. The descriptors keep them alive.
fn load_fds(ifindex: u32, receive: bool, slots: u32) -> libbpf_rs::Result<[OwnedFd; 3]> {
    let mut storage = MaybeUninit::uninit();
    let mut open = skel::prebuilt::PrebuiltSkelBuilder::default().open(&mut storage)?;
    let settings = open.maps.rodata_data.as_deref_mut().expect("the program has settings");
    settings.wr_prebuilt_ifindex = ifindex;
    settings.wr_prebuilt_redirect = if receive { u64::from(libbpf_sys::BPF_F_INGRESS) } else { 0 };
    open.maps.wr_frames.set_max_entries(slots)?;
    let skel = open.load()?;
    Ok([
        skel.progs.wr_send_prebuilt.as_fd().try_clone_to_owned()?,
        skel.maps.wr_frames.as_fd().try_clone_to_owned()?,
        skel.maps.data_run.as_fd().try_clone_to_owned()?,
    ])
}
