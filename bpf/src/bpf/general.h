/* general.h: builds the frames of a general plan, for every program that sends them.
 *
 * The order of the steps and of the random draws is that of packet/src/general; a test compares the
 * bytes (engine/src/differential/). A plan of one packet is read-only data, so the verifier removes
 * the code that the plan does not use, and each field costs what code written for it would. The
 * packets of other plans are in maps, and loops run over their fields.
 */
#ifndef WR_GENERAL_H
#define WR_GENERAL_H

#include "draw.h"
#include "shared.h"

/* Keeps an index inside the states. */
#define STATE_MASK (WR_STATES_MAX - 1)

const volatile struct wr_general general;
struct wr_cursor cursor;

/* The state of each field, apart from the cursor, which is mapped alone. */
struct wr_field_states states SEC(".data.states");

/* The maps are resized before load. Only a plan of several packets uses packets, fields and ops. */
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

/* `size` is that of the range, 0 for 2^64. */
static __always_inline __u64 draw_in_range(__u64 min, __u64 size)
{
	if (!size)
		return min + draw_long(&cursor.rng);
	if (size <= 1ull << 32)
		return min + ((draw_word(&cursor.rng) * size) >> 32);
	return min + multiply_high(draw_long(&cursor.rng), size);
}

static __always_inline __u64 count_up(const volatile struct wr_field *field, __u64 value)
{
	__u64 next = value + field->step;

	if (next < value)
		next = ~0ull;
	if (next <= field->max)
		return next;
	next = next < field->wrap ? 0 : next - field->wrap;
	return next < field->min ? field->min : next;
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

	*state = *state + 1 < field->values_count ? *state + 1 : field->repeat_from;
	return value ? *value : 0;
}

/* Reads the time that this frame carries. */
static __always_inline void read_clock(void)
{
	if (!cursor.clock_left) {
		cursor.now_ns = bpf_ktime_get_ns();
		cursor.clock_left = cursor.clock_every;
	}
	cursor.clock_left--;
}

/* The value of a field in this frame. */
static __always_inline __u64 next_value(const volatile struct wr_field *field, __u64 *state)
{
	__u64 value = *state;

	switch (field->mode) {
	case WR_FIELD_RANDOM:
		return draw_in_range(field->min, field->max - field->min + 1);
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
	default:
		return take_value(field, state);
	}
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
	if ((mask & 0xff) == 0xff)
		*(__u8 *)at = bits;
	else
		*(__u8 *)at = (*(__u8 *)at & ~mask) | (bits & mask);
	return 0;
}

static __always_inline int put_half(void *at, void *end, __u64 mask, __u64 bits, const int is_checked)
{
	if (is_short(at, 2, end, is_checked))
		return -1;
	if ((mask & 0xffff) == 0xffff)
		*(__be16 *)at = bpf_htons(bits);
	else
		*(__be16 *)at = (*(__be16 *)at & bpf_htons(~mask)) | bpf_htons(bits & mask);
	return 0;
}

static __always_inline int put_word(void *at, void *end, __u64 mask, __u64 bits, const int is_checked)
{
	if (is_short(at, 4, end, is_checked))
		return -1;
	if ((mask & 0xffffffff) == 0xffffffff)
		*(__be32 *)at = bpf_htonl(bits);
	else
		*(__be32 *)at = (*(__be32 *)at & bpf_htonl(~mask)) | bpf_htonl(bits & mask);
	return 0;
}

/* Writes the next value of a field; not 0 if the frame ends before it. */
static __always_inline int write_field(void *frame, void *end, const volatile struct wr_field *field,
				       __u64 *state, const int is_checked)
{
	__u32 width = field->width, left = width * 8;
	__u64 mask = field->mask, bits = next_value(field, state) << field->shift;
	void *at = frame + (field->offset & WR_OFFSET_MASK);
	int failed = 0;

	if (width & 8)
		return put_word(at, end, mask >> 32, bits >> 32, is_checked) ||
		       put_word(at + 4, end, mask, bits, is_checked);
	if (width & 4) {
		left -= 32;
		failed = put_word(at, end, mask >> left, bits >> left, is_checked);
		at += 4;
	}
	if (width & 2) {
		left -= 16;
		failed |= put_half(at, end, mask >> left, bits >> left, is_checked);
		at += 2;
	}
	if (width & 1)
		failed |= put_byte(at, end, mask, bits, is_checked);
	return failed;
}

/* Folds a sum of numbers to 16 bits. */
static __always_inline __u32 fold_long(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16);
}

/* One step of the checksums: adds bytes, or writes the sum and starts the next one. Sums are in
 * the order of the bytes in memory, which ones-complement sums do not depend on. Not 0 if the frame
 * ends before the bytes. */
static __always_inline int do_sum_op(void *frame, void *end, const volatile struct wr_sum_op *op, __u64 *sum,
				     const int is_checked)
{
	void *at = frame + (op->offset & WR_OFFSET_MASK);
	__u64 bits;
	__u32 folded;

	if (op->kind == WR_SUM_ADD) {
		if (op->width == 4) {
			if (is_short(at, 4, end, is_checked))
				return -1;
			bits = *(__u32 *)at;
		} else if (op->width == 2) {
			if (is_short(at, 2, end, is_checked))
				return -1;
			bits = *(__u16 *)at;
		} else {
			if (is_short(at, 1, end, is_checked))
				return -1;
			bits = *(__u8 *)at;
		}
		bits &= op->mask;
		*sum += op->is_odd ? bits << 8 : bits;
		return 0;
	}
	folded = ~fold_long(*sum + op->base) & 0xffff;
	if (op->kind == WR_SUM_UDP && !folded)
		folded = 0xffff; /* 0 would mean "no checksum" (RFC 768) */
	if (is_short(at, 2, end, is_checked))
		return -1;
	*(__u16 *)at = folded;
	*sum = 0;
	return 0;
}

/* Writes the start of the template in words of eight bytes; the last one overlaps the one before.
 */
static __always_inline void copy_template(void *frame, __u32 len)
{
#pragma unroll
	for (__u32 at = 0; at + 8 <= WR_TEMPLATE_MAX; at += 8) {
		if (at + 8 <= len)
			*(__u64 *)(frame + at) = *(const volatile __u64 *)(general.template + at);
	}
	if (len & 7)
		*(__u64 *)(frame + len - 8) = *(const volatile __u64 *)(general.template + len - 8);
}

/* Writes the next frame of a plan of one packet; not 0 if the memory is too short. */
static __always_inline int write_only_packet(void *frame, void *end)
{
	__u64 sum = 0;

	if (frame + general.touched_len > end)
		return -1;
	copy_template(frame, general.template_len);
#pragma unroll
	for (__u32 i = 0; i < WR_FIELDS_UNROLLED; i++) {
		if (i < general.field_count)
			write_field(frame, end, &general.fields[i], &states.state[i], 1);
	}
#pragma unroll
	for (__u32 i = 0; i < WR_SUM_OPS_UNROLLED; i++) {
		if (i < general.op_count)
			do_sum_op(frame, end, &general.ops[i], &sum, 1);
	}
	return 0;
}

/* Chooses the packet after this one. */
static __always_inline void choose_packet(void)
{
	__u32 count = general.packet_count;

	if (count <= 1)
		return;
	if (general.flags & WR_GENERAL_RANDOM_ORDER)
		cursor.next_packet = (draw_word(&cursor.rng) * count) >> 32;
	else
		cursor.next_packet = cursor.next_packet + 1 >= count ? 0 : cursor.next_packet + 1;
}

#endif
