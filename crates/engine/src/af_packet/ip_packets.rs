//! A ring for devices whose frames begin with an IP header (tun, WireGuard): it sends the IP
//! packets of Ethernet frames. Tags and labels are removed with the Ethernet header.

use crate::engine_kind::EngineKind;
use crate::userspace::{Accepted, TxRing};
use packet::Plan;
use packet::headers::{FirstHeader, ip_packet_at};
use std::io;

/// True if all packets of a plan are IP packets.
pub(super) fn has_only_ip(plan: &Plan) -> bool {
    let is_ip = |template: &[u8]| ip_packet_at(template, FirstHeader::Ethernet).is_some();
    plan.packets().iter().all(|packet| is_ip(&packet.template))
}

/// A ring and the frames whose packets are in its slots.
#[derive(Debug)]
pub(super) struct IpPacketRing<R> {
    ring: R,
    frames: Vec<WholeFrame>,
}

/// A frame as the plan built it.
#[derive(Clone, Debug)]
struct WholeFrame {
    bytes: Vec<u8>,
    frame_len: usize,
    is_ip: bool,
}

impl<R: TxRing> IpPacketRing<R> {
    /// For frames of up to `frame_len_max` bytes.
    pub(super) fn new(ring: R, frame_len_max: usize) -> Self {
        let frame = WholeFrame { bytes: vec![0; frame_len_max], frame_len: 0, is_ip: false };
        Self { frames: vec![frame; ring.slots()], ring }
    }
}

impl<R: TxRing> TxRing for IpPacketRing<R> {
    const KIND: EngineKind = R::KIND;
    const CALL: &'static str = R::CALL;

    fn slots(&self) -> usize {
        self.ring.slots()
    }

    fn slot(&mut self, index: usize) -> Option<&mut [u8]> {
        self.ring.slot(index).map(|_| &mut self.frames[index].bytes[..])
    }

    fn set_frame_len(&mut self, index: usize, frame_len: usize) {
        let frame = &mut self.frames[index];
        let at = ip_packet_at(&frame.bytes[..frame_len], FirstHeader::Ethernet);
        (frame.frame_len, frame.is_ip) = (frame_len, at.is_some());
        let packet = &frame.bytes[at.unwrap_or(0)..frame_len];
        let slot = self.ring.slot(index).expect("the caller has the slot");
        slot[..packet.len()].copy_from_slice(packet);
        self.ring.set_frame_len(index, packet.len());
    }

    fn set_queue(&mut self, index: usize, queue: u16) {
        self.ring.set_queue(index, queue);
    }

    /// With its Ethernet header: rates and lengths are those of the frames of the plan.
    fn frame(&self, index: usize) -> &[u8] {
        let frame = &self.frames[index];
        &frame.bytes[..frame.frame_len]
    }

    fn send(&mut self, first: usize, count: usize) -> io::Result<Accepted> {
        let slots = self.slots();
        let is_ip = |place: &usize| self.frames[(first + place) % slots].is_ip;
        // A field of the plan may have changed the type of the frame.
        match (0..count).take_while(is_ip).count() {
            0 => Err(io::Error::from_raw_os_error(libc::EPROTONOSUPPORT)),
            count => self.ring.send(first, count),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Slots whose frames are sent at once.
    struct Slots(Vec<Vec<u8>>);

    impl TxRing for Slots {
        const KIND: EngineKind = EngineKind::AfPacket;
        const CALL: &'static str = "send";

        fn slots(&self) -> usize {
            self.0.len()
        }

        fn slot(&mut self, index: usize) -> Option<&mut [u8]> {
            self.0[index].resize(60, 0);
            Some(&mut self.0[index])
        }

        fn set_frame_len(&mut self, index: usize, frame_len: usize) {
            self.0[index].truncate(frame_len);
        }

        fn frame(&self, index: usize) -> &[u8] {
            &self.0[index]
        }

        fn send(&mut self, _first: usize, count: usize) -> io::Result<Accepted> {
            Ok(Accepted { count, congested: 0 })
        }
    }

    #[test]
    fn slots_have_packets_and_other_frames_are_refused() {
        let mut ring = IpPacketRing::new(Slots(vec![Vec::new(); 3]), 60);
        for (index, ethertype) in [[8, 0], [8, 0], [8, 6]].into_iter().enumerate() {
            let frame = [&[2; 12][..], &ethertype, &[0x45], &[7; 19]].concat();
            ring.slot(index).unwrap()[..frame.len()].copy_from_slice(&frame);
            ring.set_frame_len(index, frame.len());
            assert_eq!(ring.frame(index), frame);
        }
        assert_eq!(ring.ring.0[1], [&[0x45][..], &[7; 19]].concat());
        assert_eq!(ring.send(0, 3).unwrap().count, 2);
        assert_eq!(ring.send(2, 1).unwrap_err().raw_os_error(), Some(libc::EPROTONOSUPPORT));
    }
}
