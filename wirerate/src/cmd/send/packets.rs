//! Packets in trafgen's language as the frames of a run.

use super::capture_frames::CaptureFiles;
use crate::outcome::Failure;
use frames::{DeviceAddresses, FrameSpec, PacketOrder, ParseSettings};
use packet::general::GeneralPlan;
use packet::{Config, DeviceFacts, XmitMode};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Bytes of an Ethernet header: no device sends less.
const FRAME_LEN_MIN: usize = 14;
/// Bytes of a MAC address.
const MAC_LEN: usize = 6;

/// The packets that a run sends.
#[derive(Clone, Debug)]
pub struct Packets {
    specs: Vec<FrameSpec>,
    order: PacketOrder,
}

/// Source addresses that a packet does not give.
pub fn addresses(facts: &DeviceFacts) -> DeviceAddresses {
    DeviceAddresses {
        mac: facts.mac,
        ipv4: facts.v4.unwrap_or(Ipv4Addr::UNSPECIFIED),
        ipv6: facts.v6_link_local.unwrap_or(Ipv6Addr::UNSPECIFIED),
    }
}

impl Packets {
    /// The packets of a text for a device with these `facts`. Errors call the text `name`.
    ///
    /// # Errors
    /// Bad usage with the position of the error.
    pub fn parse(text: &str, name: &str, facts: &DeviceFacts, seed: u64) -> Result<Self, Failure> {
        let settings = ParseSettings { seed, device: addresses(facts) };
        let specs = frames::parse(text.as_bytes(), &settings, &mut CaptureFiles::default())
            .map_err(|error| Failure::usage_text(format!("wirerate: cannot read {name}: {error}\n")))?;
        if specs.is_empty() {
            return Err(Failure::usage(format_args!("read {name}"), "it has no packets: expected { ... }"));
        }
        Self::new(specs, PacketOrder::RoundRobin)
    }

    /// The settings of a run of these packets.
    pub fn config(&self, count: u64, xmit_mode: XmitMode, seed: u64) -> Config {
        let frame_len = self.mean_len() as u32;
        Config {
            count,
            min_pkt_size: frame_len,
            max_pkt_size: frame_len,
            seed: Some(seed),
            xmit_mode,
            ..Config::default()
        }
    }

    /// Packets for a device.
    ///
    /// # Errors
    /// Bad usage for a packet without an Ethernet header.
    pub fn new(specs: Vec<FrameSpec>, order: PacketOrder) -> Result<Self, Failure> {
        match specs.iter().position(|spec| spec.template.len() < FRAME_LEN_MIN) {
            None => Ok(Self { specs, order }),
            Some(index) => {
                let len = specs[index].template.len();
                let act = format!("send packet {} of {len} bytes", index + 1);
                Err(Failure::usage(act, format!("a frame has at least {FRAME_LEN_MIN} bytes"))
                    .try_this("`wirerate trafgen ... -o FILE.pcap` to write it to a file"))
            }
        }
    }

    /// The number of the first packet whose destination MAC is always zero, from 1.
    pub fn without_destination(&self) -> Option<usize> {
        let is_zero = |spec: &FrameSpec| {
            let is_changed = spec.fields.iter().any(|field| field.offset < MAC_LEN);
            !is_changed && spec.template[..MAC_LEN] == [0; MAC_LEN]
        };
        self.specs.iter().position(is_zero).map(|index| index + 1)
    }

    /// Mean frame length of one round, in bytes without FCS.
    pub fn mean_len(&self) -> usize {
        let bytes: usize = self.specs.iter().map(|spec| spec.template.len()).sum();
        bytes / self.specs.len().max(1)
    }

    /// The packets that thread `index` of a run sends; `None` if `cpu()` leaves it none.
    pub fn of_thread(&self, index: u32) -> Option<GeneralPlan> {
        let is_its_own = |spec: &&FrameSpec| spec.cpus.as_ref().is_none_or(|cpus| cpus.contains(&index));
        let specs: Vec<FrameSpec> = self.specs.iter().filter(is_its_own).cloned().collect();
        (!specs.is_empty()).then(|| GeneralPlan::new(&specs, self.order))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packets(text: &str) -> Result<Packets, Failure> {
        let specs =
            frames::parse(text.as_bytes(), &frames::ParseSettings::default(), &mut frames::NoCaptures);
        Packets::new(specs.expect("a good configuration"), PacketOrder::RoundRobin)
    }

    #[test]
    fn each_thread_has_the_packets_of_its_cpu() {
        let packets = packets("cpu(0): { fill(1, 20) } cpu(1-2): { fill(2, 40) }").unwrap();
        let lens = [0, 1, 2, 3].map(|index| packets.of_thread(index).map(|plan| plan.frame_len_max()));
        assert_eq!(lens, [Some(20), Some(40), Some(40), None]);
        assert_eq!(packets.mean_len(), 30);
    }

    #[test]
    fn a_packet_without_an_ethernet_header_is_not_sent() {
        let refusal = packets("{ fill(1, 14) } { fill(1, 13) }").unwrap_err().to_string();
        assert!(refusal.starts_with("wirerate: cannot send packet 2 of 13 bytes"), "{refusal}");
    }
}
