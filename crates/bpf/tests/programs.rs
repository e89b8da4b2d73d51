//! Every program in every form: this kernel loads it, or the fallback is used. Needs root.
//!
//! What became of each is printed, a line for each that begins with [`MARK`]; `make vm` runs this
//! on every kernel and compares the lines with those of the repository.

#[expect(dead_code, reason = "it serves other tests too")]
mod common;

use bpf::abi::{self, FieldKind as Kind, FieldMode as Mode, PlanFlag as Flag, SumOpKind};
use bpf::capture::{CaptureProgram, Geometry, Metadata, possible_cpus};
use bpf::xdp::XdpModeChoice;
use bpf::{
    BpfError, PlanProgram, PrebuiltSender, Sender, Sink, SinkVerdict, SkbSender, StreamSwitch, TxStats,
};
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
/// They are specialized for the plan, so each plan is another program.
fn senders() -> Vec<(String, Fate)> {
    let modes: Vec<u32> = (0..=Mode::WR_FIELD_ENTROPY.0).collect();
    let all_flags = 2 * Flag::WR_PLAN_HOLDS.0 - 1;
    let in_maps = Flag::WR_PLAN_IN_MAPS.0;
    let mut plans: Vec<PlanProgram> = vec![program(&[], 0), program(&modes, all_flags & !in_maps)];
    plans.extend(modes.iter().map(|mode| program(&[*mode], 0)));
    let flags = (0..u32::BITS).map(|bit| 1 << bit).filter(|flag| all_flags & !in_maps & flag != 0);
    plans.extend(flags.map(|flag| program(&modes, flag)));
    let of = |name: &str, load: &dyn Fn(&PlanProgram) -> Fate, plans: &[PlanProgram]| {
        let fates = plans
            .iter()
            .map(|program| load(program).map_err(|why| format!("{:#x}: {why}", program.plan.flags)));
        (format!("{name}, {} plans", plans.len()), fates.collect::<Result<Vec<_>, _>>().and(LOADS))
    };
    let skb = of("wr_send_skb", &|program| loads(SkbSender::load(program)), &plans);
    plans.extend([in_maps, all_flags].map(|flags| program(&modes, flags)));
    vec![of("wr_send", &|program| loads(Sender::load(program)), &plans), skb]
}

/// A plan with a field of each of these modes, and a checksum over all of them.
fn program(modes: &[u32], flags: u32) -> PlanProgram {
    const TEMPLATE_LEN: u32 = 100;
    let mut plan: abi::Plan = abi::zeroed();
    for (index, mode) in modes.iter().enumerate() {
        let roles = match Mode(*mode) {
            Mode::WR_FIELD_MIX => Kind::WR_KIND_SIZE.0,
            Mode::WR_FIELD_STEP => Kind::WR_KIND_FLOW.0,
            Mode::WR_FIELD_UP => Kind::WR_KIND_KEY.0,
            Mode::WR_FIELD_VALUES => Kind::WR_KIND_HOLD.0,
            _ => 0,
        };
        let width = 1 + index as u32 % 8;
        let (mask, offset) = (u64::MAX >> (64 - 8 * width), 14 + 4 * index as u32);
        plan.fields[index] = abi::Field {
            mask,
            offset,
            kind: *mode | roles | Kind::WR_KIND_BITS.0 | width << Kind::WR_KIND_WIDTH_SHIFT.0,
            min: 5,
            max: 1005,
            step: 1,
            wrap: 1001,
            values_count: 1,
            hold: 3,
            ..abi::zeroed()
        };
        plan.ops[index] = abi::SumOp { kind: SumOpKind::WR_SUM_HALF.0, offset, ..abi::zeroed() };
    }
    let kind = SumOpKind::WR_SUM_WRITE.0 | SumOpKind::WR_SUM_UDP.0;
    plan.ops[modes.len()] = abi::SumOp { kind, offset: 12, ..abi::zeroed() };
    let moves = flags & Flag::WR_PLAN_SIZE_MOVES.0 != 0;
    let plan = abi::Plan {
        template_len: TEMPLATE_LEN,
        touched_len: TEMPLATE_LEN + 8,
        frame_len_max: if moves { 1514 } else { TEMPLATE_LEN + 8 },
        ifindex: 1,
        flags,
        packet_count: 3,
        field_count: modes.len() as u32,
        op_count: modes.len() as u32 + 1,
        repeats: 7,
        headers_len: TEMPLATE_LEN,
        fixed_len: 42,
        payload_min: 16,
        queue_max: 3,
        queue_count: 4,
        flow_count: 1000,
        flow_len: 9,
        signature_flows: 3,
        signature_flow_len: 2,
        imix_count: abi::IMIX_MAX as u32,
        imix_size: [1514; abi::IMIX_MAX],
        pool_count: [250, 250, 500],
        ..plan
    };
    let (packets, fields, ops) = (Vec::new(), Vec::new(), Vec::new());
    PlanProgram {
        plan,
        packets,
        fields,
        ops,
        values: vec![1],
        state_count: modes.len(),
        held_count: modes.len(),
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
    let code = |seed| {
        translate(&sample::filter(&mut SplitMix::new(seed)), 0).expect("short filters can be translated")
    };
    let mut some: Vec<_> = (0..30).map(code).collect();
    some.sort_by_key(Vec::len);
    vec![("", None), (", short filter", some.first().cloned()), (", long filter", some.pop())]
}

fn geometry() -> Geometry {
    let cpus = possible_cpus().expect("CPUs can be counted");
    Geometry {
        snaplen: 96,
        segment_bytes: 1 << 16,
        segments: 2,
        rings: cpus,
        cpus,
        format: bpf::capture::RecordFormat::Records,
    }
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
