/* send_short.bpf.c: send.bpf.c for plans with few fields. */
#define WR_SHORT
#include "send.bpf.c"
