//! The report: as text, sorted by severity, and as JSON (`wirerate.doctor/1`).

use super::engines::{Answer, Choice, Row};
use super::finding::{About, Finding};
use crate::out;
use crate::outcome::Outcome;
use host::{DeviceState, Link, Machine};
use serde::Serialize;
use std::fmt;

/// Name and version of the report as JSON.
pub const SCHEMA: &str = "wirerate.doctor/1";

/// The whole report.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The device; none in an overview.
    pub device: Option<DeviceSummary>,
    /// The namespace, if one was given.
    pub netns: Option<String>,
    /// Engines of the device, in order of preference.
    pub engines: Vec<Row>,
    /// The engine that `send` takes for plain frames.
    pub engine: Option<Choice>,
    /// Capture sources of the device, in order of preference.
    pub captures: Vec<Row>,
    /// The source that `capture` takes in mirror mode; of the device.
    pub capture: Option<Choice>,
    /// All devices, in an overview.
    pub devices: Vec<DeviceRow>,
    /// The machine.
    pub host: HostSummary,
    /// What limits device and machine.
    pub findings: Vec<Finding>,
    /// What could not be determined, and why.
    pub unknown: Vec<String>,
}

/// Summary of the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HostSummary {
    /// `Linux 6.18.44`.
    pub kernel: String,
    /// `x86_64`, ...
    pub architecture: String,
    /// CPUs that run, as the kernel writes them.
    pub cpus: String,
    /// NUMA nodes.
    pub nodes: String,
}

/// Summary of a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeviceSummary {
    /// Its name.
    pub name: String,
    /// `veth`, `tun`, ..., `loopback` or `hardware`.
    pub kind: String,
    /// Its driver.
    pub driver: Option<String>,
    /// `up`, `down` or `no_carrier`.
    pub state: &'static str,
}

/// A device of an overview.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeviceRow {
    /// The device.
    #[serde(flatten)]
    pub device: DeviceSummary,
    /// It carries a default route.
    pub is_default_route: bool,
    /// The engine that `send` takes for plain frames.
    pub engine: Choice,
    /// An engine works, or could not be tested.
    #[serde(skip)]
    pub may_work: bool,
}

impl HostSummary {
    /// From its facts.
    pub fn of(machine: &Machine) -> Self {
        Self {
            kernel: machine.kernel.clone(),
            architecture: machine.architecture.clone(),
            cpus: machine.online.to_string(),
            nodes: machine.nodes.to_string(),
        }
    }
}

impl DeviceSummary {
    /// From its facts.
    pub fn of(state: &DeviceState) -> Self {
        let driver = state.driver.as_ref().map(ToString::to_string);
        Self { driver, ..Self::from(&state.link) }
    }
}

impl From<&Link> for DeviceSummary {
    fn from(link: &Link) -> Self {
        let other = if link.is_loopback() { "loopback" } else { "hardware" };
        Self {
            name: link.name.clone(),
            kind: link.kind.clone().unwrap_or_else(|| other.to_owned()),
            driver: None,
            state: match (link.is_up(), link.has_carrier()) {
                (false, _) => "down",
                (true, false) => "no_carrier",
                (true, true) => "up",
            },
        }
    }
}

/// True when an engine works or could not be tested.
pub fn may_work(answers: impl IntoIterator<Item = Answer>) -> bool {
    answers.into_iter().any(|answer| answer != Answer::No)
}

impl Report {
    /// The report as one line of JSON.
    pub fn json_line(&self) -> String {
        out::json_line(SCHEMA, self)
    }

    /// Whether frames can be sent: on the device, or on any of them.
    pub fn outcome(&self) -> Outcome {
        let can = match self.device {
            Some(_) => may_work(self.engines.iter().map(|row| row.answer)),
            None => self.devices.iter().any(|listed| listed.may_work),
        };
        if can { Outcome::Done } else { Outcome::No }
    }

    fn write_device(&self, f: &mut fmt::Formatter<'_>, device: &DeviceSummary) -> fmt::Result {
        let netns = self.netns.as_ref().map(|netns| format!(" in {netns}")).unwrap_or_default();
        let driver = device.driver.as_ref().map(|driver| format!(", driver {driver}")).unwrap_or_default();
        writeln!(f, "{}{netns}: {}{driver}, {}", device.name, device.kind, device.state.replace('_', " "))?;
        writeln!(f, "\nengines, in the order of send")?;
        write_rows(f, &self.engines)?;
        self.engine.iter().try_for_each(|choice| writeln!(f, "  {}", sentence("send", choice)))?;
        writeln!(f, "\ncaptures")?;
        write_rows(f, &self.captures)?;
        self.capture.iter().try_for_each(|choice| writeln!(f, "  {}", sentence("capture", choice)))?;
        writeln!(f, "\ndevice")?;
        self.write_findings(f, About::Device)?;
        writeln!(f)
    }

    fn write_devices(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let netns = self.netns.as_ref().map(|netns| format!(" in {netns}")).unwrap_or_default();
        writeln!(f, "devices{netns}; `wirerate doctor DEV` reports details")?;
        let width = self.devices.iter().map(|listed| listed.device.name.len()).max().unwrap_or(0);
        for DeviceRow { device, is_default_route, engine, .. } in &self.devices {
            let route = if *is_default_route { ", default route" } else { "" };
            let about = format!("{}, {}{route}", device.kind, device.state.replace('_', " "));
            writeln!(f, "  {:width$}  {about}: {}", device.name, sentence("send", engine))?;
        }
        writeln!(f)
    }

    /// Sorted by severity.
    fn write_findings(&self, f: &mut fmt::Formatter<'_>, about: About) -> fmt::Result {
        let mut found: Vec<_> = self.findings.iter().filter(|finding| finding.about == about).collect();
        found.sort_by_key(|finding| finding.severity);
        found.iter().try_for_each(|finding| write!(f, "{finding}"))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.device {
            Some(device) => self.write_device(f, device)?,
            None => self.write_devices(f)?,
        }
        let HostSummary { kernel, architecture, cpus, nodes } = &self.host;
        writeln!(f, "host: {kernel} on {architecture}, CPUs {cpus}, NUMA nodes {nodes}")?;
        self.write_findings(f, About::Host)?;
        if !self.unknown.is_empty() {
            writeln!(f, "\nunknown")?;
        }
        self.unknown.iter().try_for_each(|line| writeln!(f, "  {line}"))
    }
}

fn write_rows(f: &mut fmt::Formatter<'_>, rows: &[Row]) -> fmt::Result {
    const INDENT: &str = "                            ";
    for row in rows {
        let answer = match row.answer {
            Answer::Yes => "yes",
            Answer::No => "no",
            Answer::NotAllowed => "not allowed",
            Answer::NotKnown => "not known",
        };
        writeln!(f, "  {:11}  {answer:11}  {}", row.name, row.why)?;
        row.notes.iter().try_for_each(|note| writeln!(f, "{INDENT}{note}"))?;
        row.tries.iter().try_for_each(|what| writeln!(f, "{INDENT}try: {what}"))?;
    }
    Ok(())
}

/// `send takes skb: a BPF program builds the frames; not xdp: ...`.
fn sentence(command: &str, choice: &Choice) -> String {
    let why = choice.why.join("; ");
    match (choice.name, choice.is_known) {
        (Some(name), _) => format!("{command} takes {name}: {why}"),
        (None, true) => format!("{command} takes none: {why}"),
        (None, false) => format!("what {command} takes is unknown: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::device::{self, Context};
    use super::super::engines::{self, EngineStatus};
    use super::super::host::tests::good;
    use super::super::target::Target;
    use super::super::{device::tests::card, host as checks};
    use super::*;
    use engine::EngineKind;
    use host::{Right, Setting};
    use testkit::golden;

    fn status(kind: EngineKind, answer: Answer, why: &str, advice: Option<&str>) -> EngineStatus {
        EngineStatus { kind, answer, why: why.to_owned(), advice: advice.map(str::to_owned) }
    }

    fn report(statuses: &[EngineStatus], state: &DeviceState, machine: &Machine) -> Report {
        let target = Target { ifname: state.link.name.clone(), netns: None };
        let context = Context { target: &target, state, machine, cpu: 7, near: None };
        let mut findings = device::findings(&context);
        findings.extend(checks::findings(machine));
        let captures = engines::captures(state, machine, &target);
        Report {
            device: Some(DeviceSummary::of(state)),
            netns: None,
            engines: engines::rows(statuses, state),
            engine: Some(engines::engine_choice(statuses)),
            capture: Some(engines::capture_choice(&captures, state)),
            captures,
            devices: Vec::new(),
            host: HostSummary::of(machine),
            findings,
            unknown: checks::unknown(machine),
        }
    }

    fn all_kinds(xdp: EngineStatus) -> [EngineStatus; 4] {
        [
            xdp,
            status(EngineKind::Skb, Answer::Yes, "a BPF program builds the frames", None),
            status(EngineKind::AfPacket, Answer::Yes, "works on every device", None),
            status(EngineKind::AfXdp, Answer::Yes, "copying", None),
        ]
    }

    #[test]
    fn a_report_reads_like_this() {
        let refused = "the driver of eth1 (foonic) cannot transmit from XDP";
        let statuses = all_kinds(status(EngineKind::Xdp, Answer::No, refused, None));
        let report = report(&statuses, &card(), &good());
        assert_eq!(report.outcome(), Outcome::Done);
        golden("report_doctor.txt", &report.to_string());
        golden("report_doctor.json", &report.json_line());
    }

    #[test]
    fn a_capture_takes_the_first_source_that_can() {
        let takes = |spoil: fn(&mut DeviceState)| {
            let mut state = card();
            spoil(&mut state);
            let choice = report(&[], &state, &good()).capture.expect("there is a device");
            (choice.name, choice.is_known, choice.why.len())
        };
        assert_eq!(takes(|_| ()), (Some("xdp_native"), true, 1));
        assert_eq!(takes(|state| state.xdp = Some(Default::default())), (Some("xdp_generic"), true, 2));
        assert_eq!(takes(|state| state.xdp = None), (None, false, 1));
        let busy = |state: &mut DeviceState| {
            state.link.xdp = Some(host::AttachedXdp { mode: host::XdpMode::Native, program_id: 7 });
        };
        assert_eq!(takes(busy), (Some("tpacket"), true, 3));
        assert_eq!(takes(|state| state.link.layer = host::LinkLayer::None), (Some("tpacket"), true, 3));
    }

    #[test]
    fn without_a_right_nothing_is_claimed() {
        let why = "cannot load the BPF object send: Operation not permitted";
        let denied = |kind| status(kind, Answer::NotAllowed, why, None);
        let statuses =
            [EngineKind::Xdp, EngineKind::Skb, EngineKind::AfPacket, EngineKind::AfXdp].map(denied);
        let machine = Machine {
            missing_rights: vec![Right::NetAdmin, Right::NetRaw, Right::Bpf],
            jit: Setting::Hidden,
            ..good()
        };
        let report = report(&statuses, &card(), &machine);
        assert_eq!(report.outcome(), Outcome::Done, "an engine may work");
        assert_eq!(report.engine.as_ref().and_then(|choice| choice.name), None);
        golden("report_doctor_denied.txt", &report.to_string());
    }

    #[test]
    fn only_a_device_on_which_nothing_works_is_a_no() {
        let no = |kind| status(kind, Answer::No, "eth1 is down", Some("ip link set eth1 up"));
        let statuses = [EngineKind::Xdp, EngineKind::Skb, EngineKind::AfPacket, EngineKind::AfXdp].map(no);
        assert_eq!(report(&statuses, &card(), &good()).outcome(), Outcome::No);
        assert_eq!(report(&[], &card(), &good()).outcome(), Outcome::No);
    }

    #[test]
    fn an_overview_has_a_line_for_each_device() {
        let choice = |name, why: &str| Choice { name, is_known: true, why: vec![why.to_owned()] };
        let listed = |state: &DeviceState, is_default_route, engine: Choice| DeviceRow {
            device: DeviceSummary::from(&state.link),
            is_default_route,
            may_work: engine.name.is_some(),
            engine,
        };
        let mut down = card();
        down.link.name = "eth10".to_owned();
        let mut report = report(&[], &card(), &good());
        report.devices = vec![
            listed(&card(), true, choice(Some("xdp"), "the driver accepts frames from XDP")),
            listed(&down, false, choice(None, "not xdp: eth10 is down")),
        ];
        (report.device, report.engine, report.capture) = (None, None, None);
        report.findings.retain(|finding| finding.about == About::Host);
        assert_eq!(report.outcome(), Outcome::Done);
        golden("report_doctor_all.txt", &report.to_string());
        report.devices.remove(0);
        assert_eq!(report.outcome(), Outcome::No);
    }
}
