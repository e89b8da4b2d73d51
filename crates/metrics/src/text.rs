//! The text of a set in Prometheus text 0.0.4 or OpenMetrics 1.0.0.

use crate::TextFormat;
use crate::families::{FamilyKind, MetricFamily};
use crate::set::{MetricSet, MetricValue};
use std::fmt::Write;

impl MetricSet {
    /// The text of all families that have values.
    pub fn text(&self, format: TextFormat) -> String {
        let mut text = String::new();
        for (family, samples) in self.families() {
            text += &header(family, format);
            for (labels, value) in samples {
                let labels = labels_text(family, labels);
                match value {
                    MetricValue::Count(count) => {
                        line(&mut text, family.name, "", &labels, None, &count.to_string())
                    }
                    MetricValue::Number(value) => {
                        line(&mut text, family.name, "", &labels, None, &number(*value))
                    }
                    MetricValue::Histogram { buckets, sum } => {
                        histogram(&mut text, family, &labels, buckets, *sum);
                    }
                }
            }
        }
        if format == TextFormat::OpenMetrics {
            text += "# EOF\n";
        }
        text
    }
}

/// OpenMetrics names the family of a counter without the `_total` of its samples.
fn header(family: &MetricFamily, format: TextFormat) -> String {
    let kind = match family.kind {
        FamilyKind::Counter => "counter",
        FamilyKind::Gauge => "gauge",
        FamilyKind::Histogram { .. } => "histogram",
    };
    let name = match format {
        TextFormat::Prometheus => family.name,
        TextFormat::OpenMetrics => family.name.trim_end_matches("_total"),
    };
    format!("# HELP {name} {}\n# TYPE {name} {kind}\n", family.help)
}

fn histogram(text: &mut String, family: &MetricFamily, labels: &str, buckets: &[u64], sum: f64) {
    let bounds = family.bounds().into_iter().map(number).chain(["+Inf".to_owned()]);
    let mut below = 0;
    for (bound, count) in bounds.zip(buckets) {
        below += count;
        line(text, family.name, "_bucket", labels, Some(&bound), &below.to_string());
    }
    line(text, family.name, "_sum", labels, None, &number(sum));
    line(text, family.name, "_count", labels, None, &below.to_string());
}

fn line(text: &mut String, name: &str, suffix: &str, labels: &str, bound: Option<&str>, value: &str) {
    let bound = bound.map(|bound| format!("le=\"{bound}\"")).unwrap_or_default();
    let comma = if labels.is_empty() || bound.is_empty() { "" } else { "," };
    let all = match labels.is_empty() && bound.is_empty() {
        true => String::new(),
        false => format!("{{{labels}{comma}{bound}}}"),
    };
    writeln!(text, "{name}{suffix}{all} {value}").expect("a String takes any text");
}

fn labels_text(family: &MetricFamily, values: &[String]) -> String {
    let labels = family.labels.iter().zip(values);
    let labels: Vec<_> = labels.map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
    labels.join(",")
}

/// The escapes that both formats know.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// A number as Go and OpenMetrics write it: `1.0`, `0.25`, `6.4e-08`.
fn number(value: f64) -> String {
    let size = value.abs();
    if value.is_finite() && size != 0.0 && !(1e-4..1e15).contains(&size) {
        let text = format!("{value:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, power) = exponent.strip_prefix('-').map_or(("+", exponent), |power| ("-", power));
        return format!("{digits}e{sign}{power:0>2}");
    }
    match value {
        f64::INFINITY => "+Inf".to_owned(),
        f64::NEG_INFINITY => "-Inf".to_owned(),
        value if value.is_nan() => "NaN".to_owned(),
        value => format!("{value:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::families::{BUILD_INFO, PROCESS_CPU, RECEIVE_FRAMES, SEND_GAP_ERROR, SEND_TARGET};
    use proptest::prelude::*;
    use testkit::Exposition;

    fn sample() -> MetricSet {
        let mut set = MetricSet::default();
        set.gauge(&BUILD_INFO, &["0.1.0", "6.18"], 1.0);
        set.gauge(&SEND_TARGET, &["a\"b\\", "lab\n"], 1_000_000.0);
        let mut buckets = vec![0; SEND_GAP_ERROR.bounds().len() + 1];
        (buckets[0], buckets[2], buckets[19]) = (5, 2, 1);
        set.histogram(&SEND_GAP_ERROR, &["eth1", ""], &buckets, 0.021);
        set.count(&RECEIVE_FRAMES, &["eth1", ""], u64::MAX);
        set.count_seconds(&PROCESS_CPU, &[], 1.25);
        set
    }

    #[test]
    fn both_formats_are_as_the_golden_files() {
        for (format, name) in
            [(TextFormat::Prometheus, "prometheus.txt"), (TextFormat::OpenMetrics, "openmetrics.txt")]
        {
            let text = sample().text(format);
            testkit::golden(name, &text);
            let read = Exposition::read(&text, format == TextFormat::OpenMetrics).unwrap();
            assert_eq!(read.samples[1].labels["device"], "a\"b\\");
            assert_eq!(read.sum("wirerate_send_gap_error_seconds_count", &[]), Some(8));
        }
    }

    #[test]
    fn numbers_are_those_of_go() {
        for (value, text) in [
            (0.0, "0.0"),
            (1.0, "1.0"),
            (-2.5, "-2.5"),
            (64e-9, "6.4e-08"),
            (1e-12, "1e-12"),
            (1e15, "1e+15"),
            (123_456.0, "123456.0"),
            (f64::INFINITY, "+Inf"),
            (f64::NEG_INFINITY, "-Inf"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(number(value), text);
        }
    }

    proptest! {
        #[test]
        fn every_label_value_survives(device in any::<String>(), netns in any::<String>()) {
            let mut set = MetricSet::default();
            set.count(&RECEIVE_FRAMES, &[&device, &netns], 7);
            for format in [TextFormat::Prometheus, TextFormat::OpenMetrics] {
                let read = Exposition::read(&set.text(format), format == TextFormat::OpenMetrics).unwrap();
                let labels = &read.samples[0].labels;
                prop_assert_eq!((&labels["device"], &labels["netns"]), (&device, &netns));
            }
        }
    }
}
