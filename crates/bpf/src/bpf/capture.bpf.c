/* capture.bpf.c: packs frames into the ring of this CPU, with their times and lengths.
 *
 * The verdict is always the configured one, and every frame is counted.
 *
 * A record is a finished Enhanced Packet Block of pcapng if the reader wants blocks and nothing but
 * time, lengths and queue is to be told of the frame. Otherwise it is a struct wr_record.
 */
#include "capture_ring.h"
#include <stddef.h>
#include <bpf/bpf_endian.h>

/* Set before load. */
const volatile bool wr_writes_blocks = false;
/* Blocks: interface of queue 0, and the largest number of its queues' interfaces. */
const volatile __u32 wr_interface_first = 0;
const volatile __u32 wr_interface_last = 0;
const volatile bool wr_is_filtered = false;

const volatile __u32 wr_metadata = 0; /* WR_METADATA_*; only used by programs bound to a device */

/* Linux 6.3 and 6.8. The verifier accepts them in device-bound programs only; the driver implements
 * them. */
extern int bpf_xdp_metadata_rx_timestamp(const struct xdp_md *ctx, __u64 *timestamp) __ksym __weak;
extern int bpf_xdp_metadata_rx_vlan_tag(const struct xdp_md *ctx, __be16 *vlan_proto,
					__u16 *vlan_tci) __ksym __weak;

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

/* Copies len bytes of the frame, and zeros up to a multiple of 4. Returns the end of the copy, NULL
 * if the frame is shorter or len is 0. */
static __always_inline __u8 *copy_frame(struct xdp_md *ctx, __u8 *to, __u64 len)
{
	__u64 last = len - 1;

	/* One comparison for "not 0 and not too long": the verifier of Linux 6.1 infers both bounds. */
	barrier_var(last);
	if (last >= wr_snaplen)
		return NULL;
	*(__u32 *)(to + (last & ~3ull)) = 0;
	if (len < 32 || len > WR_COPY_MAX || wr_snaplen < WR_COPY_MAX || !copy_linear(ctx, to, len)) {
		if (bpf_xdp_load_bytes(ctx, 0, to, last + 1))
			return NULL;
	}
	return to + (last & ~3ull) + 4;
}

/* Bytes of the frame that the filter keeps, 0 for a rejected frame. The loader replaces this
 * function, which must be the last of the program, by the translated filter; it finds it by the
 * constant (crates/bpf/src/filter.rs). */
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

/* The VLAN tag that the device removed: TPID in the upper half, TCI in the lower; 0 if there is
 * none. The reader inserts it again. */
static __always_inline __u32 removed_tag(struct xdp_md *ctx)
{
	__be16 tpid = 0;
	__u16 tci = 0;

	if (!(wr_metadata & WR_METADATA_VLAN) || !bpf_ksym_exists(bpf_xdp_metadata_rx_vlan_tag))
		return 0;
	if (bpf_xdp_metadata_rx_vlan_tag(ctx, &tpid, &tci))
		return 0;
	return (__u32)bpf_ntohs(tpid) << 16 | tci;
}

/* An Enhanced Packet Block around the bytes of the frame, which end at `tail`. */
static __always_inline void write_block(__u8 *record, __u8 *tail, __u32 size, const struct facts *facts)
{
	struct wr_block *block = (struct wr_block *)record;
	struct wr_block_tail *options = (struct wr_block_tail *)tail;
	__u32 interface = wr_interface_first + facts->queue_index;

	block->type = WR_BLOCK_TYPE;
	block->size = size;
	block->interface = interface < wr_interface_last ? interface : wr_interface_last;
	block->time_high = facts->time_ns >> 32;
	block->time_low = facts->time_ns;
	block->captured_len = facts->captured_len;
	block->frame_len = facts->frame_len;
	options->flags_option = 4u << 16 | 2; /* epb_flags, 4 bytes */
	options->flags = 1;		      /* inbound */
	options->queue_option = 4u << 16 | 6; /* epb_queue, 4 bytes */
	options->queue = facts->queue_index;
	options->end = 0;
	options->size = size;
}

/* is_bound: the program may read metadata from the driver. */
static __always_inline int capture(struct xdp_md *ctx, __u64 frame_len, bool is_bound)
{
	__u64 len = frame_len < wr_snaplen ? frame_len : wr_snaplen;
	__u32 cpu = bpf_get_smp_processor_id();
	struct facts facts = {.frame_len = frame_len, .captured_len = len};
	struct wr_capture_cpu *own;
	int verdict = XDP_PASS; /* on any failure the host gets the frame */
	struct place place;
	__u32 lost_before;
	bool is_block;
	__u8 *tail;

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
	if (is_bound) {
		facts.time_ns = hardware_time_ns(ctx);
		facts.more = removed_tag(ctx);
		facts.kind =
		    (facts.time_ns ? WR_RECORD_HARDWARE_TIME : 0) | (facts.more ? WR_RECORD_VLAN : 0);
	}
	lost_before = own->lost_ring - own->lost_noted;
	is_block = wr_writes_blocks && !lost_before && !facts.kind;
	place.size = sizeof(struct wr_record) + ((len + 3) & ~3ull) +
		     (is_block ? sizeof(struct wr_block_tail) : sizeof(__u32));
	if (!reserve(own, cpu, &place) ||
	    !(tail = copy_frame(ctx, place.record + sizeof(struct wr_record), len))) {
		own->lost_ring++; /* counted as lost */
		goto out;
	}
	facts.queue_index = ctx->rx_queue_index;
	if (!(facts.kind & WR_RECORD_HARDWARE_TIME))
		facts.time_ns = bpf_ktime_get_ns();
	/* Not ctx->ingress_ifindex: a veth with GRO runs the program while it is detached, when the queue
	 * has no device any more. The kernel dereferences it and crashes (Linux 7.3). */
	if (is_block) {
		facts.time_ns += read_once(own->utc_offset_ns);
		write_block(place.record, tail, place.size, &facts);
	} else {
		write_record(place.record, tail, place.size, lost_before, &facts);
	}
	own->lost_noted = own->lost_ring;
	own->captured++;
	publish(&own->head, place.next);
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
