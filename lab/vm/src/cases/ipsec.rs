//! Frames of any kind with IPsec: what the receiver's kernel opens is the truth.

use super::{Case, CaseReport, MachineType};
use crate::guest::sh;
use anyhow::{Context, Result, ensure};
use serde_json::Value;

pub(super) const CASES: &[Case] = &[Case {
    name: "ipsec_frames",
    what: "`send --ipsec` with TCP, ICMP, VXLAN, a VLAN tag and streams: the receiver's kernel opens each frame of the \
           engines with ciphers, in transport and tunnel mode",
    modules: MODULES,
    devices: "",
    machine: MachineType::Common,
    run,
}];

/// What ESP with AES-GCM, tags and the wire need, where the kernel has it not built in.
const MODULES: &[&str] = &[
    "8021q",
    "authenc",
    "ctr",
    "drbg",
    "echainiv",
    "esp4",
    "gcm",
    "ghash-generic",
    "seqiv",
    "tunnel4",
    "veth",
    "xfrm4_tunnel",
    "xfrm_user",
];
/// Frames of one run.
const COUNT: u64 = 40;

/// Two namespaces with the same associations, gone when dropped: 256 is in transport mode, which
/// also the addresses find, and 512 in tunnel mode.
struct Ends;

impl Ends {
    fn new() -> Result<Self> {
        MODULES.iter().try_for_each(|name| crate::guest::load(name, ""))?;
        sh("for name in near far; do ip netns add $name; done
            ip link add v0 netns near type veth peer v0 netns far
            ip -n far link set v0 address 02:00:00:00:00:02
            for side in 'near 1' 'far 2'; do
                set -- $side
                ip -n $1 address add 192.0.2.$2/24 dev v0
                ip -n $1 link set v0 up
                for association in '256 transport' '512 tunnel'; do
                    set -- $1 $association
                    ip -n $1 xfrm state add src 192.0.2.1 dst 192.0.2.2 proto esp spi $2 mode $3 \\
                        aead 'rfc4106(gcm(aes))' 0x000102030405060708090a0b0c0d0e0f10111213 128
                done
            done
            ip -n far link add link v0 name tagged type vlan id 7
            ip -n far link set tagged up
            ip netns exec far sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.tagged.rp_filter=0")?;
        Ok(Self)
    }

    /// A counter of the far side's IP layers, such as `Tcp InSegs`.
    fn counted(&self, name: &str) -> Result<u64> {
        let (protocol, name) = name.split_once(' ').context("a protocol and a name")?;
        let text = sh("ip netns exec far cat /proc/net/snmp")?;
        let mut rows = text.lines().filter_map(|line| line.strip_prefix(protocol)?.strip_prefix(": "));
        let [names, numbers] = [rows.next(), rows.next()].map(|row| row.unwrap_or_default().split(' '));
        let found = names.zip(numbers).find(|(known, _)| *known == name);
        found.and_then(|(_, number)| number.parse().ok()).with_context(|| text.clone())
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = sh("for name in near far; do ip netns del $name; done");
    }
}

fn run(finding: &mut CaseReport) -> Result<()> {
    let ends = Ends::new()?;
    std::fs::write(
        "/tmp/streams.json",
        r#"[{"name": "syn", "tcp": true, "syn": true, "ipsec": true, "src": "192.0.2.1", "dst": "192.0.2.2",
             "dst-mac": "02:00:00:00:00:02", "size": 200}]"#,
    )?;
    let tagged = "--frame '{ eth(da=02:00:00:00:00:02), vlan(id=7), ipv4(sa=192.0.2.1, da=192.0.2.2), \
                  udp(dp=dinc(9, 12)), fill(0, 30) }'";
    let to = "--src 192.0.2.1 --dst 192.0.2.2 --dst-mac 02:00:00:00:00:02";
    for (words, counter) in [
        (format!("{to} --ipsec"), "Udp NoPorts"),
        (format!("{to} --ipsec --tcp --udp-dst 7-9"), "Tcp InSegs"),
        (format!("{to} --ipsec --tcp --spi 512 --size 60-99"), "Tcp InSegs"),
        (format!("{to} --ipsec --icmp echo"), "Icmp InEchos"),
        (format!("{to} --ipsec --vxlan 42"), "Udp NoPorts"),
        (format!("{tagged} --ipsec --spi 256"), "Udp NoPorts"),
        ("--streams /tmp/streams.json".to_owned(), "Tcp InSegs"),
    ] {
        for engine in ["skb", "af_packet", "af_xdp"] {
            let before = ends.counted(counter)?;
            let limit = if words.contains("--streams") { "--duration 1s --pps 40" } else { "--count 40" };
            let text =
                sh(&format!("wirerate send v0 --netns near --json --engine {engine} {limit} {words}"))?;
            let line = text.lines().rfind(|line| line.starts_with('{')).with_context(|| text.clone())?;
            let report: Value = serde_json::from_str(line).with_context(|| line.to_owned())?;
            ensure!(report["sent"] == COUNT, "{words} by {engine}: {report}");
            let arrived = || Ok::<_, anyhow::Error>(ends.counted(counter)? - before);
            for _ in 0..100 {
                if arrived()? >= COUNT {
                    break;
                }
                sh("sleep 0.1")?;
            }
            let (arrived, errors) = (arrived()?, sh("ip netns exec far cat /proc/net/xfrm_stat")?);
            ensure!(arrived == COUNT, "{words} by {engine}: {arrived} of {COUNT} were opened\n{errors}");
        }
    }
    // A dry run shows what is sent, and a flow without an association is refused.
    let shown = sh(&format!("wirerate send v0 --netns near --dry-run=1 --json {to} --tcp --ipsec"))?;
    ensure!(shown.contains(r#""ipsec":"esp","spi":256"#), "{shown}");
    let range =
        "wirerate send v0 --netns near --src 192.0.2.1 --dst 192.0.2.2-192.0.2.9 --dst-mac 02:00:00:00:00:02";
    let refused = sh(&format!("{range} --tcp --ipsec 2>&1 || [ $? = 3 ]"))?;
    ensure!(refused.contains("from 192.0.2.1 to 192.0.2.3"), "{refused}");
    finding.note("opened", "UDP, TCP, ICMP, VXLAN, a tag, streams");
    Ok(())
}
