//! Facts of the machine and its load, which belong to every result.

use anyhow::{Context, Result};
use serde::Serialize;
use std::fs;
use std::path::Path;
use std::process::Command;

/// What stays the same during a bench.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Host {
    /// Model of the first CPU.
    pub(crate) cpu: String,
    /// CPUs online, as the kernel writes them.
    pub(crate) cpus: String,
    /// `Linux 6.18.44 x86_64`.
    pub(crate) kernel: String,
    /// Frequency governor of the first CPU, where there is one.
    pub(crate) governor: Option<String>,
    /// What the kernel does against faults of the CPU, each with its name.
    pub(crate) mitigations: Vec<String>,
    /// An IOMMU is in use.
    pub(crate) iommu: bool,
    /// Mean number of runnable tasks in the last minute.
    pub(crate) load: f64,
    /// Where the binary under test is.
    pub(crate) wirerate: String,
    /// What it says of its version.
    pub(crate) version: String,
}

impl Host {
    /// As of now.
    pub(crate) fn read(wirerate: &Path) -> Result<Self> {
        let word = |path: &str| -> Result<String> {
            Ok(fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?.trim().to_owned())
        };
        let kernel = ["ostype", "osrelease"].map(|name| word(&format!("/proc/sys/kernel/{name}")));
        let [system, release] = kernel;
        Ok(Self {
            cpu: cpu_model(&word("/proc/cpuinfo")?),
            cpus: word("/sys/devices/system/cpu/online")?,
            kernel: format!("{} {} {}", system?, release?, std::env::consts::ARCH),
            governor: word("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").ok(),
            load: load(&word("/proc/loadavg")?),
            mitigations: mitigations(Path::new("/sys/devices/system/cpu/vulnerabilities")),
            iommu: fs::read_dir("/sys/class/iommu").is_ok_and(|mut found| found.next().is_some()),
            wirerate: wirerate.display().to_string(),
            version: version(wirerate),
        })
    }
}

/// `retbleed: Enhanced IBRS`, of each fault that something is done against.
fn mitigations(folder: &Path) -> Vec<String> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<String> = files
        .filter_map(|file| {
            let text = fs::read_to_string(file.path()).ok()?;
            let what = text.trim().strip_prefix("Mitigation: ")?;
            Some(format!("{}: {}", file.file_name().to_string_lossy(), what.split(';').next()?))
        })
        .collect();
    found.sort();
    found
}

/// Version and build profile as `--version` prints them, on one line; empty if it prints nothing.
fn version(program: &Path) -> String {
    let said = Command::new(program).arg("--version").output();
    said.map_or(String::new(), |said| String::from_utf8_lossy(&said.stdout).trim().replace('\n', ", "))
}

fn cpu_model(cpuinfo: &str) -> String {
    let model = cpuinfo.lines().filter_map(|line| line.split_once(':')).find(|(key, _)| {
        // ARM has no model name in words.
        ["model name", "Processor", "CPU part"].contains(&key.trim())
    });
    model.map_or_else(|| "unknown CPU".to_owned(), |(_, name)| name.trim().to_owned())
}

fn load(loadavg: &str) -> f64 {
    loadavg.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(f64::NAN)
}

/// Where the time of all CPUs went since boot, in clock ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ticks {
    total: u64,
    idle: u64,
    steal: u64,
}

impl Ticks {
    /// As of now.
    pub(crate) fn read() -> Result<Self> {
        let path = "/proc/stat";
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
        Self::parse(&text).with_context(|| format!("{path} has no line of all CPUs"))
    }

    fn parse(stat: &str) -> Option<Self> {
        let line = stat.lines().next()?.strip_prefix("cpu ")?;
        let numbers: Vec<u64> = line.split_whitespace().map_while(|word| word.parse().ok()).collect();
        // user nice system idle iowait irq softirq steal; guest time after them is part of user.
        let counted = numbers.get(..8)?;
        Some(Self { total: counted.iter().sum(), idle: counted[3] + counted[4], steal: counted[7] })
    }

    /// How the time since `earlier` was spent.
    pub(crate) fn since(self, earlier: Self) -> Shares {
        let total = (self.total - earlier.total).max(1) as f64;
        Shares {
            busy: 1.0 - self.idle.saturating_sub(earlier.idle) as f64 / total,
            steal: self.steal.saturating_sub(earlier.steal) as f64 / total,
        }
    }
}

/// Parts of the time of all CPUs, from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Shares {
    /// Not idle, by whomever.
    pub(crate) busy: f64,
    /// Taken by the host of this virtual machine.
    pub(crate) steal: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_read_and_shared_out() {
        let before = Ticks::parse("cpu  100 0 50 800 50 0 0 0 7 7\ncpu0 1 2 3\n").unwrap();
        let after = Ticks::parse("cpu  160 0 70 800 50 0 10 10 9 9\n").unwrap();
        let shares = after.since(before);
        assert_eq!((shares.busy, shares.steal), (1.0, 0.1));
        assert_eq!(after.since(after).busy, 1.0 - 0.0);
        for bad in ["", "cpu 1 2 3", "intr 1"] {
            assert_eq!(Ticks::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn the_model_is_found_and_a_nameless_one_is_said() {
        assert_eq!(cpu_model("processor\t: 0\nmodel name\t: Fast One\n"), "Fast One");
        assert_eq!(cpu_model(""), "unknown CPU");
        assert_eq!(load("1.25 2.00 3.00 1/99 1"), 1.25);
    }

    #[test]
    fn only_what_is_done_against_faults_is_told() {
        let folder = testkit::Folder::new("facts");
        for (name, text) in
            [("b", "Mitigation: IBRS; more\n"), ("a", "Not affected\n"), ("c", "Vulnerable\n")]
        {
            fs::write(folder.join(name), text).unwrap();
        }
        assert_eq!(mitigations(&folder), ["b: IBRS"]);
    }

    #[test]
    fn this_machine_has_facts() {
        let host = Host::read(Path::new("/bin/true")).unwrap();
        assert!(!host.cpu.is_empty() && host.kernel.starts_with("Linux ") && host.load >= 0.0, "{host:?}");
        assert!(Ticks::read().unwrap().total > 0);
    }
}
