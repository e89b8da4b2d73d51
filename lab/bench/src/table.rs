//! The table of measurements (`lab/bench/sweeps.toml`), read and checked for unknown names.

use crate::generators::Contender;
use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// The table that is built in.
const BUILT_IN: &str = include_str!("../sweeps.toml");

/// How much is measured. Larger ones come later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum BenchSize {
    /// Seconds: shows that it works, and nothing else
    Tiny,
    /// Less than five minutes
    Quick,
    /// Up to three quarters of an hour, all tools
    Full,
}

/// All of it, as it is written.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SweepTable {
    size: BTreeMap<String, SizeTimes>,
    #[serde(default)]
    generate: Vec<Sweep>,
    #[serde(default)]
    pace: Vec<PaceSweep>,
    prompt: PromptSweep,
}

/// How long and how often, in one size.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SizeTimes {
    /// Rounds of generators.
    pub(crate) rounds: usize,
    /// Rounds of a generator against itself.
    pub(crate) noise_rounds: usize,
    settle_ms: u64,
    window_ms: u64,
    pace_ms: u64,
    replay_ms: u64,
    /// Length of the file that is larger than memory.
    pub(crate) replay_bytes: u64,
    /// Rounds of starts and stops.
    pub(crate) prompt_rounds: usize,
    /// Lengths of runs.
    pub(crate) seconds: Vec<f64>,
    /// Numbers of device instances.
    pub(crate) instances: Vec<u64>,
    /// Numbers of frames captured.
    pub(crate) captured: Vec<u64>,
    /// Frames that each tool sends first, to show that it does what it says.
    pub(crate) proof_frames: u64,
}

impl SizeTimes {
    /// From the first frame to the beginning of a measurement.
    pub(crate) fn settle(&self) -> Duration {
        Duration::from_millis(self.settle_ms)
    }

    /// A measurement of a rate.
    pub(crate) fn window(&self) -> Duration {
        Duration::from_millis(self.window_ms)
    }

    /// Length of a file with times.
    pub(crate) fn replay(&self) -> Duration {
        Duration::from_millis(self.replay_ms)
    }

    /// How long a pace is watched.
    pub(crate) fn pace(&self) -> Duration {
        Duration::from_millis(self.pace_ms)
    }
}

/// Generators side by side, at each frame length and on each number of CPUs.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sweep {
    /// Of the case, in rows.
    pub(crate) name: String,
    from: BenchSize,
    /// Who takes part. The first one is measured against itself as well.
    tools: Vec<String>,
    /// Whom wirerate is compared with.
    pub(crate) against: Vec<String>,
    /// How many times the rate of a tool the first one aims at, or `A of B`: how many times the
    /// rate of B tool A aims at.
    #[serde(default)]
    goals: BTreeMap<String, f64>,
    /// Without FCS, in bytes.
    frame_len: Vec<usize>,
    /// Numbers of CPUs.
    cpus: Vec<usize>,
    /// Each once, instead of each with each.
    #[serde(skip)]
    is_tiny: bool,
}

/// Generators at each pace.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PaceSweep {
    from: BenchSize,
    tools: Vec<String>,
    /// Frames a second.
    pub(crate) rates_pps: Vec<u64>,
}

/// Generators that begin, end and count.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PromptSweep {
    tools: Vec<String>,
    /// Frames asked for.
    pub(crate) counts: Vec<u64>,
}

/// What one size measures.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BenchPlan {
    /// How long and how often.
    pub(crate) times: SizeTimes,
    /// Rates, in the order of the table.
    pub(crate) generate: Vec<Sweep>,
    /// Paces.
    pub(crate) pace: Vec<PaceSweep>,
    /// Starts, stops and counts.
    pub(crate) prompt: PromptSweep,
}

impl BenchPlan {
    /// Of the table that is built in.
    pub(crate) fn built_in(size: BenchSize) -> Result<Self> {
        Self::of(BUILT_IN, size).context("the table of sweeps is wrong")
    }

    fn of(table: &str, size: BenchSize) -> Result<Self> {
        let mut table: SweepTable = toml::from_str(table)?;
        let name = format!("{size:?}").to_lowercase();
        let times = table.size.remove(&name).with_context(|| format!("there is no [size.{name}]"))?;
        let is_in = |from: BenchSize| size == BenchSize::Tiny || from <= size;
        table.generate.iter().try_for_each(Sweep::check)?;
        table.pace.iter().try_for_each(PaceSweep::check)?;
        table.prompt.contenders()?.iter().try_for_each(|contender| contender.check(false))?;
        table.generate.retain(|sweep| is_in(sweep.from));
        table.pace.retain(|sweep| is_in(sweep.from));
        table.generate.iter_mut().for_each(|sweep| sweep.is_tiny = size == BenchSize::Tiny);
        Ok(Self { times, generate: table.generate, pace: table.pace, prompt: table.prompt })
    }
}

impl Sweep {
    /// Who takes part.
    pub(crate) fn contenders(&self) -> Result<Vec<Contender>> {
        self.tools.iter().map(|name| Contender::of(name)).collect()
    }

    /// Frame lengths and numbers of CPUs.
    pub(crate) fn cells(&self) -> Vec<(usize, usize)> {
        let Self { frame_len, cpus, .. } = self;
        if self.is_tiny {
            let at = |index: usize| (frame_len[index % frame_len.len()], cpus[index % cpus.len()]);
            return (0..frame_len.len().max(cpus.len())).map(at).collect();
        }
        frame_len.iter().flat_map(|len| cpus.iter().map(|cpus| (*len, *cpus))).collect()
    }

    /// How many times the rate of `their` the tool `our` aims at, which has this place among the
    /// tools.
    pub(crate) fn goal(&self, place: usize, our: &str, their: &str) -> Option<f64> {
        let of_first = || self.goals.get(their).filter(|_| place == 0);
        self.goals.get(&format!("{our} of {their}")).or_else(of_first).copied()
    }

    fn check(&self) -> Result<()> {
        let name = &self.name;
        let is_whole = !(self.tools.is_empty() || self.frame_len.is_empty() || self.cpus.is_empty());
        ensure!(is_whole, "{name}: tools, frame_len and cpus are needed");
        ensure!(
            self.frame_len.iter().all(|len| (60..=1514).contains(len)),
            "{name}: frame_len is 60 to 1514"
        );
        ensure!(self.cpus.iter().all(|cpus| (1..=2).contains(cpus)), "{name}: cpus is 1 or 2");
        self.contenders()?.iter().try_for_each(|contender| contender.check(false))?;
        let aims = self.goals.keys().flat_map(|goal| goal.split(" of "));
        self.against.iter().map(String::as_str).chain(aims).try_for_each(|name| Contender::of(name).map(drop))
    }
}

impl PaceSweep {
    /// Who takes part.
    pub(crate) fn contenders(&self) -> Result<Vec<Contender>> {
        self.tools.iter().map(|name| Contender::of(name)).collect()
    }

    fn check(&self) -> Result<()> {
        ensure!(self.rates_pps.iter().all(|rate| *rate > 0), "a pace of no frames a second");
        self.contenders()?.iter().try_for_each(|contender| contender.check(true))
    }
}

impl PromptSweep {
    /// Who takes part.
    pub(crate) fn contenders(&self) -> Result<Vec<Contender>> {
        self.tools.iter().map(|name| Contender::of(name)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_grow_and_the_tiny_one_has_everything() {
        let [tiny, quick, full] = [BenchSize::Tiny, BenchSize::Quick, BenchSize::Full]
            .map(|size| BenchPlan::built_in(size).expect("it is right"));
        for (smaller, larger) in [(&tiny, &quick), (&quick, &full)] {
            let [smaller, larger] = [smaller, larger].map(|plan| &plan.times);
            assert!(smaller.rounds < larger.rounds && smaller.window() < larger.window());
        }
        assert!(quick.generate.len() < full.generate.len() && quick.pace.len() < full.pace.len());
        assert_eq!((tiny.generate.len(), tiny.pace.len()), (full.generate.len(), full.pace.len()));
    }

    #[test]
    fn goals_are_those_of_the_first_tool_or_of_a_pair() {
        let plan = BenchPlan::built_in(BenchSize::Quick).expect("it is right");
        let sweep = |name: &str| plan.generate.iter().find(|sweep| sweep.name == name).expect("it is there");
        let (plain, frames) = (sweep("plain"), sweep("frames"));
        assert_eq!((plain.goal(0, "xdp", "trafgen"), plain.goal(1, "skb", "trafgen")), (Some(12.0), None));
        assert_eq!(frames.goal(1, "xdp/vxlan", "xdp"), Some(0.75));
        assert_eq!(frames.goal(1, "xdp/static", "trafgen/dynamic"), None);
    }

    #[test]
    fn tiny_takes_each_value_once_and_the_others_each_with_each() {
        let mut sweep = BenchPlan::built_in(BenchSize::Full).expect("it is right").generate.remove(0);
        (sweep.frame_len, sweep.cpus) = (vec![60, 256, 1514], vec![1, 2]);
        assert_eq!(sweep.cells(), [(60, 1), (60, 2), (256, 1), (256, 2), (1514, 1), (1514, 2)]);
        sweep.is_tiny = true;
        assert_eq!(sweep.cells(), [(60, 1), (256, 2), (1514, 1)]);
    }

    #[track_caller]
    fn refused(from: &str, to: &str) -> String {
        let table = BUILT_IN.replacen(from, to, 1);
        assert_ne!(table, BUILT_IN, "{from:?} is not in the table");
        format!("{:#}", BenchPlan::of(&table, BenchSize::Tiny).expect_err("it is wrong"))
    }

    #[test]
    fn what_cannot_be_measured_is_refused_by_name() {
        assert!(refused("\"sendmmsg\"]", "\"sendmsg\"]").contains("no tool \"sendmsg\""));
        assert!(refused("\"sendmmsg\"]", "\"sendmmsg/imix\"]").contains("sendmmsg/imix"));
        assert!(refused("\"mausezahn\"]", "\"sendmmsg\"]").contains("sendmmsg"));
        assert!(refused("\"xdp/syn of xdp\"", "\"xdp/sin of xdp\"").contains("xdp/sin"));
        assert!(refused("frame_len = [60]", "frame_len = [59]").contains("60 to 1514"));
        assert!(refused("rounds = 1", "round = 1").contains("round"));
        assert!(refused("[size.tiny]", "[size.small]").contains("[size.tiny]"));
    }
}
