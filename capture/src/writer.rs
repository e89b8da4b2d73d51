//! The thread that writes: runs of all readers in, files out.
//!
//! Readers never wait for a disk as long as there are buffers. This thread puts runs into order, hands them to the
//! files, gives buffers back, and counts what is in a file and what is not.

use crate::assembly::{Assembly, Stretch, Taker};
use crate::clock::utc_now_ns;
use crate::credit::Credit;
use crate::files::{Ended, Files};
use crate::format::Format;
use crate::merge::MergeReport;
use crate::options::WINDOW_NS_DEFAULT;
use crate::reader::{Shared, keep_off};
use crate::run::{Lane, Run};
use crate::{Order, sys};
use host::Capability;
use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Time between two looks at rings that may have something older than what is at hand. While frames come, runs come more
/// often than this, and each is a reason to look.
const LOOK: Duration = Duration::from_millis(1);
/// What the writer keeps of root's rights.
const KEPT: [Capability; 2] = [Capability::DacOverride, Capability::Fowner];
/// Time between two looks at what is due by time alone; others see what was written after two of them.
const TICK: Duration = Duration::from_millis(100);

/// What is later than now by so much was stamped before a clock was set back. Clocks of cards, and what is known of the time of
/// day, are not off by so much.
const AHEAD_NS_MAX: u64 = 10_000_000;

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
        // Files that follow may lie in folders of other users; nothing else needs a right.
        let _ = host::keep_capabilities(&KEPT);
        let window_ns = match self.order {
            Order::Time { window_ns } => Some(window_ns),
            Order::AsTheyCome | Order::FilePerRing => None,
        };
        let Self { shared, written, lanes, runs, format, files, .. } = self;
        let place = Place::new(&lanes);
        let margin_ns = window_ns.unwrap_or(WINDOW_NS_DEFAULT);
        let desk = Desk { shared, written, lanes, files, place, margin_ns, ticked: Instant::now() };
        match window_ns {
            Some(window_ns) => in_order_of_time(desk, &runs, format, window_ns),
            None => as_they_come(desk, &runs),
        }
    }
}

fn as_they_come(mut desk: Desk, runs: &Receiver<Run>) -> Outcome {
    loop {
        match runs.recv_timeout(TICK) {
            Ok(run) => desk.hand_on(run),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return desk.end(None),
        }
        desk.push_out_last();
        if desk.is_tick_due() {
            let empty_ns = desk.empty_ns();
            // After the rings were looked at: what they held is in the channel, if not further.
            let late = runs.try_recv().map(|run| desk.hand_on(run));
            desk.tick(late.is_err().then_some(empty_ns));
        }
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
        desk.push_out_last();
        if desk.is_tick_due() {
            let settled = all_handed_on(&mut assembly, &mut desk, runs);
            desk.tick(settled);
        }
    }
}

/// When each ring was empty, if everything that they had until then is in the files.
fn all_handed_on(assembly: &mut Assembly, desk: &mut Desk, runs: &Receiver<Run>) -> Option<Vec<u64>> {
    let empty_ns = desk.empty_ns();
    // After the rings were looked at: what they held is in the channel, if not further.
    runs.try_iter().take(1).for_each(|run| assembly.push(run, desk));
    (!assembly.holds_any()).then_some(empty_ns)
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
    if !assembly.holds_any() {
        return false;
    }
    let latest_ns = desk.shared.clock.now_ns() + AHEAD_NS_MAX;
    assembly.not_beyond(latest_ns);
    let has_moved = assembly.advance(false, desk);
    has_moved
        || assembly.let_go_beyond(latest_ns, desk)
        || (desk.is_pressed() && assembly.advance(true, desk))
}

/// What the writer works with.
struct Desk {
    shared: Arc<Shared>,
    written: Arc<Written>,
    lanes: Vec<Arc<Lane>>,
    files: Vec<Files>,
    place: Place,
    /// From the stamp of a frame until it can be seen in its ring, at most, in nanoseconds; beyond what the ring says.
    margin_ns: u64,
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

    /// The same for all rings.
    fn empty_ns(&self) -> Vec<u64> {
        (0..self.lanes.len()).map(|ring| self.empty_at_ns(ring)).collect()
    }

    /// Writes a run as it came.
    fn hand_on(&mut self, run: Run) {
        let Run { first_ns, last_ns, .. } = run;
        self.stretch(&Stretch { bytes: &run.bytes, first_ns, last_ns, parts: &run.parts });
        self.spare(run.ring, run.bytes);
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

    fn is_tick_due(&self) -> bool {
        self.ticked.elapsed() >= TICK
    }

    /// `empty_ns` says when each ring was empty, with everything from before in the files; `None` when records are on
    /// their way, which may belong to the files at hand whatever the clock says.
    fn tick(&mut self, empty_ns: Option<Vec<u64>>) {
        self.ticked = Instant::now();
        let mut credit = Credit { lanes: &self.lanes, limit: &self.shared.limit };
        let (empty_ns, is_one_for_all) = (empty_ns.unwrap_or_default(), self.files.len() == 1);
        for (number, file) in self.files.iter_mut().enumerate() {
            let of_file = if is_one_for_all { Some(&empty_ns[..]) } else { empty_ns.get(number..=number) };
            let empty_ns = of_file.and_then(|empty_ns| empty_ns.iter().min()).copied().unwrap_or(0);
            file.tick(empty_ns.saturating_sub(self.margin_ns), &mut credit);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::UtcClock;
    use crate::files::Plan;
    use crate::limit::Limit;
    use crate::part::Part;
    use crate::rotate::{Interval, RotatePolicy};
    use crate::{OnError, Output};
    use pcapng::{Interface, Packet, Section};
    use std::num::NonZeroU64;
    use std::path::{Path, PathBuf};
    use std::sync::atomic::AtomicBool;
    use std::sync::mpsc::channel;

    const S: u64 = 1_000_000_000;
    const MARGIN_NS: u64 = 100;

    /// A place for files, gone with the value.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("wirerate-writer-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        /// The files that are complete.
        fn names(&self) -> Vec<String> {
            let entries = std::fs::read_dir(&self.0).unwrap();
            let mut names: Vec<String> =
                entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            names.retain(|name| !name.ends_with(".part"));
            names.sort();
            names
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    /// A file for each full second, of two rings.
    fn desk(folder: &Path) -> Desk {
        let interval = Interval { length_ns: NonZeroU64::new(S).unwrap(), is_aligned: true };
        let plan = Plan {
            format: Format::Pcapng,
            header: Format::Pcapng.header(&Section::default(), &[Interface::default()]),
            closing: Arc::new(|_: &crate::share::Share| Vec::new()),
            closing_len_max: 0,
            interfaces_to_count: 0,
            rotate: RotatePolicy { interval: Some(interval), ..RotatePolicy::default() },
            utc_offset_s: 0,
            compression: None,
            on_error: OnError::default(),
            preallocate_bytes: 0,
            is_direct: false,
            is_ending: Arc::default(),
        };
        let files = Files::create(Output::File(folder.join("%s.pcapng")), Arc::new(plan), None, 0);
        let lanes = vec![Lane::for_test(), Lane::for_test()];
        let shared = Shared {
            clock: UtcClock::new(),
            limit: Limit::new(None),
            is_draining: Arc::default(),
            has_failed: AtomicBool::new(false),
        };
        Desk {
            shared: Arc::new(shared),
            written: Arc::default(),
            place: Place::new(&lanes),
            lanes,
            files: vec![files.unwrap().unwrap()],
            margin_ns: MARGIN_NS,
            ticked: Instant::now(),
        }
    }

    fn run(desk: &Desk, ring: usize, time_ns: u64) -> Run {
        let mut bytes = desk.lanes[ring].pool.take(Duration::ZERO).unwrap();
        Packet { time_ns, data: &[7; 60], ..Packet::default() }.emit(&mut bytes);
        let parts = vec![Part { ring, count: 1, ..Part::default() }];
        Run { ring, bytes, parts, first_ns: time_ns, last_ns: time_ns, is_in_order: true }
    }

    impl Desk {
        fn hand_on_one(&mut self, ring: usize, time_ns: u64) {
            let run = run(self, ring, time_ns);
            self.hand_on(run);
        }
    }

    #[test]
    fn a_file_of_an_interval_waits_for_records_of_it_that_are_still_in_a_ring() {
        let folder = Folder::new("interval");
        let mut desk = desk(&folder.0);
        desk.hand_on_one(0, 15 * S / 10);
        // By the clock the second is over, but one ring was last seen empty before its end.
        desk.lanes[0].progress.was_empty_at(9 * S);
        desk.lanes[1].progress.was_empty_at(2 * S + MARGIN_NS - 1);
        desk.tick(Some(desk.empty_ns()));
        assert!(folder.names().is_empty(), "{:?}", folder.names());
        desk.hand_on_one(1, 2 * S - 1);
        desk.lanes[1].progress.was_empty_at(2 * S + MARGIN_NS);
        desk.tick(None);
        assert!(folder.names().is_empty(), "records are on their way");
        desk.tick(Some(desk.empty_ns()));
        assert_eq!(folder.names(), ["1.pcapng"]);
        desk.hand_on_one(0, 2 * S);
        assert_eq!(desk.end(None).files[0].count, Some(2));
        assert_eq!(folder.names(), ["1.pcapng", "2.pcapng"], "and none that is named like another");
    }

    /// The time of day goes back by an hour while records of before wait for another ring.
    #[test]
    fn records_of_a_time_to_come_do_not_wait_for_it() {
        let folder = Folder::new("step");
        let mut desk = desk(&folder.0);
        let mut assembly = Assembly::new(Format::Pcapng, 2, MARGIN_NS);
        let (sender, runs) = channel();
        let now_ns = desk.shared.clock.now_ns();
        sender.send(run(&desk, 0, now_ns + 3_600 * S)).unwrap();
        sender.send(run(&desk, 1, now_ns - S)).unwrap();
        while look_around(&mut assembly, &mut desk, &runs) {}
        assembly.flush(&mut desk);
        assert_eq!([0, 1].map(|ring| desk.lanes[ring].counts.get().written), [1, 1]);
        assert_eq!(assembly.report().ahead, 1);
    }

    #[test]
    fn records_in_the_channel_or_waiting_for_their_turn_are_not_handed_on_yet() {
        let folder = Folder::new("channel");
        let mut desk = desk(&folder.0);
        let mut assembly = Assembly::new(Format::Pcapng, 2, MARGIN_NS);
        let (sender, runs) = channel();
        desk.lanes.iter().for_each(|lane| lane.progress.was_empty_at(5 * S));
        sender.send(run(&desk, 0, S)).unwrap();
        assert_eq!(all_handed_on(&mut assembly, &mut desk, &runs), None, "one is in the channel");
        assert_eq!(all_handed_on(&mut assembly, &mut desk, &runs), None, "it is in the assembly now");
        while look_around(&mut assembly, &mut desk, &runs) {}
        assembly.flush(&mut desk);
        assert_eq!(all_handed_on(&mut assembly, &mut desk, &runs), Some(vec![5 * S, 5 * S]));
        assert_eq!(desk.lanes[0].counts.get().written, 1);
    }
}
