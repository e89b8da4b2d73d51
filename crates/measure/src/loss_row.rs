//! What a capture lost.

/// Frames that a capture lost in a span of time; a count that is not known is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LossRow {
    /// The machine.
    pub host: String,
    /// The device.
    pub device: String,
    /// The CPU; `None` for losses of the device, and where it is not known.
    pub cpu: Option<u32>,
    /// Start of the span, in nanoseconds since 1970.
    pub from_ns: u64,
    /// End of the span.
    pub to_ns: u64,
    /// Frames that the device lost before they were received.
    pub lost_nic: Option<u64>,
    /// Frames lost because a ring was full.
    pub lost_ring: Option<u64>,
    /// Frames lost because the output refused them or was too slow.
    pub lost_disk: Option<u64>,
}
