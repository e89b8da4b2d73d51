//! `meter.bpf.c`: what drivers said to the frames that the workers of this process sent.

use crate::abi;
use crate::shared::SharedArray;
use crate::sys::{self, ProgRun};
use crate::{BpfError, log, skel};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapHandle};
use std::io;
use std::marker::PhantomData;
use std::mem::{MaybeUninit, offset_of};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

const OBJECT: &str = "meter";
const METERS_MAX: u32 = abi::Limit::WR_METERS_MAX.0;

/// The tracepoint program of this process, attached for as long as this lives.
#[derive(Debug)]
pub struct Meter {
    slots: SharedArray<abi::Meter>,
    threads: MapHandle,
    claim: OwnedFd,
    claimed: SharedArray<u32>,
    free: Mutex<Vec<u32>>,
    _link: Link,
}

/// What a driver said, summed since the meter was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Frames it accepted.
    pub sent: u64,
    /// Frames it had no room for.
    pub ring_full: u64,
    /// Frames of bulks that it refused with an error.
    pub refused: u64,
    /// The last such error as a positive errno, 0 for none.
    pub last_errno: i32,
}

impl Verdict {
    /// What was said since `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            sent: self.sent - earlier.sent,
            ring_full: self.ring_full - earlier.ring_full,
            refused: self.refused - earlier.refused,
            last_errno: self.last_errno,
        }
    }
}

impl Meter {
    /// Loads and attaches the program.
    ///
    /// # Errors
    /// [`BpfError::Load`] (EPERM without CAP_BPF and CAP_PERFMON), [`BpfError::MapMemory`].
    pub fn attach() -> Result<Arc<Self>, BpfError> {
        let (loaded, printed) = log::collect(load_and_attach);
        let loaded = loaded.map_err(|error| BpfError::Load {
            object: OBJECT,
            reason: error.to_string(),
            log: printed,
        })?;
        Ok(Arc::new(Self {
            slots: SharedArray::new(loaded.slots.as_fd(), "wr_meters", METERS_MAX as usize)?,
            threads: loaded.threads,
            claim: loaded.claim,
            claimed: SharedArray::new(loaded.claimed.as_fd(), "wr_claimed", 1)?,
            free: Mutex::new((0..METERS_MAX).rev().collect()),
            _link: loaded.link,
        }))
    }

    /// Gives the calling thread a slot: what drivers say to frames that it sends is counted there until the
    /// claim is dropped. One claim a thread.
    ///
    /// # Errors
    /// What bpf(2) says to the small program that notes who the caller is, or that all slots are taken.
    pub fn claim(self: &Arc<Self>) -> io::Result<Claim> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = free.pop().ok_or_else(|| io::Error::other("every slot for a sending thread is taken"))?;
        self.claimed.set(0, &slot);
        let ran = sys::prog_run(self.claim.as_fd(), &mut ProgRun::default());
        match ran.map(|ran| ran.return_value) {
            Ok(0) => Ok(Claim { meter: Arc::clone(self), slot, thread: PhantomData }),
            other => {
                free.push(slot);
                Err(other.err().unwrap_or_else(|| io::Error::other("the slot could not be noted")))
            }
        }
    }
}

/// The right of one thread to its slot. Stays with that thread.
#[derive(Debug)]
pub struct Claim {
    meter: Arc<Meter>,
    slot: u32,
    thread: PhantomData<*const ()>,
}

impl Claim {
    /// What drivers have said so far.
    pub fn verdict(&self) -> Verdict {
        let counter = |offset| self.meter.slots.counter(self.slot as usize, offset);
        Verdict {
            sent: counter(offset_of!(abi::Meter, sent)),
            ring_full: counter(offset_of!(abi::Meter, ring_full)),
            refused: counter(offset_of!(abi::Meter, refused)),
            last_errno: counter(offset_of!(abi::Meter, last_errno)).cast_signed().unsigned_abs() as i32,
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let thread = self.meter.slots.counter(self.slot as usize, offset_of!(abi::Meter, pid_tgid));
        // An entry that stays behind would count frames of a later thread with the same ids: its slot is then
        // not given to anybody else.
        if self.meter.threads.delete(&thread.to_ne_bytes()).is_ok() {
            self.meter.free.lock().unwrap_or_else(PoisonError::into_inner).push(self.slot);
        }
    }
}

struct Loaded {
    link: Link,
    claim: OwnedFd,
    slots: OwnedFd,
    claimed: OwnedFd,
    threads: MapHandle,
}

fn load_and_attach() -> libbpf_rs::Result<Loaded> {
    let mut storage = MaybeUninit::uninit();
    let skel = skel::meter::MeterSkelBuilder::default().open(&mut storage)?.load()?;
    Ok(Loaded {
        link: skel.progs.wr_meter.attach()?,
        claim: skel.progs.wr_claim.as_fd().try_clone_to_owned()?,
        slots: skel.maps.wr_meters.as_fd().try_clone_to_owned()?,
        claimed: skel.maps.bss.as_fd().try_clone_to_owned()?,
        threads: MapHandle::try_from(&skel.maps.wr_meter_slots)?,
    })
}
