//! Errors of captures and receivers.

use super::bpf_error::for_bpf;
use super::host_error::for_host;
use capture::rotate::PolicyError;
use capture::{BpfError, CaptureError};
use nix::libc;
use std::io;
use std::path::Path;

/// What to try about an error of a capture. `sockets_will_do` is false if only XDP can do what the
/// user asked for.
pub fn for_capture(error: &CaptureError, sockets_will_do: bool) -> Option<String> {
    match error {
        CaptureError::Bpf(BpfError::XdpBusy { ifname, name, id, .. }) => {
            Some(for_busy_device(ifname, name, *id, sockets_will_do))
        }
        CaptureError::Host(error) => for_host(error),
        CaptureError::NotStamping { .. } => Some("`wirerate timestamp DEV on`".to_owned()),
        CaptureError::NoStampsByXdp { .. } => {
            Some("--source tpacket (in mirror mode), or --clock system for the kernel's time".to_owned())
        }
        CaptureError::Rotate(PolicyError::RingWithoutEnd { .. }) => {
            Some("--rotate-size 100MB, or --rotate-every 10min".to_owned())
        }
        CaptureError::Rotate(PolicyError::QuotaWithoutEnd { quota_bytes }) => Some(format!(
            "--rotate-size {}, which keeps the newest files, or --stop-after {quota_bytes}",
            (quota_bytes.get() / 10).max(1)
        )),
        CaptureError::Rotate(PolicyError::EndWithoutRotation { .. }) => {
            Some("--rotate-size 100MB, or --rotate-every 1h".to_owned())
        }
        CaptureError::Contradiction { .. } => Some("leave one of the two out".to_owned()),
        CaptureError::NoParquet => Some("make install, which builds wirerate with all features".to_owned()),
        CaptureError::LittleMemory { .. } => {
            Some("`systemd-run --scope -p MemoryMax=16M wirerate capture ...`".to_owned())
        }
        CaptureError::DropNeedsXdp { .. } => Some("--source xdp, or --mode mirror".to_owned()),
        CaptureError::QueuesUntold { .. } => {
            Some("--source xdp --direction in, or without --per-queue".to_owned())
        }
        CaptureError::OnlyIncoming { .. } => Some("--source tpacket, or --direction in".to_owned()),
        CaptureError::PacketSocket { source, .. } => match source.raw_os_error()? {
            libc::EPERM => Some("run it as root (CAP_NET_RAW)".to_owned()),
            libc::ENOMEM => Some("a smaller --ring".to_owned()),
            _ => None,
        },
        // A static program loads no libraries.
        CaptureError::NoFilterCompiler { .. } if cfg!(target_feature = "crt-static") => {
            Some("install tcpdump, which compiles filters for this static build".to_owned())
        }
        CaptureError::NoFilterCompiler { .. } => Some(
            "install it: `apt-get install libpcap0.8` on Debian and Ubuntu, `libpcap` elsewhere".to_owned(),
        ),
        CaptureError::Create { name, source } if source.kind() == io::ErrorKind::NotFound => {
            let folder = Path::new(name).parent()?.display().to_string();
            (!folder.is_empty()).then(|| format!("`mkdir -p {folder}`, if that is the right directory"))
        }
        CaptureError::Create { name, source } if source.kind() == io::ErrorKind::WouldBlock => {
            Some(format!("`fuser -v {name}` to see which program writes to it, or another name"))
        }
        CaptureError::Create { name, source } if source.kind() == io::ErrorKind::PermissionDenied => {
            Some(format!("another directory: `ls -ld $(dirname {name})` shows who may write there"))
        }
        CaptureError::Write { name, source, .. }
            if source.kind() == io::ErrorKind::StorageFull && !Path::new(name).exists() =>
        {
            Some(
                "`df -h` for the space of each file system; --count 1000 writes the first frames only"
                    .to_owned(),
            )
        }
        CaptureError::Write { name, source, .. } if source.kind() == io::ErrorKind::StorageFull => {
            Some(format!(
                "`df -h {name}` for the space there; --rotate-size 100MB --files 10 keeps the newest files only"
            ))
        }
        CaptureError::TimeOfDay { .. } => Some("`date -s`, or a time server, to set the clock".to_owned()),
        CaptureError::RunAs { .. } => Some("run it as root (CAP_SETUID and CAP_SETGID)".to_owned()),
        CaptureError::FilterNeedsSockets { .. } => Some("--source tpacket, or without --source".to_owned()),
        CaptureError::FilterTakesLong { .. } => Some(
            "a range instead of a list (`portrange 1-2000`, `net 198.18.0.0/15`), or at most 100 ports"
                .to_owned(),
        ),
        CaptureError::Filter { .. } | CaptureError::FilterProgram { .. } => {
            Some("pcap-filter(7) describes the language; `tcpdump -d EXPRESSION` tries one".to_owned())
        }
        CaptureError::Bpf(error) => for_bpf(error).map(str::to_owned),
        _ => None,
    }
}

/// What to do about a device that has an XDP program.
fn for_busy_device(ifname: &str, program: &str, id: u32, sockets_will_do: bool) -> String {
    let to_do = match program {
        program if program.starts_with("wr_capture") => format!("end the other capture on {ifname}"),
        "wr_sink" | "wr_sink_frags" => {
            format!("end the `wirerate count` or `wirerate sink` on {ifname}")
        }
        _ => format!("`bpftool prog show id {id}` shows which program it is; end the one that owns it"),
    };
    if sockets_will_do { format!("{to_do}, or --source tpacket, which needs no program") } else { to_do }
}

#[cfg(test)]
mod tests {
    use super::*;
    use capture::XdpMode;
    use std::num::NonZeroU64;

    fn advice(error: CaptureError) -> String {
        for_capture(&error, true).unwrap_or_default()
    }

    #[test]
    fn what_a_source_cannot_do_has_the_option_for_another_one() {
        let ifname = || "eth1".to_owned();
        for (error, text) in [
            (CaptureError::DropNeedsXdp { ifname: ifname() }, "--source xdp, or --mode mirror"),
            (
                CaptureError::QueuesUntold { ifname: ifname(), queues: 4 },
                "--source xdp --direction in, or without --per-queue",
            ),
            (CaptureError::OnlyIncoming { ifname: ifname() }, "--source tpacket, or --direction in"),
            (
                CaptureError::NoStampsByXdp { ifname: ifname(), why: "no kfunc".to_owned() },
                "--source tpacket (in mirror mode), or --clock system for the kernel's time",
            ),
        ] {
            assert_eq!(advice(error), text);
        }
    }

    #[test]
    fn a_filter_that_takes_long_has_shorter_words() {
        let expression = "port 1 or port 2".to_owned();
        assert!(advice(CaptureError::FilterTakesLong { expression }).contains("portrange 1-2000"));
    }

    #[test]
    fn the_owner_of_a_program_decides_what_to_do_about_it() {
        let error = |name: &str| {
            let (ifname, mode) = ("eth1".to_owned(), XdpMode::Native);
            CaptureError::Bpf(BpfError::XdpBusy { ifname, name: name.to_owned(), id: 7, mode })
        };
        for (program, text) in [
            ("wr_capture_all", "end the other capture on eth1"),
            ("wr_sink", "end the `wirerate count` or `wirerate sink` on eth1"),
            ("firewall", "`bpftool prog show id 7` shows which program it is; end the one that owns it"),
        ] {
            assert_eq!(for_capture(&error(program), false).as_deref(), Some(text));
            let sockets = format!("{text}, or --source tpacket, which needs no program");
            assert_eq!(for_capture(&error(program), true), Some(sockets));
        }
    }

    #[test]
    fn files_that_fill_a_quota_are_a_tenth_of_it() {
        let quota_bytes = NonZeroU64::new(5_000).unwrap();
        assert_eq!(
            advice(CaptureError::Rotate(PolicyError::QuotaWithoutEnd { quota_bytes })),
            "--rotate-size 500, which keeps the newest files, or --stop-after 5000"
        );
    }

    #[test]
    fn a_missing_folder_is_made() {
        let error = |name: &str| CaptureError::Create {
            name: name.to_owned(),
            source: io::ErrorKind::NotFound.into(),
        };
        assert_eq!(advice(error("a/b.pcapng")), "`mkdir -p a`, if that is the right directory");
        assert_eq!(for_capture(&error("b.pcapng"), true), None);
    }
}
