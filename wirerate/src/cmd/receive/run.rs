//! A run of `wirerate receive`: start, rows if requested, end, report, files.

use super::report::Second;
use super::{Args, ReceiverArgs, Report, files};
use crate::cmd::rx_stats::{Cpu, RxHead};
use crate::monitor::sources::{self, DeviceLabels};
use crate::monitor::{Counted, count_in};
use crate::out;
use crate::outcome::{Failure, Outcome};
use crate::rows::{self, PERIOD, RowFormat, RowPrinter, RowTime};
use crate::stop::Stop;
use crate::units::{per_second, time_of_day_ns};
use capture::{ReceiveOptions, ReceiveResult, Receiving, XdpModeChoice};
use host::{Netns, Stack};
use measure::{Loss, MeterOptions, STREAMS_MAX};
use std::thread;
use std::time::Duration;

/// The counters of the program have no event, so they are read at this interval.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Flows of frames that carry their flow, if the sender runs elsewhere: 4 MB.
const CARRIED_FLOWS: u32 = 65_536;
/// Frames that arrive after this time without any are lost, once the sender has ended.
const SETTLE: Duration = Duration::from_millis(200);
/// Lines of all streams: 64 MB.
const LINES_MAX: u32 = 1 << 20;

/// Measures until a limit, a signal or the end of the device, and prints the report.
///
/// # Errors
/// Bad usage for a check that cannot be made; refused by the host or the device.
pub fn run(args: &Args, stop: &Stop) -> Result<Outcome, Failure> {
    let receiving = start(&args.device, args.netns.as_deref(), &args.options)?;
    let source = receiving.xdp().to_string();
    eprintln!("wirerate: measuring frames of {} ({source})", args.device);
    if !receiving.device().is_up() {
        eprintln!("wirerate: {} is down: nothing can arrive until it is up", args.device);
    }
    let _counted = count_frames(&receiving, &args.device, args.netns.as_deref());
    let watched = watch(&receiving, args, stop);
    let result = receiving.stop();
    if result.is_device_gone {
        eprintln!("wirerate: {} went away: measuring ends here", args.device);
    }
    watched?;
    let receipt = Receipt {
        device: &args.device,
        netns: args.netns.as_deref(),
        options: &args.options,
        source,
        sent: args.sent.map(|sent| sent.0).or(result.announced),
        is_report_on_stderr: args.csv,
    };
    receipt.conclude(&result)
}

/// Serves the counts of a receiver until the result is dropped.
pub(crate) fn count_frames(receiving: &Receiving, device: &str, netns: Option<&str>) -> Counted {
    count_in(sources::receive(receiving.observer(), DeviceLabels::new(device, netns)))
}

/// What the report of a receiver has besides its figures.
#[derive(Debug)]
pub(crate) struct Receipt<'a> {
    pub(crate) device: &'a str,
    pub(crate) netns: Option<&'a str>,
    pub(crate) options: &'a ReceiverArgs,
    pub(crate) source: String,
    /// Numbers that were sent, if known.
    pub(crate) sent: Option<u64>,
    /// Standard output has rows of CSV.
    pub(crate) is_report_on_stderr: bool,
}

impl Receipt<'_> {
    /// Prints the report and writes the files. Returns the outcome.
    pub(crate) fn conclude(self, result: &ReceiveResult) -> Result<Outcome, Failure> {
        let (options, is_report_on_stderr) = (self.options, self.is_report_on_stderr);
        let mut report = self.report(result);
        report.failed_checks = options.expect.iter().filter_map(|check| check.failure(&report)).collect();
        match (options.json, is_report_on_stderr) {
            (true, _) => out::text(&report.json_line())?,
            (false, true) => eprint!("{report}"),
            (false, false) => out::text(&report.to_string())?,
        }
        if let Some(path) = &options.flows_out {
            files::write_flows(path, result)?;
        }
        if let Some(path) = &options.hgrm {
            files::write_hgrm(path, result)?;
        }
        let is_lossy = report.loss.is_some_and(|loss| options.expect.is_empty() && loss.lost_max > 0);
        let is_good = report.is_good() && !is_lossy && !result.is_device_gone;
        Ok(if is_good { Outcome::Done } else { Outcome::No })
    }

    fn report(self, result: &ReceiveResult) -> Report {
        let figures = result.figures();
        let cpus = (0..).zip(&result.cpus).map(|(cpu, received)| Cpu { cpu, received: *received });
        Report {
            head: RxHead {
                device: self.device.to_owned(),
                netns: self.netns.map(str::to_owned),
                mode: self.options.mode().name(),
                source: self.source,
                duration_ns: result.elapsed.as_nanos() as u64,
            },
            loss: self.sent.map(|sent| Loss::new(sent, figures.unique, figures.too_old)),
            figures,
            clock_uncertainty_ns: result.clock_uncertainty_ns,
            cpus: cpus.filter(|cpu| cpu.received > 0).collect(),
            failed_checks: Vec::new(),
        }
    }
}

/// Starts to measure.
///
/// # Errors
/// Refused by the host or the device.
pub(crate) fn start(device: &str, netns: Option<&str>, options: &ReceiverArgs) -> Result<Receiving, Failure> {
    let act = || match netns {
        Some(netns) => format!("receive on {device} in {netns}"),
        None => format!("receive on {device}"),
    };
    let refused = |why| Failure::host(act(), why);
    let netns = netns.map(Netns::named).transpose().map_err(refused)?;
    if let Some(netns) = &netns {
        // Here, because the error of this look-up names the namespace.
        Stack::of(netns).and_then(|stack| stack.link(device)).map_err(refused)?;
    }
    let receive = ReceiveOptions {
        ifname: device.to_owned(),
        netns,
        mode: options.mode(),
        xdp: XdpModeChoice::Best,
        meter: MeterOptions {
            flow_count: options.flows,
            stream_count: (LINES_MAX / options.flows).clamp(1, STREAMS_MAX as u32),
            carried_flows: options.carried_flows.unwrap_or(CARRIED_FLOWS),
            run: options.run,
            stamp_shift: options.stamp_one_in.0,
        },
        is_shared: options.shared_flows,
        has_details: false,
    };
    Receiving::start(&receive).map_err(|why| match why.busy_advice(false) {
        Some(busy) => Failure::refused(act(), why).try_this(busy),
        None => Failure::capture(act(), why),
    })
}

/// Prints the requested rows until the run ends.
fn watch(receiving: &Receiving, args: &Args, stop: &Stop) -> Result<(), Failure> {
    let wanted = args.count.map(|count| count.0).filter(|count| *count > 0);
    let duration = args.duration.map(|duration| Duration::from_nanos(duration.0));
    let format = RowFormat::of(args.options.json, args.csv);
    let has_rows = rows::are_wanted(args.every_second, format);
    let mut printer = RowPrinter::new(format);
    let (mut last, mut last_received) = (Duration::ZERO, 0);
    let mut late = LateFrames::default();
    loop {
        let elapsed = receiving.elapsed();
        if has_rows && elapsed >= last + PERIOD {
            let row = second(&receiving.snapshot(), last, last_received);
            printer.print(&row)?;
            (last, last_received) = (Duration::from_secs(elapsed.as_secs()), row.received);
        }
        let is_enough = wanted.is_some_and(|wanted| receiving.received() >= wanted);
        let is_late = duration.is_some_and(|duration| elapsed >= duration);
        let has_ended = late.have_ended(receiving, elapsed);
        if stop.is_set() || is_enough || is_late || has_ended || receiving.is_device_gone() {
            return Ok(());
        }
        let left = duration.map_or(POLL_INTERVAL, |duration| duration.saturating_sub(elapsed));
        thread::sleep(POLL_INTERVAL.min(left));
    }
}

/// The wait for late frames after the sender has announced its end.
#[derive(Debug, Default)]
struct LateFrames {
    /// Frames received so far, and when the last one was noticed.
    last: Option<(u64, Duration)>,
}

impl LateFrames {
    /// True once the sender has ended and no frame has arrived for some time.
    fn have_ended(&mut self, receiving: &Receiving, now: Duration) -> bool {
        if receiving.announced().is_none() {
            return false;
        }
        let received = receiving.received();
        let since = match self.last {
            Some((last, since)) if last == received => since,
            _ => now,
        };
        self.last = Some((received, since));
        now >= since + SETTLE
    }
}

fn second(result: &ReceiveResult, last: Duration, last_received: u64) -> Second {
    let figures = result.figures();
    let received = figures.totals.received;
    let passed_ns = result.elapsed.saturating_sub(last).as_nanos() as u64;
    let at = |percentile| figures.latency.as_ref().and_then(|latency| latency.at(percentile));
    Second {
        time: RowTime { time_ns: time_of_day_ns(), elapsed_ns: result.elapsed.as_nanos() as u64 },
        received,
        rate_pps: per_second(received.saturating_sub(last_received), passed_ns),
        missing: figures.missing,
        duplicate: figures.duplicate,
        reordered: figures.reordered,
        too_old: figures.too_old,
        latency_p50_ns: at(50.0),
        latency_p99_ns: at(99.0),
    }
}
