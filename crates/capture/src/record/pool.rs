//! A bounded number of buffers that circulate between the reader of one ring and the writer.
//!
//! The buffer returned last is taken first. So the same few stay in a CPU's cache while the writer
//! keeps up; the others are only allocated when it falls behind.

use crate::record::batch::EncodedBatch;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Bytes of encoded records in one buffer: few enough to stay in a CPU's own cache until they are
/// written.
pub(crate) const BUFFER_LEN: usize = 256 << 10;

#[derive(Debug, Default)]
struct Buffers {
    free: Vec<EncodedBatch>,
    made: usize,
    /// The reader waits for one: to wake it is a system call, also when it does not.
    is_awaited: bool,
}

/// The buffers of one ring.
#[derive(Debug)]
pub(crate) struct Pool {
    buffers: Mutex<Buffers>,
    given_back: Condvar,
    count_max: usize,
}

impl Pool {
    /// At most so many bytes of buffers, and at least two buffers.
    pub(crate) fn new(size_bytes_max: usize) -> Self {
        let count_max = (size_bytes_max / BUFFER_LEN).max(2);
        Self { buffers: Mutex::default(), given_back: Condvar::new(), count_max }
    }

    /// An empty buffer. If the writer has all of them, waits up to `timeout` for one.
    pub(crate) fn take(&self, timeout: Duration) -> Option<EncodedBatch> {
        let mut buffers = self.lock();
        if buffers.free.is_empty() && buffers.made == self.count_max {
            buffers.is_awaited = true;
            let wait =
                self.given_back.wait_timeout_while(buffers, timeout, |buffers| buffers.free.is_empty());
            buffers = wait.unwrap_or_else(PoisonError::into_inner).0;
            buffers.is_awaited = false;
        }
        if let Some(buffer) = buffers.free.pop() {
            return Some(buffer);
        }
        if buffers.made == self.count_max {
            return None;
        }
        buffers.made += 1;
        Some(EncodedBatch::with_capacity(BUFFER_LEN + BUFFER_LEN / 4))
    }

    /// Takes a buffer back.
    pub(crate) fn give_back(&self, mut buffer: EncodedBatch) {
        buffer.clear();
        let mut buffers = self.lock();
        buffers.free.push(buffer);
        if buffers.is_awaited {
            self.given_back.notify_one();
        }
    }

    /// Most buffers that there are at once.
    pub(crate) fn count_max(&self) -> usize {
        self.count_max
    }

    /// True when the writer has all of them.
    pub(crate) fn is_empty(&self) -> bool {
        let buffers = self.lock();
        buffers.free.is_empty() && buffers.made == self.count_max
    }

    /// True when the reader will soon have to wait.
    pub(crate) fn is_short(&self) -> bool {
        let buffers = self.lock();
        (buffers.made - buffers.free.len()) * 4 > self.count_max * 3
    }

    fn lock(&self) -> MutexGuard<'_, Buffers> {
        // Nothing in here panics half way.
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    const SHORT: Duration = Duration::from_millis(1);

    #[test]
    fn no_more_buffers_than_allowed_and_the_warm_one_first() {
        let pool = Pool::new(4 * BUFFER_LEN);
        let mut taken: Vec<EncodedBatch> = (0..4).map(|_| pool.take(SHORT).unwrap()).collect();
        assert!(pool.is_short());
        assert!(pool.take(SHORT).is_none());
        let mut last = taken.pop().unwrap();
        last.bytes.extend_from_slice(b"old");
        let address = last.bytes.as_ptr();
        pool.give_back(taken.pop().unwrap());
        pool.give_back(last);
        assert!(!pool.is_short());
        let again = pool.take(SHORT).unwrap();
        assert_eq!((again.bytes.as_ptr(), again.bytes.len()), (address, 0));
    }

    #[test]
    fn a_reader_that_waits_gets_what_is_given_back() {
        let pool = Arc::new(Pool::new(0));
        let buffers = [pool.take(SHORT).unwrap(), pool.take(SHORT).unwrap()];
        let waiting = std::thread::spawn({
            let pool = Arc::clone(&pool);
            move || pool.take(Duration::from_secs(60)).is_some()
        });
        buffers.into_iter().for_each(|buffer| pool.give_back(buffer));
        assert!(waiting.join().unwrap());
    }
}
