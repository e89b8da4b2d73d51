//! The options of frames: those of `wirerate send`, and members of the streams of a file.

use clap::ValueEnum;
use engine::SendFcs;
use packet::MacAddr;
use sender::job::{self, PayloadText, SendJob};
use units::{
    Addresses, Count, Interval, Labels, List, Mix, VlanId, VlanPriority, VlanType, byte, frame_mix,
    frame_size, number, spi, within,
};

/// The largest network identifier of VXLAN and GENEVE.
const NETWORK_MAX: u32 = (1 << 24) - 1;

/// A field that can be random instead of incremented.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RandomField {
    /// Destination address
    Dst,
    /// Source address
    Src,
    /// UDP or TCP destination port
    #[value(aliases = ["dport", "dst-port", "port", "tcp-dst"])]
    UdpDst,
    /// UDP or TCP source port
    #[value(aliases = ["sport", "src-port", "cport", "tcp-src"])]
    UdpSrc,
    /// Frame length
    Size,
    /// Destination MAC
    DstMac,
    /// Source MAC
    SrcMac,
    /// VLAN id, from 0 to 4095
    Vlan,
    /// Outer VLAN id, from 0 to 4095
    Svlan,
    /// MPLS labels, with their class and time to live
    Mpls,
    /// Transmit queue
    Queue,
    /// The flow of each frame
    Flow,
    /// Destination address in a tunnel
    InnerDst,
    /// Source address in a tunnel
    InnerSrc,
}

impl From<RandomField> for job::RandomField {
    fn from(name: RandomField) -> Self {
        match name {
            RandomField::Dst => Self::Dst,
            RandomField::Src => Self::Src,
            RandomField::UdpDst => Self::UdpDst,
            RandomField::UdpSrc => Self::UdpSrc,
            RandomField::Size => Self::Size,
            RandomField::DstMac => Self::DstMac,
            RandomField::SrcMac => Self::SrcMac,
            RandomField::Vlan => Self::Vlan,
            RandomField::Svlan => Self::Svlan,
            RandomField::Mpls => Self::Mpls,
            RandomField::Queue => Self::Queue,
            RandomField::Flow => Self::Flow,
            RandomField::InnerDst => Self::InnerDst,
            RandomField::InnerSrc => Self::InnerSrc,
        }
    }
}

/// An ICMP or ICMPv6 message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum IcmpKind {
    /// Echo request, as from ping
    Echo,
    /// Echo reply
    Reply,
}

impl From<IcmpKind> for job::IcmpKind {
    fn from(name: IcmpKind) -> Self {
        match name {
            IcmpKind::Echo => Self::Echo,
            IcmpKind::Reply => Self::Reply,
        }
    }
}

/// How much of the signature each frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SignatureName {
    /// No signature: the payload is zeros
    None,
    /// pktgen's header, 16 bytes: number and time in microseconds
    Pktgen,
    /// 18 bytes: pktgen's header, nanoseconds and the sending thread
    Short,
    /// 32 bytes: as `short`, and the flow, the number in the flow and the run
    Full,
    /// 18 bytes at the end, in place of pktgen's header: flow, run, number and time
    Mark,
}

impl From<SignatureName> for job::SignatureName {
    fn from(name: SignatureName) -> Self {
        match name {
            SignatureName::None => Self::None,
            SignatureName::Pktgen => Self::Pktgen,
            SignatureName::Short => Self::Short,
            SignatureName::Full => Self::Full,
            SignatureName::Mark => Self::Mark,
        }
    }
}

/// The words of `--send-fcs`.
fn send_fcs(text: &str) -> Result<SendFcs, String> {
    if text == "bad" {
        return Ok(SendFcs::Bad);
    }
    match number::<u32>(text) {
        Some(number) => Ok(SendFcs::Value(number.to_be_bytes())),
        None => Err("use bad, or four bytes such as 0xdeadbeef".to_owned()),
    }
}

/// An option of frames, for what sets it without a command line: a member of a stream.
#[derive(Debug)]
pub struct FrameOption {
    field: &'static str,
    /// What sets it.
    pub set: SetFrameOption,
    is_given: fn(&FrameArgs) -> bool,
    needs: &'static [&'static str],
    without: &'static [&'static str],
}

impl FrameOption {
    /// Its name after `--`.
    pub fn name(&self) -> String {
        word(self.field)
    }
}

fn word(field: &str) -> String {
    field.replace('_', "-")
}

/// What sets an option.
#[derive(Debug)]
pub enum SetFrameOption {
    /// It has no value.
    Switch(fn(&mut FrameArgs)),
    /// From the text of its value, with commas between those of a list.
    Value(fn(&mut FrameArgs, &str) -> Result<(), String>),
}

/// The options of frames, each once: those of the command line, and a table of them. A line is a
/// kind (`switch`, `one` value, the `name` of one, or `many` names), the field, its type, what
/// parses the value if that is not `FromStr`, the option that it needs, and those that cannot be
/// used with it.
macro_rules! frame_options {
    ($(
        $(#[$meta:meta])*
        $kind:ident $name:ident: $type:ty $(= $parse:expr)? $(, needs $need:ident)? $(, without $other:ident)*;
    )*) => {
        /// Options of the frames: of a run, or of each stream of a file.
        #[derive(Clone, Debug, Default, clap::Args)]
        #[command(next_help_heading = "Frames")]
        pub struct FrameArgs {
            $(
                $(#[$meta])*
                #[arg(long $(, value_parser = $parse)?)]
                #[arg($(requires = stringify!($need),)? conflicts_with_all = [$(stringify!($other)),*] as [&str; _])]
                pub $name: $type,
            )*
        }

        /// All options of frames.
        pub static FRAME_OPTIONS: &[FrameOption] = &[$(
            FrameOption {
                field: stringify!($name),
                set: frame_options!(@set $kind $name $($parse)?),
                is_given: |args| frame_options!(@given $kind args.$name),
                needs: &[$(stringify!($need))?],
                without: &[$(stringify!($other)),*],
            },
        )*];
    };
    (@set switch $name:ident) => { SetFrameOption::Switch(|args| args.$name = true) };
    (@set $kind:ident $name:ident $($parse:expr)?) => {
        SetFrameOption::Value(|args, text| {
            args.$name = frame_options!(@value $kind text $($parse)?)?;
            Ok(())
        })
    };
    (@value one $text:ident) => { $text.parse().map(Some).map_err(|why| format!("{why}")) };
    (@value one $text:ident $parse:expr) => { ($parse)($text).map(Some).map_err(|why| format!("{why}")) };
    (@value name $text:ident) => { named($text).map(Some) };
    (@value many $text:ident) => { $text.split(',').map(named).collect::<Result<_, _>>() };
    (@given switch $value:expr) => { $value };
    (@given many $value:expr) => { !$value.is_empty() };
    (@given $kind:ident $value:expr) => { $value.is_some() };
}

frame_options! {
    /// Destination MAC address or range [default: that of the next hop to --dst]
    #[arg(value_name = "MAC[-MAC]")]
    one dst_mac: Option<Interval<MacAddr>>;
    /// Source MAC address or range [default: the device's own]
    #[arg(value_name = "MAC[-MAC]")]
    one src_mac: Option<Interval<MacAddr>>;
    /// Destination address, range or prefix, IPv4 or IPv6 [default with --dst-mac:
    /// 198.18.0.1]
    #[arg(value_name = "IP[-IP]")]
    one dst: Option<Addresses>;
    /// Source address, range or prefix [default: the device's own; link-local for IPv6]
    #[arg(value_name = "IP[-IP]")]
    one src: Option<Addresses>;
    /// UDP or TCP destination port or range [default: 9]
    #[arg(short = 'p', aliases = ["dport", "dst-port", "port", "tcp-dst"], value_name = "PORT[-PORT]")]
    one udp_dst: Option<Interval<u16>>;
    /// UDP or TCP source port or range [default: 9]
    #[arg(aliases = ["sport", "src-port", "cport", "tcp-src"], value_name = "PORT[-PORT]")]
    one udp_src: Option<Interval<u16>>;
    /// Frame length in bytes without FCS, or range [default: 60; 78 for IPv6]
    #[arg(short = 'l', aliases = ["len", "length"], value_name = "BYTES[-BYTES]")]
    one size: Option<Interval<u32>>, without frame_size, without imix, without frame_imix;
    /// Frame length in bytes with FCS, or range: 64 is --size 60
    #[arg(value_name = "BYTES[-BYTES]")]
    one frame_size: Option<Interval<u32>> = frame_size, without size, without imix, without frame_imix;
    /// Mix of frame lengths: simple (64, 594 and 1518 bytes with FCS, 7:4:1), another name
    /// (docs/frames.md), or lengths without FCS and weights, such as 60:7,590:4,1514:1
    #[arg(value_name = "NAME|BYTES:WEIGHT,...")]
    one imix: Option<Mix>, without size, without frame_size, without frame_imix;
    /// Mix of frame lengths with FCS, such as 64:7,594:4,1518:1
    #[arg(value_name = "BYTES:WEIGHT,...")]
    one frame_imix: Option<Mix> = frame_mix, without size, without frame_size, without imix;
    /// Fields to pick at random from their ranges instead of incrementing
    #[arg(value_name = "FIELD,...", value_delimiter = ',', hide_possible_values = true,
          long_help = "Fields to pick at random from their ranges instead of incrementing: \
                       dst, src, udp-dst, udp-src, size, dst-mac, src-mac, vlan, svlan, mpls, queue, flow, \
                       inner-dst, inner-src")]
    many random: Vec<RandomField>;
    /// Exactly this many flows: frames go through source ports, then destination ports, and
    /// through addresses within the ranges of --src and --dst
    #[arg(value_name = "N")]
    one flows: Option<u32> = flow_count;
    /// Send this many frames of one flow in a row. For a range of --dst with --flows or more IPv4
    /// addresses, each flow is a destination, as in pktgen
    #[arg(value_name = "N")]
    one flow_len: Option<u32> = within::<u32>(1..=u32::MAX), needs flows;
    /// VLAN id, or two with the outer one first (QinQ, IEEE 802.1ad): 5 or 5,6
    #[arg(value_name = "ID[,ID]")]
    one vlan: Option<List<VlanId>>;
    /// EtherType of the outer tag, or of both: 0x88a8,0x8100 [default: 0x8100; 0x88a8 for the outer
    /// of two tags]
    #[arg(value_name = "TYPE[,TYPE]")]
    one vlan_type: Option<List<VlanType>>, needs vlan, without mpls;
    /// VLAN priority, 0 to 7, of all tags or of each [default: 0]
    #[arg(alias = "vlan-p", value_name = "N[,N]")]
    one vlan_prio: Option<List<VlanPriority>>, needs vlan, without mpls;
    /// Set the drop eligible indicator of the VLAN tags (pktgen: vlan_cfi)
    #[arg(alias = "vlan-cfi")]
    switch vlan_dei: bool, needs vlan, without mpls;
    /// Outer VLAN id with EtherType 0x8100, as in pktgen (--vlan 5,6 for 802.1ad)
    #[arg(value_name = "ID")]
    one svlan: Option<u16> = within::<u16>(0..=4095), needs vlan;
    /// Outer VLAN priority, 0 to 7
    #[arg(alias = "svlan-p", value_name = "N")]
    one svlan_prio: Option<u8> = within::<u8>(0..=7), needs svlan, without mpls;
    /// Set the drop eligible indicator of the outer VLAN tag
    #[arg(alias = "svlan-cfi")]
    switch svlan_dei: bool, needs svlan, without mpls;
    /// MPLS labels, outermost first, such as 16,17 (TTL 64), or whole stack entries such as
    /// 0x0001000a
    #[arg(value_name = "LABEL,...")]
    one mpls: Option<Labels>, without vlan, without svlan;
    /// Type of service (IPv4) or traffic class (IPv6), 0 to 255 or 0x00 to 0xff
    #[arg(value_name = "N")]
    one tos: Option<u8> = byte;
    /// Fill in the UDP checksum
    #[arg(alias = "csum")]
    switch udp_checksum: bool;
    /// Protect frames with the IPsec SAs of the device's namespace (`ip xfrm state`), behind their
    /// first IPv4 header: that of --spi, else an ESP transport mode SA that matches the addresses
    switch ipsec: bool;
    /// SPI of the SA to use, in any mode
    #[arg(value_name = "N")]
    one spi: Option<u32> = spi, needs ipsec;
    /// Page fragments, 1 to 17, for compatibility with pktgen: frames are unchanged, and only
    /// af_packet and af_xdp are used
    #[arg(value_name = "N")]
    one frags: Option<i32> = within::<i32>(1..=17);
    /// Send frames with a wrong frame check sequence: `bad` inverts the right one, 0x01020304 are
    /// its bytes on the wire. Packet sockets only, and few drivers can: e1000, e100
    #[arg(value_name = "bad|VALUE", conflicts_with = "batch")]
    one send_fcs: Option<SendFcs> = send_fcs;
    /// Send each frame N times, unchanged
    #[arg(alias = "clone", value_name = "N")]
    one clone_skb: Option<i32> = within::<i32>(1..=i32::MAX), without imix, without frame_imix;
    /// What a frame carries so that receivers can count it (docs/measure.md) [default: pktgen's
    /// header; frames without one get a mark of 18 bytes in the zeros at their end]
    #[arg(value_enum, value_name = "LEVEL")]
    name signature: Option<SignatureName>;
    /// Run number in full signatures and marks, 0 to 4095; `receive --run` counts other runs as
    /// stale
    #[arg(value_name = "N")]
    one run: Option<u16> = within::<u16>(0..=4095);
    /// Extra frames after the run that carry the number of sent frames for `receive`. Neither side
    /// counts them [default: 5 with --signature short, full or mark, else 0]
    #[arg(value_name = "N")]
    one end_frames: Option<u32> = within::<u32>(0..=1000);
    /// Set the time in the pktgen header or the mark to zero
    switch no_timestamp: bool;
    /// Seed for all random values, which makes a run repeatable [default: a new seed per run]
    #[arg(value_name = "N")]
    one seed: Option<u64> = within::<u64>(0..=u64::MAX);
    /// TCP instead of UDP with pktgen's header (docs/frames.md); an ACK unless --syn is given
    switch tcp: bool, without icmp, without arp;
    /// A TCP SYN
    switch syn: bool, needs tcp, without icmp, without arp;
    /// ICMP or ICMPv6 instead of UDP: echo (a ping) or reply, numbered from 1
    #[arg(value_enum, value_name = "KIND", hide_possible_values = true)]
    name icmp: Option<IcmpKind>, without arp;
    /// ARP requests for --dst, to all hosts unless --dst-mac is given
    switch arp: bool;
    /// Frames in a VXLAN tunnel to --dst with this network identifier
    #[arg(value_name = "VNI")]
    one vxlan: Option<u32> = within::<u32>(0..=NETWORK_MAX), without gre;
    /// Frames in a GENEVE tunnel to --dst with this network identifier
    #[arg(value_name = "VNI")]
    one geneve: Option<u32> = within::<u32>(0..=NETWORK_MAX), without gre, without vxlan;
    /// IP packets in a GTP-U tunnel to --dst with this tunnel endpoint identifier
    #[arg(value_name = "TEID")]
    one gtpu: Option<u32> = within::<u32>(0..=u32::MAX), without gre, without vxlan, without geneve;
    /// UDP source port of the tunnel, or a range that is counted [default: from 49152 on, by the
    /// flow inside; 2152 for GTP-U]
    #[arg(value_name = "PORT[-PORT]")]
    one tunnel_src_port: Option<Interval<u16>>;
    /// IP packets in a GRE tunnel to --dst
    switch gre: bool;
    /// Destination address or range in the tunnel [default: 198.19.0.2]
    #[arg(value_name = "IP[-IP]")]
    one inner_dst: Option<Addresses>;
    /// Source address or range in the tunnel [default: 198.19.0.1; fd00::1 for IPv6]
    #[arg(value_name = "IP[-IP]")]
    one inner_src: Option<Addresses>;
    /// Payload instead of pktgen's header: text, bytes, or those of a file
    #[arg(value_name = "TEXT|0xHEX|@FILE")]
    one payload: Option<PayloadText>;
    /// Time to live or hop limit, of all IP headers [default: 32]
    #[arg(value_name = "N")]
    one ttl: Option<u8> = within::<u8>(0..=u8::MAX);
}

impl FrameArgs {
    /// Refuses options that exclude each other, and one without the option that it needs, as the
    /// parser of the command line does.
    ///
    /// # Errors
    /// The first such pair, by the names of options without dashes.
    pub fn check(&self) -> Result<(), String> {
        let find = |name: &str| FRAME_OPTIONS.iter().find(|option| option.field == name);
        let is_given = |name: &str| find(name).is_some_and(|option| (option.is_given)(self));
        for option in FRAME_OPTIONS.iter().filter(|option| (option.is_given)(self)) {
            if let Some(needed) = option.needs.iter().find(|name| !is_given(name)) {
                return Err(format!("{} needs {}", option.name(), word(needed)));
            }
            if let Some(other) = option.without.iter().find(|name| is_given(name)) {
                return Err(format!("{} cannot be used with {}", option.name(), word(other)));
            }
        }
        Ok(())
    }

    /// A job that sends these frames; all else is the default.
    pub fn job(self) -> SendJob {
        let Self {
            dst_mac,
            src_mac,
            dst,
            src,
            udp_dst,
            udp_src,
            size,
            frame_size,
            imix,
            frame_imix,
            random,
            flows,
            flow_len,
            vlan,
            vlan_type,
            vlan_prio,
            vlan_dei,
            svlan,
            svlan_prio,
            svlan_dei,
            mpls,
            tos,
            udp_checksum,
            ipsec,
            spi,
            frags,
            send_fcs,
            clone_skb,
            signature,
            run,
            end_frames,
            no_timestamp,
            seed,
            tcp,
            syn,
            icmp,
            arp,
            vxlan,
            geneve,
            gtpu,
            tunnel_src_port,
            gre,
            inner_dst,
            inner_src,
            payload,
            ttl,
        } = self;
        SendJob {
            dst_mac,
            src_mac,
            dst,
            src,
            udp_dst,
            udp_src,
            size: size.or(frame_size),
            mix: imix.or(frame_imix),
            random: random.into_iter().map(Into::into).collect(),
            flows,
            flow_len,
            vlan,
            vlan_type,
            vlan_prio,
            vlan_dei,
            svlan,
            svlan_prio: svlan_prio.unwrap_or(0),
            svlan_dei,
            mpls,
            tos,
            udp_checksum,
            ipsec,
            spi,
            frags,
            send_fcs,
            clone_skb,
            signature: signature.map(Into::into),
            run,
            end_frames,
            no_timestamp,
            seed,
            tcp,
            syn,
            icmp: icmp.map(Into::into),
            arp,
            vxlan,
            geneve,
            gtpu,
            tunnel_src_port,
            gre,
            inner_dst,
            inner_src,
            payload,
            ttl,
            ..SendJob::default()
        }
    }
}

/// The value of that name.
fn named<T: ValueEnum>(name: &str) -> Result<T, String> {
    T::from_str(name, false).map_err(|_| {
        let names = T::value_variants().iter().filter_map(ValueEnum::to_possible_value);
        let names: Vec<String> = names.map(|value| value.get_name().to_owned()).collect();
        format!("{name} is none of {}", names.join(", "))
    })
}

/// A number of flows, written as a count: `1000`, `64k`.
fn flow_count(text: &str) -> Result<u32, String> {
    let Count(flows) = text.parse().map_err(|bad| format!("{bad}"))?;
    u32::try_from(flows).ok().filter(|flows| *flows > 0).ok_or_else(|| format!("not in 1 to {}", u32::MAX))
}
