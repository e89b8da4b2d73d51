//! Capture filters: words like `udp port 9` compiled by libpcap, for whoever applies them.
//!
//! libpcap compiles without a live device, so that the result looks at the bytes of frames alone: it fits XDP and packet
//! sockets alike. The price: a VLAN tag that the hardware took off is not seen by `vlan` in the expression.

use crate::CaptureError;
use crate::sys::pcap::{self, Failure};
use filter::{Classic, Instruction};

/// `LINKTYPE_RAW` in files, and what libpcap calls it inside (`DLT_RAW`).
const LINK_TYPE_RAW: u16 = 101;
const DLT_RAW: i32 = 12;

/// Compiles `expression` for frames of a link type, as capture files number them. The program keeps the first
/// `snaplen` bytes of frames that match.
///
/// # Errors
/// [`CaptureError::NoLibpcap`], [`CaptureError::Filter`] with what libpcap says, [`CaptureError::FilterProgram`] for
/// what the kernel could not run.
pub(crate) fn compile(expression: &str, link_type: u16, snaplen: u32) -> Result<Classic, CaptureError> {
    let dlt = if link_type == LINK_TYPE_RAW { DLT_RAW } else { link_type.into() };
    let said = |failure| match failure {
        Failure::Missing(reason) => CaptureError::NoLibpcap { reason },
        Failure::Refused(reason) => CaptureError::Filter { expression: expression.to_owned(), reason },
    };
    let program = pcap::c_string(expression)
        .and_then(|expression| pcap::compile(&expression, dlt, snaplen as i32))
        .map_err(said)?;
    let instructions =
        program.into_iter().map(|one| Instruction { code: one.code, jt: one.jt, jf: one.jf, k: one.k });
    Classic::new(instructions.collect())
        .map_err(|source| CaptureError::FilterProgram { expression: expression.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ETHERNET: u16 = 1;

    /// True when libpcap is installed. Without it the calling test is skipped.
    fn has_libpcap() -> bool {
        match compile("ip", ETHERNET, 96) {
            Err(CaptureError::NoLibpcap { reason }) => {
                testkit::skip(format_args!("needs libpcap: {reason}"));
                false
            }
            _ => true,
        }
    }

    fn frame(ethertype: u16, rest: &[(usize, u8)]) -> Vec<u8> {
        let mut frame = vec![0; 80];
        frame[12..14].copy_from_slice(&ethertype.to_be_bytes());
        rest.iter().for_each(|&(at, byte)| frame[at] = byte);
        frame
    }

    #[test]
    fn libpcap_and_our_reading_of_its_programs_agree() {
        if !has_libpcap() {
            return;
        }
        let udp4 = frame(0x800, &[(14, 0x45), (23, 17), (37, 9)]);
        let udp6 = frame(0x86dd, &[(14, 0x60), (20, 17), (57, 9)]);
        let tcp4 = frame(0x800, &[(14, 0x45), (23, 6), (37, 80), (47, 2)]);
        let tagged = frame(0x8100, &[(15, 5), (16, 8), (17, 0), (18, 0x45), (27, 17), (41, 9)]);
        for (expression, udp4_len, udp6_len, tcp4_len, tagged_len) in [
            ("", 96, 96, 96, 96),
            ("udp port 9", 96, 96, 0, 0),
            ("udp dst port 9 and ip", 96, 0, 0, 0),
            ("tcp[tcpflags] & tcp-syn != 0", 0, 0, 96, 0),
            ("vlan 5 and udp port 9", 0, 0, 0, 96),
            ("vlan 6", 0, 0, 0, 0),
            ("len > 80", 0, 0, 0, 0),
            ("len = 80 and not arp", 96, 96, 96, 96),
            ("ip[2:2] / 7 == 0 and ip[9] * 2 = 34", 96, 0, 0, 0),
            ("ip[9] - ip[9] == 0 && 1 << (ip[9] - 16) = 2", 96, 0, 0, 0),
            ("ip6", 0, 96, 0, 0),
        ] {
            let filter = compile(expression, ETHERNET, 96).unwrap();
            let kept = [&udp4, &udp6, &tcp4, &tagged].map(|frame| filter.run(frame));
            assert_eq!(kept, [udp4_len, udp6_len, tcp4_len, tagged_len], "{expression}");
        }
    }

    #[test]
    fn a_wrong_expression_is_refused_in_libpcaps_words() {
        if !has_libpcap() {
            return;
        }
        let error = compile("udp prot 9", ETHERNET, 96).unwrap_err();
        assert!(error.to_string().starts_with("the filter \"udp prot 9\" is not understood: "), "{error}");
        let CaptureError::Filter { reason, .. } = error else { panic!("{error}") };
        assert!(!reason.is_empty());
        assert!(matches!(compile("udp\0", ETHERNET, 96), Err(CaptureError::Filter { .. })));
    }

    #[test]
    fn loops_are_refused_with_words() {
        if !has_libpcap() {
            return;
        }
        let error = compile("ip6 protochain 17", ETHERNET, 96).unwrap_err();
        let CaptureError::FilterProgram { source, .. } = error else { panic!("{error}") };
        assert!(source.to_string().contains("protochain"), "{source}");
    }

    #[test]
    fn frames_without_a_link_header_begin_with_ip() {
        if !has_libpcap() {
            return;
        }
        let mut packet = vec![0; 40];
        (packet[0], packet[9], packet[23]) = (0x45, 17, 9);
        assert_eq!(compile("udp port 9", LINK_TYPE_RAW, 96).unwrap().run(&packet), 96);
    }
}
