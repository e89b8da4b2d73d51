/* accept.bpf.c: the smallest server of TCP, without memory of connections.
 *
 * A SYN is answered with a SYN-ACK, each segment with data with the response, and a FIN with a FIN.
 * All numbers that an answer needs are in the segment that it answers. What is lost on the way is
 * repaired by the client, which repeats what was not acknowledged.
 */
#include "session.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Set before load. wr_payload is the response; without one, data is acknowledged only. */
const volatile bool wr_closes = false; /* the response has a FIN */
const volatile __u64 wr_key = 0;       /* of initial sequence numbers */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* one for each possible CPU */
	__type(key, __u32);
	__type(value, struct wr_accept_cpu);
} wr_accept_cpus SEC(".maps");

/* The number of the SYN-ACK: the same each time, so that later segments show it. */
static __always_inline __u32 number_of(const struct sides *sides)
{
	__u64 h = wr_key ^ ((__u64)sides->own[3] << 32 | sides->peer[3]);

	h = (h ^ h >> 29) * 0x9e3779b97f4a7c15ull;
	h ^= (__u64)sides->own_port << 16 | sides->peer_port;
	h = (h ^ h >> 32) * 0xbf58476d1ce4e5b9ull;
	return h >> 32;
}

/* The answer to a segment. False if there is none. */
static __always_inline bool answer(struct wr_accept_cpu *n, const struct arrival *a, struct departure *d)
{
	__u32 number = number_of(&a->sides);

	if (a->flags & F_RST) {
		n->resets++;
		return false;
	}
	if ((a->flags & (F_SYN | F_ACK)) == (F_SYN | F_ACK)) {
		/* Nothing was asked: as a listening socket answers (RFC 9293, 3.10.7.2). */
		d->flags = F_RST;
		d->seq = a->ack;
		return true;
	}
	if (a->flags & F_SYN) {
		d->flags = F_SYN | F_ACK;
		d->seq = number;
		d->ack = a->seq + 1;
		return true;
	}
	if (!(a->flags & F_ACK) || (!a->len && !(a->flags & F_FIN)))
		return false;
	d->flags = F_ACK;
	d->seq = a->ack;
	d->ack = a->seq + a->len;
	if (a->len) {
		n->requests++;
		n->request_bytes += a->len;
		/* A response that the client has was acknowledged with its FIN. */
		if (wr_payload_len && !(wr_closes && a->ack == number + wr_payload_len + 2)) {
			d->len = wr_payload_len;
			d->flags |= F_PSH | (wr_closes ? F_FIN : 0);
		}
	}
	if (a->flags & F_FIN) {
		n->closed++;
		d->ack++;
		/* Unless our FIN is acknowledged. */
		if (!(wr_closes && a->ack == number + wr_payload_len + 2))
			d->flags |= F_FIN;
	}
	return true;
}

static __always_inline int accept_frame(struct xdp_md *ctx, bool has_frags)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct wr_accept_cpu *n = bpf_map_lookup_elem(&wr_accept_cpus, &cpu);
	struct neighbour_counts others = {};
	struct departure d = {};
	struct arrival a = {};
	int verdict;

	if (!n)
		return XDP_PASS;
	verdict = wr_parse(ctx, false, &a, &others);
	if (verdict) {
		n->passed += others.passed;
		n->neighbours += others.answered;
		return verdict;
	}
	n->received++;
	if (!answer(n, &a, &d))
		return XDP_DROP;
	if (!resized_whole(ctx, segment_frame_len(&d), has_frags) || !wr_write_segment(ctx, &a.sides, &d)) {
		n->not_written++;
		return XDP_DROP;
	}
	if (d.flags & F_SYN)
		n->accepted++;
	if (d.len) {
		n->responses++;
		n->response_bytes += d.len;
	}
	return answer_frame();
}

SEC("xdp")
int wr_accept(struct xdp_md *ctx)
{
	return accept_frame(ctx, false);
}

SEC("xdp.frags")
int wr_accept_frags(struct xdp_md *ctx)
{
	return accept_frame(ctx, true);
}
