//! A rate on the wire, in bits per second or as a share of the speed of the line: `1Gbit`, `40%`.

use super::percentage::WHOLE_PPB;
use super::{BadText, BitRate, percentage};
use std::fmt;
use std::str::FromStr;

/// A rate on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireRate {
    /// Bits per second.
    Bits(BitRate),
    /// A part of the speed of the device.
    Share(LineShare),
}

/// A part of the speed of a device, in parts per billion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineShare(u64);

impl LineShare {
    /// This part of `line_bps` bits per second, rounded down.
    pub fn of(self, line_bps: u64) -> BitRate {
        BitRate((u128::from(line_bps) * u128::from(self.0) / u128::from(WHOLE_PPB)) as u64)
    }
}

impl FromStr for WireRate {
    type Err = BadText;

    fn from_str(text: &str) -> Result<Self, BadText> {
        if !text.ends_with('%') {
            return text.parse().map(Self::Bits);
        }
        let accepted = "more than 0% and at most 100%, such as 40% or 12.5%";
        let share = percentage(text).filter(|share| *share > 0);
        share
            .map(|share| Self::Share(LineShare(share)))
            .ok_or_else(|| BadText::whole(text, "not a share of the line", accepted))
    }
}

impl From<BitRate> for WireRate {
    fn from(rate: BitRate) -> Self {
        Self::Bits(rate)
    }
}

impl fmt::Display for WireRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bits(rate) => rate.fmt(f),
            Self::Share(LineShare(ppb)) => {
                let (whole, part) = (ppb / (WHOLE_PPB / 100), ppb % (WHOLE_PPB / 100));
                let text = format!("{whole}.{part:07}");
                write!(f, "{}%", text.trim_end_matches('0').trim_end_matches('.'))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_one_of_the_line() {
        let share = |text: &str, line_bps| match text.parse() {
            Ok(WireRate::Share(share)) => share.of(line_bps).0,
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(share("40%", 10_000_000_000), 4_000_000_000);
        assert_eq!(share("12.5%", 1_000_000_000), 125_000_000);
        assert_eq!(share("100%", u64::MAX), u64::MAX);
        for text in ["40%", "12.5%", "2Gbit", "100%", "0.0000001%"] {
            assert_eq!(text.parse::<WireRate>().unwrap().to_string(), text);
        }
        for bad in ["0%", "101%", "%", "-1%", "4 0%", "10MB"] {
            assert!(bad.parse::<WireRate>().is_err(), "{bad}");
        }
    }
}
