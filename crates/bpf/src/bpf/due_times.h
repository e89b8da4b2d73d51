/* due_times.h: the times of the next frames, for programs that build the frames of a plan. */
#ifndef WR_DUE_TIMES_H
#define WR_DUE_TIMES_H

#include "wait.h"

/* Apart from the cursor, which is mapped alone. */
struct wr_due_times due_times SEC(".data.due_times");

/* Waits until the next frame is due, if it has a time. Before the frame is built, so that the time
 * in the frame is that of its departure. */
static __always_inline void wait_for_frame(void)
{
	__u32 index = due_times.next;

	if (index >= due_times.count || index >= WR_DUE_TIMES_MAX)
		return;
	due_times.next = index + 1;
	due_times.sent_ns[index] = wait_until(due_times.due_ns[index]);
}

#endif
