//! A port of the configuration in force: its device, worker, receiver and capture.

use super::capture::PortCapture;
use super::neighbours::PortNeighbours;
use super::progress::CountSamples;
use super::tag_parts::{counts_values, parts_of};
use capture::{Mode, ReceiveOptions, ReceiveResult, Receiving, SourceKind, TaggedFrames, XdpModeChoice};
use engine::Worker;
use measure::{FlowDetail, FlowLine, MeterOptions, TagPart};
use otg::metrics::TrafficCounts;
use otg::{MetricTag, OtgConfig, PortConfig};
use program::console::Console;
use program::monitor::Counted;
use program::monitor::sources::{self, DeviceLabels};
use sender::device::TxDevice;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

/// Numbers of flows: 16 bits of the mark.
pub(super) const FLOW_NUMBERS: u32 = 1 << 16;
/// Tries to read counts of one moment: a frame may arrive in between.
const READ_TRIES: usize = 8;

/// Why a port was not taken.
#[derive(Debug)]
pub(super) struct PortRefusal {
    /// In one line.
    pub(super) text: String,
    /// Another program has the device.
    pub(super) is_busy: bool,
}

impl From<String> for PortRefusal {
    fn from(text: String) -> Self {
        Self { text, is_busy: false }
    }
}

/// A port.
pub(super) struct Port {
    pub(super) name: String,
    pub(super) location: String,
    pub(super) device: TxDevice,
    /// Bits per second of its line.
    pub(super) speed: u64,
    /// True if the speed is that of the configuration or of the device.
    pub(super) has_line: bool,
    pub(super) worker: Worker,
    mode: Mode,
    receiver: Receiving,
    /// It counts frames by values of tags.
    pub(super) has_tags: bool,
    /// The parts of all its frames whose values it counts.
    egress: Vec<TagPart>,
    /// Its frames are scraped.
    _counted: Counted,
    pub(super) capture: Option<PortCapture>,
    /// Answers for its emulated interfaces.
    pub(super) neighbours: Option<Arc<PortNeighbours>>,
    /// Sent by runs of flows that have begun anew since the counts were cleared.
    pub(super) sent_before: TrafficCounts,
    /// Received before the counts were cleared.
    cleared: TrafficCounts,
    /// The link was up when the port was taken.
    was_up: bool,
    /// Since when the link has its state, in nanoseconds since 1970.
    pub(super) last_change_ns: u64,
    is_up: bool,
    /// Of received frames, from the last clear on.
    samples: CountSamples,
}

impl Port {
    /// Takes a device for a port of a whole configuration: its worker starts, its receiver is
    /// attached.
    ///
    /// # Errors
    /// The device is busy, or the host refused.
    pub(super) fn open(
        config: &PortConfig,
        whole: &OtgConfig,
        device: TxDevice,
        (cpu, console): (u32, &Console),
        run: u16,
        now_ns: u64,
    ) -> Result<Self, PortRefusal> {
        let has_capture = whole.captures.iter().any(|capture| capture.ports.contains(&config.name));
        let has_tags = counts_values(whole, &config.name);
        let (speed, has_line) = (line_speed(config, &device), known_speed(config, &device).is_some());
        let worker = Worker::spawn(cpu, &device.netns).map_err(|error| error.in_one_line())?;
        // The host's stack sees measured frames only where packet sockets capture them.
        let mode = if has_capture { Mode::Mirror } else { Mode::Drop };
        let options = ReceiveOptions {
            ifname: device.link.name.clone(),
            netns: Some(device.netns.clone()),
            mode,
            source: SourceKind::Xdp,
            xdp: XdpModeChoice::Best,
            meter: MeterOptions {
                flow_count: FLOW_NUMBERS,
                stream_count: 1,
                run: Some(run),
                ..MeterOptions::default()
            },
            is_shared: true,
            has_details: true,
            has_tags,
            reflects: false,
        };
        let receiver = Receiving::start(&options)
            .map_err(|error| PortRefusal { text: error.to_string(), is_busy: error.is_device_busy() })?;
        let neighbours = PortNeighbours::start(&whole.interfaces, &config.name, &device)?.map(Arc::new);
        let egress = whole.egress.iter().find(|egress| egress.port == config.name);
        let egress = egress.map_or_else(Vec::new, |egress| parts_of(&egress.tags));
        if !egress.is_empty() {
            receiver.set_tag(None, &egress);
        }
        let labels = labels_of(&device);
        let _counted = console.count_in(sources::receive_total(receiver.observer(), labels));
        let is_up = device.link.has_carrier();
        Ok(Self {
            _counted,
            name: config.name.clone(),
            location: config.location.clone(),
            was_up: device.link.is_up(),
            device,
            speed,
            has_line,
            worker,
            mode,
            receiver,
            has_tags,
            egress,
            capture: None,
            neighbours,
            sent_before: TrafficCounts::default(),
            cleared: TrafficCounts::default(),
            last_change_ns: now_ns,
            is_up,
            samples: CountSamples::new(Instant::now(), 0, 0),
        })
    }

    /// The device in metrics.
    pub(super) fn labels(&self) -> DeviceLabels {
        labels_of(&self.device)
    }

    /// The counts of a flow.
    pub(super) fn line(&self, number: u32) -> FlowLine {
        self.receiver.line(number as usize)
    }

    /// Bytes and times of a flow.
    pub(super) fn detail(&self, number: u32) -> FlowDetail {
        self.receiver.detail(number as usize).unwrap_or_default()
    }

    /// The frames of the flow with this number are counted by these tags from now on.
    pub(super) fn track(&self, number: u32, tags: &[MetricTag]) {
        if self.has_tags {
            self.receiver.set_tag(Some(number as usize), &parts_of(tags));
        }
    }

    /// Drops what was counted by tags of the flows with these numbers, and counts them by tags no
    /// more.
    pub(super) fn forget_tagged(&self, numbers: impl Iterator<Item = u32>) {
        let lines: BTreeSet<Option<usize>> = numbers.map(|number| Some(number as usize)).collect();
        if !lines.is_empty() {
            self.receiver.forget_tagged(&lines);
        }
    }

    /// Frames by the values of tags.
    pub(super) fn tagged(&self) -> Vec<TaggedFrames> {
        if self.has_tags { self.receiver.tagged() } else { Vec::new() }
    }

    /// What becomes of measured frames.
    pub(super) fn mode(&self) -> Mode {
        self.mode
    }

    /// How frames are measured.
    pub(super) fn source(&self) -> String {
        self.receiver.source().to_string()
    }

    /// All that was measured.
    pub(super) fn result(&self) -> ReceiveResult {
        let results = std::iter::repeat_with(|| self.receiver.snapshot());
        let mut results = results.take(READ_TRIES);
        let last = results.by_ref().find(|result| result.figures().broken.is_empty());
        last.unwrap_or_else(|| self.receiver.snapshot())
    }

    /// Frames and bytes with FCS that the device received since the counts were cleared.
    pub(super) fn received(&mut self, now: Instant) -> TrafficCounts {
        let (frames, bytes) = self.all_received();
        let (_, rate) = self.samples.rates(0, frames, now);
        let frames = frames - self.cleared.frames;
        TrafficCounts { frames, bytes: bytes - self.cleared.bytes, rate }
    }

    fn all_received(&self) -> (u64, u64) {
        let totals = self.receiver.totals();
        (totals.frames, totals.frame_bytes + 4 * totals.frames)
    }

    /// Sets the counts to 0.
    pub(super) fn clear(&mut self) {
        let (frames, bytes) = self.all_received();
        self.cleared = TrafficCounts { frames, bytes, rate: 0.0 };
        self.samples = CountSamples::new(Instant::now(), 0, frames);
        if !self.egress.is_empty() {
            self.receiver.forget_tagged(&BTreeSet::from([None]));
            self.receiver.set_tag(None, &self.egress);
        }
        self.sent_before = TrafficCounts::default();
    }

    /// True if the link is up; notes when that changed.
    pub(super) fn link_is_up(&mut self, now_ns: u64) -> bool {
        let is_up = self.device.stack.link(self.device.link.index).is_ok_and(|link| link.has_carrier());
        if is_up != self.is_up {
            (self.is_up, self.last_change_ns) = (is_up, now_ns);
        }
        is_up
    }

    /// Sets the link up or down.
    ///
    /// # Errors
    /// In one line.
    pub(super) fn set_link(&mut self, up: bool, now_ns: u64) -> Result<(), String> {
        let (stack, index) = (&self.device.stack, self.device.link.index);
        let set = if up { stack.set_up(index) } else { stack.set_down(index) };
        set.map_err(|error| format!("port {}: {error}", self.name))?;
        self.link_is_up(now_ns);
        Ok(())
    }

    /// True if the device is gone.
    pub(super) fn is_gone(&self) -> bool {
        self.receiver.is_device_gone()
    }
}

/// Bits per second of the line of a port.
pub(super) fn line_speed(port: &PortConfig, device: &TxDevice) -> u64 {
    known_speed(port, device).unwrap_or(otg::SPEED_DEFAULT)
}

/// Bits per second of the line of a port: as configured, or those of the device if it has a line.
pub(super) fn known_speed(port: &PortConfig, device: &TxDevice) -> Option<u64> {
    let own = || device.stack.speed_bps(device.link.index).ok().flatten();
    port.speed.or_else(own)
}

fn labels_of(device: &TxDevice) -> DeviceLabels {
    DeviceLabels::in_netns(&device.link.name, &device.netns)
}

impl Drop for Port {
    /// Restores the state of the link.
    fn drop(&mut self) {
        let (stack, index) = (&self.device.stack, self.device.link.index);
        if let Ok(link) = stack.link(index)
            && link.is_up() != self.was_up
        {
            let set = if self.was_up { stack.set_up(index) } else { stack.set_down(index) };
            if let Err(error) = set {
                tracing::warn!("port {}: {error}", self.name);
            }
        }
    }
}
