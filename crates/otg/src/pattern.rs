//! The value of a header field in frame `i` of a flow.

use crate::node::ConfigNode;
use packet::Rng;
use packet::plan::FieldMode;
use serde_json::Value;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Most values of a list.
const VALUES_MAX: u128 = 500_000;

/// How a value is written in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Number,
    Mac,
    Ipv4,
    Ipv6,
}

/// A field of a header in the model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PatternRow {
    pub(crate) name: &'static str,
    /// Width on the wire.
    pub(crate) bits: u32,
    pub(crate) form: Form,
    /// The model's default.
    pub(crate) default: u128,
    /// Without a pattern, wirerate fills the field in.
    pub(crate) is_auto: bool,
    /// A value that also means "fill in".
    pub(crate) auto_value: Option<u128>,
}

/// The values of a field, one per frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Pattern {
    /// Filled in: a length, a type, the MAC address of a neighbour.
    Auto,
    Value(u128),
    Values(Vec<u128>),
    /// `start`, `start + step` and so on, `count` values, then again. Modulo the field's range.
    Counter {
        start: u128,
        step: u128,
        count: u128,
    },
}

impl PatternRow {
    pub(crate) const fn number(name: &'static str, bits: u32, default: u128) -> Self {
        Self { name, bits, form: Form::Number, default, is_auto: false, auto_value: None }
    }

    pub(crate) const fn auto(name: &'static str, bits: u32, default: u128) -> Self {
        Self { name, bits, form: Form::Number, default, is_auto: true, auto_value: None }
    }

    pub(crate) const fn address(name: &'static str, form: Form) -> Self {
        let bits = match form {
            Form::Mac => 48,
            Form::Ipv6 => 128,
            Form::Ipv4 | Form::Number => 32,
        };
        Self { name, bits, form, default: 0, is_auto: false, auto_value: None }
    }

    /// `value` means "fill in" too.
    pub(crate) const fn or_auto_if(self, value: u128) -> Self {
        Self { is_auto: true, auto_value: Some(value), ..self }
    }

    fn max(&self) -> u128 {
        u128::MAX >> (128 - self.bits)
    }

    /// Reads the pattern of this field from the header `node`.
    pub(crate) fn read(&self, node: &ConfigNode, seed: u64) -> Pattern {
        match node.object(self.name) {
            None if self.is_auto => Pattern::Auto,
            None => Pattern::Value(self.default),
            Some(pattern) => pattern.whole(|pattern| self.read_choice(pattern, seed)),
        }
    }

    fn read_choice(&self, node: &ConfigNode, seed: u64) -> Pattern {
        // The header reads the tags of its fields.
        node.ignore(&["choice", "metric_tags"]);
        match node.choice(if self.is_auto { "auto" } else { "value" }) {
            "auto" if self.is_auto => {
                node.ignore(&["auto"]);
                Pattern::Auto
            }
            "auto" => {
                node.ignore(&["auto"]);
                node.error("auto is not supported: give a value");
                Pattern::Value(self.default)
            }
            "values" => self.read_values(node),
            "increment" => self.read_counter(node, "increment", false),
            "decrement" => self.read_counter(node, "decrement", true),
            "random" => self.read_random(node, seed),
            _ => match self.value(node, "value", self.default) {
                value if self.auto_value == Some(value) => Pattern::Auto,
                value => Pattern::Value(value),
            },
        }
    }

    fn read_values(&self, node: &ConfigNode) -> Pattern {
        let list = node.list("values");
        if list.len() as u128 > VALUES_MAX {
            node.error(format!("{} values are more than {VALUES_MAX}", list.len()));
            return Pattern::Value(self.default);
        }
        if !node.findings().has_place_for(&node.at("values"), list.len()) {
            return Pattern::Value(self.default);
        }
        let parsed: Result<Vec<u128>, String> = list.iter().map(|value| self.parse(value)).collect();
        match parsed {
            Ok(values) if values.is_empty() => Pattern::Value(self.default),
            Ok(values) => Pattern::Values(values),
            Err(error) => {
                node.findings().error(&node.at("values"), error);
                Pattern::Value(self.default)
            }
        }
    }

    fn read_counter(&self, node: &ConfigNode, name: &'static str, is_down: bool) -> Pattern {
        let Some(counter) = node.object(name) else { return Pattern::Value(self.default) };
        counter.whole(|counter| {
            let start = self.value(counter, "start", self.default);
            let step = self.value(counter, "step", 1);
            let count = u128::from(counter.number("count", 1, 1..=u64::MAX));
            let step = if is_down { (self.max() - step).wrapping_add(1) & self.max() } else { step };
            Pattern::Counter { start, step, count }
        })
    }

    fn read_random(&self, node: &ConfigNode, seed: u64) -> Pattern {
        let Some(random) = node.object("random") else { return Pattern::Value(self.default) };
        random.whole(|random| {
            let (min, max) = (self.value(random, "min", 0), self.value(random, "max", self.max()));
            let own_seed = random.number("seed", 1, 0..=u64::MAX);
            let count = random.number("count", 1, 1..=VALUES_MAX as u64);
            if max < min {
                random.error("max is below min");
                return Pattern::Value(min);
            }
            if !random.findings().has_place_for(random.path(), count as usize) {
                return Pattern::Value(min);
            }
            let mut rng = Rng(if own_seed == 0 { seed } else { own_seed });
            Pattern::Values((0..count).map(|_| min + below(&mut rng, max - min)).collect())
        })
    }

    fn value(&self, node: &ConfigNode, name: &'static str, default: u128) -> u128 {
        let Some(value) = node.get(name) else { return default };
        self.parse(value).unwrap_or_else(|error| {
            node.findings().error(&node.at(name), error);
            default
        })
    }

    fn parse(&self, value: &Value) -> Result<u128, String> {
        let text = value.as_str().unwrap_or_default();
        let parsed = match self.form {
            Form::Number => {
                let number = value.as_u64().map(u128::from);
                return match number {
                    Some(number) if number <= self.max() => Ok(number),
                    _ => Err(format!("{value} is not in 0 to {}", self.max())),
                };
            }
            Form::Mac => parse_mac(text),
            Form::Ipv4 => text.parse::<Ipv4Addr>().ok().map(|address| u128::from(u32::from(address))),
            Form::Ipv6 => text.parse::<Ipv6Addr>().ok().map(u128::from),
        };
        let what = match self.form {
            Form::Mac => "a MAC address",
            Form::Ipv6 => "an IPv6 address",
            Form::Ipv4 | Form::Number => "an IPv4 address",
        };
        parsed.ok_or_else(|| format!("{value} is not {what}"))
    }
}

/// Six bytes in hexadecimal, with colons between them.
pub(crate) fn parse_mac(text: &str) -> Option<u128> {
    let bytes: Vec<&str> = text.split([':', '-']).collect();
    let is_byte = |byte: &&str| (1..=2).contains(&byte.len()) && byte.bytes().all(|b| b.is_ascii_hexdigit());
    let is_mac = bytes.len() == 6 && bytes.iter().all(is_byte);
    let byte = |mac: u128, text: &&str| Some(mac << 8 | u128::from(u8::from_str_radix(text, 16).ok()?));
    is_mac.then(|| bytes.iter().try_fold(0, byte)).flatten()
}

/// A number from 0 to `max`.
fn below(rng: &mut Rng, max: u128) -> u128 {
    let drawn = u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64());
    max.checked_add(1).map_or(drawn, |size| drawn % size)
}

impl Pattern {
    /// Frames after which its values begin anew; `None` if it is filled in.
    pub(crate) fn period(&self) -> Option<u128> {
        match self {
            Self::Auto => None,
            Self::Value(_) => Some(1),
            Self::Values(values) => Some(values.len() as u128),
            Self::Counter { count, .. } => Some(*count),
        }
    }

    /// The value in frame `index`, in a field of `bits` bits. None if it is filled in.
    pub(crate) fn at(&self, index: u128, bits: u32) -> Option<u128> {
        match self {
            Self::Auto => None,
            Self::Value(value) => Some(*value),
            Self::Values(values) => Some(values[(index % values.len() as u128) as usize]),
            Self::Counter { start, step, count } => {
                let steps = step.wrapping_mul(index % count);
                Some(start.wrapping_add(steps) & (u128::MAX >> (128 - bits)))
            }
        }
    }

    /// Ranges that hold all values, in a field of `bits` bits; none if it is filled in.
    pub(crate) fn ranges(&self, bits: u32) -> Vec<(u128, u128)> {
        let max = u128::MAX >> (128 - bits);
        match self {
            Self::Auto => Vec::new(),
            Self::Value(value) => vec![(*value, *value)],
            Self::Values(values) => values.iter().map(|value| (*value, *value)).collect(),
            Self::Counter { start, step, count } => {
                let last = step.checked_mul(count - 1).and_then(|sum| sum.checked_add(*start));
                // A counter that wraps, or counts down, may have any value.
                vec![last.filter(|last| *last <= max).map_or((0, max), |last| (*start, last))]
            }
        }
    }

    /// True if all frames have the same value.
    pub(crate) fn is_constant(&self) -> bool {
        match self {
            Self::Auto | Self::Value(_) => true,
            Self::Values(values) => values.iter().all(|value| *value == values[0]),
            Self::Counter { step, count, .. } => *step == 0 || *count == 1,
        }
    }

    /// The rule for `width` bits of the field, `shift` bits above its lowest one.
    ///
    /// # Errors
    /// More values than a list may have, that no rule describes.
    pub(crate) fn mode(&self, bits: u32, shift: u32, width: u32) -> Result<FieldMode, String> {
        let part = |value: u128| (value >> shift) as u64 & (u64::MAX >> (64 - width));
        if let Self::Counter { start, step, count } = *self {
            let last = step.checked_mul(count - 1).and_then(|sum| sum.checked_add(start));
            let fits = last.is_some_and(|last| last <= u128::from(u64::MAX >> (64 - width)));
            if shift == 0 && fits {
                let (first, last) = (start as u64, last.unwrap_or_default() as u64);
                let wrap = (last - first).saturating_add(step as u64);
                return Ok(FieldMode::Increment { first, min: first, max: last, step: step as u64, wrap });
            }
            if count > VALUES_MAX {
                return Err(format!("{count} values that wrap are more than {VALUES_MAX}"));
            }
        }
        let count = match self {
            Self::Auto | Self::Value(_) => 1,
            Self::Values(values) => values.len() as u128,
            Self::Counter { count, .. } => *count,
        };
        let values = (0..count).filter_map(|index| self.at(index, bits)).map(part).collect();
        Ok(FieldMode::Values { values, repeat_from: 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first values of the rule, as the senders compute them.
    fn sent(pattern: &Pattern, bits: u32) -> Vec<u64> {
        let mode = pattern.mode(bits, 0, bits.min(64)).unwrap();
        let (mut state, mut rng) = (mode.start(), Rng(1));
        (0..200).map(|_| mode.next(&mut state, &mut rng, &packet::plan::FrameFacts::default())).collect()
    }

    #[test]
    fn senders_compute_the_values_of_the_pattern() {
        let counters = [(10, 1, 5), (65_530, 7, 64), (3, 65_535, 3), (3, 65_535, 64), (0, 0, 9), (7, 3, 1)];
        for (start, step, count) in counters {
            let pattern = Pattern::Counter { start, step, count };
            let expected: Vec<u64> = (0..200).map(|i| pattern.at(i, 16).unwrap() as u64).collect();
            assert_eq!(sent(&pattern, 16), expected, "{pattern:?}");
        }
        let pattern = Pattern::Values(vec![7, 4095, 9]);
        assert_eq!(sent(&pattern, 12)[..4], [7, 4095, 9, 7]);
    }

    #[test]
    fn ranges_hold_all_values() {
        for pattern in [
            Pattern::Value(7),
            Pattern::Values(vec![3, 9, 3]),
            Pattern::Counter { start: 10, step: 3, count: 5 },
            Pattern::Counter { start: 65_530, step: 7, count: 64 },
            // Down by one.
            Pattern::Counter { start: 5, step: 65_535, count: 3 },
        ] {
            let ranges = pattern.ranges(16);
            let holds = |value: u128| ranges.iter().any(|(first, last)| (*first..=*last).contains(&value));
            assert!(
                (0..200).all(|index| pattern.at(index, 16).is_some_and(holds)),
                "{pattern:?}: {ranges:?}"
            );
        }
        assert_eq!(Pattern::Counter { start: 10, step: 3, count: 5 }.ranges(16), [(10, 22)]);
    }

    #[test]
    fn ipv6_counter_carries_into_the_upper_half() {
        let pattern = Pattern::Counter { start: u128::from(u64::MAX), step: 1, count: 2 };
        let (low, high) = (pattern.mode(128, 0, 64).unwrap(), pattern.mode(128, 64, 64).unwrap());
        assert_eq!(low, FieldMode::Values { values: [u64::MAX, 0].into(), repeat_from: 0 });
        assert_eq!(high, FieldMode::Values { values: [0, 1].into(), repeat_from: 0 });
    }

    #[test]
    fn mac_addresses() {
        assert_eq!(parse_mac("02:00:00:00:ff:fe"), Some(0x0200_0000_fffe));
        for text in ["", "02:00:00:00:ff", "02:00:00:00:ff:100", "02:00:00:00:ff:+1:00", "02000000fffe"] {
            assert_eq!(parse_mac(text), None, "{text}");
        }
    }
}
