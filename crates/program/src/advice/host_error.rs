//! Errors of devices, namespaces and CPUs.

use host::HostError;
use nix::libc;

/// What to try about an error of the host.
pub fn for_host(error: &HostError) -> Option<String> {
    match error {
        HostError::NoNetns { .. } => {
            Some("`ip netns list` for the names; a path or a process ID is accepted as well".to_owned())
        }
        HostError::NoLink { netns, .. } => {
            let name = netns.strip_prefix("namespace ").filter(|name| !name.contains('/'));
            let ip = name.map_or_else(|| "ip link".to_owned(), |name| format!("ip -n {name} link"));
            Some(format!("`{ip}` for the devices there; --netns NAME selects another namespace"))
        }
        HostError::Refused { act: "enter", source, .. } if source.errno == libc::EPERM => {
            Some("run as root: entering a namespace needs CAP_SYS_ADMIN".to_owned())
        }
        // The table is one for all namespaces, and its limits can be set in the first one only.
        HostError::Refused { act: "ask neighbour", source, .. } if source.errno == libc::ENOBUFS => {
            let all = "the neighbour table of this machine is full";
            Some(format!("`sysctl -w net.ipv4.neigh.default.gc_thresh3=16384` (IPv6: net.ipv6): {all}"))
        }
        HostError::Refused { source, .. } => for_errno(source.errno).map(str::to_owned),
        HostError::FeatureFixed { .. } => {
            Some("`ethtool -k` lists the features that can be changed".to_owned())
        }
        HostError::NoStamps { .. } => Some("captures use the clock of the kernel there".to_owned()),
        HostError::NoStampFilter { filter: "all", offers, .. }
            if offers.iter().any(|word| word.contains("ptp")) =>
        {
            Some("`wirerate timestamp DEV on --filter ptp` stamps the event messages of PTP".to_owned())
        }
        HostError::NotRunning { .. } => Some("`ip link set DEV up` at both ends".to_owned()),
        HostError::BadCpuList { .. } => {
            Some("numbers and ranges separated by commas, such as 0,2-3".to_owned())
        }
        HostError::NoCpu { online, .. } => Some(format!("--cpus {online}")),
        _ => None,
    }
}

fn for_errno(errno: i32) -> Option<&'static str> {
    match errno {
        libc::EPERM | libc::EACCES => Some("run as root, or with CAP_NET_ADMIN and CAP_SYS_ADMIN"),
        libc::EEXIST => Some("another name, or remove what is there first"),
        libc::EBUSY => Some("end the program that uses it"),
        libc::EOPNOTSUPP => Some("another kind of device, or a newer kernel or driver"),
        libc::EMFILE | libc::ENFILE => Some("a larger `ulimit -n`"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::KernelError;

    #[test]
    fn a_namespace_that_may_not_be_entered_is_told_from_other_refusals() {
        let refused = |act| {
            let source = KernelError { errno: libc::EPERM, detail: None };
            for_host(&HostError::Refused { act, object: "lab".to_owned(), source })
        };
        let enter = "run as root: entering a namespace needs CAP_SYS_ADMIN";
        assert_eq!(refused("enter").as_deref(), Some(enter));
        let delete = "run as root, or with CAP_NET_ADMIN and CAP_SYS_ADMIN";
        assert_eq!(refused("delete").as_deref(), Some(delete));
    }

    /// Tests of 256 clients side by side filled the table, and nothing said what to do.
    #[test]
    fn a_full_neighbour_table_is_answered_with_its_limit() {
        let source = KernelError { errno: libc::ENOBUFS, detail: None };
        let error = HostError::Refused { act: "ask neighbour", object: "198.18.0.2 of a".to_owned(), source };
        assert!(for_host(&error).is_some_and(|text| text.contains("gc_thresh3")));
    }

    #[test]
    fn devices_are_listed_in_their_namespace() {
        let text = |netns: &str| {
            let (link, netns) = ("eth7".to_owned(), netns.to_owned());
            for_host(&HostError::NoLink { link, netns }).unwrap_or_default()
        };
        assert!(text("namespace lab").starts_with("`ip -n lab link` for the devices there"));
        assert!(text("namespace /run/netns/lab").starts_with("`ip link` for the devices there"));
        assert!(text("this namespace").starts_with("`ip link` for the devices there"));
    }

    #[test]
    fn a_cpu_that_is_missing_is_answered_with_those_that_are_there() {
        let error = HostError::NoCpu { cpu: 9, online: "0-3".to_owned() };
        assert_eq!(for_host(&error).as_deref(), Some("--cpus 0-3"));
    }
}
