//! Runs `wirerate capture`: start, progress, end, report.

use super::args::Args;
use super::outputs;
use super::print::{FramePrinter, PrintCounts};
use super::recorder::TriggerCommand;
use super::report::{ClockReport, CpuResult, OutputEnd, OutputResult, Report};
use crate::device_patterns;
use crate::rx_args::Targets;
use capture::control::{ControlCommand, ControlServer, ControlTarget};
use capture::{
    CaptureError, DeviceGroup, Format, GroupChange, Mode, OnError, Options, OutputCounts, OutputReport,
    RunAs, SNAPLEN_WHOLE, Session, SourceFacts, SourceKind, Stats,
};
use host::{Capability, Netns, Stack};
use program::active_window::ActiveWindow;
use program::console::Console;
use program::monitor::sources;
use program::out::OutError;
use program::outcome::{Failure, Outcome};
use program::row_printer::{Row, RowFormat, RowPrinter};
use program::rx_stats::{RxHead, Ticker};
use program::signal_counts::take_write_out;
use program::start_at::{StartReport, left, refuse_if_late};
use program::stop::Stop;
use program::term::REDRAW;
use std::io;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};
use units::{human_count, human_duration, human_pps, human_size, per_second};

/// Counters of the kernel have no event, so the end of a capture is polled at this interval.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Time between two looks for a device that is not there yet.
const DEVICE_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The arguments of a capture and what they select.
struct CaptureJob<'a> {
    args: &'a Args,
    targets: Targets,
    /// The devices, if others may join them.
    group: Option<DeviceGroup>,
}

impl CaptureJob<'_> {
    /// The devices in words: their names, or what the user called the group.
    fn subject(&self) -> String {
        self.group.as_ref().map_or_else(|| self.targets.devices.join(" and "), ToString::to_string)
    }
}

/// The devices as a group, which others may join, and which may come back. XDP programs and the
/// folders of a data set belong to devices that are there from the start.
fn group(args: &Args, targets: &Targets) -> Option<DeviceGroup> {
    let can_wait = args.mode == Mode::Mirror && !args.files.per_queue;
    let may_grow = targets.is_group || (args.wait && can_wait);
    let source = args.source.source.unwrap_or(SourceKind::Tpacket);
    let can_grow = source == SourceKind::Tpacket && args.source.at.is_none();
    let is_data_set = args.files.format == Some(Format::Parquet);
    let (_, stack) = args.rx.place().ok()?;
    (may_grow && can_grow && !is_data_set).then(|| device_patterns::group(&targets.typed, &stack))
}

/// Captures until a limit, a signal, a command or an error, and prints the report.
///
/// # Errors
/// Refused by the host or the device before the first frame, or by the file later.
pub fn run(args: &Args, stop: &Stop) -> Result<Outcome, Failure> {
    outputs::refusal(args)?;
    if let Some(name) = wait_for_devices(args, stop)? {
        program::note!("nothing was captured: {name} is not there, and the wait was ended");
        return Ok(Outcome::No);
    }
    let targets = args.rx.targets("capture")?;
    let job = &CaptureJob { args, group: group(args, &targets), targets };
    let act = || args.rx.act("capture", &job.subject());
    refuse_if_late(args.start_at, act)?;
    let mut options = options(job, stop)?;
    let (display, shown) = args.print.then(|| capture::display(args.print_rate.0)).unzip();
    options.display = display;
    // Before capabilities are dropped: the folder of the sockets needs one.
    let server = server(job);
    let session = Session::start(options).map_err(|why| failure(job, why))?;
    refuse_if_late(args.start_at, act)?;
    // Time of the session until that of the run begins.
    let before = args.start_at.map_or(Duration::ZERO, |_| session.elapsed() + left(args.start_at));
    // From here on this thread ends things that are open already, and removes its socket.
    let _ = host::keep_capabilities(&[Capability::DacOverride, Capability::Fowner]);
    if !args.rx.quiet {
        print_notes(job, &session);
        if let Err(error) = &server {
            let why = match error.kind() {
                io::ErrorKind::AddrInUse => format!("it reaches another capture on {}", job.subject()),
                io::ErrorKind::PermissionDenied => {
                    "creating its socket in /run/wirerate needs root".to_owned()
                }
                _ => error.to_string(),
            };
            program::note!("`wirerate ctl` does not reach this capture: {why}");
        }
    }
    let print = |shown| FramePrinter::start(shown, args, host::local_utc_offset_s());
    let printer = shown.map(print).transpose().map_err(|why| Failure::refused("print frames", why))?;
    let _counted = stop.console().count_in(sources::capture(session.observer(), args.rx.netns.as_deref()));
    let mut server = server.ok();
    let mut mode = args.mode;
    let mut window = ActiveWindow::default();
    let ends = (stop, printer.as_ref());
    let mut saves = 0;
    let watched = watch(&session, args, (before, ends), &mut server, (&mut mode, &mut window, &mut saves));
    drop(server);
    let mut ended = session.stop();
    let printed = printer.map(FramePrinter::end);
    print_saves(&ended.ended_saves, &mut saves, args.rx.quiet);
    ended.stats.elapsed = ended.stats.elapsed.saturating_sub(before);
    for name in &ended.files_not_handed_over {
        program::note!("the rotate command did not finish for {name}");
    }
    // Those of a group were told when they went away.
    let left = ended.devices.iter().filter(|device| device.is_gone && job.group.is_none());
    for device in left {
        let name = &device.link.name;
        match &device.source {
            SourceFacts::At(facts) => program::note!(
                "{name} went away, or the XDP program {} is not on it any more",
                facts.program.name
            ),
            _ => program::note!("{name} went away"),
        }
    }
    watched?;
    conclude(job, &report(job, mode, &ended, (&window, printed)), ended, stop.console())
}

/// With --wait, returns when the devices are there, or at a signal the name of one that is not.
fn wait_for_devices<'a>(args: &'a Args, stop: &Stop) -> Result<Option<&'a str>, Failure> {
    if !args.wait {
        return Ok(None);
    }
    let (_, stack) = args.rx.place().map_err(|why| Failure::host("wait for a device", why))?;
    if let Some(name) = args.rx.missing(&stack).filter(|_| !args.rx.quiet) {
        program::note!("waiting for {name}");
    }
    loop {
        let missing = args.rx.missing(&stack);
        if missing.is_none() || stop.is_set() {
            return Ok(missing);
        }
        thread::sleep(DEVICE_POLL_INTERVAL);
    }
}

/// Says on standard error how the capture runs.
fn print_notes(job: &CaptureJob<'_>, session: &Session) {
    let args = job.args;
    let (devices, group) = (session.devices(), &job.group);
    if let (Some(group), Some(first)) = (group, devices.first()) {
        let (count, source) = (devices.len(), &first.source);
        let noun = if count == 1 { "device" } else { "devices" };
        match group.has_patterns() {
            true => {
                program::note!("capturing on {group}: {count} {noun}, and those that appear later ({source})")
            }
            false if count == 1 => {
                program::note!("capturing on {group}, also if it comes back later ({source})");
            }
            false => program::note!("capturing on {group}, also if they come back later ({source})"),
        }
    }
    print_changes(session, args.rx.quiet);
    // The devices of a group have the same rings.
    for device in devices.iter().take(if group.is_some() { 1 } else { usize::MAX }) {
        let name = group.as_ref().map_or_else(|| device.link.name.clone(), ToString::to_string);
        if group.is_none() {
            program::note!("capturing on {name} ({})", device.source);
        }
        if let (Some(_), Some(bound)) = (args.ring, device.ring_size.bounded_by) {
            let size = human_size(device.ring_size.bytes);
            program::note!("each ring of {name} has {size}: all rings together take at most {bound}");
        }
        if let Some(refusal) = &device.stamps_refusal {
            program::note!("timestamps of {name} are kernel time: {refusal}");
        }
        if let Some(refusal) = &device.promiscuous_refusal {
            program::note!(
                "{name} is not promiscuous, so a card drops frames for other addresses: {refusal}"
            );
        }
        if group.is_none() && !device.link.is_up() {
            program::note!("{name} is down: nothing can arrive until it is up");
        }
    }
    if job.targets.is_group && group.is_none() {
        program::note!("{} devices; those that appear later are not captured", devices.len());
    }
    if let Ok(Some(recorder)) = args.recorder.options() {
        let time = recorder.keep_ns.map_or(String::new(), |ns| format!("of {} ", human_duration(ns)));
        let size = human_size(recorder.keep_bytes);
        program::note!("keeping the last frames {time}in at most {size} of memory until a trigger");
    }
    if !args.write.is_empty() && args.snaplen.len() < 2 && args.snaplen() < SNAPLEN_WHOLE {
        let bytes = human_count(args.snaplen().into());
        program::note!("keeping the first {bytes} bytes of each frame (--snaplen 0 keeps all)");
    }
    for name in &args.write {
        if let Some(format) = args.files.unexpected_format(name) {
            let (name, format) = (name.display(), format.name());
            program::note!("{name} is in {format} format; --format selects another");
        }
    }
}

/// Says which devices have joined or left the group, unless it is to be quiet.
fn print_changes(session: &Session, is_quiet: bool) {
    // Taken in any case: a long capture may have many.
    let changes = session.group_changes();
    for change in changes.into_iter().filter(|_| !is_quiet) {
        match change {
            GroupChange::Joined(name) => program::note!("{name} appeared and is captured, too"),
            GroupChange::Left(name) => program::note!("{name} went away"),
            GroupChange::Refused { name, why } => program::note!("{name} is not captured: {why}"),
        }
    }
}

fn options(job: &CaptureJob<'_>, stop: &Stop) -> Result<Options, Failure> {
    let CaptureJob { args, targets, .. } = job;
    let run_as = args.user.as_deref().map(RunAs::named).transpose();
    let no_stdout = |why| Failure::refused("write to standard output", why);
    let options = Options {
        ifnames: targets.devices.clone(),
        group: job.group.clone(),
        netns: targets.netns.clone(),
        mode: args.mode,
        // A group has devices that the user did not name.
        promiscuous: !args.rx.no_promisc && !targets.is_group,
        filter: outputs::filter_of(targets, 0),
        snaplen: args.snaplen(),
        header_cut: args.header_cut(),
        ring_size_bytes: args.ring.map(|size| size.0),
        frames_max: args.frames_max(),
        output: outputs::output(args.write.first().map(PathBuf::as_path)).map_err(no_stdout)?,
        more_outputs: outputs::more(args, targets).map_err(no_stdout)?,
        application: format!("wirerate {}", env!("CARGO_PKG_VERSION")),
        run_as: run_as.map_err(|why| failure(job, why))?,
        interrupted: stop.flag(),
        abandoned: if args.files.rotate_command.is_some() { stop.abandon_flag() } else { stop.flag() },
        ..Options::new("")
    };
    let recorder = args.recorder.options().map_err(|why| Failure::usage("keep the last frames", why))?;
    let mut options = args.source.apply(Options { recorder, ..options });
    let is_group = targets.is_group || job.group.is_some();
    if is_group && args.source.source.is_none() && args.source.at.is_none() {
        options.source = SourceKind::Tpacket;
    }
    Ok(args.files.apply(args.write.first().map(PathBuf::as_path), host::local_utc_offset_s(), options))
}

fn failure(job: &CaptureJob<'_>, why: CaptureError) -> Failure {
    let act = job.args.rx.act("capture", &job.subject());
    let is_filter = matches!(&why, CaptureError::Filter { .. });
    if why.is_device_busy() {
        return Failure::capture_with(act, why, job.args.mode == Mode::Mirror);
    }
    if let (Some(user), CaptureError::Create { source, .. }) = (&job.args.user, &why)
        && source.kind() == io::ErrorKind::PermissionDenied
    {
        return Failure::capture(act, why)
            .try_this(format!("a directory in which the user {user} may create files"));
    }
    // A recorder has no limits of files, so the advice for those is of no use.
    if let (Some(_), CaptureError::Write { name, source, .. }) = (&job.args.recorder.keep, &why)
        && source.kind() == io::ErrorKind::StorageFull
    {
        let advice =
            format!("`df -h {name}` for the space there; a smaller --keep or --max-saves takes less");
        return Failure::refused(act, why).try_this(advice);
    }
    match &job.targets.first_filter_word {
        Some(word) if is_filter => Failure::capture(act, why)
            .try_this(format!("another device, if {word} is one: it is not here, so it began the filter")),
        _ => Failure::capture(act, why),
    }
}

/// The sockets of `wirerate ctl`. Without them the capture runs, and a warning is printed.
fn server(job: &CaptureJob<'_>) -> io::Result<ControlServer> {
    let targets = &job.targets;
    let netns = targets.netns.clone().map_or_else(Netns::current, Ok).map_err(io::Error::other)?;
    let stack = Stack::of(&netns).map_err(io::Error::other)?;
    // By their own names; a device that is not there is an error of the capture.
    let name = |given: &String| stack.link(given.as_str()).map(|link| link.name).map_err(io::Error::other);
    let mut names = match &job.group {
        // The others of its devices come and go, and may have captures of their own.
        Some(group) if group.has_patterns() => {
            targets.typed.iter().filter_map(|word| name(word).ok()).collect()
        }
        _ => targets.devices.iter().map(name).collect::<io::Result<Vec<String>>>()?,
    };
    // `ctl` finds the capture by the word that was typed, too.
    let is_new = |word: &&String| !names.contains(word);
    let typed: Vec<String> = targets.typed.iter().filter(is_new).cloned().collect();
    names.extend(typed.into_iter().filter(|word| stack.link(word.as_str()).is_err()));
    ControlServer::open(ControlTarget::Capture, &netns, &names)
}

/// Executes a command.
fn execute(
    command: ControlCommand,
    session: &Session,
    mode: &mut Mode,
    is_over: &mut bool,
    (before, ticker): (Duration, &mut Ticker),
) -> Result<String, String> {
    match command {
        ControlCommand::Mode(wanted) => {
            session.set_mode(wanted).map_err(|error| error.to_string())?;
            *mode = wanted;
            Ok(String::new())
        }
        ControlCommand::Stats => {
            let row = ticker.next_of_capture(&stats(session, before));
            Ok(row.json_line())
        }
        ControlCommand::Rotate => {
            let names = session.rotate()?;
            Ok(names.join(" "))
        }
        ControlCommand::Save => session.save("`wirerate ctl save`"),
        ControlCommand::Stop => {
            *is_over = true;
            Ok(String::new())
        }
        ControlCommand::Pause | ControlCommand::Resume | ControlCommand::Speed(_) => {
            Err("this is a capture".to_owned())
        }
    }
}

/// Shows progress until the capture ends.
fn watch(
    session: &Session,
    args: &Args,
    (before, (stop, lines)): (Duration, (&Stop, Option<&FramePrinter>)),
    server: &mut Option<ControlServer>,
    (mode, window, saves): (&mut Mode, &mut ActiveWindow, &mut u64),
) -> Result<(), OutError> {
    let is_wanted = !args.json && !args.has_rows() && !args.print && !args.rx.quiet;
    let format = args.has_rows().then(|| RowFormat::of(args.json, args.csv));
    let console = stop.console();
    let mut printer = RowPrinter::new(console, format, console.events().are_followed());
    let progress = console.live_line(is_wanted, args.frames_max().unwrap_or(0));
    let started = Instant::now() + left(args.start_at);
    let (mut ticker, mut redrawn) = (Ticker::default(), Duration::ZERO);
    let end = args.duration_ns().map(|duration_ns| started + Duration::from_nanos(duration_ns));
    let mut last = stats(session, before);
    let first = last.total();
    ticker.begin(last.elapsed, first.received, first.received_bytes);
    let (mut is_over, mut stats_ticker) = (false, Ticker::default());
    let mut trigger = args.recorder.command();
    let is_due = || end.is_some_and(|end| Instant::now() >= end);
    while !is_over && !stop.is_set() && !session.is_finished() && !is_due() {
        // The program that reads the lines has ended: an end like Ctrl-C.
        is_over |= lines.is_some_and(FramePrinter::is_closed);
        let left = end.map_or(POLL_INTERVAL, |end| end.saturating_duration_since(Instant::now()));
        match server {
            None => thread::sleep(POLL_INTERVAL.min(left)),
            Some(server) => {
                if server.wait(POLL_INTERVAL.min(left)) {
                    server.serve(|command| {
                        execute(command, session, mode, &mut is_over, (before, &mut stats_ticker))
                    });
                }
            }
        }
        if take_write_out() {
            let done = if session.is_recorder() { session.save("SIGUSR2").map(drop) } else { session.sync() };
            done.unwrap_or_else(|why| program::note!("nothing is written at SIGUSR2: {why}"));
        }
        let elapsed = session.elapsed().saturating_sub(before);
        let (frames, frame_bytes) = session.received();
        window.observe(elapsed, frames, frame_bytes);
        watch_recorder(session, &mut trigger, saves, args.rx.quiet);
        print_changes(session, args.rx.quiet);
        let elapsed = started.elapsed();
        if let Some(printer) = printer.as_mut().filter(|_| ticker.is_due(elapsed)) {
            let row = ticker.next_of_capture(&stats(session, before));
            if args.is_stdout() { printer.print_aside(&row) } else { printer.print(&row)? }
        }
        if progress.is_visible() && elapsed >= redrawn + REDRAW {
            let now = stats(session, before);
            progress.show(now.total().written, &live_text(&last, &now));
            (last, redrawn) = (now, elapsed);
        }
    }
    Ok(())
}

/// Runs the trigger command, and prints how saves have ended.
fn watch_recorder(session: &Session, trigger: &mut Option<TriggerCommand>, saves: &mut u64, is_quiet: bool) {
    if let Some(command) = trigger {
        match command.poll() {
            Ok(false) => {}
            Ok(true) => {
                if let Err(why) = session.save("the trigger command") {
                    program::note!("nothing was saved: {why}");
                }
            }
            Err(why) => {
                program::note!("the trigger command cannot be run any more: {why}");
                *trigger = None;
            }
        }
    }
    print_saves(&session.ended_saves(), saves, is_quiet);
}

/// Prints how saves have ended; `saves` counts the files.
fn print_saves(ended: &[Result<String, String>], saves: &mut u64, is_quiet: bool) {
    for saved in ended {
        match saved {
            Ok(_) => {
                *saves += 1;
                if !is_quiet {
                    program::note!("trigger: file {saves} is saved");
                }
            }
            Err(why) => program::note!("trigger: {why}"),
        }
    }
}

/// The counts of a session, whose run began `before` after its start.
fn stats(session: &Session, before: Duration) -> Stats {
    let stats = session.stats();
    Stats { elapsed: stats.elapsed.saturating_sub(before), ..stats }
}

fn live_text(before: &Stats, now: &Stats) -> String {
    let (total, passed) = (now.total(), now.elapsed.saturating_sub(before.elapsed));
    let rate = per_second(total.received - before.total().received, passed.as_nanos() as u64);
    let mean = per_second(total.received, now.elapsed.as_nanos() as u64);
    let [rate, mean] = [rate, mean].map(human_pps);
    let (received, lost) = (human_count(total.received), human_count(total.lost()));
    format!("{received} received, {rate} now, {mean} mean, {lost} lost")
}

fn report(
    job: &CaptureJob<'_>,
    mode: Mode,
    ended: &capture::SessionReport,
    (window, printed): (&ActiveWindow, Option<PrintCounts>),
) -> Report {
    let args = job.args;
    let total = ended.stats.total();
    let mut sources: Vec<String> = ended.devices.iter().map(|device| device.source.to_string()).collect();
    sources.dedup();
    Report {
        head: RxHead {
            device: job.subject(),
            netns: args.rx.netns.clone(),
            mode: mode.name(),
            source: sources.join("; "),
            duration_ns: ended.stats.elapsed.as_nanos() as u64,
            active: window.rate().unwrap_or_default(),
        },
        start: args.start_at.map(|start_at| StartReport::new(start_at, None)),
        filter: outputs::filter_of(&job.targets, 0)
            .filter(|_| args.write.len() < 2 || job.targets.filters.is_empty()),
        counts: total,
        offered: ended.stats.lost_nic().map(|lost_nic| total.received + lost_nic),
        lost: total.lost(),
        lost_nic: ended.stats.lost_nic(),
        ring_bytes: ended.devices.iter().map(|device| device.ring_size.bytes).min().unwrap_or(0),
        ring_bounded_by: ended.devices.iter().find_map(|device| device.ring_size.bounded_by),
        ring_asked: args.ring.map(|size| size.0),
        ring_freezes: ended.stats.freezes(),
        header_cut: args.header_cut(),
        snaplen: if args.snaplen() == SNAPLEN_WHOLE { 0 } else { args.snaplen() },
        promiscuous: ended.devices.iter().all(|device| device.is_promiscuous),
        file: ended.file_names.first().cloned(),
        outputs: output_results(job, ended),
        file_names: ended.file_names.clone(),
        file_bytes: ended.stats.output_bytes,
        files: ended.files,
        saves_refused: ended.saves_refused,
        window_ns: ended.window_ns,
        files_removed: ended.files.map(|_| ended.files_removed),
        late: ended.merge.map(|merge| merge.late),
        late_max_ns: ended.merge.map(|merge| merge.late_max_ns),
        ahead: ended.merge.map(|merge| merge.ahead),
        clock_set_back: ended.merge.map(|merge| merge.set_back),
        printed: printed.map(|counts| counts.printed),
        not_printed: printed.map(|counts| counts.not_printed),
        commands_failed: ended.commands_failed,
        software_time: total.written.saturating_sub(total.hardware_time),
        hardware_time_refused: refusals(ended),
        clocks: ended.devices.iter().filter_map(clock).collect(),
        cpus: (ended.stats.by_cpu().into_iter())
            .filter(|(_, counts)| counts.received > 0)
            .map(|(cpu, counts)| CpuResult { cpu, received: counts.received, lost_ring: counts.lost_ring })
            .collect(),
    }
}

/// What became of the frames of each output.
fn output_results(job: &CaptureJob<'_>, ended: &capture::SessionReport) -> Vec<OutputResult> {
    let total = ended.stats.total();
    let only = OutputReport {
        counts: OutputCounts {
            not_matched: 0,
            written: total.written,
            cut: total.cut,
            lost_disk: total.lost_disk,
            after_limit: total.after_limit,
        },
        file: ended.file_names.first().cloned(),
        file_bytes: ended.stats.output_bytes,
        files: ended.files,
        files_removed: ended.files_removed,
    };
    let of_output = |number: usize| {
        let snaplen = job.args.snaplen_of(number);
        OutputResult {
            write: job.args.write[number].display().to_string(),
            filter: outputs::filter_of(&job.targets, number),
            snaplen: if snaplen.bytes() == SNAPLEN_WHOLE { 0 } else { snaplen.bytes() },
            header_cut: snaplen.header_cut(),
            end: OutputEnd::from(ended.outputs.get(number).unwrap_or(&only)),
        }
    };
    (0..job.args.write.len()).map(of_output).collect()
}

/// Why devices that make timestamps have no clock here.
fn refusals(ended: &capture::SessionReport) -> Option<String> {
    let refusals: Vec<&str> =
        ended.devices.iter().filter_map(|device| device.stamps_refusal.as_deref()).collect();
    (!refusals.is_empty()).then(|| refusals.join("; "))
}

fn clock(device: &capture::CapturedDevice) -> Option<ClockReport> {
    let facts = device.clock?;
    Some(ClockReport { device: device.link.name.clone(), facts, is_tai: facts.is_tai() })
}

/// Prints the report, and returns how the capture ended.
fn conclude(
    job: &CaptureJob<'_>,
    report: &Report,
    mut ended: capture::SessionReport,
    console: &Console,
) -> Result<Outcome, Failure> {
    let args = job.args;
    for losses in &mut ended.losses {
        let line = report.json_line();
        if let Err(error) = losses.write(ended.end_time_ns, &ended.stats, Some(line.trim_end())) {
            ended.output_error.get_or_insert(error);
        }
    }
    let format = RowFormat::of(args.json, args.is_stdout() || args.csv);
    console.report(format, &report.json_line(), &report)?;
    match ended.output_error {
        // The reader of the pipe closed it: an end like Ctrl-C.
        Some(error) if error.is_closed_pipe() => Ok(Outcome::Done),
        Some(error) if args.files.on_error == OnError::GoOn || error.is_blocked_pipe() => {
            program::note!("{:#}", anyhow::Error::from(error));
            Ok(Outcome::No)
        }
        Some(error) => Err(failure(job, error).after_report()),
        None if report.lost > 0 || report.lost_nic.is_some_and(|lost| lost > 0) => Ok(Outcome::No),
        None if report.commands_failed > 0 => Ok(Outcome::No),
        // Devices of a group come and go.
        None if job.group.is_none() && ended.devices.iter().any(|device| device.is_gone) => Ok(Outcome::No),
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
