//! The flat table of commands: everything that can be written to a control file.
//!
//! Widths, spellings and side effects are those of Linux 7.3 (specification sections 3 and 4).

use crate::address::ipv4_text;
use crate::device::NAME_LEN_MAX;
use crate::scan::{Scan, until_nul};
use crate::set::{self, Setter};
use packet::{Config, NEVER_NS, Slot};

/// Longest address of IPv6 as text that is looked at.
const IPV6_LEN_MAX: usize = 127;
/// Longest delay that can be typed.
const DELAY_MAX_NS: u64 = 9_999_999_999;
/// Longest word or other address that is looked at.
const WORD_LEN_MAX: usize = 31;

/// The kind of file a command is written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
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

/// One command of `pgctrl`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PgctrlCommand {
    /// Run every device instance of the tree and wait for the end.
    Start,
    /// Run every device instance from this time on, in nanoseconds since 1970, and wait for the
    /// end. The kernel does not have this command.
    StartAt {
        /// The time.
        unix_ns: u64,
    },
    /// End all runs, without waiting.
    Stop,
    /// End all runs and remove every device instance.
    Reset,
}

/// What a command does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    Pgctrl(PgctrlCommand),
    AddDevice,
    RemoveAll,
    MaxBeforeSoftirq,
    Device(Setter),
}

/// What a command changes in a running transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touches {
    /// Nothing.
    Nothing,
    /// When it ends and how fast it goes.
    Pace,
    /// Its frames, their counters, or the way they take.
    Frames,
}

/// One command.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// The file it is written to.
    pub place: FileKind,
    /// Its word.
    pub word: &'static str,
    /// Other words for it: the kernel's own, and spellings of the pktgen HOWTO
    /// (docs/pktgen.md, row 10).
    pub aliases: &'static [&'static str],
    /// What it takes.
    pub takes: Arg,
    /// What it is for.
    pub help: &'static str,
    /// What it changes in a running transmission.
    pub touches: Touches,
    pub(crate) act: Action,
    /// The value to write for the setting as it is, where no other command has to be written before
    /// it.
    pub(crate) value: SettingText,
}

/// The value of a setting as it is written; `None` for no write at all.
pub(crate) type SettingText = fn(&Config) -> Option<String>;

impl Spec {
    /// True for its word and its aliases.
    pub fn is_called(&self, word: &[u8]) -> bool {
        self.word.as_bytes() == word || self.aliases.iter().any(|alias| alias.as_bytes() == word)
    }
}

/// The command of that word for device instances.
pub(crate) fn device_command(word: &[u8]) -> Option<&'static Spec> {
    COMMANDS.iter().find(|spec| spec.place == FileKind::Device && spec.is_called(word))
}

const N: Arg = Arg::Number { digits: 10 };
const QUEUE: Arg = Arg::Number { digits: 5 };
const VLAN: Arg = Arg::Number { digits: 4 };
const ONE_DIGIT: Arg = Arg::Number { digits: 1 };
const BYTE: Arg = Arg::Hex { digits: 2 };

const fn spec(place: FileKind, word: &'static str, takes: Arg, act: Action, help: &'static str) -> Spec {
    Spec { place, word, aliases: &[], takes, help, touches: Touches::Nothing, act, value: |_| None }
}

const fn pgctrl(word: &'static str, command: PgctrlCommand, help: &'static str) -> Spec {
    spec(FileKind::Pgctrl, word, Arg::None, Action::Pgctrl(command), help)
}

const fn thread(word: &'static str, takes: Arg, act: Action, help: &'static str) -> Spec {
    spec(FileKind::Thread, word, takes, act, help)
}

/// A command that changes the frames of a running transmission.
const fn device(word: &'static str, takes: Arg, set: Setter, help: &'static str) -> Spec {
    Spec { touches: Touches::Frames, ..spec(FileKind::Device, word, takes, Action::Device(set), help) }
}

impl Spec {
    const fn also(self, aliases: &'static [&'static str]) -> Self {
        Self { aliases, ..self }
    }

    const fn touching(self, touches: Touches) -> Self {
        Self { touches, ..self }
    }

    const fn valued(self, value: SettingText) -> Self {
        Self { value, ..self }
    }
}

/// A number that is stored as what fits of it.
macro_rules! number {
    ($word:literal, $takes:expr, $field:ident: $type:ty, $help:literal) => {{
        let set: Setter = |d, arg| {
            d.config.$field = arg.number as $type;
            arg.ok(d.config.$field)
        };
        device($word, $takes, set, $help).valued(|config| Some(config.$field.to_string()))
    }};
}

/// An IPv4 address or nothing; the current address follows.
macro_rules! ipv4 {
    ($field:ident, $current:ident, $help:literal) => {{
        let set: Setter = |d, arg| {
            let address = set::ipv4(d, arg)?;
            set::set_ipv4(&mut d.config.$field, &mut d.cursor[Slot::$current], address, arg)
        };
        device(stringify!($field), Arg::Ipv4, set, $help).valued(|config| Some(ipv4_text(config.$field)))
    }};
}

/// A number that is compared as written, stored as what fits of it and answered as `$shown`. When
/// it changes, `$current` moves to `$to`.
macro_rules! moving {
    ($field:ident: $type:ty as $shown:ty, $current:ident = $to:expr, $help:literal) => {{
        let set: Setter = |d, arg| {
            if arg.number != u64::from(d.config.$field) {
                d.config.$field = arg.number as $type;
                d.cursor[Slot::$current] = $to(arg.number);
            }
            arg.ok(d.config.$field as $shown)
        };
        device(stringify!($field), N, set, $help).valued(|config| Some(config.$field.to_string()))
    }};
}

const FIRST: fn(u64) -> u64 = |_| 0;
const ITSELF: fn(u64) -> u64 = |port| u64::from(port as u16);

/// Every command. Read by the parser, the read-out, the help, the man page, the completions, and by
/// what writes a configuration as commands.
pub const COMMANDS: &[Spec] = &[
    pgctrl("start", PgctrlCommand::Start, "run all device instances and wait for the end"),
    spec(
        FileKind::Pgctrl,
        "start_at",
        Arg::Number { digits: 20 },
        Action::Pgctrl(PgctrlCommand::StartAt { unix_ns: 0 }),
        "as start, at this time in nanoseconds since 1970; not in the kernel",
    ),
    pgctrl("stop", PgctrlCommand::Stop, "end all runs"),
    pgctrl("reset", PgctrlCommand::Reset, "end all runs and remove all device instances"),
    thread("add_device", Arg::DeviceName, Action::AddDevice, "add a device instance to this thread"),
    thread("rem_device_all", Arg::None, Action::RemoveAll, "remove all device instances of this thread"),
    thread("max_before_softirq", N, Action::MaxBeforeSoftirq, "accepted for scripts of 2005; has no effect"),
    number!("count", N, count: u64, "frames to send, 0 for no end").touching(Touches::Pace),
    device("pkt_size", N, set::pkt_size, "frame length in bytes without FCS, at least 42"),
    device("min_pkt_size", N, set::min_pkt_size, "shortest frame").valued(|config| size(config.min_pkt_size)),
    device("max_pkt_size", N, set::max_pkt_size, "longest frame; above min_pkt_size, sizes count up")
        .valued(|config| size(config.max_pkt_size)),
    device(
        "imix_weights",
        Arg::Imix,
        set::imix_weights,
        "internet mix: frame lengths and their shares, 20 at most",
    ),
    number!(
        "frags",
        N,
        frags: i32,
        "page fragments of the payload, 17 at most; here it only keeps engines out that have none"
    )
    .valued(|config| Some((config.frags as u32).to_string())),
    device("delay", N, set::delay, "nanoseconds between frames, 2147483647 for never")
        .valued(|config| Some(delay(config.delay_ns)))
        .touching(Touches::Pace),
    device("rate", N, set::rate, "Mbit/s, turned into a delay by min_pkt_size as it is now")
        .touching(Touches::Pace),
    device("ratep", N, set::ratep, "frames per second, turned into a delay").touching(Touches::Pace),
    device("clone_skb", N, set::clone_skb, "times each frame goes out unchanged, 0 for once"),
    device("burst", N, set::burst, "frames handed over in one go"),
    device(
        "xmit_mode",
        Arg::XmitMode,
        set::xmit_mode,
        "where frames enter: start_xmit, queue_xmit, netif_receive",
    ),
    device("flag", Arg::Flag, set::flag, "set a flag, clear it with ! before its name"),
    ipv4!(dst_min, DST_V4, "first or only IPv4 destination").also(&["dst"]),
    ipv4!(dst_max, DST_V4, "last IPv4 destination"),
    ipv4!(src_min, SRC_V4, "first or only IPv4 source; empty for the device's own"),
    ipv4!(src_max, SRC_V4, "last IPv4 source"),
    device("dst6", Arg::Ipv6, set::dst6, "IPv6 destination; turns IPv6 on"),
    device("dst6_min", Arg::Ipv6, set::dst6_min, "bits set in random IPv6 destinations; turns IPv6 on"),
    device("dst6_max", Arg::Ipv6, set::dst6_max, "bits allowed in random IPv6 destinations; turns IPv6 on"),
    device("src6", Arg::Ipv6, set::src6, "IPv6 source; turns IPv6 on"),
    device("dst_mac", Arg::Mac, set::dst_mac, "destination MAC")
        .valued(|config| Some(config.dst_mac.to_string()))
        .also(&["dstmac"]),
    device("src_mac", Arg::Mac, set::src_mac, "source MAC; zero for the device's own")
        .valued(|config| Some(config.src_mac.to_string()))
        .also(&["srcmac"]),
    moving!(
        dst_mac_count: u32 as i32,
        DST_MAC_OFFSET = FIRST,
        "destination MACs to go through, from dst_mac up"
    ),
    moving!(src_mac_count: u32 as i32, SRC_MAC_OFFSET = FIRST, "source MACs to go through, from src_mac up"),
    moving!(udp_src_min: u16 as u16, UDP_SRC = ITSELF, "first or only UDP source port"),
    moving!(udp_src_max: u16 as u16, UDP_SRC = ITSELF, "end of the UDP source ports, itself not used"),
    moving!(udp_dst_min: u16 as u16, UDP_DST = ITSELF, "first or only UDP destination port"),
    moving!(udp_dst_max: u16 as u16, UDP_DST = ITSELF, "end of the UDP destination ports, itself not used"),
    device("flows", N, set::flows, "flows at a time, 65536 at most, 0 for none")
        .valued(|config| Some(config.flows.to_string())),
    number!("flowlen", N, flow_len: u32, "frames of one flow"),
    number!("queue_map_min", QUEUE, queue_map_min: u16, "first transmit queue"),
    number!("queue_map_max", QUEUE, queue_map_max: u16, "last transmit queue"),
    number!(
        "skb_priority",
        Arg::Number { digits: 9 },
        skb_priority: u32,
        "priority of the frames for the qdisc"
    ),
    device("node", N, set::node, "NUMA node for the memory of frames (flag NODE)")
        .valued(|config| u32::try_from(config.node).ok().map(|node| node.to_string())),
    device(
        "mpls",
        Arg::Labels,
        set::mpls,
        "MPLS label stack, outermost first; bit 0x100 for a random label, 0 for none",
    ),
    device("vlan_id", VLAN, set::vlan_id, "VLAN id; above 4095 for no tags"),
    device("vlan_p", ONE_DIGIT, set::vlan_p, "VLAN priority, 0 to 7"),
    device("vlan_cfi", ONE_DIGIT, set::vlan_cfi, "VLAN canonical format (drop eligible) bit"),
    device("svlan_id", VLAN, set::svlan_id, "outer VLAN id, with vlan_id; above 4095 for no tags")
        .also(&["svlan"]),
    device("svlan_p", ONE_DIGIT, set::svlan_p, "outer VLAN priority, 0 to 7"),
    device("svlan_cfi", ONE_DIGIT, set::svlan_cfi, "outer VLAN canonical format (drop eligible) bit"),
    device("tos", BYTE, set::tos, "IPv4 type of service, two hex digits")
        .valued(|config| Some(format!("{:02x}", config.tos))),
    device("traffic_class", BYTE, set::traffic_class, "IPv6 traffic class, two hex digits")
        .valued(|config| Some(format!("{:02x}", config.traffic_class))),
    number!("spi", N, spi: u32, "security association for flag IPSEC, 0 to look one up by addresses"),
    device("clear_counters", Arg::None, set::clear_counters, "set frame, error and idle counters to zero"),
    device("debug", N, set::debug, "log more, for all device instances").touching(Touches::Nothing),
    device(
        "seed",
        Arg::Number { digits: 20 },
        set::seed,
        "make random draws repeat (wirerate's own); nothing for a new seed each run",
    )
    .valued(|config| config.seed.map(|seed| seed.to_string()))
    .touching(Touches::Nothing),
    device("show_engine", ONE_DIGIT, set::show_engine, "1 to name the engine in this file (wirerate's own)")
        .touching(Touches::Nothing),
];

/// A size of 0 is not one to write: it means that none was set.
fn size(size: u32) -> Option<String> {
    (size != 0).then(|| set::size_to_write(size).to_string())
}

/// A delay that no command can set (from `rate` with a size of gigabytes) becomes the longest one
/// there is.
fn delay(delay_ns: u64) -> String {
    match delay_ns {
        NEVER_NS => set::NEVER,
        set::NEVER => set::NEVER - 1,
        delay_ns => delay_ns.min(DELAY_MAX_NS),
    }
    .to_string()
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
                let limit = if spec.place == FileKind::Device { 15 } else { 39 };
                assert!(word.len() <= limit, "{word} would be cut before it is compared");
            }
            assert!(!spec.help.is_empty() && spec.help.len() <= 90, "{}", spec.word);
        }
    }
}
