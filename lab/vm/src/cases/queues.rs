//! Cards with several queues: virtio-net on taps. Each frame leaves by the requested queue, each
//! thread has its own, and a capture sees all of them.
//!
//! The machine has two processors and the cards four queues, of which the driver uses two; XDP gets
//! the others.

use super::nics::{CardKind, CardPair, FRAMES, lines, told_by_doctor, word};
use super::{Case, CaseReport, MachineType};
use crate::guest::sh;
use anyhow::{Context, Result, ensure};
use pcapng::{Block, Reader};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;

pub(super) const CASES: &[Case] = &[Case {
    name: "nic_virtio_queues",
    what: "virtio-net with several queues: doctor and engines as in the golden file; frames by queue, threads by queue, a \
           capture of all queues",
    modules: CARD.modules,
    devices: CARD.devices,
    machine: MachineType::Cards,
    run: queues,
}];

const CARD: CardKind = CardKind {
    name: "nic_virtio_queues",
    modules: &["virtio_pci", "virtio_net"],
    // The taps are those of `taps`.
    devices: "-netdev tap,id=queues0,ifname=wrtap0,script=no,downscript=no,vhost=off,queues=4 \
              -netdev tap,id=queues1,ifname=wrtap1,script=no,downscript=no,vhost=off,queues=4 \
              -device virtio-net-pci,netdev=queues0,mq=on,vectors=10,mac=02:00:00:00:04:00 \
              -device virtio-net-pci,netdev=queues1,mq=on,vectors=10,mac=02:00:00:00:04:01",
    macs: ["02:00:00:00:04:00", "02:00:00:00:04:01"],
};

/// Queues in use.
const QUEUES: u32 = 2;
const QUEUES_MAX: u32 = 4;
const CAPTURED: u64 = 1_000;

fn queues(finding: &mut CaseReport) -> Result<()> {
    let pair = CardPair::new(&CARD)?;
    let mut text = told_by_doctor(&sh("wirerate doctor tx0 --netns tx --all")?)?;
    for (options, is_even) in [("--queues 0-1", true), ("--queues cpu --cpus 0,1", false)] {
        let before = QueueCounts::now()?;
        let report = pair.send_all(options)?;
        let engine = word(&report["engine"]["name"]);
        let why = lines(&report["engine"]["why"]);
        text += &format!("$ wirerate send {options}\n{engine}\n{why}\n");
        let sent = QueueCounts::now()?.since(&before);
        ensure!(sent.are_right(is_even), "{options}: {sent:?}: {report}");
        finding.note(options, engine);
    }
    live_frames(&pair, finding)?;
    text += &format!("$ wirerate capture\n{}\n", capture(&pair, finding)?);
    finding.compare(CARD.name, text);
    Ok(())
}

/// By a program on the card. Linux 6.1, which does not say what drivers take, loses some of what
/// its driver took: found here, not explained; a second sender that keeps the program there does
/// not change it.
fn live_frames(pair: &CardPair, finding: &mut CaseReport) -> Result<()> {
    let before = pair.received()?;
    let report = pair.send(&format!("--engine xdp --count {FRAMES}"))?;
    ensure!(report["sent"] == FRAMES, "{report}");
    let is_told = !lines(&report["engine"]["why"]).contains("does not report");
    let arrived = pair.arrived(before, FRAMES)?;
    ensure!(arrived == FRAMES || !is_told, "{arrived} of {FRAMES} frames arrived: {report}");
    finding.note("--engine xdp", if is_told { "all arrive" } else { "not all may arrive" });
    Ok(())
}

/// What each transmit queue of `tx0` has sent: frames where the driver tells them, else doorbells
/// (virtio-net of newer kernels tells frames by netlink only).
#[derive(Debug)]
struct QueueCounts {
    is_of_frames: bool,
    by_queue: BTreeMap<u32, u64>,
}

impl QueueCounts {
    fn now() -> Result<Self> {
        let text = sh("ip netns exec tx ethtool -S tx0")?;
        let of = |what: &str| {
            let lines = text.lines().filter_map(|line| line.trim().split_once(": "));
            let parsed = lines.filter_map(|(name, value)| {
                let queue = name.strip_prefix("tx")?.strip_suffix(what)?.trim_start_matches("_queue_");
                Some((queue.parse().ok()?, value.parse().ok()?))
            });
            parsed.collect::<BTreeMap<u32, u64>>()
        };
        let (frames, doorbells) = (of("_packets"), of("_kicks"));
        ensure!(frames.len() + doorbells.len() > 0, "no queue in {text}");
        let is_of_frames = !frames.is_empty();
        Ok(Self { is_of_frames, by_queue: if is_of_frames { frames } else { doorbells } })
    }

    /// What was added, without queues that sent nothing.
    fn since(self, before: &Self) -> Self {
        let added = |(queue, count)| (queue, count - before.by_queue.get(&queue).unwrap_or(&0));
        let by_queue = self.by_queue.into_iter().map(added).filter(|(_, count)| *count > 0).collect();
        Self { by_queue, ..self }
    }

    /// True when all queues in use sent, as much one as the other where `is_even`, and all frames
    /// of a run together.
    fn are_right(&self, is_even: bool) -> bool {
        let all = &self.by_queue;
        let is_fair = |count: &u64| !is_even || *count == FRAMES / u64::from(QUEUES);
        let is_whole = all.values().all(is_fair) && all.values().sum::<u64>() == FRAMES;
        all.keys().copied().eq(0..QUEUES) && (is_whole || !self.is_of_frames)
    }
}

/// Flows that spread over the receiver's queues, each frame in the file with its own; the source.
fn capture(pair: &CardPair, finding: &mut CaseReport) -> Result<String> {
    pair.start_capture(&format!("--count {CAPTURED} -w /tmp/queues.pcapng"))?;
    pair.send(&format!("--count {CAPTURED} --pps 5000 --udp-src 1000-1099"))?;
    let report = pair.end_capture()?;
    ensure!(report["written"] == CAPTURED && report["lost"] == 0, "{report}");
    let mut reader = Reader::new(BufReader::new(File::open("/tmp/queues.pcapng")?));
    let mut frames: BTreeMap<u32, u64> = BTreeMap::new();
    while let Some(block) = reader.next_block()? {
        if let Block::Packet(packet) = block {
            let queue = packet.to_buf().queue.context("a frame without its queue")?;
            *frames.entry(queue).or_default() += 1;
        }
    }
    // While XDP has queues for sending, the card fills as many for receiving.
    let is_right = frames.len() > 1 && frames.keys().all(|queue| *queue < QUEUES_MAX);
    ensure!(is_right && frames.values().sum::<u64>() == CAPTURED, "{frames:?} frames by queue: {report}");
    finding.note("captured from queues", frames.keys().map(u32::to_string).collect::<Vec<_>>().join(" and "));
    Ok(word(&report["source"]).to_owned())
}
