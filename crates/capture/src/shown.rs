//! Frames of a running capture for people to see: what the caller asks for, and gets.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Frames that wait to be printed.
pub(crate) const WAITING_MAX: usize = 1024;

/// A frame for people to see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownFrame {
    /// Nanoseconds since 1970.
    pub time_ns: u64,
    /// Name of the device.
    pub device: Arc<str>,
    /// Link type of the device, as capture files number them.
    pub link_type: u16,
    /// True if the host sent it.
    pub is_outgoing: bool,
    /// Length of the frame without FCS.
    pub frame_len: u32,
    /// Bytes of it that were captured.
    pub captured_len: u32,
    /// What an XDP program returned for it, if the frame was taken behind that program.
    pub xdp_verdict: Option<u64>,
    /// The first of these: at most 512.
    pub data: Vec<u8>,
}

/// A frame, or the number of those that are not shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shown {
    /// One frame.
    Frame(ShownFrame),
    /// Frames since the last such number that are not shown: there were too many in a second, or
    /// too many waited to be printed.
    Skipped(u64),
}

/// Where a capture passes on frames for people; see [`display`].
#[derive(Debug)]
pub struct FrameDisplay {
    pub(crate) per_second: u64,
    pub(crate) sender: SyncSender<Shown>,
    pub(crate) offered: Arc<AtomicU64>,
}

/// The frames of a [`FrameDisplay`] as they come.
#[derive(Debug)]
pub struct ShownFrames {
    /// Ends when the capture has ended.
    pub frames: Receiver<Shown>,
    /// Frames so far, shown or not.
    pub offered: Arc<AtomicU64>,
}

/// A display for a capture with at most `per_second` frames a second, and what it shows.
pub fn display(per_second: u64) -> (FrameDisplay, ShownFrames) {
    let (sender, frames) = sync_channel(WAITING_MAX);
    let offered = Arc::<AtomicU64>::default();
    (FrameDisplay { per_second, sender, offered: Arc::clone(&offered) }, ShownFrames { frames, offered })
}
