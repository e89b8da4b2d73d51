//! The capture program and the receiver bound to a device, which read timestamps and VLAN tags from
//! the driver.
//! Needs root; a veth in a namespace of its own is the device. What veth answers (6.18): 0 as the
//! time of every frame that came as an skb, and the tag that the sender left to the device.

#[expect(dead_code, reason = "it serves other tests too")]
mod common;

use bpf::abi::{CaptureCpu, RecordKind};
use bpf::capture::{CaptureProgram, Geometry, Metadata, RecordFormat, possible_cpus};
use bpf::xdp::{XdpMode, XdpModeChoice};
use bpf::{Receiver, ReceiverParams, SinkVerdict};
use measure::Signature;
use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::process::Command;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

fn ip(words: &str) {
    let output = Command::new("ip").args(words.split(' ')).output().expect("ip runs");
    assert!(output.status.success(), "ip {words}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A pair `b0`, `b1` in a namespace that only this thread is in; false where that cannot be had.
fn enter_lab() -> bool {
    testkit::needs!(common::may_load(), false);
    // SAFETY: numbers only; the calling thread alone moves to a new namespace, which ends with it.
    let moved = unsafe { libc::unshare(libc::CLONE_NEWNET) };
    assert_eq!(moved, 0, "a namespace can be made");
    ip("link add b0 address 02:00:00:00:00:01 type veth peer name b1 address 02:00:00:00:00:02");
    for name in ["b0", "b1"] {
        std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1")
            .expect("the option can be set");
        ip(&format!("link set {name} up"));
    }
    true
}

fn index(name: &str) -> u32 {
    let name = std::ffi::CString::new(name).expect("no zero in it");
    // SAFETY: a string that ends with a zero, read during the call.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    assert_ne!(index, 0, "{name:?} is there");
    index
}

/// All records of all rings: kind, VLAN tag, frame length, time.
fn records(program: &CaptureProgram) -> Vec<(u32, u32, u32, u64)> {
    let geometry = *program.memory().geometry();
    let mut found = Vec::new();
    for cpu in 0..geometry.rings as usize {
        let head =
            program.memory().cpus.atomic_u64(cpu * size_of::<CaptureCpu>() + offset_of!(CaptureCpu, head));
        let (head, mut at) = (head.load(Relaxed) as usize, 0);
        assert!(head < geometry.segment_bytes as usize, "all records are in the first segment");
        while at < head {
            let place = cpu * geometry.ring_memory_bytes() + at;
            // SAFETY: the ring was never full, so records before the head are written no more.
            let bytes =
                unsafe { program.memory().rings.bytes(place, geometry.record_size_bytes_max() as usize) };
            let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
            let size = word(4) as usize;
            let time_ns = u64::from(word(8)) | u64::from(word(12)) << 32;
            let kind = word(0) & 0xffff & !RecordKind::WR_RECORD.0;
            found.push((kind, word(size - 4), word(20), time_ns));
            at += size;
        }
    }
    found
}

/// Until it is dropped, frames that leave the device get the tag 7 of 802.1Q, beside their bytes
/// and not in them: what a VLAN device does, of which not every kernel has the code.
fn push_tags(ifindex: u32) -> [OwnedFd; 2] {
    const VLAN_PUSH: i32 = 18; // bpf_skb_vlan_push(context, tpid, tci)
    let instruction = |code: u8, dst: u8, imm: i32| {
        let mut one = libbpf_sys::bpf_insn { code, imm, ..Default::default() };
        one.set_dst_reg(dst);
        one
    };
    let (set, call, exit) = (0xb7, 0x85, 0x95);
    let program = [
        instruction(set, 2, i32::from(0x8100_u16.to_be())),
        instruction(set, 3, 7),
        instruction(call, 0, VLAN_PUSH),
        instruction(set, 0, 0), // TC_ACT_OK
        instruction(exit, 0, 0),
    ];
    // SAFETY: strings end with a zero, the instructions are passed with their number, no options;
    // the kernel copies all of it. A descriptor that is not negative is new and ours.
    let program = unsafe {
        let fd = libbpf_sys::bpf_prog_load(
            libbpf_sys::BPF_PROG_TYPE_SCHED_CLS,
            c"push_tags".as_ptr(),
            c"GPL".as_ptr(),
            program.as_ptr(),
            program.len() as _,
            std::ptr::null_mut(),
        );
        assert!(fd >= 0, "the tagging program loads: {fd}");
        OwnedFd::from_raw_fd(fd)
    };
    // SAFETY: numbers only, no options; the descriptor is new and ours when it is not negative.
    let link = unsafe {
        let fd = libbpf_sys::bpf_link_create(
            program.as_raw_fd(),
            ifindex as _,
            libbpf_sys::BPF_TCX_EGRESS,
            std::ptr::null(),
        );
        assert!(fd >= 0, "the tagging program can be attached: {fd}");
        OwnedFd::from_raw_fd(fd)
    };
    [link, program]
}

fn geometry() -> Geometry {
    let cpus = possible_cpus().expect("CPUs can be counted");
    let format = RecordFormat::Records;
    Geometry { snaplen: 96, segment_bytes: 1 << 16, segments: 2, rings: cpus, cpus, format }
}

fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a whole timespec, ours alone.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) }, 0);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[test]
fn a_tag_that_the_device_took_off_is_noted_and_time_zero_is_no_time() {
    testkit::needs!(enter_lab());
    ip("address add 198.18.0.1/24 dev b0");
    ip("neighbour add 198.18.0.2 lladdr 02:00:00:00:00:02 dev b0");
    let metadata = Metadata { ifindex: index("b1"), time: true, vlan: true };
    let program =
        CaptureProgram::load_with_metadata(geometry(), None, Some(metadata)).expect("the program loads");
    assert_eq!(program.metadata_refusal(), None);
    let link =
        program.attach(metadata.ifindex, "b1", XdpModeChoice::Best).expect("the program can be attached");
    assert!(link.uses_metadata() && link.mode() == XdpMode::Native);
    drop(link);
    // With a filter as well, which means to be loaded a second time.
    let everything = [
        filter::Ebpf { code: 0xb4, imm: 1, ..Default::default() },
        filter::Ebpf { code: 0x95, ..Default::default() },
    ];
    let program =
        CaptureProgram::load_with_metadata(geometry(), Some(&everything), Some(metadata)).expect("it loads");
    assert_eq!(program.metadata_refusal(), None);
    let link =
        program.attach(metadata.ifindex, "b1", XdpModeChoice::Best).expect("the program can be attached");
    assert!(link.uses_metadata() && link.mode() == XdpMode::Native);
    let before_ns = monotonic_ns();
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").expect("a socket");
    let send = || assert_eq!(socket.send_to(b"12345678", "198.18.0.2:9").expect("it can be sent"), 8);
    let tagging = push_tags(index("b0"));
    send();
    drop(tagging);
    send();
    let deadline = Instant::now() + Duration::from_secs(60);
    while records(&program).iter().filter(|record| record.2 == 50).count() < 2 {
        assert!(Instant::now() < deadline, "never came: {:?}", records(&program));
        std::thread::sleep(Duration::from_millis(5));
    }
    let found: Vec<_> = records(&program).into_iter().filter(|record| record.2 == 50).collect();
    let tags: Vec<_> = found.iter().map(|record| (record.0, record.1)).collect();
    assert!(
        tags.contains(&(RecordKind::WR_RECORD_VLAN.0, 0x8100_0007)) && tags.contains(&(0, 0)),
        "{tags:?}"
    );
    let after_ns = monotonic_ns();
    assert!(found.iter().all(|record| (before_ns..after_ns).contains(&record.3)), "{found:?}");
}

/// A frame that no device has stamped gets the time of the kernel.
#[test]
fn a_bound_receiver_measures_and_time_zero_is_no_time() {
    testkit::needs!(enter_lab());
    ip("address add 198.18.0.1/24 dev b0");
    ip("neighbour add 198.18.0.2 lladdr 02:00:00:00:00:02 dev b0");
    let params = |ifname| ReceiverParams {
        verdict: SinkVerdict::Drop,
        reflect_as: None,
        flow_count: 1,
        stream_count: 64,
        carried_flows: 0,
        is_shared: false,
        has_details: false,
        has_tags: false,
        has_wide_window: false,
        stamps_of: Some(index(ifname)),
        has_test_clock: false,
        counts_up: false,
    };
    let refused = Receiver::load(&params("lo")).expect("it loads all the same");
    assert!(refused.stamps_refusal().is_some(), "the loopback device has no driver");
    let receiver = Receiver::load(&params("b1")).expect("the program loads");
    assert_eq!(receiver.stamps_refusal(), None);
    // Times by this line would be far in the future.
    receiver.set_clock_line(0, i64::MAX / 2, 0);
    let link = receiver.attach(index("b1"), "b1", XdpModeChoice::Best).expect("it can be attached");
    assert!(link.uses_metadata() && link.mode() == XdpMode::Native);
    // The offset to the wall clock is 0, so the receiver takes the sender's time for monotonic.
    let (mut payload, sec) = ([0; 18], (monotonic_ns() / 1_000_000_000) as u32);
    Signature { sec, ..Signature::default() }.emit(&mut payload);
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").expect("a socket");
    assert_eq!(socket.send_to(&payload, "198.18.0.2:9").expect("it can be sent"), 18);
    let deadline = Instant::now() + Duration::from_secs(60);
    while receiver.totals().received == 0 {
        assert!(Instant::now() < deadline, "never came: {:?}", receiver.totals());
        std::thread::sleep(Duration::from_millis(5));
    }
    let totals = receiver.totals();
    assert_eq!((totals.stamped, totals.hardware_time, totals.unusual.negative), (1, 0, 0), "{totals:?}");
    let (least_ns, _) = receiver.line(0).latency_bounds_ns().expect("a time stamp");
    assert!(least_ns < u64::from(u32::MAX), "{least_ns}");
}

/// A child between fork and exec has a descriptor of all that its parent has.
#[test]
fn a_program_goes_with_its_link_whoever_has_a_descriptor_of_it() {
    testkit::needs!(enter_lab());
    let sink = bpf::Sink::load().expect("it loads");
    let lo = index("lo");
    let link = sink.attach(lo, "lo", XdpModeChoice::Best).expect("the program can be attached");
    let other = link.as_fd().try_clone_to_owned().expect("there are descriptors left");
    assert_eq!(bpf::xdp::programs(lo, "lo").expect("the device can be queried").len(), 1);
    drop(link);
    assert_eq!(bpf::xdp::programs(lo, "lo").expect("the device can be queried"), []);
    drop(other);
}

#[test]
fn without_driver_metadata_the_plain_program_is_used() {
    testkit::needs!(enter_lab());
    ip("link set lo up");
    let metadata = Metadata { ifindex: index("lo"), time: true, vlan: true };
    let program =
        CaptureProgram::load_with_metadata(geometry(), None, Some(metadata)).expect("it loads all the same");
    assert!(program.metadata_refusal().is_some(), "the loopback device has no driver");
    let link =
        program.attach(metadata.ifindex, "lo", XdpModeChoice::Best).expect("the program can be attached");
    assert!(!link.uses_metadata() && link.mode() == XdpMode::Generic);
    drop(link);
    // Without metadata nothing is bound; in generic mode a bound program is not tried.
    let nothing = Metadata { time: false, vlan: false, ..metadata };
    let program = CaptureProgram::load_with_metadata(geometry(), None, Some(nothing)).expect("it loads");
    assert_eq!(program.metadata_refusal(), None);
    let metadata = Metadata { ifindex: index("b1"), time: true, vlan: false };
    let program = CaptureProgram::load_with_metadata(geometry(), None, Some(metadata)).expect("it loads");
    let link =
        program.attach(metadata.ifindex, "b1", XdpModeChoice::Generic).expect("the program can be attached");
    assert!(!link.uses_metadata() && link.mode() == XdpMode::Generic);
}
