/* capture.bpf.c: copies time, length and the first bytes of each frame into the ring of this CPU.
 *
 * A ring has one producer (the softirq of its CPU) and one consumer (a reader in user space that
 * maps ring and counters). The verdict is always the configured one, and every frame is counted.
 */
#include "shared.h"
#include <linux/bpf.h>
#include <stdbool.h>
#include <stddef.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

/* Set before load. */
const volatile __u32 wr_snaplen = 96;
const volatile __u32 wr_ring_slots = 1; /* slots of one CPU's ring, a power of two */
const volatile bool wr_is_filtered = false;

const volatile __u32 wr_metadata = 0; /* WR_METADATA_*; only used by programs bound to a device */

/* Linux 6.3 and 6.8. The verifier accepts them in device-bound programs only; the driver implements
 * them. */
extern int bpf_xdp_metadata_rx_timestamp(const struct xdp_md *ctx, __u64 *timestamp) __ksym __weak;
extern int bpf_xdp_metadata_rx_vlan_tag(const struct xdp_md *ctx, __be16 *vlan_proto,
					__u16 *vlan_tci) __ksym __weak;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* one for each possible CPU */
	__type(key, __u32);
	__type(value, struct wr_capture_cpu);
} wr_capture_cpus SEC(".maps");

/* All rings: slot i of CPU c is entry c * wr_ring_slots + i. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, 128); /* head and snaplen bytes, rounded up */
} wr_capture_rings SEC(".maps");

#define read_once(place) (*(const volatile typeof(place) *)&(place))

/* Makes a filled slot visible to the reader, after all bytes of it. */
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

/* 32 bytes in four unaligned loads. */
static __always_inline void copy_32(__u8 *to, const __u8 *from)
{
	__u64 a = ((const __u64 *)from)[0], b = ((const __u64 *)from)[1];
	__u64 c = ((const __u64 *)from)[2], d = ((const __u64 *)from)[3];

	((__u64 *)to)[0] = a;
	((__u64 *)to)[1] = b;
	((__u64 *)to)[2] = c;
	((__u64 *)to)[3] = d;
}

#define WR_COPY_MAX 96 /* longest copy by load and store; the helper is as fast for longer ones */

/* Copies len bytes (32 to WR_COPY_MAX) of the linear part: chunks of 32 from the front, and one at
 * the end that overlaps them. False when the linear part is shorter. */
static __always_inline bool copy_linear(struct xdp_md *ctx, __u8 *to, __u64 len)
{
	const __u8 *data = (const __u8 *)(long)ctx->data;
	const __u8 *data_end = (const __u8 *)(long)ctx->data_end;
	__u64 back = len - 32;
	const __u8 *last;

	if (len >= 64) {
		if (data + 64 > data_end)
			return false;
		copy_32(to, data);
		copy_32(to + 32, data + 32);
	} else {
		if (data + 32 > data_end)
			return false;
		copy_32(to, data);
	}
	barrier_var(back); /* clang would remove the check below, which the verifier needs */
	if (back > WR_COPY_MAX - 32)
		return false;
	last = data + back;
	if (last + 32 > data_end)
		return false;
	copy_32(to + back, last);
	return true;
}

static __always_inline bool copy_frame(struct xdp_md *ctx, __u8 *to, __u64 len)
{
	if (len >= 32 && len <= WR_COPY_MAX && wr_snaplen >= WR_COPY_MAX && copy_linear(ctx, to, len))
		return true;
	/* One comparison for "not 0 and not too long": the verifier of Linux 6.1 infers both bounds. */
	len--;
	barrier_var(len);
	if (len >= wr_snaplen)
		return false;
	return bpf_xdp_load_bytes(ctx, 0, to, len + 1) == 0;
}

/* The next free slot of this CPU's ring, or NULL when the ring is full. */
static __always_inline struct wr_slot *next_slot(struct wr_capture_cpu *own, __u32 cpu)
{
	__u64 head = own->head;
	__u32 index = cpu * wr_ring_slots + ((__u32)head & (wr_ring_slots - 1));

	if (head - own->tail_seen >= wr_ring_slots) {
		own->tail_seen = read_once(own->tail);
		if (head - own->tail_seen >= wr_ring_slots)
			return NULL;
	}
	/* No entry: a CPU that came up after the capture started. */
	return bpf_map_lookup_elem(&wr_capture_rings, &index);
}

/* Bytes of the frame that the filter keeps, 0 for a rejected frame. The loader replaces this
 * function, which must be the last of the program, by the translated filter; it finds it by the
 * constant (bpf/src/filter.rs). */
static __noinline __u32 wr_filter(struct xdp_md *ctx)
{
	__u64 kept;

	asm volatile("%0 = 0x77726662" : "=r"(kept) : "r"(ctx));
	return kept;
}

/* Hardware timestamp by the clock of the device; 0 if there is none. veth returns 0 for every
 * frame. */
static __always_inline __u64 hardware_time_ns(struct xdp_md *ctx)
{
	__u64 time_ns = 0;

	if (!(wr_metadata & WR_METADATA_TIME) || !bpf_ksym_exists(bpf_xdp_metadata_rx_timestamp))
		return 0;
	if (bpf_xdp_metadata_rx_timestamp(ctx, &time_ns))
		return 0;
	return time_ns;
}

/* The VLAN tag that the device removed; the reader inserts it again. */
static __always_inline void record_vlan(struct xdp_md *ctx, struct wr_slot *slot)
{
	__be16 tpid = 0;
	__u16 tci = 0;

	if (!(wr_metadata & WR_METADATA_VLAN) || !bpf_ksym_exists(bpf_xdp_metadata_rx_vlan_tag))
		return;
	if (bpf_xdp_metadata_rx_vlan_tag(ctx, &tpid, &tci))
		return;
	slot->flags |= WR_SLOT_VLAN;
	slot->vlan_tpid = bpf_ntohs(tpid);
	slot->vlan_tci = tci;
}

/* is_bound: the program may read metadata from the driver. */
static __always_inline int capture(struct xdp_md *ctx, __u64 frame_len, bool is_bound)
{
	__u64 len = frame_len < wr_snaplen ? frame_len : wr_snaplen;
	__u32 cpu = bpf_get_smp_processor_id();
	struct wr_capture_cpu *own;
	int verdict = XDP_PASS; /* on any failure the host gets the frame */
	struct wr_slot *slot;
	__u64 time_ns;

	own = bpf_map_lookup_elem(&wr_capture_cpus, &cpu);
	if (!own)
		goto out; /* cannot happen: there is one per possible CPU */
	own->frame_bytes += frame_len;
	if (wr_is_filtered && !wr_filter(ctx)) {
		own->filtered++; /* the host gets rejected frames in drop mode, too */
		goto out;
	}
	if (read_once(own->mode) == WR_CAPTURE_DROP)
		verdict = XDP_DROP;
	slot = next_slot(own, cpu);
	if (!slot || !copy_frame(ctx, (__u8 *)(slot + 1), len)) {
		own->lost_ring++; /* counted as lost */
		goto out;
	}
	time_ns = is_bound ? hardware_time_ns(ctx) : 0;
	slot->time_ns = time_ns ? time_ns : bpf_ktime_get_ns();
	slot->frame_len = frame_len;
	slot->captured_len = len;
	/* Not ctx->ingress_ifindex: a veth with GRO runs the program while it is detached, when the queue
	 * has no device any more. The kernel dereferences it and crashes (Linux 7.3). */
	slot->ifindex = read_once(own->ifindex);
	slot->queue_index = ctx->rx_queue_index;
	slot->flags = time_ns ? WR_SLOT_HARDWARE_TIME : 0;
	slot->lost_before = own->lost_ring - own->lost_noted;
	slot->vlan_tpid = 0;
	slot->vlan_tci = 0;
	if (is_bound)
		record_vlan(ctx, slot);
	own->lost_noted = own->lost_ring;
	publish(&own->head, own->head + 1);
out:
	return verdict;
}

SEC("xdp")
int wr_capture(struct xdp_md *ctx)
{
	/* In 64 bits, because the verifier does not track a 32-bit difference. */
	return capture(ctx, (long)ctx->data_end - (long)ctx->data, false);
}

/* For multi-buffer frames (Linux 5.18): drivers with a large MTU reject other programs. */
SEC("xdp.frags")
int wr_capture_frags(struct xdp_md *ctx)
{
	return capture(ctx, bpf_xdp_get_buff_len(ctx), false);
}

/* The same two, bound to one device, with metadata of its driver. */
SEC("xdp")
int wr_capture_hw(struct xdp_md *ctx)
{
	return capture(ctx, (long)ctx->data_end - (long)ctx->data, true);
}

SEC("xdp.frags")
int wr_capture_hwf(struct xdp_md *ctx)
{
	return capture(ctx, bpf_xdp_get_buff_len(ctx), true);
}

char wr_license[] SEC("license") = "Dual BSD/GPL";
