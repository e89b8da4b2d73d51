//! One packet as a row, and the columns that rows of packets fill.

use crate::column::{AnyColumn, BytesColumn, ColumnMaker, EncodedColumn, ValueColumn};
use crate::raw::{EncodeQueue, RawColumn};
use measure::Signature;
use packet::HeaderFields;
use parquet::basic::Type;
use parquet::data_type::{BoolType, ByteArrayType, FixedLenByteArrayType, Int32Type, Int64Type};

/// One captured packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketRow<'a> {
    /// Nanoseconds since 1970; null if it is not known, or beyond the year 2262.
    pub time_ns: Option<u64>,
    /// Whether the device's own clock stamped it; `None` if unknown.
    pub is_hardware_time: Option<bool>,
    /// Number of the interface in the capture.
    pub interface: u32,
    /// Receive queue of the device.
    pub queue: Option<u32>,
    /// CPU that received it.
    pub cpu: Option<u32>,
    /// 1 if it came in, 2 if it went out, as in `epb_flags`; `None` if unknown.
    pub direction: Option<u8>,
    /// Its id in the capture file.
    pub packet_id: Option<u64>,
    /// Comment of the author.
    pub comment: Option<&'a str>,
    /// Length on the link in bytes, without FCS.
    pub frame_len: u32,
    /// What the bytes begin with, as registered for pcap.
    pub link_type: u16,
    /// The captured bytes.
    pub data: &'a [u8],
}

/// Makes the columns of this table: a struct, its schema, and how a row fills them. `push` is for
/// columns where every row has a value.
macro_rules! header_columns {
    (|$row:ident, $headers:ident, $signature:ident| $($name:ident: $column:ty = $push:ident($value:expr);)*) => {
        /// The columns of a row group but `raw`, in the order of the schema.
        struct HeaderColumns {
            $($name: $column,)*
        }

        impl HeaderColumns {
            fn new(make: &mut ColumnMaker<'_>) -> Self {
                // Fields are evaluated in this order, which is that of the schema.
                Self { $($name: AnyColumn::next_of(make),)* }
            }

            fn push(&mut self, $row: &PacketRow<'_>, $headers: &HeaderFields<'_>, $signature: Option<&Signature>) {
                $(self.$name.$push($value);)*
            }

            fn all(&mut self) -> Vec<&mut dyn AnyColumn> {
                vec![$(&mut self.$name,)*]
            }
        }

        /// Name and type of each column but `raw`, and whether every row has a value.
        pub(crate) fn header_fields() -> Vec<(&'static str, Type, bool)> {
            vec![$((stringify!($name), <$column>::physical(), stringify!($push) == "push"),)*]
        }
    };
}

header_columns! {
    |row, headers, signature|
    time_ns: ValueColumn<Int64Type> = push_optional(row.time_ns.and_then(|time_ns| i64::try_from(time_ns).ok()));
    time_source: ValueColumn<Int32Type> = push_optional(row.is_hardware_time.map(i32::from));
    interface: ValueColumn<Int32Type> = push(row.interface.cast_signed());
    queue: ValueColumn<Int32Type> = push_optional(row.queue.map(u32::cast_signed));
    cpu: ValueColumn<Int32Type> = push_optional(row.cpu.map(u32::cast_signed));
    direction: ValueColumn<Int32Type> = push_optional(row.direction.map(i32::from));
    packet_id: ValueColumn<Int64Type> = push_optional(row.packet_id.map(u64::cast_signed));
    comment: BytesColumn<ByteArrayType> = push_optional(row.comment.map(str::as_bytes));
    orig_len: ValueColumn<Int32Type> = push(row.frame_len.cast_signed());
    cap_len: ValueColumn<Int32Type> = push(row.data.len() as i32);
    eth_dst: ValueColumn<Int64Type> = push_optional(headers.eth_dst.map(u64::cast_signed));
    eth_src: ValueColumn<Int64Type> = push_optional(headers.eth_src.map(u64::cast_signed));
    ethertype: ValueColumn<Int32Type> = push_optional(headers.ethertype.map(i32::from));
    vlan: ValueColumn<Int32Type> = push_optional(headers.vlan.map(i32::from));
    vlan_inner: ValueColumn<Int32Type> = push_optional(headers.vlan_inner.map(i32::from));
    mpls: ValueColumn<Int32Type> = push_optional(headers.mpls.map(u32::cast_signed));
    ip_version: ValueColumn<Int32Type> = push_optional(headers.ip_version.map(i32::from));
    proto: ValueColumn<Int32Type> = push_optional(headers.proto.map(i32::from));
    hop_limit: ValueColumn<Int32Type> = push_optional(headers.hop_limit.map(i32::from));
    tos: ValueColumn<Int32Type> = push_optional(headers.tos.map(i32::from));
    ip_id: ValueColumn<Int32Type> = push_optional(headers.ip_id.map(i32::from));
    is_fragment: ValueColumn<BoolType> = push_optional(headers.is_fragment);
    src4: ValueColumn<Int64Type> = push_optional(headers.src4.map(i64::from));
    dst4: ValueColumn<Int64Type> = push_optional(headers.dst4.map(i64::from));
    src6: BytesColumn<FixedLenByteArrayType> = push_optional(headers.src6.map(|address| &address[..]));
    dst6: BytesColumn<FixedLenByteArrayType> = push_optional(headers.dst6.map(|address| &address[..]));
    src_port: ValueColumn<Int32Type> = push_optional(headers.src_port.map(i32::from));
    dst_port: ValueColumn<Int32Type> = push_optional(headers.dst_port.map(i32::from));
    tcp_flags: ValueColumn<Int32Type> = push_optional(headers.tcp_flags.map(i32::from));
    wr_stream: ValueColumn<Int32Type> = push_optional(signature.map(|signature| signature.stream.into()));
    wr_seq: ValueColumn<Int64Type> = push_optional(signature.map(|signature| signature.seq_num.into()));
    wr_sent_ns: ValueColumn<Int64Type> = push_optional(signature.and_then(Signature::sent_ns).map(clamped));
}

/// The columns of a row group, in the order of the schema.
pub(crate) struct PacketColumns {
    headers: HeaderColumns,
    raw: Option<RawColumn>,
}

impl PacketColumns {
    /// Empty columns; `has_bytes` decides whether `raw` is one of them, which `queue` encodes.
    pub(crate) fn new(make: &mut ColumnMaker<'_>, has_bytes: bool, queue: Option<EncodeQueue>) -> Self {
        Self { headers: HeaderColumns::new(make), raw: has_bytes.then(|| RawColumn::new(make, queue)) }
    }

    /// Adds a row.
    #[inline]
    pub(crate) fn push(&mut self, row: &PacketRow<'_>) {
        let headers = HeaderFields::parse(row.link_type, row.data);
        let signature = headers.udp_payload.and_then(Signature::parse).filter(Signature::is_plausible);
        self.headers.push(row, &headers, signature.as_ref());
        if let Some(raw) = &mut self.raw {
            raw.push(row.data);
        }
    }

    /// Encodes the rows so far; `raw` is encoded as its bytes come.
    pub(crate) fn encode(&mut self) {
        self.headers.all().into_iter().for_each(AnyColumn::encode);
    }

    /// Ends all columns, once.
    pub(crate) fn close(&mut self) -> Vec<EncodedColumn> {
        let mut all: Vec<_> = self.headers.all().into_iter().map(AnyColumn::close).collect();
        all.extend(self.raw.as_mut().map(RawColumn::close));
        all
    }
}

/// A time as the signed number that every reader of Parquet knows.
fn clamped(time_ns: u64) -> i64 {
    i64::try_from(time_ns).unwrap_or(i64::MAX)
}
