//! A strict reader of metrics in Prometheus text 0.0.4 and OpenMetrics 1.0.0.
//!
//! It refuses more than the server does: a family without help or type, samples of a family that
//! are not together, counters without `_total`, histograms that do not add up.

use std::collections::{BTreeMap, BTreeSet};

/// One line with a value.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Name, with the suffix that its type requires.
    pub name: String,
    /// Values of labels by name.
    pub labels: BTreeMap<String, String>,
    /// The value as it is written.
    pub value: String,
}

/// What a scrape returned.
#[derive(Clone, Debug, Default)]
pub struct Exposition {
    /// All samples, in order.
    pub samples: Vec<Sample>,
    /// Type of each family, by the name in its `# TYPE` line.
    pub types: BTreeMap<String, String>,
}

/// The family whose samples come now.
#[derive(Default)]
struct Present {
    name: String,
    has_help: bool,
    kind: String,
}

impl Exposition {
    /// Reads `text`.
    ///
    /// # Errors
    /// The first line that breaks a rule, and the rule.
    pub fn read(text: &str, is_open_metrics: bool) -> Result<Self, String> {
        let body = match (is_open_metrics, text.strip_suffix("# EOF\n")) {
            (true, Some(body)) => body,
            (true, None) => return Err("OpenMetrics ends with # EOF and a line feed".to_owned()),
            (false, _) => text,
        };
        if !body.is_empty() && !body.ends_with('\n') {
            return Err("the last line has no line feed".to_owned());
        }
        let (mut read, mut present) = (Self::default(), Present::default());
        let mut seen = BTreeSet::new();
        for line in body.lines() {
            let failed = |rule: &str| format!("{rule}: {line}");
            if let Some(comment) = line.strip_prefix("# ") {
                read.comment(comment, &mut present).map_err(|rule| failed(&rule))?;
                continue;
            }
            let sample = sample(line).map_err(|rule| failed(&rule))?;
            if present.kind.is_empty() {
                return Err(failed("a sample follows # HELP and # TYPE of its family"));
            }
            check(&sample, &present, is_open_metrics).map_err(|rule| failed(&rule))?;
            if !seen.insert((sample.name.clone(), sample.labels.clone())) {
                return Err(failed("a sample occurs once"));
            }
            read.samples.push(sample);
        }
        read.check_histograms()?;
        Ok(read)
    }

    fn comment(&mut self, comment: &str, present: &mut Present) -> Result<(), String> {
        let mut words = comment.splitn(3, ' ');
        let (word, name, rest) = (words.next(), words.next().unwrap_or(""), words.next().unwrap_or(""));
        if !is_name(name, true) || rest.is_empty() {
            return Err("# HELP and # TYPE have a name and a text".to_owned());
        }
        match word {
            Some("HELP") => {
                if self.types.contains_key(name) || (present.has_help && present.kind.is_empty()) {
                    return Err("a family has one # HELP, before its # TYPE".to_owned());
                }
                unescaped(rest)?;
                *present = Present { name: name.to_owned(), has_help: true, kind: String::new() };
            }
            Some("TYPE") => {
                if name != present.name || !present.kind.is_empty() {
                    return Err("# TYPE follows # HELP of its family".to_owned());
                }
                if !["counter", "gauge", "histogram"].contains(&rest) {
                    return Err("the type is counter, gauge or histogram".to_owned());
                }
                rest.clone_into(&mut present.kind);
                self.types.insert(name.to_owned(), rest.to_owned());
            }
            _ => return Err("a comment is # HELP or # TYPE".to_owned()),
        }
        Ok(())
    }

    /// The values of samples with this name and at least these labels.
    pub fn values(&self, name: &str, labels: &[(&str, &str)]) -> Vec<f64> {
        let has = |sample: &&Sample| {
            sample.name == name
                && labels
                    .iter()
                    .all(|(label, value)| sample.labels.get(*label).is_some_and(|own| own == value))
        };
        self.samples.iter().filter(has).filter_map(|sample| sample.value.parse().ok()).collect()
    }

    /// The sum of exact counts with this name and at least these labels; `None` if there is none.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> Option<u64> {
        let values = self.values(name, labels);
        (!values.is_empty()).then(|| values.iter().map(|value| *value as u64).sum())
    }

    fn check_histograms(&self) -> Result<(), String> {
        let names = self.types.iter().filter(|(_, kind)| *kind == "histogram").map(|(name, _)| name);
        for name in names {
            let mut by_labels = BTreeMap::<BTreeMap<String, String>, Vec<(f64, f64)>>::new();
            for bucket in self.samples.iter().filter(|sample| sample.name == format!("{name}_bucket")) {
                let mut labels = bucket.labels.clone();
                let bound = labels.remove("le").ok_or_else(|| format!("a bucket of {name} has no le"))?;
                by_labels.entry(labels).or_default().push((go_number(&bound)?, go_number(&bucket.value)?));
            }
            for (labels, buckets) in by_labels {
                let rises = buckets.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1);
                let last = buckets.last().copied().unwrap_or_default();
                let labels: Vec<(&str, &str)> =
                    labels.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
                let count = self.values(&format!("{name}_count"), &labels);
                let has_sum = self.values(&format!("{name}_sum"), &labels).len() == 1;
                if !rises || last.0 != f64::INFINITY || count != [last.1] || !has_sum {
                    return Err(format!("the histogram {name} of {labels:?} does not add up: {buckets:?}"));
                }
            }
        }
        Ok(())
    }
}

fn check(sample: &Sample, present: &Present, is_open_metrics: bool) -> Result<(), String> {
    let family = &present.name;
    let value = go_number(&sample.value)?;
    let suffix = sample.name.strip_prefix(family.as_str());
    let is_good = match present.kind.as_str() {
        "counter" if is_open_metrics => suffix == Some("_total") && !family.ends_with("_total"),
        "counter" => suffix == Some("") && family.ends_with("_total"),
        "histogram" => match suffix {
            Some("_bucket") => sample.labels.contains_key("le"),
            Some("_sum" | "_count") => !sample.labels.contains_key("le"),
            _ => false,
        },
        _ => suffix == Some("") && !family.ends_with("_total"),
    };
    if !is_good {
        return Err(format!("this is no sample of the {} {family}", present.kind));
    }
    if present.kind != "gauge" && !(value >= 0.0 && value.is_finite()) {
        return Err("counts are at least 0".to_owned());
    }
    Ok(())
}

fn is_name(name: &str, allows_colon: bool) -> bool {
    let is_letter = |c: char| c.is_ascii_alphabetic() || c == '_' || (allows_colon && c == ':');
    name.starts_with(is_letter) && name.chars().all(|c| is_letter(c) || c.is_ascii_digit())
}

/// `NAME VALUE` or `NAME{LABEL="TEXT",...} VALUE`, with single blanks and no time.
fn sample(line: &str) -> Result<Sample, String> {
    let at = line.find(['{', ' ']).ok_or("a sample has a value")?;
    let (name, mut rest) = line.split_at(at);
    if !is_name(name, true) {
        return Err("a name has letters, digits, `_` and `:`".to_owned());
    }
    let mut labels = BTreeMap::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        loop {
            let (label, after) = rest.split_once("=\"").ok_or("a label has a value in quotes")?;
            let end = end_of_text(after).ok_or("a text ends with a quote")?;
            let text = unescaped(&after[..end])?;
            if !is_name(label, false) || labels.insert(label.to_owned(), text).is_some() {
                return Err("labels have plain names, once each".to_owned());
            }
            rest = &after[end + 1..];
            match rest.as_bytes().first() {
                Some(b',') => rest = &rest[1..],
                Some(b'}') => break,
                _ => return Err("labels end with a brace".to_owned()),
            }
        }
        rest = &rest[1..];
    }
    let value = rest.strip_prefix(' ').ok_or("a blank comes before the value")?;
    if value.contains(' ') {
        return Err("nothing follows the value".to_owned());
    }
    Ok(Sample { name: name.to_owned(), labels, value: value.to_owned() })
}

/// Place of the quote that ends a text.
fn end_of_text(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    text.bytes().position(|byte| {
        let ends = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        ends
    })
}

fn unescaped(text: &str) -> Result<String, String> {
    let (mut out, mut letters) = (String::new(), text.chars());
    while let Some(letter) = letters.next() {
        match (letter, if letter == '\\' { letters.next() } else { None }) {
            ('\\', Some('n')) => out.push('\n'),
            ('\\', Some(escaped @ ('\\' | '"'))) => out.push(escaped),
            ('\\', _) => return Err("an escape is \\\\, \\\" or \\n".to_owned()),
            (letter, _) => out.push(letter),
        }
    }
    Ok(out)
}

/// A number as Go writes it.
fn go_number(text: &str) -> Result<f64, String> {
    let plain = |c: char| c.is_ascii_digit() || ".+-e".contains(c);
    match text {
        "+Inf" => Ok(f64::INFINITY),
        "-Inf" => Ok(f64::NEG_INFINITY),
        "NaN" => Ok(f64::NAN),
        text if text.chars().all(plain) => text.parse().map_err(|_| format!("{text} is not a number")),
        text => Err(format!("{text} is not a number")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "# HELP a_total A\n# TYPE a_total counter\n";
    const OPEN_HEAD: &str = "# HELP a A\n# TYPE a counter\n";

    #[test]
    fn samples_are_read_with_their_labels() {
        let text = format!("{HEAD}a_total{{x=\"1\\\"\\\\\\n\",y=\"\"}} 3\na_total 1.5e+06\n");
        let read = Exposition::read(&text, false).unwrap();
        assert_eq!(read.samples[0].labels["x"], "1\"\\\n");
        assert_eq!((read.sum("a_total", &[("y", "")]), read.sum("a_total", &[])), (Some(3), Some(1_500_003)));
        assert_eq!(read.sum("b_total", &[]), None);
        Exposition::read(&format!("{OPEN_HEAD}a_total 1\n# EOF\n"), true).unwrap();
    }

    #[test]
    fn broken_texts_are_refused() {
        let histogram = |lines: &str| format!("# HELP h H\n# TYPE h histogram\n{lines}");
        for (text, is_open) in [
            ("a_total 1\n".to_owned(), false),
            ("# TYPE a_total counter\na_total 1\n".to_owned(), false),
            (format!("{HEAD}a_total 1"), false),
            (format!("{HEAD}a_total  1\n"), false),
            (format!("{HEAD}a_total 1 17\n"), false),
            (format!("{HEAD}a_total -1\n"), false),
            (format!("{HEAD}a_total 0x10\n"), false),
            (format!("{HEAD}a_total 1\na_total 1\n"), false),
            (format!("{HEAD}a_total{{x=\"\\q\"}} 1\n"), false),
            (format!("{HEAD}a_total{{x=\"1\" }} 1\n"), false),
            (format!("{HEAD}b_total 1\n"), false),
            (format!("{HEAD}\na_total 1\n"), false),
            (format!("{HEAD}a_total 1\n{HEAD}"), false),
            (format!("{HEAD}a_total 1\n# EOF\n"), false),
            (format!("{HEAD}a_total 1\n# EOF\n"), true),
            (format!("{OPEN_HEAD}a 1\n# EOF\n"), true),
            (format!("{OPEN_HEAD}a_total 1\n"), true),
            (format!("{OPEN_HEAD}a_total 1\n# EOF"), true),
            ("# HELP a A\n# TYPE a info\na 1\n".to_owned(), false),
            ("# HELP a_total A\n# TYPE a_total gauge\na_total 1\n".to_owned(), false),
            (histogram("h_bucket{le=\"1.0\"} 1\nh_sum 1\nh_count 1\n"), false),
            (histogram("h_bucket{le=\"1.0\"} 2\nh_bucket{le=\"+Inf\"} 1\nh_sum 1\nh_count 1\n"), false),
            (histogram("h_bucket{le=\"+Inf\"} 1\nh_sum 1\nh_count 2\n"), false),
            (histogram("h_bucket{le=\"+Inf\"} 1\nh_count 1\n"), false),
        ] {
            assert!(Exposition::read(&text, is_open).is_err(), "{text}");
        }
    }
}
