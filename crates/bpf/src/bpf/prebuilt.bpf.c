/* prebuilt.bpf.c: sends frames that user space built, as clones of one skb.
 *
 * For frames that BPF cannot build, such as ESP packets. Run by BPF_PROG_RUN like skb.bpf.c: each
 * iteration copies the next frame into the skb and sends a clone. A frame that is not accepted ends
 * the call; `taken` counts the accepted ones.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

#include "shared.h"

/* Reported when a frame cannot be copied. */
#define EINVAL 22

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Set before load. */
const volatile __u32 wr_prebuilt_ifindex = 0;
const volatile __u64 wr_prebuilt_redirect = 0; /* BPF_F_INGRESS for the receive path of the device */

/* Resized before load. The worker writes the frames between calls. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wr_prebuilt);
} wr_frames SEC(".maps");

struct wr_prebuilt_run prebuilt SEC(".data.run");

struct send_context {
	struct __sk_buff *skb;
};

/* Copies the frame of a slot into the skb; not 0 on failure. */
static __always_inline int fill(struct __sk_buff *skb, const struct wr_prebuilt *slot)
{
	__u32 last = slot->frame_len - 1, frame_len;

	if (last >= WR_PREBUILT_MAX)
		return -1;
	/* Without this, clang compares the length itself, and Linux 6.1 does not infer that it is not
	 * zero. */
	barrier_var(last);
	frame_len = last + 1;
	if (frame_len != skb->len && bpf_skb_change_tail(skb, frame_len, 0))
		return -1;
	if (bpf_skb_store_bytes(skb, 0, slot->frame, frame_len, 0))
		return -1;
	skb->queue_mapping = slot->queue_mapping;
	return 0;
}

static long send_one(__u32 index, struct send_context *context)
{
	__u32 place = prebuilt.first + prebuilt.taken;
	const struct wr_prebuilt *slot;
	long result;

	if (!prebuilt.left)
		return 1;
	slot = bpf_map_lookup_elem(&wr_frames, &place);
	if (!slot || fill(context->skb, slot)) {
		prebuilt.last_error = -EINVAL;
		prebuilt.left = 0;
		return 1;
	}
	result = bpf_clone_redirect(context->skb, wr_prebuilt_ifindex, wr_prebuilt_redirect);
	if (result < 0 || result == NET_XMIT_DROP) {
		prebuilt.last_error = result < 0 ? result : 0;
		prebuilt.left = 0;
		return 1;
	}
	if (result == NET_XMIT_CN)
		prebuilt.congested++;
	prebuilt.taken++;
	prebuilt.left--;
	return 0;
}

SEC("tc")
int wr_send_prebuilt(struct __sk_buff *skb)
{
	struct send_context context = {.skb = skb};

	bpf_loop(prebuilt.batch, send_one, &context, 0);
	return TC_ACT_OK;
}
