//! One XDP program on one device, from attaching to detaching.

use crate::backend::quiesce;
use crate::{CaptureError, XdpFacts};
use bpf::xdp::{XdpLink, refuse_if_busy};
use host::{Link, Netns, Stack};
use std::time::{Duration, Instant};

/// A program that is attached. Dropping it detaches the program.
#[derive(Debug)]
pub(crate) struct Attached {
    /// `None` once it is detached.
    link: Option<XdpLink>,
    /// The device, as it was at the start.
    pub(crate) device: Link,
    /// How the program is attached.
    pub(crate) xdp: XdpFacts,
    started: Instant,
}

impl Attached {
    /// Finds the device in `netns`, or in the namespace of the calling thread, and calls `start`
    /// there. Its XDP slot must be free.
    pub(crate) fn start_on<T: Send>(
        netns: Option<&Netns>,
        ifname: &str,
        start: impl FnOnce(Link) -> Result<T, CaptureError> + Send,
    ) -> Result<T, CaptureError> {
        let start_here = || {
            let device = Stack::here()?.link(ifname)?;
            refuse_if_busy(device.index, &device.name)?;
            start(device)
        };
        match netns {
            Some(netns) => netns.run(start_here)?,
            None => start_here(),
        }
    }

    pub(crate) fn new(link: XdpLink, device: Link) -> Self {
        Self { xdp: XdpFacts::from(&link), link: Some(link), device, started: Instant::now() }
    }

    /// Time since the start.
    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// True when the device was deleted, or left its namespace.
    pub(crate) fn is_device_gone(&self) -> bool {
        self.link.as_ref().is_some_and(|link| !link.is_attached())
    }

    /// Detaches the program and waits until it runs on no CPU, so that the counts are final.
    /// `received` reads its counter.
    pub(crate) fn detach(&mut self, received: impl Fn() -> u64) {
        self.link = None;
        quiesce::wait_for_last_frames(received);
    }

    /// Detaches the program at the end, so that the counts are final; `received` reads its counter.
    /// Returns the time from attaching to detaching, and whether the device was gone before.
    pub(crate) fn stop(mut self, received: impl Fn() -> u64) -> (Duration, bool) {
        let (elapsed, is_device_gone) = (self.elapsed(), self.is_device_gone());
        self.detach(received);
        (elapsed, is_device_gone)
    }
}
