//! Agents that are not what they seem: a second one with the same name, and one with a wrong key.

use super::config::AgentFile;
use anyhow::anyhow;
use fleet::{FleetName, HostStatus};
use hub::HOST_AGE_MAX;
use program::advice;
use program::outcome::Failure;
use tokio::time::Instant;

/// Whether a second agent with the name of this one is connected to the hub.
pub(super) struct Double {
    instance: u64,
    heard: Option<Instant>,
}

impl Double {
    /// None is known yet. This agent is `instance`.
    pub(super) fn new(instance: u64) -> Self {
        Self { instance, heard: None }
    }

    /// Takes an announcement under the name of this agent. True if it is the first one of a double.
    pub(super) fn hear(&mut self, status: &HostStatus, now: Instant) -> bool {
        if status.instance == self.instance {
            return false;
        }
        let is_first = self.heard.replace(now).is_none();
        if is_first {
            let HostStatus { host, version, boot_id, .. } = status;
            program::note!(
                "a second agent is connected as {host} (wirerate {version}, boot {boot_id}): this one \
                 refuses requests until it is gone"
            );
            eprintln!("  try: {}", advice::for_two_agents(host));
        }
        is_first
    }

    /// Forgets a double that announces itself no more, when the hub does.
    pub(super) fn tick(&mut self, now: Instant) {
        if self.heard.take_if(|heard| now.duration_since(*heard) >= HOST_AGE_MAX).is_some() {
            program::note!("the second agent is gone");
        }
    }

    /// True while there is one.
    pub(super) fn is_here(&self) -> bool {
        self.heard.is_some()
    }

    /// Why requests are refused, and what to try.
    pub(super) fn refusal(&self, host: &FleetName) -> Option<(String, Vec<String>)> {
        let why = || format!("two agents are connected as {host}");
        self.is_here().then(|| (why(), vec![advice::for_two_agents(host)]))
    }
}

/// The end of an agent whose hub refuses what each agent needs; `None` if it refused something
/// else.
pub(super) fn refused_key(file: &AgentFile, why: &str) -> Option<Failure> {
    let host = &file.host;
    let plain = why.to_lowercase();
    let is_unknown = plain.contains("authorization violation");
    let needed = ["wr.host.", "wr.run.", "$kv.wr_hosts."];
    if !is_unknown && !needed.iter().any(|subject| plain.contains(subject)) {
        return None;
    }
    let settings = file.hub();
    let key = settings.key.map_or_else(|| "no key".to_owned(), |key| format!("the key {}", key.display()));
    let act = format!("be agent {host} with {key}");
    let failure = Failure::refused(act, anyhow!("the hub refuses it: {why}"));
    Some(match is_unknown {
        true => failure
            .try_this(format!("key = \"{host}.nk\" in the file of the agent, with the hub.conf of this key")),
        false => failure
            .try_this(format!("key = \"{host}.nk\" in the agent's file, or host = as the key is named"))
            .try_this(format!(
                "wirerate fleet init --hosts {host} --dir new, if hub.conf was written by an older wirerate"
            )),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::HostClock;
    use std::time::Duration;

    fn status(instance: u64) -> HostStatus {
        HostStatus {
            host: "h1".parse().unwrap(),
            instance,
            has_double: false,
            version: "0.1.0".to_owned(),
            protocol: fleet::PROTOCOL,
            boot_id: "b".to_owned(),
            time_ns: 0,
            clock: HostClock::default(),
            clock_daemon: None,
            tai_offset_s: 0,
            ports: Vec::new(),
        }
    }

    #[tokio::test]
    async fn a_second_agent_is_there_until_it_is_silent() {
        let (mut double, start) = (Double::new(7), Instant::now());
        let host = "h1".parse().unwrap();
        assert!(!double.hear(&status(7), start) && double.refusal(&host).is_none(), "itself");
        assert!(double.hear(&status(8), start) && !double.hear(&status(8), start), "told once");
        let (why, tries) = double.refusal(&host).unwrap();
        assert_eq!((why.as_str(), tries.len()), ("two agents are connected as h1", 1));
        double.tick(start + HOST_AGE_MAX - Duration::from_millis(1));
        assert!(double.is_here());
        double.tick(start + HOST_AGE_MAX);
        assert!(!double.is_here());
    }
}
