//! Options of a capture, and the sizes of rings that follow from them.

use crate::output::compress::Compression;
use crate::output::rotate::RotatePolicy;
use crate::record::format::Format;
use crate::{CaptureError, RunAs};
use bpf::SinkVerdict;
use bpf::abi::CaptureMode;
use bpf::capture::Geometry;
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
/// Slots of a ring unless asked otherwise: 3 ms of 10 million frames per second.
pub const RING_SLOTS_DEFAULT: u32 = 32_768;
/// Fewest slots of a ring.
pub const RING_SLOTS_MIN: u32 = 2;
/// Most slots of a ring.
pub const RING_SLOTS_MAX: u32 = 1 << 24;

/// The default size of a ring is at most this, so that a long snaplen does not take all memory.
const RING_SIZE_BYTES_MAX: u64 = 64 << 20;
/// With the default size, all rings of a capture together take at most this part of the memory.
const MEMORY_PART: u64 = 16;
/// The default size of a ring is at least this, also with little memory.
const RING_SIZE_BYTES_MIN: u64 = 2 << 20;

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
pub const BUFFER_SIZE_BYTES_DEFAULT: usize = 16 << 20;

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

/// A capture to be made.
#[derive(Debug)]
pub struct Options {
    /// The devices, by any of their names; at least one. Each is an interface of the file, in this
    /// order.
    pub ifnames: Vec<String>,
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
    /// Whose clock gives the times of frames.
    pub clock: ClockMode,
    /// Which frames: XDP knows incoming ones only.
    pub direction: CaptureDirection,
    /// What shares the frames out among packet sockets.
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
    /// Slots of each CPU's ring, rounded up to a power of two; `None` for [`RING_SLOTS_DEFAULT`],
    /// or fewer when `snaplen` is long.
    pub ring_slots: Option<u32>,
    /// Write exactly this many frames at most; later ones are counted as after the limit.
    pub frames_max: Option<u64>,
    /// Where the frames go.
    pub output: Output,
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
    /// frame (a filter that is being compiled) and after the last one (commands for complete
    /// files).
    pub interrupted: Arc<AtomicBool>,
}

impl Options {
    /// A capture of `ifname` that counts frames and lets the host have them.
    pub fn new(ifname: impl Into<String>) -> Self {
        Self {
            ifnames: vec![ifname.into()],
            netns: None,
            per_queue: false,
            mode: Mode::default(),
            promiscuous: false,
            source: SourceKind::default(),
            clock: ClockMode::default(),
            direction: CaptureDirection::default(),
            fanout: Fanout::default(),
            replace_ours: false,
            xdp: XdpModeChoice::default(),
            filter: None,
            snaplen: SNAPLEN_DEFAULT,
            ring_slots: None,
            frames_max: None,
            output: Output::default(),
            format: Format::default(),
            data_set: DataSetNames::default(),
            order: Order::default(),
            packet_ids: false,
            rotate: RotatePolicy::default(),
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
        }
    }

    /// Whether the options about devices can be combined.
    pub(crate) fn check_source(&self) -> Result<(), CaptureError> {
        let refuse = |what, other| Err(CaptureError::Contradiction { what, other });
        if self.mode == Mode::Drop && self.fanout == Fanout::Hash {
            return refuse("a fanout by flow hash", "drop mode, which needs XDP");
        }
        if self.source == SourceKind::Xdp && self.fanout == Fanout::Hash {
            return refuse("a fanout by flow hash", "XDP, whose rings belong to the CPUs");
        }
        Ok(())
    }

    /// Whether the options can be combined; `output` is the one that was taken out of `self`.
    pub(crate) fn check(&self, output: &Output, link_types: &[u16]) -> Result<(), CaptureError> {
        let refuse = |what, other| Err(CaptureError::Contradiction { what, other });
        let is_stream = matches!(output, Output::Stream { .. } | Output::Descriptor { .. });
        if is_stream && (self.rotate.rotates() || self.rotate.ring_files.is_some()) {
            return refuse("files that follow each other", "output that is a stream");
        }
        if is_stream && self.order == Order::FilePerRing {
            return refuse("a file for each CPU", "output that is a stream");
        }
        // A data set has several files in any case.
        if self.rotate_command.is_some() && !self.rotate.rotates() && self.format != Format::Parquet {
            return refuse("a command for each complete file", "a single file");
        }
        if self.format == Format::Parquet {
            if is_stream {
                return refuse("a data set of several files", "output that is a stream");
            }
            if self.order == Order::FilePerRing {
                return refuse("a file for each CPU", "the parquet format, whose column cpu has the CPU");
            }
            if self.compression.is_some() {
                return refuse("another compression", "the parquet format, which compresses its columns");
            }
            if self.packet_ids {
                return refuse("an id for each packet", "the parquet format");
            }
            if self.clock == ClockMode::Phc {
                return refuse("times of the device's clock", "the parquet format, whose times are UTC");
            }
        }
        if self.format == Format::Pcap && self.clock == ClockMode::Phc {
            return refuse("times of two clocks", "the pcap format");
        }
        if self.format == Format::Pcap && self.per_queue {
            return refuse("an interface for each queue", "the pcap format");
        }
        if self.format == Format::Pcap && self.packet_ids {
            return refuse("an id for each packet", "the pcap format");
        }
        if self.format == Format::Pcap && link_types.iter().any(|link_type| *link_type != link_types[0]) {
            return refuse("devices with different kinds of frames", "the pcap format");
        }
        Ok(())
    }

    /// Frames that a ring is to hold, before the largest that rings can be.
    pub(crate) fn slots_wanted(&self) -> u32 {
        self.ring_slots.unwrap_or(RING_SLOTS_DEFAULT)
    }

    /// Bytes that rings of a device with this MTU are made for. Whole frames may be longer than the
    /// MTU says if the kernel has merged several into one (GRO, GSO).
    pub(crate) fn kept_len(&self, mtu: u32) -> u32 {
        match self.snaplen {
            SNAPLEN_WHOLE => mtu.saturating_add(HEADER_LEN_MAX).min(SNAPLEN_WHOLE),
            snaplen => snaplen,
        }
    }

    /// The most that one of `rings` rings takes by default on a machine with this memory.
    pub(crate) fn ring_size_bytes_max(&self, rings: u32, memory_bytes: u64) -> u64 {
        let ring_count = u64::from(rings.max(1)) * self.ifnames.len().max(1) as u64;
        (memory_bytes / MEMORY_PART / ring_count).clamp(RING_SIZE_BYTES_MIN, RING_SIZE_BYTES_MAX)
    }

    /// The rings for a device with this MTU on a machine of `cpus` CPUs, of which `rings` can
    /// receive.
    pub(crate) fn geometry(
        &self,
        mtu: u32,
        rings: u32,
        cpus: u32,
        memory_bytes: u64,
    ) -> Result<Geometry, CaptureError> {
        check("snaplen", self.snaplen, 1, SNAPLEN_WHOLE)?;
        let snaplen = self.kept_len(mtu).min(XDP_COPY_LEN_MAX);
        let mut geometry = Geometry { snaplen, slots: RING_SLOTS_DEFAULT, rings, cpus };
        let size_bytes_max = self.ring_size_bytes_max(rings, memory_bytes);
        geometry.slots = match self.ring_slots {
            Some(slots) => {
                check("number of ring slots", slots, RING_SLOTS_MIN, RING_SLOTS_MAX)?.next_power_of_two()
            }
            None => slots_within(size_bytes_max, geometry.slot_size_bytes()).min(RING_SLOTS_DEFAULT),
        };
        Ok(geometry)
    }
}

fn check(what: &'static str, value: u32, min: u32, max: u32) -> Result<u32, CaptureError> {
    if (min..=max).contains(&value) {
        return Ok(value);
    }
    Err(CaptureError::BadOption { what, value: value.into(), must: format!("from {min} to {max}") })
}

/// The largest power of two of slots that fits.
fn slots_within(size_bytes: u64, slot_size_bytes: u32) -> u32 {
    let slots = (size_bytes / u64::from(slot_size_bytes)).max(1);
    1 << slots.ilog2().min(31)
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

    #[test]
    fn long_snaplens_get_fewer_slots_unless_asked() {
        for (snaplen, ring_slots, slots) in [
            (96, None, 32_768),
            (1514, None, 32_768),
            (9014, None, 4096),
            (65_535, None, 512),
            (65_535, Some(4096), 4096),
            (96, Some(1000), 1024),
        ] {
            let options = Options { snaplen, ring_slots, ..Options::new("eth0") };
            let geometry = options.geometry(1500, 2, 4, 16 << 30).unwrap();
            assert_eq!(geometry, Geometry { snaplen, slots, rings: 2, cpus: 4 });
        }
    }

    #[test]
    fn whole_frames_take_slots_of_the_mtu_and_its_headers() {
        for (mtu, rings, devices, memory_gib, snaplen, slots) in [
            (1500, 2, 1, 16, 1522, 32_768),
            (9000, 2, 1, 16, 9022, 4096),
            (65_536, 2, 1, 16, 65_535, 512),
            (1500, 64, 1, 16, 1522, 8192),
            (1500, 64, 2, 16, 1522, 4096),
            (1500, 64, 2, 1, 1522, 1024),
        ] {
            let mut options = Options { snaplen: SNAPLEN_WHOLE, ..Options::new("eth0") };
            options.ifnames = vec!["eth0".to_owned(); devices];
            let geometry = options.geometry(mtu, rings, rings, memory_gib << 30).unwrap();
            assert_eq!(geometry, Geometry { snaplen, slots, rings, cpus: rings }, "{mtu} {rings} {devices}");
        }
    }

    #[test]
    fn contradictions_are_refused() {
        let refusal = |options: Options| options.check(&options.output, &[1, 1]).unwrap_err().to_string();
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
        let options = Options { format: Format::Parquet, clock: ClockMode::Phc, ..Options::new("eth0") };
        assert!(refusal(options).ends_with("the parquet format, whose times are UTC"));
        let options = Options { format: Format::Pcap, ..Options::new("eth0") };
        assert!(
            options.check(&Output::Nowhere, &[1, 101]).is_err()
                && options.check(&Output::Nowhere, &[101]).is_ok()
        );
    }

    #[test]
    fn impossible_wishes_are_refused_with_what_may_be() {
        let options = Options { snaplen: 262_145, ..Options::new("eth0") };
        let error = options.geometry(1500, 1, 1, 1 << 30).unwrap_err();
        assert_eq!(error.to_string(), "snaplen is 262145, but must be from 1 to 262144");
        for ring_slots in [0, 1, RING_SLOTS_MAX + 1] {
            let options = Options { ring_slots: Some(ring_slots), ..Options::new("eth0") };
            assert!(matches!(options.geometry(1500, 1, 1, 1 << 30), Err(CaptureError::BadOption { .. })));
        }
    }
}
