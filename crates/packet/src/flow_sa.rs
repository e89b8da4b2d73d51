//! IPsec in a plan: the security association of each flow, or of each frame of packets.
//!
//! pktgen looks an association up when a flow is opened, and sends in clear when there is none.
//! Here a plan is only made when every flow and every frame that can come has one.

use crate::headers::{FirstHeader, Protocol, Walk};
use crate::ipsec::{Associations, SecurityAssociation};
use crate::plan::{Field, PacketPlan};
use crate::{Config, Cursor, PlanError};
use std::net::Ipv4Addr;
use std::sync::Arc;

/// The first byte of an IPv4 header of 20 bytes, without options.
const VERSION_AND_LEN: u8 = 0x45;
/// Where an IPv4 header has its addresses.
const SRC_AT: usize = 12;
const DST_AT: usize = 16;

/// How the frames of a plan find their associations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowAssociations {
    /// Those there are.
    pub associations: Arc<Associations>,
    /// The only one, by its place among the usable; `None` to go by addresses.
    pub only: Option<usize>,
    /// First byte of the IPv4 header of each packet of the plan.
    ip_at: Vec<usize>,
    /// Each frame goes by its own addresses, and not by those with which its flow was opened.
    is_by_frame: bool,
}

impl FlowAssociations {
    /// For settings that ask for it: flag IPSEC, IPv4, and flows (pktgen does nothing without
    /// them). The IPv4 header of the frames begins at `ip_at`.
    ///
    /// # Errors
    /// [`PlanError::NoAssociation`] for an SPI that is not there.
    pub(crate) fn of_flows(
        config: &Config,
        cursor: &Cursor,
        ip_at: usize,
    ) -> Result<Option<Self>, PlanError> {
        let all = &cursor.associations;
        config.asks_for_ipsec().then(|| Self::new(config.spi, all, vec![ip_at], false)).transpose()
    }

    /// For packets, each frame of which goes by its addresses if `spi` is 0.
    ///
    /// # Errors
    /// [`PlanError::NotProtectable`] for a packet without an IPv4 header that IPsec can stand
    /// behind, [`PlanError::NoAssociation`] or [`PlanError::UnusableAssociation`] for frames
    /// without an association.
    pub(crate) fn of_packets(
        spi: u32,
        associations: &Arc<Associations>,
        packets: &[PacketPlan],
    ) -> Result<Self, PlanError> {
        let ip_at = (1..)
            .zip(packets)
            .map(|(number, packet)| ipv4_at(&packet.template).ok_or(PlanError::NotProtectable { number }));
        let found = Self::new(spi, associations, ip_at.collect::<Result<_, _>>()?, true)?;
        if found.only.is_none() {
            // Of one more address than there are associations, at least one has none.
            let enough = associations.address_count() + 1;
            for (packet, ip_at) in packets.iter().zip(&found.ip_at) {
                let [sources, destinations] =
                    [SRC_AT, DST_AT].map(|at| addresses_at(packet, ip_at + at, enough));
                for dst in destinations {
                    sources.iter().try_for_each(|src| found.check(dst, *src))?;
                }
            }
        }
        Ok(found)
    }

    fn new(
        spi: u32,
        associations: &Arc<Associations>,
        ip_at: Vec<usize>,
        is_by_frame: bool,
    ) -> Result<Self, PlanError> {
        let only = match spi {
            0 => None,
            spi => Some(associations.by_spi(spi).ok_or_else(|| no_spi(spi, associations))?),
        };
        Ok(Self { associations: Arc::clone(associations), only, ip_at, is_by_frame })
    }

    fn find(&self, dst: Ipv4Addr, src: Ipv4Addr) -> Option<&SecurityAssociation> {
        let index = self.only.or_else(|| self.associations.by_address(dst, src))?;
        self.associations.usable().get(index)
    }

    /// # Errors
    /// [`PlanError::NoAssociation`] or [`PlanError::UnusableAssociation`] for a flow without one.
    pub(crate) fn check(&self, dst: Ipv4Addr, src: Ipv4Addr) -> Result<(), PlanError> {
        self.find(dst, src).map(drop).ok_or_else(|| no_pair(dst, src, &self.associations))
    }

    /// Those that protect frames of this plan.
    fn candidates(&self) -> &[SecurityAssociation] {
        let all = self.associations.usable();
        self.only.map_or(all, |only| &all[only..=only])
    }

    /// The longest frame that there can be of a packet. `clear_len` says how long one in clear is
    /// when an association takes so many bytes of what was asked for.
    pub(crate) fn frame_len_max(&self, packet: usize, clear_len: impl Fn(u32) -> u32) -> u32 {
        let ip_at = self.ip_at[packet];
        let protected = |one: &SecurityAssociation| {
            let ip_len = clear_len(one.header_len() as u32) as usize - ip_at;
            (ip_at + one.protected_len(ip_len)) as u32
        };
        self.candidates().iter().map(protected).max().unwrap_or(0)
    }

    /// Numbers the frame that was just moved on to.
    pub(crate) fn take_sequence(&self, packet: &PacketPlan, cursor: &mut Cursor) {
        if let Some(association) = self.current(packet, cursor) {
            cursor.numbers.sequence = association.take_sequence();
        }
    }

    /// Draws what the cipher of the frame that was just moved on to wants drawn.
    pub(crate) fn draw_iv(&self, packet: &PacketPlan, cursor: &mut Cursor) {
        if self.current(packet, cursor).is_some_and(SecurityAssociation::needs_random_iv) {
            for word in cursor.numbers.iv.chunks_exact_mut(4) {
                word.copy_from_slice(&cursor.rng.next_u32().to_be_bytes());
            }
        }
    }

    /// That of the frame of the cursor, which is of this packet, or of its flow, by the source it
    /// was opened with.
    pub(crate) fn current(&self, packet: &PacketPlan, cursor: &Cursor) -> Option<&SecurityAssociation> {
        if self.is_by_frame {
            let [src, dst] = match self.only {
                Some(_) => [Ipv4Addr::UNSPECIFIED; 2],
                None => addresses(packet, self.ip_at[cursor.packet], cursor),
            };
            return self.find(dst, src);
        }
        let source = cursor.flow_sources.get(cursor.flow_index as usize);
        self.find(cursor.dst_v4(), source.copied().unwrap_or(Ipv4Addr::UNSPECIFIED))
    }

    /// Protects the frame of the cursor, whose first `len` bytes are in clear, and returns its new
    /// length.
    pub(crate) fn protect(
        &self,
        one: &SecurityAssociation,
        cursor: &Cursor,
        frame: &mut [u8],
        len: usize,
    ) -> usize {
        one.protect(&cursor.numbers, frame, self.ip_at[cursor.packet], len)
    }
}

/// Where the IPv4 header of a frame begins, if IPsec can stand behind it: it has no options, and no
/// header in front of it has a length that would have to be changed.
fn ipv4_at(frame: &[u8]) -> Option<usize> {
    let has_no_length = |protocol| matches!(protocol, Protocol::Ethernet | Protocol::Vlan | Protocol::Mpls);
    let ip = Walk::new(frame, FirstHeader::Ethernet).find(|header| !has_no_length(header.protocol))?;
    let is_plain = frame.get(ip.at) == Some(&VERSION_AND_LEN);
    (ip.protocol == Protocol::Ipv4 && is_plain).then_some(ip.at)
}

/// True if the field has bytes of the `len` ones at `at`.
fn is_in(field: &Field, at: usize, len: usize) -> bool {
    field.offset < at + len && at < field.offset + field.width
}

/// Source and destination of the frame of the cursor.
fn addresses(packet: &PacketPlan, ip_at: usize, cursor: &Cursor) -> [Ipv4Addr; 2] {
    // A field of eight bytes may begin seven bytes before the addresses, and end as far behind.
    let from = ip_at + SRC_AT - 7;
    let mut window = [0; 7 + 8 + 7];
    window.iter_mut().zip(&packet.template[from..]).for_each(|(byte, known)| *byte = *known);
    for (field, slot) in packet.fields.iter().zip(&packet.slots) {
        if is_in(field, ip_at + SRC_AT, 8) {
            field.write_from(from, &mut window, cursor.values[*slot]);
        }
    }
    [7, 11].map(|at| address_at(&window, at))
}

fn address_at(bytes: &[u8], at: usize) -> Ipv4Addr {
    Ipv4Addr::new(bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3])
}

/// The addresses that frames of a packet can have at this byte, up to `enough` of them.
fn addresses_at(packet: &PacketPlan, at: usize, enough: usize) -> Vec<Ipv4Addr> {
    let mut frames = vec![packet.template.clone()];
    for field in packet.fields.iter().filter(|field| is_in(field, at, 4)) {
        let with = |frame: &Vec<u8>, value| {
            let mut frame = frame.clone();
            field.write(&mut frame, value);
            frame
        };
        let values = || field.mode.values().take(enough);
        frames =
            frames.iter().flat_map(|frame| values().map(|value| with(frame, value))).take(enough).collect();
    }
    frames.iter().map(|frame| address_at(frame, at)).collect()
}

fn no_spi(spi: u32, associations: &Associations) -> PlanError {
    let what = format!("with spi {spi}");
    match associations.why_not_spi(spi) {
        Some(why) => PlanError::UnusableAssociation { what, why: why.to_owned() },
        None => PlanError::NoAssociation { what },
    }
}

fn no_pair(dst: Ipv4Addr, src: Ipv4Addr, associations: &Associations) -> PlanError {
    let what = format!("for ESP in transport mode from {src} to {dst}");
    match associations.why_not_address(dst, src) {
        Some(why) => PlanError::UnusableAssociation { what, why: why.to_owned() },
        None => PlanError::NoAssociation { what },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ipsec::protect::tests::association;
    use crate::ipsec::{Association, IpsecMode, Secret, Transform, Unusable};
    use crate::plan::{FieldMode, FrameSpec, PacketOrder};
    use crate::{Flags, Plan, Rng, sample};

    const NULL: Transform = Transform::EspNull { integrity: None };

    fn gcm() -> Transform {
        Transform::EspGcm { key: Secret(vec![9; 16]), salt: [1; 4], icv_len: 16 }
    }

    fn v4(text: &str) -> Option<Ipv4Addr> {
        text.parse().ok()
    }

    fn one(spi: u32, src: &str, dst: &str, transform: Transform) -> Association {
        let (src, dst) = (src.parse().unwrap(), dst.parse().unwrap());
        Association { spi, src, dst, ..association(IpsecMode::Transport, transform) }
    }

    fn asked() -> Config {
        let flags = Flags(Flags::IPSEC.0 | Flags::FLOW_SEQ.0 | Flags::SHARED.0);
        let mut config = Config { flows: 2, flow_len: 2, flags, ..Config::default() };
        config.src_min = v4("10.0.0.1");
        config.dst_min = v4("10.0.0.2");
        (config.min_pkt_size, config.max_pkt_size) = (100, 100);
        config
    }

    fn table(all: &[Association], unusable: Vec<Unusable>) -> Arc<Associations> {
        let ready = |what: &Association| SecurityAssociation::new(what.clone()).unwrap();
        Arc::new(Associations::new(all.iter().map(ready).collect(), unusable))
    }

    fn begin(config: &Config, all: &[Association]) -> Result<(Plan, Cursor), PlanError> {
        let unusable = Unusable {
            spi: 0x666,
            src: Ipv4Addr::UNSPECIFIED,
            dst: [10, 6, 6, 6].into(),
            by_address: true,
            why: "it wants blowfish".into(),
        };
        let mut cursor = Cursor { associations: table(all, vec![unusable]), ..Cursor::default() };
        cursor.start(config, &sample::facts(), 1);
        Ok((Plan::new(config, &sample::facts(), &cursor)?, cursor))
    }

    fn send(plan: &Plan, cursor: &mut Cursor) -> Vec<u8> {
        let mut bytes = vec![0xee; plan.frame_len_max() as usize];
        let len = plan.emit(cursor, 0, &mut bytes);
        bytes.truncate(len);
        bytes
    }

    fn word(frame: &[u8], at: usize) -> u32 {
        u32::from_be_bytes(frame[at..at + 4].try_into().unwrap())
    }

    fn refusal(config: &Config, all: &[Association]) -> String {
        begin(config, all).unwrap_err().to_string()
    }

    #[test]
    fn asked_for_100_and_sent_102_as_the_kernel_does() {
        let (plan, mut cursor) = begin(&asked(), &[one(7, "10.0.0.1", "10.0.0.2", NULL)]).unwrap();
        let frames: Vec<_> = (0..3).map(|_| send(&plan, &mut cursor)).collect();
        assert_eq!(frames.iter().map(Vec::len).collect::<Vec<_>>(), [102; 3]);
        assert_eq!(plan.frame_len_max(), 102);
        for (frame, sequence) in frames.iter().zip(1..) {
            assert_eq!((frame[23], word(frame, 34), word(frame, 38)), (50, 7, sequence));
        }
    }

    /// A frame with these bytes between MAC addresses and IP, from 10.0.0.1 to 10.0.0.2, with 30
    /// bytes behind its IPv4 header.
    fn packet(types: &[u8], fields: Vec<Field>) -> FrameSpec {
        let mut template = [&[2; 12][..], types].concat();
        template.extend([0x45, 0, 0, 50, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        template.extend(0..30);
        FrameSpec { template, fields, ..FrameSpec::default() }
    }

    fn protected(specs: &[FrameSpec], spi: u32, all: &[Association]) -> Result<Plan, PlanError> {
        let config = Config { spi, ..asked() };
        Plan::of_specs(specs, PacketOrder::RoundRobin).protected(&config, &table(all, Vec::new()))
    }

    #[test]
    fn any_packet_is_protected_behind_its_first_ipv4_header() {
        let tagged: &[u8] = &[0x88, 0xa8, 0, 7, 0x88, 0x47, 0, 1, 1, 9];
        let drawn = Field::whole(50, 4, FieldMode::Random { min: 0, max: 9 });
        for (types, start) in [(&[8, 0][..], 14), (&[0x81, 0, 0, 5, 8, 0], 18), (tagged, 22)] {
            let specs = [packet(types, vec![drawn.clone()])];
            let clear = Plan::of_specs(&specs, PacketOrder::RoundRobin);
            let mut clear_cursor = Cursor { rng: Rng(5), ..clear.start() };
            for mode in [IpsecMode::Transport, IpsecMode::Tunnel] {
                let what = Association { mode, ..one(9, "10.0.0.1", "10.0.0.2", NULL) };
                let plan = protected(&specs, 9, &[what]).unwrap();
                let mut cursor = Cursor { rng: clear_cursor.rng, ..plan.start() };
                for sequence in 1..4 {
                    let (frame, shown) = (send(&plan, &mut cursor), send(&clear, &mut clear_cursor));
                    assert_eq!(frame.len(), plan.frame_len_max() as usize);
                    assert_eq!(frame[..start], shown[..start]);
                    assert_eq!((frame[start + 9], word(&frame, start + 20)), (50, 9));
                    assert_eq!(word(&frame, start + 24), sequence);
                    let kept = if mode == IpsecMode::Transport { start + 20 } else { start };
                    assert_eq!(frame[start + 28..][..shown.len() - kept], shown[kept..]);
                }
            }
        }
    }

    #[test]
    fn each_frame_of_packets_goes_by_its_own_addresses() {
        let known = [2, 3].map(|last| one(last, "10.0.0.1", &format!("10.0.0.{last}"), gcm()));
        let counted = |max| FieldMode::Increment { first: 2, min: 2, max, step: 1, wrap: max - 1 };
        let last_byte = |max| Field::whole(33, 1, counted(max));
        let plan = protected(&[packet(&[8, 0], vec![last_byte(3)])], 0, &known).unwrap();
        let mut cursor = plan.start();
        let spis: Vec<_> = (0..4).map(|_| word(&send(&plan, &mut cursor), 34)).collect();
        assert_eq!(spis, [2, 3, 2, 3]);
        let why = protected(&[packet(&[8, 0], vec![last_byte(4)])], 0, &known).unwrap_err().to_string();
        assert!(why.ends_with("from 10.0.0.1 to 10.0.0.4"), "{why}");
        // Eight bytes with the end of the source and the whole destination, and what is before it.
        let wide =
            Field::whole(26, 8, FieldMode::Random { min: 0x0a00_0001_0a00_0002, max: 0x0a00_0001_0a00_0003 });
        let plan = protected(&[packet(&[8, 0], vec![wide])], 0, &known).unwrap();
        let mut cursor = Cursor { rng: Rng(3), ..plan.start() };
        for _ in 0..20 {
            let frame = send(&plan, &mut cursor);
            assert_eq!(word(&frame, 34), u32::from(frame[33]));
        }
        let sources = Field::whole(26, 4, FieldMode::Random { min: 0x0a00_0001, max: 0x0a00_00ff });
        let why = protected(&[packet(&[8, 0], vec![sources])], 0, &known).unwrap_err().to_string();
        assert!(why.ends_with("from 10.0.0.2 to 10.0.0.2"), "{why}");
    }

    #[test]
    fn skipping_packets_moves_the_cursor_as_sending_does() {
        let cbc = Transform::EspCbc { key: Secret(vec![3; 16]), integrity: None };
        let known = [one(5, "10.0.0.1", "10.0.0.2", cbc), one(6, "10.0.0.1", "10.0.0.3", gcm())];
        let drawn = Field::whole(33, 1, FieldMode::Random { min: 2, max: 3 });
        let plan = protected(&[packet(&[8, 0], vec![drawn])], 0, &known).unwrap();
        let mut cursor = Cursor { rng: Rng(8), ..plan.start() };
        let mut skipped = cursor.clone();
        for _ in 0..20 {
            send(&plan, &mut cursor);
            plan.skip(&mut skipped);
            skipped.numbers.sequence = cursor.numbers.sequence;
            assert_eq!(skipped, cursor);
        }
    }

    #[test]
    fn packets_that_ipsec_cannot_protect_are_named() {
        let known = [one(5, "10.0.0.1", "10.0.0.2", gcm())];
        let good = packet(&[8, 0], Vec::new());
        let mut options = good.clone();
        options.template[14] = 0x46;
        let mut v6 = packet(&[0x86, 0xdd], Vec::new());
        v6.template[14] = 0x60;
        // PPPoE has a length of its own.
        let pppoe = packet(&[0x88, 0x64, 0x11, 0, 0, 1, 0, 52, 0, 0x21], Vec::new());
        for bad in [packet(&[8, 6], Vec::new()), v6, options, pppoe] {
            let why = protected(&[good.clone(), bad], 5, &known).unwrap_err();
            assert_eq!(why, PlanError::NotProtectable { number: 2 });
        }
        let mut long = good.clone();
        long.template.resize(65_530, 0);
        let why = protected(&[long], 5, &known).unwrap_err().to_string();
        assert!(why.contains("is too long"), "{why}");
        assert!(protected(&[good], 4, &known).unwrap_err().to_string().contains("with spi 4"));
    }

    #[test]
    fn no_association_means_no_plan_and_the_refusal_says_which() {
        let missing = "IPSEC: there is no security association ";
        let pair = "for ESP in transport mode from 10.0.0.1 to 10.0.0.2";
        assert_eq!(refusal(&asked(), &[]), format!("{missing}{pair}"));
        assert_eq!(refusal(&Config { spi: 9, ..asked() }, &[]), format!("{missing}with spi 9"));
        let unusable = Config { spi: 0x666, ..asked() };
        let why = "cannot be used: it wants blowfish";
        assert_eq!(refusal(&unusable, &[]), format!("IPSEC: the security association with spi 1638 {why}"));
        let unusable = Config { dst_min: v4("10.6.6.6"), ..asked() };
        assert!(refusal(&unusable, &[]).ends_with(why));
        // One address of the range is without, on either side.
        let known = ["10.0.0.2", "10.0.0.3", "10.0.0.5"].map(|dst| one(1, "10.0.0.1", dst, NULL));
        let range = Config { dst_max: v4("10.0.0.5"), ..asked() };
        assert!(refusal(&range, &known).ends_with("from 10.0.0.1 to 10.0.0.4"));
        let range = Config { src_max: v4("10.0.0.9"), ..asked() };
        assert!(refusal(&range, &known).ends_with("from 10.0.0.2 to 10.0.0.2"));
        let range = Config { dst_min: v4("10.0.0.2"), dst_max: v4("10.0.0.3"), ..asked() };
        assert!(begin(&range, &known).is_ok());
    }

    #[test]
    fn a_range_of_four_thousand_million_is_checked_at_once() {
        let known = [one(1, "0.0.0.0", "0.0.0.0", NULL)];
        let range = Config { dst_min: None, dst_max: v4("255.255.255.255"), ..asked() };
        assert!(refusal(&range, &known).ends_with("to 0.0.0.1"));
        let random = Config { flags: Flags(asked().flags.0 | Flags::IPDST_RND.0), ..range };
        assert!(refusal(&random, &known).ends_with("to 1.0.0.0"));
    }

    #[test]
    fn without_flows_or_with_ipv6_frames_are_in_clear_as_the_kernels() {
        let plain = [
            Config { flows: 0, ..asked() },
            Config { flags: Flags(asked().flags.0 | Flags::IPV6.0), ..asked() },
        ];
        for config in plain {
            let (plan, mut cursor) = begin(&config, &[]).unwrap();
            assert_eq!((plan.ipsec.is_none(), send(&plan, &mut cursor).len()), (true, 100));
        }
    }

    #[test]
    fn a_flow_keeps_the_association_it_was_opened_with() {
        let known = [1, 2].map(|last| one(last, &format!("10.0.0.{last}"), "10.0.0.9", gcm()));
        let config =
            Config { src_max: v4("10.0.0.2"), dst_min: v4("10.0.0.9"), flow_len: 4, flows: 1, ..asked() };
        let (plan, mut cursor) = begin(&config, &known).unwrap();
        let frames: Vec<_> = (0..6).map(|_| send(&plan, &mut cursor)).collect();
        // Sources count on inside a flow: .2 .1 .2 .1, .2 .1; each flow was opened with .2.
        assert_eq!(frames.iter().map(|frame| frame[29]).collect::<Vec<_>>(), [2, 1, 2, 1, 2, 1]);
        assert!(frames.iter().all(|frame| word(frame, 34) == 2));
    }

    #[test]
    fn clones_are_one_frame_and_no_number_is_used_twice_by_two_runs() {
        let all = [one(5, "10.0.0.1", "10.0.0.2", gcm())];
        let (plan, mut cursor) = begin(&Config { clone_skb: 2, ..asked() }, &all).unwrap();
        let (twin, mut other) = (plan.clone(), cursor.clone());
        let frames: Vec<_> = (0..4).map(|_| send(&plan, &mut cursor)).collect();
        assert_eq!((&frames[0], &frames[2]), (&frames[1], &frames[3]));
        let more = send(&twin, &mut other);
        assert_eq!([&frames[0], &frames[2], &more].map(|frame| word(frame, 38)), [1, 2, 3]);
        // The IV of AES-GCM is the number, too.
        assert_eq!(more[42..50], 3u64.to_be_bytes());
    }

    #[test]
    fn skipping_moves_the_cursor_as_sending_does_and_takes_no_number() {
        let cbc = Transform::EspCbc { key: Secret(vec![3; 16]), integrity: None };
        let all = [one(5, "10.0.0.1", "10.0.0.2", cbc)];
        let config = Config { max_pkt_size: 120, clone_skb: 2, ..asked() };
        let (plan, mut cursor) = begin(&config, &all).unwrap();
        let mut skipped = cursor.clone();
        for sent in 1..8_u64 {
            send(&plan, &mut cursor);
            plan.skip(&mut skipped);
            assert_eq!(cursor.associations.usable()[0].sequence(), sent.div_ceil(2));
            let mut numbered = skipped.clone();
            numbered.numbers.sequence = cursor.numbers.sequence;
            assert_eq!(numbered, cursor);
        }
    }

    #[test]
    fn a_flow_that_another_plan_opened_is_never_sent_in_clear() {
        let all = [one(5, "10.0.0.1", "10.0.0.2", gcm())];
        let (plan, mut cursor) = begin(&asked(), &all).unwrap();
        cursor.flows[0] = crate::Flow { value: 0x0a00_0063, is_open: true, ..crate::Flow::default() };
        assert!(send(&plan, &mut cursor).is_empty());
        let again = Plan::new(&asked(), &sample::facts(), &cursor).unwrap_err().to_string();
        assert!(again.ends_with("from 0.0.0.0 to 10.0.0.99"), "{again}");
    }

    #[test]
    fn packets_longer_than_a_packet_can_be_are_refused() {
        let config = Config { min_pkt_size: 65_535, max_pkt_size: 65_535, spi: 5, ..asked() };
        let what = Association { mode: IpsecMode::Tunnel, ..one(5, "10.0.0.1", "10.0.0.2", gcm()) };
        assert!(
            begin(
                &Config { min_pkt_size: 65_000, max_pkt_size: 0, ..config.clone() },
                std::slice::from_ref(&what)
            )
            .is_ok()
        );
        assert!(refusal(&config, &[what]).contains("is too long"));
    }

    #[test]
    fn random_configurations_fit_into_the_longest_frame_and_find_its_length() {
        let mut rng = Rng(4);
        let mut reached = 0;
        for round in 0..90 {
            let mut config = sample::config(&mut rng, 1500);
            config.flags.set(Flags::IPSEC, true);
            config.flags.set(Flags::IPV6, false);
            config.flows = 1 + rng.below(4);
            config.spi = 5;
            let mode = if round % 2 == 0 { IpsecMode::Tunnel } else { IpsecMode::Transport };
            let transform = if round % 3 == 0 {
                gcm()
            } else {
                Transform::EspCbc { key: Secret(vec![3; 32]), integrity: None }
            };
            let what = Association { mode, ..one(5, "10.0.0.1", "10.0.0.2", transform) };
            config.prepare(&sample::facts());
            let Ok((plan, mut cursor)) = begin(&config, &[what]) else { continue };
            let longest = (0..20).map(|_| send(&plan, &mut cursor).len()).max().unwrap();
            assert!(longest <= plan.frame_len_max() as usize);
            reached += u32::from(longest == plan.frame_len_max() as usize);
        }
        assert!(reached > 20, "{reached}");
    }
}
