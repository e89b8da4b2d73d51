//! The two formats of capture files and the headers of both.

use pcapng::{Interface, Section, pcap};

/// Format of capture files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub enum Format {
    /// Queues, direction, losses, statistics.
    #[default]
    Pcapng,
    /// Classic pcap with nanoseconds: time, lengths and bytes only.
    Pcap,
}

impl Format {
    /// `pcapng` or `pcap`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pcapng => "pcapng",
            Self::Pcap => "pcap",
        }
    }

    /// The header of a file.
    pub(crate) fn header(self, section: &Section, interfaces: &[Interface]) -> Vec<u8> {
        let mut header = Vec::new();
        match self {
            Self::Pcapng => {
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
}
