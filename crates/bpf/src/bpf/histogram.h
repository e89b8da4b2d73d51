/* histogram.h: the buckets of a histogram of times. Programs include it behind bpf_helpers.h. */
#ifndef WR_HISTOGRAM_H
#define WR_HISTOGRAM_H

#include "shared.h"

/* measure::histogram_index. */
static __always_inline __u32 histogram_index(__u64 value)
{
	__u32 shift = 0;
	__u64 rest;

	if (value >> 36)
		return WR_HISTOGRAM_LEN - 1;
	rest = value >> (WR_HISTOGRAM_BITS + 1);
	if (rest >> 16) {
		shift += 16;
		rest >>= 16;
	}
	if (rest >> 8) {
		shift += 8;
		rest >>= 8;
	}
	if (rest >> 4) {
		shift += 4;
		rest >>= 4;
	}
	if (rest >> 2) {
		shift += 2;
		rest >>= 2;
	}
	if (rest >> 1) {
		shift += 1;
		rest >>= 1;
	}
	shift += rest;
	return (shift << WR_HISTOGRAM_BITS) + (__u32)(value >> shift);
}

#endif
