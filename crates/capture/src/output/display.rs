//! Frames for people to see while a capture runs: a limited number per second, the others are
//! counted.
//!
//! The writer passes frames on in the order of the files and never waits for the program that
//! prints them.

use crate::record::batch::{Chunk, IndexEntry};
use crate::record::format::Format;
use crate::record::ring_handle::RingHandle;
use crate::shown::{FrameDisplay, Shown, ShownFrame};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::TrySendError;
use std::time::{Duration, Instant};

/// Bytes of a frame that are passed on: its headers, also in tunnels.
const DATA_LEN_MAX: usize = 512;
/// The time for which frames are limited.
const PERIOD: Duration = Duration::from_secs(1);

/// The writer's end of a display.
pub(crate) struct DisplayWriter {
    to: FrameDisplay,
    format: Format,
    period_began: Instant,
    /// Frames passed on since then.
    in_period: u64,
    /// Frames not passed on since the last one that was.
    skipped: u64,
}

impl DisplayWriter {
    /// For records of a format.
    pub(crate) fn new(to: FrameDisplay, format: Format) -> Self {
        Self { to, format, period_began: Instant::now(), in_period: 0, skipped: 0 }
    }

    /// Passes on what the rate allows of these records.
    pub(crate) fn take(&mut self, chunk: &Chunk<'_>, rings: &[Arc<RingHandle>]) {
        self.to.offered.fetch_add(chunk.index.len() as u64, Relaxed);
        self.begin_period();
        let (mut at, mut shown) = (0, 0);
        for entry in chunk.index {
            if self.in_period >= self.to.per_second {
                break;
            }
            let record = &chunk.bytes[at..at + entry.len as usize];
            at += record.len();
            shown += 1;
            self.show(record, *entry, &rings[entry.ring()]);
        }
        self.skipped += (chunk.index.len() - shown) as u64;
    }

    /// Passes on the number of skipped frames when the rate allows frames again.
    pub(crate) fn tick(&mut self) {
        self.begin_period();
    }

    /// Passes on the number of frames skipped since then, at the end of the capture.
    pub(crate) fn finish(mut self) {
        self.tell_skipped();
    }

    fn begin_period(&mut self) {
        if self.period_began.elapsed() >= PERIOD {
            (self.period_began, self.in_period) = (Instant::now(), 0);
            self.tell_skipped();
        }
    }

    fn tell_skipped(&mut self) {
        if self.skipped > 0 && self.to.sender.try_send(Shown::Skipped(self.skipped)).is_ok() {
            self.skipped = 0;
        }
    }

    fn show(&mut self, record: &[u8], entry: IndexEntry, ring: &RingHandle) {
        self.in_period += 1;
        let packet = self.format.packet_of(record).expect("the encoder wrote it");
        let device = ring.device_of(entry);
        let frame = ShownFrame {
            time_ns: entry.time_ns,
            device: Arc::clone(&device.name),
            link_type: device.link_type,
            is_outgoing: entry.is_outgoing(),
            frame_len: packet.frame_len,
            captured_len: packet.data.len() as u32,
            xdp_verdict: packet.xdp_verdict,
            data: packet.data[..packet.data.len().min(DATA_LEN_MAX)].to_vec(),
        };
        // A printer that has ended needs no number of skipped frames.
        if let Err(TrySendError::Full(_)) = self.to.sender.try_send(Shown::Frame(frame)) {
            self.skipped += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::batch::samples::batch;
    use crate::shown::{WAITING_MAX, display};

    #[test]
    fn frames_beyond_the_rate_are_counted_and_told() {
        let (to, shown) = display(3);
        let mut writer = DisplayWriter::new(to, Format::Pcapng);
        let rings = [RingHandle::for_test()];
        writer.take(&batch(0, &[10, 20], 60).chunk(), &rings);
        writer.take(&batch(0, &[30, 40, 50], 600).chunk(), &rings);
        writer.period_began -= PERIOD;
        writer.take(&batch(0, &[60], 60).chunk(), &rings);
        writer.finish();
        let frames: Vec<(u64, usize, u32)> = shown
            .frames
            .iter()
            .map(|shown| match shown {
                Shown::Frame(frame) => (frame.time_ns, frame.data.len(), frame.captured_len),
                Shown::Skipped(count) => (0, 0, count as u32),
            })
            .collect();
        assert_eq!(frames, [(10, 60, 60), (20, 60, 60), (30, 512, 600), (0, 0, 2), (60, 60, 60)]);
        assert_eq!(shown.offered.load(Relaxed), 6);
    }

    #[test]
    fn a_display_that_does_not_read_is_not_waited_for() {
        let (to, shown) = display(u64::MAX);
        let mut writer = DisplayWriter::new(to, Format::Pcapng);
        let (rings, times) = ([RingHandle::for_test()], vec![7; WAITING_MAX + 5]);
        writer.take(&batch(0, &times, 60).chunk(), &rings);
        assert_eq!(writer.skipped, 5);
        assert_eq!(shown.offered.load(Relaxed), WAITING_MAX as u64 + 5);
    }
}
