//! `accept.bpf.c`: a server of TCP in XDP, without memory of connections.

use crate::connect_program::{sums_of, words_be};
use crate::shared::SharedArray;
use crate::xdp::{LoadedProgram, XdpLink, XdpModeChoice};
use crate::{BpfError, abi, log, skel};
use facts::ServerSegments;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use std::mem::MaybeUninit;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

const OBJECT: &str = "accept";

/// Settings of the program, which are constant while it lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptParams {
    /// The device, in the network namespace of the calling thread.
    pub ifindex: u32,
    /// True if answers are redirected to the device instead of sent by XDP_TX.
    pub by_redirect: bool,
    /// VLAN ID of all frames; 0 for no tag.
    pub vlan: u16,
    /// MAC address of the device.
    pub own_mac: [u8; 6],
    /// The first address of the server; of an IPv6 address the last 32 bits count up.
    pub address: IpAddr,
    /// Number of addresses.
    pub address_count: u32,
    /// True if the host does not have the addresses, so that the program has to answer ARP and
    /// neighbour solicitations.
    pub answers_neighbours: bool,
    /// The first port.
    pub port: u16,
    /// Number of ports.
    pub port_count: u32,
    /// Bytes of a segment at most.
    pub segment_max: u16,
    /// The response to each segment with data, at most [`crate::REQUEST_MAX`] bytes; empty for
    /// none.
    pub response: Vec<u8>,
    /// True if the response ends the connection.
    pub closes: bool,
    /// Key of initial sequence numbers.
    pub key: u64,
}

/// Counters since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AcceptCounts {
    /// Segments of connections.
    pub segments: ServerSegments,
    /// Bytes of requests.
    pub request_bytes: u64,
    /// Bytes of responses.
    pub response_bytes: u64,
    /// Other frames, which the host received.
    pub passed: u64,
    /// Answers to ARP and neighbour solicitations.
    pub neighbours: u64,
}

/// The program in the kernel.
#[derive(Debug)]
pub struct AcceptProgram {
    program: LoadedProgram,
    cpus: SharedArray<abi::AcceptCpu>,
}

impl AcceptProgram {
    /// Loads the program.
    ///
    /// # Errors
    /// [`BpfError::Load`] (EPERM without CAP_BPF and CAP_NET_ADMIN), [`BpfError::MapMemory`].
    ///
    /// # Panics
    /// With a response that is too long.
    pub fn load(params: &AcceptParams) -> Result<Self, BpfError> {
        assert!(params.response.len() <= crate::REQUEST_MAX, "a response of {} bytes", params.response.len());
        let (program, cpus, cpu_count) = log::loading(OBJECT, || load_fds(params))?;
        Ok(Self { program, cpus: SharedArray::new(cpus.as_fd(), "wr_accept_cpus", cpu_count)? })
    }

    /// Attaches it to a device of the calling thread's network namespace.
    ///
    /// # Errors
    /// [`BpfError::XdpBusy`] if a program is attached, [`BpfError::XdpAttach`] with the error of
    /// each mode that was tried.
    pub fn attach(&self, ifindex: u32, ifname: &str, mode: XdpModeChoice) -> Result<XdpLink, BpfError> {
        self.program.attach(ifindex, ifname, mode)
    }

    /// The program, for test runs.
    pub fn program(&self) -> BorrowedFd<'_> {
        self.program.linear.as_fd()
    }

    /// Counters of all CPUs.
    pub fn counts(&self) -> AcceptCounts {
        let mut sum = AcceptCounts::default();
        for cpu in (0..self.cpus.len()).map(|cpu| self.cpus.get(cpu)) {
            sum.segments.add(&ServerSegments {
                accepted: cpu.accepted,
                requests: cpu.requests,
                responses: cpu.responses,
                closed: cpu.closed,
                resets: cpu.resets,
                not_written: cpu.not_written,
                received: cpu.received,
            });
            sum.request_bytes += cpu.request_bytes;
            sum.response_bytes += cpu.response_bytes;
            sum.passed += cpu.passed;
            sum.neighbours += cpu.neighbours;
        }
        sum
    }
}

fn load_fds(params: &AcceptParams) -> libbpf_rs::Result<(LoadedProgram, OwnedFd, usize)> {
    let cpu_count = libbpf_rs::num_possible_cpus()?;
    let mut storage = MaybeUninit::uninit();
    let mut open = skel::accept::AcceptSkelBuilder::default().open(&mut storage)?;
    let rodata = open.maps.rodata_data.as_deref_mut().expect("the program has settings");
    let own = words_be(params.address);
    rodata.wr_ifindex = params.ifindex;
    rodata.wr_by_redirect = params.by_redirect;
    rodata.wr_is_v6 = params.address.is_ipv6();
    rodata.wr_vlan = params.vlan;
    rodata.wr_own_mac = params.own_mac;
    rodata.wr_answers_sender = true;
    rodata.wr_answers_neighbours = params.answers_neighbours;
    rodata.wr_own_words.copy_from_slice(&own[..3]);
    rodata.wr_own_first = u32::from_be(own[3]);
    rodata.wr_own_count = params.address_count;
    rodata.wr_own_port_first = u32::from(params.port);
    rodata.wr_own_port_count = params.port_count;
    rodata.wr_segment_max = u32::from(params.segment_max);
    rodata.wr_payload_len = params.response.len() as u32;
    rodata.wr_payload[..params.response.len()].copy_from_slice(&params.response);
    sums_of(&params.response, &mut rodata.wr_payload_sums);
    rodata.wr_closes = params.closes;
    rodata.wr_key = params.key;
    open.maps.wr_accept_cpus.set_max_entries(cpu_count as u32)?;
    let skel = open.load()?;
    let frags = skel.progs.wr_accept_frags.as_fd();
    let program = LoadedProgram::keep(skel.progs.wr_accept.as_fd(), Some(frags))?;
    Ok((program, skel.maps.wr_accept_cpus.as_fd().try_clone_to_owned()?, cpu_count))
}
