//! A data set, or some of its files, to one pcapng file.
//!
//! Files of one folder follow each other; packets of several folders are merged by time.

use super::args::Args;
use super::data_set::Stored;
use super::report::Report;
use anyhow::Context as _;
use capture::open;
use capture_files::damage::Damages;
use capture_files::input::is_stdin;
use capture_files::names::asks_for_other;
use capture_files::records::IF_FCSLEN;
use columns::{CapturedInterface, ColumnsError, PacketReader, StoredPacket};
use pcapng::{Interface, NoTime, Packet, PacketFlags, RawOption, Section, Writer};
use program::outcome::{Failure, Refused};
use program::shell::shell_word;
use program::stop::Stop;
use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Bytes that are written at once.
const WRITE_LEN: usize = 1 << 20;

pub(super) fn run(args: &Args, stop: &Stop) -> Result<Report, Failure> {
    let name = args.output.to_string_lossy();
    if asks_for_other(&name) {
        let to = shell_word(&args.output);
        return Err(Failure::usage(format!("write {name}"), "--to pcapng writes pcapng, not compressed")
            .try_this(format!("-o FILE.pcapng, then `wirerate rewrite FILE.pcapng -o {to}`")));
    }
    let mut folders = BTreeMap::new();
    for path in &args.files {
        let before: usize = folders.values().map(BTreeMap::len).sum();
        find(path, &mut folders).map_err(|why| Failure::read(path, why))?;
        if folders.values().map(BTreeMap::len).sum::<usize>() == before {
            let why = anyhow::anyhow!("there are no files part-TIME-N.parquet");
            return Err(Failure::refused(format!("read {}", path.display()), why).try_this(
                "the folder that `wirerate export -o` or `wirerate capture --format parquet` wrote",
            ));
        }
    }
    let mut merge = Merge { streams: Vec::new(), damages: Damages::default() };
    for files in folders.into_values() {
        let stream = PartStream::open(files.into_values().collect(), &mut merge.damages)?;
        merge.streams.push(stream);
    }
    let act = || format!("write {}", args.output.display());
    let output: Box<dyn Write> = match is_stdin(&args.output) {
        true => Box::new(io::stdout()),
        false => Box::new(open::create(&args.output).refused(act())?),
    };
    let (mut packets, mut failure) = (0, None);
    let mut writer = Writer::new(BufWriter::with_capacity(WRITE_LEN, output), &section()).refused(act())?;
    while !stop.is_set()
        && let Some((packet, interface)) = merge.next()
    {
        packets += 1;
        if failure.is_some() {
            continue;
        }
        let written = put(&mut writer, &mut merge, &packet, interface);
        failure = written.err().map(|why| why.context(args.output.display().to_string()));
    }
    let mut stored = Stored { packets, files: 1, bytes: writer.bytes_written() };
    if let Err(why) = writer.finish() {
        failure = failure.or(Some(anyhow::Error::from(why).context(args.output.display().to_string())));
    }
    if failure.is_some() {
        // How much of a file that could not be written is whole is unknown.
        stored.packets = 0;
    }
    if stop.is_set() {
        merge.damages.add("stopped", || "stopped before the end of the data set".to_owned());
    }
    let output = args.output.display().to_string();
    Ok(Report {
        to: args.to,
        output,
        packets,
        stored,
        lost: None,
        failure,
        advice: "free space or another -o, then export again",
        damages: merge.damages,
        notes: Vec::new(),
    })
}

/// By folder, then by the time and number in their names.
type Folders = BTreeMap<PathBuf, BTreeMap<(u64, u64), PathBuf>>;

/// The files of packets at or below a path.
fn find(path: &Path, folders: &mut Folders) -> io::Result<()> {
    if fs::metadata(path)?.is_dir() {
        return fs::read_dir(path)?.try_for_each(|entry| find(&entry?.path(), folders));
    }
    let name = path.file_name().and_then(|name| name.to_str());
    if let (Some(place), Some(folder)) = (name.and_then(columns::parse_part_name), path.parent()) {
        folders.entry(folder.to_owned()).or_default().insert(place, path.to_owned());
    }
    Ok(())
}

/// Writes a packet of an interface, which is described before its first packet.
fn put(
    writer: &mut Writer<impl Write>,
    merge: &mut Merge,
    packet: &StoredPacket,
    stream_number: usize,
) -> anyhow::Result<()> {
    let stream = &mut merge.streams[stream_number];
    let interface = match stream.numbers.get(&packet.interface) {
        Some(number) => *number,
        None => {
            for captured in &stream.interfaces {
                let number = writer.add_interface(&described(captured, captured.snaplen))?;
                stream.numbers.insert(captured.number, number);
            }
            let number = stream.numbers.get(&packet.interface);
            *number.with_context(|| format!("interface {} is not in the footer", packet.interface))?
        }
    };
    let mut to_write = Packet {
        interface,
        time_ns: packet.time_ns.unwrap_or(0),
        no_time: packet.time_ns.is_none().then_some(NoTime::NotRecorded),
        frame_len: packet.frame_len,
        data: packet.data(),
        queue: packet.queue,
        flags: packet.direction.map(|direction| PacketFlags(direction.into())),
        packet_id: packet.packet_id,
        comment: packet.comment(),
        ..Packet::default()
    };
    if to_write.no_time.is_some() && !writer.can_be_simple(&to_write) {
        to_write.interface = begin_section_for(writer, merge, packet, stream_number)?;
    }
    writer.packet(&to_write)?;
    Ok(())
}

/// Begins a section in which the packet is of interface 0 and cut to its snaplen: packets without a
/// time are.
fn begin_section_for(
    writer: &mut Writer<impl Write>,
    merge: &mut Merge,
    packet: &StoredPacket,
    stream: usize,
) -> anyhow::Result<u32> {
    writer.section(&section())?;
    merge.streams.iter_mut().for_each(|stream| stream.numbers.clear());
    let stream = &mut merge.streams[stream];
    let captured = stream.interfaces.iter().find(|interface| interface.number == packet.interface);
    let captured =
        captured.with_context(|| format!("interface {} is not in the footer", packet.interface))?;
    let is_cut = (packet.data().len() as u64) < u64::from(packet.frame_len);
    let snaplen = match captured.snaplen {
        _ if is_cut => packet.data().len() as u32,
        0 => 0,
        snaplen => snaplen.max(packet.frame_len),
    };
    let number = writer.add_interface(&described(captured, snaplen))?;
    stream.numbers.insert(packet.interface, number);
    Ok(number)
}

/// The description of an interface with this snaplen.
fn described(captured: &CapturedInterface, snaplen: u32) -> Interface {
    let fcs_len = RawOption { code: IF_FCSLEN, value: vec![captured.fcs_len] };
    Interface {
        link_type: captured.link_type,
        snaplen,
        name: captured.name.clone(),
        other: if captured.fcs_len > 0 { vec![fcs_len] } else { Vec::new() },
        ..Interface::default()
    }
}

fn section() -> Section {
    Section {
        application: Some(concat!("wirerate ", env!("CARGO_PKG_VERSION")).to_owned()),
        ..Section::default()
    }
}

/// The packets of all folders in order of time.
struct Merge {
    streams: Vec<PartStream>,
    damages: Damages,
}

impl Merge {
    /// The next packet, and the number of its stream.
    fn next(&mut self) -> Option<(StoredPacket, usize)> {
        let with_packet = (0..self.streams.len()).filter(|number| self.streams[*number].next.is_some());
        let earliest = with_packet.min_by_key(|number| self.streams[*number].order_ns)?;
        let packet = self.streams[earliest].advance(&mut self.damages)?;
        Some((packet, earliest))
    }
}

/// The packets of the files of one folder.
struct PartStream {
    files: VecDeque<PathBuf>,
    reader: Option<(PathBuf, PacketReader<File>)>,
    next: Option<StoredPacket>,
    /// Time of the next packet, or of the last one before it that has a time.
    order_ns: u64,
    /// Interfaces of the file that the packet at hand is from.
    interfaces: Vec<CapturedInterface>,
    /// Interfaces of the file that was opened for the packet after it.
    opened: Option<Vec<CapturedInterface>>,
    /// Numbers of the interfaces in the file that is written.
    numbers: BTreeMap<u32, u32>,
}

impl PartStream {
    fn open(files: VecDeque<PathBuf>, damages: &mut Damages) -> Result<Self, Failure> {
        let mut stream = Self {
            files,
            reader: None,
            next: None,
            order_ns: 0,
            interfaces: Vec::new(),
            opened: None,
            numbers: BTreeMap::new(),
        };
        // Files without bytes or with a damaged footer are refused before anything is written.
        for path in &stream.files {
            open_part(path).map_err(|why| {
                let advice = match why.downcast_ref() {
                    Some(ColumnsError::NoBytes) => "export the capture file without --no-bytes",
                    _ => "name the other files of the folder, to export those",
                };
                Failure::refused(format!("read {}", path.display()), why).try_this(advice)
            })?;
        }
        stream.advance(damages);
        Ok(stream)
    }

    /// The packet at hand; reads the one after it.
    fn advance(&mut self, damages: &mut Damages) -> Option<StoredPacket> {
        if let Some(opened) = self.opened.take()
            && opened != self.interfaces
        {
            self.interfaces = opened;
            self.numbers.clear();
        }
        let packet = self.next.take();
        while self.next.is_none() {
            let Some((path, reader)) = &mut self.reader else {
                if self.files.is_empty() {
                    break;
                }
                let path = self.files[0].clone();
                if let Err(why) = self.open_next() {
                    damages.add("rest_of_file", || format!("{}: {why:#}", path.display()));
                }
                continue;
            };
            match reader.next_packet() {
                Ok(Some(next)) => {
                    self.order_ns = next.time_ns.unwrap_or(self.order_ns);
                    self.next = Some(next);
                }
                Ok(None) => self.reader = None,
                Err(why) => {
                    let why = anyhow::Error::from(why);
                    damages.add("rest_of_file", || format!("{}: {why:#}", path.display()));
                    self.reader = None;
                }
            }
        }
        packet
    }

    fn open_next(&mut self) -> anyhow::Result<()> {
        let path = self.files.pop_front().context("there are no more files")?;
        let reader = open_part(&path)?;
        self.opened = Some(reader.interfaces().to_vec());
        self.reader = Some((path, reader));
        Ok(())
    }
}

/// Opens a file of packets and reads its footer.
fn open_part(path: &Path) -> anyhow::Result<PacketReader<File>> {
    Ok(PacketReader::new(File::open(path)?)?)
}
