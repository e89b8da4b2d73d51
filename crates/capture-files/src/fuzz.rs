//! Random structures of capture files: sections, blocks, options, lengths, variants of pcap, and
//! compressed members around them.
//!
//! A file that is not damaged has as many packets as were put into it, without a damaged place.
//! Compressed in any way, it gives the packets of the plain file. A damaged file ends with fewer
//! or more of them, and never with a panic, without end, or in much memory.

use super::input::of_stream;
use super::records::FileRecords;
use packet::Rng;
use program::console::Console;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{Cursor, Write};
use std::path::Path;

/// Memory of the whole process, at most.
const MEMORY_MAX_KB: u64 = 1 << 20;

struct Maker {
    rng: Rng,
    is_big: bool,
    out: Vec<u8>,
    /// Packets that a reader finds.
    packets: u64,
}

impl Maker {
    fn below(&mut self, end: usize) -> usize {
        self.rng.below(end as u32) as usize
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.rng.next_u32() as u8).collect()
    }

    fn half(&self, value: u16) -> [u8; 2] {
        if self.is_big { value.to_be_bytes() } else { value.to_le_bytes() }
    }

    fn word(&self, value: u32) -> [u8; 4] {
        if self.is_big { value.to_be_bytes() } else { value.to_le_bytes() }
    }

    /// A block with both lengths. One of 8 writers leaves the padding out of them.
    fn block(&mut self, kind: u32, body: &[u8]) {
        let padded_len = body.len().next_multiple_of(4);
        let counted_len = if self.one_in(8) { body.len() } else { padded_len };
        let total = self.word(counted_len as u32 + 12);
        let kind = self.word(kind);
        self.out.extend(kind.into_iter().chain(total).chain(body.iter().copied()));
        self.out.extend(vec![0; padded_len - body.len()]);
        self.out.extend(total);
    }

    fn option(&mut self, body: &mut Vec<u8>, code: u16, value: &[u8]) {
        body.extend(self.half(code));
        body.extend(self.half(value.len() as u16));
        body.extend(value);
        body.extend(vec![0; value.len().next_multiple_of(4) - value.len()]);
    }

    /// Options of any codes, lengths and values.
    fn options(&mut self, body: &mut Vec<u8>) {
        for _ in 0..self.below(4) {
            let (code, len) = (1 + self.below(20) as u16, self.below(13));
            let value = self.bytes(len);
            self.option(body, code, &value);
        }
        if self.one_in(2) {
            body.extend([0; 4]);
        }
    }

    fn section(&mut self) {
        self.is_big = self.one_in(2);
        let section_len = if self.one_in(2) { [0xff; 8] } else { [0; 8] };
        let mut body = self.word(0x1a2b_3c4d).to_vec();
        body.extend(self.half(1));
        body.extend(self.half(self.rng.0 as u16 & 3));
        body.extend(section_len);
        self.options(&mut body);
        self.block(0x0a0d_0d0a, &body);
    }

    /// An interface; returns its snaplen.
    fn interface(&mut self) -> u32 {
        let snaplen = [0, 16, 96, 65_535, 262_144][self.below(5)];
        let link_type = [1, 101, 113, 276, 147, 65_535][self.below(6)];
        let mut body = self.half(link_type).to_vec();
        body.extend(self.half(0));
        body.extend(self.word(snaplen));
        if self.one_in(3) {
            let name_len = [0, 1, 4, 15, 300][self.below(5)];
            let name = self.bytes(name_len);
            self.option(&mut body, 2, &name);
        }
        if self.one_in(2) {
            let resolution = [0, 3, 6, 9, 12, 127, 128, 138, 160, 191, 255][self.below(11)];
            self.option(&mut body, 9, &[resolution]);
        }
        if self.one_in(4) {
            let fcs_len = self.below(20) as u8;
            self.option(&mut body, 13, &[fcs_len]);
        }
        if self.one_in(4) {
            let offset = self.bytes(8);
            self.option(&mut body, 14, &offset);
        }
        self.options(&mut body);
        self.block(1, &body);
        snaplen
    }

    fn packet(&mut self, snaplens: &[u32]) {
        let number = self.below(snaplens.len());
        let len = self.below(200);
        let data = self.bytes(len);
        self.packets += 1;
        if self.one_in(5) {
            // A simple packet: of interface 0, cut to its snaplen.
            let kept = if snaplens[0] == 0 { len } else { len.min(snaplens[0] as usize) };
            let body = [&self.word(len as u32), &data[..kept]].concat();
            return self.block(3, &body);
        }
        let is_old = self.one_in(5);
        let mut body = Vec::new();
        if is_old {
            body.extend(self.half(number as u16));
            let drop_count = [0, 7, u16::MAX][self.below(3)];
            body.extend(self.half(drop_count));
        } else {
            body.extend(self.word(number as u32));
        }
        let time = self.bytes(8);
        body.extend(time);
        body.extend(self.word(len as u32));
        let frame_len = len + self.below(2) * self.below(2_000);
        body.extend(self.word(frame_len as u32));
        body.extend(&data);
        body.extend(vec![0; len.next_multiple_of(4) - len]);
        if self.one_in(2) {
            let flags = self.word(self.rng.0 as u32);
            self.option(&mut body, 2, &flags);
            self.options(&mut body);
        }
        self.block(if is_old { 2 } else { 6 }, &body);
    }

    fn pcapng(&mut self) {
        for _ in 0..1 + self.below(3) {
            self.section();
            let mut snaplens = vec![self.interface()];
            for _ in 0..self.below(12) {
                match self.below(8) {
                    0 => snaplens.push(self.interface()),
                    1 => {
                        let mut body = self.word(self.rng.0 as u32 % snaplens.len() as u32).to_vec();
                        body.extend([0; 8]);
                        self.options(&mut body);
                        self.block(5, &body);
                    }
                    2 => {
                        let (kind, len) = ([0x0bad, 0x4000_0bad, 7, 10, 0x8000_0001][self.below(5)], 4);
                        let len = len + self.below(40);
                        let body = self.bytes(len);
                        self.block(kind, &body);
                    }
                    // Names: only the end of the list.
                    3 => self.block(4, &[0; 4]),
                    _ => self.packet(&snaplens),
                }
            }
        }
    }

    fn pcap(&mut self) {
        self.is_big = self.one_in(2);
        let magics = [0xa1b2_c3d4, 0xa1b2_3c4d, 0xa1b2_cd34];
        let magic = magics[self.below(3)];
        let version = [(2, 4), (2, 4), (2, 2), (2, 3), (543, 0)][self.below(5)];
        let mut head = self.word(magic).to_vec();
        head.extend(self.half(version.0));
        head.extend(self.half(version.1));
        head.extend([0; 8]);
        let snaplen = [0, 96, 65_535, u32::MAX][self.below(4)];
        head.extend(self.word(snaplen));
        let fcs_bits = if self.one_in(4) { self.rng.0 as u32 & 0xfc00_0000 } else { 0 };
        let link_type = [1, 101, 113][self.below(3)];
        head.extend(self.word(fcs_bits | link_type));
        self.out.extend(head);
        for _ in 0..self.below(12) {
            let len = self.below(200);
            let frame_len = (len + self.below(2) * self.below(2_000)) as u32;
            let (first, second) = match version {
                (2, 2) | (543, 0) => (frame_len, len as u32),
                _ => (len as u32, frame_len),
            };
            let time = self.bytes(8);
            self.out.extend(time);
            self.out.extend(self.word(first));
            self.out.extend(self.word(second));
            if magic == 0xa1b2_cd34 {
                self.out.extend([0; 8]);
            }
            let data = self.bytes(len);
            self.out.extend(data);
            self.packets += 1;
        }
    }

    /// The file in one or more members of any methods, with skippable frames and zeros between.
    fn compressed(&mut self, plain: &[u8]) -> Vec<u8> {
        let mut file = Vec::new();
        let (mut at, members) = (0, 1 + self.below(4));
        for member in 0..members {
            let left = plain.len() - at;
            let len = if member + 1 == members { left } else { self.below(left + 1) };
            let part = &plain[at..at + len];
            at += len;
            if self.one_in(4) {
                let len = self.below(30);
                let content = self.bytes(len);
                file.extend([0x50 + self.rng.0 as u8 % 16, 0x2a, 0x4d, 0x18]);
                file.extend((len as u32).to_le_bytes());
                file.extend(content);
            }
            file.extend(match self.below(4) {
                0 => {
                    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                    out.write_all(part).unwrap();
                    out.finish().unwrap()
                }
                1 => zstd::stream::encode_all(part, 1).unwrap(),
                2 => {
                    let mut out = lz4_flex::frame::FrameEncoder::new(Vec::new());
                    out.write_all(part).unwrap();
                    out.finish().unwrap()
                }
                _ => {
                    let mut out = liblzma::write::XzEncoder::new(Vec::new(), 0);
                    out.write_all(part).unwrap();
                    out.finish().unwrap()
                }
            });
        }
        if self.one_in(8) {
            file.extend([0; 16]);
        }
        file
    }
}

/// What a reader found.
#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    packets: u64,
    damages: u64,
    /// Hash of the times, lengths and bytes of all packets.
    hash: u64,
}

/// Reads a file to its end; nothing if it is refused. The plain bytes bound what may be found.
fn read(file: Vec<u8>, plain_len_max: usize) -> Option<Found> {
    let file_len = Some(file.len() as u64);
    let opened = of_stream(Box::new(Cursor::new(file)), file_len).ok()?;
    let mut records = FileRecords::of(Path::new("fuzz"), opened, &Console::default()).ok()?;
    let (mut found, mut hash) = (Found::default(), DefaultHasher::new());
    while records.advance() {
        found.packets += 1;
        let record = records.record_with_fcs(found.packets);
        (record.time_ns, record.frame_len, record.link_type, record.interface).hash(&mut hash);
        record.data.hash(&mut hash);
        let without_fcs = records.record(found.packets);
        assert!(without_fcs.data.len() <= record.data.len() && without_fcs.frame_len <= record.frame_len);
        assert!(record.data.len() <= plain_len_max, "a packet is longer than its file");
        assert!(found.packets <= plain_len_max as u64 / 16 + 1, "more packets than fit");
    }
    assert!(!records.advance(), "the end stays the end");
    found.damages = records.take_damages().total;
    found.hash = hash.finish();
    Some(found)
}

/// Memory of this process at its peak.
fn peak_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("there is /proc");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    peak.trim().trim_end_matches(" kB").parse().expect("a number")
}

#[test]
fn capture_files_of_any_structure_are_read() {
    testkit::fuzz!("capture_files_of_any_structure_are_read", 40_000, |seed| {
        let mut maker = Maker { rng: Rng(seed), is_big: false, out: Vec::new(), packets: 0 };
        if maker.one_in(3) {
            maker.pcap()
        } else {
            maker.pcapng()
        }
        let (plain, packets) = (std::mem::take(&mut maker.out), maker.packets);
        let whole = read(plain.clone(), plain.len()).expect("a whole file is read");
        assert_eq!((whole.packets, whole.damages), (packets, 0));
        let is_compressed = maker.one_in(4);
        let mut file = plain.clone();
        if is_compressed {
            file = maker.compressed(&plain);
            assert_eq!(read(file.clone(), plain.len()), Some(whole));
        }
        testkit::spoil(&mut file, |end| maker.below(end));
        // What a damaged frame is decompressed to has hardly a bound.
        let plain_len_max = if is_compressed { 1 << 30 } else { file.len() };
        read(file, plain_len_max);
    });
    assert!(peak_kb() < MEMORY_MAX_KB, "{} kB of memory", peak_kb());
}
