//! Groups of commands that a build may leave out (features of cargo): the core is what remains.

use crate::outcome::Failure;
use std::ffi::OsString;

/// A group of commands and options, and a feature of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Capture files as Parquet, and captures to it.
    Export,
    /// Tests over many hosts.
    Fleet,
    /// The full screen and the page of a running command.
    Live,
    /// Counters for Prometheus over HTTP.
    Metrics,
    /// Captures as mgcap made them.
    Mgcap,
    /// The Open Traffic Generator.
    Otg,
    /// Searches, RFC 2544 and their pages.
    Report,
}

/// All groups, with their features, whether this build has them, and their commands.
pub const GROUPS: [(Group, &str, bool, &[&str]); 7] = [
    (Group::Export, "export", cfg!(feature = "export"), &["export"]),
    (Group::Fleet, "fleet", cfg!(feature = "fleet"), &["agent", "fleet"]),
    (Group::Live, "live", cfg!(feature = "live"), &[]),
    (Group::Metrics, "metrics", cfg!(feature = "metrics"), &[]),
    (Group::Mgcap, "mgcap", cfg!(feature = "mgcap"), &["mgcap", "mgdump", "mgcap_hwtstamp_config"]),
    (Group::Otg, "otg", cfg!(feature = "otg"), &["otg"]),
    (Group::Report, "report", cfg!(feature = "report"), &["report", "rfc2544", "search"]),
];

/// Refuses to do something that takes a group which this build leaves out.
pub fn left_out(act: &str, group: Group) -> Failure {
    let (_, feature, ..) = GROUPS.iter().find(|(known, ..)| *known == group).expect("the table has all");
    let why = format!("this build of wirerate was made without the feature \"{feature}\"");
    Failure::usage(act, why)
        .try_this("make install, which builds wirerate with all features")
        .try_this(format!("cargo build --release --package wirerate --features {feature}"))
}

/// The refusal of a command that this build leaves out, or that is a program of its own by now.
pub fn left_out_command(args: &[OsString]) -> Option<Failure> {
    let word = args.iter().skip(1).find(|word| !word.as_encoded_bytes().starts_with(b"-"))?;
    if word == "bench" {
        let why = "the program wirerate-bench measures rates on your devices";
        let failure = Failure::usage("run bench", why);
        return Some(failure.try_this("wirerate-bench own, of the package wirerate-bench"));
    }
    let is_left_out = |(_, _, is_there, commands): &&(Group, &str, bool, &[&str])| {
        !is_there && commands.iter().any(|command| word == *command)
    };
    let (group, ..) = GROUPS.iter().find(is_left_out)?;
    Some(left_out(&format!("run {}", word.to_string_lossy()), *group))
}
