//! `wirerate info FILE...`: what capture files are and what is in them, a screen per file.

use capture_files::damage::Damages;
use capture_files::flows::{FlowCounter, flows_remark};
use capture_files::losses::{Losses, lost_by};
use capture_files::playlist::{odd_notes, open_records};
use capture_files::protocol::Protocol;
use capture_files::records::FileRecords;
use facts::{Described, Document};
use packet::HeaderFields;
use program::out;
use program::outcome::{Failure, Outcome};
use program::stop::Stop;
use replay::LinkType;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use units::{Table, human_bps, human_count, human_duration, human_pps, per_second, quantity_of, utc_time};

/// The report of a file.
pub const INFO: Document = Document::of::<FileReport>("wirerate.info/1", "wirerate info --json");

/// Interfaces in the report; the others are counted.
const INTERFACES_MAX: usize = 100;
/// Of these, interfaces in the text.
const INTERFACES_SHOWN: usize = 10;
/// Protocols in the text; JSON has all.
const PROTOCOLS_SHOWN: usize = 5;

/// Arguments of `wirerate info`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Capture files; - for standard input
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Print one line of JSON per file (docs/json.md)
    #[arg(short = 'J', long)]
    pub json: bool,
    /// Print no notes, only errors and the report
    #[arg(long, short)]
    pub quiet: bool,
}

/// Prints a report of each file.
///
/// # Errors
/// None of the files can be read. Otherwise those that cannot are reported and passed over.
pub fn run(args: &Args, stop: &Stop) -> Result<Outcome, Failure> {
    let mut outcome = Outcome::Done;
    let (mut unreadable, mut is_any_readable) = (None::<Failure>, false);
    for path in &args.files {
        let records = match open_records(path, "info", stop.console()) {
            Err(failure) => {
                if let Some(before) = unreadable.replace(failure) {
                    eprint!("{before}");
                }
                continue;
            }
            Ok(records) => records,
        };
        is_any_readable = true;
        let report = FileReport::read(path, records, stop);
        if !report.damages.is_empty() {
            outcome = Outcome::No;
        }
        match args.json {
            true => out::text(&out::json_line(&INFO, &report))?,
            false => out::report(&report)?,
        }
        if stop.is_set() {
            break;
        }
    }
    match unreadable {
        Some(failure) if is_any_readable => {
            eprint!("{failure}");
            Ok(Outcome::No)
        }
        Some(failure) => Err(failure),
        None => Ok(outcome),
    }
}

/// One interface of a file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Described)]
struct InterfaceFacts {
    /// Its place in the file: the section.
    section: u64,
    /// Its place in the file: the number in the section.
    number: u32,
    /// Its name; `null` if the file does not say.
    name: Option<String>,
    /// Its LINKTYPE_ number.
    link_type: u16,
    /// Its packets.
    #[fact(unit = "packets")]
    packets: u64,
    /// Bytes of its packets on the link.
    #[fact(unit = "bytes")]
    bytes: u64,
    /// Packets that the capture lost on it; `null` if the file does not say.
    #[fact(unit = "packets")]
    lost: Option<u64>,
}

/// A protocol and its packets.
#[derive(Clone, Debug, PartialEq, Serialize, Described)]
struct ProtocolFacts {
    /// Name of the protocol.
    name: String,
    /// The number of its packets.
    #[fact(unit = "packets")]
    packets: u64,
    /// Bytes of these packets.
    #[fact(unit = "bytes")]
    bytes: u64,
}

/// Everything about a file.
#[derive(Debug, Default, Serialize, Described)]
struct FileReport {
    /// Name of the file.
    file: String,
    /// Its format; `unknown` if nothing could be decompressed.
    #[fact(kind = Kind::Word(&["pcap", "pcapng", "unknown"]))]
    format: &'static str,
    /// The program that decompresses it; `null` if it is not compressed.
    compression: Option<&'static str>,
    /// Its length; `null` of a stream.
    #[fact(unit = "bytes")]
    file_len: Option<u64>,
    /// Packets in the file.
    #[fact(unit = "packets")]
    packets: u64,
    /// Bytes of the packets on the link, without frame check sequences.
    #[fact(unit = "bytes")]
    bytes: u64,
    /// Bytes of the packets in the file.
    captured_bytes: u64,
    /// Packets of which the file has only the first bytes.
    #[fact(unit = "packets")]
    cut: u64,
    /// The earliest time of a packet; `null` if no packet has one.
    first_ns: Option<u64>,
    /// The latest time of a packet; `null` if no packet has one.
    last_ns: Option<u64>,
    /// From the earliest time to the latest; `null` if no packet has one.
    duration_ns: Option<u64>,
    /// The mean rate of packets over that time; `null` without a duration.
    rate_pps: Option<f64>,
    /// The mean rate of bits over that time; `null` without a duration.
    rate_bps: Option<f64>,
    /// Packets by LINKTYPE_ number.
    #[fact(kind = Kind::Map(&Kind::Count("packets")))]
    link_types: BTreeMap<u16, u64>,
    /// The number of interfaces of a pcapng file.
    interface_count: u64,
    /// The first 100 interfaces of a pcapng file.
    interfaces: Vec<InterfaceFacts>,
    /// Packets that the capture lost; `null` if the file does not say.
    #[fact(unit = "packets")]
    lost_by_capture: Option<u64>,
    /// Flows of IP: both directions of the same addresses, ports and protocol.
    flows: u64,
    /// True if there are more than a million flows: the others are not told apart.
    has_more_flows: bool,
    /// The protocols, the most frequent first.
    protocols: Vec<ProtocolFacts>,
    /// Damaged places of the file.
    damages: Damages,
    /// Notes for the user, such as packets without a time.
    notes: Vec<String>,
}

/// Packets and bytes.
type Sum = (u64, u64);

/// Counts that are needed while a file is read.
struct Counts {
    interfaces: BTreeMap<(u64, u32), InterfaceFacts>,
    /// By number: nearly all packets are IP.
    ip_protocols: [Sum; 256],
    other_protocols: BTreeMap<Protocol, Sum>,
    flows: FlowCounter,
    losses: Losses,
    /// Packets that have a time.
    timed: Sum,
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            interfaces: BTreeMap::new(),
            ip_protocols: [(0, 0); 256],
            other_protocols: BTreeMap::new(),
            flows: FlowCounter::default(),
            losses: Losses::default(),
            timed: (0, 0),
        }
    }
}

impl Counts {
    /// What packets of a protocol are added to.
    fn protocol(&mut self, protocol: Protocol) -> &mut Sum {
        match protocol {
            Protocol::Ip(number) => &mut self.ip_protocols[usize::from(number)],
            other => self.other_protocols.entry(other).or_default(),
        }
    }
}

impl FileReport {
    fn read(path: &Path, mut records: FileRecords, stop: &Stop) -> Self {
        let mut report = Self {
            file: path.display().to_string(),
            format: records.format(),
            compression: records.program(),
            file_len: records.file_len(),
            ..Self::default()
        };
        let mut counts = Counts::default();
        while !stop.is_set() && records.advance() {
            report.count(&records, &mut counts);
        }
        for found in records.statistics() {
            counts.losses.statistics(found.interface.device().unwrap_or_default(), found);
            let place = (found.section, found.number);
            let facts = counts.interfaces.entry(place).or_insert_with(|| InterfaceFacts {
                section: found.section,
                number: found.number,
                name: found.interface.name.clone(),
                link_type: found.interface.link_type,
                ..InterfaceFacts::default()
            });
            facts.lost = facts.lost.max(lost_by(&found.statistics));
        }
        report.conclude(records, counts);
        report
    }

    fn count(&mut self, records: &FileRecords, counts: &mut Counts) {
        let (record, extras) = (records.record(0), records.extras());
        let (frame_len, captured_len) = (u64::from(record.frame_len), record.data.len() as u64);
        self.packets += 1;
        self.bytes += frame_len;
        self.captured_bytes += captured_len;
        self.cut += u64::from(record.is_cut());
        if let Some(time_ns) = record.time_ns {
            self.first_ns = Some(self.first_ns.map_or(time_ns, |first_ns| first_ns.min(time_ns)));
            self.last_ns = self.last_ns.max(Some(time_ns));
            counts.timed = (counts.timed.0 + 1, counts.timed.1 + frame_len);
        }
        *self.link_types.entry(record.link_type).or_default() += 1;
        if let Some(interface) = records.interface() {
            let section = records.sections();
            let facts =
                counts.interfaces.entry((section, record.interface)).or_insert_with(|| InterfaceFacts {
                    section,
                    number: record.interface,
                    name: interface.name.clone(),
                    link_type: record.link_type,
                    ..InterfaceFacts::default()
                });
            facts.packets += 1;
            facts.bytes += frame_len;
            if let Some(drop_count) = extras.drop_count {
                let lost = facts.lost.get_or_insert(0);
                *lost = lost.saturating_add(drop_count);
                let device = counts.losses.device(interface.device().unwrap_or_default());
                counts.losses.packet(device, record.time_ns, Some(drop_count));
            }
        }
        let headers = HeaderFields::parse(record.link_type, record.data);
        let protocol = counts.protocol(Protocol::of(&headers, record.link_type));
        *protocol = (protocol.0 + 1, protocol.1 + frame_len);
        counts.flows.see(&headers);
    }

    fn conclude(&mut self, mut records: FileRecords, mut counts: Counts) {
        self.damages = records.take_damages();
        self.notes = odd_notes(records.odd_packets()).collect();
        (self.flows, self.has_more_flows) = counts.flows.total();
        self.lost_by_capture = counts.losses.total();
        self.interface_count = records.interface_count();
        self.interfaces = counts.interfaces.into_values().take(INTERFACES_MAX).collect();
        let ip_protocols = (0..=u8::MAX).map(Protocol::Ip).zip(counts.ip_protocols);
        self.protocols = ip_protocols
            .filter(|(_, (packets, _))| *packets > 0)
            .chain(counts.other_protocols)
            .map(|(protocol, (packets, bytes))| ProtocolFacts { name: protocol.name(), packets, bytes })
            .collect();
        self.protocols.sort_by_key(|protocol| std::cmp::Reverse(protocol.packets));
        let duration_ns = self.first_ns.zip(self.last_ns).map(|(first_ns, last_ns)| last_ns - first_ns);
        self.duration_ns = duration_ns;
        let duration_ns = duration_ns.filter(|duration_ns| *duration_ns > 0);
        let (packets, bytes) = counts.timed;
        self.rate_pps = duration_ns.map(|duration_ns| per_second(packets, duration_ns));
        self.rate_bps = duration_ns.map(|duration_ns| per_second(bytes, duration_ns) * 8.0);
    }
}

impl fmt::Display for FileReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.file)?;
        let mut table = Table::default();
        let compression = self.compression.map(|program| format!(", compressed by {program}"));
        let file_len = self.file_len.map(|len| format!(", {}", quantity_of(len, "byte")));
        let [compression, file_len] = [compression, file_len].map(Option::unwrap_or_default);
        table.text("format", &format!("{}{compression}{file_len}", self.format));
        let cut = if self.cut > 0 { format!("{} cut", human_count(self.cut)) } else { String::new() };
        table.count("packets", self.packets, &cut);
        table.count("bytes", self.bytes, "on the link");
        if self.captured_bytes != self.bytes {
            table.count("captured", self.captured_bytes, "bytes in the file");
        }
        if let (Some(first_ns), Some(last_ns)) = (self.first_ns, self.last_ns) {
            table.text("first", &utc_time(first_ns));
            table.text("last", &utc_time(last_ns));
            table.text("duration", &human_duration(last_ns - first_ns));
        }
        if let (Some(pps), Some(bps)) = (self.rate_pps, self.rate_bps) {
            table.text("rate", &format!("{}, {}", human_pps(pps), human_bps(bps)));
        }
        for (number, packets) in &self.link_types {
            table.text(
                "link type",
                &format!("{}: {}", LinkType::name(*number), quantity_of(*packets, "packet")),
            );
        }
        for interface in self.interfaces.iter().take(INTERFACES_SHOWN) {
            let name = interface.name.as_deref().unwrap_or("without a name").escape_debug();
            let lost = interface.lost.map(|lost| format!(", {} lost", human_count(lost)));
            let packets = quantity_of(interface.packets, "packet");
            let text = format!("{} {name}: {packets}{}", interface.number, lost.unwrap_or_default());
            table.text("interface", &text);
        }
        let shown = self.interfaces.len().min(INTERFACES_SHOWN) as u64;
        let more = self.interface_count.saturating_sub(shown);
        if more > 0 {
            table.text("", &quantity_of(more, "more interface"));
        }
        if let Some(lost) = self.lost_by_capture {
            table.loss("lost", lost, "by the capture, as the file says");
        }
        table.count("flows", self.flows, flows_remark(self.has_more_flows));
        for protocol in self.protocols.iter().take(PROTOCOLS_SHOWN) {
            let share = protocol.packets as f64 / self.packets as f64 * 100.0;
            let packets = quantity_of(protocol.packets, "packet");
            table.text("protocol", &format!("{}: {packets}, {share:.1} %", protocol.name));
        }
        if !self.damages.is_empty() {
            table.count("damaged", self.damages.total, &format!("places: {}", self.damages.kinds_text()));
        }
        self.damages.lines().iter().for_each(|place| table.text("file", place));
        self.notes.iter().for_each(|note| table.note(note));
        fmt::Display::fmt(&table, f)
    }
}
