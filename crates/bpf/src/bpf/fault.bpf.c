/* fault.bpf.c: for tests only: a forwarder whose faults are known. It redirects pktgen's frames to
 * another device, and loses, swaps, repeats, shifts or clones some of them. Faults are counted. */
#include "shared.h"
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "GPL";

/* Set before load. */
const volatile __u32 wr_out_ifindex = 0;
const volatile struct wr_faults wr_faults_set = {};

/* One CPU forwards; all counts are its own. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wr_fault_counts);
} wr_fault_page SEC(".maps");

#define HEADER_AT 42 /* behind Ethernet, IPv4 and UDP */
#define HEADER_LEN 16

struct header {
	__be32 magic;
	__be32 seq_num;
	__be32 sec;
	__be32 usec;
};

static __always_inline int is_lost(const struct wr_fault_counts *counts, __u32 seq_num)
{
	if (wr_faults_set.lose_every && counts->received % wr_faults_set.lose_every == 0)
		return 1;
	if (wr_faults_set.lose_above && seq_num > wr_faults_set.lose_above)
		return 1;
	return wr_faults_set.lose_share && bpf_get_prandom_u32() < wr_faults_set.lose_share;
}

/* The generic cell rate algorithm: the time at which the bucket is full again is its level. */
static __always_inline int is_over_rate(struct wr_fault_counts *counts, __u32 seq_num)
{
	__u64 interval_ns, now_ns;
	int is_over;

	if (!wr_faults_set.bucket_pps)
		return 0;
	now_ns = bpf_ktime_get_ns();
	if (wr_faults_set.clock_pps) {
		now_ns = seq_num * 1000000000ull / wr_faults_set.clock_pps;
		if (seq_num == 1)
			counts->full_at_ns = counts->hold_till_ns = 0;
	}
	interval_ns = 1000000000ull / wr_faults_set.bucket_pps;
	if (counts->full_at_ns < now_ns)
		counts->full_at_ns = now_ns;
	is_over = counts->full_at_ns + interval_ns > now_ns + wr_faults_set.bucket_depth * interval_ns;
	/* An overload that goes on makes the hold longer. */
	if (is_over)
		counts->hold_till_ns = now_ns + wr_faults_set.hold_usec * 1000ull;
	else
		counts->full_at_ns += interval_ns;
	return is_over || now_ns < counts->hold_till_ns;
}

SEC("xdp")
int wr_fault(struct xdp_md *ctx)
{
	__u8 *data = (__u8 *)(long)ctx->data, *data_end = (__u8 *)(long)ctx->data_end;
	struct header *header = (struct header *)(data + HEADER_AT);
	struct wr_fault_counts *counts;
	__u32 zero = 0, seq_num;

	counts = bpf_map_lookup_elem(&wr_fault_page, &zero);
	if (!counts || data + HEADER_AT + HEADER_LEN > data_end)
		return XDP_PASS;
	if (header->magic != bpf_htonl(0xbe9be955))
		return XDP_PASS;
	seq_num = bpf_ntohl(header->seq_num);
	counts->received++;
	if (is_lost(counts, seq_num) || is_over_rate(counts, seq_num)) {
		counts->lost++;
		counts->last_lost = seq_num;
		return XDP_DROP;
	}
	/* Numbers 2n and 2n + 1 change places in every swap_every-th pair. Runs begin with number 1, so
	 * 0 and 1 are no pair: a frame would get a number that was not sent. */
	if (wr_faults_set.swap_every && seq_num > 1 && seq_num / 2 % wr_faults_set.swap_every == 0) {
		counts->swapped++;
		header->seq_num = bpf_htonl(seq_num ^ 1);
	}
	/* A copy of the frame before. */
	if (wr_faults_set.repeat_every && seq_num % wr_faults_set.repeat_every == 0) {
		counts->repeated++;
		header->seq_num = bpf_htonl(seq_num - 1);
	}
	if (wr_faults_set.shift_every && seq_num % wr_faults_set.shift_every == 0) {
		__u64 usec =
		    bpf_ntohl(header->sec) * 1000000ull + bpf_ntohl(header->usec) - wr_faults_set.shift_usec;

		counts->shifted++;
		header->sec = bpf_htonl(usec / 1000000);
		header->usec = bpf_htonl(usec % 1000000);
	}
	counts->forwarded++;
	return bpf_redirect(wr_out_ifindex, 0);
}

/* XDP cannot clone a frame, so this is a program of tc. */
SEC("tc")
int wr_fault_clone(struct __sk_buff *skb)
{
	struct wr_fault_counts *counts;
	struct header header;
	__u32 zero = 0;

	counts = bpf_map_lookup_elem(&wr_fault_page, &zero);
	if (!counts || bpf_skb_load_bytes(skb, HEADER_AT, &header, sizeof(header)))
		return TC_ACT_OK;
	if (header.magic != bpf_htonl(0xbe9be955))
		return TC_ACT_OK;
	counts->received++;
	counts->forwarded++;
	bpf_clone_redirect(skb, wr_out_ifindex, 0);
	if (wr_faults_set.clone_every && counts->received % wr_faults_set.clone_every == 0) {
		counts->cloned++;
		bpf_clone_redirect(skb, wr_out_ifindex, 0);
	}
	return TC_ACT_SHOT;
}
