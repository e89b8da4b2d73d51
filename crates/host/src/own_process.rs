//! This process as the kernel counts it: memory, open files, start.

use crate::clock::{monotonic_ns, realtime_ns};
use std::fs;
use std::io;

/// Fields of proc_pid_stat(5) behind the name of the program, which may contain blanks.
const START_TICKS: usize = 19;
const RESIDENT_PAGES: usize = 21;

/// What the kernel counts of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnProcess {
    /// Resident memory.
    pub resident_bytes: u64,
    /// Open file descriptors.
    pub open_fds: u64,
    /// Start, in nanoseconds since 1970.
    pub start_time_ns: u64,
}

impl OwnProcess {
    /// As of now.
    ///
    /// # Errors
    /// When /proc cannot be read.
    pub fn read() -> io::Result<Self> {
        let text = fs::read_to_string("/proc/self/stat")?;
        let [ticks, pages] =
            fields(&text).ok_or_else(|| io::Error::other("/proc/self/stat is not as documented"))?;
        let setting = |name| nix::unistd::sysconf(name).ok().flatten().map_or(1, i64::unsigned_abs);
        let ticks_per_s = setting(nix::unistd::SysconfVar::CLK_TCK);
        let start_ns = u128::from(ticks) * 1_000_000_000 / u128::from(ticks_per_s);
        let boot_ns = realtime_ns().saturating_sub(monotonic_ns());
        Ok(Self {
            resident_bytes: pages * setting(nix::unistd::SysconfVar::PAGE_SIZE),
            // One of them reads the folder.
            open_fds: (fs::read_dir("/proc/self/fd")?.count() as u64).saturating_sub(1),
            start_time_ns: boot_ns + start_ns as u64,
        })
    }
}

/// Start in clock ticks since boot, and resident pages.
fn fields(stat: &str) -> Option<[u64; 2]> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let words: Vec<&str> = rest.split_whitespace().collect();
    Some([words.get(START_TICKS)?.parse().ok()?, words.get(RESIDENT_PAGES)?.parse().ok()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_blanks_and_brackets_is_skipped() {
        let numbers: Vec<String> = (3..53).map(|field: u32| field.to_string()).collect();
        let stat = format!("4711 (a ) (b) {}", numbers.join(" "));
        // Fields 22 and 24 of the page.
        assert_eq!(fields(&stat), Some([22, 24]));
        assert_eq!(fields("4711 (a"), None);
    }

    #[test]
    fn this_process_has_memory_files_and_a_start_in_the_past() {
        let own = OwnProcess::read().unwrap();
        let _file = fs::File::open("/proc/self/stat").unwrap();
        let age_s = (realtime_ns() - own.start_time_ns) / 1_000_000_000;
        assert!(own.resident_bytes > 1 << 20 && age_s < 3600, "{own:?} {age_s}");
        assert!(own.open_fds >= 3, "{own:?}");
    }
}
