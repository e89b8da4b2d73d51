/* wait.h: waiting inside a program until a frame is due.
 *
 * The program is run with one live frame per batch, so the kernel passes each frame to the driver
 * as soon as the program returns. BPF_PROG_RUN holds off softirqs of the CPU while a program waits:
 * the worker makes calls whose frames are 100 µs apart at most. They run after each frame.
 */
#ifndef WR_WAIT_H
#define WR_WAIT_H

#include <bpf/bpf_helpers.h>

#include "shared.h"

static long is_due(__u32 index, __u64 *due_ns)
{
	return bpf_ktime_get_ns() >= *due_ns;
}

/* Waits until a time of CLOCK_MONOTONIC; the time at the end. */
static __always_inline __u64 wait_until(__u64 due_ns)
{
	__u64 now_ns = bpf_ktime_get_ns();

	if (now_ns < due_ns) {
		bpf_loop(WR_SPINS_MAX, is_due, &due_ns, 0);
		now_ns = bpf_ktime_get_ns();
	}
	return now_ns;
}

#endif
