/* send.bpf.c: builds the frames of a plan in live frames and redirects them to a device.
 *
 * Run by BPF_PROG_RUN with live frames. For a plan of one packet with few fields, the page comes
 * with the whole template, and the program writes the first bytes and all that changes, because
 * recycled pages hold what the last receiver left in them. Other plans are in maps: the program
 * copies the whole template of each frame, because a page may hold another packet, and loops over
 * the fields.
 */
#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "due_times.h"
#include "plan.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Progress of the loops over one packet. */
struct walk {
	struct xdp_md *ctx;
	__u64 sum;
	__u64 entropy;
	__u32 field_first;
	__u32 state_first;
	__u32 op_first;
	__u32 is_repeat;
	__u32 failed;
};

static long step_field(__u32 index, struct walk *walk)
{
	void *frame = (void *)(long)walk->ctx->data, *end = (void *)(long)walk->ctx->data_end;
	__u32 place = walk->field_first + index, at = walk->state_first + index;
	const struct wr_field *field = bpf_map_lookup_elem(&wr_fields, &place);
	struct wr_field_state *state = &states.of[at & STATE_MASK];
	struct wr_facts facts = {.entropy = walk->entropy};

	if (!field) {
		walk->failed = 1;
		return 1;
	}
	if (!walk->is_repeat && !(plan.flags & WR_PLAN_HOLDS && is_held(field, field->kind, at)))
		state->value = next_value(field, field->kind, &state->state, &facts);
	if (field->kind & WR_KIND_KEY)
		walk->entropy = mix(walk->entropy, state->value);
	if (write_field(frame, end, field, field->kind, state->value, 0)) {
		walk->failed = 1;
		return 1;
	}
	return 0;
}

static long step_sum(__u32 index, struct walk *walk)
{
	void *frame = (void *)(long)walk->ctx->data, *end = (void *)(long)walk->ctx->data_end;
	__u32 place = walk->op_first + index;
	const struct wr_sum_op *op = bpf_map_lookup_elem(&wr_sum_ops, &place);
	__u64 sum = walk->sum;

	if (!op || do_sum_op(frame, end, op, &sum, 0)) {
		walk->failed = 1;
		return 1;
	}
	walk->sum = sum;
	return 0;
}

/* Writes the frame of a plan in maps; its length, or 0 if the memory is too short. */
static __always_inline __u32 write_packet(struct xdp_md *ctx, __u32 is_repeat)
{
	struct walk walk = {.ctx = ctx, .is_repeat = is_repeat};
	__u32 index = cursor.packet, last, frame_len;
	const struct wr_packet *packet = bpf_map_lookup_elem(&wr_packets, &index);

	if (!packet)
		return 0;
	last = packet->frame_len - 1;
	if (last >= WR_PREBUILT_MAX)
		return 0;
	/* Without this, clang compares the length itself, and some kernels do not infer that it is not
	 * zero. */
	barrier_var(last);
	frame_len = last + 1;
	if (frame_len != plan.frame_len_max &&
	    bpf_xdp_adjust_tail(ctx, (int)frame_len - (int)plan.frame_len_max))
		return 0;
	if (bpf_xdp_store_bytes(ctx, 0, (void *)packet->bytes, frame_len))
		return 0;
	walk.field_first = packet->field_first;
	walk.state_first = packet->state_first;
	walk.op_first = packet->op_first;
	bpf_loop(packet->field_count, step_field, &walk, 0);
	bpf_loop(packet->op_count, step_sum, &walk, 0);
	return walk.failed ? 0 : frame_len;
}

/* Moves all fields on and keeps their values for the repeats of the frame. */
static __always_inline void advance_all(struct wr_facts *facts)
{
	__u32 field_count = plan.field_count;

	for (__u32 i = 0; i < field_count; i++)
		states.of[i].value = advance_field(&plan.fields[i], plan.fields[i].kind, i, facts);
}

/* Writes the fields of a plan of one packet. */
static __always_inline void write_fields(void *frame, void *end, struct wr_facts *facts, __u32 flags)
{
	__u32 field_count = plan.field_count;

	for (__u32 i = 0; i < field_count; i++) {
		const volatile struct wr_field *field = &plan.fields[i];
		__u32 kind = field->kind;
		__u64 value;

		if (flags & WR_PLAN_REPEATS)
			value = states.of[i].value;
		else
			value = advance_field(field, kind, i, facts);
		write_field(frame, end, field, kind, value, 1);
	}
}

/* Writes the frame of a plan of one packet; its length, or 0 if the memory is too short. */
static __always_inline __u32 write_only_packet(struct xdp_md *ctx, struct wr_facts *facts, __u32 is_repeat,
					       __u32 flags)
{
	void *frame = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u32 frame_len;

	if (frame + plan.touched_len > end)
		return 0;
	copy_template(frame, plan.template_len);
	if (flags & WR_PLAN_REPEATS) {
		if (!is_repeat)
			advance_all(facts);
		if (flags & WR_PLAN_SIZE_MOVES)
			facts->payload_len = payload_length(states.of[plan.size_field & STATE_MASK].value);
	}
	write_fields(frame, end, facts, flags);
	write_sums(frame, end);
	frame_len = frame_length(facts, flags);
	/* Behind the fields, since it makes the pointers invalid. */
	if (flags & WR_PLAN_SIZE_MOVES && frame_len != plan.frame_len_max &&
	    bpf_xdp_adjust_tail(ctx, (int)frame_len - (int)plan.frame_len_max))
		return 0;
	return frame_len;
}

SEC("xdp")
int wr_send(struct xdp_md *ctx)
{
	__u32 flags = plan.flags, is_repeat = is_repeated(flags), frame_len;
	struct wr_facts facts = {};

	wait_for_frame();
	if (!is_repeat)
		begin_frame(&facts, flags);
	if (flags & WR_PLAN_IN_MAPS)
		frame_len = write_packet(ctx, is_repeat);
	else
		frame_len = write_only_packet(ctx, &facts, is_repeat, flags);
	if (!is_repeat)
		end_frame(&facts, flags);
	if (!frame_len) {
		cursor.malformed++;
		return XDP_ABORTED;
	}
	count_frame(frame_len, flags);
	if (flags & WR_PLAN_RECEIVE)
		return XDP_PASS;
	return bpf_redirect(plan.ifindex, 0);
}
