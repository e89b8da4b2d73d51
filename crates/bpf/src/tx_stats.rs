//! `tx_stats.bpf.c`: frames that drivers accepted and rejected, per sending thread of this process.

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

const OBJECT: &str = "tx_stats";
const TX_SLOTS_MAX: u32 = abi::Limit::WR_TX_SLOTS_MAX.0;

/// The tracepoint program, attached while this value lives.
#[derive(Debug)]
pub struct TxStats {
    slots: SharedArray<abi::TxStats>,
    threads: MapHandle,
    claim: OwnedFd,
    claimed: SharedArray<u32>,
    free: Mutex<Vec<u32>>,
    /// Of page pools that are left; `None` where the kernel does not have the tracepoint.
    page_pools: Option<(SharedArray<u64>, Link)>,
    _link: Link,
}

/// Frames that drivers accepted and rejected since [`TxStats::attach`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxCounts {
    /// Accepted frames.
    pub sent: u64,
    /// Frames rejected because the ring was full.
    pub ring_full: u64,
    /// Frames of bulks that were rejected with an error.
    pub refused: u64,
    /// The last such error as a positive errno, 0 for none.
    pub last_errno: i32,
}

impl TxCounts {
    /// The difference to `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            sent: self.sent - earlier.sent,
            ring_full: self.ring_full - earlier.ring_full,
            refused: self.refused - earlier.refused,
            last_errno: self.last_errno,
        }
    }
}

impl TxStats {
    /// Loads and attaches the program.
    ///
    /// # Errors
    /// [`BpfError::Load`] (EPERM without CAP_BPF and CAP_PERFMON), [`BpfError::MapMemory`].
    pub fn attach() -> Result<Arc<Self>, BpfError> {
        let loaded = log::loading(OBJECT, load_and_attach)?;
        Ok(Arc::new(Self {
            slots: SharedArray::new(loaded.slots.as_fd(), "wr_tx_slots", TX_SLOTS_MAX as usize)?,
            threads: loaded.threads,
            claim: loaded.claim,
            claimed: SharedArray::new(loaded.claimed.as_fd(), "wr_claimed_slot", 1)?,
            free: Mutex::new((0..TX_SLOTS_MAX).rev().collect()),
            page_pools: match loaded.page_pools {
                (count, Some(link)) => {
                    Some((SharedArray::new(count.as_fd(), "wr_page_pool_count", 1)?, link))
                }
                (_, None) => None,
            },
            _link: loaded.link,
        }))
    }

    /// Page pools of threads that have or had a slot which the kernel cannot free yet, because
    /// frames are under way; `None` if this kernel does not tell.
    pub fn page_pools_left(&self) -> Option<u64> {
        self.page_pools.as_ref().map(|(count, _)| count.counter(0, 0))
    }

    /// Assigns a slot to the calling thread, whose frames are counted there until the slot is
    /// dropped. A thread may have one slot.
    ///
    /// # Errors
    /// From bpf(2), for the small program that records the thread id; or when all slots are taken.
    pub fn claim(self: &Arc<Self>) -> io::Result<TxSlot> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = free.pop().ok_or_else(|| io::Error::other("all slots for sending threads are taken"))?;
        self.claimed.set(0, &slot);
        let ran = sys::prog_run(self.claim.as_fd(), &mut ProgRun::default());
        match ran.map(|ran| ran.return_value) {
            Ok(0) => Ok(TxSlot { stats: Arc::clone(self), slot, thread: PhantomData }),
            other => {
                free.push(slot);
                Err(other.err().unwrap_or_else(|| io::Error::other("the slot could not be recorded")))
            }
        }
    }
}

/// The slot of one thread. Stays with that thread.
#[derive(Debug)]
pub struct TxSlot {
    stats: Arc<TxStats>,
    slot: u32,
    thread: PhantomData<*const ()>,
}

impl TxSlot {
    /// The counts so far.
    pub fn counts(&self) -> TxCounts {
        let counter = |offset| self.stats.slots.counter(self.slot as usize, offset);
        TxCounts {
            sent: counter(offset_of!(abi::TxStats, sent)),
            ring_full: counter(offset_of!(abi::TxStats, ring_full)),
            refused: counter(offset_of!(abi::TxStats, refused)),
            last_errno: counter(offset_of!(abi::TxStats, last_errno)).cast_signed().unsigned_abs() as i32,
        }
    }
}

impl Drop for TxSlot {
    fn drop(&mut self) {
        let thread = self.stats.slots.counter(self.slot as usize, offset_of!(abi::TxStats, pid_tgid));
        // If the entry cannot be deleted, a later thread with the same ids would count here, so the
        // slot is not assigned again.
        if self.stats.threads.delete(&thread.to_ne_bytes()).is_ok() {
            self.stats.free.lock().unwrap_or_else(PoisonError::into_inner).push(self.slot);
        }
    }
}

struct LoadedTxStats {
    page_pools: (OwnedFd, Option<Link>),
    link: Link,
    claim: OwnedFd,
    slots: OwnedFd,
    claimed: OwnedFd,
    threads: MapHandle,
}

fn load_and_attach() -> libbpf_rs::Result<LoadedTxStats> {
    let mut storage = MaybeUninit::uninit();
    let skel = skel::tx_stats::TxStatsSkelBuilder::default().open(&mut storage)?.load()?;
    Ok(LoadedTxStats {
        // Since Linux 5.4. Nothing else depends on it.
        page_pools: (
            skel.maps.wr_page_pool_count.as_fd().try_clone_to_owned()?,
            skel.progs.wr_page_pool_release.attach().ok(),
        ),
        link: skel.progs.wr_tx_stats.attach()?,
        claim: skel.progs.wr_claim_slot.as_fd().try_clone_to_owned()?,
        slots: skel.maps.wr_tx_slots.as_fd().try_clone_to_owned()?,
        claimed: skel.maps.bss.as_fd().try_clone_to_owned()?,
        threads: MapHandle::try_from(&skel.maps.wr_tx_threads)?,
    })
}
