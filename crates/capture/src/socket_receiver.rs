//! The receiver on a packet socket, where XDP cannot be had: one ring, one thread, and the rules of
//! `measure::Meter`, which are those of the XDP program.
//!
//! One ring keeps the order of arrival. The host receives every frame as well. Times are those of
//! the kernel's receive path, behind the driver, unless the device stamps frames.

use crate::CaptureError;
use crate::backend::tpacket::{PacketOptions, Place, TpacketBackend};
use crate::backend::{Backend, SourceFacts};
use crate::reader::DynRingConsumer;
use crate::receive_clock::Stamps;
use crate::record::ring::{RingRecord, TimeSource, VlanTag};
use crate::time::phc::{ClockLine, PhcClock};
use crate::time::utc::monotonic_now_ns;
use host::{ClockOffset, Link};
use measure::{Arrival, Meter, MeterOptions};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The kernel fills a block for up to 10 ms, and a look costs a wake-up.
const LOOK_INTERVAL: Duration = Duration::from_millis(2);
/// Bytes of frames in a look; the ring has more only after a pause of this thread.
const LOOK_BYTES: usize = 1 << 20;
/// Bytes of the MAC addresses: a tag that the kernel took off stands behind them.
const TAG_AT: usize = 12;

/// The counts, shared with the thread that makes them.
#[derive(Clone, Debug)]
pub(crate) struct SharedMeter(Arc<Mutex<Meter>>);

impl SharedMeter {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Meter> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A receiver on a packet socket, with a thread of its own. Dropping it ends the thread.
pub(crate) struct SocketReceiver {
    backend: TpacketBackend,
    meter: SharedMeter,
    ends: Arc<AtomicBool>,
    reader: Option<JoinHandle<()>>,
}

impl fmt::Debug for SocketReceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SocketReceiver").field("meter", &self.meter).finish_non_exhaustive()
    }
}

impl SocketReceiver {
    /// Starts to count the frames of a device of the calling thread's namespace. `why` is the
    /// reason why it is not XDP.
    ///
    /// # Errors
    /// [`CaptureError::PacketSocket`].
    pub(crate) fn start(
        link: &Link,
        options: MeterOptions,
        clock: ClockOffset,
        stamps: &Stamps,
        why: Option<String>,
    ) -> Result<Self, CaptureError> {
        let phc = stamps.clock().cloned();
        let packet_options = PacketOptions::of_one_ring(link, phc.is_some());
        let mut backend = TpacketBackend::open(Place::of(link), packet_options, why)?;
        let ring = backend.attach(0)?.pop().expect("there is one ring").source;
        let (meter, ends) = (SharedMeter(Arc::new(Mutex::new(Meter::new(options)))), Arc::default());
        let reader =
            SocketReader { meter: meter.clone(), ends: Arc::clone(&ends), offset_ns: clock.offset_ns, phc };
        let thread = thread::Builder::new().name("receive-socket".to_owned());
        let reader = thread.spawn(move || reader.run(ring)).map_err(|source| {
            let ifname = link.name.clone();
            CaptureError::PacketSocket { ifname, act: "start the reader of", source }
        })?;
        Ok(Self { backend, meter, ends, reader: Some(reader) })
    }

    /// How frames are taken.
    pub(crate) fn facts(&self) -> SourceFacts {
        self.backend.facts()
    }

    /// The counts.
    pub(crate) fn meter(&self) -> &SharedMeter {
        &self.meter
    }

    /// What the kernel said to the request for the stamps of the device.
    pub(crate) fn stamps_refusal(&self) -> Option<String> {
        self.backend.stamps_refusal()
    }

    /// Frames that found the ring full.
    pub(crate) fn lost(&self) -> u64 {
        self.backend.counts().iter().map(|ring| ring.lost_ring).sum()
    }

    /// True when the device was deleted, or left its namespace.
    pub(crate) fn is_gone(&self) -> bool {
        self.backend.is_gone()
    }

    /// Takes no more frames, and counts those in the ring.
    pub(crate) fn end(&mut self) {
        self.backend.detach();
        self.ends.store(true, Ordering::Release);
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    }
}

impl Drop for SocketReceiver {
    fn drop(&mut self) {
        if self.reader.is_some() && !thread::panicking() {
            self.end();
        }
    }
}

/// The thread that empties the ring.
struct SocketReader {
    meter: SharedMeter,
    ends: Arc<AtomicBool>,
    /// Wall clock minus monotonic clock.
    offset_ns: i64,
    /// The clock of the device, if it stamps frames.
    phc: Option<Arc<PhcClock>>,
}

impl SocketReader {
    fn run(self, mut ring: Box<dyn DynRingConsumer>) {
        loop {
            let ends = self.ends.load(Ordering::Acquire);
            let mut taken = 0;
            let line = self.phc.as_ref().map(|phc| phc.line(monotonic_now_ns())).unwrap_or_default();
            {
                let mut meter = self.meter.lock();
                ring.take(LOOK_BYTES, &mut |record| {
                    taken += 1;
                    self.count(&mut meter, &record, &line);
                });
            }
            match taken {
                0 if ends => return,
                0 => thread::sleep(LOOK_INTERVAL),
                _ => {}
            }
        }
    }

    fn count(&self, meter: &mut Meter, record: &RingRecord<'_>, line: &ClockLine) {
        let is_hardware = record.time_source == TimeSource::Hardware;
        let utc_ns = if is_hardware { line.utc_ns(record.time_ns) } else { record.time_ns };
        let arrival = Arrival {
            time_ns: utc_ns.wrapping_add_signed(self.offset_ns.wrapping_neg()),
            wall_offset_ns: self.offset_ns.cast_unsigned(),
            is_hardware,
            ..Arrival::default()
        };
        match record.vlan {
            None => meter.receive(record.data, arrival),
            Some(tag) => meter.receive(&with_tag(record.data, tag), arrival),
        };
    }
}

/// The frame as it was on the wire.
fn with_tag(data: &[u8], tag: VlanTag) -> Vec<u8> {
    let (addresses, rest) = data.split_at(TAG_AT.min(data.len()));
    [addresses, &tag.tpid.to_be_bytes(), &tag.tci.to_be_bytes(), rest].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_stands_behind_the_addresses_again() {
        let data: Vec<u8> = (0..20).collect();
        let frame = with_tag(&data, VlanTag { tpid: 0x8100, tci: 0x0005 });
        assert_eq!(frame[10..18], [10, 11, 0x81, 0, 0, 5, 12, 13]);
        assert_eq!(frame.len(), 24);
        assert_eq!(with_tag(&data[..3], VlanTag { tpid: 0x8100, tci: 5 }).len(), 7);
    }
}
