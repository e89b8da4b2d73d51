//! Reads the files, edits each packet, and writes it.

use super::args::Args;
use super::output::{Output, OutputRules};
use super::report::{RewriteEnd, RewriteReport};
use crate::edit_args::policies::{Checksums, Cut};
use crate::edit_args::report::EditReport;
use anyhow::anyhow;
use capture_files::playlist::{odd_notes, odd_of, open_records, record_of};
use capture_files::records::{FileRecords, Unkept};
use packet::MacAddr;
use program::outcome::Failure;
use program::shell::shell_word;
use program::stop::Stop;
use replay::{Edits, FieldEdit, FieldValue, FrameMaker, FrameSettings, StopCause, TargetKind};
use std::fs;
use std::os::unix::fs::MetadataExt;
use units::quantity_of;

/// Source of packets that get an Ethernet header.
const MAC_MADE_UP: MacAddr = MacAddr([0x02, 0, 0, 0, 0, 0x01]);

/// Edits the files.
///
/// # Errors
/// Bad usage, files that cannot be read, or an output that cannot be written.
pub(super) fn run(args: &Args, stop: &Stop) -> Result<RewriteReport, Failure> {
    let edits = args.edit.edits()?;
    // A file that is missing is reported before hours of work.
    let command = format!("rewrite -o {}", shell_word(&args.output));
    let mut first =
        args.files.first().map(|path| open_records(path, &command, stop.console())).transpose()?;
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
            None => open_records(path, &command, stop.console())?,
        };
        if !rewrite_file(&mut file, &mut output, &mut maker, &mut report, (args, stop))? {
            break;
        }
    }
    let fixes = args.edit.checksums == Checksums::Fix;
    report.edits = EditReport::new(maker.edit_counts(), maker.dont_fragment(), fixes);
    report.notes.extend(args.edit.notes(maker.edit_counts()));
    report.notes.extend(output.notes());
    report.notes.extend(unkept_notes(report.unkept));
    // The unfinished output is removed.
    let failed = |why: &str| Failure::failed(format!("write {}", report.output), anyhow!("{why}"));
    if let Some(cause) = &report.stopped_by {
        return Err(failed(&cause.to_string()).try_this(match cause {
            StopCause::NotEdited { .. } => "without --strict, to leave such packets as they are",
            StopCause::NotAnonymized { .. } => "files of Ethernet, IP, loopback or cooked frames",
            StopCause::Cut { .. } | StopCause::TooLong { .. } => {
                "--cut short or --long skip, to go on behind such packets"
            }
        }));
    }
    if let [why, ..] = &report.damages.places[..] {
        if args.strict {
            return Err(failed(why).try_this("without --strict, to write the packets that are whole"));
        }
        if is_in_place(args) {
            return Err(failed(why).try_this("another name with -o: the damaged file stays as it is"));
        }
    }
    if args.strict && report.unkept.long_blocks + report.unkept.swapped_blocks > 0 {
        let why = unkept_notes(report.unkept).join("; ");
        return Err(failed(&why).try_this("without --strict, to leave such blocks out"));
    }
    if report.end == RewriteEnd::Done || !output.is_removable {
        output.finish()?;
    }
    Ok(report)
}

/// True if the output takes the place of one of the files.
fn is_in_place(args: &Args) -> bool {
    let place = |path| fs::metadata(path).ok().map(|facts| (facts.dev(), facts.ino()));
    let output = place(&args.output);
    output.is_some() && args.files.iter().any(|file| place(file) == output)
}

/// Notes about what is not in a file that is made from others.
fn unkept_notes(unkept: Unkept) -> Vec<String> {
    let Unkept { long_blocks, swapped_blocks, has_finer_times } = unkept;
    let blocks = [
        (long_blocks, "of more than 16 MiB left out"),
        (swapped_blocks, "of unknown types in another byte order left out"),
    ];
    let blocks = blocks.into_iter().filter(|(count, _)| *count > 0);
    let blocks = blocks.map(|(count, why)| format!("{} {why}", quantity_of(count, "block")));
    let times = has_finer_times.then(|| "times finer than a nanosecond were rounded down".to_owned());
    blocks.chain(times).collect()
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
        let record = record_of(file, report.read, args.edit.fcs.into());
        match maker.make(&record) {
            Ok(Ok(made)) => {
                report.padded_cut += u64::from(made.is_padded_cut);
                output.frame(file, &made, false)?;
                report.written += 1;
            }
            Ok(Err(fate)) => report.fates.count(fate),
            Err(cause) => {
                report.stopped_by = Some(cause);
                goes_on = false;
            }
        }
        while goes_on && let Some(part) = maker.next_segment() {
            output.frame(file, &part, true)?;
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
    report.unkept.add(file.unkept());
    report.notes.extend(odd_notes(odd_of(file, args.edit.fcs.into())));
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
    let is_address = |edit: &FieldEdit| {
        use FieldValue::{Dst, DstMac, Src, SrcMac};
        matches!(edit.value, Dst(_) | Src(_) | DstMac(_) | SrcMac(_))
    };
    OutputRules {
        makes_ethernet,
        fcs: args.edit.fcs.into(),
        hides_addresses: edits.anonymize.is_some()
            || !edits.address_rules.is_empty()
            || !edits.mac_maps.is_empty()
            || edits.fields.iter().any(is_address),
        is_anonymous: edits.anonymize.is_some(),
        is_joined: args.files.len() > 1,
        makes_longer: makes_ethernet
            || !edits.tags.push.is_empty()
            || edits.tags.outer.vlan.is_some()
            || edits.tags.second.vlan.is_some()
            || args.cut == Cut::Pad,
    }
}
