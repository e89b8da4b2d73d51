//! A port that sends: streams of `send` whose engines are built, and which wait for their time.

use super::config::AgentPort;
use super::streams as flow_streams;
use engine::{End, EngineError, RunHandle, StartGate};
use fleet::{CountedFlow, FleetName, FlowOrder, FlowRate, SenderFigures, TestPart};
use host::{CpuList, StartTime, node_of_cpu};
use program::outcome::Failure;
use program::stop::Stop;
use sender::device::TxDevice;
use sender::report::{self, EndReason, RunInfo};
use sender::run::nearest_cpus;
use sender::streams;
use sender::workers::{WorkerResult, WorkerSet};
use serde_json::Value;
use std::slice;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use units::{time_of_day_ns, utc_time};

/// Engines of many flows take this long to build on a busy machine.
const ARM_MAX: Duration = Duration::from_secs(60);
/// Interval at which failures are looked for while engines are built.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The CPUs of a port whose first flow has this number, best first. Those of the node of the device
/// begin with another one for each flow of the run: ports and agents of one machine, which do not
/// know each other, send from different CPUs then.
fn spread(mut cpus: Vec<u32>, flow: u32) -> Vec<u32> {
    let node = cpus.first().map(|cpu| node_of_cpu(*cpu));
    let near = cpus.iter().take_while(|cpu| Some(node_of_cpu(**cpu)) == node).count();
    cpus[..near].rotate_left(flow as usize % near.max(1));
    cpus
}

/// The senders of a port.
#[derive(Debug)]
pub(super) struct PortSender {
    port: FleetName,
    /// Numbers of the flows in the plan, in the order of `handles`.
    ids: Vec<u32>,
    handles: Vec<Arc<RunHandle>>,
    gate: StartGate,
    stop: Stop,
    info: RunInfo,
    started: Instant,
    cpu_time: Duration,
    workers: Option<JoinHandle<Vec<WorkerResult>>>,
}

/// How a port ended.
#[derive(Debug)]
pub(super) struct SenderEnd {
    /// Its last counts.
    pub(super) counts: Vec<CountedFlow>,
    /// What is known besides.
    pub(super) figures: SenderFigures,
    /// Its report, as `wirerate.send/2`.
    pub(super) report: Option<Value>,
    /// From the requested time until its first frame had been sent.
    pub(super) released_late_ns: Option<u64>,
    /// Why it failed.
    pub(super) failure: Option<String>,
    /// It was not ready in time.
    pub(super) is_late: bool,
}

impl PortSender {
    /// Builds the engines of all flows of a port.
    ///
    /// # Errors
    /// The words or the limits of the port refuse a flow, or the host or the device does.
    pub(super) fn arm(port: &AgentPort, orders: &[&FlowOrder], part: &TestPart) -> Result<Self, Failure> {
        let device_name = port.device();
        let act = || format!("send on port {}", port.name);
        let device =
            TxDevice::find(port.netns.as_deref(), device_name).map_err(|why| Failure::host(act(), why))?;
        // No message may allow this device.
        if device.stack.carries_default_route(&device.link).unwrap_or(true) {
            let why = anyhow::anyhow!(
                "{device_name} carries the default route of the host, which agents never send on"
            );
            return Err(Failure::refused(act(), why));
        }
        device.check_state(true)?;
        let streams = flow_streams::sent(port, orders, part, &device.facts)?;
        let allowed = CpuList::allowed().map_err(|why| Failure::host(act(), why))?.iter().count();
        let near = spread(nearest_cpus(&device, None, allowed)?, orders.first().map_or(0, |order| order.id));
        let mut requests = Vec::new();
        for (stream, cpu) in streams.iter().zip(near.iter().cycle()) {
            let args = &stream.entry.job;
            let own = args.cpus.as_ref().and_then(|cpus| cpus.0.first());
            requests.extend(streams::requests(
                slice::from_ref(stream),
                args,
                &device,
                &[*own.unwrap_or(cpu)],
            )?);
        }
        let info = RunInfo {
            device: device_name.to_owned(),
            is_veth: device.link.is_kind("veth"),
            netns: port.netns.clone(),
            next_hop: None,
            start_time: String::new(),
            start_at: None,
            argv: Vec::new(),
            interval_ps: 0,
            asked: None,
            seed: part.seed,
            notes: Vec::new(),
            streams: streams.iter().map(streams::Stream::info).collect(),
            count: 0,
            duration_ns: 0,
        };
        let stop = Stop::default();
        let (workers, gate) = WorkerSet::arm(&device.netns, requests, &stop)?;
        let handles = workers.handles();
        let flag = stop.clone();
        let body = move || workers.finish(&flag, |_| {});
        let spawned = thread::Builder::new().name("fleet-send".to_owned()).spawn(body);
        let sender = Self {
            port: port.name.clone(),
            ids: orders.iter().map(|order| order.id).collect(),
            handles,
            gate,
            stop,
            info,
            started: Instant::now(),
            cpu_time: host::process_cpu_time(),
            workers: Some(spawned.map_err(|why| Failure::refused(act(), why))?),
        };
        sender.wait_until_ready(port)
    }

    /// Waits until all engines can start.
    fn wait_until_ready(mut self, port: &AgentPort) -> Result<Self, Failure> {
        let since = Instant::now();
        let act = || format!("send on port {}", port.name);
        loop {
            let is_ready = self.gate.wait_until_ready(POLL_INTERVAL);
            if self.handles.iter().any(|handle| handle.has_ended()) {
                self.stop.set();
                let error = report::failure(self.join());
                let error = error.unwrap_or(EngineError::ThreadLost);
                return Err(Failure::engine(act(), error, port.netns.as_deref()));
            }
            if is_ready {
                return Ok(self);
            }
            if since.elapsed() > ARM_MAX {
                let why = anyhow::anyhow!("the engines were not ready after {} s", ARM_MAX.as_secs());
                return Err(Failure::refused(act(), why));
            }
        }
    }

    /// Lets all flows start at a time.
    pub(super) fn start(&mut self, start_at: StartTime) {
        self.info.start_at = Some(start_at);
        (self.started, self.cpu_time) = (Instant::now(), host::process_cpu_time());
        self.gate.open(Some(start_at));
    }

    /// Ends all flows.
    pub(super) fn stop(&self) {
        self.stop.set();
    }

    /// True if no flow sends any more.
    pub(super) fn has_ended(&self) -> bool {
        self.handles.iter().all(|handle| handle.has_ended())
    }

    /// Frames sent so far.
    pub(super) fn counts(&self) -> Vec<CountedFlow> {
        let count = |(id, handle): (&u32, &Arc<RunHandle>)| {
            let total = handle.progress().total();
            CountedFlow {
                id: *id,
                sent: Some(total.sent),
                errors: Some(total.errors.total()),
                ..CountedFlow::default()
            }
        };
        self.ids.iter().zip(&self.handles).map(count).collect()
    }

    fn join(&mut self) -> Vec<WorkerResult> {
        let joined = self.workers.take().map(JoinHandle::join);
        // The panic was already printed.
        joined.and_then(Result::ok).unwrap_or_default()
    }

    /// Ends all flows, and returns what they did.
    pub(super) fn finish(mut self) -> SenderEnd {
        self.stop();
        let done = self.join();
        let mut counts = self.counts();
        let mut figures = SenderFigures { port: self.port.clone(), why_missed: None };
        if done.is_empty() {
            let failure = Some("its threads ended early".to_owned());
            return SenderEnd {
                counts,
                figures,
                report: None,
                released_late_ns: None,
                failure,
                is_late: false,
            };
        }
        let is_late =
            done.iter().any(|done| matches!(done.run.end, End::Failed(EngineError::ReadyTooLate { .. })));
        let elapsed = self.started.elapsed().max(Duration::from_nanos(1));
        let cpus_busy = (host::process_cpu_time() - self.cpu_time).div_duration_f64(elapsed);
        let start_ns = self.info.start_at.map_or_else(time_of_day_ns, |start_at| start_at.unix_ns);
        let info = RunInfo { start_time: utc_time(start_ns), ..self.info.clone() };
        let report = report::sum_up(info, &done, cpus_busy, Vec::new());
        for (count, stream) in counts.iter_mut().zip(&report.streams) {
            count.rate = stream.asked_pps.map(|asked_pps| FlowRate {
                asked_pps,
                reached_pps: stream.rate_pps,
                is_missed: stream.rate_missed,
            });
        }
        figures.why_missed = report.why_missed(self.info.is_veth).filter(|_| report.rate_missed);
        // Frames that the driver could not take were sent by no one; the others are exact.
        let has_failed = matches!(report.end, EndReason::Failed | EndReason::DeviceGone);
        let line = report.json_line();
        let late = done.iter().filter_map(|done| done.run.first_late_ns).max();
        SenderEnd {
            counts,
            figures,
            report: serde_json::from_str(&line).ok(),
            released_late_ns: late,
            failure: report::failure(done).filter(|_| has_failed).map(|error| error.in_one_line()),
            is_late,
        }
    }
}

impl Drop for PortSender {
    fn drop(&mut self) {
        self.stop();
        self.join();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_flow_of_a_run_begins_with_another_cpu() {
        // CPUs that no machine has are of one node.
        let cpus = vec![70_003, 70_002, 70_001];
        assert_eq!(spread(cpus.clone(), 0), cpus);
        assert_eq!(spread(cpus.clone(), 1), [70_002, 70_001, 70_003]);
        assert_eq!(spread(cpus.clone(), 5), [70_001, 70_003, 70_002]);
        assert_eq!(spread(Vec::new(), 5), [0; 0]);
    }
}
