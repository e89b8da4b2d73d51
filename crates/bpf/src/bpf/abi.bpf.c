/* abi.bpf.c: no program. Its BTF describes every type of shared.h, for crates/bpf/src/abi.rs. */
#include "connect.h"
#include "shared.h"

struct wr_abi {
	enum wr_limit limit;
	enum wr_capture_mode capture_mode;
	enum wr_record_kind record_kind;
	enum wr_block_type block_type;
	enum wr_metadata_flag ask_flag;
	enum wr_plan_flag plan_flag;
	struct wr_record record;
	struct wr_block block;
	struct wr_block_tail block_tail;
	struct wr_capture_cpu capture_cpu;
	struct wr_plan plan;
	struct wr_flow flow;
	enum wr_field_mode field_mode;
	enum wr_field_kind field_kind;
	enum wr_sum_kind sum_kind;
	struct wr_field field;
	struct wr_sum_op sum_op;
	struct wr_packet packet;
	struct wr_field_state field_state;
	struct wr_cursor cursor;
	struct wr_stream_choice stream_choice;
	struct wr_skb_run skb_run;
	struct wr_prebuilt written;
	struct wr_prebuilt_run written_run;
	struct wr_tx_stats meter;
	struct wr_sink_cpu sink_cpu;
	struct wr_replay_record replay_record;
	struct wr_replay_state replay_state;
	struct wr_due_times due_times;
	enum wr_receive_limit receive_limit;
	struct wr_flow_line flow_line;
	struct wr_flow_detail flow_detail;
	struct wr_wide_window wide_window;
	struct wr_tag_rule tag_rule;
	struct wr_tag_key tag_key;
	struct wr_tag_counts tag_counts;
	struct wr_receive_cpu receive_cpu;
	struct wr_receive_control receive_control;
	struct wr_histogram histogram;
	struct wr_reflect_counts reflect_counts;
	struct wr_faults faults;
	struct wr_fault_counts fault_counts;
	enum wr_connect_limit connect_limit;
	struct wr_connection connection;
	struct wr_connect_order_entry connect_order;
	struct wr_group_key group_key;
	struct wr_connect_cpu connect_cpu;
	struct wr_connect_page connect_page;
	struct wr_accept_cpu accept_cpu;
} wr_abi;
