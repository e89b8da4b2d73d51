//! What of a capture is in the files of one name: everything or one ring, and how many frames of each interface.
//!
//! The rings count for themselves. Which interface a frame goes by only its block says, so blocks are looked at again, but
//! only where a device has more than one interface.

use crate::format::Format;

/// See the top of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Share {
    /// The number of the ring, where each has a file.
    pub(crate) ring: Option<usize>,
    /// Frames of each interface that were written, by its number; empty when nobody asks.
    frames: Vec<u64>,
}

impl Share {
    /// Nothing yet, of all rings; counts frames for so many interfaces, 0 for none.
    pub(crate) fn new(interface_count: usize) -> Self {
        Self { ring: None, frames: vec![0; interface_count] }
    }

    /// Frames of an interface that were written; nothing when they were not counted.
    pub(crate) fn written(&self, interface: u32) -> Option<u64> {
        self.frames.get(interface as usize).copied()
    }

    /// The first `count` of these records were written. Says how many went by which interface, if anybody asks.
    pub(crate) fn add(&mut self, format: Format, mut records: &[u8], count: u64) -> Vec<(u32, u64)> {
        if self.frames.is_empty() {
            return Vec::new();
        }
        let mut added = vec![0; self.frames.len()];
        for _ in 0..count {
            let (record, rest) = records.split_at(format.first(records).len);
            added[format.interface(record) as usize] += 1;
            records = rest;
        }
        self.frames.iter_mut().zip(&added).for_each(|(frames, added)| *frames += added);
        (0..).zip(added).filter(|(_, added)| *added > 0).collect()
    }

    /// Frames that were written are not there any more.
    pub(crate) fn take_back(&mut self, interfaces: &[(u32, u64)]) {
        for (interface, count) in interfaces {
            self.frames.get_mut(*interface as usize).into_iter().for_each(|frames| *frames -= count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcapng::Packet;

    #[test]
    fn frames_are_counted_for_their_interface() {
        let mut records = Vec::new();
        for interface in [1, 1, 0, 2, 1] {
            Packet { interface, data: &[7; 33], ..Packet::default() }.emit(&mut records);
        }
        let mut share = Share::new(4);
        assert_eq!(share.add(Format::Pcapng, &records, 4), [(0, 1), (1, 2), (2, 1)]);
        share.add(Format::Pcapng, &records, 1);
        assert_eq!([0, 1, 2, 3, 4].map(|n| share.written(n)), [Some(1), Some(3), Some(1), Some(0), None]);
        let mut single = Share::new(0);
        single.add(Format::Pcapng, &records, 5);
        assert_eq!(single.written(0), None);
        share.take_back(&[(1, 2), (2, 1)]);
        assert_eq!([0, 1, 2].map(|n| share.written(n)), [Some(1), Some(1), Some(0)]);
        single.take_back(&[(0, 1)]);
    }
}
