//! Frame sizes of a search: with FCS, as RFC 2544 counts them, or without, as `send` does.

use sender::SendJob;
use std::fmt;
use std::str::FromStr;
use units::Interval;

/// The sizes of RFC 2544 section 9.1.
pub(crate) const RFC2544_SIZES: [u32; 7] = [64, 128, 256, 512, 1024, 1280, 1518];
/// Bytes of the frame check sequence.
const FCS_LEN: u32 = 4;

/// One frame size, or a mix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameSize {
    /// With FCS.
    Bytes(u32),
    /// By its name.
    Mix(&'static str),
}

impl FrameSize {
    /// Lets a sender send frames of this size.
    pub(crate) fn enter(self, job: &mut SendJob) {
        match self {
            Self::Bytes(bytes) => job.size = Some(Interval::one(bytes - FCS_LEN)),
            Self::Mix(name) => job.mix = Some(name.parse().expect("a mix of the table has a name")),
        }
    }
}

impl FromStr for FrameSize {
    type Err = String;

    /// A size with FCS, or the name of a mix.
    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((name, _)) = packet::MIXES.iter().find(|(name, _)| *name == text) {
            return Ok(Self::Mix(name));
        }
        let bytes = text.parse().ok().filter(|bytes| (64..=65_535).contains(bytes));
        bytes.map(Self::Bytes).ok_or_else(|| "not a frame size with FCS from 64 on, nor a mix".to_owned())
    }
}

/// A size without FCS, or the name of a mix.
///
/// # Errors
/// All other text.
pub(super) fn without_fcs(text: &str) -> Result<FrameSize, String> {
    match text.parse::<u32>() {
        Ok(bytes) if (60..=65_531).contains(&bytes) => Ok(FrameSize::Bytes(bytes + FCS_LEN)),
        Ok(_) => Err("not a frame size without FCS from 60 on".to_owned()),
        Err(_) => text.parse().map_err(|_: String| "not a frame size without FCS, nor a mix".to_owned()),
    }
}

/// The note about sizes of `--size` that were sizes with FCS in earlier versions.
pub(crate) fn note(sizes: &[FrameSize]) -> Option<String> {
    let is_round = |size: &&FrameSize| matches!(size, FrameSize::Bytes(bytes) if RFC2544_SIZES.contains(&(bytes - FCS_LEN)));
    let FrameSize::Bytes(bytes) = sizes.iter().find(is_round)? else { return None };
    let without = bytes - FCS_LEN;
    Some(format!(
        "--size {without} is {without} bytes, {bytes} with FCS; --frame-size {without} is what it meant before"
    ))
}

impl fmt::Display for FrameSize {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(formatter, "{bytes}"),
            Self::Mix(name) => formatter.write_str(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_an_fcs_or_not() {
        let entered = |size: Result<FrameSize, String>| {
            let mut job = SendJob::default();
            size.unwrap().enter(&mut job);
            (job.size.map(|size| size.to_string()), job.mix.map(|mix| mix.0.len()))
        };
        assert_eq!(entered("64".parse()), (Some("60".to_owned()), None));
        assert_eq!(entered(without_fcs("60")), (Some("60".to_owned()), None));
        assert_eq!(entered("simple".parse()), (None, Some(3)));
        assert_eq!(entered(without_fcs("imix")), (None, Some(3)));
        assert!("63".parse::<FrameSize>().is_err() && "".parse::<FrameSize>().is_err());
        assert!(without_fcs("59").is_err() && without_fcs("x").is_err());
        let note = note(&[FrameSize::Bytes(100), FrameSize::Bytes(68)]).unwrap();
        assert_eq!(note, "--size 64 is 64 bytes, 68 with FCS; --frame-size 64 is what it meant before");
        assert_eq!(super::note(&[FrameSize::Bytes(64)]), None);
    }
}
