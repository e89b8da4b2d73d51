//! The table of metric families: names, types, labels, help. `docs/watching.md` has the same table.
//!
//! Names have base units; counters end in `_total`. Rates are never exported, since the server
//! computes them. A value that is unknown is absent, never 0.

use FamilyKind::{Counter, Gauge, Histogram};

/// The type of a family.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FamilyKind {
    /// Only grows while the process lives.
    Counter,
    /// A value that can fall.
    Gauge,
    /// Counts below powers of two nanoseconds, from 2^`first` to 2^`last` ns, in seconds.
    Histogram {
        /// Exponent of the first bound.
        first: u32,
        /// Exponent of the last bound below infinity.
        last: u32,
    },
}

/// A family of metrics.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MetricFamily {
    /// Name, with `_total` if it is a counter.
    pub name: &'static str,
    /// What it counts, in one sentence without a full stop.
    pub help: &'static str,
    /// Its type.
    pub kind: FamilyKind,
    /// Names of its labels.
    pub labels: &'static [&'static str],
}

impl MetricFamily {
    const fn new(
        name: &'static str,
        kind: FamilyKind,
        labels: &'static [&'static str],
        help: &'static str,
    ) -> Self {
        Self { name, help, kind, labels }
    }

    /// Bounds of the buckets in seconds, without infinity.
    pub fn bounds(&self) -> Vec<f64> {
        match self.kind {
            Histogram { first, last } => (first..=last).map(|power| (1u64 << power) as f64 / 1e9).collect(),
            Counter | Gauge => Vec::new(),
        }
    }
}

/// Labels of what belongs to a device.
const DEVICE: &[&str] = &["device", "netns"];
/// Labels of what belongs to a flow.
const FLOW: &[&str] = &["device", "netns", "flow"];
/// Labels of what a sending thread counts.
const THREAD: &[&str] = &["device", "netns", "thread", "cpu", "engine"];

macro_rules! families {
    ($($(#[$doc:meta])* $constant:ident = $name:literal, $kind:expr, $labels:expr, $help:literal;)*) => {
        $($(#[$doc])* pub const $constant: MetricFamily =
            MetricFamily::new($name, $kind, $labels, $help);)*
        /// All families, in the order of the text.
        pub const FAMILIES: &[MetricFamily] = &[$($constant),*];
    };
}

families! {
    /// The program.
    BUILD_INFO = "wirerate_build_info", Gauge, &["version", "kernel"],
        "Version of wirerate and of the kernel; the value is 1";
    /// The command.
    RUN_INFO = "wirerate_run_info", Gauge, &["run", "command", "device", "netns"],
        "The command of this process, its device and its network namespace; the value is 1";
    /// Its start.
    RUN_START = "wirerate_run_start_time_seconds", Gauge, &["run"],
        "Start of the run in seconds since 1970";
    /// Its state.
    RUN_STATE = "wirerate_run_state", Gauge, &["run", "state"],
        "1 for the present state of the run (starting, running, ended), 0 for the others";

    /// Frames offered.
    SEND_OFFERED = "wirerate_send_offered_frames_total", Counter, THREAD,
        "Frames offered to the driver: those sent and those with errors";
    /// Frames sent.
    SEND_FRAMES = "wirerate_send_frames_total", Counter, THREAD,
        "Frames that the driver accepted";
    /// Their bytes.
    SEND_BYTES = "wirerate_send_bytes_total", Counter, THREAD,
        "Bytes of these frames without FCS";
    /// Retries.
    SEND_RETRIES = "wirerate_send_retries_total", Counter, THREAD,
        "Times that a frame found a full queue or ring: it waits, or the next frame takes its place";
    /// Errors.
    SEND_ERRORS = "wirerate_send_errors_total", Counter, &["device", "netns", "cause"],
        "Frames that were offered and not sent, by cause";
    /// The pace.
    SEND_TARGET = "wirerate_send_target_frames_per_second", Gauge, DEVICE,
        "Requested frame rate; absent for a run without a frame rate";
    /// How far gaps are from the pace.
    SEND_GAP_ERROR = "wirerate_send_gap_error_seconds", Histogram { first: 6, last: 24 }, DEVICE,
        "Difference between the gap of two frames and the requested gap";

    /// Packets of a replay.
    REPLAY_FRAMES = "wirerate_replay_frames_total", Counter, &["device", "netns", "fate"],
        "Packets of the files, by what became of them";
    /// Loops.
    REPLAY_LOOPS = "wirerate_replay_loops_total", Counter, DEVICE,
        "Complete loops over the files";
    /// Waits for the file.
    REPLAY_STARVED = "wirerate_replay_starved_total", Counter, DEVICE,
        "Times that the sender waited for the file";
    /// Retries of a replay.
    REPLAY_RETRIES = "wirerate_replay_retries_total", Counter, DEVICE,
        "Times that a frame found a full queue and waited";
    /// Packets of capture files.
    READ_PACKETS = "wirerate_read_packets_total", Counter, &[],
        "Packets that were read from capture files";
    /// Position in the files.
    REPLAY_POSITION = "wirerate_replay_position_ratio", Gauge, DEVICE,
        "Part of the files before the next frame of this loop; absent for standard input";

    /// Frames of a capture.
    CAPTURE_FRAMES = "wirerate_capture_frames_total", Counter, &["device", "netns", "fate"],
        "Frames that reached the device, by what became of them";
    /// Their bytes.
    CAPTURE_BYTES = "wirerate_capture_bytes_total", Counter, DEVICE,
        "Bytes of the frames that the capture received, without FCS";
    /// Bytes of the files.
    CAPTURE_FILE_BYTES = "wirerate_capture_file_bytes_total", Counter, DEVICE,
        "Bytes of the capture files; device has all devices of the capture";
    /// Fill level of the rings.
    CAPTURE_RING_USED = "wirerate_capture_ring_used_ratio", Gauge, DEVICE,
        "Part of the fullest ring that holds frames; absent if the kernel does not report it";
    /// Clocks of the records.
    CAPTURE_TIME = "wirerate_capture_time_frames_total", Counter, &["device", "netns", "clock"],
        "Frames in the file, by the clock of their time: kernel or device";

    /// Frames of a receiver.
    RECEIVE_FRAMES = "wirerate_receive_frames_total", Counter, DEVICE,
        "Frames that count, sink, receive or measure counted";
    /// The other frames of a receiver.
    RECEIVE_OTHERS = "wirerate_receive_other_frames_total", Counter, &["device", "netns", "kind"],
        "Frames that receive, measure or reflect did not count as received, by kind; wirerate.measure-second/1 has each kind as a field";
    /// Unusual frames of a receiver.
    RECEIVE_UNUSUAL = "wirerate_receive_unusual_frames_total", Counter, &["device", "netns", "kind"],
        "Received frames that are unusual, by kind; wirerate.measure-second/1 has each kind as a field";
    /// Frames of a receiver or a capture by CPU.
    RECEIVE_CPU_FRAMES = "wirerate_receive_cpu_frames_total", Counter, &["device", "netns", "cpu"],
        "Frames that a receiver or a capture received, by CPU; ring number for rings that belong to no CPU";
    /// Numbers that have not arrived.
    RECEIVE_MISSING = "wirerate_receive_missing_frames", Gauge, DEVICE,
        "Numbers below the highest one received that have not arrived, in measure without those of frames that its driver rejected; late frames make it fall";
    /// Frames of flows.
    FLOW_FRAMES = "wirerate_flow_frames_total", Counter, &["device", "netns", "flow", "fate"],
        "Frames with a signature, by flow and by what they were; flow other has all flows beyond the first";
    /// Latencies.
    FLOW_LATENCY = "wirerate_flow_latency_seconds", Histogram { first: 6, last: 32 },
        FLOW,
        "One-way latency of frames with a time stamp; flow all has the flows together";
    /// Frames with a latency.
    FLOW_STAMPED = "wirerate_flow_stamped_frames_total", Counter, FLOW,
        "Frames with a latency, by flow; further copies of a frame have none";
    /// Sums of latencies.
    FLOW_LATENCY_SUM = "wirerate_flow_latency_sum_seconds_total", Counter, FLOW,
        "Sum of the latencies of these frames";
    /// Highest latencies.
    FLOW_LATENCY_MAX = "wirerate_flow_latency_max_seconds", Gauge, FLOW,
        "Highest latency of these frames";
    /// Jitter.
    FLOW_JITTER = "wirerate_flow_jitter_seconds", Gauge, FLOW,
        "Jitter of these frames (RFC 3550); flow other has the highest of its flows";

    /// Connections that were tried.
    CONNECT_TRIED = "wirerate_connect_tried_total", Counter, DEVICE,
        "Connections, or queries over UDP, that connect has begun";
    /// Connections that have ended.
    CONNECT_ENDED = "wirerate_connect_ended_total", Counter, &["device", "netns", "outcome"],
        "Connections that have ended, by outcome: completed, refused, reset, timeout, cut_off";
    /// Unusual segments.
    CONNECT_UNUSUAL = "wirerate_connect_unusual_segments_total", Counter, &["device", "netns", "kind"],
        "Segments that an undisturbed connection does not have, by kind; wirerate.connect/1 has each kind as a field";
    /// Connections that are open.
    CONNECT_OPEN = "wirerate_connect_open", Gauge, DEVICE,
        "Connections that are open";
    /// Responses.
    CONNECT_RESPONSES = "wirerate_connect_responses_total", Counter, DEVICE,
        "Complete responses of servers";
    /// Bytes of servers.
    CONNECT_BYTES = "wirerate_connect_payload_bytes_total", Counter, DEVICE,
        "Bytes of servers; each counts once";
    /// Connections that were accepted.
    ACCEPT_CONNECTIONS = "wirerate_accept_connections_total", Counter, DEVICE,
        "SYNs that accept has answered";
    /// Segments of the connections of a server.
    ACCEPT_SEGMENTS = "wirerate_accept_segments_total", Counter, &["device", "netns", "kind"],
        "Segments of the connections of accept, by kind; wirerate.accept/1 has each kind as a field";

    /// CPU time.
    PROCESS_CPU = "process_cpu_seconds_total", Counter, &[],
        "Time that the process spent on CPUs, in user and kernel mode";
    /// Memory.
    PROCESS_MEMORY = "process_resident_memory_bytes", Gauge, &[],
        "Resident memory";
    /// File descriptors.
    PROCESS_FDS = "process_open_fds", Gauge, &[],
        "Open file descriptors";
    /// Its start.
    PROCESS_START = "process_start_time_seconds", Gauge, &[],
        "Start of the process in seconds since 1970";
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_follow_the_rules_of_prometheus() {
        let names: BTreeSet<_> = FAMILIES.iter().map(|family| family.name).collect();
        assert_eq!(names.len(), FAMILIES.len());
        for family in FAMILIES {
            assert_eq!(family.kind == Counter, family.name.ends_with("_total"), "{}", family.name);
            let is_plain = |c: char| c.is_ascii_lowercase() || c == '_';
            assert!(family.name.chars().all(is_plain), "{}", family.name);
            assert!(family.name.starts_with("wirerate_") || family.name.starts_with("process_"));
            assert!(!family.help.ends_with('.') && !family.help.contains('\n'), "{}", family.help);
            assert!(!family.labels.contains(&"le"), "{}", family.name);
        }
    }

    #[test]
    fn bounds_are_octaves_in_seconds() {
        let bounds = SEND_GAP_ERROR.bounds();
        assert_eq!((bounds.len(), bounds[0], bounds[18]), (19, 64e-9, 16_777_216e-9));
        assert!(SEND_FRAMES.bounds().is_empty());
    }
}
