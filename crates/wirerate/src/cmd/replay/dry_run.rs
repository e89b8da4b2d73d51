//! `wirerate replay --dry-run`: everything that a run decides, without a device.

use super::args::Args;
use super::player::Player;
use super::report::{ReplayEnd, ReplayReport};
use super::target::{self, TargetFacts};
use crate::capture_files::flow_statistics::FlowStatistics;
use crate::outcome::{Failure, Refused};
use crate::stop::Stop;
use capture::open;
use replay::OutputPort;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

/// Goes through the files and writes the frames, if a file for them is given.
///
/// # Errors
/// Bad usage for a run without an end; refused when a file cannot be opened or written.
pub fn run(args: &Args, stop: &Stop) -> Result<ReplayReport, Failure> {
    if args.loops == 0 && args.count.is_none() && args.duration.is_none() {
        return Err(Failure::usage("dry-run loops without an end", "it would not end")
            .try_this("--loop 1, --count N or --duration TIME"));
    }
    let (facts, notes) = target::for_show(args)?;
    let mut player = Player::new(args, &facts, stop)?;
    let mut file = args.write.as_deref().map(|path| ReplayFile::create(path, args, &facts)).transpose()?;
    let mut report = ReplayReport {
        device: args.device.clone(),
        other: args.other.clone(),
        netns: args.netns.clone(),
        files: super::file_names(args),
        is_dry_run: true,
        notes,
        ..ReplayReport::default()
    };
    let mut flows = FlowStatistics::new(target::link_type_of(facts.kind));
    while let Some(next) = player.advance()? {
        if stop.is_set() {
            report.end = ReplayEnd::Stopped;
            report.fates.after_end = 1;
            break;
        }
        let frame = player.frame();
        if let Some(file) = &mut file {
            file.add(next.port, player.first_time_ns().saturating_add(next.due_ns), frame)?;
        }
        if player.counts_flows() {
            flows.see(frame);
        }
        report.fates.sent += 1;
        report.sent_other += u64::from(next.port == OutputPort::Second);
        report.frame_bytes += frame.len() as u64;
        report.duration_ns = next.due_ns;
    }
    file.map_or(Ok(()), ReplayFile::finish)?;
    Ok(report.with_files(player.finish()).with_flows(flows, !args.each_loop.is_empty()))
}

/// A pcapng file with one interface for each device.
struct ReplayFile<'a> {
    path: &'a Path,
    writer: pcapng::Writer<BufWriter<File>>,
}

impl<'a> ReplayFile<'a> {
    fn create(path: &'a Path, args: &Args, facts: &TargetFacts) -> Result<Self, Failure> {
        let act = || format!("write {}", path.display());
        let out = BufWriter::new(open::create(path).refused(act())?);
        let application =
            Some(concat!("wirerate ", env!("CARGO_PKG_VERSION"), " replay --dry-run").to_owned());
        let section = pcapng::Section { application, ..pcapng::Section::default() };
        let mut writer = pcapng::Writer::new(out, &section).refused(act())?;
        for name in std::iter::once(&args.device).chain(&args.other) {
            let link_type = target::link_type_of(facts.kind);
            let interface =
                pcapng::Interface { name: Some(name.clone()), link_type, ..pcapng::Interface::default() };
            writer.add_interface(&interface).refused(act())?;
        }
        Ok(Self { path, writer })
    }

    fn add(&mut self, port: OutputPort, time_ns: u64, frame: &[u8]) -> Result<(), Failure> {
        let packet = pcapng::Packet {
            interface: u32::from(port == OutputPort::Second),
            time_ns,
            frame_len: frame.len() as u32,
            data: frame,
            flags: Some(pcapng::PacketFlags::OUTBOUND),
            ..pcapng::Packet::default()
        };
        self.writer.packet(&packet).refused(format!("write {}", self.path.display()))
    }

    fn finish(self) -> Result<(), Failure> {
        self.writer.finish().refused(format!("write {}", self.path.display()))?;
        Ok(())
    }
}
