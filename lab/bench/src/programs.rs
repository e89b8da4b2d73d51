//! Programs of the tools that are compared, and which tools take part.

use crate::process::find_tool;
use host::LabEnd;
use std::path::PathBuf;

/// Name of the tool under test, among generators and among captures.
pub(crate) const UNDER_TEST: &str = "wirerate";

/// Whose program a tool is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ToolProgram {
    /// The binary under test.
    Wirerate,
    /// Another build of it, where one was named.
    Against,
    /// This binary.
    Own,
    /// A command of the system.
    Installed(&'static str),
}

/// Where the programs are.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    /// The binary under test.
    pub(crate) wirerate: PathBuf,
    /// Another build of it.
    pub(crate) against: Option<PathBuf>,
    /// This binary.
    pub(crate) own: PathBuf,
    /// Names of the tools that take part; empty for all.
    pub(crate) only: Vec<String>,
    /// False: wirerate alone.
    pub(crate) has_peers: bool,
}

impl Programs {
    /// The file of a program, `None` when it is not installed.
    pub(crate) fn find(&self, program: ToolProgram) -> Option<PathBuf> {
        match program {
            ToolProgram::Wirerate => Some(self.wirerate.clone()),
            ToolProgram::Against => self.against.clone(),
            ToolProgram::Own => Some(self.own.clone()),
            ToolProgram::Installed(name) => find_tool(name),
        }
    }

    /// True for a tool that takes part when it is installed. The one under test always does.
    pub(crate) fn wants(&self, name: &str, program: ToolProgram) -> bool {
        if !self.has_peers && program != ToolProgram::Wirerate {
            return false;
        }
        let is_named =
            self.only.is_empty() || name == UNDER_TEST || self.only.iter().any(|only| only == name);
        is_named && (program != ToolProgram::Against || self.against.is_some())
    }
}

/// Words for the namespace of a device, where it has a name.
pub(crate) fn netns(end: &LabEnd) -> Vec<String> {
    match end.netns_name.as_str() {
        "" => Vec::new(),
        name => owned(&["--netns", name]),
    }
}

/// Arguments of a command line.
pub(crate) fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_tools_are_not_found() {
        let programs = programs(None, &[]);
        assert_eq!(programs.find(ToolProgram::Wirerate), Some("/w".into()));
        assert_eq!(programs.find(ToolProgram::Own), Some("/o".into()));
        assert_eq!(programs.find(ToolProgram::Installed("wirerate-bench-none")), None);
    }

    fn programs(against: Option<&str>, only: &[&str]) -> Programs {
        let against = against.map(PathBuf::from);
        Programs { wirerate: "/w".into(), against, own: "/o".into(), only: owned(only), has_peers: true }
    }

    #[test]
    fn those_take_part_that_are_named_and_there() {
        let trafgen = ToolProgram::Installed("trafgen");
        assert!(programs(None, &[]).wants("trafgen", trafgen));
        assert!(!programs(None, &["against"]).wants("trafgen", trafgen));
        assert!(programs(None, &["trafgen"]).wants(UNDER_TEST, ToolProgram::Wirerate));
        assert!(!programs(None, &["against"]).wants("against", ToolProgram::Against));
        assert!(programs(Some("/a"), &["against"]).wants("against", ToolProgram::Against));
    }

    #[test]
    fn without_peers_wirerate_is_alone() {
        let programs = Programs { has_peers: false, ..programs(Some("/a"), &[]) };
        assert!(programs.wants(UNDER_TEST, ToolProgram::Wirerate));
        assert!(!programs.wants("tcpdump", ToolProgram::Installed("tcpdump")));
    }
}
