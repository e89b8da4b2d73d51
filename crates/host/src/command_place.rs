//! Commands that people paste: with the words that run them in the namespace of a device.

use crate::Netns;

/// The namespace in which a command has to run, as the user named it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandPlace {
    netns: Option<String>,
}

impl CommandPlace {
    /// Of a namespace as [`Netns::named`] accepts it: a name, a path or a process ID;
    /// `None` for the namespace of this process.
    pub fn of(netns: Option<&str>) -> Self {
        let name = |netns: &str| netns.strip_prefix("/run/netns/").unwrap_or(netns).to_owned();
        Self { netns: netns.map(name) }
    }

    /// Of a namespace that was found. One without a name counts as that of this process.
    pub fn of_netns(netns: &Netns) -> Self {
        let is_here = Netns::of_process(std::process::id()).is_ok_and(|here| here == *netns);
        Self { netns: if is_here { None } else { netns.name() } }
    }

    /// `ip WORDS`.
    pub fn ip(&self, words: &str) -> String {
        match &self.netns {
            Some(netns) if self.is_name() => format!("ip -n {netns} {words}"),
            _ => self.run(&format!("ip {words}")),
        }
    }

    /// Any other command.
    pub fn run(&self, command: &str) -> String {
        match &self.netns {
            None => command.to_owned(),
            Some(netns) if self.is_name() => format!("ip netns exec {netns} {command}"),
            Some(path) if path.starts_with('/') => format!("nsenter --net={path} {command}"),
            Some(pid) => format!("nsenter -t {pid} -n {command}"),
        }
    }

    /// True for a name of `ip netns`, as opposed to a path or a process ID.
    fn is_name(&self) -> bool {
        self.netns.as_ref().is_some_and(|netns| {
            !netns.starts_with('/') && (netns.parse::<u32>().is_err() || Netns::exists(netns))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_to_name_a_namespace_has_its_prefix() {
        for (netns, ip, other) in [
            (None, "ip link", "tc qdisc"),
            (Some("lab"), "ip -n lab link", "ip netns exec lab tc qdisc"),
            (Some("/run/netns/lab"), "ip -n lab link", "ip netns exec lab tc qdisc"),
            (
                Some("/proc/7/ns/net"),
                "nsenter --net=/proc/7/ns/net ip link",
                "nsenter --net=/proc/7/ns/net tc qdisc",
            ),
            (Some("4194999"), "nsenter -t 4194999 -n ip link", "nsenter -t 4194999 -n tc qdisc"),
        ] {
            let place = CommandPlace::of(netns);
            assert_eq!((place.ip("link"), place.run("tc qdisc")), (ip.to_owned(), other.to_owned()));
        }
    }
}
