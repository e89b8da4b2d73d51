//! The orders of a controller to the hosts of a run, their answers, and the sums of what several
//! hosts have counted of one flow.
//!
//! Each host has a part of the run: of a configuration of the Open Traffic Generator, with ports
//! and flows as indexes into that part, or of a test of a fleet. An order is one request with one
//! answer. Signs of life of the controller, and orders to all hosts of a run, are
//! [`crate::RunOrder`]s.

use crate::message::{FLOWS_MAX, Message, NUMBERS_MAX};
use crate::name::FleetName;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use measure::{HostClock, TAG_PARTS, TagCounts};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;
use std::net::IpAddr;

/// Longest lease: an hour.
const LEASE_MS: std::ops::RangeInclusive<u64> = 1000..=3_600_000;
/// Most words of `wirerate send` for one flow.
const WORDS_MAX: usize = 64;
/// Longest word.
const WORD_LEN_MAX: usize = 1024;
/// Runs have numbers of 12 bits in their frames.
const MARKS: u16 = 1 << 12;
/// Longest run: 30 days.
const DURATION_NS_MAX: u64 = 30 * 24 * 3600 * 1_000_000_000;
/// Longest message with a part of a configuration. The hub may take less.
const PART_LEN_MAX: usize = 8 << 20;

/// What a host is to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Check a part; nothing changes.
    Check {
        /// The part.
        part: Part,
        /// It is to be put in force by [`Order::Change`].
        is_change: bool,
    },
    /// Get the ports of a part, which is in force then instead of the one before.
    Prepare(Part),
    /// Change the flows of the configuration in force; unchanged flows continue.
    Change(OtgPart),
    /// Build the engines of flows that the host sends, which then wait for [`Order::Go`].
    /// Receivers count from now on.
    Arm {
        /// The flows of a configuration that the host sends or receives. Those of a test are all.
        flows: Vec<FlowStart>,
        /// Flows of all hosts that start together.
        flow_count: u32,
        /// The counts of ports start at 0, too.
        clears_ports: bool,
    },
    /// Start what is armed.
    Go {
        /// When, in nanoseconds since 1970; at once if `None`.
        start_at_ns: Option<u64>,
    },
    /// Wait until these flows are sent, or have failed.
    AwaitStart {
        /// Flows that are armed.
        flows: Vec<u32>,
    },
    /// End flows that the host sends. Frames may still be on their way then.
    Stop {
        /// The flows of a configuration. Those of a test are all.
        flows: Vec<u32>,
        /// They may be resumed.
        pauses: bool,
    },
    /// Read counts.
    Read {
        /// Of these flows.
        flows: Vec<u32>,
        /// And these ports.
        ports: Vec<u32>,
    },
    /// Start or stop the captures of ports.
    Capture {
        /// The ports.
        ports: Vec<u32>,
        /// Start.
        starts: bool,
    },
    /// Read a piece of the file of a capture, which is stopped.
    ReadCapture {
        /// The port.
        port: u32,
        /// The first frame, from 0 on, and how many; all if `None`.
        slice: Option<(u64, u64)>,
        /// First byte of the piece; 0 makes the file.
        offset: u64,
    },
    /// Set the links of ports up or down.
    Link {
        /// The ports.
        ports: Vec<u32>,
        /// Up.
        up: bool,
    },
    /// Read the frames counted by the values of metric tags, as the bytes of [`TagReadings`].
    ReadTags {
        /// Flows with tags.
        flows: Vec<u32>,
        /// Ports that count all their frames by values.
        ports: Vec<u32>,
        /// The first byte; the counts are those of the answer from byte 0.
        offset: u64,
    },
    /// Ping from emulated interfaces, all at once.
    Ping {
        /// The pings.
        pings: Vec<PortPing>,
    },
    /// The gateways that emulated interfaces have resolved.
    Neighbours,
    /// End all, and let the ports go. A test that is not here yet is refused when it comes.
    Release,
}

impl Order {
    /// True if a run may begin with it, also after the agent was started again.
    pub fn begins(&self) -> bool {
        matches!(self, Self::Check { .. } | Self::Prepare(_))
    }
}

/// A part of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Of a configuration of the Open Traffic Generator.
    Config(OtgPart),
    /// Of a test of a fleet.
    Test(TestPart),
}

/// A part of a configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OtgPart {
    /// The configuration, with the flows that the host sends or receives.
    pub config: Value,
    /// The ports of the host, as indexes into those of the configuration.
    pub ports: Vec<u32>,
    /// The number of the configuration in the marks of frames.
    pub mark: u16,
    /// The seed of its random values that are not to be repeatable: all hosts have the same.
    pub seed: u64,
}

/// What a host does for a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlowRole {
    /// It sends.
    Send,
    /// It receives.
    Receive,
}

/// A flow, for one of its hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowOrder {
    /// Its number in the plan.
    pub id: u32,
    /// What the host does.
    pub role: FlowRole,
    /// The port of the host.
    pub port: FleetName,
    /// Its number in the frames, which differs from those of other flows to the same port.
    pub number: u32,
    /// Words of `wirerate send`.
    pub send: Vec<String>,
}

/// A part of a test of a fleet. Its host ends it by itself, and delivers its counts to the hub, so
/// that a report needs no controller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestPart {
    /// Its number in the frames.
    pub mark: u16,
    /// What to send and receive.
    pub flows: Vec<FlowOrder>,
    /// How long the senders send at most, in nanoseconds.
    pub duration_ns: u64,
    /// How long receivers wait for late frames after the end of the run.
    pub settle_ms: u64,
    /// Time from one message with counts to the next.
    pub stat_ms: u64,
    /// Seed of random values in frames.
    pub seed: u64,
}

impl TestPart {
    fn check(&self) -> Result<(), String> {
        let within = |name: &str, value: u64, min: u64, max: u64| match (min..=max).contains(&value) {
            true => Ok(()),
            false => Err(format!("{name} {value} is not in {min} to {max}")),
        };
        within("flows", self.flows.len() as u64, 1, FLOWS_MAX as u64)?;
        within("mark", self.mark.into(), 0, u64::from(MARKS) - 1)?;
        within("duration_ns", self.duration_ns, 1_000_000, DURATION_NS_MAX)?;
        within("settle_ms", self.settle_ms, 0, 60_000)?;
        within("stat_ms", self.stat_ms, 100, 60_000)?;
        let (mut ids, mut numbers) = (BTreeSet::new(), BTreeSet::new());
        for flow in &self.flows {
            within("number", flow.number.into(), 0, u64::from(NUMBERS_MAX) - 1)?;
            let is_receiver = flow.role == FlowRole::Receive;
            if !ids.insert((flow.id, is_receiver)) {
                return Err(format!("flow {} twice", flow.id));
            }
            if is_receiver && !numbers.insert((&flow.port, flow.number)) {
                return Err(format!("two flows to {} have the number {}", flow.port, flow.number));
            }
            within("words of a flow", flow.send.len() as u64, 0, WORDS_MAX as u64)?;
            let is_bad = |word: &&String| word.len() > WORD_LEN_MAX || word.chars().any(char::is_control);
            if let Some(word) = flow.send.iter().find(is_bad) {
                return Err(format!(
                    "flow {} has the word {:?}",
                    flow.id,
                    word.chars().take(64).collect::<String>()
                ));
            }
        }
        Ok(())
    }
}

/// A ping from an emulated interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortPing {
    /// The name of the interface.
    pub interface: String,
    /// The name of its port.
    pub port: String,
    /// Who is to answer.
    pub to: IpAddr,
}

/// Frames with the same values of metric tags.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TagReading {
    /// The port that received them.
    pub port: u32,
    /// The values of the parts of the tags.
    pub values: [u32; TAG_PARTS],
    /// What was counted.
    pub counts: TagCounts,
}

/// What a host has counted by values, in the order of the request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TagReadings {
    /// Of flows.
    pub flows: Vec<Vec<TagReading>>,
    /// Of ports, of all their frames.
    pub ports: Vec<Vec<TagReading>>,
}

/// A flow that starts or continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowStart {
    /// The flow.
    pub flow: u32,
    /// Its number in the marks of its frames; `None` of a flow that continues.
    pub number: Option<u16>,
    /// Its place among all flows that start together.
    pub rank: u32,
}

/// The request of a controller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OrderRequest {
    /// Names the controller's use of the ports, as a run does.
    pub run: FleetName,
    /// The host ends all and lets the ports go when it has heard no controller for this time.
    pub lease_ms: u64,
    /// What to do.
    pub order: Order,
}

impl Message for OrderRequest {
    const SCHEMA: &'static str = "wirerate.host-order/4";
    const LEN_MAX: usize = PART_LEN_MAX;

    fn check(&self) -> Result<(), String> {
        if !LEASE_MS.contains(&self.lease_ms) {
            let (least, most) = (LEASE_MS.start(), LEASE_MS.end());
            return Err(format!("lease_ms {} is not in {least} to {most}", self.lease_ms));
        }
        match &self.order {
            Order::Check { part: Part::Test(part), .. } | Order::Prepare(Part::Test(part)) => part.check(),
            _ => Ok(()),
        }
    }
}

/// What became of an order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrderResult {
    /// It was carried out.
    Done {
        /// What the client should know.
        warnings: Vec<String>,
    },
    /// Counts, in the order of the request.
    Readings {
        /// Of flows.
        flows: Vec<FlowReading>,
        /// Of ports.
        ports: Vec<PortReading>,
    },
    /// A piece of a file.
    Piece {
        /// Its bytes.
        bytes: FilePiece,
        /// The file has no more.
        is_last: bool,
    },
    /// Interfaces and the MAC addresses of their gateways.
    Neighbours(Vec<(String, [u8; 6])>),
    /// Whether each ping was answered.
    Pings(Vec<bool>),
    /// It was not carried out.
    Refused {
        /// Whose fault it is.
        kind: RefusalKind,
        /// One sentence per cause.
        errors: Vec<String>,
        /// What to try.
        tries: Vec<String>,
    },
}

/// Whose fault it is that an order was not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalKind {
    /// The configuration or the request is wrong.
    Invalid,
    /// The model has it, and wirerate does not do it.
    Unsupported,
    /// Another program has the device.
    Conflict,
    /// The host could not do it.
    Host,
}

impl OrderResult {
    /// A refusal for one reason, with nothing to try.
    pub fn refused(kind: RefusalKind, why: impl Into<String>) -> Self {
        Self::Refused { kind, errors: vec![why.into()], tries: Vec::new() }
    }

    /// It was carried out, and the client need not know anything.
    pub fn done() -> Self {
        Self::Done { warnings: Vec::new() }
    }
}

/// The answer of an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentAnswer {
    /// The host.
    pub host: FleetName,
    /// Identifies the process of the agent.
    pub instance: u64,
    /// Its clock.
    pub clock: HostClock,
    /// Identifies the running kernel.
    pub boot_id: String,
    /// Time of day when the request arrived.
    pub request_ns: u64,
    /// Time of day of the answer.
    pub time_ns: u64,
    /// What became of the order.
    pub result: OrderResult,
}

impl Message for AgentAnswer {
    const SCHEMA: &'static str = "wirerate.answer/4";
    const LEN_MAX: usize = PART_LEN_MAX;
    const IS_SHOWN: bool = true;
}

/// Bytes of a file: base64 in messages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FilePiece(pub Vec<u8>);

impl TryFrom<String> for FilePiece {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        STANDARD.decode(text).map(Self).map_err(|why| format!("no base64: {why}"))
    }
}

impl From<FilePiece> for String {
    fn from(piece: FilePiece) -> Self {
        STANDARD.encode(piece.0)
    }
}

/// Frames and their bytes, without FCS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentFrames {
    /// Frames.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl SentFrames {
    /// At least the frames that have arrived: the worker may not have counted their burst yet.
    #[must_use]
    pub fn at_least(self, arrived: &FlowArrivals) -> Self {
        let frames = arrived.first_copies;
        if frames <= self.frames {
            return self;
        }
        let (mean_bytes, of) =
            if self.frames == 0 { (arrived.bytes, arrived.frames) } else { (self.bytes, self.frames) };
        Self { frames, bytes: share(mean_bytes, frames, of) }
    }
}

/// The share of `total` that `part` of `whole` has.
fn share(total: u64, part: u64, whole: u64) -> u64 {
    (u128::from(total) * u128::from(part)).checked_div(u128::from(whole)).unwrap_or(0) as u64
}

/// What receiving ports have counted of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowArrivals {
    /// Frames.
    pub frames: u64,
    /// Their bytes, without FCS.
    pub bytes: u64,
    /// First copies at the port that has most of them. At least as many frames were sent.
    pub first_copies: u64,
    /// Frames whose latency was measured.
    pub stamped: u64,
    /// The lowest latency, in nanoseconds; meaningless without stamped frames, as are the others.
    pub latency_min_ns: u64,
    /// The highest latency.
    pub latency_max_ns: u64,
    /// The sum of all latencies.
    pub latency_sum_ns: u64,
    /// When the first frame arrived, in nanoseconds since 1970; 0 if none has.
    pub first_ns: u64,
    /// When the last frame arrived.
    pub last_ns: u64,
}

impl FlowArrivals {
    /// Adds what another port has counted.
    pub fn add(&mut self, other: &Self) {
        let or_other = |own: u64, is_own: bool, other: u64, is_other: bool, both: fn(u64, u64) -> u64| match (
            is_own, is_other,
        ) {
            (true, true) => both(own, other),
            (false, true) => other,
            (_, false) => own,
        };
        let (own, theirs) = (self.stamped > 0, other.stamped > 0);
        self.latency_min_ns = or_other(self.latency_min_ns, own, other.latency_min_ns, theirs, u64::min);
        self.latency_max_ns = or_other(self.latency_max_ns, own, other.latency_max_ns, theirs, u64::max);
        let (own, theirs) = (self.first_ns > 0, other.first_ns > 0);
        self.first_ns = or_other(self.first_ns, own, other.first_ns, theirs, u64::min);
        self.last_ns = or_other(self.last_ns, own, other.last_ns, theirs, u64::max);
        self.frames = self.frames.saturating_add(other.frames);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.first_copies = self.first_copies.max(other.first_copies);
        self.stamped = self.stamped.saturating_add(other.stamped);
        self.latency_sum_ns = self.latency_sum_ns.saturating_add(other.latency_sum_ns);
    }

    /// Lowest, highest and mean latency in nanoseconds; all 0 until a frame was measured.
    pub fn latency_ns(&self) -> (f64, f64, f64) {
        match self.stamped {
            0 => (0.0, 0.0, 0.0),
            stamped => (
                self.latency_min_ns as f64,
                self.latency_max_ns as f64,
                self.latency_sum_ns as f64 / stamped as f64,
            ),
        }
    }
}

/// A flow at one of its hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowReading {
    /// The host sends it now.
    pub is_sending: bool,
    /// It was paused.
    pub is_paused: bool,
    /// Frames that the host's driver has accepted since the start.
    pub sent: SentFrames,
    /// What its ports have received.
    pub arrived: FlowArrivals,
}

impl FlowReading {
    /// Adds the reading of another host.
    pub fn add(&mut self, other: &Self) {
        self.is_sending |= other.is_sending;
        self.is_paused |= other.is_paused;
        self.sent.frames = self.sent.frames.saturating_add(other.sent.frames);
        self.sent.bytes = self.sent.bytes.saturating_add(other.sent.bytes);
        self.arrived.add(&other.arrived);
    }

    /// The sum with what was sent made consistent with what has arrived: hosts are not read at one
    /// instant. Once a flow has ended, its count is final.
    #[must_use]
    pub fn settled(mut self) -> Self {
        if self.is_sending {
            self.sent = self.sent.at_least(&self.arrived);
        }
        self
    }
}

/// Frames and bytes with FCS, and frames per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RatedCounts {
    /// Frames.
    pub frames: u64,
    /// Their bytes, FCS included.
    pub bytes: u64,
    /// Frames per second now.
    pub rate: f64,
}

/// A port at its host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PortReading {
    /// The link is up.
    pub is_up: bool,
    /// Its capture runs.
    pub is_capturing: bool,
    /// A flow is sent on it.
    pub is_sending: bool,
    /// Sent by flows.
    pub sent: RatedCounts,
    /// All that the device received.
    pub received: RatedCounts,
    /// When the link last changed, in nanoseconds since 1970 by the host's clock.
    pub last_change_ns: u64,
    /// Bits per second of the line.
    pub speed_bps: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{decode, encode};

    #[test]
    fn a_frame_that_was_received_was_sent_before_the_worker_counts_it() {
        let one = FlowArrivals { frames: 1, first_copies: 1, bytes: 60, ..FlowArrivals::default() };
        let none = SentFrames::default();
        assert_eq!(none.at_least(&one), SentFrames { frames: 1, bytes: 60 });
        // Each frame arrived at two ports, or twice.
        let twice = FlowArrivals { frames: 2, bytes: 120, ..one };
        assert_eq!(none.at_least(&twice), SentFrames { frames: 1, bytes: 60 });
        let ten = SentFrames { frames: 10, bytes: 1000 };
        assert_eq!(ten.at_least(&one), ten);
        let more = FlowArrivals { first_copies: 11, ..one };
        assert_eq!(ten.at_least(&more), SentFrames { frames: 11, bytes: 1100 });
    }

    #[test]
    fn arrivals_of_several_hosts_add_up() {
        let at = |frames: u64, latency_ns: u64, first_ns: u64| FlowArrivals {
            frames,
            bytes: 60 * frames,
            first_copies: frames,
            stamped: frames,
            latency_min_ns: latency_ns,
            latency_max_ns: 2 * latency_ns,
            latency_sum_ns: frames * latency_ns,
            first_ns,
            last_ns: first_ns + 5,
        };
        let mut sum = FlowArrivals::default();
        sum.add(&FlowArrivals::default());
        assert_eq!((sum, sum.latency_ns()), (FlowArrivals::default(), (0.0, 0.0, 0.0)));
        for arrived in [at(10, 300, 70), FlowArrivals::default(), at(30, 100, 90)] {
            sum.add(&arrived);
        }
        let expected = FlowArrivals {
            frames: 40,
            bytes: 2400,
            first_copies: 30,
            stamped: 40,
            latency_min_ns: 100,
            latency_max_ns: 600,
            latency_sum_ns: 6000,
            first_ns: 70,
            last_ns: 95,
        };
        assert_eq!((sum, sum.latency_ns()), (expected, (100.0, 600.0, 150.0)));
    }

    #[test]
    fn a_flow_is_the_sum_of_its_hosts() {
        let sender = FlowReading {
            is_sending: true,
            sent: SentFrames { frames: 5, bytes: 300 },
            ..Default::default()
        };
        let arrived = FlowArrivals { frames: 7, first_copies: 7, bytes: 420, ..FlowArrivals::default() };
        let mut sum = sender;
        sum.add(&FlowReading { arrived, ..FlowReading::default() });
        assert_eq!(sum.settled().sent, SentFrames { frames: 7, bytes: 420 }, "read a moment later");
        sum.is_sending = false;
        assert_eq!(sum.settled().sent, sender.sent, "the last count is final");
    }

    #[test]
    fn messages_are_read_again_and_bounded() {
        let order = Order::ReadCapture { port: 1, slice: Some((0, 9)), offset: 7 };
        let request = OrderRequest { run: "r1".parse().unwrap(), lease_ms: 10_000, order };
        let bytes = encode(&request);
        assert!(bytes.starts_with(b"{\"schema\":\"wirerate.host-order/4\","));
        assert_eq!(decode::<OrderRequest>(&bytes).unwrap(), request);
        let short = OrderRequest { lease_ms: 1, ..request };
        assert!(decode::<OrderRequest>(&encode(&short)).unwrap_err().to_string().contains("lease_ms 1 "));
        let piece = OrderResult::Piece { bytes: FilePiece(vec![0, 255, 7]), is_last: true };
        let text = serde_json::to_string(&piece).unwrap();
        assert_eq!(text, r#"{"piece":{"bytes":"AP8H","is_last":true}}"#);
        assert_eq!(serde_json::from_str::<OrderResult>(&text).unwrap(), piece);
        assert!(serde_json::from_str::<OrderResult>(&text.replace("AP8H", "!")).is_err());
    }

    fn prepare(change: impl Fn(&mut TestPart)) -> OrderRequest {
        let flow = FlowOrder {
            id: 3,
            role: FlowRole::Receive,
            port: "eth1".parse().unwrap(),
            number: 0,
            send: vec!["--pps".into(), "1k".into()],
        };
        let mut part = TestPart {
            mark: 7,
            flows: vec![flow],
            duration_ns: 1_000_000_000,
            settle_ms: 200,
            stat_ms: 1000,
            seed: 1,
        };
        change(&mut part);
        let order = Order::Prepare(Part::Test(part));
        OrderRequest { run: "r1".parse().unwrap(), lease_ms: 5000, order }
    }

    #[test]
    fn values_that_cannot_be_are_refused() {
        let good = prepare(|_| {});
        assert_eq!(decode::<OrderRequest>(&encode(&good)).unwrap(), good);
        for (why, change) in [
            ("flows 0", &(|bad: &mut TestPart| bad.flows.clear()) as &dyn Fn(&mut TestPart)),
            ("mark 4096", &|bad| bad.mark = 4096),
            ("flow 3 twice", &|bad| bad.flows.push(bad.flows[0].clone())),
            ("flow 3 has the word \"a\\n\"", &|bad| bad.flows[0].send = vec!["a\n".into()]),
            ("number 65536", &|bad| bad.flows[0].number = 65_536),
            ("two flows to eth1", &|bad| bad.flows.push(FlowOrder { id: 4, ..bad.flows[0].clone() })),
        ] {
            let refusal = decode::<OrderRequest>(&encode(&prepare(change))).unwrap_err().to_string();
            assert!(refusal.contains(why), "{why}: {refusal}");
        }
        let text = String::from_utf8(encode(&good)).unwrap().replace("\"r1\"", "\"../r1\"");
        assert!(decode::<OrderRequest>(text.as_bytes()).unwrap_err().to_string().contains("is not a name"));
    }
}
