//! The packet socket backend: TPACKET_V3 rings in a fanout group, for what XDP cannot capture.
//!
//! That is outgoing frames, the loopback device, wireless devices, and devices whose XDP hook is in
//! use. Each frame is an skb by then and is copied with a header of 80 bytes, so this backend is
//! slower. The host receives every frame: there is no drop mode.

mod block;
mod consumer;

use crate::backend::filter::{self, SocketFilter};
use crate::backend::hwtstamp::Hardware;
use crate::backend::{Backend, RingCounts, SourceFacts, TpacketFacts};
use crate::group::{GroupFilter, TapDevices};
use crate::memory::{MemoryBound, RingSize};
use crate::reader::AttachedRing;
use crate::sys::packet_socket::{CaptureSocket, PacketRingShape, ReceiveRing};
use crate::{CaptureDirection, CaptureError, ClockMode, Fanout, Mode, Options, SNAPLEN_WHOLE, cpus};
use ::filter::{Classic, Instruction};
use consumer::{FrameCheck, SocketTally, TpacketConsumer};
use host::Link;
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Large enough for the largest frame, small enough to stay in a CPU's own cache.
const BLOCK_SIZE_BYTES_MAX: u32 = 256 << 10;
/// Block size where at most [`SNAPLEN_SHORT_MAX`] bytes of a frame are kept. On a slow line the
/// kernel retires a block each [`RETIRE_MS`], so the number of blocks, not of frames, decides how
/// late a reader may be: a second with these, a quarter of that with blocks of
/// [`BLOCK_SIZE_BYTES_MAX`].
const BLOCK_SIZE_BYTES_SHORT: u32 = 64 << 10;
const SNAPLEN_SHORT_MAX: u32 = 4096;
/// Blocks of a ring at least: the kernel fills one while others are read.
const BLOCK_COUNT_MIN: u64 = 4;
/// What a frame costs beside its bytes: the head, the address, and what it takes to begin the next
/// at 16 bytes.
const FRAME_OVERHEAD: u64 = 96;
/// What a block begins with, at most.
const BLOCK_HEAD: u64 = 64;
/// A frame waits no longer than twice this in a block that is not full.
const RETIRE_MS: u32 = 10;

/// At the end, frames that the reader has not seen after so long without seeing one are not waited
/// for.
const TIMEOUT: Duration = Duration::from_millis(500);
const LOOK: Duration = Duration::from_millis(2);

/// The packet sockets of a device: a fanout group with a TPACKET_V3 ring each.
pub(crate) struct TpacketBackend {
    ifname: String,
    /// What passes while the tap is attached.
    filter: Vec<Instruction>,
    /// True when the kernel turns frames away that it does not count.
    is_filtered: bool,
    facts: TpacketFacts,
    tallies: Vec<Arc<SocketTally>>,
    /// Until they are given to readers.
    rings: Vec<ReceiveRing>,
    ring_size: RingSize,
    /// Whether the device's stamps were asked for.
    is_stamped: bool,
    /// What the process checks of frames that the kernel passes.
    check: FrameCheck,
    /// True if devices come and go.
    is_group: bool,
    snaplen: u32,
    /// What the kernel said to that.
    stamps_refusal: Option<String>,
    is_attached: Arc<Mutex<bool>>,
}

/// Where the frames of packet sockets come from.
pub(crate) struct Place {
    ifname: String,
    /// 0 for all devices of the namespace.
    index: u32,
}

impl Place {
    /// One device.
    pub(crate) fn of(link: &Link) -> Self {
        Self { ifname: link.name.clone(), index: link.index }
    }

    /// All devices of the namespace; `ifname` is what the user called them.
    pub(crate) fn of_all(ifname: String) -> Self {
        Self { ifname, index: 0 }
    }
}

/// What a capture by packet sockets is to be, with the filter compiled.
#[derive(Clone)]
pub(crate) struct PacketOptions {
    mode: Mode,
    /// What the kernel runs, and what passes without a filter.
    kernel: Classic,
    /// True when the kernel turns frames away that match no filter of the user.
    is_filtered: bool,
    /// Why XDP cannot run the filter, if it cannot.
    not_for_xdp: Option<String>,
    check: FrameCheck,
    snaplen: u32,
    /// Frames of full length that a ring can hold.
    ring_frames: u64,
    shape: PacketRingShape,
    ring_size: RingSize,
    direction: CaptureDirection,
    fanout: Fanout,
    wants_time: bool,
    /// Whether there is no capture without.
    needs_time: bool,
    /// Queues by which frames are distinguished.
    queues: Option<u32>,
    rings: u32,
}

impl PacketOptions {
    /// From what the user asked for.
    ///
    /// # Errors
    /// What a filter can be refused for.
    pub(crate) fn new(link: &Link, options: &Options, hardware: &Hardware) -> Result<Self, CaptureError> {
        let compile = |expression: &String| {
            filter::for_device(expression, link, options.snaplen, &options.interrupted).map(SocketFilter::new)
        };
        let filter = options.filter.as_ref().map(compile).transpose()?;
        let asks = filter.as_ref().is_some_and(|filter| filter.filter().asks_for_direction());
        let is_once = options.direction == CaptureDirection::Both && link.is_loopback();
        let not_for_xdp = filter.as_ref().and_then(|filter| filter::sockets_only(filter.filter()));
        Ok(Self {
            kernel: filter
                .as_ref()
                .map_or_else(|| Classic::keep(options.snaplen), |filter| filter.kernel.clone()),
            // The process counts what it rejects itself.
            is_filtered: filter.as_ref().is_some_and(|filter| !filter.sees_all()),
            not_for_xdp: not_for_xdp.map(|why| format!("its programs cannot run the filter: {why}")),
            check: filter.map_or(FrameCheck::All, |filter| FrameCheck::Filter(Arc::new(filter))),
            // On the loopback device each frame goes out and comes in; once is enough.
            direction: if is_once { CaptureDirection::In } else { direction(options, asks) },
            wants_time: hardware.clock.is_some(),
            queues: queues_untold(link, options),
            ..Self::without_filter(link.mtu, ring_count()?, options)
        })
    }

    /// For the devices of a group, which share the rings.
    ///
    /// # Errors
    /// [`CaptureError::QueuesUntold`].
    pub(crate) fn of_group(devices: &Arc<TapDevices>, options: &Options) -> Result<Self, CaptureError> {
        let all = devices.all();
        for device in all.iter() {
            if let Some(queues) = queues_untold(&device.link, options) {
                return Err(CaptureError::QueuesUntold { ifname: device.link.name.clone(), queues });
            }
        }
        let filter = devices.filter();
        let kernel = filter.and_then(GroupFilter::of_kernel);
        let mut filters = all.iter().filter_map(|device| device.filter.as_ref());
        let asks = filters.any(|filter| filter.get().filter().asks_for_direction());
        let mtu = all.iter().map(|device| device.link.mtu).max().unwrap_or(0);
        Ok(Self {
            kernel: kernel_of_group(devices, options.snaplen),
            is_filtered: kernel.is_some(),
            check: FrameCheck::Group(Arc::clone(devices)),
            direction: direction(options, asks),
            wants_time: devices.wants_stamps(),
            ..Self::without_filter(mtu, ring_count()?, options)
        })
    }

    /// Frames that arrive on a device with this MTU, with the kernel's times.
    fn without_filter(mtu: u32, rings: u32, options: &Options) -> Self {
        let ring_size = options.ring_size(rings, MemoryBound::of_this_process());
        let shape = shape(ring_size.bytes, options.snaplen);
        Self {
            mode: options.mode,
            kernel: Classic::keep(options.snaplen),
            is_filtered: false,
            not_for_xdp: None,
            check: FrameCheck::All,
            snaplen: options.snaplen,
            ring_frames: frames_of(shape, options.kept_len(mtu)),
            shape,
            ring_size,
            direction: CaptureDirection::In,
            fanout: options.fanout,
            wants_time: false,
            needs_time: options.clock == ClockMode::Phc,
            queues: None,
            rings,
        }
    }

    /// One ring of the whole frames that arrive, with the kernel's times, or those of the device.
    pub(crate) fn of_one_ring(link: &Link, wants_time: bool) -> Self {
        let options = Options { snaplen: SNAPLEN_WHOLE, ..Options::new(&link.name) };
        Self { wants_time, ..Self::without_filter(link.mtu, 1, &options) }
    }

    /// Why XDP cannot run the filter, if it cannot.
    pub(crate) fn not_for_xdp(&self) -> Option<String> {
        self.not_for_xdp.clone()
    }
}

impl TpacketBackend {
    /// Makes the sockets and joins them. `why` tells why it is not XDP, for the report.
    ///
    /// # Errors
    /// [`CaptureError::DropNeedsXdp`], [`CaptureError::QueuesUntold`],
    /// [`CaptureError::PacketSocket`].
    pub(crate) fn open(
        Place { ifname, index }: Place,
        options: PacketOptions,
        why: Option<String>,
    ) -> Result<Self, CaptureError> {
        if options.mode == Mode::Drop {
            return Err(CaptureError::DropNeedsXdp { ifname });
        }
        if let Some(queues) = options.queues {
            return Err(CaptureError::QueuesUntold { ifname, queues });
        }
        let name = ifname.clone();
        let failed = |act| {
            let ifname = name.clone();
            move |source| CaptureError::PacketSocket { ifname, act, source }
        };
        let PacketOptions { fanout, direction, shape, rings, .. } = options;
        let mut group = Group::new(fanout, direction);
        let mut backend = Self {
            ifname,
            filter: with_direction(&options.kernel, direction),
            is_filtered: options.is_filtered,
            facts: TpacketFacts { rings, fanout, direction, why },
            tallies: Vec::new(),
            rings: Vec::new(),
            ring_size: RingSize { bytes: shape.size_bytes() as u64, ..options.ring_size },
            is_stamped: options.wants_time,
            is_group: matches!(options.check, FrameCheck::Group(_)),
            check: options.check,
            snaplen: options.snaplen,
            stamps_refusal: None,
            is_attached: Arc::default(),
        };
        for _ in 0..rings {
            let (socket, ring) = CaptureSocket::new(shape).map_err(failed("make a packet ring for"))?;
            // A socket gets every frame until it is in its group, so nothing passes until all of
            // them are.
            socket.set_filter(Classic::keep(0).instructions()).map_err(failed("set a filter for"))?;
            if options.wants_time
                && let Err(error) = socket.ask_for_hardware_time()
            {
                if options.needs_time {
                    return Err(failed("ask for the time stamps of")(error));
                }
                let why = format!("packet sockets do not get the time stamps of {name}: {error}");
                backend.stamps_refusal = Some(why);
            }
            if direction == CaptureDirection::In {
                // A refinement: without it the filter does the work.
                let _ = socket.ignore_outgoing();
            }
            socket.bind(index).map_err(failed("bind a packet socket to"))?;
            if rings > 1 {
                group.join(&socket).map_err(failed("share out the frames of"))?;
            }
            backend.tallies.push(Arc::new(SocketTally::new(socket, options.ring_frames)));
            backend.rings.push(ring);
        }
        Ok(backend)
    }

    /// Sets the filter anew for the devices that belong to the group then.
    fn refilter(&self, devices: &Arc<TapDevices>) -> Box<dyn Fn() + Send + Sync> {
        let (tallies, is_attached) = (self.tallies.clone(), Arc::clone(&self.is_attached));
        let (snaplen, direction) = (self.snaplen, self.facts.direction);
        // The group holds this.
        let devices = Arc::downgrade(devices);
        Box::new(move || {
            let is_attached = is_attached.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(devices) = devices.upgrade().filter(|_| *is_attached) {
                let kernel = kernel_of_group(&devices, snaplen);
                // It was taken with more instructions before.
                let _ = set_filters(&tallies, &with_direction(&kernel, direction));
            }
        })
    }

    /// Frames in rings that no reader has seen.
    fn unseen(&self) -> u64 {
        let unseen = |tally: &Arc<SocketTally>| {
            tally.with_totals(|totals| totals.captured).saturating_sub(tally.seen.load(Relaxed))
        };
        self.tallies.iter().map(unseen).sum()
    }
}

impl Backend for TpacketBackend {
    fn attach(&mut self, _: i64) -> Result<Vec<AttachedRing>, CaptureError> {
        set_filters(&self.tallies, &self.filter).map_err(|source| CaptureError::PacketSocket {
            ifname: self.ifname.clone(),
            act: "set the filter for",
            source,
        })?;
        *self.is_attached.lock().unwrap_or_else(PoisonError::into_inner) = true;
        if let FrameCheck::Group(devices) = &self.check {
            devices.set_refilter(self.refilter(devices));
        }
        let is_by_cpu = self.facts.fanout == Fanout::Cpu && self.rings.len() > 1;
        let is_stamped = self.is_stamped;
        let ring = |(number, (ring, tally)): (usize, (ReceiveRing, &Arc<SocketTally>))| AttachedRing {
            cpu: is_by_cpu.then_some(number as u32),
            knows_queues: false,
            source: Box::new(
                TpacketConsumer::new(ring, Arc::clone(tally), is_stamped)
                    .with_check(&self.check, self.snaplen),
            ),
        };
        Ok(self.rings.drain(..).zip(&self.tallies).enumerate().map(ring).collect())
    }

    fn facts(&self) -> SourceFacts {
        SourceFacts::Tpacket(self.facts.clone())
    }

    fn ring_size(&self) -> RingSize {
        self.ring_size
    }

    fn stamps_refusal(&self) -> Option<String> {
        self.stamps_refusal.clone()
    }

    fn set_mode(&self, mode: Mode) -> Result<(), CaptureError> {
        match mode {
            Mode::Mirror => Ok(()),
            Mode::Drop => Err(CaptureError::DropNeedsXdp { ifname: self.ifname.clone() }),
        }
    }

    fn is_gone(&self) -> bool {
        !self.is_group && self.tallies.first().is_some_and(|tally| !tally.socket().is_bound())
    }

    fn counts(&self) -> Vec<RingCounts> {
        let counts = |(number, tally): (usize, &Arc<SocketTally>)| {
            let (captured, lost_ring) = tally.with_totals(|totals| (totals.captured, totals.lost));
            let (rejected, unknown) = (tally.rejected.load(Relaxed), tally.unknown.load(Relaxed));
            let captured = captured.saturating_sub(rejected + tally.others.load(Relaxed) + unknown);
            // It is not known whose they are, so they are in no file.
            let lost_ring = lost_ring + unknown;
            // Where the kernel does not count what it rejects, nothing that is rejected is
            // received.
            let filtered = (!self.is_filtered).then_some(rejected);
            RingCounts {
                cpu: number as u32,
                received: captured + lost_ring + filtered.unwrap_or(0),
                received_bytes: tally.seen_bytes.load(Relaxed),
                filtered,
                captured,
                lost_ring,
            }
        };
        self.tallies.iter().enumerate().map(counts).collect()
    }

    fn freezes(&self) -> Option<u64> {
        Some(self.tallies.iter().map(|tally| tally.with_totals(|totals| totals.freezes)).sum())
    }

    fn detach(&mut self) {
        let mut is_attached = self.is_attached.lock().unwrap_or_else(PoisonError::into_inner);
        if !std::mem::take(&mut *is_attached) {
            return;
        }
        // Cannot fail where the filter before it was taken; if it does, the readers stop at the
        // next empty look.
        let _ = set_filters(&self.tallies, Classic::keep(0).instructions());
        drop(is_attached);
        // Wait for readers of the old filter.
        let _ = bpf::sys::wait_for_running_programs();
        // Blocks that are not full are handed over when they are old enough; the readers go on
        // meanwhile.
        let mut unseen = self.unseen();
        let mut last_seen = Instant::now();
        while unseen > 0 && last_seen.elapsed() < TIMEOUT {
            thread::sleep(LOOK);
            let now = self.unseen();
            if now != unseen {
                (unseen, last_seen) = (now, Instant::now());
            }
        }
    }
}

fn set_filters(tallies: &[Arc<SocketTally>], filter: &[Instruction]) -> io::Result<()> {
    tallies.iter().try_for_each(|tally| tally.socket().set_filter(filter))
}

/// What the kernel runs on frames of all devices of the namespace, for those of a group.
fn kernel_of_group(devices: &TapDevices, snaplen: u32) -> Classic {
    let (is_once, others) = (devices.shows_loopback_once(), devices.others());
    match devices.filter().map(GroupFilter::of_kernel) {
        None => Classic::keep(snaplen).for_devices(&others, None, is_once),
        Some(None) => Classic::keep(SNAPLEN_WHOLE).for_devices(&others, None, is_once),
        Some(Some((filter, types))) => filter.for_devices(&others, Some(types), is_once),
    }
}

/// Queues by which frames are distinguished, where there is more than one.
/// The socket's filter could ask for the number (`SKF_AD_QUEUE`, and fanout by it); but drivers of
/// cards put the receive queue and 1 there, and veth leaves the queue by which the other end sent.
pub(crate) fn queues_untold(link: &Link, options: &Options) -> Option<u32> {
    (options.per_queue && link.rx_queues > 1).then_some(link.rx_queues)
}

/// A filter that asks for the direction decides about frames of both.
fn direction(options: &Options, filter_asks: bool) -> CaptureDirection {
    match options.direction {
        CaptureDirection::In if filter_asks => CaptureDirection::Both,
        direction => direction,
    }
}

fn with_direction(filter: &Classic, direction: CaptureDirection) -> Vec<Instruction> {
    let outgoing = block::OUTGOING.into();
    match direction {
        CaptureDirection::In => filter.for_socket_with_type(outgoing, false),
        CaptureDirection::Out => filter.for_socket_with_type(outgoing, true),
        CaptureDirection::Both => filter.instructions().to_vec(),
    }
}

/// One ring for each CPU that is online.
fn ring_count() -> Result<u32, CaptureError> {
    Ok(cpus::online_end(bpf::capture::possible_cpus()?))
}

/// Blocks of `size_bytes` together, or more: the ring holds at least four of them.
fn shape(size_bytes: u64, snaplen: u32) -> PacketRingShape {
    let block_size_bytes = block_size_bytes(snaplen);
    let block_count = (size_bytes / u64::from(block_size_bytes)).max(BLOCK_COUNT_MIN);
    PacketRingShape {
        block_size_bytes,
        block_count: u32::try_from(block_count).unwrap_or(u32::MAX),
        retire_ms: RETIRE_MS,
    }
}

fn block_size_bytes(snaplen: u32) -> u32 {
    if snaplen <= SNAPLEN_SHORT_MAX { BLOCK_SIZE_BYTES_SHORT } else { BLOCK_SIZE_BYTES_MAX }
}

/// Frames of which `kept_len` bytes are kept, in one ring; at least one in each block, which the
/// kernel cuts to the block.
fn frames_of(shape: PacketRingShape, kept_len: u32) -> u64 {
    let len = u64::from(kept_len) + FRAME_OVERHEAD;
    let of_block = ((u64::from(shape.block_size_bytes) - BLOCK_HEAD) / len).max(1);
    of_block * u64::from(shape.block_count)
}

/// The sockets of one device, which share its frames.
struct Group {
    kind: u32,
    number: Option<u16>,
}

impl Group {
    fn new(fanout: Fanout, direction: CaptureDirection) -> Self {
        let kind = match fanout {
            Fanout::Cpu => libc::PACKET_FANOUT_CPU,
            Fanout::Hash => libc::PACKET_FANOUT_HASH,
        };
        let outgoing = match direction {
            CaptureDirection::In => libc::PACKET_FANOUT_FLAG_IGNORE_OUTGOING,
            CaptureDirection::Out | CaptureDirection::Both => 0,
        };
        Self { kind: kind | outgoing, number: None }
    }

    fn join(&mut self, socket: &CaptureSocket) -> io::Result<()> {
        match self.number {
            Some(number) => socket.join(number, self.kind),
            None => {
                self.found(socket).or_else(|error| match error.raw_os_error() {
                    // Before Linux 5.11 groups cannot ignore what the host sends, so the filter has
                    // to.
                    Some(libc::EINVAL) => {
                        self.kind &= !libc::PACKET_FANOUT_FLAG_IGNORE_OUTGOING;
                        self.found(socket)
                    }
                    _ => Err(error),
                })
            }
        }
    }

    /// Begins a group under a number that the kernel chooses.
    fn found(&mut self, socket: &CaptureSocket) -> io::Result<()> {
        socket.join(0, self.kind | libc::PACKET_FANOUT_FLAG_UNIQUEID)?;
        self.number = Some(socket.group()?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_have_the_size_that_was_asked_for_in_whole_blocks() {
        for (snaplen, size_bytes, blocks, frames) in [
            (96, 8 << 20, 128, 43_648),
            (SNAPLEN_WHOLE, 8 << 20, 32, 5_152),
            (96, 1 << 16, 4, 1_364),
            (65_535, 100 << 20, 400, 1_200),
        ] {
            let shape = shape(size_bytes, snaplen);
            let options = Options { snaplen, ..Options::new("eth0") };
            assert_eq!(shape.block_count, blocks, "snaplen {snaplen}, {size_bytes} bytes");
            assert_eq!(frames_of(shape, options.kept_len(1500)), frames, "snaplen {snaplen}");
        }
    }

    /// mgdump on loopback lost 7 of 32,210 frames at less than 2,000 a second: 25 blocks were a
    /// quarter of a second.
    #[test]
    fn a_slow_line_does_not_fill_a_ring_whose_reader_is_late_by_nearly_a_second() {
        let shape = shape(8 << 20, 96);
        assert!(shape.block_count * shape.retire_ms >= 900, "{} blocks", shape.block_count);
    }

    #[test]
    fn the_source_is_told_in_one_line() {
        let facts =
            TpacketFacts { rings: 1, fanout: Fanout::Cpu, direction: CaptureDirection::In, why: None };
        assert_eq!(facts.to_string(), "TPACKET_V3");
        let why = Some("lo is the loopback device".to_owned());
        let facts = TpacketFacts { rings: 2, direction: CaptureDirection::Both, why, ..facts };
        let text = "TPACKET_V3, 2 rings by CPU, direction both; not XDP: lo is the loopback device";
        assert_eq!(facts.to_string(), text);
    }
}
