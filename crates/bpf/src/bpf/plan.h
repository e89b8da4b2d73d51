/* plan.h: builds the next frame of a plan, for every program that sends frames.
 *
 * The order of the steps and of the random draws is that of crates/packet/src/plan/emit.rs; a test
 * compares the bytes (crates/engine/src/differential.rs). A plan of one packet is read-only data,
 * for which the program is specialized before it is loaded (crates/bpf/src/specialize): loops over
 * its fields are unrolled, and each field costs what code written for it would. The packets of
 * other plans are in maps, and loops run over their fields.
 */
#ifndef WR_PLAN_H
#define WR_PLAN_H

#include "draw.h"
#include "shared.h"

#define NSEC_PER_SEC 1000000000ull
#define NSEC_PER_USEC 1000ull
/* Keeps an index inside the states. */
#define STATE_MASK (WR_STATES_MAX - 1)

const volatile struct wr_plan plan;
struct wr_cursor cursor;

/* The state of each field, apart from the cursor, which is mapped alone. */
struct wr_field_states states SEC(".data.states");

/* What fields of one frame take their values from. */
struct wr_facts {
	struct wr_flow *flow; /* of the flow table */
	__u64 flow_number;    /* for full signatures */
	__u64 entropy;	      /* the values of fields with WR_KIND_KEY, mixed */
	__u32 flow_id;
	__u32 payload_len; /* if sizes move */
};

/* The maps are resized before load. Packets, fields and ops are only for WR_PLAN_IN_MAPS. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wr_flow);
} wr_flows SEC(".maps");

/* For each state, the next frames that have its last value; only for WR_PLAN_HOLDS. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} wr_held SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wr_packet);
} wr_packets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wr_field);
} wr_fields SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wr_sum_op);
} wr_sum_ops SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} wr_values SEC(".maps");

/* The upper half of the product of two 64-bit numbers. */
static __always_inline __u64 multiply_high(__u64 a, __u64 b)
{
	__u64 low = (a & 0xffffffff) * (b & 0xffffffff);
	__u64 middle = (a >> 32) * (b & 0xffffffff) + (low >> 32);
	__u64 other = (a & 0xffffffff) * (b >> 32) + (middle & 0xffffffff);

	return (a >> 32) * (b >> 32) + (middle >> 32) + (other >> 32);
}

/* A number below `size`, which is more than 2^32, or 0 for 2^64. */
static __always_inline __u64 draw_wide(__u64 size)
{
	__u64 bits = draw_long(&cursor.rng);

	return size ? multiply_high(bits, size) : bits;
}

static __always_inline __u64 count_down(const volatile struct wr_field *field, __u64 value)
{
	__u64 below, less;

	if (value >= field->step && value - field->step >= field->min)
		return value - field->step;
	below = value > field->min ? value - field->min : 0;
	less = field->step - 1 > below ? field->step - 1 - below : 0;
	if (less > field->max || field->max - less < field->min)
		return field->min;
	return field->max - less;
}

static __always_inline __u64 take_value(const volatile struct wr_field *field, __u64 *state)
{
	__u32 index = field->values_at + *state;
	__u64 *value = bpf_map_lookup_elem(&wr_values, &index);

	*state = *state + 1 < field->values_count ? *state + 1 : field->step;
	return value ? *value : 0;
}

static __always_inline __u64 draw_bits(const volatile struct wr_field *field)
{
	__u64 bits = 0;

	if (field->step)
		bits = draw_word(&cursor.rng) << 32;
	bits |= draw_word(&cursor.rng);
	return (bits | field->min) & field->max;
}

/* A uniform random number of the ranges of the plan. */
static __always_inline __u64 draw_from_pools(void)
{
	__u32 first = plan.pool_count[0], second = plan.pool_count[1];
	__u64 total = (__u32)(first + second + plan.pool_count[2]);
	__u32 place = (draw_word(&cursor.rng) * total) >> 32;

	if (place < first)
		return plan.pool_start[0] + place;
	place -= first;
	if (place < second)
		return plan.pool_start[1] + place;
	return plan.pool_start[2] + (place - second);
}

/* The size of an entry of the internet mix of the plan. All that follows is specialized for each
 * size. */
static __always_inline __u64 draw_size(void)
{
	__u32 random = draw_word(&cursor.rng), count = plan.imix_count;

	for (__u32 i = 0; i < count; i++) {
		if (random <= plan.imix_last[i] || i + 1 == count) {
			cursor.imix_counts[i]++;
			return plan.imix_size[i];
		}
	}
	return 0;
}

/* A number below `size`, 0 for 2^64. */
static __always_inline __u64 draw_below(__u64 size)
{
	if (!size || size > 1ull << 32)
		return draw_wide(size);
	return (draw_word(&cursor.rng) * size) >> 32;
}

static __always_inline __u64 count_up(const volatile struct wr_field *field, __u64 value)
{
	__u64 next = value + field->step, max = field->max, min;

	if (next < value)
		next = ~0ull;
	if (next <= max)
		return next;
	min = field->min;
	next = next < field->wrap ? 0 : next - field->wrap;
	return next < min ? min : next;
}

static __always_inline __u64 step(const volatile struct wr_field *field, __u64 value)
{
	return value < field->max ? value + 1 : field->min;
}

/* Returns the current offset and moves on to the next one. */
static __always_inline __u64 take_offset(const volatile struct wr_field *field, __u64 *state)
{
	__u64 used = *state;

	*state = used + 1 >= field->max ? 0 : used + 1;
	return field->min + used;
}

/* The value of a field by its mode; moves its state on. */
static __always_inline __u64 next_value(const volatile struct wr_field *field, __u32 kind, __u64 *state,
					const struct wr_facts *facts)
{
	__u64 value = *state;

	switch (kind & WR_KIND_MODE) {
	case WR_FIELD_RANDOM:
	case WR_FIELD_RANDOM_OFFSET:
		value = field->min + draw_below(field->max);
		if ((kind & WR_KIND_MODE) == WR_FIELD_RANDOM)
			*state = value;
		return value;
	case WR_FIELD_UP:
		*state = count_up(field, value);
		return value;
	case WR_FIELD_DOWN:
		*state = count_down(field, value);
		return value;
	case WR_FIELD_NUMBER:
		return cursor.number;
	case WR_FIELD_TIME:
		return cursor.now_ns;
	case WR_FIELD_KEPT:
		return value;
	case WR_FIELD_STEP:
		return *state = step(field, value);
	case WR_FIELD_OFFSET:
		return take_offset(field, state);
	case WR_FIELD_BITS:
		return *state = draw_bits(field);
	case WR_FIELD_POOLS:
		return *state = draw_from_pools();
	case WR_FIELD_MIX:
		return *state = draw_size();
	case WR_FIELD_LENGTH:
		return facts->payload_len + field->min;
	case WR_FIELD_SEQUENCE:
		return cursor.seq_num;
	case WR_FIELD_WALL_SECONDS:
		return cursor.now_sec;
	case WR_FIELD_WALL_MICROS:
		return cursor.now_usec;
	case WR_FIELD_WALL_NANOS:
		return cursor.now_nsec | field->min;
	case WR_FIELD_ENTROPY:
		return field->min + (facts->entropy >> field->step);
	case WR_FIELD_FLOW:
		return facts->flow_id;
	case WR_FIELD_FLOW_NUMBER:
		return (facts->flow_number & 0xffffffff) << 16 | (facts->flow_number >> 32 & 0xffff);
	default:
		return take_value(field, state);
	}
}

/* Bytes of the payload of a frame of this size. */
static __always_inline __u32 payload_length(__u64 size)
{
	return size > plan.fixed_len + plan.payload_min ? size - plan.fixed_len : plan.payload_min;
}

/* Mixes the value of a field with those before it. */
static __always_inline __u64 mix(__u64 entropy, __u64 value)
{
	return (entropy ^ value) * 0x9e3779b97f4a7c15ull;
}

/* True if the field with state `at` has its last value in this frame, too. */
static __always_inline int is_held(const volatile struct wr_field *field, __u32 kind, __u32 at)
{
	__u64 *frames;

	if (!(kind & WR_KIND_HOLD))
		return 0;
	frames = bpf_map_lookup_elem(&wr_held, &at);
	if (!frames)
		return 0;
	if (*frames) {
		(*frames)--;
		return 1;
	}
	*frames = field->hold - 1;
	return 0;
}

/* Moves on a field that several frames or the whole frame depend on: it holds its values, is the
 * size, is what the frames of a flow have in common, or decides about the port of a tunnel. */
static __always_inline __u64 advance_special(const volatile struct wr_field *field, __u32 kind, __u32 at,
					     struct wr_field_state *state, struct wr_facts *facts)
{
	__u64 value;

	if (kind & WR_KIND_FLOW && facts->flow && facts->flow->is_open) {
		state->state = facts->flow->value;
		if (kind & WR_KIND_HOLD)
			state->value = state->state;
		return state->state;
	}
	if (is_held(field, kind, at))
		value = state->value;
	else
		value = next_value(field, kind, &state->state, facts);
	if (kind & WR_KIND_HOLD)
		state->value = value;
	if (kind & WR_KIND_FLOW && facts->flow) {
		facts->flow->value = value;
		facts->flow->is_open = 1;
		cursor.flows_started++;
	}
	if (kind & WR_KIND_SIZE)
		facts->payload_len = payload_length(value);
	if (kind & WR_KIND_KEY)
		facts->entropy = mix(facts->entropy, value);
	return value;
}

/* The value of field `at` of an only packet in this frame; moves its state on. */
static __always_inline __u64 advance_field(const volatile struct wr_field *field, __u32 kind, __u32 at,
					   struct wr_facts *facts)
{
	if (kind & WR_KIND_SPECIAL)
		return advance_special(field, kind, at, &states.of[at], facts);
	return next_value(field, kind, &states.of[at].state, facts);
}

/* True if fewer than `len` bytes follow. If `is_checked`, a constant, the caller checked that. */
static __always_inline int is_short(void *at, __u32 len, void *end, const int is_checked)
{
	if (is_checked)
		return 0;
	return at + len > end;
}

static __always_inline int put_byte(void *at, void *end, __u64 mask, __u64 bits, const int is_checked)
{
	if (is_short(at, 1, end, is_checked))
		return -1;
	*(__u8 *)at = (*(__u8 *)at & ~mask) | (bits & mask);
	return 0;
}

static __always_inline int put_half(void *at, void *end, __u64 mask, __u64 bits, const int is_checked)
{
	if (is_short(at, 2, end, is_checked))
		return -1;
	*(__be16 *)at = (*(__be16 *)at & bpf_htons(~mask)) | bpf_htons(bits & mask);
	return 0;
}

static __always_inline int put_word(void *at, void *end, __u64 mask, __u64 bits, const int is_checked)
{
	if (is_short(at, 4, end, is_checked))
		return -1;
	*(__be32 *)at = (*(__be32 *)at & bpf_htonl(~mask)) | bpf_htonl(bits & mask);
	return 0;
}

/* Writes some bits of a field; not 0 if the frame ends before it. */
static __always_inline int write_bits(void *at, void *end, const volatile struct wr_field *field, __u32 kind,
				      __u64 bits, const int is_checked)
{
	__u32 left = (kind >> WR_KIND_WIDTH_SHIFT & 0xf) * 8;
	__u64 mask = field->mask;
	int failed = 0;

	bits <<= field->shift;
	if (kind & WR_KIND_WIDTH(8))
		return put_word(at, end, mask >> 32, bits >> 32, is_checked) ||
		       put_word(at + 4, end, mask, bits, is_checked);
	if (kind & WR_KIND_WIDTH(4)) {
		left -= 32;
		failed = put_word(at, end, mask >> left, bits >> left, is_checked);
		at += 4;
	}
	if (kind & WR_KIND_WIDTH(2)) {
		left -= 16;
		failed |= put_half(at, end, mask >> left, bits >> left, is_checked);
		at += 2;
	}
	if (kind & WR_KIND_WIDTH(1))
		failed |= put_byte(at, end, mask, bits, is_checked);
	return failed;
}

/* Writes a value into a field; not 0 if the frame ends before it. */
static __always_inline int write_field(void *frame, void *end, const volatile struct wr_field *field,
				       __u32 kind, __u64 value, const int is_checked)
{
	__u32 offset = field->offset, form = kind & WR_KIND_FORM;
	void *at = frame + (is_checked ? offset : offset & WR_OFFSET_MASK);

	switch (form) {
	case WR_KIND_WIDTH(0):
		return 0;
	case WR_KIND_WIDTH(2):
		if (is_short(at, 2, end, is_checked))
			return -1;
		*(__be16 *)at = bpf_htons(value);
		return 0;
	case WR_KIND_WIDTH(4):
		if (is_short(at, 4, end, is_checked))
			return -1;
		*(__be32 *)at = bpf_htonl(value);
		return 0;
	case WR_KIND_WIDTH(5):
		if (is_short(at, 5, end, is_checked))
			return -1;
		*(__be32 *)at = bpf_htonl(value >> 8);
		*(__u8 *)(at + 4) = value;
		return 0;
	case WR_KIND_WIDTH(6):
		if (is_short(at, 6, end, is_checked))
			return -1;
		*(__be32 *)at = bpf_htonl(value >> 16);
		*(__be16 *)(at + 4) = bpf_htons(value);
		return 0;
	case WR_KIND_WIDTH(8):
		if (is_short(at, 8, end, is_checked))
			return -1;
		*(__be32 *)at = bpf_htonl(value >> 32);
		*(__be32 *)(at + 4) = bpf_htonl(value);
		return 0;
	default:
		return write_bits(at, end, field, kind, value, is_checked);
	}
}

/* Folds a sum below 2^48 to 16 bits. */
static __always_inline __u32 fold_long(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16);
}

/* Adds some bits of a word, a half word or a byte, maybe at an odd place, to a sum. */
static __always_inline int add_bits(void *at, void *end, const volatile struct wr_sum_op *op, __u32 kind,
				    __u64 *sum, const int is_checked)
{
	__u64 bits;

	if (kind & WR_SUM_WORD) {
		if (is_short(at, 4, end, is_checked))
			return -1;
		bits = *(__u32 *)at;
	} else if (kind & WR_SUM_HALF) {
		if (is_short(at, 2, end, is_checked))
			return -1;
		bits = *(__u16 *)at;
	} else {
		if (is_short(at, 1, end, is_checked))
			return -1;
		bits = *(__u8 *)at;
	}
	bits &= op->mask;
	*sum += kind & WR_SUM_ODD ? bits << 8 : bits;
	return 0;
}

/* One step of the checksums: adds bytes, or writes the sum and starts the next one. Sums are in
 * the order of the bytes in memory, which ones-complement sums do not depend on. Not 0 if the frame
 * ends before the bytes. */
static __always_inline int do_sum_op(void *frame, void *end, const volatile struct wr_sum_op *op, __u64 *sum,
				     const int is_checked)
{
	__u32 kind = op->kind, offset = op->offset, folded;
	void *at = frame + (is_checked ? offset : offset & WR_OFFSET_MASK);

	switch (kind) {
	case WR_SUM_HALF:
		if (is_short(at, 2, end, is_checked))
			return -1;
		*sum += *(__u16 *)at;
		return 0;
	case WR_SUM_WORD:
		if (is_short(at, 4, end, is_checked))
			return -1;
		*sum += *(__u32 *)at;
		return 0;
	case WR_SUM_WRITE:
	case WR_SUM_WRITE | WR_SUM_UDP:
		folded = ~fold_long(*sum + op->base) & 0xffff;
		if (kind & WR_SUM_UDP && !folded)
			folded = 0xffff; /* 0 would mean "no checksum" (RFC 768) */
		if (is_short(at, 2, end, is_checked))
			return -1;
		*(__u16 *)at = folded;
		*sum = 0;
		return 0;
	default:
		return add_bits(at, end, op, kind, sum, is_checked);
	}
}

/* Writes the start of the template in words of eight bytes; the last one overlaps the one before.
 */
static __always_inline void copy_template(void *frame, __u32 len)
{
	for (__u32 at = 0; at + 8 <= len; at += 8)
		*(__u64 *)(frame + at) = *(const volatile __u64 *)(plan.template + at);
	if (len & 7)
		*(__u64 *)(frame + len - 8) = *(const volatile __u64 *)(plan.template + len - 8);
}

/* True if the last frame is sent once more. */
static __always_inline int is_repeated(__u32 flags)
{
	return flags & WR_PLAN_REPEATS && cursor.repeats_left;
}

/* Reads the time that this frame carries. */
static __always_inline void read_clock(__u32 flags)
{
	if (!cursor.clock_left) {
		__u64 now_ns = bpf_ktime_get_ns(), sec;

		cursor.now_ns = now_ns;
		if (flags & WR_PLAN_WALL_TIME) {
			now_ns += cursor.wall_offset_ns;
			sec = now_ns / NSEC_PER_SEC;
			cursor.now_sec = sec;
			now_ns -= sec * NSEC_PER_SEC;
			cursor.now_usec = now_ns / NSEC_PER_USEC;
			cursor.now_nsec = now_ns % NSEC_PER_USEC;
		}
		cursor.clock_left = cursor.clock_every;
	}
	cursor.clock_left--;
}

/* The flow of the next frame; a flow that has reached its length is closed first. */
static __always_inline struct wr_flow *pick_flow(__u32 flags)
{
	__u32 index = cursor.flow_index;
	struct wr_flow *flow;

	if (!(flags & WR_PLAN_FLOW_SEQ))
		index = (draw_word(&cursor.rng) * plan.flow_count) >> 32;
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

/* Finds flow and number of the next built frame, which only full signatures have. */
static __always_inline void count_in_flow(struct wr_facts *facts, __u32 flags)
{
	__u32 step = 1;

	if (facts->flow) {
		facts->flow_id = plan.signature_flow_first + cursor.flow_index;
		facts->flow_number = facts->flow->number++;
		return;
	}
	facts->flow_id = plan.signature_flow_first + cursor.slot;
	facts->flow_number = cursor.round;
	if (flags & WR_PLAN_HOLDS) {
		step = plan.signature_flow_len;
		facts->flow_number += cursor.in_row++;
		if (cursor.in_row < step)
			return;
		cursor.in_row = 0;
	}
	cursor.slot++;
	if (cursor.slot >= plan.signature_flows) {
		cursor.slot = 0;
		cursor.round += step;
	}
}

/* The steps before the fields of a frame that is built. */
static __always_inline void begin_frame(struct wr_facts *facts, __u32 flags)
{
	if (flags & WR_PLAN_IN_MAPS)
		cursor.packet = cursor.next_packet;
	if (flags & WR_PLAN_FLOWS)
		facts->flow = pick_flow(flags);
	if (flags & (WR_PLAN_TIME | WR_PLAN_WALL_TIME))
		read_clock(flags);
	if (flags & WR_PLAN_FULL_SIGNATURE)
		count_in_flow(facts, flags);
}

/* A queue that is not in the range (as on a fresh device) is followed by the first of the range. */
static __always_inline void step_queue(__u32 flags)
{
	__u32 next = cursor.queue;

	if (flags & WR_PLAN_QUEUE_RANDOM)
		next =
		    plan.queue_min + ((draw_word(&cursor.rng) * (plan.queue_max - plan.queue_min + 1)) >> 32);
	else if (!cursor.queue_started || next < plan.queue_min || next >= plan.queue_max)
		next = plan.queue_min;
	else
		next++;
	cursor.queue_started = 1;
	if (plan.queue_max >= plan.queue_count)
		next %= plan.queue_count;
	cursor.queue = next;
}

/* Chooses the packet after this one. */
static __always_inline void choose_packet(__u32 flags)
{
	__u32 count = plan.packet_count;

	if (!(flags & WR_PLAN_IN_MAPS) || count <= 1)
		return;
	if (flags & WR_PLAN_RANDOM_ORDER)
		cursor.next_packet = (draw_word(&cursor.rng) * count) >> 32;
	else
		cursor.next_packet = cursor.next_packet + 1 >= count ? 0 : cursor.next_packet + 1;
}

/* The steps behind the fields of a frame that is built. */
static __always_inline void end_frame(const struct wr_facts *facts, __u32 flags)
{
	if (flags & WR_PLAN_QUEUE_MOVES)
		step_queue(flags);
	if (flags & WR_PLAN_FLOWS && facts->flow)
		facts->flow->count++;
	choose_packet(flags);
	cursor.number++;
	if (flags & WR_PLAN_REPEATS)
		cursor.repeats_left = plan.repeats;
}

/* The frame was sent. */
static __always_inline void count_frame(__u32 frame_len, __u32 flags)
{
	if (flags & WR_PLAN_REPEATS)
		cursor.repeats_left--;
	cursor.seq_num++;
	cursor.offered++;
	if (flags & (WR_PLAN_SIZE_MOVES | WR_PLAN_IN_MAPS))
		cursor.frame_bytes += frame_len;
}

/* Writes the checksums of a plan of one packet. */
static __always_inline void write_sums(void *frame, void *end)
{
	__u32 op_count = plan.op_count;
	__u64 sum = 0;

	for (__u32 i = 0; i < op_count; i++)
		do_sum_op(frame, end, &plan.ops[i], &sum, 1);
}

/* The length of a frame of a plan of one packet. */
static __always_inline __u32 frame_length(const struct wr_facts *facts, __u32 flags)
{
	if (flags & WR_PLAN_SIZE_MOVES)
		return plan.headers_len + facts->payload_len;
	return plan.frame_len_max;
}

#endif
