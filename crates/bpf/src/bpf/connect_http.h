/* connect_http.h: the length of an HTTP response, from the first segment of it. */
#ifndef WR_CONNECT_HTTP_H
#define WR_CONNECT_HTTP_H

#define HTTP_HEADER_MAX 8192 /* bytes that are searched, of the first segment */

/* Where a search is: connect::http. */
struct http_search {
	struct xdp_md *ctx;
	__u32 at;
	__u32 len;
	__u32 digits; /* offset of the digits of Content-Length; 0 before they are found */
	__u32 end;    /* length of the header; 0 before its end is found */
};

/* "length:" and a blank, in small letters. The blank may be left out. */
#define LENGTH_WORD 0x203a6874676e656cull
#define LENGTH_MASK 0x00ffffffffffffffull
/* "content-", in small letters. */
#define CONTENT_WORD 0x2d746e65746e6f63ull
#define SMALL_LETTERS 0x2020202020202020ull
#define HEADER_END 0x0a0d0a0d

/* Looks at one offset of the payload; not 0 ends the search. */
static long http_look(__u32 i, struct http_search *s)
{
	__u64 words[2];
	__u32 end;

	if (i + 4 > s->len)
		return 1;
	if (bpf_xdp_load_bytes(s->ctx, s->at + i, &end, 4))
		return 1;
	if (end == HEADER_END) {
		s->end = i + 4;
		return 1;
	}
	if ((end & 0xff) != '\n' || s->digits || i + 17 > s->len)
		return 0;
	if (bpf_xdp_load_bytes(s->ctx, s->at + i + 1, words, 16))
		return 1;
	if ((words[0] | SMALL_LETTERS) == CONTENT_WORD &&
	    !(((words[1] | SMALL_LETTERS) ^ LENGTH_WORD) & LENGTH_MASK))
		s->digits = words[1] >> 56 == ' ' ? i + 17 : i + 16;
	return 0;
}

/* The number at an offset of the payload; -1 if there is none. */
static __always_inline __s64 http_number(struct xdp_md *ctx, __u32 at)
{
	__u8 digits[12] = {};
	__u64 number = 0;
	int i;

	if (bpf_xdp_load_bytes(ctx, at, digits, 12)) {
		/* The frame ends before: the header has its end behind the number. */
		for (i = 0; i < 11; i++)
			if (bpf_xdp_load_bytes(ctx, at + i, digits + i, 1))
				break;
	}
	for (i = 0; i < 10; i++) {
		__u8 digit = digits[i] - '0';

		if (digit > 9)
			break;
		number = number * 10 + digit;
	}
	return i ? (__s64)number : -1;
}

/* Bytes of the response whose first segment has its payload at `at`; 0 is unknown. */
__noinline __u32 wr_http_response_len(struct xdp_md *ctx, __u32 at, __u32 len)
{
	struct http_search s = {.ctx = ctx, .at = at, .len = len};
	__u32 hint = wr_page.http_hint, end;
	__u64 word;
	__s64 number;

	/* Most responses of a server have their length where the last one had it. */
	s.digits = hint >> 16;
	s.end = hint & 0xffff;
	if (!hint || s.end > len || bpf_xdp_load_bytes(ctx, at + s.end - 4, &end, 4) || end != HEADER_END ||
	    bpf_xdp_load_bytes(ctx, at + s.digits - 8, &word, 8) || (word | SMALL_LETTERS) != LENGTH_WORD) {
		s.digits = 0;
		s.end = 0;
		bpf_loop(HTTP_HEADER_MAX, http_look, &s, 0);
		if (!s.digits || !s.end)
			return 0;
		wr_page.http_hint = s.digits << 16 | s.end;
	}
	number = http_number(ctx, at + s.digits);
	if (number < 0 || number > 0x7fffffff)
		return 0;
	return s.end + (__u32)number;
}

#endif
