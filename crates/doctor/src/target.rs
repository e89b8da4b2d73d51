//! The device to examine, and commands to paste for it.

/// A device and its namespace, as given by the user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DoctorTarget {
    /// The device.
    pub ifname: String,
    /// Its namespace, if one was given.
    pub netns: Option<String>,
}

impl DoctorTarget {
    /// An `ip` command, in its namespace.
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
