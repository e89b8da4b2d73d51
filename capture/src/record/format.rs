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

    /// The captured bytes and the length of the frame of a record that an encoder wrote.
    pub(crate) fn frame_of(self, record: &[u8]) -> Option<(&[u8], u32)> {
        match self {
            Self::Pcapng | Self::Parquet => {
                let packet = Packet::parse_emitted(record)?;
                Some((packet.data, packet.frame_len))
            }
            Self::Pcap => {
                let (head, data) = record.split_first_chunk::<16>()?;
                Some((data, u32::from_le_bytes([head[12], head[13], head[14], head[15]])))
            }
        }
    }
}
