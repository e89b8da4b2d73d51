//! The report: as text, sorted by severity, and as JSON (`wirerate.doctor/1`).

use super::engines::{Answer, DefaultChoice, EngineRow};
use super::finding::{About, Finding, Severity};
use ::report::Meaning;
use facts::{Described, Document};
use host::{DeviceState, Link, Machine};
use program::out;
use program::outcome::Outcome;
use program::term::wrapped;
use serde::Serialize;

/// The report of `wirerate doctor`.
pub const DOCTOR: Document = Document::of::<Report>("wirerate.doctor/1", "wirerate doctor --json");

/// The whole report.
#[derive(Clone, Debug, PartialEq, Serialize, Described)]
pub struct Report {
    /// The device; `null` for an overview.
    pub device: Option<DeviceSummary>,
    /// The network namespace; `null` without `--netns`.
    pub netns: Option<String>,
    /// Engines of the device, in order of preference.
    pub engines: Vec<EngineRow>,
    /// Engine that `send` uses for plain frames; `null` for an overview.
    pub engine: Option<DefaultChoice>,
    /// Capture sources of the device, in order of preference: `xdp_native`, `xdp_generic`,
    /// `tpacket`.
    pub captures: Vec<EngineRow>,
    /// Source that `capture` uses in mirror mode; `null` for an overview.
    pub capture: Option<DefaultChoice>,
    /// Overview only: the devices.
    pub devices: Vec<DeviceRow>,
    /// The machine.
    pub host: HostSummary,
    /// What was found: what limits device and machine.
    pub findings: Vec<Finding>,
    /// Facts that could not be determined, and why.
    pub unknown: Vec<String>,
}

/// Summary of the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Described)]
pub struct HostSummary {
    /// Version of the kernel, such as `Linux 6.18.44`.
    pub kernel: String,
    /// Architecture, such as `x86_64`.
    pub architecture: String,
    /// CPUs that run, as a list that the kernel writes (`0-3,8`).
    pub cpus: String,
    /// Memory nodes (NUMA), as a list that the kernel writes.
    pub nodes: String,
}

/// Summary of a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Described)]
pub struct DeviceSummary {
    /// Its name.
    pub name: String,
    /// Its kind: that of a virtual device, such as `veth` or `tun`, or `loopback` or `hardware`.
    pub kind: String,
    /// Its driver; `null` if there is none, and in the list of an overview.
    pub driver: Option<String>,
    /// Its state: `up`, `down` or `no_carrier`.
    pub state: &'static str,
}

/// A device of an overview.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Described)]
pub struct DeviceRow {
    /// The device.
    #[serde(flatten)]
    pub device: DeviceSummary,
    /// True if the default route leaves by it.
    pub is_default_route: bool,
    /// Engine that `send` uses for plain frames.
    pub engine: DefaultChoice,
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
        out::json_line(&DOCTOR, self)
    }

    /// Whether frames can be sent: on the device, or on any of them.
    pub fn outcome(&self) -> Outcome {
        let can = match self.device {
            Some(_) => may_work(self.engines.iter().map(|row| row.answer)),
            None => self.devices.iter().any(|listed| listed.may_work),
        };
        if can { Outcome::Done } else { Outcome::No }
    }

    /// The report as text in `layout`.
    pub fn text(&self, layout: TextLayout) -> String {
        let mut text = match &self.device {
            Some(device) => self.device_text(device, layout),
            None => self.devices_text(layout),
        };
        let HostSummary { kernel, architecture, cpus, nodes } = &self.host;
        text += "\n";
        text += &layout.title(&format!("host: {kernel} on {architecture}, CPUs {cpus}, NUMA nodes {nodes}"));
        text += &self.findings_text(About::Host, layout);
        if !self.unknown.is_empty() {
            text += "\nnot determined\n";
        }
        self.unknown.iter().for_each(|line| text += &layout.line(2, "", line));
        text
    }

    fn device_text(&self, device: &DeviceSummary, layout: TextLayout) -> String {
        let driver = device.driver.as_ref().map(|driver| format!(", driver {driver}")).unwrap_or_default();
        let state = device.state.replace('_', " ");
        let mut text =
            layout.title(&format!("{}{}: {}{driver}, {state}", device.name, self.in_netns(), device.kind));
        text += "\n";
        text += &layout.title("engines, in the order that send tries them");
        text += &rows_text(&self.engines, layout);
        self.engine.iter().for_each(|choice| text += &layout.line(2, "", &choice_text("send", choice)));
        text += "\ncaptures\n";
        text += &rows_text(&self.captures, layout);
        self.capture.iter().for_each(|choice| text += &layout.line(2, "", &choice_text("capture", choice)));
        text + "\ndevice\n" + &self.findings_text(About::Device, layout)
    }

    fn devices_text(&self, layout: TextLayout) -> String {
        let mut text =
            layout.title(&format!("devices{}; `wirerate doctor DEV` reports details", self.in_netns()));
        let width = self.devices.iter().map(|listed| listed.device.name.len()).max().unwrap_or(0);
        for DeviceRow { device, is_default_route, engine, .. } in &self.devices {
            let route = if *is_default_route { ", default route" } else { "" };
            let about = format!("{}, {}{route}", device.kind, device.state.replace('_', " "));
            let choice = match engine.name {
                _ if layout.has_all => reasons_text("send", engine),
                Some(name) => format!("send uses {name}"),
                None => no_choice_text("send", engine),
            };
            let name = format!("  {:width$}  ", device.name);
            text += &layout.line(name.len(), &name, &format!("{about}: {choice}"));
        }
        text
    }

    fn in_netns(&self) -> String {
        self.netns.as_ref().map(|netns| format!(" in {netns}")).unwrap_or_default()
    }

    /// Sorted by severity; what is as it should be is one line, unless all is asked for.
    fn findings_text(&self, about: About, layout: TextLayout) -> String {
        let mut found: Vec<_> = self.findings.iter().filter(|finding| finding.about == about).collect();
        found.sort_by_key(|finding| finding.severity);
        let is_listed = |finding: &&&Finding| layout.has_all || finding.severity != Severity::Ok;
        let mut text: String =
            found.iter().filter(is_listed).map(|finding| finding_text(finding, layout)).collect();
        let hidden = found.len() - found.iter().filter(is_listed).count();
        if hidden > 0 {
            let checks = if hidden == 1 { "check" } else { "checks" };
            let line = format!("{:8}  {hidden} {checks} (--all lists them)", Severity::Ok);
            text += &layout.row(Severity::Ok.meaning(), 2, "", &line);
        }
        text
    }
}

/// How the text is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextLayout {
    /// Columns of a line at most.
    pub columns: usize,
    /// Also what is as it should be, and every reason.
    pub has_all: bool,
    /// Lines have the colours of their meaning.
    pub is_painted: bool,
}

impl TextLayout {
    /// `first` and `text` as one line, wrapped; both begin `indent` columns from the left.
    fn line(self, indent: usize, first: &str, text: &str) -> String {
        let first = if first.is_empty() { " ".repeat(indent) } else { first.to_owned() };
        wrapped(&(first + text), self.columns, indent) + "\n"
    }

    /// The line of a row; its first line has the colour of `meaning`.
    fn row(self, meaning: Meaning, indent: usize, first: &str, text: &str) -> String {
        let line = self.line(indent, first, text);
        match line.split_once('\n') {
            Some((first, rest)) if self.is_painted => format!("{}\n{rest}", meaning.painted(first)),
            _ => line,
        }
    }

    fn title(self, text: &str) -> String {
        wrapped(text, self.columns, 2) + "\n"
    }

    /// Not wrapped, so that it works when it is pasted.
    fn advice(indent: usize, what: &str) -> String {
        format!("{:indent$}try: {what}\n", "")
    }
}

/// One line, then one for the effect and one for each thing to try.
fn finding_text(finding: &Finding, layout: TextLayout) -> String {
    const INDENT: usize = 12;
    let mut text =
        layout.row(finding.severity.meaning(), INDENT, &format!("  {:8}  ", finding.severity), &finding.what);
    if !finding.why.is_empty() {
        text += &layout.line(INDENT, "", &finding.why);
    }
    finding.tries.iter().for_each(|what| text += &TextLayout::advice(INDENT, what));
    text
}

fn rows_text(rows: &[EngineRow], layout: TextLayout) -> String {
    const INDENT: usize = 28;
    let mut text = String::new();
    for row in rows {
        let (answer, meaning) = match row.answer {
            Answer::Yes => ("yes", Meaning::Good),
            Answer::No => ("no", Meaning::Problem),
            Answer::NotAllowed => ("not allowed", Meaning::Fact),
            Answer::NotKnown => ("not known", Meaning::Fact),
        };
        text += &layout.row(meaning, INDENT, &format!("  {:11}  {answer:11}  ", row.name), &row.why);
        let is_detailed = layout.has_all || row.answer != Answer::Yes;
        row.notes.iter().filter(|_| is_detailed).for_each(|note| text += &layout.line(INDENT, "", note));
        row.tries.iter().for_each(|what| text += &TextLayout::advice(INDENT, what));
    }
    text
}

/// `send uses xdp, and skb below 100,000 frames per second and thread`. The reasons are in the rows
/// above, or in the report of the device.
fn choice_text(command: &str, choice: &DefaultChoice) -> String {
    match (choice.name, choice.is_known) {
        (Some(name), _) => match choice.slow_name {
            Some(slow) => {
                format!("{command} uses {name}, and {slow} below 100,000 frames per second and thread")
            }
            None => format!("{command} uses {name}"),
        },
        (None, true) => format!("{command} cannot use this device"),
        (None, false) => format!("what {command} uses is not known"),
    }
}

/// `send uses skb: a BPF program builds the frames; not xdp: ...`.
fn reasons_text(command: &str, choice: &DefaultChoice) -> String {
    format!("{}: {}", choice_text(command, choice), choice.why.join("; "))
}

/// `send cannot use this device: eth1 is down`, with the reason of the preferred engine. If the
/// choice is not known, the last reason says why.
fn no_choice_text(command: &str, choice: &DefaultChoice) -> String {
    let first = || choice.why.first().map(|why| why.split_once(": ").map_or(&**why, |(_, reason)| reason));
    let why = if choice.is_known { first() } else { choice.why.last().map(String::as_str) };
    format!("{}: {}", choice_text(command, choice), why.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::super::device::{self, Context};
    use super::super::engines::{self, EngineStatus};
    use super::super::host::tests::good;
    use super::super::target::DoctorTarget;
    use super::super::{device::tests::card, host as checks};
    use super::*;
    use engine::EngineKind;
    use host::{Right, Setting};
    use testkit::golden;

    const LAYOUT: TextLayout = TextLayout { columns: 80, has_all: false, is_painted: false };

    fn status(kind: EngineKind, answer: Answer, why: &str, advice: Option<&str>) -> EngineStatus {
        EngineStatus { kind, answer, why: why.to_owned(), advice: advice.map(str::to_owned) }
    }

    fn report(statuses: &[EngineStatus], state: &DeviceState, machine: &Machine) -> Report {
        let target = DoctorTarget { ifname: state.link.name.clone(), netns: None };
        let context = Context { target: &target, state, machine, cpu: 7, near: None, down_peer: None };
        let mut findings = device::findings(&context);
        findings.extend(checks::findings(machine));
        let captures = engines::captures(state, machine);
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
        golden("report_doctor.txt", &report.text(LAYOUT));
        golden("report_doctor_everything.txt", &report.text(TextLayout { has_all: true, ..LAYOUT }));
        let painted = report.text(TextLayout { is_painted: true, ..LAYOUT });
        assert!(painted.contains("\x1b[31m  xdp          no  "), "{painted}");
        assert!(painted.contains("\x1b[32m  skb          yes  "), "{painted}");
        let narrow = report.text(TextLayout { columns: 60, ..LAYOUT });
        assert!(narrow.lines().all(|line| line.len() <= 60 || line.contains("try: ")), "{narrow}");
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
            state.link.xdp = Some(host::AttachedXdp { mode: host::AttachedXdpMode::Native, program_id: 7 });
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
        golden("report_doctor_denied.txt", &report.text(LAYOUT));
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
        let choice = |name, why: &str| DefaultChoice {
            name,
            is_known: true,
            why: vec![why.to_owned()],
            slow_name: (name == Some("xdp")).then_some("skb"),
        };
        let listed = |state: &DeviceState, is_default_route, engine: DefaultChoice| DeviceRow {
            device: DeviceSummary::from(&state.link),
            is_default_route,
            may_work: engine.name.is_some(),
            engine,
        };
        let why = ["xdp", "skb", "af_packet"].map(|name| format!("not {name}: eth10 is down")).to_vec();
        let nothing = DefaultChoice { name: None, is_known: true, why, slow_name: None };
        let mut down = card();
        down.link.name = "eth10".to_owned();
        let mut report = report(&[], &card(), &good());
        report.devices = vec![
            listed(&card(), true, choice(Some("xdp"), "the driver accepts frames from XDP")),
            listed(&down, false, nothing),
        ];
        (report.device, report.engine, report.capture) = (None, None, None);
        report.findings.retain(|finding| finding.about == About::Host);
        assert_eq!(report.outcome(), Outcome::Done);
        golden("report_doctor_all.txt", &report.text(LAYOUT));
        report.devices.remove(0);
        assert_eq!(report.outcome(), Outcome::No);
    }
}
