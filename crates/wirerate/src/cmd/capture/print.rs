//! A line per frame while a capture runs (`--print`): time, device, direction, addresses, ports,
//! flags and length.

use super::args::Args;
use capture::{Shown, ShownFrame, ShownFrames};
use packet::headers::{
    FirstHeader, Header, Protocol, Walk, arp, ethernet, geneve, gre, gtpu, icmp, ipv4, ipv6, mpls, sctp, tcp,
    udp, vlan, vxlan,
};
use sender::layer_text::icmp_name;
use sender::layers::tcp_flags;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;
use std::time::Duration;
use units::{clock_time_ns, human_count, quantity_of};

/// Longest time at the end for lines that wait for a slow terminal or pipe.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// Bytes of lines that are printed at once.
const LINES_LEN_MAX: usize = 64 << 10;

/// What XDP programs return, by number (`enum xdp_action`).
const XDP_VERDICTS: [&str; 5] = ["XDP_ABORTED", "XDP_DROP", "XDP_PASS", "XDP_TX", "XDP_REDIRECT"];

/// Prints the frames of a capture on a thread of its own, so that a slow terminal holds up nothing.
#[derive(Debug)]
pub struct FramePrinter {
    offered: Arc<AtomicU64>,
    printed: Arc<AtomicU64>,
    /// The program that reads the lines has ended.
    is_closed: Arc<AtomicBool>,
    /// Gets nothing: ends when the thread does.
    done: Receiver<()>,
}

/// Frames that were printed, and all others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrintCounts {
    /// One line each.
    pub printed: u64,
    /// More than --print-rate, or not taken by the terminal or pipe.
    pub not_printed: u64,
}

impl FramePrinter {
    /// Starts to print, on standard error if standard output has something else.
    ///
    /// # Errors
    /// When there is no thread for it.
    pub fn start(shown: ShownFrames, args: &Args, offset_s: i32) -> io::Result<Self> {
        let (sender, done) = channel();
        let (printed, is_closed) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let printer = Self {
            offered: shown.offered,
            printed: Arc::clone(&printed),
            is_closed: is_closed.clone(),
            done,
        };
        let is_aside = args.json || args.csv || args.is_stdout();
        let frames = shown.frames;
        let work = move || {
            let end = match is_aside {
                true => print_all(&frames, &mut io::stderr(), &printed, offset_s),
                false => print_all(&frames, &mut io::stdout(), &printed, offset_s),
            };
            is_closed.store(end.is_err(), Relaxed);
            drop(sender);
        };
        thread::Builder::new().name("capture-print".to_owned()).spawn(work)?;
        Ok(printer)
    }

    /// True once the program that reads the lines has ended.
    pub fn is_closed(&self) -> bool {
        self.is_closed.load(Relaxed)
    }

    /// The counts after the end of the capture, when all lines are printed. Does not wait long for
    /// a terminal or pipe that takes nothing.
    pub fn end(self) -> PrintCounts {
        // The thread has ended, or the time is over.
        let _ = self.done.recv_timeout(END_TIMEOUT);
        let printed = self.printed.load(Relaxed);
        PrintCounts { printed, not_printed: self.offered.load(Relaxed).saturating_sub(printed) }
    }
}

/// Prints until the capture has ended. Lines are flushed when no further one is there.
fn print_all(
    frames: &Receiver<Shown>,
    out: &mut impl Write,
    printed: &AtomicU64,
    offset_s: i32,
) -> io::Result<()> {
    let mut lines = String::new();
    let mut count = 0;
    let mut next = frames.recv().ok();
    while let Some(shown) = next {
        match shown {
            Shown::Frame(frame) => {
                count += 1;
                lines.push_str(&line(&frame, offset_s));
            }
            Shown::Skipped(skipped) => {
                let _ = write!(lines, "({} not printed: --print-rate)", quantity_of(skipped, "frame"));
            }
        }
        lines.push('\n');
        if lines.len() >= LINES_LEN_MAX {
            flush(&mut lines, out, &mut count, printed)?;
        }
        next = match frames.try_recv() {
            Ok(shown) => Some(shown),
            Err(TryRecvError::Disconnected) => None,
            Err(TryRecvError::Empty) => {
                flush(&mut lines, out, &mut count, printed)?;
                frames.recv().ok()
            }
        };
    }
    flush(&mut lines, out, &mut count, printed)
}

fn flush(lines: &mut String, out: &mut impl Write, count: &mut u64, printed: &AtomicU64) -> io::Result<()> {
    out.write_all(lines.as_bytes())?;
    out.flush()?;
    lines.clear();
    printed.fetch_add(std::mem::take(count), Relaxed);
    Ok(())
}

/// The line of a frame, without a newline.
fn line(frame: &ShownFrame, offset_s: i32) -> String {
    let direction = if frame.is_outgoing { "out" } else { "in " };
    let mut line = format!("{} {} {direction}", clock_time_ns(frame.time_ns, offset_s), frame.device);
    match FirstHeader::of_link_type(frame.link_type) {
        Some(first) => add_headers(&mut line, &frame.data, first),
        None => {
            let _ = write!(line, " link type {}", frame.link_type);
        }
    }
    let _ = write!(line, " length {}", frame.frame_len);
    if frame.captured_len < frame.frame_len {
        let _ = write!(line, " ({} captured)", human_count(frame.captured_len.into()));
    }
    if let Some(verdict) = frame.xdp_verdict {
        match XDP_VERDICTS.get(verdict as usize) {
            Some(name) => line.extend([" ", name]),
            None => {
                let _ = write!(line, " XDP verdict {verdict}");
            }
        }
    }
    line
}

/// The addresses of a packet, until its ports are known.
type Addresses = Option<(IpAddr, IpAddr)>;

/// Names the headers from the outside in. What an ICMP error quotes is left out.
fn add_headers(line: &mut String, data: &[u8], first: FirstHeader) {
    let (mut addresses, mut named) = (None, 0);
    let mut macs = None;
    for header in Walk::new(data, first).take_while(|header| !header.is_quoted) {
        let bytes = header.bytes(data);
        match header.protocol {
            Protocol::Ethernet => macs = ethernet::View::new(bytes).map(|view| view.fields()),
            Protocol::Ipv4 | Protocol::Ipv6 => {
                add_addresses(line, &mut addresses, &mut named);
                addresses = addresses_of(&header, bytes);
            }
            _ => named += usize::from(add_header(line, &header, bytes, &mut addresses)),
        }
    }
    add_addresses(line, &mut addresses, &mut named);
    if let Some(ethernet) = macs.filter(|_| named == 0) {
        let _ = write!(line, " {} > {} type {:#06x}", ethernet.src, ethernet.dst, ethernet.ether_type);
    }
}

fn addresses_of(header: &Header, bytes: &[u8]) -> Addresses {
    match header.protocol {
        Protocol::Ipv4 => {
            let fields = ipv4::View::new(bytes)?.fields();
            Some((fields.src.into(), fields.dst.into()))
        }
        _ => {
            let fields = ipv6::View::new(bytes)?.fields();
            Some((fields.src.into(), fields.dst.into()))
        }
    }
}

/// Addresses of a packet without ports.
fn add_addresses(line: &mut String, addresses: &mut Addresses, named: &mut usize) {
    if let Some((src, dst)) = addresses.take() {
        let _ = write!(line, " {src} > {dst}");
        *named += 1;
    }
}

/// Names a header behind the addresses; false for one that is left out.
fn add_header(line: &mut String, header: &Header, bytes: &[u8], addresses: &mut Addresses) -> bool {
    let text = match header.protocol {
        Protocol::Tcp => tcp::View::new(bytes).map(|view| {
            let fields = view.fields();
            let flags = tcp_flags(fields.flags as u8).join(" ");
            format!("TCP{} [{flags}]", ports(addresses, fields.src_port, fields.dst_port))
        }),
        Protocol::Udp => udp::View::new(bytes)
            .map(|view| format!("UDP{}", ports(addresses, view.src_port(), view.dst_port()))),
        Protocol::Sctp => sctp::View::new(bytes).map(|view| {
            let fields = view.fields();
            format!("SCTP{}", ports(addresses, fields.src_port, fields.dst_port))
        }),
        Protocol::Icmp | Protocol::Icmpv6 => icmp_text(header, bytes),
        Protocol::Arp => arp_text(bytes),
        Protocol::Vlan => vlan::View::new(bytes).map(|view| format!("VLAN {}", view.id())),
        Protocol::Mpls => mpls::View::new(bytes).map(|view| format!("MPLS {}", view.fields().label)),
        Protocol::Vxlan => vxlan::View::new(bytes).map(|view| format!("VXLAN {}", view.fields().vni)),
        Protocol::Geneve => geneve::View::new(bytes).map(|view| format!("GENEVE {}", view.fields().vni)),
        Protocol::Gtpu => gtpu::View::new(bytes).map(|view| format!("GTP-U {:#x}", view.fields().teid)),
        Protocol::Gre => gre::View::new(bytes).map(|view| match view.key() {
            Some(key) => format!("GRE key {key}"),
            None => "GRE".to_owned(),
        }),
        protocol => name(protocol).map(str::to_owned),
    };
    let Some(text) = text else { return false };
    if let Some((src, dst)) = addresses.take() {
        let _ = write!(line, " {src} > {dst}");
    }
    let _ = write!(line, " {text}");
    true
}

/// Protocols of which only the name is shown.
fn name(protocol: Protocol) -> Option<&'static str> {
    Some(match protocol {
        Protocol::Pppoe => "PPPoE",
        Protocol::Ah => "AH",
        Protocol::Esp => "ESP",
        Protocol::Igmp => "IGMP",
        Protocol::UdpLite => "UDP-Lite",
        Protocol::Dccp => "DCCP",
        Protocol::Ospf => "OSPF",
        Protocol::Pim => "PIM",
        Protocol::Vrrp => "VRRP",
        Protocol::Erspan => "ERSPAN",
        Protocol::Llc => "LLC",
        _ => return None,
    })
}

/// Takes the addresses and writes them with their ports: ` 198.18.0.1:9 > 198.18.0.2:9`.
fn ports(addresses: &mut Addresses, src_port: u16, dst_port: u16) -> String {
    match addresses.take() {
        Some((IpAddr::V4(src), IpAddr::V4(dst))) => format!(" {src}:{src_port} > {dst}:{dst_port}"),
        Some((src, dst)) => format!(" [{src}]:{src_port} > [{dst}]:{dst_port}"),
        None => format!(" {src_port} > {dst_port}"),
    }
}

fn icmp_text(header: &Header, bytes: &[u8]) -> Option<String> {
    let is_v6 = header.protocol == Protocol::Icmpv6;
    let [kind, code] = *bytes.first_chunk()?;
    let protocol = if is_v6 { "ICMPv6" } else { "ICMP" };
    let name = icmp_name(kind, is_v6);
    let number = |at: usize| Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?));
    Some(match (name, number(icmp::CHECKSUM_AT + 2), number(icmp::CHECKSUM_AT + 4)) {
        (Some(name), Some(id), Some(seq)) if name.starts_with("echo") => {
            format!("{protocol} {name} id {id} seq {seq}")
        }
        (Some(name), ..) => format!("{protocol} {name} code {code}"),
        (None, ..) => format!("{protocol} type {kind} code {code}"),
    })
}

fn arp_text(bytes: &[u8]) -> Option<String> {
    let view = arp::View::new(bytes)?;
    let address = |at: usize| Some(IpAddr::from(*bytes.get(at..)?.first_chunk::<4>()?));
    let operation = view.fields().operation;
    let Some([sender, target]) = view.ip_places().map(|places| places.map(address)) else {
        return Some(format!("ARP operation {operation}"));
    };
    let (sender, target) = (sender?, target?);
    Some(match operation {
        1 => format!("ARP who has {target}? tell {sender}"),
        2 => format!("ARP {sender} answers {target}"),
        _ => format!("ARP operation {operation} {sender} > {target}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use frames::{Expander, NoCaptures, PacketOrder, ParseSettings};
    use std::sync::mpsc::sync_channel;

    /// A frame in trafgen's language.
    fn frame(packet: &str) -> ShownFrame {
        let specs = frames::parse(packet.as_bytes(), &ParseSettings::default(), &mut NoCaptures);
        let specs = specs.unwrap_or_else(|error| panic!("{error}"));
        let mut frames = Expander::new(&specs, PacketOrder::RoundRobin, 1);
        let data = frames.next_frame().expect("there are packets").to_vec();
        ShownFrame {
            time_ns: 1_795_313_700_250_999_999,
            device: "eth1".into(),
            link_type: 1,
            is_outgoing: false,
            frame_len: data.len() as u32,
            captured_len: data.len() as u32,
            xdp_verdict: None,
            data,
        }
    }

    #[test]
    fn the_verdict_of_an_xdp_program_has_its_name() {
        let whole = frame("{ fill(0, 60) }");
        for (verdict, end) in [(1, "length 60 XDP_DROP"), (4, "length 60 XDP_REDIRECT"), (9, "XDP verdict 9")]
        {
            let text = line(&ShownFrame { xdp_verdict: Some(verdict), ..whole.clone() }, 0);
            assert!(text.ends_with(end), "{text}");
        }
    }

    #[test]
    fn a_frame_has_a_line_with_its_addresses_ports_flags_and_length() {
        let eth = "eth(da=02:00:00:00:00:02, sa=02:00:00:00:00:01";
        let ip = "ipv4(sa=10.0.0.1, da=10.0.0.2)";
        for (packet, expected) in [
            (
                format!("{{ {eth}) {ip} udp(sp=5, dp=9) fill(0, 18) }}"),
                "UDP 10.0.0.1:5 > 10.0.0.2:9 length 60",
            ),
            (
                format!("{{ {eth}) {ip} tcp(sp=5, dp=80, syn, ack) }}"),
                "TCP 10.0.0.1:5 > 10.0.0.2:80 [SYN ACK] length 54",
            ),
            (
                format!("{{ {eth}) vlan(id=7, type=0x86dd) ipv6(sa=fd00::1, da=fd00::2) udp(sp=5, dp=9) }}"),
                "VLAN 7 UDP [fd00::1]:5 > [fd00::2]:9 length 66",
            ),
            (
                format!("{{ {eth}) {ip} icmp4(type=8, code=0, id=3, seq=4) }}"),
                "10.0.0.1 > 10.0.0.2 ICMP echo request id 3 seq 4 length 42",
            ),
            (
                format!("{{ {eth}, type=0x88cc) fill(0, 46) }}"),
                "02:00:00:00:00:01 > 02:00:00:00:00:02 type 0x88cc length 60",
            ),
        ] {
            assert_eq!(line(&frame(&packet), 3600), format!("03:15:00.250999999 eth1 in  {expected}"));
        }
        let cut =
            ShownFrame { is_outgoing: true, link_type: 147, captured_len: 20, ..frame("{ fill(0, 60) }") };
        let expected = "02:15:00.250999999 eth1 out link type 147 length 60 (20 captured)";
        assert_eq!(line(&cut, 0), expected);
    }

    #[test]
    fn cut_and_broken_frames_have_a_line() {
        let whole = frame("{ eth() ipv4(sa=10.0.0.1, da=10.0.0.2) tcp(sp=5, dp=80) fill(0, 40) }");
        for len in 0..whole.data.len() {
            let data = whole.data[..len].to_vec();
            let text = line(&ShownFrame { data, captured_len: len as u32, ..whole.clone() }, 0);
            assert!(text.ends_with(&format!(" length 94 ({len} captured)")), "{text}");
        }
    }

    #[test]
    fn lines_are_counted_when_they_are_out_and_skipped_frames_are_told() {
        let (sender, frames) = sync_channel(10);
        let one = frame("{ eth() fill(0, 46) }");
        for shown in [Shown::Frame(one.clone()), Shown::Skipped(23), Shown::Frame(one)] {
            sender.send(shown).unwrap();
        }
        drop(sender);
        let (mut out, printed) = (Vec::new(), AtomicU64::new(0));
        print_all(&frames, &mut out, &printed, 0).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.lines().count(), 3);
        assert!(text.contains("\n(23 frames not printed: --print-rate)\n"), "{text}");
        assert_eq!(printed.load(Relaxed), 2);
    }
}
