/* written.bpf.c: frames that the worker wrote, as clones of one skb.
 *
 * For frames that no program can make, such as sealed ones. Run by BPF_PROG_RUN as skb.bpf.c is: each turn
 * copies the next frame of the call into the skb and hands a clone on. A frame that was not taken ends the
 * call; `taken` says how many were.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

#include "shared.h"

/* errno of a program that cannot go on. */
#define EINVAL 22

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Set before load. */
const volatile __u32 wr_written_ifindex = 0;
const volatile __u64 wr_written_redirect = 0; /* BPF_F_INGRESS for the receive path of the device */

/* Resized before load. Plain bytes: the worker writes them between two calls. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wr_written);
} wr_frames SEC(".maps");

struct wr_written_run written SEC(".data.run");

struct turn {
	struct __sk_buff *skb;
};

/* Makes the skb the frame of a slot; not 0 when it cannot. */
static __always_inline int fill(struct __sk_buff *skb, const struct wr_written *slot)
{
	__u32 last = slot->frame_len - 1, frame_len;

	if (last >= WR_WRITTEN_MAX)
		return -1;
	/* Without this, clang compares the length itself, and Linux 6.1 does not see that it is not zero. */
	barrier_var(last);
	frame_len = last + 1;
	if (frame_len != skb->len && bpf_skb_change_tail(skb, frame_len, 0))
		return -1;
	if (bpf_skb_store_bytes(skb, 0, slot->frame, frame_len, 0))
		return -1;
	skb->queue_mapping = slot->queue_mapping;
	return 0;
}

static long send_one(__u32 index, struct turn *turn)
{
	__u32 place = written.first + written.taken;
	const struct wr_written *slot;
	long said;

	if (!written.left)
		return 1;
	slot = bpf_map_lookup_elem(&wr_frames, &place);
	if (!slot || fill(turn->skb, slot)) {
		written.last_error = -EINVAL;
		written.left = 0;
		return 1;
	}
	said = bpf_clone_redirect(turn->skb, wr_written_ifindex, wr_written_redirect);
	if (said < 0 || said == NET_XMIT_DROP) {
		written.last_error = said < 0 ? said : 0;
		written.left = 0;
		return 1;
	}
	if (said == NET_XMIT_CN)
		written.congested++;
	written.taken++;
	written.left--;
	return 0;
}

SEC("tc")
int wr_send_written(struct __sk_buff *skb)
{
	struct turn turn = {.skb = skb};

	bpf_loop(written.turns, send_one, &turn, 0);
	return TC_ACT_OK;
}
