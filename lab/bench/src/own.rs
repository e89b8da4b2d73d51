//! `wirerate-bench own`: measures wirerate alone, on the user's hardware.

use crate::capture::Loads;
use crate::measure::{self, BenchCase, BenchOptions};
use crate::programs::Programs;
use crate::stop::StopFlag;
use crate::table::BenchSize;
use crate::testbed::{DeviceAt, LinkEnds};
use anyhow::{Context, Result};
use clap::builder::{EnumValueParser, TypedValueParser};
use std::path::PathBuf;

/// Arguments of `wirerate-bench own`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Measure only this
    #[arg(long, value_parser = EnumValueParser::<BenchCase>::new().try_map(without_peers))]
    only: Option<BenchCase>,
    /// More rounds, longer, every engine: up to three quarters of an hour instead of five minutes
    #[arg(long)]
    full: bool,
    /// Seconds: shows that it works, and nothing else
    #[arg(long, hide = true, conflicts_with = "full")]
    tiny: bool,
    /// The device that sends, DEV or DEV@NETNS; without it a veth pair is made
    #[arg(long, value_name = "DEV", requires = "rx")]
    tx: Option<DeviceAt>,
    /// The device that receives, at the other end of the wire. Frames end there: its host sees none
    /// of them
    #[arg(long, value_name = "DEV", requires = "tx")]
    rx: Option<DeviceAt>,
    /// Folder for the rows (JSON lines)
    #[arg(long, value_name = "DIR", default_value = "wirerate-bench")]
    rows: PathBuf,
}

/// Refuses what takes other programs, or files of its own.
fn without_peers(case: BenchCase) -> Result<BenchCase, &'static str> {
    use BenchCase::{Export, ReadFiles, ReplayFile, Throughput};
    match case {
        ReplayFile | Export | ReadFiles | Throughput => Err("`make bench` alone measures this"),
        case => Ok(case),
    }
}

/// Measures the program `wirerate` on `args`' devices and prints what came of it. True if all was
/// as it should be.
///
/// # Errors
/// What the host refused, and [`Stopped`](crate::stop::Stopped) after a signal.
pub(crate) fn run(args: &Args, wirerate: PathBuf) -> Result<bool> {
    let own = std::env::current_exe().context("cannot find this program")?;
    let size = match (args.tiny, args.full) {
        (true, _) => BenchSize::Tiny,
        (_, true) => BenchSize::Full,
        _ => BenchSize::Quick,
    };
    let options = BenchOptions {
        size,
        only: args.only,
        out: args.rows.clone(),
        programs: Programs { own, wirerate, against: None, only: Vec::new(), has_peers: false },
        loads: Loads::default(),
        wire: args.tx.clone().zip(args.rx.clone()).map(|(tx, rx)| LinkEnds { tx, rx }),
    };
    Ok(measure::measure(&options, StopFlag::on_signals()?)?.is_good())
}
