//! `send --streams --dry-run`: the frames of all streams in the order in which they are due.

use super::Stream;
use crate::dry_run::{Schedule, frame_file};
use crate::job::SendJob;
use crate::split::pace_of_one_thread;
use crate::{config, job_packets, shown};
use capture_files::frame_file::FrameFile;
use engine::{Engine, MemEngine, Pacer};
use facts::{Described, Document};
use packet::wire_len;
use program::out;
use program::outcome::{Failure, Outcome};
use program::stop::Stop;
use serde::Serialize;
use std::num::NonZeroU32;
use units::{human_duration, time_of_day_ns};

/// Bytes that a line of text shows.
const SHOWN_LEN: usize = 32;

/// A frame of a dry run of streams.
pub const STREAM_FRAME: Document = Document::of::<StreamFrame<'static>>(
    "wirerate.stream-frame/1",
    "wirerate send --streams FILE --dry-run --json",
);

/// A frame of a stream.
#[derive(Debug, Serialize, Described)]
struct StreamFrame<'a> {
    /// Number of the frame in the run, from 1.
    number: u64,
    /// Scheduled time since the start of the run.
    time_ns: u64,
    /// Name of its stream.
    stream: &'a str,
    /// Length without FCS.
    #[fact(unit = "bytes")]
    frame_len: u32,
    /// Length on the wire, with FCS, preamble and gap.
    #[fact(unit = "bytes")]
    wire_len: u32,
    /// Its bytes, hexadecimal.
    bytes: String,
}

/// A stream that is shown.
struct ShownStream<'a> {
    stream: &'a Stream,
    engine: MemEngine<Vec<Vec<u8>>, &'a Schedule>,
    pacer: Pacer,
    /// Frames so far.
    shown: u64,
}

impl ShownStream<'_> {
    /// When its next frame is due; `None` after the last.
    fn next_ns(&self) -> Option<u64> {
        let count = self.stream.config.count;
        let is_complete = count != 0 && self.shown >= count;
        let duration_ns = self.stream.entry.job.duration.map_or(u64::MAX, |duration| duration.0);
        let end_ns = self.stream.entry.start_ns.saturating_add(duration_ns);
        (!is_complete).then(|| self.pacer.next_ns()).filter(|next_ns| *next_ns < end_ns)
    }
}

/// Shows the first `frame_count` frames of all streams.
///
/// # Errors
/// Bad usage for a stream that gives no frame; refused when the file cannot be written.
pub fn show(
    streams: &[Stream],
    job: &SendJob,
    (facts, frame_count): (&packet::DeviceFacts, u64),
    stop: &Stop,
) -> Result<Outcome, Failure> {
    let clock = Schedule::default();
    let mut shown = Vec::new();
    for stream in streams {
        shown.push(prepare(stream, job, facts, &clock)?);
    }
    let started_ns = time_of_day_ns();
    let mut file = job.write.as_deref().map(|path| frame_file(path, &job.device)).transpose()?;
    for number in 1..=frame_count {
        if stop.is_set() {
            break;
        }
        // Of streams that are due at the same time, the one with the fewest frames.
        let due = |stream: &mut &mut ShownStream<'_>| stream.next_ns().is_some();
        let next = shown.iter_mut().filter_map(|stream| due(&mut &mut *stream).then_some(stream));
        let Some(next) = next.min_by_key(|stream| (stream.next_ns(), stream.shown)) else { break };
        let time_ns = next.pacer.next_ns();
        let wall_ns = started_ns.saturating_add(time_ns);
        clock.set(wall_ns);
        next.engine
            .send_burst(NonZeroU32::MIN)
            .map_err(|why| Failure::engine(format!("make frame {number}"), why, None))?;
        let Some(bytes) = next.engine.sink_mut().pop() else { break };
        next.pacer.sent(1, bytes.len() as u64);
        next.shown += 1;
        let frame_len = bytes.len() as u32;
        let frame = StreamFrame {
            number,
            time_ns,
            stream: &next.stream.entry.name,
            frame_len,
            wire_len: wire_len(frame_len),
            bytes: hex(&bytes),
        };
        stop.console().text(&if job.json { out::json_line(&STREAM_FRAME, &frame) } else { line(&frame) })?;
        if let Some(file) = &mut file {
            file.add(0, wall_ns, &bytes)?;
        }
    }
    file.map_or(Ok(()), FrameFile::finish)?;
    Ok(Outcome::Done)
}

fn prepare<'a>(
    stream: &'a Stream,
    job: &SendJob,
    facts: &packet::DeviceFacts,
    clock: &'a Schedule,
) -> Result<ShownStream<'a>, Failure> {
    let (mut config, seed) = (stream.config.clone(), stream.seed);
    let to = config::destinations(&stream.entry.job);
    if stream.packets.is_some() {
        config.dst_mac = stream.entry.job.dst_mac.map_or(config.dst_mac, |given| given.first);
    }
    let shown = shown::for_show(job.netns.as_deref(), &job.device, &mut config, &to)?;
    let packets = match &stream.packets {
        Some(_) if stream.entry.frame.is_none() => {
            Some(stream.marked(job_packets::packets(&stream.entry.job, config.dst_mac, facts, seed)?)?)
        }
        packets => packets.clone(),
    };
    let of_packets =
        packets.map(|packets| crate::plan_of_packets(&packets, 0, &config, facts, &shown.associations));
    let (plan, mut cursor) = match of_packets.transpose()?.flatten() {
        Some(made) => made,
        None => crate::plan(&mut config, facts, seed, &shown.associations)?,
    };
    cursor.rng = packet::Rng(seed);
    let pacer = Pacer::new(pace_of_one_thread(stream.pace, &config, seed), stream.entry.start_ns);
    Ok(ShownStream {
        stream,
        engine: MemEngine::with_clock(plan, cursor, Vec::new(), clock),
        pacer,
        shown: 0,
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn line(frame: &StreamFrame<'_>) -> String {
    let start: String = frame.bytes.chars().take(2 * SHOWN_LEN).collect();
    let rest = if frame.bytes.len() > start.len() { "..." } else { "" };
    let StreamFrame { number, stream, frame_len, .. } = frame;
    format!(
        "{number:>6} {:>12} {stream:<12} {frame_len:>5} bytes  {start}{rest}\n",
        human_duration(frame.time_ns)
    )
}
