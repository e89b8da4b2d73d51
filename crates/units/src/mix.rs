//! Small words of their own: a mix of frame lengths with weights, one byte, and the number of an
//! IPsec association.

use super::{BadText, Interval, number};
use std::fmt;
use std::str::FromStr;

/// Bytes of the frame check sequence.
const FCS_LEN: u32 = 4;
/// Shortest frame of Ethernet with FCS; shorter ones are padded on the wire.
const FRAME_SIZE_MIN: usize = 64;
/// Weights of named mixes have two decimal places.
const WEIGHT_SCALE: f64 = 100.0;

/// Frame lengths in bytes without FCS and their weights, written `60:7,590:4,1514:1` or as the name
/// of a mix of [`packet::MIXES`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mix(pub Vec<(u32, u64)>);

const MIX: &str = "a name (simple, imix, ipsec_imix, ipv6_imix, standard_imix or tcp_imix), or length and weight with a colon, entries with commas, such as 60:7,590:4,1514:1";

impl FromStr for Mix {
    type Err = BadText;

    fn from_str(text: &str) -> Result<Self, BadText> {
        if let Some(mix) = named(text) {
            return Ok(mix);
        }
        let mut entries = Vec::new();
        let mut offset = 0;
        for part in text.split(',') {
            entries.push(entry(part).map_err(|bad| bad.within(text, offset))?);
            offset += part.len() + 1;
        }
        Ok(Self(entries))
    }
}

/// The mix of that name. Frames shorter than the least on Ethernet are as long as that.
fn named(name: &str) -> Option<Mix> {
    let (_, sizes) = packet::MIXES.iter().find(|(known, _)| *known == name)?;
    let is_whole = sizes.iter().all(|(_, weight)| weight.fract() == 0.0);
    let scale = if is_whole { 1.0 } else { WEIGHT_SCALE };
    let entry = |(size, weight): &(usize, f64)| {
        ((*size).max(FRAME_SIZE_MIN) as u32 - FCS_LEN, (weight * scale).round() as u64)
    };
    Some(Mix(sizes.iter().map(entry).collect()))
}

/// A mix whose lengths include the FCS.
///
/// # Errors
/// [`BadText`] for a name, whose lengths are not written, and for lengths of at most 4 bytes.
pub fn frame_mix(text: &str) -> Result<Mix, BadText> {
    let bad = |why: &str| BadText::whole(text, why, MIX);
    if named(text).is_some() {
        return Err(bad("a name is a value of --imix"));
    }
    let Mix(entries) = text.parse()?;
    let without = |(size, weight): (u32, u64)| Some((size.checked_sub(FCS_LEN)?, weight));
    let entries: Option<Vec<_>> = entries.into_iter().map(without).collect();
    entries.map(Mix).ok_or_else(|| bad("a length has no space for the FCS of 4 bytes"))
}

/// A frame length with FCS, or a range, as the length without.
///
/// # Errors
/// What [`Interval`] rejects, and lengths of at most 4 bytes.
pub fn frame_size(text: &str) -> Result<Interval<u32>, BadText> {
    let Interval { first, last } = text.parse::<Interval<u32>>()?;
    match (first.checked_sub(FCS_LEN), last.checked_sub(FCS_LEN)) {
        (Some(first), Some(last)) => Ok(Interval { first, last }),
        _ => Err(BadText::whole(text, "a frame has an FCS of 4 bytes", "such as 64 or 64-1518")),
    }
}

fn entry(part: &str) -> Result<(u32, u64), BadText> {
    let bad = |why: &str| BadText::whole(part, format!("\"{part}\" {why}"), MIX);
    let (size, weight) = part.split_once(':').ok_or_else(|| bad("has no weight"))?;
    let size = size.parse().map_err(|_| bad("does not begin with a length"))?;
    match weight.parse() {
        Ok(0) | Err(_) => Err(bad("does not end with a weight of at least 1")),
        Ok(weight) => Ok((size, weight)),
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (size, weight)) in self.0.iter().enumerate() {
            write!(f, "{}{size}:{weight}", if index > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}

/// Reads one byte, in decimal or in hex after `0x`.
///
/// # Errors
/// [`BadText`] for everything else.
pub fn byte(text: &str) -> Result<u8, BadText> {
    number(text).ok_or_else(|| {
        BadText::whole(
            text,
            format!("\"{text}\" is not one byte"),
            "0 to 255, or 0x00 to 0xff, such as 184 or 0xb8",
        )
    })
}

/// Reads the number of an IPsec association, in decimal or, as `ip xfrm` prints it, in hex after
/// `0x`.
///
/// # Errors
/// [`BadText`] for everything else, and for 0, which is no association.
pub fn spi(text: &str) -> Result<u32, BadText> {
    number(text).filter(|spi| *spi != 0).ok_or_else(|| {
        BadText::whole(
            text,
            format!("\"{text}\" is no SPI"),
            "1 to 4294967295, or 0x1 to 0xffffffff, such as 256 or 0x100",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_mark_stands_under_the_bad_entry() {
        let mark = |text: &str| text.parse::<Mix>().unwrap_err().bad();
        assert_eq!(mark("60:7,594,1514:1"), 5..8);
        assert_eq!(mark("60:7,594:0"), 5..10);
        assert_eq!(mark("60:7,"), 5..5);
    }

    /// The documented example mixed lengths with and without FCS.
    #[test]
    fn names_and_lengths_with_fcs_are_converted() {
        let text = |text: &str| text.parse::<Mix>().unwrap().to_string();
        assert_eq!(text("simple"), "60:7,590:4,1514:1");
        assert_eq!(text("imix"), "60:7,566:4,1514:1");
        assert_eq!(text("standard_imix"), "60:5867,60:200,590:2366,1514:1567");
        assert_eq!(frame_mix("64:7,594:4,1518:1").unwrap().to_string(), "60:7,590:4,1514:1");
        assert!(frame_mix("simple").is_err() && frame_mix("3:1").is_err());
        assert_eq!(frame_size("64"), Ok(Interval { first: 60, last: 60 }));
        assert_eq!(frame_size("64-1518"), Ok(Interval { first: 60, last: 1514 }));
        assert!(frame_size("3").is_err() && frame_size("x").is_err());
    }

    #[test]
    fn a_byte_in_decimal_or_hex() {
        assert_eq!((byte("184"), byte("0xB8")), (Ok(184), Ok(0xb8)));
        assert!(["256", "0x100", "0x", "", "b8", "-1"].iter().all(|bad| byte(bad).is_err()));
    }

    #[test]
    fn an_spi_in_decimal_or_hex_and_never_zero() {
        assert_eq!((spi("256"), spi("0x100"), spi("4294967295")), (Ok(256), Ok(256), Ok(u32::MAX)));
        assert!(["0", "0x0", "4294967296", "", "-1"].iter().all(|bad| spi(bad).is_err()));
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_the_same(entries in prop::collection::vec((any::<u32>(), 1..u64::MAX), 1..20)) {
            let mix = Mix(entries);
            prop_assert_eq!(mix.to_string().parse(), Ok(mix));
        }

        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,20}|[0-9:,]{0,40}") {
            let _ = text.parse::<Mix>().map_err(|bad| bad.to_string());
            let _ = byte(&text).map_err(|bad| bad.to_string());
            let _ = spi(&text).map_err(|bad| bad.to_string());
        }
    }
}
