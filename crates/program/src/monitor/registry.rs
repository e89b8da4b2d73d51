//! What counts in a command, and the sums of what has counted and ended: counters only grow, so the
//! counts of a run that has ended stay in the sums.

use metrics::MetricSet;
use metrics::families::{FLOW_FRAMES, SEND_FRAMES};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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
struct Counts {
    live: Vec<Live>,
    past: MetricSet,
    has_counted: bool,
    next: u64,
}

/// What counts in a command, and the sums of what has counted and ended.
#[derive(Default)]
pub struct Registry {
    counts: Mutex<Counts>,
    /// False while nothing reads the counts: then nothing is kept.
    is_enabled: AtomicBool,
}

/// Something whose counts are scraped. When it is dropped, its last counts go to the sums.
#[derive(Debug)]
#[must_use]
pub struct Counted(Option<(Arc<Registry>, u64)>);

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry").finish_non_exhaustive()
    }
}

impl Registry {
    fn lock(&self) -> MutexGuard<'_, Counts> {
        // A panic leaves counts behind, which stay valid.
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on counts are kept.
    pub(crate) fn enable(&self) {
        self.is_enabled.store(true, Relaxed);
    }

    /// Lets `read` add its counts until the result is dropped. Senders are read last.
    pub(crate) fn enter(this: &Arc<Self>, read: ReadCounts, is_sender: bool) -> Counted {
        if !this.is_enabled.load(Relaxed) {
            return Counted(None);
        }
        let mut counts = this.lock();
        let number = counts.next;
        counts.next += 1;
        counts.live.push(Live { number, is_sender, read });
        counts.has_counted = true;
        Counted(Some((Arc::clone(this), number)))
    }

    /// The sums and the present counts, and true once something has counted.
    pub(crate) fn read(&self) -> (MetricSet, bool) {
        let counts = self.lock();
        let (senders, others): (Vec<&Live>, Vec<&Live>) = counts.live.iter().partition(|live| live.is_sender);
        let mut counted = counts.past.clone();
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
        (set, counts.has_counted)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let Some((registry, number)) = &self.0 else { return };
        // One lock: a scrape finds the counts in one of the two places.
        let mut counts = registry.lock();
        if let Some(place) = counts.live.iter().position(|live| live.number == *number) {
            let ended = counts.live.swap_remove(place);
            let mut last = MetricSet::default();
            (ended.read)(&mut last);
            counts.past.add_ended(&last);
        }
    }
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
    use std::sync::atomic::AtomicU64;

    #[test]
    fn counts_stay_when_what_counted_has_ended() {
        let registry = Arc::new(Registry::default());
        drop(Registry::enter(&registry, Box::new(|_| panic!("without a server nothing is read")), false));
        registry.enable();
        let frames = Arc::new(AtomicU64::new(3));
        let counter = |frames: &Arc<AtomicU64>| {
            let frames = Arc::clone(frames);
            let read = move |set: &mut MetricSet| {
                set.count(&RECEIVE_FRAMES, &["x", ""], frames.load(Relaxed));
            };
            Registry::enter(&registry, Box::new(read), false)
        };
        let text = || registry.read().0.text(TextFormat::Prometheus);
        let first = counter(&frames);
        assert!(text().ends_with("netns=\"\"} 3\n"), "{}", text());
        frames.store(4, Relaxed);
        drop(first);
        let second = counter(&frames);
        assert!(text().ends_with("netns=\"\"} 8\n"), "{}", text());
        drop(second);
        assert!(registry.read().1);
        // A sender that is behind its receiver for a moment.
        let readings = AtomicU64::new(0);
        let send = move |set: &mut MetricSet| {
            let sent = 90 + 10 * readings.fetch_add(1, Relaxed);
            set.count(&SEND_FRAMES, &["x", "", "0", "0", "xdp"], sent);
        };
        let _sender = Registry::enter(&registry, Box::new(send), true);
        let receive = |set: &mut MetricSet| set.count(&FLOW_FRAMES, &["y", "", "0", "in_order"], 100);
        let _receiver = Registry::enter(&registry, Box::new(receive), false);
        let sent = registry.read().0.counts(&SEND_FRAMES).map(|(_, frames)| frames).sum::<u64>();
        assert_eq!(sent, 100);
    }
}
