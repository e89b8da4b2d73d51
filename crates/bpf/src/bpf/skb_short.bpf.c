/* skb_short.bpf.c: skb.bpf.c for plans with few fields. */
#define WR_SHORT
#include "skb.bpf.c"
