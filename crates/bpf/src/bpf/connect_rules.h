/* connect_rules.h: what a connection does with a segment of the server.
 *
 * The crate `connect` has the same rules in Rust, and crates/bpf/tests/connect_program.rs compares
 * the two: function names are the same there.
 */
#ifndef WR_CONNECT_RULES_H
#define WR_CONNECT_RULES_H

#include "session.h"

/* Set before load. */
const volatile __u32 wr_requests = 1; /* of a connection; 0: no request */
const volatile __u32 wr_response_end = WR_RESPONSE_PUSH;
const volatile __u32 wr_response_bytes = 0;
const volatile __u32 wr_close = WR_CLOSE_SERVER;
const volatile bool wr_holds = false; /* connections stay open until they are closed by an order */

#define WINDOW_LEN (0xffffu << 7) /* of our SYN: window and scale */
#define SEGMENT_MAX_DEFAULT 536	  /* RFC 9293: of a server that does not say */
#define SEGMENT_MAX_LEAST 64	  /* a smaller one would be an attack */

enum verdict {
	VERDICT_IGNORE, /* nothing is to be sent */
	VERDICT_ANSWER,
	VERDICT_OVER, /* the connection has ended, and nothing is to be sent */
};

/* Facts of a segment that take another look at the frame. */
struct facts {
	__u32 http_len;	   /* of the whole response with its header; 0 is unknown */
	__u16 segment_max; /* of a SYN-ACK; 0: it has none */
	bool sack;	   /* a SYN-ACK permits selective acknowledgement */
};

/* What has happened, with the time that it took. */
struct events {
	bool connected;
	bool first_byte;
	bool over;	/* an open connection has ended */
	bool completed; /* of those: it is complete */
	__u32 connect_time;
	__u32 first_byte_time;
	__u32 total_time;
};

/* A segment, and what comes of it. */
struct step {
	struct arrival arrival;
	struct facts facts;
	struct departure departure;
	struct events events;
	__u32 now;
};

static __always_inline bool is_open(const struct wr_connection *c)
{
	return c->state >= WR_CONN_SYN_SENT && c->state <= WR_CONN_FIN_SENT;
}

static __always_inline bool is_after(__u32 a, __u32 b)
{
	return (__s32)(a - b) > 0;
}

/* The number behind the last byte of the requests that were sent. */
static __always_inline __u32 data_end(const struct wr_connection *c)
{
	return c->snd_nxt - (c->state == WR_CONN_FIN_SENT ? 1 : 0);
}

/* The segment that the state asks for: used for first answers and for all repairs. */
static __always_inline void state_segment(const struct wr_connection *c, struct departure *d)
{
	__u32 end = data_end(c), left = end - c->snd_una;
	bool has_fin = c->state == WR_CONN_FIN_SENT && is_after(c->snd_nxt, c->snd_una);

	d->flags = F_ACK;
	d->seq = c->snd_nxt;
	d->ack = c->rcv_nxt;
	d->gap_count = 0;
	d->offset = 0;
	d->len = 0;
	if (c->state == WR_CONN_SYN_SENT) {
		d->flags = F_SYN;
		d->seq = c->snd_una;
		d->ack = 0;
		return;
	}
	if (c->state == WR_CONN_DONE && wr_close == WR_CLOSE_RESET) {
		d->flags = F_ACK | F_RST;
		return;
	}
	if (c->flags & WR_CONN_SACK && is_open(c))
		d->gap_count = c->gap_count > WR_GAPS_MAX ? WR_GAPS_MAX : c->gap_count;
	for (int i = 0; i < WR_GAPS_MAX; i++)
		if (i < d->gap_count)
			d->gaps[i] = c->gaps[i];
	if (c->state != WR_CONN_ASKED && c->state != WR_CONN_FIN_SENT)
		return;
	if (is_after(end, c->snd_una) && left <= wr_payload_len) {
		d->offset = wr_payload_len - left;
		/* Sums are of whole words: an odd offset sends a byte again. */
		if (d->offset & 1) {
			d->offset--;
			left++;
		}
		d->seq = end - left;
		d->len = left > c->segment_max ? c->segment_max : left;
		if (d->len == left)
			d->flags = has_fin ? F_ACK | F_PSH | F_FIN : F_ACK | F_PSH;
	} else if (has_fin) {
		d->flags = F_ACK | F_FIN;
		d->seq = end;
	}
}

static __always_inline void over(struct wr_connection *c, __u8 state, struct events *e, __u32 now)
{
	c->state = state;
	c->gap_count = 0;
	e->over = true;
	e->completed = state == WR_CONN_DONE;
	e->total_time = now - c->begun_at;
}

static __always_inline void complete(struct wr_connection *c, struct wr_connect_cpu *n, struct events *e,
				     __u32 now)
{
	if (c->flags & WR_CONN_CUT) {
		over(c, WR_CONN_CUT_OFF, e, now);
		n->cut_off++;
		return;
	}
	over(c, WR_CONN_DONE, e, now);
	n->completed++;
}

/* Our side ends the connection. */
static __always_inline void finish(struct wr_connection *c, struct wr_connect_cpu *n, struct events *e,
				   __u32 now)
{
	if (wr_close == WR_CLOSE_RESET) {
		complete(c, n, e, now);
		return;
	}
	c->state = WR_CONN_FIN_SENT;
	c->snd_nxt++;
	c->tries = 0;
	c->progress_at = now;
}

static __always_inline void ask(struct wr_connection *c, struct wr_connect_cpu *n, __u32 now)
{
	c->state = WR_CONN_ASKED;
	c->snd_nxt += wr_payload_len;
	c->flags &= ~(WR_CONN_BEGUN | WR_CONN_SIZED | WR_CONN_SKIPPED);
	c->left = 0;
	c->tries = 0;
	c->requests++;
	c->asked_at = now;
	c->progress_at = now;
	n->requests++;
}

/* Remembers data behind a gap. Ranges neither overlap nor touch; the newest one is the first. */
static __always_inline void add_gap(struct wr_connection *c, __u32 first, __u32 end)
{
	struct wr_gap kept0 = {}, kept1 = {};
	__u32 kept = 0;

	for (int i = 0; i < WR_GAPS_MAX; i++) {
		struct wr_gap gap = c->gaps[i];

		if (i >= c->gap_count)
			break;
		if (!is_after(first, gap.end) && !is_after(gap.first, end)) {
			first = is_after(first, gap.first) ? gap.first : first;
			end = is_after(gap.end, end) ? gap.end : end;
			continue;
		}
		if (kept == 0)
			kept0 = gap;
		else if (kept == 1)
			kept1 = gap;
		kept++;
	}
	c->gaps[0].first = first;
	c->gaps[0].end = end;
	c->gaps[1] = kept0;
	c->gaps[2] = kept1;
	c->gap_count = kept >= 2 ? 3 : kept + 1;
}

/* The bytes of ranges that the next expected number has reached; they are not behind a gap. */
static __always_inline __u32 take_gaps(struct wr_connection *c)
{
	struct wr_gap kept0 = {}, kept1 = {};
	__u32 kept = 0, taken = 0, next = c->rcv_nxt;

	for (int i = 0; i < WR_GAPS_MAX; i++) {
		struct wr_gap gap = c->gaps[i];

		if (i >= c->gap_count)
			break;
		if (!is_after(gap.first, next)) {
			if (is_after(gap.end, next)) {
				taken += gap.end - next;
				next = gap.end;
			}
			continue;
		}
		if (kept == 0)
			kept0 = gap;
		else if (kept == 1)
			kept1 = gap;
		kept++;
	}
	c->gaps[0] = kept0;
	c->gaps[1] = kept1;
	c->gap_count = kept;
	c->rcv_nxt = next;
	return taken;
}

static __always_inline void count_response(struct wr_connection *c, struct wr_connect_cpu *n, __u32 now)
{
	n->responses++;
	c->state = WR_CONN_OPEN;
	c->progress_at = now;
}

/* True if the server ends the connection behind the current response. */
static __always_inline bool is_last_of_server(const struct wr_connection *c)
{
	return wr_close == WR_CLOSE_SERVER && !wr_holds && c->requests >= wr_requests;
}

/* Data in order: `len` new bytes of the current response. True if it is complete. */
static __always_inline bool take_response(struct wr_connection *c, struct wr_connect_cpu *n, struct events *e,
					  const struct facts *facts, __u32 len, bool is_pushed, __u32 now)
{
	bool ends_with_fin = wr_response_end == WR_RESPONSE_CLOSE ||
			     (wr_response_end == WR_RESPONSE_HTTP && is_last_of_server(c));

	if (!(c->flags & WR_CONN_BEGUN)) {
		c->flags |= WR_CONN_BEGUN;
		e->first_byte = true;
		e->first_byte_time = now - c->asked_at;
		if (wr_response_end == WR_RESPONSE_BYTES) {
			c->flags |= WR_CONN_SIZED;
			c->left = wr_response_bytes;
		} else if (wr_response_end == WR_RESPONSE_HTTP && facts->http_len) {
			c->flags |= WR_CONN_SIZED;
			c->left = facts->http_len;
		} else if (wr_response_end == WR_RESPONSE_HTTP && !ends_with_fin) {
			n->unsized_responses++;
		}
	}
	if (c->flags & WR_CONN_SIZED) {
		c->left = c->left > len ? c->left - len : 0;
		return !c->left;
	}
	if (ends_with_fin)
		return false;
	return wr_response_end == WR_RESPONSE_FIRST || is_pushed;
}

static __always_inline enum verdict refuse_stray(struct wr_connect_cpu *n, const struct arrival *a,
						 struct departure *d)
{
	n->strays++;
	if ((a->flags & (F_RST | F_ACK)) != F_ACK)
		return VERDICT_IGNORE;
	d->flags = F_RST;
	d->seq = a->ack;
	return VERDICT_ANSWER;
}

static __always_inline enum verdict receive_syn_ack(struct wr_connection *c, struct wr_connect_cpu *n,
						    struct events *e, const struct arrival *a,
						    const struct facts *facts, __u32 now, struct departure *d)
{
	__u32 segment_max = facts->segment_max ? facts->segment_max : SEGMENT_MAX_DEFAULT;

	n->established++;
	e->connected = true;
	e->connect_time = now - c->begun_at;
	c->rcv_nxt = a->seq + 1;
	c->snd_una = a->ack;
	c->tries = 0;
	c->progress_at = now;
	c->flags = facts->sack ? WR_CONN_SACK : 0;
	if (segment_max > wr_segment_max)
		segment_max = wr_segment_max;
	if (segment_max < SEGMENT_MAX_LEAST)
		segment_max = SEGMENT_MAX_LEAST;
	c->segment_max = segment_max & ~1u; /* parts of a request begin at even offsets */
	c->state = WR_CONN_OPEN;
	if (wr_requests && wr_payload_len)
		ask(c, n, now);
	else if (!wr_holds && wr_close != WR_CLOSE_SERVER)
		finish(c, n, e, now);
	state_segment(c, d);
	return VERDICT_ANSWER;
}

static __always_inline enum verdict receive_in_syn_sent(struct wr_connection *c, struct wr_connect_cpu *n,
							struct events *e, const struct arrival *a,
							const struct facts *facts, __u32 now,
							struct departure *d)
{
	if (a->flags & F_RST) {
		if (!(a->flags & F_ACK) || a->ack != c->snd_nxt) {
			n->strays++;
			return VERDICT_IGNORE;
		}
		n->refused++;
		over(c, WR_CONN_REFUSED, e, now);
		return VERDICT_OVER;
	}
	if (!(a->flags & F_ACK)) {
		n->strays++;
		return VERDICT_IGNORE;
	}
	if (a->ack != c->snd_nxt) {
		/* The server still has an earlier connection of this port: a reset ends that
		 * (RFC 9293, 3.5.1), and the SYN is sent again. */
		n->challenged++;
		c->flags |= WR_CONN_DUE;
		d->flags = F_RST;
		d->seq = a->ack;
		return VERDICT_ANSWER;
	}
	if (!(a->flags & F_SYN)) {
		n->strays++;
		return VERDICT_IGNORE;
	}
	return receive_syn_ack(c, n, e, a, facts, now, d);
}

/* A segment without data and FIN, at the expected number. */
static __always_inline enum verdict receive_ack(struct wr_connection *c, struct wr_connect_cpu *n,
						struct events *e, bool advanced, __u32 now,
						struct departure *d)
{
	bool all = c->snd_una == c->snd_nxt;

	if (c->state == WR_CONN_FIN_SENT && c->flags & WR_CONN_FIN_SEEN && all) {
		complete(c, n, e, now);
		return VERDICT_OVER;
	}
	if (!advanced)
		return VERDICT_IGNORE;
	if (c->state == WR_CONN_ASKED && all && wr_response_end == WR_RESPONSE_BYTES && !wr_response_bytes) {
		/* The response of no bytes. */
		count_response(c, n, now);
		if (c->requests < wr_requests) {
			ask(c, n, now);
		} else if (!wr_holds && wr_close != WR_CLOSE_SERVER) {
			finish(c, n, e, now);
		} else {
			return VERDICT_IGNORE;
		}
		state_segment(c, d);
		return VERDICT_ANSWER;
	}
	if ((c->state == WR_CONN_ASKED || c->state == WR_CONN_FIN_SENT) &&
	    is_after(data_end(c), c->snd_una)) {
		/* The next part of a request that is longer than a segment. */
		state_segment(c, d);
		return VERDICT_ANSWER;
	}
	return VERDICT_IGNORE;
}

/* Data or a FIN that begins behind the expected number. */
static __always_inline enum verdict receive_behind_gap(struct wr_connection *c, struct wr_connect_cpu *n,
						       const struct arrival *a, struct departure *d)
{
	n->gaps++;
	if (a->len && a->seq + a->len - c->rcv_nxt < WINDOW_LEN) {
		add_gap(c, a->seq, a->seq + a->len);
		if (a->flags & F_PSH)
			c->flags |= WR_CONN_GAP_PUSH;
	}
	state_segment(c, d);
	return VERDICT_ANSWER;
}

/* An ACK for every second segment (RFC 9293, 3.8.6.3), at once behind a segment with PSH. But where
 * the server ends the connection after this response, its FIN is awaited. User space orders an ACK
 * that is delayed for too long. */
static __always_inline bool may_delay_ack(const struct wr_connection *c, bool is_pushed)
{
	if (c->flags & WR_CONN_SKIPPED)
		return false;
	return is_last_of_server(c) || (c->state == WR_CONN_ASKED && !is_pushed);
}

/* New data, or a FIN, at the expected number; `len` bytes are new. */
static __always_inline enum verdict receive_data(struct wr_connection *c, struct wr_connect_cpu *n,
						 struct events *e, const struct arrival *a,
						 const struct facts *facts, __u32 len, __u32 now,
						 struct departure *d)
{
	bool has_fin, is_pushed = a->flags & F_PSH, is_complete = false;

	c->rcv_nxt += len;
	if (len)
		n->segments++;
	if (c->gap_count) {
		len += take_gaps(c);
		if (!c->gap_count && c->flags & WR_CONN_GAP_PUSH) {
			is_pushed = true;
			c->flags &= ~WR_CONN_GAP_PUSH;
		}
	}
	/* A FIN before the end of what has arrived cannot be: a hostile server. */
	has_fin = a->flags & F_FIN && a->seq + a->len == c->rcv_nxt;
	c->progress_at = now;
	c->tries = 0;
	n->payload_bytes += len;
	if (c->state == WR_CONN_ASKED && len)
		is_complete = take_response(c, n, e, facts, len, is_pushed, now);
	if (c->state == WR_CONN_ASKED && has_fin && !(c->flags & WR_CONN_SIZED) && c->flags & WR_CONN_BEGUN)
		is_complete = true;
	if (is_complete) {
		count_response(c, n, now);
		if (c->requests < wr_requests && !has_fin && !wr_holds) {
			ask(c, n, now);
			state_segment(c, d);
			return VERDICT_ANSWER;
		}
	}
	if (has_fin) {
		c->rcv_nxt++;
		c->flags |= WR_CONN_FIN_SEEN;
		if (c->state == WR_CONN_ASKED)
			c->flags |= WR_CONN_CUT;
		if (c->state == WR_CONN_OPEN && wr_holds)
			n->ended_by_server++;
		else if (c->state == WR_CONN_OPEN && c->requests < wr_requests)
			c->flags |= WR_CONN_CUT; /* it was to answer more requests */
		if (c->state == WR_CONN_FIN_SENT && c->snd_una == c->snd_nxt)
			complete(c, n, e, now);
		else if (c->state != WR_CONN_FIN_SENT)
			finish(c, n, e, now);
	} else if (is_complete && !wr_holds && wr_close != WR_CLOSE_SERVER) {
		finish(c, n, e, now);
	} else if (may_delay_ack(c, is_pushed)) {
		c->flags |= WR_CONN_SKIPPED;
		return VERDICT_IGNORE;
	}
	c->flags &= ~WR_CONN_SKIPPED;
	state_segment(c, d);
	return VERDICT_ANSWER;
}

/* A segment of the server for a connection. `d` is what to answer, if the verdict says so. */
__noinline int wr_receive_segment(struct wr_connection *c, struct wr_connect_cpu *n, struct step *s)
{
	const struct facts *facts;
	const struct arrival *a;
	struct departure *d;
	struct events *e;
	bool has_fin, advanced = false;
	__u32 ahead, old, now;

	if (!c || !n || !s)
		return VERDICT_IGNORE;
	a = &s->arrival;
	facts = &s->facts;
	d = &s->departure;
	e = &s->events;
	now = s->now;
	has_fin = a->flags & F_FIN;
	ahead = a->seq - c->rcv_nxt;
	if (c->state == WR_CONN_SYN_SENT)
		return receive_in_syn_sent(c, n, e, a, facts, now, d);
	if (!is_open(c) && c->state != WR_CONN_DONE)
		return refuse_stray(n, a, d);
	if (a->flags & F_RST) {
		if (c->state == WR_CONN_DONE || ahead >= WINDOW_LEN) {
			n->strays++;
			return VERDICT_IGNORE;
		}
		n->reset++;
		over(c, WR_CONN_RESET, e, now);
		return VERDICT_OVER;
	}
	if (!(a->flags & F_ACK) || is_after(a->ack, c->snd_nxt)) {
		n->strays++;
		return VERDICT_IGNORE;
	}
	if (a->flags & F_SYN) {
		n->syn_acks_repeated++;
		state_segment(c, d);
		return VERDICT_ANSWER;
	}
	if (is_after(a->ack, c->snd_una)) {
		c->snd_una = a->ack;
		c->tries = 0;
		c->progress_at = now;
		advanced = true;
	}
	if (!a->len && !has_fin) {
		if (ahead == (__u32)-1 && !advanced) {
			n->keepalive++;
			state_segment(c, d);
			return VERDICT_ANSWER;
		}
		return c->state == WR_CONN_DONE ? VERDICT_IGNORE : receive_ack(c, n, e, advanced, now, d);
	}
	if (c->state == WR_CONN_DONE) {
		n->repeated++;
		state_segment(c, d);
		return VERDICT_ANSWER;
	}
	if ((__s32)ahead > 0)
		return receive_behind_gap(c, n, a, d);
	old = -ahead; /* bytes that have arrived before */
	if (old > a->len || (old == a->len && (!has_fin || c->flags & WR_CONN_FIN_SEEN))) {
		n->repeated++;
		state_segment(c, d);
		return VERDICT_ANSWER;
	}
	if (c->flags & WR_CONN_FIN_SEEN) {
		/* Data behind the FIN. */
		n->strays++;
		return VERDICT_IGNORE;
	}
	return receive_data(c, n, e, a, facts, a->len - old, now, d);
}

/* An answer over UDP. */
static __always_inline enum verdict receive_answer(struct wr_connection *c, struct wr_connect_cpu *n,
						   struct events *e, __u32 len, __u32 now)
{
	n->segments++;
	n->payload_bytes += len;
	n->responses++;
	e->first_byte = true;
	e->first_byte_time = now - c->asked_at;
	complete(c, n, e, now);
	return VERDICT_OVER;
}

#endif
