//! `stream_switch.bpf.c`: one attached program for the programs of several streams of a thread.

use crate::attachable::Attachable;
use crate::shared::SharedArray;
use crate::{BpfError, abi, log, skel};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use std::cell::RefCell;
use std::io;
use std::mem::{MaybeUninit, offset_of};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

const OBJECT: &str = "stream_switch";

/// The program and the places for those of streams. Used by one thread.
#[derive(Debug)]
pub struct StreamSwitch {
    program: OwnedFd,
    choice: SharedArray<abi::StreamChoice>,
    programs: MapHandle,
    free: RefCell<Vec<u32>>,
}

impl StreamSwitch {
    /// Loads the program, without streams.
    ///
    /// # Errors
    /// [`BpfError::Load`], [`BpfError::MapMemory`].
    pub fn load() -> Result<Self, BpfError> {
        let (program, choice, programs) = log::loading(OBJECT, load)?;
        let free = (0..abi::Limit::WR_SWITCH_MAX.0).rev().collect();
        let choice = SharedArray::new(choice.as_fd(), "choice", 1)?;
        Ok(Self { program, choice, programs, free: RefCell::new(free) })
    }

    /// A handle with which another thread attaches the program.
    ///
    /// # Errors
    /// When the process has no file descriptors left.
    pub fn attachable(&self) -> io::Result<Attachable> {
        Attachable::of(self.program.as_fd())
    }

    /// Adds the program of a stream; `None` if there is no free place.
    pub(crate) fn add(self: &Rc<Self>, program: BorrowedFd<'_>) -> Result<Option<StreamPlace>, BpfError> {
        let Some(index) = self.free.borrow_mut().pop() else { return Ok(None) };
        // Returned by its drop if the kernel rejects the program.
        let place = StreamPlace { switch: Rc::clone(self), index };
        let descriptor = program.as_raw_fd().to_ne_bytes();
        log::loading(OBJECT, || self.programs.update(&index.to_ne_bytes(), &descriptor, MapFlags::ANY))?;
        Ok(Some(place))
    }
}

/// The place of the program of one stream.
#[derive(Debug)]
pub(crate) struct StreamPlace {
    switch: Rc<StreamSwitch>,
    index: u32,
}

impl StreamPlace {
    /// The program to call for frames of this stream, until another stream is chosen.
    pub(crate) fn choose(&self) -> BorrowedFd<'_> {
        let choice = &self.switch.choice;
        assert_eq!(choice.get(0).missed, 0, "each stream that is chosen has a program");
        choice.set_half_word(0, offset_of!(abi::StreamChoice, stream), self.index);
        self.switch.program.as_fd()
    }
}

impl Drop for StreamPlace {
    fn drop(&mut self) {
        // Without an entry it is free, too: the kernel rejected the program.
        let _ = self.switch.programs.delete(&self.index.to_ne_bytes());
        self.switch.free.borrow_mut().push(self.index);
    }
}

/// The program, its choice of a stream, and the programs of the streams.
fn load() -> libbpf_rs::Result<(OwnedFd, OwnedFd, MapHandle)> {
    let mut storage = MaybeUninit::uninit();
    let skel = skel::stream_switch::StreamSwitchSkelBuilder::default().open(&mut storage)?.load()?;
    Ok((
        skel.progs.wr_stream_switch.as_fd().try_clone_to_owned()?,
        skel.maps.bss.as_fd().try_clone_to_owned()?,
        MapHandle::try_from(&skel.maps.wr_stream_progs)?,
    ))
}
