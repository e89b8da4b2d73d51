//! The arguments of `wirerate rewrite`.

use crate::edit_args::EditArgs;
use crate::edit_args::policies::{Cut, Long};
use std::path::PathBuf;

/// Arguments of `wirerate rewrite`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    next_line_help = false,
    after_help = "Files are pcap or pcapng, plain or compressed (gzip, zstd, lz4, xz). Times, original lengths, interfaces, \
                  link types, comments and directions stay.\n\n\
                  Examples:\n  \
                  wirerate rewrite a.pcap -o b.pcap --map-ip 10.0.0.0/8=198.18.0.0/16\n  \
                  wirerate rewrite a.pcap -o b.pcap --checksums fix\n  \
                  wirerate rewrite a.pcapng -o shared.pcapng.zst --anonymize @key\n  \
                  wirerate rewrite tun.pcap -o b.pcap --dst-mac 02:00:00:00:00:02\n  \
                  wirerate rewrite a.pcap b.pcap -o - --set vlan=7 | wirerate replay eth1 -"
)]
pub struct Args {
    /// Files to edit, one after another; - for standard input
    #[arg(value_name = "IN", required = true)]
    pub files: Vec<PathBuf>,
    /// File to write: .pcap or .pcapng, each also with .gz, .zst or .lz4; - for standard output
    /// (pcapng)
    #[arg(long, short, value_name = "OUT")]
    pub output: PathBuf,

    /// Packets of which the file has only the first bytes
    #[arg(long, value_enum, value_name = "POLICY", default_value = "short", help_heading = "Packets")]
    pub cut: Cut,
    /// Longest IP packet, for --long
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(68..=65_535), help_heading = "Packets")]
    pub mtu: Option<u32>,
    /// Packets that are longer than the MTU [default: skip]
    #[arg(long, value_enum, value_name = "POLICY", requires = "mtu", help_heading = "Packets")]
    pub long: Option<Long>,
    /// Write nothing if a file is damaged, a packet cannot be edited, or a block cannot be copied
    #[arg(long, help_heading = "Packets")]
    pub strict: bool,

    /// Options that edit packets.
    #[command(flatten)]
    pub edit: EditArgs,

    /// Print the report as one line of JSON (docs/json.md)
    #[arg(long, short = 'J', help_heading = "Output")]
    pub json: bool,
    /// Print no report and no notes, only errors
    #[arg(long, short, help_heading = "Output")]
    pub quiet: bool,
}
