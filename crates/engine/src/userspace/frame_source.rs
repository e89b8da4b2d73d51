//! The frames of a plan, built ahead of sending, and the cursor before those that are not sent.
//!
//! A cursor cannot step back. So a copy is kept and advanced again on demand. Copies are made
//! rarely, so a large flow table or many fields cost a few bytes per frame.

use packet::{Cursor, Plan};

/// Frames between two copies; more if there are more flows or states of fields.
const COPY_EVERY: usize = 1024;

/// A plan, its cursor and the copy.
#[derive(Debug)]
pub(crate) struct FrameSource {
    plan: Plan,
    /// [`Plan::is_plain`], which takes a pass over the fields.
    is_plain: bool,
    cursor: Cursor,
    past: Cursor,
    /// Frames between `past` and `cursor`.
    since: usize,
    copy_every: usize,
}

impl FrameSource {
    pub(crate) fn new(plan: Plan, cursor: Cursor) -> Self {
        let copy_every = COPY_EVERY.max(plan.flows.count as usize).max(cursor.states.len());
        let is_plain = plan.is_plain();
        Self { plan, is_plain, past: cursor.clone(), cursor, since: 0, copy_every }
    }

    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Called while no frame is kept, so that no older cursor is needed.
    pub(crate) fn checkpoint(&mut self) {
        if self.since >= self.copy_every {
            self.past = self.cursor.clone();
            self.since = 0;
        }
    }

    /// Builds the next frame with the time `now_ns`, and returns its length.
    pub(crate) fn emit(&mut self, now_ns: u64, out: &mut [u8]) -> usize {
        self.since += 1;
        if self.is_plain && self.cursor.repeats_left == 0 {
            return self.plan.emit_plain(&mut self.cursor, now_ns, out);
        }
        self.plan.emit(&mut self.cursor, now_ns, out)
    }

    /// How many of the next frames repeat the last one.
    pub(crate) fn repeats_left(&self) -> u32 {
        self.cursor.repeats_left
    }

    /// Advances over repeats.
    pub(crate) fn repeat(&mut self, count: u32) {
        self.since += count as usize;
        self.cursor.repeat(count);
    }

    /// Transmit queue of the last built frame.
    pub(crate) fn queue(&self) -> u16 {
        self.cursor.queue
    }

    /// The cursor before the last `pending` frames; `first` has the bytes of the first of them, if
    /// any.
    pub(crate) fn cursor_before(&self, pending: usize, first: Option<&[u8]>) -> Cursor {
        if pending == 0 {
            return self.cursor.clone();
        }
        let mut cursor = self.past.clone();
        for _ in 0..self.since - pending {
            self.plan.skip(&mut cursor);
        }
        // A repeated frame already has its time, in its bytes.
        if cursor.repeats_left > 0
            && let Some(first) = first
        {
            self.plan.read_times(&mut cursor, first);
        }
        cursor
    }
}
