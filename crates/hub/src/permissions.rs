//! The subjects that a host's key may use.

use fleet::FleetName;
use fleet::subject::{HOSTS_BUCKET, stat_of_any_run};

/// Subjects of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubjectPermissions {
    /// It may publish on these, besides answers to requests.
    pub publish: Vec<String>,
    /// It may listen to these.
    pub subscribe: Vec<String>,
}

/// The answers that a host waits for arrive here: no other host may listen to them.
pub(crate) fn inbox_of(host: &FleetName) -> String {
    format!("_INBOX_{host}")
}

/// Where a host announces itself.
pub(crate) fn announcement_of(host: &FleetName) -> String {
    format!("$KV.{HOSTS_BUCKET}.{host}")
}

/// What the agent of `host` needs.
pub fn host_permissions(host: &FleetName) -> SubjectPermissions {
    SubjectPermissions {
        publish: vec![announcement_of(host), stat_of_any_run(host)],
        subscribe: vec![
            format!("wr.host.{host}.*"),
            // A second agent with this name is noticed by its announcements.
            announcement_of(host),
            "wr.run.*.lease".to_owned(),
            "wr.run.*.drain".to_owned(),
            "wr.run.*.stop".to_owned(),
            format!("{}.>", inbox_of(host)),
        ],
    }
}

/// What a viewer needs, who reads hosts, runs and counts, and orders nothing. There are no
/// consumers among it: one could deliver what the hub keeps to any subject.
pub fn viewer_permissions() -> SubjectPermissions {
    let requests = ["STREAM.INFO.*", "STREAM.MSG.GET.*", "DIRECT.GET.>"];
    SubjectPermissions {
        publish: requests.map(|request| format!("$JS.API.{request}")).to_vec(),
        subscribe: vec!["_INBOX.>".to_owned()],
    }
}
