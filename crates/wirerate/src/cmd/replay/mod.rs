//! `wirerate replay DEV FILE...`: sends the packets of capture files.

pub mod args;
pub mod control;
pub mod dry_run;
pub mod fields;
pub mod first_pass;
pub mod live;
pub mod loop_cache;
pub mod orders;
pub mod pause;
pub mod player;
pub mod receive_path;
pub mod report;
pub mod target;
pub mod tcpreplay;
pub mod verify;
pub mod watch;

pub use args::Args;

use program::outcome::{Failure, Outcome};
use program::row_printer::RowFormat;
use program::runs::Repeated;
use program::stop::Stop;
use std::path::Path;
use units::quantity_of;

/// Sends, or reports what would be sent.
///
/// # Errors
/// What could not be done, ready to be printed.
pub fn run(args: &Args, stop: &Stop) -> Result<Outcome, Failure> {
    refuse_reversed(args)?;
    if args.splits_by_file() && args.files.len() != 2 {
        let count = quantity_of(args.files.len() as u64, "file");
        return Err(Failure::usage(
            "use --split file",
            format!("{count} were named, not one for each device"),
        )
        .try_this("FILE1 FILE2 --other DEV2 --split file, or --split auto for one file"));
    }
    let Some(runs) = args.runs.filter(|runs| *runs > 1) else { return run_once(args, stop) };
    let repeated = Repeated { command: "replay", runs, json: args.json, quiet: args.quiet, stop };
    repeated.run(|| run_once(args, stop))
}

fn run_once(args: &Args, stop: &Stop) -> Result<Outcome, Failure> {
    let report = if args.dry_run { dry_run::run(args, stop)? } else { live::run(args, stop)? };
    stop.console().report(RowFormat::of(args.json, args.csv), &report.json_line(), &report)?;
    Ok(if report.is_good() { Outcome::Done } else { Outcome::No })
}

/// `replay FILE DEV`: the device comes first.
fn refuse_reversed(args: &Args) -> Result<(), Failure> {
    if !Path::new(&args.device).is_file() {
        return Ok(());
    }
    let Some(device) = args.files.iter().find(|name| !name.exists() && name.as_os_str() != "-") else {
        return Ok(());
    };
    let files = file_names(args).into_iter().filter(|name| Path::new(name) != device);
    let files = [args.device.clone()].into_iter().chain(files).collect::<Vec<_>>().join(" ");
    let netns = args.netns.iter().map(|netns| format!(" --netns {netns}")).collect::<String>();
    Err(Failure::usage(format!("replay on {}", args.device), "it is a file: the device comes first")
        .try_this(format!("wirerate replay {} {files}{netns}", device.display())))
}

/// The files as the user named them.
fn file_names(args: &Args) -> Vec<String> {
    args.files.iter().map(|path| path.display().to_string()).collect()
}
