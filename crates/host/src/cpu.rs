//! CPUs and NUMA nodes: online, allowed and isolated CPUs, pinning, and CPU time.

use crate::stack::{LinkId, Stack};
use crate::{HostError, KernelError};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use std::fmt;
use std::fs;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

const CPUS: &str = "/sys/devices/system/cpu";
const NODES: &str = "/sys/devices/system/node";
/// More than any kernel supports; limits the memory for "0-4000000000".
const NUMBER_MAX: u32 = 65_535;

/// CPUs or NUMA nodes in ascending order, in the format of the kernel: `0,2-3`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CpuList(Vec<u32>);

impl CpuList {
    /// Online CPUs.
    pub fn online() -> Result<Self, HostError> {
        read_list(&format!("{CPUS}/online"))
    }

    /// CPUs available to this process (`taskset`, cpusets).
    pub fn allowed() -> Result<Self, HostError> {
        let path = "/proc/self/status";
        let text = read(path)?;
        let list = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        list.unwrap_or_default().trim().parse()
    }

    /// Isolated CPUs (`isolcpus=`).
    pub fn isolated() -> Result<Self, HostError> {
        read_list(&format!("{CPUS}/isolated"))
    }

    /// Possible NUMA nodes; node 0 for a kernel without NUMA.
    pub fn possible_nodes() -> Result<Self, HostError> {
        match read_list(&format!("{NODES}/possible")) {
            Err(error) if error.errno() == Some(libc::ENOENT) => Ok(Self(vec![0])),
            other => other,
        }
    }

    /// In ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().copied()
    }

    /// In ascending order.
    pub fn as_slice(&self) -> &[u32] {
        &self.0
    }

    /// True if it contains `number`.
    pub fn contains(&self, number: u32) -> bool {
        self.0.binary_search(&number).is_ok()
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if it is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<u32> for CpuList {
    fn from_iter<I: IntoIterator<Item = u32>>(numbers: I) -> Self {
        let mut numbers = Vec::from_iter(numbers);
        numbers.sort_unstable();
        numbers.dedup();
        Self(numbers)
    }
}

impl FromStr for CpuList {
    type Err = HostError;

    /// Numbers and ranges separated by commas; an empty text is an empty list.
    fn from_str(text: &str) -> Result<Self, HostError> {
        let bad = || HostError::BadCpuList { text: text.to_owned() };
        if text.is_empty() {
            return Ok(Self::default());
        }
        let ranges: Option<Vec<_>> = text.split(',').map(range).collect();
        Ok(ranges.ok_or_else(bad)?.into_iter().flatten().collect())
    }
}

fn range(text: &str) -> Option<std::ops::RangeInclusive<u32>> {
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|number| digits && *number <= NUMBER_MAX)
    };
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (number(first)?, number(last)?);
    (first <= last).then_some(first..=last)
}

impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs = self.0.chunk_by(|a, b| b - a == 1);
        for (place, run) in runs.enumerate() {
            let comma = if place == 0 { "" } else { "," };
            match run {
                [one] => write!(f, "{comma}{one}")?,
                [first, .., last] => write!(f, "{comma}{first}-{last}")?,
                [] => {}
            }
        }
        Ok(())
    }
}

/// Pins the calling thread to a CPU.
pub fn pin_thread(cpu: u32) -> Result<(), HostError> {
    let mut set = CpuSet::new();
    let answer = set.set(cpu as usize).and_then(|()| sched_setaffinity(Pid::from_raw(0), &set));
    match answer {
        Ok(()) => Ok(()),
        Err(nix::errno::Errno::EINVAL) => {
            Err(HostError::NoCpu { cpu, online: CpuList::online()?.to_string() })
        }
        Err(errno) => Err(HostError::refused("pin a thread to", format!("CPU {cpu}"))(errno)),
    }
}

/// Lets the calling thread run on the CPUs of the first thread of its process.
pub fn unpin_thread() -> Result<(), HostError> {
    sched_getaffinity(Pid::this())
        .and_then(|cpus| sched_setaffinity(Pid::from_raw(0), &cpus))
        .map_err(HostError::refused("unpin", "a thread"))
}

/// NUMA node of a CPU; `None` for a kernel without NUMA.
pub fn node_of_cpu(cpu: u32) -> Option<u32> {
    let entries = fs::read_dir(format!("{CPUS}/cpu{cpu}")).ok()?;
    entries.flatten().find_map(|entry| entry.file_name().to_str()?.strip_prefix("node")?.parse().ok())
}

/// CPU time of the calling thread.
pub fn thread_cpu_time() -> Duration {
    cpu_time(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

/// CPU time of this process.
pub fn process_cpu_time() -> Duration {
    cpu_time(ClockId::CLOCK_PROCESS_CPUTIME_ID)
}

/// What kept a thread from its CPU, so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuUse {
    /// Nanoseconds that the thread was ready to run and waited for a CPU.
    pub waited_ns: u64,
    /// Nanoseconds that softirqs (received frames, mostly) took on the CPU, in steps of 10 ms.
    pub softirq_ns: u64,
    /// Nanoseconds that the hypervisor gave the CPU to others, in steps of 10 ms.
    pub steal_ns: u64,
}

/// Nanoseconds of a clock tick of `/proc/stat` (USER_HZ is 100 on every architecture of Linux that
/// wirerate runs on).
const TICK_NS: u64 = 10_000_000;

impl CpuUse {
    /// Of the calling thread on `cpu`. What the kernel does not tell is 0.
    pub fn of_this_thread(cpu: u32) -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        Self::of(&read("/proc/thread-self/schedstat"), &read("/proc/stat"), cpu)
    }

    /// The difference to `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            waited_ns: self.waited_ns.saturating_sub(earlier.waited_ns),
            softirq_ns: self.softirq_ns.saturating_sub(earlier.softirq_ns),
            steal_ns: self.steal_ns.saturating_sub(earlier.steal_ns),
        }
    }

    /// From `schedstat` (time on a CPU, time waiting for one, turns) and `/proc/stat`.
    fn of(schedstat: &str, stat: &str, cpu: u32) -> Self {
        let number = |word: &str| word.parse().unwrap_or(0);
        let waited_ns = schedstat.split_whitespace().nth(1).map_or(0, number);
        let name = format!("cpu{cpu} ");
        let line = stat.lines().find_map(|line| line.strip_prefix(&name)).unwrap_or_default();
        // user nice system idle iowait irq softirq steal
        let ticks: Vec<u64> = line.split_whitespace().map(number).collect();
        let time_ns = |index: usize| ticks.get(index).copied().unwrap_or(0) * TICK_NS;
        Self { waited_ns, softirq_ns: time_ns(6), steal_ns: time_ns(7) }
    }
}

fn cpu_time(clock: ClockId) -> Duration {
    clock_gettime(clock).expect("this clock is always there (2.6.12)").into()
}

impl Stack {
    /// NUMA node of a device; `None` for virtual devices and if unknown.
    pub fn numa_node<'a>(&self, id: impl Into<LinkId<'a>>) -> Result<Option<u32>, HostError> {
        let Some(parent) = self.link(id)?.parent else { return Ok(None) };
        // Not by /sys/class/net, which shows the devices of one namespace only.
        let device = format!("/sys/bus/{}/devices/{}", parent.bus, parent.name);
        let Ok(device) = fs::canonicalize(device) else { return Ok(None) };
        Ok(device.ancestors().find_map(node_of_folder))
    }
}

/// A virtio device has no node, but its PCI device has; -1 means unknown.
fn node_of_folder(folder: &Path) -> Option<u32> {
    fs::read_to_string(folder.join("numa_node")).ok()?.trim().parse().ok()
}

fn read_list(path: &str) -> Result<CpuList, HostError> {
    read(path)?.trim().parse()
}

fn read(path: &str) -> Result<String, HostError> {
    fs::read_to_string(path).map_err(|error| HostError::Refused {
        act: "read",
        object: path.to_owned(),
        source: KernelError::from(error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lists_are_read_and_written_as_the_kernel_does() {
        let list: CpuList = "0,2-3,7,5-6".parse().unwrap();
        assert_eq!(list.as_slice(), [0, 2, 3, 5, 6, 7]);
        assert_eq!(list.to_string(), "0,2-3,5-7");
        assert!(list.contains(6) && !list.contains(1));
        assert_eq!("".parse::<CpuList>().unwrap().to_string(), "");
        assert_eq!("1,1,0-1".parse::<CpuList>().unwrap().as_slice(), [0, 1]);
    }

    #[test]
    fn bad_lists_are_refused() {
        for bad in ["a", "1-", "-1", "3-2", "1,,2", " 1", "+1", "1-2-3", "0-4000000000", "65536", ","] {
            let error = bad.parse::<CpuList>().unwrap_err();
            assert!(matches!(error, HostError::BadCpuList { .. }), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn text_round_trips(numbers in prop::collection::vec(0..300u32, 0..40)) {
            let list: CpuList = numbers.into_iter().collect();
            prop_assert_eq!(list.to_string().parse::<CpuList>().unwrap(), list);
        }
    }

    #[test]
    fn this_machine_has_cpus_and_we_may_use_some() {
        let (online, allowed) = (CpuList::online().unwrap(), CpuList::allowed().unwrap());
        assert!(!online.is_empty() && !allowed.is_empty());
        assert!(CpuList::isolated().unwrap().len() < online.len());
        assert!(!CpuList::possible_nodes().unwrap().is_empty());
    }

    #[test]
    fn a_pinned_thread_stays_and_a_missing_cpu_is_said() {
        let cpu = CpuList::allowed().unwrap().as_slice()[0];
        std::thread::spawn(move || {
            pin_thread(cpu).unwrap();
            assert_eq!(nix::sched::sched_getcpu().unwrap(), cpu as usize);
        })
        .join()
        .unwrap();
        for missing in [1023, 4000] {
            let error = pin_thread(missing).unwrap_err();
            let HostError::NoCpu { online, .. } = &error else { panic!("{error:?}") };
            assert_eq!(*online, CpuList::online().unwrap().to_string());
        }
    }

    #[test]
    fn what_kept_a_thread_from_its_cpu() {
        let stat = "cpu  9 9 9 9 9 9 9 9\ncpu1 1 2 3 4 5 6 7 8 0 0\ncpu11 0 0 0 0 0 0 50 0\n";
        let first = CpuUse::of("100 250 3\n", stat, 1);
        assert_eq!(first, CpuUse { waited_ns: 250, softirq_ns: 70_000_000, steal_ns: 80_000_000 });
        assert_eq!(CpuUse::of("1 900 4", stat, 1).since(&first).waited_ns, 650);
        assert_eq!(CpuUse::of("", "", 0), CpuUse::default());
        assert!(CpuUse::of_this_thread(0).since(&CpuUse::default()).waited_ns < 1 << 62);
    }

    #[test]
    fn work_costs_cpu_time() {
        let before = thread_cpu_time();
        let mut sum = 0u64;
        while thread_cpu_time() == before {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(process_cpu_time() >= thread_cpu_time() - before);
    }
}
