//! The formats of capture files and their headers.

use pcapng::{Interface, Packet, Section, pcap};

/// Format of capture files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub enum Format {
    /// Queues, direction, losses, statistics.
    #[default]
    Pcapng,
    /// Classic pcap with nanoseconds: time, lengths and bytes only.
    Pcap,
    /// A data set of Parquet files in the folder that `--write` names: one row per packet.
    Parquet,
}

impl Format {
    /// `pcapng`, `pcap` or `parquet`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pcapng => "pcapng",
            Self::Pcap => "pcap",
            Self::Parquet => "parquet",
        }
    }

    /// The header of a file; the columns of a Parquet file are made of pcapng blocks.
    pub(crate) fn header(self, section: &Section, interfaces: &[Interface]) -> Vec<u8> {
        let mut header = Vec::new();
        match self {
            Self::Pcapng | Self::Parquet => {
                section.emit(&mut header);
                interfaces.iter().for_each(|interface| interface.emit(&mut header));
            }
            Self::Pcap => {
                let Some(first) = interfaces.first() else { return header };
                let file = pcap::Header {
                    snaplen: first.snaplen,
                    link_type: first.link_type,
                    ..pcap::Header::default()
                };
                file.emit(&mut header);
            }
        }
        header
    }

    /// The packet of a record that an encoder wrote; of a record of pcap its bytes and its length.
    pub(crate) fn packet_of(self, record: &[u8]) -> Option<Packet<'_>> {
        match self {
            Self::Pcapng | Self::Parquet => Packet::parse_emitted(record),
            Self::Pcap => {
                let (head, data) = record.split_first_chunk::<16>()?;
                let frame_len = u32::from_le_bytes([head[12], head[13], head[14], head[15]]);
                Some(Packet { frame_len, data, ..Packet::default() })
            }
        }
    }
}
