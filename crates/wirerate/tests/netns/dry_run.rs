//! `send --dry-run --write`: an independent reader finds in the file what was asked for.

use crate::lab::Scratch;
use crate::program::{Running, TIME_LIMIT, wirerate, wirerate_run};
use crate::readers::{frames, packet_count, tshark};
use crate::{Case, TestResult, case};
use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// Tests of the frames that a dry run writes.
pub(crate) const CASES: &[Case] = &[
    case("dry_run::tshark_decodes_every_frame_and_finds_the_checksums_right", &["tshark"], tshark_agrees),
    case("dry_run::ranges_come_in_the_order_of_pktgen", &["tshark"], ranges_in_order),
    case("dry_run::flows_and_tags_are_exactly_those_asked_for", &["tshark"], flows_and_tags),
    case("dry_run::poisson_gaps_and_bursts_have_their_due_times", &["editcap"], arrivals),
    case("dry_run::needs_no_privilege", &["setpriv", "capinfos"], needs_no_privilege),
    case("dry_run::a_seed_repeats_a_run_and_another_does_not", &["editcap"], seed_repeats),
];

const TO: &str = "--dst-mac 02:00:00:00:00:02 --src-mac 02:00:00:00:00:01";

/// The gaps between the frames of a dry run, in nanoseconds.
fn gaps_of(words: &str) -> Vec<f64> {
    let scratch = Scratch::new();
    let file = scratch.file("arrivals.pcapng");
    wirerate_run(&format!("{words} --write {}", file.display())).expect_code(0);
    let times: Vec<u64> = frames(&file).into_iter().map(|frame| frame.time_ns).collect();
    times.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect()
}

/// Mean, and coefficient of variation.
fn mean_and_variation(gaps: &[f64]) -> (f64, f64) {
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
    (mean, variance.sqrt() / mean)
}

fn arrivals() -> TestResult {
    let send = format!("send lo {TO} --dst 198.18.0.2 --dry-run=100000 --count 100000 --pps 10k");
    let (mean, variation) = mean_and_variation(&gaps_of(&format!("{send} --arrivals poisson:7")));
    assert!((mean / 100_000.0 - 1.0).abs() < 0.02, "{mean}");
    assert!((variation - 1.0).abs() < 0.02, "{variation}");
    let bursts = gaps_of(&format!("{send} --arrivals burst:4"));
    assert_eq!(bursts[..8], [0.0, 0.0, 0.0, 400_000.0, 0.0, 0.0, 0.0, 400_000.0]);
    let gap = gaps_of(&format!("{send} --arrivals burst:4,1ms"));
    assert_eq!(gap[..5], [100_000.0, 100_000.0, 100_000.0, 1_000_000.0, 100_000.0]);
    wirerate_run(&format!("send lo {TO} --dst 198.18.0.2 --dry-run --arrivals poisson"))
        .expect_code(2)
        .says(&["their mean is not known without a rate", "try: --pps 10k"]);
    wirerate_run(&format!("send lo {TO} --dst 198.18.0.2 --dry-run --ramp 1..2/1s --arrivals burst:2"))
        .expect_code(2)
        .says(&["the gaps of a ramp follow its rate"]);
    Ok(())
}

fn tshark_agrees() -> TestResult {
    let scratch = Scratch::new();
    for (frame_count, words) in [
        (1, "--dst 198.18.0.2"),
        (500, "--dst 198.18.0.2 --size 60-300"),
        (500, "--dst 198.18.0.0-198.18.255.255 --random dst,udp-src --udp-src 1-65534"),
        (500, "--src 10.0.0.1-10.0.0.200 --dst 198.18.0.2-198.18.0.9 --vlan 7 --size 64-1514 --random size"),
        (500, "--dst 198.18.0.2 --vlan 7 --svlan 9"),
        (500, "--dst fd00::2 --src fd00::1 --size 78-1514 --random size"),
        (500, "--dst fd00::/112 --src fd00::1 --vlan 4095"),
        (500, "--dst 198.18.0.2 --imix 60:7,594:4,1514:1"),
        (500, "--dst 198.18.0.2-198.18.0.30 --flows 20 --flow-len 3 --tos 0xb8"),
        (500, "--dst 198.18.0.2 --flows 20 --vlan 5,6 --vlan-prio 3,1"),
        (500, "--dst fd00::2 --src fd00::1-fd00::5 --flows 20 --flow-len 3"),
    ] {
        let path = scratch.file("dry.pcapng");
        let shown = path.display();
        wirerate_run(&format!(
            "send none {TO} {words} --csum --count {frame_count} --dry-run={frame_count} --write {shown}"
        ))
        .expect_code(0);
        assert_eq!(packet_count(&path), frame_count, "{words}");
        let good =
            tshark(&path, "udp.checksum.status == Good and pktgen.magic == 0xbe9be955", &["pktgen.seqnum"]);
        let expected: Vec<String> = (1..=frame_count).map(|seq_num| seq_num.to_string()).collect();
        assert_eq!(good, expected, "{words}");
        let bad = tshark(&path, "_ws.malformed or ip.checksum.status == Bad", &["frame.number"]);
        assert_eq!(bad, [""; 0], "{words}");
    }
    Ok(())
}

/// `--flows 10000` made one flow, or one per destination, and two tags were 0x8100 twice.
fn flows_and_tags() -> TestResult {
    let scratch = Scratch::new();
    let path = scratch.file("dry.pcapng");
    let write = |words: &str, count: usize| {
        let shown = path.display();
        wirerate_run(&format!("send none {TO} {words} --count {count} --dry-run={count} --write {shown}"))
            .expect_code(0);
    };
    for (words, layer, flows) in [
        ("--dst 198.18.0.2 --flows 1000", "udp", 1000),
        ("--dst 198.18.0.0/16 --flows 1000", "udp", 1000),
        ("--dst 198.18.0.0/24 --src 10.0.0.1-10.0.0.9 --flows 720", "udp", 720),
        ("--dst 198.18.0.2 --udp-src 1000-1009 --flows 70", "udp", 70),
        ("--dst 198.18.0.2 --tcp --flows 300", "tcp", 300),
        ("--dst 198.18.0.2 --flows 1000 --flow-len 3", "udp", 1000),
        ("--dst 198.18.0.0/24 --tcp --flows 300 --flow-len 10", "tcp", 300),
        ("--dst 198.18.0.0/24 --flows 200 --flow-len 15", "udp", 200),
    ] {
        write(words, 3000);
        let ports = [format!("{layer}.srcport"), format!("{layer}.dstport")];
        let seen = tshark(&path, layer, &["ip.src", "ip.dst", &ports[0], &ports[1]]);
        assert_eq!(seen.len(), 3000, "{words}");
        assert_eq!(seen.iter().collect::<HashSet<_>>().len(), flows, "{words}");
    }
    for (words, tags) in [
        ("--vlan 5,6 --vlan-prio 3,1", [0x88, 0xa8, 0x60, 5, 0x81, 0, 0x20, 6]),
        ("--vlan 5,6 --vlan-type 0x9100,0x88a8", [0x91, 0, 0, 5, 0x88, 0xa8, 0, 6]),
        ("--vlan 6 --svlan 5", [0x81, 0, 0, 5, 0x81, 0, 0, 6]),
        ("--vlan 5,6 --tcp", [0x88, 0xa8, 0, 5, 0x81, 0, 0, 6]),
    ] {
        write(&format!("--dst 198.18.0.2 {words}"), 3);
        let mut reader = pcapng::Reader::new(std::io::BufReader::new(fs::File::open(&path)?));
        let mut count = 0;
        while let Some(block) = reader.next_block()? {
            if let pcapng::Block::Packet(packet) = block {
                assert_eq!(packet.data[12..20], tags, "{words}");
                count += 1;
            }
        }
        assert_eq!(count, 3, "{words}");
    }
    Ok(())
}

/// As the user nobody, also for a device that is there and asked for its addresses.
fn needs_no_privilege() -> TestResult {
    let scratch = Scratch::new();
    let (program, path) = (scratch.file("wirerate"), scratch.file("dry.pcapng"));
    // Where the program was built may be closed to others.
    fs::copy(wirerate().get_program(), &program)?;
    fs::set_permissions(scratch.file("."), fs::Permissions::from_mode(0o777))?;
    for device in ["none", "lo"] {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--"]).arg(&program);
        command.args(["send", device, "--dst", "198.18.0.2", "--count", "5", "--dry-run=5", "--write"]);
        command.arg(&path).args(TO.split(' '));
        Running::start(command).wait(TIME_LIMIT).expect_code(0);
        assert_eq!(packet_count(&path), 5, "{device}");
        fs::remove_file(&path)?;
    }
    Ok(())
}

fn ranges_in_order() -> TestResult {
    let scratch = Scratch::new();
    let path = scratch.file("dry.pcapng");
    let words =
        "--src 10.0.0.1-10.0.0.2 --dst 198.18.0.2-198.18.0.5 --udp-src 5-5 --udp-dst 10-12 --size 60-63";
    let shown = path.display();
    wirerate_run(&format!("send none {TO} {words} --count 8 --dry-run=8 --write {shown}")).expect_code(0);
    let fields = ["ip.src", "ip.dst", "udp.srcport", "udp.dstport", "frame.len"];
    // As with pktgen, a counted range steps before the first frame.
    let expected = [
        "10.0.0.2 198.18.0.3 5 11 61",
        "10.0.0.1 198.18.0.4 5 12 62",
        "10.0.0.2 198.18.0.5 5 10 63",
        "10.0.0.1 198.18.0.2 5 11 60",
        "10.0.0.2 198.18.0.3 5 12 61",
        "10.0.0.1 198.18.0.4 5 10 62",
        "10.0.0.2 198.18.0.5 5 11 63",
        "10.0.0.1 198.18.0.2 5 12 60",
    ];
    assert_eq!(tshark(&path, "pktgen", &fields), expected);
    Ok(())
}

fn seed_repeats() -> TestResult {
    let scratch = Scratch::new();
    let words =
        "--dst 198.18.0.0/16 --udp-dst 1-65534 --size 60-1514 --random dst,udp-dst,size --no-timestamp";
    let of_seed = |seed: u32, name: &str| {
        let path = scratch.file(name);
        let shown = path.display();
        let run = format!("send none {TO} {words} --seed {seed} --count 100 --dry-run=100 --write {shown}");
        wirerate_run(&run).expect_code(0);
        frames(&path).into_iter().map(|frame| frame.bytes).collect::<Vec<_>>()
    };
    let first = of_seed(7, "first.pcapng");
    assert_eq!(first.len(), 100);
    assert_eq!(first, of_seed(7, "again.pcapng"));
    assert_ne!(first, of_seed(8, "other.pcapng"));
    Ok(())
}
