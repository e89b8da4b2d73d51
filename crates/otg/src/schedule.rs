//! When the frames of a flow are sent: rate, duration, bursts, gaps.

use crate::node::ConfigNode;

/// Preamble, start delimiter and the least gap: bytes of a frame on the line beside those with FCS.
const LINE_OVERHEAD: f64 = 20.0;

/// How often frames are sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FlowRate {
    /// Frames per second.
    Pps(f64),
    /// Bits of frames with FCS, per second.
    Bps(f64),
    /// Percent of the line, preamble and gap included.
    Percentage(f64),
}

/// How long a flow is sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FlowDuration {
    /// Until it is stopped.
    Continuous,
    /// A number of frames.
    FixedPackets(u64),
    /// Frames that are due within this time, in seconds.
    FixedSeconds(f64),
    /// Groups of frames; 0 bursts: until it is stopped.
    Bursts {
        /// Groups.
        bursts: u64,
        /// Frames of a group.
        packets: u64,
        /// Time added to the usual gap between two groups.
        gap: Gap,
    },
}

/// A time, or the time that bytes take on the line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Gap {
    /// Bytes at line speed.
    Bytes(f64),
    /// Nanoseconds.
    Nanoseconds(f64),
}

impl Gap {
    /// The time on a line of `speed` bits per second.
    pub fn nanoseconds(self, speed: u64) -> f64 {
        match self {
            Self::Bytes(bytes) => bytes * 8e9 / speed as f64,
            Self::Nanoseconds(nanoseconds) => nanoseconds,
        }
    }

    /// One of `bytes`, `nanoseconds` and `microseconds`.
    fn read(node: Option<ConfigNode>, default: f64) -> Self {
        let Some(node) = node else { return Self::Bytes(default) };
        node.whole(|node| {
            node.ignore(&["choice"]);
            match node.choice("bytes") {
                "nanoseconds" => Self::Nanoseconds(node.float("nanoseconds", default * 8.0)),
                "microseconds" => Self::Nanoseconds(1e3 * node.float("microseconds", default * 0.008)),
                _ => Self::Bytes(node.float("bytes", default)),
            }
        })
    }
}

impl FlowRate {
    pub(crate) fn read(node: Option<ConfigNode>) -> Self {
        let Some(node) = node else { return Self::Pps(1000.0) };
        node.whole(|node| {
            node.ignore(&["choice"]);
            let number = |name, default| node.number(name, default, 1..=u64::MAX) as f64;
            match node.choice("pps") {
                "bps" => Self::Bps(number("bps", 1_000_000_000)),
                "kbps" => Self::Bps(1e3 * number("kbps", 1_000_000)),
                "mbps" => Self::Bps(1e6 * number("mbps", 1_000)),
                "gbps" => Self::Bps(1e9 * number("gbps", 1)),
                "percentage" => {
                    let percentage = node.float("percentage", 100.0);
                    if percentage > 100.0 || percentage == 0.0 {
                        let at = node.at("percentage");
                        node.findings().error(&at, format!("{percentage} is not above 0 and up to 100"));
                    }
                    Self::Percentage(percentage)
                }
                _ => Self::Pps(number("pps", 1000)),
            }
        })
    }

    /// Frames per second, for frames of `mean_size` bytes with FCS on a line of `speed` bits per
    /// second. `gap` bytes between two frames are the least.
    pub fn pps(self, mean_size: f64, speed: u64, gap: u64) -> f64 {
        let pps = match self {
            Self::Pps(pps) => pps,
            Self::Bps(bps) => bps / (8.0 * mean_size),
            Self::Percentage(percentage) => {
                percentage / 100.0 * speed as f64 / (8.0 * (mean_size + LINE_OVERHEAD))
            }
        };
        // Beyond 12 bytes, a gap caps the rate. A device without a line has no cap.
        let capped = speed as f64 / (8.0 * (mean_size + 8.0 + gap as f64));
        if gap > 12 { pps.min(capped) } else { pps }
    }
}

/// Duration of a flow, the wait before its first frame, and the least gap in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlowSchedule {
    /// How often.
    pub rate: FlowRate,
    /// How long.
    pub duration: FlowDuration,
    /// From the start of the run to the first frame.
    pub delay: Gap,
    /// Bytes between two frames, at least.
    pub gap: u64,
}

impl FlowSchedule {
    pub(crate) fn read(rate: FlowRate, node: Option<ConfigNode>) -> Self {
        let plain = Self { rate, duration: FlowDuration::Continuous, delay: Gap::Bytes(0.0), gap: 12 };
        let Some(node) = node else { return plain };
        node.whole(|node| {
            node.ignore(&["choice"]);
            let choice = node.choice("continuous");
            let name = match choice {
                "fixed_packets" => "fixed_packets",
                "fixed_seconds" => "fixed_seconds",
                "burst" => "burst",
                _ => "continuous",
            };
            let body = node.object(name);
            let read = |body: ConfigNode| {
                body.whole(|body| Self {
                    duration: read_duration(body, name),
                    delay: Gap::read(body.object("delay"), 0.0),
                    gap: body.number("gap", 12, 0..=u64::from(u32::MAX)),
                    ..plain
                })
            };
            body.map_or(Self { duration: default_duration(name), ..plain }, read)
        })
    }
}

fn default_duration(name: &str) -> FlowDuration {
    match name {
        "fixed_packets" => FlowDuration::FixedPackets(1),
        "fixed_seconds" => FlowDuration::FixedSeconds(1.0),
        "burst" => FlowDuration::Bursts { bursts: 0, packets: 1, gap: Gap::Bytes(12.0) },
        _ => FlowDuration::Continuous,
    }
}

fn read_duration(body: &ConfigNode, name: &str) -> FlowDuration {
    match name {
        "fixed_packets" => FlowDuration::FixedPackets(body.number("packets", 1, 1..=u64::from(u32::MAX))),
        "fixed_seconds" => FlowDuration::FixedSeconds(body.float("seconds", 1.0)),
        "burst" => FlowDuration::Bursts {
            bursts: body.number("bursts", 0, 0..=u64::from(u32::MAX)),
            packets: body.number("packets", 1, 1..=u64::from(u32::MAX)),
            gap: Gap::read(body.object("inter_burst_gap"), 12.0),
        },
        _ => FlowDuration::Continuous,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_to_frames_per_second() {
        let gbit = 1_000_000_000;
        assert_eq!(FlowRate::Bps(8e6).pps(100.0, gbit, 12), 10_000.0);
        assert_eq!(FlowRate::Percentage(50.0).pps(105.0, gbit, 12), 500_000.0);
        assert_eq!(FlowRate::Pps(1e6).pps(64.0, gbit, 178), 500_000.0);
        assert_eq!(FlowRate::Pps(1e9).pps(64.0, gbit, 12), 1e9);
    }

    #[test]
    fn gaps_in_bytes_depend_on_the_speed() {
        assert_eq!(Gap::Bytes(12.0).nanoseconds(1_000_000_000), 96.0);
        assert_eq!(Gap::Nanoseconds(96.0).nanoseconds(10_000_000_000), 96.0);
    }
}
