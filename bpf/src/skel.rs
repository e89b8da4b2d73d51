//! The skeletons that `libbpf-cargo` wrote from the programs: one module for each `*.bpf.c`.

/// `capture.bpf.c`.
#[allow(
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    missing_docs,
    unreachable_pub,
    unsafe_code,
    unsafe_op_in_unsafe_fn,
    reason = "generated code; its unsafe is libbpf-cargo's own"
)]
pub mod capture {
    include!(concat!(env!("OUT_DIR"), "/capture.skel.rs"));
}

/// `meter.bpf.c`.
#[allow(
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    missing_docs,
    unreachable_pub,
    unsafe_code,
    unsafe_op_in_unsafe_fn,
    reason = "generated code; its unsafe is libbpf-cargo's own"
)]
pub mod meter {
    include!(concat!(env!("OUT_DIR"), "/meter.skel.rs"));
}

/// `send.bpf.c`.
#[allow(
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    missing_docs,
    unreachable_pub,
    unsafe_code,
    unsafe_op_in_unsafe_fn,
    reason = "generated code; its unsafe is libbpf-cargo's own"
)]
pub mod send {
    include!(concat!(env!("OUT_DIR"), "/send.skel.rs"));
}

/// `sink.bpf.c`.
#[allow(
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    missing_docs,
    unreachable_pub,
    unsafe_code,
    unsafe_op_in_unsafe_fn,
    reason = "generated code; its unsafe is libbpf-cargo's own"
)]
pub mod sink {
    include!(concat!(env!("OUT_DIR"), "/sink.skel.rs"));
}

/// `skb.bpf.c`.
#[allow(
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    missing_docs,
    unreachable_pub,
    unsafe_code,
    unsafe_op_in_unsafe_fn,
    reason = "generated code; its unsafe is libbpf-cargo's own"
)]
pub mod skb {
    include!(concat!(env!("OUT_DIR"), "/skb.skel.rs"));
}
