//! `fault.bpf.c`: a device under test whose faults are known, for tests.

use crate::shared::SharedArray;
use crate::xdp::{self, XdpLink, XdpModeChoice};
use crate::{BpfError, abi, log, skel};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{TC_INGRESS, TcHookBuilder};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

const OBJECT: &str = "fault";

/// A program on a device that forwards pktgen's frames to another device. Dropping it ends that; a
/// box that clones ends with its device.
#[derive(Debug)]
pub struct FaultBox {
    _link: Option<XdpLink>,
    counts: SharedArray<abi::FaultCounts>,
}

impl FaultBox {
    /// Attaches it to a device of the calling thread's network namespace. Frames leave by the
    /// device `out_ifindex`.
    ///
    /// # Errors
    /// [`BpfError::Load`], [`BpfError::MapMemory`], [`xdp::attach`].
    pub fn attach(
        ifindex: u32,
        ifname: &str,
        out_ifindex: u32,
        faults: abi::Faults,
    ) -> Result<Self, BpfError> {
        let FaultFds { in_driver, in_tc, counts } = log::loading(OBJECT, || load_fds(out_ifindex, faults))?;
        let counts = SharedArray::new(counts.as_fd(), "wr_fault_page", 1)?;
        if faults.clone_every > 0 {
            log::loading(OBJECT, || attach_in_tc(in_tc.as_fd(), ifindex))?;
            return Ok(Self { _link: None, counts });
        }
        let link = xdp::attach(&[in_driver.as_fd()], ifindex, ifname, XdpModeChoice::Native)?;
        Ok(Self { _link: Some(link), counts })
    }

    /// What it did until now.
    pub fn counts(&self) -> abi::FaultCounts {
        self.counts.get(0)
    }
}

fn attach_in_tc(program: BorrowedFd<'_>, ifindex: u32) -> libbpf_rs::Result<()> {
    let mut hook = TcHookBuilder::new(program).ifindex(ifindex as i32).handle(1).priority(1).hook(TC_INGRESS);
    hook.create()?;
    hook.attach().map(drop)
}

/// Descriptors of the loaded object.
struct FaultFds {
    in_driver: OwnedFd,
    in_tc: OwnedFd,
    counts: OwnedFd,
}

fn load_fds(out_ifindex: u32, faults: abi::Faults) -> libbpf_rs::Result<FaultFds> {
    let mut storage = MaybeUninit::uninit();
    let mut open = skel::fault::FaultSkelBuilder::default().open(&mut storage)?;
    let settings = open.maps.rodata_data.as_deref_mut().expect("the program has settings");
    settings.wr_out_ifindex = out_ifindex;
    let own = &mut settings.wr_faults_set;
    own.lose_every = faults.lose_every;
    own.lose_above = faults.lose_above;
    own.lose_share = faults.lose_share;
    own.swap_every = faults.swap_every;
    own.repeat_every = faults.repeat_every;
    own.shift_every = faults.shift_every;
    own.shift_usec = faults.shift_usec;
    own.bucket_pps = faults.bucket_pps;
    own.bucket_depth = faults.bucket_depth;
    own.hold_usec = faults.hold_usec;
    own.clock_pps = faults.clock_pps;
    own.clone_every = faults.clone_every;
    let skel = open.load()?;
    let keep = |fd: BorrowedFd<'_>| fd.try_clone_to_owned();
    Ok(FaultFds {
        in_driver: keep(skel.progs.wr_fault.as_fd())?,
        in_tc: keep(skel.progs.wr_fault_clone.as_fd())?,
        counts: keep(skel.maps.wr_fault_page.as_fd())?,
    })
}
