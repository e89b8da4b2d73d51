//! `wirerate replay --dry-run`: everything that a run decides, without a device.

use super::args::Args;
use super::player::Player;
use super::report::{ReplayEnd, ReplayReport};
use super::target;
use capture_files::flow_statistics::FlowStatistics;
use capture_files::frame_file::{FrameFile, FrameFileFacts};
use pcapng::pcap::Precision;
use program::outcome::Failure;
use program::stop::Stop;
use replay::OutputPort;

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
    let link_type = target::link_type_of(facts.kind);
    let devices = std::iter::once(&args.device).chain(&args.other);
    let devices: Vec<Option<&str>> = devices.map(|device| Some(device.as_str())).collect();
    let file_facts = FrameFileFacts {
        command: "replay --dry-run",
        devices: &devices,
        link_type,
        precision: Precision::Nanoseconds,
    };
    let file = args.write.as_deref().map(|path| FrameFile::create(path, &file_facts));
    let mut file = file.transpose()?;
    let mut report = ReplayReport {
        device: args.device.clone(),
        other: args.other.clone(),
        netns: args.netns.clone(),
        files: super::file_names(args),
        is_dry_run: true,
        notes,
        ..ReplayReport::default()
    };
    let mut flows = FlowStatistics::new(link_type);
    while let Some(next) = player.advance()? {
        if stop.is_set() {
            report.end = ReplayEnd::Stopped;
            report.fates.left_out.after_end = 1;
            break;
        }
        let frame = player.frame();
        if let Some(file) = &mut file {
            let time_ns = player.first_time_ns().saturating_add(next.due_ns);
            file.add(u32::from(next.port == OutputPort::Second), time_ns, frame)?;
        }
        if player.counts_flows() {
            flows.see(frame);
        }
        report.fates.sent += 1;
        report.sent_other += u64::from(next.port == OutputPort::Second);
        report.frame_bytes += frame.len() as u64;
        report.duration_ns = next.due_ns;
    }
    file.map_or(Ok(()), FrameFile::finish)?;
    Ok(report.with_files(player.finish()).with_flows(flows, !args.each_loop.is_empty()))
}
