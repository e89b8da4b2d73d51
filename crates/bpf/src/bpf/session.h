/* session.h: frames of connections, for connect.bpf.c and accept.bpf.c.
 *
 * Reads TCP and UDP over IPv4 and IPv6, with one VLAN tag or none, and writes whole frames:
 * headers, options, payload and checksums. Nothing of an old frame is kept, because the checksum of
 * a frame that comes from a socket behind a veth pair is a partial one. Answers ARP and neighbour
 * solicitations for the own addresses.
 */
#ifndef WR_SESSION_H
#define WR_SESSION_H

#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "connect.h"

/* Set before load. "Own" is the side that the program plays. Addresses and ports are ranges; of an
 * IPv6 address the last 32 bits count up. An IPv4 address is the last of the four words. */
const volatile __u32 wr_ifindex = 0;
const volatile bool wr_by_redirect = false; /* answer by a redirect to the device, not by XDP_TX */
const volatile bool wr_is_v6 = false;
const volatile __u16 wr_vlan = 0; /* tag of all frames; 0 is none */
const volatile __u8 wr_own_mac[6] = {};
const volatile bool wr_answers_sender =
    false;				    /* frames go to the MAC address in `sides`, not to wr_peer_mac */
const volatile __u8 wr_peer_mac[6] = {};    /* of the next hop */
const volatile __be32 wr_own_words[3] = {}; /* of an IPv6 address, before the last word */
const volatile __u32 wr_own_first = 0;
const volatile __u32 wr_own_count = 1;
const volatile __u32 wr_own_port_first = 0;
const volatile __u32 wr_own_port_count = 1;
const volatile bool wr_answers_neighbours = true; /* false: the host has the own addresses, and answers */
const volatile __u32 wr_segment_max = 1460;	  /* bytes of a segment that we accept, and send at most */
const volatile __u32 wr_payload_len = 0;
const volatile __u8 wr_payload[2 * WR_REQUEST_MAX] = {};
/* Sums of the 16-bit words of the first n bytes, an odd last byte padded. */
const volatile __u32 wr_payload_sums[2 * WR_REQUEST_MAX] = {};

#define ETHERNET_LEN 14
#define VLAN_LEN 4
#define IPV4_LEN 20
#define IPV6_LEN 40
#define TCP_LEN 20
#define UDP_LEN 8
#define ARP_LEN 28
#define NEIGHBOUR_LEN 32 /* of ICMPv6: solicitation or advertisement with one option */
#define TYPE_IPV4 bpf_htons(0x0800)
#define TYPE_IPV6 bpf_htons(0x86dd)
#define TYPE_ARP bpf_htons(0x0806)
#define TYPE_VLAN bpf_htons(0x8100)
#define PROTOCOL_TCP 6
#define PROTOCOL_UDP 17
#define PROTOCOL_ICMPV6 58
#define HOP_LIMIT 64

#define F_FIN 0x01
#define F_SYN 0x02
#define F_RST 0x04
#define F_PSH 0x08
#define F_ACK 0x10

/* Addresses and ports of the two sides, in network order. */
struct sides {
	__be32 own[4];
	__be32 peer[4];
	__be16 own_port;
	__be16 peer_port;
	__u8 peer_mac[6]; /* of a frame that arrived, or of the next hop; only wr_answers_sender uses it */
	__u8 pad[2];
};

/* A segment or datagram that arrived. */
struct arrival {
	struct sides sides;
	__u32 seq;
	__u32 ack;
	__u32 len;     /* of its payload */
	__u32 at;      /* offset of its payload in the frame */
	__u32 options; /* bytes of TCP options before it */
	__u8 flags;
};

/* A segment or datagram to write. */
struct departure {
	__u32 seq;
	__u32 ack;
	__u32 offset; /* of the payload, in wr_payload */
	__u32 len;
	__u16 id; /* of a DNS query: replaces the first two bytes of the payload */
	__u8 flags;
	__u8 gap_count; /* ranges that are acknowledged, too */
	struct wr_gap gaps[WR_GAPS_MAX];
};

/* Counts of frames that are no segments. */
struct neighbour_counts {
	__u64 passed;	/* to the host */
	__u64 answered; /* ARP and neighbour solicitations */
};

struct ethernet {
	__u8 dst[6], src[6];
	__be16 type;
} __attribute__((packed));

struct ipv4 {
	__u8 version, tos;
	__be16 len, id, fragment;
	__u8 ttl, protocol;
	__be16 sum;
	__be32 src, dst;
} __attribute__((packed));

struct ipv6 {
	__be32 version;
	__be16 len;
	__u8 next, hop_limit;
	__be32 src[4], dst[4];
} __attribute__((packed));

struct tcp {
	__be16 src, dst;
	__be32 seq, ack;
	__u8 offset, flags;
	__be16 window, sum, urgent;
} __attribute__((packed));

struct udp {
	__be16 src, dst, len, sum;
} __attribute__((packed));

struct arp {
	__be16 hardware, protocol;
	__u8 hardware_len, protocol_len;
	__be16 operation;
	__u8 sender_mac[6];
	__be32 sender;
	__u8 target_mac[6];
	__be32 target;
} __attribute__((packed));

struct neighbour {
	__u8 type, code;
	__be16 sum;
	__be32 flags;
	__be32 target[4];
	__u8 option, option_len, mac[6];
} __attribute__((packed));

/* XDP_TX of veth wakes its peer only if the peer has an XDP program. A redirect always does. */
static __always_inline int answer_frame(void)
{
	return wr_by_redirect ? (int)bpf_redirect(wr_ifindex, 0) : XDP_TX;
}

static __always_inline __u32 l2_len(void)
{
	return wr_vlan ? ETHERNET_LEN + VLAN_LEN : ETHERNET_LEN;
}

static __always_inline __u16 folded(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (__u16)~sum;
}

/* Makes the frame `want` bytes long. It grows at its end where there is space, so that a frame that
 * goes to and fro does not use up the space before it. Frames of sockets have none at the end. */
static __always_inline bool resized(struct xdp_md *ctx, __u32 want)
{
	int more = (int)want - (int)(ctx->data_end - ctx->data);

	if (!more)
		return true;
	if (!bpf_xdp_adjust_tail(ctx, more))
		return true;
	return more > 0 && !bpf_xdp_adjust_head(ctx, -more);
}

/* A frame of several buffers (`has_frags`: it may be one) has to become one of one buffer before it
 * grows or shrinks to its new length. */
static __always_inline bool resized_whole(struct xdp_md *ctx, __u32 want, bool has_frags)
{
	__u32 linear = ctx->data_end - ctx->data;
	__u64 whole = has_frags ? bpf_xdp_get_buff_len(ctx) : linear;

	if (whole > linear && bpf_xdp_adjust_tail(ctx, (int)linear - (int)whole))
		return false;
	return resized(ctx, want);
}

/* Writes addresses, type and tag of the frame. */
static __always_inline void *write_l2(struct xdp_md *ctx, void *end, const __u8 *to, __be16 type)
{
	struct ethernet *ethernet = (void *)(long)ctx->data;
	__be16 *tag;

	if ((void *)(ethernet + 1) + VLAN_LEN > end)
		return 0;
	for (int i = 0; i < 6; i++) {
		ethernet->dst[i] = to ? to[i] : wr_peer_mac[i];
		ethernet->src[i] = wr_own_mac[i];
	}
	if (!wr_vlan) {
		ethernet->type = type;
		return ethernet + 1;
	}
	ethernet->type = TYPE_VLAN;
	tag = (void *)(ethernet + 1);
	tag[0] = bpf_htons(wr_vlan);
	tag[1] = type;
	return tag + 2;
}

/* Writes the IP header, and returns the sum of the pseudo header. */
static __always_inline __u64 write_ip(void *at, void *end, const struct sides *sides, __u8 protocol,
				      __u32 len)
{
	struct ipv4 *ip = at;
	struct ipv6 *ip6 = at;
	__u64 sum;

	if (wr_is_v6) {
		if ((void *)(ip6 + 1) > end)
			return 0;
		ip6->version = bpf_htonl(0x60000000);
		ip6->len = bpf_htons(len);
		ip6->next = protocol;
		ip6->hop_limit = HOP_LIMIT;
		sum = (__u64)bpf_htons(len) + bpf_htons(protocol);
		for (int i = 0; i < 4; i++) {
			ip6->src[i] = sides->own[i];
			ip6->dst[i] = sides->peer[i];
			sum += (__u64)sides->own[i] + sides->peer[i];
		}
		return sum;
	}
	if ((void *)(ip + 1) > end)
		return 0;
	ip->version = 0x45;
	ip->tos = 0;
	ip->len = bpf_htons(IPV4_LEN + len);
	ip->id = 0;
	ip->fragment = bpf_htons(0x4000);
	ip->ttl = HOP_LIMIT;
	ip->protocol = protocol;
	ip->src = sides->own[3];
	ip->dst = sides->peer[3];
	sum = (__u64)sides->own[3] + sides->peer[3];
	ip->sum = folded(sum + bpf_htons(0x4500) + ip->len + bpf_htons(0x4000) +
			 bpf_htons(HOP_LIMIT << 8 | protocol));
	return sum + bpf_htons(len) + bpf_htons(protocol);
}

/* The sum of `len` bytes of the payload from an even offset on. */
static __always_inline __u64 payload_sum(__u32 offset, __u32 len)
{
	__u32 from = offset & (WR_REQUEST_MAX - 1);
	__u32 end = (offset + len) & (2 * WR_REQUEST_MAX - 1);

	return (__u64)wr_payload_sums[end] - wr_payload_sums[from];
}

static __always_inline bool write_payload(struct xdp_md *ctx, __u32 at, __u32 offset, __u32 len)
{
	__u32 last = len - 1;

	offset &= WR_REQUEST_MAX - 1;
	if (last >= WR_REQUEST_MAX)
		return false;
	barrier_var(last);
	return !bpf_xdp_store_bytes(ctx, at, (void *)wr_payload + offset, last + 1);
}

/* Bytes of TCP options: of a SYN the segment length, selective ACKs and the window scale; of a
 * SYN-ACK the segment length only, since its sender does not know what was offered. */
static __always_inline __u32 options_len(const struct departure *d)
{
	if (d->flags & F_SYN)
		return d->flags & F_ACK ? 4 : 12;
	return d->gap_count ? 4 + 8 * d->gap_count : 0;
}

/* Length of the frame of a segment. */
static __always_inline __u32 segment_frame_len(const struct departure *d)
{
	return l2_len() + (wr_is_v6 ? IPV6_LEN : IPV4_LEN) + TCP_LEN + options_len(d) + d->len;
}

/* Writes the segment into a frame of the right length. Not static, as other functions here: the
 * verifier looks at such a function once, not after each way to its calls. */
__noinline int wr_write_segment(struct xdp_md *ctx, const struct sides *sides, const struct departure *d)
{
	__u32 options, l3_len = wr_is_v6 ? IPV6_LEN : IPV4_LEN;
	void *at, *end = (void *)(long)ctx->data_end;
	struct tcp *tcp;
	__be32 *option;
	__u64 sum;

	if (!sides || !d)
		return false;
	options = options_len(d);
	at = write_l2(ctx, end, wr_answers_sender ? sides->peer_mac : 0, wr_is_v6 ? TYPE_IPV6 : TYPE_IPV4);
	if (!at)
		return false;
	sum = write_ip(at, end, sides, PROTOCOL_TCP, TCP_LEN + options + d->len);
	tcp = at + l3_len;
	if ((void *)(tcp + 1) > end)
		return false;
	tcp->src = sides->own_port;
	tcp->dst = sides->peer_port;
	tcp->seq = bpf_htonl(d->seq);
	tcp->ack = bpf_htonl(d->ack);
	tcp->offset = (TCP_LEN + options) << 2;
	tcp->flags = d->flags;
	tcp->window = 0xffff;
	tcp->urgent = 0;
	sum += (__u64)tcp->src + tcp->dst + tcp->seq + tcp->ack + tcp->window;
	sum += bpf_htons(tcp->offset << 8 | tcp->flags) + payload_sum(d->offset, d->len);
	option = (void *)(tcp + 1);
	if (d->flags & F_SYN && d->flags & F_ACK) {
		if ((void *)(option + 1) > end)
			return false;
		option[0] = bpf_htonl(0x02040000 | wr_segment_max);
		sum += option[0];
	} else if (d->flags & F_SYN) {
		if ((void *)(option + 3) > end)
			return false;
		option[0] = bpf_htonl(0x02040000 | wr_segment_max);
		option[1] = bpf_htonl(0x01010402);
		option[2] = bpf_htonl(0x01030307);
		sum += (__u64)option[0] + option[1] + option[2];
	} else if (options) {
		if ((void *)(option + 1) > end)
			return false;
		option[0] = bpf_htonl(0x01010500 | (options - 2));
		sum += option[0];
		for (int i = 0; i < WR_GAPS_MAX; i++) {
			if (i >= d->gap_count)
				break;
			if ((void *)(option + 3 + 2 * i) > end)
				return false;
			option[1 + 2 * i] = bpf_htonl(d->gaps[i].first);
			option[2 + 2 * i] = bpf_htonl(d->gaps[i].end);
			sum += (__u64)option[1 + 2 * i] + option[2 + 2 * i];
		}
	}
	tcp->sum = folded(sum);
	return !d->len || write_payload(ctx, segment_frame_len(d) - d->len, d->offset, d->len);
}

/* Length of the frame of a datagram with the whole payload. */
static __always_inline __u32 datagram_frame_len(void)
{
	return l2_len() + (wr_is_v6 ? IPV6_LEN : IPV4_LEN) + UDP_LEN + wr_payload_len;
}

/* Turns the frame into a datagram with the whole payload. */
__noinline int wr_write_datagram(struct xdp_md *ctx, const struct sides *sides, const struct departure *d,
				 bool has_id)
{
	__u32 l3_len = wr_is_v6 ? IPV6_LEN : IPV4_LEN, at_payload = l2_len() + l3_len + UDP_LEN;
	struct udp *udp;
	void *at, *end;
	__be16 *id;
	__u64 sum;

	if (!sides || !d)
		return false;
	if (!resized_whole(ctx, at_payload + d->len, true) ||
	    (d->len && !write_payload(ctx, at_payload, 0, d->len)))
		return false;
	end = (void *)(long)ctx->data_end;
	at = write_l2(ctx, end, wr_answers_sender ? sides->peer_mac : 0, wr_is_v6 ? TYPE_IPV6 : TYPE_IPV4);
	if (!at)
		return false;
	sum = write_ip(at, end, sides, PROTOCOL_UDP, UDP_LEN + d->len);
	udp = at + l3_len;
	if ((void *)(udp + 1) > end)
		return false;
	udp->src = sides->own_port;
	udp->dst = sides->peer_port;
	udp->len = bpf_htons(UDP_LEN + d->len);
	sum += (__u64)udp->src + udp->dst + udp->len + payload_sum(0, d->len);
	if (has_id) {
		id = (void *)(udp + 1);
		if ((void *)(id + 1) > end)
			return false;
		*id = bpf_htons(d->id);
		sum += *id;
	}
	udp->sum = folded(sum);
	if (!udp->sum)
		udp->sum = 0xffff; /* 0 would be "no checksum" */
	return true;
}

static __always_inline bool is_own_address(const __be32 *words)
{
	if (bpf_ntohl(words[3]) - wr_own_first >= wr_own_count)
		return false;
	return !wr_is_v6 ||
	       (words[0] == wr_own_words[0] && words[1] == wr_own_words[1] && words[2] == wr_own_words[2]);
}

/* Answers a request for the MAC address of an own IPv4 address. Not 0 is the verdict. */
static __always_inline int answer_arp(struct xdp_md *ctx, void *at, __u64 *answered)
{
	void *end = (void *)(long)ctx->data_end;
	struct arp *arp = at;
	__be32 words[4] = {}, asker;
	__u8 mac[6];

	if ((void *)(arp + 1) > end || wr_is_v6 || !wr_answers_neighbours || arp->operation != bpf_htons(1))
		return XDP_PASS;
	words[3] = arp->target;
	asker = arp->sender;
	if (!is_own_address(words) || asker == arp->target)
		return XDP_PASS;
	for (int i = 0; i < 6; i++)
		mac[i] = arp->sender_mac[i];
	if (!resized_whole(ctx, l2_len() + ARP_LEN, true))
		return XDP_PASS;
	end = (void *)(long)ctx->data_end;
	arp = write_l2(ctx, end, mac, TYPE_ARP);
	if (!arp || (void *)(arp + 1) > end)
		return XDP_DROP;
	arp->hardware = bpf_htons(1);
	arp->protocol = TYPE_IPV4;
	arp->hardware_len = 6;
	arp->protocol_len = 4;
	arp->operation = bpf_htons(2);
	arp->sender = words[3];
	arp->target = asker;
	for (int i = 0; i < 6; i++) {
		arp->sender_mac[i] = wr_own_mac[i];
		arp->target_mac[i] = mac[i];
	}
	(*answered)++;
	return answer_frame();
}

/* Answers a neighbour solicitation for an own IPv6 address. */
static __always_inline int answer_solicitation(struct xdp_md *ctx, void *at, __u64 *answered)
{
	void *end = (void *)(long)ctx->data_end;
	struct ipv6 *ip = at;
	struct neighbour *message = at + IPV6_LEN;
	struct ethernet *ethernet = (void *)(long)ctx->data;
	struct sides sides = {};
	__u8 mac[6];
	__u64 sum;

	if ((void *)(message + 1) > end || (void *)(ethernet + 1) > end || !wr_answers_neighbours ||
	    message->type != 135 || message->code)
		return XDP_PASS;
	for (int i = 0; i < 4; i++) {
		sides.own[i] = message->target[i];
		sides.peer[i] = ip->src[i];
	}
	/* A sender without an address is looking for duplicates of its own one. */
	if (!is_own_address(sides.own) || !(sides.peer[0] | sides.peer[1] | sides.peer[2] | sides.peer[3]))
		return XDP_PASS;
	for (int i = 0; i < 6; i++)
		mac[i] = ethernet->src[i];
	if (!resized_whole(ctx, l2_len() + IPV6_LEN + NEIGHBOUR_LEN, true))
		return XDP_PASS;
	end = (void *)(long)ctx->data_end;
	ip = write_l2(ctx, end, mac, TYPE_IPV6);
	if (!ip)
		return XDP_DROP;
	sum = write_ip(ip, end, &sides, PROTOCOL_ICMPV6, NEIGHBOUR_LEN);
	message = (void *)ip + IPV6_LEN;
	if ((void *)(message + 1) > end)
		return XDP_DROP;
	ip->hop_limit = 255;
	message->type = 136;
	message->code = 0;
	message->flags = bpf_htonl(0x60000000); /* solicited, override */
	message->option = 2;
	message->option_len = 1;
	for (int i = 0; i < 6; i++)
		message->mac[i] = wr_own_mac[i];
	sum += bpf_htons(136 << 8) + (__u64)message->flags + bpf_htons(2 << 8 | 1);
	for (int i = 0; i < 4; i++) {
		message->target[i] = sides.own[i];
		sum += sides.own[i];
	}
	for (int i = 0; i < 6; i += 2)
		sum += bpf_htons(wr_own_mac[i] << 8 | wr_own_mac[i + 1]);
	message->sum = folded(sum);
	(*answered)++;
	return answer_frame();
}

/* 0: the frame is a segment (a datagram, if `is_udp`) for an own address and port. Otherwise the
 * verdict. A tag that the driver has removed is not in the frame. */
__noinline int wr_parse(struct xdp_md *ctx, bool is_udp, struct arrival *a, struct neighbour_counts *counts)
{
	void *start = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethernet *ethernet = start;
	__u32 ip_len = 0, header_len;
	struct ipv6 *ip6;
	struct ipv4 *ip;
	struct tcp *tcp;
	struct udp *udp;
	__be16 type, *tag;
	int verdict = XDP_PASS;
	__u8 protocol;
	void *at;

	if (!a || !counts)
		return XDP_ABORTED;
	if ((void *)(ethernet + 1) > end)
		goto out;
	type = ethernet->type;
	if (wr_answers_sender)
		for (int i = 0; i < 6; i++)
			a->sides.peer_mac[i] = ethernet->src[i];
	at = ethernet + 1;
	if (type == TYPE_VLAN) {
		tag = at;
		if ((void *)(tag + 2) > end || (bpf_ntohs(tag[0]) & 0xfff) != wr_vlan)
			goto out;
		type = tag[1];
		at = tag + 2;
	}
	if (type == TYPE_ARP) {
		verdict = answer_arp(ctx, at, &counts->answered);
		goto out;
	}
	if (wr_is_v6) {
		ip6 = at;
		if (type != TYPE_IPV6 || (void *)(ip6 + 1) > end)
			goto out;
		if (ip6->next == PROTOCOL_ICMPV6) {
			verdict = answer_solicitation(ctx, at, &counts->answered);
			goto out;
		}
		protocol = ip6->next;
		ip_len = bpf_ntohs(ip6->len);
		for (int i = 0; i < 4; i++) {
			a->sides.peer[i] = ip6->src[i];
			a->sides.own[i] = ip6->dst[i];
		}
		at = ip6 + 1;
	} else {
		ip = at;
		if (type != TYPE_IPV4 || (void *)(ip + 1) > end)
			goto out;
		if (ip->version != 0x45 || ip->fragment & bpf_htons(0x3fff))
			goto out;
		protocol = ip->protocol;
		ip_len = bpf_ntohs(ip->len) - IPV4_LEN;
		a->sides.peer[3] = ip->src;
		a->sides.own[3] = ip->dst;
		at = ip + 1;
	}
	if (!is_own_address(a->sides.own) || protocol != (is_udp ? PROTOCOL_UDP : PROTOCOL_TCP))
		goto out;
	tcp = at;
	udp = at;
	if ((void *)(udp + 1) > end)
		goto out;
	a->sides.peer_port = udp->src;
	a->sides.own_port = udp->dst;
	if (bpf_ntohs(udp->dst) - wr_own_port_first >= wr_own_port_count)
		goto out;
	if (is_udp) {
		header_len = UDP_LEN;
	} else {
		if ((void *)(tcp + 1) > end)
			goto out;
		a->seq = bpf_ntohl(tcp->seq);
		a->ack = bpf_ntohl(tcp->ack);
		a->flags = tcp->flags;
		header_len = (tcp->offset >> 4) * 4;
		if (header_len < TCP_LEN)
			goto out;
		a->options = header_len - TCP_LEN;
	}
	if (header_len > ip_len || ip_len > 0xffff)
		goto out;
	a->len = ip_len - header_len;
	a->at = (__u32)(at - start) + header_len;
	if (start + a->at + a->len > end && a->at + a->len > bpf_xdp_get_buff_len(ctx))
		goto out; /* cut */
	return 0;
out:
	if (verdict == XDP_PASS)
		counts->passed++;
	return verdict;
}

#endif
