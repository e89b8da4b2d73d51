/* sink.bpf.c: counts frames per CPU and drops or passes them. With a filter, the host gets the
 * frames that it rejects. */
#include "shared.h"
#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Set before load: XDP_DROP, or XDP_PASS to leave the frames to the host. */
const volatile __u32 wr_sink_verdict = XDP_DROP;
const volatile bool wr_is_filtered = false;

/* Resized before load to one entry for each possible CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wr_sink_cpu);
} wr_sink_cpus SEC(".maps");

/* Bytes of the frame that the filter keeps, 0 for a rejected frame. The loader replaces this
 * function, which must be the last of the program, by the translated filter; it finds it by the
 * constant (crates/bpf/src/filter.rs). */
static __noinline __u32 wr_filter(struct xdp_md *ctx)
{
	__u64 kept;

	asm volatile("%0 = 0x77726662" : "=r"(kept) : "r"(ctx));
	return kept;
}

static __always_inline int sink(struct xdp_md *ctx, __u64 frame_len)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct wr_sink_cpu *own = bpf_map_lookup_elem(&wr_sink_cpus, &cpu);

	if (!own)
		return XDP_PASS; /* cannot be counted, so the host gets the frame */
	if (wr_is_filtered && !wr_filter(ctx)) {
		own->filtered++;
		return XDP_PASS;
	}
	own->frames++;
	own->frame_bytes += frame_len;
	return wr_sink_verdict;
}

SEC("xdp")
int wr_sink(struct xdp_md *ctx)
{
	return sink(ctx, (long)ctx->data_end - (long)ctx->data);
}

/* For multi-buffer frames (Linux 5.18): drivers with a large MTU reject other programs. */
SEC("xdp.frags")
int wr_sink_frags(struct xdp_md *ctx)
{
	return sink(ctx, bpf_xdp_get_buff_len(ctx));
}
