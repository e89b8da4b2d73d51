//! One trial: a receiver on one device, a run on the other, and the counts of both.

use super::args::PathArgs;
use super::frame_size::FrameSize;
use crate::cmd::receive;
use crate::cmd::send::device::TxDevice;
use crate::cmd::send::{self, config, rate::Rate};
use crate::outcome::Failure;
use crate::stop::Stop;
use crate::units::{Count, Nanos, Pps};
use capture::{Mode, ReceiveOptions, Receiving, XdpModeChoice};
use clap::{Args as _, FromArgMatches};
use host::{CpuTicks, Link, LinkCounters, Machine, Netns, Stack};
use measure::MeterOptions;
use packet::wire_len;
use search::record::{Provenance, TrafficShape};
use search::{LatencyFigures, TesterLimits, TrialRequest, TrialResult};
use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

/// The highest load where the medium has no rate.
const MAX_LOAD_PPS: u64 = 20_000_000;
/// The kernel offers no event for frames that arrive: all have when no count moved for this time.
const DRAIN_INTERVAL: Duration = Duration::from_millis(100);
/// The sender may be late by this in short trials, and by 0.1 % in others.
const LATE_NS_MIN: u64 = 1_000_000;
/// RFC 2544 section 23 waits for two seconds.
const DRAIN_MAX: Duration = Duration::from_secs(2);

/// The devices and the frames of a search.
pub(crate) struct Tester {
    send: send::Args,
    receive: ReceiveOptions,
    rx_netns: Option<String>,
    rx: RxDrops,
    wire_len: Option<u64>,
    speed_bps: Option<u64>,
    max_pps: Option<u64>,
    facts: BTreeMap<String, String>,
}

/// The name and the namespace of `DEV[@NETNS]`.
pub(crate) fn split_netns(device: &str) -> (&str, Option<&str>) {
    device.split_once('@').map_or((device, None), |(name, netns)| (name, Some(netns)))
}

impl Tester {
    /// Finds the devices and reads send's options; `size` comes from the search's own.
    ///
    /// # Errors
    /// Bad options, no such device, or the device with the default route.
    pub(super) fn new(args: &PathArgs, size: Option<FrameSize>) -> Result<Self, Failure> {
        let (tx, tx_netns) = split_netns(&args.tx);
        let (rx, rx_netns) = split_netns(&args.rx);
        let own = size.into_iter().flat_map(FrameSize::send_options);
        let options: Vec<String> = args.send.iter().cloned().chain(own).collect();
        let mut send = send_args(tx, &options)?;
        send.netns = tx_netns.map(str::to_owned);
        send.quiet = true;
        let failed = |why| Failure::host(format!("send on {tx}"), why);
        let device = TxDevice::find(tx_netns, tx).map_err(failed)?;
        let netns = rx_netns.map(Netns::named).transpose();
        let netns = netns.map_err(|why| Failure::host(format!("receive on {rx}"), why))?;
        let drops = || RxDrops::new(netns.as_ref(), rx);
        let drops = drops().map_err(|why| Failure::host(format!("receive on {rx}"), why))?;
        let settings = config::config(&send)?;
        let is_one_size = settings.min_pkt_size == settings.max_pkt_size && settings.imix.is_empty();
        let wire_len = is_one_size.then(|| wire_len(settings.min_pkt_size.max(60)).into());
        let facts = [("kernel", Machine::read().kernel), ("tx", args.tx.clone()), ("rx", args.rx.clone())];
        Ok(Self {
            send,
            rx_netns: rx_netns.map(str::to_owned),
            rx: drops,
            receive: ReceiveOptions {
                ifname: rx.to_owned(),
                netns,
                mode: Mode::Drop,
                xdp: XdpModeChoice::Best,
                meter: MeterOptions::default(),
                is_shared: false,
                has_details: false,
            },
            wire_len,
            speed_bps: device.stack.speed_bps(&device.link).ok().flatten(),
            max_pps: args.max_pps.map(|pps| pps.0),
            facts: facts.map(|(name, value)| (name.to_owned(), value)).into(),
        })
    }

    /// Frame size with FCS, none for a mix.
    pub(crate) fn shape(&self) -> TrafficShape {
        TrafficShape { frame_size: self.wire_len.map(|wire_len| wire_len - 20), flows: None }
    }

    /// Highest rate of the medium for this frame size.
    pub(crate) fn medium_pps(&self) -> Option<u64> {
        Some(self.speed_bps? / (self.wire_len? * 8))
    }

    /// The highest load of the user, the rate of the medium, or what one thread reaches.
    pub(crate) fn max_load_pps(&self) -> u64 {
        self.max_pps.or(self.medium_pps()).unwrap_or(MAX_LOAD_PPS)
    }

    /// The command, its start and the host, for the report.
    pub(crate) fn provenance(&self, start_ns: u64, deviations: Vec<String>) -> Provenance {
        let command = std::env::args().collect::<Vec<_>>().join(" ");
        Provenance { command, start_ns, host: self.facts.clone(), deviations }
    }

    /// Runs a trial. Frames that did not leave within its duration are not sent.
    ///
    /// # Errors
    /// What the host refused.
    pub(super) fn run(&self, request: &TrialRequest, stop: &Stop) -> Result<TrialResult, Failure> {
        let act = format!("receive on {}", self.receive.ifname);
        let receiving = Receiving::start(&self.receive).map_err(|why| Failure::refused(act, why))?;
        let _counted = receive::count_frames(&receiving, &self.receive.ifname, self.rx_netns.as_deref());
        let mut send = self.send.clone();
        send.count = Some(Count(request.frames));
        send.pps = Some(Pps(request.load_pps));
        send.duration = Some(Nanos(request.duration_ns + (request.duration_ns / 1000).max(LATE_NS_MIN)));
        let (started, dropped, ticks) = (Instant::now(), self.rx.count(), CpuTicks::read());
        let settings = config::config(&send)?;
        let (report, error) = send::run::transmit(&send, settings, Rate::of(&send)?, stop)?;
        if let Some(error) = error {
            return Err(Failure::engine(format!("send on {}", send.device), error, send.netns.as_deref()));
        }
        drain(&receiving, report.sent);
        let elapsed_ns = started.elapsed().as_nanos() as u64;
        let figures = receiving.stop().figures();
        let receiver_dropped = self.rx.count().saturating_sub(dropped);
        let steal_ppb = CpuTicks::read().zip(ticks).map_or(0, |(now, earlier)| now.steal_ppb_since(&earlier));
        let pause_ns = TesterLimits::default().pause_ns(request);
        let latency = figures.latency.map(|latency| LatencyFigures {
            min_ns: latency.min_ns,
            mean_ns: latency.mean_ns,
            p50_ns: latency.at(50.0).unwrap_or_default(),
            p99_ns: latency.at(99.0).unwrap_or_default(),
            p99_9_ns: latency.at(99.9).unwrap_or_default(),
            max_ns: latency.max_ns,
            frames: latency.stamped,
            curve: latency
                .percentiles
                .iter()
                .map(|row| ((row.percentile * 1e7) as u64, row.latency_ns))
                .collect(),
            seconds: Vec::new(),
        });
        Ok(TrialResult {
            sent: report.sent,
            refused: report.errors,
            unique: figures.unique,
            duplicate: figures.duplicate,
            too_old: figures.too_old,
            receiver_dropped,
            elapsed_ns,
            paused_ns: report.gaps.as_ref().map_or(0, |gaps| pauses(&gaps.lengths, pause_ns)),
            steal_ppb,
            gap_ns_max: report.gaps.map_or(0, |gaps| gaps.max_ns),
            latency,
            ..TrialResult::default()
        })
    }
}

/// Frames that the receiving device did not give to its program.
#[derive(Debug)]
struct RxDrops {
    stack: Stack,
    link: Link,
}

impl RxDrops {
    fn new(netns: Option<&Netns>, ifname: &str) -> Result<Self, host::HostError> {
        let stack = netns.map_or_else(Stack::here, Stack::of)?;
        let link = stack.link(ifname)?;
        Ok(Self { stack, link })
    }

    /// Drops since the device was created. A veth whose ring is full counts a drop on either side,
    /// depending on who sends. Other drivers may count frames that XDP drops in `rx_dropped`.
    fn count(&self) -> u64 {
        let Ok(link) = self.stack.link(&self.link.name) else { return 0 };
        let LinkCounters { rx_dropped, rx_missed, rx_fifo, .. } = link.counters;
        if !link.is_kind("veth") {
            return rx_missed.max(rx_fifo);
        }
        let peer = self.stack.peer(&link).ok().flatten();
        rx_dropped.max(peer.map_or(0, |peer| peer.counters.tx_dropped))
    }
}

/// Sum of the gaps that are longer than `pause_ns`.
fn pauses(lengths: &[(u64, u64)], pause_ns: u64) -> u64 {
    lengths.iter().filter(|(gap_ns, _)| *gap_ns > pause_ns).map(|(gap_ns, count)| gap_ns * count).sum()
}

/// Waits until all frames have arrived, or none arrives any more.
fn drain(receiving: &Receiving, sent: u64) {
    let started = Instant::now();
    let mut received = receiving.received();
    while received < sent && started.elapsed() < DRAIN_MAX {
        thread::sleep(DRAIN_INTERVAL);
        let now = receiving.received();
        if now == received {
            return;
        }
        received = now;
    }
}

/// The options after `--`, read as those of `wirerate send`.
fn send_args(device: &str, options: &[String]) -> Result<send::Args, Failure> {
    let words = ["send", device].into_iter().chain(options.iter().map(String::as_str));
    let parser = send::Args::augment_args(clap::Command::new("send"));
    let matches = parser.try_get_matches_from(words);
    let args = matches.and_then(|matches| send::Args::from_arg_matches(&matches));
    args.map_err(|error| {
        let text = error.to_string();
        let first = text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
        Failure::usage("use the options after --", first).try_this("wirerate send --help")
    })
}
