//! The account of a run as text.

use crate::account::{HostAccount, RunAccount, RunVerdict, StartAccount};
use crate::flow_account::FlowAccount;
use crate::message::RunEnd;
use crate::seconds::SecondAccount;
use report::Meaning;
use report::human::{human_count, human_duration, human_pps};
use std::fmt;

/// Flows in the text; the others are in JSON.
const FLOWS_SHOWN: usize = 32;

impl fmt::Display for RunAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = self.hosts.iter().filter(|host| host.is_whole).count();
        let verdict = match self.verdict {
            RunVerdict::Whole => "whole",
            RunVerdict::Partial => "PARTIAL",
            RunVerdict::NotStarted => "NOT STARTED",
        };
        writeln!(f, "run {}: {verdict}, {whole} of {} hosts ran to the end", self.run, self.hosts.len())?;
        let line = |name: &str, value: &dyn fmt::Display| format!("  {name:<10} {value}");
        let mut row = |name: &str, value: &dyn fmt::Display| writeln!(f, "{}", line(name, value));
        if self.verdict == RunVerdict::NotStarted {
            return self.hosts.iter().try_for_each(|host| row("host", &HostText(host, 0)));
        }
        row("sent", &self.sent)?;
        row("received", &self.received)?;
        let lost = Meaning::of_loss(self.lost.max.unwrap_or(self.lost.min));
        lost.write_line(f, &line("lost", &self.lost))?;
        let mut row = |name: &str, value: &dyn fmt::Display| writeln!(f, "{}", line(name, value));
        let sum = |of: fn(&FlowAccount) -> Option<u64>| {
            self.flows.iter().filter_map(of).fold(0_u64, u64::saturating_add)
        };
        for (name, count) in [
            ("rejected", sum(|flow| flow.errors)),
            ("duplicate", sum(|flow| flow.duplicate)),
            ("reordered", sum(|flow| flow.reordered)),
        ] {
            if count > 0 {
                row(name, &human_count(count))?;
            }
        }
        for (fact, count) in self.other_frames.present().chain(self.unusual_frames.present()) {
            let count = human_count(count);
            row(&fact.title(), &format!("{count:<14} {}", fact.remark()))?;
        }
        if let Some(latency) = &self.latency {
            let at = |wanted: f64| latency.percentiles.iter().find(|(percentile, _)| *percentile == wanted);
            let at = |wanted: f64| human_duration(at(wanted).map_or(0, |(_, ns)| *ns));
            let complete = if latency.is_complete { "" } else { ", as far as known" };
            let text = format!(
                "p50 {}, p99 {}, p99.9 {}, max {} of {} frames{complete}",
                at(50.0),
                at(99.0),
                at(99.9),
                human_duration(latency.max_ns),
                human_count(latency.stamped)
            );
            row("latency", &text)?;
        }
        row("start", &self.start)?;
        if let Some(text) = per_second(&self.seconds) {
            row("per second", &text)?;
        }
        for flow in self.flows.iter().take(FLOWS_SHOWN) {
            let FlowAccount { name, from, to, sent_bounds, received_bounds, lost_bounds, .. } = flow;
            let rate = flow.rate.map(|rate| (human_pps(rate.reached_pps), human_pps(rate.asked_pps)));
            let rate = rate.map(|(reached, asked)| format!(", {reached} of {asked}")).unwrap_or_default();
            let text = format!(
                "{name}, {from} to {to}: sent {sent_bounds}, received {received_bounds}, lost \
                 {lost_bounds}{rate}"
            );
            row("flow", &text)?;
        }
        if let Some(rest) = self.flows.len().checked_sub(FLOWS_SHOWN).filter(|rest| *rest > 0) {
            row("", &format!("{rest} more flows (--json has all)"))?;
        }
        for host in self.hosts.iter().filter(|host| !host.is_whole || host.end == Some(RunEnd::Stopped)) {
            row("host", &HostText(host, self.start.start_at_ns))?;
        }
        self.notes.iter().try_for_each(|note| Meaning::Advice.write_line(f, &line("note", note)))
    }
}

/// The slowest and the fastest second. The last one is left out: it may be a part of a second.
pub(crate) fn per_second(seconds: &[SecondAccount]) -> Option<String> {
    let whole = seconds.split_last()?.1;
    let range = |of: fn(&SecondAccount) -> Option<u64>| {
        let known: Vec<u64> = whole.iter().filter_map(of).collect();
        let Some((min, max)) = known.iter().min().zip(known.iter().max()) else {
            return "unknown".to_owned();
        };
        let range = format!("{} to {}", human_count(*min), human_count(*max));
        match whole.len() - known.len() {
            0 => range,
            unknown => format!("{range} ({unknown} of {} seconds unknown)", whole.len()),
        }
    };
    (whole.len() > 1).then(|| {
        format!("sent {}, received {}", range(|second| second.sent), range(|second| second.received))
    })
}

impl fmt::Display for StartAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.spread_ns {
            Some(spread) => write!(f, "within {} by the hosts' own clocks; ", human_duration(spread))?,
            None => write!(f, "no sender has reported its first frame; ")?,
        }
        match self.clocks_ns {
            Some(0) => write!(f, "they share a clock"),
            Some(ns) => write!(f, "their clocks agree within {}", human_duration(ns)),
            None => write!(f, "how far their clocks agree is unknown: they are not synchronized"),
        }
    }
}

/// What became of a host that is not whole.
struct HostText<'a>(&'a HostAccount, u64);

impl fmt::Display for HostText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let HostText(account, start_at_ns) = self;
        let HostAccount { host, end, why, last_number, last_time_ns, .. } = account;
        write!(f, "{host}: ")?;
        let why = why.as_ref().map(|why| format!(", {why}")).unwrap_or_default();
        match (end, last_time_ns) {
            (Some(end @ (RunEnd::Done | RunEnd::Stopped)), _) => {
                write!(f, "{}{why}; its counts are complete", end.name())
            }
            (Some(end), time_ns) => {
                let after = human_duration(time_ns.unwrap_or(0).saturating_sub(*start_at_ns));
                write!(f, "{} {after} after the start{why}; its counts are complete until then", end.name())
            }
            (None, Some(time_ns)) => {
                let after = human_duration(time_ns.saturating_sub(*start_at_ns));
                write!(
                    f,
                    "lost{why}; last report {last_number}, {after} after the start: its counts are lower bounds"
                )
            }
            (None, None) if why.is_empty() => write!(f, "it never reported"),
            (None, None) => f.write_str(why.trim_start_matches(", ")),
        }
    }
}
