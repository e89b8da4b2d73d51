//! Frame sizes of a flow. The model counts the FCS; everything behind this module does not.

use crate::node::ConfigNode;
use packet::general::PacketOrder;

/// Sizes with FCS, as configured.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Sizes {
    Fixed(usize),
    /// The least size that holds the headers and the mark, at least 64.
    Least,
    /// From `start` by `step` up to `end`, then again.
    Increment {
        start: usize,
        end: usize,
        step: usize,
    },
    /// Uniform, both ends included.
    Random {
        min: usize,
        max: usize,
    },
    /// Sizes and their weights.
    Weighted(Vec<(usize, f64)>),
}

const SIZE_MAX: u64 = 65_535;
/// Most sizes of an incrementing flow: each is a packet of its plan.
const SIZES_MAX: usize = 4096;
/// A wide random range has about this many sizes, evenly spaced, both ends included.
const RANDOM_SIZES_MAX: usize = 256;
/// Weights are rounded to one part of this.
const WEIGHT_PARTS: f64 = 192.0;

impl Sizes {
    pub(crate) fn read(node: Option<ConfigNode>) -> Self {
        let Some(node) = node else { return Self::Least };
        node.whole(|node| {
            node.ignore(&["choice"]);
            match node.choice("fixed") {
                "increment" => node.object("increment").map_or(Self::counting(64, 1518, 1), |increment| {
                    increment.whole(|node| {
                        let start = size(node, "start", 64);
                        let (end, step) = (size(node, "end", 1518), size(node, "step", 1));
                        if end < start {
                            node.error(format!("end {end} is below start {start}"));
                        }
                        let count = end.saturating_sub(start) / step + 1;
                        if count > SIZES_MAX {
                            node.error(format!("{count} sizes are more than {SIZES_MAX}: use a larger step"));
                        }
                        Self::counting(start, end.max(start), step)
                    })
                }),
                "random" => node.object("random").map_or(Self::Random { min: 64, max: 1518 }, |random| {
                    random.whole(|node| {
                        let (min, max) = (size(node, "min", 64), size(node, "max", 1518));
                        if max < min {
                            node.error(format!("max {max} is below min {min}"));
                        }
                        Self::Random { min, max: max.max(min) }
                    })
                }),
                "weight_pairs" => Self::Weighted(
                    node.object("weight_pairs")
                        .map_or_else(|| predefined("imix"), |pairs| pairs.whole(read_pairs)),
                ),
                _ if node.has("fixed") => Self::Fixed(size(node, "fixed", 64)),
                _ => Self::Least,
            }
        })
    }

    fn counting(start: usize, end: usize, step: usize) -> Self {
        Self::Increment { start, end, step }
    }

    /// The sizes with `least` as the lowest, and whether one was raised to it.
    pub(crate) fn raised_to(self, least: usize) -> (Self, bool) {
        let is_raised = self.lowest() < least && self != Self::Least;
        let raised = match self {
            Self::Least => Self::Fixed(least.max(64)),
            Self::Fixed(size) => Self::Fixed(size.max(least)),
            Self::Random { min, max } => Self::Random { min: min.max(least), max: max.max(least) },
            Self::Weighted(pairs) => {
                Self::Weighted(pairs.into_iter().map(|(size, weight)| (size.max(least), weight)).collect())
            }
            Self::Increment { start, end, step } if start >= least => Self::Increment { start, end, step },
            // The steps below the least size are sent with the least size.
            Self::Increment { .. } => {
                Self::Weighted(self.list().into_iter().map(|size| (size.max(least), 1.0)).collect())
            }
        };
        (raised, is_raised)
    }

    pub(crate) fn lowest(&self) -> usize {
        match self {
            Self::Least => 64,
            Self::Fixed(size) => *size,
            Self::Increment { start, .. } => *start,
            Self::Random { min, .. } => *min,
            Self::Weighted(pairs) => pairs.iter().map(|(size, _)| *size).min().unwrap_or(64),
        }
    }

    pub(crate) fn highest(&self) -> usize {
        match self {
            Self::Least => 64,
            Self::Fixed(size) => *size,
            Self::Increment { start, end, step } => start + (end - start) / step * step,
            Self::Random { max, .. } => *max,
            Self::Weighted(pairs) => pairs.iter().map(|(size, _)| *size).max().unwrap_or(64),
        }
    }

    /// The sizes of an incrementing flow, in order.
    fn list(&self) -> Vec<usize> {
        match *self {
            Self::Increment { start, end, step } => (start..=end).step_by(step).collect(),
            _ => Vec::new(),
        }
    }

    /// A size per packet of a plan, and which packet is next.
    pub(crate) fn packets(&self) -> (Vec<usize>, PacketOrder) {
        match self {
            Self::Least => (vec![64], PacketOrder::RoundRobin),
            Self::Fixed(size) => (vec![*size], PacketOrder::RoundRobin),
            Self::Increment { .. } => (self.list(), PacketOrder::RoundRobin),
            Self::Random { min, max } => {
                let step = (max - min) / RANDOM_SIZES_MAX + 1;
                let sizes = (*min..*max).step_by(step).chain([*max]);
                (sizes.collect(), PacketOrder::Random)
            }
            Self::Weighted(pairs) => {
                let weights: f64 = pairs.iter().map(|(_, weight)| weight).sum();
                let share = |weight: f64| ((weight / weights * WEIGHT_PARTS).round() as usize).max(1);
                let sizes = pairs.iter().filter(|(_, weight)| *weight > 0.0);
                let sizes = sizes.flat_map(|(size, weight)| vec![*size; share(*weight)]);
                (sizes.collect(), PacketOrder::Random)
            }
        }
    }

    /// The mean size.
    pub(crate) fn mean(&self) -> f64 {
        match self {
            Self::Least => 64.0,
            Self::Fixed(size) => *size as f64,
            Self::Increment { start, .. } => (*start + self.highest()) as f64 / 2.0,
            Self::Random { min, max } => (min + max) as f64 / 2.0,
            Self::Weighted(pairs) => {
                let weights: f64 = pairs.iter().map(|(_, weight)| weight).sum();
                pairs.iter().map(|(size, weight)| *size as f64 * weight).sum::<f64>() / weights
            }
        }
    }
}

fn size(node: &ConfigNode, name: &'static str, default: u64) -> usize {
    node.number(name, default, 1..=SIZE_MAX) as usize
}

fn read_pairs(node: &ConfigNode) -> Vec<(usize, f64)> {
    node.ignore(&["choice"]);
    if node.choice("predefined") != "custom" {
        return predefined(node.text("predefined").unwrap_or("imix"));
    }
    let pair = |node: ConfigNode| node.whole(|node| (size(node, "size", 64), node.float("weight", 1.0)));
    let pairs: Vec<(usize, f64)> = node.objects("custom").into_iter().map(pair).collect();
    if pairs.iter().map(|(_, weight)| weight).sum::<f64>() > 0.0 {
        return pairs;
    }
    node.findings().error(&node.at("custom"), "needs a size with a weight above 0");
    vec![(64, 1.0)]
}

/// The mixes of the model.
fn predefined(name: &str) -> Vec<(usize, f64)> {
    match name {
        "ipsec_imix" => vec![(90, 58.67), (92, 2.0), (594, 23.66), (1418, 15.67)],
        "ipv6_imix" => vec![(60, 58.67), (496, 2.0), (594, 23.66), (1518, 15.67)],
        "standard_imix" => vec![(58, 58.67), (62, 2.0), (594, 23.66), (1518, 15.67)],
        "tcp_imix" => vec![(90, 58.67), (92, 2.0), (594, 23.66), (1518, 15.67)],
        _ => vec![(64, 7.0), (570, 4.0), (1518, 1.0)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_sizes() {
        assert_eq!(Sizes::Increment { start: 100, end: 135, step: 10 }.mean(), 115.0);
        assert_eq!(Sizes::Random { min: 64, max: 66 }.mean(), 65.0);
        assert!((Sizes::Weighted(predefined("imix")).mean() - 353.8).abs() < 0.1);
    }

    #[test]
    fn random_sizes_reach_both_ends() {
        let sizes = |min, max| Sizes::Random { min, max }.packets().0;
        assert_eq!(sizes(64, 67), [64, 65, 66, 67]);
        assert_eq!(sizes(64, 64), [64]);
        let wide = sizes(64, 65_535);
        assert!(wide.len() <= RANDOM_SIZES_MAX + 2, "{}", wide.len());
        assert_eq!((wide[0], wide.last()), (64, Some(&65_535)));
    }

    #[test]
    fn least_size_raises_what_is_smaller() {
        assert_eq!(Sizes::Least.raised_to(60), (Sizes::Fixed(64), false));
        assert_eq!(Sizes::Fixed(64).raised_to(80), (Sizes::Fixed(80), true));
        let (raised, _) = Sizes::Increment { start: 64, end: 100, step: 12 }.raised_to(80);
        assert_eq!(raised, Sizes::Weighted(vec![(80, 1.0), (80, 1.0), (88, 1.0), (100, 1.0)]));
    }
}
