//! The way of batches from the readers to the writer.
//!
//! A channel of the standard library wakes its receiver while it holds a lock that the receiver
//! takes next. The receiver, which runs before the sender, would wait for that lock and be woken
//! again. So the writer never waits in the channel: it is parked, and the sender unparks it.

use crate::record::batch::EncodedBatch;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SendError, Sender, TryRecvError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// The end of a reader.
#[derive(Debug)]
pub(crate) struct ToWriter {
    /// `None` once this is dropped.
    batches: Option<Sender<Vec<EncodedBatch>>>,
    writer: Thread,
}

impl ToWriter {
    /// For the thread that calls [`receive`] with the other end of `batches`.
    pub(crate) fn new(batches: Sender<Vec<EncodedBatch>>, writer: Thread) -> Self {
        Self { batches: Some(batches), writer }
    }

    /// Sends the batches.
    ///
    /// # Errors
    /// The batches, when the writer has ended.
    pub(crate) fn send(&self, batches: Vec<EncodedBatch>) -> Result<(), Vec<EncodedBatch>> {
        let Some(sender) = &self.batches else { return Err(batches) };
        sender.send(batches).map_err(|SendError(batches)| batches)?;
        self.writer.unpark();
        Ok(())
    }
}

impl Drop for ToWriter {
    /// The writer looks again, so that it sees that this one was the last.
    fn drop(&mut self) {
        self.batches = None;
        self.writer.unpark();
    }
}

/// What was sent, as soon as there is something, for the thread that the senders unpark.
///
/// # Errors
/// Nothing came within `timeout`, or all senders are gone.
pub(crate) fn receive(
    batches: &Receiver<Vec<EncodedBatch>>,
    timeout: Duration,
) -> Result<Vec<EncodedBatch>, RecvTimeoutError> {
    let started = Instant::now();
    loop {
        match batches.try_recv() {
            Ok(sent) => return Ok(sent),
            Err(TryRecvError::Disconnected) => return Err(RecvTimeoutError::Disconnected),
            Err(TryRecvError::Empty) => {}
        }
        match timeout.checked_sub(started.elapsed()) {
            // A sender that unparks this thread before it parks is not missed.
            Some(left) if !left.is_zero() => thread::park_timeout(left),
            _ => return Err(RecvTimeoutError::Timeout),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    const LONG: Duration = Duration::from_secs(20);

    /// Each wake-up by itself: a missing one would be made up for by the next.
    #[test]
    fn the_writer_wakes_for_each_batch_and_for_the_end_of_the_last_sender() {
        let (sender, batches) = channel();
        let (taken, takes) = channel();
        let writer = thread::spawn(move || {
            loop {
                let came = receive(&batches, 10 * LONG).map(|sent| sent.len());
                let is_over = came.is_err();
                taken.send(came).unwrap();
                if is_over {
                    return;
                }
            }
        });
        let [one, other] = [0; 2].map(|_| ToWriter::new(sender.clone(), writer.thread().clone()));
        drop(sender);
        for len in 1..100 {
            let reader = if len % 2 == 0 { &one } else { &other };
            reader.send((0..len).map(|_| EncodedBatch::default()).collect()).unwrap();
            assert_eq!(takes.recv_timeout(LONG), Ok(Ok(len)));
        }
        drop((one, other));
        assert_eq!(takes.recv_timeout(LONG), Ok(Err(RecvTimeoutError::Disconnected)));
        writer.join().unwrap();
    }

    #[test]
    fn a_wait_ends_and_what_the_writer_does_not_take_comes_back() {
        let (sender, batches) = channel();
        let reader = ToWriter::new(sender, thread::current());
        let came = receive(&batches, Duration::from_millis(1));
        assert_eq!(came.err(), Some(RecvTimeoutError::Timeout));
        drop(batches);
        assert_eq!(reader.send(vec![EncodedBatch::default()]).map_err(|back| back.len()), Err(1));
    }
}
