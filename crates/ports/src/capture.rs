//! Captures of a port: frames in memory, and the file that a client downloads.

use capture::{Format, Options, Output, SNAPLEN_WHOLE, Session, SourceKind};
use otg::{CaptureConfig, CaptureFormat};
use pcapng::{Interface, Packet, RawOption, Section, Writer, pcap};
use sender::device::TxDevice;
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of frames that a capture holds.
const BYTES_MAX: usize = 64 << 20;
/// Bytes of the header of a pcap file.
const PCAP_HEADER_LEN: usize = 24;
/// Bytes of a frame check sequence.
const FCS_LEN: usize = 4;
/// The pcapng option of an interface that says how long the FCS of its frames is.
const IF_FCSLEN: u16 = 13;

/// The capture of a port, running or stopped.
pub(super) struct PortCapture {
    frames: CapturedFrames,
    session: Option<Session>,
}

/// The frames of a capture, shared with its writer.
#[derive(Clone, Debug)]
struct CapturedFrames(Arc<Mutex<KeptFrames>>);

#[derive(Debug)]
struct KeptFrames {
    /// Oldest first, as on the wire, with FCS.
    frames: VecDeque<KeptFrame>,
    bytes: usize,
    filter: CaptureConfig,
    /// Frames that matched and did not fit into [`BYTES_MAX`].
    dropped: u64,
    /// The header of the stream that the capture writes.
    header: Vec<u8>,
}

#[derive(Clone, Debug)]
struct KeptFrame {
    time_ns: u64,
    bytes: Vec<u8>,
}

impl PortCapture {
    /// Starts to capture what the device receives.
    ///
    /// # Errors
    /// In one line.
    pub(super) fn start(config: &CaptureConfig, device: &TxDevice) -> Result<Self, String> {
        let kept = KeptFrames {
            frames: VecDeque::new(),
            bytes: 0,
            filter: config.clone(),
            dropped: 0,
            header: Vec::new(),
        };
        let frames = CapturedFrames(Arc::new(Mutex::new(kept)));
        let options = Options {
            netns: Some(device.netns.clone()),
            // The receiver of the port is its XDP program.
            source: SourceKind::Tpacket,
            promiscuous: true,
            snaplen: SNAPLEN_WHOLE,
            format: Format::Pcap,
            output: Output::Stream { name: "memory".to_owned(), to: Box::new(frames.clone()) },
            ..Options::new(&device.link.name)
        };
        let session = Session::start(options).map_err(|error| error.to_string())?;
        Ok(Self { frames, session: Some(session) })
    }

    /// True until it is stopped.
    pub(super) fn is_running(&self) -> bool {
        self.session.is_some()
    }

    /// Stops it. The warnings name frames that were not kept.
    pub(super) fn stop(&mut self, port: &str) -> Vec<String> {
        let Some(session) = self.session.take() else { return Vec::new() };
        let report = session.stop();
        let mut warnings = Vec::new();
        let lost = report.stats.total().lost();
        if lost > 0 {
            warnings.push(format!("port {port}: the capture lost {lost} frames: its ring was full"));
        }
        let dropped = self.frames.lock().dropped;
        if dropped > 0 {
            let mebibytes = BYTES_MAX >> 20;
            warnings.push(format!(
                "port {port}: {dropped} frames did not fit into the {mebibytes} MiB of the capture"
            ));
        }
        warnings
    }

    /// The frames as a file; `slice` is the first frame and how many.
    ///
    /// # Errors
    /// Frames that do not fit into the format.
    pub(super) fn file(&self, slice: Option<(usize, usize)>) -> Result<Vec<u8>, String> {
        let kept = self.frames.lock();
        let (first, count) = slice.unwrap_or((0, usize::MAX));
        let frames = kept.frames.iter().skip(first).take(count);
        match kept.filter.format {
            CaptureFormat::Pcap => pcap_file(frames, kept.filter.packet_size),
            CaptureFormat::Pcapng => pcapng_file(frames, kept.filter.packet_size),
        }
        .map_err(|error| error.to_string())
    }
}

impl CapturedFrames {
    fn lock(&self) -> MutexGuard<'_, KeptFrames> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Write for CapturedFrames {
    /// Takes whole records; the first call begins with the header of the file.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut kept = self.lock();
        let mut records = bytes;
        if kept.header.is_empty() {
            let (header, rest) = bytes.split_at(PCAP_HEADER_LEN.min(bytes.len()));
            kept.header = header.to_vec();
            records = rest;
        }
        let header = kept.header.clone();
        let mut reader = pcap::Reader::new(header.chain(records)).map_err(io::Error::other)?;
        while let Some(record) = reader.next_record().map_err(io::Error::other)? {
            let fcs = packet::checksum::frame_check_sequence(record.data);
            kept.add(KeptFrame { time_ns: record.time_ns, bytes: [record.data, &fcs[..]].concat() });
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl KeptFrames {
    /// Keeps a frame that matches; the oldest frames make way for it, or it is dropped.
    fn add(&mut self, frame: KeptFrame) {
        if !self.filter.filter.iter().all(|condition| condition.matches(&frame.bytes)) {
            return;
        }
        while self.bytes + frame.bytes.len() > BYTES_MAX {
            let oldest = if self.filter.overwrite { self.frames.pop_front() } else { None };
            match oldest {
                Some(oldest) => self.bytes -= oldest.bytes.len(),
                None => {
                    self.dropped += 1;
                    return;
                }
            }
        }
        self.bytes += frame.bytes.len();
        self.frames.push_back(frame);
    }
}

/// The bytes that are kept of a frame.
fn cut(frame: &KeptFrame, packet_size: Option<usize>) -> &[u8] {
    match packet_size.filter(|size| *size > 0) {
        Some(size) => &frame.bytes[..size.min(frame.bytes.len())],
        None => &frame.bytes,
    }
}

fn pcap_file<'a>(
    frames: impl Iterator<Item = &'a KeptFrame>,
    packet_size: Option<usize>,
) -> Result<Vec<u8>, pcapng::WriteError> {
    // Clients read microseconds, and take the bits of the FCS for a part of the link type.
    let header = pcap::Header { precision: pcap::Precision::Microseconds, ..pcap::Header::default() };
    let mut writer = pcap::Writer::new(Vec::new(), &header)?;
    for frame in frames {
        let frame_len = frame.bytes.len() as u32;
        writer.record(&pcap::Record { time_ns: frame.time_ns, frame_len, data: cut(frame, packet_size) })?;
    }
    writer.finish()
}

fn pcapng_file<'a>(
    frames: impl Iterator<Item = &'a KeptFrame>,
    packet_size: Option<usize>,
) -> Result<Vec<u8>, pcapng::WriteError> {
    let mut writer = Writer::new(Vec::new(), &Section::default())?;
    let fcs_len = RawOption { code: IF_FCSLEN, value: vec![FCS_LEN as u8] };
    writer.add_interface(&Interface { other: vec![fcs_len], ..Interface::default() })?;
    for frame in frames {
        let frame_len = frame.bytes.len() as u32;
        let data = cut(frame, packet_size);
        writer.packet(&Packet { time_ns: frame.time_ns, frame_len, data, ..Packet::default() })?;
    }
    writer.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stopped capture that was given frames of these lengths; the bytes of frame i are i.
    fn capture(overwrite: bool, format: CaptureFormat, lens: &[usize]) -> PortCapture {
        let filter = CaptureConfig {
            name: "cap".to_owned(),
            ports: Vec::new(),
            filter: Vec::new(),
            overwrite,
            packet_size: Some(60),
            format,
        };
        let (frames, header) = (VecDeque::new(), Vec::new());
        let mut kept = KeptFrames { frames, bytes: 0, filter, dropped: 0, header };
        for (index, len) in lens.iter().enumerate() {
            kept.add(KeptFrame { time_ns: 1_000_000 * index as u64, bytes: vec![index as u8; *len] });
        }
        PortCapture { frames: CapturedFrames(Arc::new(Mutex::new(kept))), session: None }
    }

    #[test]
    fn a_full_capture_keeps_the_first_or_the_last_frames() {
        for (overwrite, expected, dropped) in [(true, [1, 2], 0), (false, [0, 1], 1)] {
            let capture = capture(overwrite, CaptureFormat::Pcap, &[BYTES_MAX / 2; 3]);
            let kept = capture.frames.lock();
            let first_bytes: Vec<u8> = kept.frames.iter().map(|frame| frame.bytes[0]).collect();
            assert_eq!((&first_bytes[..], kept.dropped), (&expected[..], dropped));
        }
    }

    #[test]
    fn files_have_the_frames_asked_for_cut_with_their_lengths() {
        let lens = [150, 50, 152, 153];
        let file = capture(true, CaptureFormat::Pcap, &lens).file(Some((1, 2))).unwrap();
        let mut reader = pcap::Reader::new(&file[..]).unwrap();
        let mut found = Vec::new();
        while let Some(record) = reader.next_record().unwrap() {
            found.push((record.time_ns, record.frame_len, record.data.to_vec()));
        }
        let expected = [(1_000_000, 50, vec![1; 50]), (2_000_000, 152, vec![2; 60])];
        assert_eq!(found, expected);
        let file = capture(true, CaptureFormat::Pcapng, &lens).file(Some((1, 2))).unwrap();
        let mut reader = pcapng::Reader::new(&file[..]);
        let mut found = Vec::new();
        while let Some(block) = reader.next_block().unwrap() {
            if let pcapng::Block::Packet(packet) = block {
                found.push((packet.time_ns, packet.frame_len, packet.data.to_vec()));
            }
        }
        assert_eq!(found, expected);
    }
}
