/* shared.h: the types that the BPF programs and the Rust side share.
 *
 * Fixed-width types, no pointers, no bitfields, padding spelled out. abi.bpf.c names every type
 * once, so that its BTF describes them all; the Rust types in crates/bpf/src/abi.rs are generated
 * from that BTF.
 */
#ifndef WR_SHARED_H
#define WR_SHARED_H

#include <linux/types.h>

enum wr_limit {
	/* Two cache lines: x86 fetches lines in pairs, so a word that another CPU writes is kept this far
	   away. */
	WR_LINE = 128,
	WR_IMIX_MAX = 20,
	/* Ranges of a field whose values come from several. */
	WR_POOLS = 3,
	/* Longest frame that fits into the page of a test run beside headroom and skb_shared_info. */
	WR_PREBUILT_MAX = 3712,
	/* Bytes of the template that are written for each frame (pktgen's longest headers are 158),
	   fields and steps of checksums of an only packet, states of the fields of all packets (a power
	   of two), and the bits of an offset in a frame. */
	WR_TEMPLATE_MAX = 160,
	WR_FIELDS_UNROLLED = 32,
	WR_SUM_OPS_UNROLLED = 48,
	WR_STATES_MAX = 4096,
	WR_OFFSET_MASK = 0xfff,
	/* Threads of one process that can send from XDP at a time. */
	WR_TX_SLOTS_MAX = 1024,
	/* Streams of one thread that share a program. */
	WR_SWITCH_MAX = 16384,
	/* replay.bpf.c: frames and bytes of the ring, a power of two; what must follow the start of a
	   frame in the ring; devices; buckets of lateness; fraction bits of the scale. */
	WR_REPLAY_RECORDS = 131072,
	WR_REPLAY_BYTES = 16777216,
	WR_REPLAY_LEN_MAX = 4096,
	WR_REPLAY_PORTS = 2,
	WR_REPLAY_OCTAVES = 40,
	WR_REPLAY_SCALE_BITS = 20,
	/* Readings of the clock while a frame waits: 2 ms and more. */
	WR_SPINS_MAX = 131072,
	/* Frames of one call that have times. */
	WR_DUE_TIMES_MAX = 128,
};

/* ---- capture ---- */

enum wr_capture_mode {
	WR_CAPTURE_MIRROR = 0, /* the stack receives a captured frame as well */
	WR_CAPTURE_DROP = 1,   /* it does not */
};

/* Bits of wr_record.kind. WR_RECORD is always set: the first half word of a block is 6. */
enum wr_record_kind {
	WR_RECORD = 0x8000,
	WR_RECORD_HARDWARE_TIME = 0x1, /* the time is the clock of the device, not CLOCK_MONOTONIC */
	WR_RECORD_VLAN = 0x2,	       /* the hardware removed a VLAN tag, which follows the frame */
	WR_RECORD_VERDICT = 0x4,       /* what an XDP program returned follows the frame */
};

/* Type of an Enhanced Packet Block of pcapng. */
enum wr_block_type {
	WR_BLOCK_TYPE = 6,
};

/* Bits of wr_metadata: what the program queries from the driver for each frame (bound programs
 * only). */
enum wr_metadata_flag {
	WR_METADATA_TIME = 0x1,
	WR_METADATA_VLAN = 0x2,
};

/* Head of a record of the ring. The first captured_len bytes of the frame follow, zeros up to a
 * multiple of 4, and a word: the removed VLAN tag (TPID in the upper half, TCI in the lower) or the
 * verdict of an XDP program, as the kind says; else 0. */
struct wr_record {
	__u16 kind; /* WR_RECORD_* */
	__u16 queue_index;
	__u32 size;	/* of the whole record; at the place where a block has its length */
	__u32 time_low; /* nanoseconds of CLOCK_MONOTONIC, or by the kind */
	__u32 time_high;
	__u32 captured_len; /* <= frame_len, <= snaplen */
	__u32 frame_len;    /* as seen by XDP, without FCS */
	__u32 lost_before;  /* frames of this CPU lost between the record before and this one */
};

/* Head of an Enhanced Packet Block; frame and zeros follow as in a record. */
struct wr_block {
	__u32 type; /* WR_BLOCK_TYPE */
	__u32 size;
	__u32 interface;
	__u32 time_high; /* nanoseconds since 1970 */
	__u32 time_low;
	__u32 captured_len;
	__u32 frame_len;
};
_Static_assert(sizeof(struct wr_record) == sizeof(struct wr_block), "the frame is at one place");

/* What follows the frame in a block: two options, the end of the options, and the length again. */
struct wr_block_tail {
	__u32 flags_option;
	__u32 flags;
	__u32 queue_option;
	__u32 queue;
	__u32 end;
	__u32 size;
};

/* One per CPU, with one line per writer: the XDP program of that CPU, the reader's progress, and
 * the settings, which hardly ever change and so stay in the cache of the CPU.
 */
struct wr_capture_cpu {
	/* Written by the XDP program. Frames received = captured + lost_ring + filtered. */
	__u64 head;	   /* place of the next record: bytes since the start, in whole segments */
	__u64 tail_seen;   /* tail at the last read */
	__u64 lost_ring;   /* frames not recorded because the ring was full */
	__u64 lost_noted;  /* lost_ring when the last record was written */
	__u64 frame_bytes; /* frame_len of all frames received, recorded or not */
	__u64 filtered;	   /* frames that the filter rejected */
	__u64 captured;	   /* records written; raised before head */
	__u64 pad0[9];
	/* Written by the reader. */
	__u64 tail; /* place of the first record that is not released, as head has it */
	__u64 pad1[15];
	/* Written by the control thread, the offset by the reader. */
	__u64 utc_offset_ns; /* CLOCK_REALTIME - CLOCK_MONOTONIC, for blocks */
	__u32 mode;	     /* WR_CAPTURE_* */
	__u32 pad2[29];
};
_Static_assert(sizeof(struct wr_capture_cpu) == 3 * WR_LINE, "three lines");
_Static_assert(__builtin_offsetof(struct wr_capture_cpu, tail) == WR_LINE, "reader's line");
_Static_assert(__builtin_offsetof(struct wr_capture_cpu, utc_offset_ns) == 2 * WR_LINE, "control line");

/* ---- send ---- */

/* Bits of wr_plan.flags. */
enum wr_plan_flag {
	WR_PLAN_RECEIVE = 0x1,	    /* into the receive path of the device */
	WR_PLAN_RANDOM_ORDER = 0x2, /* the next packet is any, not the next in order */
	WR_PLAN_IN_MAPS = 0x4,	    /* packets, fields and ops are in maps */
	WR_PLAN_TIME = 0x8,	    /* a field has CLOCK_MONOTONIC */
	WR_PLAN_WALL_TIME = 0x10,   /* a field has the time of day */
	WR_PLAN_REPEATS = 0x20,	    /* frames are repeated, or the first frame is a repetition */
	WR_PLAN_FLOWS = 0x40,	    /* there is a flow table */
	WR_PLAN_FLOW_SEQ = 0x80,    /* its flows come one after the other */
	WR_PLAN_SIZE_MOVES = 0x100, /* a field has the size */
	WR_PLAN_FULL_SIGNATURE = 0x200,
	WR_PLAN_QUEUE_MOVES = 0x400,
	WR_PLAN_QUEUE_RANDOM = 0x800,
	WR_PLAN_QUEUE_MAPPED = 0x1000, /* skb only: the queue is written into the skb */
	WR_PLAN_HOLDS = 0x2000,	       /* fields keep values for several frames, or flows are in rows */
};

/* Where the values of a field come from: packet::plan::FieldMode. */
enum wr_field_mode {
	WR_FIELD_UP = 0,
	WR_FIELD_DOWN = 1,
	WR_FIELD_RANDOM = 2, /* max: size of the range, 0 for 2^64 */
	WR_FIELD_VALUES = 3, /* step: index of the value after the last one */
	WR_FIELD_NUMBER = 4, /* of the frame in the run */
	WR_FIELD_TIME = 5,   /* CLOCK_MONOTONIC in nanoseconds */
	WR_FIELD_KEPT = 6,
	WR_FIELD_STEP = 7,
	WR_FIELD_OFFSET = 8,	    /* min: base, max: count */
	WR_FIELD_RANDOM_OFFSET = 9, /* as WR_FIELD_OFFSET */
	WR_FIELD_BITS = 10,	    /* min: bits set, max: bits allowed, step: 64 bits are drawn */
	WR_FIELD_POOLS = 11,	    /* of the plan */
	WR_FIELD_MIX = 12,	    /* of the plan */
	WR_FIELD_LENGTH = 13,	    /* min: added to the length of the payload */
	WR_FIELD_SEQUENCE = 14,
	WR_FIELD_WALL_SECONDS = 15,
	WR_FIELD_WALL_MICROS = 16,
	WR_FIELD_WALL_NANOS = 17, /* min: bits above them */
	WR_FIELD_FLOW = 18,
	WR_FIELD_FLOW_NUMBER = 19,
	WR_FIELD_ENTROPY = 20, /* min: added, step: shift of the mixed values */
};

/* wr_field.kind: the mode, and what else a program has to know of a field. */
enum wr_field_kind {
	WR_KIND_MODE = 0xff,	 /* WR_FIELD_* */
	WR_KIND_WIDTH_SHIFT = 8, /* bytes, 0 to 8; 0 for a value that is not written */
	WR_KIND_BITS = 0x1000,	 /* not all bits of the bytes are written, or they are 1, 3 or 7 */
	WR_KIND_SIZE = 0x2000,	 /* its value is the size of the frame */
	WR_KIND_FLOW = 0x4000,	 /* frames of a flow have the same value */
	WR_KIND_KEY = 0x8000,	 /* WR_FIELD_ENTROPY depends on its value */
	WR_KIND_HOLD = 0x10000,	 /* it keeps each value for several frames */
};
#define WR_KIND_SPECIAL (WR_KIND_SIZE | WR_KIND_FLOW | WR_KIND_KEY | WR_KIND_HOLD)
#define WR_KIND_FORM (WR_KIND_WIDTH(15) | WR_KIND_BITS)
#define WR_KIND_WIDTH(bytes) ((bytes) << WR_KIND_WIDTH_SHIFT)

/* packet::plan::Field. */
struct wr_field {
	__u64 mask; /* the bits that are written, of a big-endian number of its width */
	__u64 min;
	__u64 max;
	__u64 step;
	__u64 wrap; /* subtracted from a value above max */
	__u32 kind; /* WR_KIND_* */
	__u32 offset;
	__u32 shift;
	__u32 values_at; /* place in wr_values */
	__u32 values_count;
	__u32 hold; /* frames with one value, if WR_KIND_HOLD */
};

/* Bits of wr_sum_op.kind: adds bytes to the current checksum, or writes it and starts the next. */
enum wr_sum_kind {
	WR_SUM_WORD = 0x1, /* four bytes are added; one without this and WR_SUM_HALF */
	WR_SUM_HALF = 0x2, /* two bytes */
	WR_SUM_BITS = 0x4, /* not all of their bits */
	WR_SUM_ODD = 0x8,
	WR_SUM_WRITE = 0x10,
	WR_SUM_UDP = 0x20, /* 0 is written as 0xffff */
};

/* One step of the checksums of a packet. */
struct wr_sum_op {
	__u32 kind; /* WR_SUM_* */
	__u32 offset;
	__u32 mask; /* the bits that are added, in the order of memory */
	__u32 base; /* sum of the constant part, in the order of memory */
};

/* One of the packets in maps. */
struct wr_packet {
	__u32 frame_len;
	__u32 field_first;
	__u32 field_count;
	__u32 op_first;
	__u32 op_count;
	__u32 state_first; /* the same in packets that share their states */
	__u8 bytes[WR_PREBUILT_MAX];
};

/* packet::Plan. Read-only once loaded; the programs are specialized for it. The template, fields
 * and ops are those of the only packet, unless WR_PLAN_IN_MAPS. */
struct wr_plan {
	__u8 template[WR_TEMPLATE_MAX];
	__u32 template_len; /* bytes that each frame gets anew */
	__u32 touched_len;  /* end of all bytes that are written */
	__u32 frame_len_max;
	__u32 ifindex;
	__u32 flags; /* WR_PLAN_* */
	__u32 packet_count;
	__u32 field_count;
	__u32 op_count;
	__u32 repeats;	   /* times each built frame is sent */
	__u32 headers_len; /* bytes in front of the payload, if sizes move */
	__u32 fixed_len;   /* part of a size that is not payload */
	__u32 payload_min;
	__u32 size_field; /* index of the field with the size */
	__u32 queue_min;
	__u32 queue_max;
	__u32 queue_count;
	__u32 flow_count;
	__u32 flow_len;
	__u32 signature_flows; /* flows in turn, if there is no flow table */
	__u32 signature_flow_first;
	__u32 signature_flow_len; /* frames of such a flow in a row, if WR_PLAN_HOLDS */
	__u32 imix_count;
	__u32 imix_size[WR_IMIX_MAX];
	__u32 imix_last[WR_IMIX_MAX];
	__u32 pool_start[WR_POOLS];
	__u32 pool_count[WR_POOLS];
	struct wr_field fields[WR_FIELDS_UNROLLED];
	struct wr_sum_op ops[WR_SUM_OPS_UNROLLED];
};

/* One entry of the flow table. */
struct wr_flow {
	__u64 value;  /* of the field with WR_KIND_FLOW */
	__u64 number; /* of its next frame, for full signatures */
	__u32 count;
	__u32 is_open;
};

/* State of a field, and its value in the last frame built. */
struct wr_field_state {
	__u64 state;
	__u64 value;
};

/* The states of the fields of all packets. */
struct wr_field_states {
	struct wr_field_state of[WR_STATES_MAX];
};

/* Progress of a run: packet::Cursor. Written by the program while it runs, by the worker between
 * calls. */
struct wr_cursor {
	__u64 rng;
	__u64 offered;	      /* frames passed to the redirect or to the stack since load */
	__u64 frame_bytes;    /* their lengths, if lengths vary */
	__u64 malformed;      /* frames whose memory was too short; never sent */
	__u64 wall_offset_ns; /* wall clock minus CLOCK_MONOTONIC */
	__u64 number;	      /* of the next frame built */
	__u64 round;	      /* number of the first frame of the row in flow `slot` */
	__u64 now_ns;	      /* CLOCK_MONOTONIC, as last read */
	__u32 clock_every;    /* frames per clock reading */
	__u32 clock_left;     /* frames until the next clock reading */
	__u32 now_sec;	      /* the same as time of day */
	__u32 now_usec;
	__u32 now_nsec;
	__u32 seq_num;
	__u32 packet; /* of the last frame built */
	__u32 next_packet;
	__u32 queue;
	__u32 queue_started;
	__u32 flow_index;
	__u32 flows_started;
	__u32 repeats_left;
	__u32 slot;   /* flow of the next frame without flow table */
	__u32 in_row; /* frames of that flow in a row before it */
	__u32 pad;
	__u64 imix_counts[WR_IMIX_MAX];
};

/* stream_switch.bpf.c: the stream of one call. */
struct wr_stream_choice {
	__u32 stream; /* place of its program; set by the worker */
	__u32 missed; /* frames for which there was no program; never sent */
};

/* What a device or queueing discipline returns (linux/netdevice.h); a receive path returns 0 or 1.
 */
#define NET_XMIT_DROP 1
#define NET_XMIT_CN 2

/* skb.bpf.c: one call of the program, from the worker and back. */
struct wr_skb_run {
	__u32 left;	     /* frames left to send in this call; set by the worker */
	__u32 batch;	     /* frames per program run; set by the worker */
	__u32 queue_mapping; /* skb->queue_mapping if the plan has no queue; set by the worker */
	__u32 is_kept;	     /* the frame of the cursor is built and not sent */
	__u32 is_written;    /* the skb holds that frame; cleared by the worker for each call */
	__u32 pad;
	__u64 device_full; /* times the device was full; the frame was kept */
	__u64 congested;   /* frames for which the qdisc dropped this or another frame */
	__s64 last_error;  /* negative errno that ended the call, or 0; the frame was kept */
};

/* A frame built by the worker. */
struct wr_prebuilt {
	__u32 frame_len;
	__u32 queue_mapping; /* skb->queue_mapping: queue + 1, or 0 to let the stack choose */
	__u8 frame[WR_PREBUILT_MAX];
};

/* prebuilt.bpf.c: one call of the program, from the worker and back. */
struct wr_prebuilt_run {
	__u32 first;	  /* slot of the first frame; set by the worker */
	__u32 left;	  /* frames left to send in this call; set by the worker */
	__u32 batch;	  /* frames per program run; set by the worker */
	__u32 taken;	  /* accepted frames; cleared by the worker */
	__u64 congested;  /* accepted frames for which the qdisc dropped this or another frame */
	__s64 last_error; /* negative errno that ended the call; 0 for none or a full device */
};

/* One per sending thread: what drivers did with its frames. Written by the tracepoint. */
struct wr_tx_stats {
	__u64 pid_tgid;	  /* the thread, by bpf_get_current_pid_tgid */
	__u64 sent;	  /* accepted by the driver */
	__u64 ring_full;  /* rejected because the ring was full */
	__u64 refused;	  /* in bulks rejected with an error */
	__s64 last_errno; /* of the last rejected bulk, negative */
	__u64 bulks;
	__u64 pad[10];
};
_Static_assert(sizeof(struct wr_tx_stats) == WR_LINE, "one line");

/* ---- replay ---- */

/* One frame of the ring. Written by the worker before the program may read it. */
struct wr_replay_record {
	__u32 offset;	 /* of its bytes */
	__u16 frame_len; /* 1 to WR_REPLAY_LEN_MAX */
	__u16 port;	 /* entry of the device map */
	__u64 due_ns;	 /* a time of the run, see struct wr_replay_state */
};

/* Progress of the program. */
struct wr_replay_state {
	__u64 next;		       /* number of the next frame, from 0 on */
	__u32 place;		       /* its record, unless it is loop_len */
	__u32 loop_len;		       /* records after which the program begins again */
	__u64 due_ns;		       /* frames with this time are due */
	__u64 clock_ns;		       /* at this one of CLOCK_MONOTONIC; set by the worker */
	__u64 scale;		       /* nanoseconds of the clock for 2^-WR_REPLAY_SCALE_BITS later ones */
	__u64 frame_bytes;	       /* of all frames */
	__u64 second_port;	       /* frames for port 1 */
	__u64 malformed;	       /* records that the program cannot send */
	__u64 late[WR_REPLAY_OCTAVES]; /* frames that left later than due by less than 2^N ns */
};

/* ---- due times ---- */

/* Times of CLOCK_MONOTONIC for the next frames of a program that builds the frames of a plan. */
struct wr_due_times {
	__u32 count;			 /* frames with a time, set by the worker; 0 for none */
	__u32 next;			 /* the next of them; set to 0 by the worker */
	__u64 due_ns[WR_DUE_TIMES_MAX];	 /* set by the worker */
	__u64 sent_ns[WR_DUE_TIMES_MAX]; /* the end of the wait, set by the program */
};

/* ---- sink ---- */

/* One per CPU, written by the XDP program on it. */
struct wr_sink_cpu {
	__u64 frames;
	__u64 frame_bytes; /* their lengths, without FCS */
	__u64 filtered;	   /* frames that the filter rejected; not among frames */
	__u64 pad0[13];
};
_Static_assert(sizeof(struct wr_sink_cpu) == WR_LINE, "one line");

/* ---- receive ---- */

enum wr_receive_limit {
	WR_STREAMS_MAX = 64,	  /* sending threads that can be told apart */
	WR_WINDOW_LEN = 64,	  /* numbers in the window of a flow */
	WR_HISTOGRAM_LEN = 3840,  /* HdrHistogram, 2 digits, up to 2^36 ns */
	WR_WIDE_WINDOW_LEN = 960, /* numbers that a wide window always has */
	WR_WIDE_WORDS = 16,
	WR_HISTOGRAM_BITS = 7,		/* 2^7 buckets for each power of two */
	WR_COUNTED_UP_AT = 46,		/* the number in a frame of a benchmark: UDP over IPv4 */
	WR_ANY_RUN = 0x10000,		/* wr_receive_control.run: frames of every run count */
	WR_DIFFERENCE_MAX = 0x0fffffff, /* longest difference in wr_flow_line.jitter16 */
	WR_TAG_PARTS = 4,		/* tracked parts of a frame: measure::TAG_PARTS */
	WR_TAG_VALUES = 65536,		/* values of all flows that a receiver counts */
};

/* One per flow: measure::FlowLine. Written by the program. */
struct wr_flow_line {
	__u64 high;	  /* highest number + 1; 0 before the first frame */
	__u64 window;	  /* bit i: number high - 1 - i was received */
	__u64 unique_cpu; /* first copies (47 bits), 1 if the last was reordered, its CPU (16 bits) */
	__u64 latency_sum_ns;
	__u32 duplicate;
	__u32 reordered;
	__u32 too_old;
	__u32 stamped;
	__u32 jitter16;	  /* RFC 3550, in 1/16 ns */
	__u32 transit_ns; /* latency of the last stamped frame modulo 2^32 */
	__u32 latency_min_inverted;
	__u32 latency_max_ns;
};
_Static_assert(sizeof(struct wr_flow_line) == 64, "one cache line");

/* One per flow, if requested: measure::WideWindow. Number n is bit n % 64 of word n / 64 % 16. */
struct wr_wide_window {
	__u64 words[WR_WIDE_WORDS];
};

/* One per flow, if asked for: measure::FlowDetail. Of all frames, duplicates included. */
struct wr_flow_detail {
	__u64 frame_bytes; /* their lengths, without FCS */
	__u64 first_ns;	   /* CLOCK_MONOTONIC; 0 before the first frame */
	__u64 last_ns;
	__u64 pad;
};

/* One per flow, and one for all frames: the parts of a frame whose values are counted, up to the
 * first of length 0. measure::TagPart. */
struct wr_tag_rule {
	/* Bits 0 to 15: first byte; 16 to 23: bytes, at most 5; 24 to 31: bits that are shifted out of
	 * 8 bytes in network order; 32 to 63: mask of the value. */
	__u64 parts[WR_TAG_PARTS];
};

/* A flow and values of its parts. */
struct wr_tag_key {
	__u32 line; /* that of the flow, or the number of lines for all frames */
	__u32 values[WR_TAG_PARTS];
};

/* One per key and CPU: measure::TagCounts. */
struct wr_tag_counts {
	__u64 frames; /* duplicates included */
	__u64 frame_bytes;
	__u64 first_ns; /* CLOCK_MONOTONIC */
	__u64 last_ns;
	__u64 stamped;
	__u64 latency_sum_ns;
	__u64 latency_min_inverted;
	__u64 latency_max_ns;
};

/* One per CPU: measure::Totals. Written by the program on that CPU. */
struct wr_receive_cpu {
	__u64 frames;
	__u64 frame_bytes;
	__u64 received;
	__u64 stale;
	__u64 foreign;
	__u64 damaged;
	__u64 stamped;
	__u64 negative;
	__u64 moves;
	__u64 with_flow;
	__u64 ipdv_min_inverted;
	__u64 ipdv_max;
	__u64 front_at;	 /* where the signature of the last frame started */
	__u64 after_gap; /* highest number of a frame that came before its predecessor; 0 is none */
	__u64 latency_min_inverted; /* with its sign; of a reflector */
	__u64 late;		    /* first copies with a latency above the deadline */
	__u64 hardware_time;	    /* of stamped: those with the time of the device */
	__u64 held_max;		    /* most frames held by a reordered one */
	__u64 icmp_errors;	    /* that quote a frame with a signature */
	__u64 icmp_error_kind;	    /* of the last one: IP version, type and code, 8 bits each */
	__u64 icmp_error_from[2];   /* its source address */
	__u64 received_bytes;	    /* of received */
	__u64 pad0[9];
	__u64 held[WR_WINDOW_LEN]; /* the last one has all above, too */
	__u64 lowest_inverted[WR_STREAMS_MAX];
};
_Static_assert(sizeof(struct wr_receive_cpu) == 10 * WR_LINE, "whole lines");

/* CLOCK_MONOTONIC as a function of the clock of the device. */
struct wr_clock_line {
	__u64 at_ns;	 /* a time of the device */
	__u64 offset_ns; /* CLOCK_MONOTONIC minus the clock of the device, then */
	__s64 drift;	 /* how much more that is with each nanosecond, in units of 2^-32 */
};

/* Written by user space; stream_at also by the program. */
struct wr_receive_control {
	__u64 wall_offset_ns; /* wall clock minus CLOCK_MONOTONIC */
	__u64 test_time_ns;   /* the time of a program with a test clock */
	__u32 run;
	__u32 stamp_shift;	/* one in 2^n frames has a time stamp */
	__u64 end_sent;		/* announced by the sender; written by the program */
	__u64 end_count;	/* end frames */
	__u64 deadline_ns;	/* a first copy with a longer latency is late */
	__u64 test_hardware_ns; /* time of the device, of a program with a test clock; 0 is none */
	__u64 clock_line;	/* the line in force, modulo 2: user space writes the other one */
	struct wr_clock_line clock_lines[2];
	__u64 pad0[2];
	__u64 stream_at[WR_STREAMS_MAX]; /* a recent number of each stream, in 64 bits */
};

/* One per CPU: latencies by bucket. */
struct wr_histogram {
	__u64 count[WR_HISTOGRAM_LEN];
};

/* ---- reflector ---- */

/* Written by the programs of reflect.bpf.c. */
struct wr_reflect_counts {
	__u64 not_sent; /* frames that the driver did not send back */
};

/* ---- fault box, for tests ---- */

/* Faults of fault.bpf.c; 0 is none. */
struct wr_faults {
	__u32 lose_every;   /* every Nth frame */
	__u32 lose_above;   /* frames with higher numbers */
	__u32 lose_share;   /* at random: of 2^32 */
	__u32 swap_every;   /* of every Nth pair of numbers */
	__u32 repeat_every; /* frames whose number is a multiple of it become copies of the one before */
	__u32 shift_every;  /* frames whose number is a multiple of it */
	__u32 shift_usec;   /* taken off their time */
	__u32 bucket_pps;   /* token bucket: frames a second, 0 for none */
	__u32 bucket_depth; /* frames that pass at once */
	__u32 hold_usec;    /* time without forwarding after the last frame above the rate */
	__u32 clock_pps;    /* time by the number of each frame, at this rate; 0 for the real time */
	__u32 clone_every;  /* every Nth frame leaves twice; no other fault then */
};

/* Written by the program. */
struct wr_fault_counts {
	__u64 received;
	__u64 lost;
	__u64 swapped;
	__u64 repeated;
	__u64 shifted;
	__u64 forwarded;
	__u64 last_lost; /* number of the frame that was lost last */
	__u64 cloned;
	__u64 full_at_ns;   /* own state: the bucket is full again */
	__u64 hold_till_ns; /* own state */
};

#endif
