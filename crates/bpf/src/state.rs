//! Cursor, field states and flow table, which every program that builds frames shares with its
//! worker (`plan.h`).

use crate::BpfError;
use crate::abi;
use crate::plan_program::{PlanMemory, PlanProgram};
use crate::shared::SharedArray;
use std::mem::offset_of;
use std::os::fd::AsFd;

/// Progress of a program. Written by the program while it runs, by its worker between calls.
#[derive(Debug)]
pub struct State {
    cursor: SharedArray<abi::Cursor>,
    flows: SharedArray<abi::Flow>,
    /// `None` for a plan without fields.
    fields: Option<SharedArray<abi::FieldState>>,
    /// `None` for a plan without fields that hold values.
    held: Option<SharedArray<u64>>,
    fixed_frame_len: Option<u32>,
}

impl State {
    /// Maps the memory of a loaded program.
    pub(crate) fn map(program: &PlanProgram, memory: &PlanMemory) -> Result<Self, BpfError> {
        let PlanMemory { cursor, states, held, flows } = memory;
        let (cursor, states, held, flows) = (cursor.as_fd(), states.as_fd(), held.as_fd(), flows.as_fd());
        let fields = (program.state_count > 0).then_some(program.state_count);
        let holds = (program.held_count > 0).then_some(program.held_count);
        Ok(Self {
            cursor: SharedArray::new(cursor, "cursor", 1)?,
            flows: SharedArray::new(flows, "wr_flows", program.flow_entries() as usize)?,
            held: holds.map(|count| SharedArray::new(held, "wr_held", count)).transpose()?,
            fields: fields.map(|count| SharedArray::new(states, "states", count)).transpose()?,
            fixed_frame_len: program.fixed_frame_len(),
        })
    }

    /// The states of the fields.
    pub fn field_states(&self) -> Vec<abi::FieldState> {
        let all = |states: &SharedArray<abi::FieldState>| {
            (0..states.len()).map(|index| states.get(index)).collect()
        };
        self.fields.as_ref().map(all).unwrap_or_default()
    }

    /// Sets the states of the fields; not while the program runs.
    pub fn set_field_states(&self, states: &[abi::FieldState]) {
        for (index, state) in states.iter().enumerate() {
            self.fields.iter().for_each(|shared| shared.set(index, state));
        }
    }

    /// For each field state, the next frames that have its last value; none if no field holds
    /// values.
    pub fn held(&self) -> Vec<u64> {
        let all = |held: &SharedArray<u64>| (0..held.len()).map(|index| held.get(index)).collect();
        self.held.as_ref().map(all).unwrap_or_default()
    }

    /// Sets these counts; not while the program runs.
    pub fn set_held(&self, held: &[u64]) {
        for (index, frames) in held.iter().enumerate() {
            self.held.iter().for_each(|shared| shared.set(index, frames));
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
        (0..self.flows.len()).map(|index| self.flows.get(index)).collect()
    }

    /// Sets the flow table, with at most as many entries as the plan has flows. Not while the
    /// program runs.
    pub fn set_flows(&self, flows: &[abi::Flow]) {
        for (index, flow) in flows.iter().enumerate() {
            self.flows.set(index, flow);
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
