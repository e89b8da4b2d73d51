//! What a configuration asks of each of its frames, worked out from the words of pktgen alone.

use crate::frame::{Frame, Tag};
use packet::{Config, DeviceFacts, Flags, MacAddr, PKTGEN_MAGIC, WallTime, XmitMode};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A setting that is gone through.
#[derive(Clone, Copy, Debug)]
struct Range {
    first: u32,
    /// Values that are gone through; 1 for a setting that stays.
    count: u64,
    is_random: bool,
    /// The frames of the first are one further on already.
    steps_before: bool,
}

impl Range {
    /// From `min` to `max`; a maximum that is not above the minimum stands for none. When drawn,
    /// and where `max` is an end, it is itself never sent.
    fn new(min: u32, max: u32, is_random: bool, is_end: bool) -> Self {
        let last = u64::from(!is_random && !is_end);
        let count = if max > min { u64::from(max - min) + last } else { 1 };
        Self { first: min, count, is_random, steps_before: true }
    }

    fn check(self, what: &str, value: u32, build: u32) -> Result<(), String> {
        let place = u64::from(value.wrapping_sub(self.first));
        let is_right = if self.is_random {
            place < self.count
        } else {
            place == (u64::from(build) + u64::from(self.steps_before)) % self.count
        };
        if is_right {
            Ok(())
        } else {
            Err(format!("{what} {value} is not that of frame {build} in {self:?}"))
        }
    }
}

/// What each frame of a configuration has to be.
pub(crate) struct Wanted<'a> {
    config: &'a Config,
    facts: &'a DeviceFacts,
}

impl<'a> Wanted<'a> {
    /// For a configuration that has been prepared.
    pub(crate) fn new(config: &'a Config, facts: &'a DeviceFacts) -> Self {
        Self { config, facts }
    }

    fn has(&self, flag: Flags) -> bool {
        self.config.flags.has(flag)
    }

    /// Holds a frame against the configuration: the `build`-th of its run and the `built`-th of its
    /// device.
    pub(crate) fn check(&self, frame: &Frame, build: u32, built: u32, time: WallTime) -> Result<(), String> {
        let config = self.config;
        self.check_len(frame, build)?;
        let own = |mac: MacAddr| if mac.is_zero() { self.facts.mac } else { mac };
        let random = |flag| self.has(flag);
        check_mac(
            frame.src_mac,
            own(config.src_mac),
            config.src_mac_count,
            random(Flags::MACSRC_RND),
            build,
        )?;
        check_mac(frame.dst_mac, config.dst_mac, config.dst_mac_count, random(Flags::MACDST_RND), build)?;
        self.check_tags(frame)?;
        self.check_labels(frame)?;
        self.check_addresses(frame, build, built)?;
        let ports = |min: u16, max: u16, flag| Range::new(min.into(), max.into(), random(flag), true);
        ports(config.udp_src_min, config.udp_src_max, Flags::UDPSRC_RND).check(
            "source port",
            frame.udp_src.into(),
            build,
        )?;
        ports(config.udp_dst_min, config.udp_dst_max, Flags::UDPDST_RND).check(
            "destination port",
            frame.udp_dst.into(),
            build,
        )?;
        // A checksum that is there has been found right; zero stands for none.
        same("UDP checksum present", frame.udp_checksum != 0, self.has(Flags::UDPCSUM))?;
        let (sec, usec) = if self.has(Flags::NO_TIMESTAMP) { (0, 0) } else { (time.sec, time.usec) };
        let seq_num = build * self.repeats() + 1;
        same("pktgen header", frame.stamp, [PKTGEN_MAGIC, seq_num, sec, usec])
    }

    fn repeats(&self) -> u32 {
        if !self.has(Flags::SHARED) {
            return 1;
        }
        let burst = if self.config.xmit_mode == XmitMode::QueueXmit { 1 } else { self.config.burst.max(1) };
        (self.config.clone_skb.max(1) as u32) * burst
    }

    fn check_len(&self, frame: &Frame, build: u32) -> Result<(), String> {
        let config = self.config;
        let ip_len = if self.has(Flags::IPV6) { 40 } else { 20 };
        let headers = 14 + 4 * (frame.tags.len() + frame.labels.len()) as u32 + ip_len + 8 + 16;
        let len_of = |size: u32| size.max(headers);
        if !config.imix.is_empty() && config.min_pkt_size >= config.max_pkt_size {
            let is_one = config.imix.iter().any(|entry| len_of(entry.size) == frame.frame_len);
            return if is_one {
                Ok(())
            } else {
                Err(format!("length {} is not in the mix", frame.frame_len))
            };
        }
        let sizes = Range::new(config.min_pkt_size, config.max_pkt_size, self.has(Flags::TXSIZE_RND), false);
        // Sizes that the headers do not fit into all come out as the headers alone.
        let value = if frame.frame_len > headers { frame.frame_len } else { sizes.at_most(headers, build) };
        same("length", frame.frame_len, len_of(value))?;
        sizes.check("length", value, build)
    }

    fn check_tags(&self, frame: &Frame) -> Result<(), String> {
        let config = self.config;
        let tag = |id, priority: u8, drop: u8| Tag { id, priority, is_drop_eligible: drop == 1 };
        let rows = [
            (config.svlan_id, config.svlan_p, config.svlan_cfi, Flags::SVID_RND),
            (config.vlan_id, config.vlan_p, config.vlan_cfi, Flags::VID_RND),
        ];
        let rows: Vec<_> =
            rows.into_iter().filter_map(|(id, p, cfi, flag)| Some((id?, p, cfi, flag))).collect();
        same("number of tags", frame.tags.len(), rows.len())?;
        rows.into_iter().zip(&frame.tags).try_for_each(|((id, priority, drop, flag), seen)| {
            let id = if self.has(flag) { seen.id } else { id };
            same("tag", *seen, tag(id, priority, drop))
        })
    }

    fn check_labels(&self, frame: &Frame) -> Result<(), String> {
        same("number of labels", frame.labels.len(), self.config.mpls.len())?;
        self.config.mpls.iter().zip(&frame.labels).try_for_each(|(typed, seen)| {
            let is_drawn = self.has(Flags::MPLS_RND) && typed & 0x100 != 0;
            let wanted = if is_drawn { seen & 0x000f_ffff } else { typed & !0x100 };
            same("label", *seen, wanted)
        })
    }

    fn check_addresses(&self, frame: &Frame, build: u32, built: u32) -> Result<(), String> {
        let config = self.config;
        if self.has(Flags::IPV6) {
            same("traffic class", frame.service, config.traffic_class)?;
            return self.check_v6(frame.src, frame.dst);
        }
        same("type of service", frame.service, config.tos)?;
        same("IP id", frame.ip_id, Some(built as u16))?;
        let (IpAddr::V4(src), IpAddr::V4(dst)) = (frame.src, frame.dst) else {
            return Err("not IPv4".into());
        };
        let bits = |address: Option<Ipv4Addr>| address.map_or(0, u32::from);
        let sources = if config.src_min.is_none() {
            let own = self.facts.v4.map_or(0, u32::from);
            Range::new(own, own, false, false)
        } else {
            Range::new(bits(config.src_min), bits(config.src_max), self.has(Flags::IPSRC_RND), false)
        };
        sources.check("source", src.into(), build)?;
        let is_random = self.has(Flags::IPDST_RND);
        let destinations = Range::new(bits(config.dst_min), bits(config.dst_max), is_random, false);
        let moves = destinations.count > 1;
        if is_random && moves && !may_be_drawn(dst) {
            return Err(format!("{dst} was drawn"));
        }
        // Flows keep their destination for a while, so only the bounds are certain.
        let is_in_order = config.flows == 0;
        Range { is_random: is_random || !is_in_order, ..destinations }.check("destination", dst.into(), build)
    }

    fn check_v6(&self, src: IpAddr, dst: IpAddr) -> Result<(), String> {
        let config = self.config;
        let own = self.facts.v6_link_local.unwrap_or(Ipv6Addr::UNSPECIFIED);
        let wanted_src = if config.src6.is_unspecified() { own } else { config.src6 };
        same("source", src, wanted_src.into())?;
        let IpAddr::V6(dst) = dst else { return Err("not IPv6".into()) };
        if config.dst6_min.is_unspecified() {
            return same("destination", dst, config.dst6);
        }
        let (set, allowed) = (config.dst6_min.to_bits(), config.dst6_max.to_bits());
        same("destination bits", dst.to_bits() & (!allowed | set), set & allowed)
    }

    /// The queue of a frame; a device that has sent before goes on from where it was.
    pub(crate) fn check_queue(&self, queue: u16, build: u32, has_sent: bool) -> Result<(), String> {
        let (count, config) = (u32::from(self.facts.tx_queues), self.config);
        let (min, max) = (u32::from(config.queue_map_min), u32::from(config.queue_map_max));
        if self.has(Flags::QUEUE_MAP_CPU) {
            return same("queue", u32::from(queue), self.facts.cpu % count);
        }
        if min > max {
            return same("queue", queue, 0);
        }
        let range =
            Range { steps_before: false, ..Range::new(min, max + 1, self.has(Flags::QUEUE_MAP_RND), true) };
        Range { is_random: range.is_random || has_sent, ..range }.check("queue", queue.into(), build)
    }
}

impl Range {
    /// Some value of at most `most`: the one that is due, or any when it is drawn.
    fn at_most(self, most: u32, build: u32) -> u32 {
        let due = (u64::from(build) + u64::from(self.steps_before)) % self.count;
        let value = if self.is_random { self.first } else { self.first + due as u32 };
        value.min(most)
    }
}

/// The first byte stays, and the others carry.
fn check_mac(seen: MacAddr, base: MacAddr, count: u32, is_random: bool, build: u32) -> Result<(), String> {
    let number = |mac: MacAddr| mac.0[1..].iter().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte));
    same("first byte of the MAC", seen.0[0], base.0[0])?;
    let offset = number(seen).wrapping_sub(number(base)) & 0xff_ffff_ffff;
    let offset = u32::try_from(offset).map_err(|_| format!("{seen} is not near {base}"))?;
    let range = Range { steps_before: false, ..Range::new(0, count, is_random, true) };
    range.check("place in the MACs", offset, build)
}

/// Random destinations leave out what is no host.
fn may_be_drawn(address: Ipv4Addr) -> bool {
    ![0, 127].contains(&address.octets()[0]) && !address.is_multicast() && !address.is_broadcast()
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, seen: T, wanted: T) -> Result<(), String> {
    if seen == wanted { Ok(()) } else { Err(format!("{what} {seen:?}, not {wanted:?}")) }
}
