//! Every program in every form: this kernel loads it, or the fallback is used. Needs root.
//!
//! What became of each is printed, a line for each that begins with [`MARK`]; `make vm` runs this
//! on every kernel and compares the lines with those of the repository.

#[expect(dead_code, reason = "it serves other tests too")]
mod common;

use bpf::abi::{self, Plan, PlanFlag as Flag, Range, Walk};
use bpf::capture::{CaptureProgram, Geometry, Metadata, possible_cpus};
use bpf::xdp::XdpModeChoice;
use bpf::{BpfError, PrebuiltSender, Sender, Sink, SinkVerdict, SkbSender, StreamSwitch, TxStats};
use filter::sample::{self, SplitMix};
use filter::{Ebpf, translate};
use std::process::Command;

/// In front of each line.
const MARK: &str = "program: ";

/// What became of a program: `Err` when neither it nor what replaces it could be had.
type Fate = Result<&'static str, String>;

const LOADS: Fate = Ok("loads");

#[test]
fn every_program_loads_or_another_takes_its_place() {
    testkit::needs!(common::may_load());
    let ifindex = device();
    let all =
        [senders(), prebuilt(ifindex), sinks(), captures(), with_metadata(ifindex), tx_stats(), switch()];
    let mut failed = Vec::new();
    for (name, fate) in all.into_iter().flatten() {
        println!("{MARK}{name}: {}", fate.as_ref().map_or("FAILED", |fate| *fate));
        failed.extend(fate.err().map(|why| format!("{name}: {why}")));
    }
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}

/// A veth that is up, in a namespace of this thread only; its index.
fn device() -> u32 {
    // SAFETY: numbers only; the calling thread alone moves to a new namespace, which ends with it.
    let moved = unsafe { libc::unshare(libc::CLONE_NEWNET) };
    assert_eq!(moved, 0, "a namespace can be made");
    for words in ["link add p0 type veth peer name p1", "link set p0 up", "link set p1 up"] {
        let output = Command::new("ip").args(words.split(' ')).output().expect("ip runs");
        assert!(output.status.success(), "ip {words}: {}", String::from_utf8_lossy(&output.stderr));
    }
    // SAFETY: a string that ends with a zero, read during the call.
    let ifindex = unsafe { libc::if_nametoindex(c"p0".as_ptr()) };
    assert_ne!(ifindex, 0, "p0 is there");
    ifindex
}

fn loads<T>(loaded: Result<T, BpfError>) -> Fate {
    loaded.map_or_else(|error| Err(error.to_string()), |_| LOADS)
}

/// Both programs that build frames, for plans from the plainest to one in which everything moves.
/// The plan is read-only data, so the verifier removes what it does not use: each plan is another
/// program.
fn senders() -> Vec<(String, Fate)> {
    let (v4, v6) = (ALL_FLAGS & !Flag::WR_PLAN_IPV6.0, ALL_FLAGS & !Flag::WR_PLAN_DST_RANDOM.0);
    let mut flags =
        vec![0, Flag::WR_PLAN_IPV6.0, v4, v6, v4 & !Flag::WR_PLAN_RECEIVE.0, v6 & !Flag::WR_PLAN_RECEIVE.0];
    flags.extend((1..u32::BITS).map(|bit| 1 << bit).filter(|flag| ALL_FLAGS & flag != 0));
    let of = |name: &str, load: &dyn Fn(&Plan) -> Fate| {
        let fates = flags.iter().map(|flags| load(&plan(*flags)).map_err(|why| format!("{flags:#x}: {why}")));
        (format!("{name}, {} plans", flags.len()), fates.collect::<Result<Vec<_>, _>>().and(LOADS))
    };
    vec![
        of("wr_send", &|plan| loads(Sender::load(plan))),
        of("wr_send_skb", &|plan| loads(SkbSender::load(plan))),
    ]
}

/// Every flag of a plan.
const ALL_FLAGS: u32 = 2 * Flag::WR_PLAN_QUEUE_MAPPED.0 - 1;

/// A plan with these flags; a field varies if its flag is set.
fn plan(flags: u32) -> Plan {
    let is = |flag: u32| flags & flag != 0;
    let (ip_at, label_count) = if is(Flag::WR_PLAN_MPLS_RANDOM.0) { (22 + 64, 16) } else { (14, 0) };
    let udp_at = ip_at + if is(Flag::WR_PLAN_IPV6.0) { 40 } else { 20 };
    let walk =
        |flag, walk| Range { walk: if is(flag) { walk } else { Walk::WR_WALK_FIXED }, min: 5, max: 1005 };
    Plan {
        header_len: udp_at + 40,
        svlan_at: if is(Flag::WR_PLAN_SVLAN_RANDOM.0) { 14 } else { 0 },
        vlan_at: if is(Flag::WR_PLAN_VLAN_RANDOM.0) { 18 } else { 0 },
        mpls_at: if label_count > 0 { 22 } else { 0 },
        ip_at,
        udp_at,
        stamp_at: udp_at + 8,
        signature_len: 32,
        signature_flows: 3,
        flags,
        ifindex: 1,
        frame_len_max: if is(Flag::WR_PLAN_SIZE_MOVES.0 | Flag::WR_PLAN_IMIX.0) { 1514 } else { udp_at + 40 },
        fixed_len: udp_at + 8,
        repeats: 7,
        mpls_count: label_count,
        mpls_random: if label_count > 0 { 0xffff } else { 0 },
        src_mac_offset: walk(Flag::WR_PLAN_SRC_MAC_MOVES.0, Walk::WR_WALK_RANDOM),
        dst_mac_offset: walk(Flag::WR_PLAN_DST_MAC_MOVES.0, Walk::WR_WALK_COUNT),
        udp_src: walk(Flag::WR_PLAN_UDP_SRC_MOVES.0, Walk::WR_WALK_COUNT),
        udp_dst: walk(Flag::WR_PLAN_UDP_DST_MOVES.0, Walk::WR_WALK_RANDOM),
        src_v4: walk(Flag::WR_PLAN_SRC_MOVES.0, Walk::WR_WALK_RANDOM),
        dst_v4: walk(Flag::WR_PLAN_DST_MOVES.0, Walk::WR_WALK_COUNT),
        frame_size: walk(Flag::WR_PLAN_SIZE_MOVES.0, Walk::WR_WALK_RANDOM),
        queue: Range { min: 0, max: 3, ..walk(Flag::WR_PLAN_QUEUE_MOVES.0, Walk::WR_WALK_RANDOM) },
        queue_count: 4,
        flow_count: 1000,
        flow_len: 9,
        imix_count: if is(Flag::WR_PLAN_IMIX.0) { abi::IMIX_MAX as u32 } else { 0 },
        imix_size: [1514; abi::IMIX_MAX],
        dst_count: [250, 250, 500],
        ..Plan::default()
    }
}

fn prebuilt(ifindex: u32) -> Vec<(String, Fate)> {
    let form = |name: &str, receive| {
        let loaded = PrebuiltSender::load(ifindex, receive, 64);
        (format!("wr_send_prebuilt, {name}"), loads(loaded))
    };
    vec![form("sent", false), form("received", true)]
}

fn sinks() -> Vec<(String, Fate)> {
    let mut all = Vec::new();
    for (name, verdict) in [("drop", SinkVerdict::Drop), ("pass", SinkVerdict::Pass)] {
        let loaded = Sink::load_with(verdict);
        let frags = frags_fate(loaded.as_ref().map(Sink::frags_program), "wr_sink");
        all.extend([(format!("wr_sink, {name}"), loads(loaded)), (format!("wr_sink_frags, {name}"), frags)]);
    }
    all
}

/// Fate of the program for multi-buffer frames, which older kernels do not support.
fn frags_fate<T, E: ToString>(program: Result<Option<T>, E>, instead: &'static str) -> Fate {
    match program {
        Ok(Some(_)) => LOADS,
        Ok(None) if instead == "wr_sink" => Ok("replaced by wr_sink, for frames without frags"),
        Ok(None) => Ok("replaced by wr_capture, for frames without frags"),
        Err(error) => Err(error.to_string()),
    }
}

/// No filter, a short one, and the longest of a few.
fn filters() -> Vec<(&'static str, Option<Vec<Ebpf>>)> {
    let code =
        |seed| translate(&sample::filter(&mut SplitMix::new(seed))).expect("short filters can be translated");
    let mut some: Vec<_> = (0..30).map(code).collect();
    some.sort_by_key(Vec::len);
    vec![("", None), (", short filter", some.first().cloned()), (", long filter", some.pop())]
}

fn geometry() -> Geometry {
    let cpus = possible_cpus().expect("CPUs can be counted");
    Geometry { snaplen: 96, slots: 64, rings: cpus, cpus }
}

fn captures() -> Vec<(String, Fate)> {
    let mut all = Vec::new();
    for (name, filter) in filters() {
        let loaded = CaptureProgram::load_filtered(geometry(), filter.as_deref());
        let frags = frags_fate(loaded.as_ref().map(CaptureProgram::frags_program), "wr_capture");
        all.extend([
            (format!("wr_capture{name}"), loads(loaded)),
            (format!("wr_capture_frags{name}"), frags),
        ]);
    }
    all
}

/// The programs that read timestamps and VLAN tags from the driver, on a device that supports that
/// on newer kernels.
fn with_metadata(ifindex: u32) -> Vec<(String, Fate)> {
    let mut all = Vec::new();
    for (what, time, vlan) in [("time", true, false), ("tag", false, true), ("time and tag", true, true)] {
        for (name, filter) in filters() {
            let metadata = Metadata { ifindex, time, vlan };
            let fate =
                CaptureProgram::load_with_metadata(geometry(), filter.as_deref(), Some(metadata))
                    .and_then(|program| program.attach(ifindex, "p0", XdpModeChoice::Best))
                    .map(|link| {
                        if link.uses_metadata() {
                            "loads"
                        } else {
                            "replaced by wr_capture, without metadata"
                        }
                    });
            all.push((format!("wr_capture_hw, {what}{name}"), fate.map_err(|error| error.to_string())));
        }
    }
    all
}

/// Attached to its tracepoint; also the program that records the thread.
fn tx_stats() -> Vec<(String, Fate)> {
    let stats = TxStats::attach();
    let claim = match &stats {
        Ok(stats) => stats.claim().map_or_else(|error| Err(error.to_string()), |_| LOADS),
        Err(error) => Err(error.to_string()),
    };
    vec![("wr_tx_stats".to_owned(), loads(stats)), ("wr_claim_slot".to_owned(), claim)]
}

/// The program that jumps to those of streams.
fn switch() -> Vec<(String, Fate)> {
    vec![("wr_stream_switch".to_owned(), loads(StreamSwitch::load()))]
}
