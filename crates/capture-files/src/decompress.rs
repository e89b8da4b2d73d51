//! Compressed files: any number of gzip members, xz streams, and zstd and lz4 frames, one after
//! another, with skippable frames anywhere.
//!
//! Each decoder reads one member and leaves the input behind it, so the next member is found by its
//! own first bytes, whatever method it uses.

use super::ahead::ByteStream;
use flate2::bufread::GzDecoder;
use liblzma::stream::{Action, Status, Stream};
use lz4_flex::frame::FrameDecoder;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use zstd::stream::raw::{self, InBuffer, Operation, OutBuffer};

/// Bytes that decide about the method: the longest magic below.
const MAGIC_LEN: usize = 6;
/// Bytes that are read from the file at once. No longer than what the readers of pcap and pcapng
/// request, so that their reads of plain files bypass the buffer.
const BUFFER_LEN: usize = 64 << 10;

/// A method of compression that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    /// RFC 1952.
    Gzip,
    /// RFC 8878.
    Zstd,
    /// The frame format of lz4.
    Lz4,
    /// The xz format.
    Xz,
    /// A frame that zstd and lz4 programs skip.
    Skippable,
}

impl Method {
    /// The method of a member that begins with `magic`.
    pub(super) fn of(magic: &[u8]) -> Option<Self> {
        Some(match magic {
            [0x1f, 0x8b, ..] => Self::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Self::Zstd,
            [0x04, 0x22, 0x4d, 0x18, ..] => Self::Lz4,
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Self::Xz,
            [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Self::Skippable,
            _ => return None,
        })
    }

    /// The program that decompresses it.
    pub(super) fn program(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::Skippable => "zstd or lz4",
            Self::Lz4 => "lz4",
            Self::Xz => "xz",
        }
    }

    /// What the format calls one compressed unit.
    fn member(self) -> &'static str {
        match self {
            Self::Gzip => "gzip member",
            Self::Zstd => "zstd frame",
            Self::Lz4 => "lz4 frame",
            Self::Xz => "xz stream",
            Self::Skippable => "skippable frame",
        }
    }
}

/// The bytes of a file, with a look ahead and a count.
pub(super) struct FileBytes {
    /// Bytes that were looked at and not consumed, from `ahead_at` on.
    ahead: Vec<u8>,
    ahead_at: usize,
    file: BufReader<ByteStream>,
    /// Bytes that were consumed.
    count: Arc<AtomicU64>,
    /// A read found the end of the file.
    has_ended: bool,
}

impl FileBytes {
    pub(super) fn new(file: ByteStream) -> Self {
        let file = BufReader::with_capacity(BUFFER_LEN, file);
        Self { ahead: Vec::new(), ahead_at: 0, file, count: Arc::default(), has_ended: false }
    }

    /// The next bytes, at most `len`, without consuming them; fewer at the end of the file.
    pub(super) fn peek(&mut self, len: usize) -> io::Result<&[u8]> {
        self.ahead.drain(..std::mem::take(&mut self.ahead_at));
        let missing = len.saturating_sub(self.ahead.len());
        self.file.by_ref().take(missing as u64).read_to_end(&mut self.ahead)?;
        Ok(&self.ahead[..len.min(self.ahead.len())])
    }

    /// The first bytes of a member.
    pub(super) fn magic(&mut self) -> io::Result<&[u8]> {
        self.peek(MAGIC_LEN)
    }

    /// Consumes a skippable frame.
    fn skip_frame(&mut self) -> io::Result<()> {
        let mut head = [0; 8];
        self.read_exact(&mut head)?;
        let len = u64::from(u32::from_le_bytes([head[4], head[5], head[6], head[7]]));
        match io::copy(&mut self.take(len), &mut io::sink())? {
            skipped if skipped == len => Ok(()),
            _ => Err(ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Consumes the zeros that fill up tapes and the end of xz streams.
    fn skip_zeros(&mut self) -> io::Result<()> {
        loop {
            let found = self.fill_buf()?;
            let zeros = found.iter().take_while(|byte| **byte == 0).count();
            let is_over = zeros < found.len() || found.is_empty();
            self.consume(zeros);
            if is_over {
                return Ok(());
            }
        }
    }
}

impl Read for FileBytes {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut ahead = &self.ahead[self.ahead_at..];
        let read = if ahead.is_empty() { self.file.read(into)? } else { ahead.read(into)? };
        self.ahead_at = (self.ahead_at + read).min(self.ahead.len());
        self.count.fetch_add(read as u64, Relaxed);
        self.has_ended |= read == 0 && !into.is_empty();
        Ok(read)
    }
}

impl BufRead for FileBytes {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.ahead_at < self.ahead.len() {
            return Ok(&self.ahead[self.ahead_at..]);
        }
        let found = self.file.fill_buf()?;
        self.has_ended |= found.is_empty();
        Ok(found)
    }

    fn consume(&mut self, len: usize) {
        self.count.fetch_add(len as u64, Relaxed);
        if self.ahead_at < self.ahead.len() {
            self.ahead_at += len;
        } else {
            self.file.consume(len);
        }
    }
}

/// The decoder of the member at hand.
enum Member {
    Gzip(GzDecoder<FileBytes>),
    Zstd(ZstdFrame),
    Lz4(FrameDecoder<FileBytes>),
    Xz(XzStream),
}

/// A frame of zstd. The decoder gets one block at a time: at a damaged block it forgets what it
/// wrote of the blocks before it in the same call.
struct ZstdFrame {
    decoder: raw::Decoder<'static>,
    file: FileBytes,
    /// Bytes to the end of the block, as the decoder says; 0 behind the frame.
    wanted: usize,
}

impl ZstdFrame {
    /// Bytes that the decoder needs first.
    const HEAD_LEN: usize = 5;

    fn new(file: FileBytes) -> io::Result<Self> {
        let mut decoder = raw::Decoder::new()?;
        // Frames of `zstd --long=31`.
        decoder.set_parameter(raw::DParameter::WindowLogMax(31))?;
        Ok(Self { decoder, file, wanted: Self::HEAD_LEN })
    }

    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.wanted > 0 {
            let input = self.file.fill_buf()?;
            let has_ended = input.is_empty();
            let mut from = InBuffer::around(&input[..input.len().min(self.wanted)]);
            let mut to = OutBuffer::around(&mut *into);
            self.wanted = self.decoder.run(&mut from, &mut to)?;
            let (consumed, written) = (from.pos(), to.pos());
            self.file.consume(consumed);
            if written > 0 {
                return Ok(written);
            }
            if has_ended && self.wanted > 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(0)
    }
}

/// A stream of xz. At a damaged place its decoder gives the bytes before it and the error in one
/// call.
struct XzStream {
    decoder: Stream,
    file: FileBytes,
    /// The error behind the bytes that were given.
    failure: Option<io::Error>,
    has_ended: bool,
}

impl XzStream {
    fn new(file: FileBytes) -> io::Result<Self> {
        let decoder = Stream::new_stream_decoder(u64::MAX, 0)?;
        Ok(Self { decoder, file, failure: None, has_ended: false })
    }

    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if let Some(why) = self.failure.take() {
            return Err(why);
        }
        while !self.has_ended {
            let input = self.file.fill_buf()?;
            let is_last = input.is_empty();
            let before = (self.decoder.total_in(), self.decoder.total_out());
            let action = if is_last { Action::Finish } else { Action::Run };
            let status = self.decoder.process(input, into, action);
            let consumed = (self.decoder.total_in() - before.0) as usize;
            let written = (self.decoder.total_out() - before.1) as usize;
            self.file.consume(consumed);
            match status {
                Ok(status) => self.has_ended = status == Status::StreamEnd,
                Err(why) if written == 0 => return Err(why.into()),
                Err(why) => self.failure = Some(why.into()),
            }
            if written > 0 {
                return Ok(written);
            }
            if is_last && !self.has_ended {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            if consumed == 0 && !self.has_ended {
                return Err(io::Error::other("the decoder does not go on"));
            }
        }
        Ok(0)
    }
}

/// What is read next.
enum State {
    /// The magic of a member.
    Between(FileBytes),
    /// The rest of a member.
    Within(Method, Member),
    /// Nothing: the file is over, or was found damaged.
    Over,
}

/// What is known of a compressed file while a thread decompresses it.
#[derive(Clone, Debug)]
pub struct CompressedBytes {
    /// Bytes that were consumed.
    count: Arc<AtomicU64>,
    /// The method of the first member that is not skipped.
    first: Arc<OnceLock<Method>>,
}

impl CompressedBytes {
    /// Bytes of the compressed file that were consumed.
    pub fn consumed(&self) -> u64 {
        self.count.load(Relaxed)
    }

    /// The program that decompresses it, known when its first plain bytes were read.
    pub fn program(&self) -> &'static str {
        self.first.get().unwrap_or(&Method::Skippable).program()
    }
}

/// The decompressed bytes of a file.
///
/// An error ends them. It names the place in the compressed file; all bytes before it were given.
pub(super) struct Decompressed {
    state: State,
    facts: CompressedBytes,
}

impl Decompressed {
    pub(super) fn new(file: FileBytes) -> Self {
        let facts = CompressedBytes { count: Arc::clone(&file.count), first: Arc::default() };
        Self { facts, state: State::Between(file) }
    }

    /// What is known of the file.
    pub(super) fn facts(&self) -> CompressedBytes {
        self.facts.clone()
    }

    fn error(&self, method: Method, why: io::Error) -> io::Error {
        let (place, member) = (self.facts.consumed(), method.member());
        if why.kind() == ErrorKind::UnexpectedEof {
            let text = format!("the compressed file ends at byte {place}, within a {member}");
            return io::Error::new(ErrorKind::UnexpectedEof, text);
        }
        let text = format!("the {member} is damaged, seen at byte {place} of the compressed file: {why}");
        io::Error::new(ErrorKind::InvalidData, text)
    }

    /// Begins the next member; leaves [`State::Over`] at the end of the file.
    fn begin(&mut self, mut file: FileBytes) -> io::Result<()> {
        let place = self.facts.consumed();
        if place > 0 {
            file.skip_zeros()?;
        }
        let magic = file.magic()?;
        if magic.is_empty() {
            return Ok(());
        }
        let Some(method) = Method::of(magic) else {
            let text = format!(
                "byte {place} of the compressed file: another compressed member or the end expected, \
                 {} found",
                magic.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
            );
            return Err(io::Error::new(ErrorKind::InvalidData, text));
        };
        let member = match method {
            Method::Gzip => Member::Gzip(GzDecoder::new(file)),
            Method::Zstd => Member::Zstd(ZstdFrame::new(file)?),
            Method::Lz4 => Member::Lz4(FrameDecoder::new(file)),
            Method::Xz => Member::Xz(XzStream::new(file)?),
            Method::Skippable => {
                file.skip_frame().map_err(|why| self.error(method, why))?;
                self.state = State::Between(file);
                return Ok(());
            }
        };
        self.facts.first.get_or_init(|| method);
        self.state = State::Within(method, member);
        Ok(())
    }
}

impl Member {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Gzip(decoder) => decoder.read(into),
            Self::Zstd(frame) => frame.read(into),
            Self::Lz4(decoder) => match decoder.read(into)? {
                // The decoder takes the end of the file between two blocks for the end of a frame.
                0 if decoder.get_ref().has_ended => Err(ErrorKind::UnexpectedEof.into()),
                read => Ok(read),
            },
            Self::Xz(stream) => stream.read(into),
        }
    }

    /// The file behind the member.
    fn into_file(self) -> FileBytes {
        match self {
            Self::Gzip(decoder) => decoder.into_inner(),
            Self::Zstd(frame) => frame.file,
            Self::Lz4(decoder) => decoder.into_inner(),
            Self::Xz(stream) => stream.file,
        }
    }
}

impl Read for Decompressed {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        loop {
            match std::mem::replace(&mut self.state, State::Over) {
                State::Over => return Ok(0),
                State::Between(file) => self.begin(file)?,
                State::Within(method, mut member) => match member.read(into) {
                    Ok(0) => self.state = State::Between(member.into_file()),
                    Ok(read) => {
                        self.state = State::Within(method, member);
                        return Ok(read);
                    }
                    Err(why) if why.kind() == ErrorKind::Interrupted => {
                        self.state = State::Within(method, member);
                        return Err(why);
                    }
                    Err(why) => return Err(self.error(method, why)),
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn plain() -> Vec<u8> {
        (0..20_000_u32).flat_map(|number| number.wrapping_mul(number).to_le_bytes()).collect()
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        out.write_all(bytes).unwrap();
        out.finish().unwrap()
    }

    fn lz4(bytes: &[u8]) -> Vec<u8> {
        let mut out = lz4_flex::frame::FrameEncoder::new(Vec::new());
        out.write_all(bytes).unwrap();
        out.finish().unwrap()
    }

    fn xz(bytes: &[u8]) -> Vec<u8> {
        let mut out = liblzma::write::XzEncoder::new(Vec::new(), 1);
        out.write_all(bytes).unwrap();
        out.finish().unwrap()
    }

    fn zstd(bytes: &[u8]) -> Vec<u8> {
        zstd::stream::encode_all(bytes, 1).unwrap()
    }

    fn skippable(content: &[u8]) -> Vec<u8> {
        [&[0x53, 0x2a, 0x4d, 0x18][..], &(content.len() as u32).to_le_bytes(), content].concat()
    }

    type Compress = fn(&[u8]) -> Vec<u8>;

    const METHODS: [(&str, Compress); 4] = [("gzip", gzip), ("zstd", zstd), ("lz4", lz4), ("xz", xz)];

    /// All that a file gives before its end or an error. One byte of the file at a time, if asked.
    fn read(file: &[u8], is_slow: bool) -> (Vec<u8>, Option<String>) {
        struct Drip<R>(R);
        impl<R: Read> Read for Drip<R> {
            fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
                self.0.read(&mut into[..1])
            }
        }
        let bytes = io::Cursor::new(file.to_vec());
        let bytes: ByteStream = if is_slow { Box::new(Drip(bytes)) } else { Box::new(bytes) };
        let mut decompressed = Decompressed::new(FileBytes::new(bytes));
        let mut out = Vec::new();
        // As long as what is read ahead at once, or longer: several blocks are written by one call.
        let mut buffer = vec![0; 1 << 20];
        loop {
            match decompressed.read(&mut buffer) {
                Ok(0) => return (out, None),
                Ok(read) => out.extend_from_slice(&buffer[..read]),
                Err(why) => return (out, Some(why.to_string())),
            }
        }
    }

    #[test]
    fn members_of_one_method_are_read_to_the_last() {
        let plain = plain();
        for (name, compress) in METHODS {
            let parts = [&plain[..24], &[], &plain[24..30_000], &plain[30_000..]];
            let file: Vec<u8> = parts.iter().flat_map(|part| compress(part)).collect();
            for is_slow in [false, true] {
                let (found, why) = read(&file, is_slow);
                assert!(found == plain && why.is_none(), "{name}: {} bytes, {why:?}", found.len());
            }
        }
    }

    #[test]
    fn members_of_all_methods_and_skippable_frames_may_follow_each_other() {
        let mut file = skippable(b"first");
        let mut expected = Vec::new();
        for (_, compress) in METHODS.iter().chain(&METHODS) {
            file.extend(compress(&plain()));
            file.extend(skippable(&[7; 100]));
            file.extend(skippable(&[]));
            expected.extend(plain());
        }
        let (found, why) = read(&file, false);
        assert!(found == expected && why.is_none(), "{} bytes, {why:?}", found.len());
        file.extend([0; 512]);
        assert_eq!(read(&file, false).1, None, "zeros that fill up a tape");
    }

    #[test]
    fn a_cut_file_is_read_up_to_the_cut_which_is_named() {
        let plain = plain();
        for (name, compress) in METHODS {
            let first = compress(&plain);
            let file = [&first[..], &compress(&plain)].concat();
            let cuts = (1..24).chain((24..file.len() - 30).step_by(6_007)).chain(file.len() - 30..file.len());
            for cut in cuts.filter(|cut| *cut != first.len()) {
                let (found, why) = read(&file[..cut], false);
                let why = why.unwrap_or_else(|| panic!("{name} cut at {cut}: no error"));
                let whole = [&plain[..], &plain].concat();
                assert!(whole.starts_with(&found), "{name} cut at {cut}");
                assert!(found.len() >= if cut > first.len() { plain.len() } else { 0 }, "{name} {cut}");
                let is_named = why.starts_with(&format!("the compressed file ends at byte {cut}, within a "));
                // Fewer bytes than the magic are no member yet.
                let is_named = is_named || why.contains("another compressed member or the end expected");
                assert!(is_named, "{name} cut at {cut}: {why}");
            }
        }
        let (_, why) = read(&[&zstd(&plain)[..], &skippable(&[7; 100])[..50]].concat(), false);
        assert!(why.unwrap().ends_with(", within a skippable frame"));
    }

    #[test]
    fn a_changed_byte_ends_the_file_behind_the_bytes_before_it() {
        let plain = plain();
        for (name, compress) in METHODS {
            let mut file = compress(&plain);
            let place = file.len() * 3 / 4;
            file[place] ^= 0x55;
            let (found, why) = read(&file, false);
            // lz4 and zstd may notice only at the checksum at their end.
            assert!(found.len() > plain.len() / 3, "{name}: {} bytes", found.len());
            let is_noticed = why.is_some() || found != plain;
            assert!(is_noticed, "{name}");
            if let Some(why) = why {
                assert!(why.contains(" is damaged, seen at byte "), "{name}: {why}");
            }
        }
    }

    /// Blocks before the damaged one are whole, also if a call decodes several of them.
    #[test]
    fn all_blocks_before_a_damaged_one_are_read() {
        let plain: Vec<u8> = (0..200_000_u32).flat_map(|number| (number % 251).to_le_bytes()).collect();
        let mut file = zstd(&plain);
        let last = file.len() - 8;
        file[last] ^= 0x55;
        let (found, why) = read(&file, false);
        assert!(why.is_some() && found.len() >= plain.len() - (128 << 10), "{} bytes, {why:?}", found.len());
        // The check behind the only block of an xz stream, before the index of 8 and the foot of 12
        // bytes.
        let mut file = xz(&plain);
        let check = file.len() - 12 - 8 - 1;
        file[check] ^= 0x55;
        let (found, why) = read(&file, false);
        assert!(why.is_some_and(|why| why.contains("the xz stream is damaged")));
        assert!(found == plain, "{} bytes", found.len());
    }

    #[test]
    fn bytes_behind_the_last_member_are_an_error_after_all_data() {
        let plain = plain();
        for (name, compress) in METHODS {
            let len = compress(&plain).len();
            let (found, why) = read(&[&compress(&plain)[..], b"garbage"].concat(), false);
            assert!(found == plain, "{name}");
            let expected = format!(
                "byte {len} of the compressed file: another compressed member or the end expected, \
                 676172626167 found"
            );
            assert_eq!(why.as_deref(), Some(&expected[..]), "{name}");
        }
    }
}
