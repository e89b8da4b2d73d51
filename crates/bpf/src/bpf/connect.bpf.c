/* connect.bpf.c: connections with a live server, opened and answered in the kernel.
 *
 * wr_connect_send runs by BPF_PROG_RUN on live frames: it opens connections, and sends what the
 * list of user space orders. wr_connect runs at the receive side of the device, and answers each
 * frame of the server in place. A connection is an entry of an array, found by its addresses and
 * ports.
 */
#include "connect_rules.h"
#include "histogram.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Set before load. */
const volatile __u32 wr_kind = WR_CONNECT_TCP;
/* Ranges of server addresses and ports. The address of range i has its first three words from
 * wr_peer_words[3 * i] on, and the MAC address of its next hop from wr_peer_macs[6 * i] on. */
const volatile __u32 wr_peer_ranges = 1;
const volatile __be32 wr_peer_words[3 * WR_SERVERS_MAX] = {};
const volatile __u32 wr_peer_first[WR_SERVERS_MAX] = {};
const volatile __u32 wr_peer_count[WR_SERVERS_MAX] = {};
const volatile __u32 wr_peer_port_first[WR_SERVERS_MAX] = {};
const volatile __u32 wr_peer_port_count[WR_SERVERS_MAX] = {};
const volatile __u8 wr_peer_macs[6 * WR_SERVERS_MAX] = {};
const volatile __u32 wr_peer_total = 1;	    /* server addresses with a port */
const volatile __u32 wr_index_count = 1;    /* wr_peer_total times client addresses and ports */
const volatile __u32 wr_per_client_max = 0; /* connections of a client address at a time; 0: no limit */
const volatile __u32 wr_group_len = 0;	    /* bytes that responses are grouped by; 0: no groups */
const volatile __u32 wr_group_offset = 0;   /* where they are in the payload */
const volatile __u32 wr_answer_check = WR_ANSWER_ANY;
const volatile __u64 wr_key = 0; /* of initial sequence numbers; the same until the next boot */
const volatile bool wr_has_test_clock = false;

#define SHARED_ARRAY(name, entries, entry)         \
	struct {                                   \
		__uint(type, BPF_MAP_TYPE_ARRAY);  \
		__uint(map_flags, BPF_F_MMAPABLE); \
		__uint(max_entries, entries);      \
		__type(key, __u32);                \
		__type(value, entry);              \
	} name SEC(".maps")

#define NO_INDEX 0xffffffff

enum {
	HISTOGRAM_CONNECT,
	HISTOGRAM_FIRST_BYTE,
	HISTOGRAM_TOTAL,
	HISTOGRAMS,
};

SHARED_ARRAY(wr_connections, 1, struct wr_connection);	 /* wr_index_count entries */
SHARED_ARRAY(wr_connect_cpus, 1, struct wr_connect_cpu); /* one for each possible CPU */
SHARED_ARRAY(wr_connect_times, 1, struct wr_histogram);	 /* three for each possible CPU */
SHARED_ARRAY(wr_connect_list, WR_CONNECT_LIST_MAX, struct wr_connect_order_entry);
SHARED_ARRAY(wr_later, WR_LATER_MAX, __u64); /* indexes of connections */
SHARED_ARRAY(wr_clients, 1, __u32);	     /* open connections of each client address, if that is limited */

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, WR_GROUPS_MAX);
	__type(key, struct wr_group_key);
	__type(value, __u64); /* responses */
} wr_groups SEC(".maps");

struct wr_connect_page wr_page = {};

static __always_inline __u64 clock_ns(void)
{
	return wr_has_test_clock ? wr_page.test_time_ns : bpf_ktime_get_ns();
}

static __always_inline bool try_lock(struct wr_connection *c)
{
	return !__sync_val_compare_and_swap(&c->lock, 0, 1);
}

static __always_inline bool locked(struct wr_connection *c)
{
	for (int i = 0; i < 64; i++)
		if (try_lock(c))
			return true;
	return false;
}

static __always_inline void unlock(struct wr_connection *c)
{
	__sync_lock_test_and_set(&c->lock, 0);
}

static __always_inline void enter_time(__u32 cpu, __u32 which, __u32 time)
{
	__u32 place = cpu * HISTOGRAMS + which;
	struct wr_histogram *histogram = bpf_map_lookup_elem(&wr_connect_times, &place);
	__u32 index = histogram_index((__u64)time << WR_CONNECT_TIME_SHIFT);

	if (histogram && index < WR_HISTOGRAM_LEN)
		histogram->count[index]++;
}

static __always_inline void enter_events(__u32 cpu, const struct events *e)
{
	if (e->connected)
		enter_time(cpu, HISTOGRAM_CONNECT, e->connect_time);
	if (e->first_byte)
		enter_time(cpu, HISTOGRAM_FIRST_BYTE, e->first_byte_time);
	if (e->completed)
		enter_time(cpu, HISTOGRAM_TOTAL, e->total_time);
}

/* Addresses and ports of a connection: connect::Addresses::place. */
__noinline int wr_sides_of(__u32 index, struct sides *sides)
{
	__u32 client, rest, place, range = 0;

	if (!sides)
		return 0;
	client = index % wr_own_count;
	rest = index / wr_own_count;
	place = (rest + client) % wr_peer_total;
	for (int i = 0; i < WR_SERVERS_MAX - 1; i++) {
		__u32 places = wr_peer_count[i] * wr_peer_port_count[i];

		if (range + 1 >= wr_peer_ranges || place < places)
			break;
		place -= places;
		range++;
	}
	if (range >= WR_SERVERS_MAX)
		return 0;
	for (int i = 0; wr_is_v6 && i < 3; i++) {
		sides->own[i] = wr_own_words[i];
		sides->peer[i] = wr_peer_words[3 * range + i];
	}
	for (int i = 0; wr_answers_sender && i < 6; i++)
		sides->peer_mac[i] = wr_peer_macs[6 * range + i];
	sides->peer[3] = bpf_htonl(wr_peer_first[range] + place % wr_peer_count[range]);
	sides->peer_port = bpf_htons(wr_peer_port_first[range] + place / wr_peer_count[range]);
	sides->own[3] = bpf_htonl(wr_own_first + client);
	sides->own_port = bpf_htons(wr_own_port_first + rest / wr_peer_total);
	return 0;
}

/* The number of a server among all of them; wr_peer_total or more if it is none of the run. */
static __always_inline __u32 server_place(const struct sides *sides)
{
	__u32 before = 0;

	for (__u32 i = 0; i < WR_SERVERS_MAX; i++) {
		__u32 peer = bpf_ntohl(sides->peer[3]) - wr_peer_first[i];
		__u32 peer_port = bpf_ntohs(sides->peer_port) - wr_peer_port_first[i];
		const volatile __be32 *words = wr_peer_words + 3 * i;

		if (i >= wr_peer_ranges)
			break;
		if (peer < wr_peer_count[i] && peer_port < wr_peer_port_count[i] &&
		    (!wr_is_v6 || (sides->peer[0] == words[0] && sides->peer[1] == words[1] &&
				   sides->peer[2] == words[2])))
			return before + peer_port * wr_peer_count[i] + peer;
		before += wr_peer_count[i] * wr_peer_port_count[i];
	}
	return wr_peer_total;
}

/* The connection of a frame; NO_INDEX if its sender is no server of the run. The own address and
 * port are known to be in their ranges. */
__noinline __u32 wr_index_of(const struct sides *sides)
{
	__u32 own, own_port, place;

	if (!sides)
		return NO_INDEX;
	own = bpf_ntohl(sides->own[3]) - wr_own_first;
	own_port = bpf_ntohs(sides->own_port) - wr_own_port_first;
	place = server_place(sides);
	if (place >= wr_peer_total)
		return NO_INDEX;
	place = (place + wr_peer_total - own % wr_peer_total) % wr_peer_total;
	return (own_port * wr_peer_total + place) * wr_own_count + own;
}

/* Counts a connection of a client address. False if it has as many as it may have. */
static __always_inline bool client_begins(struct wr_connect_cpu *n, __u32 index)
{
	__u32 client = index % wr_own_count, open;
	__u32 *count;

	if (!wr_per_client_max)
		return true;
	count = bpf_map_lookup_elem(&wr_clients, &client);
	if (!count)
		return false;
	open = __sync_fetch_and_add(count, 1) + 1;
	if (open > wr_per_client_max) {
		__sync_fetch_and_add(count, -1);
		return false;
	}
	if (open > n->open_per_client_max)
		n->open_per_client_max = open;
	return true;
}

static __always_inline void client_ends(__u32 index)
{
	__u32 client = index % wr_own_count;
	__u32 *count;

	if (!wr_per_client_max)
		return;
	count = bpf_map_lookup_elem(&wr_clients, &client);
	if (count)
		__sync_fetch_and_add(count, -1);
}

/* The bytes of the first segment of a response that it is grouped by. False if it is too short. */
static __always_inline bool read_group(struct xdp_md *ctx, const struct arrival *a, struct wr_group_key *key)
{
	__u32 last = wr_group_len - 1;

	if (last >= WR_GROUP_LEN_MAX || a->len < wr_group_offset + wr_group_len)
		return false;
	return !bpf_xdp_load_bytes(ctx, a->at + wr_group_offset, key->bytes, last + 1);
}

/* "HTTP/1." of a status line, and the bits of these seven bytes. */
#define HTTP_WORD 0x002e312f50545448ull
#define HTTP_MASK 0x00ffffffffffffffull

/* Bytes of an answer that tell an error; fewer tell nothing. */
#define HTTP_HEAD_LEN 10
#define TLS_HEAD_LEN 6

/* True if the first bytes of an answer are those of an error. */
__noinline int wr_is_error_answer(struct xdp_md *ctx, __u32 at, __u32 len)
{
	__u8 head[16] = {};

	if (wr_answer_check == WR_ANSWER_QUIC)
		return !len || bpf_xdp_load_bytes(ctx, at, head, 1) || !(head[0] & 0x80);
	if (wr_answer_check == WR_ANSWER_TLS)
		/* The type of the record: handshake, and that of the message: ServerHello. */
		return len >= TLS_HEAD_LEN && !bpf_xdp_load_bytes(ctx, at, head, TLS_HEAD_LEN) &&
		       (head[0] != 22 || head[5] != 2);
	if (len < HTTP_HEAD_LEN || bpf_xdp_load_bytes(ctx, at, head, HTTP_HEAD_LEN))
		return false;
	return !((*(__u64 *)head ^ HTTP_WORD) & HTTP_MASK) && head[8] == ' ' && head[9] >= '4' &&
	       head[9] <= '9';
}

/* Counts a response in its group. */
__noinline int wr_count_in_group(struct wr_connect_cpu *n, const struct wr_group_key *key, bool has_key)
{
	struct wr_group_key own = {};
	__u64 *count, none = 0;

	if (!n || !key)
		return 0;
	own = *key;
	count = has_key ? bpf_map_lookup_elem(&wr_groups, &own) : 0;
	if (has_key && !count) {
		bpf_map_update_elem(&wr_groups, &own, &none, BPF_NOEXIST);
		count = bpf_map_lookup_elem(&wr_groups, &own);
	}
	if (count)
		__sync_fetch_and_add(count, 1);
	else
		n->ungrouped++;
	return 0;
}

/* connect::initial_number: a clock of 2.1 ms and a keyed hash of the connection (RFC 6528) in the
 * high half, so that a port that the server has in TIME_WAIT may be used again. */
static __always_inline __u32 initial_number(const struct sides *sides, __u64 ns)
{
	__u64 h = wr_key ^ ((__u64)bpf_ntohl(sides->own[3]) << 32 | bpf_ntohl(sides->peer[3]));

	h *= 0x9e3779b97f4a7c15ull;
	h ^= h >> 29;
	h ^= (__u64)bpf_ntohs(sides->own_port) << 16 | bpf_ntohs(sides->peer_port);
	h *= 0xbf58476d1ce4e5b9ull;
	return ((__u32)(h >> 48) + (__u32)(ns >> 21)) << 16;
}

/* Opens the next free connection. If each client address has a limit, it is one of the address of
 * the connection `ended`. False if there is none. */
__noinline int wr_open_next(struct wr_connect_cpu *n, __u64 ns, struct sides *sides, struct departure *d,
			    __u32 ended)
{
	struct wr_connection *c = 0;
	__u32 index = 0, now = ns >> WR_CONNECT_TIME_SHIFT, i;
	__u32 number;

	if (!n || !sides || !d)
		return false;
	if ((__s64)__sync_fetch_and_add(&wr_page.new_left, -1) <= 0)
		goto none;
	for (i = 0; i < WR_TRIES_FREE; i++) {
		if (wr_per_client_max && ended != NO_INDEX)
			index = ended = ((__u64)ended + wr_own_count) % wr_index_count;
		else
			index = __sync_fetch_and_add(&wr_page.next_index, 1) % wr_index_count;
		c = bpf_map_lookup_elem(&wr_connections, &index);
		if (!c)
			goto none;
		/* One that is locked is in use. */
		if (!is_open(c) && try_lock(c)) {
			if (!is_open(c) && client_begins(n, index))
				break;
			unlock(c);
		}
		n->busy_ports++;
	}
	if (i == WR_TRIES_FREE) {
		n->no_port++;
		goto none;
	}
	wr_sides_of(index, sides);
	number = wr_kind == WR_CONNECT_TCP ? initial_number(sides, ns) : (c->snd_nxt + 1) & 0xffff;
	c->flags = 0;
	c->tries = 0;
	c->gap_count = 0;
	c->snd_una = number;
	c->snd_nxt = wr_kind == WR_CONNECT_TCP ? number + 1 : number;
	c->rcv_nxt = 0;
	c->begun_at = now;
	c->asked_at = now;
	c->progress_at = now;
	c->left = 0;
	c->requests = 0;
	c->segment_max = 0;
	c->state = wr_kind == WR_CONNECT_TCP ? WR_CONN_SYN_SENT : WR_CONN_ASKED;
	unlock(c);
	n->tried++;
	if (wr_kind == WR_CONNECT_TCP) {
		d->seq = number;
		d->ack = 0;
		d->offset = 0;
		d->len = 0;
		d->gap_count = 0;
		d->flags = F_SYN;
	} else {
		n->requests++;
		d->id = number;
		d->len = wr_payload_len;
		d->flags = F_PSH;
	}
	return true;
none:
	__sync_fetch_and_add(&wr_page.new_left, 1);
	return false;
}

/* Writes the segment or datagram. A request that does not fit into the frame is left to the sender,
 * and an ACK is sent. */
static __always_inline bool write_frame(struct xdp_md *ctx, struct wr_connect_cpu *n, struct sides *sides,
					struct departure *d, __u32 index, bool has_frags)
{
	__u64 *later, number;
	__u32 place;

	if (wr_kind != WR_CONNECT_TCP) {
		if (wr_write_datagram(ctx, sides, d, wr_kind == WR_CONNECT_DNS))
			return true;
		n->not_written++;
		return false;
	}
	if (!resized_whole(ctx, segment_frame_len(d), has_frags)) {
		if (!d->len || index == NO_INDEX) {
			n->not_written++;
			return false;
		}
		number = __sync_fetch_and_add(&wr_page.later_head, 1);
		place = number & (WR_LATER_MAX - 1);
		later = bpf_map_lookup_elem(&wr_later, &place);
		/* The sender may look before this: it knows an older entry by its number. */
		if (later)
			*later = (number + 1) << 32 | index;
		n->no_space++;
		d->len = 0;
		d->flags = F_ACK;
		if (!resized_whole(ctx, segment_frame_len(d), has_frags)) {
			n->not_written++;
			return false;
		}
	}
	if (wr_write_segment(ctx, sides, d))
		return true;
	n->not_written++;
	return false;
}

/* Carries out an order. True if there is a segment to send. */
__noinline int wr_obey(struct wr_connection *c, struct wr_connect_cpu *n, struct step *s, __u32 order)
{
	struct departure *d;
	struct events *e;
	__u32 now;

	if (!c || !n || !s)
		return false;
	d = &s->departure;
	e = &s->events;
	now = s->now;
	switch (order) {
	case WR_ORDER_GIVE_UP:
		if (!is_open(c))
			return false;
		d->flags = F_RST | F_ACK;
		d->seq = c->snd_nxt;
		d->ack = c->rcv_nxt;
		order = c->state;
		n->timeout++;
		over(c, WR_CONN_TIMEOUT, e, now);
		return order != WR_CONN_SYN_SENT && wr_kind == WR_CONNECT_TCP;
	case WR_ORDER_CLOSE:
		if (c->state != WR_CONN_OPEN)
			return false;
		finish(c, n, e, now);
		break;
	case WR_ORDER_ASK:
		if (c->state != WR_CONN_OPEN || !wr_payload_len)
			return false;
		ask(c, n, now);
		break;
	default:
		if (!is_open(c))
			return false;
		if (c->state == WR_CONN_OPEN || c->snd_una == c->snd_nxt) {
			if (!(c->flags & WR_CONN_SKIPPED))
				return false;
			/* The ACK that was delayed. */
			c->flags &= ~WR_CONN_SKIPPED;
			break;
		}
		if (order != WR_ORDER_AGAIN)
			break;
		c->flags &= ~WR_CONN_DUE;
		if (c->tries < 255)
			c->tries++;
		if (c->state == WR_CONN_SYN_SENT)
			n->syn_resent++;
		else if (is_after(data_end(c), c->snd_una))
			n->requests_resent++;
		else
			n->fins_resent++;
	}
	state_segment(c, d);
	return true;
}

/* Takes the next order of the list. True if there is a segment to send. */
static __always_inline bool obey_next(struct wr_connect_cpu *n, __u32 cpu, __u64 ns, struct sides *sides,
				      struct step *s)
{
	__u32 place = wr_page.list_next++, index;
	struct wr_connect_order_entry *entry;
	struct wr_connection *c;
	bool sends;

	if (place >= wr_page.list_len)
		return false;
	entry = bpf_map_lookup_elem(&wr_connect_list, &place);
	if (!entry)
		return false;
	index = entry->index;
	c = bpf_map_lookup_elem(&wr_connections, &index);
	if (!c)
		return false;
	if (!locked(c)) {
		n->contended++;
		return false;
	}
	s->now = ns >> WR_CONNECT_TIME_SHIFT;
	sends = wr_obey(c, n, s, entry->order);
	unlock(c);
	if (s->events.over) {
		__sync_fetch_and_add(&wr_page.open, -1);
		client_ends(index);
		enter_events(cpu, &s->events);
	}
	if (sends)
		wr_sides_of(index, sides);
	return sends;
}

/* Opens a connection if the limit allows one. */
static __always_inline bool open_within_limit(struct wr_connect_cpu *n, __u64 ns, struct sides *sides,
					      struct departure *d)
{
	__s64 open = __sync_fetch_and_add(&wr_page.open, 1) + 1;

	if (open > wr_page.open_max || !wr_open_next(n, ns, sides, d, NO_INDEX)) {
		__sync_fetch_and_add(&wr_page.open, -1);
		return false;
	}
	if ((__u64)open > n->open_max)
		n->open_max = open;
	return true;
}

SEC("xdp")
int wr_connect_send(struct xdp_md *ctx)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct wr_connect_cpu *n = bpf_map_lookup_elem(&wr_connect_cpus, &cpu);
	struct sides sides = {};
	struct step s = {};
	__u64 ns = clock_ns();
	bool sends;

	if (!n)
		return XDP_ABORTED;
	if (wr_page.list_len)
		sends = obey_next(n, cpu, ns, &sides, &s);
	else
		sends = open_within_limit(n, ns, &sides, &s.departure);
	if (!sends || !write_frame(ctx, n, &sides, &s.departure, NO_INDEX, false))
		return XDP_DROP;
	return bpf_redirect(wr_ifindex, 0);
}

#define OPTION_LEN_MAX 40

/* Where a walk over options is. */
struct option_walk {
	__u8 options[64];
	__u32 place;
	__u32 len;
	struct facts *facts;
};

/* Takes one option; not 0 ends the walk. */
static long take_option(__u32 i, struct option_walk *w)
{
	__u32 place = w->place & 63, kind, len;

	if (place >= w->len)
		return 1;
	kind = w->options[place];
	if (!kind)
		return 1;
	if (kind == 1) {
		w->place = place + 1;
		return 0;
	}
	len = w->options[(place + 1) & 63];
	if (len < 2 || place + len > w->len)
		return 1;
	if (kind == 2 && len == 4)
		w->facts->segment_max = w->options[(place + 2) & 63] << 8 | w->options[(place + 3) & 63];
	if (kind == 4 && len == 2)
		w->facts->sack = true;
	w->place = place + len;
	return 0;
}

/* True if the options are the usual ones: the segment length, and selective ACKs behind it. */
static __always_inline bool read_usual_options(struct xdp_md *ctx, __u32 at, __u32 len, struct facts *facts)
{
	__be32 *option;

	if (at > 128)
		return false;
	option = (void *)(long)ctx->data + at;
	if ((void *)(option + 1) > (void *)(long)ctx->data_end ||
	    (option[0] & bpf_htonl(0xffff0000)) != bpf_htonl(0x02040000))
		return false;
	facts->segment_max = bpf_ntohl(option[0]);
	if (len == 4)
		return true;
	if ((void *)(option + 2) > (void *)(long)ctx->data_end || option[1] != bpf_htonl(0x01010402))
		return false;
	facts->sack = true;
	return true;
}

/* Reads segment length and selective ACKs from the options of a SYN-ACK, in any order. */
__noinline int wr_read_options(struct xdp_md *ctx, __u32 at, __u32 len, struct facts *facts)
{
	struct option_walk walk = {.len = len};
	__u32 last = len - 1;

	if (!facts || last >= OPTION_LEN_MAX)
		return 0;
	walk.facts = facts;
	facts->segment_max = 0;
	barrier_var(last);
	if (!bpf_xdp_load_bytes(ctx, at, walk.options, last + 1))
		bpf_loop(OPTION_LEN_MAX, take_option, &walk, 0);
	return 0;
}

#include "connect_http.h"

static __always_inline int receive_tcp(struct xdp_md *ctx, struct wr_connect_cpu *n, __u32 cpu,
				       struct step *s, __u32 index, struct wr_connection *c, bool has_frags)
{
	struct arrival *a = &s->arrival;
	struct wr_group_key group = {};
	bool has_group = false, is_first, is_error = false;
	__u64 ns = clock_ns();
	int verdict;

	if (a->flags & F_SYN && a->options &&
	    !read_usual_options(ctx, a->at - a->options, a->options, &s->facts))
		wr_read_options(ctx, a->at - a->options, a->options, &s->facts);
	is_first = a->len && c->state == WR_CONN_ASKED && !(c->flags & WR_CONN_BEGUN);
	if (wr_response_end == WR_RESPONSE_HTTP && is_first)
		s->facts.http_len = wr_http_response_len(ctx, a->at, a->len);
	if (wr_group_len && is_first)
		has_group = read_group(ctx, a, &group);
	if (wr_answer_check != WR_ANSWER_ANY && is_first)
		is_error = wr_is_error_answer(ctx, a->at, a->len);
	s->now = ns >> WR_CONNECT_TIME_SHIFT;
	if (!locked(c)) {
		n->contended++;
		return XDP_DROP;
	}
	verdict = wr_receive_segment(c, n, s);
	unlock(c);
	enter_events(cpu, &s->events);
	if (wr_group_len && s->events.first_byte)
		wr_count_in_group(n, &group, has_group);
	if (s->events.first_byte && is_error)
		n->error_answers++;
	if (s->events.over)
		client_ends(index);
	/* The place of a connection that has ended may be that of the next one. */
	if (verdict == VERDICT_OVER && wr_page.chains &&
	    wr_open_next(n, ns, &a->sides, &s->departure, index)) {
		verdict = VERDICT_ANSWER;
		index = NO_INDEX;
	} else if (s->events.over) {
		__sync_fetch_and_add(&wr_page.open, -1);
	}
	if (verdict != VERDICT_ANSWER || !write_frame(ctx, n, &a->sides, &s->departure, index, has_frags))
		return XDP_DROP;
	return answer_frame();
}

static __always_inline int receive_udp(struct xdp_md *ctx, struct wr_connect_cpu *n, __u32 cpu,
				       struct step *s, __u32 index, struct wr_connection *c)
{
	struct arrival *a = &s->arrival;
	struct wr_group_key group = {};
	__u64 ns = clock_ns();
	__be16 head[2] = {};

	if (wr_kind == WR_CONNECT_DNS &&
	    (a->len < 12 || bpf_xdp_load_bytes(ctx, a->at, head, sizeof(head)))) {
		n->strays++;
		return XDP_DROP;
	}
	if (!locked(c)) {
		n->contended++;
		return XDP_DROP;
	}
	/* An answer has the ID of its query, and the bit of an answer. */
	if (c->state != WR_CONN_ASKED ||
	    (wr_kind == WR_CONNECT_DNS &&
	     (bpf_ntohs(head[0]) != (c->snd_nxt & 0xffff) || !(head[1] & bpf_htons(0x8000))))) {
		unlock(c);
		n->strays++;
		return XDP_DROP;
	}
	receive_answer(c, n, &s->events, a->len, ns >> WR_CONNECT_TIME_SHIFT);
	unlock(c);
	if ((wr_kind == WR_CONNECT_DNS && head[1] & bpf_htons(0x000f)) ||
	    (wr_answer_check != WR_ANSWER_ANY && wr_is_error_answer(ctx, a->at, a->len)))
		n->error_answers++;
	enter_events(cpu, &s->events);
	if (wr_group_len)
		wr_count_in_group(n, &group, read_group(ctx, a, &group));
	client_ends(index);
	/* Where the next datagram does not fit into the frame, the sender sends it. */
	if (!wr_page.chains || !resized_whole(ctx, datagram_frame_len(), true) ||
	    !wr_open_next(n, ns, &a->sides, &s->departure, index)) {
		__sync_fetch_and_add(&wr_page.open, -1);
		return XDP_DROP;
	}
	return write_frame(ctx, n, &a->sides, &s->departure, NO_INDEX, true) ? answer_frame() : XDP_DROP;
}

static __always_inline int receive_frame(struct xdp_md *ctx, bool has_frags)
{
	__u32 cpu = bpf_get_smp_processor_id(), index;
	struct wr_connect_cpu *n = bpf_map_lookup_elem(&wr_connect_cpus, &cpu);
	struct neighbour_counts others = {};
	struct wr_connection *c;
	struct step s = {};
	int verdict;

	if (!n)
		return XDP_PASS;
	verdict = wr_parse(ctx, wr_kind != WR_CONNECT_TCP, &s.arrival, &others);
	if (verdict) {
		n->passed += others.passed;
		n->neighbours += others.answered;
		return verdict;
	}
	index = wr_index_of(&s.arrival.sides);
	c = bpf_map_lookup_elem(&wr_connections, &index);
	if (!c) {
		n->passed++;
		return XDP_PASS;
	}
	n->received++;
	if (wr_kind == WR_CONNECT_TCP)
		return receive_tcp(ctx, n, cpu, &s, index, c, has_frags);
	return receive_udp(ctx, n, cpu, &s, index, c);
}

SEC("xdp")
int wr_connect(struct xdp_md *ctx)
{
	return receive_frame(ctx, false);
}

SEC("xdp.frags")
int wr_connect_frags(struct xdp_md *ctx)
{
	return receive_frame(ctx, true);
}
