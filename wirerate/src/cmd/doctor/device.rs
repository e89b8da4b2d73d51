//! From the facts of a device to findings: pure, one row a check.

use super::finding::{About, Finding};
use super::place::Place;
use crate::units::{human_bps, human_count, human_pps};
use host::{
    CpuList, DeviceState, FEATURE_GRO, FEATURE_GRO_HARDWARE, FEATURE_LRO, FEATURE_TSO, LinkLayer, Machine,
    Queues, Ring,
};

/// What the checks look at.
#[derive(Clone, Copy, Debug)]
pub struct Look<'a> {
    /// Where it is.
    pub place: &'a Place,
    /// The device.
    pub state: &'a DeviceState,
    /// The machine.
    pub machine: &'a Machine,
    /// The CPU that `send` would take.
    pub cpu: u32,
    /// CPUs of the device's NUMA node; `None` where it hangs on none.
    pub near: Option<&'a CpuList>,
}

/// What one look at a device can find; nothing where its driver does not say.
type Check = fn(&Look<'_>) -> Option<Finding>;

/// All checks, in the order in which they are shown.
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

/// What a device lets one send and capture.
pub fn findings(look: &Look<'_>) -> Vec<Finding> {
    CHECKS.iter().filter_map(|check| check(look)).collect()
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

impl Look<'_> {
    fn name(&self) -> &str {
        &self.place.ifname
    }

    /// A feature by ethtool's name; `None` when the device does not say.
    fn is_on(&self, feature: &str) -> Option<bool> {
        self.state.features.as_ref().map(|features| features.is_on(feature))
    }

    fn is_hardware(&self) -> bool {
        self.state.link.kind.is_none() && !self.state.link.is_loopback()
    }
}

fn state(look: &Look<'_>) -> Option<Finding> {
    let name = look.name();
    if !look.state.link.is_up() {
        let why = "nothing can be sent or captured";
        let up = look.place.ip(&format!("link set {name} up"));
        return Some(problem("state", format!("{name} is down"), why).try_this(up));
    }
    if !look.state.link.has_carrier() {
        let why = "frames would be lost before the wire, so send refuses it";
        let what = format!("connect {name}, or set its other end up");
        return Some(problem("state", format!("{name} is up but has no carrier"), why).try_this(what));
    }
    ok("state", format!("{name} is up and has a carrier"))
}

fn layer(look: &Look<'_>) -> Option<Finding> {
    let why = "frames that send makes begin with an Ethernet header, which this device does not expect";
    match look.state.link.layer {
        LinkLayer::Ethernet | LinkLayer::Loopback => None,
        LinkLayer::Wireless { .. } => Some(note("layer", "frames here begin with a wireless header", why)),
        LinkLayer::None => Some(note("layer", "frames here begin with an IP header", why)),
        LinkLayer::Other(number) => {
            Some(note("layer", format!("frames here begin with a header of kind {number} (ARPHRD)"), why))
        }
    }
}

fn speed(look: &Look<'_>) -> Option<Finding> {
    let bps = look.state.speed_bps?;
    let line = (bps / SHORTEST_BITS) as f64;
    // A veth says 10 Gbit/s, but there is no line that could be full.
    if !look.is_hardware() {
        return None;
    }
    ok("speed", format!("{}: {} of the shortest frames fill it", human_bps(bps as f64), human_pps(line)))
}

fn mtu(look: &Look<'_>) -> Option<Finding> {
    let mtu = look.state.link.mtu;
    match &look.state.peer {
        Some(peer) if peer.mtu < mtu => {
            let what = format!("the MTU is {mtu}, but that of {}, its other end, is {}", peer.name, peer.mtu);
            let why = "the other end drops longer frames without a word, so send refuses them";
            let set = format!("ip link set {} mtu {mtu}", peer.name);
            Some(note("mtu", what, why).try_this(format!("{set}, where that end is")))
        }
        _ => ok("mtu", format!("the MTU is {mtu}: frames of up to {} bytes", mtu.saturating_add(14))),
    }
}

fn default_route(look: &Look<'_>) -> Option<Finding> {
    if !look.state.is_default_route? {
        return None;
    }
    let why = "a flood of frames could cut this host off, so send refuses it";
    let what = "it carries the default route";
    Some(
        note("default_route", what, why)
            .try_this(format!("another device, or `wirerate send {} --allow-default-route`", look.name())),
    )
}

fn qdisc(look: &Look<'_>) -> Option<Finding> {
    match look.state.link.qdisc.as_deref()? {
        "noqueue" => ok("qdisc", "it has no qdisc: every engine goes straight to the driver"),
        qdisc => {
            let why = "xdp, af_xdp and af_packet go past it; skb cannot, so it sends only by --xmit-mode queue_xmit";
            let what = format!("its qdisc is {qdisc}");
            let send = format!("wirerate send {} --xmit-mode queue_xmit", look.name());
            Some(note("qdisc", what, why).try_this(send))
        }
    }
}

fn program(look: &Look<'_>) -> Option<Finding> {
    let xdp = look.state.link.xdp?;
    let what = format!("an XDP program is attached (id {})", xdp.program_id);
    let why = "it sees frames first, and there is room for one: XDP captures are refused";
    let off = look.place.ip(&format!("link set dev {} xdp off", look.name()));
    let show = format!("bpftool prog show id {}", xdp.program_id);
    Some(note("xdp_program", what, why).try_this(show).try_this(off))
}

fn native_xdp(look: &Look<'_>) -> Option<Finding> {
    let features = look.state.xdp?;
    if features.basic {
        return ok("native_xdp", "the driver runs XDP programs");
    }
    let why = "captures attach behind the driver (generic), where each frame has become an skb: several times slower";
    let what = "the driver runs no XDP programs";
    Some(note("native_xdp", what, why).try_this("a device of another driver, where the rate matters"))
}

fn rings(look: &Look<'_>) -> Option<Finding> {
    let rings = look.state.rings?;
    let [rx, tx] = [rings.rx, rings.tx];
    let small = |ring: Ring| ring.now < ring.max;
    let text = |ring: Ring| human_count(u64::from(ring.now));
    let what = format!("rings of {} frames for receive and {} for transmit", text(rx), text(tx));
    if !small(rx) && !small(tx) {
        return ok("rings", format!("{what}, as large as the driver allows"));
    }
    let mut words = Vec::new();
    words.extend(small(rx).then(|| format!("rx {}", rx.max)));
    words.extend(small(tx).then(|| format!("tx {}", tx.max)));
    let why = "a burst longer than the receive ring is lost before anyone sees it; a full transmit ring makes send wait";
    Some(note("rings", what, why).try_this(look.place.ethtool("-G", &words.join(" "))))
}

fn queues(look: &Look<'_>) -> Option<Finding> {
    let queues = look.state.queues?;
    let cpus = look.machine.online.len() as u32;
    let useful = |now: u32, max: u32| now < max.min(cpus);
    let s = |count: u32| if count == 1 { "" } else { "s" };
    let what =
        format!("{} transmit queue{}, {} receive queue{}", queues.tx, s(queues.tx), queues.rx, s(queues.rx));
    let why = "several threads on one transmit queue wait for each other, and a receive queue has one CPU at a time";
    if let Some(max) = look.state.queues_max
        && (useful(queues.tx, max.tx) || useful(queues.rx, max.rx))
    {
        let words = channels(look, queues, max, cpus);
        return Some(note("queues", what, why).try_this(look.place.ethtool("-L", &words)));
    }
    if look.state.link.is_kind("veth") && queues.tx.min(queues.rx) < 2 && cpus > 1 {
        let made =
            "queues are given when a pair is made: ip link add ... numtxqueues 4 numrxqueues 4 type veth";
        return Some(note("queues", what, why).try_this(format!("{made} peer ...")));
    }
    ok("queues", what)
}

/// Words for `ethtool -L`. A veth has queues for each direction, cards mostly have them combined.
fn channels(look: &Look<'_>, now: Queues, max: Queues, cpus: u32) -> String {
    if look.is_hardware() {
        return format!("combined {}", max.tx.min(max.rx).min(cpus));
    }
    format!("tx {} rx {}", now.tx.max(max.tx.min(cpus)), now.rx.max(max.rx.min(cpus)))
}

fn interrupts(look: &Look<'_>) -> Option<Finding> {
    let interrupts = &look.state.interrupts;
    let serving: CpuList = interrupts.iter().flat_map(|one| one.cpus.iter()).collect();
    if serving.is_empty() {
        return None;
    }
    let s = if serving.len() == 1 { "" } else { "s" };
    let what = format!("its {} interrupts are served by CPU{s} {serving}", interrupts.len());
    let others = || look.machine.allowed.iter().find(|cpu| !serving.contains(*cpu));
    if serving.contains(look.cpu)
        && let Some(other) = others()
    {
        let why = format!("send would send from CPU {} too, where each interrupts the other", look.cpu);
        let send = format!("wirerate send {} --cpus {other}", look.name());
        return Some(note("interrupts", what, why).try_this(send));
    }
    let one_cpu = serving.len() == 1 && look.state.queues.is_some_and(|queues| queues.rx > 1);
    if one_cpu && look.machine.online.len() > 1 {
        let why = "all receive queues share that CPU, however many there are";
        let number = interrupts.iter().map(|one| one.number).max().unwrap_or_default();
        let to = look.machine.online.iter().find(|cpu| !serving.contains(*cpu)).unwrap_or_default();
        let set = format!("echo {to} > /proc/irq/{number}/smp_affinity_list, and so on for each queue");
        return Some(note("interrupts", what, why).try_this(set));
    }
    ok("interrupts", what)
}

fn numa(look: &Look<'_>) -> Option<Finding> {
    let (node, near) = (look.state.node?, look.near?);
    if near.iter().any(|cpu| look.machine.allowed.contains(cpu)) {
        return ok("numa", format!("it hangs on node {node}, whose CPUs are {near}"));
    }
    let what = format!("it hangs on node {node}, and this process may use none of its CPUs ({near})");
    let why = "each frame crosses from node to node on its way to the device";
    Some(problem("numa", what, why).try_this(format!("taskset -c {near} wirerate send {}", look.name())))
}

fn steering(look: &Look<'_>) -> Option<Finding> {
    let steering = look.state.steering?;
    let name = look.name();
    let clear = |file: &str| {
        let command = format!("for f in /sys/class/net/{name}/queues/*/{file}; do echo 0 > $f; done");
        if look.place.netns.is_some() { look.place.run(&format!("sh -c '{command}'")) } else { command }
    };
    if steering.rps_queues > 0 {
        let what =
            format!("{} of its receive queues hand frames on to other CPUs (RPS)", steering.rps_queues);
        let why = "each frame costs a second CPU, and its way there; XDP captures see it before that";
        return Some(note("steering", what, why).try_this(clear("rps_cpus")));
    }
    if steering.xps_queues > 0 {
        let what = format!("{} of its transmit queues are given to CPUs (XPS)", steering.xps_queues);
        let why = "that has the last word on the queue that skb asks for; good for one thread on each CPU";
        return Some(note("steering", what, why).try_this(format!("{}, for --queues", clear("xps_cpus"))));
    }
    ok("steering", "nothing steers frames to CPUs in software (RPS, XPS)")
}

/// Offloads that make one frame of several before a capture sees them.
fn merging(look: &Look<'_>) -> Option<Finding> {
    let why = "what a capture sees is then not what was on the wire";
    if look.is_on(FEATURE_LRO)? {
        let why = format!("{why}, and most drivers run no XDP program with it");
        let off = look.place.ethtool("-K", "lro off");
        return Some(problem("merging", "received frames are merged for good (LRO)", why).try_this(off));
    }
    if look.is_on(FEATURE_GRO_HARDWARE)? {
        let off = look.place.ethtool("-K", "rx-gro-hw off");
        return Some(note("merging", "the card merges received frames (GRO in hardware)", why).try_this(off));
    }
    let is_native = look.state.xdp.is_none_or(|xdp| xdp.basic);
    if look.is_on(FEATURE_GRO)? && !is_native {
        let off = look.place.ethtool("-K", "gro off");
        return Some(note("merging", "received frames are merged before a capture (GRO)", why).try_this(off));
    }
    ok("merging", "a capture sees frames as they were on the wire")
}

fn offloads(look: &Look<'_>) -> Option<Finding> {
    let word = |feature| look.is_on(feature).map(|on| if on { "on" } else { "off" });
    let (gro, tso) = (word(FEATURE_GRO)?, word(FEATURE_TSO)?);
    ok("offloads", format!("GRO is {gro}, TSO {tso}: frames of send are cut or merged by neither"))
}

fn pause(look: &Look<'_>) -> Option<Finding> {
    let pause = look.state.pause?;
    let (rx, tx) = (pause.rx, pause.tx);
    if !rx && !tx {
        return ok("pause", "pause frames are off");
    }
    let (what, why) = match (rx, tx) {
        (true, true) => ("it obeys pause frames and sends them", "each end can make the other one wait"),
        (true, false) => {
            ("it obeys pause frames", "the other end can make send wait, below the rate asked for")
        }
        _ => (
            "it sends pause frames",
            "when its ring is full the other end waits, so no loss shows what is too much",
        ),
    };
    let off = look.place.ethtool("-A", "rx off tx off");
    Some(note("pause", what, why).try_this(off))
}

fn promiscuous(look: &Look<'_>) -> Option<Finding> {
    if !look.is_hardware() || look.state.link.is_promiscuous() {
        return None;
    }
    let why = "frames for other addresses end in the card, and no capture sees them";
    let on = look.place.ip(&format!("link set {} promisc on", look.name()));
    Some(note("promiscuous", "it takes frames for its own addresses only", why).try_this(on))
}

fn stamps(look: &Look<'_>) -> Option<Finding> {
    let is_hardware = look.state.timestamping.as_ref()?.is_hardware_receive();
    let by_xdp = look.state.xdp.is_some_and(|xdp| xdp.rx_timestamp);
    match (is_hardware, by_xdp) {
        (true, true) => {
            ok("timestamps", "the card can stamp received frames, and XDP programs may read the stamp")
        }
        (true, false) => ok("timestamps", "the card can stamp received frames, for packet sockets"),
        _ => ok("timestamps", "received frames are stamped by the kernel, not by a card"),
    }
}

fn iommu(look: &Look<'_>) -> Option<Finding> {
    let domain = look.state.iommu_domain.as_deref()?;
    if domain == "identity" {
        return ok("iommu", "the IOMMU lets it pass (identity)");
    }
    let why = "the memory of frames is mapped for the device, and taken away again, while they go through";
    let what = format!("the IOMMU translates what it reads and writes ({domain})");
    Some(note("iommu", what, why).try_this("iommu=pt on the kernel's command line"))
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::finding::Severity;
    use super::super::host::tests::good;
    use super::*;
    use host::{
        AttachedXdp, Features, Interrupt, Pause, Rings, Steering, Timestamping, XdpFeatures, XdpMode,
    };

    /// A card on which nothing is to be said.
    pub(in super::super) fn card() -> DeviceState {
        let link = host::sample::link("eth1", None, true);
        let ring = Ring { now: 4096, max: 4096 };
        let queues = Queues { tx: 8, rx: 8 };
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
            queues_max: Some(Queues { tx: 64, rx: 64 }),
            pause: Some(Pause::default()),
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

    fn look(state: &DeviceState, machine: &Machine, netns: Option<&str>) -> Vec<Finding> {
        let place = Place { ifname: "eth1".to_owned(), netns: netns.map(str::to_owned) };
        let near = machine.online.clone();
        findings(&Look { place: &place, state, machine, cpu: 7, near: Some(&near) })
    }

    #[test]
    fn a_good_card_is_all_well() {
        let found = look(&card(), &good(), None);
        let grave: Vec<_> = found.iter().filter(|finding| finding.severity != Severity::Ok).collect();
        // A card that is not promiscuous is how cards are.
        assert_eq!(grave.iter().map(|finding| finding.topic).collect::<Vec<_>>(), ["promiscuous"]);
    }

    /// What spoils a card, which topic tells of it, how gravely, and a part of what to type.
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
        (|s| s.link.xdp = Some(attached()), "xdp_program", Severity::Note, "link set dev eth1 xdp off"),
        (|s| s.xdp = Some(XdpFeatures::default()), "native_xdp", Severity::Note, "another driver"),
        (|s| s.rings.as_mut().unwrap().rx.now = 256, "rings", Severity::Note, "ethtool -G eth1 rx 4096"),
        (
            |s| s.queues = Some(Queues { tx: 2, rx: 2 }),
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
            |s| s.pause = Some(Pause { rx: true, tx: false }),
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
        AttachedXdp { mode: XdpMode::Native, program_id: 41 }
    }

    fn one_cpu(state: &mut DeviceState) {
        state.interrupts.iter_mut().for_each(|one| one.cpus = [0].into_iter().collect());
    }

    #[test]
    fn whatever_is_wrong_is_told_with_its_gravity_and_what_to_type() {
        for (spoil, topic, severity, tried) in ROWS {
            let mut state = card();
            spoil(&mut state);
            let found = look(&state, &good(), None);
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
        let found = look(&state, &good(), Some("lab"));
        let tries: Vec<_> =
            found.iter().flat_map(|finding| finding.tries.iter().map(String::as_str)).collect();
        assert!(tries.contains(&"ip -n lab link set eth1 up"), "{tries:?}");
        assert!(tries.contains(&"ip netns exec lab ethtool -G eth1 tx 4096"), "{tries:?}");
        assert!(tries.iter().any(|line| line.starts_with("ip netns exec lab sh -c 'for f in")), "{tries:?}");
    }

    #[test]
    fn a_node_without_a_cpu_of_ours_is_a_problem() {
        let machine = Machine { allowed: "0-3".parse().unwrap(), ..good() };
        let (place, state) = (Place { ifname: "eth1".to_owned(), netns: None }, card());
        let near = "4-7".parse().unwrap();
        let look = Look { place: &place, state: &state, machine: &machine, cpu: 3, near: Some(&near) };
        let found = numa(&look).expect("it is told");
        assert_eq!(
            (found.severity, found.tries),
            (Severity::Problem, vec!["taskset -c 4-7 wirerate send eth1".to_owned()])
        );
    }

    #[test]
    fn a_veth_of_one_queue_is_told_how_to_be_made_anew() {
        let mut state = card();
        state.link = host::sample::link("eth1", Some("veth"), true);
        (state.queues, state.queues_max) = (Some(Queues { tx: 1, rx: 1 }), Some(Queues { tx: 1, rx: 1 }));
        let finding = look(&state, &good(), None).into_iter().find(|one| one.topic == "queues").unwrap();
        assert!(finding.tries[0].contains("numtxqueues 4"), "{finding:?}");
        state.queues_max = Some(Queues { tx: 4, rx: 4 });
        let finding = look(&state, &good(), None).into_iter().find(|one| one.topic == "queues").unwrap();
        assert_eq!(finding.tries, ["ethtool -L eth1 tx 4 rx 4"]);
    }
}
