//! The receiving end as numbers: loss, duplicates, order and latency of every flow.
//!
//! [`Signature`] is what the sender writes into a frame, [`FlowLine`] what the receiver keeps of a
//! flow, and [`Figures`] the results. [`Meter`] does in Rust what `receive.bpf.c` does in the
//! kernel: it measures captured frames, and tests compare the two. No I/O, no clock, no kernel.
#![forbid(unsafe_code)]

mod figures;
mod host_clock;
mod icmp_error;
mod kept_flows;
mod latency;
mod line;
mod loss;
mod loss_row;
mod meter;
mod order;
mod signature;
mod tag;
mod totals;
mod unwrap;
mod wide_window;

pub use facts::{Fact, OtherFrames, UnusualFrames};
pub use figures::{Figures, FlowFigures, FlowRow, flow_rows, missing};
pub use host_clock::HostClock;
pub use icmp_error::IcmpError;
pub use kept_flows::keep_flows;
pub use latency::{
    HISTOGRAM_LEN, HistogramLog, Latency, PERCENTILES, histogram_index, octaves, used_buckets,
};
pub use line::{FlowDetail, FlowLine, Transit, WINDOW_LEN};
pub use loss::Loss;
pub use loss_row::LossRow;
pub use meter::{Arrival, Meter, MeterOptions};
pub use order::{Arrivals, FramesAt, OrderFigures};
pub use signature::{
    AnnouncedEnd, END_MARK_LEN, FULL_LEN, FullFields, HEADER_LEN, Mark, SHORT_LEN, Signature, find_signature,
    is_stamped,
};
pub use signature::{MarkedNumber, marked_number};
pub use tag::{TAG_PART_BITS, TAG_PARTS, TagCounts, TagPart};
pub use totals::{HELD_LEN, STREAMS_MAX, Totals};
pub use unwrap::{first_number, unwrap_number};
pub use wide_window::{WIDE_WINDOW_LEN, WideWindow};
