//! The skeletons that `libbpf-cargo` wrote from the programs: one module for each `*.bpf.c`.

macro_rules! skeleton {
    ($module:ident, $program:literal, $file:literal) => {
        #[doc = concat!("`", $program, "`.")]
        #[allow(
            clippy::all,
            clippy::undocumented_unsafe_blocks,
            missing_docs,
            unreachable_pub,
            unsafe_code,
            unsafe_op_in_unsafe_fn,
            reason = "generated code; its unsafe is libbpf-cargo's own"
        )]
        pub mod $module {
            include!(concat!(env!("OUT_DIR"), $file));
        }
    };
}

skeleton!(abi, "abi.bpf.c", "/abi.skel.rs");
skeleton!(capture, "capture.bpf.c", "/capture.skel.rs");
skeleton!(fault, "fault.bpf.c", "/fault.skel.rs");
skeleton!(prebuilt, "prebuilt.bpf.c", "/prebuilt.skel.rs");
skeleton!(receive, "receive.bpf.c", "/receive.skel.rs");
skeleton!(replay, "replay.bpf.c", "/replay.skel.rs");
skeleton!(send, "send.bpf.c", "/send.skel.rs");
skeleton!(send_general, "send_general.bpf.c", "/send_general.skel.rs");
skeleton!(sink, "sink.bpf.c", "/sink.skel.rs");
skeleton!(skb, "skb.bpf.c", "/skb.skel.rs");
skeleton!(tx_stats, "tx_stats.bpf.c", "/tx_stats.skel.rs");
