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
#[derive(Clone, Debug)]
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

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn what_is_sent_arrives_and_the_last_sender_ends_the_wait() {
        let (sender, batches) = channel();
        let writer = thread::spawn(move || {
            let mut came = 0;
            while let Ok(sent) = receive(&batches, LONG) {
                came += sent.len();
            }
            (came, receive(&batches, LONG))
        });
        let readers = [0; 3].map(|_| ToWriter::new(sender.clone(), writer.thread().clone()));
        drop(sender);
        let started = Instant::now();
        let readers = readers.map(|reader| {
            thread::spawn(move || {
                (0..1000).for_each(|_| reader.send(vec![EncodedBatch::default()]).unwrap());
            })
        });
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        let (came, end) = writer.join().unwrap();
        assert_eq!((came, end.err()), (3000, Some(RecvTimeoutError::Disconnected)));
        assert!(started.elapsed() < LONG, "each was woken for");
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
