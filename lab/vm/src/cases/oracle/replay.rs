//! Runs the sequences once against the control files at `/proc/net/pktgen`, in a separate process.

use super::generate::Sequence;
use super::step::{OracleStep, ROOT, StepAnswer, Texts, open};
use anyhow::{Context, Result};
use pcapng::pcap::Reader;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, BufReader, Write};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Between two sequences, so that each frame is of one of them.
const PAUSE: Duration = Duration::from_millis(2);
/// Longest that the removal of all devices is waited for; what is still there then shows in the
/// answers.
const CLEARED: Duration = Duration::from_secs(30);
/// Sequences between two lines on the console: the host ends a machine that is silent.
const PROGRESS_EVERY: usize = 25;

/// What one sequence was answered.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Answers {
    /// Of each step. Of a write that is its length or the errno, and the `Result:` of that file
    /// after it.
    pub(super) steps: Vec<StepAnswer>,
    /// The device file at the end.
    pub(super) device: String,
    /// The thread file at the end.
    pub(super) thread: String,
    /// From when until when, in nanoseconds since 1970.
    span_ns: (u64, u64),
    /// What arrived meanwhile at the far end.
    #[serde(skip)]
    pub(super) frames: Vec<Vec<u8>>,
}

impl Answers {
    /// Makes one errno another.
    pub(super) fn rename(&mut self, from: i32, to: i32) {
        let errors = self.steps.iter_mut().filter_map(|(returned, _)| returned.as_mut().err());
        errors.filter(|errno| **errno == from).for_each(|errno| *errno = to);
    }

    /// Changes all texts.
    pub(super) fn change(&mut self, how: impl Fn(String) -> String) {
        let texts = self.steps.iter_mut().map(|(_, result)| result);
        for text in texts.chain([&mut self.device, &mut self.thread]) {
            *text = how(std::mem::take(text));
        }
    }
}

/// `/init replay SEQUENCES ANSWERS`.
pub fn main(arguments: &[String]) -> Result<()> {
    let [sequences, out] = arguments else { anyhow::bail!("replay SEQUENCES ANSWERS") };
    let sequences: Vec<Sequence> = serde_json::from_slice(&fs::read(sequences)?)?;
    let answers = sequences.iter().enumerate().map(|(number, sequence)| {
        if number.is_multiple_of(PROGRESS_EVERY) {
            write_to_console(&format!("{number} of {} sequences, into {out}", sequences.len()));
        }
        answers(sequence)
    });
    let answers = answers.collect::<Result<Vec<_>>>()?;
    fs::write(out, serde_json::to_vec(&answers)?)?;
    Ok(())
}

/// Writes a line for the host. Without a console there is no host that waits.
fn write_to_console(line: &str) {
    let console = fs::OpenOptions::new().write(true).open("/dev/console");
    let _ = console.and_then(|mut console| writeln!(console, "{line}"));
}

fn answers(sequence: &Sequence) -> Result<Answers> {
    // In one write: standard error has no buffer.
    let line = format!("{}: {:?}\n", sequence.called(), sequence.steps);
    io::stderr().write_all(line.as_bytes())?;
    if sequence.has_start || sequence.seed.is_multiple_of(50) {
        clear()?;
    }
    let mut texts = Texts::default();
    std::thread::sleep(PAUSE);
    let begin_ns = now_ns();
    let mut answer = |step| {
        // In those that are recorded files go and come again.
        if sequence.name.is_some() {
            texts = Texts::default();
        }
        bounded(sequence, &mut texts, step)
    };
    let steps = sequence.steps.iter().map(&mut answer).collect();
    let mut read = |file: &str| texts.read(file).unwrap_or_else(|error| error.to_string());
    let (device, thread) = (read(&sequence.device), read("kpktgend_0"));
    std::thread::sleep(PAUSE);
    Ok(Answers { steps, device, thread, span_ns: (begin_ns, now_ns()), frames: Vec::new() })
}

/// One step, but no run without end: that would be the end of us as well.
fn bounded(sequence: &Sequence, texts: &mut Texts, step: &OracleStep) -> StepAnswer {
    let is_endless = |text: String| text.starts_with("Params: count 0 ");
    let is_start =
        matches!(step, OracleStep::Write { file, bytes, .. } if file == "pgctrl" && bytes == "start\n");
    if is_start && texts.read(&sequence.device).is_ok_and(is_endless) {
        return (Ok(0), "it would run without end".to_owned());
    }
    step.answer(texts)
}

/// Removes all devices. The module's thread does it when it gets to it, and then takes a newer
/// device as well.
pub(super) fn clear() -> io::Result<()> {
    ["kpktgend_0", "kpktgend_1"].into_iter().filter(|thread| has(thread)).try_for_each(clear_thread)
}

fn has(file: &str) -> bool {
    fs::exists(format!("{ROOT}/{file}")).unwrap_or(false)
}

fn clear_thread(thread: &str) -> io::Result<()> {
    write(thread, "rem_device_all\n")?;
    let deadline = Instant::now() + CLEARED;
    loop {
        let text = Texts::default().read(thread)?;
        let is_empty = text.lines().take(2).all(|line| line.trim_end().ends_with(':'));
        if is_empty || Instant::now() > deadline {
            return Ok(());
        }
        std::thread::sleep(PAUSE);
    }
}

/// As `echo` does it: one open, one write, one close.
pub(super) fn write(file: &str, bytes: &str) -> io::Result<usize> {
    open(file, libc::O_WRONLY)?.write(bytes.as_bytes())
}

fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

/// Gives each sequence the frames that arrived while it ran.
pub(super) fn add_frames(answers: &mut [Answers], pcap: &str) -> Result<()> {
    let file = File::open(pcap).with_context(|| format!("cannot open {pcap}"))?;
    let mut reader = Reader::new(BufReader::new(file))?;
    let mut at = 0;
    while let Some(record) = reader.next_record()? {
        while answers.get(at).is_some_and(|answers| answers.span_ns.1 < record.time_ns) {
            at += 1;
        }
        let Some(answers) = answers.get_mut(at) else { break };
        if record.time_ns >= answers.span_ns.0 {
            answers.frames.push(record.data.to_vec());
        }
    }
    Ok(())
}
