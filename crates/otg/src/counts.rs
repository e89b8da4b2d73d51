//! Counts of flows.

/// What a flow does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlowState {
    /// Nothing is sent, and no more frames will arrive.
    #[default]
    Stopped,
    /// Frames are sent or on their way.
    Started,
    /// Stopped for a while.
    Paused,
}

/// Counts of frames and bytes with FCS, and frames per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TrafficCounts {
    /// Frames.
    pub frames: u64,
    /// Their bytes, FCS included.
    pub bytes: u64,
    /// Frames per second now.
    pub rate: f64,
}

/// What was measured of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FlowCounts {
    /// What it does.
    pub state: FlowState,
    /// Accepted by the driver since the start.
    pub tx: TrafficCounts,
    /// Received at its ports.
    pub rx: TrafficCounts,
    /// Lowest, highest and mean latency in nanoseconds.
    pub latency_ns: (f64, f64, f64),
    /// Times of the first and the last received frame, in nanoseconds since 1970.
    pub first_last_ns: (u64, u64),
}

impl FlowState {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::Started => "started",
            Self::Paused => "paused",
        }
    }
}
