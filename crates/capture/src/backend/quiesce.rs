//! Waits until a detached program no longer runs on any CPU.

use std::thread;
use std::time::Duration;

/// Where there is no way to wait for running programs, counters that stand still for so long are
/// taken as final.
const STANDSTILL: Duration = Duration::from_millis(50);

/// After this no program that was taken off runs on any CPU, so what it counts (`received`) stands
/// still.
pub(crate) fn wait_for_last_frames(received: impl Fn() -> u64) {
    if bpf::sys::wait_for_running_programs().is_err() {
        wait_for_standstill(received, || thread::sleep(STANDSTILL));
    }
}

fn wait_for_standstill(received: impl Fn() -> u64, mut pause: impl FnMut()) {
    let mut before = received();
    loop {
        pause();
        let now = received();
        if now == before {
            return;
        }
        before = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// `wirerate count` looked once and took what it saw as final.
    #[test]
    fn counters_that_move_are_not_final() {
        let (received, pauses) = (Cell::new(0), Cell::new(0));
        wait_for_standstill(
            || received.get(),
            || {
                pauses.set(pauses.get() + 1);
                received.set(received.get().max(pauses.get().min(5)));
            },
        );
        assert_eq!((received.get(), pauses.get()), (5, 6));
    }
}
