/* draw.h: random numbers, as crates/packet/src/rng.rs draws them (SplitMix64). */
#ifndef WR_DRAW_H
#define WR_DRAW_H

#include <linux/types.h>

static __always_inline __u64 draw_long(__u64 *state)
{
	__u64 mixed;

	*state += 0x9e3779b97f4a7c15ull;
	mixed = *state;
	mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9ull;
	mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebull;
	return mixed ^ (mixed >> 31);
}

static __always_inline __u64 draw_word(__u64 *state)
{
	return draw_long(state) >> 32;
}

#endif
