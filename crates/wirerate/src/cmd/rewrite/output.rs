//! The output file: pcap or pcapng by its name, with what the input has beside packets.

use anyhow::anyhow;
use capture::Format;
use capture_files::input::is_stdin;
use capture_files::names::asked_format;
use capture_files::output_bytes::{Compressor, OutputBytes};
use capture_files::playlist::FcsPolicy;
use capture_files::records::{FileRecords, IF_FCSLEN, PacketExtras, pcap_fcs_bits};
use pcapng::{Block, Interface, NoTime, Packet, PacketBuf, PacketFlags, RawOption, Section, Writer, pcap};
use program::outcome::{Failure, Refused};
use replay::{LinkType, MadeFrame};
use std::path::{Path, PathBuf};
use units::quantity_of;

/// Options of an interface with its addresses, or a filter that may name some: `if_IPv4addr`,
/// `if_IPv6addr`, `if_EUIaddr`, `if_filter` in another form than text.
const IF_ADDRESSES: [u16; 4] = [4, 5, 7, 11];
/// Options of an interface that hold only numbers: time zone, FCS length, and link speeds.
const IF_NUMBERS: [u16; 4] = [10, IF_FCSLEN, 16, 17];
/// Option of a packet: a hash of its bytes.
const PACKET_HASH: u16 = 3;
/// Option of a packet: what programs of the kernel returned for it.
const PACKET_VERDICT: u16 = 7;
/// Longest frame check sequence in bytes that the link type of a pcap file can declare.
const FCS_LEN_MAX_PCAP: u8 = 30;
/// Bits of the packet flags that hold the length of the frame check sequence.
const FCS_BITS: u32 = 0xf << 5;

/// What the output leaves out or changes beside packets.
#[derive(Clone, Copy, Debug)]
pub(super) struct OutputRules {
    /// Packets without an Ethernet header get one.
    pub(super) makes_ethernet: bool,
    /// What happens to frame check sequences.
    pub(super) fcs: FcsPolicy,
    /// Addresses change, so names and addresses outside packets are left out.
    pub(super) hides_addresses: bool,
    /// All addresses change, so everything is left out that may have some.
    pub(super) is_anonymous: bool,
    /// Several files become one.
    pub(super) is_joined: bool,
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

    /// The block as the output has it, if it has it.
    fn kept(self, block: Block<PacketBuf>, left_out: &mut LeftOut) -> Option<Block<PacketBuf>> {
        match block {
            Block::Names(_) if self.hides_addresses => left_out.names += 1,
            Block::Custom(custom) if !custom.may_copy => left_out.not_to_copy += 1,
            Block::Custom(_) | Block::Unknown(_) if self.is_anonymous => left_out.blocks += 1,
            Block::Section(mut section) => {
                self.keep_texts(&mut section.comment, &mut section.other, &[], left_out);
                return Some(Block::Section(section));
            }
            Block::Statistics(mut statistics) => {
                self.keep_texts(&mut statistics.comment, &mut statistics.other, &[], left_out);
                return Some(Block::Statistics(statistics));
            }
            Block::Interface(interface) => {
                return Some(Block::Interface(described(interface, self, left_out)));
            }
            other => return Some(other),
        }
        None
    }

    /// Removes the comment and the options that may have addresses if they are hidden, except those
    /// with the codes in `known`; and options that may not be copied.
    fn keep_texts(
        self,
        comment: &mut Option<String>,
        other: &mut Vec<RawOption>,
        known: &[u16],
        left_out: &mut LeftOut,
    ) {
        if self.is_anonymous {
            left_out.comments += u64::from(comment.take().is_some());
        }
        other.retain(|option| self.keeps_option(option, known));
    }

    fn keeps_option(self, option: &RawOption, known: &[u16]) -> bool {
        !option.may_not_copy() && (!self.is_anonymous || known.contains(&option.code))
    }
}

/// What the input has and the output has not.
#[derive(Clone, Copy, Debug, Default)]
struct LeftOut {
    /// Blocks with names of addresses.
    names: u64,
    /// Comments that may have addresses.
    comments: u64,
    /// Blocks that may have addresses.
    blocks: u64,
    /// Blocks that say that they are not to be copied.
    not_to_copy: u64,
    /// Comments, blocks, and packets with options, for which pcap has no place.
    pcap_comments: u64,
    pcap_blocks: u64,
    pcap_options: u64,
    /// Packets without a time, and how many of them were written with the time 0.
    pcap_untimed: u64,
    pcap_time_zero: u64,
}

impl LeftOut {
    /// Notes for the user.
    fn notes(&self) -> Vec<String> {
        let hidden = [(self.comments, "comment"), (self.blocks, "block")];
        let hidden = hidden.into_iter().filter(|(count, _)| *count > 0);
        let hidden = hidden
            .map(|(count, what)| format!("{} left out, which may have addresses", quantity_of(count, what)));
        let lost = [
            (self.pcap_comments, "", "comment"),
            (self.pcap_blocks, "", "block"),
            (self.pcap_options, "options of ", "packet"),
        ];
        let lost = lost.into_iter().filter(|(count, ..)| *count > 0);
        let lost: Vec<_> =
            lost.map(|(count, of, what)| format!("{of}{}", quantity_of(count, what))).collect();
        let lost = (!lost.is_empty()).then(|| format!("a pcap file has no place for {}", lost.join(", ")));
        let names = (self.names > 0).then(|| "names of addresses in the file were left out".to_owned());
        let not_to_copy = (self.not_to_copy > 0).then(|| {
            format!("{} left out, which is not to be copied", quantity_of(self.not_to_copy, "block"))
        });
        let untimed = (self.pcap_untimed > 0).then(|| {
            let packets = quantity_of(self.pcap_untimed, "packet");
            format!("{packets} without a time got that of the packet before: pcap has none without")
        });
        let zero = (self.pcap_time_zero > 0).then(|| {
            let packets = quantity_of(self.pcap_time_zero, "packet");
            format!("{packets} of these, with none before that has a time, got 1970-01-01 00:00")
        });
        names.into_iter().chain(hidden).chain(not_to_copy).chain(lost).chain(untimed).chain(zero).collect()
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
    /// Link type and length of frame check sequences of a pcap file.
    pcap_link: Option<(u16, u8)>,
    left_out: LeftOut,
    /// It leaves nothing behind unless it is finished.
    pub(super) is_removable: bool,
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
        let is_pcapng = match asked_format(&name) {
            _ if is_stdout => true,
            Some(format) => format == Format::Pcapng,
            None => {
                let why = "its name does not say whether it is pcap or pcapng";
                return Err(Failure::usage(format!("write {name}"), why)
                    .try_this(format!("-o {name}.pcapng, or .pcap, each also with .gz, .zst or .lz4")));
            }
        };
        let compressor = if is_stdout { Compressor::Plain } else { Compressor::of_name(&name) };
        let bytes = OutputBytes::create((!is_stdout).then_some(path), compressor);
        let bytes = bytes.refused(format!("write {name}"))?;
        Ok(Self {
            path: path.to_owned(),
            rules,
            is_removable: bytes.is_removable(),
            unopened: Some((bytes, is_pcapng)),
            writer: None,
            link_types: Vec::new(),
            pcap_link: None,
            left_out: LeftOut::default(),
        })
    }

    /// Notes about what the output has not.
    pub(super) fn notes(&self) -> Vec<String> {
        self.left_out.notes()
    }

    fn is_pcap(&self) -> bool {
        matches!(self.writer, Some(FileWriter::Pcap(_))) || matches!(self.unopened, Some((_, false)))
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
        let fcs_len = file.extras().fcs_len;
        if !self.is_pcap() {
            let application = Some(concat!("wirerate ", env!("CARGO_PKG_VERSION"), " rewrite").to_owned());
            self.block(Block::Section(Section { application, ..Section::default() }))?;
            let (link_type, snaplen) = (header.link_type, header.snaplen);
            let fcs = (fcs_len > 0).then(|| RawOption { code: IF_FCSLEN, value: vec![fcs_len] });
            let other = fcs.into_iter().collect();
            let interface = Interface { link_type, snaplen, other, ..Interface::default() };
            return self.block(Block::Interface(interface));
        }
        self.open_pcap(self.rules.link_type(header.link_type), fcs_len, &header)
    }

    /// Begins a pcap file, unless it has begun.
    fn open_pcap(&mut self, link_type: u16, fcs_len: u8, like: &pcap::Header) -> Result<(), Failure> {
        if self.writer.is_none()
            && let Some((bytes, _)) = self.unopened.take()
        {
            let fcs_len = if self.rules.fcs == FcsPolicy::Keep { fcs_len } else { 0 };
            let snaplen = if self.rules.makes_longer || self.rules.is_joined { 0 } else { like.snaplen };
            let precision = match self.rules.is_joined {
                true => pcap::Precision::Nanoseconds,
                false => like.precision,
            };
            let fcs_bits = pcap_fcs_bits(fcs_len);
            let header = pcap::Header { precision, snaplen, link_type, fcs_bits, ..pcap::Header::default() };
            let writer = pcap::Writer::new(bytes, &header).refused(self.act())?;
            (self.writer, self.pcap_link) = (Some(FileWriter::Pcap(writer)), Some((link_type, fcs_len)));
        }
        Ok(())
    }

    /// Writes a block of the input that is no packet.
    ///
    /// # Errors
    /// Refused when it cannot be written.
    pub(super) fn block(&mut self, block: Block<PacketBuf>) -> Result<(), Failure> {
        let act = self.act();
        let Some(block) = self.rules.kept(block, &mut self.left_out) else { return Ok(()) };
        if self.is_pcap() {
            self.leave_out(block);
            return Ok(());
        }
        if let (Block::Section(section), Some((bytes, _))) = (&block, self.unopened.take()) {
            let writer = Writer::new(bytes, section).refused(act)?;
            self.writer = Some(FileWriter::Pcapng(Box::new(writer)));
            return Ok(());
        }
        let Some(FileWriter::Pcapng(writer)) = &mut self.writer else { return Ok(()) };
        match block {
            Block::Section(section) => writer.section(&section),
            Block::Interface(interface) => writer.add_interface(&interface).map(drop),
            Block::Statistics(statistics) => writer.statistics(&statistics),
            Block::Names(names) => writer.names(&names),
            Block::Custom(custom) => writer.custom(&custom),
            Block::Unknown(unknown) => writer.unknown(&unknown),
            _ => Ok(()),
        }
        .refused(act)
    }

    /// Counts a block for which pcap has no place. Interfaces give the link type of the file.
    fn leave_out(&mut self, block: Block<PacketBuf>) {
        let comment = match block {
            Block::Interface(interface) => {
                self.link_types.push(interface.link_type);
                interface.comment
            }
            Block::Section(section) => section.comment,
            _ => {
                self.left_out.pcap_blocks += 1;
                None
            }
        };
        self.left_out.pcap_comments += u64::from(comment.is_some());
    }

    /// Writes a frame of the packet at hand of `file`; `is_part` for one behind the first one.
    ///
    /// # Errors
    /// Refused when it cannot be written; a pcap file has one link type, one length of frame check
    /// sequences, and times up to 2106.
    pub(super) fn frame(
        &mut self,
        file: &FileRecords,
        frame: &MadeFrame<'_>,
        is_part: bool,
    ) -> Result<(), Failure> {
        let (rules, extras) = (self.rules, file.extras());
        if self.writer.is_none() {
            self.open_pcap(frame.link_type, extras.fcs_len, &pcap::Header::default())?;
        }
        let comment = file.comment().filter(|_| !is_part);
        let is_hidden = rules.is_anonymous && comment.is_some();
        self.left_out.comments += u64::from(is_hidden);
        let comment = comment.filter(|_| !is_hidden);
        let written = match &mut self.writer {
            Some(FileWriter::Pcap(writer)) => {
                let fcs_len = if rules.fcs == FcsPolicy::Keep { extras.fcs_len } else { 0 };
                if let Some((link_type, declared)) = self.pcap_link
                    && (link_type, declared) != (frame.link_type, fcs_len)
                {
                    let what =
                        if link_type == frame.link_type { "frame check sequence" } else { "link type" };
                    let why = anyhow!("a pcap file has one {what}, and these files have several");
                    return Err(
                        Failure::refused(self.act(), why).try_this("-o FILE.pcapng, which may have several")
                    );
                }
                if fcs_len > FCS_LEN_MAX_PCAP || fcs_len % 2 > 0 {
                    let why = anyhow!("a pcap file cannot declare a frame check sequence of {fcs_len} bytes");
                    return Err(Failure::refused(self.act(), why).try_this("-o FILE.pcapng, which can"));
                }
                if file.time_ns().is_none() {
                    self.left_out.pcap_untimed += 1;
                    self.left_out.pcap_time_zero += u64::from(file.order_ns() == 0);
                }
                let has_options = has_options(&extras) || !file.kept_options().is_empty();
                self.left_out.pcap_options += u64::from(has_options && !is_part);
                self.left_out.pcap_comments += u64::from(comment.is_some());
                let record =
                    pcap::Record { time_ns: file.order_ns(), frame_len: frame.wire_len, data: frame.bytes };
                writer.record(&record)
            }
            Some(FileWriter::Pcapng(writer)) => {
                let record = file.record_with_fcs(0);
                let flags = extras.flags.map(|flags| match rules.fcs {
                    FcsPolicy::Keep => flags,
                    _ => PacketFlags(flags.0 & !FCS_BITS),
                });
                // A hash of other bytes would be wrong.
                let keeps = |option: &&RawOption| {
                    rules.keeps_option(option, &[PACKET_HASH, PACKET_VERDICT])
                        && (option.code != PACKET_HASH || frame.bytes == record.data)
                };
                let other: &[RawOption] = if is_part { &[] } else { file.kept_options() };
                let other: Vec<RawOption> = other.iter().filter(keeps).cloned().collect();
                let mut packet = Packet {
                    interface: record.interface,
                    time_ns: record.time_ns.unwrap_or(0),
                    no_time: record.time_ns.is_none().then_some(NoTime::NotRecorded),
                    frame_len: frame.wire_len,
                    data: frame.bytes,
                    flags,
                    queue: extras.queue,
                    packet_id: extras.packet_id.filter(|_| !is_part),
                    drop_count: extras.drop_count.filter(|_| !is_part),
                    xdp_verdict: extras.xdp_verdict,
                    comment,
                    other: &other,
                    has_broken_options: false,
                };
                let has_options = has_options(&extras) || comment.is_some() || !other.is_empty();
                if packet.no_time.is_some() && (has_options || !writer.can_be_simple(&packet)) {
                    // The form without a time has no space for options and for a cut packet.
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
                _ => self.open_pcap(link_type, 0, &pcap::Header::default())?,
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

/// True if a packet has options in fields.
fn has_options(extras: &PacketExtras) -> bool {
    let PacketExtras { queue, drop_count, fcs_len: _, flags, packet_id, xdp_verdict } = *extras;
    queue.is_some()
        || drop_count.or(packet_id).or(xdp_verdict).is_some()
        || flags.is_some_and(|flags| flags.0 & !FCS_BITS != 0)
}

/// An interface as the output describes it.
fn described(mut interface: Interface, rules: OutputRules, left_out: &mut LeftOut) -> Interface {
    interface.link_type = rules.link_type(interface.link_type);
    // Times count from 1970: an offset would leave some of them without a form.
    interface.time_offset_s = 0;
    if rules.makes_longer {
        interface.snaplen = 0;
    }
    if rules.fcs != FcsPolicy::Keep {
        interface.other.retain(|option| option.code != IF_FCSLEN);
    }
    if rules.hides_addresses {
        (interface.mac, interface.filter) = (None, None);
        interface.other.retain(|option| !IF_ADDRESSES.contains(&option.code));
    }
    rules.keep_texts(&mut interface.comment, &mut interface.other, &IF_NUMBERS, left_out);
    interface
}
