//! Where a device is, and how the commands that change it are typed there.

/// A device and its namespace, as the user named them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The device.
    pub ifname: String,
    /// Its namespace, where one was named.
    pub netns: Option<String>,
}

impl Place {
    /// `ip link set DEV up`, in its namespace.
    pub(super) fn ip(&self, words: &str) -> String {
        match &self.netns {
            Some(netns) => format!("ip -n {netns} {words}"),
            None => format!("ip {words}"),
        }
    }

    /// Any command, in its namespace.
    pub(super) fn run(&self, words: &str) -> String {
        match &self.netns {
            Some(netns) => format!("ip netns exec {netns} {words}"),
            None => words.to_owned(),
        }
    }

    /// `ethtool OPTION DEV WORDS`, in its namespace.
    pub(super) fn ethtool(&self, option: &str, words: &str) -> String {
        self.run(&format!("ethtool {option} {} {words}", self.ifname))
    }
}
