//! `reflect.bpf.c`: frames that a driver did not send back for a reflecting receiver.

use crate::shared::SharedArray;
use crate::{BpfError, abi, log, skel};
use libbpf_rs::Link;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use std::mem::{MaybeUninit, offset_of};
use std::os::fd::{AsFd, OwnedFd};

const OBJECT: &str = "reflect";

/// The tracepoint programs, attached while this value lives.
#[derive(Debug)]
pub struct ReflectStats {
    counts: SharedArray<abi::ReflectCounts>,
    _links: [Link; 2],
}

impl ReflectStats {
    /// Counts for the device `ifindex` of the network namespace whose file has this inode.
    ///
    /// # Errors
    /// [`BpfError::Load`] (EPERM without CAP_BPF and CAP_PERFMON), [`BpfError::MapMemory`].
    pub fn attach(ifindex: u32, netns_inode: u32) -> Result<Self, BpfError> {
        let (links, counts) = log::loading(OBJECT, || load_and_attach(ifindex, netns_inode))?;
        Ok(Self { counts: SharedArray::new(counts.as_fd(), "wr_reflect_page", 1)?, _links: links })
    }

    /// Frames that were not sent.
    pub fn not_sent(&self) -> u64 {
        self.counts.counter(0, offset_of!(abi::ReflectCounts, not_sent))
    }
}

fn load_and_attach(ifindex: u32, netns_inode: u32) -> libbpf_rs::Result<([Link; 2], OwnedFd)> {
    let mut storage = MaybeUninit::uninit();
    let mut open = skel::reflect::ReflectSkelBuilder::default().open(&mut storage)?;
    let settings = open.maps.rodata_data.as_deref_mut().expect("the program has settings");
    settings.wr_ifindex = ifindex;
    settings.wr_netns = netns_inode;
    let skel = open.load()?;
    let links = [skel.progs.wr_bulk_not_sent.attach()?, skel.progs.wr_frame_not_sent.attach()?];
    Ok((links, skel.maps.wr_reflect_page.as_fd().try_clone_to_owned()?))
}
