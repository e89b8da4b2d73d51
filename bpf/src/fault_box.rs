//! `fault.bpf.c`: a device under test whose faults are known, for tests.

use crate::shared::SharedArray;
use crate::xdp::{self, XdpLink, XdpModeChoice};
use crate::{BpfError, abi, log, skel};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

const OBJECT: &str = "fault";

/// A program on a device that forwards pktgen's frames to another device. Dropping it ends that.
#[derive(Debug)]
pub struct FaultBox {
    _link: XdpLink,
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
        let (loaded, log) = log::collect(|| load_fds(out_ifindex, faults));
        let (program, counts) =
            loaded.map_err(|error| BpfError::Load { object: OBJECT, reason: error.to_string(), log })?;
        let counts = SharedArray::new(counts.as_fd(), "wr_fault_page", 1)?;
        let link = xdp::attach(&[program.as_fd()], ifindex, ifname, XdpModeChoice::Native)?;
        Ok(Self { _link: link, counts })
    }

    /// What it did until now.
    pub fn counts(&self) -> abi::FaultCounts {
        self.counts.get(0)
    }
}

fn load_fds(out_ifindex: u32, faults: abi::Faults) -> libbpf_rs::Result<(OwnedFd, OwnedFd)> {
    let mut storage = MaybeUninit::uninit();
    let mut open = skel::fault::FaultSkelBuilder::default().open(&mut storage)?;
    let settings = open.maps.rodata_data.as_deref_mut().expect("the program has settings");
    settings.wr_out_ifindex = out_ifindex;
    let own = &mut settings.wr_faults_set;
    own.lose_every = faults.lose_every;
    own.lose_above = faults.lose_above;
    own.lose_share = faults.lose_share;
    own.swap_every = faults.swap_every;
    own.shift_every = faults.shift_every;
    own.shift_usec = faults.shift_usec;
    own.bucket_pps = faults.bucket_pps;
    own.bucket_depth = faults.bucket_depth;
    own.hold_usec = faults.hold_usec;
    let skel = open.load()?;
    let keep = |fd: std::os::fd::BorrowedFd<'_>| fd.try_clone_to_owned();
    Ok((keep(skel.progs.wr_fault.as_fd())?, keep(skel.maps.wr_fault_page.as_fd())?))
}
