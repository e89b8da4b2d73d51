//! The test bed: one veth pair between two namespaces, the receiver's counters, a sink, and a place
//! for files.

use crate::samples::CounterSample;
use crate::stop::StopFlag;
use crate::sys::FloodSocket;
use anyhow::{Context, Result, ensure};
use bpf::Sink;
use bpf::xdp::{XdpLink, XdpModeChoice};
use host::{CpuList, DevicePlace, Lab, LabEnd, LabOptions, MacAddr, Stack, monotonic_ns};
use nix::sys::statfs::{TMPFS_MAGIC, statfs};
use nix::sys::statvfs::statvfs;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// Where a file system in memory may be, best first.
const IN_MEMORY: [&str; 3] = ["/dev/shm", "/run", "/tmp"];
/// Names of our folders begin with this; the pid of the bench follows.
const FOLDER: &str = "wirerate-bench-";
/// The sender's address where it has none.
const SRC: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
/// How long the counters are watched for standing still.
const STANDSTILL: Duration = Duration::from_millis(10);

/// A device, and the namespace that it is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeviceAt(String);

impl FromStr for DeviceAt {
    type Err = String;

    /// Of `DEV` or `DEV@NETNS`.
    fn from_str(text: &str) -> Result<Self, String> {
        match text.is_empty() || text.starts_with('@') || text.ends_with('@') {
            true => Err("it is DEV or DEV@NETNS".to_owned()),
            false => Ok(Self(text.to_owned())),
        }
    }
}

/// Two devices at the ends of one wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LinkEnds {
    /// Sends.
    pub(crate) tx: DeviceAt,
    /// Receives.
    pub(crate) rx: DeviceAt,
}

#[derive(Debug)]
enum Wire {
    /// Our own. The receiver polls (GRO), so XDP frames reach its stack, too.
    Lab(Box<Lab>),
    /// The user's.
    Given { tx: Box<LabEnd>, rx: Box<LabEnd>, _listens: FloodSocket },
}

impl Wire {
    fn given(pair: &LinkEnds) -> Result<Self> {
        let [tx, rx] = [Self::end(&pair.tx)?, Self::end(&pair.rx)?];
        // The frames' destination is no device's address, so that no host answers. A card receives
        // them only in promiscuous mode.
        let listens = rx.netns().run(|| FloodSocket::promiscuous(rx.index))?;
        let listens = listens.with_context(|| format!("cannot make {} promiscuous", rx.ifname))?;
        Ok(Self::Given { tx: Box::new(tx), rx: Box::new(rx), _listens: listens })
    }

    fn end(DeviceAt(text): &DeviceAt) -> Result<LabEnd> {
        let place = DevicePlace::of(text, None);
        let stack = Stack::of(&place.netns()?)?;
        let link = stack.link(place.device.as_str())?;
        let addresses = stack.addresses(link.index)?;
        let v4 = addresses.iter().find_map(|address| match address.ip {
            IpAddr::V4(v4) => Some(v4),
            IpAddr::V6(_) => None,
        });
        Ok(LabEnd {
            netns_name: place.netns.unwrap_or_default(),
            stack,
            // Two names in the life of a program.
            ifname: Box::leak(place.device.into_boxed_str()),
            index: link.index,
            mac: link.mac.unwrap_or(MacAddr::ZERO),
            v4: v4.unwrap_or(SRC),
            v6: None,
        })
    }
}

/// The wire, and everything around it. Dropping it removes all.
#[derive(Debug)]
pub(crate) struct Testbed {
    wire: Wire,
    /// What generators and, since a veth receives where it sends, the receive path run on.
    pub(crate) generator_cpu: u32,
    /// What captures run on: another one, where there is another one.
    pub(crate) capture_cpu: u32,
    /// Noticed in every wait.
    pub(crate) stop: StopFlag,
    folder: PathBuf,
}

impl Testbed {
    /// Makes it.
    pub(crate) fn new(generator_cpu: u32, stop: StopFlag, pair: Option<&LinkEnds>) -> Result<Self> {
        let allowed = CpuList::allowed()?;
        ensure!(allowed.contains(generator_cpu), "CPU {generator_cpu} may not be used here, only {allowed}");
        let capture_cpu = allowed.iter().filter(|cpu| *cpu != generator_cpu).last().unwrap_or(generator_cpu);
        let wire = match pair {
            Some(pair) => Wire::given(pair)?,
            None => Wire::Lab(Box::new(Lab::new(&LabOptions { rx_gro: true, ..LabOptions::default() })?)),
        };
        let place = IN_MEMORY.iter().find(|path| is_in_memory(path));
        let place =
            place.with_context(|| format!("none of {IN_MEMORY:?} is a file system in memory (tmpfs)"))?;
        sweep(Path::new(place));
        let folder = Path::new(place).join(format!("{FOLDER}{}", std::process::id()));
        fs::create_dir(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(Self { wire, generator_cpu, capture_cpu, stop, folder })
    }

    /// The sender's end.
    pub(crate) fn tx(&self) -> &LabEnd {
        match &self.wire {
            Wire::Lab(lab) => &lab.tx,
            Wire::Given { tx, .. } => tx,
        }
    }

    /// The receiver's end.
    pub(crate) fn rx(&self) -> &LabEnd {
        match &self.wire {
            Wire::Lab(lab) => &lab.rx,
            Wire::Given { rx, .. } => rx,
        }
    }

    /// True for devices that we made.
    pub(crate) fn is_ours(&self) -> bool {
        matches!(self.wire, Wire::Lab(_))
    }

    /// The wire for people.
    pub(crate) fn wire(&self) -> String {
        match &self.wire {
            Wire::Lab(_) => "veth".to_owned(),
            Wire::Given { tx, rx, .. } => format!("{} to {}", tx.ifname, rx.ifname),
        }
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
    pub(crate) fn sample(&self) -> Result<CounterSample> {
        let frames = self.rx().link()?.counters.rx_packets;
        Ok(CounterSample { time_ns: monotonic_ns(), frames })
    }

    /// The receiver's counter, once it stands still: a softirq may still be at work when a sender
    /// has ended.
    pub(crate) fn settled(&self) -> Result<CounterSample> {
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
        let end = self.rx();
        let link = end.netns().run(|| sink.attach(end.index, end.ifname, XdpModeChoice::Native))??;
        Ok(AttachedSink { sink, _link: link })
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        // An error here cannot be reported; the next bench removes the folder.
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
    fn places_are_devices_with_or_without_a_namespace() {
        for place in ["eth1", "eth1@lab"] {
            assert_eq!(place.parse(), Ok(DeviceAt(place.to_owned())));
        }
        for wrong in ["", "@lab", "eth1@"] {
            assert!(wrong.parse::<DeviceAt>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_folders_of_dead_benches_are_swept() {
        let runs = |pid| pid == 7;
        assert!(is_left("wirerate-bench-8", runs));
        for kept in ["wirerate-bench-7", "wirerate-bench-", "wirerate-bench-8x", "other-8", ""] {
            assert!(!is_left(kept, runs), "{kept}");
        }
    }
}
