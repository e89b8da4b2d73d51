//! A run of `wirerate measure`: receivers, senders, drain, all reports.

use super::all_lost;
use super::direction::MeasuredPath;
use super::receiver_rows::ReceiverRows;
use super::sender::{MeasureSender, UnsentNumbers};
use super::{Args, total};
use capture::Receiving;
use engine::EngineError;
use host::CpuList;
use program::active_window::{ActiveRate, ActiveWindow};
use program::console::Console;
use program::monitor::Counted;
use program::outcome::{Failure, Outcome};
use program::row_printer::{Joined, RowFormat, RowPrinter};
use program::start_at::refuse_if_late;
use program::stop::Stop;
use receiver::{self, Drain, Receipt, ReceiverOptions, RunBegin, Seconds, SenderCounts, StreamSent};
use sender::SendJob;
use sender::device::TxDevice;
use sender::report::Report;
use sender::turn_back::turn_back;
use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};
use units::CpuSequence;

/// The counters of the receiver have no event, so they are read at this interval.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Runs have numbers of 12 bits.
const RUN_MASK: u64 = 0xfff;

/// A direction with its receiver at work.
struct PathRun {
    direction: MeasuredPath,
    options: ReceiverOptions,
    job: SendJob,
    copies: u64,
    unsent: UnsentNumbers,
    source: String,
    begin: RunBegin,
    receiving: Receiving,
    _counted: Counted,
}

/// What a sender did.
type SendOutcome = Result<(Report, Option<EngineError>), Failure>;

/// Sends, receives, and prints the reports. The exit code is that of the worst one.
///
/// # Errors
/// Bad usage, or refused by the host or a device.
pub(super) fn run(args: &Args, stop: &Stop) -> Result<Outcome, Failure> {
    let directions = args.directions()?;
    let count = directions.len();
    let run = args.options.counting.meter.run.map_or_else(program::seed::fresh_seed, u64::from);
    let mut planned = Vec::new();
    for (index, direction) in directions.into_iter().enumerate() {
        let mut job = args.sender(&direction.from)?;
        job.start_at = args.start_at.or(job.start_at);
        refuse_if_late(job.start_at, || format!("send on {}", direction.from))?;
        if (count > 1 || args.has_rows()) && (job.every_second || job.csv) {
            let why = "the rows of the senders would be between others, and do not name them";
            let option = if job.csv { "--csv" } else { "--every-second" };
            let (from, to) = (&direction.from, &direction.to);
            return Err(Failure::usage(format!("use {option} behind `--`"), why).try_this(format!(
                "`wirerate measure --tx {from} --rx {to} {option}`, with all other options as they are"
            )));
        }
        if count > 1 {
            spread(&mut job, index)?;
        }
        if let Some(options) = args.reverse.as_deref().filter(|_| direction.is_back) {
            job = args.reverse_sender(&direction.from, options, job)?;
        } else if direction.is_back {
            let origin = TxDevice::find(direction.to.netns.as_deref(), &direction.to.device);
            let origin = origin.map_err(|why| Failure::host(format!("receive on {}", direction.to), why))?;
            turn_back(&mut job, &origin.facts)?;
        }
        // A switch may deliver the frames of one direction to the receiver of another.
        let run = job.run.map_or(run, u64::from).wrapping_add(index as u64) & RUN_MASK;
        planned.push((direction, job, run as u16));
    }
    let mut ready = Vec::new();
    for (index, (direction, job, run)) in planned.into_iter().enumerate() {
        let (sender, options) = MeasureSender::prepare(job, &args.options.job(), run)?;
        ready.push((direction, sender, if count > 1 { numbered(options, index) } else { options }));
    }
    let (mut measured, mut senders) = (Vec::new(), Vec::new());
    for (direction, sender, options) in ready {
        let (device, netns) = (&direction.to.device, direction.to.netns.as_deref());
        let receiving = receiver::start(device, netns, &options, stop.console())?;
        let (unsent, unsent_live) = (sender.unsent(), sender.unsent());
        measured.push(PathRun {
            _counted: receiver::count_frames(&receiving, (device, netns), stop.console(), move || {
                unsent_live.count()
            }),
            unsent,
            source: receiver::source_text(&receiving),
            begin: RunBegin::of(&receiving, sender.job.start_at),
            job: SendJob { csv: args.csv || sender.job.csv, ..sender.job.clone() },
            copies: sender.copies,
            direction,
            options,
            receiving,
        });
        senders.push(sender);
    }
    let format = RowFormat::of(args.options.counting.results.json, args.csv);
    let console = stop.console();
    let printer =
        RowPrinter::new(console, args.has_rows().then_some(format), console.events().are_followed());
    let mut rows = printer.map(|printer| {
        let seconds =
            |run: &PathRun| Seconds::of(Some(run.direction.to.to_string()), run.begin, &run.receiving);
        let receivers = measured.iter().map(|run| (&run.receiving, seconds(run), &run.unsent)).collect();
        ReceiverRows::new(printer, receivers)
    });
    let shows = count == 1 && !args.has_rows();
    let observers: Vec<_> = measured.iter().map(|run| run.receiving.observer()).collect();
    let mut windows = vec![ActiveWindow::default(); measured.len()];
    let mut look = || {
        let observed = windows.iter_mut().zip(&observers).zip(&measured);
        observed.for_each(|((window, observer), run)| {
            receiver::observe(window, observer, run.receiving.elapsed())
        });
    };
    let mut printed = Ok(());
    let sent = transmit(senders, shows, stop, |senders| {
        while let Err(RecvTimeoutError::Timeout) = senders.recv_timeout(POLL_INTERVAL) {
            look();
            if let Some(rows) = rows.as_mut().filter(|_| printed.is_ok()) {
                printed = rows.print_if_due();
                if printed.is_err() {
                    stop.set();
                }
            }
        }
    });
    printed?;
    for (measured, sent) in measured.iter().zip(&sent) {
        if let Ok((report, _)) = sent {
            let numbers = report.sent.div_ceil(measured.copies);
            let drained = Drain::new(report.sent, numbers, Duration::from_nanos(args.settle.0));
            drain(&measured.receiving, drained, &mut look);
        }
    }
    if let Some(mut rows) = rows {
        rows.print()?;
    }
    conclude(measured, windows, sent, (args.csv, stop.console()))
}

/// Options of one of several senders: its threads are on CPUs of their own, as far as there are
/// enough.
fn spread(sender: &mut SendJob, index: usize) -> Result<(), Failure> {
    let threads = sender.threads.unwrap_or(1) as usize;
    let allowed = CpuList::allowed().map_err(|why| Failure::host("choose CPUs to send from", why))?;
    let cpus: Vec<u32> = allowed.iter().collect();
    if sender.cpus.is_none() && threads <= cpus.len() {
        // The last ones first, because the first ones often serve interrupts.
        let chosen = cpus.iter().rev().cycle().skip(index * threads).take(threads).copied();
        sender.cpus = Some(CpuSequence(chosen.collect()));
    }
    Ok(())
}

/// Files of one of several directions: `flows.csv` becomes `flows-1.csv`.
fn numbered(mut options: ReceiverOptions, index: usize) -> ReceiverOptions {
    let name = |path: PathBuf| {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let end = path.extension().map(|end| format!(".{}", end.to_string_lossy())).unwrap_or_default();
        path.with_file_name(format!("{stem}-{}{end}", index + 1))
    };
    let results = &mut options.counting.results;
    results.flows_out = results.flows_out.take().map(name);
    results.hgrm = results.hgrm.take().map(name);
    options
}

/// All senders at once. If one cannot start, the others end. Meanwhile, `watch` gets a channel that
/// they close.
fn transmit(
    senders: Vec<MeasureSender>,
    shows: bool,
    stop: &Stop,
    watch: impl FnOnce(&Receiver<Infallible>),
) -> Vec<SendOutcome> {
    thread::scope(|scope| {
        let (is_sending, channel) = mpsc::channel();
        let send = |sender: MeasureSender| {
            let is_sending = is_sending.clone();
            scope.spawn(move || {
                let sent = sender.transmit(shows, stop);
                if sent.is_err() {
                    stop.set();
                }
                drop(is_sending);
                sent
            })
        };
        let threads: Vec<_> = senders.into_iter().map(send).collect();
        drop(is_sending);
        watch(&channel);
        let join = |sender: thread::ScopedJoinHandle<'_, SendOutcome>| {
            sender.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().map(join).collect()
    })
}

/// Stops the receivers and prints all reports.
fn conclude(
    measured: Vec<PathRun>,
    windows: Vec<ActiveWindow>,
    sent: Vec<SendOutcome>,
    (is_report_on_stderr, console): (bool, &Console),
) -> Result<Outcome, Failure> {
    let sent: Vec<(Report, Option<EngineError>)> = sent.into_iter().collect::<Result<_, _>>()?;
    let json = measured.iter().any(|measured| measured.options.counting.results.json);
    let late_is_lost = measured.iter().any(|measured| measured.options.counting.results.late_is_lost);
    let rates: Vec<ActiveRate> =
        windows.into_iter().map(|window| window.rate().unwrap_or_default()).collect();
    let (mut outcomes, mut parts) = (Vec::new(), Vec::new());
    for ((measured, active), (report, error)) in measured.into_iter().zip(rates.iter().copied()).zip(sent) {
        let PathRun { direction, options, job, copies, source, begin, receiving, .. } = measured;
        let mode = options.mode_name(receiving.mode());
        let result = receiving.stop();
        let print = |report: &_| sender::run::print(&job, report, console);
        let netns = job.netns.as_deref();
        outcomes.push(sender::run::conclude(&job.device, netns, &report, error, console, print)?);
        let streams = report.streams.iter();
        let sender = SenderCounts {
            numbers: report.sent.div_ceil(copies),
            offered: report.offered + report.replaced,
            rejected: report.errors + report.replaced,
        };
        let receipt = Receipt {
            device: &direction.to.device,
            netns: direction.to.netns.as_deref(),
            results: &options.counting.results,
            is_round_trip: direction.from == direction.to,
            round_trip_ns: None,
            capture: None,
            source,
            mode,
            sent: None,
            sender: Some(sender),
            begin,
            active,
            streams: streams
                .map(|stream| StreamSent { name: stream.name.clone(), sent: stream.sent })
                .collect(),
            is_report_on_stderr,
        };
        let steps = all_lost::next_steps(&report, &direction.to.device, &result);
        outcomes.push(receipt.conclude(&result, console)?);
        if !job.quiet {
            steps.iter().flatten().for_each(|step| program::note!("{step}"));
        }
        parts.push((result, sender));
    }
    if parts.len() > 1 {
        let total = total::of(parts, &rates, late_is_lost);
        let format = RowFormat::of(json, is_report_on_stderr && !json);
        console.report(format, &total.total_line(), &Joined("\n", total))?;
    }
    Ok(outcomes.into_iter().find(|outcome| *outcome != Outcome::Done).unwrap_or(Outcome::Done))
}

/// Waits for late frames.
fn drain(receiving: &Receiving, mut drain: Drain, mut look: impl FnMut()) {
    let started = Instant::now();
    while !drain.is_over(receiving.received(), || receiving.unique(), started.elapsed()) {
        thread::sleep(POLL_INTERVAL);
        look();
    }
}
