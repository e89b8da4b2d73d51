//! Ports without a device: their counts follow from the words and the time. They let one machine
//! try a fleet of hundreds of hosts.

use super::config::AgentPort;
use super::receiver::ReceivedFlows;
use super::streams;
use fleet::{CountedFlow, FleetName, FlowOrder, FlowRole, ReceiverFigures, TestPart};
use measure::{HISTOGRAM_LEN, HistogramLog, OtherFrames, UnusualFrames, histogram_index};
use packet::DeviceFacts;
use program::outcome::Failure;
use sender::streams::Stream;

/// Latencies per flow and second.
const SAMPLES_PER_SECOND: u64 = 1000;
/// After this many, latencies repeat.
const SAMPLE_PERIOD: u64 = 10_000;

/// The flows of a dry port, all that it sends and receives.
#[derive(Debug)]
pub(super) struct DryPort {
    port: FleetName,
    duration_ns: u64,
    flows: Vec<DryFlow>,
}

#[derive(Debug)]
struct DryFlow {
    id: u32,
    role: FlowRole,
    pps: f64,
    count: Option<u64>,
}

impl DryPort {
    /// Checks the words and limits, as for a device.
    ///
    /// # Errors
    /// They refuse a flow, or it has no rate.
    pub(super) fn arm(port: &AgentPort, orders: &[&FlowOrder], part: &TestPart) -> Result<Self, Failure> {
        let (sent, received): (Vec<&FlowOrder>, Vec<&FlowOrder>) =
            orders.iter().partition(|order| order.role == FlowRole::Send);
        let facts = DeviceFacts { tx_queues: 1, ..DeviceFacts::default() };
        let mut streams = streams::sent(port, &sent, part, &facts)?;
        streams.extend(streams::planned(port, &received, part, &facts)?);
        let flow = |(order, stream): (&FlowOrder, &Stream)| {
            let rate = stream.pace.asked(&stream.config).ok_or_else(|| {
                let act = format!("use the dry port {}", port.name);
                Failure::usage(act, "a flow has no rate: --pps or --rate")
            })?;
            let count = Some(stream.config.count).filter(|count| *count > 0);
            Ok(DryFlow { id: order.id, role: order.role, pps: rate.pps, count })
        };
        let flows =
            sent.into_iter().chain(received).zip(&streams).map(flow).collect::<Result<_, Failure>>()?;
        Ok(Self { port: port.name.clone(), duration_ns: part.duration_ns, flows })
    }

    /// True once all flows have sent their count.
    pub(super) fn has_ended(&self, elapsed_ns: u64) -> bool {
        self.flows.iter().all(|flow| flow.count.is_some_and(|count| self.frames(flow, elapsed_ns) >= count))
    }

    fn frames(&self, flow: &DryFlow, elapsed_ns: u64) -> u64 {
        let due = (flow.pps * elapsed_ns.min(self.duration_ns) as f64 / 1e9) as u64;
        due.min(flow.count.unwrap_or(u64::MAX))
    }

    /// Counts at a time since the start.
    pub(super) fn counts(&self, elapsed_ns: u64) -> ReceivedFlows {
        let count = |flow: &DryFlow| {
            let frames = self.frames(flow, elapsed_ns);
            match flow.role {
                FlowRole::Send => {
                    CountedFlow { id: flow.id, sent: Some(frames), errors: Some(0), ..CountedFlow::default() }
                }
                FlowRole::Receive => CountedFlow {
                    id: flow.id,
                    received: Some(frames),
                    duplicate: Some(0),
                    reordered: Some(0),
                    too_old: Some(0),
                    ..CountedFlow::default()
                },
            }
        };
        let counts: Vec<CountedFlow> = self.flows.iter().map(count).collect();
        let received = counts.iter().filter_map(|flow| flow.received).sum();
        let mut histogram = vec![0; HISTOGRAM_LEN];
        let samples = elapsed_ns.min(self.duration_ns) / (1_000_000_000 / SAMPLES_PER_SECOND);
        for flow in self.flows.iter().filter(|flow| flow.role == FlowRole::Receive) {
            for sample in 0..samples.min(SAMPLE_PERIOD) {
                let repeats = (samples - sample).div_ceil(SAMPLE_PERIOD);
                histogram[histogram_index(latency_ns(flow.id, sample))] += repeats;
            }
        }
        let histogram = HistogramLog::new(&histogram);
        let figures = ReceiverFigures {
            port: self.port.clone(),
            received,
            others: OtherFrames::default(),
            unusual: UnusualFrames::default(),
            lost_ring: 0,
            hdr: (!histogram.is_empty()).then(|| histogram.v2_base64()),
        };
        ReceivedFlows { counts, figures }
    }

    /// True if it receives a flow.
    pub(super) fn receives(&self) -> bool {
        self.flows.iter().any(|flow| flow.role == FlowRole::Receive)
    }

    /// True if it sends a flow.
    pub(super) fn sends(&self) -> bool {
        self.flows.iter().any(|flow| flow.role == FlowRole::Send)
    }
}

/// A latency that anyone can compute again: 10 to 20 µs, longer in flows with higher numbers.
fn latency_ns(flow: u32, sample: u64) -> u64 {
    10_000 + u64::from(flow) * 100 + sample * 7919 % SAMPLE_PERIOD
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_that_repeat_are_counted_as_often() {
        let flow = DryFlow { id: 3, role: FlowRole::Receive, pps: 1000.0, count: None };
        let port = DryPort { port: "p".parse().unwrap(), duration_ns: 60_000_000_000, flows: vec![flow] };
        let mut each = vec![0; HISTOGRAM_LEN];
        (0..25_500).for_each(|sample| each[histogram_index(latency_ns(3, sample))] += 1);
        let ReceivedFlows { counts, figures } = port.counts(25_500_000_000);
        assert_eq!(counts[0].received, Some(25_500));
        assert_eq!(figures.hdr, Some(HistogramLog::new(&each).v2_base64()));
    }
}
