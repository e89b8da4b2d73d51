#ifndef WR_CAPTURE_RING_H
#define WR_CAPTURE_RING_H

/* capture_ring.h: the rings of a capture, one for each CPU, and how a record gets its place there.
 *
 * A ring has one producer (the softirq of its CPU) and one consumer (a reader in user space that
 * maps ring and counters).
 *
 * Records lie back to back in segments. A record that begins in a segment ends in it: what exceeds
 * the segment lies in the spare bytes behind it, and the next record begins the next segment. So a
 * reader gets whole records in large pieces, and no record is split where the ring begins again.
 */
#include "shared.h"
#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>

/* Set before load. */
const volatile __u32 wr_snaplen = 96;
const volatile __u32 wr_segments = 1;	   /* segments of one CPU's ring, a power of two */
const volatile __u32 wr_segment_bits = 12; /* bytes of a segment as a power of two */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* one for each possible CPU */
	__type(key, __u32);
	__type(value, struct wr_capture_cpu);
} wr_capture_cpus SEC(".maps");

/* All rings: segment i of CPU c is entry c * wr_segments + i. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, 4096 + 256); /* a segment and the bytes of one record */
} wr_capture_rings SEC(".maps");

#define read_once(place) (*(const volatile typeof(place) *)&(place))

/* Makes a record visible to the reader, after all bytes of it. */
static __always_inline void publish(__u64 *head, __u64 next)
{
#if defined(__TARGET_ARCH_x86) || defined(__TARGET_ARCH_s390)
	/* Stores become visible in order here, so a compiler barrier is enough. */
	barrier();
	*(volatile __u64 *)head = next;
#else
	/* clang 14 has no release store for BPF; an atomic with a result is a full barrier. */
	__sync_lock_test_and_set(head, next);
#endif
}

/* Where a record is written. */
struct place {
	__u8 *record; /* at least the head, snaplen bytes and the tail may be written here */
	__u32 size;   /* of the record */
	__u64 next;   /* head when the record is complete */
};

/* Finds the bytes for a record in the ring of this CPU; false when the ring is full. */
static __always_inline bool reserve(struct wr_capture_cpu *own, __u32 cpu, struct place *place)
{
	__u64 segment_bytes = 1ull << wr_segment_bits, ring_bytes = segment_bytes * wr_segments;
	__u64 head = own->head, offset = head & (segment_bytes - 4);
	__u32 index = cpu * wr_segments + ((__u32)(head >> wr_segment_bits) & (wr_segments - 1));
	__u8 *segment;

	if (head + place->size - own->tail_seen > ring_bytes) {
		own->tail_seen = read_once(own->tail);
		if (head + place->size - own->tail_seen > ring_bytes)
			return false;
	}
	/* No entry: a CPU that came up after the capture started. */
	segment = bpf_map_lookup_elem(&wr_capture_rings, &index);
	if (!segment)
		return false;
	place->next =
	    offset + place->size < segment_bytes ? head + place->size : head - offset + segment_bytes;
	barrier_var(offset);
	if (offset >= segment_bytes)
		return false; /* cannot happen; the verifier of Linux 6.1 needs it */
	place->record = segment + offset;
	return true;
}

/* What is known of a frame. */
struct facts {
	__u64 time_ns;
	__u32 frame_len;
	__u32 captured_len;
	__u32 queue_index;
	__u32 more; /* what follows the frame in a record, by its kind */
	__u16 kind; /* WR_RECORD_* */
};

static __always_inline void write_record(__u8 *bytes, __u8 *tail, __u32 size, __u32 lost_before,
					 const struct facts *facts)
{
	struct wr_record *record = (struct wr_record *)bytes;

	record->kind = WR_RECORD | facts->kind;
	record->queue_index = facts->queue_index;
	record->size = size;
	record->time_low = facts->time_ns;
	record->time_high = facts->time_ns >> 32;
	record->captured_len = facts->captured_len;
	record->frame_len = facts->frame_len;
	record->lost_before = lost_before;
	*(__u32 *)tail = facts->more;
}

#endif
