//! `--verify DEV`: receives at the other end and compares what arrives with what was sent.
//!
//! A capture in drop mode writes whole frames into a pipe; a thread reads them and gives their
//! digests to the [`Comparison`], which the source of the frames fills. The bytes of the last
//! frames are kept, to name the fields of the first frame that differs.

use capture::{ClockMode, Mode, Options, Output, SNAPLEN_WHOLE, Session};
use clap::ValueEnum;
use facts::Described;
use host::{DevicePlace, Netns};
use pcapng::Block;
use program::outcome::{Failure, Refused};
use program::stop::{BlockedSignals, Stop};
use receiver::Drain;
use replay::{Comparison, ComparisonResult, IgnoredFields, difference};
use serde::Serialize;
use std::borrow::Cow;
use std::io::{BufReader, PipeReader, pipe};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use units::Table;

/// The counters of the receiver have no event, so they are read at this interval.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// All frames that are still missing this long after the last one arrived are lost.
const SETTLE: Duration = Duration::from_millis(300);
/// Bytes that are read from the pipe at once.
const PIPE_READ_LEN: usize = 1 << 20;

/// Sent frames whose bytes are kept.
const FRAMES_KEPT: usize = 1024;

/// A field that does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum IgnoredField {
    /// Time to live and hop limit
    Ttl,
    /// MAC addresses
    Mac,
    /// Checksums of headers
    Checksum,
}

/// The fields of `--ignore`.
pub fn ignored_fields(fields: &[IgnoredField]) -> IgnoredFields {
    IgnoredFields {
        ttl: fields.contains(&IgnoredField::Ttl),
        mac: fields.contains(&IgnoredField::Mac),
        checksum: fields.contains(&IgnoredField::Checksum),
    }
}

/// The comparison, which the source of frames and the receiver share.
#[derive(Clone, Debug)]
pub struct SharedComparison {
    compared: Arc<Mutex<Compared>>,
    queues: u16,
    ignored: IgnoredFields,
}

#[derive(Debug)]
struct Compared {
    comparison: Comparison,
    /// The last sent frames, each at its number modulo [`FRAMES_KEPT`].
    kept: Vec<(u64, Vec<u8>)>,
    /// The fields of the first frame that arrived changed, with its number from 1 on.
    difference: Option<String>,
}

impl SharedComparison {
    fn new(queues: u16, ignored: IgnoredFields) -> Self {
        let comparison = Comparison::new(queues);
        let compared = Compared { comparison, kept: vec![(0, Vec::new()); FRAMES_KEPT], difference: None };
        Self { compared: Arc::new(Mutex::new(compared)), queues, ignored }
    }

    /// A frame will be sent.
    pub fn expect(&self, frame: &[u8]) {
        let frame = self.compared_bytes(frame);
        let digest = Comparison::digest_of(&frame, self.queues);
        let mut compared = self.lock();
        let number = compared.comparison.expect(digest);
        let kept = &mut compared.kept[number as usize % FRAMES_KEPT];
        kept.0 = number;
        kept.1.clear();
        kept.1.extend_from_slice(&frame);
    }

    fn receive(&self, frame: &[u8]) {
        let frame = self.compared_bytes(frame);
        let digest = Comparison::digest_of(&frame, self.queues);
        let mut compared = self.lock();
        let next = compared.comparison.receive(digest);
        if let Some(number) = next.filter(|_| compared.difference.is_none()) {
            let (kept, sent) = &compared.kept[number as usize % FRAMES_KEPT];
            // Frames of other hosts have other lengths, as a rule.
            if *kept == number && sent.len() == frame.len() {
                let fields = difference(sent, &frame);
                compared.difference = fields.map(|fields| format!("frame {}: {fields}", number + 1));
            }
        }
    }

    /// The bytes of a frame that count.
    fn compared_bytes<'a>(&self, frame: &'a [u8]) -> Cow<'a, [u8]> {
        if self.ignored.is_none() {
            return Cow::Borrowed(frame);
        }
        let mut bytes = frame.to_vec();
        self.ignored.clear(&mut bytes);
        Cow::Owned(bytes)
    }

    fn lock(&self) -> MutexGuard<'_, Compared> {
        self.compared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The receiving end.
pub struct Verifier {
    device: String,
    netns: Option<String>,
    session: Session,
    reader: JoinHandle<()>,
    shared: SharedComparison,
}

/// What arrived, compared with what was sent.
#[derive(Clone, Debug, Serialize, Described)]
pub struct VerifyReport {
    /// The receiving device.
    pub device: String,
    /// Its network namespace; `null` if none was named.
    pub netns: Option<String>,
    /// The comparison.
    #[serde(flatten)]
    pub counts: ComparisonResult,
    /// Missing or changed frames that the capture itself may have lost because it was too slow.
    #[fact(unit = "frames")]
    pub lost_by_receiver: u64,
    /// The fields of the first frame that arrived changed; `null` without one, or if its bytes were
    /// not there any more.
    pub difference: Option<String>,
}

impl VerifyReport {
    /// Adds the rows of the report.
    pub fn add_rows(&self, table: &mut Table) {
        let counts = &self.counts;
        let place = match &self.netns {
            Some(netns) => format!("{} in {netns}", self.device),
            None => self.device.clone(),
        };
        table.count("arrived", counts.received, &format!("frames at {place}, compared with those sent"));
        table.count("  identical", counts.identical, "");
        for (name, count, meaning) in [
            ("  changed", counts.changed, "have other bytes"),
            ("  duplicate", counts.duplicate, "arrived again"),
            ("  unexpected", counts.unexpected, "were not sent"),
            ("missing", counts.missing, "did not arrive"),
            ("reordered", counts.reordered, "identical frames that arrived behind a later frame"),
        ] {
            if count > 0 {
                table.count(name, count, meaning);
            }
        }
        if let Some(first) = counts.first_difference {
            table.text("differs", &format!("from frame {first} on"));
        }
        if let Some(difference) = &self.difference {
            table.text("changed", difference);
        }
        if self.lost_by_receiver > 0 {
            let meaning = "of the missing ones, because it was too slow: try a lower rate";
            table.count("receiver lost", self.lost_by_receiver, meaning);
        }
    }
}

impl Verifier {
    /// Receives on a device from now on. Frames leave by `queues` queues; `ignored` fields do not
    /// count.
    ///
    /// # Errors
    /// Refused by the host or the device.
    pub fn start(
        place: DevicePlace,
        queues: u16,
        ignored: IgnoredFields,
        stop: &Stop,
    ) -> Result<Self, Failure> {
        let DevicePlace { device, netns } = place;
        let act = || format!("receive on {device}");
        let (from, to) = pipe().refused(act())?;
        let namespace =
            netns.as_deref().map(Netns::named).transpose().map_err(|why| Failure::host(act(), why))?;
        let options = Options {
            netns: namespace,
            mode: Mode::Drop,
            promiscuous: true,
            clock: ClockMode::System,
            snaplen: SNAPLEN_WHOLE,
            output: Output::Stream { name: "the comparison".to_owned(), to: Box::new(to) },
            interrupted: stop.flag(),
            ..Options::new(&device)
        };
        // Signals go to the thread that sends.
        let _blocked = BlockedSignals::begin();
        let session = Session::start(options).map_err(|why| Failure::capture_with(act(), why, false))?;
        let shared = SharedComparison::new(queues, ignored);
        let compared = shared.clone();
        let reader = thread::Builder::new().name("replay-verify".to_owned());
        let reader = reader.spawn(move || compare(from, &compared)).refused(act())?;
        Ok(Self { device, netns, session, reader, shared })
    }

    /// For the source of the frames.
    pub fn comparison(&self) -> SharedComparison {
        self.shared.clone()
    }

    /// Waits for the last frames and compares. `offered` has the frames that each queue offered to
    /// the driver, of which `sent` were accepted.
    pub fn finish(self, offered: &[u64], sent: u64) -> VerifyReport {
        let (started, mut drain) = (Instant::now(), Drain::new(sent, sent, SETTLE));
        let identical = || self.shared.lock().comparison.identical();
        while !drain.is_over(self.session.stats().total().received, identical, started.elapsed()) {
            thread::sleep(POLL_INTERVAL);
        }
        // The end of the capture closes the pipe.
        let stats = self.session.stop().stats;
        self.reader.join().expect("the comparison does not panic");
        let (comparison, difference) = {
            let mut compared = self.shared.lock();
            let comparison = std::mem::replace(&mut compared.comparison, Comparison::new(1));
            (comparison, compared.difference.take())
        };
        let lost = stats.total().lost() + stats.lost_nic().unwrap_or(0);
        let counts = comparison.finish(offered);
        let lost_by_receiver = lost.min(counts.missing + counts.changed);
        let difference = difference.filter(|_| !counts.is_good());
        VerifyReport { device: self.device, netns: self.netns, counts, lost_by_receiver, difference }
    }
}

/// Reads frames until the capture ends.
fn compare(pipe: PipeReader, shared: &SharedComparison) {
    let mut reader = pcapng::Reader::new(BufReader::with_capacity(PIPE_READ_LEN, pipe));
    // The capture writes whole blocks, and an error of the pipe is its end.
    while let Ok(Some(block)) = reader.next_block() {
        if let Block::Packet(packet) = block {
            shared.receive(packet.data);
        }
    }
}
