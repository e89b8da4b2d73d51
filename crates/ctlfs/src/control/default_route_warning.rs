//! The warning about device instances that carry the default route.
//!
//! It has a thread of its own, so that no writer waits for the query: a router has hundreds of
//! thousands of routes.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};

/// A device instance to look at.
struct Added {
    device: String,
    index: u32,
}

/// The thread that reads the routes. Dropping it waits for its last warning.
#[derive(Debug)]
pub(super) struct DefaultRouteWarning {
    added: Option<Sender<Added>>,
    thread: Option<JoinHandle<()>>,
}

impl DefaultRouteWarning {
    /// `path` reads which interfaces are on the way. It must share nothing with others that they
    /// would wait for.
    pub(super) fn new(path: impl Fn() -> Vec<u32> + Send + 'static) -> Self {
        let (sender, receiver) = channel();
        let thread = Builder::new().name("routes".to_owned()).spawn(move || watch(path, &receiver));
        if let Err(error) = &thread {
            tracing::warn!(%error, "devices that carry the default route are not reported");
        }
        Self { added: Some(sender), thread: thread.ok() }
    }

    /// Warns, a moment later, if `device` on the interface of that number carries a default route.
    pub(super) fn look_at(&self, device: &str, index: u32) {
        let added = Added { device: device.to_owned(), index };
        if let Some(sender) = &self.added {
            // Fails without the thread, which `new` has reported.
            let _ = sender.send(added);
        }
    }
}

impl Drop for DefaultRouteWarning {
    fn drop(&mut self) {
        self.added = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// One list of routes answers for all that have been added since the last.
fn watch(path: impl Fn() -> Vec<u32>, added: &Receiver<Added>) {
    while let Ok(first) = added.recv() {
        let all = std::iter::once(first).chain(added.try_iter()).collect::<Vec<_>>();
        let path = path();
        for Added { device, .. } in all.iter().filter(|added| path.contains(&added.index)) {
            tracing::warn!("{device} carries the default route of this host: `start` will send there");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn adding_devices_does_not_wait_for_the_routes() {
        let (go_on, may_go_on) = channel();
        let lists = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&lists);
        let guard = DefaultRouteWarning::new(move || {
            may_go_on.recv().unwrap();
            count.fetch_add(1, Ordering::Relaxed);
            vec![2]
        });
        // If the first waited, the rest of this would never come.
        (0..1000).for_each(|number| guard.look_at(&format!("eth0@{number}"), 2));
        (0..1000).for_each(|_| go_on.send(()).unwrap());
        drop(guard);
        assert!(lists.load(Ordering::Relaxed) >= 1, "the end waits for the answer");
    }
}
