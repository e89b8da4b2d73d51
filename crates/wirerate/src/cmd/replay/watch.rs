//! The thread beside a replay: shows a progress line or a row per second, and takes commands.

use super::args::Args;
use super::orders::ReplayOrders;
use engine::ReplayProgress;
use program::out::OutError;
use program::outcome::{Failure, Refused};
use program::row_printer::RowFormat;
use program::stop::{BlockedSignals, Stop};
use sender::watch::{View, Watch};
use sender::workers::SentTotals;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// Time between two readings of the counters.
const INTERVAL: Duration = Duration::from_millis(50);
/// Time between two readings of the counters if nothing is shown.
const INTERVAL_UNSEEN: Duration = Duration::from_secs(5);

/// What was shown until the end of a run.
pub struct RunWatch(Watch);

/// Runs `run`, shows its progress and takes commands meanwhile. Sets `stop` if rows can no longer
/// be printed.
///
/// # Errors
/// Refused when the kernel gives no socket.
pub fn watched<R>(
    args: &Args,
    progress: &ReplayProgress,
    mut orders: ReplayOrders,
    stop: &Stop,
    run: impl FnOnce() -> R,
) -> Result<(R, RunWatch), Failure> {
    let rows = (args.every_second || args.csv).then(|| RowFormat::of(args.json, args.csv));
    let view = View {
        progress: !(args.json || args.quiet) && rows.is_none(),
        rows,
        are_events: stop.console().events().are_followed(),
        ..View::default()
    };
    let interval = if view.is_visible(stop.console()) { INTERVAL } else { INTERVAL_UNSEEN };
    let (woken, waker) = UnixStream::pair().refused("take commands")?;
    let is_over = AtomicBool::new(false);
    Ok(thread::scope(|scope| {
        let is_over = &is_over;
        let watcher = scope.spawn(move || {
            // Signals go to the thread that sends.
            let _blocked = BlockedSignals::begin();
            let mut watch = Watch::new(stop.console(), view, args.count.map_or(0, |count| count.0));
            while !is_over.load(Relaxed) {
                if !watch.see(SentTotals::of_replay(&progress.total()), Instant::now()) {
                    stop.set();
                }
                orders.serve(interval, &woken);
            }
            watch
        });
        let result = run();
        is_over.store(true, Relaxed);
        // The other end is closed, which wakes the thread.
        drop(waker);
        (result, RunWatch(watcher.join().expect("rows do not panic")))
    }))
}

impl RunWatch {
    /// Prints a last row with the counts of the end.
    ///
    /// # Errors
    /// When a row could not be printed.
    pub fn finish(self, progress: &ReplayProgress, duration_ns: u64) -> Result<(), OutError> {
        let totals = SentTotals::of_replay(&progress.total());
        self.0.finish(totals, Duration::from_nanos(duration_ns))
    }
}
