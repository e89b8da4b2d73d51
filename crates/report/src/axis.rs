//! Axes: a value to its position, and the values that get a tick.

use crate::units;

/// How values are spread over an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    /// Equal distances for equal differences.
    Linear,
    /// Equal distances for equal factors.
    Log,
    /// Percentiles in parts per billion: equal distances from 90 % to 99 % to 99.9 %.
    Nines,
}

/// What the numbers of an axis are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Plain numbers with prefixes.
    Count,
    /// Nanoseconds.
    Time,
    /// Percent.
    Percent,
}

/// One axis of a plot.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    pub(crate) title: &'static str,
    pub(crate) scale: Scale,
    pub(crate) unit: Unit,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

/// A tick: its value and its label.
pub(crate) type Tick = (f64, String);

impl Axis {
    /// An axis that shows all values. A linear one begins at zero.
    pub(crate) fn around(
        title: &'static str,
        scale: Scale,
        unit: Unit,
        values: impl Iterator<Item = f64>,
    ) -> Self {
        let (low, high) =
            values.fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
        let high = if high > 0.0 { high } else { 1.0 };
        let (min, max) = match scale {
            Scale::Linear => (0.0, high),
            Scale::Log => decades(low.clamp(1.0, high), high),
            // 100 % has infinitely many nines: it lies at the end of the axis.
            Scale::Nines => (0.0, high.min(999_999_000.0)),
        };
        Self { title, scale, unit, min, max }
    }

    /// A linear axis from `min` to `max`. Values outside lie at its ends.
    pub(crate) fn between(title: &'static str, unit: Unit, min: f64, max: f64) -> Self {
        Self { title, scale: Scale::Linear, unit, min, max: if max > min { max } else { min + 1.0 } }
    }

    /// Where a value lies, from 0 (start of the axis) to 1.
    pub(crate) fn position(&self, value: f64) -> f64 {
        let at = |value: f64| match self.scale {
            Scale::Linear => value,
            Scale::Log => value.max(f64::MIN_POSITIVE).log10(),
            Scale::Nines => nines(value),
        };
        ((at(value) - at(self.min)) / (at(self.max) - at(self.min))).clamp(0.0, 1.0)
    }

    /// The ticks in order.
    pub(crate) fn ticks(&self) -> Vec<Tick> {
        match self.scale {
            Scale::Linear => {
                let step = self.step();
                let first = (self.min / step - 1e-9).ceil() as i64;
                let last = (self.max / step + 1e-9).floor() as i64;
                (first..=last)
                    .map(|index| index as f64 * step)
                    .map(|value| (value, self.label(value)))
                    .collect()
            }
            Scale::Log => {
                let exponents = self.min.log10().round() as i32..=self.max.log10().round() as i32;
                exponents
                    .map(|exponent| 10_f64.powi(exponent))
                    .map(|value| (value, self.label(value)))
                    .collect()
            }
            Scale::Nines => {
                let known = [
                    (0.0, "0 %"),
                    (500_000_000.0, "50 %"),
                    (900_000_000.0, "90 %"),
                    (990_000_000.0, "99 %"),
                    (999_000_000.0, "99.9 %"),
                    (999_900_000.0, "99.99 %"),
                    (999_990_000.0, "99.999 %"),
                    (999_999_000.0, "99.9999 %"),
                ];
                // Half of a nine is not enough for a label on a long axis.
                let is_legible = |value: f64| value <= 0.0 || self.position(value) > 0.08;
                let shown = known.into_iter().filter(|(value, _)| *value <= self.max && is_legible(*value));
                shown.map(|(value, label)| (value, label.to_owned())).collect()
            }
        }
    }

    /// A linear step of 1, 2 or 5 times a power of ten, for four to ten ticks.
    fn step(&self) -> f64 {
        let rough = (self.max - self.min) / 5.0;
        let power = 10_f64.powf(rough.log10().floor());
        let factor = rough / power;
        let step = if factor < 1.5 {
            1.0
        } else if factor < 3.5 {
            2.0
        } else if factor < 7.5 {
            5.0
        } else {
            10.0
        };
        step * power
    }

    pub(crate) fn label(&self, value: f64) -> String {
        match self.unit {
            Unit::Count => units::si(value),
            Unit::Time => units::time_ns(value),
            Unit::Percent => format!("{} %", units::short(value)),
        }
    }
}

/// The powers of ten around a range; at least one decade.
fn decades(low: f64, high: f64) -> (f64, f64) {
    let (first, last) = (low.log10().floor(), high.log10().ceil());
    (10_f64.powf(first), 10_f64.powf(last.max(first + 1.0)))
}

/// The number of nines of a percentile in parts per billion.
fn nines(ppb: f64) -> f64 {
    -(1.0 - ppb / 1e9).max(1e-9).log10()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(scale: Scale, values: &[f64]) -> Axis {
        Axis::around("x", scale, Unit::Count, values.iter().copied())
    }

    fn labels(axis: &Axis) -> Vec<String> {
        axis.ticks().into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn a_linear_axis_begins_at_zero_with_round_steps() {
        let axis = axis(Scale::Linear, &[300.0, 1518.0]);
        assert_eq!(labels(&axis), ["0", "200", "400", "600", "800", "1 k", "1.2 k", "1.4 k"]);
        assert!((axis.position(759.0) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn a_log_axis_ends_at_powers_of_ten() {
        let axis = axis(Scale::Log, &[2_000.0, 900_000.0]);
        assert_eq!(labels(&axis), ["1 k", "10 k", "100 k", "1 M"]);
        assert!((axis.position(10_000.0) - 1.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn each_nine_has_the_same_width() {
        let axis = axis(Scale::Nines, &[999_000_000.0]);
        assert_eq!(labels(&axis), ["0 %", "50 %", "90 %", "99 %", "99.9 %"]);
        assert!((axis.position(900_000_000.0) - 1.0 / 3.0).abs() < 1e-9);
        assert!((axis.position(990_000_000.0) - 2.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn a_percentile_of_one_hundred_lies_at_the_end() {
        let axis = axis(Scale::Nines, &[999_900_000.0, 1e9]);
        assert_eq!(labels(&axis).last().map(String::as_str), Some("99.9999 %"));
        assert!((axis.position(1e9) - 1.0).abs() < 1e-9);
        assert!(!labels(&axis).contains(&"50 %".to_owned()));
    }

    #[test]
    fn an_axis_between_two_values_has_ticks_inside() {
        let axis = Axis::between("x", Unit::Count, 6_100_000.0, 6_350_000.0);
        assert_eq!(labels(&axis), ["6.1 M", "6.15 M", "6.2 M", "6.25 M", "6.3 M", "6.35 M"]);
        assert!(axis.position(14e6) <= 1.0 && axis.position(1.0) >= 0.0);
    }

    #[test]
    fn an_axis_of_one_value_has_a_width() {
        for scale in [Scale::Linear, Scale::Log, Scale::Nines] {
            for value in [0.0, 1.0, 1000.0] {
                let axis = axis(scale, &[value]);
                assert!(axis.position(value).is_finite(), "{scale:?} {value}");
                assert!(!axis.ticks().is_empty());
            }
        }
    }
}
