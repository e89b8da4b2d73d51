//! The packets of one capture file, one at a time.

use super::ahead::ByteStream;
use super::damage::Damages;
use super::decompress::CompressedBytes;
use super::input::{self, OpenedFile, OtherFormat};
use metrics::MetricSet;
use metrics::families::READ_PACKETS;
use pcapng::{
    Block, ByteOrder, Interface, NoTime, Packet, PacketBuf, PacketFlags, PlainPacket, RawOption, ReadError,
    Statistics, pcap,
};
use program::console::Console;
use program::monitor::Counted;
use replay::{Direction, Record};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Packets of a file after which their count is shown to other threads.
const SHOWN_EVERY: u64 = 1024;

/// One interface of a pcapng file.
#[derive(Clone, Debug, Default)]
pub struct FileInterface {
    /// Link type, as registered for pcap.
    pub link_type: u16,
    /// The system's name of it.
    pub name: Option<String>,
    /// Most bytes kept of a packet; 0 for no limit.
    pub snaplen: u32,
    /// Length of the frame check sequence of its packets in bytes, unless a packet has its own.
    pub fcs_len: u8,
    /// True if a capture of wirerate described it.
    pub is_ours: bool,
}

impl FileInterface {
    /// Name of the device: in a file of wirerate, queues and clocks have interfaces of their own.
    pub fn device(&self) -> Option<&str> {
        let name = self.name.as_deref().filter(|name| !name.is_empty())?;
        let device = if self.is_ours { name.split(' ').next() } else { None };
        Some(device.unwrap_or(name))
    }

    /// Whether the device's own clock stamped its packets; nothing if the file does not say.
    pub fn is_hardware_time(&self) -> Option<bool> {
        self.is_ours.then(|| self.name.as_deref().is_some_and(|name| name.ends_with(" hardware")))
    }
}

/// What pcapng files know of a packet beyond its [`Record`].
#[derive(Clone, Copy, Debug, Default)]
pub struct PacketExtras {
    /// Queue of the device.
    pub queue: Option<u32>,
    /// Packets lost on its interface before it; `None` if the file does not say.
    pub drop_count: Option<u64>,
    /// Length of its frame check sequence in bytes, which the captured bytes end with unless they
    /// are cut; 0 if the file does not say.
    pub fcs_len: u8,
    /// What the link layer knows of it.
    pub flags: Option<PacketFlags>,
    /// A number that is the same wherever the packet was captured.
    pub packet_id: Option<u64>,
    /// What an XDP program returned for it.
    pub xdp_verdict: Option<u64>,
}

/// What a pcapng file has beside packets, for a file that is made from it.
#[derive(Debug, Default)]
struct KeptBlocks {
    /// Blocks since the packet before the one at hand.
    blocks: Vec<Block<PacketBuf>>,
    /// Options of the packet at hand that no field holds.
    other: Vec<RawOption>,
    unkept: Unkept,
}

/// What a pcapng file has that is not kept for a file that is made from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unkept {
    /// Blocks that are too long.
    pub long_blocks: u64,
    /// Blocks of a type that is not read, in another byte order.
    pub swapped_blocks: u64,
    /// Times of some interface are finer than a nanosecond.
    pub has_finer_times: bool,
}

impl Unkept {
    /// Adds what another file has.
    pub fn add(&mut self, other: Self) {
        self.long_blocks += other.long_blocks;
        self.swapped_blocks += other.swapped_blocks;
        self.has_finer_times |= other.has_finer_times;
    }
}

/// The systemd journal: text, which has no byte order.
const JOURNAL_BLOCK: u32 = 9;
/// Secrets for decryption, whose byte order is known.
const SECRETS_BLOCK: u32 = 10;

/// The statistics of an interface, and the capture that they belong to.
#[derive(Clone, Debug)]
pub struct InterfaceStatistics {
    /// Number of the interface within its section.
    pub number: u32,
    /// The interface.
    pub interface: FileInterface,
    /// Number of the section of the file, from 1 on.
    pub section: u64,
    /// Its last statistics.
    pub statistics: Statistics,
}

/// Packets of a file whose time is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OddPackets {
    /// The file has no time for them.
    pub not_recorded: u64,
    /// Their time is before 1970 or after 2554.
    pub out_of_range: u64,
    /// The file has their frame check sequence.
    pub with_fcs: u64,
    /// The frame check sequence that the file declares is not shorter than they are.
    pub fcs_too_long: u64,
}

impl OddPackets {
    /// Adds the packets of another file.
    pub fn add(&mut self, other: Self) {
        self.not_recorded += other.not_recorded;
        self.out_of_range += other.out_of_range;
        self.with_fcs += other.with_fcs;
        self.fcs_too_long += other.fcs_too_long;
    }
}

/// What a pcapng file says about its packets.
#[derive(Debug, Default)]
struct FileFacts {
    /// The interfaces of the section at hand.
    interfaces: Vec<FileInterface>,
    /// Blocks of interfaces in all sections.
    interface_count: u64,
    /// Sections so far.
    sections: u64,
    /// Comment of the packet at hand.
    comment: Option<String>,
    /// Whether wirerate wrote the section at hand.
    is_ours: bool,
    /// The last statistics of each interface, by section and number.
    statistics: BTreeMap<(u64, u32), InterfaceStatistics>,
    /// The blocks themselves, if they are asked for.
    kept: Option<KeptBlocks>,
}

enum FileReader {
    /// Decompression failed before the first bytes.
    Unreadable,
    Pcap(pcap::Reader<ByteStream>),
    Pcapng(pcapng::Reader<ByteStream>, Box<FileFacts>),
}

/// Everything of a packet but its bytes.
#[derive(Clone, Copy, Debug, Default)]
struct RecordHead {
    time_ns: Option<u64>,
    /// Why it has no time.
    no_time: Option<NoTime>,
    /// Its options are broken.
    has_broken_options: bool,
    frame_len: u32,
    link_type: u16,
    interface: u32,
    direction: Option<Direction>,
    extras: PacketExtras,
}

impl RecordHead {
    /// Of a packet with a time.
    #[inline]
    fn of(packet: PlainPacket, facts: &FileFacts) -> Self {
        let PlainPacket { interface, time_ns, frame_len, flags, queue, drop_count } = packet;
        let given = flags;
        let flags = flags.unwrap_or_default();
        let direction = match (flags.is_inbound(), flags.is_outbound()) {
            (true, _) => Some(Direction::Inbound),
            (_, true) => Some(Direction::Outbound),
            _ => None,
        };
        // The reader has checked the number of the interface.
        let described = facts.interfaces.get(interface as usize);
        // Bits 5 to 8 of the flags are the length, 0 if it is not known.
        let fcs_len = match (flags.0 >> 5 & 0xf) as u8 {
            0 => described.map_or(0, |found| found.fcs_len),
            fcs_len => fcs_len,
        };
        Self {
            time_ns: Some(time_ns),
            frame_len,
            link_type: described.map_or(0, |found| found.link_type),
            interface,
            direction,
            extras: PacketExtras { queue, drop_count, fcs_len, flags: given, ..PacketExtras::default() },
            ..Self::default()
        }
    }
}

/// The packets of a file so far, for the counts of the command.
struct ShownCount {
    packets: Arc<AtomicU64>,
    _counted: Counted,
}

impl ShownCount {
    fn new(console: &Console) -> Self {
        let packets = Arc::<AtomicU64>::default();
        let read = Arc::clone(&packets);
        let counted = console.count_in(move |set: &mut MetricSet| {
            let packets = read.load(Relaxed);
            if packets > 0 {
                set.count(&READ_PACKETS, &[], packets);
            }
        });
        Self { packets, _counted: counted }
    }
}

/// A file and its packet at hand.
pub struct FileRecords {
    path: PathBuf,
    reader: FileReader,
    /// What is known of a compressed file.
    compressed: Option<CompressedBytes>,
    file_len: Option<u64>,
    /// The program that decompresses the file.
    program: Option<&'static str>,
    head: RecordHead,
    /// Time of the packet at hand, or of the last one before it that has a time.
    order_ns: u64,
    /// Packets so far.
    count: u64,
    shown: ShownCount,
    /// Number of the file among those of a run.
    number: usize,
    odd: OddPackets,
    damages: Damages,
    /// Nothing more can be read.
    is_over: bool,
}

impl FileRecords {
    /// Opens a pcap or pcapng file. Its packets are counted in at `console`.
    ///
    /// # Errors
    /// When it cannot be read, or is neither. A compressed file that ends or is damaged before its
    /// first packet can be opened: it has no packets, and its damage is counted.
    pub fn open(path: &Path, console: &Console) -> anyhow::Result<Self> {
        Self::of(path, input::open(path)?, console)
    }

    /// The packets of an opened file, which messages call `path`.
    pub(super) fn of(path: &Path, opened: OpenedFile, console: &Console) -> anyhow::Result<Self> {
        let OpenedFile { mut bytes, file_len, compressed } = opened;
        let mut start = Vec::new();
        let read = bytes.by_ref().take(pcap::HEADER_LEN as u64).read_to_end(&mut start);
        let program = compressed.as_ref().map(CompressedBytes::program);
        if let Some(other) = OtherFormat::of(&start, program) {
            return Err(other.into());
        }
        let mut damages = Damages::default();
        let reader = match read {
            Err(why) if compressed.is_some() => {
                damages.add("rest_of_file", || format!("{}: {why}", path.display()));
                FileReader::Unreadable
            }
            read => {
                if read? == 0 {
                    let inside = program.map_or(String::new(), |program| format!(", inside {program}"));
                    anyhow::bail!("it is empty{inside}");
                }
                let is_pcapng = start.starts_with(&[0x0a, 0x0d, 0x0d, 0x0a]);
                let whole: ByteStream = Box::new(std::io::Cursor::new(start).chain(bytes));
                match is_pcapng {
                    true => FileReader::Pcapng(pcapng::Reader::new(whole), Box::default()),
                    false => FileReader::Pcap(pcap::Reader::new(whole)?),
                }
            }
        };
        let mut head = RecordHead::default();
        if let FileReader::Pcap(reader) = &reader {
            head.link_type = reader.header().link_type;
            head.extras.fcs_len = fcs_len_of_pcap(reader.header().fcs_bits);
        }
        Ok(Self {
            path: path.to_owned(),
            is_over: matches!(reader, FileReader::Unreadable),
            reader,
            compressed,
            file_len,
            program,
            head,
            order_ns: 0,
            count: 0,
            shown: ShownCount::new(console),
            number: 0,
            odd: OddPackets::default(),
            damages,
        })
    }

    /// Sets the number of the file among those of a run.
    pub fn set_number(&mut self, number: usize) {
        self.number = number;
    }

    /// The format: `pcap`, `pcapng`, or `unknown` if nothing could be decompressed.
    pub fn format(&self) -> &'static str {
        match &self.reader {
            FileReader::Unreadable => "unknown",
            FileReader::Pcap(_) => "pcap",
            FileReader::Pcapng(..) => "pcapng",
        }
    }

    /// The program that decompresses the file, if it is compressed.
    pub fn program(&self) -> Option<&'static str> {
        self.program
    }

    /// Length of the file in bytes; nothing for a stream.
    pub fn file_len(&self) -> Option<u64> {
        self.file_len
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the next packet; false at the end of the file, or of the part of it that can be read.
    /// Damaged blocks are passed over and counted.
    #[inline]
    pub fn advance(&mut self) -> bool {
        let has_one = self.advance_one();
        if self.count.is_multiple_of(SHOWN_EVERY) || !has_one {
            self.shown.packets.store(self.count, Relaxed);
        }
        has_one
    }

    #[inline]
    fn advance_one(&mut self) -> bool {
        while !self.is_over {
            if let FileReader::Pcap(reader) = &mut self.reader {
                match reader.next_record() {
                    // The rest of its head is the same for all packets.
                    Ok(Some(record)) => {
                        (self.head.time_ns, self.head.frame_len) = (Some(record.time_ns), record.frame_len);
                        self.count += 1;
                        self.order_ns = record.time_ns;
                        self.count_fcs();
                        return true;
                    }
                    Ok(None) => self.is_over = true,
                    Err(why) => self.damage(why),
                }
                continue;
            }
            if let FileReader::Pcapng(reader, facts) = &mut self.reader
                && facts.kept.is_none()
                && let Some(packet) = reader.next_plain_packet()
            {
                self.head = RecordHead::of(packet, facts);
                // A packet with a comment is not plain.
                facts.comment = None;
                self.count += 1;
                self.order_ns = packet.time_ns;
                self.count_fcs();
                return true;
            }
            match self.read_any() {
                Ok(Some(head)) => {
                    self.head = head;
                    self.count += 1;
                    self.order_ns = head.time_ns.unwrap_or(self.order_ns);
                    match head.no_time {
                        None => {}
                        Some(NoTime::NotRecorded) => self.odd.not_recorded += 1,
                        Some(NoTime::OutOfRange) => self.odd.out_of_range += 1,
                    }
                    self.count_fcs();
                    if head.has_broken_options {
                        let (path, count) = (self.path.display(), self.count);
                        self.damages.add("options", || format!("{path}: packet {count} has broken options"));
                    }
                    return true;
                }
                Ok(None) => self.is_over = true,
                Err(why) => self.damage(why),
            }
        }
        false
    }

    /// Counts what the file says of the frame check sequence of the packet at hand.
    #[inline]
    fn count_fcs(&mut self) {
        let fcs_len = u32::from(self.head.extras.fcs_len);
        if fcs_len > 0 {
            let has_it = fcs_len < self.whole_len();
            self.odd.with_fcs += u64::from(has_it);
            self.odd.fcs_too_long += u64::from(!has_it);
        }
    }

    /// Length of the packet at hand. Some files have an original length of zero.
    #[inline]
    fn whole_len(&self) -> u32 {
        self.head.frame_len.max(self.data().len() as u32)
    }

    /// The next packet of a file that is no pcap file.
    fn read_any(&mut self) -> Result<Option<RecordHead>, ReadError> {
        match &mut self.reader {
            FileReader::Pcap(_) | FileReader::Unreadable => Ok(None),
            FileReader::Pcapng(reader, facts) => next_packet(reader, facts),
        }
    }

    fn damage(&mut self, why: ReadError) {
        self.is_over = why.is_final();
        let kind = match &mut self.reader {
            _ if self.is_over => "rest_of_file",
            FileReader::Pcapng(reader, facts) => {
                // The interface keeps its number; the reader rejects its packets.
                if reader.block_kind() == "interface" {
                    facts.interfaces.push(FileInterface::default());
                    if let Some(kept) = &mut facts.kept {
                        kept.blocks.push(Block::Interface(Interface::default()));
                    }
                }
                reader.block_kind()
            }
            FileReader::Pcap(_) | FileReader::Unreadable => "other",
        };
        let (path, count) = (self.path.display(), self.count);
        self.damages.add(kind, || format!("{path}: after packet {count}: {:#}", anyhow::Error::new(why)));
    }

    /// The damaged places so far; the next call gives only those found since then.
    pub fn take_damages(&mut self) -> Damages {
        std::mem::take(&mut self.damages)
    }

    /// Packets without a time so far.
    pub fn odd_packets(&self) -> OddPackets {
        self.odd
    }

    /// Bytes of the file that are behind the packet at hand; nothing for a stream.
    pub fn bytes_left(&self) -> Option<u64> {
        let done = match (&self.compressed, &self.reader) {
            (Some(compressed), _) => compressed.consumed(),
            (None, FileReader::Pcap(reader)) => reader.offset() + reader.data().len() as u64,
            (None, FileReader::Pcapng(reader, _)) => reader.offset(),
            (None, FileReader::Unreadable) => 0,
        };
        Some(self.file_len?.saturating_sub(done))
    }

    /// Time of the packet at hand in the order of the file: without a time of its own, that of the
    /// packet before it.
    #[inline]
    pub fn order_ns(&self) -> u64 {
        self.order_ns
    }

    /// The bytes of the packet at hand.
    #[inline]
    pub fn data(&self) -> &[u8] {
        match &self.reader {
            FileReader::Pcap(reader) => reader.data(),
            FileReader::Pcapng(reader, _) => reader.data(),
            FileReader::Unreadable => &[],
        }
    }

    /// The interface of the packet at hand; pcap files describe none.
    #[inline]
    pub fn interface(&self) -> Option<&FileInterface> {
        match &self.reader {
            FileReader::Pcap(_) | FileReader::Unreadable => None,
            FileReader::Pcapng(_, facts) => facts.interfaces.get(self.head.interface as usize),
        }
    }

    /// More of the packet at hand.
    #[inline]
    pub fn extras(&self) -> PacketExtras {
        self.head.extras
    }

    /// Sections so far: the numbers of interfaces count anew in each.
    #[inline]
    pub fn sections(&self) -> u64 {
        match &self.reader {
            FileReader::Pcap(_) | FileReader::Unreadable => 0,
            FileReader::Pcapng(_, facts) => facts.sections,
        }
    }

    /// The interfaces of the section at hand of a pcapng file, by their numbers.
    pub fn interfaces(&self) -> &[FileInterface] {
        match &self.reader {
            FileReader::Pcap(_) | FileReader::Unreadable => &[],
            FileReader::Pcapng(_, facts) => &facts.interfaces,
        }
    }

    /// Interfaces so far, in all sections of a pcapng file.
    pub fn interface_count(&self) -> u64 {
        match &self.reader {
            FileReader::Pcap(_) | FileReader::Unreadable => 0,
            FileReader::Pcapng(_, facts) => facts.interface_count,
        }
    }

    /// The last statistics of each interface so far.
    pub fn statistics(&self) -> impl Iterator<Item = &InterfaceStatistics> {
        let facts = match &self.reader {
            FileReader::Pcap(_) | FileReader::Unreadable => None,
            FileReader::Pcapng(_, facts) => Some(facts),
        };
        facts.into_iter().flat_map(|facts| facts.statistics.values())
    }

    /// The header of a pcap file.
    pub fn pcap_header(&self) -> Option<&pcap::Header> {
        match &self.reader {
            FileReader::Pcap(reader) => Some(reader.header()),
            FileReader::Pcapng(..) | FileReader::Unreadable => None,
        }
    }

    /// From now on, the blocks of a pcapng file that are no packets are kept, with the comments and
    /// the rare options of packets, for a file that is made from it.
    pub fn keep_blocks(&mut self) {
        if let FileReader::Pcapng(_, facts) = &mut self.reader {
            facts.kept.get_or_insert_default();
        }
    }

    /// The kept blocks before the packet at hand, or at the end of the file.
    pub fn take_blocks(&mut self) -> Vec<Block<PacketBuf>> {
        match &mut self.reader {
            FileReader::Pcapng(_, facts) => {
                facts.kept.as_mut().map(|kept| std::mem::take(&mut kept.blocks)).unwrap_or_default()
            }
            _ => Vec::new(),
        }
    }

    /// What was not kept so far.
    pub fn unkept(&self) -> Unkept {
        match &self.reader {
            FileReader::Pcapng(_, facts) => facts.kept.as_ref().map(|kept| kept.unkept).unwrap_or_default(),
            _ => Unkept::default(),
        }
    }

    /// The comment of the packet at hand.
    pub fn comment(&self) -> Option<&str> {
        match &self.reader {
            FileReader::Pcapng(_, facts) => facts.comment.as_deref(),
            _ => None,
        }
    }

    /// The kept options of the packet at hand that no field holds.
    pub fn kept_options(&self) -> &[RawOption] {
        match &self.reader {
            FileReader::Pcapng(_, facts) => facts.kept.as_ref().map_or(&[], |kept| &kept.other),
            _ => &[],
        }
    }

    /// Time of the packet at hand, if it has one.
    #[inline]
    pub fn time_ns(&self) -> Option<u64> {
        self.head.time_ns
    }

    /// The bytes of the packet at hand without its frame check sequence.
    #[inline]
    pub fn frame(&self) -> &[u8] {
        self.frame_without(self.head.extras.fcs_len)
    }

    /// A sequence that is not shorter than the packet is none: the packet keeps its bytes.
    #[inline]
    fn frame_without(&self, fcs_len: u8) -> &[u8] {
        let (data, whole_len) = (self.data(), self.whole_len());
        match whole_len.saturating_sub(fcs_len.into()) {
            0 => data,
            frame_len => &data[..data.len().min(frame_len as usize)],
        }
    }

    /// The packet at hand without its frame check sequence, as number `number` of the loop.
    #[inline]
    pub fn record(&self, number: u64) -> Record<'_> {
        match self.head.extras.fcs_len {
            // Most files have none, and this is called for each packet.
            0 => self.record_with_fcs(number),
            fcs_len => self.record_without_fcs(number, fcs_len),
        }
    }

    /// The packet at hand without the last `fcs_len` bytes that it had on the link, as far as the
    /// file has them.
    #[inline]
    pub fn record_without_fcs(&self, number: u64, fcs_len: u8) -> Record<'_> {
        let removed = if self.whole_len() > u32::from(fcs_len) { fcs_len } else { 0 };
        let frame_len = self.head.frame_len.saturating_sub(removed.into());
        Record { frame_len, data: self.frame_without(fcs_len), ..self.record_with_fcs(number) }
    }

    /// The packet at hand with all bytes that the file has.
    #[inline]
    pub fn record_with_fcs(&self, number: u64) -> Record<'_> {
        let interface = self.interface();
        Record {
            number,
            time_ns: self.head.time_ns,
            frame_len: self.head.frame_len,
            data: self.data(),
            link_type: self.head.link_type,
            interface: self.head.interface,
            interface_name: interface.and_then(|interface| interface.name.as_deref()),
            direction: self.head.direction,
            file: self.number,
        }
    }
}

/// Option of an interface: the length of the frame check sequence of its packets.
pub const IF_FCSLEN: u16 = 13;

/// Length of the frame check sequence in bytes, of the upper half of pcap's link type: bit 10 marks
/// it as known, and the highest 4 bits count 16-bit words.
fn fcs_len_of_pcap(fcs_bits: u16) -> u8 {
    if fcs_bits & 0x400 == 0 { 0 } else { (fcs_bits >> 12) as u8 * 2 }
}

/// The upper half of pcap's link type that declares a frame check sequence of this length.
pub fn pcap_fcs_bits(fcs_len: u8) -> u16 {
    if fcs_len == 0 { 0 } else { 0x400 | u16::from(fcs_len / 2) << 12 }
}

/// The next packet of a pcapng file; what other blocks say is entered as they come.
fn next_packet(
    reader: &mut pcapng::Reader<ByteStream>,
    facts: &mut FileFacts,
) -> Result<Option<RecordHead>, ReadError> {
    loop {
        let order = reader.order();
        let Some(block) = reader.next_block()? else { return Ok(None) };
        if let Block::Packet(packet) = &block {
            facts.comment = packet.comment.map(str::to_owned);
        }
        if let Some(kept) = &mut facts.kept {
            match &block {
                Block::Packet(packet) => {
                    kept.other.clear();
                    kept.other.extend_from_slice(packet.other);
                }
                Block::Section(section) => kept.blocks.push(Block::Section(section.clone())),
                Block::Interface(interface) => kept.blocks.push(Block::Interface(interface.clone())),
                Block::Statistics(statistics) => kept.blocks.push(Block::Statistics(statistics.clone())),
                Block::Names(names) => kept.blocks.push(Block::Names(names.clone())),
                Block::Custom(custom) => kept.blocks.push(Block::Custom(custom.clone())),
                Block::Unknown(unknown) => {
                    let has_order = !matches!(unknown.block_type, JOURNAL_BLOCK | SECRETS_BLOCK);
                    match order {
                        Some(ByteOrder::Big) if has_order => kept.unkept.swapped_blocks += 1,
                        _ => kept.blocks.push(Block::Unknown(unknown.clone())),
                    }
                }
                Block::Skipped(_) => kept.unkept.long_blocks += 1,
                _ => {}
            }
        }
        match block {
            Block::Section(section) => {
                facts.interfaces.clear();
                facts.sections += 1;
                facts.is_ours = section.application.is_some_and(|name| name.starts_with("wirerate "));
            }
            Block::Interface(Interface { link_type, name, snaplen, other, .. }) => {
                let fcs_len = other.iter().find(|option| option.code == IF_FCSLEN);
                let fcs_len = fcs_len.and_then(|option| option.value.first().copied()).unwrap_or(0);
                let is_ours = facts.is_ours;
                facts.interface_count += 1;
                let scale = reader.time_scale(facts.interfaces.len() as u32);
                facts.interfaces.push(FileInterface { link_type, name, snaplen, fcs_len, is_ours });
                if let Some(kept) = &mut facts.kept {
                    kept.unkept.has_finer_times |= scale.is_some_and(|scale| scale.is_finer_than_ns());
                }
            }
            Block::Statistics(statistics) => {
                // The reader has checked the number of the interface.
                if let Some(interface) = facts.interfaces.get(statistics.interface as usize) {
                    let place = (facts.sections, statistics.interface);
                    let (interface, section) = (interface.clone(), facts.sections);
                    let number = statistics.interface;
                    let found = InterfaceStatistics { number, interface, section, statistics };
                    facts.statistics.insert(place, found);
                }
            }
            Block::Packet(packet) => {
                let Packet { interface, time_ns, frame_len, flags, queue, drop_count, .. } = packet;
                let plain = PlainPacket { interface, time_ns, frame_len, flags, queue, drop_count };
                let plain = RecordHead::of(plain, facts);
                return Ok(Some(RecordHead {
                    time_ns: packet.no_time.is_none().then_some(time_ns),
                    no_time: packet.no_time,
                    has_broken_options: packet.has_broken_options,
                    extras: PacketExtras {
                        packet_id: packet.packet_id,
                        xdp_verdict: packet.xdp_verdict,
                        ..plain.extras
                    },
                    ..plain
                }));
            }
            _ => {}
        }
    }
}
