//! `--start-at`: the receiver's timestamps decide when the first frame came.

use crate::lab::{Lab, Peer, RX_DEV, RX_MAC, TX_DEV};
use crate::program::{Running, TIME_LIMIT, wirerate, wirerate_run, wirerate_start};
use crate::send::{number, report, sending};
use crate::{Case, TestResult, case};
use host::{ClockQuality, realtime_ns};
use nix::sys::signal::Signal;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// Tests of starts at a requested time.
pub(crate) const CASES: &[Case] = &[
    case("start_at::first_frames_come_at_the_time_whatever_happened_before", &["chrt"], first_frames)
        .with_lock("measures when first frames arrive"),
    case("start_at::a_time_that_has_passed_is_refused_and_nothing_sent", &[], refused),
    case("start_at::a_stop_while_it_waits_sends_nothing", &[], stopped),
    case("start_at::receivers_count_their_time_from_then_on", &[], receivers)
        .with_lock("measures when frames arrive"),
    case("start_at::pgctrl_starts_at_a_time", &[], pgctrl).with_lock("measures when first frames arrive"),
];

/// Runs one after another; the frames of each have a length of their own.
const RUNS: u32 = 6;
/// Runs at once, whose processes begin at different times.
const AT_ONCE: u32 = 4;
/// How often these run.
const ATTEMPTS: u32 = 8;
/// Lengths of the frames begin here.
const LEN_FIRST: u32 = 100;
const MS: u64 = 1_000_000;

/// A sender of one frame of `frame_len` bytes at `start_ns`, which other programs do not delay.
/// `sleep_s` passes before.
fn sender(lab: &Lab, frame_len: u32, start_ns: u64, sleep_s: &str, cpu: u32) -> Running {
    let words = format!("--count 1 --size {frame_len} --start-at @{start_ns}ns --cpus {cpu}");
    let mut command = Command::new("sh");
    command.args(["-c", "sleep $0; exec chrt -f 50 \"$@\"", sleep_s]);
    command.arg(wirerate().get_program()).args(sending(lab, &words).split_whitespace());
    Running::start(command)
}

/// Starts a run `lead_ns` from now, or more if the machine is too busy to be ready then. Returns
/// the time and its reports.
fn start(lab: &Lab, frame_lens: &[u32], mut lead_ns: u64) -> u64 {
    loop {
        let start_ns = realtime_ns() + lead_ns;
        let sleeps = ["0", "0.13", "0.31", "0.5"].into_iter().cycle();
        let cpus = host::CpuList::allowed().expect("there are CPUs");
        let cpus: Vec<u32> = cpus.iter().collect();
        let places = cpus.iter().cycle().zip(sleeps);
        let begin =
            |(frame_len, (cpu, sleep)): (&u32, (&u32, &str))| sender(lab, *frame_len, start_ns, sleep, *cpu);
        let running: Vec<Running> = frame_lens.iter().zip(places).map(begin).collect();
        let ended: Vec<_> = running.into_iter().map(|running| running.wait(TIME_LIMIT)).collect();
        if ended.iter().any(|outcome| outcome.code == Some(1)) && lead_ns < 60_000 * MS {
            lead_ns *= 2;
            continue;
        }
        for outcome in ended {
            let report = report(&outcome.expect_code(0));
            assert_eq!((number(&report, "sent"), number(&report, "start_at_ns")), (1, start_ns));
            assert!(number(&report, "first_frame_late_ns") > 0, "{report}");
            let quality = ClockQuality::now();
            assert_eq!(report["clock"]["is_synchronized"], quality.is_synchronized, "{report}");
            assert!(number(&report["clock"], "bound_ns") > 0, "{report}");
        }
        return start_ns;
    }
}

/// The last time of a frame of each length, as the receiver saw it. Some runs may have been
/// repeated.
fn times(path: &Path) -> BTreeMap<u32, u64> {
    let file = std::fs::read(path).expect("the capture can be read");
    let mut reader = pcapng::Reader::new(&file[..]);
    let mut times = BTreeMap::new();
    while let Some(block) = reader.next_block().expect("the capture is whole") {
        if let pcapng::Block::Packet(packet) = block {
            times.insert(packet.frame_len, packet.time_ns);
        }
    }
    times
}

/// On a loaded machine some frames are late: the receiver has no priority. So the second best of
/// the runs decides about the lateness, and the best attempt about the runs at once.
fn first_frames() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let path = lab.file("start.pcapng");
    let capture = wirerate_start(&format!("capture {RX_DEV} --netns {} -w {}", lab.rx_netns, path.display()));
    capture.until_it_says("capturing on rx0");
    let alone: Vec<u32> = (LEN_FIRST..LEN_FIRST + RUNS).collect();
    let starts: Vec<u64> = alone.iter().map(|len| start(&lab, &[*len], 250 * MS)).collect();
    let lens = |attempt: u32| (2 * LEN_FIRST + attempt * AT_ONCE..).take(AT_ONCE as usize).collect();
    let at_once: Vec<Vec<u32>> = (0..ATTEMPTS).map(lens).collect();
    let starts_at_once: Vec<u64> = at_once.iter().map(|lens| start(&lab, lens, 1000 * MS)).collect();
    capture.signal(Signal::SIGINT);
    capture.wait(TIME_LIMIT).expect_code(0);
    let times = times(&path);
    let late = |len: &u32, start_ns: u64| {
        let late_ns = times[len].checked_sub(start_ns);
        late_ns.unwrap_or_else(|| panic!("{} ns early", start_ns - times[len]))
    };
    let mut lates: Vec<u64> = alone.iter().zip(&starts).map(|(len, start_ns)| late(len, *start_ns)).collect();
    lates.sort_unstable();
    println!("first frames late by {lates:?} ns");
    assert!(lates[1] < 500_000, "{lates:?}");
    let mut apart_ns = Vec::new();
    for (lens, start_ns) in at_once.iter().zip(starts_at_once) {
        let lates: Vec<u64> = lens.iter().map(|len| late(len, start_ns)).collect();
        println!("of {AT_ONCE} at once by {lates:?} ns");
        apart_ns.extend(lates.iter().max().zip(lates.iter().min()).map(|(last, first)| last - first));
    }
    assert!(apart_ns.iter().any(|ns| *ns < MS), "{apart_ns:?}: they began up to 500 ms apart");
    Ok(())
}

/// Whether the time had passed at the beginning, or passed before all was ready.
fn refused() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let (file, rx) = (lab.file("none.pcap"), &lab.rx_netns);
    let header = pcapng::pcap::Header::default();
    std::fs::write(&file, pcapng::pcap::Writer::new(Vec::new(), &header)?.finish()?)?;
    for start in ["@1", "+1us"] {
        for words in [
            sending(&lab, "--count 1"),
            format!("replay {TX_DEV} {} --netns {}", file.display(), lab.tx_netns),
            format!("receive {RX_DEV} --netns {rx}"),
            format!("capture {RX_DEV} --netns {rx}"),
            format!("measure --tx {TX_DEV}@{} --rx {RX_DEV}@{rx}", lab.tx_netns),
        ] {
            let refused = wirerate_run(&format!("{words} --start-at {start}")).expect_code(1);
            refused.says(&["the time to start was ", " ago", "try: --start-at +2s"]);
            // Only an error, if JSON is asked for.
            let is_nothing = refused.stdout.is_empty() || refused.stdout.contains("wirerate.error/1");
            assert!(is_nothing && refused.stdout.lines().count() <= 1, "{words}: {}", refused.stdout);
        }
    }
    assert_eq!(lab.received(), 0);
    Ok(())
}

/// How fast a stop takes effect is a test of `engine`.
fn stopped() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let file = lab.file("one.pcap");
    let mut writer = pcapng::pcap::Writer::new(Vec::new(), &pcapng::pcap::Header::default())?;
    writer.record(&pcapng::pcap::Record { time_ns: 0, frame_len: 60, data: &[0; 60] })?;
    std::fs::write(&file, writer.finish()?)?;
    let replay = format!("replay {TX_DEV} {} --netns {} --json", file.display(), lab.tx_netns);
    for words in [sending(&lab, "--count 1"), replay] {
        let running = wirerate_start(&format!("{words} --start-at +1h"));
        running.until_it_says("wirerate: starting at ");
        running.signal(Signal::SIGINT);
        let ended = running.wait(TIME_LIMIT).expect_code(1);
        let report: serde_json::Value = serde_json::from_str(ended.stdout.trim())?;
        assert_eq!((&report["end"], number(&report, "sent")), (&"stopped".into(), 0), "{report}");
        assert!(report["first_frame_late_ns"].is_null(), "{report}");
    }
    assert_eq!(lab.received(), 0);
    Ok(())
}

/// The duration of receivers begins at the time, and they have been attached before.
fn receivers() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    for words in ["receive", "capture"] {
        let mut lead_ns = 500 * MS;
        let (start_ns, outcome) = loop {
            let start_ns = realtime_ns() + lead_ns;
            let words = format!("{words} {RX_DEV} --netns {} --duration 100ms --json", lab.rx_netns);
            let outcome = wirerate_run(&format!("{words} --start-at @{start_ns}ns"));
            if outcome.code != Some(1) || lead_ns > 60_000 * MS {
                break (start_ns, outcome.expect_code(0));
            }
            lead_ns *= 2;
        };
        assert!(realtime_ns() >= start_ns + 100 * MS, "{words} ended before its time");
        let report: serde_json::Value = serde_json::from_str(outcome.stdout.trim())?;
        let duration_ns = number(&report, "duration_ns");
        assert!(duration_ns >= 100 * MS && duration_ns <= outcome.elapsed.as_nanos() as u64, "{report}");
        assert_eq!(number(&report, "start_at_ns"), start_ns);
        assert!(report["clock"]["is_synchronized"].is_boolean(), "{report}");
    }
    Ok(())
}

fn pgctrl() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let script = format!(
        "P=/proc/net/pktgen
        echo add_device {TX_DEV} > $P/kpktgend_0
        for word in 'dst_mac {RX_MAC}' 'count 3'; do echo \"$word\" > $P/{TX_DEV}; done
        lead=1
        until start=$(( $(date +%s%N) + lead * 500000000 )); echo start_at $start > $P/pgctrl; do
            lead=$(( lead * 2 ))
            [ $lead -lt 128 ]
        done
        [ $(date +%s%N) -ge $start ]
        if echo start_at 1 > $P/pgctrl; then exit 9; fi
        if echo start_at soon > $P/pgctrl; then exit 8; fi"
    );
    let mut command = wirerate();
    command.args(["exec", "--netns", &lab.tx_netns, "--", "sh", "-ec", &script]);
    let outcome = Running::start(command).wait(TIME_LIMIT).expect_code(0);
    outcome.says(&["start_at: that was ", "too late, and nothing was sent", "\"soon\" is not a time"]);
    assert_eq!(lab.received_at_last(3), 3);
    Ok(())
}
