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

/* Slot of each thread, by what bpf_get_current_pid_tgid says. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, WR_METERS_MAX);
	__type(key, __u64);
	__type(value, __u32);
} wr_meter_slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, WR_METERS_MAX);
	__type(key, __u32);
	__type(value, struct wr_meter);
} wr_meters SEC(".maps");

/* Run by the thread that wants slot wr_claimed, never attached: the ids of a thread as the kernel sees them
 * are not those that the thread itself sees when it lives in a pid namespace.
 */
__u32 wr_claimed;

SEC("raw_tp")
int wr_claim(void *ctx)
{
	__u64 thread = bpf_get_current_pid_tgid();
	__u32 number = wr_claimed;
	struct wr_meter *slot = bpf_map_lookup_elem(&wr_meters, &number);

	if (!slot)
		return 1;
	slot->pid_tgid = thread;
	return bpf_map_update_elem(&wr_meter_slots, &thread, &number, BPF_ANY) ? 1 : 0;
}

/* Arguments: from device, to device, frames taken, frames refused, error of the whole bulk. */
SEC("raw_tp/xdp_devmap_xmit")
int wr_meter(struct bpf_raw_tracepoint_args *ctx)
{
	const struct net_device *from = (const void *)(long)ctx->args[0];
	__u64 thread = bpf_get_current_pid_tgid();
	__u32 *number = bpf_map_lookup_elem(&wr_meter_slots, &thread);
	int refused = (int)ctx->args[3];
	int error = (int)ctx->args[4];
	struct wr_meter *slot;

	/* A softirq on top of the thread may forward frames of real devices. */
	if (!number || BPF_CORE_READ(from, ifindex) != LOOPBACK_IFINDEX)
		return 0;
	slot = bpf_map_lookup_elem(&wr_meters, number);
	if (!slot)
		return 0;
	slot->bulks++;
	slot->sent += (int)ctx->args[2];
	if (error < 0) {
		slot->refused += refused;
		slot->last_errno = error;
	} else {
		slot->ring_full += refused;
	}
	return 0;
}
