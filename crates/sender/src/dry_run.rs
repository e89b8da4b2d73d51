//! `wirerate send --dry-run`: the first frames of a plan, shown and written to a file, without a
//! device.

use super::raw_frame::RawFrame;
use anyhow::anyhow;
use capture_files::frame_file::{FrameFile, FrameFileFacts};
use engine::{Clock, Engine, MemEngine, Pace, Pacer};
use packet::{Cursor, Plan};
use pcapng::pcap::Precision;
use program::outcome::{Failure, Outcome};
use program::stop::Stop;
use std::cell::Cell;
use std::num::NonZeroU32;
use std::path::Path;
use units::human_count;

/// What to show, and how.
#[derive(Debug)]
pub struct Preview<'a> {
    /// Name of the device that would send.
    pub device: &'a str,
    /// Frames to show.
    pub frame_count: u64,
    /// When frames are due.
    pub pace: Pace,
    /// Time of day of the first frame, in nanoseconds since 1970.
    pub start_ns: u64,
    /// Print JSON.
    pub json: bool,
    /// A file for the frames.
    pub write: Option<&'a Path>,
    /// Ends it early.
    pub stop: &'a Stop,
}

/// Shows the first frames of a plan, of which `count` would be sent.
///
/// # Errors
/// Refused when a frame cannot be made or the file cannot be written.
pub fn show(plan: Plan, cursor: Cursor, count: u64, preview: &Preview<'_>) -> Result<Outcome, Failure> {
    let mut file = preview.write.map(|path| frame_file(path, preview.device)).transpose()?;
    let last = if count == 0 { preview.frame_count } else { preview.frame_count.min(count) };
    let clock = Schedule::default();
    let mut engine = MemEngine::with_clock(plan, cursor, Vec::new(), &clock);
    let mut pacer = Pacer::new(preview.pace, 0);
    let mut shown = 0;
    for number in 1..=last {
        if preview.stop.is_set() {
            break;
        }
        let time_ns = pacer.next_ns();
        let wall_ns = preview.start_ns.saturating_add(time_ns);
        clock.set(wall_ns);
        engine
            .send_burst(NonZeroU32::MIN)
            .map_err(|why| Failure::engine(format!("make frame {number}"), why, None))?;
        let Some(frame) = engine.sink_mut().pop() else { return Err(unprotected(number)) };
        pacer.sent(1, frame.len() as u64);
        let decoded = RawFrame::new(number, time_ns, &frame);
        let text = if preview.json { decoded.json_line() } else { decoded.to_string() };
        preview.stop.console().text(&text)?;
        if let Some(file) = &mut file {
            file.add(0, wall_ns, &frame)?;
        }
        shown = number;
    }
    file.map_or(Ok(()), FrameFile::finish)?;
    if let Some(rest) = rest(shown, count) {
        preview.stop.console().note(rest);
    }
    Ok(Outcome::Done)
}

/// The file for the frames of a device.
pub(super) fn frame_file<'a>(path: &'a Path, device: &str) -> Result<FrameFile<'a>, Failure> {
    let facts = FrameFileFacts {
        command: "--dry-run",
        devices: &[Some(device)],
        link_type: pcapng::LINK_TYPE_ETHERNET,
        precision: Precision::Nanoseconds,
    };
    FrameFile::create(path, &facts)
}

/// The note about frames that were not shown; a count of 0 has no end.
fn rest(shown: u64, count: u64) -> Option<String> {
    let frames =
        if shown == 1 { "the first frame" } else { &format!("the first {} frames", human_count(shown)) };
    match count.checked_sub(shown) {
        Some(0) => None,
        Some(more) => {
            Some(format!("{frames}; {} more would follow (--dry-run=N shows N)", human_count(more)))
        }
        None => Some(format!("{frames}; more would follow without end (--dry-run=N shows N)")),
    }
}

/// A frame that must not be sent in clear.
fn unprotected(number: u64) -> Failure {
    let why = anyhow!("there is no security association for its addresses");
    Failure::refused(format!("encrypt frame {number}"), why).try_this("ip xfrm state add ...")
}

/// The time of day at which the next frame would be sent. No frame waits for it.
#[derive(Debug, Default)]
pub(super) struct Schedule(Cell<u64>);

impl Schedule {
    pub(super) fn set(&self, wall_ns: u64) {
        self.0.set(wall_ns);
    }
}

impl Clock for &Schedule {
    fn now_ns(&self) -> u64 {
        self.0.get()
    }

    fn wall_ns(&self) -> u64 {
        self.0.get()
    }

    fn wait_until(&self, _: u64) {}

    fn rest(&self, _: u64) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_that_are_not_shown_are_counted() {
        assert_eq!(rest(4, 4), None);
        assert_eq!(rest(2, 2), None, "two are all there are");
        let said = rest(4, 10_000).unwrap();
        assert_eq!(said, "the first 4 frames; 9,996 more would follow (--dry-run=N shows N)");
        let said = rest(1, 2).unwrap();
        assert_eq!(said, "the first frame; 1 more would follow (--dry-run=N shows N)");
        let said = rest(4, 0).unwrap();
        assert_eq!(said, "the first 4 frames; more would follow without end (--dry-run=N shows N)");
    }
}
