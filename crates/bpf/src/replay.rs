//! `replay.bpf.c`: sends frames out of a ring of packed bytes, as live frames.

use crate::attachable::Attachable;
use crate::shared::SharedArray;
use crate::sys::{self, MapMemory};
use crate::{BpfError, abi, log, skel};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use std::io;
use std::mem::{MaybeUninit, offset_of};
use std::os::fd::{AsFd, OwnedFd};

const OBJECT: &str = "replay";
/// Frames that the ring holds.
pub const REPLAY_RECORDS: u64 = abi::Limit::WR_REPLAY_RECORDS.0 as u64;
/// Bytes that the ring holds.
pub const REPLAY_BYTES: u32 = abi::Limit::WR_REPLAY_BYTES.0;
/// Bytes of the ring that must follow the start of each frame.
pub const REPLAY_LEN_MAX: u32 = abi::Limit::WR_REPLAY_LEN_MAX.0;
/// Buckets of the lateness of timed frames.
pub const REPLAY_OCTAVES: usize = abi::Limit::WR_REPLAY_OCTAVES.0 as usize;

/// How the due times of frames become times of `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayTimes {
    /// Frames with this due time ...
    pub due_ns: u64,
    /// ... are due at this time of the clock.
    pub clock_ns: u64,
    /// Time of the clock per due time, as a fraction of 2^[`Self::SCALE_BITS`].
    pub scale: u64,
}

impl ReplayTimes {
    /// Bits of the fraction of `scale`.
    pub const SCALE_BITS: u32 = abi::Limit::WR_REPLAY_SCALE_BITS.0;
}

/// The program. Run by one thread at a time.
#[derive(Debug)]
pub struct ReplaySender {
    program: OwnedFd,
    state: SharedArray<abi::ReplayState>,
    ports: MapHandle,
    page: Vec<u8>,
}

/// The side of the ring that is filled, for another thread. The caller passes frames to the sender
/// only when they are complete, and fills places only when their frames were sent.
#[derive(Debug)]
pub struct ReplayRing {
    records: MapMemory,
    bytes: MapMemory,
}

impl ReplayRing {
    /// Writes frame `number` with its bytes.
    ///
    /// # Panics
    /// When the bytes do not fit at that offset.
    pub fn write(&mut self, number: u64, record: &abi::ReplayRecord, bytes: &[u8]) {
        assert!(record.offset <= REPLAY_BYTES - REPLAY_LEN_MAX, "no place for a frame at {}", record.offset);
        self.bytes.write(record.offset as usize, bytes);
        let at = (number % REPLAY_RECORDS) as usize * size_of::<abi::ReplayRecord>();
        self.records.write(at, bytemuck::bytes_of(record));
    }
}

impl ReplaySender {
    /// Loads the program for frames of up to `frame_len_max` bytes; [`Self::set_port`] sets its
    /// devices. A timed program waits until each frame is due.
    ///
    /// # Errors
    /// [`BpfError::Load`] if the verifier rejects it, [`BpfError::MapMemory`].
    pub fn load(frame_len_max: u32, is_timed: bool) -> Result<(Self, ReplayRing), BpfError> {
        let ([program, state, records, bytes], ports) =
            log::loading(OBJECT, || load_fds(frame_len_max, is_timed))?;
        let map = |fd: &OwnedFd, map: &'static str, bytes: usize| {
            MapMemory::new(fd.as_fd(), bytes, true).map_err(|source| BpfError::MapMemory {
                map,
                bytes,
                source,
            })
        };
        let records_len = REPLAY_RECORDS as usize * size_of::<abi::ReplayRecord>();
        let ring = ReplayRing {
            records: map(&records, "wr_records", records_len)?,
            bytes: map(&bytes, "wr_bytes", REPLAY_BYTES as usize)?,
        };
        let state = SharedArray::new(state.as_fd(), "replay", 1)?;
        Ok((Self { program, state, ports, page: vec![0; frame_len_max as usize] }, ring))
    }

    /// Sets the device of `port`, by its index in the network namespace of the caller.
    ///
    /// # Errors
    /// [`BpfError::Load`] if the kernel refuses it.
    pub fn set_port(&self, port: u32, ifindex: u32) -> Result<(), BpfError> {
        log::loading(OBJECT, || self.ports.update(&port.to_ne_bytes(), &ifindex.to_ne_bytes(), MapFlags::ANY))
    }

    /// A handle with which another thread attaches the program.
    ///
    /// # Errors
    /// When the process has no file descriptors left.
    pub fn attachable(&self) -> io::Result<Attachable> {
        Attachable::of(self.program.as_fd())
    }

    /// Sets the times of the next frames, none of which is due before the first.
    pub fn set_times(&self, times: ReplayTimes) {
        for (offset, value) in [
            (offset_of!(abi::ReplayState, due_ns), times.due_ns),
            (offset_of!(abi::ReplayState, clock_ns), times.clock_ns),
            (offset_of!(abi::ReplayState, scale), times.scale),
        ] {
            self.state.set_word(0, offset, value);
        }
    }

    /// The first `frames` frames of the ring stay, and the program begins again behind them.
    ///
    /// # Panics
    /// When the ring does not hold as many.
    pub fn set_loop_len(&self, frames: u32) {
        assert!(frames > 0 && u64::from(frames) <= REPLAY_RECORDS, "a loop of {frames} frames");
        self.state.set_half_word(0, offset_of!(abi::ReplayState, loop_len), frames);
    }

    /// Passes over the next `frames` frames, which count as handled. The program does not run
    /// meanwhile.
    pub fn skip(&self, frames: u64) {
        let state = self.state();
        let place = if state.place < state.loop_len { state.place } else { 0 };
        let place = (u64::from(place) + frames) % u64::from(state.loop_len);
        self.state.set_half_word(0, offset_of!(abi::ReplayState, place), place as u32);
        self.state.set_word(0, offset_of!(abi::ReplayState, next), state.next + frames);
    }

    /// Bytes of all frames that the program has handled.
    pub fn frame_bytes(&self) -> u64 {
        self.state.counter(0, offset_of!(abi::ReplayState, frame_bytes))
    }

    /// Frames that the program has handled, with those that were passed over.
    pub fn handled(&self) -> u64 {
        self.state.counter(0, offset_of!(abi::ReplayState, next))
    }

    /// All counters.
    pub fn state(&self) -> abi::ReplayState {
        self.state.get(0)
    }

    /// Handles the next `frames` frames of the ring, `batch` at a time. A signal makes it return
    /// early without an error; [`Self::handled`] has the number of frames.
    ///
    /// # Errors
    /// From bpf(2).
    pub fn run_live(&self, frames: u32, batch: u32) -> io::Result<()> {
        sys::run_live(self.program.as_fd(), &self.page, &[], frames, batch)
    }
}

/// Program, state, records and bytes, and the map of ports. The descriptors keep them alive.
fn load_fds(frame_len_max: u32, is_timed: bool) -> libbpf_rs::Result<([OwnedFd; 4], MapHandle)> {
    let mut storage = MaybeUninit::uninit();
    let mut open = skel::replay::ReplaySkelBuilder::default().open(&mut storage)?;
    let settings = open.maps.rodata_data.as_deref_mut().expect("the program has settings");
    settings.wr_replay_len_max = frame_len_max;
    open.progs.wr_replay_top.set_autoload(!is_timed);
    open.progs.wr_replay_timed.set_autoload(is_timed);
    let skel = open.load()?;
    let ports = MapHandle::try_from(&skel.maps.wr_ports)?;
    let program = if is_timed { &skel.progs.wr_replay_timed } else { &skel.progs.wr_replay_top };
    let fds = [
        program.as_fd().try_clone_to_owned()?,
        skel.maps.data_replay.as_fd().try_clone_to_owned()?,
        skel.maps.wr_records.as_fd().try_clone_to_owned()?,
        skel.maps.wr_bytes.as_fd().try_clone_to_owned()?,
    ];
    Ok((fds, ports))
}
