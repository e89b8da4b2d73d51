//! One capture from start to end: backends, rings, readers, writer, files.

use crate::backend::Backend;
use crate::backend::filter::LinkFilter;
use crate::backend::hwtstamp::Hardware;
use crate::backend::select;
use crate::backend::tpacket::{PacketOptions, Place, TpacketBackend};
use crate::devices::{CaptureState, CapturedDevice, STATISTICS_LEN_MAX, Tap};
use crate::group::{CaptureDevice, GroupChange, Owner, TapDevices};
use crate::interfaces::{FileHead, InterfaceTable, Numbering};
use crate::order::merge::MergeReport;
use crate::output::accounting::Limit;
use crate::output::compress::Compression;
use crate::output::data_set::{self, LossLog};
use crate::output::display::DisplayWriter;
use crate::output::fileset::{ColumnSettings, FileSet, FileSettings};
use crate::output::hook::{CommandRunner, CommandsEnd};
use crate::output::ledger::OutputCounts;
use crate::output::names::with_label;
use crate::output::pipe::Pipe;
use crate::output::recorder::{Recorder, RecorderCounts};
use crate::output::rotate::{FileInterval, RotatePolicy};
use crate::output::split::Splitter;
use crate::promiscuous::Promiscuity;
use crate::reader::AttachedRing;
use crate::reader::{BatchReader, Shared, Unsent};
use crate::record::batch::EncodedBatch;
use crate::record::encode::{DeviceEncoding, Encoder, StampConversion};
use crate::record::format::Format;
use crate::record::header_cut::HeaderCut;
use crate::record::pool::Pool;
use crate::record::ring_handle::{ReaderProgress, RingDevice, RingDevices, RingHandle};
use crate::stats::Stats;
use crate::time::utc::{UtcClock, check_time_of_day, utc_now_ns};
use crate::to_writer::ToWriter;
use crate::writer::{CaptureWriter, WriterOrder, WriterReport};
use crate::{
    CaptureError, ClockMode, DataSetNames, Mode, Options, Order, Output, OutputOptions, RunAs, describe,
    memory, sys,
};
use bpf::capture::RecordFormat;
use host::{Netns, Stack};
use pcapng::Section;
use std::io::Write;
use std::num::NonZeroU64;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// When a part of a data set ends: before this length in bytes, or after this time.
const PART_LEN_MAX: NonZeroU64 = NonZeroU64::new(256_000_000).expect("it is not zero");
const PART_NS: NonZeroU64 = NonZeroU64::new(60_000_000_000).expect("it is not zero");

/// Longest time to wait until the writer has carried out an order.
const ORDER_TIMEOUT: Duration = Duration::from_secs(4);

/// A running capture. Ends with [`Session::stop`]; a session that is dropped instead ends too, but
/// what it would have said is lost.
pub struct Session {
    shared: Arc<Shared>,
    state: Arc<CaptureState>,
    command: Option<Arc<CommandRunner>>,
    readers: Vec<JoinHandle<()>>,
    /// Finds out which devices join and leave a group.
    watcher: Option<JoinHandle<()>>,
    /// `None` when frames are only counted.
    writer: Option<JoinHandle<WriterReport>>,
    orders: Option<Sender<WriterOrder>>,
    recorder: Option<Arc<RecorderCounts>>,
}

/// How a capture ended.
#[derive(Debug)]
pub struct SessionReport {
    /// Where each frame went; exact, since all threads have ended.
    pub stats: Stats,
    /// The devices in the order of the options.
    pub devices: Vec<CapturedDevice>,
    /// When the capture began, in nanoseconds since 1970.
    pub start_time_ns: u64,
    /// When it ended, in nanoseconds since 1970.
    pub end_time_ns: u64,
    /// How well the order of time was kept; `None` without that order or without a file.
    pub merge: Option<MergeReport>,
    /// Complete files, where files follow each other.
    pub files: Option<u64>,
    /// Of these, files that were removed for those that followed.
    pub files_removed: u64,
    /// Triggers of a recorder that were refused; `None` without a recorder.
    pub saves_refused: Option<u64>,
    /// How saves have ended that [`Session::ended_saves`] did not return.
    pub ended_saves: Vec<Result<String, String>>,
    /// Nanoseconds between the first and the last frame that a recorder held at its last save, or
    /// at the end; `None` without a recorder.
    pub window_ns: Option<u64>,
    /// The outputs in their order, if there are several.
    pub outputs: Vec<OutputReport>,
    /// The file of each output; of files that follow each other the last complete one.
    pub file_names: Vec<String>,
    /// Losses that are in no file of a data set yet; [`LossLog::write`] writes them.
    pub losses: Vec<LossLog>,
    /// Times that the command for complete files did not succeed.
    pub commands_failed: u64,
    /// Files whose command was ended or never began, because the user gave it up.
    pub files_not_handed_over: Vec<String>,
    /// What the output refused first; the frames that cost are in `stats`.
    pub output_error: Option<CaptureError>,
}

/// How one output of several ended.
#[derive(Clone, Debug)]
pub struct OutputReport {
    /// What became of the frames.
    pub counts: OutputCounts,
    /// Its file; of files that follow each other the last complete one.
    pub file: Option<String>,
    /// Bytes of all its files.
    pub file_bytes: u64,
    /// Complete files, where files follow each other.
    pub files: Option<u64>,
    /// Of these, files that were removed for those that followed.
    pub files_removed: u64,
}

impl Session {
    /// Starts to capture. Nothing is left behind when it fails.
    ///
    /// # Errors
    /// [`CaptureError::BadOption`] and [`CaptureError::Contradiction`]; [`CaptureError::Host`] when
    /// there is no such device; [`CaptureError::Bpf`] when the program cannot be loaded or
    /// attached, or the device has one; [`CaptureError::Create`], [`CaptureError::Write`],
    /// [`CaptureError::Name`] and [`CaptureError::Rotate`] for files; [`CaptureError::Thread`];
    /// [`CaptureError::LittleMemory`].
    pub fn start(mut options: Options) -> Result<Self, CaptureError> {
        memory::refuse_small_group()?;
        let netns = options.netns.clone();
        // Started before the namespace changes, so that commands run in the caller's.
        let command = options.rotate_command.clone();
        let abandoned = Arc::clone(&options.abandoned);
        // The C library ends a process whose threads do not all become the other user.
        let keeps_rights = options.run_as.is_some();
        let start = |command| CommandRunner::start(command, abandoned, keeps_rights);
        let command = command.map(start).transpose();
        let command =
            command.map_err(|source| no_thread("the command for complete files", source))?.map(Arc::new);
        let several = options.take_outputs();
        let output = std::mem::take(&mut options.output);
        let run_as_other = options.run_as.is_some();
        let display = options.display.take().map(|display| DisplayWriter::new(display, options.format));
        let sinks = (output, several, display);
        let start = move || in_netns(netns.as_ref(), move || Self::start_here(&options, sinks, command))?;
        if !run_as_other {
            return start();
        }
        // Threads get their niceness from this one: what they run as may not ask for it.
        let before_others = move || {
            let _ = sys::run_before_others();
            start()
        };
        thread::scope(|scope| joined(scope.spawn(before_others).join()))
    }

    /// Starts to capture, called in the namespace of the devices. Threads started here stay in it,
    /// which does no harm.
    fn start_here(
        options: &Options,
        (output, several, display): (Output, Vec<OutputOptions>, Option<DisplayWriter>),
        command: Option<Arc<CommandRunner>>,
    ) -> Result<Self, CaptureError> {
        check_time_of_day()?;
        options.check_source()?;
        let stack = Arc::new(Stack::here()?);
        let interfaces = Arc::new(InterfaceTable::new(options));
        let writes = display.is_some() || !several.is_empty() || !matches!(output, Output::Nowhere);
        let taps = match &options.group {
            None => open_devices(&stack, options, writes, &interfaces)?,
            Some(group) => {
                let is_pcap = |output: &OutputOptions| output.format == Format::Pcap;
                let holds_one_link_type = options.format == Format::Pcap || several.iter().any(is_pcap);
                let devices = TapDevices::of_group(
                    group.clone(),
                    Arc::clone(&stack),
                    options,
                    Arc::clone(&interfaces),
                    holds_one_link_type,
                )?;
                vec![open_group(devices, options)?]
            }
        };
        match several.is_empty() {
            true => {
                options.check(&output, (options.format, options.compression), &interfaces.link_types())?;
            }
            false => options.check_outputs(&several, &interfaces.link_types())?,
        }
        let splitter =
            (!several.is_empty()).then(|| Splitter::new(&several, &interfaces, options)).transpose()?;
        if splitter.as_ref().is_some_and(Splitter::asks_for_direction) {
            let what = "a filter of one of several outputs that asks for the direction";
            options.refuse_incoming_only(what)?;
        }
        let state = Arc::new(CaptureState::new(stack, taps));
        let is_draining = Arc::<AtomicBool>::default();
        let head = FileHead {
            format: options.format,
            section: describe::section(&options.application),
            interfaces: Arc::clone(&interfaces),
            of_output: None,
        };
        let settings = file_settings(options, options.compression, head.clone(), (&state, &is_draining));
        let several = several.into_iter().map(|output| {
            let of_output = Some((output.filter.clone(), output.snaplen));
            let head = FileHead { format: output.format, of_output, ..head.clone() };
            let settings = file_settings(options, output.compression, head, (&state, &is_draining));
            // A filter that all outputs share has been run for the rings.
            (output.output, settings, output.filter.is_some() && options.filter.is_none())
        });
        let several = several.collect();
        // Only now is a file emptied: a busy device is the most likely reason to fail.
        let outputs = Outputs {
            output,
            settings,
            several,
            command: command.clone(),
            start_time_ns: state.start_time_ns,
            data_set: (options.format == Format::Parquet).then(|| DataSetPlan {
                names: options.data_set.clone(),
                devices: state.taps.iter().map(|tap| tap.devices.name()).collect(),
            }),
        };
        let recorder = recorder(options, &outputs, &interfaces, &is_draining)?;
        let opened = match recorder {
            Some(_) => Opened::Files(Vec::new()),
            None => outputs.open(options)?,
        };
        let session = Self {
            shared: Arc::new(Shared {
                clock: UtcClock::new(),
                // The process filters for several outputs, and counts what they take.
                limit: Limit::new(options.frames_max.filter(|_| splitter.is_none())),
                is_draining,
                has_failed: AtomicBool::new(false),
            }),
            state,
            command,
            readers: Vec::new(),
            watcher: None,
            writer: None,
            orders: None,
            recorder: recorder.as_ref().map(|(_, counts)| Arc::clone(counts)),
        };
        let sinks = Sinks { recorder: recorder.map(|(recorder, _)| recorder), display, splitter };
        session.attach_and_run(options, opened, sinks)
    }

    /// Lets frames come, then starts the threads.
    fn attach_and_run(
        mut self,
        options: &Options,
        opened: Opened,
        sinks: Sinks,
    ) -> Result<Self, CaptureError> {
        let rings = match self.attach(options.buffer_size_bytes, self.shared.clock.offset_ns()) {
            Ok(rings) => rings,
            Err(error) => {
                self.state.detach();
                opened.discard();
                return Err(error);
            }
        };
        // Frames count from here on; what came before took its time on a busy machine.
        self.state.begin();
        options.run_as.as_ref().map_or(Ok(()), RunAs::take_effect)?;
        let files = opened.files(&self.labels(&rings))?;
        sinks.recorder.as_ref().map_or(Ok(()), |recorder| recorder.refuse_without_folder(utc_now_ns()))?;
        self.watcher = self.start_watcher()?;
        let (batches, receiver) = channel();
        let has_files = !files.is_empty() || sinks.recorder.is_some();
        let writes = has_files || sinks.display.is_some();
        if writes {
            let file_of_ring = file_of_ring(options, &rings);
            let handles = rings.iter().map(|(place, _)| Arc::clone(&place.handle)).collect();
            let (orders, taken) = channel();
            self.orders = has_files.then_some(orders);
            let from = (receiver, taken);
            let sinks = (files, sinks);
            self.writer = Some(self.start_writer(options, (handles, file_of_ring), from, sinks)?);
        }
        for (number, (place, ring)) in rings.into_iter().enumerate() {
            let to_writer =
                self.writer.as_ref().map(|writer| ToWriter::new(batches.clone(), writer.thread().clone()));
            let reader = self.reader(options, number, place, to_writer);
            self.readers.push(start_reader(number, reader, ring)?);
        }
        Ok(self)
    }

    /// Attaches every device; the rings of all of them in order.
    fn attach(
        &self,
        buffer_size_bytes: usize,
        utc_offset_ns: i64,
    ) -> Result<Vec<(RingPlace, AttachedRing)>, CaptureError> {
        let mut rings = Vec::new();
        for (tap, held) in self.state.taps.iter().enumerate() {
            let attached =
                held.backend.write().unwrap_or_else(PoisonError::into_inner).attach(utc_offset_ns)?;
            let ring_size = held.backend.read().unwrap_or_else(PoisonError::into_inner).ring_size();
            // Where memory is short, buffers take no more than rings.
            let ring_bytes = usize::try_from(ring_size.bytes).unwrap_or(usize::MAX);
            let buffer_size_bytes = match ring_size.bounded_by {
                Some(_) => buffer_size_bytes.min(ring_bytes),
                None => buffer_size_bytes,
            };
            let of = RingDevice::of(&held.devices.first().link);
            let group = held.devices.is_group().then(|| Arc::clone(&held.devices) as Arc<dyn RingDevices>);
            let first = rings.len();
            rings.extend(attached.into_iter().map(|ring| {
                let handle = Arc::new(RingHandle {
                    pool: Pool::new(buffer_size_bytes),
                    counts: Arc::default(),
                    progress: ReaderProgress::default(),
                    probe: ring.source.probe(),
                    device: of.clone(),
                    group: group.clone(),
                    cpu: ring.cpu,
                    delay_ns: ring.source.delay_ns(),
                });
                (RingPlace { tap, handle, knows_queues: ring.knows_queues }, ring)
            }));
            let handles = rings[first..].iter().map(|(place, _)| Arc::clone(&place.handle)).collect();
            held.rings.set(handles).map_err(drop).expect("a device is attached once");
        }
        Ok(rings)
    }

    /// What tells the files of rings apart: the CPU, or a number where a ring has none, and the
    /// device if there are several.
    fn labels(&self, rings: &[(RingPlace, AttachedRing)]) -> Vec<String> {
        let mut numbers = vec![0_u32..; self.state.taps.len()];
        let label = |(place, ring): &(RingPlace, AttachedRing)| {
            let number = numbers[place.tap].next().expect("more rings than numbers");
            let number = ring.cpu.unwrap_or(number);
            match self.state.taps.as_slice() {
                [_] => number.to_string(),
                taps => format!("{}_{number}", taps[place.tap].devices.name()),
            }
        };
        rings.iter().map(label).collect()
    }

    /// The thread that watches a group, which is the only tap then.
    fn start_watcher(&self) -> Result<Option<JoinHandle<()>>, CaptureError> {
        let Some(tap) = self.state.taps.iter().find(|tap| tap.devices.is_group()) else { return Ok(None) };
        let devices = Arc::clone(&tap.devices);
        let watch = move || {
            // A device may be gone again soon.
            let _ = sys::run_before_others();
            devices.watch();
        };
        let thread = thread::Builder::new().name("capture-devices".to_owned()).spawn(watch);
        thread.map(Some).map_err(|source| no_thread("the devices of the group", source))
    }

    fn start_writer(
        &self,
        options: &Options,
        (rings, file_of_ring): (Vec<Arc<RingHandle>>, Vec<usize>),
        (batches, orders): (Receiver<Vec<EncodedBatch>>, Receiver<WriterOrder>),
        (files, Sinks { recorder, display, splitter }): (Vec<FileSet>, Sinks),
    ) -> Result<JoinHandle<WriterReport>, CaptureError> {
        let writer = CaptureWriter {
            shared: Arc::clone(&self.shared),
            written: Arc::clone(&self.state.written),
            rings,
            batches,
            orders,
            order: options.order,
            files,
            file_of_ring,
            recorder,
            display,
            splitter,
        };
        let thread = thread::Builder::new().name("capture-writer".to_owned());
        thread.spawn(move || writer.run()).map_err(|source| no_thread("the writer", source))
    }

    fn reader(
        &self,
        options: &Options,
        ring: usize,
        place: RingPlace,
        writer: Option<ToWriter>,
    ) -> BatchReader {
        let devices = Arc::clone(&self.state.taps[place.tap].devices);
        let (clock, header_cut) = (options.clock, options.header_cut);
        let device = encoding_of(&devices.first(), clock, header_cut);
        let mut encoder =
            Encoder::new(options.format, device, ring, options.snaplen).with_queues(place.knows_queues);
        if devices.is_group() {
            encoder = encoder.with_group(Box::new(move |ifindex| {
                let device = match devices.owner(ifindex) {
                    Owner::Device(device) => device,
                    // The ring passes no frames of others.
                    Owner::Other | Owner::Unknown => devices.first(),
                };
                encoding_of(&device, clock, header_cut)
            }));
        }
        BatchReader {
            shared: Arc::clone(&self.shared),
            encoder: if options.packet_ids { encoder.with_packet_ids() } else { encoder },
            ring: place.handle,
            writer,
            lost_here: 0,
            unsent: Unsent::default(),
        }
    }

    /// The devices and how frames are taken off them, in the order of the options.
    pub fn devices(&self) -> Vec<CapturedDevice> {
        self.state.facts()
    }

    /// Devices that have joined or left a group since this was last asked.
    pub fn group_changes(&self) -> Vec<GroupChange> {
        self.state.taps.iter().flat_map(|tap| tap.devices.take_changes()).collect()
    }

    /// Changes what becomes of frames from now on. No frame is lost by it.
    ///
    /// # Errors
    /// When a device cannot do it.
    pub fn set_mode(&self, mode: Mode) -> Result<(), CaptureError> {
        self.state.set_mode(mode)
    }

    /// Ends the file at hand and begins the next one. Returns the names of the files that ended:
    /// one, or one for each CPU, device or output; none if they had no frames.
    ///
    /// # Errors
    /// The reason, where no file follows the one at hand.
    pub fn rotate(&self) -> Result<Vec<String>, String> {
        self.order(WriterOrder::Rotate)?
    }

    /// Writes what is in the files to the disk, and returns when it is there.
    ///
    /// # Errors
    /// The reason, if there is no file.
    pub fn sync(&self) -> Result<(), String> {
        self.order(WriterOrder::Sync)
    }

    /// Saves what the recorder keeps. Returns the name of the file.
    ///
    /// # Errors
    /// The reason, if there is no recorder or no file.
    pub fn save(&self, reason: &str) -> Result<String, String> {
        self.order(|answer| WriterOrder::Save(reason.to_owned(), answer))?
    }

    /// How saves of the recorder have ended since this was last asked: the name of each file that
    /// is complete, or why there is none.
    pub fn ended_saves(&self) -> Vec<Result<String, String>> {
        self.recorder.as_ref().map_or_else(Vec::new, |counts| take_ended(counts))
    }

    /// True for a capture that keeps frames for a save.
    pub fn is_recorder(&self) -> bool {
        self.recorder.is_some()
    }

    /// Passes an order to the writer, and waits for the answer.
    fn order<T>(&self, order: impl FnOnce(SyncSender<T>) -> WriterOrder) -> Result<T, String> {
        let orders = self.orders.as_ref().ok_or("it writes no file")?;
        let (sender, answer) = sync_channel(1);
        // The writer is there until the end of the session.
        let _ = orders.send(order(sender));
        answer.recv_timeout(ORDER_TIMEOUT).map_err(|_| "the disk is too slow to tell now".to_owned())
    }

    /// True when there is nothing more to wait for: enough frames were written, the output failed,
    /// or every device is gone.
    pub fn is_finished(&self) -> bool {
        self.shared.limit.is_reached() || self.shared.has_failed.load(Relaxed) || self.state.are_all_gone()
    }

    /// Where frames went until now. Numbers are read one after the other while they move.
    pub fn stats(&self) -> Stats {
        self.state.stats()
    }

    /// Time since every device was attached.
    pub fn elapsed(&self) -> Duration {
        self.state.elapsed()
    }

    /// Frames received so far, and their bytes, as [`Self::stats`] has them: cheap enough to be
    /// asked many times per second.
    pub fn received(&self) -> (u64, u64) {
        self.state.received()
    }

    /// Reads the counts from other threads, also after the end.
    pub fn observer(&self) -> SessionObserver {
        SessionObserver(Arc::clone(&self.state))
    }

    /// Takes everything off the devices, empties the rings, writes the statistics and closes the
    /// files.
    pub fn stop(mut self) -> SessionReport {
        let devices = self.devices();
        let outcome = self.end();
        let (mut output_error, mut files, mut file_names) = (None, None, Vec::new());
        let (mut losses, mut files_removed) = (Vec::new(), 0);
        if let Some(recorder) = outcome.recorder {
            output_error = recorder.failure;
            (files, file_names) = (Some(recorder.names.len() as u64), recorder.names);
        }
        let mut outputs = Vec::new();
        for (number, ended) in outcome.files.into_iter().enumerate() {
            outputs.extend(outcome.counts.get(number).map(|counts| OutputReport {
                counts: *counts,
                file: ended.name.clone(),
                file_bytes: ended.bytes,
                files: ended.count,
                files_removed: ended.removed,
            }));
            output_error = output_error.or(ended.failure);
            files = ended.count.map(|count| files.unwrap_or(0) + count).or(files);
            file_names.extend(ended.name);
            losses.extend(ended.losses);
            files_removed += ended.removed;
        }
        let recorder = self.recorder.take();
        let count =
            |of: fn(&RecorderCounts) -> &AtomicU64| recorder.as_ref().map(|all| of(all).load(Relaxed));
        let saves_refused = count(|all| &all.refused);
        let window_ns = count(|all| &all.window_ns);
        let ended_saves = recorder.as_deref().map_or_else(Vec::new, take_ended);
        let command = self.command.take().and_then(Arc::into_inner);
        let commands = command.map_or_else(CommandsEnd::default, CommandRunner::end);
        SessionReport {
            stats: self.stats(),
            devices,
            start_time_ns: self.state.start_time_ns,
            end_time_ns: utc_now_ns(),
            merge: outcome.merge,
            files,
            files_removed,
            saves_refused,
            window_ns,
            ended_saves,
            outputs,
            file_names,
            losses,
            commands_failed: commands.failed,
            files_not_handed_over: commands.not_handed_over,
            output_error,
        }
    }

    /// Everything comes to rest; of no effect the second time.
    fn end(&mut self) -> WriterReport {
        if self.state.stopped_after.set(self.state.elapsed()).is_ok() {
            self.state.detach();
        }
        self.shared.is_draining.store(true, Relaxed);
        self.readers.drain(..).for_each(|reader| joined(reader.join()));
        self.state.taps.iter().for_each(|tap| tap.devices.stop_watching());
        self.watcher.take().into_iter().for_each(|watcher| joined(watcher.join()));
        // The last reader was the last to send, so the writer ends, too.
        let outcome = self.writer.take().map_or_else(WriterReport::default, |writer| joined(writer.join()));
        if !self.shared.limit.is_reached() {
            self.state.rings().for_each(|ring| ring.counts.limit_not_reached());
        }
        outcome
    }
}

/// Reads the counts of a [`Session`] from another thread.
#[derive(Clone)]
pub struct SessionObserver(Arc<CaptureState>);

impl SessionObserver {
    /// Names of the devices, in the order of the options, or that of the group.
    pub fn ifnames(&self) -> Vec<String> {
        self.0.taps.iter().map(|tap| tap.devices.name()).collect()
    }

    /// Where frames went until now.
    pub fn stats(&self) -> Stats {
        self.0.stats()
    }

    /// The part of each device's fullest ring, or the group's, that holds frames; `None` if the
    /// kernel does not report it.
    pub fn ring_used(&self) -> Vec<Option<f64>> {
        self.0.taps.iter().map(Tap::ring_used).collect()
    }
}

/// What gets frames beside files, or decides which files get them.
struct Sinks {
    recorder: Option<Recorder>,
    display: Option<DisplayWriter>,
    splitter: Option<Splitter>,
}

/// A ring's place among the taps.
struct RingPlace {
    tap: usize,
    knows_queues: bool,
    handle: Arc<RingHandle>,
}

/// What an XDP program writes into the rings of a device with these interfaces: blocks, if the file
/// gets them as they are.
fn record_format(options: &Options, writes: bool, numbering: Numbering) -> RecordFormat {
    let has_blocks = matches!(options.format, Format::Pcapng | Format::Parquet)
        && !options.packet_ids
        && options.header_cut.is_none()
        && options.at.is_none();
    // Files are little-endian, the program writes in the order of the machine.
    match writes && has_blocks && cfg!(target_endian = "little") {
        true => numbering.blocks(),
        false => RecordFormat::Records,
    }
}

fn open_devices(
    stack: &Stack,
    options: &Options,
    writes: bool,
    interfaces: &InterfaceTable,
) -> Result<Vec<Tap>, CaptureError> {
    let mut seen = Vec::new();
    let open = |ifname: &String| {
        let link = stack.link(ifname)?;
        if seen.contains(&link.index) {
            return Err(CaptureError::NamedTwice { ifname: link.name });
        }
        seen.push(link.index);
        let hardware = Hardware::of(stack, &link, options.clock)?;
        let promiscuity = Promiscuity::of(&link, options.promiscuous);
        let (clock, is_promiscuous) = (hardware.clock.as_deref(), promiscuity.is_on());
        let numbering = interfaces.add(stack, &link, clock, is_promiscuous)?;
        let backend =
            RwLock::new(select::open(&link, options, &hardware, record_format(options, writes, numbering))?);
        let device = CaptureDevice::new(stack, link, numbering, hardware, promiscuity, None);
        Ok(Tap { devices: TapDevices::one(device), backend, rings: OnceLock::new() })
    };
    options.ifnames.iter().map(open).collect()
}

/// Packet sockets of all devices of the namespace, for those of the group.
fn open_group(devices: Arc<TapDevices>, options: &Options) -> Result<Tap, CaptureError> {
    let packet_options = PacketOptions::of_group(&devices, options)?;
    let place = Place::of_all(devices.name());
    let backend: Box<dyn Backend> = Box::new(TpacketBackend::open(place, packet_options, None)?);
    Ok(Tap { devices, backend: RwLock::new(backend), rings: OnceLock::new() })
}

/// How the frames of a device are encoded.
fn encoding_of(device: &CaptureDevice, clock: ClockMode, header_cut: Option<u32>) -> DeviceEncoding {
    let stamps = device
        .hardware
        .clock
        .as_ref()
        .map(|phc| StampConversion { clock: Arc::clone(phc), raw_phc: clock == ClockMode::Phc });
    let header_cut = header_cut.zip(describe::link_type(&device.link).ok());
    let header_cut = header_cut.and_then(|(extra_len, link_type)| HeaderCut::new(link_type, extra_len));
    DeviceEncoding::new(device.numbering, stamps, header_cut)
}

fn file_settings(
    options: &Options,
    compression: Option<Compression>,
    head: FileHead,
    (state, is_ending): (&Arc<CaptureState>, &Arc<AtomicBool>),
) -> Arc<FileSettings> {
    let (is_pcapng, statistics) = (head.format == Format::Pcapng, Arc::clone(state));
    let is_parquet = head.format == Format::Parquet;
    let (of_rings, of_stats) = (Arc::clone(state), Arc::clone(state));
    let columns = is_parquet.then(|| ColumnSettings {
        ring_cpus: Arc::new(move || of_rings.rings().map(|ring| ring.cpu).collect()),
        stats: Arc::new(move || of_stats.stats()),
        device_count: state.taps.len(),
    });
    Arc::new(FileSettings {
        trailer: Arc::new(move |file| if is_pcapng { statistics.trailer(file) } else { Vec::new() }),
        // Each of several outputs has frames of its own.
        counts_interfaces: head.of_output.is_some() || state.counts_interfaces(),
        statistics_len_max: if is_pcapng { STATISTICS_LEN_MAX } else { 0 },
        head,
        rotate: if is_parquet { part_policy(options.rotate) } else { options.rotate },
        utc_offset_s: options.utc_offset_s,
        compression,
        columns,
        on_error: options.on_error,
        preallocate_bytes: options.preallocate_bytes,
        is_direct: options.is_direct,
        is_ending: Arc::clone(is_ending),
        unpacked_bytes: AtomicU64::new(0),
    })
}

/// The recorder that the options ask for, and its counts.
fn recorder(
    options: &Options,
    outputs: &Outputs,
    interfaces: &InterfaceTable,
    is_ending: &Arc<AtomicBool>,
) -> Result<Option<(Recorder, Arc<RecorderCounts>)>, CaptureError> {
    let (Some(asked), Output::File(path)) = (&options.recorder, &outputs.output) else { return Ok(None) };
    let path = path.to_str().ok_or_else(|| CaptureError::NotText { name: path.display().to_string() })?;
    let link_types = interfaces.link_types().into_iter().collect();
    let compile = |expression: &String| LinkFilter::new(expression, &link_types, &options.interrupted);
    let trigger = asked.trigger.as_ref().map(compile).transpose()?;
    if trigger.as_ref().is_some_and(LinkFilter::asks_for_direction) {
        options.refuse_incoming_only("a trigger that asks for the direction")?;
    }
    let (of_file, format) = (Arc::clone(&outputs.settings), options.format);
    let is_ending = Arc::clone(is_ending);
    let settings_of = move |why: &str| {
        let section = Section { comment: Some(why.to_owned()), ..of_file.head.section.clone() };
        Arc::new(FileSettings {
            head: FileHead { section, ..of_file.head.clone() },
            trailer: Arc::clone(&of_file.trailer),
            statistics_len_max: of_file.statistics_len_max,
            counts_interfaces: of_file.counts_interfaces,
            rotate: RotatePolicy::default(),
            utc_offset_s: of_file.utc_offset_s,
            compression: of_file.compression,
            columns: None,
            on_error: of_file.on_error,
            preallocate_bytes: of_file.preallocate_bytes,
            is_direct: of_file.is_direct,
            is_ending: Arc::clone(&is_ending),
            unpacked_bytes: AtomicU64::new(0),
        })
    };
    let counts = Arc::<RecorderCounts>::default();
    let recorder = Recorder::new(
        asked.clone(),
        (path, format),
        trigger,
        options.utc_offset_s,
        Box::new(settings_of),
        Arc::clone(&counts),
    )?;
    Ok(Some((recorder, counts)))
}

/// Outputs to be opened.
struct Outputs {
    output: Output,
    settings: Arc<FileSettings>,
    /// Of several outputs each one with its settings, and true if its filter leaves out frames of
    /// the rings. Then `output` is nowhere.
    several: Vec<(Output, Arc<FileSettings>, bool)>,
    command: Option<Arc<CommandRunner>>,
    start_time_ns: u64,
    /// For a data set: the output is its folder.
    data_set: Option<DataSetPlan>,
}

/// The files of a data set.
struct DataSetPlan {
    names: DataSetNames,
    /// Each has a folder.
    devices: Vec<String>,
}

impl DataSetPlan {
    /// Those of each device, below `folder`.
    fn open(
        &self,
        folder: &Path,
        settings: &Arc<FileSettings>,
        command: Option<&Arc<CommandRunner>>,
        start_time_ns: u64,
    ) -> Result<Vec<FileSet>, CaptureError> {
        let DataSetNames { run, host } = &self.names;
        let mut all = Vec::new();
        for (number, device) in self.devices.iter().enumerate() {
            let folder = folder.join(data_set::device_folder(run, host, device));
            let text = folder
                .to_str()
                .ok_or_else(|| CaptureError::NotText { name: folder.display().to_string() })?;
            let pattern = Output::File(format!("{}/part-%s%N.parquet", text.replace('%', "%%")).into());
            match FileSet::create(pattern, Arc::clone(settings), command.cloned(), start_time_ns) {
                Ok(files) => all.extend(files.map(|files| {
                    files.with_losses(data_set::loss_log(folder.clone(), host, device, number, start_time_ns))
                })),
                Err(error) => {
                    all.into_iter().for_each(FileSet::discard);
                    return Err(error);
                }
            }
        }
        Ok(all)
    }
}

/// Parts end before 256 MB or after a minute, unless the user says otherwise.
fn part_policy(policy: RotatePolicy) -> RotatePolicy {
    let minute = FileInterval { length_ns: PART_NS, is_aligned: false };
    RotatePolicy {
        disk_size_max_bytes: Some(PART_LEN_MAX),
        interval: policy.interval.or(Some(minute)),
        is_numbered: true,
        ..policy
    }
}

/// The place among the files for the records of each ring.
fn file_of_ring(options: &Options, rings: &[(RingPlace, AttachedRing)]) -> Vec<usize> {
    let place =
        |(ring, (place, _)): (usize, &(RingPlace, AttachedRing))| match (options.format, options.order) {
            (Format::Parquet, _) => place.tap,
            (_, Order::FilePerRing) => ring,
            _ => 0,
        };
    rings.iter().enumerate().map(place).collect()
}

/// Outputs that are open, as far as they can be before the rings are known.
enum Opened {
    Files(Vec<FileSet>),
    /// To be opened by the user that the process becomes.
    Later(Outputs),
    PerRing(Outputs),
}

impl Outputs {
    fn open(self, options: &Options) -> Result<Opened, CaptureError> {
        if options.order == Order::FilePerRing {
            return Ok(Opened::PerRing(self));
        }
        if options.run_as.is_none() {
            return self.open_now();
        }
        let is_ending = Arc::clone(&self.settings.is_ending);
        let several = self.several.into_iter().map(|(output, settings, is_part)| {
            let output = for_another_user(output, &settings.is_ending);
            (output, settings, is_part)
        });
        let several = several.collect();
        let output = for_another_user(self.output, &is_ending);
        Ok(Opened::Later(Self { output, several, ..self }))
    }

    fn open_now(self) -> Result<Opened, CaptureError> {
        if let (Some(data_set), Output::File(folder)) = (&self.data_set, &self.output) {
            let files = data_set.open(folder, &self.settings, self.command.as_ref(), self.start_time_ns)?;
            return Ok(Opened::Files(files));
        }
        let mut all: Vec<FileSet> = Vec::new();
        for (output, settings, is_part) in self.several {
            match FileSet::create(output, settings, self.command.clone(), self.start_time_ns) {
                Ok(files) => all.extend(files.map(|files| files.of_part(is_part))),
                Err(error) => {
                    all.into_iter().for_each(FileSet::discard);
                    return Err(error);
                }
            }
        }
        all.extend(FileSet::create(self.output, self.settings, self.command, self.start_time_ns)?);
        Ok(Opened::Files(all))
    }

    /// The file of one ring.
    fn of_ring(&self, label: &str) -> Result<Option<FileSet>, CaptureError> {
        let output = match &self.output {
            Output::File(path) => Output::File(labelled(path, label)?.into()),
            Output::Nowhere | Output::Descriptor { .. } | Output::Stream { .. } => Output::Nowhere,
        };
        FileSet::create(output, Arc::clone(&self.settings), self.command.clone(), self.start_time_ns)
    }
}

/// Prepares an output for the user that the process becomes: a pipe of ours is opened again, which
/// that user may not do.
fn for_another_user(output: Output, is_ending: &Arc<AtomicBool>) -> Output {
    let Output::Descriptor { name, file } = output else { return output };
    let to = match Pipe::of(file, Arc::clone(is_ending)) {
        Ok(pipe) => Box::new(pipe) as Box<dyn Write + Send>,
        Err(file) => Box::new(file),
    };
    Output::Stream { name, to }
}

impl Opened {
    /// One for all rings, one for each ring or device, or none.
    fn files(self, labels: &[String]) -> Result<Vec<FileSet>, CaptureError> {
        match self {
            Self::Files(files) => Ok(files),
            Self::Later(outputs) => outputs.open_now()?.files(labels),
            Self::PerRing(outputs) => {
                let files = labels.iter().map(|label| outputs.of_ring(label));
                let files = files.collect::<Result<Vec<_>, _>>()?;
                let of_ring = |(ring, files): (usize, Option<FileSet>)| Some(files?.of_ring(ring));
                Ok(files.into_iter().enumerate().filter_map(of_ring).collect())
            }
        }
    }

    fn discard(self) {
        if let Self::Files(files) = self {
            files.into_iter().for_each(FileSet::discard);
        }
    }
}

/// `x.pcapng` of the ring of CPU 3 is `x_3.pcapng`. A `%` in the name of a device is no conversion.
fn labelled(path: &Path, label: &str) -> Result<String, CaptureError> {
    let text = path.to_str().ok_or_else(|| CaptureError::NotText { name: path.display().to_string() })?;
    Ok(with_label(text, &label.replace('%', "%%")))
}

fn start_reader(
    number: usize,
    reader: BatchReader,
    ring: AttachedRing,
) -> Result<JoinHandle<()>, CaptureError> {
    thread::Builder::new()
        .name(format!("capture-{number}"))
        .spawn(move || ring.source.run(reader))
        .map_err(|source| no_thread(&format!("ring {number}"), source))
}

fn no_thread(what: &str, source: std::io::Error) -> CaptureError {
    CaptureError::Thread { what: what.to_owned(), source }
}

fn joined<T>(result: thread::Result<T>) -> T {
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

impl Drop for Session {
    fn drop(&mut self) {
        // After `stop` there is nothing left to end.
        self.end();
    }
}

fn take_ended(recorder: &RecorderCounts) -> Vec<Result<String, String>> {
    std::mem::take(&mut recorder.ended.lock().unwrap_or_else(PoisonError::into_inner))
}

fn in_netns<T: Send>(netns: Option<&Netns>, work: impl FnOnce() -> T + Send) -> Result<T, CaptureError> {
    match netns {
        Some(netns) => Ok(netns.run(work)?),
        None => Ok(work()),
    }
}
