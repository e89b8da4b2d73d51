//! `wirerate capture --filter --source --direction` and `wirerate tell`: tcpdump and tshark judge.

use crate::lab::{Lab, Peer, RX_DEV, TX_DEV};
use crate::program::{Outcome, Running, TIME_LIMIT, in_netns, run, until, wirerate, wirerate_run};
use crate::readers::{frames, packet_count, tshark};
use crate::send::sending;
use crate::{Case, TestResult, case};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;

/// Tests of where frames are taken, and which.
pub(crate) const CASES: &[Case] = &[
    case("sources::filters_say_what_tcpdump_says", &["tcpdump"], filters_say_what_tcpdump_says),
    case("sources::wrong_filters_are_refused_in_words", &["tcpdump"], wrong_filters_are_refused_in_words),
    case("sources::outgoing_frames_by_packet_sockets", &["tshark"], outgoing_frames_by_packet_sockets),
    case("sources::loopback_by_packet_sockets", &["bash", "tshark"], loopback_by_packet_sockets),
    case("sources::a_taken_device_is_captured_another_way", &[], a_taken_device_is_captured_another_way),
    case("sources::a_program_of_ours_is_replaced_when_forced", &["clang"], a_program_left_behind),
    case("sources::a_strange_program_is_never_replaced", &["clang"], a_strange_program_is_never_replaced),
    case("sources::frames_without_a_link_header", &["python3", "tcpdump"], frames_without_a_link_header),
    case("sources::two_devices_in_one_file", &["tshark"], two_devices_in_one_file),
    case(
        "sources::two_devices_with_a_file_for_each_cpu",
        &["capinfos", "ping"],
        two_devices_with_a_file_for_each_cpu,
    ),
    case("sources::a_thousand_switches_lose_nothing", &[], a_thousand_switches_lose_nothing),
    case("sources::a_capture_does_as_it_is_told", &[], a_capture_does_as_it_is_told),
];

/// A capture with these words, for words with blanks in them, that has begun.
fn capture(lab: &Lab, words: &[&str]) -> Running {
    let mut command = wirerate();
    command.args(["capture", "--netns", &lab.rx_netns, "--json"]).args(words);
    let running = Running::start(command);
    running.until_it_says("capturing on ");
    running
}

fn end(running: Running) -> Value {
    running.signal(Signal::SIGINT);
    report(&running.wait(TIME_LIMIT).expect_code(0))
}

#[track_caller]
fn report(outcome: &Outcome) -> Value {
    serde_json::from_str(outcome.stdout.trim())
        .unwrap_or_else(|error| panic!("{error}\n{}\n{}", outcome.stdout, outcome.stderr))
}

#[track_caller]
fn number(report: &Value, name: &str) -> u64 {
    report[name].as_u64().unwrap_or_else(|| panic!("no {name} in {report}"))
}

/// Sends, and waits until all of it has arrived.
#[track_caller]
fn send(lab: &Lab, words: &str) -> u64 {
    let before = lab.received();
    let sent = number(&crate::send::report(&wirerate_run(&sending(lab, words)).expect_code(0)), "sent");
    assert_eq!(lab.received_at_last(before + sent), before + sent);
    sent
}

/// The frames of a file in an order that does not depend on threads.
fn sorted(path: &Path) -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = frames(path).into_iter().map(|frame| frame.bytes).collect();
    all.sort();
    all
}

fn filters_say_what_tcpdump_says() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let paths = ["all", "xdp", "tpacket", "judged"].map(|name| lab.file(&format!("{name}.pcapng")));
    let [all, xdp, tpacket, judged] = &paths;
    let [all_text, xdp_text, tpacket_text, judged_text] =
        [all, xdp, tpacket, judged].map(|path| path.to_str().unwrap());
    for (filter, also_without_tag) in [
        ("udp dst port 9", true),
        ("len > 500 and not ip6", true),
        ("ip6 or udp src portrange 1200-1300", true),
        ("ip and ip[4:2] & 3 = 1 and udp[4:2] / 7 > 20", true),
        ("udp[8:4] = 0xbe9be955 and ip[0] & 0xf = 5 || ip6[6] == 17", true),
        ("vlan 100 and udp src portrange 1000-1400", false),
        ("icmp", true),
    ] {
        let whole = ["--snaplen", "1514"];
        let words = |source, path| [RX_DEV, "--source", source, "-w", path, whole[0], whole[1]];
        let unfiltered = capture(&lab, &words("tpacket", all_text));
        let by_xdp = capture(&lab, &[&words("xdp", xdp_text)[..], &["--filter", filter]].concat());
        let by_socket = capture(&lab, &[&words("tpacket", tpacket_text)[..], &["--filter", filter]].concat());
        let mut sent = send(&lab, "--count 300 --size 60-1400 --random size --udp-src 1000-1999 --seed 1");
        sent += send(&lab, "--count 300 --size 80-900 --random size --dst fd00::/112 --src fd00::1 --seed 2");
        sent += send(&lab, "--count 300 --vlan 100 --udp-src 1000-1999 --seed 3");
        let reports = [unfiltered, by_xdp, by_socket].map(end);
        assert_eq!(number(&reports[0], "written"), sent, "{filter}");
        run(&["tcpdump", "-r", all_text, "-w", judged_text, filter]);
        let expected = sorted(judged);
        assert_eq!(number(&reports[1], "written"), expected.len() as u64, "{filter}: {}", reports[1]);
        assert_eq!(number(&reports[1], "filtered"), sent - expected.len() as u64, "{filter}: {}", reports[1]);
        assert_eq!(number(&reports[1], "lost"), 0);
        assert!(sorted(xdp) == expected, "{filter} on XDP");
        assert!(reports[2]["filtered"].is_null(), "{}", reports[2]);
        if also_without_tag {
            assert!(without_tags(sorted(tpacket)) == without_tags(expected), "{filter} on packet sockets");
        }
    }
    Ok(())
}

/// Frames without an 802.1Q tag: a filter on a packet socket does not see the tag of one that has
/// it, and so takes it for what is inside.
fn without_tags(frames: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    frames.into_iter().filter(|frame| frame[12..14] != [0x81, 0x00]).collect()
}

fn wrong_filters_are_refused_in_words() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let advice = "\n  try: pcap-filter(7) describes the language";
    for (filter, words, sources, advice) in [
        ("udp prot 9", "is not understood: ", &["xdp", "tpacket"][..], advice),
        ("ip6 protochain 17", "it loops, as `protochain` does", &["xdp"], "\n  try: --source tpacket"),
    ] {
        for source in sources {
            let mut command = wirerate();
            command.args([
                "capture",
                RX_DEV,
                "--netns",
                &lab.rx_netns,
                "--source",
                source,
                "--filter",
                filter,
            ]);
            let outcome = Running::start(command).wait(TIME_LIMIT).expect_code(2);
            outcome.says(&[filter, words, advice]);
        }
    }
    Ok(())
}

fn outgoing_frames_by_packet_sockets() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let path = lab.file("out.pcapng");
    let mut command = wirerate();
    command
        .args(["capture", TX_DEV, "--netns", &lab.tx_netns, "--json", "--direction", "out", "-w"])
        .arg(&path);
    let running = Running::start(command);
    running.until_it_says("capturing on tx0 (TPACKET_V3");
    running.until_it_says("not XDP: it sees incoming frames only");
    // Through the stack: what XDP puts on a device no tap sees.
    let sent = send(&lab, "--count 500 --engine skb");
    let report = end(running);
    assert_eq!((number(&report, "written"), number(&report, "lost")), (sent, 0));
    assert_eq!(tshark(&path, "frame.packet_flags_direction == 2", &["frame.number"]).len() as u64, sent);
    Ok(())
}

fn loopback_by_packet_sockets() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    run(&["ip", "-n", &lab.rx_netns, "link", "set", "dev", "lo", "up"]);
    let path = lab.file("lo.pcapng");
    let running = capture(&lab, &["lo", "-w", path.to_str().unwrap()]);
    running.until_it_says("not XDP: lo is the loopback device");
    let script = "for i in 1 2 3 4 5; do echo hello > /dev/udp/127.0.0.1/9; done";
    run(&["ip", "netns", "exec", &lab.rx_netns, "bash", "-c", script]);
    let refused = wirerate_run(&format!("tell lo mode drop --netns {}", lab.rx_netns)).expect_code(3);
    refused.says(&["packet sockets cannot keep frames of lo from the host"]);
    let report = end(running);
    // Each datagram is answered: no program listens on the port.
    assert_eq!(number(&report, "written"), tshark(&path, "udp.dstport == 9", &["frame.number"]).len() as u64);
    assert_eq!(tshark(&path, "udp.dstport == 9 and not icmp", &["frame.number"]).len(), 5);
    Ok(())
}

fn a_taken_device_is_captured_another_way() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let (first, second) = (capture(&lab, &[RX_DEV]), capture(&lab, &[RX_DEV]));
    second.until_it_says("TPACKET_V3");
    second.until_it_says("not XDP: rx0 already runs the XDP program wr_capture");
    let sent = send(&lab, "--count 100");
    let reports = [first, second].map(end);
    assert!(
        reports[1]["source"].as_str().unwrap().contains("already runs the XDP program"),
        "{}",
        reports[1]
    );
    assert_eq!(reports.map(|report| number(&report, "written")), [sent, sent]);
    Ok(())
}

/// What an earlier wirerate could leave: a program with our name, attached without a link.
fn a_program_left_behind() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let [source, object] = ["left.c", "left.o"].map(|name| lab.file(name).display().to_string());
    attach(&lab, "wr_left", &source, &object);
    let words = format!("capture {RX_DEV} --netns {} --source xdp --count 1", lab.rx_netns);
    wirerate_run(&words).expect_code(3).says(&["rx0 already runs the XDP program wr_left"]);
    let running = capture(&lab, &[RX_DEV, "--source", "xdp", "--force"]);
    let sent = send(&lab, "--count 10");
    assert_eq!(number(&end(running), "written"), sent);
    Ok(())
}

fn a_strange_program_is_never_replaced() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let [source, object] = ["other.c", "other.o"].map(|name| lab.file(name).display().to_string());
    attach(&lab, "other", &source, &object);
    let words = format!("capture {RX_DEV} --netns {} --source xdp --force", lab.rx_netns);
    wirerate_run(&words).expect_code(3).says(&["rx0 already runs the XDP program other", "--source tpacket"]);
    // Nor is one of ours that is at work.
    run(&["ip", "-n", &lab.rx_netns, "link", "set", "dev", RX_DEV, "xdp", "off"]);
    let first = capture(&lab, &[RX_DEV]);
    wirerate_run(&words).expect_code(3).says(&["rx0 already runs the XDP program wr_capture"]);
    let sent = send(&lab, "--count 10");
    assert_eq!(number(&end(first), "written"), sent);
    Ok(())
}

/// Attaches a program of this name that lets every frame pass.
fn attach(lab: &Lab, name: &str, source: &str, object: &str) {
    let text = format!(
        "__attribute__((section(\"xdp\"), used)) int {name}(void *context) {{ (void)context; return 2; }}\n\
         char terms[] __attribute__((section(\"license\"), used)) = \"Dual BSD/GPL\";"
    );
    std::fs::write(source, text).unwrap();
    run(&["clang", "-O2", "-g", "-target", "bpf", "-c", source, "-o", object]);
    let words =
        ["ip", "-n", &lab.rx_netns, "link", "set", "dev", RX_DEV, "xdp", "object", object, "section", "xdp"];
    run(&words);
}

/// A tun device that lives as long as the script and receives twenty IPv4 packets when the script
/// is told to.
const TUN: &str = "
import fcntl, os, struct, sys
tun = os.open('/dev/net/tun', os.O_RDWR)
IFF_TUN, IFF_NO_PI, TUNSETIFF = 1, 0x1000, 0x400454ca
fcntl.ioctl(tun, TUNSETIFF, struct.pack('16sH22x', b'wrtun', IFF_TUN | IFF_NO_PI))
os.system('ip link set dev wrtun up')
print('ready', file=sys.stderr, flush=True)
sys.stdin.readline()
for port in range(20):
    udp = struct.pack('!HHHH', 1000, port, 8 + 5, 0) + b'hello'
    ip = struct.pack('!BBHHHBBHII', 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0, 0xc6120001, 0xc6120002)
    os.write(tun, ip + udp)
print('sent', file=sys.stderr, flush=True)
sys.stdin.readline()
";

fn frames_without_a_link_header() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let path = lab.file("tun.pcapng");
    let mut script = in_netns(&lab.rx_netns, "python3");
    script.args(["-c", TUN]).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut script = script.spawn()?;
    let (mut orders, mut said) =
        (script.stdin.take().unwrap(), BufReader::new(script.stderr.take().unwrap()));
    let mut hear = |word: &str| {
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        assert_eq!(line.trim(), word);
    };
    hear("ready");
    let words = ["wrtun", "-w", path.to_str().unwrap(), "--filter", "udp dst portrange 5-14"];
    let running = capture(&lab, &words);
    running.until_it_says("not XDP: frames of wrtun have no Ethernet header");
    orders.write_all(b"go\n")?;
    hear("sent");
    let report = end(running);
    drop(orders);
    script.wait()?;
    assert_eq!((number(&report, "written"), report["filtered"].is_null()), (10, true));
    let text = run(&["tcpdump", "-n", "-r", path.to_str().unwrap(), "ip and udp dst port 9"]);
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.contains("198.18.0.1.1000 > 198.18.0.2.9: "), "{text}");
    Ok(())
}

fn two_devices_in_one_file() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let netns = &lab.rx_netns;
    run(&["ip", "-n", netns, "link", "add", "near", "type", "veth", "peer", "name", "far"]);
    for name in ["near", "far"] {
        run(&["ip", "-n", netns, "link", "set", "dev", name, "up"]);
    }
    let path = lab.file("both.pcapng");
    let running = capture(&lab, &[RX_DEV, "far", "-w", path.to_str().unwrap()]);
    let sent = send(&lab, "--count 70 --size 100");
    let words =
        format!("send near --netns {netns} --dst 198.18.9.9 --dst-mac 02:00:00:00:09:09 --engine af_packet");
    wirerate_run(&format!("{words} --count 30 --size 200")).expect_code(0);
    let far = || run(&["ip", "netns", "exec", netns, "cat", "/sys/class/net/far/statistics/rx_packets"]);
    until("frames have come by the other pair", || far().trim() == "30");
    let report = end(running);
    assert_eq!((number(&report, "written"), report["device"].as_str()), (sent + 30, Some("rx0 and far")));
    let count = |filter: &str| tshark(&path, filter, &["frame.number"]).len() as u64;
    assert_eq!(count("frame.interface_name == rx0 and frame.len == 100"), sent);
    assert_eq!(count("frame.interface_name == far and frame.len == 200"), 30);
    Ok(())
}

/// Rings of the same CPU, but of two devices, have two files.
fn two_devices_with_a_file_for_each_cpu() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    run(&["ip", "-n", &lab.rx_netns, "link", "set", "dev", "lo", "up"]);
    let path = lab.file("each.pcapng");
    let running = capture(&lab, &[RX_DEV, "lo", "--per-cpu", "-w", path.to_str().unwrap()]);
    let sent = send(&lab, "--count 300 --size 100");
    run(&["ip", "netns", "exec", &lab.rx_netns, "ping", "-q", "-c", "5", "-i", "0.01", "127.0.0.1"]);
    let report = end(running);
    assert_eq!(number(&report, "received"), sent + 10);
    let rows = report["cpus"].as_array().expect("a row for each CPU");
    let cpus: BTreeSet<u64> = rows.iter().filter_map(|row| row["cpu"].as_u64()).collect();
    assert_eq!(cpus.len(), rows.len(), "one row for each CPU: {report}");
    let count_of = |device: &str| {
        let entries = std::fs::read_dir(path.parent().unwrap()).expect("a folder");
        let paths = entries.map(|entry| entry.expect("an entry").path());
        let begin = format!("each_{device}_");
        let of_device = paths.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with(&begin));
        of_device.map(|path| packet_count(&path)).sum::<u64>()
    };
    assert_eq!((count_of(RX_DEV), count_of("lo")), (sent, 10), "{report}");
    Ok(())
}

/// A conversation with the capture on the receiver's device.
struct Talk(BufReader<UnixStream>);

impl Talk {
    fn with(lab: &Lab) -> Self {
        let netns = std::fs::metadata(format!("/run/netns/{}", lab.rx_netns)).unwrap().ino();
        let path = format!("/run/wirerate/capture/{netns}-{RX_DEV}");
        Self(BufReader::new(UnixStream::connect(path).expect("the capture listens")))
    }

    fn tell(&mut self, order: &str) -> String {
        writeln!(self.0.get_mut(), "{order}").unwrap();
        let mut answer = String::new();
        self.0.read_line(&mut answer).unwrap();
        answer
    }
}

fn a_thousand_switches_lose_nothing() -> TestResult {
    const SWITCHES: usize = 1_000;
    let lab = Lab::new(Peer::Gro);
    // Space for all of them: how fast a busy machine lets the reader run is not the question here.
    let running = capture(&lab, &[RX_DEV, "--ring", "64MiB"]);
    let seen_before = stack_received(&lab);
    let arrived_before = lab.received();
    let sender = Running::start({
        let mut command = wirerate();
        // Until it is told that the switches are done.
        command.args(sending(&lab, "--count 0 --pps 20000").split_whitespace());
        command
    });
    let mut talk = Talk::with(&lab);
    until("frames come", || lab.received() > arrived_before);
    let mut switches = 0;
    until("a thousand switches, and frames that met either mode", || {
        for mode in ["drop", "mirror"].repeat(50) {
            assert_eq!(talk.tell(&format!("mode {mode}")), "ok\n");
            switches += 1;
        }
        // Frames come in bursts, and those on their way to the host are not there yet.
        let (came, seen) = (lab.received() - arrived_before, stack_received(&lab) - seen_before);
        switches >= SWITCHES && seen > 0 && seen + 100 < came
    });
    sender.signal(Signal::SIGINT);
    let sent = number(&crate::send::report(&sender.wait(TIME_LIMIT).expect_paced()), "sent");
    assert_eq!(lab.received_at_last(arrived_before + sent), arrived_before + sent);
    let report = end(running);
    assert_eq!((number(&report, "received"), number(&report, "written")), (sent, sent), "{report}");
    assert_eq!((number(&report, "lost"), report["mode"].as_str()), (0, Some("mirror")));
    let seen = stack_received(&lab) - seen_before;
    assert!(seen > 0 && seen < sent, "{seen} of {sent} frames came to the host");
    Ok(())
}

/// IPv4 packets that came to the receiving host.
fn stack_received(lab: &Lab) -> u64 {
    let text = run(&["ip", "netns", "exec", &lab.rx_netns, "cat", "/proc/net/snmp"]);
    let row = text.lines().filter(|line| line.starts_with("Ip:")).nth(1).expect("the numbers of Ip");
    row.split(' ').nth(3).expect("InReceives").parse().expect("a number")
}

fn a_capture_does_as_it_is_told() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let tell = |words: &str| wirerate_run(&format!("tell {RX_DEV} {words} --netns {}", lab.rx_netns));
    tell("stats").expect_code(3).says(&["no capture runs on rx0 here"]);
    tell("mode dorp")
        .expect_code(2)
        .says(&["\"mode dorp\" is none of: mode mirror, mode drop, stats, rotate, save, stop"]);
    let running = capture(&lab, &[RX_DEV]);
    let before = stack_received(&lab);
    tell("mode drop").expect_code(0);
    let sent = send(&lab, "--count 50");
    let stats: Value = serde_json::from_str(&tell("stats").expect_code(0).stdout).unwrap();
    assert_eq!(number(&stats, "received"), sent);
    assert_eq!(stack_received(&lab), before);
    tell("stop").expect_code(0);
    let report = report(&running.wait(TIME_LIMIT).expect_code(0));
    assert_eq!((number(&report, "written"), report["mode"].as_str()), (sent, Some("drop")));
    tell("stop").expect_code(3).says(&["no capture runs on rx0 here"]);
    // One that is killed leaves its socket, and the next one takes it over.
    let killed = capture(&lab, &[RX_DEV]);
    killed.signal(Signal::SIGKILL);
    killed.wait(TIME_LIMIT);
    tell("stats").expect_code(3).says(&["no capture runs on rx0 here"]);
    until("the device is free", || !lab.has_xdp());
    let next = capture(&lab, &[RX_DEV]);
    tell("stop").expect_code(0);
    next.wait(TIME_LIMIT).expect_code(0);
    Ok(())
}
