//! `meter.bpf.c`: what drivers said to the frames that the workers of this process sent.

use crate::abi;
use crate::shared::SharedArray;
use crate::sys::{self, ProgRun};
use crate::{BpfError, log, skel};
use libbpf_rs::Link;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use std::io;
use std::mem::{MaybeUninit, offset_of};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

const OBJECT: &str = "meter";

/// The tracepoint program of this process, attached for as long as this lives.
#[derive(Debug)]
pub struct Meter {
    slots: SharedArray<abi::Meter>,
    claim: OwnedFd,
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
    /// Loads and attaches the program, with a slot for each possible CPU.
    ///
    /// # Errors
    /// [`BpfError::Load`] (EPERM without CAP_BPF and CAP_PERFMON), [`BpfError::MapMemory`].
    pub fn attach() -> Result<Arc<Self>, BpfError> {
        let (loaded, printed) = log::collect(load_and_attach);
        let (link, claim, slots, cpus) = loaded.map_err(|error| BpfError::Load {
            object: OBJECT,
            reason: error.to_string(),
            log: printed,
        })?;
        let slots = SharedArray::new(slots.as_fd(), "wr_meters", cpus)?;
        Ok(Arc::new(Self { slots, claim, _link: link }))
    }

    /// Claims the slot of the CPU that the calling thread is pinned to, for frames to one device. Dropping the
    /// claim frees it. One claim a CPU at a time.
    ///
    /// # Errors
    /// What bpf(2) says to the small program that notes who the caller is.
    pub fn claim(self: &Arc<Self>, cpu: u32, ifindex: u32) -> io::Result<Claim> {
        let cpu = cpu as usize;
        self.slots.set_half_word(cpu, offset_of!(abi::Meter, ifindex), ifindex);
        let ran = sys::prog_run(self.claim.as_fd(), &mut ProgRun::default())?;
        let owner = self.slots.counter(cpu, offset_of!(abi::Meter, pid_tgid));
        assert!(ran.return_value == 0 && owner != 0, "the calling thread is not pinned to CPU {cpu}");
        Ok(Claim { meter: Arc::clone(self), cpu })
    }
}

/// The right of one thread to one CPU's slot.
#[derive(Debug)]
pub struct Claim {
    meter: Arc<Meter>,
    cpu: usize,
}

impl Claim {
    /// What the driver has said so far.
    pub fn verdict(&self) -> Verdict {
        let counter = |offset| self.meter.slots.counter(self.cpu, offset);
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
        self.meter.slots.set_word(self.cpu, offset_of!(abi::Meter, pid_tgid), 0);
    }
}

fn load_and_attach() -> libbpf_rs::Result<(Link, OwnedFd, OwnedFd, usize)> {
    let cpus = libbpf_rs::num_possible_cpus()?;
    let mut storage = MaybeUninit::uninit();
    let mut open = skel::meter::MeterSkelBuilder::default().open(&mut storage)?;
    open.maps.wr_meters.set_max_entries(cpus as u32)?;
    let skel = open.load()?;
    let link = skel.progs.wr_meter.attach()?;
    let claim = skel.progs.wr_claim.as_fd().try_clone_to_owned()?;
    Ok((link, claim, skel.maps.wr_meters.as_fd().try_clone_to_owned()?, cpus))
}
