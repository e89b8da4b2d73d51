//! Errors of a hub, and hosts of a fleet that do not start.

use fleet::{FleetName, Objection, ObjectionCause};
use hub::HubError;

/// What to try about an error of the hub.
pub fn for_hub(error: &HubError) -> Option<&'static str> {
    match error {
        HubError::NotReached { .. } => {
            Some("nats-server -c hub.conf, and `wirerate doctor --hub URL` from here")
        }
        HubError::TooOld { .. } => {
            Some("a release of nats-server of its makers: the one of Debian 12 is too old (docs/fleet.md)")
        }
        HubError::Refused(_) => {
            Some("--hub fleet.toml with controller.nk: the key of viewer.toml may only read")
        }
        HubError::NoRun(_) => Some("wirerate fleet list"),
        HubError::Failed { .. } | HubError::Key(_) => None,
    }
}

/// What to try about a host that does not start.
pub fn for_objection(objection: &Objection) -> Vec<String> {
    match &objection.cause {
        ObjectionCause::Host { tries } => tries.clone(),
        ObjectionCause::Clock => vec!["chronyc tracking, on that host".to_owned()],
        ObjectionCause::TwoAgents => vec![for_two_agents(&objection.host)],
    }
}

/// What to try if two agents have a name.
pub fn for_two_agents(host: &FleetName) -> String {
    format!("end one of the two, or write another host = in its file than {host}")
}
