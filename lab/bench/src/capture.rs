//! Captures: the highest offered rate at which every received frame is in the output.
//!
//! The receiver's counter gives the received frames. The size of the output gives the written
//! frames: the length of the file, or for /dev/null the bytes that the kernel counted as written,
//! divided by the length of a record. That length is measured on a file before.

use crate::capturers::{CAPTURERS, Capturer, Flood, Take, WHOLE, cut_program, paced};
use crate::process::Tool;
use crate::programs::ToolProgram;
use crate::records::{self, RecordShape};
use crate::report::{ResultRow, mpps};
use crate::rig::Rig;
use crate::samples::{CounterSample, steady_pps, whole_pps};
use crate::schedule::{Rounds, Turn};
use crate::search::{Search, Trial};
use crate::settings::BenchSettings;
use crate::stats::Estimate;
use crate::testbed::Testbed;
use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Bytes kept of each frame: mgcap's 96, and whole frames, the default of wirerate and tcpdump.
const SNAPLENS: [u32; 2] = [96, WHOLE];
/// The rate of a proof, which everybody can follow.
const PROOF_PPS: f64 = 50_000.0;
/// Tries of a tool to capture all frames of the proof.
const PROOF_TRIES: usize = 5;
/// How long the generator may take to end after its time.
const TIMEOUT: Duration = Duration::from_secs(60);
/// How often a rate is tried as long as no frame arrives.
const TRIES_MAX: usize = 5;
const SAMPLE_EVERY: Duration = Duration::from_millis(5);
/// Upwards in a search that knows nothing, and in one that knows where to look.
const GROWTH_FAR: f64 = 2.0;
const GROWTH_NEAR: f64 = 1.2;
/// Where a search begins that knows where to look, as a part of what was found before.
const BEGIN_NEAR: f64 = 0.85;
/// Where the first search into a file begins, as a part of what was found for /dev/null.
const BEGIN_FILE: f64 = 0.5;

/// The capture that does the same work as the peers.
const MIRROR: &str = "wirerate-mirror";
/// Rates at which losses are counted, as multiples of the highest rate without loss.
const LOSS_FACTORS: [f64; 2] = [1.5, 2.0];

/// What is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Load {
    /// Without FCS.
    pub(crate) frame_len: usize,
    /// Receive queues in use. With one, sender and receive path share a CPU and the capture has
    /// another; with two they are on two CPUs, and the capture has what they leave of both.
    pub(crate) queues: u32,
    /// Bytes kept of each frame.
    pub(crate) snaplen: u32,
}

/// Loads that are measured: each frame length with each number of queues and each snaplen.
#[derive(Clone, Debug)]
pub(crate) struct Loads {
    /// Without FCS.
    pub(crate) frame_lens: Vec<usize>,
    /// Receive queues in use, 1 or 2.
    pub(crate) queues: Vec<u32>,
    /// Bytes kept of each frame.
    pub(crate) snaplens: Vec<u32>,
}

impl Default for Loads {
    fn default() -> Self {
        Self { frame_lens: vec![60, 128, 1514], queues: vec![1], snaplens: SNAPLENS.into() }
    }
}

/// Where frames go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum CaptureOutput {
    Null,
    File,
}

impl CaptureOutput {
    /// Both.
    pub(crate) const ALL: [Self; 2] = [Self::Null, Self::File];

    /// For people, as the end of a sentence.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Null => "into /dev/null",
            Self::File => "into a file in memory",
        }
    }

    fn path(self, bed: &Testbed) -> PathBuf {
        match self {
            Self::Null => "/dev/null".into(),
            Self::File => bed.file("frames"),
        }
    }
}

/// A tool that is installed and has shown that it captures.
struct ProvenTool {
    tool: &'static Capturer,
    program: PathBuf,
    shape: RecordShape,
}

/// What all trials have in common.
struct Trials<'a> {
    rig: Rig<'a>,
    sender: PathBuf,
    settings: &'a BenchSettings,
    load: Load,
    /// Name of the rows, without the output.
    case: String,
    /// The best rate so far by output and tool, where the next search begins.
    known_pps: HashMap<(CaptureOutput, &'static str), f64>,
}

/// What all rounds found.
struct Best {
    /// Highest rate without loss, in frames per second.
    rates: Rounds,
    /// For each contender the number of rounds in which no more could be offered.
    limited: Vec<usize>,
}

/// One trial, as it is noted.
#[derive(Debug, Serialize)]
struct TrialRow<'a> {
    case: &'a str,
    part: &'a str,
    round: usize,
    tool: &'a str,
    frame_len: usize,
    queues: u32,
    asked_pps: f64,
    arrived_pps: f64,
    arrived: u64,
    kept: u64,
    lost: u64,
    cpu_ns_per_frame: f64,
}

#[derive(Debug, Serialize)]
struct LimitRow<'a> {
    case: &'a str,
    part: &'a str,
    round: usize,
    tool: &'a str,
    lossless_pps: f64,
    at_limit: bool,
}

#[derive(Debug, Serialize)]
struct CaptureProof<'a> {
    case: &'a str,
    tool: &'a str,
    asked: u64,
    received: u64,
    kept: u64,
    record_bytes: u64,
}

#[derive(Debug, Serialize)]
struct CaptureLoss<'a> {
    case: &'a str,
    tool: &'a str,
    factor: f64,
    asked_pps: f64,
    arrived_pps: f64,
    arrived: u64,
    kept: u64,
    lost: u64,
    /// `null` for a tool that says nothing.
    told_lost: Option<u64>,
    is_true: bool,
}

/// Measures all installed tools with all loads.
pub(crate) fn run(rig: Rig<'_>, loads: &Loads, settings: &BenchSettings) -> Result<()> {
    let Rig { bed, report, .. } = rig;
    report.say(&format!(
        "\ncapture: whole frames or {} bytes kept of each, sender and receive path on CPU {}, capture on CPU {}; \
         highest rate without loss in trials of {} ms, {} rounds",
        SNAPLENS[0],
        bed.generator_cpu,
        bed.capture_cpu,
        settings.trial.as_millis(),
        settings.capture_rounds
    ))?;
    let has_one_cpu = bed.capture_cpu == bed.generator_cpu;
    if has_one_cpu {
        report.warn("there is only one CPU: captures share it with the generator, and use one queue")?;
    }
    let mut is_first = true;
    for &queues in loads.queues.iter().filter(|queues| **queues == 1 || !has_one_cpu) {
        let each = |frame_len| loads.snaplens.iter().map(move |&snaplen| (frame_len, snaplen));
        for (frame_len, snaplen) in loads.frame_lens.iter().copied().flat_map(each) {
            let load = Load { frame_len, queues, snaplen };
            let mut trials = Trials::new(rig, settings, load)?;
            let tools = trials.tools()?;
            let all: Vec<&ProvenTool> = tools.iter().collect();
            if std::mem::take(&mut is_first) {
                trials.noise(all[0])?;
            }
            for output in CaptureOutput::ALL {
                trials.compare(output, &all)?;
            }
            // What a tool says of its losses does not depend on the bytes that it keeps.
            if snaplen == loads.snaplens[0] {
                trials.losses(&all)?;
            }
        }
    }
    Ok(())
}

fn cut_file(bed: &Testbed) -> PathBuf {
    bed.file("cut")
}

impl<'a> Trials<'a> {
    /// For one load.
    fn new(rig: Rig<'a>, settings: &'a BenchSettings, load: Load) -> Result<Self> {
        let sender = rig.programs.find(ToolProgram::Wirerate).context("there is no wirerate")?;
        fs::write(cut_file(rig.bed), cut_program(load.snaplen)).context("cannot write a filter")?;
        let case = match load {
            Load { frame_len: 128, queues: 1, .. } => "capture".to_owned(),
            Load { frame_len, queues, .. } => format!("capture, {frame_len} bytes, queues: {queues},"),
        };
        let case = match load.snaplen {
            WHOLE => format!("{} of whole frames", case.trim_end_matches(',')),
            _ => case,
        };
        Ok(Self { rig, sender, settings, load, case, known_pps: HashMap::new() })
    }

    /// Name of the rows.
    fn case(&self, output: CaptureOutput) -> String {
        format!("{} {}", self.case, output.title())
    }

    /// Those that are installed and asked for, after each has shown that it captures.
    fn tools(&self) -> Result<Vec<ProvenTool>> {
        let Rig { programs, report, .. } = self.rig;
        let mut found = Vec::new();
        // Who is named takes part in any size.
        let is_in = |tool: &&Capturer| {
            let in_size = tool.in_quick || self.settings.all_captures || !programs.only.is_empty();
            in_size && programs.wants(tool.name, tool.program)
        };
        for tool in CAPTURERS.iter().filter(is_in) {
            match programs.find(tool.program) {
                Some(program) => found.push(self.prove(tool, program)?),
                None => report.warn(&format!("{} is not installed, so it is left out", tool.title))?,
            }
        }
        Ok(found)
    }

    fn start(&self, tool: &Capturer, program: &Path, file: &Path) -> Result<Tool> {
        let end = self.rig.bed.rx();
        let cpu = (self.load.queues == 1).then_some(self.rig.bed.capture_cpu);
        let cut = &cut_file(self.rig.bed);
        let take = Take { end, cpu, snaplen: self.load.snaplen, file, cut };
        let started = Tool::start_on(program, &(tool.words)(&take), end.netns(), cpu)?;
        started.until_it_says(tool.ready, &self.rig.bed.stop)?;
        Ok(started)
    }

    /// Offers frames until the count or the time is over; readings of the receiver's counter
    /// meanwhile.
    fn offer(&self, count: u64, rate_pps: f64, time: Option<Duration>) -> Result<Vec<CounterSample>> {
        let (end, cpu) = (self.rig.bed.tx(), self.rig.bed.generator_cpu);
        // The capture's CPU is the second one of the sender, when two queues are wanted.
        let other_cpu = if self.load.queues == 1 { cpu } else { self.rig.bed.capture_cpu };
        let flood = Flood { end, cpu, other_cpu, frame_len: self.load.frame_len, count };
        let mut samples = vec![self.rig.bed.settled()?];
        let pin = (other_cpu == cpu).then_some(cpu);
        let sender = Tool::start_on(&self.sender, &paced(&flood, rate_pps, time), end.netns(), pin)?;
        while !sender.has_ended()? {
            self.rig.bed.stop.sleep(SAMPLE_EVERY)?;
            samples.push(self.rig.bed.sample()?);
        }
        let ended = sender.wait(TIMEOUT, &self.rig.bed.stop)?;
        ensure!(ended.is_good(), "the generator ended with {}: {}", ended.status, ended.said.trim());
        samples.push(self.rig.bed.settled()?);
        Ok(samples)
    }

    /// Lets a tool capture a number of frames into a file, reads the file, and learns the length of
    /// a record. On a machine with other work a tool may lose some of them, so it has several
    /// tries.
    fn prove(&self, tool: &'static Capturer, program: PathBuf) -> Result<ProvenTool> {
        for _ in 1..PROOF_TRIES {
            if let Some(proven) = self.try_to_prove(tool, program.clone(), false)? {
                return Ok(proven);
            }
        }
        let proven = self.try_to_prove(tool, program, true)?;
        proven.with_context(|| format!("{} captured nothing", tool.name))
    }

    /// One try; `None` if frames were lost and it is not the last one.
    fn try_to_prove(
        &self,
        tool: &'static Capturer,
        program: PathBuf,
        is_last: bool,
    ) -> Result<Option<ProvenTool>> {
        let asked = self.settings.proof_frames;
        let file = CaptureOutput::File.path(self.rig.bed);
        let capture = self.start(tool, &program, &file)?;
        let samples = self.offer(asked, PROOF_PPS, None)?;
        self.rig.bed.stop.sleep(tool.drain)?;
        let ended = capture.stop(&self.rig.bed.stop)?;
        let name = tool.name;
        let shape = records::learn(&file, asked);
        let received = received(&samples);
        let kept = shape.as_ref().map_or(0, |shape| shape.records(ended.file_bytes));
        if (received, kept) != (asked, asked) && !is_last {
            fs::remove_file(&file).context("cannot remove a file of our own")?;
            return Ok(None);
        }
        let shape =
            shape.with_context(|| format!("{name} did not capture {asked} frames: {}", ended.said))?;
        let record_bytes = shape.record_bytes;
        self.rig.report.row(
            "proof",
            &CaptureProof { case: &self.case, tool: name, asked, received, kept, record_bytes },
        )?;
        if (received, kept) != (asked, asked) {
            self.rig.report.warn(&format!(
                "{name} was offered {asked} frames: {received} were received, {kept} written by the kernel's count"
            ))?;
        }
        fs::remove_file(&file).context("cannot remove a file of our own")?;
        Ok(Some(ProvenTool { tool, program, shape }))
    }

    /// One tool against itself.
    fn noise(&mut self, contender: &ProvenTool) -> Result<()> {
        let twice = [contender, contender];
        let rounds = self.settings.capture_noise_rounds;
        if rounds == 0 {
            return Ok(());
        }
        self.scout(CaptureOutput::Null, &twice[..1])?;
        let found = self.rounds(CaptureOutput::Null, &twice, "noise", rounds)?;
        if let Some(ratio) = Estimate::of_ratios(found.rates.of(0), found.rates.of(1)) {
            self.rig
                .report
                .say(&format!("  {ratio} x  {} against itself: the noise", contender.tool.title))?;
        }
        Ok(())
    }

    fn compare(&mut self, output: CaptureOutput, contenders: &[&ProvenTool]) -> Result<()> {
        let case = self.case(output);
        let case = case.as_str();
        self.scout(output, contenders)?;
        let wanted = self.settings.capture_rounds;
        let found = self.rounds(output, contenders, "rounds", wanted)?;
        self.rig.report.say(&format!("  {case}"))?;
        if found.rates.whole() < wanted {
            self.rig.report.say(&format!("  time is up after {} of {wanted} rounds", found.rates.whole()))?;
        }
        for (index, contender) in contenders.iter().enumerate() {
            let Some(rate) = Estimate::of(found.rates.of(index)) else { continue };
            let limit = match found.limited[index] {
                0 => String::new(),
                limited => format!(" (at least: in {limited} rounds no more arrived)"),
            };
            self.rig.report.say(&format!("  {:>18}  {}{limit}", mpps(rate), contender.tool.title))?;
            self.rig.report.row("result", &ResultRow::rate(case, contender.tool.name, rate))?;
        }
        // Peers leave the frame to the host, so they are compared with mirror mode.
        let mirror = contenders.iter().position(|contender| contender.tool.name == MIRROR).unwrap_or(0);
        for (index, rival) in contenders.iter().enumerate().skip(1).filter(|(index, _)| *index != mirror) {
            let own = if matches!(rival.tool.program, ToolProgram::Installed(_)) { mirror } else { 0 };
            let ours = contenders[own].tool;
            let Some(ratio) = Estimate::of_ratios(found.rates.of(own), found.rates.of(index)) else {
                continue;
            };
            self.rig.report.say(&format!("  {}: {ratio} x of {}", ours.title, rival.tool.title))?;
            self.rig
                .report
                .row("result", &ResultRow::ratio(case, ours.name, rival.tool.name, ratio, None))?;
        }
        Ok(())
    }

    /// Finds out roughly where each of them ends; the rounds begin there.
    fn scout(&mut self, output: CaptureOutput, contenders: &[&ProvenTool]) -> Result<()> {
        let turn = Turn { round: 0, contender: 0 };
        for contender in contenders {
            let known = |output: CaptureOutput| self.known_pps.get(&(output, contender.tool.name));
            if known(output).is_some() {
                continue;
            }
            let start_pps =
                known(CaptureOutput::Null).map_or(self.settings.start_pps, |pps| pps * BEGIN_FILE);
            let mut search = Search::new(start_pps, GROWTH_FAR, self.settings.trials_first);
            while let Some(rate_pps) = search.next_pps() {
                search.learn(&self.trial(output, contender, "scout", turn, rate_pps)?);
            }
            self.learn(output, contender, search.found().pps);
        }
        Ok(())
    }

    /// The best so far, so that a round in which the machine was busy does not lower where the next
    /// begins.
    fn learn(&mut self, output: CaptureOutput, contender: &ProvenTool, found_pps: f64) {
        if found_pps > 0.0 {
            let best_pps = self.known_pps.entry((output, contender.tool.name)).or_insert(found_pps);
            *best_pps = best_pps.max(found_pps);
        }
    }

    /// In each round everyone searches, trial by trial in turn.
    fn rounds(
        &mut self,
        output: CaptureOutput,
        contenders: &[&ProvenTool],
        part: &str,
        count: usize,
    ) -> Result<Best> {
        let case = self.case(output);
        let mut best = Best { rates: Rounds::new(contenders.len()), limited: vec![0; contenders.len()] };
        for round in 0..count {
            if round > 0 && self.rig.deadline.is_over() {
                break;
            }
            let mut searches: Vec<Search> =
                contenders.iter().map(|contender| self.search_near(output, contender)).collect();
            while searches.iter().any(|search| search.next_pps().is_some()) {
                for (index, search) in searches.iter_mut().enumerate() {
                    let Some(rate_pps) = search.next_pps() else { continue };
                    let turn = Turn { round, contender: index };
                    search.learn(&self.trial(output, contenders[index], part, turn, rate_pps)?);
                }
            }
            for (index, (search, contender)) in searches.iter().zip(contenders).enumerate() {
                let found = search.found();
                let (tool, at_limit) = (contender.tool.name, found.at_limit);
                self.rig.report.row(
                    "search",
                    &LimitRow { case: &case, part, round, tool, lossless_pps: found.pps, at_limit },
                )?;
                best.rates.push(Turn { round, contender: index }, found.pps);
                best.limited[index] += usize::from(at_limit);
                self.learn(output, contender, found.pps);
            }
        }
        Ok(best)
    }

    fn search_near(&self, output: CaptureOutput, contender: &ProvenTool) -> Search {
        let known = |output| self.known_pps.get(&(output, contender.tool.name));
        let BenchSettings { start_pps, trials_first, trials_next, .. } = *self.settings;
        let (start_pps, growth, trials) = match (known(output), known(CaptureOutput::Null)) {
            (Some(pps), _) => (pps * BEGIN_NEAR, GROWTH_NEAR, trials_next),
            (None, Some(pps)) => (pps * BEGIN_FILE, GROWTH_NEAR, trials_first + trials_next),
            (None, None) => (start_pps, GROWTH_FAR, trials_first + trials_next),
        };
        Search::new(start_pps, growth, trials)
    }

    /// Offers one rate for a moment and sees what is kept of it.
    fn trial(
        &self,
        output: CaptureOutput,
        contender: &ProvenTool,
        part: &str,
        turn: Turn,
        asked_pps: f64,
    ) -> Result<Trial> {
        let name = contender.tool.name;
        let tried = self.try_rate(output, contender, asked_pps, false)?;
        let OfferedRate { arrived, arrived_pps, kept, .. } = tried;
        if kept > arrived {
            self.rig.report.warn(&format!("{name} kept {kept} of {arrived} frames that arrived"))?;
        }
        let lost = arrived.saturating_sub(kept);
        let row = TrialRow {
            case: &self.case(output),
            part,
            round: turn.round,
            tool: name,
            frame_len: self.load.frame_len,
            queues: self.load.queues,
            asked_pps,
            arrived_pps,
            arrived,
            kept,
            lost,
            cpu_ns_per_frame: tried.cpu_ns as f64 / kept.max(1) as f64,
        };
        self.rig.report.row("trial", &row)?;
        Ok(Trial { asked_pps, arrived_pps, lost })
    }

    /// Offers one rate for a moment; with `counts` the records of a file are counted instead of
    /// taken from its length.
    fn try_rate(
        &self,
        output: CaptureOutput,
        contender: &ProvenTool,
        asked_pps: f64,
        counts: bool,
    ) -> Result<OfferedRate> {
        // On a busy machine the sender may get no CPU for as long as a short trial takes.
        let mut tries =
            (0..TRIES_MAX).filter_map(|_| self.try_rate_of(output, contender, asked_pps, counts).transpose());
        let tried = tries.next().unwrap_or_else(|| bail!("no frame arrived in {TRIES_MAX} tries"));
        tried.with_context(|| format!("cannot try {} at {asked_pps:.0} pps", contender.tool.name))
    }

    /// `None` when no frame arrived.
    fn try_rate_of(
        &self,
        output: CaptureOutput,
        contender: &ProvenTool,
        asked_pps: f64,
        counts: bool,
    ) -> Result<Option<OfferedRate>> {
        let (bed, tool, shape) = (self.rig.bed, contender.tool, contender.shape);
        let needed = asked_pps * self.settings.trial.as_secs_f64() * shape.record_bytes as f64;
        let file = output.path(bed);
        if output == CaptureOutput::File {
            let free = bed.free_bytes()? as f64;
            ensure!(
                needed < free,
                "that takes {:.0} MB of memory, and {:.0} are free",
                needed / 1e6,
                free / 1e6
            );
        }
        let capture = self.start(tool, &contender.program, &file)?;
        let mut counted = None;
        let samples = self.offer(0, asked_pps, Some(self.settings.trial))?;
        bed.stop.sleep(tool.drain)?;
        let ended = capture.stop(&bed.stop)?;
        let bytes = match output {
            CaptureOutput::Null => ended.file_bytes,
            CaptureOutput::File => {
                let len = fs::metadata(&file).context("the capture left no file")?.len();
                counted = counts.then(|| records::count(&file)).transpose()?;
                fs::remove_file(&file).context("cannot remove a file of our own")?;
                len
            }
        };
        // On a busy machine all of a short trial may come between two readings.
        Ok(steady_pps(&samples).or_else(|| whole_pps(&samples)).map(|arrived_pps| OfferedRate {
            arrived: received(&samples),
            arrived_pps,
            kept: shape.records(bytes),
            counted,
            cpu_ns: ended.cpu_ns,
            capture_said: ended.said,
        }))
    }

    /// Offers more than a tool keeps and compares the real loss with the loss that the tool
    /// reports.
    fn losses(&self, contenders: &[&ProvenTool]) -> Result<()> {
        let output = CaptureOutput::File;
        let case = format!("losses {}", output.title());
        self.rig.report.say(&format!("  {case}, and what is said of them"))?;
        for contender in contenders {
            let Some(best_pps) = self.known_pps.get(&(output, contender.tool.name)) else { continue };
            for factor in LOSS_FACTORS {
                let asked_pps = best_pps * factor;
                let tried = self.try_rate(output, contender, asked_pps, true)?;
                let (arrived, kept) = (tried.arrived, tried.counted.unwrap_or(0));
                let (lost, told_lost) =
                    (arrived.saturating_sub(kept), (contender.tool.told_lost)(&tried.capture_said));
                let is_true = told_lost == Some(lost);
                let (tool, arrived_pps) = (contender.tool.name, tried.arrived_pps);
                let row = CaptureLoss {
                    case: &case,
                    tool,
                    factor,
                    asked_pps,
                    arrived_pps,
                    arrived,
                    kept,
                    lost,
                    told_lost,
                    is_true,
                };
                self.rig.report.row("loss", &row)?;
                let told = told_lost.map_or("nothing".to_owned(), |told| told.to_string());
                self.rig.report.say(&format!(
                    "  {factor} x: of {arrived} at {:.2} Mpps {lost} lost, it says {told}  {}",
                    arrived_pps / 1e6,
                    contender.tool.title
                ))?;
            }
        }
        Ok(())
    }
}

/// What came of offering one rate.
struct OfferedRate {
    /// By the receiver's counter.
    arrived: u64,
    /// The rate of that.
    arrived_pps: f64,
    /// Records in the output, from its length: a little too many where records tell of losses.
    kept: u64,
    /// Records in the file, by our own reader, where that was asked for.
    counted: Option<u64>,
    /// CPU time of the capture, in nanoseconds.
    cpu_ns: u64,
    /// Output of the capture.
    capture_said: String,
}

fn received(samples: &[CounterSample]) -> u64 {
    match samples {
        [first, .., last] => last.frames - first.frames,
        _ => 0,
    }
}
