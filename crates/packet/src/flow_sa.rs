//! IPsec in a plan: the security association of each flow.
//!
//! pktgen looks an association up when a flow is opened, and sends in clear when there is none.
//! Here a plan is only made when every flow that can come has one.

use crate::ipsec::{Associations, SecurityAssociation};
use crate::{Config, Cursor, PlanError};
use std::net::Ipv4Addr;
use std::sync::Arc;

/// How the frames of a plan find their associations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowAssociations {
    /// Those there are.
    pub associations: Arc<Associations>,
    /// The only one, by its place among the usable; `None` to go by addresses.
    pub only: Option<usize>,
}

impl FlowAssociations {
    /// For settings that ask for it: flag IPSEC, IPv4, and flows (pktgen does nothing without
    /// them).
    ///
    /// # Errors
    /// [`PlanError::NoAssociation`] for an SPI that is not there.
    pub(crate) fn new(config: &Config, cursor: &Cursor) -> Result<Option<Self>, PlanError> {
        if !config.asks_for_ipsec() {
            return Ok(None);
        }
        let associations = Arc::clone(&cursor.associations);
        let only = match config.spi {
            0 => None,
            spi => Some(associations.by_spi(spi).ok_or_else(|| no_spi(spi, &associations))?),
        };
        Ok(Some(Self { associations, only }))
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

    /// The longest frame there can be. `clear_len` says how long one in clear is when an
    /// association takes so many bytes of what was asked for.
    pub(crate) fn frame_len_max(&self, ip_at: usize, clear_len: impl Fn(u32) -> u32) -> u32 {
        let protected = |one: &SecurityAssociation| {
            let ip_len = clear_len(one.header_len() as u32) as usize - ip_at;
            (ip_at + one.protected_len(ip_len)) as u32
        };
        self.candidates().iter().map(protected).max().unwrap_or(0)
    }

    /// Numbers the frame that was just moved on to.
    pub(crate) fn take_sequence(&self, cursor: &mut Cursor) {
        if let Some(association) = self.current(cursor) {
            cursor.numbers.sequence = association.take_sequence();
        }
    }

    /// Draws what the cipher of the frame that was just moved on to wants drawn.
    pub(crate) fn draw_iv(&self, cursor: &mut Cursor) {
        if self.current(cursor).is_some_and(SecurityAssociation::needs_random_iv) {
            for word in cursor.numbers.iv.chunks_exact_mut(4) {
                word.copy_from_slice(&cursor.rng.next_u32().to_be_bytes());
            }
        }
    }

    /// That of the current flow, by the source it was opened with.
    pub(crate) fn current(&self, cursor: &Cursor) -> Option<&SecurityAssociation> {
        let source = cursor.flow_sources.get(cursor.flow_index as usize);
        self.find(cursor.dst_v4(), source.copied().unwrap_or(Ipv4Addr::UNSPECIFIED))
    }
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

    fn begin(config: &Config, all: &[Association]) -> Result<(Plan, Cursor), PlanError> {
        let ready = |what: &Association| SecurityAssociation::new(what.clone()).unwrap();
        let unusable = Unusable {
            spi: 0x666,
            src: Ipv4Addr::UNSPECIFIED,
            dst: [10, 6, 6, 6].into(),
            by_address: true,
            why: "it wants blowfish".into(),
        };
        let associations = Associations::new(all.iter().map(ready).collect(), vec![unusable]);
        let mut cursor = Cursor { associations: Arc::new(associations), ..Cursor::default() };
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
