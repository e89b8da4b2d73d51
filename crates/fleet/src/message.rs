//! The messages between agents and controllers: JSON objects, with the name and version of their
//! schema in the first field.
//!
//! Counts are those since the start of the run, never differences: of several messages of a host,
//! the one with the highest number is enough.

use crate::name::{FleetName, PortPlace};
use facts::Described;
use measure::{HostClock, OtherFrames, UnusualFrames};
use report::human::printable;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;

/// Most flows of a host in one run.
pub(crate) const FLOWS_MAX: usize = 1024;
/// Flows have numbers of 16 bits in their frames.
pub const NUMBERS_MAX: u32 = 1 << 16;
/// The version of the messages between controllers and agents: they need the same one.
pub const PROTOCOL: u32 = 4;
/// The version of this program.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// More frames per second are on no line: this is 1.3 Tbit/s of the shortest.
const FRAMES_PER_SECOND_MAX: u64 = 2_000_000_000;
/// Counts may go on for this time after the planned end.
const OVERTIME_S: u64 = 3600;

/// A message that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum MessageError {
    /// It is longer than its schema allows.
    #[error("a {schema} of {len} bytes: at most {len_max} are read")]
    TooLong {
        /// The expected schema.
        schema: &'static str,
        /// Its length.
        len: usize,
        /// The longest that is read.
        len_max: usize,
    },
    /// It has another schema, such as that of another version.
    #[error(
        "expected a {expected}, got {got:?}{}: use one version of wirerate on all hosts (this is {VERSION})",
        of_version(.version)
    )]
    Schema {
        /// The expected schema.
        expected: &'static str,
        /// The one it has.
        got: String,
        /// The version of wirerate that it names.
        version: Option<String>,
    },
    /// It is not JSON of this schema.
    #[error("this is no {schema}: {source}")]
    Json {
        /// The expected schema.
        schema: &'static str,
        /// Where and why.
        source: serde_json::Error,
    },
    /// A value is not allowed.
    #[error("invalid {schema}: {why}")]
    Value {
        /// The expected schema.
        schema: &'static str,
        /// Which value, and why.
        why: String,
    },
}

/// A message with a schema.
pub trait Message: Serialize + DeserializeOwned {
    /// Name and version.
    const SCHEMA: &'static str;
    /// Longest message that is read, in bytes.
    const LEN_MAX: usize = 1 << 20;
    /// Its text is shown to people, so control characters in it are escaped as it is read.
    const IS_SHOWN: bool = false;

    /// Checks values that have their type, but cannot be.
    ///
    /// # Errors
    /// Which one, and why.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }
}

#[derive(Serialize)]
struct Envelope<'a, T> {
    schema: &'static str,
    #[serde(flatten)]
    body: &'a T,
}

#[derive(Deserialize)]
struct SchemaTag {
    schema: String,
    #[serde(default)]
    version: Option<Value>,
}

fn of_version(version: &Option<String>) -> String {
    version.as_ref().map_or_else(String::new, |version| format!(" of wirerate {version}"))
}

/// A message as JSON.
pub fn encode<M: Message>(message: &M) -> Vec<u8> {
    let bytes = serde_json::to_vec(&Envelope { schema: M::SCHEMA, body: message });
    bytes.expect("our own messages have string keys and finite numbers")
}

/// Reads a message.
///
/// # Errors
/// It is none, or one of another version, or has values that cannot be.
pub fn decode<M: Message>(bytes: &[u8]) -> Result<M, MessageError> {
    let schema = M::SCHEMA;
    if bytes.len() > M::LEN_MAX {
        return Err(MessageError::TooLong { schema, len: bytes.len(), len_max: M::LEN_MAX });
    }
    let json = |source| MessageError::Json { schema, source };
    let head: SchemaTag = serde_json::from_slice(bytes).map_err(json)?;
    if head.schema != schema {
        let short = |text: &str| printable(&text.chars().take(64).collect::<String>()).into_owned();
        let version = head.version.as_ref().and_then(Value::as_str).map(short);
        return Err(MessageError::Schema { expected: schema, got: short(&head.schema), version });
    }
    let message: M = match M::IS_SHOWN {
        false => serde_json::from_slice(bytes).map_err(json)?,
        true => {
            let mut value: Value = serde_json::from_slice(bytes).map_err(json)?;
            escape_strings(&mut value);
            serde_json::from_value(value).map_err(json)?
        }
    };
    message.check().map_err(|why| MessageError::Value { schema, why })?;
    Ok(message)
}

/// Escapes control characters in all strings of a value.
fn escape_strings(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(escaped) = printable(text) {
                *text = escaped;
            }
        }
        Value::Array(values) => values.iter_mut().for_each(escape_strings),
        Value::Object(fields) => fields.values_mut().for_each(escape_strings),
        _ => {}
    }
}

/// A port of a host, as its agent sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Described)]
pub struct PortStatus {
    /// Its name.
    pub name: FleetName,
    /// Its device.
    pub device: String,
    /// The network namespace of the device; `null` if the agent's file names none.
    pub netns: Option<String>,
    /// MAC address of the device; `null` if unknown.
    pub mac: Option<String>,
    /// Its first IPv4 address; `null` if it has none.
    pub address: Option<String>,
    /// Its driver; `null` if unknown.
    pub driver: Option<String>,
    /// Speed of the link; `null` if unknown.
    pub speed_bps: Option<u64>,
    /// State of the link: `up`, `down`, `missing`, or `dry` for a port without a device.
    pub state: String,
    /// True if the default route leaves by it, so that nothing is sent on it.
    pub is_default_route: bool,
    /// Engine that `send` uses for plain frames; `null` if none can send, or it was not up yet.
    pub engine: Option<String>,
    /// The run that uses the port, or `null`.
    pub run: Option<FleetName>,
}

/// A host, as its agent announces it every two seconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Described)]
pub struct HostStatus {
    /// Name of the host.
    pub host: FleetName,
    /// Number of the running agent: two with the same name differ in it.
    pub instance: u64,
    /// True if two agents have this name, so that this one refuses all requests.
    pub has_double: bool,
    /// Version of wirerate.
    pub version: String,
    /// Version of the messages between controllers and agents; 0 before version 4.
    #[serde(default)]
    pub protocol: u32,
    /// The boot of the host: hosts with the same one have one kernel and share a clock.
    pub boot_id: String,
    /// When it reported, by its time of day.
    pub time_ns: u64,
    /// Its clock.
    pub clock: HostClock,
    /// The service that sets the clock; `null` if no known one runs.
    pub clock_daemon: Option<String>,
    /// The difference of TAI and UTC, by which its TAI is ahead; 0 if no program has set it.
    pub tai_offset_s: i32,
    /// Its ports.
    pub ports: Vec<PortStatus>,
}

impl HostStatus {
    /// Why its agent does not understand the messages of this version; `None` if it does.
    pub fn version_fault(&self) -> Option<String> {
        let of = |protocol: u32| match protocol {
            0 => "an older version".to_owned(),
            protocol => format!("version {protocol}"),
        };
        (self.protocol != PROTOCOL).then(|| {
            format!(
                "it is wirerate {} with {} of the messages of fleets, and this is wirerate {VERSION} with {}: \
                 use one version on all hosts",
                self.version,
                of(self.protocol),
                of(PROTOCOL)
            )
        })
    }
}

impl Message for HostStatus {
    const SCHEMA: &'static str = "wirerate.host/2";
    const LEN_MAX: usize = 1 << 18;
    const IS_SHOWN: bool = true;
}

/// An order to all agents of a run: its subject has the same words. A message that was made for
/// something else is no order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunOrder {
    /// The run.
    pub run: FleetName,
    /// `lease`, `drain` or `stop`.
    pub order: String,
}

impl Message for RunOrder {
    const SCHEMA: &'static str = "wirerate.order/1";
    const LEN_MAX: usize = 4096;
}

/// Counts of a flow at one of its hosts, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CountedFlow {
    /// Its number in the plan.
    pub id: u32,
    /// Frames that the driver accepted; `None` of a receiver.
    pub sent: Option<u64>,
    /// Frames that the driver rejected.
    pub errors: Option<u64>,
    /// Frames that arrived, without duplicates; `None` of a sender.
    pub received: Option<u64>,
    /// Further copies.
    pub duplicate: Option<u64>,
    /// First copies that arrived after a later frame.
    pub reordered: Option<u64>,
    /// Frames that came too late to tell a first copy from a duplicate.
    pub too_old: Option<u64>,
    /// Time of day on the receiver when the first frame arrived.
    pub first_ns: Option<u64>,
    /// The rate of a sender; in the last message.
    pub rate: Option<FlowRate>,
}

/// The rate of a paced flow.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, Described)]
pub struct FlowRate {
    /// The requested rate.
    pub asked_pps: f64,
    /// The reached rate, from the first frame to the last one.
    pub reached_pps: f64,
    /// True if the rate was missed by more than 1 % (and 10 ms), as `send` decides it.
    pub is_missed: bool,
}

/// What is known about a sending port besides flows; in the last message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SenderFigures {
    /// The port.
    pub port: FleetName,
    /// Why a rate was missed, and what to try.
    pub why_missed: Option<String>,
}

/// What a receiving port counts besides flows, since the start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiverFigures {
    /// The port.
    pub port: FleetName,
    /// Frames of this run, duplicates included.
    pub received: u64,
    /// Frames that do not count as received.
    #[serde(flatten)]
    pub others: OtherFrames,
    /// Received unusual frames.
    #[serde(flatten)]
    pub unusual: UnusualFrames,
    /// Frames that the receiver itself lost.
    pub lost_ring: u64,
    /// Latencies: HdrHistogram's format V2, compressed, in base64.
    pub hdr: Option<String>,
}

/// Why a run ended on a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Described)]
#[serde(rename_all = "snake_case")]
pub enum RunEnd {
    /// All was sent, or the time was over.
    Done,
    /// By the order of a controller.
    Stopped,
    /// Its agent was ended by a signal.
    Left,
    /// The agent heard no controller for the time of its lease.
    Orphaned,
    /// It could not go on.
    Failed,
    /// It was not ready at its time: nothing was sent.
    Late,
    /// It ended before its start, by the order of a controller.
    Aborted,
}

impl RunEnd {
    /// The word for it in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Stopped => "stopped",
            Self::Left => "left",
            Self::Orphaned => "orphaned",
            Self::Failed => "failed",
            Self::Late => "late",
            Self::Aborted => "aborted",
        }
    }
}

/// The counts of a host, since the start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stat {
    /// The run.
    pub run: FleetName,
    /// The host.
    pub host: FleetName,
    /// Identifies the process of the agent.
    pub instance: u64,
    /// From 1 on.
    pub number: u32,
    /// Time of day on the host.
    pub time_ns: u64,
    /// From the requested time until the first frame had been sent, by the host's own clock: of the
    /// sender that was last; in the last message. `None` of hosts that only receive.
    pub released_late_ns: Option<u64>,
    /// None of its senders sends any more; always true of hosts that only receive.
    pub has_sent_all: bool,
    /// Time of day on the host when its last sender had ended; `None` before, and of hosts that
    /// only receive.
    pub sent_until_ns: Option<u64>,
    /// Time of day on the host until which its receivers counted; in the last message.
    pub received_until_ns: Option<u64>,
    /// While it still received, a controller said that all hosts had sent all.
    pub has_heard_all_sent: bool,
    /// Why the hub has not kept the counts before these.
    pub why_not_kept: Option<String>,
    /// Its flows.
    pub flows: Vec<CountedFlow>,
    /// Its receiving ports.
    pub receivers: Vec<ReceiverFigures>,
    /// Its sending ports; in the last message.
    pub senders: Vec<SenderFigures>,
    /// No more messages follow.
    pub is_last: bool,
    /// Why it ended; in the last message.
    pub end: Option<RunEnd>,
    /// Why it failed.
    pub why: Option<String>,
    /// The reports of its senders (`wirerate.send/2`) and receivers (`wirerate.measure/1`); in the
    /// last message.
    pub reports: Vec<serde_json::Value>,
}

impl Stat {
    /// Without counts yet.
    pub fn new(run: FleetName, host: FleetName, instance: u64) -> Self {
        Self {
            run,
            host,
            instance,
            number: 0,
            time_ns: 0,
            released_late_ns: None,
            has_sent_all: false,
            sent_until_ns: None,
            received_until_ns: None,
            has_heard_all_sent: false,
            why_not_kept: None,
            flows: Vec::new(),
            receivers: Vec::new(),
            senders: Vec::new(),
            is_last: false,
            end: None,
            why: None,
            reports: Vec::new(),
        }
    }

    /// Which value cannot be, of a run that sends for `duration_ns`. `None` if all can be.
    pub fn impossible(&self, duration_ns: u64) -> Option<String> {
        let seconds = (duration_ns / 1_000_000_000).saturating_add(OVERTIME_S);
        let most = seconds.saturating_mul(FRAMES_PER_SECOND_MAX);
        let of_flow = |flow: &CountedFlow| {
            [flow.sent, flow.errors, flow.received, flow.duplicate, flow.reordered, flow.too_old]
        };
        let of_port = |port: &ReceiverFigures| {
            let others = port.others.present().chain(port.unusual.present());
            others.map(|(_, count)| count).chain([port.received, port.lost_ring]).collect::<Vec<_>>()
        };
        let flows = self.flows.iter().flat_map(of_flow).flatten();
        let counts = flows.chain(self.receivers.iter().flat_map(of_port));
        if let Some(count) = counts.max().filter(|count| *count > most) {
            return Some(format!("{count} frames cannot be in {seconds} s"));
        }
        let late_max = seconds.saturating_mul(1_000_000_000);
        let late = self.released_late_ns.filter(|late| *late > late_max)?;
        Some(format!("a first frame cannot be {late} ns late"))
    }
}

impl Message for Stat {
    const SCHEMA: &'static str = "wirerate.fleet-stat/2";
    const IS_SHOWN: bool = true;

    fn check(&self) -> Result<(), String> {
        match (self.is_last, self.end) {
            (true, None) => Err("a last message without an end".to_owned()),
            (false, Some(_)) => Err("an end before the last message".to_owned()),
            _ => Ok(()),
        }
    }
}

/// A flow of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Described)]
pub struct PlannedFlow {
    /// Its name.
    pub name: String,
    /// The port that it is sent from, as HOST/PORT.
    pub from: PortPlace,
    /// The port that it is received at, as HOST/PORT.
    pub to: PortPlace,
    /// Options of `send`, as words.
    pub send: Vec<String>,
    /// Frames to send at most, if the options say so; `null` without such a limit.
    #[fact(unit = "frames")]
    pub count: Option<u64>,
}

/// A host of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Described)]
pub struct HostOrder {
    /// Its name.
    pub host: FleetName,
    /// True if it took part: it was ready and was told to start.
    pub is_armed: bool,
    /// Its clock when it was ready; `null` if it did not answer.
    pub clock: Option<HostClock>,
    /// Its boot, which identifies its kernel; `null` if it did not answer.
    pub boot_id: Option<String>,
    /// Number of its running agent; `null` if it did not answer.
    pub instance: Option<u64>,
    /// Why it did not take part: it was not ready. Otherwise `null`.
    pub why: Option<String>,
}

/// A run that was started, as the hub keeps it: with it and the counts, a report needs no
/// controller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Described)]
pub struct RunPlan {
    /// The run.
    pub run: FleetName,
    /// The start, since 1970.
    pub start_at_ns: u64,
    /// The longest time of sending.
    pub duration_ns: u64,
    /// The time that receivers wait for late frames after it.
    pub settle_ns: u64,
    /// The flows; the number of a flow is its index.
    pub flows: Vec<PlannedFlow>,
    /// The hosts.
    pub hosts: Vec<HostOrder>,
}

impl Message for RunPlan {
    const SCHEMA: &'static str = "wirerate.fleet-plan/2";
    const LEN_MAX: usize = 1 << 23;
    const IS_SHOWN: bool = true;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stop() -> RunOrder {
        RunOrder { run: "r1".parse().unwrap(), order: "stop".to_owned() }
    }

    #[test]
    fn the_schema_is_the_first_field_and_is_checked() {
        let bytes = encode(&stop());
        assert!(bytes.starts_with(b"{\"schema\":\"wirerate.order/1\","));
        assert_eq!(decode::<RunOrder>(&bytes).unwrap(), stop());
        let refusal = decode::<Stat>(&bytes).unwrap_err().to_string();
        assert!(
            refusal.starts_with("expected a wirerate.fleet-stat/2, got \"wirerate.order/1\": use one"),
            "{refusal}"
        );
        assert!(matches!(decode::<RunOrder>(&[b' '; 5000]), Err(MessageError::TooLong { len: 5000, .. })));
        assert!(matches!(decode::<RunOrder>(b"{"), Err(MessageError::Json { .. })));
    }

    #[test]
    fn a_message_of_another_version_is_refused_with_both() {
        let old = br#"{"schema":"wirerate.host/1","host":"old","version":"0.0.9"}"#;
        let refusal = decode::<HostStatus>(old).unwrap_err().to_string();
        let expected = format!(
            "expected a wirerate.host/2, got \"wirerate.host/1\" of wirerate 0.0.9: use one version of wirerate \
             on all hosts (this is {VERSION})"
        );
        assert_eq!(refusal, expected);
    }
}
