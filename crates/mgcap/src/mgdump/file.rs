//! mgdump of a device file: a reader for each CPU, pcapng out of slots.

use super::merge::{MergeInput, write_in_order};
use super::output::{DumpCounts, PcapngFile, WriteFailed};
use super::slots::{DumpReader, DumpTarget, ReadersShared, open};
use super::{Args, DumpSummary, LOOK};
use crate::state_of;
use program::out::{self, OutError};
use program::outcome::{Failure, Refused};
use program::rx_stats::{Cpu, Ticker};
use program::stop::Stop;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};
use std::time::Instant;

/// Readers at work.
struct Readers {
    shared: Arc<ReadersShared>,
    counts: Vec<(u32, Arc<DumpCounts>)>,
    threads: Vec<JoinHandle<Result<(), WriteFailed>>>,
    files: Vec<PathBuf>,
}

pub(super) fn run(args: &Args, path: &Path, device: String, stop: &Stop) -> Result<DumpSummary, Failure> {
    let act = format!("read {}", path.display());
    let dir = path.parent().unwrap_or(Path::new("."));
    let lost_before = state_of(dir, &device).map_or(0, |state| state.lost);
    let mut readers = start(args, path, &device, stop, &act)?;
    let watched = watch(&readers, args, stop);
    readers.shared.stop.set();
    let mut failed = None;
    for thread in readers.threads.drain(..) {
        match thread.join() {
            Ok(ended) => failed = failed.or(ended.err()),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
    watched?;
    if let Some(failed) = failed {
        return Err(Failure::refused(act, failed));
    }
    let is_cut = readers.shared.is_cut.load(Relaxed);
    if is_cut {
        eprintln!("mgdump: {} ends inside of a slot, which is left out", path.display());
    }
    let lost_now = state_of(dir, &device).map_or(lost_before, |state| state.lost);
    Ok(DumpSummary {
        device,
        written: readers.counts.iter().map(|(_, counts)| counts.written.load(Relaxed)).sum(),
        lost: vec![("in the ring", Some(lost_now.saturating_sub(lost_before)))],
        files: readers.files,
        is_gone: false,
        is_cut,
    })
}

fn start(args: &Args, path: &Path, device: &str, stop: &Stop, act: &str) -> Result<Readers, Failure> {
    let shared =
        ReadersShared { frames_max: args.frames_max(), stop: stop.clone(), ..ReadersShared::default() };
    let cpus = host::CpuList::allowed().map_err(|why| Failure::host(act, why))?;
    let mut readers =
        Readers { shared: Arc::new(shared), counts: Vec::new(), threads: Vec::new(), files: Vec::new() };
    let file = (!args.per_cpu).then(|| PcapngFile::create(args.write.clone(), device)).transpose();
    let file = file.refused(act)?;
    readers.files.extend(file.iter().map(|_| args.write.clone()));
    let (to, reports) = channel();
    // A saved file gives every reader everything; the device files have no length.
    let is_saved = path.metadata().refused(act)?.len() > 0;
    let reader_count = if is_saved { 1 } else { cpus.len() };
    for (number, cpu) in cpus.iter().take(reader_count).enumerate() {
        let counts = Arc::<DumpCounts>::default();
        let to = if args.per_cpu {
            let name = super::name_for(args, cpu);
            readers.files.push(name.clone());
            DumpTarget::Own(PcapngFile::create(name, device).refused(act)?, Vec::new())
        } else {
            DumpTarget::Merged(MergeInput::new(number, to.clone()))
        };
        readers.counts.push((cpu, Arc::clone(&counts)));
        let device = open(path).refused(act)?;
        let reader = DumpReader { cpu, device, shared: Arc::clone(&readers.shared), counts, to };
        let thread = thread::Builder::new().name(format!("mgdump-{cpu}"));
        readers.threads.push(thread.spawn(move || reader.run()).refused(act)?);
        match is_saved {
            true => eprintln!("mgdump: reading {}", path.display()),
            false => eprintln!("mgdump: listening on {} from CPU {cpu}", path.display()),
        }
    }
    if let Some(mut file) = file {
        let counts: Vec<Arc<DumpCounts>> =
            readers.counts.iter().map(|(_, counts)| Arc::clone(counts)).collect();
        let write = move || write_in_order(&reports, &counts, &mut file, host::realtime_ns);
        // Ends with the last reader.
        drop(to);
        let thread = thread::Builder::new().name("mgdump-writer".to_owned());
        readers.threads.push(thread.spawn(write).refused(act)?);
    }
    Ok(readers)
}

/// Prints a line each second until it is time to end.
fn watch(readers: &Readers, args: &Args, stop: &Stop) -> Result<(), OutError> {
    let (mut ticker, started) = (Ticker::default(), Instant::now());
    loop {
        let elapsed = started.elapsed();
        if ticker.is_due(elapsed) {
            let counts = readers.counts.iter();
            let cpus = counts.map(|(cpu, counts)| Cpu { cpu: *cpu, received: counts.received.load(Relaxed) });
            out::text(&ticker.next(elapsed, 0, cpus.collect()).to_string())?;
        }
        let is_late = args.duration().is_some_and(|duration| elapsed >= duration);
        let is_over = readers.shared.is_over.load(Relaxed) || readers.shared.is_enough();
        let has_failed = readers.threads.iter().any(JoinHandle::is_finished);
        if stop.is_set() || is_late || is_over || has_failed {
            return Ok(());
        }
        thread::sleep(LOOK);
    }
}
