//! Checks of a device: one pure function each, from its facts to a finding.

use super::engines::owner_of;
use super::finding::{About, Finding};
use super::target::DoctorTarget;
use host::{
    CpuList, DeviceState, FEATURE_GRO, FEATURE_GRO_HARDWARE, FEATURE_LRO, FEATURE_TSO, LinkLayer, Machine,
    QueueUse, RingSize,
};
use sender::device::DownPeer;
use units::{human_bps, human_count, human_pps};

/// Input of the checks.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// Its name and namespace.
    pub target: &'a DoctorTarget,
    /// The device.
    pub state: &'a DeviceState,
    /// The machine.
    pub machine: &'a Machine,
    /// The CPU that `send` would use.
    pub cpu: u32,
    /// CPUs of the NUMA node of the device, if it has one.
    pub near: Option<&'a CpuList>,
    /// The peer of a veth, if it is down.
    pub down_peer: Option<&'a DownPeer>,
}

/// A check; `None` where the driver does not provide the fact.
type Check = fn(&Context<'_>) -> Option<Finding>;

/// All checks, in the order of the report.
const CHECKS: &[Check] = &[
    state,
    layer,
    speed,
    mtu,
    default_route,
    qdisc,
    program,
    native_xdp,
    rings,
    queues,
    interrupts,
    numa,
    steering,
    merging,
    offloads,
    pause,
    promiscuous,
    stamps,
    iommu,
];

/// The shortest frame on the wire, with FCS, preamble and gap, in bits.
const SHORTEST_BITS: u64 = 84 * 8;

/// The findings of all checks.
pub fn findings(context: &Context<'_>) -> Vec<Finding> {
    CHECKS.iter().filter_map(|check| check(context)).collect()
}

fn ok(topic: &'static str, what: impl Into<String>) -> Option<Finding> {
    Some(Finding::ok(About::Device, topic, what))
}

fn note(topic: &'static str, what: impl Into<String>, why: impl Into<String>) -> Finding {
    Finding::note(About::Device, topic, what, why)
}

fn problem(topic: &'static str, what: impl Into<String>, why: impl Into<String>) -> Finding {
    Finding::problem(About::Device, topic, what, why)
}

impl Context<'_> {
    fn name(&self) -> &str {
        &self.target.ifname
    }

    /// State of a feature by its ethtool name; `None` if unknown.
    fn is_on(&self, feature: &str) -> Option<bool> {
        self.state.features.as_ref().map(|features| features.is_on(feature))
    }

    fn is_hardware(&self) -> bool {
        self.state.link.kind.is_none() && !self.state.link.is_loopback()
    }
}

fn state(context: &Context<'_>) -> Option<Finding> {
    let name = context.name();
    if !context.state.link.is_up() {
        let why = "nothing can be sent or captured";
        let up = context.target.ip(&format!("link set {name} up"));
        return Some(problem("state", format!("{name} is down"), why).try_this(up));
    }
    if !context.state.link.has_carrier() {
        let why = "frames would be lost before the wire, so send rejects the device";
        let (what, advice) = match context.down_peer {
            Some(peer) => (format!("{name} has no carrier: its peer {} is down", peer.name), peer.up.clone()),
            None => {
                (format!("{name} is up but has no carrier"), format!("connect {name}, or set its peer up"))
            }
        };
        return Some(problem("state", what, why).try_this(advice));
    }
    ok("state", format!("{name} is up and has a carrier"))
}

fn layer(context: &Context<'_>) -> Option<Finding> {
    let why = "send makes Ethernet frames, which this device cannot carry";
    match context.state.link.layer {
        LinkLayer::Ethernet | LinkLayer::Loopback => None,
        LinkLayer::Wireless { .. } => Some(note("layer", "frames begin with a wireless header", why)),
        LinkLayer::None => {
            let why = "send gives it the IP packets of its frames, by af_packet";
            Some(note("layer", "frames begin with an IP header", why))
        }
        LinkLayer::Other(number) => {
            Some(note("layer", format!("frames begin with a header of type {number} (ARPHRD)"), why))
        }
    }
}

fn speed(context: &Context<'_>) -> Option<Finding> {
    let bps = context.state.speed_bps?;
    let line = (bps / SHORTEST_BITS) as f64;
    // A veth reports 10 Gbit/s, but it has no line that could be full.
    if !context.is_hardware() {
        return None;
    }
    ok("speed", format!("{}: line rate {} with 60-byte frames", human_bps(bps as f64), human_pps(line)))
}

fn mtu(context: &Context<'_>) -> Option<Finding> {
    let mtu = context.state.link.mtu;
    match &context.state.peer {
        Some(peer) if peer.mtu < mtu => {
            let what = format!("the MTU is {mtu}, but that of its peer {} is {}", peer.name, peer.mtu);
            let why = "the peer silently drops longer frames, so send rejects them";
            let set = format!("ip link set {} mtu {mtu}", peer.name);
            Some(note("mtu", what, why).try_this(format!("{set}, in the namespace of the peer")))
        }
        _ => ok("mtu", format!("the MTU is {mtu}: frames of up to {} bytes", mtu.saturating_add(14))),
    }
}

fn default_route(context: &Context<'_>) -> Option<Finding> {
    if !context.state.is_default_route? {
        return None;
    }
    let why = "a flood of frames could cut this host off, so send rejects the device";
    let what = "it carries the default route";
    Some(
        note("default_route", what, why)
            .try_this(format!("another device, or `wirerate send {} --allow-default-route`", context.name())),
    )
}

fn qdisc(context: &Context<'_>) -> Option<Finding> {
    match context.state.link.qdisc.as_deref()? {
        "noqueue" => ok("qdisc", "no qdisc: every engine sends directly to the driver"),
        qdisc => {
            let why = "xdp, af_xdp and af_packet bypass it; skb cannot and requires --xmit-mode queue_xmit";
            let what = format!("qdisc: {qdisc}");
            let send = format!("wirerate send {} --xmit-mode queue_xmit", context.name());
            Some(note("qdisc", what, why).try_this(send))
        }
    }
}

fn program(context: &Context<'_>) -> Option<Finding> {
    let xdp = context.state.link.xdp?;
    let what = format!("an XDP program is attached (id {})", xdp.program_id);
    let why = "a device runs one XDP program, so XDP captures are rejected";
    Some(note("xdp_program", what, why).try_this(owner_of(xdp.program_id)))
}

fn native_xdp(context: &Context<'_>) -> Option<Finding> {
    let features = context.state.xdp?;
    if features.basic {
        return ok("native_xdp", "the driver runs XDP programs");
    }
    let why = "captures use generic XDP, behind the driver and with an skb per frame: several times slower";
    let what = "the driver does not support XDP programs";
    Some(note("native_xdp", what, why).try_this("a device with another driver, if the rate matters"))
}

fn rings(context: &Context<'_>) -> Option<Finding> {
    let rings = context.state.rings?;
    let [rx, tx] = [rings.rx, rings.tx];
    let small = |ring: RingSize| ring.now < ring.max;
    let text = |ring: RingSize| human_count(u64::from(ring.now));
    let what = format!("ring sizes: receive {}, transmit {}", text(rx), text(tx));
    if !small(rx) && !small(tx) {
        return ok("rings", format!("{what} (the maximum)"));
    }
    let mut words = Vec::new();
    words.extend(small(rx).then(|| format!("rx {}", rx.max)));
    words.extend(small(tx).then(|| format!("tx {}", tx.max)));
    let why = "a burst longer than the receive ring is lost; send waits for a full transmit ring";
    Some(note("rings", what, why).try_this(context.target.ethtool("-G", &words.join(" "))))
}

fn queues(context: &Context<'_>) -> Option<Finding> {
    let queues = context.state.queues?;
    let cpus = context.machine.online.len() as u32;
    let useful = |now: u32, max: u32| now < max.min(cpus);
    let s = |count: u32| if count == 1 { "" } else { "s" };
    let what =
        format!("{} transmit queue{}, {} receive queue{}", queues.tx, s(queues.tx), queues.rx, s(queues.rx));
    let why = "threads that share a transmit queue wait for each other; a receive queue uses one CPU";
    if let Some(max) = context.state.queues_max
        && (useful(queues.tx, max.tx) || useful(queues.rx, max.rx))
    {
        let words = channels(context, queues, max, cpus);
        return Some(note("queues", what, why).try_this(context.target.ethtool("-L", &words)));
    }
    if context.state.link.is_kind("veth") && queues.tx.min(queues.rx) < 2 && cpus > 1 {
        let made = "recreate the pair: ip link add ... numtxqueues 4 numrxqueues 4 type veth";
        return Some(note("queues", what, why).try_this(format!("{made} peer ...")));
    }
    ok("queues", what)
}

/// Arguments of `ethtool -L`. A veth has queues per direction, most cards have combined ones.
fn channels(context: &Context<'_>, now: QueueUse, max: QueueUse, cpus: u32) -> String {
    if context.is_hardware() {
        return format!("combined {}", max.tx.min(max.rx).min(cpus));
    }
    format!("tx {} rx {}", now.tx.max(max.tx.min(cpus)), now.rx.max(max.rx.min(cpus)))
}

fn interrupts(context: &Context<'_>) -> Option<Finding> {
    let interrupts = &context.state.interrupts;
    let serving: CpuList = interrupts.iter().flat_map(|one| one.cpus.iter()).collect();
    if serving.is_empty() {
        return None;
    }
    let s = if serving.len() == 1 { "" } else { "s" };
    let what = format!("{} interrupts on CPU{s} {serving}", interrupts.len());
    let others = || context.machine.allowed.iter().find(|cpu| !serving.contains(*cpu));
    if serving.contains(context.cpu)
        && let Some(other) = others()
    {
        let why = format!("send would also use CPU {}, and the interrupts would interrupt it", context.cpu);
        let send = format!("wirerate send {} --cpus {other}", context.name());
        return Some(note("interrupts", what, why).try_this(send));
    }
    let one_cpu = serving.len() == 1 && context.state.queues.is_some_and(|queues| queues.rx > 1);
    if one_cpu && context.machine.online.len() > 1 {
        let why = "all receive queues share that CPU";
        let number = interrupts.iter().map(|one| one.number).max().unwrap_or_default();
        let to = context.machine.online.iter().find(|cpu| !serving.contains(*cpu)).unwrap_or_default();
        let set = format!("echo {to} > /proc/irq/{number}/smp_affinity_list, and so on for each queue");
        return Some(note("interrupts", what, why).try_this(set));
    }
    ok("interrupts", what)
}

fn numa(context: &Context<'_>) -> Option<Finding> {
    let (node, near) = (context.state.node?, context.near?);
    if near.iter().any(|cpu| context.machine.allowed.contains(cpu)) {
        return ok("numa", format!("NUMA node {node}, with CPUs {near}"));
    }
    let what = format!("NUMA node {node}, and this process may not use any of its CPUs ({near})");
    let why = "each frame crosses NUMA nodes on its way to the device";
    Some(problem("numa", what, why).try_this(format!("taskset -c {near} wirerate send {}", context.name())))
}

fn steering(context: &Context<'_>) -> Option<Finding> {
    let steering = context.state.steering?;
    let name = context.name();
    let clear = |file: &str| {
        let command = format!("for f in /sys/class/net/{name}/queues/*/{file}; do echo 0 > $f; done");
        if context.target.netns.is_some() {
            context.target.run(&format!("sh -c '{command}'"))
        } else {
            command
        }
    };
    if steering.rps_queues > 0 {
        let what = format!("{} receive queues pass frames to other CPUs (RPS)", steering.rps_queues);
        let why = "each frame uses a second CPU; XDP captures run before that";
        return Some(note("steering", what, why).try_this(clear("rps_cpus")));
    }
    if steering.xps_queues > 0 {
        let what = format!("{} transmit queues are mapped to CPUs (XPS)", steering.xps_queues);
        let why = "XPS overrides the queue that skb chooses; good for one thread per CPU";
        return Some(note("steering", what, why).try_this(format!("{}, for --queues", clear("xps_cpus"))));
    }
    ok("steering", "RPS and XPS are off")
}

/// Offloads that merge frames before a capture sees them.
fn merging(context: &Context<'_>) -> Option<Finding> {
    let why = "a capture then does not show the frames as they were on the wire";
    if context.is_on(FEATURE_LRO)? {
        let why = format!("{why}, and most drivers reject XDP programs with it");
        let off = context.target.ethtool("-K", "lro off");
        return Some(problem("merging", "received frames are merged irreversibly (LRO)", why).try_this(off));
    }
    if context.is_on(FEATURE_GRO_HARDWARE)? {
        let off = context.target.ethtool("-K", "rx-gro-hw off");
        return Some(note("merging", "the card merges received frames (hardware GRO)", why).try_this(off));
    }
    let is_native = context.state.xdp.is_none_or(|xdp| xdp.basic);
    if context.is_on(FEATURE_GRO)? && !is_native {
        let off = context.target.ethtool("-K", "gro off");
        return Some(note("merging", "received frames are merged before a capture (GRO)", why).try_this(off));
    }
    ok("merging", "a capture shows frames as they were on the wire")
}

fn offloads(context: &Context<'_>) -> Option<Finding> {
    let word = |feature| context.is_on(feature).map(|on| if on { "on" } else { "off" });
    let (gro, tso) = (word(FEATURE_GRO)?, word(FEATURE_TSO)?);
    ok("offloads", format!("GRO is {gro}, TSO is {tso}; neither changes the frames of send"))
}

fn pause(context: &Context<'_>) -> Option<Finding> {
    let pause = context.state.pause?;
    let (rx, tx) = (pause.rx, pause.tx);
    if !rx && !tx {
        return ok("pause", "pause frames are off");
    }
    let (what, why) = match (rx, tx) {
        (true, true) => ("the device honors and sends pause frames", "each end can make the other wait"),
        (true, false) => {
            ("the device honors pause frames", "the peer can slow send down below the configured rate")
        }
        _ => (
            "the device sends pause frames",
            "when its ring is full the peer waits, so overload does not show as loss",
        ),
    };
    let off = context.target.ethtool("-A", "rx off tx off");
    Some(note("pause", what, why).try_this(off))
}

fn promiscuous(context: &Context<'_>) -> Option<Finding> {
    if !context.is_hardware() || context.state.link.is_promiscuous() {
        return None;
    }
    let why = "the card drops frames for other addresses; capture, count and sink turn it on while they run, mgdump does not";
    let on = context.target.ip(&format!("link set {} promisc on", context.name()));
    Some(note("promiscuous", "not promiscuous: receives frames for its own addresses only", why).try_this(on))
}

fn stamps(context: &Context<'_>) -> Option<Finding> {
    let is_hardware = context.state.timestamping.as_ref()?.is_hardware_receive();
    let by_xdp = context.state.xdp.is_some_and(|xdp| xdp.rx_timestamp);
    match (is_hardware, by_xdp) {
        (true, true) => ok("timestamps", "hardware timestamps for received frames, readable by XDP programs"),
        (true, false) => {
            ok("timestamps", "hardware timestamps for received frames, readable by packet sockets")
        }
        _ => ok("timestamps", "no hardware timestamps: the kernel timestamps received frames"),
    }
}

fn iommu(context: &Context<'_>) -> Option<Finding> {
    let domain = context.state.iommu_domain.as_deref()?;
    if domain == "identity" {
        return ok("iommu", "IOMMU: identity");
    }
    let why = "the memory of each frame is mapped for the device and unmapped again";
    let what = format!("IOMMU: translates DMA addresses ({domain})");
    Some(note("iommu", what, why).try_this("iommu=pt on the kernel command line"))
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::finding::Severity;
    use super::super::host::tests::good;
    use super::*;
    use host::{
        AttachedXdp, AttachedXdpMode, Features, FlowControl, Interrupt, Rings, Steering, Timestamping,
        XdpFeatures,
    };

    /// A card without anything to improve.
    pub(in super::super) fn card() -> DeviceState {
        let link = host::sample::link("eth1", None, true);
        let ring = RingSize { now: 4096, max: 4096 };
        let queues = QueueUse { tx: 8, rx: 8 };
        DeviceState {
            link,
            peer: None,
            driver: Some(host::Driver { name: "foonic".to_owned(), ..host::Driver::default() }),
            xdp: Some(XdpFeatures {
                basic: true,
                redirect: true,
                rx_timestamp: true,
                ..XdpFeatures::default()
            }),
            features: Some(Features::with_active(&[])),
            speed_bps: Some(10_000_000_000),
            rings: Some(Rings { rx: ring, tx: ring }),
            queues: Some(queues),
            queues_max: Some(QueueUse { tx: 64, rx: 64 }),
            pause: Some(FlowControl::default()),
            timestamping: Some(Timestamping::default()),
            stamps: None,
            node: Some(0),
            interrupts: (0..8)
                .map(|cpu| Interrupt {
                    number: 30 + cpu,
                    name: String::new(),
                    cpus: [cpu % 6].into_iter().collect(),
                })
                .collect(),
            steering: Some(Steering::default()),
            iommu_domain: Some("identity".to_owned()),
            is_default_route: Some(false),
            unknown: Vec::new(),
        }
    }

    fn findings_of(state: &DeviceState, machine: &Machine, netns: Option<&str>) -> Vec<Finding> {
        let target = DoctorTarget { ifname: "eth1".to_owned(), netns: netns.map(str::to_owned) };
        let near = machine.online.clone();
        findings(&Context { target: &target, state, machine, cpu: 7, near: Some(&near), down_peer: None })
    }

    #[test]
    fn a_good_card_is_all_well() {
        let found = findings_of(&card(), &good(), None);
        let not_ok: Vec<_> = found.iter().filter(|finding| finding.severity != Severity::Ok).collect();
        // A card that is not promiscuous is how cards are.
        assert_eq!(not_ok.iter().map(|finding| finding.topic).collect::<Vec<_>>(), ["promiscuous"]);
    }

    /// What spoils a card, the topic that reports it, its severity, and a part of what to try.
    type Row = (fn(&mut DeviceState), &'static str, Severity, &'static str);

    const ROWS: &[Row] = &[
        (
            |s| s.link = host::sample::link("eth1", None, false),
            "state",
            Severity::Problem,
            "ip link set eth1 up",
        ),
        (|s| s.link.layer = LinkLayer::None, "layer", Severity::Note, ""),
        (|s| s.link.layer = LinkLayer::Other(778), "layer", Severity::Note, ""),
        (|s| s.peer = Some(short_peer()), "mtu", Severity::Note, "ip link set eth9 mtu 1500"),
        (|s| s.is_default_route = Some(true), "default_route", Severity::Note, "--allow-default-route"),
        (|s| s.link.qdisc = Some("mq".to_owned()), "qdisc", Severity::Note, "--xmit-mode queue_xmit"),
        (|s| s.link.xdp = Some(attached()), "xdp_program", Severity::Note, "`bpftool prog show id "),
        (|s| s.xdp = Some(XdpFeatures::default()), "native_xdp", Severity::Note, "another driver"),
        (|s| s.rings.as_mut().unwrap().rx.now = 256, "rings", Severity::Note, "ethtool -G eth1 rx 4096"),
        (
            |s| s.queues = Some(QueueUse { tx: 2, rx: 2 }),
            "queues",
            Severity::Note,
            "ethtool -L eth1 combined 8",
        ),
        (|s| s.interrupts[7].cpus = [7].into_iter().collect(), "interrupts", Severity::Note, "--cpus 6"),
        (|s| one_cpu(s), "interrupts", Severity::Note, "/proc/irq/37/smp_affinity_list"),
        (|s| s.steering.as_mut().unwrap().rps_queues = 2, "steering", Severity::Note, "queues/*/rps_cpus"),
        (|s| s.steering.as_mut().unwrap().xps_queues = 2, "steering", Severity::Note, "queues/*/xps_cpus"),
        (
            |s| s.features = Some(Features::with_active(&[FEATURE_LRO])),
            "merging",
            Severity::Problem,
            "ethtool -K eth1 lro off",
        ),
        (
            |s| s.features = Some(Features::with_active(&[FEATURE_GRO_HARDWARE])),
            "merging",
            Severity::Note,
            "rx-gro-hw off",
        ),
        (
            |s| s.pause = Some(FlowControl { rx: true, tx: false }),
            "pause",
            Severity::Note,
            "ethtool -A eth1 rx off",
        ),
        (|s| s.iommu_domain = Some("DMA-FQ".to_owned()), "iommu", Severity::Note, "iommu=pt"),
    ];

    fn short_peer() -> host::Link {
        let mut link = host::sample::link("eth9", Some("veth"), true);
        link.mtu = 1400;
        link
    }

    fn attached() -> AttachedXdp {
        AttachedXdp { mode: AttachedXdpMode::Native, program_id: 41 }
    }

    fn one_cpu(state: &mut DeviceState) {
        state.interrupts.iter_mut().for_each(|one| one.cpus = [0].into_iter().collect());
    }

    #[test]
    fn each_problem_has_its_severity_and_something_to_try() {
        for (spoil, topic, severity, tried) in ROWS {
            let mut state = card();
            spoil(&mut state);
            let found = findings_of(&state, &good(), None);
            let finding = found.iter().find(|finding| finding.topic == *topic).expect(topic);
            assert_eq!(finding.severity, *severity, "{finding:?}");
            assert!(tried.is_empty() || finding.tries.iter().any(|line| line.contains(tried)), "{finding:?}");
            assert!(!finding.why.is_empty(), "{finding:?}");
        }
    }

    #[test]
    fn commands_are_typed_where_the_device_is() {
        let mut state = card();
        (state.link, state.rings.as_mut().unwrap().tx.now) = (host::sample::link("eth1", None, false), 64);
        state.steering = Some(Steering { rps_queues: 1, xps_queues: 0 });
        let found = findings_of(&state, &good(), Some("lab"));
        let tries: Vec<_> =
            found.iter().flat_map(|finding| finding.tries.iter().map(String::as_str)).collect();
        assert!(tries.contains(&"ip -n lab link set eth1 up"), "{tries:?}");
        assert!(tries.contains(&"ip netns exec lab ethtool -G eth1 tx 4096"), "{tries:?}");
        assert!(tries.iter().any(|line| line.starts_with("ip netns exec lab sh -c 'for f in")), "{tries:?}");
    }

    #[test]
    fn a_node_without_a_cpu_of_ours_is_a_problem() {
        let machine = Machine { allowed: "0-3".parse().unwrap(), ..good() };
        let (target, state) = (DoctorTarget { ifname: "eth1".to_owned(), netns: None }, card());
        let near = "4-7".parse().unwrap();
        let context = Context {
            target: &target,
            state: &state,
            machine: &machine,
            cpu: 3,
            near: Some(&near),
            down_peer: None,
        };
        let found = numa(&context).expect("it is told");
        assert_eq!(
            (found.severity, found.tries),
            (Severity::Problem, vec!["taskset -c 4-7 wirerate send eth1".to_owned()])
        );
    }

    #[test]
    fn a_veth_with_one_queue_has_the_command_that_recreates_it() {
        let mut state = card();
        state.link = host::sample::link("eth1", Some("veth"), true);
        (state.queues, state.queues_max) = (Some(QueueUse { tx: 1, rx: 1 }), Some(QueueUse { tx: 1, rx: 1 }));
        let finding =
            findings_of(&state, &good(), None).into_iter().find(|one| one.topic == "queues").unwrap();
        assert!(finding.tries[0].contains("numtxqueues 4"), "{finding:?}");
        state.queues_max = Some(QueueUse { tx: 4, rx: 4 });
        let finding =
            findings_of(&state, &good(), None).into_iter().find(|one| one.topic == "queues").unwrap();
        assert_eq!(finding.tries, ["ethtool -L eth1 tx 4 rx 4"]);
    }
}
