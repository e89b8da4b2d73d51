//! The test bed: one veth pair between two namespaces, the receiver's counters, a sink, and a place for files.

use crate::samples::Sample;
use crate::stop::Stop;
use anyhow::{Context, Result, ensure};
use bpf::Sink;
use bpf::xdp::{ModeWish, XdpLink};
use host::{CpuList, Lab, LabOptions, monotonic_ns};
use nix::sys::statfs::{TMPFS_MAGIC, statfs};
use nix::sys::statvfs::statvfs;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where a file system in memory may be, best first.
const IN_MEMORY: [&str; 3] = ["/dev/shm", "/run", "/tmp"];
/// Names of our folders begin with this; the pid of the bench follows.
const FOLDER: &str = "wirerate-bench-";
/// How long the counters are watched for standing still.
const STANDSTILL: Duration = Duration::from_millis(10);

/// The wire, and everything around it. Dropping it removes all.
#[derive(Debug)]
pub(crate) struct Bed {
    /// Sender at one end, receiver at the other. The receiver polls (GRO), so XDP frames reach its stack, too.
    pub(crate) lab: Lab,
    /// What generators and, since a veth receives where it sends, the receive path run on.
    pub(crate) generator_cpu: u32,
    /// What captures run on: another one, where there is another one.
    pub(crate) capture_cpu: u32,
    /// Noticed in every wait.
    pub(crate) stop: Stop,
    folder: PathBuf,
}

impl Bed {
    /// Makes it.
    pub(crate) fn new(generator_cpu: u32, stop: Stop) -> Result<Self> {
        let allowed = CpuList::allowed()?;
        ensure!(allowed.contains(generator_cpu), "CPU {generator_cpu} may not be used here, only {allowed}");
        let capture_cpu = allowed.iter().filter(|cpu| *cpu != generator_cpu).last().unwrap_or(generator_cpu);
        let lab = Lab::new(&LabOptions { rx_gro: true, ..LabOptions::default() })?;
        let place = IN_MEMORY.iter().find(|path| is_in_memory(path));
        let place =
            place.with_context(|| format!("none of {IN_MEMORY:?} is a file system in memory (tmpfs)"))?;
        sweep(Path::new(place));
        let folder = Path::new(place).join(format!("{FOLDER}{}", std::process::id()));
        fs::create_dir(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(Self { lab, generator_cpu, capture_cpu, stop, folder })
    }

    /// So many CPUs for generators; `None` where there are fewer.
    pub(crate) fn cpus(&self, count: usize) -> Option<Vec<u32>> {
        let mut cpus = vec![self.generator_cpu, self.capture_cpu];
        cpus.dedup();
        cpus.truncate(count);
        (cpus.len() == count).then_some(cpus)
    }

    /// A path in memory, for a file that goes with the bed.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Bytes that fit there now.
    pub(crate) fn free_bytes(&self) -> Result<u64> {
        let place = statvfs(&self.folder).context("cannot ask for free memory")?;
        Ok(place.blocks_available() as u64 * place.fragment_size() as u64)
    }

    /// The receiver's counter, now.
    pub(crate) fn sample(&self) -> Result<Sample> {
        let frames = self.lab.rx.link()?.counters.rx_packets;
        Ok(Sample { time_ns: monotonic_ns(), frames })
    }

    /// The receiver's counter, once it stands still: a softirq may still be at work when a sender has ended.
    pub(crate) fn settled(&self) -> Result<Sample> {
        let mut before = self.sample()?;
        loop {
            self.stop.sleep(STANDSTILL)?;
            let now = self.sample()?;
            if now.frames == before.frames {
                return Ok(now);
            }
            before = now;
        }
    }

    /// Puts the sink at the receiver.
    pub(crate) fn sink(&self) -> Result<AttachedSink> {
        let sink = Sink::load()?;
        let end = &self.lab.rx;
        let link = end.netns().run(|| sink.attach(end.index, end.ifname, ModeWish::Native))??;
        Ok(AttachedSink { sink, _link: link })
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        // Nobody is left to tell, and memory that stays is a folder that says whose it was.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The sink, at work.
#[derive(Debug)]
pub(crate) struct AttachedSink {
    sink: Sink,
    _link: XdpLink,
}

impl AttachedSink {
    /// Frames that it dropped so far.
    pub(crate) fn frames(&self) -> u64 {
        self.sink.total().frames
    }
}

/// Removes the folders of benches that were killed, since what is in them takes memory.
fn sweep(place: &Path) {
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        if is_left(&entry.file_name().to_string_lossy(), |pid| Path::new(&format!("/proc/{pid}")).exists()) {
            // Another bench may sweep, too.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// True for the name of a folder whose bench runs no more.
fn is_left(name: &str, runs: impl Fn(u32) -> bool) -> bool {
    let pid = name.strip_prefix(FOLDER).and_then(|pid| pid.parse().ok());
    pid.is_some_and(|pid| !runs(pid))
}

fn is_in_memory(path: &str) -> bool {
    statfs(path).is_ok_and(|place| place.filesystem_type() == TMPFS_MAGIC)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_of_dead_benches_are_swept() {
        let runs = |pid| pid == 7;
        assert!(is_left("wirerate-bench-8", runs));
        for kept in ["wirerate-bench-7", "wirerate-bench-", "wirerate-bench-8x", "other-8", ""] {
            assert!(!is_left(kept, runs), "{kept}");
        }
    }
}
