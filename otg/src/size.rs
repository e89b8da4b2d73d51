//! Frame sizes of a flow. The model counts the FCS; everything behind this module does not.

use crate::node::ConfigNode;
use packet::MIXES;
use packet::plan::PacketOrder;

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
    /// In order, then again.
    List(Vec<usize>),
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
/// Weights are rounded to parts of at most this many.
const WEIGHT_PARTS_MAX: usize = 192;

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
            Self::Increment { .. } | Self::List(_) => {
                Self::List(self.list().into_iter().map(|size| size.max(least)).collect())
            }
        };
        (raised, is_raised)
    }

    pub(crate) fn lowest(&self) -> usize {
        match self {
            Self::Least => 64,
            Self::Fixed(size) => *size,
            Self::Increment { start, .. } => *start,
            Self::List(sizes) => sizes.iter().copied().min().unwrap_or(64),
            Self::Random { min, .. } => *min,
            Self::Weighted(pairs) => pairs.iter().map(|(size, _)| *size).min().unwrap_or(64),
        }
    }

    pub(crate) fn highest(&self) -> usize {
        match self {
            Self::Least => 64,
            Self::Fixed(size) => *size,
            Self::Increment { start, end, step } => start + (end - start) / step * step,
            Self::List(sizes) => sizes.iter().copied().max().unwrap_or(64),
            Self::Random { max, .. } => *max,
            Self::Weighted(pairs) => pairs.iter().map(|(size, _)| *size).max().unwrap_or(64),
        }
    }

    /// The sizes of an incrementing flow, in order.
    fn list(&self) -> Vec<usize> {
        match self {
            Self::Increment { start, end, step } => (*start..=*end).step_by(*step).collect(),
            Self::List(sizes) => sizes.clone(),
            _ => Vec::new(),
        }
    }

    /// A size per packet of a plan, and which packet is next. A random range that has more than
    /// `sizes_max` sizes is sampled evenly, both ends included.
    pub(crate) fn packets(&self, sizes_max: usize) -> (Vec<usize>, PacketOrder) {
        match self {
            Self::Least => (vec![64], PacketOrder::RoundRobin),
            Self::Fixed(size) => (vec![*size], PacketOrder::RoundRobin),
            Self::Increment { .. } | Self::List(_) => (self.list(), PacketOrder::RoundRobin),
            Self::Random { min, max } => {
                let step = (max - min).div_ceil(sizes_max.max(2) - 1).max(1);
                let sizes = (*min..*max).step_by(step).chain([*max]);
                (sizes.collect(), PacketOrder::Random)
            }
            Self::Weighted(pairs) => {
                let pairs: Vec<(usize, f64)> =
                    pairs.iter().copied().filter(|(_, weight)| *weight > 0.0).collect();
                let sizes = pairs.iter().zip(shares(&pairs));
                let sizes = sizes.flat_map(|((size, _), share)| vec![*size; share]);
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
            Self::List(sizes) => sizes.iter().sum::<usize>() as f64 / sizes.len().max(1) as f64,
            Self::Random { min, max } => (min + max) as f64 / 2.0,
            Self::Weighted(pairs) => {
                let weights: f64 = pairs.iter().map(|(_, weight)| weight).sum();
                pairs.iter().map(|(size, weight)| *size as f64 * weight).sum::<f64>() / weights
            }
        }
    }
}

/// Whole numbers in the proportion of the weights: the lowest that are right within a thousandth of
/// all frames, else those that [`WEIGHT_PARTS_MAX`] parts give. At least 1 each.
fn shares(pairs: &[(usize, f64)]) -> Vec<usize> {
    let weights: f64 = pairs.iter().map(|(_, weight)| weight).sum();
    let shares = |parts: usize| -> Vec<usize> {
        let share = |weight: f64| ((weight / weights * parts as f64).round() as usize).max(1);
        pairs.iter().map(|(_, weight)| share(*weight)).collect()
    };
    let is_right = |shares: &Vec<usize>| {
        let parts: usize = shares.iter().sum();
        let error = |(share, (_, weight)): (&usize, &(usize, f64))| {
            (*share as f64 / parts as f64 - weight / weights).abs()
        };
        shares.iter().zip(pairs).map(error).all(|error| error < 0.001)
    };
    let exact = (pairs.len()..WEIGHT_PARTS_MAX).map(shares).find(is_right);
    exact.unwrap_or_else(|| shares(WEIGHT_PARTS_MAX))
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

/// The mix of that name; `imix` for any other, as the model's default is.
fn predefined(name: &str) -> Vec<(usize, f64)> {
    let found = MIXES.iter().find(|(known, _)| *known == name);
    found.unwrap_or(&MIXES[1]).1.to_vec()
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
        let sizes = |min, max, most| Sizes::Random { min, max }.packets(most).0;
        assert_eq!(sizes(64, 67, 4), [64, 65, 66, 67]);
        assert_eq!(sizes(64, 67, 3), [64, 66, 67]);
        assert_eq!(sizes(64, 64, 4), [64]);
        assert_eq!(sizes(64, 1518, 2048).len(), 1455);
        let wide = sizes(64, 65_535, 256);
        assert!(wide.len() <= 256, "{}", wide.len());
        assert_eq!((wide[0], wide.last()), (64, Some(&65_535)));
    }

    #[test]
    fn weights_are_few_packets_where_they_are_small_numbers() {
        assert_eq!(shares(&predefined("imix")), [7, 4, 1]);
        assert_eq!(shares(&[(64, 1.0), (100, 1.0)]), [1, 1]);
        let shares = shares(&predefined("tcp_imix"));
        let parts = shares.iter().sum::<usize>() as f64;
        assert!((shares[0] as f64 / parts - 0.5867).abs() < 0.005, "{shares:?}");
    }

    #[test]
    fn least_size_raises_what_is_smaller() {
        assert_eq!(Sizes::Least.raised_to(60), (Sizes::Fixed(64), false));
        assert_eq!(Sizes::Fixed(64).raised_to(80), (Sizes::Fixed(80), true));
        let (raised, _) = Sizes::Increment { start: 64, end: 100, step: 12 }.raised_to(80);
        assert_eq!(raised, Sizes::List(vec![80, 80, 88, 100]));
    }
}
