//! The frames of a run with their due times, and the fate of each packet that gives none.

use super::args::{Args, Speed};
use super::fields::SplitChoice;
use super::first_pass::{first_pass, role_note};
use super::loop_cache::{CachePlace, FrameFacts, LoopCache, PacketOutcome};
use super::target::TargetFacts;
use crate::edit_args::EditArgs;
use crate::edit_args::policies::Checksums;
use crate::edit_args::report::EditReport;
use capture::FileFilter;
use capture_files::damage::Damages;
use capture_files::playlist::{Played, Playlist, PlaylistOptions};
use packet::{Arrivals, Rate};
use program::monitor::sources::{POSITION_EVERY, ReplayCounts};
use program::outcome::Failure;
use program::rate_options::{frame_rate, rate_on_line, unknown_speed};
use program::seed::fresh_seed;
use program::stop::Stop;
use replay::{
    Due, Fate, Fates, FrameMaker, FrameSettings, HostRoles, LinkType, LoopSteps, OutputPort, Selection,
    SplitRule, TargetKind, Timing, TimingRule,
};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use units::{Nanos, human_count, human_duration};

/// Picoseconds in a second.
/// A longer pause of the file is announced before it.
const PAUSE_NS_SILENT: u64 = 60_000_000_000;
/// Gaps of the files that are named; the others are counted.
const GAP_NOTES_MAX: usize = 5;

/// The next frame, whose bytes [`Player::frame`] has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextFrame {
    /// When it is due, in nanoseconds after the first frame.
    pub due_ns: u64,
    /// The device that it is for.
    pub port: OutputPort,
}

/// What a run does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlayerStep {
    /// A frame, whose bytes [`Player::frame`] has.
    Frame(NextFrame),
    /// All frames so far come again, this many more; [`Player::repeated`] counts those that the
    /// caller plays by itself.
    Repeat(u64),
    /// Nothing.
    End,
}

/// What comes next.
#[derive(Clone, Copy)]
enum NextPacket {
    /// A packet, whose outcome the player has.
    Packet,
    NextLoop,
    End,
}

/// Where the bytes of the last frame are.
#[derive(Clone, Debug, Default)]
enum FrameBytes {
    /// As the file has them.
    #[default]
    Recorded,
    /// As the maker made them.
    Made,
    /// In the cache.
    Kept(Range<usize>),
}

/// Frames of a run, one at a time.
pub struct Player {
    playlist: Playlist,
    edit: EditArgs,
    filter: Option<FileFilter>,
    maker: FrameMaker,
    timing: Timing,
    target: TargetKind,
    /// All loops are alike and without gaps, so they can be played without the player.
    may_repeat: bool,
    /// The repetition was offered to the caller.
    has_offered: bool,
    /// Other threads see the counts of the end, not those on the way to it.
    is_silent: bool,
    count_max: u64,
    due_ns_max: u64,
    frames: u64,
    loop_frames: u64,
    /// Fates of the packets without a frame; the caller counts the others.
    fates: Fates,
    /// For other threads.
    counts: Arc<ReplayCounts>,
    backwards: u64,
    padded_cut: u64,
    padded_short: u64,
    /// Frames beyond one of each packet.
    next_segments: u64,
    /// Time of the packet at hand, for its segments.
    packet_time_ns: Option<u64>,
    /// Each loop has other flows.
    has_other_flows: bool,
    /// A file has begun since the last frame.
    begins_file: bool,
    /// The options keep all gaps between files.
    keeps_gaps: bool,
    /// Notes are printed before the frames that they are about.
    is_live: bool,
    gap_notes: GapNotes,
    first_time_ns: Option<u64>,
    /// The packets of the first loop, if all loops have the same frames and the memory suffices.
    cache: Option<LoopCache>,
    /// The next packet of the cache, once the first loop is over.
    cache_place: Option<CachePlace>,
    bytes: FrameBytes,
    /// Of the packet at hand. It stays here, since small fields that were just written are slow to
    /// copy as one.
    outcome: PacketOutcome,
    /// Link types without a form on the device, and packets of each.
    refused_links: BTreeMap<u16, u64>,
    stopped_by: Option<String>,
    /// What `--split auto` found.
    role_note: Option<String>,
}

/// Long gaps of the files and those that were left out, in words.
#[derive(Debug, Default)]
struct GapNotes {
    notes: Vec<String>,
    others: u64,
}

impl GapNotes {
    fn add(&mut self, note: String, is_printed: bool) {
        if self.notes.len() == GAP_NOTES_MAX {
            self.others += 1;
            return;
        }
        if is_printed {
            program::note!("{note}");
        }
        self.notes.push(note);
    }

    fn into_notes(self) -> impl Iterator<Item = String> {
        let others = human_count(self.others);
        let rest = (self.others > 0).then(|| format!("{others} more gaps of the files of that kind"));
        self.notes.into_iter().chain(rest)
    }
}

/// The timing of the arguments, on a device whose line has `line_bps` bits per second, if that is
/// known. A Poisson process without a seed takes `fresh_seed`.
fn timing_rule(args: &Args, line_bps: Option<u64>, fresh_seed: u64) -> Result<TimingRule, Failure> {
    let rate = match (args.rate, args.pps, args.delay) {
        (Some(rate), ..) => {
            let act = || format!("send {rate} of the line rate on {}", args.device);
            Some(rate_on_line(rate, || line_bps.ok_or_else(|| unknown_speed(act())))?)
        }
        (_, Some(pps), _) => Some(frame_rate(pps)?),
        (.., delay) => delay.and_then(|Nanos(ns)| Rate::from_interval_ns(ns)),
    };
    let arrivals = match args.arrivals.unwrap_or_default() {
        Arrivals::Poisson { seed } => Arrivals::Poisson { seed: seed.or(Some(fresh_seed)) },
        arrivals => arrivals,
    };
    match (rate, args.speed) {
        (Some(rate), _) => Ok(TimingRule::Rate { rate, arrivals }),
        _ if arrivals != Arrivals::Constant => {
            Err(Failure::usage("use --arrivals", "an arrival process needs a rate of frames or bits")
                .try_this("--pps 10k, or another rate"))
        }
        (None, Some(Speed::Factor { times, per })) => Ok(TimingRule::Original { times, per }),
        (None, Some(Speed::Top)) => Ok(TimingRule::Top),
        (None, None) if args.delay.is_some() => Ok(TimingRule::Top),
        (None, None) => Ok(TimingRule::Original { times: 1, per: 1 }),
    }
}

/// Everything that decides the bytes of frames.
///
/// # Errors
/// Bad usage for edits that contradict each other.
fn settings(args: &Args, facts: &TargetFacts, roles: Option<&HostRoles>) -> Result<FrameSettings, Failure> {
    let edits = args.edit.edits()?;
    let needs_clients = args.each_loop.iter().any(|step| step.needs_roles());
    let per_loop = LoopSteps {
        steps: args.each_loop.iter().map(|step| step.per_loop()).collect(),
        clients: roles.filter(|_| needs_clients).map(HostRoles::clients).unwrap_or_default(),
    };
    Ok(FrameSettings {
        target: facts.kind,
        // MAC addresses have no meaning on a loopback device, whose own is zero. A device that
        // receives packets takes those for its own address.
        dst_mac: args.edit.new_dst_mac().or((facts.mac.is_zero() || args.receives()).then_some(facts.mac)),
        src_mac: args.edit.new_src_mac().unwrap_or(facts.mac),
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
        split: match (&args.split, roles) {
            (Some(SplitChoice::Rule(rule)), _) => Some(rule.clone()),
            (Some(SplitChoice::Auto), roles) => roles.map(|roles| SplitRule::Servers(roles.servers())),
            (None, _) => None,
        },
        is_strict: args.strict,
    })
}

impl Player {
    /// How the due times of frames come about.
    pub fn timing_rule(&self) -> TimingRule {
        self.timing.rule()
    }

    /// Opens the files.
    ///
    /// # Errors
    /// Bad usage, a filter that cannot be compiled, or a file that cannot be opened.
    pub fn new(args: &Args, facts: &TargetFacts, stop: &Stop) -> Result<Self, Failure> {
        let compile = |expression: &String| FileFilter::new(expression, stop.flag());
        let filter = args.filter.as_ref().map(compile).transpose();
        let filter = filter.map_err(|why| Failure::capture("filter the packets", why))?;
        let (gap_ns_max, loop_gap_ns) = (args.max_gap.map(|gap| gap.0), args.loop_gap.map_or(0, |gap| gap.0));
        let rule = timing_rule(args, facts.line_bps, fresh_seed())?;
        let is_alike = args.loops != 1 && args.each_loop.is_empty();
        let timing = Timing::new(rule, gap_ns_max, loop_gap_ns);
        let roles = first_pass(args, facts, settings(args, facts, None)?, stop)?;
        Ok(Self {
            may_repeat: is_alike && rule == TimingRule::Top && loop_gap_ns == 0,
            playlist: Playlist::open(
                args.files.clone(),
                PlaylistOptions {
                    command: format!("replay {}", args.device),
                    merges: args.merges(),
                    sorts: args.sort,
                    loops: args.loops,
                    fcs: args.edit.fcs.into(),
                    console: stop.console().clone(),
                    ..PlaylistOptions::default()
                },
            )?,
            edit: args.edit.clone(),
            filter,
            maker: FrameMaker::new(settings(args, facts, roles.as_ref())?),
            role_note: roles.map(|roles| role_note(args, &roles)),
            timing,
            target: facts.kind,
            has_offered: false,
            is_silent: false,
            count_max: args.count.map_or(0, |count| count.0),
            due_ns_max: args.duration.map_or(0, |duration| duration.0),
            frames: 0,
            loop_frames: 0,
            fates: Fates::default(),
            counts: Arc::default(),
            backwards: 0,
            padded_cut: 0,
            padded_short: 0,
            next_segments: 0,
            packet_time_ns: None,
            has_other_flows: !args.each_loop.is_empty(),
            begins_file: false,
            keeps_gaps: args.keep_gaps,
            is_live: !args.dry_run,
            gap_notes: GapNotes::default(),
            first_time_ns: None,
            cache: is_alike.then(LoopCache::default),
            cache_place: None,
            bytes: FrameBytes::default(),
            outcome: PacketOutcome::Missing { fate: Fate::NotWanted, link_type: 0 },
            refused_links: BTreeMap::new(),
            stopped_by: None,
        })
    }

    /// The next frame; nothing at the end.
    ///
    /// # Errors
    /// Refused when a file of the next loop cannot be opened.
    pub fn advance(&mut self) -> Result<Option<NextFrame>, Failure> {
        loop {
            match self.step()? {
                PlayerStep::Frame(frame) => return Ok(Some(frame)),
                PlayerStep::Repeat(_) => {}
                PlayerStep::End => return Ok(None),
            }
        }
    }

    /// The next step.
    ///
    /// # Errors
    /// Refused when a file of the next loop cannot be opened.
    pub fn step(&mut self) -> Result<PlayerStep, Failure> {
        if std::mem::take(&mut self.has_offered) {
            self.counts.set_loop_len(0);
        }
        if self.stopped_by.is_some() || (self.count_max > 0 && self.frames == self.count_max) {
            return Ok(PlayerStep::End);
        }
        loop {
            let next = match self.cache_place {
                Some(place) => self.kept(place),
                None => self.read()?,
            };
            match next {
                // Without an end to the loops this would never return.
                NextPacket::NextLoop if self.loop_frames == 0 => return Ok(PlayerStep::End),
                NextPacket::End => return Ok(PlayerStep::End),
                NextPacket::NextLoop => {
                    self.begin_loop();
                    match self.repeat() {
                        Some(more) => return Ok(PlayerStep::Repeat(more)),
                        None => continue,
                    }
                }
                NextPacket::Packet => {}
            }
            let facts = match &self.outcome {
                PacketOutcome::Frame(facts) => facts,
                PacketOutcome::Missing { fate, link_type } => {
                    let (fate, link_type) = (*fate, *link_type);
                    if fate == Fate::LinkType {
                        *self.refused_links.entry(link_type).or_default() += 1;
                    }
                    self.count(fate);
                    if self.stopped_by.is_some() {
                        return Ok(PlayerStep::End);
                    }
                    continue;
                }
            };
            let (time_ns, port) = (facts.time_ns, facts.port);
            if facts.begins_file {
                self.timing.next_file(self.keeps_gaps);
            }
            let due = self.timing.next(time_ns, facts.frame_len);
            let is_after_end = self.due_ns_max > 0 && due.ns >= self.due_ns_max;
            if !is_after_end {
                self.backwards += u64::from(due.is_backwards);
                self.padded_cut += u64::from(facts.is_padded_cut);
                self.padded_short += u64::from(facts.is_padded_short);
                self.next_segments += u64::from(facts.is_next_segment);
                self.first_time_ns = self.first_time_ns.or(time_ns);
            }
            self.note_gap(&due);
            if is_after_end {
                self.count(Fate::AfterEnd);
                return Ok(PlayerStep::End);
            }
            if self.frames.is_multiple_of(POSITION_EVERY)
                && let Some(position) = self.position()
            {
                self.counts.set_position(self.frames, position);
            }
            self.frames += 1;
            self.loop_frames += 1;
            return Ok(PlayerStep::Frame(NextFrame { due_ns: due.ns, port }));
        }
    }

    /// Notes a gap of the files that the user may not expect. Further loops have the gaps of the
    /// first one.
    fn note_gap(&mut self, due: &Due) {
        if self.cache_place.is_some() || self.playlist.loops_done() > 0 {
            return;
        }
        if let Some(left_out_ns) = due.left_out_ns {
            let gap = human_duration(u64::try_from(left_out_ns.unsigned_abs()).unwrap_or(u64::MAX));
            let path = self.playlist.path().display();
            let note = match left_out_ns < 0 {
                true => {
                    format!("{path} begins {gap} before the file in front of it ends; it follows at once")
                }
                false => format!(
                    "{path} begins {gap} after the file in front of it ends; it follows at once \
                     (--keep-gaps waits)"
                ),
            };
            self.gap_notes.add(note, false);
        }
        if due.pause_ns > PAUSE_NS_SILENT {
            let seconds = human_count(due.pause_ns.div_ceil(1_000_000_000));
            let number = self.playlist.record().number;
            let note =
                format!("the file pauses for {seconds} s at packet {number}; --max-gap 1s shortens it");
            self.gap_notes.add(note, self.is_live);
        }
    }

    /// The part of the files that this loop has read.
    fn position(&self) -> Option<f64> {
        match (self.cache_place, &self.cache) {
            (Some(place), Some(cache)) => cache.position(place),
            _ => self.playlist.position(),
        }
    }

    /// The counts that other threads read.
    pub fn counts(&self) -> Arc<ReplayCounts> {
        Arc::clone(&self.counts)
    }

    /// Counts a packet without a frame.
    fn count(&mut self, fate: Fate) {
        self.fates.count(fate);
        if !self.is_silent {
            self.counts.count(fate);
        }
    }

    fn begin_loop(&mut self) {
        self.counts.set_loops(self.playlist.loops_done());
        self.loop_frames = 0;
        self.maker.next_loop();
        self.timing.next_loop();
        if self.cache.is_some() {
            self.cache_place.get_or_insert_default();
        }
    }

    /// Frames that come if all loops are as the one that has ended; nothing if they are not.
    fn repeat(&mut self) -> Option<u64> {
        self.cache.as_ref()?;
        if !std::mem::take(&mut self.may_repeat) {
            return None;
        }
        self.has_offered = true;
        self.counts.set_loop_len(self.frames);
        let loops = self.playlist.loops_to_come();
        let frames = loops.map_or(u64::MAX, |loops| loops.saturating_mul(self.frames));
        Some(if self.count_max > 0 { frames.min(self.count_max - self.frames) } else { frames })
    }

    /// The caller has played this many frames of [`PlayerStep::Repeat`] by itself.
    ///
    /// # Errors
    /// Refused when a file of the next loop cannot be opened.
    pub fn repeated(&mut self, frames: u64) -> Result<(), Failure> {
        (self.has_offered, self.is_silent) = (false, true);
        let loop_len = self.frames;
        // A run that ends by its count does not go on to the end of the loop.
        let ends_by_count = self.count_max > 0 && self.frames + frames == self.count_max;
        let loops = frames.saturating_sub(u64::from(ends_by_count)) / loop_len;
        let rest = frames - loops * loop_len;
        // Until now there was one loop, so all counts are those of a loop.
        let fates = self.fates;
        self.fates.merge_times(&fates, loops);
        let counts = [&mut self.backwards, &mut self.padded_cut, &mut self.padded_short];
        for count in counts.into_iter().chain([&mut self.next_segments, &mut self.frames]) {
            *count += *count * loops;
        }
        self.refused_links.values_mut().for_each(|count| *count += *count * loops);
        self.playlist.skip_loops(loops);
        for _ in 0..rest {
            self.advance()?;
        }
        Ok(())
    }

    /// The next packet of a loop after the first.
    fn kept(&mut self, mut place: CachePlace) -> NextPacket {
        let cache = self.cache.as_ref().expect("there is a place in it");
        let next = cache.next(&mut place);
        self.cache_place = Some(place);
        match next {
            Some((packet, bytes)) => {
                self.bytes = FrameBytes::Kept(bytes);
                self.outcome = packet;
                NextPacket::Packet
            }
            None if self.playlist.repeat() == Played::NextLoop => NextPacket::NextLoop,
            None => NextPacket::End,
        }
    }

    /// The next packet of the files, which is kept for further loops.
    fn read(&mut self) -> Result<NextPacket, Failure> {
        if !self.next_segment() {
            match self.playlist.advance()? {
                Played::End => return Ok(NextPacket::End),
                Played::NextLoop => return Ok(NextPacket::NextLoop),
                Played::Packet => self.make()?,
            }
        }
        if let Some(mut cache) = self.cache.take() {
            let frame = if matches!(self.outcome, PacketOutcome::Frame(_)) { self.frame() } else { &[] };
            if cache.add(self.outcome, frame) {
                self.cache = Some(cache);
            }
        }
        Ok(NextPacket::Packet)
    }

    /// The next segment of the packet at hand. False if there is none.
    fn next_segment(&mut self) -> bool {
        let Some(segment) = self.maker.next_segment() else { return false };
        self.bytes = FrameBytes::Made;
        self.outcome = PacketOutcome::Frame(FrameFacts {
            time_ns: self.packet_time_ns,
            frame_len: segment.bytes.len() as u32,
            port: segment.port,
            is_padded_cut: false,
            is_padded_short: segment.is_padded_short,
            is_next_segment: true,
            begins_file: false,
        });
        true
    }

    /// The frame of the packet at hand.
    fn make(&mut self) -> Result<(), Failure> {
        self.begins_file |= self.playlist.begins_file();
        let record = self.playlist.record();
        let link_type = record.link_type;
        let missing = |fate| PacketOutcome::Missing { fate, link_type };
        if let Some(filter) = &mut self.filter {
            // Some files have an original length of zero.
            let frame_len = record.frame_len.max(record.data.len() as u32);
            match filter.accepts(link_type, record.data, frame_len) {
                Ok(true) => {}
                Ok(false) => {
                    self.maker.pass_over(&record);
                    self.outcome = missing(Fate::NotWanted);
                    return Ok(());
                }
                Err(why) => {
                    self.count(Fate::AfterEnd);
                    return Err(Failure::capture("filter the packets", why));
                }
            }
        }
        self.packet_time_ns = record.time_ns;
        // In place: a copy of what was just written waits for the stores.
        match self.maker.make(&record) {
            Ok(Ok(made)) => {
                self.bytes = if made.is_as_recorded { FrameBytes::Recorded } else { FrameBytes::Made };
                self.outcome = PacketOutcome::Frame(FrameFacts {
                    time_ns: record.time_ns,
                    frame_len: made.bytes.len() as u32,
                    port: made.port,
                    is_padded_cut: made.is_padded_cut,
                    is_padded_short: made.is_padded_short,
                    is_next_segment: false,
                    begins_file: std::mem::take(&mut self.begins_file),
                });
            }
            Ok(Err(fate)) => self.outcome = missing(fate),
            Err(stop) => {
                self.stopped_by = Some(stop.to_string());
                self.outcome = missing(Fate::AfterEnd);
            }
        }
        Ok(())
    }

    /// The bytes of the last frame.
    pub fn frame(&self) -> &[u8] {
        match &self.bytes {
            FrameBytes::Recorded => self.playlist.frame(),
            FrameBytes::Made => self.maker.bytes(),
            FrameBytes::Kept(place) => self.cache.as_ref().expect("it is in the cache").bytes(place.clone()),
        }
    }

    /// True if the flow of the last frame is to be counted: all loops have the flows of the first,
    /// unless each has others.
    pub fn counts_flows(&self) -> bool {
        self.has_other_flows || (self.cache_place.is_none() && self.playlist.loops_done() == 0)
    }

    /// Time of the first packet that gave a frame, in nanoseconds since 1970.
    pub fn first_time_ns(&self) -> u64 {
        self.first_time_ns.unwrap_or(0)
    }

    /// What is known at the end, beside what the caller sent.
    pub fn finish(mut self) -> FileReport {
        self.playlist.stop();
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
        let padded_cut = self.padded_cut;
        let fixes = self.edit.checksums == Checksums::Fix;
        let edits = EditReport::new(self.maker.edit_counts(), self.maker.dont_fragment(), fixes);
        let edit_notes = self.edit.notes(self.maker.edit_counts());
        let note = "packets that the file cuts short were padded with zeros: their checksums are wrong (--checksums fix \
                    mends them)";
        FileReport {
            loops: self.playlist.loops_done(),
            fates: self.fates,
            padded_cut,
            padded_short: self.padded_short,
            next_segments: self.next_segments,
            backwards: self.backwards,
            stopped_by: self.stopped_by,
            damages: self.playlist.damages().clone(),
            edits,
            notes: refused_links
                .chain((padded_cut > 0 && !fixes).then(|| note.to_owned()))
                .chain(edit_notes)
                .chain(self.role_note)
                .chain(self.playlist.notes())
                .chain(self.gap_notes.into_notes())
                .collect(),
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
    /// Frames beyond one of each packet.
    pub next_segments: u64,
    /// Packets with a time before that of an earlier packet.
    pub backwards: u64,
    /// The packet that ended the run, by `--cut fail` or `--long fail`.
    pub stopped_by: Option<String>,
    /// Damaged places of the files.
    pub damages: Damages,
    /// What edits counted.
    pub edits: EditReport,
    /// Notes for the user, such as an edit that reached no packet.
    pub notes: Vec<String>,
}
