//! `--size`, `--imix` and `--random size` for packets in trafgen's language: zeros at their end.

use super::config::nothing_to_draw;
use super::flows::greatest_divisor;
use super::job::{RandomField, SendJob};
use frames::PacketOrder;
use program::outcome::Failure;
use units::Interval;

/// Frames of a plan, one for each length or part of a mix: in BPF, each takes 4 KiB.
const SIZES_MAX: u64 = 16_384;

/// The lengths of the frames, in bytes without FCS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PacketSizes {
    /// In order; each as often as its weight says. Empty for the lengths that the packets have.
    pub lens: Vec<usize>,
    /// Which is next.
    pub order: PacketOrder,
}

impl PacketSizes {
    /// The lengths that options ask for.
    ///
    /// # Errors
    /// Bad usage for a random length without a range, and for more lengths than a plan takes.
    pub fn of(job: &SendJob) -> Result<Self, Failure> {
        let is_random = job.is_random(RandomField::Size);
        if is_random && job.size.is_none_or(|size| size.is_one()) {
            return Err(nothing_to_draw("size", "--size 60-1514"));
        }
        let order = if is_random { PacketOrder::Random } else { PacketOrder::RoundRobin };
        match (&job.mix, job.size) {
            (Some(mix), _) => mixed(&mix.0),
            (None, Some(size)) => Ok(Self { lens: range(size)?, order }),
            (None, None) => Ok(Self::default()),
        }
    }

    /// The options that the user gave, for messages.
    pub fn text(job: &SendJob) -> String {
        match (&job.mix, job.size) {
            (Some(mix), _) => {
                let parts: Vec<String> =
                    mix.0.iter().map(|(len, weight)| format!("{len}:{weight}")).collect();
                format!(" --imix {}", parts.join(","))
            }
            (None, Some(size)) if job.is_random(RandomField::Size) => {
                format!(" --size {size} --random size")
            }
            (None, Some(size)) => format!(" --size {size}"),
            (None, None) => String::new(),
        }
    }

    /// The shortest length, if the packets do not have their own.
    pub fn least(&self) -> Option<usize> {
        self.lens.iter().copied().min()
    }
}

fn check(option: &str, len: u32) -> Result<usize, Failure> {
    match len {
        0..=packet::FRAME_LEN_MAX => Ok(len as usize),
        _ => Err(Failure::usage(
            format!("use {option} {len}"),
            format!("a frame has at most {} bytes here", packet::FRAME_LEN_MAX),
        )),
    }
}

fn range(size: Interval<u32>) -> Result<Vec<usize>, Failure> {
    let (first, last) = (check("--size", size.first)?, check("--size", size.last)?);
    if (last - first) as u64 >= SIZES_MAX {
        let why = format!("frames of these packets have at most {SIZES_MAX} lengths");
        return Err(Failure::usage(format!("use --size {size}"), why)
            .try_this(format!("--size {first}-{}", first as u64 + SIZES_MAX - 1)));
    }
    Ok((first..=last).collect())
}

fn mixed(mix: &[(u32, u64)]) -> Result<PacketSizes, Failure> {
    let divisor = mix.iter().fold(0, |divisor, (_, weight)| greatest_divisor(*weight, divisor)).max(1);
    let parts = mix.iter().fold(0, |sum: u64, (_, weight)| sum.saturating_add(weight / divisor));
    if parts > SIZES_MAX {
        let why = format!("its weights have more than {SIZES_MAX} parts together");
        return Err(Failure::usage("use --imix", why).try_this("--imix 60:7,590:4,1514:1 (smaller weights)"));
    }
    let mut lens = Vec::new();
    for (len, weight) in mix {
        let len = check("--imix", *len)?;
        lens.extend((0..weight / divisor).map(|_| len));
    }
    Ok(PacketSizes { lens, order: PacketOrder::Random })
}
