//! Values in received frames that `receive.bpf.c` counts apart.

use crate::abi;
use crate::shared::SharedArray;
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use measure::{TAG_PARTS, TagCounts, TagPart};
use std::collections::BTreeSet;
use std::mem::offset_of;

/// The rules of a receiver, one per flow and one for all frames, and what it counted by them.
#[derive(Debug)]
pub(crate) struct TagMaps {
    pub(crate) rules: SharedArray<abi::TagRule>,
    pub(crate) values: MapHandle,
}

/// Values of the parts of frames of a flow, and their frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaggedFrames {
    /// The line of the flow; `None` for all frames of the device.
    pub line: Option<usize>,
    /// The values of its parts, 0 for those that it does not have.
    pub values: [u32; TAG_PARTS],
    /// Their frames.
    pub counts: TagCounts,
}

impl TagMaps {
    /// The frames of a line are counted by the values of these parts from now on.
    pub(crate) fn set(&self, line: usize, parts: &[TagPart]) {
        let place = |part: usize| offset_of!(abi::TagRule, parts) + 8 * part;
        // The program counts nothing without the first part, which goes first and comes last.
        for part in 0..TAG_PARTS {
            self.rules.set_word(line, place(part), 0);
        }
        for (index, part) in parts.iter().enumerate().take(TAG_PARTS).rev() {
            self.rules.set_word(line, place(index), packed(*part));
        }
    }

    /// Frames of all lines by their values. Entries that appear or go meanwhile may be missing.
    pub(crate) fn read(&self) -> Vec<TaggedFrames> {
        let all_lines = self.rules.len() - 1;
        let counts = |bytes: Vec<u8>| {
            let key: abi::TagKey = bytemuck::try_pod_read_unaligned(&bytes).ok()?;
            let per_cpu = self.values.lookup_percpu(&bytes, MapFlags::ANY).ok()??;
            let mut sum = TagCounts::default();
            for cpu in per_cpu {
                let counts: abi::TagCounts = bytemuck::try_pod_read_unaligned(&cpu).ok()?;
                sum.add(&counts.into());
            }
            let line = key.line as usize;
            let line = (line != all_lines).then_some(line);
            Some(TaggedFrames { line, values: key.values, counts: sum })
        };
        self.values.keys().filter_map(counts).collect()
    }

    /// Removes the rules of lines, and drops what was counted of them.
    pub(crate) fn forget(&self, lines: &BTreeSet<usize>) {
        lines.iter().for_each(|line| self.set(*line, &[]));
        let is_of_lines = |bytes: &Vec<u8>| {
            let key: Option<abi::TagKey> = bytemuck::try_pod_read_unaligned(bytes).ok();
            key.is_some_and(|key| lines.contains(&(key.line as usize)))
        };
        let keys: Vec<Vec<u8>> = self.values.keys().filter(is_of_lines).collect();
        // An entry that has gone is not there any more either.
        keys.iter().for_each(|key| drop(self.values.delete(key)));
    }
}

/// A part as the program reads it.
fn packed(part: TagPart) -> u64 {
    let (first, ahead) = (u64::from(part.bit / 8), u32::from(part.bit % 8));
    let len = u64::from((ahead + part.bits).div_ceil(8));
    let shift = u64::from(64 - ahead - part.bits);
    let mask = u64::from(u32::MAX >> (32 - part.bits));
    first | len << 16 | shift << 24 | mask << 32
}

impl From<abi::TagCounts> for TagCounts {
    fn from(counts: abi::TagCounts) -> Self {
        Self {
            frames: counts.frames,
            frame_bytes: counts.frame_bytes,
            first_ns: counts.first_ns,
            last_ns: counts.last_ns,
            stamped: counts.stamped,
            latency_sum_ns: counts.latency_sum_ns,
            latency_min_ns: if counts.stamped > 0 { !counts.latency_min_inverted } else { 0 },
            latency_max_ns: counts.latency_max_ns,
        }
    }
}
