//! Capture filters: expressions like `udp port 9`, compiled by libpcap, or by tcpdump where libpcap
//! cannot be loaded.
//!
//! They compile without a live device, so that the result looks at the bytes of frames as they were
//! on the wire: it fits XDP, packet sockets and files alike. The kernel takes a VLAN tag off before
//! a packet socket sees the frame, so the process runs the filter on such frames
//! ([`SocketFilter`]).

use super::tcpdump;
use crate::record::encode::with_tag;
use crate::record::ring::RingRecord;
use crate::record::ring_handle::RingDevice;
use crate::sys::pcap::NETMASK_UNKNOWN;
use crate::sys::{
    self,
    pcap::{self, CompileError},
};
use crate::{CaptureError, SNAPLEN_WHOLE, describe};
use filter::{BesideFrame, Classic, Ebpf};
use host::{Link, Stack};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// `LINKTYPE_RAW` in files, and what libpcap calls it inside (`DLT_RAW`).
const LINK_TYPE_RAW: u16 = 101;
const DLT_RAW: i32 = 12;

/// Compiles `expression` for frames of a link type, as capture files number them. The program keeps
/// the first `snaplen` bytes of frames that match.
///
/// # Errors
/// [`CaptureError::NoFilterCompiler`], [`CaptureError::Filter`] with what libpcap says,
/// [`CaptureError::FilterProgram`] for what the kernel could not run,
/// [`CaptureError::FilterTakesLong`]; [`CaptureError::Interrupted`] once the user has asked to end.
pub(crate) fn compile(
    expression: &str,
    link_type: u16,
    snaplen: u32,
    interrupted: &AtomicBool,
) -> Result<Classic, CaptureError> {
    compile_on(expression, link_type, snaplen, NETMASK_UNKNOWN, interrupted)
}

/// Compiles `expression` for frames of a link type, on a device whose IPv4 network has this
/// netmask. The program keeps the first `snaplen` bytes of frames that match.
fn compile_on(
    expression: &str,
    link_type: u16,
    snaplen: u32,
    netmask: u32,
    interrupted: &AtomicBool,
) -> Result<Classic, CaptureError> {
    let dlt = if link_type == LINK_TYPE_RAW { DLT_RAW } else { link_type.into() };
    let said = |failure| match failure {
        CompileError::Missing(reason) => CaptureError::NoFilterCompiler { reason },
        CompileError::Refused(reason) => CaptureError::Filter { expression: expression.to_owned(), reason },
        CompileError::TakesLong => CaptureError::FilterTakesLong { expression: shortened(expression) },
    };
    let text = pcap::c_string(expression).map_err(said)?;
    let words = expression.to_owned();
    let work = move || match pcap::compile(&text, dlt, snaplen as i32, netmask) {
        Err(CompileError::Missing(no_library)) => match tcpdump::compile(&words, dlt, snaplen) {
            Err(CompileError::Missing(no_program)) => {
                Err(CompileError::Missing(format!("{no_library}; {no_program}")))
            }
            compiled => compiled,
        },
        compiled => compiled,
    };
    let program = within_limit(expression, interrupted, work)?;
    Classic::with_loops(program.map_err(said)?)
        .map_err(|source| CaptureError::FilterProgram { expression: shortened(expression), source })
}

/// Compiles `expression` for frames of a device of the calling thread's namespace.
///
/// # Errors
/// [`CaptureError::LinkLayer`] when capture files have no number for the device's link layer; the
/// errors of [`compile`] when there is no compiler, the expression is rejected or takes too long,
/// or the user has asked to end.
pub(crate) fn for_device(
    expression: &str,
    link: &Link,
    snaplen: u32,
    interrupted: &AtomicBool,
) -> Result<Classic, CaptureError> {
    let netmask = Stack::here().ok().and_then(|stack| netmask_of(&stack, link));
    for_device_in(expression, link, snaplen, netmask.unwrap_or(NETMASK_UNKNOWN), interrupted)
}

/// Compiles `expression` for frames of a device whose IPv4 network has this netmask.
///
/// # Errors
/// [`CaptureError::LinkLayer`] when capture files have no number for the device's link layer; the
/// errors of [`compile`] when there is no compiler, the expression is rejected or takes too long,
/// or the user has asked to end.
pub(crate) fn for_device_in(
    expression: &str,
    link: &Link,
    snaplen: u32,
    netmask: u32,
    interrupted: &AtomicBool,
) -> Result<Classic, CaptureError> {
    compile_on(expression, describe::link_type(link)?, snaplen, netmask, interrupted)
}

/// The netmask of the first IPv4 network of a device of `stack`; `None` without one.
pub(crate) fn netmask_of(stack: &Stack, link: &Link) -> Option<u32> {
    let addresses = stack.addresses(link.index).unwrap_or_default();
    let v4 = addresses.iter().find(|address| address.ip.is_ipv4())?;
    Some(netmask(v4.prefix_len))
}

/// The mask of a prefix. That of all bits is what libpcap calls unknown.
fn netmask(prefix_len: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(prefix_len.min(32))).unwrap_or(0)
}

/// Why XDP programs cannot run a filter that packet sockets can; `None` if they can.
pub(crate) fn sockets_only(filter: &Classic) -> Option<&'static str> {
    match (filter.has_loops(), filter.asks_for_direction()) {
        (true, _) => Some("it loops, as `protochain` does"),
        (_, true) => Some("it asks for the direction, and XDP sees incoming frames only"),
        _ => None,
    }
}

/// A filter of a packet socket, in two parts: the kernel's and that of the process.
#[derive(Clone, Debug)]
pub(crate) struct SocketFilter {
    filter: Classic,
    /// What the kernel runs.
    pub(crate) kernel: Classic,
    /// True if the kernel passes every frame and the process decides.
    sees_all: bool,
}

impl SocketFilter {
    /// Frames without a removed tag are up to the kernel, unless it cannot run the filter.
    pub(crate) fn new(filter: Classic) -> Self {
        match filter.has_loops() {
            true => Self::in_process(filter),
            false => Self { kernel: filter.passing_removed_tags(), filter, sees_all: false },
        }
    }

    /// The process runs it on every frame.
    pub(crate) fn in_process(filter: Classic) -> Self {
        Self { filter, kernel: Classic::keep(SNAPLEN_WHOLE), sees_all: true }
    }

    /// The filter as the user gave it.
    pub(crate) fn filter(&self) -> &Classic {
        &self.filter
    }

    /// True if the process sees every frame, so that it counts those that do not match.
    pub(crate) fn sees_all(&self) -> bool {
        self.sees_all
    }

    /// True for a frame that matches; `scratch` is memory for frames whose tag is put back.
    pub(crate) fn accepts(&self, record: &RingRecord<'_>, scratch: &mut Vec<u8>) -> bool {
        let data = match record.vlan {
            // The kernel has run it.
            None if !self.sees_all => return true,
            None => record.data,
            Some(tag) => with_tag(record.data, tag, usize::MAX, scratch),
        };
        let beside = BesideFrame { is_outgoing: record.flags.is_outbound(), ifindex: record.ifindex };
        self.filter.run_beside(data, record.frame_len, beside) > 0
    }
}

/// A filter that the process runs on whole frames of devices with several kinds of frames.
pub(crate) struct LinkFilter {
    expression: String,
    /// The program for each link type. `None` where libpcap has none: frames of that kind do not
    /// match.
    programs: BTreeMap<u16, Option<Classic>>,
    interrupted: Arc<AtomicBool>,
}

impl LinkFilter {
    /// For devices of these link types; others may appear.
    ///
    /// # Errors
    /// The first error of [`compile`] when `expression` compiles for none of the link types.
    pub(crate) fn new(
        expression: &str,
        link_types: &BTreeSet<u16>,
        interrupted: &Arc<AtomicBool>,
    ) -> Result<Self, CaptureError> {
        // Each is compiled once, however many interfaces have it.
        let (mut programs, mut refusal) = (BTreeMap::new(), None);
        for link_type in link_types {
            let program = compile(expression, *link_type, SNAPLEN_WHOLE, interrupted);
            programs.insert(*link_type, program.map_err(|error| refusal.get_or_insert(error)).ok());
        }
        // It has to fit one kind of frames.
        match refusal.filter(|_| programs.values().all(Option::is_none)) {
            Some(error) => Err(error),
            None => {
                let (expression, interrupted) = (expression.to_owned(), Arc::clone(interrupted));
                Ok(Self { expression, programs, interrupted })
            }
        }
    }

    /// True if it asks which way a frame goes.
    pub(crate) fn asks_for_direction(&self) -> bool {
        self.programs.values().flatten().any(Classic::asks_for_direction)
    }

    /// True for a frame of `device` that matches.
    pub(crate) fn accepts(
        &mut self,
        data: &[u8],
        frame_len: u32,
        is_outgoing: bool,
        device: &RingDevice,
    ) -> bool {
        let Self { expression, programs, interrupted } = self;
        let compile = || compile(expression, device.link_type, SNAPLEN_WHOLE, interrupted).ok();
        let program = programs.entry(device.link_type).or_insert_with(compile);
        let beside = BesideFrame { is_outgoing, ifindex: device.index };
        program.as_ref().is_some_and(|program| program.run_beside(data, frame_len, beside) > 0)
    }
}

/// The filter as a function for an XDP program on `link`.
///
/// # Errors
/// [`CaptureError::LinkLayer`] when capture files have no number for the device's link layer; the
/// errors of [`compile`] when there is no compiler, the expression is rejected or takes too long,
/// or the user has asked to end. [`CaptureError::FilterNeedsSockets`] for a filter that loops or
/// asks for the direction; [`CaptureError::FilterProgram`] for one that is too long for XDP.
pub(crate) fn translated(
    expression: &str,
    link: &Link,
    snaplen: u32,
    interrupted: &AtomicBool,
) -> Result<Vec<Ebpf>, CaptureError> {
    let classic = for_device(expression, link, snaplen, interrupted)?;
    if let Some(why) = sockets_only(&classic) {
        return Err(CaptureError::FilterNeedsSockets { expression: shortened(expression), why });
    }
    ::filter::translate(&classic, link.index)
        .map_err(|source| CaptureError::FilterProgram { expression: shortened(expression), source })
}

/// CPU time that libpcap may take. With long lists of ports or addresses it needs time in the
/// square of their length: 100 ports 0.2 s, 400 ports 11 s and more, 2,000 ports half an hour.
const CPU_TIME_MAX: Duration = Duration::from_millis(1500);
/// Time between two looks at the user's request to end.
const LOOK: Duration = Duration::from_millis(10);

/// Does `work` on a thread of its own. One that takes too long is left behind: libpcap cannot be
/// asked to end, and the caller ends the process.
fn within_limit<T: Send + 'static>(
    expression: &str,
    interrupted: &AtomicBool,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, CaptureError> {
    let (sender, done) = channel();
    let no_thread = |source| CaptureError::Thread { what: "the filter".to_owned(), source };
    let thread = thread::Builder::new().name("filter".to_owned());
    // The receiver has gone only when the result is not waited for any more.
    let thread = thread.spawn(move || drop(sender.send(work()))).map_err(no_thread)?;
    loop {
        match done.recv_timeout(LOOK) {
            Ok(result) => return Ok(result),
            Err(RecvTimeoutError::Disconnected) => panic!("libpcap's thread ended without a result"),
            Err(RecvTimeoutError::Timeout) if interrupted.load(Relaxed) => {
                return Err(CaptureError::Interrupted { during: "its filter was compiled" });
            }
            Err(RecvTimeoutError::Timeout) if sys::cpu_time_of(&thread) > CPU_TIME_MAX => {
                return Err(CaptureError::FilterTakesLong { expression: shortened(expression) });
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

/// The beginning of an expression that may have thousands of words.
fn shortened(expression: &str) -> String {
    const CHARS_MAX: usize = 60;
    match expression.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{}...", &expression[..end]),
        None => expression.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compile(expression: &str, link_type: u16, snaplen: u32) -> Result<Classic, CaptureError> {
        super::compile(expression, link_type, snaplen, &AtomicBool::new(false))
    }

    const ETHERNET: u16 = 1;

    /// True when libpcap is installed. Without it the calling test is skipped.
    fn has_libpcap() -> bool {
        match compile("ip", ETHERNET, 96) {
            Err(CaptureError::NoFilterCompiler { reason }) => {
                testkit::skip(format_args!("needs libpcap: {reason}"));
                false
            }
            _ => true,
        }
    }

    /// The constant of libpcap is in the order of the machine.
    #[test]
    fn the_broadcast_address_is_that_of_the_network_of_the_device() {
        if !has_libpcap() {
            return;
        }
        let no = AtomicBool::new(false);
        let filter = compile_on("ip broadcast", ETHERNET, 96, netmask(24), &no).unwrap();
        for (last, is_broadcast) in [(255, true), (0, true), (7, false)] {
            let frame = frame(0x800, &[(14, 0x45), (30, 198), (31, 18), (33, last)]);
            assert_eq!(filter.run(&frame) > 0, is_broadcast, "198.18.0.{last}");
        }
        let refused = compile_on("ip broadcast", ETHERNET, 96, NETMASK_UNKNOWN, &no).unwrap_err();
        assert!(refused.to_string().contains("netmask"), "{refused}");
        assert_eq!([netmask(0), netmask(15), netmask(32)], [0, 0xfffe_0000, u32::MAX]);
    }

    fn frame(ethertype: u16, rest: &[(usize, u8)]) -> Vec<u8> {
        let mut frame = vec![0; 80];
        frame[12..14].copy_from_slice(&ethertype.to_be_bytes());
        rest.iter().for_each(|&(at, byte)| frame[at] = byte);
        frame
    }

    #[test]
    fn libpcap_and_our_reading_of_its_programs_agree() {
        testkit::needs!(has_libpcap());
        let udp4 = frame(0x800, &[(14, 0x45), (23, 17), (37, 9)]);
        let udp6 = frame(0x86dd, &[(14, 0x60), (20, 17), (57, 9)]);
        let tcp4 = frame(0x800, &[(14, 0x45), (23, 6), (37, 80), (47, 2)]);
        let tagged = frame(0x8100, &[(15, 5), (16, 8), (17, 0), (18, 0x45), (27, 17), (41, 9)]);
        for (expression, udp4_len, udp6_len, tcp4_len, tagged_len) in [
            ("", 96, 96, 96, 96),
            ("udp port 9", 96, 96, 0, 0),
            ("udp dst port 9 and ip", 96, 0, 0, 0),
            ("tcp[tcpflags] & tcp-syn != 0", 0, 0, 96, 0),
            ("vlan 5 and udp port 9", 0, 0, 0, 96),
            ("vlan 6", 0, 0, 0, 0),
            ("len > 80", 0, 0, 0, 0),
            ("len = 80 and not arp", 96, 96, 96, 96),
            ("ip[2:2] / 7 == 0 and ip[9] * 2 = 34", 96, 0, 0, 0),
            ("ip[9] - ip[9] == 0 && 1 << (ip[9] - 16) = 2", 96, 0, 0, 0),
            ("ip6", 0, 96, 0, 0),
        ] {
            let filter = compile(expression, ETHERNET, 96).unwrap();
            let kept = [&udp4, &udp6, &tcp4, &tagged].map(|frame| filter.run(frame));
            assert_eq!(kept, [udp4_len, udp6_len, tcp4_len, tagged_len], "{expression}");
        }
    }

    #[test]
    fn a_wrong_expression_is_refused_in_libpcaps_words() {
        testkit::needs!(has_libpcap());
        let error = compile("udp prot 9", ETHERNET, 96).unwrap_err();
        assert!(error.to_string().starts_with("the filter \"udp prot 9\" is not understood: "), "{error}");
        let CaptureError::Filter { reason, .. } = error else { panic!("{error}") };
        assert!(!reason.is_empty());
        assert!(matches!(compile("udp\0", ETHERNET, 96), Err(CaptureError::Filter { .. })));
    }

    #[test]
    fn loops_run_in_the_process_and_not_by_xdp() {
        testkit::needs!(has_libpcap());
        let filter = compile("ip6 protochain 17", ETHERNET, 96).unwrap();
        assert!(sockets_only(&filter).unwrap().contains("protochain"));
        let filter = SocketFilter::new(filter);
        assert!(filter.sees_all() && filter.kernel == Classic::keep(SNAPLEN_WHOLE));
        let mut frame = frame(0x86dd, &[(14, 0x60), (20, 0), (54, 17)]);
        fn record(data: &[u8]) -> RingRecord<'_> {
            RingRecord {
                time_ns: 0,
                time_source: crate::record::ring::TimeSource::TimeOfDay,
                frame_len: 80,
                ifindex: 1,
                queue_index: 0,
                flags: pcapng::PacketFlags::INBOUND,
                vlan: None,
                xdp_verdict: None,
                lost_before: 0,
                data,
            }
        }
        assert!(filter.accepts(&record(&frame), &mut Vec::new()), "behind a header of options");
        frame[54] = 6;
        assert!(!filter.accepts(&record(&frame), &mut Vec::new()));
    }

    #[test]
    fn frames_without_a_link_header_begin_with_ip() {
        testkit::needs!(has_libpcap());
        let mut packet = vec![0; 40];
        (packet[0], packet[9], packet[23]) = (0x45, 17, 9);
        assert_eq!(compile("udp port 9", LINK_TYPE_RAW, 96).unwrap().run(&packet), 96);
    }

    #[test]
    fn a_filter_that_takes_long_is_refused_and_a_signal_ends_its_compilation() {
        let is_over = Arc::<AtomicBool>::default();
        let work = || {
            let is_over = Arc::clone(&is_over);
            move || while !is_over.load(Relaxed) {}
        };
        let ports: Vec<String> = (1..=2_000).map(|port| format!("port {port}")).collect();
        let expression = ports.join(" or ");
        let error = within_limit(&expression, &AtomicBool::new(true), work()).unwrap_err();
        assert!(matches!(error, CaptureError::Interrupted { .. }), "{error}");
        let error = within_limit(&expression, &AtomicBool::new(false), work()).unwrap_err();
        is_over.store(true, Relaxed);
        assert!(error.to_string().starts_with("the filter \"port 1 or port 2 or "), "{error}");
        assert!(error.to_string().len() < 200 && error.is_bad_usage(), "{error}");
        assert!(matches!(error, CaptureError::FilterTakesLong { .. }));
    }
}
