//! `wirerate analyze FILE...`: loss, duplicates, order and latency of the frames in capture files.

use capture::ReceiveResult;
use capture_files::losses::LossTimeline;
use capture_files::playlist::{Played, Playlist, PlaylistOptions};
use host::ClockOffset;
use measure::{Arrival, Meter, OrderFigures};
use options::receive::{MeterArgs, ResultArgs};
use program::active_window::ActiveRate;
use program::console::Console;
use program::outcome::{Failure, Outcome};
use program::stop::Stop;
use receiver::{CaptureFigures, LINES_MAX, Receipt, RunBegin, check_files};
use replay::{InterfaceChoice, Record};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;
use units::{Count, quantity_of};

/// Interfaces that an error names.
const INTERFACES_SHOWN: usize = 8;

/// Arguments of `wirerate analyze`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Capture files, one after another; - for standard input
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Merge the files by the times of their packets
    #[arg(long)]
    pub merge: bool,
    /// Sort the files by their first packets
    #[arg(long)]
    pub sort: bool,
    /// Only packets of these interfaces of a pcapng file, by number or name
    #[arg(long, value_name = "IF,...", value_delimiter = ',')]
    pub interface: Vec<InterfaceChoice>,
    /// Frames that were sent; the report then has the loss
    #[arg(long, value_name = "N")]
    pub sent: Option<Count>,
    /// This host sent the frames since its last boot: measure the latency of marks, whose times
    /// count from there
    #[arg(long)]
    pub sent_here: bool,
    /// Flow count, run number, latency sampling and deadline of the frames
    #[command(flatten)]
    pub meter: MeterArgs,
    /// Checks, output files and JSON format of the results
    #[command(flatten)]
    pub results: ResultArgs,
    /// Print no notes, only errors and the report
    #[arg(long, short)]
    pub quiet: bool,
}

/// Reads the files and prints the report.
///
/// # Errors
/// A file that cannot be read, or files that cannot be written.
pub fn run(args: &Args, stop: &Stop) -> Result<Outcome, Failure> {
    let options = PlaylistOptions {
        command: "analyze".to_owned(),
        merges: args.merge,
        sorts: args.sort,
        loops: 1,
        loss_interfaces: args.interface.clone(),
        console: stop.console().clone(),
        ..PlaylistOptions::default()
    };
    check_files(&args.results.job())?;
    let mut playlist = Playlist::open(args.files.clone(), options)?;
    let mut analysis = Analysis::new(args);
    while !stop.is_set() {
        match playlist.advance()? {
            Played::Packet => analysis.receive(&playlist.record()),
            Played::NextLoop | Played::End => break,
        }
    }
    playlist.stop();
    let lines = playlist.damages().lines();
    let notes = playlist.notes();
    let notes = notes.iter().filter(|_| !args.quiet);
    lines.iter().chain(notes).for_each(|line| program::note!("{line}"));
    let is_whole = playlist.damages().is_empty();
    let outcome = analysis.conclude(args, &mut playlist, stop.console())?;
    Ok(if is_whole { outcome } else { Outcome::No })
}

/// Everything measured so far.
struct Analysis<'a> {
    interfaces: &'a [InterfaceChoice],
    meter: Meter,
    clock: Option<ClockOffset>,
    packets: u64,
    /// Names or numbers of the interfaces that were not asked for.
    passed_over: BTreeSet<String>,
    cut: u64,
    first_ns: Option<u64>,
    last_ns: u64,
}

impl<'a> Analysis<'a> {
    fn new(args: &'a Args) -> Self {
        let meter = Meter::new(args.meter.job().options(LINES_MAX)).with_arrivals();
        Self {
            interfaces: &args.interface,
            meter: if args.sent_here { meter } else { meter.without_boot_clock() },
            clock: args.sent_here.then(ClockOffset::measure),
            packets: 0,
            passed_over: BTreeSet::new(),
            cut: 0,
            first_ns: None,
            last_ns: 0,
        }
    }

    fn receive(&mut self, record: &Record<'_>) {
        if !self.interfaces.is_empty() && !self.interfaces.iter().any(|choice| choice.is_of(record)) {
            let name = || record.interface_name.map_or(record.interface.to_string(), str::to_owned);
            if self.passed_over.len() < INTERFACES_SHOWN {
                self.passed_over.insert(name());
            }
            return;
        }
        self.packets += 1;
        if let Some(time_ns) = record.time_ns {
            self.first_ns = Some(self.first_ns.map_or(time_ns, |first_ns| first_ns.min(time_ns)));
            self.last_ns = self.last_ns.max(time_ns);
        }
        let wall_offset_ns = self.clock.map_or(0, |clock| clock.offset_ns.cast_unsigned());
        // A frame without a time has no latency.
        let time_ns = record.time_ns.map_or(0, |time_ns| time_ns.wrapping_sub(wall_offset_ns));
        let arrival =
            Arrival { time_ns, wall_offset_ns, is_untimed: record.time_ns.is_none(), ..Arrival::default() };
        if !record.is_cut() {
            self.meter.receive(record.data, arrival);
        } else if !self.meter.receive_start(record.data, record.frame_len as usize, arrival) {
            self.cut += 1;
        }
    }

    fn conclude(self, args: &Args, playlist: &mut Playlist, console: &Console) -> Result<Outcome, Failure> {
        let has_none = self.packets == 0 && !self.passed_over.is_empty();
        if has_none && !playlist.has_chosen_interface() {
            let names: Vec<String> = self.passed_over.into_iter().collect();
            let why = format!("no file has such an interface; there are packets of {}", names.join(", "));
            return Err(Failure::usage("analyze packets of --interface", why)
                .try_this(format!("--interface {}", names[0])));
        }
        let meter = &self.meter;
        let has_no_clock = self.clock.is_none() && meter.totals().with_flow > 0;
        if has_no_clock && meter.totals().stamped == 0 && !args.quiet {
            program::note!(
                "no latency: the times in marks count from the boot of the sender \
                 (--sent-here measures the latency if this host sent them)"
            );
        }
        let order = OrderFigures::new(meter.arrivals().into_iter().flatten());
        let losses = LossTimeline::new(playlist.take_losses().rows().values().flatten());
        // What the capture lost behind the last frame of a flow is no gap in its numbers.
        let wall_offset_ns = self.clock.map_or(0, |clock| clock.offset_ns.cast_unsigned());
        let lost_of = |losses: &LossTimeline, line: usize| match meter.detail(line).last_ns {
            // The file has no times.
            0 => losses.total(),
            last_ns => losses.lost_until(last_ns.wrapping_add(wall_offset_ns)),
        };
        let of_flows = losses.as_ref().filter(|_| args.results.flows_out.is_some());
        let lost_of_flows =
            of_flows.map(|losses| (0..meter.lines().len()).map(|line| lost_of(losses, line)).collect());
        let result = ReceiveResult {
            options: *meter.options(),
            lines: meter.lines().to_vec(),
            totals: meter.totals().clone(),
            histogram: meter.histogram().to_vec(),
            cpus: Vec::new(),
            lost_ring: 0,
            announced: meter.announced(),
            reflected: None,
            clock_uncertainty_ns: self.clock.map_or(0, |clock| clock.uncertainty_ns),
            elapsed: Duration::from_nanos(self.last_ns.saturating_sub(self.first_ns.unwrap_or(self.last_ns))),
            is_device_gone: false,
        };
        let files: Vec<String> = args.files.iter().map(|path| path.display().to_string()).collect();
        let receipt = Receipt {
            device: &files.join(", "),
            netns: None,
            results: &args.results.job(),
            mode: "file",
            is_round_trip: false,
            round_trip_ns: None,
            source: quantity_of(self.packets, "captured packet"),
            capture: Some(CaptureFigures {
                order,
                cut: self.cut,
                lost_by_capture: losses.as_ref().map(LossTimeline::total),
                lost_of_flows,
                damages: playlist.damages().clone(),
            }),
            sent: args.sent.map(|sent| sent.0).or(result.announced),
            sender: None,
            begin: RunBegin::default(),
            active: ActiveRate::of_flows(
                result.totals.received,
                (0..result.lines.len()).map(|line| meter.detail(line)),
            ),
            streams: Vec::new(),
            is_report_on_stderr: false,
        };
        receipt.conclude(&result, console)
    }
}
