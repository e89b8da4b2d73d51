//! The page of results (`lab/bench/RESULTS.md`): rows of JSON to Markdown.
//!
//! Its first table has a line per measurement, with the best of wirerate beside the best of the
//! other tools, and names the faster side. `sections` has the tables after it.

use crate::figures::Figure;
use crate::gaps::GapStats;
use crate::known::{BenchRow, CaseKey, Entries, Known, date, is_of_machine, is_ours, thousands, time, title};
use crate::sections;
use crate::stats::Estimate;
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Its rows, beside the page.
const MACHINES: &str = "vm.jsonl";
/// The capture that drops frames in the driver.
const DROP_MODE: &str = "wirerate";
/// A mean that is further off than this does not keep its pace.
const KEEPS_PACE: f64 = 0.01;
/// Times that differ by less are the same.
const SAME: f64 = 1.1;

/// Arguments of the command `results`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Files of rows; of what two of them say, the later one counts
    #[arg(required = true)]
    rows: Vec<PathBuf>,
    /// Folder for RESULTS.md, its figures and its rows
    #[arg(long, value_name = "DIR", default_value = "lab/bench")]
    to: PathBuf,
}

/// A line of the first table.
struct SummaryLine {
    what: String,
    ours: String,
    peer: String,
    verdict: String,
}

/// The lines of a cell. Only tools that do the same work are compared.
fn rate_lines(cell: &CaseKey, entries: &Entries) -> Vec<SummaryLine> {
    // Emulated processors are a thousand times slower.
    let (unit, unit_name) = if is_of_machine(&cell.0) { (1e3, "kpps") } else { (1e6, "Mpps") };
    let words = |(name, rate): (&str, Estimate)| format!("{} {unit_name} ({name})", rate.text(unit));
    let is_capture = cell.0.starts_with("capture");
    let does_the_same = |name: &str| match cell.0.as_str() {
        "work" => name.ends_with("/rich"),
        // No other tool has a drop mode.
        _ if is_capture => name != DROP_MODE,
        _ => true,
    };
    let mut lines = Vec::new();
    let ours = best(entries, |name| is_ours(name) && does_the_same(name));
    let peer = best(entries, |name| !is_ours(name) && !is_other(name) && does_the_same(name));
    let what = title(cell);
    if let Some((ours, peer)) = ours.zip(peer) {
        let quotient = ours.1.median / peer.1.median.max(1.0);
        let quotient = Estimate { median: quotient, spread: 0.0, count: 1 };
        let ratio = entries[ours.0].ratios.get(peer.0).copied().unwrap_or(quotient);
        let what = if is_capture { format!("{what}, mirror") } else { what.clone() };
        lines.push(SummaryLine { what, ours: words(ours), peer: words(peer), verdict: verdict(ratio) });
    }
    if let Some(drop) = best(entries, |name| is_capture && name == DROP_MODE) {
        let (what, peer) = (format!("{what}, drop"), "no peer has a drop mode".to_owned());
        lines.push(SummaryLine { what, ours: words(drop), peer, verdict: String::new() });
    }
    lines
}

/// Reads rows and writes the page, its figures and the rows that it was made of.
pub(crate) fn run(args: &Args) -> Result<()> {
    write(&args.rows, &args.to)
}

/// Makes the page of these files in that folder.
pub(crate) fn write(rows: &[PathBuf], to: &Path) -> Result<()> {
    let mut text = String::new();
    for path in rows {
        text += &fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    }
    // What `make vm` measured goes onto the page as well; it is made apart from the rest.
    let machines = match fs::read_to_string(to.join(MACHINES)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        read => read.with_context(|| format!("cannot read {}", to.join(MACHINES).display()))?,
    };
    let (markdown, figures) = page(&(machines + &text))?;
    let folder = to.join("figures");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    for figure in &figures {
        for (name, svg) in figure.draw()? {
            put(&folder.join(name), &svg)?;
        }
    }
    put(&to.join("RESULTS.jsonl"), &text)?;
    put(&to.join("RESULTS.md"), &markdown)
}

fn put(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// The page and its figures.
fn page(rows: &str) -> Result<(String, Vec<Figure>)> {
    let known = Known::of(rows)?;
    let mut text = head(&known)?;
    text += "## In short\n\nThe best of wirerate and the best of the other tools, both doing the same\nwork, and their \
             ratio with its spread. Rows in which wirerate loses are marked.\n\n| what | wirerate | best peer | |\n|---|---|---|---|\n";
    for SummaryLine { what, ours, peer, verdict } in
        known.rates().into_iter().chain(known.paces()).chain(known.prompts())
    {
        let verdict = if verdict.is_empty() { verdict } else { verdict + " " };
        writeln!(text, "| {what} | {ours} | {peer} | {verdict}|")?;
    }
    text.push('\n');
    let figures = sections::write(&known, &mut text)?;
    Ok((text, figures))
}

/// What was measured, where and how.
fn head(known: &Known) -> Result<String> {
    let host = known.rows.iter().rev().find(|row| row.row == "host").context("no machine")?;
    let mut text = "# Where wirerate stands\n\nMade by `make bench` from rows of JSON ([RESULTS.jsonl](RESULTS.jsonl)), \
                    not by hand.\nHow it is measured: [docs/bench.md](../../docs/bench.md).\n\n| | |\n|---|---|\n"
        .to_owned();
    let list = |words: &[String]| match words {
        [] => "none".to_owned(),
        words => words.join("; "),
    };
    let loads: Vec<String> = known.of_kind("host").map(|row| format!("{:.1}", row.load)).collect();
    let steal = known.of_kind("end").map(|row| row.steal).fold(0.0, f64::max) * 100.0;
    let facts = [
        ("when", format!("{} UTC, size {}", date(host.time_s), host.size)),
        ("machine", format!("{}, CPUs {}", host.cpu, host.cpus.as_str().unwrap_or("?"))),
        ("kernel", host.kernel.clone()),
        ("program", host.version.clone()),
        ("governor", list(host.governor.as_slice())),
        ("IOMMU", if host.iommu { "yes".to_owned() } else { list(&[]) }),
        ("mitigations", list(&host.mitigations)),
        ("device", "veth, four queues, XDP_DROP at the receiver; captures have rings of 4 MiB".to_owned()),
        ("load before", format!("{} (one number per run of the bench)", loads.join(", "))),
        ("stolen", format!("{steal:.1} % of the time of all CPUs, by the hypervisor, at most")),
    ];
    for (name, fact) in facts.iter().filter(|(_, fact)| !fact.is_empty()) {
        writeln!(text, "| {name} | {fact} |")?;
    }
    text.push('\n');
    Ok(text)
}

/// True for a build of wirerate that is only compared with.
fn is_other(tool: &str) -> bool {
    tool.starts_with("against")
}

fn best(entries: &Entries, is_in: impl Fn(&str) -> bool) -> Option<(&str, Estimate)> {
    let rates = entries.iter().filter(|(name, _)| is_in(name));
    let rates = rates.filter_map(|(name, entry)| Some((name.as_str(), entry.rate?)));
    rates.max_by(|a, b| a.1.median.total_cmp(&b.1.median))
}

impl Known {
    fn rates(&self) -> Vec<SummaryLine> {
        let (machines, here): (Vec<_>, Vec<_>) = self
            .cells_of(|case| case != "noise")
            .into_iter()
            .partition(|((case, ..), _)| is_of_machine(case));
        here.into_iter().chain(machines).flat_map(|(cell, entries)| rate_lines(cell, entries)).collect()
    }

    /// Of those who keep a pace, whose gaps are closest to what was asked.
    fn paces(&self) -> Vec<SummaryLine> {
        let rates: BTreeSet<u64> = self.of_kind("paced").map(|row| row.asked_pps as u64).collect();
        let line = |rate: u64| {
            let of = |ours: bool| {
                let rows = self.of_kind("paced").filter(|row| row.asked_pps as u64 == rate);
                let rows = rows.filter(|row| row.deviation.abs() < KEEPS_PACE && is_ours(&row.tool) == ours);
                rows.filter_map(|row| Some((row, row.gaps?))).min_by_key(|(_, gaps)| gaps.off_mean_ns)
            };
            let words = |(row, gaps): (&BenchRow, GapStats)| {
                let off = time(gaps.off_mean_ns as f64);
                format!("{:+.3} %, gaps off by {off} ({})", row.deviation * 100.0, row.tool)
            };
            let us = of(true)?;
            let what = format!("keep {} frames per second", thousands(rate as f64));
            let Some(them) = of(false) else {
                let peer = "none within 1 %".to_owned();
                return Some(SummaryLine {
                    what,
                    ours: words(us),
                    peer,
                    verdict: "only wirerate".to_owned(),
                });
            };
            let verdict = match us.1.off_mean_ns as f64 / them.1.off_mean_ns.max(1) as f64 {
                ratio if ratio > SAME => format!("**behind**: {ratio:.2} x as far off"),
                ratio if ratio > 1.0 / SAME => "even".to_owned(),
                ratio => format!("{:.2} x closer", 1.0 / ratio),
            };
            Some(SummaryLine { what, ours: words(us), peer: words(them), verdict })
        };
        rates.into_iter().filter_map(line).collect()
    }

    fn prompts(&self) -> Vec<SummaryLine> {
        let of = |value, ours: bool| {
            let rows = self.results(value).filter(move |row| is_ours(&row.tool) == ours);
            rows.min_by(|a, b| a.median.total_cmp(&b.median))
        };
        let line = |(value, what): (&'static str, &str)| {
            let (us, peer) = of(value, true).zip(of(value, false))?;
            let words = |row: &BenchRow| format!("{} ms ({})", row.estimate().text(1e6), row.tool);
            let verdict = match us.median / peer.median.max(1.0) {
                ratio if ratio > SAME => format!("**behind**: {ratio:.1} x as long"),
                ratio if ratio > 1.0 / SAME => "even".to_owned(),
                ratio => format!("{:.1} x sooner", 1.0 / ratio),
            };
            Some(SummaryLine { what: what.to_owned(), ours: words(us), peer: words(peer), verdict })
        };
        let values = [("start_ns", "first frame after the start"), ("stop_ns", "last frame after Ctrl-C")];
        values.into_iter().filter_map(line).collect()
    }
}

fn verdict(ratio: Estimate) -> String {
    let text = ratio.text(1.0);
    match ratio {
        Estimate { median, spread, .. } if median + spread < 1.0 => format!("**behind**: {text} x"),
        Estimate { median, spread, .. } if median - spread <= 1.0 => format!("even: {text} x"),
        _ => format!("{text} x"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: &str = r#"{"row":"host","time_s":1795313700,"size":"quick","cpu":"Xeon","cpus":"0-1","kernel":"Linux 6.18","load":0.1}
{"row":"result","case":"noise","tool":"xdp","value":"rate_ratio","against":"xdp","median":1.01,"spread":0.02,"rounds":5,"goal":null,"frame_len":60,"cpus":1}
{"row":"result","case":"plain","tool":"xdp","value":"rate_pps","against":null,"median":17.2e6,"spread":1e5,"frame_len":60,"cpus":1}
{"row":"result","case":"plain","tool":"trafgen","value":"rate_pps","against":null,"median":1.8e6,"spread":1e5,"frame_len":60,"cpus":1}
{"row":"result","case":"plain","tool":"xdp","value":"rate_ratio","against":"trafgen","median":9.6,"spread":0.4,"frame_len":60,"cpus":1}
{"row":"result","case":"work","tool":"xdp/rich","value":"rate_pps","median":1e6,"spread":1e4,"frame_len":60,"cpus":1}
{"row":"result","case":"work","tool":"trafgen/rich","value":"rate_pps","median":2e6,"spread":1e4,"frame_len":60,"cpus":1}
{"row":"result","case":"work","tool":"xdp/rich","value":"rate_ratio","against":"trafgen/rich","median":0.5,"spread":0.1,"frame_len":60,"cpus":1}
{"row":"paced","case":"pacing","tool":"xdp","asked_pps":1000,"rate_pps":1000.0,"deviation":0.0001,"gaps":{"p50_ns":1000000,"p99_ns":1500000,"p999_ns":1600000,"max_ns":1700000,"off_mean_ns":500000}}
{"row":"paced","case":"pacing","tool":"tcpreplay","asked_pps":1000,"rate_pps":999.0,"deviation":-0.001,"gaps":{"p50_ns":1000000,"p99_ns":1010000,"p999_ns":1600000,"max_ns":1700000,"off_mean_ns":250000}}
{"row":"paced","case":"pacing","tool":"mausezahn","asked_pps":1000,"rate_pps":800.0,"deviation":-0.2,"gaps":null}
{"row":"result","case":"prompt","tool":"xdp","value":"start_ns","median":150e6,"spread":5e6}
{"row":"result","case":"prompt","tool":"trafgen","value":"start_ns","median":20e6,"spread":5e6}
{"row":"result","case":"prompt","tool":"xdp","value":"stop_ns","median":1e6,"spread":1e5}
{"row":"result","case":"prompt","tool":"trafgen","value":"stop_ns","median":2e6,"spread":1e5}
{"row":"count","case":"prompt","tool":"trafgen","asked":1000,"received":1001}
{"row":"grown","case":"growth","tool":"xdp","what":"seconds","value":6.0,"rate_pps":17e6,"cpu_ns_per_frame":58.0,"memory_bytes":20000000}
{"row":"result","case":"capture into /dev/null","tool":"wirerate","value":"rate_pps","median":11e6,"spread":1e5}
{"row":"result","case":"capture into /dev/null","tool":"wirerate-mirror","value":"rate_pps","median":6e6,"spread":1e5}
{"row":"result","case":"capture into /dev/null","tool":"tcpdump","value":"rate_pps","median":4e6,"spread":1e5}
{"row":"search","case":"capture into /dev/null","tool":"wirerate","lossless_pps":11e6,"at_limit":true}
{"row":"loss","case":"losses","tool":"tcpdump","factor":1.5,"arrived_pps":6e6,"lost":2000000,"told_lost":0,"is_true":false}
{"row":"machines","time_s":1795313700}
{"row":"result","case":"vm newest igb","tool":"af_xdp --clone 9","value":"rate_pps","median":9e5,"spread":1e4}
{"row":"result","case":"vm newest igb","tool":"xdp","value":"rate_pps","median":2e5,"spread":1e4}
{"row":"result","case":"vm newest igb","tool":"pktgen burst 32 clone_skb 100000","value":"rate_pps","median":4.5e5,"spread":2e4}
{"row":"result","case":"vm newest igb","tool":"af_xdp --clone 9","value":"rate_ratio","against":"pktgen burst 32 clone_skb 100000","median":2.0,"spread":0.1}
{"row":"throughput","case":"throughput","tool":"search/quick","truth_pps":20100.0,"lower_pps":20050.0,"upper_pps":20140.0,"trials":9,"seconds":10.25}
{"row":"left_out","case":"work","tool":"skb/ipsec","why":"this kernel has no ESP"}
{"row":"end","busy":0.5,"steal":0.01}
"#;

    #[test]
    fn the_page_says_what_the_rows_say_and_who_is_behind() {
        let (page, figures) = page(ROWS).expect("they are rows");
        for line in [
            "| when | 2026-11-22 02:15 UTC, size quick |",
            "| load before | 0.1 (one number per run of the bench) |",
            "| stolen | 1.0 % of",
            "| send, 60 bytes, one CPU | 17.2 ± 0.1 Mpps (xdp) | 1.80 ± 0.10 Mpps (trafgen) | 9.60 ± 0.40 x |",
            "| send ranges + checksums, 60 bytes, one CPU | 1.00 ± 0.01 Mpps (xdp/rich) | 2.00 ± 0.01 Mpps (trafgen/rich) | **behind**: 0.50 ± 0.10 x |",
            "| keep 1,000 frames per second | +0.010 %, gaps off by 500.00 µs (xdp) | -0.100 %, gaps off by 250.00 µs (tcpreplay) | **behind**: 2.00 x as far off |",
            "| first frame after the start | 150 ± 5 ms (xdp) | 20.0 ± 5.0 ms (trafgen) | **behind**: 7.5 x as long |",
            "| last frame after Ctrl-C | 1.00 ± 0.10 ms (xdp) | 2.00 ± 0.10 ms (trafgen) | 2.0 x sooner |",
            "xdp against itself: 1.01 ± 0.02 x",
            "| 1,000 | mausezahn | out of reach: 800 |",
            "| trafgen | 20.0 ± 5.0 | 2.00 ± 0.10 | **1,000: 1,001** |",
            "| 6 seconds | 17.00 | 58.0 | 20.0 |",
            "> 11.0 ± 0.1",
            "| capture into /dev/null, mirror | 6.00 ± 0.10 Mpps (wirerate-mirror) | 4.00 ± 0.10 Mpps (tcpdump) | 1.50 x |",
            "| capture into /dev/null, drop | 11.0 ± 0.1 Mpps (wirerate) | no peer has a drop mode | |",
            "| tcpdump | 1.5 | 6.00 | 2,000,000 | 0 | **not true** |",
            "| search/quick | 10.2 | 9 | 20,050 | 20,140 | 20,100 | -0.25 % |",
            "skb/ipsec (this kernel has no ESP)",
            "| send in a machine: newest igb | 900 ± 10 kpps (af_xdp --clone 9) | 450 ± 20 kpps (pktgen burst 32 clone_skb 100000) | 2.00 ± 0.10 x |",
            "(2026-11-22 02:15 UTC)",
            "| newest igb | xdp | 200 ± 10 | |",
            "| newest igb | af_xdp --clone 9 | 900 ± 10 | 2.00 ± 0.10 |",
        ] {
            assert!(page.contains(line), "no {line:?} in:\n{page}");
        }
        let names: Vec<&str> = figures.iter().map(|figure| figure.name).collect();
        assert_eq!(names, ["generate", "pace", "capture"]);
        assert!(names.iter().all(|name| page.contains(&format!("figures/{name}-light.svg"))));
    }

    #[test]
    fn rows_of_machines_beside_the_page_are_on_it() {
        let folder = testkit::Folder::new("machines");
        let (rows, machines) = (folder.join("rows"), folder.join(MACHINES));
        fs::write(&rows, "{\"row\":\"host\"}\n").expect("a file");
        let page = || {
            write(std::slice::from_ref(&rows), &folder).expect("they are rows");
            fs::read_to_string(folder.join("RESULTS.md")).expect("there is a page")
        };
        let without = page();
        let row = "{\"row\":\"result\",\"case\":\"vm newest veth\",\"tool\":\"xdp\",\"value\":\"rate_pps\",\"median\":1e6}\n";
        fs::write(&machines, row).expect("a file");
        let with = page();
        assert!(!without.contains("pktgen") && with.contains("| newest veth | xdp | 1000 "), "{with}");
    }

    #[test]
    fn what_is_no_row_is_refused_with_its_line() {
        let error = page("{\"row\":\"host\"}\n{").expect_err("it is no row");
        assert!(error.to_string().starts_with("line 2 "), "{error}");
        assert!(page("{}").expect_err("no machine").to_string().contains("host"));
    }
}
