//! One record to one frame, or to the reason why it is not sent.

use crate::edit::{EditCounts, EditOptions, Editor, Edits};
use crate::fate::Fate;
use crate::fragments::{FragmentedPacket, NoFragments};
use crate::link_type::{LINK_TYPE_ETHERNET, LinkType, Reheader, TargetKind, UnusableLink};
use crate::outer::tag_count;
use crate::per_loop::{LoopSteps, PerLoop};
use crate::record::Record;
use crate::segment::SuperFrame;
use crate::selection::Selection;
use crate::split::{OutputPort, SplitRule};
use packet::headers::{EndCause, FirstHeader, Walk};
use packet::{FRAME_LEN_MIN, MacAddr};

const ETHERNET_LEN: u32 = 14;
const TAG_LEN: u32 = 4;
/// The longest TCP packet with its link header.
const SUPER_FRAME_LEN_MAX: u32 = 65_535 + 32;
/// The longest record of a file that libpcap reads. A damaged length may claim 4 GiB.
const FILE_FRAME_LEN_MAX: u32 = 262_144;

/// What happens to records of which the file has only the first bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CutPolicy {
    /// They are filled up with zeros to their length on the wire.
    #[default]
    Pad,
    /// They are sent as short as the file has them.
    Short,
    /// They are sent so, with length fields that say it.
    Shrink,
    /// They are not sent.
    Skip,
    /// They end the run.
    Fail,
}

/// What happens to frames that are longer than the device accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LongPolicy {
    /// They are not sent.
    #[default]
    Skip,
    /// They end the run.
    Fail,
    /// Those of TCP are sent as several segments, the others are not sent.
    Segment,
    /// Those of IP are sent as fragments, unless they forbid it.
    Fragment,
    /// Those of IP are sent as fragments.
    FragmentDf,
}

/// Everything that decides the bytes of a frame.
#[derive(Clone, Debug)]
pub struct FrameSettings {
    /// What the device sends.
    pub target: TargetKind,
    /// Destination MAC address of frames that have none in the file; without it they are not sent.
    pub dst_mac: Option<MacAddr>,
    /// Source MAC address of frames that have none in the file.
    pub src_mac: MacAddr,
    /// MTU of the device; 0 for no limit.
    pub mtu: u32,
    /// Longest frame that the engine can send.
    pub frame_len_max: u32,
    /// What happens to cut records.
    pub cut: CutPolicy,
    /// What happens to long frames.
    pub long: LongPolicy,
    /// Which records are sent.
    pub selection: Selection,
    /// Changes of every frame.
    pub edits: Edits,
    /// Changes from loop to loop.
    pub per_loop: LoopSteps,
    /// How frames are divided between two ports; all leave by the first without.
    pub split: Option<SplitRule>,
    /// A packet that cannot be edited ends the run.
    pub is_strict: bool,
}

impl Default for FrameSettings {
    fn default() -> Self {
        Self {
            target: TargetKind::default(),
            dst_mac: None,
            src_mac: MacAddr::ZERO,
            mtu: 0,
            frame_len_max: packet::FRAME_LEN_MAX,
            cut: CutPolicy::default(),
            long: LongPolicy::default(),
            selection: Selection::default(),
            edits: Edits::default(),
            per_loop: LoopSteps::default(),
            split: None,
            is_strict: false,
        }
    }
}

/// A record that ends the run, by `--cut fail`, `--long fail` or `--strict`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StopCause {
    /// `--strict`.
    #[error("packet {number} cannot be edited: {reason}")]
    NotEdited {
        /// Number of the record.
        number: u64,
        /// Why.
        reason: &'static str,
    },
    /// `--anonymize` of packets whose addresses are not found.
    #[error(
        "packet {number} has link type {}, whose addresses are not found and would stay",
        LinkType::name(*link_type)
    )]
    NotAnonymized {
        /// Number of the record.
        number: u64,
        /// LINKTYPE_ number.
        link_type: u16,
    },
    /// `--cut fail`.
    #[error("packet {number} is cut: the file has {captured_len} of its {frame_len} bytes")]
    Cut {
        /// Number of the record.
        number: u64,
        /// Bytes in the file.
        captured_len: usize,
        /// Bytes on the wire.
        frame_len: u32,
    },
    /// `--long fail`.
    #[error("packet {number} has {frame_len} bytes, the device accepts {frame_len_max}")]
    TooLong {
        /// Number of the record.
        number: u64,
        /// Length of its frame.
        frame_len: u32,
        /// The most that the device accepts.
        frame_len_max: u32,
    },
}

/// A frame to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MadeFrame<'a> {
    /// Its bytes.
    pub bytes: &'a [u8],
    /// The port that it leaves by.
    pub port: OutputPort,
    /// They are the bytes of the record.
    pub is_as_recorded: bool,
    /// They were filled up with zeros because the record is cut.
    pub is_padded_cut: bool,
    /// They were filled up with zeros to the shortest length of Ethernet.
    pub is_padded_short: bool,
    /// Length of the frame on the link, also if the file has only its first bytes; 0 if the file
    /// says so.
    pub wire_len: u32,
    /// LINKTYPE_ number of the bytes.
    pub link_type: u16,
}

/// A packet that is longer than the device or the file accepts.
#[derive(Clone, Copy, Debug)]
struct Excess {
    /// Its length, and the most that is accepted: of frames for devices, of IP packets for files.
    len: u32,
    len_max: u32,
    /// Longest frame of a part of it.
    part_len_max: u32,
}

/// A frame that is sent as several.
#[derive(Debug)]
enum Parts {
    Segments(SuperFrame),
    Fragments(FragmentedPacket),
}

impl Parts {
    fn next(&mut self, frame: &mut Vec<u8>) -> bool {
        match self {
            Self::Segments(whole) => whole.next(frame),
            Self::Fragments(packet) => packet.next(frame),
        }
    }
}

/// Makes frames of the records of one run.
#[derive(Debug)]
pub struct FrameMaker {
    settings: FrameSettings,
    /// Sums of the steps up to this loop.
    steps: PerLoop,
    loops_done: u64,
    editor: Editor,
    has_edits: bool,
    /// Packets that are too long and forbid fragments.
    dont_fragment: u64,
    /// Time of the first record of this loop that has one.
    start_ns: Option<u64>,
    /// Time of the last record after that, for records without a time.
    offset_ns: u64,
    frame: Vec<u8>,
    /// A frame of which segments or fragments are left, its port and its link type.
    parts: Option<(Parts, OutputPort, u16)>,
}

impl FrameMaker {
    /// With these settings, for the first loop.
    pub fn new(settings: FrameSettings) -> Self {
        let has_edits = settings.edits != Edits::default() || !settings.per_loop.steps.is_empty();
        Self {
            editor: Editor::new(settings.edits.clone()),
            settings,
            steps: PerLoop::default(),
            loops_done: 0,
            dont_fragment: 0,
            has_edits,
            start_ns: None,
            offset_ns: 0,
            frame: Vec::new(),
            parts: None,
        }
    }

    /// The records begin again.
    pub fn next_loop(&mut self) {
        self.loops_done += 1;
        self.steps = self.settings.per_loop.after(self.loops_done);
        (self.start_ns, self.offset_ns) = (None, 0);
    }

    /// A record that the caller does not send: `--from` and `--to` count from the first record also
    /// if it is one of these.
    pub fn pass_over(&mut self, record: &Record<'_>) {
        self.see_time(record.time_ns);
    }

    fn see_time(&mut self, time_ns: Option<u64>) {
        if let Some(time_ns) = time_ns {
            let start_ns = *self.start_ns.get_or_insert(time_ns);
            self.offset_ns = time_ns.saturating_sub(start_ns);
        }
    }

    /// The bytes of the last frame that was made, unless it is as recorded.
    pub fn bytes(&self) -> &[u8] {
        &self.frame
    }

    /// What the edits counted in the first loop.
    pub fn edit_counts(&self) -> &EditCounts {
        &self.editor.counts
    }

    /// Packets that were too long and forbid fragments.
    pub fn dont_fragment(&self) -> u64 {
        self.dont_fragment
    }

    /// The next segment or fragment of the record that [`Self::make`] got last; nothing behind the
    /// last one.
    pub fn next_segment(&mut self) -> Option<MadeFrame<'_>> {
        let (parts, port, link_type) = self.parts.as_mut()?;
        let (port, link_type) = (*port, *link_type);
        if !parts.next(&mut self.frame) {
            self.parts = None;
            return None;
        }
        let is_padded_short = self.pad_short();
        let bytes = &self.frame;
        Some(MadeFrame {
            bytes,
            port,
            is_as_recorded: false,
            is_padded_cut: false,
            is_padded_short,
            wire_len: bytes.len() as u32,
            link_type,
        })
    }

    /// Fills a short Ethernet frame up with zeros; true if it was short.
    fn pad_short(&mut self) -> bool {
        let is_ethernet = self.settings.target == TargetKind::Ethernet;
        let is_short = is_ethernet && self.frame.len() < FRAME_LEN_MIN as usize;
        if is_short {
            self.frame.resize(FRAME_LEN_MIN as usize, 0);
        }
        is_short
    }

    /// The frame of a record; the inner `Err` says why it is not sent.
    ///
    /// # Errors
    /// [`StopCause`] if the settings end the run here.
    pub fn make<'a>(&'a mut self, record: &Record<'a>) -> Result<Result<MadeFrame<'a>, Fate>, StopCause> {
        // Only then: dropping what is there is a call, for each packet.
        if self.parts.is_some() {
            self.parts = None;
        }
        self.see_time(record.time_ns);
        if !self.settings.selection.contains(record, self.offset_ns) {
            return Ok(Err(Fate::NotWanted));
        }
        let (reheader, link_type) = match self.reheader(record) {
            Ok(found) => found,
            Err(UnusableLink::NoForm) => return Ok(Err(Fate::LinkType)),
            Err(UnusableLink::Damaged) => return Ok(Err(Fate::Damaged)),
        };
        let settings = &self.settings;
        let number = record.number;
        let cut_len = if record.is_cut() { record.frame_len } else { 0 };
        if cut_len > 0 && settings.cut == CutPolicy::Skip {
            return Ok(Err(Fate::Cut));
        }
        if cut_len > 0 && settings.cut == CutPolicy::Fail {
            let (captured_len, frame_len) = (record.data.len(), record.frame_len);
            return Err(StopCause::Cut { number, captured_len, frame_len });
        }
        let padded_len = if settings.cut == CutPolicy::Pad { cut_len as usize } else { 0 };
        let padded_len = (padded_len + reheader.header().len()).saturating_sub(reheader.strip);
        let claimed_len = padded_len.max(reheader.header().len() + record.data.len() - reheader.strip);
        let len_max = match settings.long {
            _ if settings.target == TargetKind::File => {
                FILE_FRAME_LEN_MAX.max(record.data.len() as u32 + ETHERNET_LEN)
            }
            LongPolicy::Segment | LongPolicy::Fragment | LongPolicy::FragmentDf => SUPER_FRAME_LEN_MAX,
            LongPolicy::Skip | LongPolicy::Fail => packet::FRAME_LEN_MAX,
        };
        if claimed_len > len_max as usize {
            return self.too_long(number, u32::try_from(claimed_len).unwrap_or(u32::MAX), len_max);
        }
        let first = match settings.target {
            TargetKind::Ethernet => Some(FirstHeader::Ethernet),
            TargetKind::Ip => Some(FirstHeader::Ip),
            TargetKind::Monitor => None,
            TargetKind::File => FirstHeader::of_link_type(link_type),
        };
        let is_ethernet = settings.target == TargetKind::Ethernet;
        let is_whole = cut_len == 0 && (!is_ethernet || record.data.len() >= FRAME_LEN_MIN as usize);
        let may_stay = is_whole || (settings.target == TargetKind::File && settings.cut == CutPolicy::Short);
        let is_shrunk = cut_len > 0 && settings.cut == CutPolicy::Shrink;
        let is_edited = self.has_edits || is_shrunk;
        if is_edited && first.is_none() {
            self.leave_unread(record)?;
        }
        let settings = &self.settings;
        if may_stay && !(is_edited && first.is_some()) && reheader.strip == 0 && reheader.header().is_empty()
        {
            return self.as_recorded(record, first);
        }
        self.frame.clear();
        self.frame.extend_from_slice(reheader.header());
        self.frame.extend_from_slice(&record.data[reheader.strip..]);
        let port = self.port(record, &self.frame);
        let before = self.frame.len();
        let pads_first = cut_len > 0 && settings.cut == CutPolicy::Pad;
        if pads_first && padded_len > before {
            self.frame.resize(padded_len, 0);
        }
        let is_padded_cut = self.frame.len() > before;
        let whole_before = self.frame.len();
        if let Some(first) = first {
            self.edit(record, first, is_padded_cut, before)?;
        }
        let wire_len = match cut_len {
            0 if record.frame_len == 0 => 0,
            0 => self.frame.len(),
            _ if is_padded_cut || is_shrunk => self.frame.len(),
            // What the header, the tags and the file's length add up to.
            _ => (cut_len as usize + reheader.header().len() + self.frame.len())
                .saturating_sub(reheader.strip + whole_before),
        };
        if let Some(excess) = self.excess(&self.frame, first) {
            let whole = std::mem::take(&mut self.frame);
            return self.divide(number, &whole, port, (excess, first, link_type));
        }
        let is_padded_short = self.pad_short();
        let bytes = &self.frame;
        Ok(Ok(MadeFrame {
            bytes,
            port,
            is_as_recorded: false,
            is_padded_cut,
            is_padded_short,
            wire_len: if is_padded_short { bytes.len() as u32 } else { wire_len as u32 },
            link_type,
        }))
    }

    /// Edits the frame at hand, of which the file has the first `captured_len` bytes.
    fn edit(
        &mut self,
        record: &Record<'_>,
        first: FirstHeader,
        is_padded: bool,
        captured_len: usize,
    ) -> Result<(), StopCause> {
        let counts = self.loops_done == 0;
        let shrinks = record.is_cut() && self.settings.cut == CutPolicy::Shrink;
        if counts && is_padded {
            // The zeros make checksums wrong that were not so in the file, where they cannot be
            // checked.
            self.editor.inspect(&self.frame[..captured_len], first);
        } else if counts && !self.has_edits && !shrinks {
            self.editor.inspect(&self.frame, first);
        }
        if !self.has_edits && !shrinks {
            return Ok(());
        }
        let wrong_before = self.editor.counts.wrong_sums;
        let clients = &self.settings.per_loop.clients;
        let options = EditOptions { first, steps: &self.steps, clients, shrinks, counts };
        let cause = self.editor.apply(&mut self.frame, &options);
        if is_padded {
            self.editor.counts.wrong_sums = wrong_before;
        }
        match cause {
            Some(cause) if self.settings.is_strict => {
                let reason = match cause {
                    EndCause::Cut => "the file does not have the header",
                    EndCause::Encrypted => "the header is encrypted",
                    EndCause::Malformed => "a header before it contradicts itself",
                    EndCause::Fragment => "the checksum of SCTP covers the fragments behind it",
                    _ => "the header is behind one of an unknown protocol",
                };
                Err(StopCause::NotEdited { number: record.number, reason })
            }
            _ => Ok(()),
        }
    }

    /// Counts a record whose headers are not read.
    fn leave_unread(&mut self, record: &Record<'_>) -> Result<(), StopCause> {
        let Record { number, link_type, .. } = *record;
        if self.settings.edits.anonymize.is_some() {
            return Err(StopCause::NotAnonymized { number, link_type });
        }
        if self.settings.is_strict {
            return Err(StopCause::NotEdited { number, reason: "headers of its link type are not read" });
        }
        if self.loops_done == 0 {
            self.editor.counts.not_edited.count(EndCause::Unknown);
            self.editor.counts.unread_link_types.insert(link_type);
        }
        Ok(())
    }

    /// How the record becomes a frame of the device or the file, and the link type of that.
    fn reheader(&self, record: &Record<'_>) -> Result<(Reheader, u16), UnusableLink> {
        let FrameSettings { target, dst_mac, src_mac, .. } = self.settings;
        let stays = Ok((Reheader::NONE, record.link_type));
        let link_type = match LinkType::of(record.link_type) {
            None if target == TargetKind::File => return stays,
            None => return Err(UnusableLink::NoForm),
            Some(link_type) => link_type,
        };
        let target = match (target, dst_mac) {
            (TargetKind::File, Some(_)) if link_type.can_be_ethernet() => TargetKind::Ethernet,
            (TargetKind::File, _) => return stays,
            (target, _) => target,
        };
        let reheader = link_type.reheader(record.data, record.frame_len, target, (dst_mac, src_mac))?;
        let is_ethernet = target == TargetKind::Ethernet;
        Ok((reheader, if is_ethernet { LINK_TYPE_ETHERNET } else { record.link_type }))
    }

    /// A record whose bytes are those of the frame: they are not copied.
    fn as_recorded<'a>(
        &'a mut self,
        record: &Record<'a>,
        first: Option<FirstHeader>,
    ) -> Result<Result<MadeFrame<'a>, Fate>, StopCause> {
        let bytes = record.data;
        if let Some(first) = first.filter(|_| self.loops_done == 0) {
            self.editor.inspect(bytes, first);
        }
        let port = self.port(record, bytes);
        if let Some(excess) = self.excess(bytes, first) {
            return self.divide(record.number, bytes, port, (excess, first, record.link_type));
        }
        Ok(Ok(MadeFrame {
            bytes,
            port,
            is_as_recorded: true,
            is_padded_cut: false,
            is_padded_short: false,
            wire_len: record.frame_len,
            link_type: record.link_type,
        }))
    }

    /// The first segment or fragment of a frame that is too long, if it can be divided.
    fn divide<'a>(
        &'a mut self,
        number: u64,
        frame: &[u8],
        port: OutputPort,
        (excess, first, link_type): (Excess, Option<FirstHeader>, u16),
    ) -> Result<Result<MadeFrame<'a>, Fate>, StopCause> {
        let (long, len_max) = (self.settings.long, excess.part_len_max);
        let parts = match (long, first) {
            (LongPolicy::Segment, Some(first)) => SuperFrame::new(frame, first, len_max).map(Parts::Segments),
            (LongPolicy::Fragment | LongPolicy::FragmentDf, Some(first)) => {
                let divides_df = long == LongPolicy::FragmentDf;
                let packet = FragmentedPacket::new(frame, first, len_max, divides_df, number);
                self.dont_fragment +=
                    u64::from(packet.as_ref().is_err_and(|why| *why == NoFragments::DontFragment));
                packet.ok().map(Parts::Fragments)
            }
            _ => None,
        };
        match parts {
            Some(parts) => {
                self.parts = Some((parts, port, link_type));
                Ok(Ok(self.next_segment().expect("the first part has payload")))
            }
            None => self.too_long(number, excess.len, excess.len_max),
        }
    }

    fn port(&self, record: &Record<'_>, frame: &[u8]) -> OutputPort {
        let is_ethernet = self.settings.target == TargetKind::Ethernet;
        self.settings.split.as_ref().map_or(OutputPort::First, |rule| rule.port(record, frame, is_ethernet))
    }

    /// What makes a frame too long for the device and the engine, or a packet for the file.
    #[inline]
    fn excess(&self, frame: &[u8], first: Option<FirstHeader>) -> Option<Excess> {
        let FrameSettings { mtu, frame_len_max, target, .. } = self.settings;
        let by_device = match (mtu, target) {
            (0, _) | (_, TargetKind::Monitor) => u32::MAX,
            (mtu, TargetKind::Ip) => mtu,
            (mtu, TargetKind::Ethernet) => mtu + ETHERNET_LEN + (tag_count(frame).min(1) as u32) * TAG_LEN,
            (mtu, TargetKind::File) => {
                let ip = Walk::new(frame, first?).find(|header| header.protocol.is_ip())?;
                let len = (ip.end - ip.at) as u32;
                let part_len_max = ip.at as u32 + mtu;
                return (len > mtu).then_some(Excess { len, len_max: mtu, part_len_max });
            }
        };
        let (len, len_max) = (frame.len() as u32, by_device.min(frame_len_max));
        (len > len_max).then_some(Excess { len, len_max, part_len_max: len_max })
    }

    fn too_long<'a>(
        &self,
        number: u64,
        frame_len: u32,
        frame_len_max: u32,
    ) -> Result<Result<MadeFrame<'a>, Fate>, StopCause> {
        match self.settings.long {
            LongPolicy::Fail => Err(StopCause::TooLong { number, frame_len, frame_len_max }),
            _ => Ok(Err(Fate::TooLong)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edit::{FieldEdit, FieldValue, HeaderChoice, TagEdits, TagFields, TtlEdit, VlanEdit};
    use crate::sample;
    use proptest::prelude::*;

    fn record(link_type: u16, frame_len: u32, data: &[u8]) -> Record<'_> {
        Record {
            number: 7,
            time_ns: Some(0),
            frame_len,
            data,
            link_type,
            interface: 0,
            interface_name: None,
            direction: None,
            file: 0,
        }
    }

    fn made(settings: FrameSettings, record: &Record<'_>) -> Result<Vec<u8>, Fate> {
        let mut maker = FrameMaker::new(settings);
        maker.make(record).unwrap().map(|frame| frame.bytes.to_vec())
    }

    #[test]
    fn a_whole_ethernet_frame_stays_as_it_is() {
        let bytes: Vec<u8> = (0..100).collect();
        assert_eq!(made(FrameSettings::default(), &record(1, 100, &bytes)), Ok(bytes.clone()));
        // Some files have an original length of zero.
        assert_eq!(made(FrameSettings::default(), &record(1, 0, &bytes)), Ok(bytes));
    }

    #[test]
    fn a_cut_record_is_padded_shortened_skipped_or_fatal() {
        let bytes = [1; 96];
        let cut = record(1, 1000, &bytes);
        let with = |cut| FrameSettings { cut, ..FrameSettings::default() };
        let padded = made(with(CutPolicy::Pad), &cut).unwrap();
        assert_eq!((padded.len(), &padded[..96], &padded[96..]), (1000, &bytes[..], &[0; 904][..]));
        assert_eq!(made(with(CutPolicy::Short), &cut), Ok(bytes.to_vec()));
        assert_eq!(made(with(CutPolicy::Skip), &cut), Err(Fate::Cut));
        let stop = FrameMaker::new(with(CutPolicy::Fail)).make(&cut).unwrap_err();
        assert_eq!(stop.to_string(), "packet 7 is cut: the file has 96 of its 1000 bytes");
        let mut maker = FrameMaker::new(with(CutPolicy::Pad));
        let made = maker.make(&cut).unwrap().unwrap();
        assert!(made.is_padded_cut && !made.is_padded_short && !made.is_as_recorded);
    }

    #[test]
    fn a_cut_cooked_record_gets_the_length_of_its_ethernet_frame() {
        let mut sll = vec![0; 40];
        sll[14] = 8;
        let default = || FrameSettings { dst_mac: Some(MacAddr([2; 6])), ..FrameSettings::default() };
        assert_eq!(made(default(), &record(113, 116, &sll)).unwrap().len(), 114);
        assert_eq!(made(FrameSettings::default(), &record(113, 116, &sll)), Err(Fate::LinkType));
        let outer = TagFields { vlan: Some(VlanEdit::Set(3)), ..TagFields::default() };
        let vlan = Edits { tags: TagEdits { outer, ..TagEdits::default() }, ..Edits::default() };
        let settings = FrameSettings { edits: vlan, ..default() };
        assert_eq!(made(settings, &record(113, 116, &sll)).unwrap().len(), 118);
    }

    #[test]
    fn a_frame_over_the_mtu_is_skipped_or_fatal() {
        let bytes = [0; 1515];
        let with = |long| FrameSettings { mtu: 1500, long, ..FrameSettings::default() };
        assert!(made(with(LongPolicy::Skip), &record(1, 1514, &bytes[..1514])).is_ok());
        assert_eq!(made(with(LongPolicy::Skip), &record(1, 1515, &bytes)), Err(Fate::TooLong));
        let stop = FrameMaker::new(with(LongPolicy::Fail)).make(&record(1, 1515, &bytes)).unwrap_err();
        assert_eq!(stop.to_string(), "packet 7 has 1515 bytes, the device accepts 1514");
        let mut tagged = [0; 1518];
        tagged[12] = 0x81;
        assert!(made(with(LongPolicy::Skip), &record(1, 1518, &tagged)).is_ok());
        // The same for a length that the file only claims.
        assert_eq!(made(with(LongPolicy::Skip), &record(1, u32::MAX, &bytes)), Err(Fate::TooLong));
    }

    #[test]
    fn a_long_tcp_frame_becomes_segments_and_others_stay_too_long() {
        let settings = || FrameSettings { mtu: 1500, long: LongPolicy::Segment, ..FrameSettings::default() };
        let link = || etherparse::PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([1; 4], [2; 4], 64);
        let (mut tcp, mut udp) = (Vec::new(), Vec::new());
        link().tcp(1, 2, 3, 4).write(&mut tcp, &[7; 65_000]).unwrap();
        link().udp(1, 2).write(&mut udp, &[7; 3000]).unwrap();
        let ttl = FieldEdit { choice: HeaderChoice::Outermost, value: FieldValue::Ttl(TtlEdit::Set(9)) };
        for edits in [Edits::default(), Edits { fields: vec![ttl], ..Edits::default() }] {
            let mut maker = FrameMaker::new(FrameSettings { edits, ..settings() });
            let made = maker.make(&record(1, tcp.len() as u32, &tcp)).unwrap().unwrap();
            let (mut payload, mut count) = (made.bytes.len() - 54, 1);
            while let Some(segment) = maker.next_segment() {
                assert!(segment.bytes.len() <= 1514);
                (payload, count) = (payload + segment.bytes.len() - 54, count + 1);
            }
            assert_eq!((payload, count), (65_000, 65_000_usize.div_ceil(1460)));
            assert_eq!(maker.make(&record(1, udp.len() as u32, &udp)).unwrap(), Err(Fate::TooLong));
            assert!(maker.next_segment().is_none());
            let short = maker.make(&record(1, 100, &tcp[..100])).unwrap().unwrap();
            assert_eq!(short.bytes.len(), 100);
            assert!(maker.next_segment().is_none());
        }
    }

    /// The lengths from the IP header on of all packets that a record of a file becomes. Their
    /// headers agree.
    fn parts(settings: FrameSettings, link_type: u16, frame: &[u8]) -> Vec<usize> {
        let mut maker = FrameMaker::new(FrameSettings { target: TargetKind::File, ..settings });
        let first = FirstHeader::of_link_type(link_type).unwrap();
        let record = record(link_type, frame.len() as u32, frame);
        let mut made: Vec<_> =
            maker.make(&record).unwrap().map(|made| made.bytes.to_vec()).into_iter().collect();
        while let Some(part) = maker.next_segment() {
            made.push(part.bytes.to_vec());
        }
        let ip_len = |bytes: &Vec<u8>| {
            let mut headers = Walk::new(bytes, first);
            let ip = headers.find(|header| {
                assert!(header.is_whole(), "{header:?} {bytes:02x?}");
                header.protocol.is_ip()
            });
            ip.map_or(0, |ip| ip.end - ip.at)
        };
        made.iter().map(ip_len).collect()
    }

    /// `--mtu` took each frame of a file for plain Ethernet without a trailer, and lengths in front
    /// of IP stayed those of the whole packet.
    #[test]
    fn packets_of_files_are_measured_from_the_ip_header_on() {
        type Form<'a> = (u16, &'a dyn Fn(&[u8]) -> Vec<u8>);
        let way = sample::Ends { src: [10, 0, 0, 1].into(), dst: [10, 0, 0, 2].into() };
        let packet = |len: usize| sample::ip(way, 6, &sample::tcp(way, (1, 2), &vec![7; len - 40]));
        let sll = |packet: &[u8]| [&[0; 14][..], &[8, 0], packet].concat();
        let sll2 = |packet: &[u8]| [&[8, 0][..], &[0; 18], packet].concat();
        let trailer = |packet: &[u8]| [&sample::ethernet(packet)[..], &[9; 4]].concat();
        let behind = |head: &[u8], packet: &[u8]| [&sample::MACS, head, packet].concat();
        let len_of = |packet: &[u8], more: usize| ((packet.len() + more) as u16).to_be_bytes();
        let pppoe = |packet: &[u8]| {
            let [high, low] = len_of(packet, 2);
            behind(&[0x88, 0x64, 0x11, 0, 0, 1, high, low, 0, 0x21], packet)
        };
        let snap = |packet: &[u8]| {
            let [high, low] = len_of(packet, 8);
            behind(&[high, low, 0xaa, 0xaa, 3, 0, 0, 0, 8, 0], packet)
        };
        let tagged_snap = |packet: &[u8]| {
            let [high, low] = len_of(packet, 8);
            behind(&[0x81, 0, 0, 7, high, low, 0xaa, 0xaa, 3, 0, 0, 0, 8, 0], packet)
        };
        let raw = |packet: &[u8]| packet.to_vec();
        let forms: [Form<'_>; 7] = [
            (113, &sll),
            (276, &sll2),
            (101, &raw),
            (1, &trailer),
            (1, &pppoe),
            (1, &snap),
            (1, &tagged_snap),
        ];
        for (link_type, form) in forms {
            let with = |long, len| {
                parts(
                    FrameSettings { mtu: 600, long, ..FrameSettings::default() },
                    link_type,
                    &form(&packet(len)),
                )
            };
            for long in [LongPolicy::Skip, LongPolicy::Segment, LongPolicy::Fragment] {
                assert_eq!(with(long, 600), [600], "{link_type} {long:?}");
            }
            assert_eq!(with(LongPolicy::Skip, 601), [0; 0], "{link_type}");
            assert_eq!(with(LongPolicy::Segment, 1200), [600, 600, 80], "{link_type}");
            assert_eq!(with(LongPolicy::Fragment, 1196), [596, 596, 44], "{link_type}");
        }
    }

    #[test]
    fn records_that_are_padded_beyond_an_ip_packet_are_written() {
        let settings = || FrameSettings {
            target: TargetKind::File,
            frame_len_max: u32::MAX,
            ..FrameSettings::default()
        };
        let made = |frame_len| made(settings(), &record(1, frame_len, &[1; 60])).map(|bytes| bytes.len());
        assert_eq!(made(66_000), Ok(66_000));
        assert_eq!(made(u32::MAX), Err(Fate::TooLong), "a damaged length");
    }

    /// `--cut shrink` lowered the UDP length of whole first fragments.
    #[test]
    fn whole_records_keep_their_lengths() {
        let way = sample::Ends { src: [10, 0, 0, 1].into(), dst: [10, 0, 0, 2].into() };
        let mut frame = sample::ethernet(&sample::ip(way, 17, &sample::udp(way, (1, 2), &[7; 80])[..48]));
        frame[20] = 0x20;
        let settings =
            FrameSettings { target: TargetKind::File, cut: CutPolicy::Shrink, ..FrameSettings::default() };
        let mut maker = FrameMaker::new(settings);
        let len = frame.len() as u32;
        assert!(maker.make(&record(1, len, &frame)).unwrap().unwrap().is_as_recorded);
        assert!(!maker.make(&record(1, len + 20, &frame)).unwrap().unwrap().is_as_recorded);
    }

    /// Files of PPP and 802.11 were copied as if they had been edited.
    #[test]
    fn records_whose_headers_are_not_read_are_counted_or_refused() {
        let ttl = FieldEdit { choice: HeaderChoice::Outermost, value: FieldValue::Ttl(TtlEdit::Set(9)) };
        let edits = || Edits { fields: vec![ttl], ..Edits::default() };
        let with = |edits| FrameSettings { target: TargetKind::File, edits, ..FrameSettings::default() };
        let mut maker = FrameMaker::new(with(edits()));
        assert!(maker.make(&record(9, 60, &[1; 60])).unwrap().unwrap().is_as_recorded);
        assert_eq!(maker.edit_counts().not_edited.unknown, 1);
        assert_eq!(maker.edit_counts().unread_link_types, [9].into());
        let strict = FrameSettings { is_strict: true, ..with(edits()) };
        let why = FrameMaker::new(strict).make(&record(9, 60, &[1; 60])).unwrap_err();
        assert!(matches!(why, StopCause::NotEdited { number: 7, .. }), "{why}");
        let anonymize = Edits { anonymize: Some(crate::AnonymizeKey::of_text(b"k")), ..Edits::default() };
        let why = FrameMaker::new(with(anonymize)).make(&record(105, 60, &[1; 60])).unwrap_err();
        let text = "packet 7 has link type 105 (IEEE802_11), whose addresses are not found and would stay";
        assert_eq!(why.to_string(), text);
        let mut maker = FrameMaker::new(with(Edits::default()));
        maker.make(&record(9, 60, &[1; 60])).unwrap().unwrap();
        assert_eq!(maker.edit_counts().not_edited.unknown, 0, "there are no edits");
    }

    #[test]
    fn short_frames_are_padded_to_sixty_bytes_and_counted() {
        let mut maker = FrameMaker::new(FrameSettings::default());
        let short = record(1, 20, &[9; 20]);
        let made = maker.make(&short).unwrap().unwrap();
        assert_eq!(made.bytes, [&[9; 20][..], &[0; 40]].concat());
        assert!(made.is_padded_short && !made.is_padded_cut);
    }

    #[test]
    fn link_types_without_a_form_and_damaged_records_are_named() {
        let default = FrameSettings::default;
        assert_eq!(made(default(), &record(9, 60, &[0; 60])), Err(Fate::LinkType));
        assert_eq!(made(default(), &record(127, 60, &[0; 60])), Err(Fate::LinkType));
        assert_eq!(made(default(), &record(1, 5, &[0; 5])), Err(Fate::Damaged));
        assert_eq!(made(default(), &record(113, 15, &[0; 15])), Err(Fate::Damaged));
    }

    #[test]
    fn addresses_step_from_loop_to_loop() {
        let mut frame = Vec::new();
        let builder = etherparse::PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([10, 0, 0, 1], [9; 4], 64);
        builder.udp(1, 2).write(&mut frame, &[0; 40]).unwrap();
        let step = PerLoop { src: 256, ..PerLoop::default() };
        let per_loop = LoopSteps { steps: vec![(step, 1)], ..LoopSteps::default() };
        let mut maker = FrameMaker::new(FrameSettings { per_loop, ..FrameSettings::default() });
        let mut sources = Vec::new();
        for _ in 0..3 {
            let made = maker.make(&record(1, frame.len() as u32, &frame)).unwrap().unwrap();
            sources.push(made.bytes[26..30].to_vec());
            maker.next_loop();
        }
        assert_eq!(sources, [[10, 0, 0, 1], [10, 0, 1, 1], [10, 0, 2, 1]]);
    }

    /// `--each-loop src+=256` moved the servers' answers to other hosts.
    #[test]
    fn clients_step_in_both_directions_of_a_session() {
        let frame = |src: [u8; 4], dst: [u8; 4]| {
            let mut frame = Vec::new();
            let builder = etherparse::PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4(src, dst, 64);
            builder.udp(1, 2).write(&mut frame, &[0; 40]).unwrap();
            frame
        };
        let (client, server) = ([10, 1, 0, 1], [10, 2, 0, 2]);
        let step = PerLoop { clients: 256, ..PerLoop::default() };
        let clients = [std::net::IpAddr::from(client)].into();
        let per_loop = LoopSteps { steps: vec![(step, 1)], clients };
        let mut maker = FrameMaker::new(FrameSettings { per_loop, ..FrameSettings::default() });
        maker.next_loop();
        for (way, moved) in [
            (frame(client, server), frame([10, 1, 1, 1], server)),
            (frame(server, client), frame(server, [10, 1, 1, 1])),
        ] {
            let made = maker.make(&record(1, way.len() as u32, &way)).unwrap().unwrap();
            assert_eq!(made.bytes, moved);
        }
    }

    proptest! {
        #[test]
        fn any_record_has_a_frame_or_a_fate(
            link_type in prop_oneof![Just(0u16), Just(1), Just(101), Just(113), Just(276), Just(105), any::<u16>()],
            frame_len: u32,
            data in proptest::collection::vec(any::<u8>(), 0..80),
            is_ip: bool,
        ) {
            let target = if is_ip { TargetKind::Ip } else { TargetKind::Ethernet };
            let step = PerLoop { dst: 1, dst_port: 1, vlan: 1, ..PerLoop::default() };
            let per_loop = LoopSteps { steps: vec![(step, 1)], ..LoopSteps::default() };
            let dst_mac = Some(MacAddr([2; 6]));
            let settings = FrameSettings { target, per_loop, mtu: 1500, dst_mac, ..FrameSettings::default() };
            let mut maker = FrameMaker::new(settings);
            maker.next_loop();
            let record = record(link_type, frame_len, &data);
            if let Ok(frame) = maker.make(&record).unwrap() {
                prop_assert!(frame.bytes.len() <= 1518);
                prop_assert!(is_ip || frame.bytes.len() >= 60);
            }
        }
    }
}
