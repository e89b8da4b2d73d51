//! Options of a capture, and the sizes of rings that follow from them.

use crate::device_group::DeviceGroup;
use crate::memory::{MemoryBound, RingSize};
use crate::output::compress::Compression;
use crate::output::rotate::RotatePolicy;
use crate::record::format::Format;
use crate::shown::FrameDisplay;
use crate::{CaptureError, RunAs};
use bpf::SinkVerdict;
use bpf::abi::CaptureMode;
use bpf::capture::{Geometry, RecordFormat};
use bpf::capture_at::AtPlace;
use bpf::xdp::XdpModeChoice;
use host::Netns;
use std::fmt;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Bytes that mgcap keeps of a frame: with the record's head a slot of two cache lines.
pub const SNAPLEN_DEFAULT: u32 = 96;
/// The snaplen that keeps whole frames; the number that tcpdump and dumpcap use.
pub const SNAPLEN_WHOLE: u32 = 262_144;
/// The longest part of a frame that an XDP program can copy.
const XDP_COPY_LEN_MAX: u32 = 65_535;
/// What a frame has beside the MTU: the Ethernet header and two VLAN tags.
const HEADER_LEN_MAX: u32 = 14 + 2 * 4;
/// Bytes of a CPU's ring unless asked otherwise.
pub const RING_SIZE_BYTES_DEFAULT: u64 = 8 << 20;
/// Fewest bytes of a ring.
pub const RING_SIZE_BYTES_MIN: u64 = 64 << 10;
/// Most bytes of a ring.
pub const RING_SIZE_BYTES_MAX: u64 = 1 << 36;

/// Bytes of a segment of a ring: the largest piece that is read at once.
const SEGMENT_BYTES_MAX: u64 = 1 << 20;
const SEGMENT_BYTES_MIN: u64 = 4096;
/// Segments of a small ring.
const SEGMENTS_MIN: u64 = 8;

/// What becomes of a frame after its bytes were copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub enum Mode {
    /// Copy the packet; the host still receives it.
    #[default]
    Mirror,
    /// Drop the packet; the host does not receive it.
    Drop,
}

impl Mode {
    /// What the program does with a counted frame.
    pub(crate) fn verdict(self) -> SinkVerdict {
        match self {
            Self::Mirror => SinkVerdict::Pass,
            Self::Drop => SinkVerdict::Drop,
        }
    }

    /// `mirror` or `drop`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Mirror => "mirror",
            Self::Drop => "drop",
        }
    }

    pub(crate) fn number(self) -> u32 {
        match self {
            Self::Mirror => CaptureMode::WR_CAPTURE_MIRROR.0,
            Self::Drop => CaptureMode::WR_CAPTURE_DROP.0,
        }
    }
}

/// How records of several rings are put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// In order of time. A record may be seen this many nanoseconds after its time and still get
    /// its place; one that comes later is written late, and counted.
    Time {
        /// The window.
        window_ns: u64,
    },
    /// As they come: each ring in its order, batch by batch.
    AsTheyCome,
    /// A file for each ring. The number of its CPU is put before the extension of the name.
    FilePerRing,
}

/// The window of [`Order::Time`] unless asked otherwise: far more than lies between the stamp of a
/// frame and its place in the ring, unless the CPU is taken from under the program.
pub const WINDOW_NS_DEFAULT: u64 = 200_000;

impl Default for Order {
    fn default() -> Self {
        Self::Time { window_ns: WINDOW_NS_DEFAULT }
    }
}

/// What to do when the output refuses something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub enum OnError {
    /// End the capture.
    #[default]
    Stop,
    /// Count the frames as lost and retry; a closed pipe still ends the capture.
    GoOn,
}

/// Memory for encoded records of one ring unless asked otherwise: what a disk may lag behind.
pub const BUFFER_SIZE_BYTES_DEFAULT: usize = 4 << 20;

/// Where the bytes go.
#[derive(Default)]
pub enum Output {
    /// Nowhere: frames are counted and forgotten.
    #[default]
    Nowhere,
    /// A file, made or emptied at the start; or the pattern of files (see [`crate::names`]).
    File(PathBuf),
    /// A descriptor that is open, such as standard output. A pipe or a socket whose reader has
    /// stopped reading does not hold up the end of the capture.
    Descriptor {
        /// What to call it in messages.
        name: String,
        /// The descriptor.
        file: File,
    },
    /// Anything else that takes bytes; given large pieces, each ending with a block.
    Stream {
        /// What to call it in messages.
        name: String,
        /// The taker.
        to: Box<dyn Write + Send>,
    },
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nowhere => f.write_str("Nowhere"),
            Self::File(path) => write!(f, "File({})", path.display()),
            Self::Descriptor { name, .. } => write!(f, "Descriptor({name})"),
            Self::Stream { name, .. } => write!(f, "Stream({name})"),
        }
    }
}

/// What the path of a data set says about a capture: `run=RUN/host=HOST/device=DEVICE`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DataSetNames {
    /// The run; of several captures into one folder each needs its own.
    pub run: String,
    /// This machine.
    pub host: String,
}

/// What the recorder keeps and what makes it save.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecorderOptions {
    /// Frames older than this are dropped, in nanoseconds; `None` keeps as many as fit.
    pub keep_ns: Option<u64>,
    /// Most bytes of frames in memory.
    pub keep_bytes: u64,
    /// A frame that matches triggers, in the language of pcap-filter(7).
    pub trigger: Option<String>,
    /// A gap in the numbers of marked frames triggers.
    pub on_loss: bool,
    /// Frames of this time after a trigger belong to its file, in nanoseconds.
    pub after_ns: u64,
    /// Saves after which triggers are refused.
    pub saves_max: u64,
}

/// One output of several: which frames it gets, and how its files look.
#[derive(Debug)]
pub struct OutputOptions {
    /// Where the frames go: [`Output::Nowhere`] is refused.
    pub output: Output,
    /// Which frames; `None` for all.
    pub filter: Option<String>,
    /// Bytes kept of a frame, as [`Options::snaplen`].
    pub snaplen: u32,
    /// Cut frames this many bytes behind their last header.
    pub header_cut: Option<u32>,
    /// What its files look like: pcapng or pcap.
    pub format: Format,
    /// How its files are compressed.
    pub compression: Option<Compression>,
}

/// Outputs of a capture at most.
pub(crate) const OUTPUTS_MAX: usize = 64;

/// A capture to be made.
#[derive(Debug)]
pub struct Options {
    /// The devices, by any of their names; at least one. Each is an interface of the file, in this
    /// order.
    pub ifnames: Vec<String>,
    /// Takes the frames of all devices of this group instead, also of those that appear later, by
    /// packet sockets whose rings they share.
    pub group: Option<DeviceGroup>,
    /// Their namespace; `None` for that of the calling thread.
    pub netns: Option<Netns>,
    /// Make each receive queue an interface of the file.
    pub per_queue: bool,
    /// What becomes of captured frames; can be changed later.
    pub mode: Mode,
    /// Whether the devices are made promiscuous while the capture runs.
    pub promiscuous: bool,
    /// Where frames are taken off the device.
    pub source: SourceKind,
    /// Record frames before or behind the XDP program that a device has, instead of beside the
    /// network stack. Frames of several buffers are cut to the first one.
    pub at: Option<AtPlace>,
    /// Whose clock gives the times of frames.
    pub clock: ClockMode,
    /// Which frames: XDP knows incoming ones only.
    pub direction: CaptureDirection,
    /// How the kernel distributes frames over packet sockets (PACKET_FANOUT).
    pub fanout: Fanout,
    /// Whether an XDP program that an earlier wirerate left on the device is taken off first.
    pub replace_ours: bool,
    /// How the XDP program may be attached.
    pub xdp: XdpModeChoice,
    /// Which frames are captured, in the language of pcap-filter(7); others are counted and stay
    /// with the host.
    pub filter: Option<String>,
    /// Bytes kept of a frame, 1 to [`SNAPLEN_WHOLE`], which keeps whole frames.
    pub snaplen: u32,
    /// Cut frames this many bytes behind their last header.
    pub header_cut: Option<u32>,
    /// Bytes of each CPU's ring, rounded up to a power of two; `None` for
    /// [`RING_SIZE_BYTES_DEFAULT`]. All rings together take at most a part of the memory.
    pub ring_size_bytes: Option<u64>,
    /// Write exactly this many frames at most; later ones are counted as after the limit.
    pub frames_max: Option<u64>,
    /// Where the frames go.
    pub output: Output,
    /// Further outputs. Then `filter`, `snaplen`, `header_cut`, `format` and `compression` are
    /// those of `output`, and the process filters and cuts the frames of each output.
    pub more_outputs: Vec<OutputOptions>,
    /// Where frames are passed on for people to see.
    pub display: Option<FrameDisplay>,
    /// What files look like.
    pub format: Format,
    /// Names of the run and the host in a data set.
    pub data_set: DataSetNames,
    /// How records of several rings are put together.
    pub order: Order,
    /// Give each packet an id (`epb_packetid`): the ring in the upper 16 bits, below it the number
    /// of the frame among all that the ring was offered.
    pub packet_ids: bool,
    /// When files end and how many stay.
    pub rotate: RotatePolicy,
    /// Keep frames in memory and write them when something triggers, instead of all at once. The
    /// output is the pattern of the files' names.
    pub recorder: Option<RecorderOptions>,
    /// Seconds that local time is east of UTC, for names and aligned intervals.
    pub utc_offset_s: i32,
    /// Run by `sh` for each complete file, whose name is one more word.
    pub rotate_command: Option<String>,
    /// How files are compressed.
    pub compression: Option<Compression>,
    /// What to do when the output refuses something.
    pub on_error: OnError,
    /// Space that is allocated when a file begins, for the first one before frames come; given back
    /// at its end. Files on tmpfs that follow the first one have to do without.
    pub preallocate_bytes: u64,
    /// Write files past the page cache (`O_DIRECT`).
    pub is_direct: bool,
    /// Memory for encoded records of one ring that is in use.
    pub buffer_size_bytes: usize,
    /// Name and version of the program, for the file.
    pub application: String,
    /// The user to become, with all threads of the process, once devices are open and before files
    /// are.
    pub run_as: Option<RunAs>,
    /// Set by the caller when the user has asked to end: ends what may take long before the first
    /// frame (a filter that is being compiled).
    pub interrupted: Arc<AtomicBool>,
    /// Set by the caller when the user gives up the commands for complete files that are left.
    pub abandoned: Arc<AtomicBool>,
}

impl Options {
    /// A capture of `ifname` that counts frames and lets the host have them.
    pub fn new(ifname: impl Into<String>) -> Self {
        Self {
            ifnames: vec![ifname.into()],
            group: None,
            netns: None,
            per_queue: false,
            mode: Mode::default(),
            promiscuous: false,
            source: SourceKind::default(),
            at: None,
            clock: ClockMode::default(),
            direction: CaptureDirection::default(),
            fanout: Fanout::default(),
            replace_ours: false,
            xdp: XdpModeChoice::default(),
            filter: None,
            snaplen: SNAPLEN_DEFAULT,
            header_cut: None,
            ring_size_bytes: None,
            frames_max: None,
            output: Output::default(),
            more_outputs: Vec::new(),
            display: None,
            format: Format::default(),
            data_set: DataSetNames::default(),
            order: Order::default(),
            packet_ids: false,
            rotate: RotatePolicy::default(),
            recorder: None,
            utc_offset_s: 0,
            rotate_command: None,
            compression: None,
            on_error: OnError::default(),
            preallocate_bytes: 0,
            is_direct: false,
            buffer_size_bytes: BUFFER_SIZE_BYTES_DEFAULT,
            application: concat!("wirerate ", env!("CARGO_PKG_VERSION")).to_owned(),
            run_as: None,
            interrupted: Arc::default(),
            abandoned: Arc::default(),
        }
    }

    /// All outputs, if there are several. What remains here are the options of the rings: frames
    /// that any of the outputs may want, as far as its filter or snaplen need them.
    pub(crate) fn take_outputs(&mut self) -> Vec<OutputOptions> {
        if self.more_outputs.is_empty() {
            return Vec::new();
        }
        let first = OutputOptions {
            output: std::mem::take(&mut self.output),
            filter: self.filter.take(),
            snaplen: self.snaplen,
            header_cut: self.header_cut.take(),
            format: self.format,
            compression: self.compression.take(),
        };
        let outputs: Vec<OutputOptions> =
            std::iter::once(first).chain(std::mem::take(&mut self.more_outputs)).collect();
        let is_alike = outputs.iter().all(|output| output.filter == outputs[0].filter);
        let needs_whole =
            |output: &OutputOptions| output.header_cut.is_some() || (!is_alike && output.filter.is_some());
        let longest = outputs.iter().map(|output| output.snaplen).max().unwrap_or(SNAPLEN_WHOLE);
        self.snaplen = if outputs.iter().any(needs_whole) { SNAPLEN_WHOLE } else { longest };
        // The kernel runs one filter. Joined with `or`, a load behind the end of a frame would
        // reject it for all outputs.
        self.filter = outputs[0].filter.clone().filter(|_| is_alike);
        self.format = Format::Pcapng;
        outputs
    }

    /// Whether these outputs can be combined with the other options.
    pub(crate) fn check_outputs(
        &self,
        outputs: &[OutputOptions],
        link_types: &[u16],
    ) -> Result<(), CaptureError> {
        let refuse = |what, other| Err(CaptureError::Contradiction { what, other });
        if outputs.len() > OUTPUTS_MAX {
            let (what, must) = ("the number of outputs", format!("at most {OUTPUTS_MAX}"));
            return Err(CaptureError::BadOption { what, value: outputs.len() as u64, must });
        }
        if self.recorder.is_some() {
            return refuse("a recorder", "several outputs");
        }
        if self.order == Order::FilePerRing {
            return refuse("a file for each CPU", "several outputs");
        }
        for OutputOptions { output, format, compression, .. } in outputs {
            if *format == Format::Parquet {
                return refuse("the parquet format", "several outputs");
            }
            if matches!(output, Output::Nowhere) {
                return refuse("an output that writes nothing", "other outputs");
            }
            self.check(output, (*format, *compression), link_types)?;
        }
        Ok(())
    }

    /// Refuses `what` if only incoming frames are captured.
    pub(crate) fn refuse_incoming_only(&self, what: &'static str) -> Result<(), CaptureError> {
        match self.direction {
            CaptureDirection::In => {
                let other = "incoming frames only (-Q inout captures both directions)";
                Err(CaptureError::Contradiction { what, other })
            }
            CaptureDirection::Out | CaptureDirection::Both => Ok(()),
        }
    }

    /// Whether the options about devices can be combined.
    pub(crate) fn check_source(&self) -> Result<(), CaptureError> {
        let refuse = |what, other| Err(CaptureError::Contradiction { what, other });
        if self.at.is_some() {
            let other = "frames at an XDP program (--at)";
            if self.mode == Mode::Drop {
                return refuse("drop mode, since that program decides what becomes of its frames,", other);
            }
            if self.source != SourceKind::Best {
                return refuse("another source", other);
            }
            if self.direction != CaptureDirection::In {
                return refuse("outgoing frames, which no XDP program sees,", other);
            }
            if self.fanout == Fanout::Hash {
                return refuse("a fanout by flow hash", other);
            }
            if self.clock == ClockMode::Phc {
                return refuse("times of the device's clock", other);
            }
        }
        if self.mode == Mode::Drop && self.fanout == Fanout::Hash {
            return refuse("a fanout by flow hash", "drop mode, which needs XDP");
        }
        if self.source == SourceKind::Xdp && self.fanout == Fanout::Hash {
            return refuse("a fanout by flow hash", "XDP, whose rings belong to the CPUs");
        }
        Ok(())
    }

    /// Whether the options can be combined; `output` was taken out of `self`, and its files have
    /// this format and compression.
    pub(crate) fn check(
        &self,
        output: &Output,
        (format, compression): (Format, Option<Compression>),
        link_types: &[u16],
    ) -> Result<(), CaptureError> {
        let refuse = |what, other| Err(CaptureError::Contradiction { what, other });
        let is_stream = matches!(output, Output::Stream { .. } | Output::Descriptor { .. });
        if is_stream && self.rotate.is_rotation() {
            return refuse("files that follow each other", "output that is a stream");
        }
        if is_stream && self.order == Order::FilePerRing {
            return refuse("a file for each CPU", "output that is a stream");
        }
        if self.recorder.is_some() {
            if !matches!(output, Output::File(_)) {
                return refuse("a recorder", "output that is no file");
            }
            if self.rotate.is_rotation() || self.rotate.stop_after_bytes.is_some() {
                return refuse("a recorder, which makes a file for each trigger", "limits of files");
            }
            if self.rotate_command.is_some() {
                return refuse("a recorder", "a command for each complete file");
            }
            if format == Format::Parquet || self.order == Order::FilePerRing {
                return refuse("a recorder", "several files at a time");
            }
        }
        // A data set has several files in any case.
        if self.rotate_command.is_some() && !self.rotate.rotates() && format != Format::Parquet {
            return refuse("a command for each complete file", "a single file");
        }
        if format == Format::Parquet {
            if !cfg!(feature = "parquet") {
                return Err(CaptureError::NoParquet);
            }
            if is_stream {
                return refuse("a data set of several files", "output that is a stream");
            }
            if self.order == Order::FilePerRing {
                return refuse("a file for each CPU", "the parquet format, whose column cpu has the CPU");
            }
            if compression.is_some() {
                return refuse("another compression", "the parquet format, which compresses its columns");
            }
            if self.clock == ClockMode::Phc {
                return refuse("times of the device's clock", "the parquet format, whose times are UTC");
            }
        }
        if format == Format::Pcap && self.clock == ClockMode::Phc {
            return refuse("times of two clocks", "the pcap format");
        }
        if format == Format::Pcap && self.per_queue {
            return refuse("an interface for each queue", "the pcap format");
        }
        if self.at == Some(AtPlace::Both) && format != Format::Pcapng {
            return refuse(
                "frames before and behind a program",
                "a format other than pcapng, which has no verdicts",
            );
        }
        if format == Format::Pcap && self.packet_ids {
            return refuse("an id for each packet", "the pcap format");
        }
        if format == Format::Pcap && link_types.iter().any(|link_type| *link_type != link_types[0]) {
            return refuse("devices with different kinds of frames", "the pcap format");
        }
        Ok(())
    }

    /// Bytes kept of each frame on a device with this MTU. Whole frames may be longer than the
    /// MTU says if the kernel has merged several into one (GRO, GSO).
    pub(crate) fn kept_len(&self, mtu: u32) -> u32 {
        match self.snaplen {
            SNAPLEN_WHOLE => Self::whole_len(mtu),
            snaplen => snaplen,
        }
    }

    /// Bytes of a whole frame on a device with this MTU.
    pub(crate) fn whole_len(mtu: u32) -> u32 {
        mtu.saturating_add(HEADER_LEN_MAX).min(SNAPLEN_WHOLE)
    }

    /// The most that one of `rings` rings of a device may take of `bound`.
    fn ring_memory_max(&self, rings: u32, bound: MemoryBound) -> u64 {
        // A group has one set of rings.
        let taps = if self.group.is_some() { 1 } else { self.ifnames.len().max(1) };
        let ring_count = u64::from(rings.max(1)) * taps as u64;
        (bound.bytes / ring_count).max(RING_SIZE_BYTES_MIN)
    }

    /// The size of each of `rings` rings of a device: what was asked for, or what `bound` has for
    /// it.
    pub(crate) fn ring_size(&self, rings: u32, bound: MemoryBound) -> RingSize {
        let asked = self.ring_size_bytes.unwrap_or(RING_SIZE_BYTES_DEFAULT);
        let most = self.ring_memory_max(rings, bound);
        RingSize { bytes: asked.min(most), bounded_by: (asked > most).then_some(bound.of) }
    }

    /// The rings for records with up to `kept_len` bytes of a frame on a machine of `cpus` CPUs, of
    /// which `rings` can receive, and their size for the report.
    pub(crate) fn geometry(
        &self,
        kept_len: u32,
        (rings, cpus): (u32, u32),
        format: RecordFormat,
        bound: MemoryBound,
    ) -> Result<(Geometry, RingSize), CaptureError> {
        check("snaplen", self.snaplen.into(), 1, SNAPLEN_WHOLE.into())?;
        let asked = self.ring_size_bytes.unwrap_or(RING_SIZE_BYTES_DEFAULT);
        check("the size of a ring in bytes", asked, 1, RING_SIZE_BYTES_MAX)?;
        let snaplen = kept_len.min(XDP_COPY_LEN_MAX);
        let (segment_bytes, segments) = (SEGMENT_BYTES_MIN as u32, 1);
        let geometry = Geometry { snaplen, segment_bytes, segments, rings, cpus, format };
        // At least two of the longest records.
        let least = u64::from(geometry.record_size_bytes_max()) * 2;
        let least = least.max(RING_SIZE_BYTES_MIN).next_power_of_two();
        let mut bytes = asked.next_power_of_two().max(least);
        // Segments have spare bytes, so a ring takes more memory than it holds.
        let most = self.ring_memory_max(rings, bound);
        while bytes > least && of_ring_size(geometry, bytes).ring_memory_bytes() as u64 > most {
            bytes /= 2;
        }
        let bounded_by = (bytes < asked).then_some(bound.of);
        Ok((of_ring_size(geometry, bytes), RingSize { bytes, bounded_by }))
    }
}

/// Adapts a geometry to rings of `ring_bytes`, a power of two.
fn of_ring_size(geometry: Geometry, ring_bytes: u64) -> Geometry {
    let several = (u64::from(geometry.record_size_bytes_max()) * 2).next_power_of_two();
    let segment_bytes = (ring_bytes / SEGMENTS_MIN).max(several).clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX);
    let segment_bytes = segment_bytes.min(ring_bytes / 2);
    let segments = (ring_bytes / segment_bytes) as u32;
    Geometry { segment_bytes: segment_bytes as u32, segments, ..geometry }
}

fn check(what: &'static str, value: u64, min: u64, max: u64) -> Result<u64, CaptureError> {
    if (min..=max).contains(&value) {
        return Ok(value);
    }
    Err(CaptureError::BadOption { what, value, must: format!("from {min} to {max}") })
}

/// Which of the two ways is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub enum SourceKind {
    /// XDP, and packet sockets where XDP cannot see or do what is asked for.
    #[default]
    #[cfg_attr(feature = "cli", value(skip))]
    Best,
    /// An XDP program, in the driver or in the generic receive path.
    Xdp,
    /// Packet sockets: outgoing frames, loopback, any device.
    Tpacket,
}

/// Whose clock gives the times of frames, and what is made of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub enum ClockMode {
    /// Device timestamps converted to UTC; kernel time for frames without one.
    #[default]
    Utc,
    /// Device timestamps as they are; an error if the device makes none.
    Phc,
    /// Kernel time for every frame.
    System,
}

/// Frames on their way to the host, from it, or both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub enum CaptureDirection {
    /// Frames that the device received.
    #[default]
    In,
    /// Frames that the host sends.
    Out,
    /// Both directions; on the loopback device each frame once.
    #[cfg_attr(feature = "cli", value(alias = "inout"))]
    Both,
}

impl fmt::Display for CaptureDirection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::In => "in",
            Self::Out => "out",
            Self::Both => "both",
        })
    }
}

/// What decides which of several packet sockets gets a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub enum Fanout {
    /// The CPU that handles a frame.
    #[default]
    Cpu,
    /// Addresses and ports: spreads the flows of a device with one queue.
    Hash,
}

impl fmt::Display for Fanout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cpu => "CPU",
            Self::Hash => "flow hash",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(options: &Options, mtu: u32, rings: u32, memory_mib: u64) -> (u64, u64, bool) {
        let bound = MemoryBound::new(memory_mib << 20, None);
        let (geometry, size) = options.geometry(mtu, (rings, rings), RecordFormat::Records, bound).unwrap();
        assert_eq!(geometry.ring_size_bytes(), size.bytes);
        let memory = geometry.ring_memory_bytes() as u64 * u64::from(rings) * options.ifnames.len() as u64;
        assert!(memory <= bound.bytes || size.bytes <= 256 << 10, "{memory} of {}", bound.bytes);
        (size.bytes >> 10, u64::from(geometry.segment_bytes) >> 10, size.bounded_by.is_some())
    }

    #[test]
    fn rings_have_the_size_that_was_asked_for_within_a_part_of_the_memory() {
        let mib = |mib: u64| Some(mib << 20);
        for (asked, snaplen, mtu, rings, devices, memory_mib, expected) in [
            (None, SNAPLEN_WHOLE, 1500, 2, 1, 16 << 10, (8192, 1024, false)),
            (None, 96, 1500, 2, 1, 16 << 10, (8192, 1024, false)),
            (None, SNAPLEN_WHOLE, 65_536, 2, 1, 16 << 10, (8192, 1024, false)),
            (mib(10), 96, 1500, 2, 1, 16 << 10, (16_384, 1024, false)),
            (mib(4096), 96, 1500, 2, 1, 16 << 10, (262_144, 1024, true)),
            (None, 96, 1500, 64, 1, 1024, (512, 64, true)),
            (None, 96, 1500, 64, 2, 1024, (256, 32, true)),
            (None, SNAPLEN_WHOLE, 65_536, 64, 2, 1024, (256, 128, true)),
            (Some(1), 96, 1500, 2, 1, 16 << 10, (64, 8, false)),
            (Some(1), SNAPLEN_WHOLE, 65_536, 2, 1, 16 << 10, (256, 128, false)),
        ] {
            let mut options = Options { snaplen, ring_size_bytes: asked, ..Options::new("eth0") };
            options.ifnames = vec!["eth0".to_owned(); devices];
            let got = sizes(&options, mtu, rings, memory_mib);
            assert_eq!(
                got, expected,
                "{asked:?} snaplen {snaplen} MTU {mtu} {rings} rings {devices} devices"
            );
        }
    }

    #[test]
    fn several_outputs_share_a_filter_and_a_snaplen_or_get_whole_frames() {
        let rings = |filters: [Option<&str>; 2], header_cut| {
            let second = OutputOptions {
                output: Output::Nowhere,
                filter: filters[1].map(str::to_owned),
                snaplen: 200,
                header_cut,
                format: Format::Pcap,
                compression: None,
            };
            let mut options = Options { snaplen: 96, more_outputs: vec![second], ..Options::new("eth0") };
            options.filter = filters[0].map(str::to_owned);
            assert_eq!(options.take_outputs().len(), 2);
            (options.filter, options.snaplen)
        };
        assert_eq!(rings([None, None], None), (None, 200));
        assert_eq!(rings([Some("udp"), Some("udp")], None), (Some("udp".to_owned()), 200));
        assert_eq!(rings([Some("udp"), Some("tcp")], None), (None, SNAPLEN_WHOLE));
        assert_eq!(rings([Some("udp"), None], None), (None, SNAPLEN_WHOLE));
        assert_eq!(rings([None, None], Some(0)), (None, SNAPLEN_WHOLE));
        assert_eq!(Options::new("eth0").take_outputs().len(), 0);
    }

    #[test]
    fn contradictions_are_refused() {
        let refusal = |options: Options| {
            options
                .check(&options.output, (options.format, options.compression), &[1, 1])
                .unwrap_err()
                .to_string()
        };
        let hash = |options| {
            Options { fanout: Fanout::Hash, ..options }.check_source().map_err(|why| why.to_string())
        };
        let by_xdp = Options { source: SourceKind::Xdp, ..Options::new("eth0") };
        assert!(hash(by_xdp).unwrap_err().ends_with("belong to the CPUs"));
        let dropping = Options { mode: Mode::Drop, ..Options::new("eth0") };
        assert!(hash(dropping).unwrap_err().ends_with("which needs XDP"));
        assert_eq!(hash(Options::new("eth0")), Ok(()));
        let stream = || Output::Stream { name: "pipe".to_owned(), to: Box::new(std::io::sink()) };
        let ring_files = std::num::NonZeroU32::new(2);
        let rotate = RotatePolicy { ring_files, ..RotatePolicy::default() };
        let options = Options { output: stream(), rotate, ..Options::new("eth0") };
        assert_eq!(
            refusal(options),
            "files that follow each other cannot be combined with output that is a stream"
        );
        let options = Options { output: stream(), order: Order::FilePerRing, ..Options::new("eth0") };
        assert_eq!(refusal(options), "a file for each CPU cannot be combined with output that is a stream");
        let options = Options { rotate_command: Some("gzip".to_owned()), ..Options::new("eth0") };
        assert_eq!(
            refusal(options),
            "a command for each complete file cannot be combined with a single file"
        );
        let options = Options { format: Format::Pcap, per_queue: true, ..Options::new("eth0") };
        assert_eq!(refusal(options), "an interface for each queue cannot be combined with the pcap format");
        let options = Options { format: Format::Pcap, packet_ids: true, ..Options::new("eth0") };
        assert_eq!(refusal(options), "an id for each packet cannot be combined with the pcap format");
        let options = Options { format: Format::Pcap, at: Some(AtPlace::Both), ..Options::new("eth0") };
        assert!(refusal(options).ends_with("a format other than pcapng, which has no verdicts"));
        let options = Options { format: Format::Parquet, clock: ClockMode::Phc, ..Options::new("eth0") };
        assert!(refusal(options).ends_with("the parquet format, whose times are UTC"));
        let options = Options { format: Format::Pcap, ..Options::new("eth0") };
        assert!(
            options.check(&Output::Nowhere, (options.format, None), &[1, 101]).is_err()
                && options.check(&Output::Nowhere, (options.format, None), &[101]).is_ok()
        );
    }

    #[test]
    fn impossible_wishes_are_refused_with_what_may_be() {
        let refusal = |options: Options| {
            let bound = MemoryBound::new(1 << 30, None);
            options.geometry(1500, (1, 1), RecordFormat::Records, bound).unwrap_err().to_string()
        };
        let options = Options { snaplen: 262_145, ..Options::new("eth0") };
        assert_eq!(refusal(options), "snaplen is 262145, but must be from 1 to 262144");
        for ring_size_bytes in [0, RING_SIZE_BYTES_MAX + 1] {
            let options = Options { ring_size_bytes: Some(ring_size_bytes), ..Options::new("eth0") };
            assert!(refusal(options).starts_with("the size of a ring in bytes is "));
        }
    }
}
