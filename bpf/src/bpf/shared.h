/* shared.h: the only words both the kernel side and the Rust side speak.
 *
 * Fixed-width types, no pointers, no bitfields, padding spelled out. Every structure here has a twin of the
 * same name (without the prefix, in CamelCase) in bpf/src/abi.rs, and both sides check its size.
 */
#ifndef WR_SHARED_H
#define WR_SHARED_H

#include <linux/types.h>

/* Two cache lines: x86 fetches lines in pairs, so a word that another CPU writes is kept this far away. */
#define WR_LINE 128

/* ---- capture ---------------------------------------------------------------------------------------- */

/* What becomes of a captured frame. */
#define WR_CAPTURE_MIRROR 0 /* the stack gets it as well */
#define WR_CAPTURE_DROP 1   /* it ends here */

/* Flags of a slot. */
#define WR_SLOT_HARDWARE_TIME 0x1 /* time_ns is the clock of the device, not CLOCK_MONOTONIC */
#define WR_SLOT_VLAN 0x2	  /* the hardware took a VLAN tag off; vlan_* hold it */

/* Head of a ring slot; the first captured_len bytes of the frame follow. */
struct wr_slot {
	__u64 time_ns;	    /* CLOCK_MONOTONIC, or as the flags say */
	__u32 frame_len;    /* as seen by XDP, without FCS */
	__u32 captured_len; /* <= frame_len, <= snaplen */
	__u32 ifindex;	    /* in the device's network namespace */
	__u16 queue_index;
	__u16 flags;	   /* WR_SLOT_* */
	__u32 lost_before; /* frames of this CPU lost between the record before and this one */
	__u16 vlan_tci;
	__be16 vlan_proto;
};
_Static_assert(sizeof(struct wr_slot) == 32, "keep in step with bpf/src/abi.rs");

/* One for each CPU. Three writers' worth of lines: the XDP program on that CPU, the reader's progress, and
 * the reader's wishes, which hardly ever change and so stay in the cache of the CPU.
 */
struct wr_capture_cpu {
	/* Written by the XDP program. Frames received = head + lost_ring. */
	__u64 head;	   /* slots filled since the start; slot of one is number % slots */
	__u64 tail_seen;   /* the tail when it was last looked at */
	__u64 lost_ring;   /* frames not recorded because the ring was full */
	__u64 lost_noted;  /* lost_ring when the last record was written */
	__u64 frame_bytes; /* frame_len of all frames received, recorded or not */
	__u64 pad0[11];
	/* Written by the reader. */
	__u64 tail; /* slots given back since the start */
	__u64 pad1[15];
	/* Written by the control thread. */
	__u32 mode; /* WR_CAPTURE_* */
	__u32 pad2[31];
};
_Static_assert(sizeof(struct wr_capture_cpu) == 3 * WR_LINE, "keep in step with bpf/src/abi.rs");
_Static_assert(__builtin_offsetof(struct wr_capture_cpu, tail) == WR_LINE, "reader's line");
_Static_assert(__builtin_offsetof(struct wr_capture_cpu, mode) == 2 * WR_LINE, "control line");

#endif
