//! Checks of the machine: one pure function each, from its facts to a finding.

use super::finding::{About, Finding, Severity};
use host::{Machine, Right, Setting};
use units::human_count;

/// The TCP ports at which clients of the Open Traffic Generator look by default: HTTP on the first,
/// gRPC on the second. `wirerate otg` takes both on each.
pub const OTG_PORTS: [u16; 2] = [8443, 40051];

/// A check; `None` where the kernel does not provide the fact.
type HostCheck = fn(&Machine) -> Option<Finding>;

/// All checks, in the order of the report.
const CHECKS: &[HostCheck] = &[
    rights,
    jit,
    jit_harden,
    bpf_stats,
    btf,
    xdp_sockets,
    packet_sockets,
    fuse,
    otg_ports,
    mitigations,
    governor,
    smt,
    isolated,
    real_time,
    memlock,
    clocksource,
    steal,
    load,
    iommu,
];

/// Share of the CPU time taken by the hypervisor from which it is a note, and a problem.
const STOLEN_NOTE: f64 = 0.01;
const STOLEN_PROBLEM: f64 = 0.1;
/// Load average per CPU from which it is a note.
const LOAD_NOTE: f64 = 0.5;
/// Isolating a CPU makes sense from this number of CPUs on.
const CPUS_TO_ISOLATE: usize = 4;
/// Locked memory of an AF_XDP socket for long frames.
const AF_XDP_BYTES: u64 = 8 << 20;

/// The findings of all checks.
pub fn findings(machine: &Machine) -> Vec<Finding> {
    CHECKS.iter().filter_map(|check| check(machine)).collect()
}

/// Facts that could not be read, one line each.
pub fn unknown(machine: &Machine) -> Vec<String> {
    let settings = [
        ("net.core.bpf_jit_enable", machine.jit),
        ("net.core.bpf_jit_harden", machine.jit_harden),
        ("kernel.bpf_stats_enabled", machine.bpf_stats),
        ("kernel.sched_rt_runtime_us", machine.rt_runtime_us),
    ];
    let unread = settings.into_iter().filter_map(|(key, setting)| match setting {
        Setting::Is(_) => None,
        Setting::Hidden => Some(format!("{key}: only root can read it")),
        Setting::Missing => Some(format!("{key}: missing, or not visible in this network namespace")),
    });
    unread.collect()
}

fn ok(topic: &'static str, what: impl Into<String>) -> Option<Finding> {
    Some(Finding::ok(About::Host, topic, what))
}

fn note(topic: &'static str, what: impl Into<String>, why: impl Into<String>) -> Finding {
    Finding::note(About::Host, topic, what, why)
}

fn problem(topic: &'static str, what: impl Into<String>, why: impl Into<String>) -> Finding {
    Finding::problem(About::Host, topic, what, why)
}

fn rights(machine: &Machine) -> Option<Finding> {
    if machine.missing_rights.is_empty() {
        return ok("rights", "all capabilities for sending and capturing");
    }
    let names: Vec<_> = machine.missing_rights.iter().map(|right| right.name()).collect();
    let why = "some checks were not possible, and the kernel will reject sending or capturing";
    let target = if machine.in_user_namespace { "in a user namespace " } else { "" };
    let what = format!("{target}this process lacks {}", names.join(", "));
    Some(problem("rights", what, why).try_this("the same command as root"))
}

fn jit(machine: &Machine) -> Option<Finding> {
    match machine.jit {
        Setting::Is(0) => {
            let why = "BPF programs are interpreted: xdp, skb and captures lose most of their speed";
            Some(
                problem("bpf_jit", "the BPF JIT compiler is off", why)
                    .try_this("sysctl -w net.core.bpf_jit_enable=1"),
            )
        }
        Setting::Is(1) => ok("bpf_jit", "BPF JIT compiler is on"),
        Setting::Is(_) => {
            let why = "each loaded program is printed to the kernel log";
            let what = "the BPF JIT compiler is in debug mode";
            Some(note("bpf_jit", what, why).try_this("sysctl -w net.core.bpf_jit_enable=1"))
        }
        Setting::Hidden | Setting::Missing => None,
    }
}

fn jit_harden(machine: &Machine) -> Option<Finding> {
    match machine.jit_harden {
        Setting::Is(2) => {
            let why = "the programs of root are blinded as well: each constant costs more instructions";
            let what = "the BPF JIT compiler blinds constants for all users";
            Some(note("bpf_jit_harden", what, why).try_this("sysctl -w net.core.bpf_jit_harden=1"))
        }
        _ => None,
    }
}

fn bpf_stats(machine: &Machine) -> Option<Finding> {
    match machine.bpf_stats {
        Setting::Is(1) => {
            let why = "the clock is read twice per program run, so twice per frame";
            let what = "BPF run-time statistics are on";
            Some(note("bpf_stats", what, why).try_this("sysctl -w kernel.bpf_stats_enabled=0"))
        }
        _ => None,
    }
}

fn btf(machine: &Machine) -> Option<Finding> {
    if machine.has_btf {
        return ok("btf", "kernel type information (BTF) is available");
    }
    let why = "some BPF programs of wirerate cannot be adapted to the kernel and will not load";
    Some(
        problem("btf", "the kernel has no type information (BTF)", why)
            .try_this("a kernel built with CONFIG_DEBUG_INFO_BTF=y"),
    )
}

fn xdp_sockets(machine: &Machine) -> Option<Finding> {
    if machine.has_xdp_sockets {
        return ok("xdp_sockets", "the kernel supports AF_XDP sockets");
    }
    let why = "the af_xdp engine does not work; it is the one with zero-copy and explicit queues";
    let what = "the kernel does not support AF_XDP sockets";
    Some(note("xdp_sockets", what, why).try_this("a kernel built with CONFIG_XDP_SOCKETS=y"))
}

fn packet_sockets(machine: &Machine) -> Option<Finding> {
    if machine.has_packet_sockets {
        return ok("packet_sockets", "the kernel supports packet sockets");
    }
    let why = "the af_packet engine and captures with TPACKET do not work";
    let what = "the kernel does not support packet sockets";
    Some(problem("packet_sockets", what, why).try_this("modprobe af_packet"))
}

fn fuse(machine: &Machine) -> Option<Finding> {
    if machine.has_fuse {
        return ok("fuse", "/dev/fuse is available for exec and serve");
    }
    let why = "exec and serve do not work; sending and capturing do not need it";
    Some(note("fuse", "/dev/fuse is missing", why).try_this("modprobe fuse"))
}

fn otg_ports(machine: &Machine) -> Option<Finding> {
    let taken: Vec<_> = OTG_PORTS.iter().filter(|port| machine.listening.contains(port)).collect();
    let [first, second] = OTG_PORTS;
    let [taken] = taken[..] else {
        return match taken.is_empty() {
            true => ok("otg_ports", format!("TCP ports {first} and {second} are free for otg")),
            // A program that has both is most likely otg itself.
            false => {
                ok("otg_ports", format!("a program serves TCP ports {first} and {second}, those of otg"))
            }
        };
    };
    let why = "otg does not start without --listen";
    let what = format!("a program listens on TCP port {taken}, where clients look for otg");
    Some(note("otg_ports", what, why).try_this("`wirerate otg --listen 127.0.0.1:8444`"))
}

/// A vulnerability, a word of its mitigation in `/sys`, and the cost.
const COSTLY: &[(&str, &str, &str)] = &[
    ("spectre_v2", "Retpoline", "retpolines in each indirect call"),
    ("retbleed", "return thunk", "guarded returns"),
    ("spec_rstack_overflow", "Safe RET", "guarded returns"),
    ("indirect_target_selection", "thunks", "guarded indirect calls"),
    ("meltdown", "PTI", "page-table isolation for each system call"),
    ("mds", "Clear CPU buffers", "buffers cleared after each system call"),
    ("tsx_async_abort", "Clear CPU buffers", "buffers cleared after each system call"),
    ("mmio_stale_data", "Clear CPU buffers", "buffers cleared after each system call"),
    ("reg_file_data_sampling", "Clear Register File", "buffers cleared after each system call"),
];

fn mitigations(machine: &Machine) -> Option<Finding> {
    if machine.vulnerabilities.is_empty() {
        return None;
    }
    let applies = |row: &&(&str, &str, &str)| {
        machine.vulnerabilities.get(row.0).is_some_and(|what| what.contains(row.1))
    };
    let mut costs: Vec<_> = COSTLY.iter().filter(applies).map(|row| row.2).collect();
    costs.dedup();
    if costs.is_empty() {
        return ok("mitigations", "CPU mitigations: no significant cost");
    }
    let why = "each frame makes several indirect calls; af_packet and af_xdp make one system call per batch";
    let what = format!("CPU mitigations: {}", costs.join(", "));
    Some(
        note("mitigations", what, why)
            .try_this("mitigations=off on the kernel command line, if no untrusted code runs here"),
    )
}

fn governor(machine: &Machine) -> Option<Finding> {
    let slow: Vec<_> = machine.governors.iter().filter(|name| *name != "performance").cloned().collect();
    match (machine.governors.is_empty(), slow.is_empty()) {
        (true, _) => None,
        (_, true) => ok("governor", "CPU frequency governor: performance"),
        _ => {
            let why = "a CPU that clocks down between bursts sends late, and rates vary from run to run";
            let what = format!("CPU frequency governor: {}", slow.join(", "));
            Some(note("governor", what, why).try_this("cpupower frequency-set -g performance"))
        }
    }
}

fn smt(machine: &Machine) -> Option<Finding> {
    match machine.smt {
        Some(true) => {
            let why = "two busy threads on one core slow each other down";
            Some(
                note("smt", "SMT is on: two CPUs share a core", why)
                    .try_this("--cpus with one CPU per core; `lscpu --extended` lists the cores"),
            )
        }
        _ => ok("smt", "SMT is off or not supported"),
    }
}

fn isolated(machine: &Machine) -> Option<Finding> {
    let list = &machine.isolated;
    if !list.is_empty() {
        return ok("isolated", format!("isolated CPUs: {list}; --cpus {list} sends from them"));
    }
    if machine.online.len() < CPUS_TO_ISOLATE {
        return ok("isolated", "no isolated CPUs (this machine has too few to isolate one)");
    }
    let last = machine.online.iter().last().unwrap_or_default();
    let why = "other tasks can interrupt a paced run; its longest gap shows that";
    Some(note("isolated", "no isolated CPUs", why).try_this(format!(
        "isolcpus={last} nohz_full={last} rcu_nocbs={last} on the kernel command line, then --cpus {last}"
    )))
}

fn real_time(machine: &Machine) -> Option<Finding> {
    let (Setting::Is(runtime), Setting::Is(period)) = (machine.rt_runtime_us, machine.rt_period_us) else {
        return None;
    };
    if runtime < 0 || runtime >= period {
        return ok("sched_rt_runtime_us", "RT throttling is off");
    }
    let hole_ms = (period - runtime) as f64 / 1000.0;
    let what = format!("RT throttling: {hole_ms} ms of each {} ms", period / 1000);
    if !machine.is_real_time {
        return ok("sched_rt_runtime_us", format!("{what} (not applicable: not a real-time process)"));
    }
    let why = "this process has real-time priority (chrt), so a run pauses that long in each period";
    Some(problem("sched_rt_runtime_us", what, why).try_this("sysctl -w kernel.sched_rt_runtime_us=-1"))
}

fn memlock(machine: &Machine) -> Option<Finding> {
    let Some(bytes) = machine.memlock_bytes.filter(|_| machine.lacks(Right::IpcLock)) else {
        return ok("memlock", "locked memory is unlimited");
    };
    let what = format!("locked-memory limit: {} KiB", human_count(bytes / 1024));
    if bytes > AF_XDP_BYTES {
        return ok("memlock", what);
    }
    let why = "each queue of af_xdp locks 4 MiB for its frames, 8 MiB for long ones";
    Some(note("memlock", what, why).try_this("ulimit -l unlimited"))
}

fn clocksource(machine: &Machine) -> Option<Finding> {
    const SLOW: [&str; 4] = ["hpet", "acpi_pm", "jiffies", "pit"];
    let name = machine.clocksource.as_deref()?;
    if !SLOW.contains(&name) {
        return ok("clocksource", format!("clock source: {name}"));
    }
    let why = "each clock reading is slow, which costs time per frame in paced runs and timestamps";
    let found = problem("clocksource", format!("clock source: {name}"), why);
    let better = machine.clocksources.iter().find(|other| !SLOW.contains(&other.as_str()));
    Some(found.try_this(better.map_or_else(
        || "tsc=reliable on the kernel command line, if the counter of the CPU is reliable".to_owned(),
        |other| format!("echo {other} > /sys/devices/system/clocksource/clocksource0/current_clocksource"),
    )))
}

fn steal(machine: &Machine) -> Option<Finding> {
    let share = machine.steal?;
    let what = format!("steal: {:.1} % of the CPU time since boot", share * 100.0);
    if share < STOLEN_NOTE {
        return (share > 0.0).then(|| Finding::ok(About::Host, "steal", what));
    }
    let why =
        "while the hypervisor runs other machines, no frame is sent or read: rates vary, rings overflow";
    let severity = if share < STOLEN_PROBLEM { Severity::Note } else { Severity::Problem };
    let found = note("steal", what, why).try_this("a virtual machine with dedicated CPUs");
    Some(Finding { severity, ..found })
}

fn load(machine: &Machine) -> Option<Finding> {
    let load = machine.load?;
    let what = format!("load average {load:.2} on {} CPUs", machine.online.len());
    if load < LOAD_NOTE * machine.online.len() as f64 {
        return ok("load", what);
    }
    let why = "other tasks use the CPUs, so rates are lower and gaps longer";
    Some(note("load", what, why).try_this("`top` lists them"))
}

fn iommu(machine: &Machine) -> Option<Finding> {
    ok("iommu", if machine.has_iommu { "an IOMMU is active" } else { "no IOMMU is active" })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use host::CpuList;

    /// A machine without anything to improve.
    pub(in super::super) fn good() -> Machine {
        let cpus = |text: &str| text.parse::<CpuList>().expect("a list");
        Machine {
            kernel: "Linux 9.9.9".to_owned(),
            architecture: "x86_64".to_owned(),
            online: cpus("0-7"),
            allowed: cpus("0-7"),
            isolated: cpus("6-7"),
            nodes: cpus("0"),
            smt: Some(false),
            governors: ["performance".to_owned()].into(),
            vulnerabilities: [("meltdown".to_owned(), "Not affected".to_owned())].into(),
            clocksource: Some("tsc".to_owned()),
            clocksources: vec!["tsc".to_owned(), "hpet".to_owned()],
            steal: Some(0.0),
            load: Some(0.25),
            jit: Setting::Is(1),
            jit_harden: Setting::Is(0),
            bpf_stats: Setting::Is(0),
            rt_runtime_us: Setting::Is(950_000),
            rt_period_us: Setting::Is(1_000_000),
            is_real_time: false,
            memlock_bytes: Some(8 << 20),
            has_btf: true,
            has_xdp_sockets: true,
            has_packet_sockets: true,
            has_fuse: true,
            listening: [22].into(),
            has_iommu: false,
            missing_rights: Vec::new(),
            in_user_namespace: false,
        }
    }

    #[test]
    fn a_good_machine_is_all_well() {
        let found = findings(&good());
        assert!(found.iter().all(|finding| finding.severity == Severity::Ok), "{found:?}");
        assert!(found.iter().all(|finding| finding.tries.is_empty() && finding.why.is_empty()), "{found:?}");
        assert_eq!(unknown(&good()), Vec::<String>::new());
    }

    /// What spoils a machine, the topic that reports it, its severity, and a part of what to try.
    type Row = (fn(&mut Machine), &'static str, Severity, &'static str);

    const ROWS: &[Row] = &[
        (|m| m.missing_rights = vec![Right::Bpf], "rights", Severity::Problem, "as root"),
        (|m| m.jit = Setting::Is(0), "bpf_jit", Severity::Problem, "net.core.bpf_jit_enable=1"),
        (|m| m.jit = Setting::Is(2), "bpf_jit", Severity::Note, "net.core.bpf_jit_enable=1"),
        (|m| m.jit_harden = Setting::Is(2), "bpf_jit_harden", Severity::Note, "bpf_jit_harden=1"),
        (|m| m.bpf_stats = Setting::Is(1), "bpf_stats", Severity::Note, "kernel.bpf_stats_enabled=0"),
        (|m| m.has_btf = false, "btf", Severity::Problem, "CONFIG_DEBUG_INFO_BTF"),
        (|m| m.has_xdp_sockets = false, "xdp_sockets", Severity::Note, "CONFIG_XDP_SOCKETS"),
        (|m| m.has_packet_sockets = false, "packet_sockets", Severity::Problem, "modprobe af_packet"),
        (|m| m.has_fuse = false, "fuse", Severity::Note, "modprobe fuse"),
        (|m| m.listening = [8443].into(), "otg_ports", Severity::Note, "otg --listen 127.0.0.1:8444"),
        (
            |m| flaw(m, "spectre_v2", "Mitigation: Retpolines; IBPB: conditional"),
            "mitigations",
            Severity::Note,
            "mitigations=off",
        ),
        (|m| flaw(m, "meltdown", "Mitigation: PTI"), "mitigations", Severity::Note, "mitigations=off"),
        (|m| m.governors = ["powersave".to_owned()].into(), "governor", Severity::Note, "cpupower"),
        (|m| m.smt = Some(true), "smt", Severity::Note, "--cpus"),
        (|m| m.isolated = CpuList::default(), "isolated", Severity::Note, "isolcpus=7"),
        (|m| m.is_real_time = true, "sched_rt_runtime_us", Severity::Problem, "sched_rt_runtime_us=-1"),
        (|m| m.missing_rights = vec![Right::IpcLock], "memlock", Severity::Note, "ulimit -l"),
        (|m| m.clocksource = Some("hpet".to_owned()), "clocksource", Severity::Problem, "echo tsc >"),
        (|m| m.steal = Some(0.02), "steal", Severity::Note, "virtual machine"),
        (|m| m.steal = Some(0.2), "steal", Severity::Problem, "virtual machine"),
        (|m| m.load = Some(4.5), "load", Severity::Note, "top"),
    ];

    fn flaw(machine: &mut Machine, name: &str, what: &str) {
        machine.vulnerabilities.insert(name.to_owned(), what.to_owned());
    }

    #[test]
    fn each_problem_has_its_severity_and_something_to_try() {
        for (spoil, topic, severity, tried) in ROWS {
            let mut machine = good();
            spoil(&mut machine);
            let found = findings(&machine);
            let finding = found.iter().find(|finding| finding.topic == *topic).expect(topic);
            assert_eq!(finding.severity, *severity, "{finding:?}");
            assert!(finding.tries.iter().any(|line| line.contains(tried)), "{finding:?}");
            assert!(!finding.why.is_empty(), "{finding:?}");
            let others = found.iter().filter(|finding| finding.topic != *topic && finding.topic != "rights");
            assert!(others.clone().all(|finding| finding.severity == Severity::Ok), "{found:?}");
        }
    }

    #[test]
    fn a_clock_without_a_better_one_and_a_machine_of_two_cpus() {
        let mut machine = good();
        (machine.clocksource, machine.clocksources) = (Some("hpet".to_owned()), vec!["hpet".to_owned()]);
        machine.isolated = CpuList::default();
        machine.online = "0-1".parse().expect("a list");
        let found = findings(&machine);
        let of = |topic| found.iter().find(|finding| finding.topic == topic).expect(topic);
        assert!(of("clocksource").tries[0].contains("tsc=reliable"));
        assert_eq!(of("isolated").severity, Severity::Ok);
    }

    #[test]
    fn what_cannot_be_read_is_reported_as_unknown() {
        let machine = Machine { jit: Setting::Hidden, jit_harden: Setting::Missing, ..good() };
        let lines = unknown(&machine);
        assert!(
            lines[0].contains("bpf_jit_enable: only root") && lines[1].contains("not visible"),
            "{lines:?}"
        );
        assert!(!findings(&machine).iter().any(|finding| finding.topic.starts_with("bpf_jit")));
    }
}
