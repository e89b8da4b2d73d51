//! What can go wrong between a program in this binary and the same program at work in the kernel.

use crate::xdp::XdpMode;
use std::io;

/// Errors of this room.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BpfError {
    /// libbpf or the verifier refused an object.
    #[error("cannot load the BPF object {object}: {reason}{log}", log = LogTail(log))]
    Load {
        /// Name of the `*.bpf.c` file without its ending.
        object: &'static str,
        /// What libbpf returned.
        reason: String,
        /// What libbpf and the verifier printed; may be long.
        log: String,
    },
    /// The CPUs of the machine could not be counted.
    #[error("cannot count the CPUs of this machine: {reason}")]
    Cpus {
        /// What libbpf returned.
        reason: String,
    },
    /// A map of a loaded object could not be mapped.
    #[error("cannot map {bytes} bytes of the BPF map {map}")]
    MapMemory {
        /// Name of the map.
        map: &'static str,
        /// Bytes asked for.
        bytes: usize,
        /// What mmap(2) said.
        #[source]
        source: io::Error,
    },
    /// The device could not be asked which programs it has.
    #[error("cannot ask {ifname} for its XDP programs")]
    XdpQuery {
        /// Name of the device.
        ifname: String,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// Another program has the device.
    #[error("{ifname} already runs the XDP program {name} (id {id}, {mode})")]
    XdpBusy {
        /// Name of the device.
        ifname: String,
        /// Name of the program there, `?` when it could not be read.
        name: String,
        /// Id of the program there, for `bpftool prog show id`.
        id: u32,
        /// How it is attached.
        mode: XdpMode,
    },
    /// Neither the driver nor the generic hook took the program.
    #[error("cannot attach an XDP program to {ifname} (native: {native}; generic: {generic})")]
    XdpAttach {
        /// Name of the device.
        ifname: String,
        /// What the driver said, or that it was not asked.
        native: String,
        /// What the generic hook said, or that it was not asked.
        generic: String,
        /// The last of the two.
        #[source]
        source: io::Error,
    },
}

impl BpfError {
    /// The kernel did not let this process ask. A verifier that refuses a program says EACCES, which is another thing.
    pub fn is_denied(&self) -> bool {
        match self {
            // libbpf's error is kept as its text, which is that of EPERM.
            Self::Load { reason, log, .. } => {
                reason.contains("Operation not permitted") || lacks_perfmon(log)
            }
            Self::Cpus { reason } => reason.contains("Operation not permitted"),
            Self::MapMemory { source, .. }
            | Self::XdpQuery { source, .. }
            | Self::XdpAttach { source, .. } => source.raw_os_error() == Some(libc::EPERM),
            Self::XdpBusy { .. } => false,
        }
    }

    /// What a user can try, where there is something.
    pub fn cure(&self) -> Option<&'static str> {
        match self {
            Self::Load { log, .. } if lacks_perfmon(log) => {
                Some("run it as root, or with CAP_PERFMON as well")
            }
            Self::Load { reason, .. } | Self::Cpus { reason } if reason.contains("Too many open files") => {
                Some("a larger `ulimit -n`")
            }
            _ if self.is_denied() => Some("run it as root (CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON)"),
            Self::Load { .. } => Some("`wirerate doctor`, which shows what this kernel and process can do"),
            _ => None,
        }
    }

    /// True when the device has a program already.
    pub fn is_busy(&self) -> bool {
        matches!(self, Self::XdpBusy { .. })
    }
}

/// True where the verifier refuses what it accepts from a process with CAP_PERFMON: arithmetic on pointers that could
/// tell kernel addresses.
fn lacks_perfmon(log: &str) -> bool {
    ["pointer -= pointer prohibited", "pointer comparison prohibited", "leaks addr", "prohibited for !root"]
        .iter()
        .any(|text| log.contains(text))
}

/// The last lines of a log: the verifier says at the end what it did not like.
struct LogTail<'a>(&'a str);

impl std::fmt::Display for LogTail<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const LINES: usize = 12;
        // Without the right to load anything libbpf guesses at length what may be wrong. The reason says it.
        if self.0.contains("libbpf: Error in bpf_object__probe_loading(): -EPERM") {
            return Ok(());
        }
        if lacks_perfmon(self.0) {
            return f.write_str(" (this process lacks CAP_PERFMON)");
        }
        let lines: Vec<&str> = self.0.lines().filter(|line| !line.trim().is_empty()).collect();
        let skipped = lines.len().saturating_sub(LINES);
        for line in &lines[skipped..] {
            write!(f, "\n  {line}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_right_is_said_once() {
        let log = "libbpf: Failed to bump RLIMIT_MEMLOCK (err = -EPERM)\n\
                   libbpf: Error in bpf_object__probe_loading(): -EPERM. Couldn't load trivial BPF program.\n";
        let error =
            BpfError::Load { object: "capture", reason: "Operation not permitted".into(), log: log.into() };
        assert!(error.is_denied());
        assert_eq!(error.to_string(), "cannot load the BPF object capture: Operation not permitted");
    }

    #[test]
    fn a_program_that_needs_cap_perfmon_is_refused_with_that_word() {
        let log = "0: (bf) r9 = r1\nR9 pointer -= pointer prohibited\nprocessed 12 insns\n".to_owned();
        let error =
            BpfError::Load { object: "capture", reason: "Permission denied (os error 13)".into(), log };
        assert!(error.is_denied());
        assert!(error.to_string().ends_with("(this process lacks CAP_PERFMON)"), "{error}");
        assert_eq!(error.cure(), Some("run it as root, or with CAP_PERFMON as well"));
    }

    #[test]
    fn a_process_without_descriptors_is_not_sent_to_root() {
        let reason = "Too many open files (os error 24)".to_owned();
        let error = BpfError::Load { object: "capture", reason, log: String::new() };
        assert_eq!(error.cure(), Some("a larger `ulimit -n`"));
    }

    #[test]
    fn load_error_ends_with_the_last_lines_of_the_log() {
        let log: String = (0..40).map(|i| format!("line {i}\n\n")).collect();
        let text = BpfError::Load { object: "capture", reason: "EACCES".into(), log }.to_string();
        assert!(text.starts_with("cannot load the BPF object capture: EACCES\n  line 28\n"), "{text}");
        assert!(text.ends_with("line 39"), "{text}");
    }
}
