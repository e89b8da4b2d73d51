//! Interface statistics block: number of packets received, and where others were lost.

use crate::body::Body;
use crate::options::{self, COMMENT, Emitter, set};
use crate::sources::Sources;
use crate::{ByteOrder, RawOption, ReadError, frame};

pub(crate) const START_TIME: u16 = 2;
pub(crate) const END_TIME: u16 = 3;
pub(crate) const RECEIVED: u16 = 4;
pub(crate) const DROPPED_BY_INTERFACE: u16 = 5;
pub(crate) const ACCEPTED_BY_FILTER: u16 = 6;
pub(crate) const DROPPED_BY_OS: u16 = 7;
pub(crate) const DELIVERED: u16 = 8;

/// Counts of one interface up to a moment. `None` says that the number is not known, which is not
/// zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Number of the interface within the section.
    pub interface: u32,
    /// When the counts were taken, in nanoseconds since 1970; 0 if it is not known.
    pub time_ns: u64,
    /// When the capture began, in nanoseconds since 1970.
    pub start_time_ns: Option<u64>,
    /// When the capture ended, in nanoseconds since 1970.
    pub end_time_ns: Option<u64>,
    /// Packets that came from the wire since the start (`isb_ifrecv`).
    pub received: Option<u64>,
    /// Packets that the interface lost because its buffers were full (`isb_ifdrop`).
    pub dropped_by_interface: Option<u64>,
    /// Packets that the filter let through (`isb_filteraccept`).
    pub accepted_by_filter: Option<u64>,
    /// Packets that passed the filter and were lost in the operating system (`isb_osdrop`).
    pub dropped_by_os: Option<u64>,
    /// Packets that reached the capturing program (`isb_usrdeliv`).
    pub delivered: Option<u64>,
    /// Comment of the author.
    pub comment: Option<String>,
    /// Options that no field above holds.
    pub other: Vec<RawOption>,
}

impl Statistics {
    /// Appends the block in little-endian order, for an interface without a time offset.
    pub fn emit(&self, out: &mut Vec<u8>) {
        self.emit_as(ByteOrder::Little, out);
    }

    /// Appends the block in the order of its section, for an interface without a time offset.
    pub fn emit_as(&self, order: ByteOrder, out: &mut Vec<u8>) {
        frame::emit(order, frame::STATISTICS, out, |out| {
            out.extend_from_slice(&order.emit_u32(self.interface));
            out.extend_from_slice(&order.emit_time(self.time_ns));
            let mut options = Emitter::new(order, out);
            options.text(COMMENT, self.comment.as_deref());
            options.time(START_TIME, self.start_time_ns);
            options.time(END_TIME, self.end_time_ns);
            options.number_u64(RECEIVED, self.received);
            options.number_u64(DROPPED_BY_INTERFACE, self.dropped_by_interface);
            options.number_u64(ACCEPTED_BY_FILTER, self.accepted_by_filter);
            options.number_u64(DROPPED_BY_OS, self.dropped_by_os);
            options.number_u64(DELIVERED, self.delivered);
            options.raw(&self.other);
            options.end();
        });
    }

    pub(crate) fn parse(mut body: Body<'_>, sources: &Sources) -> Result<Self, ReadError> {
        let block_offset = body.block_offset();
        let mut statistics = Self { interface: body.u32("the interface")?, ..Self::default() };
        let source = sources.find(block_offset, statistics.interface)?;
        let to_ns = |units| source.scale.to_ns(units);
        // Some programs write 0 for a time that they do not know.
        statistics.time_ns = to_ns(body.time("the time")?).unwrap_or(0);
        let (mut start_units, mut end_units) = (None, None);
        options::parse(body, &mut statistics.other, |option| match option.code {
            COMMENT => set(&mut statistics.comment, option.string()),
            START_TIME => set(&mut start_units, option.time()),
            END_TIME => set(&mut end_units, option.time()),
            RECEIVED => set(&mut statistics.received, option.number_u64()),
            DROPPED_BY_INTERFACE => set(&mut statistics.dropped_by_interface, option.number_u64()),
            ACCEPTED_BY_FILTER => set(&mut statistics.accepted_by_filter, option.number_u64()),
            DROPPED_BY_OS => set(&mut statistics.dropped_by_os, option.number_u64()),
            DELIVERED => set(&mut statistics.delivered, option.number_u64()),
            _ => false,
        })?;
        statistics.start_time_ns = start_units.and_then(to_ns);
        statistics.end_time_ns = end_units.and_then(to_ns);
        Ok(statistics)
    }
}
