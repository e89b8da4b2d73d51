//! Frame sizes with FCS, as RFC 2544 counts them.

use std::fmt;
use std::str::FromStr;

/// The sizes of RFC 2544 section 9.1.
pub(crate) const RFC2544_SIZES: [u32; 7] = [64, 128, 256, 512, 1024, 1280, 1518];

/// One frame size, or a mix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameSize {
    /// With FCS.
    Bytes(u32),
    /// 64, 594 and 1518 bytes, 7 : 4 : 1.
    Imix,
}

impl FrameSize {
    /// The options of `wirerate send` for it, which counts without FCS.
    pub(crate) fn send_options(self) -> [String; 2] {
        match self {
            Self::Bytes(bytes) => ["--size".to_owned(), (bytes - 4).to_string()],
            Self::Imix => ["--imix".to_owned(), "60:7,590:4,1514:1".to_owned()],
        }
    }
}

impl FromStr for FrameSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "imix" {
            return Ok(Self::Imix);
        }
        let bytes = text.parse().ok().filter(|bytes| (64..=65_535).contains(bytes));
        bytes.map(Self::Bytes).ok_or_else(|| "is not a frame size with FCS from 64 on, or imix".to_owned())
    }
}

impl fmt::Display for FrameSize {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(formatter, "{bytes}"),
            Self::Imix => formatter.write_str("imix"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_count_the_fcs() {
        assert_eq!("64".parse::<FrameSize>().map(FrameSize::send_options).unwrap(), ["--size", "60"]);
        assert_eq!("imix".parse(), Ok(FrameSize::Imix));
        assert!("63".parse::<FrameSize>().is_err() && "".parse::<FrameSize>().is_err());
    }
}
