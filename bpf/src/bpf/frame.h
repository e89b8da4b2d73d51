/* frame.h: builds the next frame of a plan, for every program that sends frames.
 *
 * It defines the plan, the cursor and the flow table. The order of the steps and of the random
 * draws is that of packet/src/emit.rs; a test compares the bytes (engine/src/differential.rs). The
 * plan is read-only data, so the verifier removes the code that a plan does not use.
 */
#ifndef WR_FRAME_H
#define WR_FRAME_H

#include "draw.h"
#include "shared.h"

#define MPLS_BOTTOM 0x100
#define NSEC_PER_SEC 1000000000ull
#define NSEC_PER_USEC 1000ull
#define IPV4_LEN 20
#define UDP_LEN 8
#define SHORT_LEN 18 /* of a signature */
#define FULL_LEN 32
#define MAC_TAIL_MASK 0xffffffffffull /* the low five bytes change */

const volatile struct wr_plan plan;
struct wr_cursor cursor;

/* Resized before load to one entry per flow. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wr_flow);
} wr_flows SEC(".maps");

static __always_inline __u32 draw(void)
{
	return draw_word(&cursor.rng);
}

static __always_inline __u32 draw_below(__u32 bound)
{
	return ((__u64)draw() * bound) >> 32;
}

/* Counting includes the maximum, random draws exclude it. */
static __always_inline __u32 step(const volatile struct wr_range *range, __u32 current)
{
	if (range->walk == WR_WALK_RANDOM)
		return range->min + draw_below(range->max - range->min);
	if (range->walk == WR_WALK_COUNT)
		return current < range->max ? current + 1 : range->min;
	return current;
}

/* The maximum is excluded. */
static __always_inline __u32 step_port(const volatile struct wr_range *range, __u32 current)
{
	if (range->walk == WR_WALK_COUNT && current + 1 >= range->max)
		return range->min;
	return step(range, current) & 0xffff;
}

/* Returns the current offset and advances it. */
static __always_inline __u32 step_offset(const volatile struct wr_range *range, __u32 *next)
{
	__u32 used = *next;

	if (range->walk == WR_WALK_RANDOM)
		return draw_below(range->max);
	if (range->walk == WR_WALK_FIXED)
		return 0;
	*next = used + 1 >= range->max ? 0 : used + 1;
	return used;
}

/* The flow of the next frame; a flow that has reached its length is closed first. */
static __always_inline struct wr_flow *pick_flow(__u32 flags)
{
	__u32 index = cursor.flow_index;
	struct wr_flow *flow;

	if (!(flags & WR_PLAN_FLOW_SEQ))
		index = draw_below(plan.flow_count);
	flow = bpf_map_lookup_elem(&wr_flows, &index);
	if (!flow)
		return NULL;
	if (flags & WR_PLAN_FLOW_SEQ) {
		if (flow->count >= plan.flow_len) {
			flow->count = 0;
			flow->is_open = 0;
			index = index + 1 >= plan.flow_count ? 0 : index + 1;
			flow = bpf_map_lookup_elem(&wr_flows, &index);
		}
	} else if (flow->count > plan.flow_len) {
		flow->count = 0;
		flow->is_open = 0;
	}
	cursor.flow_index = index;
	return flow;
}

static __always_inline void draw_tags(__u32 flags)
{
	if (flags & WR_PLAN_MPLS_RANDOM) {
		__u32 random = plan.mpls_random;

#pragma unroll
		for (__u32 i = 0; i < WR_MPLS_MAX; i++) {
			if (random & (1u << i))
				cursor.mpls[i] = MPLS_BOTTOM | (draw() & 0xfffff);
		}
	}
	if (flags & WR_PLAN_VLAN_RANDOM)
		cursor.vlan_id = draw_below(4096);
	if (flags & WR_PLAN_SVLAN_RANDOM)
		cursor.svlan_id = draw_below(4096);
}

/* A uniform draw from the ranges without loopback, multicast and broadcast addresses. */
static __always_inline __u32 draw_destination(void)
{
	__u32 place = draw_below(plan.dst_count[0] + plan.dst_count[1] + plan.dst_count[2]);

	if (place < plan.dst_count[0])
		return plan.dst_start[0] + place;
	place -= plan.dst_count[0];
	if (place < plan.dst_count[1])
		return plan.dst_start[1] + place;
	return plan.dst_start[2] + place - plan.dst_count[1];
}

static __always_inline void step_dst_v4(struct wr_flow *flow, __u32 flags)
{
	if (flow && flow->is_open) {
		cursor.dst_v4 = flow->dst_v4;
		return;
	}
	if (flags & WR_PLAN_DST_RANDOM)
		cursor.dst_v4 = draw_destination();
	else
		cursor.dst_v4 = step(&plan.dst_v4, cursor.dst_v4);
	if (flow) {
		flow->dst_v4 = cursor.dst_v4;
		flow->is_open = 1;
		cursor.flows_started++;
	}
}

static __always_inline void draw_v6(void)
{
#pragma unroll
	for (__u32 i = 0; i < 4; i++)
		cursor.dst_v6[i] = (draw() | plan.dst_v6_set[i]) & plan.dst_v6_allowed[i];
}

static __always_inline void step_size(__u32 flags)
{
	__u32 count, drawn;

	if (!(flags & WR_PLAN_IMIX)) {
		cursor.frame_size = step(&plan.frame_size, cursor.frame_size);
		return;
	}
	count = plan.imix_count;
	drawn = draw();
#pragma unroll
	for (__u32 i = 0; i < WR_IMIX_MAX; i++) {
		if (i < count && (drawn <= plan.imix_last[i] || i + 1 == count)) {
			cursor.frame_size = plan.imix_size[i];
			cursor.imix_counts[i]++;
			return;
		}
	}
}

/* A queue outside the range is followed by the first queue of the range. */
static __always_inline void step_queue(void)
{
	__u32 next = cursor.queue;

	if (plan.queue.walk == WR_WALK_RANDOM)
		next = plan.queue.min + draw_below(plan.queue.max - plan.queue.min + 1);
	else if (!cursor.queue_started || next < plan.queue.min || next >= plan.queue.max)
		next = plan.queue.min;
	else
		next++;
	cursor.queue_started = 1;
	if (plan.queue.max >= plan.queue_count)
		next %= plan.queue_count;
	cursor.queue = next;
}

static __always_inline void read_clock(void)
{
	if (!cursor.clock_left) {
		__u64 now_ns = bpf_ktime_get_ns() + cursor.wall_offset_ns;
		__u64 sec = now_ns / NSEC_PER_SEC;

		cursor.now_sec = sec;
		now_ns -= sec * NSEC_PER_SEC;
		cursor.now_usec = now_ns / NSEC_PER_USEC;
		cursor.now_nsec = now_ns % NSEC_PER_USEC;
		cursor.clock_left = cursor.clock_every;
	}
	cursor.clock_left--;
	cursor.built_sec = cursor.now_sec;
	cursor.built_usec = cursor.now_usec;
	cursor.built_nsec = cursor.now_nsec;
}

/* Sets flow and number of the next built frame, which only full signatures have. */
static __always_inline void count_in_flow(struct wr_flow *flow)
{
	if (plan.signature_len < FULL_LEN)
		return;
	if (flow) {
		cursor.built_flow = plan.signature_flow_first + cursor.flow_index;
		cursor.built_number = flow->number++;
		return;
	}
	cursor.built_flow = plan.signature_flow_first + cursor.slot;
	cursor.built_number = cursor.round;
	cursor.slot++;
	if (cursor.slot >= plan.signature_flows) {
		cursor.slot = 0;
		cursor.round++;
	}
}

/* Advances every field and fixes the contents of the next plan.repeats frames. */
static __always_inline void build(__u32 flags)
{
	struct wr_flow *flow = NULL;
	__u32 ip_id = cursor.ip_id;

	if (flags & WR_PLAN_FLOWS)
		flow = pick_flow(flags);
	if (flags & WR_PLAN_SRC_MAC_MOVES)
		cursor.built_src_mac_offset = step_offset(&plan.src_mac_offset, &cursor.src_mac_offset);
	if (flags & WR_PLAN_DST_MAC_MOVES)
		cursor.built_dst_mac_offset = step_offset(&plan.dst_mac_offset, &cursor.dst_mac_offset);
	draw_tags(flags);
	if (flags & WR_PLAN_UDP_SRC_MOVES)
		cursor.udp_src = step_port(&plan.udp_src, cursor.udp_src);
	if (flags & WR_PLAN_UDP_DST_MOVES)
		cursor.udp_dst = step_port(&plan.udp_dst, cursor.udp_dst);
	if (flags & WR_PLAN_SRC_MOVES)
		cursor.src_v4 = step(&plan.src_v4, cursor.src_v4);
	if (flags & WR_PLAN_DST_MOVES) {
		if (flags & WR_PLAN_IPV6)
			draw_v6();
		else
			step_dst_v4(flow, flags);
	}
	if (flags & WR_PLAN_SIZE_MOVES)
		step_size(flags);
	if (flags & WR_PLAN_QUEUE_MOVES)
		step_queue();
	if (flow)
		flow->count++;
	cursor.built_seq_num = cursor.seq_num;
	cursor.built_ip_id = ip_id;
	if (!(flags & WR_PLAN_IPV6)) /* IPv6 headers have no identification */
		cursor.ip_id = (ip_id + 1) & 0xffff;
	count_in_flow(flow);
	if (flags & WR_PLAN_TIMESTAMP)
		read_clock();
	if (flags & WR_PLAN_REPEATS)
		cursor.repeats_left = plan.repeats;
}

static __always_inline __u32 fold(__u32 sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return ~sum & 0xffff;
}

static __always_inline __u32 halves(__u32 word)
{
	return (word >> 16) + (word & 0xffff);
}

static __always_inline void put16(void *at, __u32 value)
{
	*(__be16 *)at = bpf_htons(value);
}

static __always_inline void put32(void *at, __u32 value)
{
	*(__be32 *)at = bpf_htonl(value);
}

static __always_inline void write_mac(void *at, __u64 base, __u32 offset)
{
	__u64 mac = (base & ~MAC_TAIL_MASK) | ((base + offset) & MAC_TAIL_MASK);

	put32(at, mac >> 16);
	put16(at + 4, mac & 0xffff);
}

static __always_inline void write_tags(void *frame, __u32 flags)
{
	if (flags & WR_PLAN_VLAN_RANDOM)
		put16(frame + plan.vlan_at, plan.vlan_tci | cursor.vlan_id);
	if (flags & WR_PLAN_SVLAN_RANDOM)
		put16(frame + plan.svlan_at, plan.svlan_tci | cursor.svlan_id);
	if (flags & WR_PLAN_MPLS_RANDOM) {
		__u32 random = plan.mpls_random;
		void *labels = frame + plan.mpls_at;

#pragma unroll
		for (__u32 i = 0; i < WR_MPLS_MAX; i++) {
			__u32 bottom = i + 1 == plan.mpls_count ? MPLS_BOTTOM : 0;

			if (random & (1u << i))
				put32(labels + 4 * i, (cursor.mpls[i] & ~MPLS_BOTTOM) | bottom);
		}
	}
}

/* Writes the variable fields of the IP header; returns the sum of the variable addresses. */
static __always_inline __u32 write_ip(void *ip, __u32 udp_len, __u32 flags)
{
	__u32 addresses = 0, sum;

	if (flags & WR_PLAN_IPV6) {
		if (flags & WR_PLAN_SIZE_MOVES)
			put16(ip + 4, udp_len);
		if (flags & WR_PLAN_DST_MOVES) {
#pragma unroll
			for (__u32 i = 0; i < 4; i++) {
				put32(ip + 24 + 4 * i, cursor.dst_v6[i]);
				addresses += halves(cursor.dst_v6[i]);
			}
		}
		return addresses;
	}
	if (flags & WR_PLAN_SRC_MOVES) {
		put32(ip + 12, cursor.src_v4);
		addresses += halves(cursor.src_v4);
	}
	if (flags & WR_PLAN_DST_MOVES) {
		put32(ip + 16, cursor.dst_v4);
		addresses += halves(cursor.dst_v4);
	}
	sum = plan.ip_sum + addresses + cursor.built_ip_id;
	if (flags & WR_PLAN_SIZE_MOVES) {
		put16(ip + 2, udp_len + IPV4_LEN);
		sum += udp_len + IPV4_LEN;
	}
	put16(ip + 4, cursor.built_ip_id);
	put16(ip + 10, fold(sum));
	return addresses;
}

/* Writes the variable fields of the signature; returns their sum. */
static __always_inline __u32 write_signature(void *stamp, __u32 flags)
{
	__u32 sum = halves(cursor.built_seq_num), nanos;

	if (!plan.signature_len)
		return 0;
	put32(stamp + 4, cursor.built_seq_num);
	if (flags & WR_PLAN_TIMESTAMP) {
		put32(stamp + 8, cursor.built_sec);
		put32(stamp + 12, cursor.built_usec);
		sum += halves(cursor.built_sec) + halves(cursor.built_usec);
	}
	if (plan.signature_len >= SHORT_LEN) {
		nanos = plan.signature_stream << 10;
		if (flags & WR_PLAN_TIMESTAMP)
			nanos |= cursor.built_nsec;
		put16(stamp + 16, nanos);
		sum += nanos;
	}
	if (plan.signature_len >= FULL_LEN) {
		__u64 number = cursor.built_number;

		put32(stamp + 20, cursor.built_flow);
		put32(stamp + 24, number);
		put16(stamp + 28, number >> 32 & 0xffff);
		sum += halves(cursor.built_flow) + halves(number) + (number >> 32 & 0xffff);
	}
	return sum;
}

static __always_inline void write_udp(void *udp, void *stamp, __u32 udp_len, __u32 addresses, __u32 flags)
{
	__u32 sum = plan.udp_sum + addresses + write_signature(stamp, flags);

	if (flags & WR_PLAN_UDP_SRC_MOVES) {
		put16(udp, cursor.udp_src);
		sum += cursor.udp_src;
	}
	if (flags & WR_PLAN_UDP_DST_MOVES) {
		put16(udp + 2, cursor.udp_dst);
		sum += cursor.udp_dst;
	}
	if (flags & WR_PLAN_SIZE_MOVES) {
		put16(udp + 4, udp_len);
		sum += 2 * udp_len; /* also part of the pseudo header */
	}
	if (flags & WR_PLAN_UDP_CHECKSUM) {
		sum = fold(sum);
		put16(udp + 6, sum ?: 0xffff); /* 0 would mean "no checksum" (RFC 768) */
	}
}

/* Copies the template in words of eight bytes; the last one overlaps the one before. */
static __always_inline void copy_header(void *frame, __u32 header_len)
{
#pragma unroll
	for (__u32 at = 0; at + 8 <= WR_HEADER_MAX; at += 8) {
		if (at + 8 <= header_len)
			*(__u64 *)(frame + at) = *(const volatile __u64 *)(plan.header + at);
	}
	if (header_len & 7)
		*(__u64 *)(frame + header_len - 8) = *(const volatile __u64 *)(plan.header + header_len - 8);
}

/* Length of the next frame without FCS; sets udp_len only if lengths vary. */
static __always_inline __u32 frame_length(__u32 flags, __u32 *udp_len)
{
	__u32 payload_len = plan.signature_len;

	if (!(flags & WR_PLAN_SIZE_MOVES))
		return plan.frame_len_max;
	if (cursor.frame_size > plan.fixed_len + plan.signature_len)
		payload_len = cursor.frame_size - plan.fixed_len;
	*udp_len = payload_len + UDP_LEN;
	return plan.stamp_at + payload_len;
}

/* Writes every header byte of the next frame. */
static __always_inline void write_frame(void *frame, __u32 header_len, __u32 udp_len, __u32 flags)
{
	copy_header(frame, header_len);
	if (flags & WR_PLAN_DST_MAC_MOVES)
		write_mac(frame, plan.dst_mac, cursor.built_dst_mac_offset);
	if (flags & WR_PLAN_SRC_MAC_MOVES)
		write_mac(frame + 6, plan.src_mac, cursor.built_src_mac_offset);
	write_tags(frame, flags);
	write_udp(frame + plan.udp_at, frame + plan.stamp_at, udp_len,
		  write_ip(frame + plan.ip_at, udp_len, flags), flags);
}

/* The frame was sent. */
static __always_inline void count_frame(__u32 frame_len, __u32 flags)
{
	if (flags & WR_PLAN_REPEATS)
		cursor.repeats_left--;
	cursor.seq_num++;
	cursor.offered++;
	if (flags & WR_PLAN_SIZE_MOVES)
		cursor.frame_bytes += frame_len;
}

#endif
