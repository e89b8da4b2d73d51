//! The frames of a run with their due times, and the fate of each packet that gives none.

use super::args::{Args, Speed};
use super::playlist::{Played, Playlist};
use crate::outcome::Failure;
use crate::units::{BitRate, Nanos, Pps};
use replay::{
    Edits, Fate, Fates, FrameMaker, FrameSettings, LinkType, OutputPort, PerLoop, Selection, TargetKind,
    Timing, TimingRule,
};
use std::collections::BTreeMap;

/// Picoseconds in a second.
const SECOND_PS: u64 = 1_000_000_000_000;

/// What the device determines.
#[derive(Clone, Copy, Debug)]
pub struct TargetFacts {
    /// What it sends.
    pub kind: TargetKind,
    /// Its MTU, 0 if unknown.
    pub mtu: u32,
    /// Its MAC address.
    pub mac: packet::MacAddr,
    /// Longest frame of the engine.
    pub frame_len_max: u32,
}

/// The next frame, whose bytes [`Player::frame`] has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextFrame {
    /// When it is due, in nanoseconds after the first frame.
    pub due_ns: u64,
    /// The device that it is for.
    pub port: OutputPort,
}

/// Frames of a run, one at a time.
pub struct Player {
    playlist: Playlist,
    maker: FrameMaker,
    timing: Timing,
    target: TargetKind,
    count_max: u64,
    due_ns_max: u64,
    frames: u64,
    loop_frames: u64,
    /// Fates of the packets without a frame; the caller counts the others.
    fates: Fates,
    backwards: u64,
    first_time_ns: Option<u64>,
    /// Link types without a form on the device, and packets of each.
    refused_links: BTreeMap<u16, u64>,
    stopped_by: Option<String>,
}

/// The timing of the arguments.
fn timing_rule(args: &Args) -> Result<TimingRule, Failure> {
    let zero = |option: &str| Failure::usage(format!("send at {option} 0"), "no frame would be sent");
    match (args.rate, args.pps, args.delay, args.speed) {
        (Some(BitRate(0)), ..) => Err(zero("--rate")),
        (_, Some(Pps(0)), ..) => Err(zero("--pps")),
        (Some(BitRate(bps)), ..) => Ok(TimingRule::WireRate { bps }),
        (_, Some(Pps(pps)), ..) => Ok(TimingRule::Interval { interval_ps: SECOND_PS / pps }),
        (_, _, Some(Nanos(0)), _) | (.., Some(Speed::Top)) => Ok(TimingRule::Top),
        (_, _, Some(Nanos(ns)), _) => Ok(TimingRule::Interval { interval_ps: ns.saturating_mul(1000) }),
        (.., Some(Speed::Factor { times, per })) => Ok(TimingRule::Original { times, per }),
        (None, None, None, None) => Ok(TimingRule::Original { times: 1, per: 1 }),
    }
}

fn settings(args: &Args, facts: &TargetFacts) -> FrameSettings {
    let mut edits =
        Edits { address_maps: args.map_ip.clone(), port_maps: args.map_port.clone(), ..Edits::default() };
    args.set.iter().for_each(|field| field.apply(&mut edits));
    let mut per_loop = PerLoop::default();
    args.each_loop.iter().for_each(|step| step.apply(&mut per_loop));
    FrameSettings {
        target: facts.kind,
        // MAC addresses have no meaning on a loopback device, whose own is zero.
        dst_mac: args.dst_mac.or(edits.dst_mac).or(facts.mac.is_zero().then_some(facts.mac)),
        src_mac: args.src_mac.unwrap_or(facts.mac),
        mtu: facts.mtu,
        frame_len_max: facts.frame_len_max,
        cut: args.cut.into(),
        long: args.long.into(),
        selection: Selection {
            numbers: args.packets.clone(),
            interfaces: args.interface.clone(),
            from_ns: args.from.map_or(0, |from| from.0),
            to_ns: args.to.map(|to| to.0),
        },
        edits,
        per_loop,
        split: args.split.clone(),
    }
}

impl Player {
    /// Opens the files.
    ///
    /// # Errors
    /// Bad usage, or a file that cannot be opened.
    pub fn new(args: &Args, facts: &TargetFacts) -> Result<Self, Failure> {
        let (gap_ns_max, loop_gap_ns) = (args.max_gap.map(|gap| gap.0), args.loop_gap.map_or(0, |gap| gap.0));
        let timing = Timing::new(timing_rule(args)?, gap_ns_max, loop_gap_ns);
        Ok(Self {
            playlist: Playlist::open(args.files.clone(), &args.device, args.merge, args.loops)?,
            maker: FrameMaker::new(settings(args, facts)),
            timing,
            target: facts.kind,
            count_max: args.count.map_or(0, |count| count.0),
            due_ns_max: args.duration.map_or(0, |duration| duration.0),
            frames: 0,
            loop_frames: 0,
            fates: Fates::default(),
            backwards: 0,
            first_time_ns: None,
            refused_links: BTreeMap::new(),
            stopped_by: None,
        })
    }

    /// The next frame; nothing at the end.
    ///
    /// # Errors
    /// Refused when a file of the next loop cannot be opened.
    pub fn advance(&mut self) -> Result<Option<NextFrame>, Failure> {
        if self.stopped_by.is_some() || (self.count_max > 0 && self.frames == self.count_max) {
            return Ok(None);
        }
        loop {
            match self.playlist.advance()? {
                Played::End => return Ok(None),
                // Without an end to the loops this would never return.
                Played::NextLoop if self.loop_frames == 0 => return Ok(None),
                Played::NextLoop => {
                    self.loop_frames = 0;
                    self.maker.next_loop();
                    self.timing.next_loop();
                    continue;
                }
                Played::Damaged => {
                    self.fates.count(Fate::Damaged);
                    continue;
                }
                Played::Packet => {}
            }
            let record = self.playlist.record();
            let (time_ns, link_type) = (record.time_ns, record.link_type);
            let port = match self.maker.make(&record) {
                Ok(Ok(made)) => made.port,
                Ok(Err(fate)) => {
                    if fate == Fate::LinkType {
                        *self.refused_links.entry(link_type).or_default() += 1;
                    }
                    self.fates.count(fate);
                    continue;
                }
                Err(stop) => {
                    self.stopped_by = Some(stop.to_string());
                    self.fates.count(Fate::AfterEnd);
                    return Ok(None);
                }
            };
            let due = self.timing.next(time_ns, self.maker.bytes().len() as u32);
            if self.due_ns_max > 0 && due.ns >= self.due_ns_max {
                self.fates.count(Fate::AfterEnd);
                return Ok(None);
            }
            self.backwards += u64::from(due.is_backwards);
            self.first_time_ns.get_or_insert(time_ns);
            self.frames += 1;
            self.loop_frames += 1;
            return Ok(Some(NextFrame { due_ns: due.ns, port }));
        }
    }

    /// The bytes of the last frame.
    pub fn frame(&self) -> &[u8] {
        self.maker.bytes()
    }

    /// Time of the first packet that gave a frame, in nanoseconds since 1970.
    pub fn first_time_ns(&self) -> u64 {
        self.first_time_ns.unwrap_or(0)
    }

    /// What is known at the end, beside what the caller sent.
    pub fn finish(self) -> FileReport {
        let refused_links = self.refused_links.iter().map(|(number, count)| {
            let (name, target) = (LinkType::name(*number), self.target.describe());
            let no_mac = LinkType::of(*number).is_some() && self.target == TargetKind::Ethernet;
            let cure = if no_mac && *number != 127 && *number != 105 {
                ": --dst-mac MAC gives its IP packets an Ethernet header"
            } else {
                ""
            };
            format!("link type {name} has no form on {target} ({count} packets){cure}")
        });
        let padded_cut = self.maker.padded_cut();
        let note = "packets that the file cuts short were padded with zeros: their checksums are wrong";
        FileReport {
            loops: self.playlist.loops_done(),
            fates: self.fates,
            padded_cut,
            padded_short: self.maker.padded_short(),
            backwards: self.backwards,
            is_damaged: self.playlist.is_damaged(),
            stopped_by: self.stopped_by,
            troubles: self.playlist.troubles().to_vec(),
            notes: refused_links.chain((padded_cut > 0).then(|| note.to_owned())).collect(),
        }
    }
}

/// What the files gave.
#[derive(Clone, Debug, Default)]
pub struct FileReport {
    /// Complete loops.
    pub loops: u64,
    /// Fates of the packets without a frame.
    pub fates: Fates,
    /// Cut packets that were padded.
    pub padded_cut: u64,
    /// Short frames that were padded.
    pub padded_short: u64,
    /// Packets with a time before that of an earlier packet.
    pub backwards: u64,
    /// A file is damaged or ends too early.
    pub is_damaged: bool,
    /// The packet that ended the run, by `--cut fail` or `--long fail`.
    pub stopped_by: Option<String>,
    /// What is wrong with the files.
    pub troubles: Vec<String>,
    /// What may be unexpected.
    pub notes: Vec<String>,
}
