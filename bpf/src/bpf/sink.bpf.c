/* sink.bpf.c: counts the frames of each CPU and ends them here, as cheaply as a frame can end. */
#include "shared.h"
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Resized before load to one entry for each possible CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wr_sink_cpu);
} wr_sink_cpus SEC(".maps");

SEC("xdp")
int wr_sink(struct xdp_md *ctx)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct wr_sink_cpu *own = bpf_map_lookup_elem(&wr_sink_cpus, &cpu);

	if (!own)
		return XDP_PASS; /* cannot be counted, so the host keeps its packet */
	own->frames++;
	own->frame_bytes += (long)ctx->data_end - (long)ctx->data;
	return XDP_DROP;
}
