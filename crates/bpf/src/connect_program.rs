//! `connect.bpf.c`: opens connections with a live server and answers its segments.

use crate::attachable::Attachable;
use crate::shared::SharedArray;
use crate::sys::{self, ProgRun};
use crate::xdp::{LoadedProgram, XdpLink, XdpModeChoice};
use crate::{BpfError, abi, log, skel};
use connect::{Addresses, Close, Connection, Counts, Gap, Order, ResponseEnd, SERVERS_MAX, Settings, State};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use std::io;
use std::mem::{MaybeUninit, offset_of};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

const OBJECT: &str = "connect";
/// Bytes of a request at most.
pub const REQUEST_MAX: usize = abi::ConnectLimit::WR_REQUEST_MAX.0 as usize - 1;
/// Connections of one list.
pub const LIST_MAX: usize = abi::ConnectLimit::WR_CONNECT_LIST_MAX.0 as usize;
/// Bytes that responses are grouped by at most.
pub const GROUP_LEN_MAX: u32 = abi::ConnectLimit::WR_GROUP_LEN_MAX.0;
/// Groups of responses at most.
pub const GROUPS_MAX: u32 = abi::ConnectLimit::WR_GROUPS_MAX.0;
/// Requests that wait for the sender, of which the connections are kept.
pub const LATER_MAX: u64 = abi::ConnectLimit::WR_LATER_MAX.0 as u64;
/// Histograms of each CPU.
const HISTOGRAMS: usize = 3;
/// Length of a frame before the program has written it: Ethernet, tag, IPv6, TCP and its options.
const FRAME_LEN: usize = 14 + 4 + 40 + 20 + 12;

/// The protocol above IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ConnectKind {
    /// Connections of TCP.
    Tcp = 0,
    /// Datagrams; the first one that comes back is the answer.
    Udp = 1,
    /// Queries of DNS; an answer has the ID of its query.
    Dns = 2,
}

/// How answers are looked at for errors, by their first bytes. An answer with too few of them in
/// its first segment is no error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum AnswerCheck {
    /// Not at all.
    #[default]
    Any = 0,
    /// A status line of HTTP/1 with a status of 400 or more is an error (RFC 9112, 4).
    Http = 1,
    /// All but a ServerHello of TLS is an error (RFC 8446, 4 and 5.1).
    TlsHello = 2,
    /// All but a QUIC packet with a long header is an error (RFC 8999, 5.1).
    Quic = 3,
}

/// Bytes of a response that decide about its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupBy {
    /// Where they begin in the first segment of the response.
    pub offset: u32,
    /// Their number, from 1 to [`GROUP_LEN_MAX`].
    pub len: u32,
}

/// Settings of the program, which are constant while it lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectParams {
    /// The device, in the network namespace of the calling thread.
    pub ifindex: u32,
    /// True if answers are redirected to the device instead of sent by XDP_TX.
    pub by_redirect: bool,
    /// VLAN ID of all frames; 0 for no tag.
    pub vlan: u16,
    /// MAC address of the device.
    pub own_mac: [u8; 6],
    /// MAC address of the next hop to each range of servers.
    pub next_hop_macs: Vec<[u8; 6]>,
    /// Addresses and ports.
    pub addresses: Addresses,
    /// Connections of a client address at a time at most.
    pub open_per_client: Option<u32>,
    /// Groups of responses to count.
    pub group_by: Option<GroupBy>,
    /// What connections do.
    pub settings: Settings,
    /// The protocol.
    pub kind: ConnectKind,
    /// How answers are looked at for errors.
    pub answer_check: AnswerCheck,
    /// The request, at most [`REQUEST_MAX`] bytes.
    pub request: Vec<u8>,
    /// Key of initial sequence numbers. It has to stay the same until the next boot.
    pub key: u64,
    /// True if the time is that of [`ConnectProgram::set_test_time`].
    pub has_test_clock: bool,
}

/// The program in the kernel, with its connections. Orders are given by one thread; others may read
/// its counters.
#[derive(Debug)]
pub struct ConnectProgram {
    receive: LoadedProgram,
    send: OwnedFd,
    connections: SharedArray<abi::Connection>,
    cpus: SharedArray<abi::ConnectCpu>,
    times: SharedArray<abi::Histogram>,
    list: SharedArray<abi::ConnectOrder>,
    later: SharedArray<u64>,
    page: SharedArray<abi::ConnectPage>,
    groups: MapHandle,
    group_len: usize,
}

/// Counters of frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameCounts {
    /// Frames of the server for connections.
    pub received: u64,
    /// Other frames, which the host received.
    pub passed: u64,
    /// Answers to ARP and neighbour solicitations.
    pub neighbours: u64,
    /// Ports that were still in use when their turn came.
    pub busy_ports: u64,
    /// New connections that found no free port.
    pub no_port: u64,
    /// Requests that did not fit into the frame of an answer; the sender sends them.
    pub no_space: u64,
    /// Frames that could not get their length.
    pub not_written: u64,
    /// Frames that were dropped because another CPU worked with their connection.
    pub contended: u64,
    /// Answers that report an error ([`AnswerCheck`]); of DNS, with an error code.
    pub error_answers: u64,
    /// Most connections that were open at a time.
    pub open_max: u64,
    /// Most connections of one client address, if that is limited.
    pub open_per_client_max: u64,
    /// Responses without the bytes to group by, or in none of the first [`GROUPS_MAX`] groups.
    pub ungrouped: u64,
}

/// Counts of times by bucket, as [`measure::histogram_index`] has them, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnectTimes {
    /// From SYN to SYN-ACK.
    pub connect: Vec<u64>,
    /// From a request to the first byte of its response.
    pub first_byte: Vec<u64>,
    /// From the first SYN to the end.
    pub total: Vec<u64>,
}

impl ConnectProgram {
    /// Loads the program, with memory for all connections of its addresses.
    ///
    /// # Errors
    /// [`BpfError::Load`] (EPERM without CAP_BPF and CAP_NET_ADMIN, ENOMEM with too many
    /// connections), [`BpfError::MapMemory`].
    ///
    /// # Panics
    /// With more than 2^32 - 1 connections, a request that is too long, no server or more than
    /// [`SERVERS_MAX`] ranges of them, or without a next hop for each.
    pub fn load(params: &ConnectParams) -> Result<Self, BpfError> {
        assert!(params.request.len() <= REQUEST_MAX, "a request of {} bytes", params.request.len());
        let range_count = params.addresses.servers.len();
        assert!((1..=SERVERS_MAX).contains(&range_count), "{range_count} ranges of servers");
        assert_eq!(range_count, params.next_hop_macs.len(), "a next hop for each range of servers");
        let count = u32::try_from(params.addresses.connections()).expect("the caller checks the number");
        let fds = log::loading(OBJECT, || load_fds(params, count))?;
        Ok(Self {
            connections: SharedArray::new(fds.connections.as_fd(), "wr_connections", count as usize)?,
            cpus: SharedArray::new(fds.cpus.as_fd(), "wr_connect_cpus", fds.cpu_count)?,
            times: SharedArray::new(fds.times.as_fd(), "wr_connect_times", HISTOGRAMS * fds.cpu_count)?,
            list: SharedArray::new(fds.list.as_fd(), "wr_connect_list", LIST_MAX)?,
            later: SharedArray::new(fds.later.as_fd(), "wr_later", LATER_MAX as usize)?,
            page: SharedArray::new(fds.page.as_fd(), "wr_page", 1)?,
            receive: fds.receive,
            send: fds.send,
            groups: fds.groups,
            group_len: params.group_by.map_or(0, |group| group.len as usize),
        })
    }

    /// Attaches the answering program to a device of the calling thread's network namespace.
    ///
    /// # Errors
    /// [`BpfError::XdpBusy`] if a program is attached, [`BpfError::XdpAttach`] with the error of
    /// each mode that was tried.
    pub fn attach(&self, ifindex: u32, ifname: &str, mode: XdpModeChoice) -> Result<XdpLink, BpfError> {
        self.receive.attach(ifindex, ifname, mode)
    }

    /// A handle with which another thread attaches the sending program.
    ///
    /// # Errors
    /// When the process has no file descriptors left.
    pub fn sender_attachable(&self) -> io::Result<Attachable> {
        Attachable::of(self.send.as_fd())
    }

    /// The answering program, for test runs.
    pub fn receive_program(&self) -> BorrowedFd<'_> {
        self.receive.linear.as_fd()
    }

    /// The sending program, for test runs.
    pub fn send_program(&self) -> BorrowedFd<'_> {
        self.send.as_fd()
    }

    /// Opens up to `count` connections with one call. Fewer are opened if the limits of
    /// [`Self::set_open_max`] and [`Self::set_new_left`] are reached, or ports are in use.
    ///
    /// # Errors
    /// From bpf(2): ENOSPC if the kernel has no memory model for the frames.
    pub fn open(&self, count: u32) -> io::Result<()> {
        self.page.set_half_word(0, offset_of!(abi::ConnectPage, list_len), 0);
        self.run_live(count)
    }

    /// Carries out orders for connections, at most [`LIST_MAX`].
    ///
    /// # Errors
    /// From bpf(2), as [`Self::open`].
    pub fn order(&self, orders: &[(u32, Order)]) -> io::Result<()> {
        if orders.is_empty() {
            return Ok(());
        }
        self.set_list(orders);
        self.run_live(orders.len() as u32)
    }

    /// Sets the list of the next run of the sending program.
    pub fn set_list(&self, orders: &[(u32, Order)]) {
        for (place, (index, order)) in orders.iter().enumerate() {
            self.list.set(place, &abi::ConnectOrder { index: *index, order: *order as u32 });
        }
        self.page.set_half_word(0, offset_of!(abi::ConnectPage, list_next), 0);
        self.page.set_half_word(0, offset_of!(abi::ConnectPage, list_len), orders.len() as u32);
    }

    fn run_live(&self, frames: u32) -> io::Result<()> {
        sys::run_live(self.send.as_fd(), &[0; FRAME_LEN], &[], frames, frames.min(LIST_MAX as u32))
    }

    /// Runs one of the two programs once on a copy of `frame`, without sending. Returns the verdict
    /// and the resulting frame.
    ///
    /// # Errors
    /// From bpf(2).
    pub fn run_once(program: BorrowedFd<'_>, frame: &[u8]) -> io::Result<(u32, Vec<u8>)> {
        let mut out = vec![0; 4096];
        let mut run = ProgRun { data_in: frame, data_out: &mut out, repeat: 1, ..ProgRun::default() };
        let ran = sys::prog_run(program, &mut run)?;
        out.truncate(ran.data_out_len as usize);
        Ok((ran.return_value, out))
    }

    /// Most connections that may be open at a time.
    pub fn set_open_max(&self, count: u64) {
        self.page.set_word(0, offset_of!(abi::ConnectPage, open_max), count.min(i64::MAX as u64));
    }

    /// Connections that may still be opened.
    pub fn set_new_left(&self, count: u64) {
        self.page.set_word(0, offset_of!(abi::ConnectPage, new_left), count.min(i64::MAX as u64));
    }

    /// Connections that may still be opened.
    pub fn new_left(&self) -> u64 {
        self.page.counter(0, offset_of!(abi::ConnectPage, new_left)).cast_signed().max(0).cast_unsigned()
    }

    /// If `chains`, the last frame of a connection becomes the SYN of the next one.
    pub fn set_chains(&self, chains: bool) {
        self.page.set_half_word(0, offset_of!(abi::ConnectPage, chains), u32::from(chains));
    }

    /// The time of a program with a test clock.
    pub fn set_test_time(&self, time_ns: u64) {
        self.page.set_word(0, offset_of!(abi::ConnectPage, test_time_ns), time_ns);
    }

    /// Connections that are open now.
    pub fn open_now(&self) -> u64 {
        self.page.counter(0, offset_of!(abi::ConnectPage, open)).cast_signed().max(0).cast_unsigned()
    }

    /// Number of connections that were ever given an entry; the next one has this index, modulo
    /// their number.
    pub fn next_index(&self) -> u64 {
        self.page.counter(0, offset_of!(abi::ConnectPage, next_index))
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.connections.len()
    }

    /// True without entries, which [`Self::load`] prevents.
    pub fn is_empty(&self) -> bool {
        self.connections.len() == 0
    }

    /// The state of a connection.
    pub fn state(&self, index: usize) -> State {
        let word = self.connections.half_word(index, 0).to_ne_bytes();
        State::from_number(word[offset_of!(abi::Connection, state)])
    }

    /// A connection. If a program works with it meanwhile, old and new words may be mixed.
    pub fn connection(&self, index: usize) -> Connection {
        self.connections.get(index).into()
    }

    /// Sets a connection, for tests.
    pub fn set_connection(&self, index: usize, connection: &Connection) {
        self.connections.set(index, &abi::Connection::from(connection));
    }

    /// Number of requests that were ever left to the sender.
    pub fn later_head(&self) -> u64 {
        self.page.counter(0, offset_of!(abi::ConnectPage, later_head))
    }

    /// The connection of the request `number` that was left to the sender. Only the last 16,384 are
    /// kept; `None` if this one was overwritten, or is not written yet.
    pub fn later(&self, number: u64) -> Option<u32> {
        let entry = self.later.get((number % LATER_MAX) as usize);
        (entry >> 32 == (number + 1) & u64::from(u32::MAX)).then_some(entry as u32)
    }

    /// Counters of connections, of all CPUs.
    pub fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        for cpu in (0..self.cpus.len()).map(|cpu| self.cpus.get(cpu)) {
            sum.tried += cpu.tried;
            sum.unusual.syn_resent += cpu.syn_resent;
            sum.established += cpu.established;
            sum.completed += cpu.completed;
            sum.failures.refused += cpu.refused;
            sum.failures.reset += cpu.reset;
            sum.failures.timeout += cpu.timeout;
            sum.failures.cut_off += cpu.cut_off;
            sum.requests += cpu.requests;
            sum.unusual.requests_resent += cpu.requests_resent;
            sum.unusual.fins_resent += cpu.fins_resent;
            sum.responses += cpu.responses;
            sum.payload_bytes += cpu.payload_bytes;
            sum.segments += cpu.segments;
            sum.unusual.syn_acks_repeated += cpu.syn_acks_repeated;
            sum.unusual.repeated += cpu.repeated;
            sum.unusual.gaps += cpu.gaps;
            sum.unusual.keepalive += cpu.keepalive;
            sum.unusual.challenged += cpu.challenged;
            sum.unusual.strays += cpu.strays;
            sum.unsized_responses += cpu.unsized_responses;
            sum.ended_by_server += cpu.ended_by_server;
        }
        sum
    }

    /// Connections that were tried: one of [`Self::counts`].
    pub fn tried(&self) -> u64 {
        let tried = |cpu| self.cpus.counter(cpu, offset_of!(abi::ConnectCpu, tried));
        (0..self.cpus.len()).map(tried).sum()
    }

    /// Counters of frames, of all CPUs.
    pub fn frame_counts(&self) -> FrameCounts {
        let mut sum = FrameCounts::default();
        for cpu in (0..self.cpus.len()).map(|cpu| self.cpus.get(cpu)) {
            sum.received += cpu.received;
            sum.passed += cpu.passed;
            sum.neighbours += cpu.neighbours;
            sum.busy_ports += cpu.busy_ports;
            sum.no_port += cpu.no_port;
            sum.no_space += cpu.no_space;
            sum.not_written += cpu.not_written;
            sum.contended += cpu.contended;
            sum.error_answers += cpu.error_answers;
            sum.open_max = sum.open_max.max(cpu.open_max);
            sum.open_per_client_max = sum.open_per_client_max.max(cpu.open_per_client_max);
            sum.ungrouped += cpu.ungrouped;
        }
        sum
    }

    /// Responses of each group, by the bytes of the group.
    pub fn groups(&self) -> Vec<(Vec<u8>, u64)> {
        let count_of = |key: &[u8]| {
            let count = self.groups.lookup(key, MapFlags::ANY).ok()??;
            count.try_into().ok().map(u64::from_ne_bytes)
        };
        let group = |key: Vec<u8>| Some((key[..self.group_len].to_vec(), count_of(&key)?));
        let mut groups: Vec<_> = self.groups.keys().filter_map(group).collect();
        groups.sort();
        groups
    }

    /// Times of all CPUs.
    pub fn times(&self) -> ConnectTimes {
        let sum = |which| {
            let mut sum = vec![0; measure::HISTOGRAM_LEN];
            for cpu in 0..self.cpus.len() {
                let counts = self.times.get(HISTOGRAMS * cpu + which);
                sum.iter_mut().zip(counts.count).for_each(|(sum, count)| *sum += count);
            }
            sum
        };
        ConnectTimes { connect: sum(0), first_byte: sum(1), total: sum(2) }
    }
}

impl From<abi::Connection> for Connection {
    fn from(entry: abi::Connection) -> Self {
        Self {
            state: State::from_number(entry.state),
            flags: entry.flags,
            tries: entry.tries,
            gap_count: entry.gap_count,
            snd_una: entry.snd_una,
            snd_nxt: entry.snd_nxt,
            rcv_nxt: entry.rcv_nxt,
            begun_at: entry.begun_at,
            asked_at: entry.asked_at,
            progress_at: entry.progress_at,
            left: entry.left,
            requests: entry.requests,
            segment_max: entry.segment_max,
            gaps: entry.gaps.map(|gap| Gap { first: gap.first, end: gap.end }),
        }
    }
}

impl From<&Connection> for abi::Connection {
    fn from(c: &Connection) -> Self {
        Self {
            state: c.state as u8,
            flags: c.flags,
            tries: c.tries,
            gap_count: c.gap_count,
            lock: 0,
            snd_una: c.snd_una,
            snd_nxt: c.snd_nxt,
            rcv_nxt: c.rcv_nxt,
            begun_at: c.begun_at,
            asked_at: c.asked_at,
            progress_at: c.progress_at,
            left: c.left,
            requests: c.requests,
            segment_max: c.segment_max,
            gaps: c.gaps.map(|gap| abi::Gap { first: gap.first, end: gap.end }),
        }
    }
}

/// Descriptors of a loaded object.
struct ConnectFds {
    receive: LoadedProgram,
    send: OwnedFd,
    connections: OwnedFd,
    cpus: OwnedFd,
    times: OwnedFd,
    list: OwnedFd,
    later: OwnedFd,
    page: OwnedFd,
    groups: MapHandle,
    cpu_count: usize,
}

/// The four words of an address as they are in a frame; those of IPv4 before the last are 0.
pub(crate) fn words_be(address: IpAddr) -> [u32; 4] {
    let bytes = match address {
        IpAddr::V4(address) => u128::from(address.to_bits()).to_be_bytes(),
        IpAddr::V6(address) => address.octets(),
    };
    bytemuck::cast(bytes)
}

/// Sums of the 16-bit words of the first n bytes of a payload, as they are in memory.
pub(crate) fn sums_of(payload: &[u8], sums: &mut [u32]) {
    let mut sum = 0;
    for (end, place) in sums.iter_mut().enumerate() {
        let byte = |at: usize| payload.get(at).copied().unwrap_or(0);
        match end {
            0 => {}
            end if end % 2 == 0 => sum += u32::from(u16::from_ne_bytes([byte(end - 2), byte(end - 1)])),
            _ => {}
        }
        let odd = if end % 2 == 1 { u32::from(u16::from_ne_bytes([byte(end - 1), 0])) } else { 0 };
        *place = sum + odd;
    }
}

fn load_fds(params: &ConnectParams, count: u32) -> libbpf_rs::Result<ConnectFds> {
    let cpu_count = libbpf_rs::num_possible_cpus()?;
    let mut storage = MaybeUninit::uninit();
    let mut open = skel::connect::ConnectSkelBuilder::default().open(&mut storage)?;
    let rodata = open.maps.rodata_data.as_deref_mut().expect("the program has settings");
    let ConnectParams { addresses, settings, .. } = params;
    let own = words_be(addresses.client);
    rodata.wr_ifindex = params.ifindex;
    rodata.wr_by_redirect = params.by_redirect;
    rodata.wr_is_v6 = addresses.client.is_ipv6();
    rodata.wr_vlan = params.vlan;
    rodata.wr_own_mac = params.own_mac;
    rodata.wr_answers_sender = addresses.servers.len() > 1;
    rodata.wr_peer_mac = params.next_hop_macs[0];
    rodata.wr_own_words.copy_from_slice(&own[..3]);
    rodata.wr_own_first = u32::from_be(own[3]);
    rodata.wr_own_count = addresses.client_count;
    rodata.wr_own_port_first = u32::from(addresses.client_port);
    rodata.wr_own_port_count = addresses.client_port_count;
    rodata.wr_peer_ranges = addresses.servers.len() as u32;
    rodata.wr_peer_total = addresses.server_places() as u32;
    for (at, (range, mac)) in addresses.servers.iter().zip(&params.next_hop_macs).enumerate() {
        let peer = words_be(range.address);
        rodata.wr_peer_words[3 * at..3 * at + 3].copy_from_slice(&peer[..3]);
        rodata.wr_peer_macs[6 * at..6 * at + 6].copy_from_slice(mac);
        rodata.wr_peer_first[at] = u32::from_be(peer[3]);
        rodata.wr_peer_count[at] = range.address_count;
        rodata.wr_peer_port_first[at] = u32::from(range.port);
        rodata.wr_peer_port_count[at] = range.port_count;
    }
    rodata.wr_index_count = count;
    rodata.wr_per_client_max = params.open_per_client.unwrap_or(0);
    rodata.wr_group_len = params.group_by.map_or(0, |group| group.len);
    rodata.wr_group_offset = params.group_by.map_or(0, |group| group.offset);
    rodata.wr_segment_max = u32::from(settings.segment_max);
    rodata.wr_payload_len = params.request.len() as u32;
    rodata.wr_payload[..params.request.len()].copy_from_slice(&params.request);
    sums_of(&params.request, &mut rodata.wr_payload_sums);
    rodata.wr_requests = u32::from(settings.requests);
    let (end, bytes) = match settings.response_end {
        ResponseEnd::Push => (0, 0),
        ResponseEnd::Bytes(bytes) => (1, bytes),
        ResponseEnd::Close => (2, 0),
        ResponseEnd::Http => (3, 0),
        ResponseEnd::First => (4, 0),
    };
    rodata.wr_response_end = end;
    rodata.wr_response_bytes = bytes;
    rodata.wr_close = match settings.close {
        Close::Server => 0,
        Close::Client => 1,
        Close::Reset => 2,
    };
    rodata.wr_holds = settings.holds;
    rodata.wr_kind = params.kind as u32;
    rodata.wr_answer_check = params.answer_check as u32;
    rodata.wr_key = params.key;
    rodata.wr_has_test_clock = params.has_test_clock;
    open.maps.wr_connections.set_max_entries(count)?;
    open.maps.wr_clients.set_max_entries(params.open_per_client.map_or(1, |_| addresses.client_count))?;
    open.maps.wr_connect_cpus.set_max_entries(cpu_count as u32)?;
    open.maps.wr_connect_times.set_max_entries((HISTOGRAMS * cpu_count) as u32)?;
    let skel = open.load()?;
    let keep = |fd: BorrowedFd<'_>| fd.try_clone_to_owned();
    let frags = skel.progs.wr_connect_frags.as_fd();
    Ok(ConnectFds {
        receive: LoadedProgram::keep(skel.progs.wr_connect.as_fd(), Some(frags))?,
        send: keep(skel.progs.wr_connect_send.as_fd())?,
        connections: keep(skel.maps.wr_connections.as_fd())?,
        cpus: keep(skel.maps.wr_connect_cpus.as_fd())?,
        times: keep(skel.maps.wr_connect_times.as_fd())?,
        list: keep(skel.maps.wr_connect_list.as_fd())?,
        later: keep(skel.maps.wr_later.as_fd())?,
        page: keep(skel.maps.bss.as_fd())?,
        groups: MapHandle::try_from(&skel.maps.wr_groups)?,
        cpu_count,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_the_first_bytes() {
        let mut sums = [0; 6];
        sums_of(&[1, 2, 3, 4, 5], &mut sums);
        let word = |a, b| u32::from(u16::from_ne_bytes([a, b]));
        let two = word(1, 2);
        let four = two + word(3, 4);
        assert_eq!(sums, [0, word(1, 0), two, two + word(3, 0), four, four + word(5, 0)]);
    }

    #[test]
    fn connections_survive_the_way_to_the_program_and_back() {
        let connection = Connection {
            flags: 0x41,
            tries: 3,
            gap_count: 1,
            rcv_nxt: 5,
            left: 6,
            requests: 7,
            segment_max: 8,
            gaps: [Gap { first: 9, end: 10 }, Gap::default(), Gap { first: 1, end: 2 }],
            ..Connection::opened(77, 88)
        };
        assert_eq!(Connection::from(abi::Connection::from(&connection)), connection);
    }
}
