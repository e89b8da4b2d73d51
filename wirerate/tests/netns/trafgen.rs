//! `trafgen -o DEV`: each engine sends the frames that `trafgen -o FILE.pcap` writes.

use crate::lab::{Lab, Peer, TX_DEV};
use crate::program::{Running, TIME_LIMIT, run, wirerate};
use crate::readers::{frames, on_the_wire};
use crate::{Case, TestResult, case};

/// Tests of packets in trafgen's language on a device.
pub(crate) const CASES: &[Case] = &[
    case(
        "trafgen::every_engine_sends_the_frames_of_the_file",
        &["dumpcap", "editcap", "tshark"],
        every_engine_sends_the_frames_of_the_file,
    ),
    case(
        "trafgen::send_sends_the_frames_that_its_dry_run_writes",
        &["dumpcap", "editcap"],
        send_sends_what_its_dry_run_writes,
    ),
    case("trafgen::packets_of_other_cpus_are_not_sent", &["dumpcap", "editcap"], packets_of_other_cpus),
    case("trafgen::a_frame_beyond_the_mtu_says_so", &[], a_frame_beyond_the_mtu),
];

/// Configurations. They give every source address, because a file has no device to take them from.
const CONFIGS: &[&str] = &[
    // A SYN flood: random address and port, both checksums.
    "{ eth(sa=02:00:00:00:00:01, da=02:00:00:00:00:02), \
       ipv4(sa=drnd(), da=198.18.0.2), tcp(sp=drnd(), dp=80, seq=drnd(), syn) }",
    // Inner and outer checksums.
    "{ eth(sa=02:00:00:00:00:01, da=02:00:00:00:00:02), ipv4(sa=198.18.0.1, da=198.18.0.2), udp(sp=drnd()), vxlan(vni=7), \
       eth(sa=02:00:00:00:00:08, da=02:00:00:00:00:09), ipv4(sa=dinc(1, 9), da=10.0.0.2), udp(sp=dinc(1000, 1003), dp=9), \"payload\" }",
    // Several packets of different lengths, the last beyond the template of a BPF program.
    "{ eth(sa=02:00:00:00:00:01, da=02:00:00:00:00:02), ipv6(sa=fd00::1, da=fd00::2), icmp6(echorequest), \
       drnd(64) }
     { eth(sa=02:00:00:00:00:01, da=02:00:00:00:00:02), arp(sha=02:00:00:00:00:01, spa=198.18.0.1, tpa=198.18.0.2) }
     { eth(sa=02:00:00:00:00:01, da=02:00:00:00:00:02), ipv4(id=dinc(), sa=198.18.0.1, da=198.18.0.2), \
       udp(dp=values(1, 5, 9)), fill(0x41, 1200), drnd(40) }",
];

/// Runs `wirerate trafgen` with these packets and words.
fn trafgen(packets: &str, words: &[&str]) -> Running {
    let mut command = wirerate();
    command.args(["trafgen", packets, "-n", "60", "-P", "1", "-E", "7"]).args(words);
    Running::start(command)
}

fn every_engine_sends_the_frames_of_the_file() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    for config in CONFIGS {
        let path = lab.file("expected.pcap");
        let file = path.display().to_string();
        trafgen(config, &["-o", &file]).wait(TIME_LIMIT).expect_code(0);
        let bad = "_ws.malformed or ip.checksum.status == Bad or tcp.checksum.status == Bad \
                   or udp.checksum.status == Bad or icmpv6.checksum.status == Bad";
        let checks = ["ip", "tcp", "udp"].map(|name| format!("{name}.check_checksum:TRUE"));
        let [ip, tcp, udp] = checks.each_ref().map(String::as_str);
        let seen = run(&["tshark", "-n", "-r", &file, "-o", ip, "-o", tcp, "-o", udp, "-Y", bad]);
        assert_eq!(seen, "", "{config}");
        let written: Vec<_> = frames(&path).into_iter().map(|frame| frame.bytes).collect();
        assert_eq!(written.len(), 60);
        for engine in ["xdp", "skb", "af_packet", "af_xdp"] {
            let netns = lab.tx_netns.as_str();
            let seen = on_the_wire(&lab, 60, || {
                let words = ["-o", TX_DEV, "--netns", netns, "--engine", engine];
                trafgen(config, &words).wait(TIME_LIMIT).expect_code(0);
            });
            let seen: Vec<_> = seen.into_iter().map(|frame| frame.bytes).collect();
            let place = seen.iter().zip(&written).position(|(seen, written)| seen != written);
            assert_eq!((seen.len(), place), (60, None), "{engine}: {config}");
        }
    }
    Ok(())
}

fn send_sends_what_its_dry_run_writes() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let path = lab.file("expected.pcapng");
    let netns = lab.tx_netns.as_str();
    let send = |config: &str, words: &[&str]| {
        let mut command = wirerate();
        command.args(["send", TX_DEV, "--netns", netns, "--count", "60", "--seed", "7", "--frame", config]);
        command.args(words);
        Running::start(command).wait(TIME_LIMIT).expect_code(0)
    };
    for config in CONFIGS {
        send(config, &["--dry-run=60", "--write", &path.display().to_string()]);
        let written: Vec<_> = frames(&path).into_iter().map(|frame| frame.bytes).collect();
        assert_eq!(written.len(), 60);
        for engine in ["xdp", "skb", "af_packet", "af_xdp"] {
            let seen = on_the_wire(&lab, 60, || {
                send(config, &["--engine", engine]);
            });
            let seen: Vec<_> = seen.into_iter().map(|frame| frame.bytes).collect();
            let place = seen.iter().zip(&written).position(|(seen, written)| seen != written);
            assert_eq!((seen.len(), place), (60, None), "{engine}: {config}");
        }
    }
    Ok(())
}

/// With `-P 1`, only CPU 0 sends.
fn packets_of_other_cpus() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let packet = "eth(sa=02:00:00:00:00:01, da=02:00:00:00:00:02), fill(0x88, 2)";
    let config = format!("cpu(0): {{ {packet}, fill(1, 50) }} cpu(1): {{ {packet}, fill(2, 50) }}");
    let seen = on_the_wire(&lab, 60, || {
        trafgen(&config, &["-o", TX_DEV, "--netns", &lab.tx_netns]).wait(TIME_LIMIT).expect_code(0);
    });
    assert!(seen.iter().all(|frame| frame.bytes.ends_with(&[1; 50])));
    Ok(())
}

fn a_frame_beyond_the_mtu() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let refused = trafgen("{ eth(), fill(0, 1600) }", &["-o", TX_DEV, "--netns", &lab.tx_netns]);
    refused.wait(TIME_LIMIT).expect_code(3).says(&["1614 bytes are too long", "mtu 1600"]);
    Ok(())
}
