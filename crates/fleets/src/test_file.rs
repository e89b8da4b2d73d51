//! The file of a test: flows between ports, for how long, and when to start.

use fleet::{PortPlace, StartPolicy};
use program::outcome::{Failure, Refused};
use program::waiting_read;
use serde::{Deserialize, Deserializer};
use std::path::Path;
use units::{Nanos, time_with_unit};

/// A test.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TestFile {
    /// How long the flows are sent at most.
    seconds: f64,
    /// `all`, the default: each host must be ready.
    start: Option<String>,
    /// Hosts that must be ready, instead of all.
    at_least: Option<usize>,
    /// Highest error that a host's clock may have.
    #[serde(default, deserialize_with = "time")]
    clock_bound: Option<Nanos>,
    /// How long hosts may take to get ready.
    #[serde(default, deserialize_with = "time")]
    arm: Option<Nanos>,
    /// How long receivers wait for late frames.
    #[serde(default, deserialize_with = "time")]
    settle: Option<Nanos>,
    /// An agent without a controller ends the run after this time.
    #[serde(default, deserialize_with = "time")]
    lease: Option<Nanos>,
    /// The flows.
    #[serde(rename = "flow")]
    pub(super) flows: Vec<FlowEntry>,
}

/// A flow.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FlowEntry {
    /// Its name; without one its number.
    pub(super) name: Option<String>,
    /// Where it is sent.
    pub(super) from: PortPlace,
    /// Where it is received.
    pub(super) to: PortPlace,
    /// Words of `wirerate send`.
    #[serde(default)]
    pub(super) send: SendWords,
}

/// Words: a text without quotes, or a list.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum SendWords {
    /// Words between spaces.
    Text(String),
    /// The words.
    List(Vec<String>),
}

impl Default for SendWords {
    fn default() -> Self {
        Self::List(Vec::new())
    }
}

impl SendWords {
    /// The words.
    pub(super) fn words(&self) -> Vec<String> {
        match self {
            Self::Text(text) => text.split_whitespace().map(str::to_owned).collect(),
            Self::List(words) => words.clone(),
        }
    }
}

fn time<'de, D: Deserializer<'de>>(read: D) -> Result<Option<Nanos>, D::Error> {
    let text = String::deserialize(read)?;
    time_with_unit(&text).map(Some).map_err(serde::de::Error::custom)
}

impl TestFile {
    /// Reads a test.
    ///
    /// # Errors
    /// It cannot be read, or is none.
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let act = format!("read {}", path.display());
        let text = waiting_read::read_to_string(path).refused(&act)?;
        let test: Self = toml::from_str(&text).map_err(|why| Failure::usage(&act, why.to_string().trim()))?;
        let wrong = |why: String| Err(Failure::usage(&act, why));
        match &test {
            Self { flows, .. } if flows.is_empty() => wrong("it has no [[flow]]".to_owned()),
            Self { seconds, .. } if !(0.001..=30.0 * 86400.0).contains(seconds) => {
                wrong(format!("seconds = {seconds}: between 0.001 and 2592000 are possible"))
            }
            Self { start: Some(start), .. } if start != "all" => {
                wrong(format!("start = {start:?}: it is \"all\", or left out with at_least = N"))
            }
            Self { start: Some(_), at_least: Some(_), .. } => {
                wrong("start = \"all\" and at_least contradict".to_owned())
            }
            _ => Ok(test),
        }
    }

    /// How long flows are sent at most.
    pub(super) fn duration_ns(&self) -> u64 {
        (self.seconds * 1e9).round() as u64
    }

    /// Which hosts must be ready.
    pub(super) fn policy(&self) -> StartPolicy {
        StartPolicy { at_least: self.at_least, clock_bound_ns: self.clock_bound.map(|bound| bound.0) }
    }

    /// How long hosts may take to get ready, in milliseconds.
    pub(super) fn arm_ms(&self) -> u64 {
        self.arm.map_or(30_000, in_ms)
    }

    /// How long receivers wait for late frames, in milliseconds.
    pub(super) fn settle_ms(&self) -> u64 {
        self.settle.map_or(300, in_ms)
    }

    /// The lease of the agents, in milliseconds.
    pub(super) fn lease_ms(&self) -> u64 {
        self.lease.map_or(10_000, in_ms)
    }
}

fn in_ms(time: Nanos) -> u64 {
    time.0.div_ceil(1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn read(text: &str) -> Result<TestFile, Failure> {
        let folder = testkit::Folder::new("test-file");
        let path = folder.join("test.toml");
        fs::write(&path, text).unwrap();
        TestFile::read(&path)
    }

    const FLOW: &str = "[[flow]]\nfrom = \"h1/eth1\"\nto = \"h2/eth1\"\n";

    #[test]
    fn a_test_has_flows_and_rules() {
        let test = read(&format!(
            "seconds = 30\nclock_bound = \"100us\"\nlease = \"4s\"\n{FLOW}send = \"--pps 2M  --size 64\""
        ))
        .unwrap();
        assert_eq!((test.duration_ns(), test.lease_ms(), test.settle_ms()), (30_000_000_000, 4000, 300));
        assert_eq!(test.policy(), StartPolicy { at_least: None, clock_bound_ns: Some(100_000) });
        assert_eq!(test.flows[0].send.words(), ["--pps", "2M", "--size", "64"]);
        let list =
            read(&format!("seconds = 0.5\nat_least = 3\n{FLOW}send = [\"--payload\", \"a b\"]")).unwrap();
        assert_eq!(
            (list.flows[0].send.words(), list.policy().at_least),
            (vec!["--payload".into(), "a b".into()], Some(3))
        );
    }

    #[test]
    fn a_wrong_test_is_told() {
        for (text, why) in [
            ("seconds = 1\nflow = []".to_owned(), "it has no [[flow]]"),
            (format!("seconds = 0\n{FLOW}"), "seconds = 0"),
            (format!("seconds = 1\nstart = \"some\"\n{FLOW}"), "start = \"some\""),
            (format!("seconds = 1\nlease = \"4\"\n{FLOW}"), "unit"),
            (format!("seconds = 1\n{FLOW}cmd = \"x\""), "unknown field `cmd`"),
            ("seconds = 1\n[[flow]]\nfrom = \"h1\"\nto = \"h2/a\"".to_owned(), "is not HOST/PORT"),
        ] {
            let refusal = read(&text).unwrap_err().to_string();
            assert!(refusal.contains(why), "{text}: {refusal}");
        }
    }
}
