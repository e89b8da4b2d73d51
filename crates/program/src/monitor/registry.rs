//! What counts in this process, and the sums of what has counted and ended.
//!
//! There is one list per process, because the counters of a process only grow: the counts of a run
//! that has ended stay in the sums.

use metrics::MetricSet;
use metrics::families::{FLOW_FRAMES, SEND_FRAMES};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Senders are read again while less was sent than received, for up to 50 ms: a sender counts its
/// frames when a call of the kernel returns, and the receiver has counted some by then. A call
/// takes 2 ms, and longer where the sender waits for its CPU.
const SENT_LATER: Duration = Duration::from_micros(100);
const SENT_TRIES: u32 = 500;

/// Adds present counts to a set.
type ReadCounts = Box<dyn Fn(&mut MetricSet) + Send>;

/// Something that counts.
struct Live {
    number: u64,
    is_sender: bool,
    read: ReadCounts,
}

/// Everything that counts or has counted.
#[derive(Default)]
struct Registry {
    live: Vec<Live>,
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
    enter(Box::new(read), false)
}

/// The same for what sends: it is read last, so that no more was received than sent.
pub fn count_sender_in(read: impl Fn(&mut MetricSet) + Send + 'static) -> Counted {
    enter(Box::new(read), true)
}

fn enter(read: ReadCounts, is_sender: bool) -> Counted {
    if !IS_ENABLED.load(Relaxed) {
        return Counted(None);
    }
    let number = NEXT.fetch_add(1, Relaxed);
    let mut registry = lock();
    let registry = registry.get_or_insert_default();
    registry.live.push(Live { number, is_sender, read });
    registry.has_counted = true;
    Counted(Some(number))
}

impl Drop for Counted {
    fn drop(&mut self) {
        let Some(number) = self.0 else { return };
        // One lock: a scrape finds the counts in one of the two places.
        let mut registry = lock();
        let Some(registry) = &mut *registry else { return };
        if let Some(place) = registry.live.iter().position(|live| live.number == number) {
            let ended = registry.live.swap_remove(place);
            let mut last = MetricSet::default();
            (ended.read)(&mut last);
            registry.past.add_ended(&last);
        }
    }
}

/// The sums and the present counts, and true once something has counted.
pub(super) fn read() -> (MetricSet, bool) {
    let registry = lock();
    let Some(registry) = &*registry else { return (MetricSet::default(), false) };
    let (senders, others): (Vec<&Live>, Vec<&Live>) = registry.live.iter().partition(|live| live.is_sender);
    let mut counted = registry.past.clone();
    others.iter().for_each(|live| (live.read)(&mut counted));
    let received = received(&counted);
    let with_senders = || {
        let mut set = counted.clone();
        senders.iter().for_each(|live| (live.read)(&mut set));
        set
    };
    let sent = |set: &MetricSet| set.counts(&SEND_FRAMES).map(|(_, frames)| frames).sum::<u64>();
    let (mut set, mut tries) = (with_senders(), 1);
    while tries < SENT_TRIES && !senders.is_empty() && sent(&set) < received {
        thread::sleep(SENT_LATER);
        (set, tries) = (with_senders(), tries + 1);
    }
    (set, registry.has_counted)
}

/// Frames that arrived, each once.
fn received(set: &MetricSet) -> u64 {
    let is_first =
        |labels: &[String]| matches!(labels, [.., fate] if fate == "in_order" || fate == "reordered");
    set.counts(&FLOW_FRAMES).filter(|(labels, _)| is_first(labels)).map(|(_, frames)| frames).sum()
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
        // A sender that is behind its receiver for a moment.
        let readings = AtomicU64::new(0);
        let _sender = count_sender_in(move |set| {
            let sent = 90 + 10 * readings.fetch_add(1, Relaxed);
            set.count(&SEND_FRAMES, &["x", "", "0", "0", "xdp"], sent);
        });
        let _receiver = count_in(|set| set.count(&FLOW_FRAMES, &["y", "", "0", "in_order"], 100));
        let sent = read().0.counts(&SEND_FRAMES).map(|(_, frames)| frames).sum::<u64>();
        assert_eq!(sent, 100);
    }
}
