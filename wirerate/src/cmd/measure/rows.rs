//! Rows of `measure --every-second`: one per receiver each second, and a last one at the end.

use super::sender::UnsentNumbers;
use crate::cmd::receive::Seconds;
use crate::out::OutError;
use crate::rows::{PERIOD, RowPrinter};
use capture::Receiving;
use std::convert::Infallible;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Instant;

/// Prints the rows of several receivers.
pub(super) struct ReceiverRows<'a> {
    printer: RowPrinter,
    receivers: Vec<(&'a Receiving, Seconds, &'a UnsentNumbers)>,
}

impl<'a> ReceiverRows<'a> {
    pub(super) fn new(
        printer: RowPrinter,
        receivers: Vec<(&'a Receiving, Seconds, &'a UnsentNumbers)>,
    ) -> Self {
        Self { printer, receivers }
    }

    /// Prints rows each second until `senders` has no sender left.
    ///
    /// # Errors
    /// When standard output is closed or full.
    pub(super) fn print_until_closed(&mut self, senders: &Receiver<Infallible>) -> Result<(), OutError> {
        let mut due = Instant::now() + PERIOD;
        loop {
            match senders.recv_timeout(due.saturating_duration_since(Instant::now())) {
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
                Err(RecvTimeoutError::Timeout) => self.print()?,
            }
            due += PERIOD;
        }
    }

    /// Prints a row of each receiver.
    ///
    /// # Errors
    /// When standard output is closed or full.
    pub(super) fn print(&mut self) -> Result<(), OutError> {
        let printer = &mut self.printer;
        let mut rows = self.receivers.iter_mut();
        rows.try_for_each(|(receiving, seconds, unsent)| {
            printer.print(&seconds.next(receiving, unsent.count()))
        })
    }
}
