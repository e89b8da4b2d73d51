//! SIGUSR1 prints the counts of a running command, SIGUSR2 writes a capture to the disk.
//!
//! The counts are those that `--metrics` serves, one line each, on standard error: everything that
//! registers itself at the console of the command. `replay` pauses at SIGUSR1 as tcpreplay does,
//! and `exec` passes signals on to its command.

use crate::console::Console;
use crate::stop::SignalError;
use metrics::MetricSet;
use metrics::families::{FAMILIES, FamilyKind};
use signal_hook::consts::{SIGUSR1, SIGUSR2};
use signal_hook::{flag, low_level};
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::thread;
use units::human_count;

/// Set by SIGUSR2.
static WRITE_OUT: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// True once after each SIGUSR2.
pub fn take_write_out() -> bool {
    WRITE_OUT.get().is_some_and(|flag| flag.swap(false, Relaxed))
}

/// Handles both signals from now on. With `prints`, SIGUSR1 prints the counts; a process that
/// becomes another user later needs `keeps_rights` in all threads.
///
/// # Errors
/// When the kernel refuses a handler.
pub fn start(console: &Console, prints: bool, keeps_rights: bool) -> Result<(), SignalError> {
    let write_out = WRITE_OUT.get_or_init(Arc::default);
    flag::register(SIGUSR2, Arc::clone(write_out)).map_err(SignalError::of(SIGUSR2))?;
    if !prints {
        return Ok(());
    }
    console.keep_counts();
    let console = console.clone();
    let failed = SignalError::of(SIGUSR1);
    let (woken, waker) = UnixStream::pair().map_err(&failed)?;
    low_level::pipe::register(SIGUSR1, waker).map_err(&failed)?;
    let wait = move || {
        if !keeps_rights {
            let _ = host::keep_capabilities(&[]);
        }
        print_at_signals(woken, &console);
    };
    thread::Builder::new().name("counts".to_owned()).spawn(wait).map_err(&failed)?;
    Ok(())
}

fn print_at_signals(mut woken: UnixStream, console: &Console) {
    // Every signal writes a byte; the handler keeps the other end open.
    while woken.read_exact(&mut [0]).is_ok() {
        eprint!("{}", text(&console.counts().0));
    }
}

/// One line for each counter: what it counts, its labels, and the count.
fn text(set: &MetricSet) -> String {
    let mut lines = String::new();
    for family in FAMILIES.iter().filter(|family| family.kind == FamilyKind::Counter) {
        let name = family.name.trim_start_matches("wirerate_").trim_end_matches("_total").replace('_', " ");
        for (labels, count) in set.counts(family) {
            let labels: Vec<&str> =
                labels.iter().map(String::as_str).filter(|label| !label.is_empty()).collect();
            let place = if labels.is_empty() { String::new() } else { format!(" ({})", labels.join(", ")) };
            lines += &format!("wirerate: {name}{place}: {}\n", human_count(count));
        }
    }
    if lines.is_empty() {
        lines = "wirerate: nothing was counted yet\n".to_owned();
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use metrics::families::{CAPTURE_FRAMES, READ_PACKETS, SEND_FRAMES};

    #[test]
    fn each_counter_is_a_line_with_its_labels() {
        assert_eq!(text(&MetricSet::default()), "wirerate: nothing was counted yet\n");
        let mut set = MetricSet::default();
        set.count(&CAPTURE_FRAMES, &["eth1", "", "written"], 12_345);
        set.count(&SEND_FRAMES, &["eth1", "lab", "0", "1", "xdp"], 7);
        set.count(&READ_PACKETS, &[], 3);
        let lines = text(&set);
        for line in [
            "wirerate: capture frames (eth1, written): 12,345\n",
            "wirerate: send frames (eth1, lab, 0, 1, xdp): 7\n",
            "wirerate: read packets: 3\n",
        ] {
            assert!(lines.contains(line), "{lines}");
        }
    }
}
