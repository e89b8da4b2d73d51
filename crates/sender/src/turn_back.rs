//! The options of a sender in the other direction.

use super::args::{Args, RandomField};
use super::flows;
use packet::DeviceFacts;
use program::outcome::Failure;
use units::{Addresses, Interval};

/// Exchanges what `sender` sends from and to. Frames go back to `origin`, the facts about the
/// device that sends forward, unless options give the addresses that it sends from.
///
/// # Errors
/// Bad usage for frames without such options, or without an address to go back to.
pub fn turn_back(sender: &mut Args, origin: &DeviceFacts) -> Result<(), Failure> {
    let act = "send in both directions";
    let described = [
        (sender.frame.is_some(), "--frame"),
        (sender.frames.is_some(), "--frames"),
        (sender.streams.is_some(), "--streams"),
    ];
    if let Some((_, option)) = described.into_iter().find(|(is_given, _)| *is_given) {
        let why = format!("frames of {option} have the addresses of one direction");
        return Err(Failure::usage(act, why)
            .try_this("--reverse 'OPTIONS' with the options of send for the frames back"));
    }
    // The flows of this direction are those of the other one, turned around.
    *sender = flows::spread(sender)?.into_owned();
    let is_v6 = sender.is_ipv6();
    let own = match origin.v4 {
        Some(own) if !is_v6 => Some(Addresses::V4(Interval::one(own))),
        _ => None,
    };
    if sender.dst.is_some() {
        let back_to = sender.src.or(own);
        if back_to.is_none() {
            return Err(Failure::usage(act, "the address of the first sender is not known")
                .try_this(if is_v6 { "--src fd00::1" } else { "--src 198.18.0.1" }));
        }
        (sender.dst, sender.src) = (back_to, sender.dst);
    }
    if let Some(dst_mac) = sender.dst_mac {
        let back_to = sender.src_mac.unwrap_or(Interval::one(origin.mac));
        sender.src_mac = sender.src_mac.map(|_| dst_mac);
        sender.dst_mac = Some(back_to);
    }
    (sender.udp_dst, sender.udp_src) = (sender.udp_src, sender.udp_dst);
    if sender.inner_dst.is_some() && sender.inner_src.is_some() {
        (sender.inner_dst, sender.inner_src) = (sender.inner_src, sender.inner_dst);
    }
    for field in &mut sender.random {
        *field = match *field {
            RandomField::Dst => RandomField::Src,
            RandomField::Src => RandomField::Dst,
            RandomField::UdpDst => RandomField::UdpSrc,
            RandomField::UdpSrc => RandomField::UdpDst,
            RandomField::DstMac => RandomField::SrcMac,
            RandomField::SrcMac => RandomField::DstMac,
            RandomField::InnerDst => RandomField::InnerSrc,
            RandomField::InnerSrc => RandomField::InnerDst,
            other => other,
        };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::MacAddr;
    use program::args_of;
    use std::net::Ipv4Addr;

    fn args(words: &str) -> Args {
        args_of(&format!("b0 {words}")).unwrap()
    }

    fn turned(words: &str) -> Result<Args, Failure> {
        let (mac, v4) = (MacAddr([2, 0, 0, 0, 0, 1]), Some(Ipv4Addr::new(198, 18, 0, 1)));
        let origin = DeviceFacts { mac, v4, ..DeviceFacts::default() };
        let mut sender = args(words);
        turn_back(&mut sender, &origin).map(|()| sender)
    }

    #[track_caller]
    fn turns_into(words: &str, expected: &str) {
        let (back, expected) = (turned(words).unwrap(), args(expected));
        assert_eq!((back.dst, back.src), (expected.dst, expected.src), "{words}");
        assert_eq!((back.dst_mac, back.src_mac), (expected.dst_mac, expected.src_mac), "{words}");
        assert_eq!((back.udp_dst, back.udp_src), (expected.udp_dst, expected.udp_src), "{words}");
        assert_eq!(back.random, expected.random, "{words}");
    }

    #[test]
    fn addresses_and_ports_are_exchanged() {
        turns_into(
            "--dst 198.18.1.0/24 --udp-dst 80 --random dst",
            "--dst 198.18.0.1 --src 198.18.1.0/24 --udp-src 80 --random src",
        );
        turns_into("--dst fd00::2 --src fd00::1-fd00::9", "--dst fd00::1-fd00::9 --src fd00::2");
        turns_into("--dst-mac 02:00:00:00:00:09", "--dst-mac 02:00:00:00:00:01");
        turns_into(
            "--dst-mac 02:00:00:00:00:09 --src-mac 02:00:00:00:00:08 --udp-src 5",
            "--dst-mac 02:00:00:00:00:08 --src-mac 02:00:00:00:00:09 --udp-dst 5",
        );
    }

    #[test]
    fn frames_without_a_way_back_are_refused() {
        for (words, why) in [
            ("--dst fd00::2", "the address of the first sender is not known\n  try: --src fd00::1"),
            ("--streams x.json", "frames of --streams have the addresses of one direction"),
            ("--frame {}", "frames of --frame have"),
        ] {
            let refusal = turned(words).map(|_| ()).unwrap_err().to_string();
            assert!(refusal.contains(why), "{words}: {refusal}");
        }
    }
}
