/* reflect.bpf.c: frames that a driver did not send although a program answered XDP_TX.
 *
 * Drivers that send in bulk report their drops to the first tracepoint (veth). The second one has
 * frames that could not be queued, and those of the generic mode.
 */
#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "shared.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Set before load: the device, and the number of its network namespace. */
const volatile __u32 wr_ifindex = 0;
const volatile __u32 wr_netns = 0;

struct ns_common {
	__u32 inum;
} __attribute__((preserve_access_index));

struct net {
	struct ns_common ns;
} __attribute__((preserve_access_index));

typedef struct {
	struct net *net;
} possible_net_t;

struct net_device {
	__u32 ifindex; /* an int there; never negative */
	possible_net_t nd_net;
} __attribute__((preserve_access_index));

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wr_reflect_counts);
} wr_reflect_page SEC(".maps");

static __always_inline void count(const struct net_device *device, __u64 not_sent)
{
	__u32 zero = 0;
	struct wr_reflect_counts *counts = bpf_map_lookup_elem(&wr_reflect_page, &zero);

	if (!counts || BPF_CORE_READ(device, ifindex) != wr_ifindex)
		return;
	if (BPF_CORE_READ(device, nd_net.net, ns.inum) == wr_netns)
		__sync_fetch_and_add(&counts->not_sent, not_sent);
}

/* Arguments: device, frames sent, frames dropped, error of the whole bulk. */
SEC("raw_tp/xdp_bulk_tx")
int wr_bulk_not_sent(struct bpf_raw_tracepoint_args *ctx)
{
	int dropped = (int)ctx->args[2];

	if (dropped > 0)
		count((const void *)(long)ctx->args[0], dropped);
	return 0;
}

/* Arguments: device, program, its answer. */
SEC("raw_tp/xdp_exception")
int wr_frame_not_sent(struct bpf_raw_tracepoint_args *ctx)
{
	if ((__u32)ctx->args[2] == XDP_TX)
		count((const void *)(long)ctx->args[0], 1);
	return 0;
}
