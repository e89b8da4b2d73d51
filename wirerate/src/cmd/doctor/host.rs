//! From the facts of the machine to findings: pure, one row a check.

use super::finding::{About, Finding, Severity};
use crate::units::human_count;
use host::{Machine, Right, Setting};

/// What one look at the machine can find; nothing where the kernel does not say.
type Check = fn(&Machine) -> Option<Finding>;

/// All checks, in the order in which they are shown.
const CHECKS: &[Check] = &[
    rights,
    jit,
    jit_harden,
    bpf_stats,
    btf,
    xdp_sockets,
    packet_sockets,
    fuse,
    mitigations,
    governor,
    smt,
    isolated,
    real_time,
    memlock,
    clocksource,
    stolen,
    load,
    iommu,
];

/// Share of the CPU time of a machine that others may take before it is worth a word, and before it is bad.
const STOLEN_NOTE: f64 = 0.01;
const STOLEN_PROBLEM: f64 = 0.1;
/// Runnable tasks for each CPU before that is worth a word.
const LOAD_NOTE: f64 = 0.5;
/// From so many CPUs on some can be set apart.
const CPUS_TO_ISOLATE: usize = 4;
/// Memory of an AF_XDP socket for long frames, which counts as locked.
const AF_XDP_BYTES: u64 = 8 << 20;

/// What a machine lets one send and capture.
pub fn findings(machine: &Machine) -> Vec<Finding> {
    CHECKS.iter().filter_map(|check| check(machine)).collect()
}

/// What could not be read, each in one line.
pub fn unknown(machine: &Machine) -> Vec<String> {
    let settings = [
        ("net.core.bpf_jit_enable", machine.jit),
        ("net.core.bpf_jit_harden", machine.jit_harden),
        ("kernel.bpf_stats_enabled", machine.bpf_stats),
        ("kernel.sched_rt_runtime_us", machine.rt_runtime_us),
    ];
    let told = settings.into_iter().filter_map(|(key, setting)| match setting {
        Setting::Is(_) => None,
        Setting::Hidden => Some(format!("{key}: only root may read it")),
        Setting::Missing => Some(format!("{key}: not there, or not shown in this network namespace")),
    });
    told.collect()
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
        return ok("rights", "this process has every right that sending and capturing take");
    }
    let names: Vec<_> = machine.missing_rights.iter().map(|right| right.name()).collect();
    let why = "the kernel did not answer all questions, and would refuse to send or capture";
    let place = if machine.in_user_namespace { "in a user namespace " } else { "" };
    let what = format!("{place}this process lacks {}", names.join(", "));
    Some(problem("rights", what, why).try_this("the same command as root"))
}

fn jit(machine: &Machine) -> Option<Finding> {
    match machine.jit {
        Setting::Is(0) => {
            let why =
                "every BPF program is interpreted, which costs xdp, skb and captures most of their speed";
            Some(
                problem("bpf_jit", "the BPF compiler is off", why)
                    .try_this("sysctl -w net.core.bpf_jit_enable=1"),
            )
        }
        Setting::Is(1) => ok("bpf_jit", "BPF programs are compiled"),
        Setting::Is(_) => {
            let why = "each program that is loaded is printed to the kernel's log";
            let what = "the BPF compiler is in debug mode";
            Some(note("bpf_jit", what, why).try_this("sysctl -w net.core.bpf_jit_enable=1"))
        }
        Setting::Hidden | Setting::Missing => None,
    }
}

fn jit_harden(machine: &Machine) -> Option<Finding> {
    match machine.jit_harden {
        Setting::Is(2) => {
            let why = "constants in the programs of root are hidden as well: each costs instructions more";
            let what = "the BPF compiler blinds constants for everybody";
            Some(note("bpf_jit_harden", what, why).try_this("sysctl -w net.core.bpf_jit_harden=1"))
        }
        _ => None,
    }
}

fn bpf_stats(machine: &Machine) -> Option<Finding> {
    match machine.bpf_stats {
        Setting::Is(1) => {
            let why = "the clock is read twice for each run of a program, so for each frame";
            let what = "the kernel measures the time of every BPF program";
            Some(note("bpf_stats", what, why).try_this("sysctl -w kernel.bpf_stats_enabled=0"))
        }
        _ => None,
    }
}

fn btf(machine: &Machine) -> Option<Finding> {
    if machine.has_btf {
        return ok("btf", "the kernel describes its types (BTF)");
    }
    let why = "the programs of wirerate are fitted to the kernel by them; some will not load";
    Some(
        problem("btf", "the kernel does not describe its types (BTF)", why)
            .try_this("a kernel built with CONFIG_DEBUG_INFO_BTF=y"),
    )
}

fn xdp_sockets(machine: &Machine) -> Option<Finding> {
    if machine.has_xdp_sockets {
        return ok("xdp_sockets", "the kernel knows AF_XDP sockets");
    }
    let why = "the af_xdp engine, and with it zero-copy and explicit queues, cannot work";
    let what = "the kernel knows no AF_XDP sockets";
    Some(note("xdp_sockets", what, why).try_this("a kernel built with CONFIG_XDP_SOCKETS=y"))
}

fn packet_sockets(machine: &Machine) -> Option<Finding> {
    if machine.has_packet_sockets {
        return ok("packet_sockets", "the kernel knows packet sockets");
    }
    let why = "the af_packet engine and captures with TPACKET cannot work";
    let what = "the kernel knows no packet sockets";
    Some(problem("packet_sockets", what, why).try_this("modprobe af_packet"))
}

fn fuse(machine: &Machine) -> Option<Finding> {
    if machine.has_fuse {
        return ok("fuse", "there is a /dev/fuse for exec and serve");
    }
    let why = "exec and serve cannot show the control files; sending and capturing need none";
    Some(note("fuse", "there is no /dev/fuse", why).try_this("modprobe fuse"))
}

/// A flaw, a word of what is done about it, and what that costs.
const COSTLY: &[(&str, &str, &str)] = &[
    ("spectre_v2", "Retpoline", "retpolines in each indirect call"),
    ("retbleed", "return thunk", "guarded returns"),
    ("spec_rstack_overflow", "Safe RET", "guarded returns"),
    ("indirect_target_selection", "thunks", "guarded indirect calls"),
    ("meltdown", "PTI", "other page tables for each system call"),
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
        return ok("mitigations", "what is done about flaws of the CPU costs frames next to nothing");
    }
    let why =
        "each frame makes several indirect calls; af_packet and af_xdp make a system call for each batch";
    let what = format!("flaws of the CPU are paid for with {}", costs.join(", "));
    Some(
        note("mitigations", what, why)
            .try_this("mitigations=off on the kernel's command line, where nothing runs that is not trusted"),
    )
}

fn governor(machine: &Machine) -> Option<Finding> {
    let slow: Vec<_> = machine.governors.iter().filter(|name| *name != "performance").cloned().collect();
    match (machine.governors.is_empty(), slow.is_empty()) {
        (true, _) => None,
        (_, true) => ok("governor", "the CPUs run at full speed (governor performance)"),
        _ => {
            let why = "a CPU that clocks down between bursts makes late frames, and rates that differ from run to run";
            let what = format!("the speed of the CPUs follows their load (governor {})", slow.join(", "));
            Some(note("governor", what, why).try_this("cpupower frequency-set -g performance"))
        }
    }
}

fn smt(machine: &Machine) -> Option<Finding> {
    match machine.smt {
        Some(true) => {
            let why =
                "two that send, or one that sends and one that captures, slow each other down on one core";
            Some(
                note("smt", "two CPUs share a core (SMT)", why)
                    .try_this("--cpus with one CPU of each core; `lscpu --extended` shows which they are"),
            )
        }
        _ => ok("smt", "no two CPUs share a core"),
    }
}

fn isolated(machine: &Machine) -> Option<Finding> {
    let list = &machine.isolated;
    if !list.is_empty() {
        return ok(
            "isolated",
            format!("the scheduler leaves CPUs {list} alone: --cpus {list} sends from them"),
        );
    }
    if machine.online.len() < CPUS_TO_ISOLATE {
        return ok("isolated", "no CPU is set apart, and there are too few for that");
    }
    let last = machine.online.iter().last().unwrap_or_default();
    let why = "whatever else runs may take the CPU of a paced run away; the longest gap shows it";
    Some(note("isolated", "no CPU is set apart for sending", why).try_this(format!(
        "isolcpus={last} nohz_full={last} rcu_nocbs={last} on the kernel's command line, then --cpus {last}"
    )))
}

fn real_time(machine: &Machine) -> Option<Finding> {
    let (Setting::Is(runtime), Setting::Is(period)) = (machine.rt_runtime_us, machine.rt_period_us) else {
        return None;
    };
    if runtime < 0 || runtime >= period {
        return ok("sched_rt_runtime_us", "threads of real-time priority are not interrupted");
    }
    let hole_ms = (period - runtime) as f64 / 1000.0;
    let what = format!("threads of real-time priority pause for {hole_ms} ms of each {} ms", period / 1000);
    if !machine.is_real_time {
        return ok(
            "sched_rt_runtime_us",
            format!("{what}; this process is none, nor does wirerate become one"),
        );
    }
    let why = "this process has real-time priority (chrt): a run has a hole of that length in each period";
    Some(problem("sched_rt_runtime_us", what, why).try_this("sysctl -w kernel.sched_rt_runtime_us=-1"))
}

fn memlock(machine: &Machine) -> Option<Finding> {
    let Some(bytes) = machine.memlock_bytes.filter(|_| machine.lacks(Right::IpcLock)) else {
        return ok("memlock", "memory may be locked without limit");
    };
    let what = format!("{} KiB of memory may be locked", human_count(bytes / 1024));
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
        return ok("clocksource", format!("the clock is read by the CPU itself ({name})"));
    }
    let why = "each reading asks a slow device: stamps and paced runs pay for it with every frame";
    let found = problem("clocksource", format!("the clock is {name}"), why);
    let better = machine.clocksources.iter().find(|other| !SLOW.contains(&other.as_str()));
    Some(found.try_this(better.map_or_else(
        || "tsc=reliable on the kernel's command line, where the CPU's counter can be trusted".to_owned(),
        |other| format!("echo {other} > /sys/devices/system/clocksource/clocksource0/current_clocksource"),
    )))
}

fn stolen(machine: &Machine) -> Option<Finding> {
    let share = machine.stolen?;
    let what = format!("since boot the hypervisor gave {:.1} % of the CPU time to others", share * 100.0);
    if share < STOLEN_NOTE {
        return (share > 0.0).then(|| Finding::ok(About::Host, "steal", what));
    }
    let why =
        "while it does, no frame is sent or taken from a ring: rates vary, gaps are long, rings overflow";
    let severity = if share < STOLEN_PROBLEM { Severity::Note } else { Severity::Problem };
    let found = note("steal", what, why).try_this("a virtual machine whose CPUs are its own");
    Some(Finding { severity, ..found })
}

fn load(machine: &Machine) -> Option<Finding> {
    let load = machine.load?;
    let what = format!("in the last minute {load:.2} tasks ran at a time, on {} CPUs", machine.online.len());
    if load < LOAD_NOTE * machine.online.len() as f64 {
        return ok("load", what);
    }
    let why = "others want the CPUs as well, so rates are lower and gaps longer than they could be";
    Some(note("load", what, why).try_this("`top` shows who they are"))
}

fn iommu(machine: &Machine) -> Option<Finding> {
    ok("iommu", if machine.has_iommu { "an IOMMU is at work" } else { "no IOMMU is at work" })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use host::CpuList;

    /// A machine on which nothing is to be said.
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
            stolen: Some(0.0),
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

    /// What spoils a machine, which topic tells of it, how gravely, and a part of what to type.
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
        (|m| m.stolen = Some(0.02), "steal", Severity::Note, "virtual machine"),
        (|m| m.stolen = Some(0.2), "steal", Severity::Problem, "virtual machine"),
        (|m| m.load = Some(4.5), "load", Severity::Note, "top"),
    ];

    fn flaw(machine: &mut Machine, name: &str, what: &str) {
        machine.vulnerabilities.insert(name.to_owned(), what.to_owned());
    }

    #[test]
    fn whatever_is_wrong_is_told_with_its_gravity_and_what_to_type() {
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
    fn what_may_not_be_read_is_said_and_not_guessed() {
        let machine = Machine { jit: Setting::Hidden, jit_harden: Setting::Missing, ..good() };
        let lines = unknown(&machine);
        assert!(
            lines[0].contains("bpf_jit_enable: only root") && lines[1].contains("not shown"),
            "{lines:?}"
        );
        assert!(!findings(&machine).iter().any(|finding| finding.topic.starts_with("bpf_jit")));
    }
}
