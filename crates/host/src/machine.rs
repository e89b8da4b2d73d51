//! Facts about the machine that matter for packet rates: a read-only snapshot.
//!
//! Support in the kernel is tested by use, because build options and version are less reliable.

use crate::cpu::CpuList;
use crate::sys;
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::utsname::uname;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const CPUS: &str = "/sys/devices/system/cpu";
const CLOCK: &str = "/sys/devices/system/clocksource/clocksource0";

/// A setting under `/proc/sys`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Setting {
    /// Its value.
    Is(i64),
    /// Not readable for this process.
    Hidden,
    /// Missing in this kernel or network namespace.
    #[default]
    Missing,
}

/// A capability that wirerate needs (capabilities(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Right {
    /// Devices and XDP.
    NetAdmin,
    /// Packet sockets.
    NetRaw,
    /// Unlimited locked memory.
    IpcLock,
    /// Other namespaces.
    SysAdmin,
    /// Tracepoints.
    PerfMon,
    /// BPF programs.
    Bpf,
}

impl Right {
    const ALL: [Self; 6] =
        [Self::NetAdmin, Self::NetRaw, Self::IpcLock, Self::SysAdmin, Self::PerfMon, Self::Bpf];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::NetAdmin => "CAP_NET_ADMIN",
            Self::NetRaw => "CAP_NET_RAW",
            Self::IpcLock => "CAP_IPC_LOCK",
            Self::SysAdmin => "CAP_SYS_ADMIN",
            Self::PerfMon => "CAP_PERFMON",
            Self::Bpf => "CAP_BPF",
        }
    }

    /// Its number in `linux/capability.h`.
    fn bit(self) -> u32 {
        match self {
            Self::NetAdmin => 12,
            Self::NetRaw => 13,
            Self::IpcLock => 14,
            Self::SysAdmin => 21,
            Self::PerfMon => 38,
            Self::Bpf => 39,
        }
    }

    /// CAP_SYS_ADMIN includes the newer ones (Linux 5.8).
    fn is_held(self, held: u64) -> bool {
        let has = |right: Self| held >> right.bit() & 1 == 1;
        has(self) || matches!(self, Self::PerfMon | Self::Bpf) && has(Self::SysAdmin)
    }

    /// True if the effective capabilities in `/proc/PID/status` include it.
    pub(crate) fn is_in(self, status: &str) -> bool {
        let held = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        let held = held.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
        held.is_some_and(|held| self.is_held(held))
    }
}

/// A snapshot of the machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Machine {
    /// `Linux 6.18.44`.
    pub kernel: String,
    /// `x86_64`, ...
    pub architecture: String,
    /// Online CPUs.
    pub online: CpuList,
    /// CPUs available to this process.
    pub allowed: CpuList,
    /// Isolated CPUs.
    pub isolated: CpuList,
    /// Possible NUMA nodes.
    pub nodes: CpuList,
    /// Hyper-threads are on; `None` if unknown.
    pub smt: Option<bool>,
    /// Active frequency governors; none if hypervisor or firmware decide.
    pub governors: BTreeSet<String>,
    /// CPU vulnerabilities and their mitigations.
    pub vulnerabilities: BTreeMap<String, String>,
    /// The current clock source.
    pub clocksource: Option<String>,
    /// Available clock sources.
    pub clocksources: Vec<String>,
    /// Steal time since boot as a share of all CPU time, from 0 to 1.
    pub steal: Option<f64>,
    /// Load average of one minute.
    pub load: Option<f64>,
    /// `net.core.bpf_jit_enable`; missing outside the initial network namespace.
    pub jit: Setting,
    /// `net.core.bpf_jit_harden`.
    pub jit_harden: Setting,
    /// `kernel.bpf_stats_enabled`.
    pub bpf_stats: Setting,
    /// `kernel.sched_rt_runtime_us`: share of `sched_rt_period_us` for real-time threads; -1 for
    /// all.
    pub rt_runtime_us: Setting,
    /// `kernel.sched_rt_period_us`.
    pub rt_period_us: Setting,
    /// This process has real-time priority (`chrt`).
    pub is_real_time: bool,
    /// Locked-memory limit in bytes; `None` for unlimited.
    pub memlock_bytes: Option<u64>,
    /// Kernel type information is available (`/sys/kernel/btf/vmlinux`).
    pub has_btf: bool,
    /// AF_XDP sockets are supported.
    pub has_xdp_sockets: bool,
    /// Packet sockets are supported.
    pub has_packet_sockets: bool,
    /// `/dev/fuse` exists.
    pub has_fuse: bool,
    /// TCP ports on which programs listen in this network namespace.
    pub listening: BTreeSet<u16>,
    /// An IOMMU is active.
    pub has_iommu: bool,
    /// Capabilities that this process lacks.
    pub missing_rights: Vec<Right>,
    /// It runs in a user namespace, whose capabilities are not valid for BPF.
    pub in_user_namespace: bool,
}

/// The name of this machine, as `uname -n` prints it.
pub fn machine_name() -> String {
    uname().map(|uts| uts.nodename().to_string_lossy().into_owned()).unwrap_or_default()
}

impl Machine {
    /// Reads the facts. Unreadable ones count as missing.
    pub fn read() -> Self {
        let word = |path: &str| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
        let kernel = uname().ok().map(|uts| {
            let text = |part: &std::ffi::OsStr| part.to_string_lossy().into_owned();
            (format!("{} {}", text(uts.sysname()), text(uts.release())), text(uts.machine()))
        });
        let (kernel, architecture) = kernel.unwrap_or_default();
        let clocks = word(&format!("{CLOCK}/available_clocksource")).unwrap_or_default();
        Self {
            kernel,
            architecture,
            online: CpuList::online().unwrap_or_default(),
            allowed: CpuList::allowed().unwrap_or_default(),
            isolated: CpuList::isolated().unwrap_or_default(),
            nodes: CpuList::possible_nodes().unwrap_or_default(),
            smt: word(&format!("{CPUS}/smt/active")).map(|text| text == "1"),
            governors: governors(),
            vulnerabilities: vulnerabilities(),
            clocksource: word(&format!("{CLOCK}/current_clocksource")),
            clocksources: clocks.split_whitespace().map(str::to_owned).collect(),
            steal: word("/proc/stat").and_then(|text| steal(&text)),
            load: word("/proc/loadavg").and_then(|text| text.split(' ').next()?.parse().ok()),
            jit: setting("net/core/bpf_jit_enable"),
            jit_harden: setting("net/core/bpf_jit_harden"),
            bpf_stats: setting("kernel/bpf_stats_enabled"),
            rt_runtime_us: setting("kernel/sched_rt_runtime_us"),
            rt_period_us: setting("kernel/sched_rt_period_us"),
            is_real_time: word("/proc/self/stat").is_some_and(|text| is_real_time(&text)),
            memlock_bytes: memlock_bytes(),
            has_btf: Path::new("/sys/kernel/btf/vmlinux").exists(),
            has_xdp_sockets: sys::knows_sockets(libc::AF_XDP),
            has_packet_sockets: sys::knows_sockets(libc::AF_PACKET),
            has_fuse: Path::new("/dev/fuse").exists(),
            listening: ["/proc/net/tcp", "/proc/net/tcp6"]
                .into_iter()
                .filter_map(word)
                .flat_map(|text| listening(&text))
                .collect(),
            has_iommu: fs::read_dir("/sys/class/iommu").is_ok_and(|mut units| units.next().is_some()),
            missing_rights: word("/proc/self/status")
                .map(|text| missing_rights(&text, in_user_namespace()))
                .unwrap_or_default(),
            in_user_namespace: in_user_namespace(),
        }
    }

    /// True if this process lacks that capability.
    pub fn lacks(&self, right: Right) -> bool {
        self.missing_rights.contains(&right)
    }
}

fn setting(key: &str) -> Setting {
    match fs::read_to_string(format!("/proc/sys/{key}")) {
        Ok(text) => text.trim().parse().map_or(Setting::Hidden, Setting::Is),
        Err(error) if error.kind() == ErrorKind::NotFound => Setting::Missing,
        Err(_) => Setting::Hidden,
    }
}

/// The ports of sockets in the state LISTEN (10), from the rows of `/proc/net/tcp`.
fn listening(rows: &str) -> Vec<u16> {
    let port = |row: &str| {
        let mut fields = row.split_whitespace().skip(1);
        let (_, port) = fields.next()?.rsplit_once(':')?;
        let state = fields.nth(1)?;
        (state == "0A").then(|| u16::from_str_radix(port, 16).ok())?
    };
    rows.lines().skip(1).filter_map(port).collect()
}

fn governors() -> BTreeSet<String> {
    let policies = fs::read_dir(format!("{CPUS}/cpufreq")).into_iter().flatten().flatten();
    let read = |policy: fs::DirEntry| fs::read_to_string(policy.path().join("scaling_governor")).ok();
    policies.filter_map(read).map(|name| name.trim().to_owned()).collect()
}

fn vulnerabilities() -> BTreeMap<String, String> {
    let files = fs::read_dir(format!("{CPUS}/vulnerabilities")).into_iter().flatten().flatten();
    files
        .filter_map(|file| {
            let text = fs::read_to_string(file.path()).ok()?;
            Some((file.file_name().into_string().ok()?, text.trim().to_owned()))
        })
        .collect()
}

/// CPU time of the machine since boot, in clock ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTicks {
    /// Time that the hypervisor gave to others.
    pub steal: u64,
    /// All time.
    pub total: u64,
}

impl CpuTicks {
    /// Reads them. `None` where the kernel does not report steal time.
    pub fn read() -> Option<Self> {
        Self::of(&fs::read_to_string("/proc/stat").ok()?)
    }

    /// Steal time since `earlier` as a share of all time, in parts per billion.
    #[must_use]
    pub fn steal_ppb_since(&self, earlier: &Self) -> u64 {
        let [steal, total] =
            [self.steal.saturating_sub(earlier.steal), self.total.saturating_sub(earlier.total)];
        (u128::from(steal) * 1_000_000_000 / u128::from(total.max(1))) as u64
    }

    /// From the first line of `/proc/stat`.
    fn of(stat: &str) -> Option<Self> {
        let line = stat.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Vec<u64> = line.split_whitespace().map_while(|word| word.parse().ok()).collect();
        // user nice system idle iowait irq softirq steal; what follows is part of user.
        let counted = ticks.get(..8)?;
        Some(Self { steal: counted[7], total: counted.iter().sum() })
    }
}

fn steal(stat: &str) -> Option<f64> {
    let ticks = CpuTicks::of(stat)?;
    (ticks.total > 0).then(|| ticks.steal as f64 / ticks.total as f64)
}

/// From `/proc/self/stat`, whose second field may contain spaces and parentheses.
fn is_real_time(stat: &str) -> bool {
    // Field 41; the fields after the name start with the third.
    const POLICY: usize = 41 - 3;
    let policy = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(POLICY));
    policy.is_some_and(|policy| ["1", "2"].contains(&policy)) // SCHED_FIFO, SCHED_RR
}

fn memlock_bytes() -> Option<u64> {
    let (soft, _) = getrlimit(Resource::RLIMIT_MEMLOCK).ok()?;
    (soft != libc::RLIM_INFINITY).then_some(soft)
}

/// True in any user namespace but the initial one, whose inode is fixed (`PROC_USER_INIT_INO`).
fn in_user_namespace() -> bool {
    const FIRST: u64 = 0xEFFF_FFFD;
    fs::metadata("/proc/self/ns/user").is_ok_and(|meta| meta.ino() != FIRST)
}

/// From `/proc/self/status`. In a user namespace only capabilities for its own network namespaces
/// count.
fn missing_rights(status: &str, in_user_namespace: bool) -> Vec<Right> {
    let counts = |right: Right| !in_user_namespace || matches!(right, Right::NetAdmin | Right::NetRaw);
    Right::ALL.into_iter().filter(|right| !(right.is_in(status) && counts(*right))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_read_without_a_right() {
        let machine = Machine::read();
        assert!(machine.kernel.starts_with("Linux ") && !machine.architecture.is_empty());
        assert!(machine.online.len() >= machine.isolated.len() && !machine.allowed.is_empty());
        assert!(machine.has_packet_sockets, "every kernel that runs these tests has them");
        assert!(!machine.is_real_time);
    }

    #[test]
    fn rights_are_bits_and_the_old_one_holds_the_new() {
        assert_eq!(missing_rights("Name:\tx\nCapEff:\t000001ffffffffff\n", false), []);
        assert_eq!(missing_rights("CapEff:\t0000000000000000", false), Right::ALL);
        assert_eq!(missing_rights("", false), Right::ALL);
        let old = 1u64 << 12 | 1 << 13 | 1 << 21;
        assert_eq!(missing_rights(&format!("CapEff:\t{old:016x}"), false), [Right::IpcLock]);
    }

    #[test]
    fn ports_of_listening_sockets() {
        let rows = "  sl  local_address rem_address   st tx_queue\n\
               0: 0100007F:20FB 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0\n\
               1: 0100007F:20FC 0100007F:1234 01 00000000:00000000 00:00000000 00000000 0\n\
               2: 00000000000000000000000001000000:9C73 00000000000000000000000000000000:0000 0A x\n";
        assert_eq!(listening(rows), [8443, 40051]);
        assert!(listening("").is_empty());
    }

    #[test]
    fn root_of_a_user_namespace_has_no_right_to_bpf() {
        let missing = missing_rights("CapEff:\t000001ffffffffff", true);
        assert_eq!(missing, [Right::IpcLock, Right::SysAdmin, Right::PerfMon, Right::Bpf]);
    }

    #[test]
    fn a_policy_is_found_behind_any_name() {
        let fields = |policy: u32| format!("7 (a) b) S {} {policy} 0", ["0"; 37].join(" "));
        assert!(is_real_time(&fields(1)) && is_real_time(&fields(2)));
        assert!(!is_real_time(&fields(0)) && !is_real_time("") && !is_real_time("7 (x) S 1"));
    }

    #[test]
    fn stolen_time_is_a_share() {
        assert_eq!(steal("cpu  50 0 0 40 0 0 0 10 0 0\ncpu0 1"), Some(0.1));
        let later = CpuTicks { steal: 12, total: 140 };
        assert_eq!(later.steal_ppb_since(&CpuTicks { steal: 10, total: 100 }), 50_000_000);
        assert_eq!((steal("cpu  0 0 0 0 0 0 0 0"), steal("cpu 1 2"), steal("")), (None, None, None));
    }
}
