/* skb.bpf.c: the frames of a plan, as clones of one skb.
 *
 * Run by BPF_PROG_RUN on an skb that starts with zeros: each turn writes the next frame into it and hands a
 * clone to the device or into its receive path. bpf_clone_redirect gives the clone the old bytes and the skb
 * a copy of its own, so the next turn may write at once. A frame that the device does not take is kept and
 * goes first in the next turn; only the worker can see why it was not taken.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "frame.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct wr_skb_run run SEC(".data.run");

struct turn {
	struct __sk_buff *skb;
};

/* Makes the skb the frame that the cursor stands at; not 0 when it cannot. */
static __always_inline int fill(struct __sk_buff *skb, __u32 frame_len, __u32 udp_len, __u32 flags)
{
	__u32 header_len = plan.header_len;
	void *frame, *end;

	if (flags & WR_PLAN_SIZE_MOVES && frame_len != skb->len && bpf_skb_change_tail(skb, frame_len, 0))
		return -1;
	frame = (void *)(long)skb->data;
	end = (void *)(long)skb->data_end;
	if (frame + header_len > end)
		return -1;
	write_frame(frame, header_len, udp_len, flags);
	/* A recorded queue is taken as it is; without one the stack dissects each frame for a hash. 0 would
	 * be "not recorded".
	 */
	skb->queue_mapping = flags & WR_PLAN_QUEUE_MAPPED ? cursor.queue + 1 : run.queue_mapping;
	return 0;
}

static long send_one(__u32 index, struct turn *turn)
{
	__u32 flags = plan.flags, frame_len, udp_len = 0;
	long said;

	if (!run.left)
		return 1;
	if (!run.is_kept) {
		if (!(flags & WR_PLAN_REPEATS) || !cursor.repeats_left) {
			build(flags);
			run.is_written = 0;
		}
		run.is_kept = 1;
	}
	frame_len = frame_length(flags, &udp_len);
	if (!run.is_written && fill(turn->skb, frame_len, udp_len, flags)) {
		cursor.malformed++;
		run.left = 0;
		return 1;
	}
	run.is_written = 1;
	said = bpf_clone_redirect(turn->skb, plan.ifindex, flags & WR_PLAN_RECEIVE ? BPF_F_INGRESS : 0);
	if (said == NET_XMIT_DROP) {
		run.no_room++;
		return 1;
	}
	if (said < 0) {
		run.last_error = said;
		run.left = 0;
		return 1;
	}
	if (said == NET_XMIT_CN)
		run.congested++;
	run.is_kept = 0;
	run.left--;
	count_frame(frame_len, flags);
	return 0;
}

SEC("tc")
int wr_send_skb(struct __sk_buff *skb)
{
	struct turn turn = {.skb = skb};

	bpf_loop(run.turns, send_one, &turn, 0);
	return TC_ACT_OK;
}
