//! A run of `wirerate count` or `wirerate sink`: start, rows if requested, end, report.

use super::{Args, Report};
use crate::rx_args::Targets;
use capture::{CountOptions, Counting, CpuCount, Mode, XdpModeChoice};
use program::active_window::ActiveWindow;
use program::monitor::sources::{self, DeviceLabels};
use program::out::OutError;
use program::outcome::{Failure, Outcome};
use program::row_printer::RowFormat;
use program::rx_stats::{Cpu, RxHead, Ticker};
use program::stop::Stop;
use std::thread;
use std::time::Duration;

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

    fn name(self) -> &'static str {
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

/// Counts until a limit, a signal or the end of the device, and prints the report.
///
/// # Errors
/// Refused by the host or the device.
pub fn run(kind: CountKind, args: &Args, stop: &Stop) -> Result<Outcome, Failure> {
    let targets = args.rx.targets(kind.name())?;
    let [device] = &targets.devices[..] else {
        let why = "one device at a time";
        return Err(Failure::usage(args.rx.act("count", &targets.devices.join(" and ")), why)
            .try_this("a command for each device"));
    };
    let counting = start(kind, args, &targets, device, stop)?;
    let labels = DeviceLabels::new(device, args.rx.netns.as_deref());
    let _counted = stop.console().count_in(sources::count(counting.observer(), labels));
    // Nothing that follows needs a capability.
    let _ = host::keep_capabilities(&[]);
    if !args.rx.quiet {
        print_notes(kind, device, &counting);
    }
    let mut window = ActiveWindow::default();
    let watched = watch(&counting, args, stop, &mut window);
    let (source, promiscuous) = (counting.xdp().to_string(), counting.is_promiscuous());
    let ended = counting.stop();
    if ended.is_device_gone {
        eprintln!("wirerate: {device} went away: counting ends here");
    }
    watched?;
    let report = Report {
        head: RxHead {
            device: device.clone(),
            netns: args.rx.netns.clone(),
            mode: kind.mode().name(),
            source,
            duration_ns: ended.elapsed.as_nanos() as u64,
            active: window.rate().unwrap_or_default(),
        },
        promiscuous,
        filter: targets.filter.clone(),
        received: ended.cpus.iter().map(|cpu| cpu.frames).sum(),
        filtered: ended.cpus.iter().map(|cpu| cpu.filtered).sum(),
        received_bytes: ended.cpus.iter().map(|cpu| cpu.frame_bytes).sum(),
        cpus: cpu_rows(&ended.cpus),
    };
    stop.console().report(RowFormat::of(args.json, args.rows.csv), &report.json_line(), &report)?;
    Ok(if ended.is_device_gone { Outcome::No } else { Outcome::Done })
}

fn print_notes(kind: CountKind, device: &str, counting: &Counting) {
    eprintln!("wirerate: {} {device} ({})", kind.doing(), counting.xdp());
    if let Some(refusal) = counting.promiscuous_refusal() {
        eprintln!(
            "wirerate: {device} is not promiscuous, so a card drops frames for other addresses: {refusal}"
        );
    }
    if !counting.device().is_up() {
        eprintln!("wirerate: {device} is down: nothing can arrive until it is up");
    }
}

fn start(
    kind: CountKind,
    args: &Args,
    targets: &Targets,
    device: &str,
    stop: &Stop,
) -> Result<Counting, Failure> {
    let options = CountOptions {
        ifname: device.to_owned(),
        netns: targets.netns.clone(),
        mode: kind.mode(),
        xdp: XdpModeChoice::Best,
        promiscuous: !args.rx.no_promisc,
        filter: targets.filter.clone(),
        interrupted: stop.flag(),
    };
    let act = || args.rx.act(kind.name(), device);
    Counting::start(&options).map_err(|why| Failure::capture_with(act(), why, false))
}

/// Prints the requested rows until the run ends.
fn watch(counting: &Counting, args: &Args, stop: &Stop, window: &mut ActiveWindow) -> Result<(), OutError> {
    let wanted = args.count.map(|count| count.0).filter(|count| *count > 0);
    let duration = args.duration.map(|duration| Duration::from_nanos(duration.0));
    let mut ticker = Ticker::default();
    let mut printer = args.rows.printer(stop.console(), args.json, args.rx.quiet);
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
