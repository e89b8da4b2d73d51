/* send.bpf.c: builds the frames of a plan in live frames and redirects them to a device.
 *
 * Run by BPF_PROG_RUN with live frames. Each call gets a page that holds zeros behind the headers.
 * It writes every header byte, because recycled pages hold what the last receiver left in them.
 */
#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "due_times.h"
#include "frame.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

SEC("xdp")
int wr_send(struct xdp_md *ctx)
{
	__u32 flags = plan.flags, header_len = plan.header_len;
	__u32 frame_len, udp_len = 0;
	void *frame, *end;

	wait_for_frame();
	if (!(flags & WR_PLAN_REPEATS) || !cursor.repeats_left)
		build(flags);

	frame_len = frame_length(flags, &udp_len);
	if (flags & WR_PLAN_SIZE_MOVES && frame_len != plan.frame_len_max &&
	    bpf_xdp_adjust_tail(ctx, (int)frame_len - (int)plan.frame_len_max))
		goto malformed;

	frame = (void *)(long)ctx->data;
	end = (void *)(long)ctx->data_end;
	if (frame + header_len > end)
		goto malformed;
	write_frame(frame, header_len, udp_len, flags);
	count_frame(frame_len, flags);
	if (flags & WR_PLAN_RECEIVE)
		return XDP_PASS;
	return bpf_redirect(plan.ifindex, 0);

malformed:
	cursor.malformed++;
	return XDP_ABORTED;
}
