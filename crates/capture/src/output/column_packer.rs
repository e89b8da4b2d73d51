//! Records as row groups of a Parquet file.
//!
//! A row group is the unit of writing and of loss: its records are counted when its bytes are
//! written or refused.

use crate::output::packer::{PackedRecords, Packer, RingCpus};
use crate::record::batch::IndexEntry;
use columns::{CapturedInterface, Key, PacketRow, PartFile, ROWS_MAX, RowGroup};
use pcapng::{Block, Packet, PacketFlags, Reader, Section};
use std::collections::VecDeque;
use std::sync::Arc;

/// Memory for packets that wait for the end of their row group, for all devices together.
const PENDING_LEN_MAX: u64 = 128 << 20;

/// Collects records to row groups of a Parquet file.
pub(crate) struct ColumnPacker {
    part: PartFile,
    interfaces: Vec<CapturedInterface>,
    ring_cpus: Arc<RingCpus>,
    cpus: Vec<Option<u32>>,
    pending_len_max: u64,
    index: Vec<IndexEntry>,
    /// Row groups for the writer, and those that it has and says nothing about yet.
    ready: VecDeque<PackedRecords>,
    with_writer: VecDeque<RowGroup>,
    /// Bytes of the last row group, before and after it was encoded.
    last_lens: (u64, u64),
}

impl ColumnPacker {
    /// For one of `device_count` devices.
    pub(crate) fn new(ring_cpus: Arc<RingCpus>, device_count: usize) -> Self {
        Self {
            part: PartFile::new(true),
            interfaces: Vec::new(),
            ring_cpus,
            cpus: Vec::new(),
            pending_len_max: PENDING_LEN_MAX / device_count.max(1) as u64,
            index: Vec::new(),
            ready: VecDeque::new(),
            with_writer: VecDeque::new(),
            last_lens: (1, 1),
        }
    }

    fn keys(&self) -> [Key; 1] {
        [Key::interfaces(&self.interfaces)]
    }
}

impl Packer for ColumnPacker {
    fn begin_file(&mut self, header: &[u8]) -> Vec<u8> {
        self.part = PartFile::new(true);
        self.interfaces.clear();
        self.declare(header);
        PartFile::header().to_vec()
    }

    fn declare(&mut self, blocks: &[u8]) {
        // They are read as those of a section; `blocks` may begin with another one.
        let mut file = Vec::new();
        Section::default().emit(&mut file);
        file.extend_from_slice(blocks);
        let interfaces = Reader::new(&file[..]).filter_map(|block| match block {
            Ok(Block::Interface(interface)) => Some(interface),
            _ => None,
        });
        let numbers = self.interfaces.len() as u32..;
        let more =
            numbers.zip(interfaces).map(|(number, pcapng::Interface { name, link_type, snaplen, .. })| {
                CapturedInterface { number, name, link_type, snaplen, fcs_len: 0 }
            });
        self.interfaces.extend(more);
    }

    fn add(&mut self, bytes: &[u8], index: &[IndexEntry]) {
        if self.cpus.is_empty() {
            self.cpus = (self.ring_cpus)();
        }
        let mut rest = bytes;
        for entry in index {
            let (block, behind) = rest.split_at(entry.len as usize);
            rest = behind;
            let packet = Packet::parse_emitted(block).expect("the encoder wrote it");
            self.part.push(&PacketRow {
                time_ns: Some(packet.time_ns),
                is_hardware_time: Some(entry.is_hardware()),
                interface: packet.interface,
                queue: packet.queue,
                direction: packet.flags.and_then(PacketFlags::direction),
                packet_id: packet.packet_id,
                comment: None,
                cpu: self.cpus.get(entry.ring()).copied().flatten(),
                frame_len: packet.frame_len,
                link_type: self.interfaces.get(entry.interface()).map_or(0, |interface| interface.link_type),
                data: packet.data,
            });
            self.index.push(*entry);
            if self.part.rows() >= ROWS_MAX || self.part.pending_len() >= self.pending_len_max {
                self.submit();
            }
        }
    }

    /// A row group is not cut short for readers: they see complete files.
    fn tick(&mut self) {}

    fn submit(&mut self) {
        let pending_len = self.part.pending_len();
        if let Some(mut group) = self.part.end_row_group() {
            let bytes = group.take_bytes();
            self.last_lens = (pending_len.max(1), bytes.len() as u64);
            let index = std::mem::take(&mut self.index);
            self.ready.push_back(PackedRecords { number: 0, bytes, index, raw: Vec::new() });
            self.with_writer.push_back(group);
        }
    }

    fn next(&mut self, _all: bool) -> Option<PackedRecords> {
        self.ready.pop_front()
    }

    fn waiting_len(&self) -> usize {
        let (before, after) = self.last_lens;
        (u128::from(self.part.pending_len()) * u128::from(after) / u128::from(before)) as usize
    }

    fn written(&mut self, _records: PackedRecords) {
        self.with_writer.pop_front().into_iter().for_each(|group| self.part.keep(group));
    }

    fn lost(&mut self, _records: PackedRecords) {
        self.with_writer.pop_front();
    }

    fn end_extra_len_max(&self, more: usize) -> usize {
        self.part.footer_len_max(more, &self.keys())
    }

    fn end_of_file(&mut self, _closing: &[u8]) -> Vec<u8> {
        let keys = self.keys();
        self.part.footer(&keys)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::batch::samples::batch;
    use columns::PacketReader;
    use pcapng::{Interface, Section};

    #[test]
    fn row_groups_that_were_refused_are_not_in_the_file() {
        let mut header = Vec::new();
        Section::default().emit(&mut header);
        Interface { name: Some("eth0".to_owned()), ..Interface::default() }.emit(&mut header);
        let mut packer = ColumnPacker::new(Arc::new(|| vec![Some(3), None]), 1);
        let mut file = packer.begin_file(&header);
        for (number, times) in (0..).zip([[10, 20, 30], [40, 50, 60], [70, 80, 90]]) {
            let batch = batch(number % 2, &times, 60);
            packer.add(&batch.bytes, &batch.index);
            assert!(packer.next(true).is_none());
            packer.submit();
            let records = packer.next(false).unwrap();
            assert_eq!(records.index.len(), 3);
            match number {
                1 => packer.lost(records),
                _ => {
                    file.extend_from_slice(&records.bytes);
                    packer.written(records);
                }
            }
        }
        let len_max = packer.end_extra_len_max(0);
        let end = packer.end_of_file(&[]);
        assert!(end.len() <= len_max);
        file.extend(end);
        let mut reader = PacketReader::new(bytes::Bytes::from(file)).unwrap();
        assert_eq!(reader.interfaces()[0].name.as_deref(), Some("eth0"));
        let times: Vec<_> =
            std::iter::from_fn(|| reader.next_packet().unwrap()).map(|packet| packet.time_ns).collect();
        assert_eq!(times, [10, 20, 30, 70, 80, 90].map(Some));
    }
}
