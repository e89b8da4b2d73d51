//! A port that receives: a receiver that measures the flows to it.

use super::config::AgentPort;
use crate::words;
use anyhow::anyhow;
use capture::{Mode, ReceiveOptions, ReceiveResult, Receiving, SourceKind, XdpModeChoice};
use fleet::{CountedFlow, FleetName, FlowOrder, NUMBERS_MAX, ReceiverFigures, TestPart};
use host::{Netns, Stack};
use measure::{FlowLine, HistogramLog, MeterOptions};
use program::active_window::ActiveRate;
use program::outcome::Failure;
use program::rx_stats::RxHead;
use receiver::Report;
use serde_json::Value;
use std::ops::Range;
use units::Nanos;

/// The receiver of a port.
pub(super) struct PortReceiver {
    port: FleetName,
    device: String,
    netns: Option<String>,
    flows: Vec<NumberedFlow>,
    receiving: Receiving,
}

/// A flow that a port receives.
struct NumberedFlow {
    /// Its number in the plan.
    id: u32,
    /// The numbers in its frames.
    numbers: Range<u32>,
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
    pub(super) fn start(port: &AgentPort, orders: &[&FlowOrder], part: &TestPart) -> Result<Self, Failure> {
        let act = || format!("receive on port {}", port.name);
        let failed = |why| Failure::host(act(), why);
        let netns = port.netns.as_deref().map(Netns::named).transpose().map_err(failed)?;
        let stack = netns.as_ref().map_or_else(Stack::here, Stack::of).map_err(failed)?;
        let link = stack.link(port.device()).map_err(failed)?;
        if !link.is_up() {
            let why = anyhow!("{} is down, so nothing can arrive", port.device());
            return Err(Failure::refused(act(), why));
        }
        let numbered = |order: &&FlowOrder| -> Result<NumberedFlow, String> {
            let flow = words::parse(&order.send, port.device(), Nanos(part.duration_ns))?;
            let numbers = order.number..order.number + flow.number_count();
            Ok(NumberedFlow { id: order.id, numbers })
        };
        let flows = orders.iter().map(numbered).collect::<Result<Vec<_>, _>>();
        let flows = flows.map_err(|why| Failure::usage(act(), why))?;
        let carried_flows = flows.iter().map(|flow| flow.numbers.end).max().unwrap_or(1);
        if carried_flows > NUMBERS_MAX {
            return Err(Failure::usage(act(), format!("frames have no flow number {carried_flows}")));
        }
        let options = ReceiveOptions {
            ifname: port.device().to_owned(),
            netns,
            mode: Mode::Drop,
            source: SourceKind::default(),
            xdp: XdpModeChoice::Best,
            meter: MeterOptions {
                flow_count: 1,
                stream_count: measure::STREAMS_MAX as u32,
                carried_flows,
                run: Some(part.mark),
                ..MeterOptions::default()
            },
            // Packets of one flow can have different addresses, which decide the receive queue.
            is_shared: true,
            has_details: true,
            has_tags: false,
            reflects: false,
        };
        let receiving = Receiving::start(&options).map_err(|why| Failure::capture(act(), why))?;
        Ok(Self {
            port: port.name.clone(),
            device: port.device().to_owned(),
            netns: port.netns.clone(),
            flows,
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
        let numbers = flows.iter().flat_map(|flow| flow.numbers.clone());
        let details: Vec<_> = numbers.filter_map(|number| receiving.detail(number as usize)).collect();
        let result = receiving.stop();
        let duration_ns = result.elapsed.as_nanos() as u64;
        let active = ActiveRate::of_flows(result.totals.received, details.into_iter());
        let head = RxHead { device, netns, mode, source, duration_ns, active };
        let line = Report::new(head, &result, None).json_line();
        (received(&port, &flows, &first, &result), serde_json::from_str(&line).ok())
    }
}

/// When the first frame of each flow arrived, if one has.
fn first_times(receiving: &Receiving, flows: &[NumberedFlow]) -> Vec<Option<u64>> {
    let first = |number: u32| receiving.detail(number as usize).map(|detail| detail.first_ns);
    let first_of = |flow: &NumberedFlow| flow.numbers.clone().filter_map(first).filter(|ns| *ns > 0).min();
    flows.iter().map(first_of).collect()
}

fn received(
    port: &FleetName,
    flows: &[NumberedFlow],
    first: &[Option<u64>],
    result: &ReceiveResult,
) -> ReceivedFlows {
    let count = |(flow, first_ns): (&NumberedFlow, &Option<u64>)| {
        let lines = flow.numbers.clone().filter_map(|number| result.lines.get(number as usize));
        let sum = |of: fn(&FlowLine) -> u64| Some(lines.clone().map(of).sum());
        CountedFlow {
            id: flow.id,
            received: sum(FlowLine::unique),
            duplicate: sum(|line| line.duplicate.into()),
            reordered: sum(|line| line.reordered.into()),
            too_old: sum(|line| line.too_old.into()),
            first_ns: *first_ns,
            ..CountedFlow::default()
        }
    };
    let histogram = HistogramLog::new(&result.histogram);
    let figures = ReceiverFigures {
        port: port.clone(),
        received: result.totals.received,
        others: result.totals.others,
        unusual: result.totals.unusual,
        lost_ring: result.lost_ring,
        hdr: (!histogram.is_empty()).then(|| histogram.v2_base64()),
    };
    ReceivedFlows { counts: flows.iter().zip(first).map(count).collect(), figures }
}
