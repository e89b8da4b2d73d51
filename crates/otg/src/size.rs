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
    /// Sizes and the packets that each has of all.
    Weighted(Vec<(usize, usize)>),
}

const SIZE_MAX: u64 = 65_535;
/// Most sizes of an incrementing flow: each is a packet of its plan.
const SIZES_MAX: usize = 4096;
/// Weights are rounded to parts of at most this many.
const WEIGHT_PARTS_MAX: usize = 192;
/// Shares of all frames that differ by less are equal.
const SHARE_ERROR_MAX: f64 = 0.001;

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
                        .map_or_else(|| shares(&predefined("imix")), |pairs| pairs.whole(read_pairs)),
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
                Self::Weighted(pairs.into_iter().map(|(size, share)| (size.max(least), share)).collect())
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
                let sizes = pairs.iter().flat_map(|(size, share)| vec![*size; *share]);
                (sizes.collect(), PacketOrder::Random)
            }
        }
    }

    /// The mean size of the packets.
    pub(crate) fn mean(&self) -> f64 {
        match self {
            Self::Least => 64.0,
            Self::Fixed(size) => *size as f64,
            Self::Increment { start, .. } => (*start + self.highest()) as f64 / 2.0,
            Self::List(sizes) => sizes.iter().sum::<usize>() as f64 / sizes.len().max(1) as f64,
            Self::Random { min, max } => (min + max) as f64 / 2.0,
            Self::Weighted(pairs) => {
                let sum: usize = pairs.iter().map(|(size, share)| size * share).sum();
                sum as f64 / pairs.iter().map(|(_, share)| share).sum::<usize>().max(1) as f64
            }
        }
    }
}

/// The sizes that have a weight, with whole numbers in the proportion of the weights: the lowest
/// that are right within [`SHARE_ERROR_MAX`], else those that [`WEIGHT_PARTS_MAX`] parts give. At
/// least 1 each.
fn shares(pairs: &[(usize, f64)]) -> Vec<(usize, usize)> {
    let pairs: Vec<(usize, f64)> = pairs.iter().copied().filter(|(_, weight)| *weight > 0.0).collect();
    let weights: f64 = pairs.iter().map(|(_, weight)| weight).sum();
    let shares = |parts: usize| -> Vec<(usize, usize)> {
        let share = |weight: f64| ((weight / weights * parts as f64).round() as usize).max(1);
        pairs.iter().map(|(size, weight)| (*size, share(*weight))).collect()
    };
    let is_right = |shares: &Vec<(usize, usize)>| worst_share(&pairs, shares).is_none();
    let exact = (pairs.len()..WEIGHT_PARTS_MAX).map(shares).find(is_right);
    exact.unwrap_or_else(|| shares(WEIGHT_PARTS_MAX))
}

/// The size that is sent the most times as often as configured, of those whose share of all frames
/// is wrong by [`SHARE_ERROR_MAX`] or more; its share as configured, and as sent.
fn worst_share(pairs: &[(usize, f64)], shares: &[(usize, usize)]) -> Option<(usize, f64, f64)> {
    let weights: f64 = pairs.iter().map(|(_, weight)| weight).sum();
    let parts: usize = shares.iter().map(|(_, share)| share).sum();
    let weighed = pairs.iter().filter(|(_, weight)| *weight > 0.0);
    let share = |((size, weight), (_, share)): (&(usize, f64), &(usize, usize))| {
        (*size, weight / weights, *share as f64 / parts as f64)
    };
    let is_wrong = |(_, configured, sent): &(usize, f64, f64)| (sent - configured).abs() >= SHARE_ERROR_MAX;
    let times = |(_, configured, sent): &(usize, f64, f64)| sent / configured;
    let wrong = weighed.zip(shares).map(share).filter(is_wrong);
    wrong.max_by(|one, other| times(one).total_cmp(&times(other)))
}

fn size(node: &ConfigNode, name: &'static str, default: u64) -> usize {
    node.number(name, default, 1..=SIZE_MAX) as usize
}

fn read_pairs(node: &ConfigNode) -> Vec<(usize, usize)> {
    node.ignore(&["choice"]);
    if node.choice("predefined") != "custom" {
        return shares(&predefined(node.text("predefined").unwrap_or("imix")));
    }
    let pair = |node: ConfigNode| node.whole(|node| (size(node, "size", 64), node.float("weight", 1.0)));
    let pairs: Vec<(usize, f64)> = node.objects("custom").into_iter().map(pair).collect();
    let sum: f64 = pairs.iter().map(|(_, weight)| weight).sum();
    if sum == 0.0 || sum.is_infinite() {
        node.findings().error(&node.at("custom"), "needs a size with a weight above 0, and a finite sum");
        return vec![(64, 1)];
    }
    let shares = shares(&pairs);
    if let Some((size, configured, sent)) = worst_share(&pairs, &shares) {
        let [configured, sent] = [configured, sent].map(|share| 100.0 * share);
        let text = format!(
            "{sent:.2} % of the frames have {size} bytes instead of {configured:.2} %: each size has at least \
             one of about {WEIGHT_PARTS_MAX} packets"
        );
        node.findings().warn(&node.at("custom"), text);
    }
    shares
}

/// The mix of that name; `imix` for any other, as the model's default is.
fn predefined(name: &str) -> Vec<(usize, f64)> {
    let found = MIXES.iter().find(|(known, _)| *known == name);
    found.unwrap_or(&MIXES[1]).1.to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::Findings;
    use serde_json::json;

    #[test]
    fn mean_sizes() {
        assert_eq!(Sizes::Increment { start: 100, end: 135, step: 10 }.mean(), 115.0);
        assert_eq!(Sizes::Random { min: 64, max: 66 }.mean(), 65.0);
        assert!((Sizes::Weighted(shares(&predefined("imix"))).mean() - 353.8).abs() < 0.1);
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
        let parts = |pairs: &[(usize, f64)]| -> Vec<usize> {
            shares(pairs).into_iter().map(|(_, share)| share).collect()
        };
        assert_eq!(parts(&predefined("imix")), [7, 4, 1]);
        assert_eq!(shares(&[(64, 1.0), (9000, 0.0), (100, 1.0)]), [(64, 1), (100, 1)]);
        let parts = parts(&predefined("tcp_imix"));
        let sum = parts.iter().sum::<usize>() as f64;
        assert!((parts[0] as f64 / sum - 0.5867).abs() < 0.005, "{parts:?}");
    }

    /// The rate in bits is that of the frames that are sent.
    #[test]
    fn a_rare_size_is_in_the_mean_as_often_as_it_is_sent() {
        let custom = |pairs: [(usize, f64); 2]| {
            let pairs = pairs.map(|(size, weight)| json!({"size": size, "weight": weight}));
            let size = json!({"weight_pairs": {"custom": pairs}});
            let findings = Findings::default();
            let fields = size.as_object().expect("an object");
            let sizes = Sizes::read(Some(ConfigNode::element(fields, "size".to_owned(), &findings)));
            (sizes, findings.finish().expect("no errors"))
        };
        for pairs in [[(64, 999.0), (1518, 1.0)], [(64, 1e6), (1518, 1.0)], [(64, 1.0), (1518, 3.0)]] {
            let (sizes, warnings) = custom(pairs);
            let (packets, _) = sizes.packets(2048);
            let mean = packets.iter().sum::<usize>() as f64 / packets.len() as f64;
            assert_eq!(sizes.mean(), mean, "{pairs:?}");
            assert_eq!(warnings.is_empty(), pairs[0].1 < 2.0, "{warnings:?}");
        }
        let warning = "size.weight_pairs.custom: 0.52 % of the frames have 1518 bytes instead of 0.10 %";
        assert!(custom([(64, 999.0), (1518, 1.0)]).1[0].starts_with(warning));
    }

    #[test]
    fn least_size_raises_what_is_smaller() {
        assert_eq!(Sizes::Least.raised_to(60), (Sizes::Fixed(64), false));
        assert_eq!(Sizes::Fixed(64).raised_to(80), (Sizes::Fixed(80), true));
        let (raised, _) = Sizes::Increment { start: 64, end: 100, step: 12 }.raised_to(80);
        assert_eq!(raised, Sizes::List(vec![80, 80, 88, 100]));
    }
}
