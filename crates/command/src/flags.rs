//! The table of flags, and the words that set and clear them (specification section 5).

use packet::Flags;

/// One flag.
#[derive(Clone, Copy, Debug)]
pub struct FlagSpec {
    /// Its name, as read and printed.
    pub name: &'static str,
    /// Other names it is read by: spellings of the pktgen HOWTO and of the paper of 2005.
    pub aliases: &'static [&'static str],
    /// The name for "not this flag", read and printed.
    pub opposite: Option<&'static str>,
    /// Its bit.
    pub flag: Flags,
    /// What it is for.
    pub help: &'static str,
}

const fn flag(name: &'static str, flag: Flags, help: &'static str) -> FlagSpec {
    FlagSpec { name, aliases: &[], opposite: None, flag, help }
}

/// Every flag, in the order of its bit, which is the order of printing.
pub const FLAGS: &[FlagSpec] = &[
    flag(
        "IPV6",
        Flags::IPV6,
        "IPv6 instead of IPv4; set by dst6, dst6_min, dst6_max and src6, only cleared by `flag`",
    ),
    flag("IPSRC_RND", Flags::IPSRC_RND, "IPv4 source is random"),
    flag("IPDST_RND", Flags::IPDST_RND, "IPv4 destination is random"),
    flag("TXSIZE_RND", Flags::TXSIZE_RND, "frame length is random"),
    flag("UDPSRC_RND", Flags::UDPSRC_RND, "UDP source port is random"),
    FlagSpec {
        aliases: &["UDPDEST_RND"],
        ..flag("UDPDST_RND", Flags::UDPDST_RND, "UDP destination port is random")
    },
    flag("UDPCSUM", Flags::UDPCSUM, "fill in the UDP checksum"),
    flag("NO_TIMESTAMP", Flags::NO_TIMESTAMP, "leave the time in the pktgen header zero"),
    flag("MPLS_RND", Flags::MPLS_RND, "MPLS labels entered with bit 0x100 are random"),
    flag("QUEUE_MAP_RND", Flags::QUEUE_MAP_RND, "transmit queue is random"),
    flag("QUEUE_MAP_CPU", Flags::QUEUE_MAP_CPU, "transmit queue is the number of the CPU"),
    FlagSpec {
        opposite: Some("FLOW_RND"),
        ..flag("FLOW_SEQ", Flags::FLOW_SEQ, "flows one after the other instead of at random")
    },
    flag("IPSEC", Flags::IPSEC, "encapsulate with ESP; needs flows"),
    flag("MACSRC_RND", Flags::MACSRC_RND, "source MAC is random"),
    flag("MACDST_RND", Flags::MACDST_RND, "destination MAC is random"),
    flag("VID_RND", Flags::VID_RND, "VLAN id is random"),
    flag("SVID_RND", Flags::SVID_RND, "outer VLAN id is random"),
    FlagSpec {
        aliases: &["NODE_ALLOC"],
        ..flag("NODE", Flags::NODE, "frame memory on the NUMA node set with `node`")
    },
    flag("SHARED", Flags::SHARED, "one frame may be sent several times (clone_skb, burst); on by default"),
];

impl FlagSpec {
    /// True when this host has the flag: IPSEC needs a kernel with IPsec.
    pub(crate) fn exists(&self, has_xfrm: bool) -> bool {
        has_xfrm || self.flag != Flags::IPSEC
    }

    fn has_name(&self, word: &[u8]) -> bool {
        self.name.as_bytes() == word || self.aliases.iter().any(|alias| alias.as_bytes() == word)
    }
}

/// The flag that a word such as `UDPCSUM`, `!UDPCSUM` or `FLOW_RND` names, and whether the word
/// sets it.
pub(crate) fn read_flag(word: &[u8], has_xfrm: bool) -> Option<(Flags, bool)> {
    let (name, sets) = match word.strip_prefix(b"!") {
        Some(name) => (name, false),
        None => (word, true),
    };
    let spec = FLAGS.iter().filter(|spec| spec.exists(has_xfrm)).find_map(|spec| {
        let is_opposite = spec.opposite.is_some_and(|opposite| opposite.as_bytes() == name);
        (is_opposite || spec.has_name(name)).then_some((spec.flag, sets != is_opposite))
    });
    spec.filter(|found| *found != (Flags::IPV6, true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_every_bit_once_and_in_order() {
        for (bit, spec) in FLAGS.iter().enumerate() {
            assert_eq!(spec.flag.0, 1 << bit, "{}", spec.name);
            assert!(!spec.help.is_empty());
        }
        assert_eq!(FLAGS.len(), 19);
    }

    #[test]
    fn words_set_clear_and_turn_around() {
        assert_eq!(read_flag(b"UDPCSUM", true), Some((Flags::UDPCSUM, true)));
        assert_eq!(read_flag(b"!UDPCSUM", true), Some((Flags::UDPCSUM, false)));
        assert_eq!(read_flag(b"FLOW_RND", true), Some((Flags::FLOW_SEQ, false)));
        assert_eq!(read_flag(b"!FLOW_RND", true), Some((Flags::FLOW_SEQ, true)));
        assert_eq!(read_flag(b"!IPV6", true), Some((Flags::IPV6, false)));
        assert_eq!(read_flag(b"NODE_ALLOC", true), Some((Flags::NODE, true)));
        assert_eq!(read_flag(b"!UDPDEST_RND", true), Some((Flags::UDPDST_RND, false)));
    }

    #[test]
    fn what_is_no_flag_is_none() {
        for word in ["", "!", "!!UDPCSUM", "udpcsum", "IPV6", "UDPCSUM,IPSEC", "SHARE", "SHAREDX"] {
            assert_eq!(read_flag(word.as_bytes(), true), None, "{word}");
        }
        assert_eq!(read_flag(b"IPSEC", false), None);
        assert_eq!(read_flag(b"!IPSEC", false), None);
    }
}
