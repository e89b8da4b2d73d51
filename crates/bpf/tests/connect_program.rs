//! `connect.bpf.c`, run by `BPF_PROG_RUN` on made-up frames, against the rules of the crate
//! `connect`. Needs CAP_BPF.

mod common;

use bpf::{AcceptParams, AcceptProgram, AnswerCheck, ConnectKind, ConnectParams, ConnectProgram, GroupBy};
use common::{XDP_DROP, XDP_PASS, XDP_TX, check_loads_soon, may_load};
use connect::{
    ACK, Addresses, Arrival, Close, Connection, Counts, Departure, Events, FIN, Order, PSH, Place, RST,
    ResponseEnd, SYN, ServerRange, Settings, State, Verdict, initial_number,
};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::net::IpAddr;

const OWN_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const SERVER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];

fn params(is_v6: bool, vlan: u16, settings: Settings, request: &[u8]) -> ConnectParams {
    let [client, server] = match is_v6 {
        true => ["fd00:18::1000", "fd00:18::2"],
        false => ["198.18.64.1", "198.18.0.2"],
    };
    ConnectParams {
        ifindex: 1,
        by_redirect: false,
        vlan,
        own_mac: OWN_MAC,
        next_hop_macs: vec![SERVER_MAC],
        addresses: Addresses {
            client: client.parse().unwrap(),
            client_count: 2,
            client_port: 1024,
            client_port_count: 2,
            servers: vec![ServerRange {
                address: server.parse().unwrap(),
                address_count: 1,
                port: 80,
                port_count: 1,
            }],
        },
        open_per_client: None,
        group_by: None,
        settings,
        kind: ConnectKind::Tcp,
        answer_check: AnswerCheck::Any,
        request: request.to_vec(),
        key: 0x1234_5678_9abc_def0,
        has_test_clock: true,
    }
}

const OTHER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 3];

/// Adds two ranges of servers, one of which has another next hop, and a limit for each client.
fn of_several_servers(mut params: ConnectParams) -> ConnectParams {
    let others = match params.addresses.client.is_ipv6() {
        true => ["fd00:19::7", "fd00:18::2"],
        false => ["198.19.0.7", "198.18.0.2"],
    };
    let range = |address: &str, address_count, port, port_count| ServerRange {
        address: address.parse().unwrap(),
        address_count,
        port,
        port_count,
    };
    params.addresses.servers.extend([range(others[0], 2, 80, 2), range(others[1], 1, 443, 1)]);
    params.next_hop_macs.extend([OTHER_MAC, SERVER_MAC]);
    params.open_per_client = Some(3);
    params
}

#[test]
fn all_settings_load() {
    if !may_load() {
        return;
    }
    let plain = Settings {
        request_len: 100,
        requests: 1,
        response_end: ResponseEnd::Push,
        close: Close::Server,
        holds: false,
        segment_max: 1460,
    };
    for is_v6 in [false, true] {
        for vlan in [0, 7] {
            for kind in [ConnectKind::Tcp, ConnectKind::Udp, ConnectKind::Dns] {
                for response_end in [ResponseEnd::Push, ResponseEnd::Http, ResponseEnd::Bytes(0)] {
                    for close in [Close::Server, Close::Client, Close::Reset] {
                        let settings = Settings { response_end, close, ..plain };
                        let params = ConnectParams { kind, ..params(is_v6, vlan, settings, &[0; 100]) };
                        let of_several = ConnectParams {
                            group_by: Some(GroupBy { offset: 25, len: 3 }),
                            ..of_several_servers(params.clone())
                        };
                        let all =
                            if close == Close::Server { vec![params, of_several] } else { vec![params] };
                        for params in all {
                            let program = ConnectProgram::load(&params)
                                .unwrap_or_else(|why| panic!("{params:?}: {why}"));
                            check_loads_soon(program.send_program(), &params);
                            check_loads_soon(program.receive_program(), &params);
                        }
                    }
                }
            }
        }
    }
}

/// Random numbers of one case.
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        let word = self.0 ^ self.0 >> 31;
        word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}

fn bytes_of(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// The internet checksum of parts of even lengths, and of an odd last one.
fn checksum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0_u64;
    for part in parts {
        for pair in part.chunks(2) {
            sum += u64::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
        }
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// A frame from `source` to `target`: Ethernet, tag, IP.
fn ip_frame(vlan: u16, protocol: u8, source: IpAddr, target: IpAddr, body: &[u8]) -> Vec<u8> {
    let mut frame = [OWN_MAC, SERVER_MAC].concat();
    if vlan > 0 {
        frame.extend([0x81, 0, (vlan >> 8) as u8, vlan as u8]);
    }
    match source {
        IpAddr::V4(_) => {
            let len = 20 + body.len() as u16;
            let mut ip = vec![0x45, 0, (len >> 8) as u8, len as u8, 0, 0, 0x40, 0, 64, protocol, 0, 0];
            ip.extend(bytes_of(source));
            ip.extend(bytes_of(target));
            let sum = checksum(&[&ip]);
            ip[10..12].copy_from_slice(&sum.to_be_bytes());
            frame.extend([8, 0]);
            frame.extend(ip);
        }
        IpAddr::V6(_) => {
            frame.extend([
                0x86,
                0xdd,
                0x60,
                0,
                0,
                0,
                (body.len() >> 8) as u8,
                body.len() as u8,
                protocol,
                64,
            ]);
            frame.extend(bytes_of(source));
            frame.extend(bytes_of(target));
        }
    }
    frame.extend(body);
    frame
}

/// The segment of the server.
fn segment(vlan: u16, place: &Place, arrival: &Arrival, payload: &[u8], draw: &mut Draw) -> Vec<u8> {
    let mut options = Vec::new();
    if arrival.flags & SYN != 0 {
        // In any order, with others between them; also as most servers have them.
        if draw.below(2) == 0 {
            options.extend([1, 3, 3, 7]);
        }
        if arrival.segment_max > 0 {
            options.extend([2, 4, (arrival.segment_max >> 8) as u8, arrival.segment_max as u8]);
        }
        if arrival.sack {
            options.extend([1, 1, 4, 2]);
        }
        if draw.below(2) == 0 {
            options.extend([8, 10, 1, 2, 3, 4, 5, 6, 7, 8, 1, 0]);
        }
    } else if draw.below(4) == 0 {
        options.extend([1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8]);
    }
    let mut tcp = Vec::new();
    tcp.extend(place.server_port.to_be_bytes());
    tcp.extend(place.client_port.to_be_bytes());
    tcp.extend(arrival.seq.to_be_bytes());
    tcp.extend(arrival.ack.to_be_bytes());
    tcp.extend([(20 + options.len() as u8) << 2, arrival.flags, 0xff, 0xff]);
    // A partial checksum, as from a socket behind a veth: nothing may depend on it.
    tcp.extend([0x12, 0x34, 0, 0]);
    tcp.extend(options);
    tcp.extend(payload);
    ip_frame(vlan, 6, place.server, place.client, &tcp)
}

/// Compares a frame with the segment that it has to be.
fn check_frame(
    frame: &[u8],
    vlan: u16,
    place: &Place,
    request: &[u8],
    wanted: &Departure,
    gaps: &[connect::Gap],
    settings: &Settings,
) {
    let l2 = if vlan > 0 { 18 } else { 14 };
    assert_eq!(&frame[..12], [SERVER_MAC, OWN_MAC].concat(), "MAC addresses");
    if vlan > 0 {
        assert_eq!(&frame[12..16], [0x81, 0, (vlan >> 8) as u8, vlan as u8]);
    }
    let is_v6 = place.client.is_ipv6();
    assert_eq!(&frame[l2 - 2..l2], if is_v6 { [0x86, 0xdd] } else { [8, 0] });
    let address_len = if is_v6 { 16 } else { 4 };
    let tcp_at = if is_v6 { l2 + 40 } else { l2 + 20 };
    let addresses = &frame[tcp_at - 2 * address_len..tcp_at];
    assert_eq!(addresses, [bytes_of(place.client), bytes_of(place.server)].concat(), "addresses");
    let tcp = &frame[tcp_at..];
    if !is_v6 {
        assert_eq!(checksum(&[&frame[l2..tcp_at]]), 0, "checksum of IPv4");
        assert_eq!(usize::from(u16::from_be_bytes([frame[l2 + 2], frame[l2 + 3]])), frame.len() - l2);
    } else {
        assert_eq!(usize::from(u16::from_be_bytes([frame[l2 + 4], frame[l2 + 5]])), tcp.len());
    }
    let pseudo = [addresses, &[0, 6], &(tcp.len() as u16).to_be_bytes()].concat();
    assert_eq!(checksum(&[&pseudo, tcp]), 0, "checksum of TCP");
    let word = |at: usize| u32::from_be_bytes(tcp[at..at + 4].try_into().unwrap());
    let half = |at: usize| u16::from_be_bytes(tcp[at..at + 2].try_into().unwrap());
    assert_eq!((half(0), half(2)), (place.client_port, place.server_port), "ports");
    assert_eq!((word(4), word(8), tcp[13]), (wanted.seq, wanted.ack, wanted.flags), "{wanted:?}");
    let header_len = usize::from(tcp[12] >> 4) * 4;
    let options = &tcp[20..header_len];
    if wanted.flags & SYN != 0 {
        let segment_max = settings.segment_max.to_be_bytes();
        assert_eq!(options, [&[2, 4][..], &segment_max, &[1, 1, 4, 2, 1, 3, 3, 7]].concat());
    } else if wanted.gap_count > 0 {
        let mut expected = vec![1, 1, 5, 2 + 8 * wanted.gap_count];
        for gap in &gaps[..usize::from(wanted.gap_count)] {
            expected.extend(gap.first.to_be_bytes());
            expected.extend(gap.end.to_be_bytes());
        }
        assert_eq!(options, expected, "selective acknowledgements");
    } else {
        assert!(options.is_empty(), "no options");
    }
    let from = wanted.offset as usize;
    assert_eq!(&tcp[header_len..], &request[from..from + wanted.len as usize], "payload");
}

/// A program and the rules, which see the same segments and orders.
struct Pair {
    program: ConnectProgram,
    params: ConnectParams,
    place: Place,
    connection: Connection,
    counts: Counts,
    now_ns: u64,
}

impl Pair {
    fn new(params: ConnectParams) -> Self {
        let program = ConnectProgram::load(&params).expect("the program loads");
        program.set_open_max(u64::MAX);
        program.set_new_left(u64::MAX);
        let now_ns = 5_000_000_000;
        program.set_test_time(now_ns);
        let place = params.addresses.place(0);
        // The first connection is opened by the program.
        program.set_list(&[]);
        let (verdict, frame) = ConnectProgram::run_once(program.send_program(), &[0; 90]).unwrap();
        assert_eq!(verdict, 4, "a redirect");
        let now = (now_ns >> connect::TIME_SHIFT) as u32;
        let connection = Connection::opened(initial_number(params.key, &place, now_ns), now);
        let syn = connection.state_segment(&params.settings);
        check_frame(&frame, params.vlan, &place, &params.request, &syn, &[], &params.settings);
        let counts = Counts { tried: 1, ..Counts::default() };
        let pair = Self { program, params, place, connection, counts, now_ns };
        pair.check();
        pair
    }

    fn check(&self) {
        assert_eq!(self.program.connection(0), self.connection);
        assert_eq!(self.program.counts(), self.counts);
        assert_eq!(self.program.open_now(), u64::from(self.connection.state.is_open()));
    }

    fn check_frame(&self, frame: &[u8], wanted: &Departure) {
        let ConnectParams { vlan, request, settings, .. } = &self.params;
        check_frame(frame, *vlan, &self.place, request, wanted, &self.connection.gaps, settings);
    }

    fn advance(&mut self, ns: u64) -> u32 {
        self.now_ns += ns;
        self.program.set_test_time(self.now_ns);
        (self.now_ns >> connect::TIME_SHIFT) as u32
    }

    fn receive(&mut self, arrival: &Arrival, payload: &[u8], draw: &mut Draw) {
        let now = self.advance(draw.below(3_000_000));
        let frame = segment(self.params.vlan, &self.place, arrival, payload, draw);
        let (verdict, out) = ConnectProgram::run_once(self.program.receive_program(), &frame).unwrap();
        let mut events = Events::default();
        let settings = &self.params.settings;
        let expected = self.connection.receive(settings, arrival, now, &mut self.counts, &mut events);
        match expected {
            Verdict::Answer(departure) => {
                assert_eq!(verdict, XDP_TX, "{arrival:?}");
                self.check_frame(&out, &departure);
            }
            Verdict::Ignore | Verdict::Over => assert_eq!(verdict, XDP_DROP, "{arrival:?}"),
        }
        self.check();
    }

    fn order(&mut self, order: Order, draw: &mut Draw) {
        let now = self.advance(draw.below(2_000_000_000));
        self.program.set_list(&[(0, order)]);
        let (verdict, out) = ConnectProgram::run_once(self.program.send_program(), &[0; 90]).unwrap();
        let mut events = Events::default();
        match self.connection.obey(order, &self.params.settings, now, &mut self.counts, &mut events) {
            Some(departure) => {
                assert_eq!(verdict, 4, "{order:?}");
                self.check_frame(&out, &departure);
            }
            None => assert_eq!(verdict, XDP_DROP, "{order:?}"),
        }
        self.check();
    }
}

const HEADER: &[u8] = b"HTTP/1.1 200 OK\r\nServer: x\r\nContent-Length: 900\r\nConnection: close\r\n\r\n";

/// A segment that the server may send now, or a hostile one.
fn draw_arrival(c: &Connection, draw: &mut Draw) -> (Arrival, Vec<u8>) {
    let is_first = c.state == State::SynSent;
    let ack = match draw.below(12) {
        0 => c.snd_nxt.wrapping_add(draw.of(&[1, 500, 0x8000_0000])),
        1 => c.snd_una.wrapping_sub(draw.of(&[1, 500])),
        2 => c.snd_una,
        3 => c.snd_una.wrapping_add(draw.below(3) as u32 * 51),
        _ => c.snd_nxt,
    };
    let near = c.rcv_nxt;
    let seq = match draw.below(12) {
        0 => near.wrapping_add(draw.of(&[1, 1460, 2920, 4380, 9000, 100_000_000])),
        1 => near.wrapping_add(1460 * draw.below(5) as u32),
        2 => near.wrapping_sub(draw.of(&[1, 2, 700, 1460])),
        3 => draw.next() as u32,
        _ => near,
    };
    let mut flags = match draw.below(16) {
        _ if is_first && draw.below(10) > 0 => SYN | ACK,
        _ if is_first && draw.below(2) > 0 => RST | ACK,
        0 if draw.below(4) == 0 => draw.of(&[RST | ACK, RST]),
        1 => SYN | ACK,
        2 => draw.next() as u8 & 0x1b,
        3 | 4 => FIN | ACK,
        5..=9 => PSH | ACK,
        _ => ACK,
    };
    if draw.below(30) == 0 {
        flags |= FIN;
    }
    let len = match draw.below(4) {
        _ if flags & (SYN | RST) != 0 => 0,
        0 => 0,
        1 => 1460,
        _ => draw.below(1400) as usize,
    };
    let mut payload = vec![b'x'; len];
    if draw.below(2) == 0 && len >= HEADER.len() + 12 {
        payload[..HEADER.len()].copy_from_slice(HEADER);
    }
    let arrival = Arrival {
        seq,
        ack,
        len: len as u32,
        flags,
        segment_max: if flags & SYN != 0 { draw.of(&[0, 1, 100, 536, 1460, 9000]) } else { 0 },
        sack: flags & SYN != 0 && draw.below(3) > 0,
        http_len: connect::response_len(&payload).unwrap_or(0),
    };
    (arrival, payload)
}

/// Only of the first segment of a response is the header read.
fn without_late_length(arrival: Arrival, c: &Connection, settings: &Settings) -> Arrival {
    let is_read =
        settings.response_end == ResponseEnd::Http && c.state == State::Asked && !c.has(connect::Flag::Begun);
    if is_read { arrival } else { Arrival { http_len: 0, ..arrival } }
}

#[test]
fn the_program_follows_the_rules_over_any_sequence() {
    if !may_load() {
        return;
    }
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Config { cases: 100, ..Config::default() }, rng);
    let answered = std::cell::RefCell::new([0_u32; 10]);
    runner
        .run(&any::<u64>(), |seed| {
            let draw = &mut Draw(seed);
            let request: Vec<u8> =
                (0..draw.of(&[0, 1, 51, 218, 700, 1400])).map(|_| draw.next() as u8).collect();
            let settings = Settings {
                request_len: request.len() as u32,
                requests: draw.below(4) as u16,
                response_end: draw.of(&[
                    ResponseEnd::Push,
                    ResponseEnd::Bytes(0),
                    ResponseEnd::Bytes(1461),
                    ResponseEnd::Close,
                    ResponseEnd::Http,
                    ResponseEnd::Http,
                    ResponseEnd::First,
                ]),
                close: draw.of(&[Close::Server, Close::Client, Close::Reset]),
                holds: draw.below(4) == 0,
                segment_max: draw.of(&[1460, 1440, 536, 3300]),
            };
            let params = params(draw.below(2) == 0, draw.of(&[0, 0, 7]), settings, &request);
            let mut pair = Pair::new(params);
            for _ in 0..80 {
                let order = [Order::Again, Order::Later, Order::Close, Order::Ask];
                match draw.below(60) {
                    0 if draw.below(2) == 0 => pair.order(Order::GiveUp, draw),
                    1..=5 => pair.order(draw.of(&order), draw),
                    _ => {
                        let (arrival, payload) = draw_arrival(&pair.connection, draw);
                        let arrival = without_late_length(arrival, &pair.connection, &settings);
                        pair.receive(&arrival, &payload, draw);
                    }
                }
                answered.borrow_mut()[pair.connection.state as usize] += 1;
                if !pair.connection.state.is_open() && draw.below(4) == 0 {
                    break;
                }
            }
            Ok(())
        })
        .unwrap();
    // All states were reached.
    let reached = answered.into_inner();
    assert!(reached[1..].iter().all(|count| *count > 0), "{reached:?}");
}

#[test]
fn frames_of_others_reach_the_host_unchanged() {
    if !may_load() {
        return;
    }
    let settings = Settings {
        request_len: 0,
        requests: 0,
        response_end: ResponseEnd::Push,
        close: Close::Client,
        holds: false,
        segment_max: 1460,
    };
    for is_v6 in [false, true] {
        let pair = Pair::new(params(is_v6, 0, settings, &[]));
        let place = pair.place;
        let other: IpAddr = if is_v6 { "fd00:18::9" } else { "198.18.64.9" }.parse().unwrap();
        let tcp = |from: u16, to: u16| {
            let ports = [from.to_be_bytes(), to.to_be_bytes()].concat();
            [ports, vec![0; 8], vec![0x50, ACK, 0, 0, 0, 0, 0, 0]].concat()
        };
        let (client, server) = (place.client, place.server);
        let mut frames = vec![
            ip_frame(0, 6, server, other, &tcp(80, 1024)),
            ip_frame(0, 6, other, client, &tcp(80, 1024)),
            ip_frame(0, 6, server, client, &tcp(81, 1024)),
            ip_frame(0, 6, server, client, &tcp(80, 1026)),
            ip_frame(0, 17, server, client, &tcp(80, 1024)),
            ip_frame(9, 6, server, client, &tcp(80, 1024)),
            ip_frame(0, 6, server, client, &tcp(80, 1024)[..10]),
        ];
        // Questions for the MAC address of a neighbour that is no client.
        frames.push(match is_v6 {
            true => {
                let solicitation = [vec![135, 0, 0, 0, 0, 0, 0, 0], bytes_of(other), vec![1, 1]];
                ip_frame(0, 58, server, other, &[solicitation.concat(), SERVER_MAC.to_vec()].concat())
            }
            false => {
                let sender = [SERVER_MAC.to_vec(), bytes_of(server)].concat();
                let request = [vec![8, 6, 0, 1, 8, 0, 6, 4, 0, 1], sender, vec![0; 6], bytes_of(other)];
                [[OWN_MAC, SERVER_MAC].concat(), request.concat()].concat()
            }
        });
        for cut in [15, 20, 33, 40] {
            frames.push(ip_frame(0, 6, server, client, &tcp(80, 1024))[..cut].to_vec());
        }
        for (number, frame) in frames.iter().enumerate() {
            let (verdict, out) = ConnectProgram::run_once(pair.program.receive_program(), frame).unwrap();
            assert_eq!((verdict, &out), (XDP_PASS, frame), "frame {number}, IPv6 {is_v6}");
        }
        assert_eq!(pair.program.frame_counts().passed, frames.len() as u64);
        pair.check();
    }
}

/// Settings of one request with a short response; the server closes.
fn one_request() -> Settings {
    Settings {
        request_len: 4,
        requests: 1,
        response_end: ResponseEnd::Close,
        close: Close::Server,
        holds: false,
        segment_max: 1460,
    }
}

fn loaded(params: &ConnectParams) -> ConnectProgram {
    let program = ConnectProgram::load(params).expect("the program loads");
    program.set_open_max(u64::MAX);
    program.set_new_left(u64::MAX);
    program.set_test_time(5_000_000_000);
    program.set_list(&[]);
    program
}

/// Opens the next connection; its SYN, if there was one.
fn open(program: &ConnectProgram) -> Option<Vec<u8>> {
    program.set_list(&[]);
    let (verdict, frame) = ConnectProgram::run_once(program.send_program(), &[0; 90]).unwrap();
    (verdict == 4).then_some(frame)
}

/// What the program answers to a segment of the server.
fn answer(
    program: &ConnectProgram,
    place: &Place,
    flags: u8,
    index: usize,
    payload: &[u8],
) -> (u32, Vec<u8>) {
    let Connection { rcv_nxt, snd_nxt, .. } = program.connection(index);
    let arrival = Arrival { seq: rcv_nxt, ack: snd_nxt, flags, ..Arrival::default() };
    let frame = segment(0, place, &arrival, payload, &mut Draw(1));
    ConnectProgram::run_once(program.receive_program(), &frame).unwrap()
}

/// The server answers with a datagram.
fn answer_datagram(program: &ConnectProgram, place: &Place, payload: &[u8]) {
    let len = (8 + payload.len() as u16).to_be_bytes();
    let ports = [place.server_port.to_be_bytes(), place.client_port.to_be_bytes()].concat();
    let body = [&ports[..], &len, &[0; 2], payload].concat();
    let frame = ip_frame(0, 17, place.server, place.client, &body);
    ConnectProgram::run_once(program.receive_program(), &frame).unwrap();
}

/// The place of a connection of a list of servers is the same in the program and in user space, for
/// frames both ways.
#[test]
fn each_server_of_a_list_is_reached_by_its_next_hop() {
    if !may_load() {
        return;
    }
    for is_v6 in [false, true] {
        let mut params = of_several_servers(params(is_v6, 0, one_request(), b"ask\n"));
        params.open_per_client = None;
        let program = loaded(&params);
        let count = params.addresses.connections() as usize;
        assert_eq!(count, 2 * 2 * 6);
        let mut macs = Vec::new();
        for index in 0..count {
            let place = params.addresses.place(index as u32);
            let frame = open(&program).expect("a SYN");
            let l3_len = if is_v6 { 40 } else { 20 };
            let address_len = if is_v6 { 16 } else { 4 };
            let tcp_at = 14 + l3_len;
            let addresses = [bytes_of(place.client), bytes_of(place.server)].concat();
            assert_eq!(frame[tcp_at - 2 * address_len..tcp_at], addresses, "{place:?}");
            let ports = [place.client_port.to_be_bytes(), place.server_port.to_be_bytes()].concat();
            assert_eq!(frame[tcp_at..tcp_at + 4], ports, "{place:?}");
            macs.push(frame[..6].to_vec());
            let (verdict, _) = answer(&program, &place, SYN | ACK, index, &[]);
            assert_eq!((verdict, program.state(index)), (XDP_TX, State::Asked), "{place:?}");
        }
        assert!(open(&program).is_none(), "all places are in use");
        assert_eq!(macs.iter().filter(|mac| mac[..] == OTHER_MAC).count(), 16, "four of six servers");
        // An address of one range with a port of another is no server.
        let stranger = Place { server_port: 81, ..params.addresses.place(0) };
        assert_eq!(answer(&program, &stranger, ACK, 0, &[]).0, XDP_PASS);
    }
}

#[test]
fn a_client_has_no_more_connections_than_its_limit() {
    if !may_load() {
        return;
    }
    for kind in [ConnectKind::Tcp, ConnectKind::Udp] {
        let mut params = of_several_servers(params(false, 0, one_request(), b"ask\n"));
        (params.kind, params.open_per_client) = (kind, Some(2));
        let program = loaded(&params);
        for _ in 0..4 {
            open(&program).expect("two connections of each client");
        }
        assert!(open(&program).is_none(), "both clients have two");
        assert_eq!((program.open_now(), program.frame_counts().open_per_client_max), (4, 2));
        // One that ends makes place for one more of the same client, with its next server.
        program.set_list(&[(1, Order::GiveUp)]);
        ConnectProgram::run_once(program.send_program(), &[0; 90]).unwrap();
        while open(&program).is_none() {}
        let (is_open, state) = (|index: usize| program.state(index).is_open(), program.state(1));
        assert_eq!((program.open_now(), state), (4, State::Timeout));
        let open_of = |client: usize| (0..program.len()).filter(|i| i % 2 == client && is_open(*i)).count();
        assert_eq!((open_of(0), open_of(1)), (2, 2));
    }
}

#[test]
fn the_next_connection_of_a_chain_is_one_of_the_same_client() {
    if !may_load() {
        return;
    }
    let mut params = of_several_servers(params(false, 0, one_request(), b"ask\n"));
    params.open_per_client = Some(1);
    let program = loaded(&params);
    program.set_chains(true);
    open(&program).expect("a SYN");
    let place = params.addresses.place(0);
    answer(&program, &place, SYN | ACK, 0, &[]);
    answer(&program, &place, FIN | PSH | ACK, 0, b"yes\n");
    let (verdict, frame) = answer(&program, &place, ACK, 0, &[]);
    let next = params.addresses.place(2);
    assert_eq!(
        (next.client, program.state(0), program.state(2)),
        (place.client, State::Done, State::SynSent)
    );
    assert_eq!((verdict, frame[47]), (XDP_TX, SYN), "the frame became the next SYN");
    assert_eq!(frame[26..34], [bytes_of(next.client), bytes_of(next.server)].concat());
    assert_eq!(program.frame_counts().open_per_client_max, 1);
}

#[test]
fn responses_are_counted_by_their_bytes() {
    if !may_load() {
        return;
    }
    for kind in [ConnectKind::Tcp, ConnectKind::Udp] {
        let mut params = params(false, 0, one_request(), b"ask\n");
        (params.kind, params.group_by) = (kind, Some(GroupBy { offset: 2, len: 3 }));
        params.addresses.client_port_count = 200;
        let program = loaded(&params);
        let mut next = 0;
        let mut receive = |payload: &[u8]| {
            let place = params.addresses.place(next as u32);
            open(&program).expect("a SYN or a datagram");
            if kind == ConnectKind::Tcp {
                answer(&program, &place, SYN | ACK, next, &[]);
                answer(&program, &place, PSH | ACK, next, payload);
                // The second segment of the response decides nothing.
                answer(&program, &place, FIN | PSH | ACK, next, b"..zzz");
            } else {
                answer_datagram(&program, &place, payload);
            }
            next += 1;
        };
        for payload in [&b"a-s1 "[..], b"b-s2 and more", b"c-s1 ", b"--s1 x", b"shor"] {
            receive(payload);
        }
        assert_eq!(program.groups(), [(b"s1 ".to_vec(), 3), (b"s2 ".to_vec(), 1)], "{kind:?}");
        assert_eq!((program.counts().responses, program.frame_counts().ungrouped), (5, 1), "{kind:?}");
        // Of more than 256 values, the others are counted together.
        for number in 0..255_u16 {
            receive(&[&b"#."[..], &number.to_be_bytes(), b"!"].concat());
        }
        assert_eq!(program.groups().len(), 256);
        assert_eq!(program.frame_counts().ungrouped, 2);
    }
}

#[test]
fn answers_that_report_an_error_are_counted() {
    if !may_load() {
        return;
    }
    let tls = |kind: u8, message: u8| vec![kind, 3, 3, 0, 2, message, 0];
    let http = |status: &str| format!("HTTP/1.1 {status}\r\n\r\n").into_bytes();
    for (check, payload, is_error) in [
        (AnswerCheck::Http, http("200 OK"), false),
        (AnswerCheck::Http, b"HTTP/1.0 302 Found\r\n\r\n".to_vec(), false),
        (AnswerCheck::Http, http("404 Not Found"), true),
        (AnswerCheck::Http, http("503 Service Unavailable"), true),
        (AnswerCheck::Http, b"SSH-2.0-OpenSSH\r\n".to_vec(), false),
        (AnswerCheck::Http, http("999 ?"), true),
        // The status is in a later segment.
        (AnswerCheck::Http, b"HTTP/1.1 ".to_vec(), false),
        (AnswerCheck::TlsHello, tls(22, 2), false),
        (AnswerCheck::TlsHello, tls(21, 2), true),
        (AnswerCheck::TlsHello, tls(22, 11), true),
        (AnswerCheck::TlsHello, b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), true),
        (AnswerCheck::Quic, vec![0x80, 0, 0, 0, 0], false),
        (AnswerCheck::Quic, vec![0x40, 1, 2, 3, 4], true),
        (AnswerCheck::Quic, vec![], true),
        (AnswerCheck::Any, http("404 Not Found"), false),
    ] {
        let mut params = params(false, 0, one_request(), b"ask\n");
        params.answer_check = check;
        let place = params.addresses.place(0);
        if check == AnswerCheck::Quic {
            params.kind = ConnectKind::Udp;
            let program = loaded(&params);
            open(&program).expect("a datagram");
            answer_datagram(&program, &place, &payload);
            assert_eq!(program.frame_counts().error_answers, u64::from(is_error), "{payload:x?}");
            continue;
        }
        let program = loaded(&params);
        open(&program).expect("a SYN");
        answer(&program, &place, SYN | ACK, 0, &[]);
        answer(&program, &place, PSH | ACK, 0, &payload);
        // Later segments of a response are no answers of their own.
        answer(&program, &place, FIN | PSH | ACK, 0, &http("500 Internal Server Error"));
        let counts = (program.counts().responses, program.frame_counts().error_answers);
        assert_eq!(counts, (1, u64::from(is_error)), "{check:?} {:?}", String::from_utf8_lossy(&payload));
    }
}

/// As a listening socket does it, which has asked for nothing (RFC 9293, 3.10.7.2).
#[test]
fn accept_resets_the_answer_to_a_syn_that_it_never_sent() {
    if !may_load() {
        return;
    }
    let server = "198.18.0.2".parse().unwrap();
    let accept = AcceptProgram::load(&AcceptParams {
        ifindex: 1,
        by_redirect: false,
        vlan: 0,
        own_mac: OWN_MAC,
        address: server,
        address_count: 1,
        answers_neighbours: true,
        port: 80,
        port_count: 1,
        segment_max: 1460,
        response: b"yes\n".to_vec(),
        closes: true,
        key: 1,
    })
    .expect("the program loads");
    // The other side is a server of this place, whose client is the program.
    let place =
        Place { client: server, client_port: 80, server: "198.18.0.9".parse().unwrap(), server_port: 5000 };
    for (flags, answered) in [(SYN, SYN | ACK), (SYN | ACK, RST)] {
        let arrival = Arrival { seq: 70, ack: 90, flags, ..Arrival::default() };
        let frame = segment(0, &place, &arrival, &[], &mut Draw(1));
        let (verdict, frame) = ConnectProgram::run_once(accept.program(), &frame).unwrap();
        assert_eq!((verdict, frame[47]), (XDP_TX, answered), "flags {flags:#x}");
        if flags & ACK != 0 {
            assert_eq!(frame[38..42], 90_u32.to_be_bytes(), "a reset has the number that was acknowledged");
        }
    }
    assert_eq!(accept.counts().segments.accepted, 1);
}
