//! Errors of loading, attaching and mapping BPF programs.

use crate::xdp_mode::XdpMode;
use std::io;

/// Errors of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages name the fields")]
pub enum BpfError {
    /// libbpf or the verifier rejected an object.
    #[error("cannot load the BPF object {object}: {reason}{log}", log = LogTail(log))]
    Load { object: &'static str, reason: String, log: String },
    /// The CPUs of the machine could not be counted.
    #[error("cannot count the CPUs of this machine: {reason}")]
    Cpus { reason: String },
    /// A map of a loaded object could not be mapped.
    #[error("cannot map {bytes} bytes of the BPF map {map}")]
    MapMemory { map: &'static str, bytes: usize, source: io::Error },
    /// The programs of a device could not be queried.
    #[error("cannot query the XDP programs of {ifname}")]
    XdpQuery { ifname: String, source: io::Error },
    /// The device already has a program.
    #[error("{ifname} already runs the XDP program {name} (id {id}, {mode})")]
    XdpBusy { ifname: String, name: String, id: u32, mode: XdpMode },
    /// The device has no program that could be traced.
    #[error("no XDP program is on {ifname}, so there is nothing before or behind it")]
    NoXdp { ifname: String },
    /// The program of the device cannot be traced.
    #[error("the XDP program {name} (id {id}) of {ifname} cannot be traced: {why}")]
    NotTraceable { ifname: String, name: String, id: u32, why: String },
    /// No program can be traced by this process.
    #[error("programs that trace another program are not allowed here: {reason}")]
    NoTracing { reason: String },
    /// Neither the driver nor the generic hook accepted the program.
    #[error("cannot attach an XDP program to {ifname} (native: {native}; generic: {generic})")]
    XdpAttach { ifname: String, native: String, generic: String, source: io::Error },
}

impl BpfError {
    /// True if this process lacks a capability. A verifier that rejects a program returns EACCES,
    /// which is different.
    pub fn is_denied(&self) -> bool {
        match self {
            // The error of libbpf is kept as text; this is the text of EPERM.
            Self::Load { reason, log, .. } => {
                reason.contains("Operation not permitted") || lacks_perfmon(log)
            }
            Self::Cpus { reason } => reason.contains("Operation not permitted"),
            Self::MapMemory { source, .. }
            | Self::XdpQuery { source, .. }
            | Self::XdpAttach { source, .. } => source.raw_os_error() == Some(libc::EPERM),
            Self::XdpBusy { .. }
            | Self::NoXdp { .. }
            | Self::NotTraceable { .. }
            | Self::NoTracing { .. } => false,
        }
    }

    /// True if the verifier rejects what it accepts from a process with CAP_PERFMON.
    pub fn lacks_perfmon(&self) -> bool {
        matches!(self, Self::Load { log, .. } if lacks_perfmon(log))
    }

    /// True if this process has too many open files.
    pub fn is_out_of_files(&self) -> bool {
        let (Self::Load { reason, .. } | Self::Cpus { reason }) = self else { return false };
        // The error of libbpf is kept as text; this is the text of EMFILE.
        reason.contains("Too many open files")
    }

    /// True if the device already has a program.
    pub fn is_busy(&self) -> bool {
        matches!(self, Self::XdpBusy { .. })
    }
}

/// True if the verifier rejected pointer arithmetic that it accepts from a process with
/// CAP_PERFMON.
fn lacks_perfmon(log: &str) -> bool {
    ["pointer -= pointer prohibited", "pointer comparison prohibited", "leaks addr", "prohibited for !root"]
        .iter()
        .any(|text| log.contains(text))
}

/// The last lines of a log, where the verifier reports the cause.
struct LogTail<'a>(&'a str);

impl std::fmt::Display for LogTail<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const LINES: usize = 12;
        // Without the right to load programs, libbpf prints a long guess. The reason is enough.
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
    fn missing_right_is_reported_once() {
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
        assert!(error.lacks_perfmon());
    }

    #[test]
    fn a_process_without_descriptors_does_not_lack_rights() {
        let reason = "Too many open files (os error 24)".to_owned();
        let error = BpfError::Load { object: "capture", reason, log: String::new() };
        assert!(error.is_out_of_files() && !error.is_denied());
    }

    #[test]
    fn load_error_ends_with_the_last_lines_of_the_log() {
        let log: String = (0..40).map(|i| format!("line {i}\n\n")).collect();
        let text = BpfError::Load { object: "capture", reason: "EACCES".into(), log }.to_string();
        assert!(text.starts_with("cannot load the BPF object capture: EACCES\n  line 28\n"), "{text}");
        assert!(text.ends_with("line 39"), "{text}");
    }
}
