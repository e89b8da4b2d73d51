//! The flat table of commands: everything that can be written to a control file.
//!
//! Widths, spellings and side effects are those of Linux 7.3 (specification sections 3 and 4).

use crate::PgctrlCommand;
use crate::scan::{Scan, until_nul};
use crate::set::{self, Setter};
use crate::thread::NAME_LEN_MAX;

/// Longest address of IPv6 as text that is looked at.
const IPV6_LEN_MAX: usize = 127;
/// Longest word or other address that is looked at.
const WORD_LEN_MAX: usize = 31;

/// The kind of file a command is written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// `pgctrl`.
    Pgctrl,
    /// `kpktgend_N`.
    Thread,
    /// The file of a device instance.
    Device,
}

/// What a command takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arg {
    /// Nothing.
    None,
    /// A decimal number; digits beyond these are not looked at.
    Number {
        /// Most digits.
        digits: usize,
    },
    /// A hexadecimal number without `0x`.
    Hex {
        /// Most digits.
        digits: usize,
    },
    /// A name of [`crate::FLAGS`], `!` before it to clear it.
    Flag,
    /// A transmit mode.
    XmitMode,
    /// An IPv4 address, or nothing.
    Ipv4,
    /// An IPv6 address.
    Ipv6,
    /// A MAC address.
    Mac,
    /// A device instance, `DEV[@NAME]`.
    DeviceName,
    /// `SIZE,WEIGHT SIZE,WEIGHT ...`.
    Imix,
    /// MPLS label stack entries, `HEX,HEX,...`.
    Labels,
}

impl Arg {
    /// How help writes it; empty for nothing.
    pub fn placeholder(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Number { .. } => "N",
            Self::Hex { .. } => "XX",
            Self::Flag => "[!]FLAG",
            Self::XmitMode => "MODE",
            Self::Ipv4 => "IPV4",
            Self::Ipv6 => "IPV6",
            Self::Mac => "MAC",
            Self::DeviceName => "DEV[@NAME]",
            Self::Imix => "SIZE,WEIGHT ...",
            Self::Labels => "HEX,HEX,...",
        }
    }

    /// Reads a value: a number and its digits, or 0 and its bytes.
    pub(crate) fn read<'a>(self, scan: &mut Scan<'a>) -> (u64, &'a [u8]) {
        match self {
            Self::None => (0, &[]),
            Self::Number { digits } => scan.decimal(digits),
            Self::Hex { digits } => scan.hexadecimal(digits),
            Self::Flag | Self::XmitMode | Self::Ipv4 | Self::Mac => (0, until_nul(scan.word(WORD_LEN_MAX))),
            Self::DeviceName => (0, until_nul(scan.word(NAME_LEN_MAX))),
            Self::Ipv6 => (0, until_nul(scan.word(IPV6_LEN_MAX))),
            Self::Imix | Self::Labels => (0, scan.rest()),
        }
    }
}

/// What a command does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    Pgctrl(PgctrlCommand),
    AddDevice,
    RemoveAll,
    MaxBeforeSoftirq,
    Device(Setter),
}

/// One command.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// The file it is written to.
    pub place: Place,
    /// Its word.
    pub word: &'static str,
    /// Other words for it: the kernel's own, and spellings of the pktgen HOWTO (docs/differences.md, row 10).
    pub aliases: &'static [&'static str],
    /// What it takes.
    pub takes: Arg,
    /// What it is for.
    pub help: &'static str,
    pub(crate) act: Act,
}

impl Spec {
    /// True for its word and its aliases.
    pub fn is_called(&self, word: &[u8]) -> bool {
        self.word.as_bytes() == word || self.aliases.iter().any(|alias| alias.as_bytes() == word)
    }
}

const N: Arg = Arg::Number { digits: 10 };
const QUEUE: Arg = Arg::Number { digits: 5 };
const VLAN: Arg = Arg::Number { digits: 4 };
const ONE_DIGIT: Arg = Arg::Number { digits: 1 };
const BYTE: Arg = Arg::Hex { digits: 2 };

const fn pgctrl(word: &'static str, command: PgctrlCommand, help: &'static str) -> Spec {
    Spec { place: Place::Pgctrl, word, aliases: &[], takes: Arg::None, help, act: Act::Pgctrl(command) }
}

const fn thread(word: &'static str, takes: Arg, act: Act, help: &'static str) -> Spec {
    Spec { place: Place::Thread, word, aliases: &[], takes, help, act }
}

const fn device(word: &'static str, takes: Arg, set: Setter, help: &'static str) -> Spec {
    Spec { place: Place::Device, word, aliases: &[], takes, help, act: Act::Device(set) }
}

const fn also(aliases: &'static [&'static str], spec: Spec) -> Spec {
    Spec { aliases, ..spec }
}

/// Every command. Read by the parser, the help, the man page and the completions.
pub const COMMANDS: &[Spec] = &[
    pgctrl("start", PgctrlCommand::Start, "run all device instances and wait for the end"),
    pgctrl("stop", PgctrlCommand::Stop, "end all runs"),
    pgctrl("reset", PgctrlCommand::Reset, "end all runs and remove all device instances"),
    thread("add_device", Arg::DeviceName, Act::AddDevice, "add a device instance to this thread"),
    thread("rem_device_all", Arg::None, Act::RemoveAll, "remove all device instances of this thread"),
    thread("max_before_softirq", N, Act::MaxBeforeSoftirq, "accepted for scripts of 2005; has no effect"),
    device(
        "count",
        N,
        |d, given| {
            d.config.count = given.number;
            given.ok(given.number)
        },
        "frames to send, 0 for no end",
    ),
    device("pkt_size", N, set::pkt_size, "frame length in bytes without FCS, at least 42"),
    device("min_pkt_size", N, set::min_pkt_size, "shortest frame"),
    device("max_pkt_size", N, set::max_pkt_size, "longest frame; above min_pkt_size, sizes count up"),
    device(
        "imix_weights",
        Arg::Imix,
        set::imix_weights,
        "internet mix: frame lengths and their shares, 20 at most",
    ),
    device(
        "frags",
        N,
        |d, given| {
            d.config.frags = given.number as i32;
            given.ok(d.config.frags)
        },
        "page fragments of the payload, 17 at most; here it only keeps engines out that have none",
    ),
    device("delay", N, set::delay, "nanoseconds between frames, 2147483647 for never"),
    device("rate", N, set::rate, "Mbit/s, turned into a delay by min_pkt_size as it is now"),
    device("ratep", N, set::ratep, "frames per second, turned into a delay"),
    device("clone_skb", N, set::clone_skb, "times each frame goes out unchanged, 0 for once"),
    device("burst", N, set::burst, "frames handed over in one go"),
    device(
        "xmit_mode",
        Arg::XmitMode,
        set::xmit_mode,
        "where frames enter: start_xmit, queue_xmit, netif_receive",
    ),
    device("flag", Arg::Flag, set::flag, "set a flag, clear it with ! before its name"),
    also(&["dst"], device("dst_min", Arg::Ipv4, set::dst_min, "first or only IPv4 destination")),
    device("dst_max", Arg::Ipv4, set::dst_max, "last IPv4 destination"),
    device("src_min", Arg::Ipv4, set::src_min, "first or only IPv4 source; empty for the device's own"),
    device("src_max", Arg::Ipv4, set::src_max, "last IPv4 source"),
    device("dst6", Arg::Ipv6, set::dst6, "IPv6 destination; turns IPv6 on"),
    device("dst6_min", Arg::Ipv6, set::dst6_min, "bits set in random IPv6 destinations; turns IPv6 on"),
    device("dst6_max", Arg::Ipv6, set::dst6_max, "bits allowed in random IPv6 destinations; turns IPv6 on"),
    device("src6", Arg::Ipv6, set::src6, "IPv6 source; turns IPv6 on"),
    also(&["dstmac"], device("dst_mac", Arg::Mac, set::dst_mac, "destination MAC")),
    also(&["srcmac"], device("src_mac", Arg::Mac, set::src_mac, "source MAC; zero for the device's own")),
    device(
        "dst_mac_count",
        N,
        |d, given| {
            if given.number != u64::from(d.config.dst_mac_count) {
                d.config.dst_mac_count = given.number as u32;
                d.cursor.dst_mac_offset = 0;
            }
            given.ok(d.config.dst_mac_count as i32)
        },
        "destination MACs to go through, from dst_mac up",
    ),
    device(
        "src_mac_count",
        N,
        |d, given| {
            if given.number != u64::from(d.config.src_mac_count) {
                d.config.src_mac_count = given.number as u32;
                d.cursor.src_mac_offset = 0;
            }
            given.ok(d.config.src_mac_count as i32)
        },
        "source MACs to go through, from src_mac up",
    ),
    device(
        "udp_src_min",
        N,
        |d, given| {
            set_port(&mut d.config.udp_src_min, &mut d.cursor.udp_src, given.number);
            given.ok(d.config.udp_src_min)
        },
        "first or only UDP source port",
    ),
    device(
        "udp_src_max",
        N,
        |d, given| {
            set_port(&mut d.config.udp_src_max, &mut d.cursor.udp_src, given.number);
            given.ok(d.config.udp_src_max)
        },
        "end of the UDP source ports, itself not used",
    ),
    device(
        "udp_dst_min",
        N,
        |d, given| {
            set_port(&mut d.config.udp_dst_min, &mut d.cursor.udp_dst, given.number);
            given.ok(d.config.udp_dst_min)
        },
        "first or only UDP destination port",
    ),
    device(
        "udp_dst_max",
        N,
        |d, given| {
            set_port(&mut d.config.udp_dst_max, &mut d.cursor.udp_dst, given.number);
            given.ok(d.config.udp_dst_max)
        },
        "end of the UDP destination ports, itself not used",
    ),
    device(
        "flows",
        N,
        |d, given| {
            d.config.flows = (given.number as u32).min(packet::FLOWS_MAX);
            given.ok(d.config.flows)
        },
        "flows at a time, 65536 at most, 0 for none",
    ),
    device(
        "flowlen",
        N,
        |d, given| {
            d.config.flow_len = given.number as u32;
            given.ok(d.config.flow_len)
        },
        "frames of one flow",
    ),
    device(
        "queue_map_min",
        QUEUE,
        |d, given| {
            d.config.queue_map_min = given.number as u16;
            given.ok(d.config.queue_map_min)
        },
        "first transmit queue",
    ),
    device(
        "queue_map_max",
        QUEUE,
        |d, given| {
            d.config.queue_map_max = given.number as u16;
            given.ok(d.config.queue_map_max)
        },
        "last transmit queue",
    ),
    device(
        "skb_priority",
        Arg::Number { digits: 9 },
        |d, given| {
            d.config.skb_priority = given.number as u32;
            given.ok(d.config.skb_priority)
        },
        "priority of the frames for the qdisc",
    ),
    device("node", N, set::node, "NUMA node for the memory of frames (flag NODE)"),
    device(
        "mpls",
        Arg::Labels,
        set::mpls,
        "MPLS label stack, outermost first; bit 0x100 for a random label, 0 for none",
    ),
    device("vlan_id", VLAN, set::vlan_id, "VLAN id; above 4095 for no tags"),
    device("vlan_p", ONE_DIGIT, set::vlan_p, "VLAN priority, 0 to 7"),
    device("vlan_cfi", ONE_DIGIT, set::vlan_cfi, "VLAN canonical format (drop eligible) bit"),
    also(
        &["svlan"],
        device("svlan_id", VLAN, set::svlan_id, "outer VLAN id, with vlan_id; above 4095 for no tags"),
    ),
    device("svlan_p", ONE_DIGIT, set::svlan_p, "outer VLAN priority, 0 to 7"),
    device("svlan_cfi", ONE_DIGIT, set::svlan_cfi, "outer VLAN canonical format (drop eligible) bit"),
    device("tos", BYTE, set::tos, "IPv4 type of service, two hex digits"),
    device("traffic_class", BYTE, set::traffic_class, "IPv6 traffic class, two hex digits"),
    device(
        "spi",
        N,
        |d, given| {
            d.config.spi = given.number as u32;
            given.ok(d.config.spi)
        },
        "security association for flag IPSEC, 0 to look one up by addresses",
    ),
    device("clear_counters", Arg::None, set::clear_counters, "set frame, error and idle counters to zero"),
    device(
        "debug",
        N,
        |d, given| {
            d.debug = given.number as u32;
            given.ok(d.debug)
        },
        "log more, for all device instances",
    ),
    device(
        "seed",
        Arg::Number { digits: 20 },
        set::seed,
        "make random draws repeat (wirerate's own); nothing for a new seed each run",
    ),
    device(
        "show_engine",
        ONE_DIGIT,
        |d, given| {
            d.show_engine = given.number != 0;
            given.ok(u8::from(d.show_engine))
        },
        "1 to name the engine in this file (wirerate's own)",
    ),
];

/// A port is compared as typed and stored in 16 bits; the current port moves when it differs.
fn set_port(setting: &mut u16, current: &mut u16, typed: u64) {
    if typed != u64::from(*setting) {
        *setting = typed as u16;
        *current = typed as u16;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_word_means_two_commands_of_one_file() {
        for (index, spec) in COMMANDS.iter().enumerate() {
            let same_file = || COMMANDS[..index].iter().filter(|other| other.place == spec.place);
            for word in std::iter::once(&spec.word).chain(spec.aliases) {
                assert!(!same_file().any(|other| other.is_called(word.as_bytes())), "{word}");
                let limit = if spec.place == Place::Device { 15 } else { 39 };
                assert!(word.len() <= limit, "{word} would be cut before it is compared");
            }
            assert!(!spec.help.is_empty() && spec.help.len() <= 90, "{}", spec.word);
        }
    }
}
