/* send_general.bpf.c: builds the frames of a general plan in live frames and redirects them.
 *
 * Run as send.bpf.c. A plan of one packet with few fields is specialized by its read-only data; its
 * page comes with the whole template, and the program writes the first bytes and all that changes.
 * Other plans are in maps: the program copies the whole template of each frame, because a page may
 * hold another packet, and loops over the fields.
 */
#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "due_times.h"
#include "general.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Progress of the loops over one packet. */
struct walk {
	struct xdp_md *ctx;
	__u64 sum;
	__u32 field_first;
	__u32 state_first;
	__u32 op_first;
	__u32 failed;
};

static long step_field(__u32 index, struct walk *walk)
{
	void *frame = (void *)(long)walk->ctx->data, *end = (void *)(long)walk->ctx->data_end;
	__u32 place = walk->field_first + index, state = walk->state_first + index;
	const struct wr_field *field = bpf_map_lookup_elem(&wr_fields, &place);

	if (!field || write_field(frame, end, field, &states.state[state & STATE_MASK], 0)) {
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

/* Writes the next frame of a plan in maps; its length, or 0 if the memory is too short. */
static __always_inline __u32 write_packet(struct xdp_md *ctx)
{
	struct walk walk = {.ctx = ctx};
	__u32 next = cursor.next_packet, last, frame_len;
	const struct wr_packet *packet = bpf_map_lookup_elem(&wr_packets, &next);

	if (!packet)
		return 0;
	last = packet->frame_len - 1;
	if (last >= WR_PREBUILT_MAX)
		return 0;
	/* Without this, clang compares the length itself, and some kernels do not infer that it is not
	 * zero. */
	barrier_var(last);
	frame_len = last + 1;
	if (frame_len != general.frame_len_max &&
	    bpf_xdp_adjust_tail(ctx, (int)frame_len - (int)general.frame_len_max))
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

SEC("xdp")
int wr_send_general(struct xdp_md *ctx)
{
	__u32 frame_len = general.frame_len_max;

	wait_for_frame();
	if (general.flags & WR_GENERAL_TIME)
		read_clock();
	if (general.flags & WR_GENERAL_IN_MAPS)
		frame_len = write_packet(ctx);
	else if (write_only_packet((void *)(long)ctx->data, (void *)(long)ctx->data_end))
		frame_len = 0;
	if (!frame_len) {
		cursor.malformed++;
		return XDP_ABORTED;
	}
	choose_packet();
	cursor.number++;
	cursor.seq_num++;
	cursor.offered++;
	cursor.frame_bytes += frame_len;
	if (general.flags & WR_GENERAL_RECEIVE)
		return XDP_PASS;
	return bpf_redirect(general.ifindex, 0);
}
