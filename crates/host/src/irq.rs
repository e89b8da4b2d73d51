//! Facts of a device from `/sys` and `/proc/irq`: CPUs of its queues and interrupts, and its IOMMU.
//!
//! `/sys/class/net` shows the devices of the namespace it was mounted in. For another namespace a
//! private `/sys` is mounted for the duration of the query, visible to one thread only.

use crate::link::Link;
use crate::stack::Stack;
use crate::{CpuList, HostError, KernelError, Netns};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use std::fs;
use std::path::{Path, PathBuf};

const CLASS: &str = "/sys/class/net";

/// Queues that are spread over CPUs in software.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Steering {
    /// Receive queues that pass frames to other CPUs (RPS).
    pub rps_queues: u32,
    /// Transmit queues that are mapped to CPUs (XPS).
    pub xps_queues: u32,
}

/// One interrupt of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interrupt {
    /// Number, as in `/proc/irq`.
    pub number: u32,
    /// Name by the driver: `virtio2-input.0`; empty while it is not in use.
    pub name: String,
    /// The CPUs that may serve it.
    pub cpus: CpuList,
}

impl Stack {
    /// RPS and XPS of a device.
    ///
    /// # Errors
    /// When the device is not in the `/sys` of this process and mounting another one fails.
    pub fn steering(&self, link: &Link) -> Result<Steering, HostError> {
        let is_seen = fs::read_to_string(format!("{CLASS}/{}/ifindex", link.name))
            .is_ok_and(|index| index.trim() == link.index.to_string());
        // Indexes repeat across namespaces, so a match counts only in the own one.
        if is_seen && Netns::current()? == *self.netns() {
            return read_steering(link);
        }
        self.netns().run(|| show_own_devices().and_then(|()| read_steering(link)))?
    }

    /// Interrupts of the hardware of a device; none for virtual ones.
    pub fn interrupts(&self, link: &Link) -> Vec<Interrupt> {
        let folders = self.hardware(link);
        let folder = folders.iter().map(|folder| folder.join("msi_irqs")).find(|folder| folder.is_dir());
        let names = folder.and_then(|folder| fs::read_dir(folder).ok()).into_iter().flatten().flatten();
        let mut numbers: Vec<u32> =
            names.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        numbers.sort_unstable();
        numbers.into_iter().filter_map(interrupt).collect()
    }

    /// IOMMU domain of the device: `identity`, `DMA`, `DMA-FQ`; `None` without IOMMU.
    pub fn iommu_domain(&self, link: &Link) -> Option<String> {
        let folders = self.hardware(link);
        let kind = folders.iter().find_map(|at| fs::read_to_string(at.join("iommu_group/type")).ok())?;
        Some(kind.trim().to_owned())
    }

    /// Directories of the hardware of a device, nearest first.
    fn hardware(&self, link: &Link) -> Vec<PathBuf> {
        let folder =
            link.parent.as_ref().map(|parent| format!("/sys/bus/{}/devices/{}", parent.bus, parent.name));
        let folder = folder.and_then(|folder| fs::canonicalize(folder).ok());
        let Some(folder) = folder else { return Vec::new() };
        // A virtio device has its interrupts one level up; above that is a bridge with its own.
        folder.ancestors().take(2).map(Path::to_path_buf).collect()
    }
}

/// A `/sys` with the devices of the calling thread's namespace, for this thread only.
fn show_own_devices() -> Result<(), HostError> {
    const NONE: Option<&str> = None;
    let refused = || HostError::refused("look into", "the /sys of another namespace");
    unshare(CloneFlags::CLONE_NEWNS).map_err(refused())?;
    mount(NONE, "/", NONE, MsFlags::MS_SLAVE | MsFlags::MS_REC, NONE).map_err(refused())?;
    mount(Some("sysfs"), "/sys", Some("sysfs"), MsFlags::MS_RDONLY, NONE).map_err(refused())
}

fn read_steering(link: &Link) -> Result<Steering, HostError> {
    let folder = format!("{CLASS}/{}/queues", link.name);
    let queues = fs::read_dir(&folder).map_err(|error| HostError::Refused {
        act: "read",
        object: folder,
        source: KernelError::from(error),
    })?;
    let mut steering = Steering::default();
    for queue in queues.flatten() {
        let is_set = |file: &str| fs::read_to_string(queue.path().join(file)).is_ok_and(|mask| is_any(&mask));
        steering.rps_queues += u32::from(is_set("rps_cpus"));
        steering.xps_queues += u32::from(is_set("xps_cpus"));
    }
    Ok(steering)
}

/// True for a CPU mask with a CPU in it: `00000000,00000002`.
fn is_any(mask: &str) -> bool {
    mask.bytes().any(|byte| byte.is_ascii_hexdigit() && byte != b'0')
}

fn interrupt(number: u32) -> Option<Interrupt> {
    let folder = PathBuf::from(format!("/proc/irq/{number}"));
    let read = |file: &str| fs::read_to_string(folder.join(file)).ok()?.trim().parse::<CpuList>().ok();
    let known = |cpus: &CpuList| !cpus.is_empty();
    let cpus = read("effective_affinity_list").filter(known).or_else(|| read("smp_affinity_list"))?;
    let names = fs::read_dir(&folder).ok()?.flatten();
    let name =
        names.filter(|entry| entry.path().is_dir()).find_map(|entry| entry.file_name().into_string().ok());
    Some(Interrupt { number, name: name.unwrap_or_default(), cpus })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_of_zeros_is_no_cpu() {
        assert!(!is_any("00000000,00000000\n") && !is_any("0\n") && !is_any(""));
        assert!(is_any("00000002\n") && is_any("80000000,00000000"));
    }

    #[test]
    fn loopback_has_no_interrupts_and_nothing_steers_it() {
        let stack = Stack::here().unwrap();
        let lo = stack.link("lo").unwrap();
        assert_eq!((stack.interrupts(&lo), stack.iommu_domain(&lo)), (Vec::new(), None));
        assert_eq!(stack.steering(&lo).unwrap().xps_queues, 0);
    }
}
