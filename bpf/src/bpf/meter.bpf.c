/* meter.bpf.c: what the driver said to the frames that were redirected to it.
 *
 * BPF_PROG_RUN reports success for frames that a device swallowed; the tracepoint of the device map's bulk
 * queue knows how many the driver took. One program for the whole process: each worker has the slot of the
 * CPU it is pinned to, and only bulks that its own thread sends to its own device count.
 */
#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "shared.h"

#define LOOPBACK_IFINDEX 1 /* where live frames of BPF_PROG_RUN come from */

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct net_device {
	__u32 ifindex; /* an int there; never negative */
} __attribute__((preserve_access_index));

/* Resized before load to one slot for each possible CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wr_meter);
} wr_meters SEC(".maps");

/* Run by a worker on its own CPU, never attached: the ids of a thread as the kernel sees them are not those
 * that the thread itself sees when it lives in a pid namespace.
 */
SEC("raw_tp")
int wr_claim(void *ctx)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct wr_meter *slot = bpf_map_lookup_elem(&wr_meters, &cpu);

	if (!slot)
		return 1;
	slot->pid_tgid = bpf_get_current_pid_tgid();
	return 0;
}

/* Arguments: from device, to device, frames taken, frames refused, error of the whole bulk. */
SEC("raw_tp/xdp_devmap_xmit")
int wr_meter(struct bpf_raw_tracepoint_args *ctx)
{
	const struct net_device *from = (const void *)(long)ctx->args[0];
	const struct net_device *to = (const void *)(long)ctx->args[1];
	int sent = (int)ctx->args[2];
	int refused = (int)ctx->args[3];
	int error = (int)ctx->args[4];
	__u32 cpu = bpf_get_smp_processor_id();
	struct wr_meter *slot = bpf_map_lookup_elem(&wr_meters, &cpu);

	if (!slot || !slot->pid_tgid || slot->pid_tgid != bpf_get_current_pid_tgid())
		return 0;
	if (BPF_CORE_READ(to, ifindex) != slot->ifindex || BPF_CORE_READ(from, ifindex) != LOOPBACK_IFINDEX)
		return 0;
	slot->bulks++;
	slot->sent += sent;
	if (error < 0) {
		slot->refused += refused;
		slot->last_errno = error;
	} else {
		slot->ring_full += refused;
	}
	return 0;
}
