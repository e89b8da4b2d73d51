//! A run of `wirerate count` or `wirerate sink`: start, a line each second, end, report.

use super::{Args, Report};
use crate::cmd::rx_stats::{Cpu, Ticker};
use crate::out::{self, OutError};
use crate::outcome::{Failure, Outcome};
use crate::stop::Stop;
use capture::{CountOptions, CountResult, Counting, CpuCount, Mode, XdpModeChoice};
use host::Netns;
use std::thread;
use std::time::Duration;

/// The counters of the program have no event, so they are read at this interval.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Which of the two commands it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The host receives the frames.
    Count,
    /// The frames are dropped.
    Sink,
}

impl Kind {
    fn mode(self) -> Mode {
        match self {
            Self::Count => Mode::Mirror,
            Self::Sink => Mode::Drop,
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
pub fn run(kind: Kind, args: &Args, stop: &Stop) -> Result<Outcome, Failure> {
    let counting = start(kind, args)?;
    // Nothing that follows needs a capability.
    let _ = host::keep_capabilities(&[]);
    let source = counting.xdp().to_string();
    eprintln!("wirerate: {} {} ({source})", kind.doing(), args.device);
    if !counting.device().is_up() {
        eprintln!("wirerate: {} is down: nothing can arrive until it is up", args.device);
    }
    let watched = watch(&counting, args, stop);
    let ended = counting.stop();
    if ended.is_device_gone {
        eprintln!("wirerate: {} went away: counting ends here", args.device);
    }
    watched?;
    let report = report(kind, args, source, &ended);
    out::text(&if args.json { report.json_line() } else { report.to_string() })?;
    Ok(if ended.is_device_gone { Outcome::No } else { Outcome::Done })
}

fn start(kind: Kind, args: &Args) -> Result<Counting, Failure> {
    let act = || match &args.netns {
        Some(netns) => format!("count on {} in {netns}", args.device),
        None => format!("count on {}", args.device),
    };
    let netns = args.netns.as_deref().map(Netns::named).transpose();
    let options = CountOptions {
        ifname: args.device.clone(),
        netns: netns.map_err(|why| Failure::host(act(), why))?,
        mode: kind.mode(),
        xdp: XdpModeChoice::Best,
    };
    Counting::start(&options).map_err(|why| Failure::capture(act(), why))
}

/// Prints a line each second until it is time to end.
fn watch(counting: &Counting, args: &Args, stop: &Stop) -> Result<(), OutError> {
    let wanted = args.count.map(|count| count.0).filter(|count| *count > 0);
    let duration = args.duration.map(|duration| Duration::from_nanos(duration.0));
    let mut ticker = Ticker::default();
    loop {
        let (cpus, elapsed) = (counting.cpus(), counting.elapsed());
        let received: u64 = cpus.iter().map(|cpu| cpu.frames).sum();
        if ticker.is_due(elapsed) {
            let interval = ticker.next(elapsed, rows(&cpus));
            out::text(&if args.json { interval.json_line() } else { interval.to_string() })?;
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

fn rows(cpus: &[CpuCount]) -> Vec<Cpu> {
    cpus.iter().map(|count| Cpu { cpu: count.cpu, received: count.frames }).collect()
}

fn report(kind: Kind, args: &Args, source: String, ended: &CountResult) -> Report {
    Report {
        device: args.device.clone(),
        netns: args.netns.clone(),
        mode: kind.mode().name(),
        source,
        duration_ns: ended.elapsed.as_nanos() as u64,
        received: ended.cpus.iter().map(|cpu| cpu.frames).sum(),
        received_bytes: ended.cpus.iter().map(|cpu| cpu.frame_bytes).sum(),
        cpus: rows(&ended.cpus),
    }
}
