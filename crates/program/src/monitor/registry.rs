//! What counts in this process, and the sums of what has counted and ended.
//!
//! There is one list per process, because the counters of a process only grow: the counts of a run
//! that has ended stay in the sums.

use metrics::MetricSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Adds present counts to a set.
type ReadCounts = Box<dyn Fn(&mut MetricSet) + Send>;

/// Everything that counts or has counted.
#[derive(Default)]
struct Registry {
    live: Vec<(u64, ReadCounts)>,
    past: MetricSet,
    has_counted: bool,
}

static REGISTRY: Mutex<Option<Registry>> = Mutex::new(None);
/// False without a server: then nothing is kept.
static IS_ENABLED: AtomicBool = AtomicBool::new(false);
static NEXT: AtomicU64 = AtomicU64::new(0);

fn lock() -> MutexGuard<'static, Option<Registry>> {
    // A panic leaves counts behind, which stay valid.
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on counts are kept.
pub(super) fn enable() {
    IS_ENABLED.store(true, Relaxed);
}

/// Something whose counts are scraped. When it is dropped, its last counts go to the sums.
#[derive(Debug)]
#[must_use]
pub struct Counted(Option<u64>);

/// Lets `read` add its counts at each scrape until the result is dropped.
pub fn count_in(read: impl Fn(&mut MetricSet) + Send + 'static) -> Counted {
    if !IS_ENABLED.load(Relaxed) {
        return Counted(None);
    }
    let number = NEXT.fetch_add(1, Relaxed);
    let mut registry = lock();
    let registry = registry.get_or_insert_default();
    registry.live.push((number, Box::new(read)));
    registry.has_counted = true;
    Counted(Some(number))
}

impl Drop for Counted {
    fn drop(&mut self) {
        let Some(number) = self.0 else { return };
        // One lock: a scrape finds the counts in one of the two places.
        let mut registry = lock();
        let Some(registry) = &mut *registry else { return };
        if let Some(place) = registry.live.iter().position(|(other, _)| *other == number) {
            let (_, read) = registry.live.swap_remove(place);
            let mut last = MetricSet::default();
            read(&mut last);
            registry.past.add_ended(&last);
        }
    }
}

/// The sums and the present counts, and true once something has counted.
pub(super) fn read() -> (MetricSet, bool) {
    let registry = lock();
    let Some(registry) = &*registry else { return (MetricSet::default(), false) };
    let mut set = registry.past.clone();
    registry.live.iter().for_each(|(_, read)| read(&mut set));
    (set, registry.has_counted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use metrics::TextFormat;
    use metrics::families::RECEIVE_FRAMES;
    use std::sync::Arc;

    #[test]
    fn counts_stay_when_what_counted_has_ended() {
        drop(count_in(|_| panic!("without a server nothing is read")));
        enable();
        let frames = Arc::new(AtomicU64::new(3));
        let counter = |frames: &Arc<AtomicU64>| {
            let frames = Arc::clone(frames);
            count_in(move |set: &mut MetricSet| set.count(&RECEIVE_FRAMES, &["x", ""], frames.load(Relaxed)))
        };
        let text = || read().0.text(TextFormat::Prometheus);
        let first = counter(&frames);
        assert!(text().ends_with("netns=\"\"} 3\n"), "{}", text());
        frames.store(4, Relaxed);
        drop(first);
        let second = counter(&frames);
        assert!(text().ends_with("netns=\"\"} 8\n"), "{}", text());
        drop(second);
        assert!(read().1);
    }
}
