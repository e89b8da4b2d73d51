//! How much memory the rings of a capture may take.

use crate::{CaptureError, sys};
use std::fs;
use std::path::Path;

/// All rings of a capture together take at most this part of the memory of the machine.
const MACHINE_PART: u64 = 16;
/// Part of the memory of the machine for the frames of a recorder.
const RECORDER_PART: u64 = 8;
/// They take at most this part of the memory that the control group of the process may have.
const GROUP_PART: u64 = 4;

/// Memory below which the kernel would end a capture: its programs, smallest rings and buffers.
const GROUP_BYTES_MIN: u64 = 8 << 20;

/// Size of each ring of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingSize {
    /// Bytes of records that it holds.
    pub bytes: u64,
    /// What the memory of all rings is bounded by, if that made the ring smaller.
    pub bounded_by: Option<&'static str>,
}

/// The most that all rings of a capture may take together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemoryBound {
    pub(crate) bytes: u64,
    /// What it is a part of, for the report.
    pub(crate) of: &'static str,
}

impl MemoryBound {
    /// The bound for this process.
    pub(crate) fn of_this_process() -> Self {
        // What the process has already is not there for rings.
        let left = group_limit_bytes().map(|limit| limit.saturating_sub(own_bytes()));
        Self::new(sys::memory_size_bytes(), left)
    }

    /// The bound on a machine with this memory, and in a control group that has this much left of
    /// its limit.
    pub(crate) fn new(memory_bytes: u64, group_bytes: Option<u64>) -> Self {
        let machine = Self { bytes: memory_bytes / MACHINE_PART, of: "1/16 of the memory of this machine" };
        match group_bytes.map(|bytes| bytes / GROUP_PART) {
            Some(bytes) if bytes < machine.bytes => {
                Self { bytes, of: "1/4 of the memory limit of the control group" }
            }
            _ => machine,
        }
    }
}

/// Refuses a control group in which the kernel would end the process.
///
/// # Errors
/// [`CaptureError::LittleMemory`].
pub(crate) fn refuse_small_group() -> Result<(), CaptureError> {
    check_group(group_limit_bytes())
}

fn check_group(limit_bytes: Option<u64>) -> Result<(), CaptureError> {
    match limit_bytes {
        Some(limit_bytes @ 0..GROUP_BYTES_MIN) => Err(CaptureError::LittleMemory {
            limit_kib: limit_bytes >> 10,
            needed_mib: GROUP_BYTES_MIN >> 20,
        }),
        _ => Ok(()),
    }
}

/// Bytes of frames that a recorder keeps unless asked otherwise: an eighth of the memory, or a
/// quarter of the memory limit of the control group.
#[must_use]
pub fn recorder_bytes_default() -> u64 {
    let machine = sys::memory_size_bytes() / RECORDER_PART;
    group_limit_bytes().map_or(machine, |group| machine.min(group / GROUP_PART))
}

/// Bytes of frames that a recorder may be asked to keep: the memory of the machine, or the memory
/// limit of the control group if that is less.
#[must_use]
pub fn recorder_bytes_max() -> u64 {
    let machine = sys::memory_size_bytes();
    group_limit_bytes().map_or(machine, |group| machine.min(group))
}

/// Bytes of memory that the process has for itself; 0 if the kernel does not report it.
fn own_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let anonymous = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = anonymous.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.map_or(0, |kib| kib << 10)
}

/// The smallest memory limit of the control groups that this process is in; `None` without a limit.
fn group_limit_bytes() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let of_line = |line: &str| {
        let (root, name, path) = place_of_group(line)?;
        let folders = Path::new(path).ancestors();
        let limit = |folder: &Path| {
            let file = Path::new(root).join(folder.strip_prefix("/").unwrap_or(folder)).join(name);
            fs::read_to_string(file).ok()?.trim().parse::<u64>().ok()
        };
        folders.filter_map(limit).min()
    };
    groups.lines().filter_map(of_line).min()
}

/// Mount, name of the file with the limit, and path of a group, from a line of `/proc/self/cgroup`.
/// `None` for hierarchies that do not limit memory.
fn place_of_group(line: &str) -> Option<(&'static str, &'static str, &str)> {
    let (_, rest) = line.split_once(':')?;
    let (controllers, path) = rest.split_once(':')?;
    match controllers {
        "" => Some(("/sys/fs/cgroup", "memory.max", path)),
        _ if controllers.split(',').any(|name| name == "memory") => {
            Some(("/sys/fs/cgroup/memory", "memory.limit_in_bytes", path))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_group_that_is_too_small_is_refused() {
        assert!(check_group(None).is_ok() && check_group(Some(GROUP_BYTES_MIN)).is_ok());
        let refused = check_group(Some(4 << 20)).unwrap_err().to_string();
        assert!(refused.contains("4096 KiB") && refused.contains("at least 8 MiB"), "{refused}");
    }

    #[test]
    fn the_smaller_of_machine_and_group_decides() {
        let bound = |memory_mib: u64, group_mib: Option<u64>| {
            let bound = MemoryBound::new(memory_mib << 20, group_mib.map(|mib| mib << 20));
            (bound.bytes >> 20, bound.of.split(' ').next().unwrap_or_default())
        };
        assert_eq!(bound(1024, None), (64, "1/16"));
        assert_eq!(bound(1024, Some(1024)), (64, "1/16"));
        assert_eq!(bound(1024, Some(16)), (4, "1/4"));
    }

    #[test]
    fn the_process_has_some_memory_and_less_than_the_machine() {
        assert!((100 << 10..sys::memory_size_bytes()).contains(&own_bytes()));
    }

    #[test]
    fn groups_of_both_versions_are_found() {
        assert_eq!(place_of_group("0::/a.slice/b"), Some(("/sys/fs/cgroup", "memory.max", "/a.slice/b")));
        let first = Some(("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "/x:y"));
        assert_eq!(place_of_group("5:cpu,memory:/x:y"), first);
        assert_eq!((place_of_group("5:cpu:/x"), place_of_group("")), (None, None));
    }
}
