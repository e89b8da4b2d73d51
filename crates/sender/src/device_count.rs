//! Frames that a device itself counted, compared with those that it accepted.
//!
//! The skb and af_packet engines pass frames to the stack or to the driver and count what it
//! accepts. What a queueing discipline or a driver drops afterwards shows in the counter of the
//! device only. The xdp engine has the driver's own answer.

use super::device::TxDevice;
use super::report::Report;
use engine::EngineKind;
use host::CommandPlace;
use packet::XmitMode;
use program::stop::Stop;
use std::thread::sleep;
use std::time::{Duration, Instant};
use units::human_count;

/// Drivers count a frame when it has left, some of them only when the next ones come, and others by
/// a timer.
const TIMEOUT: Duration = Duration::from_secs(2);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Frames that drivers leave uncounted at most: the rings of cards are shorter.
const UNCOUNTED_MAX: u64 = 4096;
/// A smaller part than one in this many may be a matter of rings.
const PART_MIN: u64 = 10;

/// The counter of the device before a run.
#[derive(Clone, Copy, Debug)]
pub struct DeviceCount {
    /// `None` if the kernel does not report it, or frames do not leave by the device.
    before: Option<u64>,
}

impl DeviceCount {
    /// Reads the counter before a run of `mode`.
    pub fn start(device: &TxDevice, mode: XmitMode) -> Self {
        Self { before: (mode != XmitMode::NetifReceive).then(|| sent_by(device)).flatten() }
    }

    /// Enters into the report of the run what the device has counted, with a note if many frames
    /// are missing. Other senders on the device hide missing ones. A stop ends the wait for drivers
    /// that count late.
    pub fn enter(&self, device: &TxDevice, stop: &Stop, report: &mut Report) {
        if ![EngineKind::Skb, EngineKind::AfPacket].map(EngineKind::name).contains(&report.engine.name) {
            return;
        }
        let deadline = Instant::now() + TIMEOUT;
        let counted = || Some(sent_by(device)?.wrapping_sub(self.before?));
        let mut now = counted();
        while now.is_some_and(|now| are_missing(now, report.sent))
            && Instant::now() < deadline
            && !stop.is_set()
        {
            sleep(POLL_INTERVAL);
            now = counted();
        }
        report.device_counted = now;
        let missing = now.filter(|now| are_missing(*now, report.sent));
        let place = device.command_place();
        report.notes.extend(missing.map(|now| note(&report.device, &place, now, report.sent)));
    }
}

fn sent_by(device: &TxDevice) -> Option<u64> {
    Some(device.stack.link(device.link.index).ok()?.counters.tx_packets)
}

/// True if more frames are missing than drivers leave uncounted.
fn are_missing(counted: u64, sent: u64) -> bool {
    sent.saturating_sub(counted) > UNCOUNTED_MAX.max(sent / PART_MIN)
}

fn note(device: &str, place: &CommandPlace, counted: u64, sent: u64) -> String {
    format!(
        "{device} counted {} of {} frames that were accepted: the others wait in its queueing discipline, or \
         were lost there, by a filter, or in the driver (`{}`, `{}`)",
        human_count(counted),
        human_count(sent),
        place.run(&format!("tc -s qdisc show dev {device}")),
        place.run(&format!("ethtool -S {device}"))
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_in_a_ring_are_not_missing() {
        assert!(!are_missing(0, 4096) && !are_missing(36_000, 40_000) && !are_missing(50_000, 40_000));
        assert!(are_missing(39, 40_000) && are_missing(0, 4097) && are_missing(890_000, 1_000_000));
    }

    #[test]
    fn the_commands_of_the_note_are_for_the_namespace_of_the_device() {
        let text = note("eth1", &CommandPlace::of(Some("dut")), 39, 40_000);
        assert!(
            text.contains("(`ip netns exec dut tc -s qdisc show dev eth1`, `ip netns exec dut ethtool"),
            "{text}"
        );
    }
}
