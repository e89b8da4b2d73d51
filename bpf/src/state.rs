//! Cursor and flow table, which every program that builds frames shares with its worker
//! (`frame.h`).

use crate::BpfError;
use crate::abi;
use crate::shared::SharedArray;
use std::mem::offset_of;
use std::os::fd::BorrowedFd;

/// Progress of a program. Written by the program while it runs, by its worker between calls.
#[derive(Debug)]
pub struct State {
    cursor: SharedArray<abi::Cursor>,
    /// `None` for a general plan.
    flows: Option<SharedArray<abi::Flow>>,
    /// The states of the fields of a general plan, if it has fields.
    field_states: Option<SharedArray<u64>>,
    fixed_frame_len: Option<u32>,
}

impl State {
    /// Maps cursor and flow table of a program that was loaded with `plan`.
    pub(crate) fn map(
        plan: &abi::Plan,
        cursor: BorrowedFd<'_>,
        flows: BorrowedFd<'_>,
    ) -> Result<Self, BpfError> {
        Ok(Self {
            cursor: SharedArray::new(cursor, "cursor", 1)?,
            flows: Some(SharedArray::new(flows, "wr_flows", flow_entries(plan) as usize)?),
            field_states: None,
            fixed_frame_len: (plan.flags & abi::PlanFlag::WR_PLAN_SIZE_MOVES.0 == 0)
                .then_some(plan.frame_len_max),
        })
    }

    /// Maps cursor and field states of a program with a general plan.
    pub(crate) fn map_general(
        state_count: usize,
        cursor: BorrowedFd<'_>,
        states: BorrowedFd<'_>,
    ) -> Result<Self, BpfError> {
        let shared = |count| SharedArray::new(states, "states", count);
        Ok(Self {
            cursor: SharedArray::new(cursor, "cursor", 1)?,
            flows: None,
            field_states: (state_count > 0).then_some(state_count).map(shared).transpose()?,
            fixed_frame_len: None,
        })
    }

    /// The states of the fields of a general plan.
    pub fn field_states(&self) -> Vec<u64> {
        let all = |states: &SharedArray<u64>| (0..states.len()).map(|index| states.get(index)).collect();
        self.field_states.as_ref().map(all).unwrap_or_default()
    }

    /// Sets the states of the fields; not while the program runs.
    pub fn set_field_states(&self, states: &[u64]) {
        for (index, state) in states.iter().enumerate() {
            self.field_states.iter().for_each(|shared| shared.set(index, state));
        }
    }

    /// State of the next frame.
    pub fn cursor(&self) -> abi::Cursor {
        self.cursor.get(0)
    }

    /// Sets the state of the next frame; not while the program runs.
    pub fn set_cursor(&self, cursor: &abi::Cursor) {
        self.cursor.set(0, cursor);
    }

    /// Sets the offset from `CLOCK_MONOTONIC` to wall time. The next frame reads the clock, and
    /// `frames` frames share each reading. Not while the program runs.
    pub fn set_clock(&self, wall_offset_ns: u64, frames: u32) {
        self.cursor.set_word(0, offset_of!(abi::Cursor, wall_offset_ns), wall_offset_ns);
        self.cursor.set_half_word(0, offset_of!(abi::Cursor, clock_every), frames);
        self.cursor.set_half_word(0, offset_of!(abi::Cursor, clock_left), 0);
    }

    /// The flow table; one unused entry if the plan has no flows.
    pub fn flows(&self) -> Vec<abi::Flow> {
        let all = |flows: &SharedArray<abi::Flow>| (0..flows.len()).map(|index| flows.get(index)).collect();
        self.flows.as_ref().map(all).unwrap_or_default()
    }

    /// Sets the flow table, with at most as many entries as the plan has flows. Not while the
    /// program runs.
    pub fn set_flows(&self, flows: &[abi::Flow]) {
        for (index, flow) in flows.iter().enumerate() {
            self.flows.iter().for_each(|shared| shared.set(index, flow));
        }
    }

    /// Frames that the program has offered since it was loaded.
    pub fn offered(&self) -> u64 {
        self.cursor.counter(0, offset_of!(abi::Cursor, offered))
    }

    /// Sum of their lengths, in bytes without FCS.
    pub fn frame_bytes(&self) -> u64 {
        match self.fixed_frame_len {
            Some(frame_len) => self.offered() * u64::from(frame_len),
            None => self.cursor.counter(0, offset_of!(abi::Cursor, frame_bytes)),
        }
    }

    /// Frames whose memory was too short; they were not sent.
    pub fn malformed(&self) -> u64 {
        self.cursor.counter(0, offset_of!(abi::Cursor, malformed))
    }
}

/// Entries of the flow table of `plan`: at least one.
pub(crate) fn flow_entries(plan: &abi::Plan) -> u32 {
    plan.flow_count.max(1)
}
