//! What the engines and the sources of captures answered, and which of them would be taken: pure.

use super::place::Place;
use engine::EngineKind;
use host::{DeviceState, LinkLayer, Machine, Right};
use serde::Serialize;

/// Yes, no, or nobody may know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It works.
    Yes,
    /// It does not.
    No,
    /// This process may not ask.
    NotAllowed,
    /// The kernel does not tell, and asking would change something.
    NotKnown,
}

/// One engine, or one source of a capture.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// Its name.
    pub name: &'static str,
    /// Whether it works on this device.
    pub answer: Answer,
    /// What speaks for it, or against it.
    pub why: String,
    /// What else is known of it here.
    pub notes: Vec<String>,
    /// What to type to make it work.
    pub tries: Vec<String>,
}

/// What an engine said, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// Which.
    pub kind: EngineKind,
    /// Whether it works.
    pub answer: Answer,
    /// Its words.
    pub why: String,
    /// What cures it.
    pub cure: Option<String>,
}

impl Said {
    /// From what the engine room says.
    pub fn of(probed: engine::Probed) -> Self {
        let kind = probed.kind;
        match probed.answer {
            Ok(merit) => Self { kind, answer: Answer::Yes, why: merit.to_owned(), cure: None },
            Err(error) if error.is_denied() => {
                Self { kind, answer: Answer::NotAllowed, why: error.in_one_line(), cure: None }
            }
            Err(error) => Self { kind, answer: Answer::No, why: error.in_one_line(), cure: error.cure() },
        }
    }
}

/// The engine that `send` takes for plain frames, or the source that `capture` takes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Choice {
    /// Its name; `null` when there is none, or none can be known.
    pub name: Option<&'static str>,
    /// False when nobody can tell of one that comes first.
    pub is_known: bool,
    /// Why this one, then why each before it was not.
    pub why: Vec<String>,
}

/// The engines in the order in which they are tried, with what else is known of them.
pub fn rows(said: &[Said], state: &DeviceState) -> Vec<Row> {
    said.iter()
        .map(|said| Row {
            name: said.kind.name(),
            answer: said.answer,
            why: said.why.clone(),
            notes: notes(said, state),
            tries: said.cure.iter().cloned().collect(),
        })
        .collect()
}

/// What `send` takes: the first engine that says yes.
pub fn engine_choice(said: &[Said]) -> Choice {
    let answers: Vec<_> =
        said.iter().map(|said| (said.kind.name(), said.answer, said.why.as_str())).collect();
    choice(&answers)
}

/// What `capture` takes in mirror mode, unless it is told otherwise.
pub fn capture_choice(captures: &[Row], state: &DeviceState) -> Choice {
    let answer = |row: &Row| match row.name {
        // Both ways go through it, and XDP sees one of them.
        "xdp_native" | "xdp_generic" if state.link.is_loopback() => (Answer::No, "it is the loopback device"),
        "xdp_native" | "xdp_generic" if stamps_beyond_xdp(state) => {
            (Answer::No, "the card stamps frames, and XDP programs cannot read the stamps of its driver")
        }
        _ => (row.answer, ""),
    };
    let answers: Vec<_> = captures
        .iter()
        .map(|row| {
            let (said, why) = answer(row);
            (row.name, said, if why.is_empty() { row.why.as_str() } else { why })
        })
        .collect();
    choice(&answers)
}

/// A card that stamps now, whose driver does not hand the stamps to XDP programs.
fn stamps_beyond_xdp(state: &DeviceState) -> bool {
    let has_clock = state
        .timestamping
        .as_ref()
        .is_some_and(|able| able.is_hardware_receive() && able.clock_index.is_some());
    has_clock
        && state.stamps.is_some_and(|config| config.is_receive_on())
        && !state.xdp.is_some_and(|xdp| xdp.rx_timestamp)
}

/// The first that says yes. Behind one that nobody can tell of nothing is certain.
fn choice(answers: &[(&'static str, Answer, &str)]) -> Choice {
    let chosen = answers.iter().position(|(_, answer, _)| *answer != Answer::No);
    let before = answers[..chosen.unwrap_or(answers.len())].iter();
    let not = before.map(|(name, _, why)| format!("not {name}: {why}"));
    match chosen.map(|index| answers[index]) {
        Some((name, Answer::Yes, why)) => {
            let why = std::iter::once(why.to_owned()).chain(not).collect();
            Choice { name: Some(name), is_known: true, why }
        }
        Some((name, answer, why)) => {
            let unknown = match answer {
                Answer::NotAllowed => format!("{name} may not be asked: {why}"),
                _ => format!("{name} may work: {why}"),
            };
            Choice { name: None, is_known: false, why: not.chain([unknown]).collect() }
        }
        None => Choice { name: None, is_known: true, why: not.collect() },
    }
}

fn notes(said: &Said, state: &DeviceState) -> Vec<String> {
    let is_yes = said.answer == Answer::Yes;
    let mut notes: Vec<&str> = Vec::new();
    match (said.kind, state.xdp) {
        (EngineKind::Xdp, features) => {
            notes.push(match features.map(|xdp| xdp.redirect_target) {
                Some(true) => "the driver says that it takes redirected frames (ndo_xdp_xmit)",
                Some(false) => "the driver does not take redirected frames now (ndo_xdp_xmit)",
                None if state.link.is_kind("veth") => {
                    "this kernel does not say what drivers take; the far end of a veth does, if it can be asked"
                }
                None => "this kernel does not say what drivers take; the first burst will",
            });
            if state.link.kind.is_none()
                && features.is_some_and(|xdp| xdp.basic && !xdp.redirect_target && !state.link.is_loopback())
            {
                notes.push(
                    "--engine xdp puts a program there, with which it may; the link can be lost for seconds",
                );
            }
            if is_yes {
                notes.push("its program stays in the kernel's XDP dispatcher: a run starts in microseconds");
            }
        }
        (EngineKind::AfXdp, Some(xdp)) => {
            notes.push(if xdp.xsk_zero_copy {
                "zero-copy with --engine af_xdp, which can take the queue from the host's own traffic"
            } else {
                "the driver has no zero-copy: the kernel copies each frame"
            });
            notes.extend(xdp.xsk_tx_timestamp.then_some("the driver can tell when a frame left"));
            notes.extend(xdp.xsk_tx_checksum.then_some("the driver can fill in checksums"));
        }
        _ => {}
    }
    notes.into_iter().map(str::to_owned).collect()
}

/// From how much a driver with whole frames only refuses native programs, in bytes of MTU: a page less headroom.
const MTU_OF_ONE_PAGE: u32 = 3506;

/// The ways to capture on a device. Nothing is attached to find out: a driver may stop its queues for that.
pub fn captures(state: &DeviceState, machine: &Machine, place: &Place) -> Vec<Row> {
    vec![native(state, machine, place), generic(state, machine, place), packet_socket(machine)]
}

fn row(name: &'static str, answer: Answer, why: impl Into<String>) -> Row {
    Row { name, answer, why: why.into(), notes: Vec::new(), tries: Vec::new() }
}

/// What speaks against any XDP program: no right, or no room.
fn xdp_trouble(name: &'static str, state: &DeviceState, machine: &Machine, place: &Place) -> Option<Row> {
    if machine.lacks(Right::Bpf) || machine.lacks(Right::NetAdmin) {
        return Some(row(name, Answer::NotAllowed, "it needs CAP_BPF and CAP_NET_ADMIN"));
    }
    if !matches!(state.link.layer, LinkLayer::Ethernet | LinkLayer::Loopback) {
        return Some(row(name, Answer::No, "its frames have no Ethernet header"));
    }
    let xdp = state.link.xdp?;
    let off = place.ip(&format!("link set dev {} xdp off", place.ifname));
    let why = format!("the device already runs an XDP program (id {})", xdp.program_id);
    Some(Row { tries: vec![off], ..row(name, Answer::No, why) })
}

fn native(state: &DeviceState, machine: &Machine, place: &Place) -> Row {
    const NAME: &str = "xdp_native";
    if let Some(trouble) = xdp_trouble(NAME, state, machine, place) {
        return trouble;
    }
    let Some(xdp) = state.xdp else {
        return row(NAME, Answer::NotKnown, "this kernel does not say; a capture tries it first");
    };
    if !xdp.basic {
        return row(NAME, Answer::No, "the driver runs no XDP programs");
    }
    let notes = [
        (xdp.rx_timestamp, "programs may read the driver's time stamp (bpf_xdp_metadata_rx_timestamp)"),
        (xdp.rx_multi_buffer, "frames beyond a page are seen as well (multi-buffer)"),
        (
            !xdp.rx_multi_buffer && state.link.mtu > MTU_OF_ONE_PAGE,
            "the MTU is beyond one page: the driver may refuse",
        ),
    ];
    let notes = notes.into_iter().filter(|(is_so, _)| *is_so).map(|(_, text)| text.to_owned()).collect();
    Row { notes, ..row(NAME, Answer::Yes, "the driver runs XDP programs") }
}

fn generic(state: &DeviceState, machine: &Machine, place: &Place) -> Row {
    const NAME: &str = "xdp_generic";
    xdp_trouble(NAME, state, machine, place).unwrap_or_else(|| {
        row(NAME, Answer::Yes, "it works on every device, at the price of an skb for each frame")
    })
}

fn packet_socket(machine: &Machine) -> Row {
    const NAME: &str = "tpacket";
    if !machine.has_packet_sockets {
        return row(NAME, Answer::No, "the kernel knows no packet sockets");
    }
    if machine.lacks(Right::NetRaw) {
        return row(NAME, Answer::NotAllowed, "it needs CAP_NET_RAW");
    }
    row(
        NAME,
        Answer::Yes,
        "packet sockets work on every device, at the price of an skb and a copy for each frame",
    )
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
        assert!(choice.why[1].starts_with("not xdp_native: the card stamps frames"), "{:?}", choice.why);
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
    fn on_an_old_kernel_a_veth_asks_its_far_end_and_a_card_its_first_burst() {
        let said = Said { kind: EngineKind::Xdp, answer: Answer::Yes, why: String::new(), cure: None };
        let mut state = DeviceState { xdp: None, ..card() };
        assert!(notes(&said, &state)[0].ends_with("the first burst will"));
        state.link.kind = Some("veth".to_owned());
        assert!(notes(&said, &state)[0].contains("the far end of a veth does"));
    }
}
