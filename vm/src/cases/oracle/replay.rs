//! One run of the sequences against the tree at `/proc/net/pktgen`, whoever keeps it: as a program of its own.

use super::generate::Sequence;
use anyhow::{Context, Result};
use pcapng::pcap::Reader;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub(super) const ROOT: &str = "/proc/net/pktgen";
/// Between two sequences, so that each frame is of one of them.
const PAUSE: Duration = Duration::from_millis(2);
/// Longest that the removal of all devices is waited for; what is still there then shows in the answers.
const CLEARED: Duration = Duration::from_secs(30);
/// Longer than any of the texts.
const TEXT_BYTES: usize = 1 << 16;

/// What one sequence was answered.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Answers {
    /// Of each write: its length or the errno, and the `Result:` of that file after it.
    pub(super) writes: Vec<(Result<usize, i32>, String)>,
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
    /// Changes all texts.
    pub(super) fn change(&mut self, how: impl Fn(String) -> String) {
        let texts = self.writes.iter_mut().map(|(_, result)| result);
        for text in texts.chain([&mut self.device, &mut self.thread]) {
            *text = how(std::mem::take(text));
        }
    }
}

/// `/init replay SEQUENCES ANSWERS`.
pub fn main(arguments: &[String]) -> Result<()> {
    let [sequences, out] = arguments else { anyhow::bail!("replay SEQUENCES ANSWERS") };
    let sequences: Vec<Sequence> = serde_json::from_slice(&fs::read(sequences)?)?;
    let answers = sequences.iter().map(answers).collect::<Result<Vec<_>>>()?;
    fs::write(out, serde_json::to_vec(&answers)?)?;
    Ok(())
}

fn answers(sequence: &Sequence) -> Result<Answers> {
    eprintln!("seed {}: {:?}", sequence.seed, sequence.steps);
    if sequence.has_start || sequence.seed.is_multiple_of(50) {
        clear()?;
    }
    let mut texts = Texts::default();
    std::thread::sleep(PAUSE);
    let begin_ns = now_ns();
    let writes =
        sequence.steps.iter().map(|(file, bytes)| bounded(sequence, &mut texts, file, bytes)).collect();
    let mut read = |file: &str| texts.read(file).unwrap_or_else(|error| error.to_string());
    let (device, thread) = (read(&sequence.device), read("kpktgend_0"));
    std::thread::sleep(PAUSE);
    Ok(Answers { writes, device, thread, span_ns: (begin_ns, now_ns()), frames: Vec::new() })
}

/// One write and the `Result:` after it, but no run without end: that would be the end of us as well.
fn bounded(sequence: &Sequence, texts: &mut Texts, file: &str, bytes: &str) -> (Result<usize, i32>, String) {
    let is_endless = |text: String| text.starts_with("Params: count 0 ");
    if file == "pgctrl" && bytes == "start\n" && texts.read(&sequence.device).is_ok_and(is_endless) {
        return (Ok(0), "it would run without end".to_owned());
    }
    let answer = write(file, bytes);
    let text = texts.read(file).unwrap_or_default();
    let result = text.split_once("Result: ").map_or(String::new(), |(_, result)| result.to_owned());
    (answer.map_err(|error| error.raw_os_error().unwrap_or(-1)), result)
}

/// Removes all devices. The module's thread does it when it gets to it, and then takes a newer device as well.
pub(super) fn clear() -> io::Result<()> {
    write("kpktgend_0", "rem_device_all\n")?;
    let deadline = Instant::now() + CLEARED;
    loop {
        let text = Texts::default().read("kpktgend_0")?;
        let is_empty = text.lines().take(2).all(|line| line.trim_end().ends_with(':'));
        if is_empty || Instant::now() > deadline {
            return Ok(());
        }
        std::thread::sleep(PAUSE);
    }
}

/// As `echo` does it: one open, one write, one close.
pub(super) fn write(file: &str, bytes: &str) -> io::Result<usize> {
    OpenOptions::new().write(true).open(format!("{ROOT}/{file}"))?.write(bytes.as_bytes())
}

/// The files of one sequence, open for reading. A read from the start is a text of this moment, and a single
/// request where an open and a close would be five more.
#[derive(Default)]
pub(super) struct Texts {
    open: HashMap<String, File>,
}

impl Texts {
    pub(super) fn read(&mut self, name: &str) -> io::Result<String> {
        if !self.open.contains_key(name) {
            self.open.insert(name.to_owned(), File::open(format!("{ROOT}/{name}"))?);
        }
        let mut bytes = vec![0; TEXT_BYTES];
        let len = self.open[name].read_at(&mut bytes, 0)?;
        bytes.truncate(len);
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
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
