//! Rows of `measure --every-second`: one per receiver each second, and a last one at the end.

use super::sender::UnsentNumbers;
use capture::Receiving;
use program::out::OutError;
use program::row_printer::{PERIOD, RowPrinter};
use receiver::Seconds;
use std::time::Instant;

/// Prints the rows of several receivers.
pub(super) struct ReceiverRows<'a> {
    printer: RowPrinter,
    receivers: Vec<(&'a Receiving, Seconds, &'a UnsentNumbers)>,
    due: Instant,
}

impl<'a> ReceiverRows<'a> {
    pub(super) fn new(
        printer: RowPrinter,
        receivers: Vec<(&'a Receiving, Seconds, &'a UnsentNumbers)>,
    ) -> Self {
        Self { printer, receivers, due: Instant::now() + PERIOD }
    }

    /// Prints a row of each receiver if another second has passed.
    ///
    /// # Errors
    /// When standard output is closed or full.
    pub(super) fn print_if_due(&mut self) -> Result<(), OutError> {
        if Instant::now() < self.due {
            return Ok(());
        }
        self.due += PERIOD;
        self.print()
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
