//! `wirerate otg run`: the flows of a configuration file, sent and measured without a server.

use super::OtgDeviceArgs;
use super::controller::OtgController;
use super::flow_document::OTG_FLOW;
use super::host_ports::HostPorts;
use super::hosts::Hosts;
use super::placed_config::PlacedConfig;
use super::state::ActiveState;
use capture::ReceiveResult;
use measure::Loss;
use otg::metrics::MetricsTable;
use otg::{Copies, OtgConfig, TaggedQuery};
use program::active_window::ActiveRate;
use program::console::Console;
use program::monitor::sources::RunList;
use program::out;
use program::outcome::{Failure, Outcome};
use program::row_printer::RowFormat;
use program::rx_stats::RxHead;
use program::stop::Stop;
use receiver::{Expectation, Report};
use serde_json::Value;
use server::{ApiError, ErrorKind};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};
use units::{Nanos, human_count, human_duration};

/// Rows of flows in the report for people.
const FLOWS_SHOWN: usize = 32;
/// The counters of receivers have no event, so they are read at this interval.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Arguments of `wirerate otg run`.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct RunArgs {
    /// The configuration: JSON, or YAML in a file with the ending .yaml or .yml
    #[arg(value_name = "CONFIG")]
    config: PathBuf,
    /// Devices of the ports, and what flows do at link down and at their end
    #[command(flatten)]
    devices: OtgDeviceArgs,
    /// Stop all flows after this time; without it they end as configured, or by Ctrl-C
    #[arg(long, value_name = "TIME")]
    duration: Option<Nanos>,
    /// Check a result of each receiving port, such as lost=0 or 'p99<50us'; exit code 1 if it
    /// fails. May be repeated
    #[arg(long, value_name = "CHECK")]
    expect: Vec<Expectation>,
    /// Print JSON (docs/json.md)
    #[arg(long, short = 'J')]
    json: bool,
}

/// Sends the flows, measures them, and prints the report.
///
/// # Errors
/// Bad usage for a configuration that is refused; refused by the host or a device.
pub(super) fn run(args: &RunArgs, stop: &Stop) -> Result<Outcome, Failure> {
    let config = read(&args.config)?;
    let runs = RunList::of(stop.console());
    let _counted = runs.count_in();
    let rules = args.devices.rules();
    let here = HostPorts::new(Box::new(rules.clone()), runs);
    let controller = OtgController::new(Hosts::new(here, None), rules);
    let outcome = carry_out(args, config, &controller, stop);
    controller.release();
    outcome
}

fn act(path: &Path) -> String {
    format!("run {}", path.display())
}

/// The configuration of a file, checked against the model.
fn read(path: &Path) -> Result<Value, Failure> {
    let wrong = |why: String| Failure::usage(act(path), why);
    let text = program::waiting_read::read_to_string(path).map_err(|why| wrong(why.to_string()))?;
    let is_yaml = path.extension().is_some_and(|ending| ending == "yaml" || ending == "yml");
    let json = if is_yaml {
        let value: Value = serde_saphyr::from_str(&text).map_err(|why| wrong(why.to_string()))?;
        value.to_string()
    } else {
        text
    };
    otg::read_json(otg::model::message("Config"), json.as_bytes()).map_err(|why| {
        // The place is that in the JSON that was made of the YAML.
        let path = why.split(" at line ").next().unwrap_or(&why);
        wrong(if is_yaml { path.to_owned() } else { why })
    })
}

/// An error of the API as that of a command.
fn failure(args: &RunArgs, error: &ApiError) -> Failure {
    let (act, why) = (act(&args.config), error.errors.join("\n  "));
    match error.kind {
        ErrorKind::Internal | ErrorKind::Conflict | ErrorKind::Busy => {
            Failure::refused(act, anyhow::anyhow!("{why}"))
        }
        ErrorKind::Invalid | ErrorKind::Unsupported => Failure::usage(act, why),
    }
}

fn carry_out(
    args: &RunArgs,
    config: Value,
    controller: &OtgController,
    stop: &Stop,
) -> Result<Outcome, Failure> {
    let failed = |error: ApiError| failure(args, &error);
    let warnings = controller.set_config(config).map_err(failed)?;
    warnings.iter().for_each(|warning| program::note!("{warning}"));
    let flows = {
        let placed = controller.placed();
        check(args, &placed.config)?;
        (0..placed.flows.len()).collect::<Vec<usize>>()
    };
    let started = Instant::now();
    for warning in controller.start(&flows).map_err(failed)? {
        program::note!("{warning}");
    }
    let duration = args.duration.map(|duration| Duration::from_nanos(duration.0));
    let is_over = || stop.is_set() || duration.is_some_and(|duration| started.elapsed() >= duration);
    while !is_over() && controller.settle(&flows).map_err(failed)? {
        thread::sleep(POLL_INTERVAL);
    }
    let failures = controller.stop(&flows, false).map_err(failed)?;
    failures.iter().for_each(|failure| program::note!("{failure}"));
    let rows = controller.flow_rows(&mut controller.placed(), &flows, &TaggedQuery::default());
    let table = MetricsTable::of_flows(rows.map_err(failed)?, Vec::new());
    // All ports are here, so flows have the same indexes.
    let reports = controller.here().with_state(|state| reports(args, state));
    let table = serde_json::to_value(table).expect("a table of metrics has a JSON form");
    print(args, table["flow_metrics"].as_array().map_or(&[], |rows| rows), &reports, stop.console())?;
    let has_lost =
        |report: &Report| report.loss.is_some_and(|loss| args.expect.is_empty() && loss.lost_max > 0);
    let is_good = failures.is_empty() && reports.iter().all(|report| report.is_good() && !has_lost(report));
    Ok(if is_good { Outcome::Done } else { Outcome::No })
}

/// Refuses checks of what is not measured, and warns of parts that need the server.
fn check(args: &RunArgs, config: &OtgConfig) -> Result<(), Failure> {
    let flows = &config.flows;
    let refuse = |why: String| Err(Failure::usage(act(&args.config), why));
    if flows.is_empty() {
        return refuse("it has no flows".to_owned());
    }
    if !config.captures.is_empty() {
        program::note!("captures are not taken: clients of `wirerate otg` start and read them");
    }
    let mut measured = flows.iter().filter(|flow| PlacedConfig::waits(flow)).peekable();
    let is_measured = measured.peek().is_some();
    match args.expect.iter().find(|check| check.needs_sent()) {
        _ if !is_measured && !args.expect.is_empty() => {
            refuse("no flow has metrics.enable and rx_names, so no result can be checked".to_owned())
        }
        Some(check) => match measured.find(|flow| flow.frames_due_at_port(0).is_none()) {
            Some(flow) => refuse(format!(
                "{check} is a check of one receiving port, and flow {} has several",
                flow.name
            )),
            None => Ok(()),
        },
        None => Ok(()),
    }
}

/// The report of each port on which flows are counted.
fn reports(args: &RunArgs, state: &ActiveState) -> Vec<Report> {
    let mut reports = Vec::new();
    for (index, port) in state.ports.iter().enumerate() {
        let counted: Vec<usize> = (0..state.flows.len()).filter(|flow| state.counts(*flow, index)).collect();
        if counted.is_empty() {
            continue;
        }
        let numbers: Vec<u32> = counted.iter().filter_map(|flow| state.flows[*flow].number).collect();
        // Frames of a flow that is to arrive elsewhere make up for none that are to arrive here.
        let result = port.result().of_flows(&numbers.iter().map(|number| *number as usize).collect());
        let details = numbers.iter().map(|number| port.detail(*number));
        let head = RxHead {
            device: port.device.link.name.clone(),
            netns: port.device.netns_name.clone(),
            mode: port.mode().name(),
            source: port.source(),
            duration_ns: result.elapsed.as_nanos() as u64,
            active: ActiveRate::of_flows(result.totals.received, details),
        };
        let losses = counted.iter().map(|flow| loss_of(state, *flow, &result));
        let mut report = Report::new(head, &result, None);
        report.loss = losses.reduce(|one, other| Some(one?.and(other?))).flatten();
        report.failed_checks = args.expect.iter().filter_map(|check| check.failure(&report)).collect();
        reports.push(report);
    }
    reports
}

/// What a port has lost of a flow; `None` if the frames may have gone to another port.
fn loss_of(state: &ActiveState, flow: usize, result: &ReceiveResult) -> Option<Loss> {
    let (config, run) = (&state.config.flows[flow], &state.flows[flow]);
    let line = run.number.and_then(|number| result.lines.get(number as usize)).copied();
    let (line, due) = (line.unwrap_or_default(), config.frames_due_at_port(run.counted().frames)?);
    Some(match config.metrics.copies {
        // Further copies of a frame are to arrive as well.
        Copies::Ratio(ratio) if ratio > 1.0 => Loss::new(due, line.received(), 0),
        _ => Loss::new(due, line.unique(), line.too_old.into()),
    })
}

fn print(args: &RunArgs, rows: &[Value], reports: &[Report], console: &Console) -> Result<(), Failure> {
    let format = RowFormat::of(args.json, false);
    let json_lines: String = rows.iter().map(|row| out::json_line(&OTG_FLOW, row)).collect();
    console.report(format, &json_lines, &flow_lines(rows))?;
    Ok(reports.iter().try_for_each(|report| console.report(format, &report.json_line(), report))?)
}

/// A line for each flow.
fn flow_lines(rows: &[Value]) -> String {
    let mut text = String::new();
    for row in rows.iter().take(FLOWS_SHOWN) {
        let word = |name: &str| row[name].as_str().unwrap_or_default();
        let count = |name: &str| human_count(row[name].as_u64().unwrap_or_default());
        let time = |name: &str| human_duration(row["latency"][name].as_f64().unwrap_or_default() as u64);
        // Writing to a String does not fail.
        let _ = write!(text, "flow {}: {}", word("name"), word("port_tx"));
        let _ = match word("port_rx") {
            "" => write!(text, ", {} frames sent", count("frames_tx")),
            rx => {
                write!(text, " to {rx}, {} frames sent, {} received", count("frames_tx"), count("frames_rx"))
            }
        };
        if row.get("latency").is_some() {
            let [lowest, mean, highest] = ["minimum_ns", "average_ns", "maximum_ns"].map(time);
            let _ = write!(text, ", latency {lowest} to {highest}, mean {mean}");
        }
        text.push('\n');
    }
    if rows.len() > FLOWS_SHOWN {
        let _ = writeln!(text, "and {} more flows: --json prints all", rows.len() - FLOWS_SHOWN);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn flows_have_a_line_each_up_to_a_number() {
        let sent = json!({"name": "a", "port_tx": "p1", "port_rx": "", "frames_tx": 1000});
        let measured = json!({"name": "b", "port_tx": "p1", "port_rx": "p2", "frames_tx": 10, "frames_rx": 9,
            "latency": {"minimum_ns": 1000.0, "average_ns": 2000.0, "maximum_ns": 3000.0}});
        assert_eq!(
            flow_lines(&[sent.clone(), measured]),
            "flow a: p1, 1,000 frames sent\n\
             flow b: p1 to p2, 10 frames sent, 9 received, latency 1.000 µs to 3.000 µs, mean 2.000 µs\n"
        );
        let text = flow_lines(&vec![sent; 40]);
        assert!(text.ends_with("and 8 more flows: --json prints all\n"), "{text}");
        assert_eq!(text.lines().count(), 33);
    }
}
