//! A run of `wirerate receive`: start, rows if requested, end, report, files.

use super::report::{Second, SenderCounts, StreamFigures, StreamSent};
use super::{CaptureFigures, ReceiveJob, ReceiverOptions, ReflectFigures, Report, Results, files};
use capture::{ReceiveObserver, ReceiveOptions, ReceiveResult, Receiving, SourceFacts, XdpModeChoice};
use host::{Netns, Stack, StartTime};
use measure::{Loss, MeterOptions};
use program::active_window::{ActiveRate, ActiveWindow};
use program::console::Console;
use program::monitor::Counted;
use program::monitor::sources::{self, DeviceLabels};
use program::outcome::{Failure, Outcome};
use program::row_printer::{PERIOD, RowFormat, RowTime};
use program::rx_stats::RxHead;
use program::start_at::{StartReport, left, refuse_if_late};
use program::stop::Stop;
use std::thread;
use std::time::Duration;
use units::{per_second, time_of_day_ns};

/// The counters of the program have no event, so they are read at this interval.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Flows of frames that carry their flow, if the sender runs elsewhere: 4 MB.
const CARRIED_FLOWS: u32 = 65_536;
/// Frames that arrive after this time without any are lost, once the sender has ended.
const SETTLE: Duration = Duration::from_millis(200);

/// Measures until a limit, a signal or the end of the device, and prints the report.
///
/// # Errors
/// Bad usage for a check that cannot be made; refused by the host or the device.
pub fn run(job: &ReceiveJob, stop: &Stop) -> Result<Outcome, Failure> {
    let act = || format!("receive on {}", job.run.device);
    refuse_if_late(job.start_at, act)?;
    let console = stop.console();
    let receiving = start(&job.run.device, job.run.netns.as_deref(), &job.options, console)?;
    refuse_if_late(job.start_at, act)?;
    let begin = RunBegin::of(&receiving, job.start_at);
    let (source, mode) = (source_text(&receiving), job.options.mode_name(receiving.mode()));
    let reflection = job.options.reflection;
    let act = if reflection.is_some() { "reflecting" } else { "measuring" };
    if !job.run.quiet {
        console.note(format!("{act} frames of {} ({source})", job.run.device));
    }
    if !receiving.device().is_up() && !job.run.quiet {
        console.note(format!("{} is down: nothing can arrive until it is up", job.run.device));
    }
    let _counted =
        count_frames(&receiving, (&job.run.device, job.run.netns.as_deref()), stop.console(), || 0);
    let mut window = ActiveWindow::default();
    let watched = watch(&receiving, job, begin, stop, &mut window);
    let result = receiving.stop();
    if result.is_device_gone {
        console.note(format!("{} went away: measuring ends here", job.run.device));
    }
    watched?;
    let receipt = Receipt {
        device: &job.run.device,
        netns: job.run.netns.as_deref(),
        results: &job.options.counting.results,
        mode,
        is_round_trip: false,
        round_trip_ns: reflection.and_then(|reflection| reflection.round_trip_ns),
        source,
        capture: None,
        sent: job.run.sent.map(|sent| sent.0).or(result.announced),
        sender: None,
        begin,
        active: window.rate().unwrap_or_default(),
        streams: Vec::new(),
        is_report_on_stderr: job.run.rows.csv,
    };
    receipt.conclude(&result, stop.console())
}

/// Counts the frames of a receiver in at `console` until the result is dropped. `unsent` returns
/// how many numbers its sender did not send so far.
pub fn count_frames(
    receiving: &Receiving,
    (device, netns): (&str, Option<&str>),
    console: &Console,
    unsent: impl Fn() -> u64 + Send + 'static,
) -> Counted {
    console.count_in(sources::receive(receiving.observer(), DeviceLabels::new(device, netns), unsent))
}

/// When the time of a run begins; the default is with its first event.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunBegin {
    start_at: Option<StartTime>,
    /// Time from attaching until then.
    after: Duration,
}

impl RunBegin {
    /// Of a receiver that is ready.
    pub fn of(receiving: &Receiving, start_at: Option<StartTime>) -> Self {
        let after = if start_at.is_some() { receiving.elapsed() + left(start_at) } else { Duration::ZERO };
        Self { start_at, after }
    }

    /// Time of the run at `elapsed` after attaching.
    fn time(self, elapsed: Duration) -> Duration {
        elapsed.saturating_sub(self.after)
    }
}

/// How frames are taken, and which time stamps they get.
pub fn source_text(receiving: &Receiving) -> String {
    match (receiving.source(), receiving.device_clock()) {
        (facts, Some(clock)) => format!("{facts}; times of /dev/ptp{}", clock.index),
        (SourceFacts::Tpacket(facts), None) => format!("{facts}; times of the kernel's receive path"),
        (facts, None) => facts.to_string(),
    }
}

/// What the report of a receiver has besides its figures.
#[derive(Debug)]
pub struct Receipt<'a> {
    /// The device.
    pub device: &'a str,
    /// Its namespace, as the user named it.
    pub netns: Option<&'a str>,
    /// How the report is printed, and what is checked.
    pub results: &'a Results,
    /// What became of the frames.
    pub mode: &'static str,
    /// How frames were taken off the device.
    pub source: String,
    /// The receiver is the sender: latencies are those of the way there and back.
    pub is_round_trip: bool,
    /// The lowest round trip, as the sender of a reflector measured it.
    pub round_trip_ns: Option<u64>,
    /// What only a capture file shows.
    pub capture: Option<CaptureFigures>,
    /// Numbers that were sent, if known.
    pub sent: Option<u64>,
    /// The sender, if it ran in this process: its counts replace `sent`.
    pub sender: Option<SenderCounts>,
    /// When the run began, and with which counters.
    pub begin: RunBegin,
    /// When frames arrived, and at which rate.
    pub active: ActiveRate,
    /// Streams that were sent, if known; their flows have the same order.
    pub streams: Vec<StreamSent>,
    /// Standard output has rows of CSV.
    pub is_report_on_stderr: bool,
}

impl Receipt<'_> {
    /// Prints the report to `console` and writes the files. Returns the outcome.
    pub fn conclude(self, result: &ReceiveResult, console: &Console) -> Result<Outcome, Failure> {
        let (options, is_report_on_stderr) = (self.results, self.is_report_on_stderr);
        let mut report = self.report(result);
        let failed = options.expect.iter().filter_map(|check| check.failure(&report));
        report.failed_checks = failed.chain(report.not_judged(options.late_is_lost)).collect();
        let format = RowFormat::of(options.json, is_report_on_stderr && !options.json);
        console.report(format, &report.json_line(), &report)?;
        if let Some(path) = &options.flows_out {
            let capture = report.capture.as_ref();
            files::write_flows(path, result, capture.and_then(|capture| capture.lost_of_flows.as_deref()))?;
        }
        if let Some(path) = &options.hgrm {
            files::write_hgrm(path, result)?;
        }
        let is_lossy = report.loss.is_some_and(|loss| loss.lost_max > 0) || result.lost_ring > 0;
        let is_lossy = options.expect.is_empty() && is_lossy;
        let not_sent = report.reflected.and_then(|reflected| reflected.not_sent).unwrap_or(0);
        let is_lossy = is_lossy || not_sent > 0;
        let is_good = report.is_good() && !is_lossy && !result.is_device_gone;
        Ok(if is_good { Outcome::Done } else { Outcome::No })
    }

    fn report(self, result: &ReceiveResult) -> Report {
        let head = RxHead {
            device: self.device.to_owned(),
            netns: self.netns.map(str::to_owned),
            mode: self.mode,
            source: self.source,
            duration_ns: self.begin.time(result.elapsed).as_nanos() as u64,
            active: self.active,
        };
        let mut report = Report::new(head, result, self.sent);
        if let Some(sender) = self.sender {
            report.join(sender);
        }
        report.start = self.begin.start_at.map(|start_at| StartReport::new(start_at, None));
        report.is_round_trip = self.is_round_trip;
        report.reflected = result
            .reflected
            .map(|counts| ReflectFigures::new(counts, result.totals.latency_min_ns(), self.round_trip_ns));
        let is_sampled = result.options.stamp_shift > 0;
        let streams = (0..).zip(self.streams);
        let line = |index: usize| result.lines.get(index).copied().unwrap_or_default();
        report.streams =
            streams.map(|(index, sent)| StreamFigures::new(sent, &line(index), is_sampled)).collect();
        if let Some(capture) = self.capture {
            // A capture tells first copies from duplicates at any distance.
            report.loss = self.sent.map(|sent| Loss::new(sent, capture.order.unique, capture.cut));
            // What the capture lost is in `lost_by_capture`.
            report.lost_ring = None;
            report.capture = Some(capture);
        }
        if self.results.late_is_lost {
            report.lose_late();
        }
        report
    }
}

/// Starts to measure.
///
/// # Errors
/// Refused by the host or the device.
pub fn start(
    device: &str,
    netns: Option<&str>,
    options: &ReceiverOptions,
    console: &Console,
) -> Result<Receiving, Failure> {
    let act = || match netns {
        Some(netns) => format!("receive on {device} in {netns}"),
        None => format!("receive on {device}"),
    };
    files::check_files(&options.counting.results)?;
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
        source: options.source.unwrap_or_default(),
        xdp: XdpModeChoice::Best,
        meter: MeterOptions {
            has_wide_window: options.counting.wide_window,
            ..options.counting.meter.options(options.carried_flows.unwrap_or(CARRIED_FLOWS))
        },
        is_shared: options.counting.shared_flows,
        has_details: false,
        has_tags: false,
        reflects: options.reflection.is_some(),
    };
    let receiving = Receiving::start(&receive)
        .map_err(|why| Failure::capture_with(act(), why, options.reflection.is_none()))?;
    if let Some(refusal) = receiving.stamps_refusal() {
        console.note(format!("latencies on {device} end at the time stamp of the kernel: {refusal}"));
    }
    Ok(receiving)
}

/// Prints the requested rows until the run ends.
fn watch(
    receiving: &Receiving,
    job: &ReceiveJob,
    begin: RunBegin,
    stop: &Stop,
    window: &mut ActiveWindow,
) -> Result<(), Failure> {
    let wanted = job.run.count.map(|count| count.0).filter(|count| *count > 0);
    let duration = job.run.duration.map(|duration| Duration::from_nanos(duration.0));
    let mut printer = job.run.rows.printer(stop.console(), job.options.counting.results.json, job.run.quiet);
    let mut seconds = Seconds::of(None, begin, receiving);
    let observer = receiving.observer();
    let mut late = LateFrames::default();
    loop {
        let elapsed = begin.time(receiving.elapsed());
        observe(window, &observer, receiving.elapsed());
        if let Some(printer) = printer.as_mut().filter(|_| seconds.is_due(elapsed)) {
            printer.print(&seconds.next(receiving, 0))?;
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

/// Looks at the counters of a receiver, `elapsed` after it was attached.
pub fn observe(window: &mut ActiveWindow, observer: &ReceiveObserver, elapsed: Duration) {
    let totals = observer.totals();
    window.observe(elapsed, totals.received, totals.received_bytes);
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

/// The rows of a receiver, each with the rate since the one before.
#[derive(Debug)]
pub struct Seconds {
    device: Option<String>,
    begin: RunBegin,
    last: Duration,
    last_received: u64,
}

impl Seconds {
    /// Of a receiver, which the rows name if there can be several.
    pub fn of(device: Option<String>, begin: RunBegin, receiving: &Receiving) -> Self {
        // The program counts frames before the clock of the receiver starts.
        let last_received = receiving.received();
        Self { device, begin, last: begin.time(receiving.elapsed()), last_received }
    }

    /// True if a second of the run has passed since the last row.
    fn is_due(&self, elapsed: Duration) -> bool {
        elapsed >= Duration::from_secs(self.last.as_secs()) + PERIOD
    }

    /// The row for now, without `unsent` numbers that the sender did not send.
    pub fn next(&mut self, receiving: &Receiving, unsent: u64) -> Second {
        let now = receiving.snapshot();
        let row = self.row(&ReceiveResult { elapsed: self.begin.time(now.elapsed), ..now });
        Second { missing: row.missing.saturating_sub(unsent), ..row }
    }

    fn row(&mut self, result: &ReceiveResult) -> Second {
        let figures = result.figures();
        let received = figures.totals.received;
        let passed_ns = result.elapsed.saturating_sub(self.last).as_nanos() as u64;
        let at = |percentile| figures.latency.as_ref().and_then(|latency| latency.at(percentile));
        let rate_pps = per_second(received.saturating_sub(self.last_received), passed_ns);
        (self.last, self.last_received) = (result.elapsed, received);
        Second {
            time: RowTime { time_ns: time_of_day_ns(), elapsed_ns: result.elapsed.as_nanos() as u64 },
            device: self.device.clone(),
            received,
            rate_pps,
            missing: figures.missing,
            duplicate: figures.duplicate,
            reordered: figures.reordered,
            too_old: figures.too_old,
            latency_p50_ns: at(50.0),
            latency_p99_ns: at(99.0),
            others: figures.totals.others,
            unusual: figures.totals.unusual,
        }
    }
}
