//! A run of `wirerate connect`: start, rows if requested, end, report.

use super::report::{Head, protocol_of};
use super::row::ConnectRow;
use super::{Args, Report, Setup};
use crate::args::{targets_text, xdp_text};
use engine::Connecting;
use packet::Arrivals;
use program::monitor::sources::{self, DeviceLabels};
use program::out::OutError;
use program::outcome::{Failure, Outcome};
use program::row_printer::{PERIOD, RowFormat, RowTime};
use program::stop::Stop;
use std::sync::Arc;
use std::time::{Duration, Instant};
use units::{human_count, time_of_day_ns};

/// Interval at which the stop flag is read: a signal has no other event here.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Opens connections until a limit, a signal or the end of the device, and prints the report.
///
/// # Errors
/// Bad usage, or refused by the host or the device.
pub fn run(args: &Args, stop: &Stop) -> Result<Outcome, Failure> {
    let setup = Setup::of(args)?;
    let act = format!("connect by {}", setup.request.ifname);
    let (ifname, kind) = (setup.request.ifname.clone(), setup.request.kind);
    let answer_check = setup.request.answer_check;
    let notes = notes(args, &setup);
    let connecting =
        Connecting::start(setup.request).map_err(|why| Failure::engine(&act, why, args.netns.as_deref()))?;
    let labels = DeviceLabels::new(&ifname, args.netns.as_deref());
    let _counted = stop.console().count_in(sources::connect(Arc::clone(connecting.program()), labels));
    let xdp = xdp_text(connecting.mode(), connecting.native_refusal());
    if !args.quiet {
        eprintln!("{notes} ({xdp})");
    }
    let watched = watch(&connecting, args, stop);
    let result = connecting.result().map_err(|why| Failure::engine(&act, why, args.netns.as_deref()))?;
    watched?;
    if result.is_device_gone {
        program::note!("{ifname} went away: the run ends here");
    }
    let head = Head {
        device: ifname,
        netns: args.netns.clone(),
        protocol: protocol_of(kind),
        server: targets_text(&args.dst),
        xdp,
        requested_cps: args.cps.map(|cps| cps.pps()).filter(|_| args.open.is_none()),
        requested_requests_ps: args.ask_rate.map(|rate| rate.pps()),
        is_random: matches!(args.arrivals, Some(Arrivals::Poisson { .. })),
        answer_check,
    };
    let report = Report::new(head, &result);
    stop.console().report(RowFormat::of(args.json, args.rows.csv), &report.json_line(), &report)?;
    let failures: Vec<String> = args.expect.iter().filter_map(|check| check.failure(&report)).collect();
    failures.iter().for_each(|failure| program::note!("{failure}"));
    let is_good = match args.expect.is_empty() {
        true => report.is_whole(),
        false => failures.is_empty() && !report.is_device_gone,
    };
    Ok(if is_good { Outcome::Done } else { Outcome::No })
}

/// What is about to be done.
fn notes(args: &Args, setup: &Setup) -> String {
    let mut hops: Vec<String> = setup.next_hops.iter().map(|hop| format!(", by {hop}")).collect();
    hops.dedup();
    let hop = hops.concat();
    let possible = human_count(setup.possible.min(u128::from(u64::MAX)) as u64);
    let dst = targets_text(&args.dst);
    format!("wirerate: {} from {} to {dst}{hop}; at most {possible} open", args.device, args.src)
}

/// Prints the requested rows until the run ends.
fn watch(connecting: &Connecting, args: &Args, stop: &Stop) -> Result<(), OutError> {
    let start = Instant::now();
    let mut printer = args.rows.printer(stop.console(), args.json, args.quiet);
    let mut last: Option<ConnectRow> = None;
    while !connecting.wait_for_end(POLL_INTERVAL) {
        if stop.is_set() {
            connecting.stop();
        }
        let elapsed = start.elapsed();
        let seconds = last.as_ref().map_or(0, |last| last.time.elapsed_ns / PERIOD.as_nanos() as u64);
        if let Some(printer) = printer.as_mut().filter(|_| elapsed.as_secs() > seconds) {
            let time = RowTime { time_ns: time_of_day_ns(), elapsed_ns: elapsed.as_nanos() as u64 };
            let program = connecting.program();
            let row = ConnectRow::new(time, &program.counts(), program.open_now(), last.as_ref());
            if let Err(why) = printer.print(&row) {
                connecting.stop();
                return Err(why);
            }
            last = Some(row);
        }
    }
    Ok(())
}
