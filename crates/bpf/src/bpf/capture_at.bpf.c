/* capture_at.bpf.c: records frames before and behind the XDP program of a device, as that program
 * gets and leaves them, and what it returns. It changes neither frame nor verdict.
 *
 * Both are traced functions: fentry runs before the program, fexit behind it. A program may be on
 * several devices; frames of others are not counted.
 */
#include "capture_ring.h"
#include <linux/types.h>

/* Set before load: the device. */
const volatile __u32 wr_ifindex = 0;
const volatile __u32 wr_netns = 0; /* inode number of its network namespace */

/* What is read of the kernel's structures; libbpf finds the places. */
#define wr_kernel_struct __attribute__((preserve_access_index))

struct ns_common {
	unsigned int inum;
} wr_kernel_struct;

struct net {
	struct ns_common ns;
} wr_kernel_struct;

typedef struct {
	struct net *net;
} possible_net_t;

struct net_device {
	int ifindex;
	possible_net_t nd_net;
} wr_kernel_struct;

struct xdp_rxq_info {
	struct net_device *dev;
	__u32 queue_index;
} wr_kernel_struct;

struct xdp_buff {
	void *data;
	void *data_end;
	struct xdp_rxq_info *rxq;
} wr_kernel_struct;

/* Copies len bytes of kernel memory, and zeros up to a multiple of 4. Returns the end of the copy,
 * NULL if they cannot be read or len is 0. */
static __always_inline __u8 *copy_kernel(__u8 *to, __u64 len, const void *from)
{
	__u64 last = len - 1;

	barrier_var(last); /* one comparison for both bounds, as in copy_frame() */
	if (last >= wr_snaplen)
		return NULL;
	*(__u32 *)(to + (last & ~3ull)) = 0;
	if (bpf_probe_read_kernel(to, last + 1, from))
		return NULL;
	return to + (last & ~3ull) + 4;
}

/* Bytes of a frame in several buffers are copied from the first one only. */
static __always_inline void record_frame(struct xdp_buff *xdp, __u16 kind, __u32 verdict)
{
	const struct net_device *dev = xdp->rxq->dev;
	struct facts facts = {.kind = kind, .more = verdict};
	__u32 cpu = bpf_get_smp_processor_id();
	struct wr_capture_cpu *own;
	struct place place;
	__u64 len, linear;
	__u8 *tail;

	/* A veth that is being taken apart has no device; reads by a null pointer give 0 here. */
	if (dev->ifindex != (int)wr_ifindex || dev->nd_net.net->ns.inum != wr_netns)
		return;
	own = bpf_map_lookup_elem(&wr_capture_cpus, &cpu);
	if (!own)
		return; /* cannot happen: there is one per possible CPU */
	linear = (__u64)(long)xdp->data_end - (__u64)(long)xdp->data;
	facts.frame_len = bpf_xdp_get_buff_len((struct xdp_md *)xdp);
	len = linear < wr_snaplen ? linear : wr_snaplen;
	facts.captured_len = len;
	own->frame_bytes += facts.frame_len;
	place.size = sizeof(struct wr_record) + ((len + 3) & ~3ull) + sizeof(__u32);
	if (!reserve(own, cpu, &place) ||
	    !(tail = copy_kernel(place.record + sizeof(struct wr_record), len, xdp->data))) {
		own->lost_ring++; /* counted as lost */
		return;
	}
	facts.queue_index = xdp->rxq->queue_index;
	facts.time_ns = bpf_ktime_get_ns();
	write_record(place.record, tail, place.size, own->lost_ring - own->lost_noted, &facts);
	own->lost_noted = own->lost_ring;
	own->captured++;
	publish(&own->head, place.next);
}

SEC("fentry")
int wr_at_entry(__u64 *ctx)
{
	record_frame((struct xdp_buff *)ctx[0], 0, 0);
	return 0;
}

SEC("fexit")
int wr_at_exit(__u64 *ctx)
{
	/* The result of a traced function follows its arguments. */
	record_frame((struct xdp_buff *)ctx[0], WR_RECORD_VERDICT, ctx[1]);
	return 0;
}

char wr_license[] SEC("license") = "Dual BSD/GPL";
