/* connect.h: the types that connect.bpf.c, accept.bpf.c and the Rust side share.
 *
 * Numbers of TCP are in host order. Times of a connection are in units of 256 ns since boot, modulo
 * 2^32: the unit is fine enough for round trips, and differences of up to 9 minutes are
 * unambiguous.
 */
#ifndef WR_CONNECT_H
#define WR_CONNECT_H

#include "shared.h"

enum wr_connect_limit {
	WR_CONNECT_TIME_SHIFT = 8, /* nanoseconds to units of a connection's times */
	WR_REQUEST_MAX = 2048,	   /* bytes of a request; a power of two */
	WR_GAPS_MAX = 3,	   /* ranges of data behind a gap that a connection remembers */
	WR_CONNECT_LIST_MAX = 64,  /* connections of one call of the sending program */
	WR_LATER_MAX = 16384,	   /* requests that wait for a frame of the sender; a power of two */
	WR_TRIES_FREE = 8,	   /* connections that the program looks at for a free one */
	WR_SERVERS_MAX = 16,	   /* ranges of server addresses and ports */
	WR_GROUPS_MAX = 256,	   /* values that responses are grouped by */
	WR_GROUP_LEN_MAX = 16,	   /* bytes of such a value */
};

/* connect::State. */
enum wr_connect_state {
	WR_CONN_FREE = 0,
	WR_CONN_SYN_SENT = 1,
	WR_CONN_OPEN = 2,     /* no request is outstanding */
	WR_CONN_ASKED = 3,    /* a request is sent, its response is not complete */
	WR_CONN_FIN_SENT = 4, /* our FIN is sent, and the end is not reached */
	WR_CONN_DONE = 5,     /* complete: both FINs are acknowledged, or we sent a reset at the end */
	WR_CONN_REFUSED = 6,
	WR_CONN_RESET = 7,
	WR_CONN_TIMEOUT = 8,
	WR_CONN_CUT_OFF = 9, /* the server ended it within a response */
};

/* Bits of wr_connection.flags. */
enum wr_connect_flag {
	WR_CONN_FIN_SEEN = 0x1,	 /* the server has sent its FIN */
	WR_CONN_SKIPPED = 0x2,	 /* the last segment of data has no ACK of its own */
	WR_CONN_SACK = 0x4,	 /* the server permits selective acknowledgement */
	WR_CONN_BEGUN = 0x8,	 /* the first byte of the response has arrived */
	WR_CONN_CUT = 0x10,	 /* ended within a response: will be cut off */
	WR_CONN_GAP_PUSH = 0x20, /* a segment behind a gap had PSH */
	WR_CONN_DUE = 0x40,	 /* send again without waiting for the retransmission time */
	WR_CONN_SIZED = 0x80,	 /* `left` is the length that the response still has */
};

/* Sequence numbers from first on, up to and without end. */
struct wr_gap {
	__u32 first;
	__u32 end;
};

/* One for each client address and port and server address and port: connect::Connection. */
struct wr_connection {
	__u8 state;
	__u8 flags;
	__u8 tries;	/* frames sent again since the last progress */
	__u8 gap_count; /* of `gaps`, the most recent one first */
	__u32 lock;	/* 1 while a program works with the entry */
	__u32 snd_una;	/* first number that the server has not acknowledged */
	__u32 snd_nxt;	/* next number to send; of UDP, the number of the query */
	__u32 rcv_nxt;	/* next number expected from the server */
	__u32 begun_at; /* time of the first SYN */
	__u32 asked_at; /* time of the last request */
	__u32 progress_at;
	__u32 left; /* bytes of the response that are missing, if WR_CONN_SIZED */
	__u16 requests;
	__u16 segment_max; /* bytes of a segment that the server accepts */
	struct wr_gap gaps[WR_GAPS_MAX];
};
_Static_assert(sizeof(struct wr_connection) == 64, "one cache line");

/* When a response is complete: connect::ResponseEnd. */
enum wr_response_end {
	WR_RESPONSE_PUSH = 0,  /* a segment with PSH */
	WR_RESPONSE_BYTES = 1, /* wr_response_bytes bytes */
	WR_RESPONSE_CLOSE = 2, /* the FIN of the server */
	WR_RESPONSE_HTTP = 3,  /* Content-Length of the first segment; without one PSH, or the FIN
				* where the server ends the connection behind this response */
	WR_RESPONSE_FIRST = 4, /* the first segment with data */
};

/* How answers are looked at for errors: engine::AnswerCheck. */
enum wr_answer_check {
	WR_ANSWER_ANY = 0,
	WR_ANSWER_HTTP = 1, /* a status of 400 or more is an error */
	WR_ANSWER_TLS = 2,  /* all but a ServerHello */
	WR_ANSWER_QUIC = 3, /* all but a packet with a long header */
};

/* Who ends a connection: connect::Close. */
enum wr_close {
	WR_CLOSE_SERVER = 0,
	WR_CLOSE_CLIENT = 1,
	WR_CLOSE_RESET = 2,
};

/* The protocol above IP. */
enum wr_connect_kind {
	WR_CONNECT_TCP = 0,
	WR_CONNECT_UDP = 1,
	WR_CONNECT_DNS = 2, /* UDP; an answer has the ID of its query */
};

/* What the sending program does with a connection of its list: connect::Order. */
enum wr_connect_order {
	WR_ORDER_AGAIN = 1,   /* send what the server has not acknowledged */
	WR_ORDER_GIVE_UP = 2, /* timeout */
	WR_ORDER_CLOSE = 3,   /* end a held connection */
	WR_ORDER_ASK = 4,     /* send a request on a held connection */
};

/* A value that responses are grouped by: its first bytes; the rest is 0. */
struct wr_group_key {
	__u8 bytes[WR_GROUP_LEN_MAX];
};

struct wr_connect_order_entry {
	__u32 index;
	__u32 order; /* of enum wr_connect_order; 0 for a request that waits for a frame */
};

/* One per CPU, written by the programs there: connect::Counts. */
struct wr_connect_cpu {
	__u64 tried;
	__u64 syn_resent;
	__u64 established;
	__u64 completed;
	__u64 refused;
	__u64 reset;
	__u64 timeout;
	__u64 cut_off;
	__u64 requests;
	__u64 requests_resent;
	__u64 fins_resent;
	__u64 responses;
	__u64 payload_bytes;
	__u64 segments; /* with data */
	__u64 syn_acks_repeated;
	__u64 repeated;		 /* segments with data that had arrived */
	__u64 gaps;		 /* segments behind a gap */
	__u64 keepalive;	 /* probes that were answered */
	__u64 challenged;	 /* ACKs for an earlier connection, in answer to a SYN */
	__u64 strays;		 /* segments that belong to no connection */
	__u64 unsized_responses; /* ended by PSH, without a Content-Length in their first segment */
	__u64 ended_by_server;	 /* connections that the server ended while they were held */
	__u64 error_answers;	 /* enum wr_answer_check; of DNS: with an error code */
	__u64 open_max;
	__u64 open_per_client_max; /* of one client address, if that is limited */
	__u64 ungrouped;	   /* responses without the bytes to group by, or of too many groups */
	/* Of frames. */
	__u64 passed;	  /* to the host */
	__u64 neighbours; /* answers to ARP and neighbour solicitations */
	__u64 received;
	__u64 busy_ports;  /* tries to open a connection that is still open */
	__u64 no_port;	   /* new connections that found no free entry */
	__u64 no_space;	   /* requests that did not fit into the frame: sent in one of the sender */
	__u64 not_written; /* frames that could not be made longer or shorter */
	__u64 contended;   /* frames whose connection another CPU worked with: as if lost */
};

/* Shared by all CPUs. */
struct wr_connect_page {
	__u64 next_index; /* of new connections, modulo their number */
	__u64 pad0[15];
	__s64 open; /* connections that are open now */
	__u64 pad1[15];
	__s64 new_left; /* connections that may still be opened */
	__u64 pad2[15];
	__u64 later_head; /* requests that were ever left to the sender */
	__u64 pad3[15];
	/* Written by user space before a call of the sending program. */
	__u32 list_len;	    /* entries of the list; 0 to open connections */
	__u32 list_next;    /* next entry; by the program */
	__u64 test_time_ns; /* the time of a program with a test clock */
	__s64 open_max;	    /* limit of `open` */
	__u32 chains;	    /* 1: the last frame of a connection becomes the SYN of the next */
	__u32 http_hint;    /* where the last response had its length: offset, and length of the header */
};

/* accept.bpf.c: one per CPU. */
struct wr_accept_cpu {
	__u64 accepted; /* SYNs answered */
	__u64 requests; /* segments with data of a client */
	__u64 responses;
	__u64 closed; /* FINs of clients */
	__u64 resets;
	__u64 request_bytes;
	__u64 response_bytes;
	__u64 received; /* frames for the address and port */
	__u64 passed;
	__u64 neighbours;
	__u64 not_written;
};

#endif
