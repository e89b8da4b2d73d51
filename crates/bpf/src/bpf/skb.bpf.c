/* skb.bpf.c: builds the frames of a plan and sends them as clones of one skb.
 *
 * Run by BPF_PROG_RUN on a zeroed skb: each iteration writes the next frame into it and passes a
 * clone to the device or into its receive path. bpf_clone_redirect leaves the old bytes to the
 * clone and copies them for the skb, so the next iteration can write at once. A frame that the
 * device does not accept is kept and sent first in the next iteration; only the worker can find out
 * why it was not accepted.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "plan.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct wr_skb_run run SEC(".data.run");

struct send_context {
	struct __sk_buff *skb;
};

/* Moves all fields on to the next frame. */
static __always_inline void build(__u32 flags)
{
	__u32 field_count = plan.field_count;
	struct wr_facts facts = {};

	begin_frame(&facts, flags);
	for (__u32 i = 0; i < field_count; i++)
		states.of[i].value = advance_field(&plan.fields[i], plan.fields[i].kind, i, &facts);
	end_frame(&facts, flags);
}

/* The length of the frame that was built. */
static __always_inline __u32 built_length(__u32 flags)
{
	struct wr_facts facts = {};

	if (flags & WR_PLAN_SIZE_MOVES)
		facts.payload_len = payload_length(states.of[plan.size_field & STATE_MASK].value);
	return frame_length(&facts, flags);
}

/* Writes the frame that was built into the skb; not 0 on failure. */
static __always_inline int fill(struct __sk_buff *skb, __u32 frame_len, __u32 flags)
{
	__u32 field_count = plan.field_count;
	void *frame, *end;

	if (flags & WR_PLAN_SIZE_MOVES && frame_len != skb->len && bpf_skb_change_tail(skb, frame_len, 0))
		return -1;
	frame = (void *)(long)skb->data;
	end = (void *)(long)skb->data_end;
	if (frame + plan.touched_len > end)
		return -1;
	copy_template(frame, plan.template_len);
	for (__u32 i = 0; i < field_count; i++)
		write_field(frame, end, &plan.fields[i], plan.fields[i].kind, states.of[i].value, 1);
	write_sums(frame, end);
	/* With a recorded queue the stack does not dissect the frame for a hash. 0 means "not recorded".
	 */
	skb->queue_mapping = flags & WR_PLAN_QUEUE_MAPPED ? cursor.queue + 1 : run.queue_mapping;
	return 0;
}

static long send_one(__u32 index, struct send_context *context)
{
	__u32 flags = plan.flags, frame_len;
	long result;

	if (!run.left)
		return 1;
	if (!run.is_kept) {
		if (!is_repeated(flags)) {
			build(flags);
			run.is_written = 0;
		}
		run.is_kept = 1;
	}
	frame_len = built_length(flags);
	if (!run.is_written && fill(context->skb, frame_len, flags)) {
		cursor.malformed++;
		run.left = 0;
		return 1;
	}
	run.is_written = 1;
	result = bpf_clone_redirect(context->skb, plan.ifindex, flags & WR_PLAN_RECEIVE ? BPF_F_INGRESS : 0);
	if (result == NET_XMIT_DROP) {
		run.device_full++;
		return 1;
	}
	if (result < 0) {
		run.last_error = result;
		run.left = 0;
		return 1;
	}
	if (result == NET_XMIT_CN)
		run.congested++;
	run.is_kept = 0;
	run.left--;
	count_frame(frame_len, flags);
	return 0;
}

SEC("tc")
int wr_send_skb(struct __sk_buff *skb)
{
	struct send_context context = {.skb = skb};

	bpf_loop(run.batch, send_one, &context, 0);
	return TC_ACT_OK;
}
