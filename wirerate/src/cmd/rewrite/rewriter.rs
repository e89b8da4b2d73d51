//! Reads the files, edits each packet, and writes it.

use super::args::Args;
use super::output::{Output, OutputRules};
use super::report::{RewriteEnd, RewriteReport};
use crate::capture_files::playlist::{odd_notes, open_records, record_of};
use crate::capture_files::records::FileRecords;
use crate::edit_args::policies::{Checksums, Cut};
use crate::edit_args::report::EditReport;
use crate::outcome::Failure;
use crate::stop::Stop;
use anyhow::anyhow;
use packet::MacAddr;
use replay::{Edits, FrameMaker, FrameSettings, TargetKind};

/// Source of packets that get an Ethernet header.
const MAC_MADE_UP: MacAddr = MacAddr([0x02, 0, 0, 0, 0, 0x01]);

/// Edits the files.
///
/// # Errors
/// Bad usage, files that cannot be read, or an output that cannot be written.
pub(super) fn run(args: &Args, stop: &Stop) -> Result<RewriteReport, Failure> {
    let edits = args.edit.edits()?;
    // A file that is missing is reported before hours of work.
    let mut first = args.files.first().map(|path| open_records(path, "rewrite")).transpose()?;
    let mut output = Output::create(&args.output, rules(args, &edits))?;
    let mut maker = FrameMaker::new(settings(args, edits));
    let mut report = RewriteReport {
        files: args.files.iter().map(|path| path.display().to_string()).collect(),
        output: args.output.display().to_string(),
        ..RewriteReport::default()
    };
    for path in &args.files {
        let mut file = match first.take() {
            Some(file) => file,
            None => open_records(path, "rewrite")?,
        };
        if !rewrite_file(&mut file, &mut output, &mut maker, &mut report, (args, stop))? {
            break;
        }
    }
    let fixes = args.edit.checksums == Checksums::Fix;
    report.edits = EditReport::new(maker.edit_counts(), maker.dont_fragment(), fixes);
    report.notes.extend(args.edit.unused_notes(&maker.edit_counts().uses));
    if output.names_left_out > 0 {
        report.notes.push("names of addresses in the file were left out".to_owned());
    }
    // The unfinished output is removed.
    if let Some(why) = &report.stopped_by {
        let failure = Failure::failed(format!("write {}", report.output), anyhow!("{why}"));
        let is_strict = args.strict && report.edits.not_edited.total() > 0;
        return Err(if is_strict {
            failure.try_this("without --strict, to leave such packets as they are")
        } else {
            failure.try_this("--cut short or --long skip, to go on behind such packets")
        });
    }
    if let ([why, ..], true) = (&report.damages.places[..], args.strict) {
        let failure = Failure::failed(format!("write {}", report.output), anyhow!("{why}"));
        return Err(failure.try_this("without --strict, to write the packets that are whole"));
    }
    output.finish()?;
    Ok(report)
}

/// Edits a file; false if the run is over.
fn rewrite_file(
    file: &mut FileRecords,
    output: &mut Output,
    maker: &mut FrameMaker,
    report: &mut RewriteReport,
    (args, stop): (&Args, &Stop),
) -> Result<bool, Failure> {
    file.keep_blocks();
    output.begin_file(file)?;
    let mut goes_on = true;
    while goes_on && file.advance() {
        for block in file.take_blocks() {
            output.block(block)?;
        }
        report.read += 1;
        let record = record_of(file, report.read, args.edit.fcs);
        match maker.make(&record) {
            Ok(Ok(made)) => {
                report.padded_cut += u64::from(made.is_padded_cut);
                output.frame(file, &made)?;
                report.written += 1;
            }
            Ok(Err(fate)) => report.fates.count(fate),
            Err(cause) => {
                report.stopped_by = Some(cause.to_string());
                goes_on = false;
            }
        }
        while goes_on && let Some(part) = maker.next_segment() {
            output.frame(file, &part)?;
            report.written += 1;
            report.parts += 1;
        }
        if stop.is_set() {
            (report.end, goes_on) = (RewriteEnd::Stopped, false);
        }
    }
    for block in file.take_blocks() {
        output.block(block)?;
    }
    report.damages.merge(file.take_damages());
    report.notes.extend(odd_notes(file.odd_packets()));
    Ok(goes_on)
}

fn settings(args: &Args, edits: Edits) -> FrameSettings {
    FrameSettings {
        target: TargetKind::File,
        dst_mac: args.edit.new_dst_mac(),
        src_mac: args.edit.new_src_mac().unwrap_or(MAC_MADE_UP),
        mtu: args.mtu.unwrap_or(0),
        frame_len_max: u32::MAX,
        cut: args.cut.into(),
        long: args.long.unwrap_or_default().into(),
        edits,
        is_strict: args.strict,
        ..FrameSettings::default()
    }
}

fn rules(args: &Args, edits: &Edits) -> OutputRules {
    let makes_ethernet = args.edit.new_dst_mac().is_some();
    OutputRules {
        makes_ethernet,
        fcs: args.edit.fcs,
        hides_addresses: edits.anonymize.is_some() || !edits.address_rules.is_empty(),
        makes_longer: makes_ethernet
            || !edits.tags.push.is_empty()
            || edits.tags.outer.vlan.is_some()
            || edits.tags.second.vlan.is_some()
            || args.cut == Cut::Pad,
    }
}
