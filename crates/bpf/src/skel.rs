//! The skeletons that `libbpf-cargo` wrote from the programs: one module for each `*.bpf.c`.

use std::sync::OnceLock;

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

/// The object that the build script has packed. It stays in memory once it was used.
fn unpacked(packed: &[u8], object: &'static OnceLock<Vec<u8>>) -> &'static [u8] {
    object.get_or_init(|| zstd::decode_all(packed).expect("the build script has packed it"))
}

skeleton!(abi, "abi.bpf.c", "/abi.skel.rs");
skeleton!(accept, "accept.bpf.c", "/accept.skel.rs");
skeleton!(capture, "capture.bpf.c", "/capture.skel.rs");
skeleton!(capture_at, "capture_at.bpf.c", "/capture_at.skel.rs");
skeleton!(connect, "connect.bpf.c", "/connect.skel.rs");
skeleton!(fault, "fault.bpf.c", "/fault.skel.rs");
skeleton!(prebuilt, "prebuilt.bpf.c", "/prebuilt.skel.rs");
skeleton!(receive, "receive.bpf.c", "/receive.skel.rs");
skeleton!(reflect, "reflect.bpf.c", "/reflect.skel.rs");
skeleton!(replay, "replay.bpf.c", "/replay.skel.rs");
skeleton!(send, "send.bpf.c", "/send.skel.rs");
skeleton!(sink, "sink.bpf.c", "/sink.skel.rs");
skeleton!(skb, "skb.bpf.c", "/skb.skel.rs");
skeleton!(stream_switch, "stream_switch.bpf.c", "/stream_switch.skel.rs");
skeleton!(tx_stats, "tx_stats.bpf.c", "/tx_stats.skel.rs");

#[cfg(test)]
mod tests {
    /// The line information of the objects had absolute paths.
    #[test]
    fn objects_do_not_hold_the_folder_of_the_build() {
        let packed = include_bytes!(concat!(env!("OUT_DIR"), "/send.skel.zst"));
        let object = zstd::decode_all(&packed[..]).expect("the build script has packed it");
        let holds = |text: &str| object.windows(text.len()).any(|part| part == text.as_bytes());
        assert!(holds("bpf/src/bpf/send.bpf.c"), "it has the paths of its sources");
        assert!(!holds(concat!(env!("CARGO_MANIFEST_DIR"), "/src/bpf/send.bpf.c")));
    }
}
