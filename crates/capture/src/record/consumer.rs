//! A ring as the thread that empties it sees it.
//!
//! A [`RingConsumer`] lends batches of [`RingRecord`]s, which its reader thread (`reader`) encodes.
//! The code behind it is compiled per kind of ring, so there is no virtual call per frame.

use crate::record::batch::EncodedBatch;
use crate::record::encode::Encoder;
use crate::record::pool::BUFFER_LEN;
use crate::record::ring::RingRecord;
use std::cmp::Ordering::{self, Equal, Greater, Less};
use std::time::Duration;

/// Longest sleep over a ring.
const SLEEP_MAX: Duration = Duration::from_millis(1);
/// A ring of this size holds what comes in 4 ms: long frames come with 2 GB/s at most where one CPU
/// sends and receives them, and the records of 60-byte frames at 10 Gbit/s take 1.7 GB/s.
const LARGE_RING: u64 = 8 << 20;
const LARGE_RING_SLEEP_MAX: Duration = Duration::from_millis(3);
/// What should come into a large ring during a sleep, at most.
const LARGE_RING_MUCH: u64 = 6 * BUFFER_LEN as u64;
/// From the stamp of a device until the frame is in a ring, at most: the device collects frames
/// before it interrupts.
pub(crate) const STAMP_DELAY_NS: u64 = 1_000_000;

/// One ring and its only reader.
///
/// The order of calls is `peek`, `for_each` (as often as wanted), `release`, and again.
pub(crate) trait RingConsumer: Send + 'static {
    /// Called once, before the first `peek`: the number of the ring in the session.
    fn begin(&mut self, _: u16) {}

    /// Takes the oldest records into view, as many as encode to about `len_max` bytes, and says how
    /// many that are. Does not wait: 0 says that the ring is empty now.
    fn peek(&mut self, len_max: usize) -> u64;

    /// What the last `peek` found, for the one who decides when the next one comes.
    fn found(&self) -> Found;

    /// Shows the first `count` records in view, oldest first.
    fn for_each(&self, count: u64, take: impl FnMut(RingRecord<'_>));

    /// Appends the first `count` records in view to `out`, as blocks or records of the file. The
    /// first one tells of `lost_here` frames that were lost before it by the reader.
    fn encode(
        &mut self,
        count: u64,
        encoder: &mut Encoder,
        (utc_offset_ns, mut lost_here): (i64, u32),
        out: &mut EncodedBatch,
    ) {
        self.for_each(count, |record| {
            let lost_before = record.lost_before.saturating_add(std::mem::take(&mut lost_here));
            encoder.emit(&RingRecord { lost_before, ..record }, utc_offset_ns, out);
        });
    }

    /// Gives the records in view back to the producer.
    fn release(&mut self);

    /// Sets the nanoseconds that a producer which writes times of day adds to monotonic time.
    fn set_utc_offset(&self, _: i64) {}

    /// True when the ring is so full that it is better to lose what is in it, and to say where,
    /// than to wait for the writer. A source that does not know waits, and the kernel counts the
    /// losses as those of the ring.
    fn is_filling(&self) -> bool {
        false
    }

    /// How long a record may lie in the ring before `peek` shows it, in nanoseconds, beyond the few
    /// microseconds that stamping and filling take: a block that is handed over when it is full or
    /// old, a stamp taken by the device.
    fn delay_ns(&self) -> u64 {
        0
    }

    /// Tells other threads how much the ring was ever given, where that is to be seen. Without it
    /// others know that the ring is empty only from its reader, who sleeps.
    fn probe(&self) -> Option<Box<dyn Probe>> {
        None
    }
}

/// What a look at a ring found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// True when another look follows at once: it finds a good batch already.
    pub(crate) has_more: bool,
    /// Whether the ring held less than it should after a sleep, or more.
    pub(crate) than_wanted: Ordering,
    /// A sleep of this length is short enough for whatever may begin to come.
    pub(crate) sleep_max: Duration,
}

impl Default for Found {
    /// An empty ring.
    fn default() -> Self {
        Self { has_more: false, than_wanted: Less, sleep_max: SLEEP_MAX }
    }
}

impl Found {
    /// A look took `taken` of the `pending` bytes of a ring of `size` bytes.
    ///
    /// Each sleep costs two threads a wake-up, which takes as long as hundreds of frames: a 16th to
    /// an 8th of the ring, or 0.75 to 1.5 MiB of a large one, is what should come together.
    pub(crate) fn of_bytes(pending: u64, taken: u64, size: u64) -> Self {
        let is_large = size >= LARGE_RING;
        let much = if is_large { LARGE_RING_MUCH } else { size / 8 };
        Self {
            // More may have come between the two numbers.
            has_more: pending.saturating_sub(taken) > (much / 8).min(BUFFER_LEN as u64 / 2),
            than_wanted: match pending {
                pending if pending > much => Greater,
                pending if pending <= much / 2 => Less,
                _ => Equal,
            },
            sleep_max: if is_large { LARGE_RING_SLEEP_MAX } else { SLEEP_MAX },
        }
    }
}

/// Looks at a ring from outside its reader.
pub(crate) trait Probe: Send + Sync {
    /// Records ever put into the ring.
    fn filled(&self) -> u64;

    /// The part of the ring that is filled, 0 to 1.
    fn used(&self) -> f64;
}

/// A ring of frames that no kernel fills, for tests.
#[cfg(test)]
pub(crate) mod fake {
    use super::{Found, RingConsumer};
    use crate::record::ring::{RingRecord, TimeSource};
    use pcapng::PacketFlags;
    use std::collections::VecDeque;

    /// Holds times; every frame is 60 bytes long.
    #[derive(Default)]
    pub(crate) struct FakeConsumer {
        pub(crate) times_ns: VecDeque<u64>,
        pub(crate) is_filling: bool,
        pub(crate) in_view: usize,
        pub(crate) found: Found,
    }

    impl RingConsumer for FakeConsumer {
        fn peek(&mut self, len_max: usize) -> u64 {
            self.in_view = self.times_ns.len().min(len_max / 128);
            let has_more = self.times_ns.len() > self.in_view;
            self.found = Found { has_more, than_wanted: self.in_view.cmp(&10), ..Found::default() };
            self.in_view as u64
        }

        fn for_each(&self, count: u64, take: impl FnMut(RingRecord<'_>)) {
            let record = |time_ns: &u64| RingRecord {
                time_ns: *time_ns,
                time_source: TimeSource::Hardware,
                frame_len: 60,
                ifindex: 1,
                queue_index: 0,
                flags: PacketFlags::INBOUND,
                vlan: None,
                xdp_verdict: None,
                lost_before: 0,
                data: &[0xee; 60],
            };
            self.times_ns.iter().take(self.in_view.min(count as usize)).map(record).for_each(take);
        }

        fn release(&mut self) {
            self.times_ns.drain(..self.in_view);
            self.in_view = 0;
        }

        fn found(&self) -> Found {
            self.found
        }

        fn is_filling(&self) -> bool {
            self.is_filling
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sixteenth_to_an_eighth_of_a_ring_is_what_should_come_during_a_sleep() {
        let found = |pending, size| Found::of_bytes(pending, pending.min(256 << 10), size);
        for (size, little, much) in [(64 << 10, 4 << 10, 8 << 10), (8 << 20, 768 << 10, 1536 << 10)] {
            assert_eq!(found(little, size).than_wanted, Less);
            assert_eq!(found(little + 1, size).than_wanted, Equal);
            assert_eq!(found(much, size).than_wanted, Equal);
            assert_eq!(found(much + 1, size).than_wanted, Greater);
        }
        assert_eq!(found(512 << 20, 1 << 30).than_wanted, Greater, "a large ring is no reason to sleep long");
        assert!(!Found::of_bytes(100, 200, 8 << 20).has_more, "what came during the look was taken as well");
        // Of a ring of 8 MiB half a batch is worth another look.
        assert!(!found(384 << 10, 8 << 20).has_more && found((384 << 10) + 1, 8 << 20).has_more);
    }
}
