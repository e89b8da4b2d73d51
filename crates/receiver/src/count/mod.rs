//! Counting alone, for `wirerate count` and `wirerate sink`: start, rows if requested, end, report.

mod report;

pub use report::{COUNT, Report};

use capture::{CountOptions, Counting, CpuCount, Mode, XdpModeChoice};
use host::Netns;
use program::active_window::ActiveWindow;
use program::console::Console;
use program::monitor::sources::{self, DeviceLabels};
use program::out::OutError;
use program::outcome::{Failure, Outcome};
use program::row_printer::{RowArgs, RowFormat};
use program::rx_stats::{Cpu, RxHead, Ticker};
use program::stop::Stop;
use std::thread;
use std::time::Duration;
use units::{Count, Nanos};

/// The counters of the program have no event, so they are read at this interval.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Which of the two commands it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountKind {
    /// The host receives the frames.
    Count,
    /// The frames are dropped.
    Sink,
}

impl CountKind {
    fn mode(self) -> Mode {
        match self {
            Self::Count => Mode::Mirror,
            Self::Sink => Mode::Drop,
        }
    }

    /// The name of the command.
    pub fn name(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Sink => "sink",
        }
    }

    fn doing(self) -> &'static str {
        match self {
            Self::Count => "counting frames of",
            Self::Sink => "counting and dropping frames of",
        }
    }
}

/// What is counted, and until when.
#[derive(Clone, Debug)]
pub struct CountJob {
    /// Whether the host receives the frames.
    pub kind: CountKind,
    /// The device to count on.
    pub device: String,
    /// Its network namespace, as the user named it.
    pub netns_name: Option<String>,
    /// Its network namespace; that of the process without one.
    pub netns: Option<Netns>,
    /// Only frames that match, in the language of pcap-filter(7).
    pub filter: Option<String>,
    /// The device receives frames for other addresses as well.
    pub is_promiscuous: bool,
    /// Counting ends with so many frames; 0 for no end.
    pub count: Option<Count>,
    /// Counting ends after this time.
    pub duration: Option<Nanos>,
    /// Rows per second.
    pub rows: RowArgs,
    /// The report is a line of JSON.
    pub json: bool,
    /// No progress and no notes.
    pub quiet: bool,
}

/// Counts until a limit, a signal or the end of the device, and prints the report.
///
/// # Errors
/// Refused by the host or the device.
pub fn run(job: &CountJob, stop: &Stop) -> Result<Outcome, Failure> {
    let CountJob { kind, device, .. } = job;
    let counting = start(job, stop)?;
    let labels = DeviceLabels::new(device, job.netns_name.as_deref());
    let _counted = stop.console().count_in(sources::count(counting.observer(), labels));
    // Nothing that follows needs a capability.
    let _ = host::keep_capabilities(&[]);
    if !job.quiet {
        print_notes(job, &counting, stop.console());
    }
    let mut window = ActiveWindow::default();
    let watched = watch(&counting, job, stop, &mut window);
    let (source, promiscuous) = (counting.xdp().to_string(), counting.is_promiscuous());
    let ended = counting.stop();
    if ended.is_device_gone {
        stop.console().note(format_args!("{device} went away: counting ends here"));
    }
    watched?;
    let report = Report {
        head: RxHead {
            device: device.clone(),
            netns: job.netns_name.clone(),
            mode: kind.mode().name(),
            source,
            duration_ns: ended.elapsed.as_nanos() as u64,
            active: window.rate().unwrap_or_default(),
        },
        promiscuous,
        filter: job.filter.clone(),
        received: ended.cpus.iter().map(|cpu| cpu.frames).sum(),
        filtered: ended.cpus.iter().map(|cpu| cpu.filtered).sum(),
        received_bytes: ended.cpus.iter().map(|cpu| cpu.frame_bytes).sum(),
        cpus: cpu_rows(&ended.cpus),
    };
    stop.console().report(RowFormat::of(job.json, job.rows.csv), &report.json_line(), &report)?;
    Ok(if ended.is_device_gone { Outcome::No } else { Outcome::Done })
}

fn print_notes(job: &CountJob, counting: &Counting, console: &Console) {
    let CountJob { kind, device, .. } = job;
    console.note(format_args!("{} {device} ({})", kind.doing(), counting.xdp()));
    if let Some(refusal) = counting.promiscuous_refusal() {
        console.note(format_args!(
            "{device} is not promiscuous, so a card drops frames for other addresses: {refusal}"
        ));
    }
    if !counting.device().is_up() {
        console.note(format_args!("{device} is down: nothing can arrive until it is up"));
    }
}

fn start(job: &CountJob, stop: &Stop) -> Result<Counting, Failure> {
    let options = CountOptions {
        ifname: job.device.clone(),
        netns: job.netns.clone(),
        mode: job.kind.mode(),
        xdp: XdpModeChoice::Best,
        promiscuous: job.is_promiscuous,
        filter: job.filter.clone(),
        interrupted: stop.flag(),
    };
    let act = match &job.netns_name {
        Some(netns) => format!("count on {} in {netns}", job.device),
        None => format!("count on {}", job.device),
    };
    Counting::start(&options).map_err(|why| Failure::capture_with(act, why, false))
}

/// Prints the requested rows until the run ends.
fn watch(
    counting: &Counting,
    job: &CountJob,
    stop: &Stop,
    window: &mut ActiveWindow,
) -> Result<(), OutError> {
    let wanted = job.count.map(|count| count.0).filter(|count| *count > 0);
    let duration = job.duration.map(|duration| Duration::from_nanos(duration.0));
    let mut ticker = Ticker::default();
    let mut printer = job.rows.printer(stop.console(), job.json, job.quiet);
    let mut is_first = true;
    loop {
        let (cpus, elapsed) = (counting.cpus(), counting.elapsed());
        let received: u64 = cpus.iter().map(|cpu| cpu.frames).sum();
        let bytes: u64 = cpus.iter().map(|cpu| cpu.frame_bytes).sum();
        window.observe(elapsed, received, bytes);
        if std::mem::take(&mut is_first) {
            ticker.begin(elapsed, received, bytes);
        }
        if let Some(printer) = printer.as_mut().filter(|_| ticker.is_due(elapsed)) {
            printer.print(&ticker.next(elapsed, bytes, cpu_rows(&cpus)))?;
        }
        let is_enough = wanted.is_some_and(|wanted| received >= wanted);
        let is_late = duration.is_some_and(|duration| elapsed >= duration);
        if stop.is_set() || is_enough || is_late || counting.is_device_gone() {
            return Ok(());
        }
        let left = duration.map_or(POLL_INTERVAL, |duration| duration.saturating_sub(elapsed));
        thread::sleep(POLL_INTERVAL.min(left));
    }
}

fn cpu_rows(cpus: &[CpuCount]) -> Vec<Cpu> {
    cpus.iter().map(|count| Cpu { cpu: count.cpu, received: count.frames }).collect()
}
