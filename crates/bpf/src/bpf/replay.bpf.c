/* replay.bpf.c: sends frames out of a ring of packed bytes as live frames.
 *
 * A thread of the worker fills the ring: one record for each frame, the bytes one behind the other.
 * Run by BPF_PROG_RUN with live frames, each of which handles the next record. Frames begin with
 * the longest length and are shortened, because a frame cannot grow beyond its page.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "shared.h"
#include "wait.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Set before load. */
const volatile __u32 wr_replay_len_max = 0; /* length that live frames begin with */

struct wr_replay_state replay SEC(".data.replay") = {
    .loop_len = WR_REPLAY_RECORDS,
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, WR_REPLAY_RECORDS);
	__type(key, __u32);
	__type(value, struct wr_replay_record);
} wr_records SEC(".maps");

/* One value, so that a frame may lie anywhere in it. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, WR_REPLAY_BYTES);
} wr_bytes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, WR_REPLAY_PORTS);
	__type(key, __u32);
	__type(value, __u32);
} wr_ports SEC(".maps");

/* Place of the highest bit, from 1 on; 0 for 0. */
static __always_inline __u32 octave(__u64 value)
{
	__u32 place = 0;

	for (int bits = 32; bits > 0; bits /= 2) {
		if (value >> bits) {
			value >>= bits;
			place += bits;
		}
	}
	return value ? place + 1 : 0;
}

/* Waits until the frame is due, and counts how late it is. */
static __always_inline void wait(__u64 due_ns)
{
	__u64 now_ns = wait_until(due_ns);
	__u32 place = now_ns > due_ns ? octave(now_ns - due_ns) : 0;

	if (place < WR_REPLAY_OCTAVES)
		replay.late[place]++;
}

/* Fills the live frame with the bytes of a record; not 0 on failure. */
static __always_inline int fill(struct xdp_md *ctx, const struct wr_replay_record *record)
{
	__u32 zero = 0, offset = record->offset, last = record->frame_len - 1, frame_len;
	void *bytes = bpf_map_lookup_elem(&wr_bytes, &zero);

	if (!bytes || offset > WR_REPLAY_BYTES - WR_REPLAY_LEN_MAX || last >= WR_REPLAY_LEN_MAX)
		return -1;
	/* Without this, clang compares the length itself, and Linux 6.1 does not infer that it is not
	 * zero. */
	barrier_var(last);
	frame_len = last + 1;
	if (frame_len != wr_replay_len_max &&
	    bpf_xdp_adjust_tail(ctx, (int)frame_len - (int)wr_replay_len_max))
		return -1;
	return bpf_xdp_store_bytes(ctx, 0, bytes + offset, frame_len);
}

/* The worker sets the times before each call, so that no product overflows. */
static __always_inline __u64 clock_ns(__u64 due_ns)
{
	return replay.clock_ns + ((due_ns - replay.due_ns) * replay.scale >> WR_REPLAY_SCALE_BITS);
}

static __always_inline int send(struct xdp_md *ctx, int is_timed)
{
	__u32 index = replay.place < replay.loop_len ? replay.place : 0;
	const struct wr_replay_record *record = bpf_map_lookup_elem(&wr_records, &index);

	/* Also a frame that cannot be sent is behind us, so that the next one is another. */
	replay.next++;
	replay.place = index + 1;
	if (!record || fill(ctx, record)) {
		replay.malformed++;
		return XDP_ABORTED;
	}
	replay.frame_bytes += record->frame_len;
	if (record->port)
		replay.second_port++;
	if (is_timed)
		wait(clock_ns(record->due_ns));
	return bpf_redirect_map(&wr_ports, record->port, 0);
}

SEC("xdp")
int wr_replay_top(struct xdp_md *ctx)
{
	return send(ctx, 0);
}

SEC("xdp")
int wr_replay_timed(struct xdp_md *ctx)
{
	return send(ctx, 1);
}
