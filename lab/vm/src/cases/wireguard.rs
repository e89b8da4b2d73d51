//! `send`, `trafgen` and `replay` by a WireGuard device, whose frames are IP packets. The counters
//! of the peer's device are the truth.

use super::{Case, CaseReport, MachineType};
use crate::guest::{Background, sh, try_sh};
use anyhow::{Context, Result, ensure};
use pcapng::pcap;
use serde_json::Value;
use std::fs::File;

pub(super) const CASES: &[Case] = &[Case {
    name: "wireguard",
    what: "packets of `send`, `trafgen` and `replay` by a WireGuard device: the peer decrypts as many as were sent, without a \
           link header; a packet without a peer is an error that says so",
    modules: &["wireguard"],
    devices: "",
    machine: MachineType::Common,
    run,
}];

/// Packets of the file that is replayed.
const REPLAYED: u64 = 200;
const PCAP_HEADER_LEN: u64 = 24;
const PCAP_RECORD_LEN: u64 = 16;

/// Two ends of a tunnel, gone when dropped.
struct Tunnel;

impl Tunnel {
    /// `wg0` in `near` has 10.9.0.1 and fd09::1, `wg0` in `far` 10.9.0.2 and fd09::2. A queue is
    /// long enough for all packets of a run.
    fn new() -> Result<Self> {
        crate::guest::load("wireguard", "")?;
        sh("for name in near far; do ip netns add $name; done
            ip link add v0 netns near type veth peer v0 netns far
            for side in 'near 1' 'far 2'; do
                set -- $side
                ip -n $1 address add 192.0.2.$2/24 dev v0
                ip -n $1 link set v0 up
                ip -n $1 link add wg0 type wireguard
                ip netns exec $1 sysctl -qw net.ipv6.conf.wg0.disable_ipv6=0 net.ipv6.conf.wg0.accept_dad=0
                wg genkey >/tmp/$1.key
            done
            join() {
                ip netns exec $1 wg set wg0 listen-port 51820 private-key /tmp/$1.key \\
                    peer \"$(wg pubkey </tmp/$2.key)\" allowed-ips 10.9.0.$3/32,fd09::$3/128 endpoint 192.0.2.$3:51820
            }
            join near far 2; join far near 1
            for side in 'near 1' 'far 2'; do
                set -- $side
                ip -n $1 address add 10.9.0.$2/24 dev wg0
                ip -n $1 address add fd09::$2/64 dev wg0 nodad
                ip -n $1 link set wg0 mtu 1420 up
            done
            # The keys are agreed upon before packets are counted.
            for i in $(seq 100); do ip netns exec near ping -c 1 -W 1 10.9.0.2 >/dev/null && exit 0; done; exit 1")?;
        Ok(Self)
    }

    /// Packets that the far device has decrypted.
    fn received(&self) -> Result<u64> {
        let text = sh("ip netns exec far cat /sys/class/net/wg0/statistics/rx_packets")?;
        text.trim().parse().with_context(|| text.clone())
    }

    /// Runs a command and waits until the far device has this number of packets more.
    fn run(&self, words: &str, packets: u64) -> Result<Value> {
        let before = self.received()?;
        let report = report(&format!("wirerate {words} --netns near --json"))?;
        ensure!(report["sent"] == packets, "{words}: {report}");
        for _ in 0..100 {
            if self.received()? >= before + packets {
                break;
            }
            sh("sleep 0.1")?;
        }
        let arrived = self.received()? - before;
        ensure!(arrived == packets, "{words}: {arrived} arrived, {report}");
        Ok(report)
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        let _ = sh("for name in near far; do ip netns del $name; done; rm -f /tmp/near.key /tmp/far.key");
    }
}

/// The report of a command, whatever its exit code.
fn report(command: &str) -> Result<Value> {
    let text = sh(&format!("{command} || [ $? = 1 ]"))?;
    let line = text.lines().rfind(|line| line.starts_with('{')).with_context(|| text.clone())?;
    serde_json::from_str(line).with_context(|| line.to_owned())
}

fn run(finding: &mut CaseReport) -> Result<()> {
    let tunnel = Tunnel::new()?;
    let udp = "ipv4(sa=10.9.0.1,da=10.9.0.2), udp(sp=1,dp=2), fill(0x55,18)";
    std::fs::write("/tmp/tagged.cfg", format!("{{ eth(), vlan(id=7), {udp} }}"))?;
    // Packets are encrypted behind the device: a pace that the machine keeps.
    for words in [
        "send wg0 --dst 10.9.0.2 --src 10.9.0.1 --count 500 --pps 1k",
        "send wg0 --dst 10.9.0.2 --src 10.9.0.1 --count 500 --pps 1k --size 1434",
        "send wg0 --dst fd09::2 --src fd09::1 --count 500 --pps 1k",
        "trafgen -i /tmp/tagged.cfg -o wg0 -n 500 -b 1000pps",
    ] {
        let report = tunnel.run(words, 500)?;
        ensure!(report["engine"]["name"] == "af_packet", "{words}: {report}");
    }
    let packet = packet([10, 9, 0, 2]);
    write_tagged("/tmp/tagged.pcap", &packet)?;
    // With its own snapshot length, 8 MiB are places for 32 packets.
    let tcpdump = Background::start(
        "exec ip netns exec far tcpdump -Z root -i wg0 -s 2048 -B 8192 --immediate-mode -U -w /tmp/far.pcap udp 2>/tmp/tcpdump",
    )?;
    sh("until grep -q 'listening on' /tmp/tcpdump; do sleep 0.1; done")?;
    tunnel.run("replay wg0 /tmp/tagged.pcap", REPLAYED)?;
    // tcpdump writes each packet when it comes; the loop ends after 10 s.
    let file_len = PCAP_HEADER_LEN + REPLAYED * (PCAP_RECORD_LEN + packet.len() as u64);
    sh(&format!(
        "for i in $(seq 100); do [ $(stat -c %s /tmp/far.pcap) -ge {file_len} ] && break; sleep 0.1; done"
    ))?;
    tcpdump.interrupt()?;
    let mut file = pcap::Reader::new(File::open("/tmp/far.pcap")?)?;
    let mut packets = 0;
    while let Some(record) = file.next_record()? {
        ensure!(record.data == packet, "{:02x?}, not {packet:02x?}", record.data);
        packets += 1;
    }
    ensure!(packets == REPLAYED, "tcpdump has {packets} packets");
    // No peer has this address.
    write_tagged("/tmp/elsewhere.pcap", &self::packet([10, 9, 0, 77]))?;
    // A replay has a report of what was sent before.
    for (words, code) in [
        ("send wg0 --dst 10.9.0.77 --src 10.9.0.1 --count 100 --pps 1k", 3),
        ("replay wg0 /tmp/elsewhere.pcap", 1),
    ] {
        let refused = try_sh(&format!("wirerate {words} --netns near"))?;
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        let is_clear = said.contains("none of its peers has the destination") && said.contains("wg show wg0");
        ensure!(refused.status.code() == Some(code) && is_clear, "{words}: {refused:?}");
    }
    finding.note("replayed", REPLAYED);
    Ok(())
}

/// A UDP packet of IPv4 with the right checksum, and none of UDP.
fn packet(dst: [u8; 4]) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 9, 0, 1];
    packet.extend(dst);
    let words = packet.chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    let sum: u32 = words.sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend([&[0, 1, 0, 2, 0, 26, 0, 0][..], &[0x55; 18]].concat());
    packet
}

/// A pcap file with the packet in Ethernet with a VLAN tag, a millisecond apart.
fn write_tagged(path: &str, packet: &[u8]) -> Result<()> {
    let link = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x81, 0, 0, 7, 8, 0];
    let data = [&link[..], packet].concat();
    let mut writer = pcap::Writer::new(Vec::new(), &pcap::Header::default())?;
    for number in 0..REPLAYED {
        let time_ns = number * 1_000_000;
        writer.record(&pcap::Record { time_ns, frame_len: data.len() as u32, data: &data })?;
    }
    Ok(std::fs::write(path, writer.finish()?)?)
}
