//! The packets of one capture file, one at a time.

use super::input::{self, ByteStream, OpenedFile, OtherFormat};
use pcapng::{Block, Interface, ReadError, Statistics, pcap};
use replay::{Direction, Record};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// One interface of a pcapng file.
#[derive(Clone, Debug)]
pub struct FileInterface {
    /// Link type, as registered for pcap.
    pub link_type: u16,
    /// The system's name of it.
    pub name: Option<String>,
    /// Most bytes kept of a packet; 0 for no limit.
    pub snaplen: u32,
    /// True if a capture of wirerate described it.
    pub is_ours: bool,
}

impl FileInterface {
    /// Name of the device: in a file of wirerate, queues and clocks have interfaces of their own.
    pub fn device(&self) -> Option<&str> {
        let name = self.name.as_deref()?;
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
    /// Packets lost on its interface before it.
    pub drop_count: u64,
}

/// What a pcapng file says about its packets.
#[derive(Debug, Default)]
struct FileFacts {
    /// The interfaces of the section at hand.
    interfaces: Vec<FileInterface>,
    /// Sections so far.
    sections: u64,
    /// Whether wirerate wrote the section at hand.
    is_ours: bool,
    /// The last statistics of each interface and the interface, by section and number.
    statistics: BTreeMap<(u64, u32), (FileInterface, Statistics)>,
}

enum FileReader {
    /// Decompression failed before the first bytes; the reason until it was reported.
    Unreadable(Option<String>),
    Pcap(pcap::Reader<ByteStream>),
    Pcapng(pcapng::Reader<ByteStream>, FileFacts),
}

/// Everything of a packet but its bytes.
#[derive(Clone, Copy, Debug, Default)]
struct RecordHead {
    time_ns: u64,
    frame_len: u32,
    link_type: u16,
    interface: u32,
    direction: Option<Direction>,
    extras: PacketExtras,
}

/// A file and its packet at hand.
pub struct FileRecords {
    path: PathBuf,
    reader: FileReader,
    /// Bytes that were read of a compressed file.
    compressed: Option<Arc<AtomicU64>>,
    file_len: Option<u64>,
    head: RecordHead,
    /// The bytes of the packet at hand of a pcapng file.
    data: Vec<u8>,
    /// Packets so far.
    count: u64,
    /// Blocks that could not be read and were skipped.
    skipped: u64,
}

/// What the next call of [`FileRecords::advance`] found.
#[derive(Debug)]
pub enum Advance {
    /// A packet, which [`FileRecords::record`] has.
    Packet,
    /// The end of the file.
    End,
    /// A damaged block; the next call continues behind it.
    Damaged(String),
    /// The rest of the file cannot be read.
    Broken(String),
}

impl FileRecords {
    /// Opens a pcap or pcapng file.
    ///
    /// # Errors
    /// When it cannot be read, or is neither. A compressed file that ends or is damaged before its
    /// first packet can be opened: it is a file whose first [`FileRecords::advance`] fails.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let OpenedFile { mut bytes, file_len, compressed, program } = input::open(path)?;
        let mut start = Vec::new();
        let read = bytes.by_ref().take(pcap::HEADER_LEN as u64).read_to_end(&mut start);
        if let Some(other) = OtherFormat::of(&start, program) {
            return Err(other.into());
        }
        let reader = match read {
            Err(why) if compressed.is_some() => FileReader::Unreadable(Some(why.to_string())),
            read => {
                read?;
                let is_pcapng = start.starts_with(&[0x0a, 0x0d, 0x0d, 0x0a]);
                let whole: ByteStream = Box::new(std::io::Cursor::new(start).chain(bytes));
                match is_pcapng {
                    true => FileReader::Pcapng(pcapng::Reader::new(whole), FileFacts::default()),
                    false => FileReader::Pcap(pcap::Reader::new(whole)?),
                }
            }
        };
        let (head, data) = (RecordHead::default(), Vec::new());
        Ok(Self { path: path.to_owned(), reader, compressed, file_len, head, data, count: 0, skipped: 0 })
    }

    /// Reads the next packet.
    pub fn advance(&mut self) -> Advance {
        let found = match &mut self.reader {
            FileReader::Unreadable(why) => {
                let why = why.take().map(|why| format!("{}: {why}", self.path.display()));
                return why.map_or(Advance::End, Advance::Broken);
            }
            FileReader::Pcap(reader) => {
                let link_type = reader.header().link_type;
                reader.next_record().map(|record| {
                    record.map(|record| {
                        let (time_ns, frame_len) = (record.time_ns, record.frame_len);
                        RecordHead { time_ns, frame_len, link_type, ..RecordHead::default() }
                    })
                })
            }
            FileReader::Pcapng(reader, facts) => next_packet(reader, facts, &mut self.data),
        };
        match found {
            Ok(Some(head)) => {
                self.head = head;
                self.count += 1;
                Advance::Packet
            }
            Ok(None) => Advance::End,
            Err(why) => self.trouble(why),
        }
    }

    fn trouble(&mut self, why: ReadError) -> Advance {
        let is_final = why.is_final();
        let why =
            format!("{}: after packet {}: {:#}", self.path.display(), self.count, anyhow::Error::new(why));
        if is_final {
            return Advance::Broken(why);
        }
        self.skipped += 1;
        Advance::Damaged(why)
    }

    /// Bytes of the file that are behind the packet at hand; nothing for a stream.
    pub fn bytes_left(&self) -> Option<u64> {
        let done = match (&self.compressed, &self.reader) {
            (Some(count), _) => count.load(Relaxed),
            (None, FileReader::Pcap(reader)) => reader.offset() + reader.data().len() as u64,
            (None, FileReader::Pcapng(reader, _)) => reader.offset(),
            (None, FileReader::Unreadable(_)) => 0,
        };
        Some(self.file_len?.saturating_sub(done))
    }

    /// Time of the packet at hand.
    pub fn time_ns(&self) -> u64 {
        self.head.time_ns
    }

    /// The bytes of the packet at hand.
    pub fn data(&self) -> &[u8] {
        match &self.reader {
            FileReader::Pcap(reader) => reader.data(),
            FileReader::Pcapng(..) => &self.data,
            FileReader::Unreadable(_) => &[],
        }
    }

    /// The interface of the packet at hand; pcap files describe none.
    pub fn interface(&self) -> Option<&FileInterface> {
        match &self.reader {
            FileReader::Pcap(_) | FileReader::Unreadable(_) => None,
            FileReader::Pcapng(_, facts) => facts.interfaces.get(self.head.interface as usize),
        }
    }

    /// More of the packet at hand.
    pub fn extras(&self) -> PacketExtras {
        self.head.extras
    }

    /// Sections so far: the numbers of interfaces count anew in each.
    pub fn sections(&self) -> u64 {
        match &self.reader {
            FileReader::Pcap(_) | FileReader::Unreadable(_) => 0,
            FileReader::Pcapng(_, facts) => facts.sections,
        }
    }

    /// Each interface with its last statistics so far.
    pub fn statistics(&self) -> impl Iterator<Item = &(FileInterface, Statistics)> {
        let facts = match &self.reader {
            FileReader::Pcap(_) | FileReader::Unreadable(_) => None,
            FileReader::Pcapng(_, facts) => Some(facts),
        };
        facts.into_iter().flat_map(|facts| facts.statistics.values())
    }

    /// The packet at hand, as number `number` of the loop.
    pub fn record(&self, number: u64) -> Record<'_> {
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
        }
    }
}

/// The next packet of a pcapng file; what other blocks say is entered as they come.
fn next_packet(
    reader: &mut pcapng::Reader<ByteStream>,
    facts: &mut FileFacts,
    data: &mut Vec<u8>,
) -> Result<Option<RecordHead>, ReadError> {
    while let Some(block) = reader.next_block()? {
        match block {
            Block::Section(section) => {
                facts.interfaces.clear();
                facts.sections += 1;
                facts.is_ours = section.application.is_some_and(|name| name.starts_with("wirerate "));
            }
            Block::Interface(Interface { link_type, name, snaplen, .. }) => {
                facts.interfaces.push(FileInterface { link_type, name, snaplen, is_ours: facts.is_ours });
            }
            Block::Statistics(statistics) => {
                // The reader has checked the number of the interface.
                if let Some(interface) = facts.interfaces.get(statistics.interface as usize) {
                    let place = (facts.sections, statistics.interface);
                    facts.statistics.insert(place, (interface.clone(), statistics));
                }
            }
            Block::Packet(packet) => {
                data.clear();
                data.extend_from_slice(packet.data);
                let flags = packet.flags.unwrap_or_default();
                let direction = match (flags.is_inbound(), flags.is_outbound()) {
                    (true, _) => Some(Direction::Inbound),
                    (_, true) => Some(Direction::Outbound),
                    _ => None,
                };
                // The reader has checked the number of the interface.
                let interface = facts.interfaces.get(packet.interface as usize);
                let link_type = interface.map_or(0, |found| found.link_type);
                return Ok(Some(RecordHead {
                    time_ns: packet.time_ns,
                    frame_len: packet.frame_len,
                    link_type,
                    interface: packet.interface,
                    direction,
                    extras: PacketExtras { queue: packet.queue, drop_count: packet.drop_count.unwrap_or(0) },
                }));
            }
            _ => {}
        }
    }
    Ok(None)
}
