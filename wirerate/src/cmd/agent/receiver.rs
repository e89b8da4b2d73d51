//! A port that receives: a receiver that measures the flows to it.

use super::config::AgentPort;
use crate::cmd::receive::Report;
use crate::cmd::rx_stats::RxHead;
use crate::outcome::Failure;
use anyhow::anyhow;
use capture::{Mode, ReceiveOptions, ReceiveResult, Receiving, SourceKind, XdpModeChoice};
use fleet::{CountedFlow, FleetName, FlowOrder, Prepare, ReceiverFigures};
use host::{Netns, Stack};
use measure::{HistogramLog, MeterOptions};
use serde_json::Value;

/// The receiver of a port.
pub(super) struct PortReceiver {
    port: FleetName,
    device: String,
    netns: Option<String>,
    /// Numbers of the flows in the plan and in the frames.
    flows: Vec<(u32, u32)>,
    receiving: Receiving,
}

/// What a port has received.
pub(super) struct ReceivedFlows {
    /// Its flows.
    pub(super) counts: Vec<CountedFlow>,
    /// The port.
    pub(super) figures: ReceiverFigures,
}

impl PortReceiver {
    /// Attaches the receiver: frames count from now on.
    ///
    /// # Errors
    /// Refused by the host or the device.
    pub(super) fn start(port: &AgentPort, orders: &[&FlowOrder], prepare: &Prepare) -> Result<Self, Failure> {
        let act = || format!("receive on port {}", port.name);
        let failed = |why| Failure::host(act(), why);
        let netns = port.netns.as_deref().map(Netns::named).transpose().map_err(failed)?;
        let stack = netns.as_ref().map_or_else(Stack::here, Stack::of).map_err(failed)?;
        let link = stack.link(port.device()).map_err(failed)?;
        if !link.is_up() {
            let why = anyhow!("{} is down, so nothing can arrive", port.device());
            return Err(Failure::refused(act(), why));
        }
        let flow_count = orders.iter().map(|order| order.number + 1).max().unwrap_or(1);
        let options = ReceiveOptions {
            ifname: port.device().to_owned(),
            netns,
            mode: Mode::Drop,
            source: SourceKind::default(),
            xdp: XdpModeChoice::Best,
            meter: MeterOptions {
                flow_count: 1,
                stream_count: crate::cmd::send::run::STREAMS,
                carried_flows: flow_count,
                run: Some(prepare.mark),
                ..MeterOptions::default()
            },
            // Packets of one flow can have different addresses, which decide the receive queue.
            is_shared: true,
            has_details: true,
            reflects: false,
        };
        let receiving = Receiving::start(&options).map_err(|why| match why.busy_advice(true) {
            Some(busy) => Failure::refused(act(), why).try_this(busy),
            None => Failure::capture(act(), why),
        })?;
        Ok(Self {
            port: port.name.clone(),
            device: port.device().to_owned(),
            netns: port.netns.clone(),
            flows: orders.iter().map(|order| (order.id, order.number)).collect(),
            receiving,
        })
    }

    /// Frames so far.
    pub(super) fn received(&self) -> u64 {
        self.receiving.received()
    }

    /// The device went away.
    pub(super) fn is_gone(&self) -> bool {
        self.receiving.is_device_gone()
    }

    /// Counts so far.
    pub(super) fn counts(&self) -> ReceivedFlows {
        received(
            &self.port,
            &self.flows,
            &first_times(&self.receiving, &self.flows),
            &self.receiving.snapshot(),
        )
    }

    /// Detaches, and returns the last counts and the report, as `wirerate.measure/1`.
    pub(super) fn finish(self) -> (ReceivedFlows, Option<Value>) {
        let Self { port, device, netns, flows, receiving } = self;
        let (source, mode) = (receiving.source().to_string(), receiving.mode().name());
        let first = first_times(&receiving, &flows);
        let result = receiving.stop();
        let duration_ns = result.elapsed.as_nanos() as u64;
        let head = RxHead { device, netns, mode, source, duration_ns };
        let line = Report::new(head, &result, None).json_line();
        (received(&port, &flows, &first, &result), serde_json::from_str(&line).ok())
    }
}

/// When the first frame of each flow arrived, if one has.
fn first_times(receiving: &Receiving, flows: &[(u32, u32)]) -> Vec<Option<u64>> {
    let first = |(_, number): &(u32, u32)| receiving.detail(*number as usize).map(|detail| detail.first_ns);
    flows.iter().map(|flow| first(flow).filter(|first_ns| *first_ns > 0)).collect()
}

fn received(
    port: &FleetName,
    flows: &[(u32, u32)],
    first: &[Option<u64>],
    result: &ReceiveResult,
) -> ReceivedFlows {
    let count = |((id, number), first_ns): (&(u32, u32), &Option<u64>)| {
        let line = result.lines.get(*number as usize).copied().unwrap_or_default();
        CountedFlow {
            id: *id,
            received: Some(line.unique()),
            duplicate: Some(line.duplicate.into()),
            reordered: Some(line.reordered.into()),
            too_old: Some(line.too_old.into()),
            first_ns: *first_ns,
            ..CountedFlow::default()
        }
    };
    let histogram = HistogramLog::new(&result.histogram);
    let figures = ReceiverFigures {
        port: port.clone(),
        received: result.totals.received,
        stale: result.totals.stale,
        lost_ring: result.lost_ring,
        hdr: (!histogram.is_empty()).then(|| histogram.v2_base64()),
    };
    ReceivedFlows { counts: flows.iter().zip(first).map(count).collect(), figures }
}
