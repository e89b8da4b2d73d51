//! The output file: pcap or pcapng by its name, with what the input has beside packets.

use super::compressed::{Compressor, OutputBytes};
use crate::capture_files::input::is_stdin;
use crate::capture_files::records::{FileRecords, IF_FCSLEN};
use crate::edit_args::policies::Fcs;
use crate::outcome::{Failure, Refused};
use anyhow::anyhow;
use pcapng::{Block, Interface, NoTime, Packet, PacketBuf, PacketFlags, Section, Writer, pcap};
use replay::{LinkType, MadeFrame};
use std::path::{Path, PathBuf};

/// Options of an interface with its addresses.
const IF_ADDRESSES: [u16; 2] = [4, 5];
/// Bits of the packet flags that hold the length of the frame check sequence.
const FCS_BITS: u32 = 0xf << 5;

/// What the output leaves out or changes beside packets.
#[derive(Clone, Copy, Debug)]
pub(super) struct OutputRules {
    /// Packets without an Ethernet header get one.
    pub(super) makes_ethernet: bool,
    /// What happens to frame check sequences.
    pub(super) fcs: Fcs,
    /// Addresses change, so names and addresses outside packets are left out.
    pub(super) hides_addresses: bool,
    /// Frames may be longer than the file's limit.
    pub(super) makes_longer: bool,
}

impl OutputRules {
    /// The link type in the output of packets with this one.
    fn link_type(self, link_type: u16) -> u16 {
        match LinkType::of(link_type) {
            Some(known) if self.makes_ethernet && known.can_be_ethernet() => pcapng::LINK_TYPE_ETHERNET,
            _ => link_type,
        }
    }
}

/// A file that is written.
pub(super) struct Output {
    path: PathBuf,
    rules: OutputRules,
    /// Where to write, until the first file or packet decides what the output begins with.
    unopened: Option<(OutputBytes, bool)>,
    writer: Option<FileWriter>,
    /// Bytes per interface are those of link types of the output.
    link_types: Vec<u16>,
    /// The link type of a pcap file.
    pcap_link_type: Option<u16>,
    /// Blocks with names that were left out.
    pub(super) names_left_out: u64,
}

enum FileWriter {
    Pcap(pcap::Writer<OutputBytes>),
    Pcapng(Box<Writer<OutputBytes>>),
}

impl Output {
    /// Creates the file.
    ///
    /// # Errors
    /// Bad usage for a name that is neither; refused when it cannot be created.
    pub(super) fn create(path: &Path, rules: OutputRules) -> Result<Self, Failure> {
        let name = path.display().to_string();
        let is_stdout = is_stdin(path);
        let (compressor, plain) = Compressor::of_name(&name);
        let is_pcapng = match plain.rsplit_once('.').map(|(_, end)| end) {
            _ if is_stdout => true,
            Some("pcapng" | "ntar") => true,
            Some("pcap" | "cap") => false,
            _ => {
                let why = "its name does not say whether it is pcap or pcapng";
                return Err(Failure::usage(format!("write {name}"), why)
                    .try_this(format!("-o {name}.pcapng, or .pcap, each also with .gz, .zst or .lz4")));
            }
        };
        let compressor = if is_stdout { Compressor::Plain } else { compressor };
        let bytes = OutputBytes::create((!is_stdout).then_some(path), compressor);
        let bytes = bytes.refused(format!("write {name}"))?;
        Ok(Self {
            path: path.to_owned(),
            rules,
            unopened: Some((bytes, is_pcapng)),
            writer: None,
            link_types: Vec::new(),
            pcap_link_type: None,
            names_left_out: 0,
        })
    }

    fn act(&self) -> String {
        format!("write {}", self.path.display())
    }

    /// A file begins. A pcap file is a section with one interface.
    ///
    /// # Errors
    /// Refused when it cannot be written.
    pub(super) fn begin_file(&mut self, file: &FileRecords) -> Result<(), Failure> {
        let Some(header) = file.pcap_header().copied() else { return Ok(()) };
        let is_pcap =
            matches!(self.writer, Some(FileWriter::Pcap(_))) || matches!(self.unopened, Some((_, false)));
        if !is_pcap {
            let application = Some(concat!("wirerate ", env!("CARGO_PKG_VERSION"), " rewrite").to_owned());
            self.block(Block::Section(Section { application, ..Section::default() }))?;
            let (link_type, snaplen) = (header.link_type, header.snaplen);
            return self.block(Block::Interface(Interface { link_type, snaplen, ..Interface::default() }));
        }
        self.open_pcap(self.rules.link_type(header.link_type), &header)
    }

    /// Begins a pcap file, unless it has begun.
    fn open_pcap(&mut self, link_type: u16, like: &pcap::Header) -> Result<(), Failure> {
        if self.writer.is_none()
            && let Some((bytes, _)) = self.unopened.take()
        {
            let fcs_bits = if self.rules.fcs == Fcs::Keep { like.fcs_bits } else { 0 };
            let snaplen = if self.rules.makes_longer { 0 } else { like.snaplen };
            let header = pcap::Header {
                precision: like.precision,
                snaplen,
                link_type,
                fcs_bits,
                ..pcap::Header::default()
            };
            let writer = pcap::Writer::new(bytes, &header).refused(self.act())?;
            (self.writer, self.pcap_link_type) = (Some(FileWriter::Pcap(writer)), Some(link_type));
        }
        Ok(())
    }

    /// Writes a block of the input that is no packet.
    ///
    /// # Errors
    /// Refused when it cannot be written.
    pub(super) fn block(&mut self, block: Block<PacketBuf>) -> Result<(), Failure> {
        let act = self.act();
        if let Some((_, false)) = self.unopened {
            // A pcap file has no other blocks; interfaces give its link type.
            if let Block::Interface(interface) = block {
                self.link_types.push(interface.link_type);
            }
            return Ok(());
        }
        if let (Block::Section(section), Some((bytes, _))) = (&block, self.unopened.take()) {
            let writer = Writer::new(bytes, section).refused(act)?;
            self.writer = Some(FileWriter::Pcapng(Box::new(writer)));
            return Ok(());
        }
        let rules = self.rules;
        let Some(FileWriter::Pcapng(writer)) = &mut self.writer else { return Ok(()) };
        match block {
            Block::Section(section) => writer.section(&section),
            Block::Interface(interface) => writer.add_interface(&described(interface, rules)).map(drop),
            Block::Statistics(statistics) => writer.statistics(&statistics),
            Block::Names(_) if rules.hides_addresses => {
                self.names_left_out += 1;
                Ok(())
            }
            Block::Names(names) => writer.names(&names),
            Block::Custom(custom) => writer.custom(&custom),
            Block::Unknown(unknown) => writer.unknown(&unknown),
            _ => Ok(()),
        }
        .refused(act)
    }

    /// Writes a frame of the packet at hand of `file`.
    ///
    /// # Errors
    /// Refused when it cannot be written; a pcap file has one link type, and times up to 2106.
    pub(super) fn frame(&mut self, file: &FileRecords, frame: &MadeFrame<'_>) -> Result<(), Failure> {
        if self.writer.is_none() {
            self.open_pcap(frame.link_type, &pcap::Header::default())?;
        }
        let written = match &mut self.writer {
            Some(FileWriter::Pcap(writer)) => {
                if self.pcap_link_type != Some(frame.link_type) {
                    let why = anyhow!("a pcap file has one link type, and these files have several");
                    return Err(
                        Failure::refused(self.act(), why).try_this("-o FILE.pcapng, which may have several")
                    );
                }
                let record =
                    pcap::Record { time_ns: file.order_ns(), frame_len: frame.wire_len, data: frame.bytes };
                writer.record(&record)
            }
            Some(FileWriter::Pcapng(writer)) => {
                let (comment, other) = (file.comment(), file.kept_options());
                let (record, extras) = (file.record_with_fcs(0), file.extras());
                let keeps_fcs = self.rules.fcs == Fcs::Keep;
                let flags = extras
                    .flags
                    .map(|flags| if keeps_fcs { flags } else { PacketFlags(flags.0 & !FCS_BITS) });
                let mut packet = Packet {
                    interface: record.interface,
                    time_ns: record.time_ns.unwrap_or(0),
                    no_time: record.time_ns.is_none().then_some(NoTime::NotRecorded),
                    frame_len: frame.wire_len,
                    data: frame.bytes,
                    flags,
                    queue: extras.queue,
                    packet_id: extras.packet_id,
                    drop_count: extras.drop_count,
                    xdp_verdict: extras.xdp_verdict,
                    comment,
                    other,
                    has_broken_options: false,
                };
                if packet.no_time.is_some() && !writer.can_be_simple(&packet) {
                    // The form without a time has no space for a cut packet.
                    (packet.no_time, packet.time_ns) = (None, file.order_ns());
                }
                writer.packet(&packet)
            }
            None => Ok(()),
        };
        written.map_err(|why| Failure::refused(self.act(), why))
    }

    /// Completes the file.
    ///
    /// # Errors
    /// Refused when it cannot be written.
    pub(super) fn finish(mut self) -> Result<(), Failure> {
        let act = self.act();
        if self.writer.is_none() && self.unopened.is_some() {
            // Without packets, the first interface gives the link type.
            let link_type = self.link_types.first().copied().unwrap_or(pcapng::LINK_TYPE_ETHERNET);
            match self.unopened {
                Some((_, true)) => self.block(Block::Section(Section::default()))?,
                _ => self.open_pcap(self.rules.link_type(link_type), &pcap::Header::default())?,
            }
        }
        let bytes = match self.writer {
            Some(FileWriter::Pcap(writer)) => writer.finish().refused(act.clone())?,
            Some(FileWriter::Pcapng(writer)) => writer.finish().refused(act.clone())?,
            None => return Ok(()),
        };
        bytes.finish().refused(act)
    }
}

/// An interface as the output describes it.
fn described(mut interface: Interface, rules: OutputRules) -> Interface {
    interface.link_type = rules.link_type(interface.link_type);
    if rules.makes_longer {
        interface.snaplen = 0;
    }
    if rules.fcs != Fcs::Keep {
        interface.other.retain(|option| option.code != IF_FCSLEN);
    }
    if rules.hides_addresses {
        interface.mac = None;
        interface.other.retain(|option| !IF_ADDRESSES.contains(&option.code));
    }
    interface
}
