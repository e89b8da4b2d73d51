//! The frames of a plan, written ahead of being sent: where the plan stood before the frames that are still kept.
//!
//! A cursor cannot step back, so a copy from a while ago is kept and moved forward again on demand. Copies are
//! made so rarely that a large flow table costs a few bytes for each frame.

use packet::{Cursor, PktgenHeader, Plan, WallTime};

/// Frames between two copies, at least; with flows at least as many as there are flows.
const COPY_EVERY: usize = 1024;

/// A plan, its cursor, and how to get back.
#[derive(Debug)]
pub(crate) struct Source {
    plan: Plan,
    cursor: Cursor,
    past: Cursor,
    /// Frames between `past` and `cursor`.
    since: usize,
    copy_every: usize,
}

impl Source {
    pub(crate) fn new(plan: Plan, cursor: Cursor) -> Self {
        let copy_every = COPY_EVERY.max(plan.flow_count as usize);
        Self { plan, past: cursor.clone(), cursor, since: 0, copy_every }
    }

    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Called while no frame is kept: nobody will go back to before here.
    pub(crate) fn checkpoint(&mut self) {
        if self.since >= self.copy_every {
            self.past = self.cursor.clone();
            self.since = 0;
        }
    }

    /// Writes the next frame, stamped `wall_ns`, and returns its length.
    pub(crate) fn emit(&mut self, wall_ns: u64, out: &mut [u8]) -> usize {
        self.since += 1;
        self.plan.emit(&mut self.cursor, WallTime::from_ns(wall_ns), out)
    }

    /// How many of the next frames are the one before again.
    pub(crate) fn repeats_left(&self) -> u32 {
        self.cursor.repeats_left
    }

    /// Moves over so many repeats.
    pub(crate) fn repeat(&mut self, count: u32) {
        self.since += count as usize;
        self.cursor.repeat(count);
    }

    /// The transmit queue of the frame written last.
    pub(crate) fn queue(&self) -> u16 {
        self.cursor.queue
    }

    /// The cursor as it was before the last `pending` frames, the first of which has the bytes
    /// `first`, if it has any.
    pub(crate) fn cursor_before(&self, pending: usize, first: Option<&[u8]>) -> Cursor {
        if pending == 0 {
            return self.cursor.clone();
        }
        let mut cursor = self.past.clone();
        for _ in 0..self.since - pending {
            self.plan.skip(&mut cursor);
        }
        // A frame that is to go out again has its time already; it is in the bytes.
        if cursor.repeats_left > 0
            && let Some(first) = first
            && let Some(stamp) = PktgenHeader::parse(&first[self.plan.layout.pktgen_header..])
        {
            (cursor.built.tv_sec, cursor.built.tv_usec) = (stamp.time.sec, stamp.time.usec);
        }
        cursor
    }
}
