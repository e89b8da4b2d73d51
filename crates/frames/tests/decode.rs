//! What tshark makes of one frame of each protocol: no malformed frame, no wrong checksum.

use frames::{CaptureFrames, Expander, PacketOrder, ParseSettings, parse};
use pcapng::pcap::{Header, Record, Writer};
use std::path::Path;
use std::process::Command;

/// Packets, and the protocols that tshark finds in them.
const CASES: &[(&str, &str)] = &[
    ("{ eth(da=2:0:0:0:0:2, type=0x88b5), fill(1, 46) }", "eth:ethertype:data"),
    ("{ pause(time=100), fill(0, 42) }", "eth:ethertype:macc"),
    ("{ pfc(pri(3)=1, time(3)=100), fill(0, 26) }", "eth:ethertype:macc"),
    ("{ arp(request, sip=198.18.0.1, tip=198.18.0.2) }", "eth:ethertype:arp"),
    ("{ ipv4(sa=198.18.0.1) icmp4(echorequest, id=1, seq=dinc()) \"odd\" }", "eth:ethertype:ip:icmp:data"),
    (
        "{ vlan(id=5, 1ad) vlan(id=6) udp(dp=9) drnd(7) }",
        "eth:ethertype:ieee8021ad:ethertype:vlan:ethertype:ip:udp:data",
    ),
    ("{ mpls(label=16) mpls(label=17, ttl=9) tcp(syn, sp=drnd()) }", "eth:ethertype:mpls:ip:tcp"),
    (
        "{ eth(type=0x86dd) ipv6(sa=fd00::1, da=drnd()) icmp6(echorequest) c16(1) c16(2) drnd(3) }",
        "eth:ethertype:ipv6:icmpv6",
    ),
    (
        "{ eth(type=0x86dd) ipv6(sa=fd00::1, hl=9) udp(sp=4000, dp=dinc(4000, 4001)) 1 2 3 }",
        "eth:ethertype:ipv6:udp:data",
    ),
    (
        "{ dns(rd=1, query(name=\"www.example.com\"), answer(name=\"a.b\", addr(198.18.0.1)), id=drnd()) }",
        "eth:ethertype:ip:udp:dns",
    ),
    ("{ ipv4(da=224.0.0.1) igmp(query, time=100) }", "eth:ethertype:ip:igmp"),
    (
        "{ ipv4(sa=198.18.0.1) sctp(sp=9000, dp=9001, vtag=0) hex(\"01000014 00000001 00010000 000a000a 00000007\") }",
        "eth:ethertype:ip:sctp",
    ),
    (
        "{ ipv4(sa=198.18.0.1) gre(key=7, seq=dinc()) ipv4(sa=10.0.0.1) udp() 1 }",
        "eth:ethertype:ip:gre:ip:udp:data",
    ),
    ("{ gre() eth() arp() }", "eth:ethertype:ip:gre:eth:ethertype:arp"),
    (
        "{ udp(sp=5000) vxlan(vni=42) eth() ipv4(sa=10.0.0.1, da=dinc()) tcp(sp=drnd(), syn) \"abc\" }",
        "eth:ethertype:ip:udp:vxlan:eth:ethertype:ip:tcp:data",
    ),
    ("{ vxlan(vni=drnd(1, 9)) udp(sp=70) drnd(5) }", "eth:ethertype:ip:udp:vxlan:eth:ethertype:ip:udp:data"),
    (
        "{ geneve(vni=3) eth() ipv4() icmp4(echorequest) }",
        "eth:ethertype:ip:udp:geneve:eth:ethertype:ip:icmp",
    ),
    ("{ gtpu(teid=0x1234, seq=5) ipv4() udp(dp=values(7, 9)) 1 }", "eth:ethertype:ip:udp:gtp:ip:udp"),
    ("{ pcap(\"any\", 1) }", "eth:ethertype:ip:udp:data"),
];

/// One UDP frame.
struct OneFrame;

impl CaptureFrames for OneFrame {
    fn frame(&mut self, _: &str, number: u64) -> Result<Vec<u8>, String> {
        let specs =
            parse(b"{ udp(dp=9) 1 }", &ParseSettings::default(), self).map_err(|why| why.to_string())?;
        if number == 1 { Ok(specs[0].template.clone()) } else { Err("there is one frame".to_owned()) }
    }
}

#[test]
fn tshark_finds_no_fault_in_one_frame_of_each_protocol() {
    testkit::needs!(testkit::has_program("tshark"));
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("decode-{}.pcap", std::process::id()));
    let file = std::fs::File::create(&path).expect("the file can be written");
    let mut writer = Writer::new(file, &Header::default()).expect("a header");
    for (config, _) in CASES {
        let specs =
            parse(config.as_bytes(), &ParseSettings { seed: 1, ..ParseSettings::default() }, &mut OneFrame)
                .unwrap_or_else(|error| panic!("{error}"));
        let mut expander = Expander::new(&specs, PacketOrder::RoundRobin, 7);
        // The second frame has moved fields.
        expander.next_frame();
        let frame = expander.next_frame().expect("there are packets");
        writer.record(&Record { time_ns: 0, frame_len: frame.len() as u32, data: frame }).expect("a record");
    }
    writer.finish().expect("the file is complete");
    let mut tshark = Command::new("tshark");
    tshark.arg("-r").arg(&path).args(["-T", "fields", "-E", "separator=|"]);
    for protocol in ["ip", "tcp", "udp", "sctp"] {
        let setting = if protocol == "sctp" {
            "sctp.checksum:TRUE".to_owned()
        } else {
            format!("{protocol}.check_checksum:TRUE")
        };
        tshark.args(["-o", &setting]);
    }
    let fields = ["frame.protocols", "_ws.malformed", "_ws.expert.message"];
    let checked =
        ["ip", "tcp", "udp", "icmp", "icmpv6", "igmp", "sctp"].map(|of| format!("{of}.checksum.status"));
    for field in fields.into_iter().chain(checked.iter().map(String::as_str)) {
        tshark.args(["-e", field]);
    }
    let output = tshark.output().expect("tshark is installed");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(text.lines().count(), CASES.len(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    for (line, (config, protocols)) in text.lines().zip(CASES) {
        let cells: Vec<&str> = line.split('|').collect();
        assert!(cells[0].starts_with(protocols), "{config}: {line}");
        assert_eq!(cells[1], "", "{config}: {line}");
        assert!(!cells[3..].iter().any(|status| status.split(',').any(|one| one == "0")), "{config}: {line}");
    }
    std::fs::remove_file(path).expect("the file is there");
}
