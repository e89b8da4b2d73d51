/* sink.bpf.c: counts the frames of each CPU and ends them here, as cheaply as a frame can end; or only
 * counts. */
#include "shared.h"
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Set before load: XDP_DROP, or XDP_PASS for a host that must not notice. */
const volatile __u32 wr_sink_verdict = XDP_DROP;

/* Resized before load to one entry for each possible CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wr_sink_cpu);
} wr_sink_cpus SEC(".maps");

static __always_inline int sink(__u64 frame_len)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct wr_sink_cpu *own = bpf_map_lookup_elem(&wr_sink_cpus, &cpu);

	if (!own)
		return XDP_PASS; /* cannot be counted, so the host keeps its packet */
	own->frames++;
	own->frame_bytes += frame_len;
	return wr_sink_verdict;
}

SEC("xdp")
int wr_sink(struct xdp_md *ctx)
{
	return sink((long)ctx->data_end - (long)ctx->data);
}

/* For frames in more than one piece (jumbo frames, Linux 5.18): drivers with a large MTU take no other. */
SEC("xdp.frags")
int wr_sink_all(struct xdp_md *ctx)
{
	return sink(bpf_xdp_get_buff_len(ctx));
}
