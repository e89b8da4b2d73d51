//! Generators: frames per second that reach the receiver, whose sink drops them in the driver.
//!
//! A sweep of the table is one comparison per frame length and number of CPUs. In a comparison all
//! tools run in turn, several times; wirerate against itself comes first and gives the noise.

use crate::facts::Ticks;
use crate::frame;
use crate::generators::{Contender, STREAMS, SendJob, Work, stream_file};
use crate::report::{self, LoadPoint, ResultRow, mpps};
use crate::rig::Rig;
use crate::running::Running;
use crate::samples::rate_pps;
use crate::schedule::{Rounds, interleaved};
use crate::stats::Estimate;
use crate::table::Sweep;
use crate::testbed::{AttachedSink, Testbed};
use anyhow::{Context, Result};
use serde::Serialize;
use std::path::PathBuf;
use std::process::Command;

/// Frames in the file that tcpreplay loads: at least so many, in whole turns of the work.
const FILE_FRAMES: usize = 1_024;

/// A generator that is installed.
#[derive(Debug)]
pub(crate) struct Entrant {
    /// Who, and what it sends.
    pub(crate) contender: Contender,
    /// Its file.
    pub(crate) program: PathBuf,
}

/// Everyone at one frame length on one number of CPUs.
struct SenderComparison<'a> {
    rig: Rig<'a>,
    case: &'a str,
    cell: LoadPoint,
    cpus: Vec<u32>,
}

/// All rounds.
struct MeasuredRun {
    /// Frames a second.
    rates: Rounds,
    /// CPU time of a frame, in nanoseconds. It moves less than a rate when others want the CPU,
    /// too.
    costs: Rounds,
}

/// One measured run.
#[derive(Debug, Serialize)]
struct RunRow<'a> {
    case: &'a str,
    /// `noise` or `rounds`.
    part: &'a str,
    round: usize,
    tool: &'a str,
    #[serde(flatten)]
    cell: LoadPoint,
    /// At the receiver, in the window.
    frames: u64,
    window_ns: u64,
    rate_pps: f64,
    /// Of the tool over its whole life, receive path included, for each frame of its life.
    cpu_ns_per_frame: f64,
    busy: f64,
    steal: f64,
}

#[derive(Debug, Serialize)]
struct SendProof<'a> {
    case: &'a str,
    tool: &'a str,
    #[serde(flatten)]
    cell: LoadPoint,
    asked: u64,
    received: u64,
    sink: u64,
}

/// Who does not take part, and why.
#[derive(Debug, Serialize)]
pub(crate) struct LeftOut<'a> {
    pub(crate) case: &'a str,
    pub(crate) tool: &'a str,
    pub(crate) why: &'a str,
}

/// Measures all sweeps of the plan, with those that are installed.
pub(crate) fn run(rig: Rig<'_>) -> Result<()> {
    let Rig { bed, plan, deadline, report, .. } = rig;
    let times = &plan.times;
    report.say(&format!(
        "\ngenerate: from CPU {}, XDP_DROP at the receiver; {} rounds of {} ms, counted at the receiver",
        bed.generator_cpu,
        times.rounds,
        times.window().as_millis()
    ))?;
    let sink = bed.sink()?;
    let mut is_first = true;
    for sweep in &plan.generate {
        let entrants = installed(rig, &sweep.name, sweep.contenders()?)?;
        for (frame_len, cpus) in sweep.cells() {
            let name = &sweep.name;
            if deadline.is_over() {
                report.warn(&format!("time is up before {name} at {frame_len} bytes, {cpus} CPUs"))?;
                continue;
            }
            let cell = LoadPoint { frame_len, cpus };
            let Some(cpus) = bed.cpus(cpus) else {
                report.say(&format!("  {name} on {cpus} CPUs is left out: there are fewer"))?;
                continue;
            };
            let contest = SenderComparison { rig, case: name, cell, cpus };
            for entrant in &entrants {
                contest.prove(&sink, entrant)?;
            }
            if std::mem::take(&mut is_first) {
                contest.noise(&entrants[0])?;
            }
            contest.compare(sweep, &entrants)?;
        }
    }
    Ok(())
}

/// Those of `contenders` that can take part here; for the others it is said why not.
pub(crate) fn installed(rig: Rig<'_>, case: &str, contenders: Vec<Contender>) -> Result<Vec<Entrant>> {
    let Rig { bed, programs, report, .. } = rig;
    let mut found = Vec::new();
    for contender in contenders.into_iter().filter(|contender| contender.tool.takes_part(programs)) {
        let left_out = |why| LeftOut { case, tool: &contender.name, why };
        if contender.work == Work::Ipsec
            && let Some(why) = associate(bed)?
        {
            report.say(&format!("  {} is left out: {why}", contender.title()))?;
            report.row("left_out", &left_out(why))?;
            continue;
        }
        match programs.find(contender.tool.program) {
            Some(program) => found.push(Entrant { contender, program }),
            None => {
                report.warn(&format!("{} is not installed, so it is left out", contender.title()))?;
                report.row("left_out", &left_out("not installed"))?;
            }
        }
    }
    anyhow::ensure!(!found.is_empty(), "{case}: no tool is left");
    Ok(found)
}

/// Gives the sender an association for ESP, or says why not.
fn associate(bed: &Testbed) -> Result<Option<&'static str>> {
    const KEYS: [&str; 8] = [
        "mode",
        "transport",
        "auth",
        "hmac(sha1)",
        "0x0123456789012345678901234567890123456789",
        "enc",
        "cbc(aes)",
        "0x01234567890123456789012345678901",
    ];
    if !bed.is_ours() {
        return Ok(Some("it takes an association, which is not made on a device of yours"));
    }
    let (src, dst) = (bed.tx().v4.to_string(), frame::DST.to_string());
    let ip = |verb: &str, more: &[&str]| {
        let words = ["xfrm", "state", verb, "src", &src, "dst", &dst, "proto", "esp", "spi", "0x100"];
        let mut command = Command::new("ip");
        command.args(words).args(more);
        let said = bed.tx().netns().run(|| command.output())?.context("cannot run ip")?;
        anyhow::Ok(said.status.success())
    };
    // The first run has made it.
    Ok(if ip("get", &[])? || ip("add", &KEYS)? { None } else { Some("this kernel has no ESP") })
}

/// The frames of a job as a file, which is made where it is not there yet: streams of `count`
/// frames for the generator of streams, pcap for the others.
pub(crate) fn frames_file(
    bed: &Testbed,
    contender: &Contender,
    frame_len: usize,
    count: u64,
) -> Result<PathBuf> {
    if contender.tool.name == STREAMS {
        let path = bed.file(&format!("streams-{frame_len}-{count}.json"));
        let job = SendJob { count, ..SendJob::plain(bed.tx(), &[], frame_len) };
        std::fs::write(&path, stream_file(&job))
            .with_context(|| format!("cannot write {}", path.display()))?;
        return Ok(path);
    }
    let kind = if contender.work == Work::Imix { "imix".to_owned() } else { frame_len.to_string() };
    let path = bed.file(&format!("frames-{kind}.pcap"));
    if !path.exists() {
        let nothing = PathBuf::new();
        let job = SendJob { frames: &nothing, ..SendJob::plain(bed.tx(), &[], frame_len) };
        frame::write_pcap(&path, &SendJob { work: contender.work, ..job }.turn(), FILE_FRAMES)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(path)
}

impl SenderComparison<'_> {
    fn start(&self, entrant: &Entrant, count: u64) -> Result<Running> {
        let frames = frames_file(self.rig.bed, &entrant.contender, self.cell.frame_len, count)?;
        let work = entrant.contender.work;
        let plain = SendJob::plain(self.rig.bed.tx(), &self.cpus, self.cell.frame_len);
        Running::start(
            &entrant.program,
            &entrant.contender,
            &SendJob { count, work, frames: &frames, ..plain },
        )
    }

    /// Lets it send a number of frames, which must arrive, all and no more.
    fn prove(&self, sink: &AttachedSink, entrant: &Entrant) -> Result<()> {
        let (bed, asked, tool) =
            (self.rig.bed, self.rig.plan.times.proof_frames, entrant.contender.name.as_str());
        let (before, dropped_before) = (bed.settled()?, sink.frames());
        let proved = self.start(entrant, asked)?.wait(&bed.stop);
        proved.with_context(|| format!("{tool} does not send {asked} frames"))?;
        let received = bed.settled()?.frames - before.frames;
        let sink = sink.frames() - dropped_before;
        self.rig
            .report
            .row("proof", &SendProof { case: self.case, tool, cell: self.cell, asked, received, sink })?;
        if (received, sink) != (asked, asked) {
            self.rig.report.warn(&format!(
                "{tool} was asked for {asked} frames: {received} were received, {sink} dropped by the sink"
            ))?;
        }
        Ok(())
    }

    fn noise(&self, entrant: &Entrant) -> Result<()> {
        let twice = [entrant, entrant];
        let noise = self.rounds(&twice, "noise", self.rig.plan.times.noise_rounds)?;
        if let Some(ratio) = Estimate::of_ratios(noise.rates.of(0), noise.rates.of(1)) {
            let name = &entrant.contender.name;
            self.rig
                .report
                .say(&format!("  {ratio} x  {} against itself: the noise", entrant.contender.title()))?;
            self.rig
                .report
                .row("result", &ResultRow::ratio("noise", name, name, ratio, None).at(self.cell))?;
        }
        Ok(())
    }

    /// Everyone in turn, as often as asked for or as time allows.
    fn rounds(&self, entrants: &[&Entrant], part: &str, count: usize) -> Result<MeasuredRun> {
        let mut measured =
            MeasuredRun { rates: Rounds::new(entrants.len()), costs: Rounds::new(entrants.len()) };
        for turn in interleaved(entrants.len(), count) {
            if turn.contender == 0 && turn.round > 0 && self.rig.deadline.is_over() {
                break;
            }
            let entrant = entrants[turn.contender];
            let name = &entrant.contender.name;
            let run = self.measure(entrant).with_context(|| format!("cannot measure {name}"))?;
            let run = RunRow { part, round: turn.round, ..run };
            self.rig.report.row("run", &run)?;
            measured.rates.push(turn, run.rate_pps);
            measured.costs.push(turn, run.cpu_ns_per_frame);
        }
        Ok(measured)
    }

    /// Starts it, measures in mid-flight, stops it.
    fn measure<'a>(&'a self, entrant: &'a Entrant) -> Result<RunRow<'a>> {
        let bed = self.rig.bed;
        let before = bed.settled()?;
        let mut running = self.start(entrant, entrant.contender.tool.plenty)?;
        running.until_frames_come(bed, before)?;
        bed.stop.sleep(self.rig.plan.times.settle())?;
        let (ticks, from) = (Ticks::read()?, bed.sample()?);
        bed.stop.sleep(self.rig.plan.times.window())?;
        let to = bed.sample()?;
        let shares = Ticks::read()?.since(ticks);
        running.still_runs()?;
        let ended = running.stop(&bed.stop)?;
        let life = bed.settled()?.frames - before.frames;
        Ok(RunRow {
            case: self.case,
            part: "",
            round: 0,
            tool: &entrant.contender.name,
            cell: self.cell,
            frames: to.frames - from.frames,
            window_ns: to.time_ns - from.time_ns,
            rate_pps: rate_pps(from, to).context("no time passed")?,
            cpu_ns_per_frame: ended.cpu_ns as f64 / life.max(1) as f64,
            busy: shares.busy,
            steal: shares.steal,
        })
    }

    /// All rounds, the medians of all, and the ratios of ours to theirs.
    fn compare(&self, sweep: &Sweep, entrants: &[Entrant]) -> Result<()> {
        let all: Vec<&Entrant> = entrants.iter().collect();
        let measured = self.rounds(&all, "rounds", self.rig.plan.times.rounds)?;
        let LoadPoint { frame_len, cpus } = self.cell;
        let of_cpus = if cpus == 1 { "one CPU".to_owned() } else { format!("{cpus} CPUs") };
        self.rig.report.say(&format!("  {}, {frame_len} bytes, {of_cpus}:", self.case))?;
        if measured.rates.whole() < self.rig.plan.times.rounds {
            self.rig.report.say(&format!("  time is up after {} rounds", measured.rates.whole()))?;
        }
        for (index, entrant) in all.iter().enumerate() {
            let values = (Estimate::of(measured.rates.of(index)), Estimate::of(measured.costs.of(index)));
            let (Some(rate), Some(cost)) = values else { continue };
            let Contender { name, .. } = &entrant.contender;
            let cost_text = format!("{cost} ns of CPU a frame");
            self.rig.report.say(&format!(
                "  {:>18}  {cost_text:>29}  {}",
                mpps(rate),
                entrant.contender.title()
            ))?;
            self.rig.report.row("result", &ResultRow::rate(self.case, name, rate).at(self.cell))?;
            self.rig.report.row("result", &ResultRow::cost(self.case, name, cost).at(self.cell))?;
        }
        for (ours, entrant) in all.iter().enumerate().filter(|(_, entrant)| entrant.contender.is_ours()) {
            for (theirs, rival) in all.iter().enumerate() {
                let is_rival = ours != theirs && sweep.against.contains(&rival.contender.name);
                if is_rival {
                    let goal = sweep.goal(ours, &entrant.contender.name, &rival.contender.name);
                    let pair = ((ours, &entrant.contender), (theirs, &rival.contender));
                    self.ratio(pair.0, pair.1, goal, &measured)?;
                }
            }
        }
        Ok(())
    }

    fn ratio(
        &self,
        (ours, our): (usize, &Contender),
        (theirs, their): (usize, &Contender),
        goal: Option<f64>,
        measured: &MeasuredRun,
    ) -> Result<()> {
        let rate = Estimate::of_ratios(measured.rates.of(ours), measured.rates.of(theirs));
        // The other way round: less is better.
        let cost = Estimate::of_ratios(measured.costs.of(theirs), measured.costs.of(ours));
        let (Some(rate), Some(cost)) = (rate, cost) else { return Ok(()) };
        // The others are in the rows, for those who want to know.
        if ours == 0 || their.is_ours() || goal.is_some() {
            let goal_text = report::goal(goal);
            let (us, them) = (our.title(), their.title());
            self.rig.report.say(&format!("  {us}: {rate} x of {them}{goal_text} ({cost} x by CPU time)"))?;
        }
        let (case, us, them) = (self.case, &our.name, &their.name);
        self.rig.report.row("result", &ResultRow::ratio(case, us, them, rate, goal).at(self.cell))?;
        self.rig.report.row("result", &ResultRow::cost_ratio(case, us, them, cost).at(self.cell))
    }
}
