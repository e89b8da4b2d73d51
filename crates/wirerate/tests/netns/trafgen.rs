//! `trafgen -o DEV`: each engine sends the frames that `trafgen -o FILE.pcap` writes.

use crate::lab::{Lab, Peer, RX_DEV, TX_DEV};
use crate::program::{Running, TIME_LIMIT, in_netns, run, wirerate};
use crate::readers::{Frame, frames, on_the_wire};
use crate::{Case, TestResult, case};
use std::collections::BTreeSet;

/// Tests of packets in trafgen's language on a device.
pub(crate) const CASES: &[Case] = &[
    case(
        "trafgen::every_engine_sends_the_frames_of_the_file",
        &["dumpcap", "editcap", "tshark"],
        every_engine_sends_the_frames_of_the_file,
    ),
    case(
        "trafgen::send_sends_the_frames_that_its_dry_run_writes",
        &["dumpcap", "editcap", "tshark"],
        send_sends_what_its_dry_run_writes,
    ),
    case(
        "trafgen::each_protocol_arrives_whole_by_every_engine",
        &["dumpcap", "editcap", "tshark"],
        each_protocol_arrives_whole_by_every_engine,
    ),
    case(
        "trafgen::options_of_send_describe_packets_that_arrive",
        &["dumpcap", "editcap", "tshark"],
        options_of_send_describe_packets,
    ),
    case(
        "trafgen::configurations_from_the_wild_run_unchanged",
        &["dumpcap", "editcap", "trafgen", "cpp", "man", "gzip"],
        configurations_from_the_wild,
    ),
    case(
        "trafgen::long_frames_are_the_same_by_every_engine",
        &["dumpcap", "editcap", "tshark"],
        long_frames_are_the_same_by_every_engine,
    ),
    case(
        "trafgen::frames_on_a_device_are_those_of_the_installed_trafgen",
        &["dumpcap", "editcap", "trafgen"],
        frames_on_a_device_are_those_of_trafgen,
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
    // In a file, trafgen's ipv6() is not named.
    "{ eth(sa=02:00:00:00:00:01, da=02:00:00:00:00:02, type=0x86dd), ipv6(sa=fd00::1, da=fd00::2), \
       icmp6(echorequest), drnd(64) }
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

/// Sends a packet by an engine; `words` also describe it.
fn send(lab: &Lab, packets: &str, words: &[&str]) {
    let mut command = wirerate();
    // A mark has the time at which its frame was built.
    let words = [&["--seed", "7", "--signature", "none", "--frame", packets][..], words].concat();
    command.args(["send", TX_DEV, "--netns", &lab.tx_netns]).args(words);
    Running::start(command).wait(TIME_LIMIT).expect_code(0);
}

/// Each of `engines` sends the first `count` frames that the dry run writes, which are returned.
fn expect_frames_of_dry_run(
    lab: &Lab,
    packets: &str,
    sizes: &[&str],
    count: usize,
    engines: &[&str],
) -> Vec<Vec<u8>> {
    let path = lab.file("expected.pcapng");
    let (number, file) = (count.to_string(), path.display().to_string());
    let words = |more: &[&'static str]| [sizes, &["--count", &number], more].concat();
    send(lab, packets, &[&words(&["--dry-run=60", "--quiet"])[..], &["--write", &file]].concat());
    let written: Vec<_> = frames(&path).into_iter().map(|frame| frame.bytes).collect();
    assert_eq!(written.len(), count, "{packets}");
    for engine in engines {
        let seen =
            on_the_wire(lab, count, || send(lab, packets, &[&words(&["--engine"])[..], &[engine]].concat()));
        let seen: Vec<_> = seen.into_iter().map(|frame| frame.bytes).collect();
        let place = seen.iter().zip(&written).position(|(seen, written)| seen != written);
        assert_eq!((seen.len(), place), (count, None), "{engine}: {packets} {sizes:?}");
    }
    written
}

/// Options for the lengths of a packet: from 60 to 1514 bytes.
const SIZED: &[(&str, &[&str])] = &[
    (CONFIGS[0], &["--size", "60-1514", "--random", "size"]),
    (CONFIGS[1], &["--imix", "120:7,594:4,1514:1"]),
];

fn send_sends_what_its_dry_run_writes() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let engines = ["xdp", "skb", "af_packet", "af_xdp"];
    for config in CONFIGS {
        expect_frames_of_dry_run(&lab, config, &[], 60, &engines);
    }
    for (config, sizes) in SIZED {
        let written = expect_frames_of_dry_run(&lab, config, sizes, 60, &engines);
        let lens: BTreeSet<usize> = written.iter().map(Vec::len).collect();
        assert!(lens.len() > 2 && lens.iter().all(|len| (60..=1514).contains(len)), "{sizes:?}: {lens:?}");
        // The IP length counts the frame, and tshark finds no wrong checksum.
        let ip_len = |frame: &Vec<u8>| usize::from(u16::from_be_bytes([frame[16], frame[17]]));
        assert!(written.iter().all(|frame| ip_len(frame) + 14 == frame.len()), "{sizes:?}");
        assert_eq!(protocols(&lab.file("expected.pcapng")).len(), 60, "{sizes:?}");
    }
    Ok(())
}

/// Bytes that move at the end of a long frame are in its checksums.
fn long_frames_are_the_same_by_every_engine() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    for (netns, dev) in [(&lab.tx_netns, TX_DEV), (&lab.rx_netns, RX_DEV)] {
        run(&["ip", "-n", netns, "link", "set", "dev", dev, "mtu", "65535"]);
    }
    let packet = |len: usize| {
        format!(
            "{{ eth(sa=02:00:00:00:00:01, da=02:00:00:00:00:02), ipv4(sa=198.18.0.1, da=198.18.0.2, ttl=9, id=dinc()), \
             udp(sp=4000, dp=drnd()), fill(0x41, {}), drnd(8) }}",
            len - 50
        )
    };
    // Newer kernels take 112 bytes of the page of a live frame for themselves.
    let cases: [(usize, &[&str]); 3] =
        [(3400, &["xdp"]), (3500, &["skb", "af_packet", "af_xdp"]), (65_535, &["af_packet", "af_xdp"])];
    for (len, engines) in cases {
        let written = expect_frames_of_dry_run(&lab, &packet(len), &[], 6, engines);
        assert!(written.iter().all(|frame| frame.len() == len), "{len}");
        assert_eq!(protocols(&lab.file("expected.pcapng")).len(), 6, "{len}");
    }
    Ok(())
}

/// One packet of each protocol, and the protocols that tshark finds in it.
const PROTOCOLS: &[(&str, &str)] = &[
    ("eth(da=02:00:00:00:00:02, type=0x88b5), fill(1, 46)", "eth:ethertype:data"),
    ("pause(time=100), fill(0, 42)", "eth:ethertype:macc"),
    ("pfc(pri(3)=1, time(3)=100), fill(0, 26)", "eth:ethertype:macc"),
    ("arp(request, tip=198.18.0.2)", "eth:ethertype:arp"),
    ("ipv4(ttl=9), icmp4(echorequest, id=1, seq=dinc()), \"odd\"", "eth:ethertype:ip:icmp:data"),
    (
        "vlan(id=5, 1ad), vlan(id=6), ipv4(ttl=9), udp(dp=9), drnd(7)",
        "eth:ethertype:ieee8021ad:ethertype:vlan:ethertype:ip:udp:data",
    ),
    ("mpls(label=16), mpls(label=17, ttl=9), ipv4(ttl=9), tcp(syn, sp=drnd())", "eth:ethertype:mpls:ip:tcp"),
    (
        "ipv6(sa=fd00::1, da=drnd(), hl=9), icmp6(echorequest), c16(1), c16(2), drnd(3)",
        "eth:ethertype:ipv6:icmpv6",
    ),
    ("ipv6(sa=fd00::1, hl=9), udp(sp=4000, dp=dinc(4000, 4001)), 1, 2, 3", "eth:ethertype:ipv6:udp:data"),
    ("ipv4(ttl=9), udp(), dns(rd=1, query(name=\"www.example.com\"), id=drnd())", "eth:ethertype:ip:udp:dns"),
    ("ipv4(da=224.0.0.1, ttl=1), igmp(query, time=100)", "eth:ethertype:ip:igmp"),
    (
        "ipv4(ttl=9), sctp(sp=9000, dp=9001), hex(\"01000014 00000001 00010000 000a000a 00000007\")",
        "eth:ethertype:ip:sctp",
    ),
    (
        "ipv4(ttl=9), gre(key=7, seq=dinc()), ipv4(sa=10.0.0.1, ttl=9), udp(), 1",
        "eth:ethertype:ip:gre:ip:udp:data",
    ),
    (
        "ipv4(ttl=9), udp(sp=5000), vxlan(vni=42), eth(), ipv4(sa=10.0.0.1, da=dinc(), ttl=9), tcp(sp=drnd(), syn)",
        "eth:ethertype:ip:udp:vxlan:eth:ethertype:ip:tcp",
    ),
    (
        "ipv4(ttl=9), udp(sp=5000), geneve(vni=3), eth(), ipv4(ttl=9), icmp4(echorequest)",
        "eth:ethertype:ip:udp:geneve:eth:ethertype:ip:icmp",
    ),
    (
        "ipv4(ttl=9), udp(sp=2152), gtpu(teid=0x1234, seq=5), ipv4(ttl=9), udp(dp=values(7, 9)), 1",
        "eth:ethertype:ip:udp:gtp:ip:udp",
    ),
];

/// The protocols of each frame of a file that tshark finds no fault in: neither a malformed header
/// nor a wrong checksum.
fn protocols(path: &std::path::Path) -> Vec<String> {
    let mut words = vec!["tshark", "-n", "-r", path.to_str().unwrap(), "-T", "fields"];
    let checks = ["ip.check_checksum", "tcp.check_checksum", "udp.check_checksum", "sctp.checksum"];
    let checks = checks.map(|check| format!("{check}:TRUE"));
    words.extend(checks.iter().flat_map(|check| ["-o", check]));
    let bad = ["ip", "tcp", "udp", "icmp", "icmpv6", "igmp", "sctp"]
        .map(|protocol| format!("{protocol}.checksum.status == Bad"))
        .join(" or ");
    let good = format!("not (_ws.malformed or {bad})");
    words.extend(["-Y", &good, "-e", "frame.protocols"]);
    run(&words).lines().map(str::to_owned).collect()
}

fn each_protocol_arrives_whole_by_every_engine() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let file = lab.file("protocols.cfg");
    let packets: Vec<String> = PROTOCOLS.iter().map(|(packet, _)| format!("{{ {packet} }}")).collect();
    std::fs::write(&file, packets.join("\n"))?;
    // Twice each: the second frame has moved fields.
    let count = 2 * PROTOCOLS.len();
    for engine in ["xdp", "skb", "af_packet", "af_xdp"] {
        let seen = on_the_wire(&lab, count, || {
            let mut command = wirerate();
            command
                .args(["send", TX_DEV, "--netns", &lab.tx_netns, "--engine", engine, "--frames"])
                .arg(&file);
            command.args(["--count", &count.to_string(), "--quiet"]);
            Running::start(command).wait(TIME_LIMIT).expect_code(0);
        });
        assert_eq!(seen.len(), count, "{engine}");
        let found = protocols(&lab.file("wire.pcapng"));
        assert_eq!(found.len(), count, "{engine}: {found:?}");
        // The longest first: one may be the beginning of another. The order does not count: GRO may
        // hold frames back.
        let mut expected = PROTOCOLS.to_vec();
        expected.sort_by_key(|(_, protocols)| std::cmp::Reverse(protocols.len()));
        let mut found = found;
        for (packet, protocols) in expected.iter().flat_map(|of| [of, of]) {
            let place = found.iter().position(|found| found.starts_with(protocols));
            let place = place.unwrap_or_else(|| panic!("{engine}: {packet} is not in {found:?}"));
            found.remove(place);
        }
    }
    Ok(())
}

/// The MAC address of the next hop is that of the neighbour.
fn options_of_send_describe_packets() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    run(&[
        "ip",
        "-n",
        &lab.tx_netns,
        "neighbour",
        "replace",
        "198.18.0.2",
        "lladdr",
        "02:00:00:00:00:02",
        "dev",
        TX_DEV,
    ]);
    for (options, expected) in [
        ("--tcp --syn --dport 80 --sport 1024-65535 --random udp-src", "eth:ethertype:ip:tcp"),
        ("--icmp echo --payload hello --ttl 7", "eth:ethertype:ip:icmp:data"),
        ("--vlan 5 --vlan-prio 3 --payload 0x0102 --size 100", "eth:ethertype:vlan:ethertype:ip:udp:data"),
        ("--mpls 16,17 --tcp", "eth:ethertype:mpls:ip:tcp"),
        (
            "--vxlan 42 --tcp --syn --inner-dst 10.0.0.1-10.0.0.9",
            "eth:ethertype:ip:udp:vxlan:eth:ethertype:ip:tcp",
        ),
        ("--gre --icmp echo --inner-dst fd00::2", "eth:ethertype:ip:gre:ipv6:icmpv6"),
        ("--geneve 7 --tcp --clone-skb 2", "eth:ethertype:ip:udp:geneve:eth:ethertype:ip:tcp"),
        ("--gtpu 7 --icmp echo", "eth:ethertype:ip:udp:gtp:ip:icmp"),
        ("--arp", "eth:ethertype:arp"),
    ] {
        let seen = on_the_wire(&lab, 20, || {
            let mut command = wirerate();
            command.args(["send", TX_DEV, "--netns", &lab.tx_netns, "--dst", "198.18.0.2", "--count", "20"]);
            command.args(options.split(' '));
            Running::start(command).wait(TIME_LIMIT).expect_code(0);
        });
        let dst_mac = if options == "--arp" { [0xff; 6] } else { [2, 0, 0, 0, 0, 2] };
        assert!(seen.iter().all(|frame| frame.bytes[..6] == dst_mac), "{options}");
        let found = protocols(&lab.file("wire.pcapng"));
        assert!(
            found.len() == 20 && found.iter().all(|found| found.starts_with(expected)),
            "{options}: {found:?}"
        );
    }
    Ok(())
}

/// A SYN flood as people write it: the C preprocessor, numbers of the kernel's headers, all in
/// bytes.
const SYN_FLOOD: &str = "#include <stddef.h>
#define TARGET 198, 18, 0, 2
#define PORT 80
/* SYN flood from anywhere */
{
  fill(0xff, ETH_ALEN), 0x02, 0x00, 0x00, drnd(3), const16(ETH_P_IP),
  0b01000101, 0, const16(40), drnd(2), 0b01000000, 0, 64, IPPROTO_TCP, csumip(14, 33),
  drnd(4), TARGET,  # source and destination
  const16(1024 + 7), const16(PORT), drnd(4), c32(0),
  c16((5 << 12) | TCP_FLAG_SYN), c16(512), csumtcp(14, 34), c16(0)
}";

/// The packets in the man page of the installed trafgen.
fn packets_of_the_man_page() -> Vec<String> {
    let page = run(&["man", "--path", "trafgen"]);
    let page = run(&["gzip", "-cdf", page.trim()]);
    let mut packets: Vec<String> = Vec::new();
    let mut open = None::<String>;
    for line in page.lines() {
        match (line.trim(), open.take()) {
            ("{", None) => open = Some("{\n".to_owned()),
            ("}", Some(text)) => {
                // The page has the directive in front of the packet.
                let include = if text.contains("ETH_ALEN") { "#include <stddef.h>\n" } else { "" };
                packets.push(format!("{include}{text}}}\n"));
            }
            // Requests of the formatter are not part of the text.
            (line, Some(text)) if line.starts_with('.') => open = Some(text),
            (line, Some(text)) => open = Some(text + line + "\n"),
            _ => {}
        }
    }
    packets
}

/// What users have at hand: the man page's examples, what `trafgen -e` prints, a SYN flood. Bytes
/// that trafgen never changes are the same here.
fn configurations_from_the_wild() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let mut configs = packets_of_the_man_page();
    assert!(configs.len() >= 3, "{configs:?}");
    // It exits with 1.
    let example = std::process::Command::new("trafgen").arg("-e").output()?.stdout;
    configs.extend([String::from_utf8(example)?, SYN_FLOOD.to_owned()]);
    let path = lab.file("wild.cfg");
    let config_file = path.display().to_string();
    let mut accepted = 0;
    for config in configs {
        let mut words = vec!["--conf", &config_file, "-n", "60", "-P", "1"];
        words.extend(config.contains("#include").then_some("--cpp"));
        std::fs::write(&path, &config)?;
        let [theirs, ours] = ["theirs.pcap", "ours.pcap"].map(|name| lab.file(name));
        let mut trafgen = std::process::Command::new("trafgen");
        trafgen.args(&words).arg("-o").arg(&theirs);
        let is_accepted = Running::start(trafgen).wait(TIME_LIMIT).code == Some(0);
        let mut command = wirerate();
        command.arg("trafgen").args(&words).arg("-o").arg(&ours);
        Running::start(command).wait(TIME_LIMIT).expect_code(0);
        let ours = frames(&ours);
        assert_eq!(ours.len(), 60, "{config}");
        // trafgen rejects two of its man page's examples, which lack a comma.
        if is_accepted {
            accepted += 1;
            assert_fixed_bytes_are_equal(&frames(&theirs), &ours, &config);
        }
        let seen = on_the_wire(&lab, 60, || {
            let mut command = wirerate();
            command.arg("trafgen").args(&words).args(["--dev", TX_DEV, "--netns", &lab.tx_netns]);
            Running::start(command).wait(TIME_LIMIT).expect_code(0);
        });
        assert!(seen.iter().all(|frame| frame.bytes.len() == ours[0].bytes.len()), "{config}");
    }
    assert!(accepted >= 3, "trafgen accepts {accepted}");
    Ok(())
}

fn assert_fixed_bytes_are_equal(theirs: &[Frame], ours: &[Frame], config: &str) {
    assert_eq!(theirs.len(), ours.len(), "{config}");
    for (at, byte) in theirs[0].bytes.iter().enumerate() {
        let is_fixed = theirs.iter().all(|frame| frame.bytes.get(at) == Some(byte));
        let is_same = ours.iter().all(|frame| frame.bytes.get(at) == Some(byte));
        assert!(!is_fixed || is_same, "byte {at} of {config}");
    }
}

/// Headers with others behind them: the one below a header is added, and names it.
const BELOW: &[&str] = &[
    "",
    "eth(da=02:00:00:00:00:02), ",
    "vlan(id=5), ",
    "vlan(id=5, 1ad), vlan(id=6), ",
    "mpls(label=16), ",
    "eth(da=02:00:00:00:00:02, type=0x1234), ",
    "ipv4(sa=198.18.0.1, da=198.18.0.2, ttl=9), ",
];
const ABOVE: &[&str] = &[
    "ipv6(sa=fd00::1, da=fd00::2, hl=4)",
    "ipv6(sa=fd00::1, da=fd00::2), udp(sp=1, dp=dinc(5, 9))",
    "ipv6(sa=fd00::1, da=fd00::2), tcp(sp=4, dp=80, syn)",
    "ipv6(sa=fd00::1, da=fd00::2, fl=dinc()), icmp6(echorequest)",
    "ipv6(sa=fd00::1, da=fd00::2), dns(id=7)",
    "ipv4(sa=198.18.0.1, da=198.18.0.9), udp(sp=dinc(), dp=9)",
    "tcp(sp=1, dp=2, ack)",
    "icmp4(echorequest, id=1)",
    "icmp6(echorequest), 0, 1, 0, 2",
    "arp(sip=198.18.0.1, tip=198.18.0.2)",
];

fn frames_on_a_device_are_those_of_trafgen() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    // trafgen hangs on ARP and ICMPv6 behind IPv4.
    let hangs = |below: &str, above: &str| {
        below.starts_with("ipv4") && (above.starts_with("arp") || above.starts_with("icmp6"))
    };
    let packets = BELOW.iter().flat_map(|below| ABOVE.iter().map(move |above| (*below, *above)));
    let packets = packets.filter(|(below, above)| !hangs(below, above));
    let configs: Vec<String> = packets.map(|(below, above)| format!("{{ {below}{above} }}")).collect();
    assert!(configs.len() >= 60, "{}", configs.len());
    let file = lab.file("one.cfg");
    let seen = |ours: bool| {
        on_the_wire(&lab, 2 * configs.len(), || {
            for config in &configs {
                std::fs::write(&file, config).expect("a configuration");
                let mut command = if ours { wirerate() } else { in_netns(&lab.tx_netns, "trafgen") };
                let words: &[&str] = if ours { &["trafgen", "--netns", &lab.tx_netns] } else { &[] };
                command.args(words).arg("-i").arg(&file).args(["-o", TX_DEV, "-n", "2", "-P", "1"]);
                Running::start(command).wait(TIME_LIMIT).expect_code(0);
            }
        })
    };
    let [theirs, ours] = [false, true].map(|ours| seen(ours).into_iter().map(|frame| frame.bytes));
    for (number, (theirs, ours)) in theirs.zip(ours).enumerate() {
        assert_eq!(ours, theirs, "frame {number}: {}", configs[number / 2]);
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
    refused.wait(TIME_LIMIT).expect_code(3).says(&[
        "frames of 1614 bytes (1618 with FCS)",
        "mtu 1600",
        "try: -J if",
    ]);
    let words = ["-n", "5", "-J", "-o", TX_DEV, "--netns", &lab.tx_netns];
    trafgen("{ eth(da=02:00:00:00:00:02), fill(0, 1504) }", &words).wait(TIME_LIMIT).expect_code(0);
    Ok(())
}
