/* stream_switch.bpf.c: jumps to the program of one of several streams.
 *
 * A program that BPF_PROG_RUN calls with several live frames needs a slot of the kernel's XDP
 * dispatcher, and attaching it takes an RCU grace period. The streams of a thread are called
 * through this program, so only this program is attached.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "shared.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct wr_stream_choice choice;

/* The programs of the streams. */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, WR_SWITCH_MAX);
	__type(key, __u32);
	__type(value, __u32);
} wr_stream_progs SEC(".maps");

SEC("xdp")
int wr_stream_switch(struct xdp_md *ctx)
{
	bpf_tail_call(ctx, &wr_stream_progs, choice.stream);
	/* There is no such program. */
	choice.missed++;
	return XDP_ABORTED;
}
