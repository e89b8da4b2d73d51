//! One device instance: what it was told, how far its run has come, and the text of its last result.

use crate::scan::{Scan, until_nul};
use crate::set::{Given, Reply};
use crate::table::Act;
use crate::{COMMANDS, Facts, Fault, Place, Refused, RunTotals, Spec, interface_of};
use packet::{Config, Cursor, DeviceFacts, Plan, PlanError};
use std::ops::Range;

/// Bytes of a command word on device files.
const WORD_LEN_MAX: usize = 15;

/// What a result says for the fragments of the last frame when no frame is held.
pub const NO_FRAME: i32 = -1;

/// What a run has come to so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames handed over.
    pub sofar: u64,
    /// Frames that failed.
    pub errors: u64,
    /// When it was started, since boot.
    pub started_ns: u64,
    /// When it ended, since boot; meaningless during the run.
    pub stopped_ns: u64,
    /// Time spent waiting in it.
    pub idle_ns: u64,
}

/// One device instance, `DEV[@NAME]`.
#[derive(Clone, Debug)]
pub struct Device {
    name: String,
    /// What was asked for.
    pub config: Config,
    /// Where the next frame starts from.
    pub cursor: Cursor,
    /// The run that goes on, or the last one.
    pub counters: Counters,
    /// A run goes on.
    pub is_running: bool,
    /// The text behind `Result: `; empty before the first.
    pub result: Vec<u8>,
    /// The read-out names the engine (`show_engine`).
    pub show_engine: bool,
    /// The log switch as `debug` set it last.
    pub debug: u32,
}

impl Device {
    /// A device instance as `add_device` makes it.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            config: Config::default(),
            cursor: Cursor::default(),
            counters: Counters::default(),
            is_running: false,
            result: Vec::new(),
            show_engine: false,
            debug: 0,
        }
    }

    /// `DEV[@NAME]`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The interface it sends on.
    pub fn interface(&self) -> &str {
        interface_of(&self.name)
    }

    pub(crate) fn rename(&mut self, name: String) {
        self.name = name;
    }

    /// True when the last command or run was a success: scripts look for `Result: OK:`.
    pub fn is_ok(&self) -> bool {
        self.result.starts_with(b"OK:")
    }

    /// One `write(2)` to its file: reads one command, changes settings and cursor, stores the result text.
    /// Returns the number of bytes taken, which is always all.
    ///
    /// Many bad values are no error of the write: see [`Device::is_ok`].
    ///
    /// # Errors
    /// [`Refused`]. The settings are as before, except for `imix_weights` and `mpls`, which have been emptied.
    /// Only an unknown command and a bad address change the result text.
    pub fn write(&mut self, bytes: &[u8], facts: &Facts) -> Result<usize, Refused> {
        if bytes.is_empty() {
            return Err(Refused { fault: Fault::Empty, span: 0..0 });
        }
        let mut scan = Scan::new(bytes);
        scan.skip_separators();
        let start = scan.at();
        let word = until_nul(scan.word(WORD_LEN_MAX));
        let word_span = start..start + word.len();
        scan.skip_separators();
        let Some((spec, set)) = find(word, facts) else {
            return Err(self.no_such_parameter(word, word_span));
        };
        let value_start = scan.at();
        let (number, text) = spec.takes.read(&mut scan);
        let span = value_start..value_start + text.len();
        if self.is_running {
            self.cursor.write_back(&mut self.config);
        }
        let answer = set(self, &Given { word: spec.word, number, text, span, facts });
        self.cursor.follow(&self.config);
        if let Reply::Say(text) = answer? {
            self.result = text;
        }
        Ok(bytes.len())
    }

    fn no_such_parameter(&mut self, word: &[u8], span: Range<usize>) -> Refused {
        self.result = [b"No such parameter \"", word, b"\""].concat();
        let word = String::from_utf8_lossy(word).into_owned();
        Refused { fault: Fault::UnknownCommand { file: "device", word }, span }
    }

    /// Starts a run: default sizes, cursors to their beginning, counters to zero, and the plan to send by.
    /// A run that goes on starts anew. `fresh_seed` is for settings without a seed of their own.
    ///
    /// # Errors
    /// [`PlanError`] for settings that no frame can be made of; the result text says so, and nothing runs.
    pub fn start(&mut self, facts: &DeviceFacts, now_ns: u64, fresh_seed: u64) -> Result<Plan, PlanError> {
        self.config.prepare(facts);
        let started = self.cursor.start(&self.config, facts, fresh_seed);
        let plan = started.and_then(|()| Plan::new(&self.config, facts, &self.cursor));
        self.counters = Counters { started_ns: now_ns, stopped_ns: now_ns, ..Counters::default() };
        self.is_running = plan.is_ok();
        self.result = match &plan {
            Ok(_) => b"Starting".to_vec(),
            Err(error) => format!("ERROR: {error}").into_bytes(),
        };
        plan
    }

    /// Ends the run and stores its result; nothing happens when none goes on. `fragments` is what
    /// [`crate::fragments`] says of the last frame, [`NO_FRAME`] when none was built.
    pub fn stop(&mut self, now_ns: u64, fragments: i32) {
        if !self.is_running {
            return;
        }
        self.is_running = false;
        self.counters.stopped_ns = now_ns;
        self.cursor.write_back(&mut self.config);
        self.result = self.totals(fragments).text().into_bytes();
    }

    /// Ends the run because it cannot go on, and says why behind `ERROR: `.
    pub fn fail(&mut self, now_ns: u64, why: &str) {
        self.stop(now_ns, NO_FRAME);
        self.result = format!("ERROR: {why}").into_bytes();
    }

    /// What the run came to.
    pub fn totals(&self, fragments: i32) -> RunTotals {
        let counters = &self.counters;
        let mix = self.config.imix.iter().zip(&self.cursor.imix_counts);
        RunTotals {
            elapsed_ns: counters.stopped_ns.wrapping_sub(counters.started_ns),
            idle_ns: counters.idle_ns,
            sent: counters.sofar,
            errors: counters.errors,
            frame_size: self.cursor.frame_size,
            fragments,
            imix_bytes: (!self.config.imix.is_empty())
                .then(|| mix.map(|(entry, count)| u128::from(entry.size) * u128::from(*count)).sum()),
        }
    }
}

fn find(word: &[u8], facts: &Facts) -> Option<(&'static Spec, crate::set::Setter)> {
    let spec = COMMANDS.iter().find(|spec| spec.place == Place::Device && spec.is_called(word))?;
    match spec.act {
        Act::Device(set) if facts.has_xfrm || spec.word != "spi" => Some((spec, set)),
        _ => None,
    }
}
