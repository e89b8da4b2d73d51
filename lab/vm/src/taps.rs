//! Two bridged taps with several queues each: QEMU's own link between cards has one queue.
//!
//! They are in a network namespace that only QEMU uses, and the bridge has no other ports. So no
//! frame leaves it, and the kernel removes all of it when QEMU ends, however it ends.

use std::process::{Command, Stdio};

/// What runs the words behind it in such a namespace.
pub(crate) const BEFORE: &[&str] = &["unshare", "--net", "--", "sh", "-ec", SCRIPT, "sh"];

/// Taps hold what the machine is too slow for; those of the kernel's usual length lose some of a
/// burst.
const SCRIPT: &str = r#"
for of in all default; do echo 1 >/proc/sys/net/ipv6/conf/$of/disable_ipv6 || true; done 2>/dev/null
ip link add join type bridge
for tap in wrtap0 wrtap1; do
	ip tuntap add dev $tap mode tap multi_queue vnet_hdr
	ip link set $tap txqueuelen 10000 master join up
done
ip link set join up
exec "$@""#;

/// True for QEMU's arguments that name them.
pub(crate) fn are_in(devices: &str) -> bool {
    devices.split_whitespace().any(|argument| argument.starts_with("tap,"))
}

/// Why there can be none here, found by making them.
#[must_use]
pub fn trouble() -> Option<String> {
    let (first, rest) = BEFORE.split_first()?;
    let tried = Command::new(first).args(rest).arg("true").stdin(Stdio::null()).output();
    let why = match tried {
        Ok(output) if output.status.success() => return None,
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; "),
        Err(error) => error.to_string(),
    };
    Some(format!("cards with several queues need root, taps and a bridge: {why}"))
}
