//! The structures of `src/bpf/shared.h`, as Rust sees them.
//!
//! Same names without the `wr_` prefix, same order, same sizes; both sides check the sizes when they are
//! compiled. Values are in host order unless their name ends in `_be`.

/// Two cache lines; x86 fetches lines in pairs (`WR_LINE`).
pub const LINE: usize = 128;

/// The stack gets a captured frame as well (`WR_CAPTURE_MIRROR`).
pub const CAPTURE_MIRROR: u32 = 0;
/// A captured frame ends here (`WR_CAPTURE_DROP`).
pub const CAPTURE_DROP: u32 = 1;

/// `Slot::time_ns` is the clock of the device, not `CLOCK_MONOTONIC` (`WR_SLOT_HARDWARE_TIME`).
pub const SLOT_HARDWARE_TIME: u16 = 0x1;
/// The hardware took a VLAN tag off (`WR_SLOT_VLAN`).
pub const SLOT_VLAN: u16 = 0x2;

/// Head of a ring slot; the first `captured_len` bytes of the frame follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Slot {
    /// `CLOCK_MONOTONIC`, or as the flags say.
    pub time_ns: u64,
    /// As seen by XDP, without FCS.
    pub frame_len: u32,
    /// At most `frame_len` and at most the snaplen.
    pub captured_len: u32,
    /// In the network namespace of the device.
    pub ifindex: u32,
    /// Receive queue of the device.
    pub queue_index: u16,
    /// `SLOT_*`.
    pub flags: u16,
    /// Frames of this CPU lost between the record before and this one.
    pub lost_before: u32,
    /// Priority, DEI and VLAN id, when `SLOT_VLAN` is set.
    pub vlan_tci: u16,
    /// The tag's EtherType in network order, when `SLOT_VLAN` is set.
    pub vlan_proto_be: u16,
}

/// Counters and progress of one CPU. Shared with the kernel: read through atomics only.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CaptureCpu {
    /// Slots filled since the start. Frames received are `head + lost_ring`.
    pub head: u64,
    /// The tail when the XDP program last looked at it.
    pub tail_seen: u64,
    /// Frames not recorded because the ring was full.
    pub lost_ring: u64,
    /// `lost_ring` when the last record was written.
    pub lost_noted: u64,
    /// `frame_len` of all frames received, recorded or not.
    pub frame_bytes: u64,
    /// Unused.
    pub pad0: [u64; 11],
    /// Slots given back since the start; written by the reader.
    pub tail: u64,
    /// Unused.
    pub pad1: [u64; 15],
    /// `CAPTURE_*`; written by the control thread.
    pub mode: u32,
    /// Unused.
    pub pad2: [u32; 31],
}

const _: () = assert!(size_of::<Slot>() == 32, "keep in step with src/bpf/shared.h");
const _: () = assert!(size_of::<CaptureCpu>() == 3 * LINE, "keep in step with src/bpf/shared.h");
const _: () = assert!(std::mem::offset_of!(CaptureCpu, tail) == LINE, "the reader's line");
const _: () = assert!(std::mem::offset_of!(CaptureCpu, mode) == 2 * LINE, "the control line");
