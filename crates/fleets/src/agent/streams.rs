//! The flows of a port as streams of `send`.

use super::config::AgentPort;
use super::limits;
use crate::words;
use fleet::{FlowOrder, TestPart};
use packet::DeviceFacts;
use program::outcome::Failure;
use sender::job::{SendJob, StreamEntry};
use sender::streams::{self, Stream};
use units::Nanos;

/// Prepares the flows that a port sends, for a device with these `facts`.
///
/// # Errors
/// The words or the limits of the port refuse a flow.
pub(super) fn sent(
    port: &AgentPort,
    orders: &[&FlowOrder],
    part: &TestPart,
    facts: &DeviceFacts,
) -> Result<Vec<Stream>, Failure> {
    let streams = planned(port, orders, part, facts)?;
    limits::check(port, &streams)
        .map_err(|why| Failure::usage(format!("send on port {}", port.name), why))?;
    Ok(streams)
}

/// Prepares flows that another port may send.
///
/// # Errors
/// The words refuse a flow.
pub(super) fn planned(
    port: &AgentPort,
    orders: &[&FlowOrder],
    part: &TestPart,
    facts: &DeviceFacts,
) -> Result<Vec<Stream>, Failure> {
    let usage = |why: String| Failure::usage(format!("use port {}", port.name), why);
    let job_of = |words: &[String]| -> Result<SendJob, Failure> {
        let flow = words::parse(words, port.device(), Nanos(part.duration_ns)).map_err(usage)?;
        Ok(SendJob { netns: port.netns.clone(), ..flow.job })
    };
    let entry = |order: &&FlowOrder| -> Result<(u32, StreamEntry), Failure> {
        let entry = StreamEntry {
            name: order.id.to_string(),
            job: job_of(&order.send)?,
            frame: None,
            start_ns: 0,
            weight: None,
        };
        Ok((order.number, entry))
    };
    let entries = orders.iter().map(entry).collect::<Result<_, _>>()?;
    streams::prepare_numbered(entries, &job_of(&[])?, facts, part.seed, Some(part.mark))
}
