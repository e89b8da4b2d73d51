//! Why a command is refused: in words, as an errno, and where in the text.

use std::ops::Range;

/// The error numbers that a write to a control file can answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Errno {
    /// Argument list too long: more entries than the table holds.
    E2BIG = 7,
    /// Out of memory.
    ENOMEM = 12,
    /// This name is taken.
    EBUSY = 16,
    /// No such interface.
    ENODEV = 19,
    /// Not a command, or not a value of it.
    EINVAL = 22,
    /// The time has passed.
    ETIME = 62,
    /// The device or the mode cannot do that.
    EOPNOTSUPP = 95,
    /// The interface is not up.
    ENETDOWN = 100,
}

impl Errno {
    /// The number Linux has for it.
    pub fn raw(self) -> i32 {
        self as i32
    }
}

/// What is wrong with a command.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages name the fields")]
pub enum Fault {
    /// A write of no bytes.
    #[error("an empty write is no command")]
    Empty,
    /// Not a word of the table for this file.
    #[error("\"{word}\" is not a {file} command (`wirerate help commands` lists them)")]
    UnknownCommand { file: &'static str, word: String },
    /// Not a time to start at.
    #[error("start_at: \"{text}\" is not a time in nanoseconds since 1970 (`date +%s%N` prints the present)")]
    NotATime { text: String },
    /// The time to start had passed before all was ready.
    #[error("start_at: that was {:.3} s too late, and nothing was sent", *late_ns as f64 / 1e9)]
    TooLate { late_ns: u64 },
    /// Not an IPv4 address.
    #[error("{setting}: \"{text}\" is not an IPv4 address")]
    NotIpv4 { setting: &'static str, text: String },
    /// Not an IPv6 address.
    #[error("{setting}: \"{text}\" is not an IPv6 address")]
    NotIpv6 { setting: &'static str, text: String },
    /// Not a MAC address.
    #[error(
        "{setting}: \"{text}\" is not a MAC address (six pairs of hex digits, such as 02:00:00:00:00:01)"
    )]
    NotMac { setting: &'static str, text: String },
    /// A rate of zero; there is no time between frames for that.
    #[error("{setting} must be 1 or more (`delay 2147483647` is for never)")]
    ZeroRate { setting: &'static str },
    /// A seed beyond 64 bits.
    #[error("seed: \"{text}\" does not fit into 64 bits")]
    SeedTooLarge { text: String },
    /// Something other than `SIZE,WEIGHT` in an internet mix.
    #[error(
        "imix_weights: entry {entry} is not SIZE,WEIGHT with a weight of 1 or more (one space between entries)"
    )]
    BadImix { entry: usize },
    /// An internet mix together with `clone_skb`.
    #[error("imix_weights and clone_skb exclude each other (`clone_skb 0` first)")]
    ImixWithClones,
    /// More entries than the table holds.
    #[error("{setting}: at most {max} entries")]
    TooMany { setting: &'static str, max: usize },
    /// A label missing at the end of the write.
    #[error("mpls: a label is missing (`mpls 0` turns MPLS off)")]
    NoLabel,
    /// The device does not let one packet be sent twice.
    #[error("{setting}: loopback does not send one frame more than once; try another device")]
    NotShareable { setting: &'static str },
    /// The mode does not do that.
    #[error("{setting} does not go with xmit_mode {mode}")]
    NotInMode { setting: &'static str, mode: &'static str },
    /// Flag SHARED is off.
    #[error("{setting} needs flag SHARED")]
    NeedsShared { setting: &'static str },
    /// Flag SHARED is needed.
    #[error("flag !SHARED: clone_skb or burst still need it (`clone_skb 0`, `burst 1` first)")]
    SharedInUse,
    /// The tree has no such thread.
    #[error("there is no thread for CPU {cpu}")]
    NoThread { cpu: u32 },
    /// The name is in use, on whatever thread.
    #[error("{name} is already on a thread")]
    NameTaken { name: String },
    /// No such interface.
    #[error("there is no device \"{name}\" in this network namespace")]
    NoInterface { name: String },
    /// Not Ethernet and not loopback.
    #[error("{name} is neither Ethernet nor loopback")]
    NotEthernet { name: String },
    /// Not up.
    #[error("{name} is down (`ip link set DEV up` first)")]
    InterfaceDown { name: String },
    /// No file can have that name.
    #[error("\"{name}\" cannot be the name of a control file")]
    NotAFileName { name: String },
}

impl Fault {
    /// What `write(2)` answers for it.
    pub fn errno(&self) -> Errno {
        match self {
            Self::TooMany { .. } => Errno::E2BIG,
            Self::NotShareable { .. } | Self::NotInMode { .. } => Errno::EOPNOTSUPP,
            Self::NameTaken { .. } => Errno::EBUSY,
            Self::NoInterface { .. } => Errno::ENODEV,
            Self::InterfaceDown { .. } => Errno::ENETDOWN,
            Self::TooLate { .. } => Errno::ETIME,
            _ => Errno::EINVAL,
        }
    }
}

/// A refused command: what is wrong, and with which bytes of the write.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{fault}")]
pub struct Refusal {
    /// What is wrong.
    pub fault: Fault,
    /// The bad bytes; empty and at the end when something is missing.
    pub span: Range<usize>,
}

impl Refusal {
    /// What `write(2)` answers.
    pub fn errno(&self) -> Errno {
        self.fault.errno()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_linux() {
        let all = [
            (Errno::EINVAL, 22),
            (Errno::E2BIG, 7),
            (Errno::EOPNOTSUPP, 95),
            (Errno::ETIME, 62),
            (Errno::ENODEV, 19),
            (Errno::ENETDOWN, 100),
            (Errno::EBUSY, 16),
            (Errno::ENOMEM, 12),
        ];
        assert!(all.iter().all(|(errno, raw)| errno.raw() == *raw));
    }
}
