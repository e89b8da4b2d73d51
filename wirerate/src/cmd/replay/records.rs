//! The packets of one capture file, one at a time.

use super::input::{self, ByteStream, OpenedFile};
use pcapng::{Block, ReadError, pcap};
use replay::{Direction, Record};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// One interface of a pcapng file.
#[derive(Clone, Debug)]
struct FileInterface {
    link_type: u16,
    name: Option<String>,
}

enum FileReader {
    Pcap(pcap::Reader<ByteStream>),
    /// With the interfaces of the section at hand.
    Pcapng(pcapng::Reader<ByteStream>, Vec<FileInterface>),
}

/// Everything of a packet but its bytes.
#[derive(Clone, Copy, Debug, Default)]
struct RecordHead {
    time_ns: u64,
    frame_len: u32,
    link_type: u16,
    interface: u32,
    direction: Option<Direction>,
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
    /// When it cannot be read, or is neither.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let OpenedFile { mut bytes, file_len, compressed } = input::open(path)?;
        let mut magic = Vec::new();
        bytes.by_ref().take(4).read_to_end(&mut magic)?;
        let is_pcapng = magic == [0x0a, 0x0d, 0x0d, 0x0a];
        let whole: ByteStream = Box::new(std::io::Cursor::new(magic).chain(bytes));
        let reader = match is_pcapng {
            true => FileReader::Pcapng(pcapng::Reader::new(whole), Vec::new()),
            false => FileReader::Pcap(pcap::Reader::new(whole)?),
        };
        let (head, data) = (RecordHead::default(), Vec::new());
        Ok(Self { path: path.to_owned(), reader, compressed, file_len, head, data, count: 0, skipped: 0 })
    }

    /// Reads the next packet.
    pub fn advance(&mut self) -> Advance {
        let found = match &mut self.reader {
            FileReader::Pcap(reader) => {
                let link_type = reader.header().link_type;
                reader.next_record().map(|record| {
                    record.map(|record| {
                        let (time_ns, frame_len) = (record.time_ns, record.frame_len);
                        RecordHead { time_ns, frame_len, link_type, ..RecordHead::default() }
                    })
                })
            }
            FileReader::Pcapng(reader, interfaces) => next_packet(reader, interfaces, &mut self.data),
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
        }
    }

    /// The packet at hand, as number `number` of the loop.
    pub fn record(&self, number: u64) -> Record<'_> {
        let interfaces = match &self.reader {
            FileReader::Pcap(_) => &[][..],
            FileReader::Pcapng(_, interfaces) => interfaces,
        };
        let interface = interfaces.get(self.head.interface as usize);
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

/// The next packet of a pcapng file; its interfaces are entered as they come.
fn next_packet(
    reader: &mut pcapng::Reader<ByteStream>,
    interfaces: &mut Vec<FileInterface>,
    data: &mut Vec<u8>,
) -> Result<Option<RecordHead>, ReadError> {
    while let Some(block) = reader.next_block()? {
        match block {
            Block::Section(_) => interfaces.clear(),
            Block::Interface(interface) => {
                interfaces.push(FileInterface { link_type: interface.link_type, name: interface.name });
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
                let link_type = interfaces.get(packet.interface as usize).map_or(0, |found| found.link_type);
                return Ok(Some(RecordHead {
                    time_ns: packet.time_ns,
                    frame_len: packet.frame_len,
                    link_type,
                    interface: packet.interface,
                    direction,
                }));
            }
            _ => {}
        }
    }
    Ok(None)
}
