//! The frame for tools that cannot build one: the same bytes for all of them.

use anyhow::{Context, Result};
use packet::{MacAddr, checksum};
use pcapng::pcap;
use std::fmt::Write;
use std::fs::File;
use std::io::BufWriter;
use std::net::Ipv4Addr;
use std::path::Path;

/// An address that no device has: the stack drops such frames after the taps have seen them.
pub(crate) const UNUSED_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 0x99]);
/// Where frames claim to go, in the network of benchmarks (RFC 2544).
pub(crate) const DST: Ipv4Addr = Ipv4Addr::new(198, 18, 1, 1);
const PORT: u16 = 9;
const ETHERNET_LEN: usize = 14;
const IPV4_LEN: usize = 20;
const UDP_LEN: usize = 8;
/// Shortest frame that holds the headers.
pub(crate) const LEN_MIN: usize = ETHERNET_LEN + IPV4_LEN + UDP_LEN;

/// A UDP frame of `frame_len` bytes without FCS, its payload zero, without UDP checksum.
///
/// # Panics
/// When `frame_len` is below [`LEN_MIN`] or longer than an IPv4 packet can be.
pub(crate) fn udp(src_mac: MacAddr, src: Ipv4Addr, frame_len: usize) -> Vec<u8> {
    assert!(frame_len >= LEN_MIN, "{frame_len} bytes hold no headers");
    let ip_len = u16::try_from(frame_len - ETHERNET_LEN).expect("an IPv4 packet has up to 65,535 bytes");
    let mut frame = Vec::with_capacity(frame_len);
    frame.extend([UNUSED_MAC.0, src_mac.0].concat());
    frame.extend([8, 0, 0x45, 0]);
    frame.extend(ip_len.to_be_bytes());
    frame.extend([0, 0, 0, 0, 32, 17, 0, 0]); // id, fragment, TTL, UDP, checksum to come
    frame.extend([src.octets(), DST.octets()].concat());
    let sum = checksum::finish(checksum::add(0, &frame[ETHERNET_LEN..]));
    frame[ETHERNET_LEN + 10..ETHERNET_LEN + 12].copy_from_slice(&sum.to_be_bytes());
    let udp_len = ip_len - IPV4_LEN as u16;
    frame.extend([PORT, PORT, udp_len, 0].map(u16::to_be_bytes).concat());
    frame.resize(frame_len, 0);
    frame
}

/// The frame in the language of trafgen.
pub(crate) fn trafgen(frame: &[u8]) -> String {
    let mut text = String::from("{");
    for byte in frame {
        write!(text, " {byte:#04x},").expect("a string takes everything");
    }
    text.replace_range(text.len() - 1.., " }");
    text
}

/// Frame in the language of trafgen with a destination address and ports that count, the IPv4
/// checksum made anew, and where asked for that of UDP.
pub(crate) fn trafgen_moving(frame: &[u8], with_checksum: bool) -> String {
    let hex = |bytes: &[u8]| trafgen(bytes).trim_matches(['{', '}', ' ']).to_owned();
    let udp = ETHERNET_LEN + IPV4_LEN;
    let sum = if with_checksum { format!("csumudp({ETHERNET_LEN}, {udp})") } else { hex(&[0, 0]) };
    format!(
        "{{ {}, csumip({ETHERNET_LEN}, {}), {}, dinc(1, 254), {}, dinc(0, 255), 0x03, dinc(0, 255), {}, {sum}, {} }}",
        hex(&frame[..ETHERNET_LEN + 10]),
        udp - 1,
        hex(&frame[ETHERNET_LEN + 12..udp - 1]),
        hex(&frame[udp..udp + 1]),
        hex(&frame[udp + 4..udp + 6]),
        hex(&frame[udp + 8..]),
    )
}

/// A TCP SYN of 60 bytes in the language of trafgen, from random addresses and ports.
pub(crate) fn syn(src_mac: MacAddr) -> String {
    format!(
        "{{ eth(da={UNUSED_MAC}, sa={src_mac}), ipv4(sa=drnd(), da={DST}, ttl=64), tcp(sp=drnd(), dp=80, syn), fill(0, 6) }}"
    )
}

/// UDP in VXLAN, with random ports inside and outside, so that all four checksums change.
pub(crate) fn vxlan(src_mac: MacAddr, src: Ipv4Addr) -> String {
    format!(
        "{{ eth(da={UNUSED_MAC}, sa={src_mac}), ipv4(id=dinc(), sa={src}, da={DST}, ttl=64), udp(sp=drnd()), vxlan(vni=42), \
           eth(da={UNUSED_MAC}, sa={src_mac}), ipv4(sa=198.19.0.1, da=dinc(), ttl=64), udp(sp=drnd(), dp=9) }}"
    )
}

/// UDP of 60 bytes with sixteen fields that count.
pub(crate) fn sixteen_fields(src_mac: MacAddr) -> String {
    let payload = "dinc(0, 255), ".repeat(10);
    format!(
        "{{ eth(da={UNUSED_MAC}, sa={src_mac}), ipv4(id=dinc(), ttl=dinc(1, 64), sa=dinc(), da=dinc()), \
           udp(sp=dinc(), dp=dinc()), {payload}fill(0, 8) }}"
    )
}

/// These frames in turns as a pcap file of at least `count_min`.
pub(crate) fn write_pcap(path: &Path, turn: &[Vec<u8>], count_min: usize) -> Result<()> {
    let header = pcap::Header {
        precision: pcap::Precision::Microseconds,
        order: pcapng::ByteOrder::Little,
        snaplen: 65_535,
        link_type: 1,
        ..pcap::Header::default()
    };
    let mut writer = pcap::Writer::new(BufWriter::new(File::create(path)?), &header)?;
    for _ in 0..count_min.div_ceil(turn.len().max(1)) {
        for frame in turn {
            let frame_len = u32::try_from(frame.len()).context("a frame is too long")?;
            writer.record(&pcap::Record { time_ns: 0, frame_len, data: frame })?;
        }
    }
    writer.finish()?.into_inner().context("cannot write the last of it")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(len: usize) -> Vec<u8> {
        udp(MacAddr([2, 0, 0, 0, 0, 1]), Ipv4Addr::new(198, 18, 0, 1), len)
    }

    #[test]
    fn lengths_and_checksum_are_right() {
        for len in [LEN_MIN, 60, 128, 1514] {
            let frame = frame(len);
            assert_eq!(frame.len(), len);
            assert_eq!(checksum::finish(checksum::add(0, &frame[14..34])), 0);
            assert_eq!(u16::from_be_bytes([frame[16], frame[17]]) as usize, len - 14);
            assert_eq!(u16::from_be_bytes([frame[38], frame[39]]) as usize, len - 34);
        }
    }

    #[test]
    fn trafgen_gets_every_byte() {
        let text = trafgen(&frame(60));
        assert!(
            text.starts_with("{ 0x02, 0x00, 0x00, 0x00, 0x00, 0x99, 0x02,") && text.ends_with(", 0x00 }")
        );
        assert_eq!(text.matches("0x").count(), 60);
        // Moving bytes: one of the address, two of the ports; checksums: two bytes each.
        let moving = trafgen_moving(&frame(60), true);
        assert_eq!(moving.matches("0x").count(), 60 - 3 - 4);
        assert_eq!(moving.matches("dinc").count(), 3);
        assert_eq!(trafgen_moving(&frame(60), false).matches("0x").count(), 60 - 3 - 2);
    }
}
