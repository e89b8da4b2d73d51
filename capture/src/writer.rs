//! The thread that writes: runs of all readers in, files out.
//!
//! Readers never wait for a disk as long as there are buffers. This thread puts runs into order, hands them to the
//! files, gives buffers back, and counts what is in a file and what is not.

use crate::assembly::{Assembly, Part, Stretch, Taker};
use crate::clock::utc_now_ns;
use crate::credit::Credit;
use crate::files::{Ended, Files};
use crate::format::Format;
use crate::merge::MergeReport;
use crate::reader::{Shared, keep_off};
use crate::run::{Lane, Run};
use crate::{Order, sys};
use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Time between two looks at rings that may have something older than what is at hand. While frames come, runs come more
/// often than this, and each is a reason to look.
const LOOK: Duration = Duration::from_millis(1);
/// Time between two looks at what is due by time alone; others see what was written after two of them.
const TICK: Duration = Duration::from_millis(100);

/// What is known of the writer while it runs.
#[derive(Debug, Default)]
pub(crate) struct Written {
    /// Bytes of all files.
    pub(crate) bytes: AtomicU64,
}

/// See the top of the file.
pub(crate) struct Writer {
    pub(crate) shared: Arc<Shared>,
    pub(crate) written: Arc<Written>,
    /// By number of the ring.
    pub(crate) lanes: Vec<Arc<Lane>>,
    pub(crate) runs: Receiver<Run>,
    pub(crate) format: Format,
    pub(crate) order: Order,
    /// One, or one for each ring.
    pub(crate) files: Vec<Files>,
}

/// How writing ended.
#[derive(Default)]
pub(crate) struct Outcome {
    /// One for each of the writer's files.
    pub(crate) files: Vec<Ended>,
    /// How well the order of time was kept; `None` when nobody asked for it.
    pub(crate) merge: Option<MergeReport>,
}

impl Writer {
    /// Writes until the last reader has ended.
    pub(crate) fn run(self) -> Outcome {
        // As readers do: what is slow here fills their rings.
        let _ = sys::run_before_others();
        let window_ns = match self.order {
            Order::Time { window_ns } => Some(window_ns),
            Order::AsTheyCome | Order::FilePerRing => None,
        };
        let Self { shared, written, lanes, runs, format, files, .. } = self;
        let place = Place::new(&lanes);
        let desk = Desk { shared, written, lanes, files, place, ticked: Instant::now() };
        match window_ns {
            Some(window_ns) => in_order_of_time(desk, &runs, format, window_ns),
            None => as_they_come(desk, &runs),
        }
    }
}

fn as_they_come(mut desk: Desk, runs: &Receiver<Run>) -> Outcome {
    loop {
        match runs.recv_timeout(TICK) {
            Ok(run) => {
                let parts = [Part { ring: run.ring, count: run.count }];
                let Run { first_ns, last_ns, .. } = run;
                desk.stretch(&Stretch { bytes: &run.bytes, first_ns, last_ns, parts: &parts });
                desk.spare(run.ring, run.bytes);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return desk.end(None),
        }
        desk.tick();
    }
}

fn in_order_of_time(mut desk: Desk, runs: &Receiver<Run>, format: Format, window_ns: u64) -> Outcome {
    let mut assembly = Assembly::new(format, desk.lanes.len(), window_ns);
    loop {
        let patience = if assembly.holds_any() { LOOK } else { TICK };
        match runs.recv_timeout(patience) {
            Ok(run) => assembly.push(run, &mut desk),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                assembly.end();
                assembly.advance(false, &mut desk);
                assembly.flush(&mut desk);
                return desk.end(Some(assembly.report()));
            }
        }
        while look_around(&mut assembly, &mut desk, runs) {}
        assembly.flush(&mut desk);
        desk.tick();
    }
}

/// Takes what came meanwhile, finds out which rings are empty, and hands on what is due; says whether anything was.
fn look_around(assembly: &mut Assembly, desk: &mut Desk, runs: &Receiver<Run>) -> bool {
    let empty: Vec<(usize, u64)> = match assembly.holds_any() {
        true => assembly.empty_rings().map(|ring| (ring, desk.empty_at_ns(ring))).collect(),
        false => Vec::new(),
    };
    // After the rings were looked at: what they held is here now.
    runs.try_iter().for_each(|run| assembly.push(run, desk));
    for (ring, checked_ns) in empty {
        assembly.was_empty(ring, checked_ns);
    }
    let has_moved = assembly.advance(false, desk);
    has_moved || (desk.is_pressed() && assembly.advance(true, desk))
}

/// What the writer works with.
struct Desk {
    shared: Arc<Shared>,
    written: Arc<Written>,
    lanes: Vec<Arc<Lane>>,
    files: Vec<Files>,
    place: Place,
    ticked: Instant,
}

impl Taker for Desk {
    fn stretch(&mut self, stretch: &Stretch<'_>) {
        // One for all, or one for each: the last one is the first one too.
        let file = stretch.parts[0].ring.min(self.files.len() - 1);
        let mut credit = Credit { lanes: &self.lanes, limit: &self.shared.limit };
        self.files[file].append(stretch, &mut credit);
        self.note();
    }

    fn spare(&mut self, ring: usize, buffer: Vec<u8>) {
        self.lanes[ring].pool.give_back(buffer);
    }
}

impl Desk {
    fn empty_at_ns(&self, ring: usize) -> u64 {
        self.lanes[ring].empty_at_ns(&self.shared.clock)
    }

    /// True when a reader is about to run out of buffers.
    fn is_pressed(&self) -> bool {
        self.lanes.iter().any(|lane| lane.pool.is_short())
    }

    /// Once everything that may be written has been handed out, what waits to be packed is what the end waits for.
    fn push_out_last(&mut self) {
        let limit = &self.shared.limit;
        if limit.is_spent() && !limit.is_reached() {
            let mut credit = Credit { lanes: &self.lanes, limit };
            self.files.iter_mut().for_each(|file| file.push_out(&mut credit));
            self.note();
        }
    }

    fn tick(&mut self) {
        self.push_out_last();
        if self.ticked.elapsed() < TICK {
            return;
        }
        self.ticked = Instant::now();
        let (mut credit, now_ns) = (Credit { lanes: &self.lanes, limit: &self.shared.limit }, utc_now_ns());
        for file in &mut self.files {
            file.tick(now_ns, &mut credit);
        }
        self.place.choose(&self.lanes);
        self.note();
    }

    fn note(&self) {
        self.written.bytes.store(self.files.iter().map(Files::len).sum(), Relaxed);
        if self.files.iter().any(Files::has_failed) {
            self.shared.has_failed.store(true, Relaxed);
        }
    }

    fn end(self, merge: Option<MergeReport>) -> Outcome {
        let mut credit = Credit { lanes: &self.lanes, limit: &self.shared.limit };
        let now_ns = utc_now_ns();
        let end = |file: Files| file.finish(now_ns, &mut credit);
        let files: Vec<Ended> = self.files.into_iter().map(end).collect();
        self.written.bytes.store(files.iter().map(|file| file.bytes).sum(), Relaxed);
        Outcome { files, merge }
    }
}

/// Where the writer runs: off the CPUs that receive much, where it would only get what softirqs leave over.
struct Place {
    allowed: Option<CpuSet>,
    /// What each ring had been taken from it when last looked.
    taken: Vec<u64>,
    busy: Vec<u32>,
}

impl Place {
    /// Frames of a ring within a tick that make its CPU a busy one: a hundred thousand a second.
    const BUSY: u64 = 10_000;

    fn new(lanes: &[Arc<Lane>]) -> Self {
        let allowed = sched_getaffinity(Pid::from_raw(0)).ok();
        Self { allowed, taken: vec![0; lanes.len()], busy: Vec::new() }
    }

    fn choose(&mut self, lanes: &[Arc<Lane>]) {
        let mut busy = Vec::new();
        for (lane, before) in lanes.iter().zip(&mut self.taken) {
            let taken = lane.progress.taken();
            if taken - *before > Self::BUSY {
                busy.extend(lane.cpu);
            }
            *before = taken;
        }
        if busy != self.busy {
            self.busy = busy;
            self.allowed.iter().for_each(|allowed| keep_off(*allowed, &self.busy));
        }
    }
}
