//! Several outputs of one capture: each gets the frames that match its filter, cut to its snaplen.
//!
//! The writer passes each record here once. A frame counts once, whatever the number of outputs: as
//! filtered if no output wants it, as lost at the disk if one of those that want it lost it, else
//! as written. Outputs that compress decide about a frame later than others, so [`Ledger`] holds
//! frames until all their outputs have decided.

use crate::CaptureError;
use crate::backend::filter::LinkFilter;
use crate::interfaces::InterfaceTable;
use crate::options::{Options, OutputOptions};
use crate::output::accounting::Accounting;
use crate::output::display::DisplayWriter;
use crate::output::fileset::FileSet;
use crate::output::ledger::Ledger;
use crate::record::batch::{Chunk, EncodedBatch, IndexEntry};
use crate::record::encode::emit_pcap;
use crate::record::format::Format;
use crate::record::header_cut::HeaderCut;
use crate::record::ring_handle::RingDevice;
use pcapng::Packet;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::slice;

/// The records of one output, on their way to its files.
struct Branch {
    filters: Filters,
    snaplen: usize,
    /// Bytes kept behind the last header.
    header_cut: Option<u32>,
    format: Format,
    batch: EncodedBatch,
    /// Losses of each ring that no record of this output tells yet.
    lost_before: Vec<u64>,
}

/// Frames of one capture for several outputs.
pub(crate) struct Splitter {
    branches: Vec<Branch>,
    /// Frames to be written at most.
    frames_max: Option<u64>,
    /// Where the decisions of the outputs are collected.
    pub(crate) ledger: RefCell<Ledger>,
}

/// `None` for all frames of the rings.
type Filters = Option<LinkFilter>;

impl Splitter {
    /// For outputs in this order; `interfaces` are those of all devices, `options` those of the
    /// rings.
    ///
    /// # Errors
    /// Those of filters.
    pub(crate) fn new(
        outputs: &[OutputOptions],
        interfaces: &InterfaceTable,
        options: &Options,
    ) -> Result<Self, CaptureError> {
        // Each is compiled once, however many interfaces have it.
        let link_types: BTreeSet<u16> = interfaces.link_types().into_iter().collect();
        // The kernel has run a filter that all outputs share, on whole frames. Here they may be
        // cut.
        let is_filtered = options.filter.is_some();
        let compile = |expression: &String| LinkFilter::new(expression, &link_types, &options.interrupted);
        let branch = |output: &OutputOptions| {
            Ok(Branch {
                filters: match is_filtered {
                    true => None,
                    false => output.filter.as_ref().map(compile).transpose()?,
                },
                snaplen: output.snaplen as usize,
                header_cut: output.header_cut,
                format: output.format,
                batch: EncodedBatch::default(),
                lost_before: Vec::new(),
            })
        };
        let branches = outputs.iter().map(branch).collect::<Result<Vec<_>, CaptureError>>()?;
        let ledger = RefCell::new(Ledger::new(branches.len()));
        Ok(Self { branches, frames_max: options.frames_max, ledger })
    }

    /// True if a filter asks which way a packet goes.
    pub(crate) fn asks_for_direction(&self) -> bool {
        let mut filters = self.branches.iter().filter_map(|branch| branch.filters.as_ref());
        filters.any(LinkFilter::asks_for_direction)
    }

    /// Passes records to the files of the outputs that want them, one for each output, and to the
    /// display those that at least one output gets.
    pub(crate) fn append(
        &mut self,
        chunk: &Chunk<'_>,
        files: &mut [FileSet],
        mut display: Option<&mut DisplayWriter>,
        accounting: &Accounting<'_>,
    ) {
        let mut at = 0;
        for entry in chunk.index {
            let record = &chunk.bytes[at..at + entry.len as usize];
            at += record.len();
            let device = &*accounting.rings[entry.ring()].device_of(*entry);
            if self.is_full() {
                // Outputs that pack frames have to decide about theirs before others may follow.
                self.write_batches(files, accounting);
                self.of_outputs(files, accounting, |file, accounting| file.write_packed(accounting));
            }
            let left = self.frames_max.map(|most| most.saturating_sub(self.ledger.borrow().taken()));
            let is_taken = self.split(record, *entry, device, left == Some(0), accounting);
            if is_taken && let Some(display) = &mut display {
                display.take(&Chunk::new(record, slice::from_ref(entry)), accounting.rings);
            }
        }
        self.write_batches(files, accounting);
        if self.is_full() {
            self.of_outputs(files, accounting, |file, accounting| file.write_packed(accounting));
        }
        if self.frames_max.is_some_and(|most| self.ledger.borrow().written >= most) {
            accounting.limit.close();
        }
    }

    /// Calls `act` for the files of each output, with its accounting.
    pub(crate) fn of_outputs(
        &self,
        files: &mut [FileSet],
        accounting: &Accounting<'_>,
        mut act: impl FnMut(&mut FileSet, &Accounting<'_>),
    ) {
        for (number, file) in files.iter_mut().enumerate() {
            act(file, &accounting.of_output(&self.ledger, number));
        }
    }

    /// True while as many frames are on their way as may still be written.
    fn is_full(&self) -> bool {
        let ledger = self.ledger.borrow();
        ledger.is_waiting() && self.frames_max.is_some_and(|most| ledger.taken() >= most)
    }

    fn write_batches(&mut self, files: &mut [FileSet], accounting: &Accounting<'_>) {
        for (number, (branch, file)) in self.branches.iter_mut().zip(files).enumerate() {
            if !branch.batch.index.is_empty() {
                file.append(&branch.batch.chunk(), &accounting.of_output(&self.ledger, number));
                branch.batch.clear();
            }
        }
    }

    /// Encodes one record for each output that wants it. False if no output gets it.
    fn split(
        &mut self,
        record: &[u8],
        entry: IndexEntry,
        device: &RingDevice,
        is_after_limit: bool,
        accounting: &Accounting<'_>,
    ) -> bool {
        let packet = Packet::parse_emitted(record).expect("the encoder wrote it");
        let mut ledger = self.ledger.borrow_mut();
        let (mut takers, mut is_cut) = (0_u64, true);
        for (number, branch) in self.branches.iter_mut().enumerate() {
            let is_wanted = branch.filters.as_mut().is_none_or(|filter| {
                filter.accepts(packet.data, packet.frame_len, entry.is_outgoing(), device)
            });
            if is_wanted && !is_after_limit {
                is_cut &= branch.encode(record, &packet, entry, device.link_type);
            } else {
                branch.lost_in(entry.ring(), packet.drop_count.unwrap_or(0));
            }
            takers |= u64::from(is_wanted) << number;
        }
        for number in (0..self.branches.len()).filter(|number| takers != 0 && takers & 1 << number == 0) {
            ledger.counts[number].not_matched += 1;
        }
        match takers {
            0 => accounting.filtered(&[entry]),
            _ if is_after_limit => {
                let wanted = (0..self.branches.len()).filter(|number| takers & 1 << number != 0);
                wanted.for_each(|number| ledger.counts[number].after_limit += 1);
                accounting.after_limit(&[entry]);
            }
            _ => ledger.begin(entry.with_cut(is_cut), takers),
        }
        takers != 0 && !is_after_limit
    }
}

impl Branch {
    /// The losses of a ring before the next record of it, with `more`.
    fn lost_in(&mut self, ring: usize, more: u64) -> &mut u64 {
        if self.lost_before.len() <= ring {
            self.lost_before.resize(ring + 1, 0);
        }
        self.lost_before[ring] += more;
        &mut self.lost_before[ring]
    }

    /// Appends a record for this output; true if the frame is not whole in it.
    fn encode(&mut self, record: &[u8], packet: &Packet<'_>, entry: IndexEntry, link_type: u16) -> bool {
        let lost = std::mem::take(self.lost_in(entry.ring(), packet.drop_count.unwrap_or(0)));
        let cut = self.header_cut.and_then(|extra_len| HeaderCut::new(link_type, extra_len));
        let data = cut.map_or(packet.data, |cut| cut.kept(packet.data));
        let data = &data[..data.len().min(self.snaplen)];
        let (start, drop_count) = (self.batch.bytes.len(), (lost > 0).then_some(lost));
        let out = &mut self.batch.bytes;
        match self.format {
            Format::Pcap => emit_pcap(packet.time_ns, packet.frame_len, data, out),
            _ if data.len() == packet.data.len() && drop_count == packet.drop_count => {
                out.extend_from_slice(record);
            }
            _ => Packet { data, drop_count, ..*packet }.emit(out),
        }
        let is_cut = data.len() < packet.frame_len as usize;
        let len = self.batch.bytes.len() - start;
        self.batch.push(entry.with_len(len).with_cut(is_cut));
        is_cut
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_before_a_frame_of_another_output_are_told_by_the_next_one() {
        let mut branch = Branch {
            filters: None,
            snaplen: 20,
            header_cut: None,
            format: Format::Pcapng,
            batch: EncodedBatch::default(),
            lost_before: Vec::new(),
        };
        branch.lost_in(3, 4);
        branch.lost_in(3, 5);
        let packet = Packet { frame_len: 60, data: &[7; 60], drop_count: Some(2), ..Packet::default() };
        let mut record = Vec::new();
        packet.emit(&mut record);
        let entry = IndexEntry::new(0, record.len(), 3, 0, false);
        assert!(branch.encode(&record, &packet, entry, 1));
        let written = Packet::parse_emitted(&branch.batch.bytes).expect("a packet");
        assert_eq!((written.data.len(), written.frame_len, written.drop_count), (20, 60, Some(11)));
        assert_eq!(branch.batch.index[0].len as usize, branch.batch.bytes.len());
        assert!(branch.batch.index[0].is_cut());
    }
}
