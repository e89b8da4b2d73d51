//! Ctrl-C ends a bench at its next wait; processes, files and devices are removed then.

use anyhow::Context;
use anyhow::Result;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Interval at which the flag is checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// What every wait returns after a signal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopped;

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("stopped by a signal")
    }
}

impl std::error::Error for Stopped {}

/// Set by SIGINT, SIGTERM and SIGHUP.
#[derive(Clone, Debug, Default)]
pub(crate) struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    /// A flag that signals set from now on.
    pub(crate) fn on_signals() -> Result<Self> {
        let stop = Self::default();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&stop.0)).context("cannot listen for Ctrl-C")?;
        }
        Ok(stop)
    }

    /// Sleeps. A stop is an error, so that everything unwinds.
    pub(crate) fn sleep(&self, time: Duration) -> Result<()> {
        let deadline = Instant::now() + time;
        loop {
            if self.0.load(Relaxed) {
                return Err(Stopped.into());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(CHECK_INTERVAL));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn a_set_flag_ends_a_sleep_early() {
        let stop = StopFlag::default();
        stop.sleep(Duration::from_millis(1)).unwrap();
        stop.0.store(true, Relaxed);
        let began = Instant::now();
        let error = stop.sleep(Duration::from_secs(60)).context("cannot wait").unwrap_err();
        assert!(error.is::<Stopped>() && began.elapsed() < Duration::from_secs(30));
    }
}
