//! Captures on one page: every tool at every frame length, with one receive queue and with two, into both outputs; and
//! what wirerate says of twice what it can keep.
//!
//! The frame lengths of mgcap's published table, and the shortest one. At twice the rate frames have to be lost, and
//! there the sender's count, the receiver's, the capture's own and what its output holds have to be one and the same.

use crate::bed::Bed;
use crate::capture::{Contender, Ground, Known, Load, Output};
use crate::process::find_json;
use crate::report::{Report, ResultRow};
use crate::settings::{Deadline, Settings};
use crate::stats::Estimate;
use crate::tool::{Program, Programs};
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// Without FCS, unless asked otherwise.
pub(crate) const FRAME_LENS: [usize; 3] = [64, 128, 256];
/// Unless asked otherwise.
pub(crate) const QUEUES: [u32; 2] = [1, 2];
/// How many times the best peer's rate is aimed at, into /dev/null and into a file.
const GOALS: [f64; 2] = [3.0, 2.0];
/// The rate at which losses are counted, as a multiple of what is kept.
const OVERLOAD: f64 = 2.0;

/// What is on the page.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    /// Without FCS.
    pub(crate) frame_lens: Vec<usize>,
    /// Receive queues in use, 1 or 2.
    pub(crate) queues: Vec<u32>,
}

/// What `wirerate send --json` says.
#[derive(Deserialize)]
struct Sender {
    sent: u64,
}

/// What `wirerate capture --json` says.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
struct Account {
    offered: Option<u64>,
    written: u64,
    lost_nic: Option<u64>,
    lost_ring: u64,
    lost_disk: u64,
}

impl Account {
    /// True when it says what all others say and adds up; `in_file` where there is a file to be counted.
    fn is_exact(&self, sent: u64, arrived: u64, in_file: Option<u64>) -> bool {
        let sum = self.written + self.lost_nic.unwrap_or(0) + self.lost_ring + self.lost_disk;
        let is_in_file = in_file.is_none_or(|in_file| in_file == self.written);
        self.offered == Some(sent) && arrived == sent && sum == sent && is_in_file
    }
}

#[derive(Serialize)]
struct Overload<'a> {
    case: &'a str,
    tool: &'a str,
    asked_pps: f64,
    arrived_pps: f64,
    sent: u64,
    arrived: u64,
    in_file: Option<u64>,
    #[serde(flatten)]
    account: Account,
    is_exact: bool,
}

/// Measures and prints it.
pub(crate) fn run(
    wish: &Wish,
    bed: &Bed,
    programs: &Programs,
    settings: &Settings,
    deadline: Deadline,
    report: &mut Report,
) -> Result<()> {
    report.say(&format!(
        "\ncaptures: highest rate without loss in Mpps, trials of {} ms, {} rounds; > where no more could be offered",
        settings.trial.as_millis(),
        settings.page_rounds
    ))?;
    let mut known = Known::new();
    let mut has_head = false;
    for &queues in &wish.queues {
        if queues > 1 && bed.capture_cpu == bed.generator_cpu {
            report.complain("there is only one CPU, so there is only one queue")?;
            continue;
        }
        for &frame_len in &wish.frame_lens {
            let load = Load { frame_len, queues };
            let ground = Ground::new(bed, programs, settings, deadline, load)?;
            let mut ground = ground.on_a_page(std::mem::take(&mut known));
            let contenders = ground.contenders(programs, true, report)?;
            if !std::mem::replace(&mut has_head, true) {
                report.say(&head(&contenders))?;
            }
            for (output, goal) in Output::ALL.into_iter().zip(GOALS) {
                cell(&mut ground, load, output, goal, &contenders, report)?;
            }
            known = ground.into_known();
        }
    }
    Ok(())
}

/// One line of the page, and what is lost at twice the rate.
fn cell(
    ground: &mut Ground<'_>,
    load: Load,
    output: Output,
    goal: f64,
    contenders: &[Contender],
    report: &mut Report,
) -> Result<()> {
    let case = ground.case(output);
    let all: Vec<&Contender> = contenders.iter().collect();
    let found = ground.rounds(output, &all, "rounds", ground.settings.page_rounds, report)?;
    let mut line = format!("{:>5} {:>6} {:<21}", load.frame_len, load.queues, output.title());
    for (index, contender) in contenders.iter().enumerate() {
        let Some(rate) = Estimate::of(found.rates.of(index)) else { continue };
        report.row("result", &ResultRow::rate(&case, contender.tool.name, rate))?;
        let sign = if found.limited[index] * 2 > found.rates.whole() { ">" } else { "" };
        line += &format!(" {:>width$}", format!("{sign}{:.2}", rate.median / 1e6), width = width(contender));
    }
    let peers = |contender: &Contender| matches!(contender.tool.program, Program::Installed(_));
    let peers: Vec<usize> = (0..all.len()).filter(|index| peers(all[*index])).collect();
    let best: Vec<f64> = (0..found.rates.whole())
        .map(|round| peers.iter().map(|peer| found.rates.of(*peer)[round]).fold(0.0, f64::max))
        .collect();
    if let Some(ratio) = Estimate::of_ratios(found.rates.of(0), &best) {
        let ours = all[0].tool.name;
        report.row("result", &ResultRow::ratio(&case, ours, "best-peer", ratio, Some(goal)))?;
        line += &format!("  {ratio} x");
    }
    report.say(&line)?;
    for (index, contender) in contenders.iter().enumerate() {
        let kept = Estimate::of(found.rates.of(index)).map(|rate| rate.median).filter(|pps| *pps > 0.0);
        if let (Program::Wirerate, Some(kept_pps)) = (contender.tool.program, kept) {
            overload(ground, output, contender, kept_pps * OVERLOAD, report)?;
        }
    }
    Ok(())
}

fn head(contenders: &[Contender]) -> String {
    let mut line = format!("{:>5} {:>6} {:<21}", "bytes", "queues", "");
    for contender in contenders {
        line += &format!(" {:>width$}", contender.tool.name, width = width(contender));
    }
    line + "  of the best peer"
}

fn width(contender: &Contender) -> usize {
    contender.tool.name.len().max(6)
}

/// Offers more than can be kept, and compares what everybody counted.
fn overload(
    ground: &Ground<'_>,
    output: Output,
    contender: &Contender,
    asked_pps: f64,
    report: &mut Report,
) -> Result<()> {
    let (case, tool) = (ground.case(output), contender.tool.name);
    let tried = ground.try_rate(output, contender, asked_pps, true)?;
    let sender: Sender = find_json(&tried.sender_said).context("the sender gave no report")?;
    let account: Account = find_json(&tried.capture_said).context("the capture gave no report")?;
    let (sent, arrived, in_file) = (sender.sent, tried.arrived, tried.counted);
    let is_exact = account.is_exact(sent, arrived, in_file);
    let arrived_pps = tried.arrived_pps;
    report.row(
        "overload",
        &Overload { case: &case, tool, asked_pps, arrived_pps, sent, arrived, in_file, account, is_exact },
    )?;
    let Account { written, lost_ring, lost_disk, .. } = account;
    let text = format!(
        "{tool}, {:.2} Mpps offered: sent {sent}, written {written}, lost {lost_ring} in rings, {lost_disk} at the disk",
        arrived_pps / 1e6
    );
    if is_exact {
        return report.say(&format!("{:>12} {text}", "exact:"));
    }
    report.complain(&format!(
        "{case}: {text}; arrived {arrived}, in the file {in_file:?}, {account:?} is not exact"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_exact_when_everybody_says_the_same() {
        let account =
            Account { offered: Some(100), written: 60, lost_nic: Some(0), lost_ring: 30, lost_disk: 10 };
        assert!(account.is_exact(100, 100, Some(60)) && account.is_exact(100, 100, None));
        assert!(!account.is_exact(101, 100, None) && !account.is_exact(100, 99, None));
        assert!(!account.is_exact(100, 100, Some(61)), "the file holds another number");
        assert!(!Account { lost_ring: 29, ..account }.is_exact(100, 100, None), "one has gone nowhere");
        assert!(!Account { offered: None, ..account }.is_exact(100, 100, None));
    }
}
