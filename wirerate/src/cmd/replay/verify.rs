//! `--verify DEV`: receives at the other end and compares what arrives with what was sent.
//!
//! A capture in drop mode writes whole frames into a pipe; a thread reads them and gives their
//! digests to the [`Comparison`], which the source of the frames fills.

use crate::cmd::measure::Drain;
use crate::outcome::{Failure, Refused};
use crate::stop::{BlockedSignals, Stop};
use crate::units::Table;
use capture::{ClockMode, Mode, Options, Output, SNAPLEN_WHOLE, Session};
use host::{DevicePlace, Netns};
use pcapng::Block;
use replay::{Comparison, ComparisonResult};
use serde::Serialize;
use std::io::{BufReader, PipeReader, pipe};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The counters of the receiver have no event, so they are read at this interval.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// All frames that are still missing this long after the last one arrived are lost.
const SETTLE: Duration = Duration::from_millis(300);
/// Bytes that are read from the pipe at once.
const PIPE_READ_LEN: usize = 1 << 20;

/// The comparison, which the source of frames and the receiver share.
#[derive(Clone, Debug)]
pub struct SharedComparison {
    comparison: Arc<Mutex<Comparison>>,
    queues: u16,
}

impl SharedComparison {
    fn new(queues: u16) -> Self {
        Self { comparison: Arc::new(Mutex::new(Comparison::new(queues))), queues }
    }

    /// A frame will be sent.
    pub fn expect(&self, frame: &[u8]) {
        let digest = Comparison::digest_of(frame, self.queues);
        self.lock().expect(digest);
    }

    fn receive(&self, frame: &[u8]) {
        let digest = Comparison::digest_of(frame, self.queues);
        self.lock().receive(digest);
    }

    fn lock(&self) -> MutexGuard<'_, Comparison> {
        self.comparison.lock().unwrap_or_else(PoisonError::into_inner)
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
#[derive(Clone, Debug, Serialize)]
pub struct VerifyReport {
    /// The receiving device.
    pub device: String,
    /// Its namespace, where one was named.
    pub netns: Option<String>,
    /// The comparison.
    #[serde(flatten)]
    pub counts: ComparisonResult,
    /// Missing frames that the receiver itself lost because it was too slow.
    pub lost_by_receiver: u64,
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
        if self.lost_by_receiver > 0 {
            let meaning = "of the missing ones, because it was too slow: try a lower rate";
            table.count("receiver lost", self.lost_by_receiver, meaning);
        }
    }
}

impl Verifier {
    /// Receives on a device from now on. Frames leave by `queues` queues.
    ///
    /// # Errors
    /// Refused by the host or the device.
    pub fn start(place: DevicePlace, queues: u16, stop: &Stop) -> Result<Self, Failure> {
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
        let session = Session::start(options).map_err(|why| match why.busy_advice(false) {
            Some(busy) => Failure::refused(act(), why).try_this(busy),
            None => Failure::capture(act(), why),
        })?;
        let shared = SharedComparison::new(queues);
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
        let identical = || self.shared.lock().identical();
        while !drain.is_over(self.session.stats().total().received, identical, started.elapsed()) {
            thread::sleep(POLL_INTERVAL);
        }
        // The end of the capture closes the pipe.
        let stats = self.session.stop().stats;
        self.reader.join().expect("the comparison does not panic");
        let comparison = std::mem::replace(&mut *self.shared.lock(), Comparison::new(1));
        let lost = stats.total().lost() + stats.lost_nic().unwrap_or(0);
        let counts = comparison.finish(offered);
        let lost_by_receiver = lost.min(counts.missing + counts.changed);
        VerifyReport { device: self.device, netns: self.netns, counts, lost_by_receiver }
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
