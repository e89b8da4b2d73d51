/* tx_stats.bpf.c: frames that drivers accepted and rejected.
 *
 * BPF_PROG_RUN reports success even for frames that the device dropped; the tracepoint of the
 * device map's bulk queue has the number that the driver accepted. One program serves the whole
 * process: each sending thread has a slot, found by its thread id. The device is not checked.
 *
 * wr_page_pools counts the page pools of these threads that the kernel cannot free yet, because
 * frames are still under way (in a queue behind the device, say). The kernel tries again each
 * second, which costs CPU time of the sender after its run.
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

/* Slot number of each thread, by bpf_get_current_pid_tgid. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, WR_TX_SLOTS_MAX);
	__type(key, __u64);
	__type(value, __u32);
} wr_tx_threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, WR_TX_SLOTS_MAX);
	__type(key, __u32);
	__type(value, struct wr_tx_stats);
} wr_tx_slots SEC(".maps");

#define PAGE_POOLS_MAX 65536 /* the kernel has no more memory ids */

/* Pools that were destroyed by a sending thread while pages were missing. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, PAGE_POOLS_MAX);
	__type(key, __u64);
	__type(value, __u8);
} wr_page_pools SEC(".maps");

/* Their number. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} wr_page_pool_count SEC(".maps");

/* Run once by the thread that takes slot wr_claimed_slot, never attached. In a PID namespace a
 * thread does not know its ids in the initial namespace, so the program reads them. */
__u32 wr_claimed_slot;

SEC("raw_tp")
int wr_claim_slot(void *ctx)
{
	__u64 thread = bpf_get_current_pid_tgid();
	__u32 number = wr_claimed_slot;
	struct wr_tx_stats *slot = bpf_map_lookup_elem(&wr_tx_slots, &number);

	if (!slot)
		return 1;
	slot->pid_tgid = thread;
	return bpf_map_update_elem(&wr_tx_threads, &thread, &number, BPF_ANY) ? 1 : 0;
}

/* Arguments: from device, to device, frames accepted, frames rejected, error of the whole bulk. */
SEC("raw_tp/xdp_devmap_xmit")
int wr_tx_stats(struct bpf_raw_tracepoint_args *ctx)
{
	const struct net_device *from = (const void *)(long)ctx->args[0];
	__u64 thread = bpf_get_current_pid_tgid();
	__u32 *number = bpf_map_lookup_elem(&wr_tx_threads, &thread);
	int refused = (int)ctx->args[3];
	int error = (int)ctx->args[4];
	struct wr_tx_stats *slot;

	/* A softirq that interrupts the thread may forward frames of other devices. */
	if (!number || BPF_CORE_READ(from, ifindex) != LOOPBACK_IFINDEX)
		return 0;
	slot = bpf_map_lookup_elem(&wr_tx_slots, number);
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

/* Arguments: the pool, pages that have not come back, and two counts. Called when a pool is to be
 * destroyed, and each second until its pages are back. */
SEC("raw_tp/page_pool_release")
int wr_page_pool_release(struct bpf_raw_tracepoint_args *ctx)
{
	__u64 pool = ctx->args[0], thread = bpf_get_current_pid_tgid();
	int missing = (int)ctx->args[1];
	__u32 first = 0;
	__u64 *count = bpf_map_lookup_elem(&wr_page_pool_count, &first);
	__u8 present = 1;

	if (!count)
		return 0;
	if (missing > 0) {
		if (bpf_map_lookup_elem(&wr_tx_threads, &thread) &&
		    !bpf_map_update_elem(&wr_page_pools, &pool, &present, BPF_NOEXIST))
			__sync_fetch_and_add(count, 1);
	} else if (!bpf_map_delete_elem(&wr_page_pools, &pool)) {
		__sync_fetch_and_sub(count, 1);
	}
	return 0;
}
