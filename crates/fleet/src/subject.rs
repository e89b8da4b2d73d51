//! Subjects of the messages, and the names of what the hub keeps.

use crate::name::FleetName;

/// The bucket of [`crate::HostStatus`], by host.
pub const HOSTS_BUCKET: &str = "wr_hosts";
/// The stream of this bucket.
pub const HOSTS_STREAM: &str = "KV_wr_hosts";
/// The stream that keeps the plans of runs.
pub const PLANS_STREAM: &str = "wr_runs";
/// The subjects that it keeps.
pub const PLANS: &str = "wr.run.*.plan";

/// The stream that keeps the counts of a host.
pub fn counts_stream(host: &FleetName) -> String {
    format!("wr_counts_{host}")
}

/// The subjects that it keeps.
pub fn stat_of_any_run(host: &FleetName) -> String {
    format!("wr.run.*.stat.{host}")
}

/// Orders to a host.
pub fn host_order(host: &FleetName) -> String {
    format!("wr.host.{host}.order")
}

/// Signs of life of a controller.
pub fn lease(run: &FleetName) -> String {
    format!("wr.run.{run}.lease")
}

/// The order to end a run.
pub fn stop(run: &FleetName) -> String {
    format!("wr.run.{run}.stop")
}

/// The news that all hosts have sent all.
pub fn drain(run: &FleetName) -> String {
    format!("wr.run.{run}.drain")
}

/// The plan of a run.
pub fn plan(run: &FleetName) -> String {
    format!("wr.run.{run}.plan")
}

/// The counts of a host.
pub fn stat(run: &FleetName, host: &FleetName) -> String {
    format!("wr.run.{run}.stat.{host}")
}

/// The counts of all hosts.
pub fn stats(run: &FleetName) -> String {
    format!("wr.run.{run}.stat.*")
}

/// The run of a subject of this module, if there is one.
pub fn run_of(subject: &str) -> Option<FleetName> {
    subject.strip_prefix("wr.run.")?.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_run_of_a_subject_is_its_third_word() {
        let run: FleetName = "r1".parse().unwrap();
        for subject in [lease(&run), stop(&run), plan(&run), stats(&run)] {
            assert_eq!(run_of(&subject), Some(run.clone()), "{subject}");
        }
        assert_eq!(run_of("wr.host.r1.order"), None);
        assert_eq!(run_of("wr.run.a b.lease"), None);
    }
}
