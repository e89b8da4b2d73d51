//! Runs `wirerate capture`: start, progress, end, report.

use super::args::Args;
use super::report::{Clock, Cpu, Report};
use crate::cmd::rx_stats::{Interval, Ticker};
use crate::out::{self, OutError};
use crate::outcome::{Failure, Outcome};
use crate::stop::Stop;
use crate::term::{Progress, REDRAW};
use crate::units::{human_count, human_pps, per_second};
use capture::control::{Command, ControlServer};
use capture::{CaptureError, Mode, OnError, Options, Output, RunAs, Session, Stats};
use host::{Capability, Netns, Stack};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// Counters of the kernel have no event, so the end of a capture is polled at this interval.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Captures until a limit, a signal, a command or an error, and prints the report.
///
/// # Errors
/// Refused by the host or the device before the first frame, or by the file later.
pub fn run(args: &Args, stop: &Stop) -> Result<Outcome, Failure> {
    if args.json && is_stdout(args) {
        let why = "both want standard output";
        return Err(Failure::usage("use --json with --write -", why).try_this("--write FILE --json"));
    }
    let options = options(args, stop)?;
    // Before capabilities are dropped: the folder of the sockets needs one.
    let server = server(args);
    let session = Session::start(options).map_err(|why| failure(args, why))?;
    // From here on this thread ends things that are open already, and removes its socket.
    let _ = host::keep_capabilities(&[Capability::DacOverride, Capability::Fowner]);
    for device in session.devices() {
        let name = &device.link.name;
        eprintln!("wirerate: capturing on {name} ({})", device.source);
        if let Some(asked) = args.ring
            && device.ring_frames < asked.into()
        {
            let frames = human_count(device.ring_frames);
            eprintln!(
                "wirerate: --ring {asked} exceeds the limit of packet sockets: {frames} frames on {name}"
            );
        }
        if let Some(refusal) = &device.stamps_refusal {
            eprintln!("wirerate: timestamps of {name} are kernel time: {refusal}");
        }
        if !device.link.is_up() {
            eprintln!("wirerate: {name} is down: nothing can arrive until it is up");
        }
    }
    if let Err(error) = &server {
        eprintln!("wirerate: `wirerate ctl` does not reach this capture: {error}");
    }
    let mut server = server.ok();
    let mut mode = args.mode;
    let watched = watch(&session, args, stop, &mut server, &mut mode);
    drop(server);
    let ended = session.stop();
    for device in ended.devices.iter().filter(|device| device.is_gone) {
        eprintln!("wirerate: {} went away", device.link.name);
    }
    watched?;
    conclude(args, &report(args, mode, &ended), ended)
}

fn is_stdout(args: &Args) -> bool {
    args.write.as_deref() == Some(Path::new("-"))
}

fn netns(args: &Args) -> Result<Option<Netns>, Failure> {
    let netns = args.netns.as_deref().map(Netns::named).transpose();
    netns.map_err(|why| Failure::host(act(args), why))
}

fn options(args: &Args, stop: &Stop) -> Result<Options, Failure> {
    let run_as = args.user.as_deref().map(RunAs::named).transpose();
    let options = Options {
        ifnames: args.devices.clone(),
        netns: netns(args)?,
        mode: args.mode,
        snaplen: args.snaplen,
        ring_slots: args.ring,
        frames_max: args.count.map(|count| count.0).filter(|count| *count > 0),
        output: output(args).map_err(|why| Failure::refused("write to standard output", why))?,
        application: format!("wirerate {}", env!("CARGO_PKG_VERSION")),
        run_as: run_as.map_err(|why| failure(args, why))?,
        interrupted: stop.flag(),
        ..Options::new("")
    };
    let options = args.source.apply(options);
    Ok(args.files.apply(args.write.as_deref(), capture::local_utc_offset_s(), options))
}

/// `eth1 and eth2`
fn devices(args: &Args) -> String {
    args.devices.join(" and ")
}

fn output(args: &Args) -> io::Result<Output> {
    Ok(match &args.write {
        None => Output::Nowhere,
        Some(_) if is_stdout(args) => {
            // The descriptor itself: Rust's standard output looks for line ends in everything.
            let file = File::from(io::stdout().as_fd().try_clone_to_owned()?);
            Output::Descriptor { name: "standard output".to_owned(), file }
        }
        Some(path) => Output::File(path.clone()),
    })
}

fn act(args: &Args) -> String {
    match &args.netns {
        Some(netns) => format!("capture on {} in {netns}", devices(args)),
        None => format!("capture on {}", devices(args)),
    }
}

fn failure(args: &Args, why: CaptureError) -> Failure {
    Failure::capture(act(args), why)
}

/// The sockets of `wirerate ctl`. Without them the capture runs, and a warning is printed.
fn server(args: &Args) -> io::Result<ControlServer> {
    let netns = args.netns.as_deref().map_or_else(Netns::current, Netns::named).map_err(io::Error::other)?;
    let stack = Stack::of(&netns).map_err(io::Error::other)?;
    // By their own names; a device that is not there is an error of the capture.
    let name = |given: &String| stack.link(given.as_str()).map(|link| link.name).map_err(io::Error::other);
    let names = args.devices.iter().map(name).collect::<io::Result<Vec<String>>>()?;
    ControlServer::open(&netns, &names)
}

/// Executes a command.
fn execute(
    command: Command,
    session: &Session,
    mode: &mut Mode,
    is_over: &mut bool,
    ticker: &mut Ticker,
) -> Result<String, String> {
    match command {
        Command::Mode(wanted) => {
            session.set_mode(wanted).map_err(|error| error.to_string())?;
            *mode = wanted;
            Ok(String::new())
        }
        Command::Stats => Ok(ticker.next_of_capture(&session.stats()).json_line()),
        Command::Stop => {
            *is_over = true;
            Ok(String::new())
        }
    }
}

/// Shows progress until the capture ends.
fn watch(
    session: &Session,
    args: &Args,
    stop: &Stop,
    server: &mut Option<ControlServer>,
    mode: &mut Mode,
) -> Result<(), OutError> {
    let progress = Progress::new(!args.json && !args.every_second, args.count.map_or(0, |count| count.0));
    let (started, mut ticker, mut redrawn) = (Instant::now(), Ticker::default(), Duration::ZERO);
    let end = args.duration.map(|duration| started + Duration::from_nanos(duration.0));
    let mut before = session.stats();
    let (mut is_over, mut stats_ticker) = (false, Ticker::default());
    while !is_over && !stop.is_set() && !session.is_finished() && end.is_none_or(|end| Instant::now() < end) {
        let left = end.map_or(POLL_INTERVAL, |end| end.saturating_duration_since(Instant::now()));
        match server {
            None => thread::sleep(POLL_INTERVAL.min(left)),
            Some(server) => {
                server.wait(POLL_INTERVAL.min(left));
                server.serve(|command| execute(command, session, mode, &mut is_over, &mut stats_ticker));
            }
        }
        let elapsed = started.elapsed();
        if args.every_second && ticker.is_due(elapsed) {
            print(&ticker.next_of_capture(&session.stats()), args)?;
        }
        if progress.is_visible() && elapsed >= redrawn + REDRAW {
            let now = session.stats();
            progress.show(now.total().written, live_text(&before, &now));
            (before, redrawn) = (now, elapsed);
        }
    }
    Ok(())
}

/// JSON is data for stdout; text goes to stderr, because stdout may be the capture file.
fn print(interval: &Interval, args: &Args) -> Result<(), OutError> {
    if args.json {
        return out::text(&interval.json_line());
    }
    eprint!("{interval}");
    Ok(())
}

fn live_text(before: &Stats, now: &Stats) -> String {
    let (total, passed) = (now.total(), now.elapsed.saturating_sub(before.elapsed));
    let rate = per_second(total.received - before.total().received, passed.as_nanos() as u64);
    let mean = per_second(total.received, now.elapsed.as_nanos() as u64);
    let [rate, mean] = [rate, mean].map(human_pps);
    let (received, lost) = (human_count(total.received), human_count(total.lost()));
    format!("{received} received, {rate} now, {mean} mean, {lost} lost")
}

fn report(args: &Args, mode: Mode, ended: &capture::Report) -> Report {
    let total = ended.stats.total();
    let mut sources: Vec<String> = ended.devices.iter().map(|device| device.source.to_string()).collect();
    sources.dedup();
    Report {
        device: devices(args),
        netns: args.netns.clone(),
        mode: mode.name(),
        source: sources.join("; "),
        duration_ns: ended.stats.elapsed.as_nanos() as u64,
        counts: total,
        offered: ended.stats.lost_nic().map(|lost_nic| total.received + lost_nic),
        lost: total.lost(),
        lost_nic: ended.stats.lost_nic(),
        ring_frames: ended.devices.iter().map(|device| device.ring_frames).min().unwrap_or(0),
        ring_asked: args.ring,
        ring_freezes: ended.stats.freezes(),
        file: args.write.as_ref().map(|path| path.display().to_string()),
        file_bytes: ended.stats.output_bytes,
        files: ended.files,
        late: ended.merge.map(|merge| merge.late),
        late_max_ns: ended.merge.map(|merge| merge.late_max_ns),
        ahead: ended.merge.map(|merge| merge.ahead),
        clock_set_back: ended.merge.map(|merge| merge.set_back),
        commands_failed: ended.commands_failed,
        software_time: total.written.saturating_sub(total.hardware_time),
        hardware_time_refused: refusals(ended),
        clocks: ended.devices.iter().filter_map(clock).collect(),
        cpus: (ended.stats.by_cpu().into_iter())
            .filter(|(_, counts)| counts.received > 0)
            .map(|(cpu, counts)| Cpu { cpu, received: counts.received, lost_ring: counts.lost_ring })
            .collect(),
    }
}

/// Why devices that make timestamps have no clock here.
fn refusals(ended: &capture::Report) -> Option<String> {
    let refusals: Vec<&str> =
        ended.devices.iter().filter_map(|device| device.stamps_refusal.as_deref()).collect();
    (!refusals.is_empty()).then(|| refusals.join("; "))
}

fn clock(device: &capture::DeviceFacts) -> Option<Clock> {
    let facts = device.clock?;
    Some(Clock { device: device.link.name.clone(), facts, is_tai: facts.is_tai() })
}

/// Prints the report, and returns how the capture ended.
fn conclude(args: &Args, report: &Report, ended: capture::Report) -> Result<Outcome, Failure> {
    if is_stdout(args) {
        eprint!("{report}");
    } else {
        out::text(&if args.json { report.json_line() } else { report.to_string() })?;
    }
    match ended.output_error {
        // The reader of the pipe closed it: an end like Ctrl-C.
        Some(error) if error.is_closed_pipe() => Ok(Outcome::Done),
        Some(error) if args.files.on_error == OnError::GoOn || error.is_blocked_pipe() => {
            eprintln!("wirerate: {:#}", anyhow::Error::from(error));
            Ok(Outcome::No)
        }
        Some(error) => Err(failure(args, error)),
        None if report.lost > 0 || report.lost_nic.is_some_and(|lost| lost > 0) => Ok(Outcome::No),
        None if report.commands_failed > 0 || ended.devices.iter().any(|device| device.is_gone) => {
            Ok(Outcome::No)
        }
        None => Ok(Outcome::Done),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use capture::{Counts, RingStats};

    #[test]
    fn the_live_line_tells_the_rate_since_the_last_one() {
        let stats = |elapsed_ms, received, lost_ring| Stats {
            elapsed: Duration::from_millis(elapsed_ms),
            rings: vec![RingStats {
                counts: Counts { received, lost_ring, ..Counts::default() },
                ..RingStats::default()
            }],
            ..Stats::default()
        };
        assert_eq!(
            live_text(&stats(500, 1_000_000, 0), &stats(1_000, 3_000_000, 12)),
            "3,000,000 received, 4.000 Mpps now, 3.000 Mpps mean, 12 lost"
        );
    }
}
