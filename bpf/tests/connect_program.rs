//! `connect.bpf.c`, run by `BPF_PROG_RUN` on made-up frames, against the rules of the crate
//! `connect`. Needs CAP_BPF.

mod common;

use bpf::{ConnectKind, ConnectParams, ConnectProgram};
use common::{XDP_DROP, XDP_PASS, XDP_TX, may_load};
use connect::{
    ACK, Addresses, Arrival, Close, Connection, Counts, Departure, Events, FIN, Order, PSH, Place, RST,
    ResponseEnd, SYN, Settings, State, Verdict, initial_number,
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
        next_hop_mac: SERVER_MAC,
        addresses: Addresses {
            client: client.parse().unwrap(),
            client_count: 2,
            client_port: 1024,
            client_port_count: 2,
            server: server.parse().unwrap(),
            server_count: 1,
            server_port: 80,
            server_port_count: 1,
        },
        settings,
        kind: ConnectKind::Tcp,
        request: request.to_vec(),
        key: 0x1234_5678_9abc_def0,
        has_test_clock: true,
    }
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
                        if let Err(why) = ConnectProgram::load(&params) {
                            panic!("{params:?}: {why}");
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
        assert_eq!(options, [], "no options");
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
