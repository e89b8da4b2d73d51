//! The XDP backend: a program on the device, and a ring and counters per CPU.

use crate::backend::hwtstamp::Hardware;
use crate::backend::tpacket::queues_untold;
use crate::backend::{Backend, RingCounts, SourceFacts, counts_of_rings};
use crate::backend::{filter, quiesce};
use crate::error::first_line;
use crate::memory::{MemoryBound, RingSize};
use crate::reader::AttachedRing;
use crate::record::batch::{EncodedBatch, IndexEntry};
use crate::record::consumer::{Found, Probe, RingConsumer, STAMP_DELAY_NS};
use crate::record::encode::Encoder;
use crate::record::ring::{FinishedBlock, RingRecord};
use crate::sys::shared_ring::{self, RingReader, RingWatch};
use crate::{CaptureError, ClockMode, Mode, Options, SourceKind, cpus};
use bpf::capture::{CaptureProgram, Metadata, RecordFormat};
use bpf::xdp::{XdpLink, XdpModeChoice};
use host::Link;

/// The XDP program on a device, with a ring and counters per CPU.
pub(crate) struct XdpBackend {
    program: CaptureProgram,
    ifindex: u32,
    ifname: String,
    mode_wish: XdpModeChoice,
    mode: Mode,
    stamps: XdpStamps,
    /// `None` before the program is on the device and once it is off again.
    link: Option<XdpLink>,
    facts: Option<SourceFacts>,
    ring_size: RingSize,
}

impl XdpBackend {
    /// Loads the program.
    ///
    /// # Errors
    /// [`CaptureError::BadOption`]; [`CaptureError::NoStampsByXdp`] where that is worse than no
    /// XDP; [`CaptureError::Bpf`] when the program cannot be loaded or the device has one.
    pub(crate) fn open(
        link: &Link,
        options: &Options,
        hardware: &Hardware,
        format: RecordFormat,
    ) -> Result<Self, CaptureError> {
        let possible = bpf::capture::possible_cpus()?;
        let bound = MemoryBound::of_this_process();
        let (geometry, ring_size) = options.geometry(
            options.kept_len(link.mtu),
            (cpus::online_end(possible), possible),
            format,
            bound,
        )?;
        let translated =
            |expression| filter::translated(expression, link, options.snaplen, &options.interrupted);
        let filter = options.filter.as_deref().map(translated).transpose()?;
        let ask = hardware.ask(link.index);
        let program = CaptureProgram::load_with_metadata(geometry, filter.as_deref(), ask)?;
        if options.replace_ours {
            bpf::xdp::remove_ours(link.index, &link.name)?;
        }
        bpf::xdp::refuse_if_busy(link.index, &link.name)?;
        let mut stamps = XdpStamps::new(link, options, hardware);
        stamps.asked(&link.name, ask, program.metadata_refusal())?;
        Ok(Self {
            program,
            ifindex: link.index,
            ifname: link.name.clone(),
            mode_wish: options.xdp,
            mode: options.mode,
            stamps,
            link: None,
            facts: None,
            ring_size,
        })
    }
}

impl Backend for XdpBackend {
    fn attach(&mut self, utc_offset_ns: i64) -> Result<Vec<AttachedRing>, CaptureError> {
        shared_ring::set_mode(self.program.memory(), self.mode.number());
        shared_ring::set_utc_offset(self.program.memory(), utc_offset_ns);
        let link = self.program.attach(self.ifindex, &self.ifname, self.mode_wish)?;
        self.stamps.attached(&self.ifname, link.uses_metadata())?;
        self.facts = Some(SourceFacts::Xdp((&link).into()));
        self.link = Some(link);
        let readers = RingReader::all(self.program.memory()).into_iter();
        let is_stamped = self.stamps.are_there();
        let has_blocks = self.program.memory().geometry().format != RecordFormat::Records;
        let ring = |reader: RingReader| AttachedRing {
            cpu: Some(reader.cpu()),
            knows_queues: true,
            source: Box::new(XdpConsumer::new(reader, is_stamped, has_blocks)),
        };
        Ok(readers.map(ring).collect())
    }

    fn facts(&self) -> SourceFacts {
        self.facts.clone().expect("asked after attach")
    }

    fn ring_size(&self) -> RingSize {
        self.ring_size
    }

    fn stamps_refusal(&self) -> Option<String> {
        self.stamps.refusal.clone()
    }

    fn set_mode(&self, mode: Mode) -> Result<(), CaptureError> {
        shared_ring::set_mode(self.program.memory(), mode.number());
        Ok(())
    }

    fn is_gone(&self) -> bool {
        self.link.as_ref().is_some_and(|link| !link.is_attached())
    }

    fn counts(&self) -> Vec<RingCounts> {
        counts_of_rings(self.program.memory(), |_| 0)
    }

    fn detach(&mut self) {
        if let Some(link) = self.link.take() {
            drop(link);
            quiesce::wait_for_last_frames(|| self.counts().iter().map(|ring| ring.received).sum());
        }
    }
}

/// Whether programs get the time stamps of a device that has some.
#[derive(Debug, Default)]
struct XdpStamps {
    /// True for a device that has some.
    are_wanted: bool,
    /// True when there is no XDP without them.
    are_needed: bool,
    refusal: Option<String>,
}

impl XdpStamps {
    fn new(link: &Link, options: &Options, hardware: &Hardware) -> Self {
        // Packet sockets get them; but only XDP can drop and tell queues, and who asks for XDP by
        // name gets it.
        let has_other_way = options.source == SourceKind::Best
            && options.mode == Mode::Mirror
            && queues_untold(link, options).is_none();
        Self {
            are_wanted: hardware.clock.is_some(),
            are_needed: options.clock == ClockMode::Phc || (has_other_way && hardware.is_worth_leaving_xdp()),
            refusal: None,
        }
    }

    /// What the driver is asked, and what the verifier said to that.
    fn asked(
        &mut self,
        ifname: &str,
        ask: Option<Metadata>,
        refusal: Option<&str>,
    ) -> Result<(), CaptureError> {
        match refusal {
            _ if !ask.is_some_and(|ask| ask.time) => {
                self.refuse(ifname, "the driver has none for programs".to_owned())
            }
            Some(refusal) => self.refuse(ifname, first_line(refusal)),
            None => Ok(()),
        }
    }

    /// The program that asks the driver is on the device, or the plain one.
    fn attached(&mut self, ifname: &str, asks: bool) -> Result<(), CaptureError> {
        match &self.refusal {
            None if !asks => {
                self.refuse(ifname, "the program that asks the driver could not be attached".to_owned())
            }
            _ => Ok(()),
        }
    }

    fn are_there(&self) -> bool {
        self.are_wanted && self.refusal.is_none()
    }

    fn refuse(&mut self, ifname: &str, why: String) -> Result<(), CaptureError> {
        if !self.are_wanted {
            return Ok(());
        }
        let error = CaptureError::NoStampsByXdp { ifname: ifname.to_owned(), why };
        if self.are_needed {
            return Err(error);
        }
        self.refusal = Some(error.to_string());
        Ok(())
    }
}

/// The ring of one CPU.
struct XdpConsumer {
    reader: RingReader,
    /// Whether times may be the device's.
    is_stamped: bool,
    /// Whether the program writes blocks.
    has_blocks: bool,
    /// Number of the ring in the session.
    ring: u16,
    /// Bytes of the records in view.
    in_view: usize,
    /// The index of the records in view, if all of them are blocks; else nothing of use. It has no
    /// bytes.
    blocks: EncodedBatch,
    are_blocks: bool,
    found: Found,
}

impl XdpConsumer {
    fn new(reader: RingReader, is_stamped: bool, has_blocks: bool) -> Self {
        Self {
            reader,
            is_stamped,
            has_blocks,
            ring: 0,
            in_view: 0,
            blocks: EncodedBatch::default(),
            are_blocks: false,
            found: Found::default(),
        }
    }

    fn entry(&self, block: &FinishedBlock<'_>) -> IndexEntry {
        let len = block.bytes.len();
        IndexEntry::new(block.time_ns, len, self.ring, block.interface, false).with_cut(block.is_cut)
    }
}

impl RingConsumer for XdpConsumer {
    fn begin(&mut self, ring: u16) {
        self.ring = ring;
    }

    fn peek(&mut self, len_max: usize) -> u64 {
        let pending = self.reader.pending();
        let batch = self.reader.filled();
        self.are_blocks = self.has_blocks;
        let (count, len) = match self.has_blocks {
            false => batch.measure(len_max),
            // The index is made when the heads of records come into the cache of this CPU.
            true => {
                let (mut blocks, mut are_blocks) = (std::mem::take(&mut self.blocks), true);
                blocks.clear();
                let measured = batch.measure_each(len_max, |raw| match raw.block() {
                    Some(block) => blocks.push(self.entry(&block)),
                    None => are_blocks = false,
                });
                (self.blocks, self.are_blocks) = (blocks, are_blocks);
                measured
            }
        };
        self.in_view = len;
        self.found = Found::of_bytes(pending, len as u64, self.reader.shape().size_bytes());
        count
    }

    fn found(&self) -> Found {
        self.found
    }

    #[inline]
    fn for_each(&self, count: u64, mut take: impl FnMut(RingRecord<'_>)) {
        self.reader.filled().for_each(count, |_, raw| take(raw.record()));
    }

    fn encode(
        &mut self,
        count: u64,
        encoder: &mut Encoder,
        (utc_offset_ns, mut lost_here): (i64, u32),
        out: &mut EncodedBatch,
    ) {
        let batch = self.reader.filled();
        let bytes = batch.bytes();
        if self.are_blocks && lost_here == 0 && count == self.blocks.index.len() as u64 {
            out.bytes.extend_from_slice(&bytes[..self.in_view]);
            return out.take_index(&mut self.blocks);
        }
        // Finished blocks that lie back to back are copied at once.
        let mut run = 0..0;
        batch.for_each(count, |at, raw| match raw.block() {
            Some(block) if lost_here == 0 => {
                out.push(self.entry(&block));
                run = if run.is_empty() { at } else { run.start }..at + block.bytes.len();
            }
            _ => {
                out.bytes.extend_from_slice(&bytes[std::mem::take(&mut run)]);
                let record = raw.record();
                let lost_before = record.lost_before.saturating_add(std::mem::take(&mut lost_here));
                encoder.emit(&RingRecord { lost_before, ..record }, utc_offset_ns, out);
            }
        });
        out.bytes.extend_from_slice(&bytes[run]);
    }

    fn release(&mut self) {
        self.reader.give_back(std::mem::take(&mut self.in_view) as u64);
    }

    fn set_utc_offset(&self, offset_ns: i64) {
        self.reader.set_utc_offset(offset_ns);
    }

    fn delay_ns(&self) -> u64 {
        if self.is_stamped { STAMP_DELAY_NS } else { 0 }
    }

    fn is_filling(&self) -> bool {
        let size_bytes = self.reader.shape().size_bytes();
        self.reader.pending() >= size_bytes - size_bytes / 4
    }

    fn probe(&self) -> Option<Box<dyn Probe>> {
        Some(Box::new(self.reader.watch()))
    }
}

impl Probe for RingWatch {
    fn filled(&self) -> u64 {
        self.captured()
    }

    fn used(&self) -> f64 {
        RingWatch::used(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamps(are_needed: bool) -> XdpStamps {
        XdpStamps { are_wanted: true, are_needed, refusal: None }
    }

    /// The kernel's times were written without a word.
    #[test]
    fn stamps_that_the_driver_does_not_hand_over_are_said_or_refused() {
        let ask = |time| Some(Metadata { ifindex: 3, time, vlan: true });
        for (ask, refusal, asks, why) in [
            (None, None, false, "the driver has none for programs"),
            (ask(false), None, true, "the driver has none for programs"),
            (ask(true), Some("unknown kfunc\nand more"), false, "unknown kfunc"),
            (ask(true), None, false, "the program that asks the driver could not be attached"),
        ] {
            let try_them = |stamps: &mut XdpStamps| {
                stamps.asked("eth1", ask, refusal)?;
                stamps.attached("eth1", asks)
            };
            let words = format!("XDP does not get the time stamps of eth1: {why}");
            let mut refused = stamps(true);
            assert_eq!(try_them(&mut refused).unwrap_err().to_string(), words);
            let mut said = stamps(false);
            try_them(&mut said).unwrap();
            assert_eq!((said.refusal.as_deref(), said.are_there()), (Some(words.as_str()), false));
            let mut unasked = XdpStamps::default();
            try_them(&mut unasked).unwrap();
            assert_eq!(unasked.refusal, None, "there are none");
        }
        let mut given = stamps(true);
        given.asked("eth1", ask(true), None).unwrap();
        given.attached("eth1", true).unwrap();
        assert!(given.are_there());
    }
}
