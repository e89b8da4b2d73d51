//! Errors of loading and attaching BPF programs.

use engine::BpfError;

/// What to try about an error of a BPF program.
pub(super) fn for_bpf(error: &BpfError) -> Option<&'static str> {
    match error {
        _ if error.lacks_perfmon() => Some("run it as root, or also with CAP_PERFMON"),
        _ if error.is_out_of_files() => Some("a larger `ulimit -n`"),
        _ if error.is_denied() => Some("run it as root (CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON)"),
        BpfError::NoXdp { .. } => Some("the capture without --at, which attaches a program of its own"),
        BpfError::NotTraceable { .. } => {
            Some("compile the program with `clang -g`, and leave its BTF in; or the capture without --at")
        }
        BpfError::NoTracing { .. } => Some(
            "run it as root (CAP_BPF and CAP_PERFMON), on a kernel with CONFIG_BPF_EVENTS and \
             CONFIG_FUNCTION_TRACER",
        ),
        BpfError::Load { .. } => Some("`wirerate doctor` reports what works on this machine"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advice(reason: &str, log: &str) -> Option<&'static str> {
        for_bpf(&BpfError::Load { object: "capture", reason: reason.to_owned(), log: log.to_owned() })
    }

    #[test]
    fn only_who_lacks_a_right_is_sent_to_root() {
        let is_leak = "0: (bf) r9 = r1\nR9 pointer -= pointer prohibited\nprocessed 12 insns\n";
        for (reason, log, text) in [
            ("Permission denied (os error 13)", is_leak, "run it as root, or also with CAP_PERFMON"),
            (
                "Operation not permitted (os error 1)",
                "",
                "run it as root (CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON)",
            ),
            ("Too many open files (os error 24)", "", "a larger `ulimit -n`"),
            ("Invalid argument (os error 22)", "", "`wirerate doctor` reports what works on this machine"),
        ] {
            assert_eq!(advice(reason, log), Some(text), "{reason}");
        }
    }
}
