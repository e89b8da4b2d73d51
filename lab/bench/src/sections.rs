//! The sections of the page of results, one function each. What was not measured has no section.

use crate::figures::{ChartKind, Figure};
use crate::generators::STREAMS;
use crate::known::{
    BenchRow, Entries, Known, ToolNumbers, date, is_of_machine, is_ours, thousands, time, title,
};
use crate::stats::Estimate;
use anyhow::Result;
use std::collections::BTreeSet;
use std::fmt::Write;

/// A tool that is further below its pace than this cannot reach it.
const OUT_OF_REACH: f64 = -0.05;

/// Writes all of them and returns their figures.
pub(crate) fn write(known: &Known, text: &mut String) -> Result<Vec<Figure>> {
    noise(known, text)?;
    let mut figures = Vec::new();
    figures.extend(plain(known, text)?);
    work(known, text)?;
    packets(known, text)?;
    watched(known, text)?;
    figures.extend(pace(known, text)?);
    prompt(known, text)?;
    throughput(known, text)?;
    figures.extend(captures(known, text)?);
    read_files(known, text)?;
    machines(known, text)?;
    growth(known, text)?;
    left_out(known, text)?;
    Ok(figures)
}

fn noise(known: &Known, text: &mut String) -> Result<()> {
    for (_, entries) in known.cells_of(|case| case == "noise") {
        for (tool, entry) in entries {
            for ratio in entry.ratios.values() {
                let ratio = ratio.text(1.0);
                writeln!(
                    text,
                    "The noise: {tool} against itself: {ratio} x. Smaller differences mean nothing.\n"
                )?;
            }
        }
    }
    Ok(())
}

fn text_of(value: Option<Estimate>, unit: f64) -> String {
    value.map_or(String::new(), |value| value.text(unit))
}

/// Fastest first.
fn sorted(entries: &Entries) -> Vec<(&String, &ToolNumbers)> {
    let mut entries: Vec<_> = entries.iter().filter(|(_, entry)| entry.rate.is_some()).collect();
    entries.sort_by(|a, b| median(b.1).total_cmp(&median(a.1)));
    entries
}

fn median(entry: &ToolNumbers) -> f64 {
    entry.rate.map_or(0.0, |rate| rate.median)
}

/// Mpps, for a figure.
fn mpps(entries: &Entries, tool: &str) -> Option<f32> {
    Some((entries.get(tool)?.rate?.median / 1e6) as f32)
}

/// The name of a tool in a figure, where no text beside it says which tools are ours.
fn figure_label(tool: &str) -> String {
    match tool {
        "wirerate" => "wirerate, drop mode".to_owned(),
        "wirerate-mirror" => "wirerate, mirror mode".to_owned(),
        "wirerate-tpacket" => "wirerate, packet sockets".to_owned(),
        tool if is_ours(tool) => format!("wirerate, {tool}"),
        tool => tool.to_owned(),
    }
}

/// True if in most rounds no higher rate could be offered, so that the limit of the tool is higher.
fn is_lower_bound(known: &Known, case: &str, tool: &str) -> bool {
    let searches = known.of_kind("search").filter(|row| row.case == case && row.tool == tool);
    let limited = searches.clone().filter(|row| row.at_limit).count();
    2 * limited > searches.count()
}

/// Bars of some cells, sorted by the first of them.
fn bars(
    name: &'static str,
    figure_title: &'static str,
    cells: &[(String, &Entries)],
    label: impl Fn(&str) -> String,
    text: &mut String,
) -> Option<Figure> {
    let (_, first) = cells.first()?;
    let tools: BTreeSet<&String> = cells.iter().flat_map(|(_, entries)| entries.keys()).collect();
    let mut tools: Vec<&String> = tools.into_iter().collect();
    let rate = |tool: &str| mpps(first, tool).unwrap_or(0.0);
    tools.sort_by(|a, b| rate(a).total_cmp(&rate(b)));
    let values = cells
        .iter()
        .map(|(name, entries)| (name.clone(), tools.iter().map(|tool| mpps(entries, tool)).collect()))
        .collect();
    let labels = tools.into_iter().map(|tool| label(tool)).collect();
    let figure = Figure { kind: ChartKind::Bars, name, title: figure_title, labels, values };
    *text += &figure.markdown();
    Some(figure)
}

fn plain(known: &Known, text: &mut String) -> Result<Option<Figure>> {
    let cells = known.cells_of(|case| case == "plain");
    if cells.is_empty() {
        return Ok(None);
    }
    *text += "## Generators: constant frames\n\n";
    let shortest: Vec<(String, &Entries)> = cells
        .iter()
        .filter(|((_, frame_len, _), _)| *frame_len == 60)
        .map(|((.., cpus), entries)| {
            let name = if *cpus == 1 { "one CPU".to_owned() } else { format!("{cpus} CPUs") };
            (name, *entries)
        })
        .collect();
    let figure_title = "60-byte frames, millions per second at the receiver";
    let figure = bars("generate", figure_title, &shortest, figure_label, text);
    for (cell, entries) in &cells {
        let entries = sorted(entries);
        let Some((first, ours)) = entries.iter().find(|(name, _)| is_ours(name)) else { continue };
        writeln!(
            text,
            "{}:\n\n| tool | Mpps | CPU ns per frame | {first} is |\n|---|---|---|---|",
            title(cell)
        )?;
        for (name, entry) in &entries {
            let ratio = ours.ratios.get(*name).map_or(String::new(), |ratio| ratio.text(1.0) + " x");
            let (rate, cost) = (text_of(entry.rate, 1e6), text_of(entry.cost, 1.0));
            writeln!(text, "| {name} | {rate} | {cost} | {ratio} |")?;
        }
        text.push('\n');
    }
    Ok(figure)
}

fn work(known: &Known, text: &mut String) -> Result<()> {
    let cells = known.cells_of(|case| case == "work");
    if cells.is_empty() {
        return Ok(());
    }
    *text += "## Generators: changing frames\n\n`rich`: an address and ports that count, checksums, timestamps.\n`imix`: \
              60, 594 and 1514 bytes, 7:4:1. \"of xdp\": ratio to the plain rate.\n\n";
    for ((_, frame_len, _), entries) in cells {
        writeln!(text, "{frame_len} bytes, one CPU:\n")?;
        *text += "| tool | Mpps | CPU ns per frame | of xdp | of trafgen/rich |\n|---|---|---|---|---|\n";
        for (name, entry) in sorted(entries) {
            let ratio = |against: &str| text_of(entry.ratios.get(against).copied(), 1.0);
            let (rate, cost) = (text_of(entry.rate, 1e6), text_of(entry.cost, 1.0));
            writeln!(text, "| {name} | {rate} | {cost} | {} | {} |", ratio("xdp"), ratio("trafgen/rich"))?;
        }
        text.push('\n');
    }
    Ok(())
}

fn packets(known: &Known, text: &mut String) -> Result<()> {
    let cells = known.cells_of(|case| case == "frames");
    if cells.is_empty() {
        return Ok(());
    }
    *text += "## Generators: packets in trafgen's language\n\n`syn`: TCP from random addresses and ports. `vxlan`: UDP in VXLAN, \
              104 bytes. `fields`: 16 fields\nthat count. All with their checksums. `static`, `dynamic`, `checksummed`: \
              the same text for trafgen.\n\"of plain\": ratio to the plain rate of the engine.\n\n";
    for ((_, frame_len, _), entries) in cells {
        writeln!(text, "{frame_len} bytes, one CPU:\n")?;
        *text += "| tool | Mpps | CPU ns per frame | of plain | of trafgen |\n|---|---|---|---|---|\n";
        for (name, entry) in sorted(entries) {
            let ratio = |against: &str| text_of(entry.ratios.get(against).copied(), 1.0);
            let (rate, cost) = (text_of(entry.rate, 1e6), text_of(entry.cost, 1.0));
            let plain = if name == STREAMS { "xdp" } else { name };
            let (tool, work) = name.split_once('/').unwrap_or((plain, ""));
            let (plain, same) = (ratio(tool), ratio(&format!("trafgen/{work}")));
            writeln!(text, "| {name} | {rate} | {cost} | {plain} | {same} |")?;
        }
        text.push('\n');
    }
    Ok(())
}

fn watched(known: &Known, text: &mut String) -> Result<()> {
    let cells = known.cells_of(|case| case == "watched");
    if cells.is_empty() {
        return Ok(());
    }
    *text += "## Generators: watched\n\n`xdp-tui`: `--tui` on a terminal. `xdp-web`: `--web` with one open page.\n\
              `xdp-metrics`: `--metrics`, scraped four times a second. All have the CPU of the sender only.\n\n| tool | Mpps | CPU ns per frame | of xdp |\n|---|---|---|---|\n";
    for (_, entries) in cells {
        for (name, entry) in sorted(entries) {
            let ratio = text_of(entry.ratios.get("xdp").copied(), 1.0);
            let (rate, cost) = (text_of(entry.rate, 1e6), text_of(entry.cost, 1.0));
            writeln!(text, "| {name} | {rate} | {cost} | {ratio} |")?;
        }
    }
    text.push('\n');
    Ok(())
}

fn pace(known: &Known, text: &mut String) -> Result<Option<Figure>> {
    let paced: Vec<&BenchRow> = known.of_kind("paced").collect();
    if paced.is_empty() {
        return Ok(None);
    }
    *text += "## Pace\n\nMean rate and gaps at the receiver, by the kernel's timestamps. Last column: mean distance \
              of the\ngaps from the requested gap.\n\n\
              | requested per second | tool | off by | p50 gap | p99 | p99.9 | longest | gaps off |\n|---|---|---|---|---|---|---|---|\n";
    for row in &paced {
        let off = match row.deviation {
            off if off < OUT_OF_REACH => format!("out of reach: {}", thousands(row.rate_pps)),
            off => format!("{:+.4} %", off * 100.0),
        };
        let gaps = row.gaps.map_or("not seen | | | |".to_owned(), |gaps| {
            let times = [gaps.p50_ns, gaps.p99_ns, gaps.p999_ns, gaps.max_ns, gaps.off_mean_ns];
            times.map(|ns| time(ns as f64)).join(" | ")
        });
        writeln!(text, "| {} | {} | {off} | {gaps} |", thousands(row.asked_pps), row.tool)?;
    }
    text.push('\n');
    let rates: BTreeSet<u64> = paced.iter().map(|row| row.asked_pps as u64).collect();
    let tools: BTreeSet<&str> = paced.iter().map(|row| row.tool.as_str()).collect();
    let off_us = |tool: &str, rate: u64| {
        let row = paced.iter().find(|row| row.tool == tool && row.asked_pps as u64 == rate)?;
        let gaps = row.gaps.filter(|_| row.deviation >= OUT_OF_REACH)?;
        Some(gaps.off_mean_ns.max(1) as f32 / 1e3)
    };
    let line =
        |tool: &&str| (figure_label(tool), rates.iter().map(|rate| off_us(tool, *rate)).collect::<Vec<_>>());
    let mut values: Vec<_> = tools.iter().map(line).collect();
    values.retain(|(_, values)| values.iter().any(Option::is_some));
    values
        .push(("the requested gap".to_owned(), rates.iter().map(|rate| Some(1e6 / *rate as f32)).collect()));
    let figure = Figure {
        kind: ChartKind::Lines,
        name: "pace",
        title: "Mean error of gaps in µs (upwards), by frames per second",
        labels: rates.iter().map(|rate| thousands(*rate as f64)).collect(),
        values,
    };
    *text += &figure.markdown();
    Ok(Some(figure))
}

fn prompt(known: &Known, text: &mut String) -> Result<()> {
    if known.results("start_ns").next().is_none() {
        return Ok(());
    }
    *text += "## Start, stop, count\n\nFrom the start of the program (`files`: from `start` in the control files) to the first frame\n\
              at the receiver; from Ctrl-C at full speed to the last.\n\n\
              | tool | ms to the first | ms to the last | requested |\n|---|---|---|---|\n";
    for start in known.results("start_ns") {
        let tool = &start.tool;
        let stop = known.results("stop_ns").find(|row| row.tool == *tool).map(BenchRow::estimate);
        let count = |row: &BenchRow| match row.asked == row.received {
            true => format!("{}: exact", thousands(row.asked as f64)),
            false => format!("**{}: {}**", thousands(row.asked as f64), thousands(row.received as f64)),
        };
        let counts: Vec<String> = known.of_kind("count").filter(|row| row.tool == *tool).map(count).collect();
        let (start, stop) = (start.estimate().text(1e6), text_of(stop, 1e6));
        writeln!(text, "| {tool} | {start} | {stop} | {} |", counts.join(", "))?;
    }
    text.push('\n');
    Ok(())
}

fn throughput(known: &Known, text: &mut String) -> Result<()> {
    let rows: Vec<&BenchRow> = known.of_kind("throughput").collect();
    if rows.is_empty() {
        return Ok(());
    }
    *text += "## Throughput searches\n\nOf a token bucket with a known limit, through XDP on a veth pair. MLRsearch is the package\n\
              on PyPI, with `wirerate measure` for its trials; `/` is followed by the goal. The plain binary\n\
              search has trials of 10 s. Error: the lower bound against the truth.\n\n\
              | tool | seconds | trials | lower bound | upper bound | truth | error |\n|---|---|---|---|---|---|---|\n";
    for row in rows {
        let bound = |bound: Option<f64>| bound.map_or("unknown".to_owned(), thousands);
        let error = row
            .lower_pps
            .map_or(String::new(), |lower| format!("{:+.2} %", (lower / row.truth_pps - 1.0) * 100.0));
        writeln!(
            text,
            "| {} | {:.1} | {} | {} | {} | {} | {error} |",
            row.tool,
            row.seconds,
            row.trials,
            bound(row.lower_pps),
            bound(row.upper_pps),
            thousands(row.truth_pps)
        )?;
    }
    text.push('\n');
    Ok(())
}

fn captures(known: &Known, text: &mut String) -> Result<Option<Figure>> {
    let cells = known.cells_of(|case| case.starts_with("capture"));
    if cells.is_empty() {
        return Ok(None);
    }
    let rated = |(_, entries): &(_, &Entries)| {
        sorted(entries).into_iter().map(|(name, _)| name.clone()).collect::<Vec<_>>()
    };
    let tools: BTreeSet<String> = cells.iter().flat_map(rated).collect();
    *text += "## Captures\n\nThe highest rate without loss, in Mpps. `>`: in most rounds no more could be offered, so the\n\
              limit of the tool is higher.\n\n| |";
    tools.iter().for_each(|tool| *text += &format!(" {tool} |"));
    *text += "\n|---|";
    tools.iter().for_each(|_| *text += "---|");
    for (cell, entries) in &cells {
        write!(text, "\n| {} |", title(cell))?;
        for tool in &tools {
            let sign = if is_lower_bound(known, &cell.0, tool) { "> " } else { "" };
            let rate = entries.get(tool).and_then(|entry| entry.rate);
            write!(text, " {} |", rate.map_or(String::new(), |rate| sign.to_owned() + &rate.text(1e6)))?;
        }
    }
    *text += "\n\n";
    losses(known, text)?;
    let first: Vec<(String, &Entries)> =
        cells.iter().take(2).map(|(cell, entries)| (title(cell), *entries)).collect();
    let is_lower_bound =
        |tool: &str| cells.iter().take(2).any(|(cell, _)| is_lower_bound(known, &cell.0, tool));
    let label = |tool: &str| figure_label(tool) + if is_lower_bound(tool) { " (at least)" } else { "" };
    Ok(bars("capture", "Highest capture rate without loss, millions per second", &first, label, text))
}

fn losses(known: &Known, text: &mut String) -> Result<()> {
    if known.of_kind("loss").next().is_none() {
        return Ok(());
    }
    *text += "Offered more than it keeps. Lost: arrived frames less frames in the file. A tool is true if it\n\
              reports that number.\n\n| tool | times its rate | Mpps | lost | reported | |\n|---|---|---|---|---|---|\n";
    for row in known.of_kind("loss") {
        let told = row.told_lost.map_or("nothing".to_owned(), |told| thousands(told as f64));
        writeln!(
            text,
            "| {} | {} | {:.2} | {} | {told} | {} |",
            row.tool,
            row.factor,
            row.arrived_pps / 1e6,
            thousands(row.lost as f64),
            if row.is_true { "true" } else { "**not true**" }
        )?;
    }
    text.push('\n');
    Ok(())
}

fn read_files(known: &Known, text: &mut String) -> Result<()> {
    let rows: Vec<&BenchRow> = known.of_kind("file_read").filter(|row| row.tool != "tcpdump").collect();
    if rows.is_empty() {
        return Ok(());
    }
    let when = rows.last().map_or(String::new(), |row| date(row.time_s));
    writeln!(
        text,
        "## Capture files\n\nTime from start to end, as a ratio to `tcpdump -r FILE -w /dev/null`, {when} UTC. The\n\
         pcap file has packets of 60 to 1,514 bytes and is in the cache of the kernel. `against`: another\n\
         build of wirerate. Goal: at most.\n\n| command | of tcpdump's time | goal |\n|---|---|---|"
    )?;
    for row in rows {
        let goal = row.goal.map_or(String::new(), |goal| format!("{goal} x"));
        writeln!(text, "| {} | {} x | {goal} |", row.tool, row.estimate().text(1.0))?;
    }
    text.push('\n');
    Ok(())
}

fn machines(known: &Known, text: &mut String) -> Result<()> {
    let cells = known.cells_of(is_of_machine);
    if cells.is_empty() {
        return Ok(());
    }
    let when =
        known.of_kind("machines").last().map_or(String::new(), |row| format!(" ({} UTC)", date(row.time_s)));
    writeln!(
        text,
        "## Beside the kernel's own pktgen\n\nIn virtual machines of `make vm`{when}: same kernel and device, in alternation; the\nreceiver \
         counts. The processors are emulated, so only ratios mean something. The last column is the\nratio \
         of the best of wirerate to the best of pktgen.\n\n| where | who | kpps | ratio |\n|---|---|---|---|"
    )?;
    for ((case, ..), entries) in cells {
        let place = case.split_once(' ').map_or(case.as_str(), |(_, place)| place);
        for (name, entry) in sorted(entries) {
            let ratio = entry.ratios.values().next().map_or(String::new(), |ratio| ratio.text(1.0) + " ");
            writeln!(text, "| {place} | {name} | {} | {ratio}|", text_of(entry.rate, 1e3))?;
        }
    }
    text.push('\n');
    Ok(())
}

fn growth(known: &Known, text: &mut String) -> Result<()> {
    if known.of_kind("grown").next().is_none() {
        return Ok(());
    }
    *text += "## What more costs\n\nLonger runs of xdp on one CPU; more instances of the control files on two CPUs; longer captures\n\
              into `/dev/null`. MB is the peak resident memory.\n\n\
              | what | Mpps | CPU ns per frame | MB |\n|---|---|---|---|\n";
    for row in known.of_kind("grown") {
        let value = row.value.as_f64().unwrap_or(0.0);
        let value = if value.fract() == 0.0 { thousands(value) } else { value.to_string() };
        let what = if row.what == "frames" { "frames captured" } else { &row.what };
        let (rate, cost, memory) = (row.rate_pps / 1e6, row.cpu_ns_per_frame, row.memory_bytes as f64 / 1e6);
        writeln!(text, "| {value} {what} | {rate:.2} | {cost:.1} | {memory:.1} |")?;
    }
    text.push('\n');
    Ok(())
}

fn left_out(known: &Known, text: &mut String) -> Result<()> {
    let words = |row: &BenchRow| format!("{} ({})", row.tool, row.why);
    let out: BTreeSet<String> = known.of_kind("left_out").map(words).collect();
    if !out.is_empty() {
        writeln!(text, "Left out here: {}.", out.into_iter().collect::<Vec<_>>().join(", "))?;
    }
    Ok(())
}
