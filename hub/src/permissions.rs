//! The subjects that a host's key may use.

use fleet::FleetName;
use fleet::subject::HOSTS_BUCKET;

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
        publish: vec![announcement_of(host), format!("wr.run.*.stat.{host}")],
        subscribe: vec![
            format!("wr.host.{host}.*"),
            "wr.run.*.lease".to_owned(),
            "wr.run.*.drain".to_owned(),
            "wr.run.*.stop".to_owned(),
            "wr.run.*.abort".to_owned(),
            format!("{}.>", inbox_of(host)),
        ],
    }
}
