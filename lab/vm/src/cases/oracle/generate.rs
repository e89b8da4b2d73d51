//! Command sequences from a seed: mostly what scripts write, and some unusual ones. Not among them:
//! commands whose effect differs on purpose (docs/pktgen.md), and those that harm the kernel.

use super::step::OracleStep;
use serde::{Deserialize, Serialize};

/// Commands from an empty tree on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Sequence {
    pub(super) seed: u64,
    /// The device instance they are for.
    pub(super) device: String,
    /// Of what is recorded, its name there.
    pub(super) name: Option<String>,
    /// What is done, one after the other.
    pub(super) steps: Vec<OracleStep>,
    /// Frames go out, so the tree must hold nothing else.
    pub(super) has_start: bool,
    /// Some fields are drawn, so frames of two runs are not the same.
    pub(super) is_random: bool,
}

/// splitmix64: the sequence of a seed must be the same everywhere and for ever.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len() as u64) as usize]
    }

    fn one_in(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }
}

/// Flags whose frames are the same in every run.
const FLAGS: &[&str] = &["IPV6", "NO_TIMESTAMP", "UDPCSUM", "QUEUE_MAP_CPU", "FLOW_SEQ", "MPLS_RND"];
/// Flags that draw.
const RANDOM_FLAGS: &[&str] = &[
    "IPSRC_RND",
    "TXSIZE_RND",
    "UDPSRC_RND",
    "UDPDST_RND",
    "MACSRC_RND",
    "MACDST_RND",
    "VID_RND",
    "SVID_RND",
    "QUEUE_MAP_RND",
];
const MACS: &[&str] = &["02:00:00:00:00:02", "02:00:00:00:00:ff", "0A:0b:0C:0d:0E:0f", "00:11:22:33:44:55"];
const V4: &[&str] = &["10.0.0.1", "10.0.0.9", "192.168.1.250", "198.18.0.1", "172.16.255.254", "1.2.3.4"];
const V6: &[&str] = &["fd00::1", "fd00::2:3", "2001:db8::ffff", "fe80::1"];
const PORTS: &[&str] = &["0", "9", "10", "1000", "1003", "65535", "70000"];
const SIZES: &[&str] = &["0", "14", "42", "58", "60", "61", "64", "100", "128", "300", "1000", "1514"];
const COUNTS: &[&str] = &["1", "2", "3", "5", "8", "11"];
const NUMBERS: &[&str] =
    &["0", "1", "2", "3", "7", "12abc", "", "abc", "-5", "0x10", "300", "4096", "99999999999"];
const SEPARATORS: &[&str] = &[" ", " ", " ", " ", "=", "  ", "\t", " \"", " = "];
const ENDS: &[&str] = &["\n", "\n", "\n", "", " \n", "\r\n", "\n\n", " junk\n", "\"\n", "\0\n"];

/// The sequence of a seed.
pub(super) fn sequence(seed: u64) -> Sequence {
    let mut random = Random(seed.wrapping_mul(0x1234_5678_9abc_def1));
    let has_start = random.below(10) < 3;
    let suffix = if has_start && random.one_in(2) { String::new() } else { format!("@{}", seed % 1_000_000) };
    let device = format!("pgv0{suffix}");
    let mut sequence = Sequence { seed, name: None, device, steps: Vec::new(), has_start, is_random: false };
    let add = format!("add_device {}\n", sequence.device);
    sequence.steps.push(OracleStep::write("kpktgend_0", add));
    sequence.write("dst_mac 02:00:00:00:00:02\n".to_owned());
    for _ in 0..2 + random.below(12) {
        let command = command(&mut random, &mut sequence.is_random);
        sequence.write(command);
    }
    if has_start {
        sequence.write(format!("count {}\n", random.pick(COUNTS)));
        if random.one_in(2) {
            sequence.write("delay 0\n".to_owned());
        }
        for _ in 0..1 + u64::from(random.one_in(4)) {
            sequence.steps.push(OracleStep::write("pgctrl", "start\n".to_owned()));
        }
    } else if random.one_in(4) {
        let odd = random.pick(&["bogus\n", "start now\n", "STOP\n", " stop\n", "reset \n"]).to_owned();
        sequence.steps.push(OracleStep::write("pgctrl", odd));
    }
    if random.one_in(6) {
        let odd = random.pick(&[
            "add_device nosuch\n",
            "add_device\n",
            "rem_device pgv0\n",
            "max_before_softirq 5\n",
            "add_device pgv0/x\n",
        ]);
        sequence.steps.push(OracleStep::write("kpktgend_0", odd.to_owned()));
    }
    sequence
}

impl Sequence {
    fn write(&mut self, command: String) {
        self.steps.push(OracleStep::write(&self.device, command));
    }

    /// As a person finds it again.
    pub(super) fn called(&self) -> String {
        self.name.clone().unwrap_or_else(|| format!("seed {}", self.seed))
    }
}

/// One command for a device file.
fn command(random: &mut Random, is_random: &mut bool) -> String {
    let (name, value) = match random.below(36) {
        0 => ("pkt_size", random.pick(SIZES).to_owned()),
        1 => ("min_pkt_size", random.pick(SIZES).to_owned()),
        2 => ("max_pkt_size", random.pick(SIZES).to_owned()),
        3 => ("frags", random.pick(&["0", "1", "2", "5", "99"]).to_owned()),
        4 => ("delay", random.pick(&["0", "100", "1000", "20000", "100us"]).to_owned()),
        5 => ("dst", random.pick(V4).to_owned()),
        6 => ("dst_min", random.pick(V4).to_owned()),
        7 => ("dst_max", random.pick(V4).to_owned()),
        8 => ("src_min", random.pick(V4).to_owned()),
        9 => ("src_max", random.pick(V4).to_owned()),
        10 => ("dst6", random.pick(V6).to_owned()),
        11 => ("src6", random.pick(V6).to_owned()),
        12 => ("dst_mac", random.pick(MACS).to_owned()),
        13 => ("src_mac", random.pick(MACS).to_owned()),
        14 => ("dst_mac_count", random.pick(&["0", "1", "2", "3", "300"]).to_owned()),
        15 => ("udp_src_min", random.pick(PORTS).to_owned()),
        16 => ("udp_src_max", random.pick(PORTS).to_owned()),
        17 => ("udp_dst_min", random.pick(PORTS).to_owned()),
        18 => ("udp_dst_max", random.pick(PORTS).to_owned()),
        19 => ("vlan_id", random.pick(&["0", "1", "100", "4095", "4096", "9999"]).to_owned()),
        20 => ("vlan_p", random.pick(&["0", "1", "5", "7", "8"]).to_owned()),
        21 => ("vlan_cfi", random.pick(&["0", "1", "2"]).to_owned()),
        22 => ("svlan_id", random.pick(&["0", "1", "100", "4095", "4096", "9999"]).to_owned()),
        23 => ("svlan_p", random.pick(&["0", "3", "7", "8"]).to_owned()),
        24 => ("svlan_cfi", random.pick(&["0", "1", "2"]).to_owned()),
        25 => ("tos", random.pick(&["0", "b8", "ff", "1ff", "xyz", "4"]).to_owned()),
        26 => ("traffic_class", random.pick(&["0", "b8", "ff", "100", "4"]).to_owned()),
        27 => {
            ("mpls", random.pick(&["00000001", "0001000a,0002000a,0000000a", "xyz", "0", "1,2"]).to_owned())
        }
        28 => ("skb_priority", random.pick(NUMBERS).to_owned()),
        29 => ("queue_map_min", random.pick(&["0"]).to_owned()),
        30 => ("xmit_mode", random.pick(&["start_xmit", "bogus"]).to_owned()),
        31 => ("clear_counters", String::new()),
        32 => ("count", random.pick(NUMBERS).to_owned()),
        33 => return odd(random),
        _ => ("flag", flag(random, is_random)),
    };
    format!("{name}{}{value}{}", random.pick(SEPARATORS), random.pick(ENDS))
}

fn flag(random: &mut Random, is_random: &mut bool) -> String {
    let not = if random.one_in(4) { "!" } else { "" };
    let name = match random.below(8) {
        0 => random.pick(&["BOGUS", "ipv6", "", "IPV6x", "SHARED2"]),
        1 | 2 => {
            *is_random = true;
            random.pick(RANDOM_FLAGS)
        }
        _ => random.pick(FLAGS),
    };
    *is_random |= name == "MPLS_RND";
    format!("{not}{name}")
}

/// What no manual says.
fn odd(random: &mut Random) -> String {
    random
        .pick(&[
            "\n",
            " \n",
            "bogus\n",
            "bogus 1 2 3\n",
            "COUNT 5\n",
            "max_before_softirq 100\n",
            "pkt_sizepkt_size 60\n",
            "count\0 99\n",
            "=count 5\n",
            "\"count\" \"6\"\n",
            "flag\n",
            "udp_src_min\n",
            "dst_mac 02:00:00:00:00:zz\n",
            "dst_mac 02-00-00-00-00-02\n",
            "start\n",
            "config 1\n",
        ])
        .to_owned()
}
