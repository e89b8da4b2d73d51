//! Which engines and capture sources work, and which one is chosen: pure functions of the probe
//! results.

use engine::EngineKind;
use facts::Described;
use host::{CommandPlace, DeviceState, LinkLayer, Machine, Right};
use program::advice;
use serde::Serialize;

/// Whether an engine or source works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Described)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It works.
    Yes,
    /// It does not.
    No,
    /// This process may not test it.
    NotAllowed,
    /// The kernel does not report it, and testing would change something.
    NotKnown,
}

/// One engine, or one source of a capture.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Described)]
pub struct EngineRow {
    /// Name of the engine or the source.
    pub name: &'static str,
    /// Whether it works on this device; `not_allowed`: a capability is missing, `not_known`: the
    /// kernel does not report it, and testing would change something.
    pub answer: Answer,
    /// The reason.
    pub why: String,
    /// Notes: further facts.
    pub notes: Vec<String>,
    /// Suggested commands, to make it work.
    pub tries: Vec<String>,
}

/// Result of probing one engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineStatus {
    /// The engine.
    pub kind: EngineKind,
    /// Whether it works.
    pub answer: Answer,
    /// Reason.
    pub why: String,
    /// What to try.
    pub advice: Option<String>,
}

impl EngineStatus {
    /// From the result of `engine`. Commands for the device run in `place`.
    pub fn of(probed: engine::Probed, place: &CommandPlace) -> Self {
        let kind = probed.kind;
        match probed.answer {
            Ok(merit) => Self { kind, answer: Answer::Yes, why: merit.to_owned(), advice: None },
            Err(error) if error.is_denied() => {
                Self { kind, answer: Answer::NotAllowed, why: error.in_one_line(), advice: None }
            }
            Err(error) => Self {
                kind,
                answer: Answer::No,
                why: error.in_one_line(),
                advice: advice::for_engine(&error, place),
            },
        }
    }
}

/// The engine that `send` takes for plain frames, or the source that `capture` takes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Described)]
pub struct DefaultChoice {
    /// Its name; `null` for none, or if it is unknown.
    pub name: Option<&'static str>,
    /// False if one of higher preference could not be checked.
    pub is_known: bool,
    /// The reasons: for this one, then against each one of higher preference.
    pub why: Vec<String>,
    /// The engine that `send` uses below 100,000 frames per second and thread, since each call of
    /// `xdp` makes a page pool; absent if it is the same one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slow_name: Option<&'static str>,
}

/// The engines in order of preference, with further facts.
pub fn rows(statuses: &[EngineStatus], state: &DeviceState) -> Vec<EngineRow> {
    statuses
        .iter()
        .map(|status| EngineRow {
            name: status.kind.name(),
            answer: status.answer,
            why: status.why.clone(),
            notes: notes(status, state),
            tries: status.advice.iter().cloned().collect(),
        })
        .collect()
}

/// The engine that `send` takes: the first one that works.
pub fn engine_choice(statuses: &[EngineStatus]) -> DefaultChoice {
    let answers: Vec<_> =
        statuses.iter().map(|status| (status.kind.name(), status.answer, status.why.as_str())).collect();
    let choice = choice(&answers);
    let is_xdp = choice.name == Some(EngineKind::Xdp.name());
    let slow = answers
        .iter()
        .find(|(name, answer, _)| is_xdp && *answer == Answer::Yes && *name != EngineKind::Xdp.name());
    DefaultChoice { slow_name: slow.map(|(name, ..)| *name), ..choice }
}

/// The source that `capture` takes in mirror mode by default.
pub fn capture_choice(captures: &[EngineRow], state: &DeviceState) -> DefaultChoice {
    let answer = |row: &EngineRow| match row.name {
        // XDP sees only one of its two directions.
        "xdp_native" | "xdp_generic" if state.link.is_loopback() => (Answer::No, "it is the loopback device"),
        "xdp_native" | "xdp_generic" if stamps_beyond_xdp(state) => (
            Answer::No,
            "the card timestamps frames, and XDP programs cannot read the timestamps of its driver",
        ),
        _ => (row.answer, ""),
    };
    let answers: Vec<_> = captures
        .iter()
        .map(|row| {
            let (status, why) = answer(row);
            (row.name, status, if why.is_empty() { row.why.as_str() } else { why })
        })
        .collect();
    choice(&answers)
}

/// True for a card with hardware timestamps on whose driver does not pass them to XDP programs.
fn stamps_beyond_xdp(state: &DeviceState) -> bool {
    let has_clock = state
        .timestamping
        .as_ref()
        .is_some_and(|able| able.is_hardware_receive() && able.clock_index.is_some());
    has_clock
        && state.stamps.is_some_and(|config| config.is_receive_on())
        && !state.xdp.is_some_and(|xdp| xdp.rx_timestamp)
}

/// The first one that works. If an earlier one could not be tested, the choice is unknown.
fn choice(answers: &[(&'static str, Answer, &str)]) -> DefaultChoice {
    let chosen = answers.iter().position(|(_, answer, _)| *answer != Answer::No);
    let before = answers[..chosen.unwrap_or(answers.len())].iter();
    let not = before.map(|(name, _, why)| format!("not {name}: {why}"));
    match chosen.map(|index| answers[index]) {
        Some((name, Answer::Yes, why)) => {
            let why = std::iter::once(why.to_owned()).chain(not).collect();
            DefaultChoice { name: Some(name), is_known: true, why, slow_name: None }
        }
        Some((name, answer, why)) => {
            let unknown = match answer {
                Answer::NotAllowed => format!("{name} cannot be tested: {why}"),
                _ => format!("{name} may work: {why}"),
            };
            let why = not.chain([unknown]).collect();
            DefaultChoice { name: None, is_known: false, why, slow_name: None }
        }
        None => DefaultChoice { name: None, is_known: true, why: not.collect(), slow_name: None },
    }
}

fn notes(status: &EngineStatus, state: &DeviceState) -> Vec<String> {
    let is_yes = status.answer == Answer::Yes;
    let mut notes: Vec<&str> = Vec::new();
    match (status.kind, state.xdp) {
        (EngineKind::Xdp, features) => {
            notes.push(match features.map(|xdp| xdp.redirect_target) {
                Some(true) => "the driver accepts redirected frames (ndo_xdp_xmit)",
                Some(false) => "the driver does not accept redirected frames now (ndo_xdp_xmit)",
                None if state.link.is_kind("veth") => {
                    "this kernel does not report driver features; the peer of the veth decides"
                }
                None => "this kernel does not report driver features; the first burst shows whether it works",
            });
            if state.link.kind.is_none()
                && features.is_some_and(|xdp| xdp.basic && !xdp.redirect_target && !state.link.is_loopback())
            {
                notes.push(
                    "--engine xdp attaches a program, after which it may; the link can go down for seconds",
                );
            }
            if is_yes {
                notes.push("the program keeps a slot of the XDP dispatcher: a run starts in microseconds");
            }
        }
        (EngineKind::AfXdp, Some(xdp)) => {
            notes.push(if xdp.xsk_zero_copy {
                "--engine af_xdp uses zero-copy, which can take the queue from the host's own traffic"
            } else {
                "the driver does not support zero-copy: the kernel copies each frame"
            });
            notes.extend(xdp.xsk_tx_timestamp.then_some("the driver supports transmit timestamps"));
            notes.extend(xdp.xsk_tx_checksum.then_some("the driver supports checksum offload"));
        }
        _ => {}
    }
    notes.into_iter().map(str::to_owned).collect()
}

/// Largest MTU in bytes for drivers without multi-buffer: one page less headroom.
const MTU_OF_ONE_PAGE: u32 = 3506;

/// The capture sources of a device. Nothing is attached for this, because a driver may stop its
/// queues.
pub fn captures(state: &DeviceState, machine: &Machine) -> Vec<EngineRow> {
    vec![native(state, machine), generic(state, machine), packet_socket(machine)]
}

fn row(name: &'static str, answer: Answer, why: impl Into<String>) -> EngineRow {
    EngineRow { name, answer, why: why.into(), notes: Vec::new(), tries: Vec::new() }
}

/// What to do about the XDP program of another owner. wirerate never advises to detach it: it may
/// be a firewall.
pub fn owner_of(program_id: u32) -> String {
    format!("`bpftool prog show id {program_id}` shows which program it is; end the one that owns it")
}

/// Why no XDP program can be attached, if so.
fn xdp_trouble(name: &'static str, state: &DeviceState, machine: &Machine) -> Option<EngineRow> {
    if machine.lacks(Right::Bpf) || machine.lacks(Right::NetAdmin) {
        return Some(row(name, Answer::NotAllowed, "requires CAP_BPF and CAP_NET_ADMIN"));
    }
    if !matches!(state.link.layer, LinkLayer::Ethernet | LinkLayer::Loopback) {
        return Some(row(name, Answer::No, "the frames have no Ethernet header"));
    }
    let xdp = state.link.xdp?;
    let why = format!("the device already runs an XDP program (id {})", xdp.program_id);
    Some(EngineRow { tries: vec![owner_of(xdp.program_id)], ..row(name, Answer::No, why) })
}

fn native(state: &DeviceState, machine: &Machine) -> EngineRow {
    const NAME: &str = "xdp_native";
    if let Some(trouble) = xdp_trouble(NAME, state, machine) {
        return trouble;
    }
    let Some(xdp) = state.xdp else {
        return row(NAME, Answer::NotKnown, "this kernel does not report it; a capture tries it first");
    };
    if !xdp.basic {
        return row(NAME, Answer::No, "the driver does not support XDP programs");
    }
    let notes = [
        (xdp.rx_timestamp, "programs can read the driver's timestamp (bpf_xdp_metadata_rx_timestamp)"),
        (xdp.rx_multi_buffer, "frames longer than a page are supported (multi-buffer)"),
        (
            !xdp.rx_multi_buffer && state.link.mtu > MTU_OF_ONE_PAGE,
            "the MTU is larger than one page: the driver may reject the program",
        ),
    ];
    let notes = notes.into_iter().filter(|(is_so, _)| *is_so).map(|(_, text)| text.to_owned()).collect();
    EngineRow { notes, ..row(NAME, Answer::Yes, "the driver runs XDP programs") }
}

fn generic(state: &DeviceState, machine: &Machine) -> EngineRow {
    const NAME: &str = "xdp_generic";
    xdp_trouble(NAME, state, machine)
        .unwrap_or_else(|| row(NAME, Answer::Yes, "works on every device, at the cost of an skb per frame"))
}

fn packet_socket(machine: &Machine) -> EngineRow {
    const NAME: &str = "tpacket";
    if !machine.has_packet_sockets {
        return row(NAME, Answer::No, "the kernel does not support packet sockets");
    }
    if machine.lacks(Right::NetRaw) {
        return row(NAME, Answer::NotAllowed, "requires CAP_NET_RAW");
    }
    row(NAME, Answer::Yes, "works on every device, at the cost of an skb and a copy per frame")
}

#[cfg(test)]
mod tests {
    use super::super::device::tests::card;
    use super::*;
    use host::{StampConfig, Timestamping, XdpFeatures};

    #[test]
    fn a_card_whose_stamps_xdp_cannot_read_is_captured_by_packet_sockets() {
        let rows = || {
            [("xdp_native", "the driver runs XDP programs"), ("tpacket", "any device")]
                .map(|(name, why)| row(name, Answer::Yes, why))
        };
        let abilities = ["hardware-receive", "hardware-raw-clock"].map(str::to_owned).to_vec();
        let stamping = DeviceState {
            timestamping: Some(Timestamping { abilities, clock_index: Some(0), ..Timestamping::default() }),
            stamps: Some(StampConfig { rx_filter: 12, ..StampConfig::default() }),
            xdp: Some(XdpFeatures { basic: true, ..XdpFeatures::default() }),
            ..card()
        };
        let choice = capture_choice(&rows(), &stamping);
        assert_eq!(choice.name, Some("tpacket"));
        assert!(choice.why[1].starts_with("not xdp_native: the card timestamps frames"), "{:?}", choice.why);
        for state in [
            DeviceState { stamps: Some(StampConfig::default()), ..stamping.clone() },
            DeviceState {
                xdp: Some(XdpFeatures { rx_timestamp: true, ..XdpFeatures::default() }),
                ..stamping
            },
        ] {
            assert_eq!(capture_choice(&rows(), &state).name, Some("xdp_native"));
        }
    }

    #[test]
    fn xdp_is_not_for_slow_rates_where_another_engine_works() {
        let status = |kind, answer| EngineStatus { kind, answer, why: String::new(), advice: None };
        let chosen = |answers: [Answer; 3]| {
            let kinds = [EngineKind::Xdp, EngineKind::Skb, EngineKind::AfPacket];
            let statuses: Vec<_> =
                kinds.into_iter().zip(answers).map(|(kind, answer)| status(kind, answer)).collect();
            let choice = engine_choice(&statuses);
            (choice.name, choice.slow_name)
        };
        use Answer::{No, Yes};
        assert_eq!(chosen([Yes, Yes, Yes]), (Some("xdp"), Some("skb")));
        assert_eq!(chosen([Yes, No, Yes]), (Some("xdp"), Some("af_packet")), "a device with a qdisc");
        assert_eq!(chosen([Yes, No, No]), (Some("xdp"), None));
        assert_eq!(chosen([No, Yes, Yes]), (Some("skb"), None));
    }

    #[test]
    fn on_an_old_kernel_the_peer_of_a_veth_decides_and_the_first_burst_of_a_card() {
        let status =
            EngineStatus { kind: EngineKind::Xdp, answer: Answer::Yes, why: String::new(), advice: None };
        let mut state = DeviceState { xdp: None, ..card() };
        assert!(notes(&status, &state)[0].ends_with("the first burst shows whether it works"));
        state.link.kind = Some("veth".to_owned());
        assert!(notes(&status, &state)[0].contains("the peer of the veth decides"));
    }
}
