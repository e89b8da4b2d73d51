//! The structures of `src/bpf/shared.h`, as Rust sees them.
//!
//! Same names without the `wr_` prefix, same order, same sizes; both sides check the sizes when they are
//! compiled. Values are in host order unless their name ends in `_be`.

use bytemuck::{Pod, Zeroable};

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

/// Ask the driver when each frame came (`WR_ASK_TIME`).
pub const ASK_TIME: u32 = 0x1;
/// Ask the driver for the tag that the hardware took off (`WR_ASK_VLAN`).
pub const ASK_VLAN: u32 = 0x2;

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
    /// Ethernet type of the tag that the hardware took off, where the flags say so; else 0.
    pub vlan_tpid: u16,
    /// The rest of that tag.
    pub vlan_tci: u16,
}

/// Counters and progress of one CPU. Shared with the kernel: read through atomics only.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CaptureCpu {
    /// Slots filled since the start. Frames received are `head + lost_ring + filtered`.
    pub head: u64,
    /// The tail when the XDP program last looked at it.
    pub tail_seen: u64,
    /// Frames not recorded because the ring was full.
    pub lost_ring: u64,
    /// `lost_ring` when the last record was written.
    pub lost_noted: u64,
    /// `frame_len` of all frames received, recorded or not.
    pub frame_bytes: u64,
    /// Frames that the filter did not accept.
    pub filtered: u64,
    /// Unused.
    pub pad0: [u64; 10],
    /// Slots given back since the start; written by the reader.
    pub tail: u64,
    /// Unused.
    pub pad1: [u64; 15],
    /// `CAPTURE_*`; written by the control thread.
    pub mode: u32,
    /// The device that the program is on; written before it gets there.
    pub ifindex: u32,
    /// Unused.
    pub pad2: [u32; 30],
}

const _: () = assert!(size_of::<Slot>() == 32, "keep in step with src/bpf/shared.h");
const _: () = assert!(size_of::<CaptureCpu>() == 3 * LINE, "keep in step with src/bpf/shared.h");
const _: () = assert!(std::mem::offset_of!(CaptureCpu, tail) == LINE, "the reader's line");
const _: () = assert!(std::mem::offset_of!(CaptureCpu, mode) == 2 * LINE, "the control line");

/// Longest header template in bytes (`WR_HEADER_MAX`).
pub const HEADER_MAX: usize = 144;
/// Entries of an internet mix (`WR_IMIX_MAX`).
pub const IMIX_MAX: usize = 20;
/// Entries of an MPLS stack (`WR_MPLS_MAX`).
pub const MPLS_MAX: usize = 16;

/// The field stays (`WR_WALK_FIXED`).
pub const WALK_FIXED: u32 = 0;
/// One further each time (`WR_WALK_COUNT`).
pub const WALK_COUNT: u32 = 1;
/// Drawn anew each time (`WR_WALK_RANDOM`).
pub const WALK_RANDOM: u32 = 2;

/// IPv6 instead of IPv4 (`WR_PLAN_IPV6`).
pub const PLAN_IPV6: u32 = 0x1;
/// The UDP checksum is filled in (`WR_PLAN_UDP_CHECKSUM`).
pub const PLAN_UDP_CHECKSUM: u32 = 0x2;
/// The pktgen header carries the time (`WR_PLAN_TIMESTAMP`).
pub const PLAN_TIMESTAMP: u32 = 0x4;
/// Into the receive path of the device instead of out of it (`WR_PLAN_RECEIVE`).
pub const PLAN_RECEIVE: u32 = 0x8;
/// Each built frame goes out more than once (`WR_PLAN_REPEATS`).
pub const PLAN_REPEATS: u32 = 0x10;
/// Destinations belong to flows (`WR_PLAN_FLOWS`).
pub const PLAN_FLOWS: u32 = 0x20;
/// Flows one after the other (`WR_PLAN_FLOW_SEQ`).
pub const PLAN_FLOW_SEQ: u32 = 0x40;
/// Sizes are drawn from a mix (`WR_PLAN_IMIX`).
pub const PLAN_IMIX: u32 = 0x80;
/// The source MAC moves (`WR_PLAN_SRC_MAC_MOVES`).
pub const PLAN_SRC_MAC_MOVES: u32 = 0x100;
/// The destination MAC moves (`WR_PLAN_DST_MAC_MOVES`).
pub const PLAN_DST_MAC_MOVES: u32 = 0x200;
/// Some labels are drawn (`WR_PLAN_MPLS_RANDOM`).
pub const PLAN_MPLS_RANDOM: u32 = 0x400;
/// The VLAN id is drawn (`WR_PLAN_VLAN_RANDOM`).
pub const PLAN_VLAN_RANDOM: u32 = 0x800;
/// The outer VLAN id is drawn (`WR_PLAN_SVLAN_RANDOM`).
pub const PLAN_SVLAN_RANDOM: u32 = 0x1000;
/// The IPv4 source moves (`WR_PLAN_SRC_MOVES`).
pub const PLAN_SRC_MOVES: u32 = 0x2000;
/// The destination address moves (`WR_PLAN_DST_MOVES`).
pub const PLAN_DST_MOVES: u32 = 0x4000;
/// The IPv4 destination is drawn (`WR_PLAN_DST_RANDOM`).
pub const PLAN_DST_RANDOM: u32 = 0x8000;
/// The UDP source port moves (`WR_PLAN_UDP_SRC_MOVES`).
pub const PLAN_UDP_SRC_MOVES: u32 = 0x10000;
/// The UDP destination port moves (`WR_PLAN_UDP_DST_MOVES`).
pub const PLAN_UDP_DST_MOVES: u32 = 0x20000;
/// The length differs from frame to frame (`WR_PLAN_SIZE_MOVES`).
pub const PLAN_SIZE_MOVES: u32 = 0x40000;
/// The queue moves (`WR_PLAN_QUEUE_MOVES`).
pub const PLAN_QUEUE_MOVES: u32 = 0x80000;
/// The queue is written into the skb (`WR_PLAN_QUEUE_MAPPED`).
pub const PLAN_QUEUE_MAPPED: u32 = 0x10_0000;

/// A field's walk and its range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Range {
    /// `WALK_*`.
    pub walk: u32,
    /// First or only value.
    pub min: u32,
    /// Last value or end, as the field has it.
    pub max: u32,
}

/// What each frame will be; numbers in host order, header bytes as sent. Field by field as in `shared.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
#[expect(missing_docs, reason = "shared.h and packet::Plan say what each field is")]
pub struct Plan {
    pub header: [u8; HEADER_MAX],
    pub header_len: u32,
    pub svlan_at: u32,
    pub vlan_at: u32,
    pub mpls_at: u32,
    pub ip_at: u32,
    pub udp_at: u32,
    pub stamp_at: u32,
    pub flags: u32,
    pub ifindex: u32,
    pub frame_len_max: u32,
    pub fixed_len: u32,
    pub repeats: u32,
    pub mpls_count: u32,
    pub mpls_random: u32,
    pub vlan_tci: u32,
    pub svlan_tci: u32,
    pub src_mac_offset: Range,
    pub dst_mac_offset: Range,
    pub udp_src: Range,
    pub udp_dst: Range,
    pub src_v4: Range,
    pub dst_v4: Range,
    pub frame_size: Range,
    pub queue: Range,
    pub queue_count: u32,
    pub flow_count: u32,
    pub flow_len: u32,
    pub imix_count: u32,
    pub imix_size: [u32; IMIX_MAX],
    pub imix_last: [u32; IMIX_MAX],
    pub dst_start: [u32; 3],
    pub dst_count: [u32; 3],
    pub dst_v6_set: [u32; 4],
    pub dst_v6_allowed: [u32; 4],
    pub ip_sum: u32,
    pub udp_sum: u32,
    pub src_mac: u64,
    pub dst_mac: u64,
}

/// One entry of the flow table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Flow {
    /// The destination that belongs to the flow while it is open.
    pub dst_v4: u32,
    /// Frames sent in it.
    pub count: u32,
    /// 1 from its first frame until it is closed.
    pub is_open: u32,
    /// Unused.
    pub pad: u32,
}

/// How far a run has come. Written by the program while it runs, by the worker between runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
#[expect(missing_docs, reason = "shared.h and packet::Cursor say what each field is")]
pub struct Cursor {
    pub rng: u64,
    pub offered: u64,
    pub frame_bytes: u64,
    pub malformed: u64,
    pub wall_offset_ns: u64,
    pub clock_every: u32,
    pub clock_left: u32,
    pub now_sec: u32,
    pub now_usec: u32,
    pub seq_num: u32,
    pub ip_id: u32,
    pub frame_size: u32,
    pub src_mac_offset: u32,
    pub dst_mac_offset: u32,
    pub src_v4: u32,
    pub dst_v4: u32,
    pub dst_v6: [u32; 4],
    pub udp_src: u32,
    pub udp_dst: u32,
    pub queue: u32,
    pub queue_started: u32,
    pub flow_index: u32,
    pub flows_started: u32,
    pub vlan_id: u32,
    pub svlan_id: u32,
    pub mpls: [u32; MPLS_MAX],
    pub repeats_left: u32,
    pub built_seq_num: u32,
    pub built_ip_id: u32,
    pub built_src_mac_offset: u32,
    pub built_dst_mac_offset: u32,
    pub built_sec: u32,
    pub built_usec: u32,
    pub imix_counts: [u64; IMIX_MAX],
}

/// One call of `skb.bpf.c`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct SkbRun {
    /// Frames that the call may still send; set by the worker.
    pub left: u32,
    /// Frames for one run of the program at most; set by the worker.
    pub turns: u32,
    /// `skb->queue_mapping` where the plan names no queue; set by the worker.
    pub queue_mapping: u32,
    /// 1 while the frame that the cursor stands at is still to be sent.
    pub is_kept: u32,
    /// 1 while the skb holds that frame; cleared by the worker.
    pub is_written: u32,
    /// Unused.
    pub pad: u32,
    /// Times that the device had no room.
    pub no_room: u64,
    /// Frames for which the queueing discipline dropped one.
    pub congested: u64,
    /// Negative errno that ended the call, 0 for none.
    pub last_error: i64,
}

/// Longest frame that the worker can write for a program to hand on (`WR_WRITTEN_MAX`).
pub const WRITTEN_MAX: usize = 3712;
/// Bytes from one frame of `written.bpf.c` to the next (`struct wr_written`).
pub const WRITTEN_LEN: usize = 8 + WRITTEN_MAX;

/// One call of `written.bpf.c`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct WrittenRun {
    /// Slot of the first frame; set by the worker.
    pub first: u32,
    /// Frames that the call may still send; set by the worker.
    pub left: u32,
    /// Frames for one run of the program at most; set by the worker.
    pub turns: u32,
    /// Frames that were taken; cleared by the worker.
    pub taken: u32,
    /// Frames of those for which the queueing discipline dropped one, this or another.
    pub congested: u64,
    /// Negative errno that ended the call, 0 for none or no room.
    pub last_error: i64,
}

/// Threads of one process that can send from XDP at a time (`WR_METERS_MAX`).
pub const METERS_MAX: usize = 1024;

/// What drivers said to the frames of one sending thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Meter {
    /// The thread, as `bpf_get_current_pid_tgid` has it.
    pub pid_tgid: u64,
    /// Frames accepted by the driver.
    pub sent: u64,
    /// Frames it had no room for.
    pub ring_full: u64,
    /// Frames of bulks that it refused whole, with an error.
    pub refused: u64,
    /// The last such error, negative.
    pub last_errno: i64,
    /// Bulks handed to it.
    pub bulks: u64,
    /// Unused.
    pub pad: [u64; 10],
}

/// What the sink dropped on one CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct SinkCpu {
    /// Frames.
    pub frames: u64,
    /// Their lengths in bytes, without FCS.
    pub frame_bytes: u64,
    /// Unused.
    pub pad0: [u64; 14],
}

const _: () = assert!(size_of::<SinkCpu>() == LINE, "keep in step with src/bpf/shared.h");
const _: () = assert!(size_of::<Plan>() == 560, "keep in step with src/bpf/shared.h");
const _: () = assert!(size_of::<Flow>() == 16, "keep in step with src/bpf/shared.h");
const _: () = assert!(size_of::<Cursor>() == 384, "keep in step with src/bpf/shared.h");
const _: () = assert!(size_of::<SkbRun>() == 48, "keep in step with src/bpf/shared.h");
const _: () = assert!(size_of::<WrittenRun>() == 32, "keep in step with src/bpf/shared.h");
const _: () = assert!(size_of::<Meter>() == LINE, "keep in step with src/bpf/shared.h");
