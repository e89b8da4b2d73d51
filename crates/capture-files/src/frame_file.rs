//! A file of frames that were not captured: those of dry runs and of `trafgen`. Its name says
//! format and compression, as for `rewrite`.

use super::names::format_of;
use super::output_bytes::{Compressor, OutputBytes};
use capture::Format;
use pcapng::{Interface, Packet, PacketFlags, Section, Writer, pcap};
use program::outcome::{Failure, Refused};
use std::path::Path;

/// What a file says of its frames.
#[derive(Clone, Copy, Debug)]
pub struct FrameFileFacts<'a> {
    /// The command that writes it; pcapng files name it.
    pub command: &'a str,
    /// Names of the devices that frames would leave by, each an interface of a pcapng file.
    pub devices: &'a [Option<&'a str>],
    /// Link type of the frames.
    pub link_type: u16,
    /// Precision of times in a pcap file; pcapng files have nanoseconds.
    pub precision: pcap::Precision,
}

/// A pcap or pcapng file, plain or compressed. It has its name once it is finished.
pub struct FrameFile<'a> {
    path: &'a Path,
    writer: FrameWriter,
}

enum FrameWriter {
    Pcap(pcap::Writer<OutputBytes>),
    Pcapng(Box<Writer<OutputBytes>>),
}

impl<'a> FrameFile<'a> {
    /// Creates the file.
    ///
    /// # Errors
    /// Bad usage for the frames of several devices in a pcap file; refused when it cannot be
    /// created.
    pub fn create(path: &'a Path, facts: &FrameFileFacts<'_>) -> Result<Self, Failure> {
        let FrameFileFacts { command, devices, link_type, precision } = *facts;
        let act = || format!("write {}", path.display());
        let name = path.to_string_lossy();
        let format = format_of(&name);
        if format == Format::Pcap && devices.len() > 1 {
            let why = "a pcap file has no place for the device of a frame, and there are several";
            return Err(Failure::usage(act(), why)
                .try_this("--write FILE.pcapng, which names the device of each frame"));
        }
        let bytes = OutputBytes::create(Some(path), Compressor::of_name(&name)).refused(act())?;
        let writer = if format == Format::Pcap {
            let header = pcap::Header { link_type, precision, ..pcap::Header::default() };
            FrameWriter::Pcap(pcap::Writer::new(bytes, &header).refused(act())?)
        } else {
            let application = Some(format!("wirerate {} {command}", env!("CARGO_PKG_VERSION")));
            let section = Section { application, ..Section::default() };
            let mut writer = Writer::new(bytes, &section).refused(act())?;
            for device in devices {
                let name = device.map(str::to_owned);
                let interface = Interface { name, link_type, ..Interface::default() };
                writer.add_interface(&interface).refused(act())?;
            }
            FrameWriter::Pcapng(Box::new(writer))
        };
        Ok(Self { path, writer })
    }

    /// Adds a frame that would leave by the device with this place in the list.
    ///
    /// # Errors
    /// Refused when it cannot be written; pcap has times up to 2106.
    pub fn add(&mut self, device: u32, time_ns: u64, frame: &[u8]) -> Result<(), Failure> {
        let frame_len = frame.len() as u32;
        let written = match &mut self.writer {
            FrameWriter::Pcap(writer) => writer.record(&pcap::Record { time_ns, frame_len, data: frame }),
            FrameWriter::Pcapng(writer) => writer.packet(&Packet {
                interface: device,
                time_ns,
                frame_len,
                data: frame,
                flags: Some(PacketFlags::OUTBOUND),
                ..Packet::default()
            }),
        };
        written.refused(format!("write {}", self.path.display()))
    }

    /// Completes the file.
    ///
    /// # Errors
    /// Refused when it cannot be written.
    pub fn finish(self) -> Result<(), Failure> {
        let act = format!("write {}", self.path.display());
        let bytes = match self.writer {
            FrameWriter::Pcap(writer) => writer.finish().refused(&act)?,
            FrameWriter::Pcapng(writer) => writer.finish().refused(&act)?,
        };
        bytes.finish().refused(act)
    }
}
