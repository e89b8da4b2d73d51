/* receive.bpf.c: finds the signature in each frame and keeps loss, order and latency of its flow.
 *
 * measure::Meter does the same in Rust, and crates/bpf/tests/receive_program.rs compares the two.
 * The clock is read before the frame is touched: reading it waits for all loads before it.
 */
#include "shared.h"
#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "histogram.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Set before load. */
const volatile __u32 wr_receive_verdict = XDP_DROP; /* or XDP_PASS; frames of others pass */
const volatile __u32 wr_flow_count = 1;		    /* flows of a stream, where frames do not carry theirs */
const volatile __u32 wr_stream_count = WR_STREAMS_MAX;
const volatile __u32 wr_line_count = WR_STREAMS_MAX;
const volatile bool wr_is_shared = false;	/* several CPUs receive frames of one flow */
const volatile bool wr_has_details = false;	/* bytes and times of each flow */
const volatile bool wr_has_wide_window = false; /* of numbers, beside the line of each flow */
const volatile bool wr_has_tags = false;	/* values of parts of frames are counted */
const volatile bool wr_has_test_clock = false;	/* the time is in the control page */
const volatile bool wr_counts_up = false;	/* the next run has the next number, for benchmarks */
const volatile bool wr_is_reflector = false;	/* frames go back, whatever the verdict */
const volatile __u8 wr_own_mac[6] = {};		/* of the device, for a reflector */

#define SIGNATURE_MAGIC bpf_htonl(0xbe9be955)
#define SIGNATURE_TAG bpf_htons(0x5752)
#define MARK_MAGIC bpf_htonl(0x57524f54)
#define END_MAGIC bpf_htonl(0x5752454e)
#define END_HAS_RUN bpf_htons(1)
#define SIGNATURE_LEN 16
#define SHORT_LEN 18
#define FULL_LEN 32
#define MARK_LEN 18
#define FRONT_MIN 14		  /* behind Ethernet */
#define FRONT_MAX 252		  /* last start of a signature; the headers before it have even lengths */
#define NUMBER_START (1ull << 32) /* of numbers that frames carry themselves */
#define CPU_SHIFT 48
#define AFTER_REORDERED (1ull << 47)
#define UNIQUE_MASK (AFTER_REORDERED - 1)
#define IPDV_ZERO (1ull << 32)
#define LATENCY_ZERO (1ull << 63)
#define ETHERNET_LEN 14
#define VLAN_LEN 4
#define IPV4_LEN 20
#define IPV4_WORDS_MIN 5
#define IPV6_LEN 40
#define TYPE_IPV4 bpf_htons(0x0800)
#define TYPE_IPV6 bpf_htons(0x86dd)
#define TYPE_VLAN bpf_htons(0x8100)
#define TYPE_QINQ bpf_htons(0x88a8)
#define FRAGMENT_OFFSET bpf_htons(0x1fff)
#define PROTOCOL_ICMP 1
#define PROTOCOL_TCP 6
#define PROTOCOL_UDP 17
#define PROTOCOL_ICMPV6 58
#define REFERENCE_STEP (1ull << 24) /* numbers between two updates of stream_at */

/* Linux 6.3. The verifier accepts it in device-bound programs only; the driver implements it. */
extern int bpf_xdp_metadata_rx_timestamp(const struct xdp_md *ctx, __u64 *timestamp) __ksym __weak;

#define SHARED_ARRAY(name, entry)                  \
	struct {                                   \
		__uint(type, BPF_MAP_TYPE_ARRAY);  \
		__uint(map_flags, BPF_F_MMAPABLE); \
		__uint(max_entries, 1);            \
		__type(key, __u32);                \
		__type(value, entry);              \
	} name SEC(".maps")

SHARED_ARRAY(wr_flow_lines, struct wr_flow_line);     /* wr_line_count entries */
SHARED_ARRAY(wr_flow_details, struct wr_flow_detail); /* wr_line_count entries if wr_has_details */
SHARED_ARRAY(wr_wide_windows, struct wr_wide_window); /* wr_line_count entries if wr_has_wide_window */
SHARED_ARRAY(wr_tag_rules, struct wr_tag_rule);	      /* one more than wr_line_count if wr_has_tags */
SHARED_ARRAY(wr_receive_cpus, struct wr_receive_cpu); /* one for each possible CPU */
SHARED_ARRAY(wr_histograms, struct wr_histogram);     /* one for each possible CPU */
SHARED_ARRAY(wr_receive_page, struct wr_receive_control);

/* Entries appear with the first frame of a value. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1); /* WR_TAG_VALUES if wr_has_tags */
	__type(key, struct wr_tag_key);
	__type(value, struct wr_tag_counts);
} wr_tag_values SEC(".maps");

struct flow_lock {
	struct bpf_spin_lock lock;
};

/* Maps with locks cannot be mapped into a process, so the locks have one of their own. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* wr_line_count if wr_is_shared */
	__type(key, __u32);
	__type(value, struct flow_lock);
} wr_flow_locks SEC(".maps");

struct mark {
	__be32 magic;
	__be16 flow;
	__be16 run;
	__be32 seq_num;
	__be16 time_high;
	__be32 time_low;
} __attribute__((packed));

/* measure::AnnouncedEnd. */
struct end {
	__be32 magic;
	__be16 flags;
	__be16 run;
	__be64 sent;
};
#define END_LEN sizeof(struct end)

/* A frame of this run. */
struct measured {
	__u32 line;
	__u32 seq_num; /* decides whether it is stamped */
	__u64 number;
	__s64 latency_ns;
	bool has_latency;
	bool is_mark;
	bool is_hardware; /* the device stamped its arrival */
};

static __always_inline __u64 clock_ns(const struct wr_receive_control *control)
{
	return wr_has_test_clock ? control->test_time_ns : bpf_ktime_get_ns();
}

/* The time at which the device stamped the frame, in CLOCK_MONOTONIC; 0 if it did not. */
static __always_inline __u64 hardware_time_ns(struct xdp_md *ctx, const struct wr_receive_control *control,
					      bool is_bound)
{
	const struct wr_clock_line *line = &control->clock_lines[control->clock_line & 1];
	__u64 time_ns = 0;
	__s64 since_ns;

	if (wr_has_test_clock)
		time_ns = control->test_hardware_ns;
	else if (!is_bound || !bpf_ksym_exists(bpf_xdp_metadata_rx_timestamp) ||
		 bpf_xdp_metadata_rx_timestamp(ctx, &time_ns))
		return 0;
	if (!time_ns)
		return 0; /* veth returns 0 for frames that no device has stamped */
	since_ns = time_ns - line->at_ns;
	return time_ns + line->offset_ns + ((since_ns * line->drift) >> 32);
}

/* measure::is_stamped. */
static __always_inline bool is_stamped(__u32 number, __u32 shift)
{
	if (!shift)
		return true;
	number = (number ^ number >> 16) * 0x85ebca6b;
	number = (number ^ number >> 13) * 0xc2b2ae35;
	number ^= number >> 16;
	return number >> ((32 - shift) & 31) == 0;
}

static __always_inline __u32 ones(__u64 bits)
{
	bits -= bits >> 1 & 0x5555555555555555;
	bits = (bits & 0x3333333333333333) + (bits >> 2 & 0x3333333333333333);
	bits = (bits + (bits >> 4)) & 0x0f0f0f0f0f0f0f0f;
	return bits * 0x0101010101010101 >> 56;
}

/* measure::unwrap_number: the number nearest to reference with these low 32 bits. */
static __always_inline __u64 unwrap(__u64 reference, __u32 number)
{
	return reference + (__s64)(__s32)(number - (__u32)reference);
}

/* True if a signature starts at front_at. */
static __always_inline bool starts_at(const __u8 *data, const __u8 *data_end, __u64 front_at)
{
	const __u8 *front = data + (front_at & 0xff);

	return front + SIGNATURE_LEN <= data_end && *(const __be32 *)front == SIGNATURE_MAGIC;
}

/* Looks where the last frame had its signature, then behind any headers. */
static __always_inline bool find_front(const __u8 *data, const __u8 *data_end, struct wr_receive_cpu *own)
{
	if (starts_at(data, data_end, own->front_at))
		return true;
	for (__u32 at = FRONT_MIN; at <= FRONT_MAX; at += 2) {
		const __u8 *front = data + at;

		if (front + SIGNATURE_LEN > data_end)
			return false;
		if (*(const __be32 *)front == SIGNATURE_MAGIC) {
			own->front_at = at;
			return true;
		}
	}
	return false;
}

/* False for a frame of another run or of no flow of this run, which is counted here. */
static __always_inline bool is_of_run(const struct wr_receive_control *control, struct wr_receive_cpu *own,
				      __u32 flow, __u32 run)
{
	if (control->run != WR_ANY_RUN && control->run != run) {
		own->stale++;
		return false;
	}
	if (flow >= wr_line_count) {
		own->damaged++;
		return false;
	}
	own->with_flow++;
	return true;
}

/* Flow and number of a frame that does not carry them. */
static __always_inline bool schedule(struct wr_receive_control *control, struct wr_receive_cpu *own,
				     __u64 stream, struct measured *frame)
{
	__u64 at, number;

	if (stream >= wr_stream_count || stream >= WR_STREAMS_MAX) {
		own->damaged++;
		return false;
	}
	at = control->stream_at[stream];
	number = at ? unwrap(at, frame->seq_num) : ((__u64)wr_flow_count << 32) + frame->seq_num;
	/* A recent number will do: unwrapping needs one within 2^31. */
	if (!at || (__s64)(number - at) >= (__s64)REFERENCE_STEP)
		control->stream_at[stream] = number;
	if (own->lowest_inverted[stream] < ~number)
		own->lowest_inverted[stream] = ~number;
	frame->line = stream * wr_flow_count + number % wr_flow_count;
	frame->number = number / wr_flow_count;
	return true;
}

/* measure::IcmpError: the frame quotes another one, which did not arrive. Counts it. */
static __always_inline bool is_icmp_error(const __u8 *data, const __u8 *data_end, struct wr_receive_cpu *own)
{
	const __u8 *packet = data + ETHERNET_LEN, *icmp;
	__be16 type;

	if (packet > data_end)
		return false;
	type = *(const __be16 *)(data + 12);
	for (int tag = 0; tag < 2 && (type == TYPE_VLAN || type == TYPE_QINQ); tag++) {
		if (packet + VLAN_LEN > data_end)
			return false;
		type = *(const __be16 *)(packet + 2);
		packet += VLAN_LEN;
	}
	if (type == TYPE_IPV4) {
		if (packet + IPV4_LEN > data_end || packet[9] != PROTOCOL_ICMP ||
		    (packet[0] & 0xf) < IPV4_WORDS_MIN || (*(const __be16 *)(packet + 6) & FRAGMENT_OFFSET))
			return false;
		icmp = packet + (packet[0] & 0xf) * 4;
		if (icmp + 2 > data_end ||
		    !(icmp[0] < 13 && (1u << icmp[0] & (1u << 3 | 1u << 4 | 1u << 5 | 1u << 11 | 1u << 12))))
			return false;
		own->icmp_error_kind = 4 << 16 | icmp[0] << 8 | icmp[1];
		own->icmp_error_from[0] = 0;
		own->icmp_error_from[1] = 0;
		__builtin_memcpy(own->icmp_error_from, packet + 12, 4);
	} else if (type == TYPE_IPV6) {
		icmp = packet + IPV6_LEN;
		if (icmp + 2 > data_end || packet[6] != PROTOCOL_ICMPV6 || icmp[0] >= 128)
			return false;
		own->icmp_error_kind = 6 << 16 | icmp[0] << 8 | icmp[1];
		__builtin_memcpy(own->icmp_error_from, packet + 8, 16);
	} else {
		return false;
	}
	own->icmp_errors++;
	return true;
}

/* Reads the signature at own->front_at. */
static __always_inline bool read_front(const __u8 *data, const __u8 *data_end,
				       struct wr_receive_control *control, struct wr_receive_cpu *own,
				       __u64 now_ns, struct measured *frame)
{
	const __u8 *front = data + (own->front_at & 0xff);
	__u32 sec, usec, extra = 0;

	if (front + SIGNATURE_LEN > data_end) {
		own->foreign++; /* for the verifier: find_front has checked it */
		return false;
	}
	frame->seq_num = bpf_ntohl(*(const __be32 *)(front + 4));
	sec = bpf_ntohl(*(const __be32 *)(front + 8));
	usec = bpf_ntohl(*(const __be32 *)(front + 12));
	if (front + SHORT_LEN <= data_end)
		extra = bpf_ntohs(*(const __be16 *)(front + 16));
	if (usec > 999999 || (extra & 0x3ff) > 999) {
		own->damaged++;
		return false;
	}
	frame->has_latency = sec != 0;
	frame->latency_ns =
	    now_ns + control->wall_offset_ns - sec * 1000000000ull - usec * 1000ull - (extra & 0x3ff);
	if (front + FULL_LEN <= data_end && *(const __be16 *)(front + 18) == SIGNATURE_TAG) {
		frame->line = bpf_ntohl(*(const __be32 *)(front + 20));
		frame->number = NUMBER_START + bpf_ntohl(*(const __be32 *)(front + 24)) +
				((__u64)bpf_ntohs(*(const __be16 *)(front + 28)) << 32);
		return is_of_run(control, own, frame->line, bpf_ntohs(*(const __be16 *)(front + 30)));
	}
	return schedule(control, own, extra >> 10, frame);
}

/* Finds the mark at the end of the payload. */
static __always_inline bool find_mark(struct xdp_md *ctx, __u64 len, struct mark *mark)
{
	if (len < MARK_LEN || bpf_xdp_load_bytes(ctx, len - MARK_LEN, mark, MARK_LEN))
		return false;
	if (mark->magic == MARK_MAGIC)
		return true;
	/* A frame that was tunnelled may still have 4 bytes behind its payload. */
	if (len < MARK_LEN + 4 || bpf_xdp_load_bytes(ctx, len - MARK_LEN - 4, mark, MARK_LEN))
		return false;
	return mark->magic == MARK_MAGIC;
}

/* Reads the mark. The number is unwrapped with the line of its flow. */
static __always_inline bool read_mark(const struct mark *mark, struct wr_receive_control *control,
				      struct wr_receive_cpu *own, __u64 now_ns, struct measured *frame)
{
	__u64 time_ns = ((__u64)bpf_ntohs(mark->time_high) << 32) + bpf_ntohl(mark->time_low);

	frame->line = bpf_ntohs(mark->flow);
	frame->seq_num = bpf_ntohl(mark->seq_num);
	frame->is_mark = true;
	frame->has_latency = time_ns != 0;
	frame->latency_ns = now_ns - time_ns;
	return is_of_run(control, own, frame->line, bpf_ntohs(mark->run));
}

/* Where the announcement starts that the run has ended; 0 without one. */
static __always_inline __u32 find_end(const __u8 *data, const __u8 *data_end)
{
	for (__u32 at = FRONT_MIN; at <= FRONT_MAX; at += 2) {
		const __u8 *front = data + at;

		if (front + END_LEN > data_end)
			return 0;
		if (*(const __be32 *)front == END_MAGIC)
			return at;
	}
	return 0;
}

/* Notes the announced end, unless it is that of another run. Such a frame is not counted. */
static __always_inline void take_end(const struct end *end, struct wr_receive_control *control,
				     struct wr_receive_cpu *own, __u64 len)
{
	own->frames--;
	own->frame_bytes -= len;
	if (end->flags & END_HAS_RUN && control->run != WR_ANY_RUN && control->run != bpf_ntohs(end->run))
		return;
	control->end_sent = bpf_be64_to_cpu(end->sent);
	control->end_count++;
}

/* What a frame was to its flow: measure::Transit. */
struct transit {
	__u32 held;
	bool is_unique;
	bool is_moved;
	bool is_after_gap;
	bool has_ipdv;
	__s64 ipdv_ns;
};

/* measure::WideWindow::advance. */
static __always_inline void advance_wide(struct wr_wide_window *wide, __u64 high, __u64 number)
{
	__u64 word = number / 64, entered = high ? word - (high - 1) / 64 : WR_WIDE_WORDS;

	for (__u32 back = 0; back < WR_WIDE_WORDS && back < entered; back++)
		wide->words[(word - back) & (WR_WIDE_WORDS - 1)] = 0;
	wide->words[word & (WR_WIDE_WORDS - 1)] |= 1ull << (number & 63);
}

/* measure::WideWindow::note. False if the number was there. */
static __always_inline bool note_wide(struct wr_wide_window *wide, __u64 number, __u64 highest, __u32 *held)
{
	__u64 word = number / 64, bit = 1ull << (number & 63);
	__u64 bits = wide->words[word & (WR_WIDE_WORDS - 1)];

	if (bits & bit)
		return false;
	wide->words[word & (WR_WIDE_WORDS - 1)] = bits | bit;
	*held = ones(bits & ~(bit | (bit - 1)));
	for (__u32 above = 1; above < WR_WIDE_WORDS && word + above <= highest / 64; above++)
		*held += ones(wide->words[(word + above) & (WR_WIDE_WORDS - 1)]);
	return true;
}

/* Finds the place of a number in the window and notes it there. False for a frame that is not a
 * first copy. wide is NULL without a wide window. */
static __always_inline bool place(struct wr_flow_line *line, struct wr_wide_window *wide, __u64 number,
				  __u32 *held)
{
	__s64 ahead = number + 1 - line->high;
	__u64 bit;

	if (ahead > 0) {
		if (wide)
			advance_wide(wide, line->high, number);
		line->window = (ahead < WR_WINDOW_LEN ? line->window << ahead : 0) | 1;
		line->high = number + 1;
		return true;
	}
	if (ahead <= (wide ? -WR_WIDE_WINDOW_LEN : -WR_WINDOW_LEN)) {
		line->too_old++;
		return false;
	}
	if (wide) {
		if (ahead > -WR_WINDOW_LEN)
			line->window |= 1ull << -ahead;
		if (!note_wide(wide, number, line->high - 1, held)) {
			line->duplicate++;
			return false;
		}
		line->reordered++;
		return true;
	}
	bit = 1ull << -ahead;
	if (line->window & bit) {
		line->duplicate++;
		return false;
	}
	*held = ones(line->window & (bit - 1));
	line->window |= bit;
	line->reordered++;
	return true;
}

/* measure::FlowLine::time. */
static __always_inline void time_line(struct wr_flow_line *line, __s64 latency_ns, bool is_next,
				      struct transit *result)
{
	__u64 known_ns = latency_ns < 0 ? 0 : latency_ns;
	__u32 latency = known_ns > 0xffffffff ? 0xffffffff : known_ns;
	__u32 transit_ns = latency_ns;

	if (line->stamped > 0) {
		__s32 difference = transit_ns - line->transit_ns;
		__u32 jitter16 = line->jitter16, distance;

		distance = difference < 0 ? -(__u32)difference : difference;
		if (distance > WR_DIFFERENCE_MAX)
			distance = WR_DIFFERENCE_MAX;
		line->jitter16 = jitter16 + distance - ((jitter16 + 8) >> 4);
		result->has_ipdv = is_next;
		result->ipdv_ns = difference;
	}
	line->transit_ns = transit_ns;
	line->stamped++;
	line->latency_sum_ns += known_ns;
	if (~latency > line->latency_min_inverted)
		line->latency_min_inverted = ~latency;
	if (latency > line->latency_max_ns)
		line->latency_max_ns = latency;
}

/* measure::FlowLine::receive. */
static __always_inline void enter(struct wr_flow_line *line, struct wr_wide_window *wide, __u64 number,
				  __u32 cpu, bool has_latency, __s64 latency_ns, struct transit *result)
{
	__u64 before = line->unique_cpu;

	result->is_after_gap = line->high && number > line->high;
	if (!place(line, wide, number, &result->held))
		return;
	result->is_unique = true;
	result->is_moved = before && before >> CPU_SHIFT != cpu;
	line->unique_cpu =
	    ((before & UNIQUE_MASK) + 1) | (result->held ? AFTER_REORDERED : 0) | (__u64)cpu << CPU_SHIFT;
	if (has_latency)
		time_line(line, latency_ns,
			  !result->held && (line->window & 3) == 3 && !(before & AFTER_REORDERED), result);
}

static __always_inline void enter_histogram(__u32 cpu, __u64 latency_ns)
{
	struct wr_histogram *histogram = bpf_map_lookup_elem(&wr_histograms, &cpu);
	__u32 index = histogram_index(latency_ns);

	if (histogram && index < WR_HISTOGRAM_LEN)
		histogram->count[index]++;
}

/* measure::FlowDetail::receive. */
static __always_inline void enter_detail(struct wr_flow_detail *detail, __u64 len, __u64 now_ns)
{
	detail->frame_bytes += len;
	if (!detail->first_ns)
		detail->first_ns = now_ns;
	detail->last_ns = now_ns;
}

/* The counts of the values in this frame; NULL without a rule, for a frame that ends before its
 * parts do, and for a new value if there are too many. */
static __noinline struct wr_tag_counts *find_tag(struct xdp_md *ctx, __u32 line)
{
	struct wr_tag_rule *rule = bpf_map_lookup_elem(&wr_tag_rules, &line);
	struct wr_tag_key key = {.line = line};
	struct wr_tag_counts *counts;

	if (!rule || !rule->parts[0])
		return NULL;
	for (int i = 0; i < WR_TAG_PARTS; i++) {
		__u64 part = rule->parts[i];
		__u32 len = part >> 16 & 7;
		__be64 bytes = 0;

		if (!len)
			break;
		if (bpf_xdp_load_bytes(ctx, part & 0xffff, &bytes, len))
			return NULL;
		key.values[i] = bpf_be64_to_cpu(bytes) >> (part >> 24 & 63) & part >> 32;
	}
	counts = bpf_map_lookup_elem(&wr_tag_values, &key);
	if (!counts) {
		struct wr_tag_counts none = {};

		bpf_map_update_elem(&wr_tag_values, &key, &none, BPF_NOEXIST);
		counts = bpf_map_lookup_elem(&wr_tag_values, &key);
	}
	return counts;
}

/* Counts the values of a frame. latency_ns is below 0 for a frame without a time stamp. */
static __always_inline void count_tag(struct xdp_md *ctx, __u32 line, __u64 len, __u64 now_ns,
				      __s64 latency_ns)
{
	struct wr_tag_counts *counts = find_tag(ctx, line);
	__u64 latency = latency_ns;

	if (!counts)
		return;
	counts->frames++;
	counts->frame_bytes += len;
	if (!counts->first_ns)
		counts->first_ns = now_ns;
	counts->last_ns = now_ns;
	if (latency_ns < 0)
		return;
	counts->stamped++;
	counts->latency_sum_ns += latency;
	if (~latency > counts->latency_min_inverted)
		counts->latency_min_inverted = ~latency;
	if (latency > counts->latency_max_ns)
		counts->latency_max_ns = latency;
}

/* Counts a frame of this run. */
static __always_inline void count(const struct wr_receive_control *control, struct wr_receive_cpu *own,
				  __u32 cpu, struct measured *frame, struct wr_flow_line *line, __u64 len,
				  __u64 now_ns)
{
	struct wr_flow_detail *detail = NULL;
	struct wr_wide_window *wide = NULL;
	struct transit result = {};
	__s64 latency_ns = frame->latency_ns < 0 ? 0 : frame->latency_ns;

	own->received++;
	own->received_bytes += len;
	if (wr_has_details) {
		detail = bpf_map_lookup_elem(&wr_flow_details, &frame->line);
		if (!detail)
			return;
	}
	if (wr_has_wide_window) {
		wide = bpf_map_lookup_elem(&wr_wide_windows, &frame->line);
		if (!wide)
			return;
	}
	if (wr_is_shared) {
		struct flow_lock *lock = bpf_map_lookup_elem(&wr_flow_locks, &frame->line);

		if (!lock)
			return;
		bpf_spin_lock(&lock->lock);
		enter(line, wide, frame->number, cpu, frame->has_latency, frame->latency_ns, &result);
		if (wr_has_details)
			enter_detail(detail, len, now_ns);
		bpf_spin_unlock(&lock->lock);
	} else {
		enter(line, wide, frame->number, cpu, frame->has_latency, frame->latency_ns, &result);
		if (wr_has_details)
			enter_detail(detail, len, now_ns);
	}
	own->moves += result.is_moved;
	if (result.is_after_gap && frame->number > own->after_gap)
		own->after_gap = frame->number;
	if (wr_is_reflector && frame->has_latency) {
		__u64 above = LATENCY_ZERO + frame->latency_ns;

		if (~above > own->latency_min_inverted)
			own->latency_min_inverted = ~above;
	}
	if (result.held) {
		__u32 held = result.held < WR_WINDOW_LEN ? result.held : WR_WINDOW_LEN - 1;

		barrier_var(held); /* Linux 6.1 loses the bound of the comparison */
		own->held[held & (WR_WINDOW_LEN - 1)]++;
		if (result.held > own->held_max)
			own->held_max = result.held;
	}
	if (frame->has_latency && result.is_unique) {
		own->stamped++;
		own->hardware_time += frame->is_hardware;
		own->negative += frame->latency_ns < 0;
		own->late += (__u64)latency_ns > control->deadline_ns;
		enter_histogram(cpu, latency_ns);
	}
	if (result.has_ipdv && !control->stamp_shift) {
		__u64 above = IPDV_ZERO + result.ipdv_ns;

		if (above > own->ipdv_max)
			own->ipdv_max = above;
		if (~above > own->ipdv_min_inverted)
			own->ipdv_min_inverted = ~above;
	}
}

/* False for a frame without a signature, which the host gets. */
static __always_inline bool measure(struct xdp_md *ctx, __u64 len, bool is_bound)
{
	__u32 zero = 0, cpu = bpf_get_smp_processor_id();
	struct wr_receive_control *control = bpf_map_lookup_elem(&wr_receive_page, &zero);
	struct wr_receive_cpu *own = bpf_map_lookup_elem(&wr_receive_cpus, &cpu);
	struct measured frame = {};
	struct mark mark = {};
	struct wr_flow_line *line;
	const __u8 *data, *data_end;
	__u64 now_ns;
	bool is_ours;

	if (!control || !own)
		return false; /* it cannot be counted */
	now_ns = hardware_time_ns(ctx, control, is_bound);
	frame.is_hardware = now_ns != 0;
	if (!now_ns && (!control->stamp_shift || wr_has_details || wr_has_tags))
		now_ns = clock_ns(control);
	own->frames++;
	own->frame_bytes += len;
	if (wr_has_tags)
		count_tag(ctx, wr_line_count, len, now_ns, -1);
	data = (const __u8 *)(long)ctx->data;
	data_end = (const __u8 *)(long)ctx->data_end;
	if (find_front(data, data_end, own)) {
		/* The verifier notes how many bytes behind a pointer were checked, which differs for each
		 * place in find_front. With the old pointers it would follow the code below once for each
		 * of these places, and not once. */
		barrier();
		data = (const __u8 *)(long)ctx->data;
		data_end = (const __u8 *)(long)ctx->data_end;
		if (is_icmp_error(data, data_end, own))
			return false;
		is_ours = read_front(data, data_end, control, own, now_ns, &frame);
	} else if (find_mark(ctx, len, &mark)) {
		if (is_icmp_error((const __u8 *)(long)ctx->data, (const __u8 *)(long)ctx->data_end, own))
			return false;
		is_ours = read_mark(&mark, control, own, now_ns, &frame);
	} else {
		__u32 at = find_end((const __u8 *)(long)ctx->data, (const __u8 *)(long)ctx->data_end);
		struct end end = {};

		if (at && !bpf_xdp_load_bytes(ctx, at, &end, END_LEN)) {
			take_end(&end, control, own, len);
			return true;
		}
		own->foreign++;
		return false;
	}
	if (!is_ours)
		return true;
	line = bpf_map_lookup_elem(&wr_flow_lines, &frame.line);
	if (!line)
		return true;
	if (control->stamp_shift) {
		if (!is_stamped(frame.seq_num, control->stamp_shift))
			frame.has_latency = false;
		else if (!now_ns)
			frame.latency_ns += clock_ns(control);
	}
	if (frame.is_mark) {
		/* A mark has 32 bits of the number and 48 bits of the time. */
		frame.number =
		    line->high ? unwrap(line->high - 1, frame.seq_num) : NUMBER_START + frame.seq_num;
		frame.latency_ns = (__s64)((__u64)frame.latency_ns << 16) >> 16;
	}
	count(control, own, cpu, &frame, line, len, now_ns);
	if (wr_has_tags)
		count_tag(ctx, frame.line, len, now_ns,
			  !frame.has_latency	 ? -1
			  : frame.latency_ns < 0 ? 0
						 : frame.latency_ns);
	return true;
}

static __always_inline void swap_16(__be16 *one, __be16 *other)
{
	__be16 kept = *one;

	*one = *other;
	*other = kept;
}

static __always_inline void swap_32(__be32 *one, __be32 *other)
{
	__be32 kept = *one;

	*one = *other;
	*other = kept;
}

/* Swaps the addresses and ports behind the Ethernet header and its tags. Checksums stay right, as
 * they are sums of what is swapped. */
static __always_inline void turn_packet(__u8 *packet, __u8 *data_end, __be16 type)
{
	__u8 protocol, *ports;

	if (type == TYPE_IPV4) {
		if (packet + IPV4_LEN > data_end || (packet[0] & 0xf) < IPV4_WORDS_MIN)
			return;
		swap_32((__be32 *)(packet + 12), (__be32 *)(packet + 16));
		if (*(__be16 *)(packet + 6) & FRAGMENT_OFFSET)
			return;
		protocol = packet[9];
		ports = packet + (packet[0] & 0xf) * 4;
	} else if (type == TYPE_IPV6) {
		if (packet + IPV6_LEN > data_end)
			return;
		for (int at = 8; at < 24; at += 4)
			swap_32((__be32 *)(packet + at), (__be32 *)(packet + at + 16));
		protocol = packet[6];
		ports = packet + IPV6_LEN;
	} else {
		return;
	}
	if ((protocol == PROTOCOL_UDP || protocol == PROTOCOL_TCP) && ports + 4 <= data_end)
		swap_16((__be16 *)ports, (__be16 *)(ports + 2));
}

/* Makes the frame one to its sender. */
static __always_inline int turn(struct xdp_md *ctx)
{
	__u8 *data = (__u8 *)(long)ctx->data, *data_end = (__u8 *)(long)ctx->data_end;
	__u8 *packet = data + ETHERNET_LEN;
	bool is_multicast;
	__be16 type;

	if (packet > data_end)
		return XDP_DROP;
	is_multicast = data[0] & 1;
	for (int at = 0; at < 6; at += 2)
		swap_16((__be16 *)(data + at), (__be16 *)(data + at + 6));
	if (is_multicast) {
		for (int at = 0; at < 6; at++)
			data[6 + at] = wr_own_mac[at];
	}
	type = *(__be16 *)(data + 12);
	for (int tag = 0; tag < 2 && (type == TYPE_VLAN || type == TYPE_QINQ); tag++) {
		if (packet + VLAN_LEN > data_end)
			return XDP_TX;
		type = *(__be16 *)(packet + 2);
		packet += VLAN_LEN;
	}
	turn_packet(packet, data_end, type);
	return XDP_TX;
}

/* Increments the number in the frame. */
static __always_inline void count_up(struct xdp_md *ctx)
{
	__u8 *data = (__u8 *)(long)ctx->data, *data_end = (__u8 *)(long)ctx->data_end;
	__be32 *seq_num = (__be32 *)(data + WR_COUNTED_UP_AT);

	if ((__u8 *)(seq_num + 1) <= data_end)
		*seq_num = bpf_htonl(bpf_ntohl(*seq_num) + 1);
}

/* is_bound: the program may read the time stamp of the driver. */
static __always_inline int receive(struct xdp_md *ctx, __u64 len, bool is_bound)
{
	if (!measure(ctx, len, is_bound))
		return XDP_PASS;
	if (wr_counts_up)
		count_up(ctx);
	return wr_is_reflector ? turn(ctx) : wr_receive_verdict;
}

SEC("xdp")
int wr_receive(struct xdp_md *ctx)
{
	return receive(ctx, (long)ctx->data_end - (long)ctx->data, false);
}

/* For multi-buffer frames (Linux 5.18): drivers with a large MTU reject other programs. */
SEC("xdp.frags")
int wr_receive_frags(struct xdp_md *ctx)
{
	return receive(ctx, bpf_xdp_get_buff_len(ctx), false);
}

/* The same two, bound to one device, with the time stamps of its driver. */
SEC("xdp")
int wr_receive_hw(struct xdp_md *ctx)
{
	return receive(ctx, (long)ctx->data_end - (long)ctx->data, true);
}

SEC("xdp.frags")
int wr_receive_hwf(struct xdp_md *ctx)
{
	return receive(ctx, bpf_xdp_get_buff_len(ctx), true);
}
