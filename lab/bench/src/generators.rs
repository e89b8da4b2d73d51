//! Generators, one row each: their arguments and abilities.
//!
//! Rules: the same device, the same frames, the same CPUs. The receiver counts the frames; the
//! tool's own report is not used.

use crate::frame;
use crate::programs::{Programs, ToolProgram, netns, owned};
use anyhow::{Context, Result, bail};
use host::LabEnd;
use std::path::Path;

/// Addresses and ports that count.
const RANGES: &[&str] = &["--dst", "198.18.1.1-198.18.1.254", "--udp-src", "1-255", "--udp-dst", "768-1023"];
/// Destinations that flows are drawn from: more than there are flows.
const FLOWS: &[&str] = &["--dst", "198.18.0.0/15", "--flow-len", "16"];
/// Frame lengths and weights of simple IMIX, as the traffic generators of the trade have it.
pub(crate) const IMIX: [(usize, usize); 3] = [(60, 7), (594, 4), (1514, 1)];

/// What the script of the control files says before the time of day at which it starts.
pub(crate) const STARTS: &str = "starts";
/// The generator of several streams, which reads them from a file.
pub(crate) const STREAMS: &str = "streams";
/// Streams of that file.
const STREAM_COUNT: u64 = 64;

/// What is in the frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Frames with the same bytes each time, no checksum.
    Plain,
    /// The time in each frame.
    Time,
    /// An address and ports that count.
    Ranges,
    /// A UDP checksum.
    Checksum,
    /// These three.
    Rich,
    /// Three lengths.
    Imix,
    /// ESP.
    Ipsec,
    /// So many destinations open at a time, 16 frames each.
    Flows(u32),
    /// A packet in trafgen's language.
    Packet(PacketKind),
}

/// Packets in trafgen's language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PacketKind {
    /// The plain frame as bytes.
    Static,
    /// Its address and ports count.
    Dynamic,
    /// The plain frame with an address and ports that count, and with checksums.
    Checksummed,
    /// A TCP SYN from random addresses and ports, both checksums.
    Syn,
    /// VXLAN, inner and outer checksums.
    Vxlan,
    /// Sixteen fields that count, both checksums.
    Fields,
}

impl Work {
    fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "plain" => Self::Plain,
            "time" => Self::Time,
            "ranges" => Self::Ranges,
            "checksum" => Self::Checksum,
            "rich" => Self::Rich,
            "imix" => Self::Imix,
            "ipsec" => Self::Ipsec,
            "static" => Self::Packet(PacketKind::Static),
            "dynamic" => Self::Packet(PacketKind::Dynamic),
            "checksummed" => Self::Packet(PacketKind::Checksummed),
            "syn" => Self::Packet(PacketKind::Syn),
            "vxlan" => Self::Packet(PacketKind::Vxlan),
            "fields" => Self::Packet(PacketKind::Fields),
            _ => Self::Flows(word.strip_prefix("flows-")?.parse().ok().filter(|flows| *flows > 0)?),
        })
    }

    /// For people, after the name of a tool.
    fn title(self) -> String {
        match self {
            Self::Plain => String::new(),
            Self::Time => ", time stamps".to_owned(),
            Self::Ranges => ", ranges".to_owned(),
            Self::Checksum => ", checksums".to_owned(),
            Self::Rich => ", ranges + checksums + time stamps".to_owned(),
            Self::Imix => ", IMIX".to_owned(),
            Self::Ipsec => ", ESP".to_owned(),
            Self::Flows(1) => ", 1 flow".to_owned(),
            Self::Flows(flows) => format!(", {flows} flows"),
            Self::Packet(PacketKind::Static) => ", packet of bytes".to_owned(),
            Self::Packet(PacketKind::Dynamic) => ", packet with counted bytes".to_owned(),
            Self::Packet(PacketKind::Checksummed) => ", counted bytes and checksums".to_owned(),
            Self::Packet(PacketKind::Syn) => ", random SYN".to_owned(),
            Self::Packet(PacketKind::Vxlan) => ", VXLAN".to_owned(),
            Self::Packet(PacketKind::Fields) => ", 16 moving fields".to_owned(),
        }
    }
}

/// What a generator is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendJob<'a> {
    /// Where from.
    pub(crate) end: &'a LabEnd,
    /// Where it runs.
    pub(crate) cpus: &'a [u32],
    /// Without FCS.
    pub(crate) frame_len: usize,
    /// Exactly so many frames; 0 for no end, for those that can.
    pub(crate) count: u64,
    /// What is in them.
    pub(crate) work: Work,
    /// Frames a second; as many as it can where not told.
    pub(crate) pace_pps: Option<u64>,
    /// Device instances that share the count, for the control files.
    pub(crate) instances: u64,
    /// File of these frames (pcap) or of the streams (JSON), for generators that read one.
    pub(crate) frames: &'a Path,
}

impl<'a> SendJob<'a> {
    /// Frames that are all the same, as many as it can, without end.
    pub(crate) fn plain(end: &'a LabEnd, cpus: &'a [u32], frame_len: usize) -> Self {
        let frames = Path::new("");
        Self { end, cpus, frame_len, count: 0, work: Work::Plain, pace_pps: None, instances: 1, frames }
    }

    /// The packet in trafgen's language.
    fn packet(&self, packet: PacketKind) -> String {
        match packet {
            PacketKind::Static => frame::trafgen(&self.frame()),
            PacketKind::Dynamic => frame::trafgen_moving(&self.frame(), false),
            PacketKind::Checksummed => frame::trafgen_moving(&self.frame(), true),
            PacketKind::Syn => frame::syn(self.end.mac),
            PacketKind::Vxlan => frame::vxlan(self.end.mac, self.end.v4),
            PacketKind::Fields => frame::sixteen_fields(self.end.mac),
        }
    }

    fn frame(&self) -> Vec<u8> {
        frame::udp(self.end.mac, self.end.v4, self.frame_len)
    }

    /// All frames of a turn through the work.
    pub(crate) fn turn(&self) -> Vec<Vec<u8>> {
        match self.work {
            Work::Imix => IMIX
                .iter()
                .flat_map(|(len, weight)| vec![frame::udp(self.end.mac, self.end.v4, *len); *weight])
                .collect(),
            _ => vec![self.frame()],
        }
    }
}

/// The file of the generator [`STREAMS`]: equal streams of the plain frame that share the count.
pub(crate) fn stream_file(job: &SendJob<'_>) -> String {
    let (dst_mac, dst, src, size) = (frame::UNUSED_MAC, frame::DST, job.end.v4, job.frame_len);
    let count = job.count / STREAM_COUNT;
    let stream = format!(
        r#"{{"dst-mac": "{dst_mac}", "dst": "{dst}", "src": "{src}", "size": {size}, "count": {count}, "no-timestamp": true}}"#
    );
    format!("[{}]", vec![stream; STREAM_COUNT as usize].join(",\n"))
}

/// What watches a generator while it sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Viewer {
    /// Nothing: its output goes into pipes.
    None,
    /// A terminal, for `--tui`.
    Terminal,
    /// An open page, for `--web`: the stream of events that a browser reads.
    Page,
    /// A server that scrapes `--metrics`.
    Scraper,
}

/// A generator. It is ready when the first frame arrives, and sends exactly the frames it is asked
/// for.
#[derive(Debug)]
pub(crate) struct Generator {
    /// In rows and in the table.
    pub(crate) name: &'static str,
    /// For people.
    title: &'static str,
    /// Whose.
    pub(crate) program: ToolProgram,
    /// Frames that take it well over ten seconds: a run of no particular length, which still has an
    /// end.
    pub(crate) plenty: u64,
    /// More than one CPU takes more than one process.
    pub(crate) is_single: bool,
    /// Its exit status when it is interrupted, unless it dies of that.
    pub(crate) status_interrupted: i32,
    /// What watches it.
    pub(crate) viewer: Viewer,
    /// It keeps a pace.
    is_paced: bool,
    can: fn(Work) -> bool,
    /// Its arguments.
    pub(crate) words: fn(&SendJob<'_>) -> Vec<String>,
}

impl Generator {
    /// True for a generator that takes part if it is installed. wirerate always does.
    pub(crate) fn takes_part(&self, programs: &Programs) -> bool {
        self.program == ToolProgram::Wirerate || programs.has_peers && programs.wants(self.name, self.program)
    }
}

/// A generator and what is in its frames.
#[derive(Clone, Debug)]
pub(crate) struct Contender {
    /// In rows and in the table.
    pub(crate) name: String,
    /// Who.
    pub(crate) tool: &'static Generator,
    /// What.
    pub(crate) work: Work,
}

impl Contender {
    /// By its name in the table: `xdp`, `xdp/rich`.
    pub(crate) fn of(name: &str) -> Result<Self> {
        let (tool, work) = name.split_once('/').unwrap_or((name, "plain"));
        let found = GENERATORS.iter().find(|generator| generator.name == tool);
        let tool = found.with_context(|| format!("there is no tool {tool:?} in the table's {name:?}"))?;
        let work = Work::parse(work).with_context(|| format!("{name}: unknown work {work:?}"))?;
        Ok(Self { name: name.to_owned(), tool, work })
    }

    /// It can do that, `is_paced` or not.
    pub(crate) fn check(&self, is_paced: bool) -> Result<()> {
        if !(self.tool.can)(self.work) || is_paced && !self.tool.is_paced {
            bail!("{}: {} cannot do that", self.name, self.tool.title);
        }
        Ok(())
    }

    /// For people.
    pub(crate) fn title(&self) -> String {
        self.tool.title.to_owned() + &self.work.title()
    }

    /// It is wirerate.
    pub(crate) fn is_ours(&self) -> bool {
        self.tool.program == ToolProgram::Wirerate
    }
}

const fn wirerate(
    name: &'static str,
    title: &'static str,
    words: fn(&SendJob<'_>) -> Vec<String>,
) -> Generator {
    let can = |_| true;
    Generator {
        name,
        title,
        program: ToolProgram::Wirerate,
        plenty: 4_000_000_000,
        is_single: false,
        status_interrupted: 0,
        viewer: Viewer::None,
        is_paced: true,
        can,
        words,
    }
}

const fn peer(name: &'static str, title: &'static str, program: &'static str) -> Generator {
    Generator {
        name,
        title,
        program: ToolProgram::Installed(program),
        plenty: 60_000_000,
        is_single: true,
        status_interrupted: 0,
        viewer: Viewer::None,
        is_paced: true,
        can: |work| matches!(work, Work::Plain),
        words: |_| Vec::new(),
    }
}

/// All generators.
pub(crate) const GENERATORS: &[Generator] = &[
    wirerate("xdp", "xdp", |job| send("xdp", job)),
    wirerate("skb", "skb", |job| send("skb", job)),
    wirerate("af_packet", "af_packet", |job| send("af_packet", job)),
    wirerate("af_xdp", "af_xdp", |job| send("af_xdp", job)),
    Generator {
        can: |work| work == Work::Plain,
        is_paced: false,
        ..wirerate("files", "control files", files)
    },
    Generator {
        is_single: true,
        can: |work| matches!(work, Work::Plain | Work::Imix),
        ..wirerate("replay", "replay of a file, xdp", replay)
    },
    Generator {
        can: |work| work == Work::Plain,
        is_paced: false,
        ..wirerate(STREAMS, "xdp, 64 streams", streams)
    },
    Generator {
        viewer: Viewer::Terminal,
        ..wirerate("xdp-tui", "xdp with --tui", |job| [send("xdp", job), owned(&["--tui"])].concat())
    },
    Generator {
        viewer: Viewer::Page,
        ..wirerate("xdp-web", "xdp with --web, one page", |job| {
            [send("xdp", job), owned(&["--web", "0"])].concat()
        })
    },
    Generator {
        viewer: Viewer::Scraper,
        ..wirerate("xdp-metrics", "xdp with --metrics, scraped four times a second", |job| {
            [send("xdp", job), owned(&["--metrics", "0"])].concat()
        })
    },
    Generator {
        program: ToolProgram::Against,
        ..wirerate("against", "xdp of the other wirerate", |job| send("xdp", job))
    },
    Generator {
        is_single: false,
        can: |work| {
            let is_packet = matches!(work, Work::Packet(packet) if packet != PacketKind::Vxlan);
            is_packet || matches!(work, Work::Plain | Work::Ranges | Work::Rich | Work::Imix)
        },
        words: |job| {
            let rate = job.pace_pps.map(|pps| ["--rate".to_owned(), format!("{pps}pps")]);
            trafgen(job, rate.as_slice().as_flattened())
        },
        ..peer("trafgen", "trafgen, tx ring", "trafgen")
    },
    Generator {
        is_single: false,
        // Any gap, even none, makes trafgen leave its ring for one sendto(2) a frame.
        words: |job| {
            let gap_ns = job.pace_pps.map_or(0, |pps| 1_000_000_000 / pps);
            trafgen(job, &["--gap".to_owned(), format!("{gap_ns}ns")])
        },
        ..peer("trafgen-sendto", "trafgen, sendto", "trafgen")
    },
    Generator {
        can: |work| matches!(work, Work::Plain | Work::Imix),
        words: tcpreplay,
        ..peer("tcpreplay", "tcpreplay, preloaded", "tcpreplay")
    },
    Generator {
        plenty: 2_000_000,
        status_interrupted: 2,
        words: mausezahn,
        ..peer("mausezahn", "mausezahn", "mausezahn")
    },
    Generator {
        program: ToolProgram::Own,
        is_paced: false,
        words: |job| {
            let (size, count) = (job.frame_len.to_string(), job.count.to_string());
            owned(&["flood", job.end.ifname, "--size", &size, "--count", &count])
        },
        ..peer("sendmmsg", "bare sendmmsg loop", "")
    },
];

/// `wirerate send` by one engine.
pub(crate) fn send(engine: &str, job: &SendJob<'_>) -> Vec<String> {
    if let Work::Packet(packet) = job.work {
        let mut words = run_words(engine, job);
        words.extend(["--frame".to_owned(), job.packet(packet)]);
        return words;
    }
    let size = job.frame_len.to_string();
    let (dst_mac, dst) = (frame::UNUSED_MAC.to_string(), frame::DST.to_string());
    let mut words = run_words(engine, job);
    words.extend(owned(&["--src", &job.end.v4.to_string(), "--dst-mac", &dst_mac]));
    let fixed = ["--dst", dst.as_str()];
    let (flows, imix) = match job.work {
        Work::Flows(flows) => (flows.to_string(), String::new()),
        _ => (String::new(), IMIX.map(|(len, weight)| format!("{len}:{weight}")).join(",")),
    };
    let more: &[&[&str]] = match job.work {
        Work::Plain | Work::Time => &[&fixed],
        Work::Ranges => &[RANGES],
        Work::Checksum => &[&fixed, &["--csum"]],
        Work::Rich => &[RANGES, &["--csum"]],
        Work::Imix => &[&fixed, &["--imix", &imix]],
        Work::Ipsec => &[&fixed, &["--ipsec"]],
        Work::Flows(_) => &[FLOWS, &["--flows", &flows]],
        Work::Packet(_) => unreachable!("its words are above"),
    };
    words.extend(owned(&more.concat()));
    if job.work != Work::Imix {
        words.extend(owned(&["--size", &size]));
    }
    if !matches!(job.work, Work::Time | Work::Rich) {
        words.push("--no-timestamp".to_owned());
    }
    if engine == "af_xdp" && job.cpus.len() > 1 {
        words.extend(owned(&["--queues", "cpu"]));
    }
    words
}

/// The device, the engine and the CPUs of `wirerate send`.
fn device_words(engine: &str, job: &SendJob<'_>) -> Vec<String> {
    let cpus: Vec<String> = job.cpus.iter().map(u32::to_string).collect();
    let words = owned(&["send", job.end.ifname, "--engine", engine, "--cpus", &cpus.join(",")]);
    [words, netns(job.end)].concat()
}

/// Options of a run of `wirerate send`, whatever its frames.
fn run_words(engine: &str, job: &SendJob<'_>) -> Vec<String> {
    let mut words = device_words(engine, job);
    words.extend(owned(&["--count", &job.count.to_string(), "--json"]));
    words.extend(job.pace_pps.iter().flat_map(|pps| ["--pps".to_owned(), pps.to_string()]));
    words
}

/// `wirerate send` of the streams in a file, whose counts they are.
fn streams(job: &SendJob<'_>) -> Vec<String> {
    let file = job.frames.to_str().expect("our own names are UTF-8");
    [device_words("xdp", job), owned(&["--json", "--streams", file])].concat()
}

/// `wirerate replay` of the file that tcpreplay gets, again and again.
fn replay(job: &SendJob<'_>) -> Vec<String> {
    let (count, cpu) = (job.count.to_string(), job.cpus[0].to_string());
    let file = job.frames.to_str().expect("our own names are UTF-8");
    let mut words = owned(&["replay", job.end.ifname, file, "--engine", "xdp", "--loop", "0", "--json"]);
    words.extend(netns(job.end));
    words.extend(owned(&["--cpus", &cpu, "--count", &count]));
    match job.pace_pps {
        Some(pps) => words.extend(["--pps".to_owned(), pps.to_string()]),
        None => words.extend(owned(&["--speed", "top"])),
    }
    words
}

/// Control files: instances of the device, spread over the threads of its CPUs, which share the
/// count.
fn files(job: &SendJob<'_>) -> Vec<String> {
    let (dev, count, size) = (job.end.ifname, job.count / job.instances, job.frame_len);
    let mut script = "set -eu; trap true INT; P=/proc/net/pktgen\n".to_owned();
    for (instance, cpu) in (0..job.instances).zip(job.cpus.iter().cycle()) {
        script += &format!("echo add_device {dev}@{instance} > $P/kpktgend_{cpu}\n");
        let (dst_mac, dst) = (frame::UNUSED_MAC, frame::DST);
        let commands = [
            format!("count {count}"),
            format!("pkt_size {size}"),
            format!("dst_mac {dst_mac}"),
            format!("dst {dst}"),
            "flag NO_TIMESTAMP".to_owned(),
        ];
        for command in commands {
            script += &format!("echo {command} > $P/{dev}@{instance}\n");
        }
    }
    script += &format!("echo {STARTS} $EPOCHREALTIME\necho start > $P/pgctrl\n");
    [owned(&["exec"]), netns(job.end), owned(&["--", "bash", "-c", &script])].concat()
}

fn trafgen(job: &SendJob<'_>, more: &[String]) -> Vec<String> {
    // Its processes go to the first CPUs whatever we say, so the others go there as well.
    let (count, cpus) = (job.count.to_string(), job.cpus.len().to_string());
    let mut words = owned(&["--dev", job.end.ifname, "--cpus", &cpus, "--notouch-irq", "--num", &count]);
    words.push("--no-sock-mem".to_owned());
    words.extend_from_slice(more);
    words.push(match job.work {
        Work::Ranges => frame::trafgen_moving(&job.frame(), false),
        Work::Rich => frame::trafgen_moving(&job.frame(), true),
        Work::Packet(packet) => job.packet(packet),
        _ => job.turn().iter().map(|frame| frame::trafgen(frame)).collect::<Vec<_>>().join(" "),
    });
    words
}

fn tcpreplay(job: &SendJob<'_>) -> Vec<String> {
    let count = job.count.to_string();
    let mut words = owned(&["--intf1", job.end.ifname, "--preload-pcap", "--no-flow-stats", "--loop", "0"]);
    if job.count > 0 {
        words.extend(owned(&["--limit", &count]));
    }
    match job.pace_pps {
        Some(pps) => words.extend(["--pps".to_owned(), pps.to_string()]),
        None => words.push("--topspeed".to_owned()),
    }
    words.push(job.frames.to_str().expect("our own names are UTF-8").to_owned());
    words
}

fn mausezahn(job: &SendJob<'_>) -> Vec<String> {
    let hex: Vec<String> = job.frame().iter().map(|byte| format!("{byte:02x}")).collect();
    // Whole microseconds are all it knows.
    let delay_us = job.pace_pps.map_or(0, |pps| 1_000_000 / pps);
    let (count, delay) = (job.count.to_string(), format!("{delay_us}usec"));
    owned(&[job.end.ifname, "-q", "-c", &count, "-d", &delay, &hex.join(":")])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_different() {
        let names: BTreeSet<_> = GENERATORS.iter().map(|tool| tool.name).collect();
        assert_eq!(names.len(), GENERATORS.len());
    }

    #[test]
    fn works_have_names_and_numbers() {
        assert_eq!(Work::parse("flows-65536"), Some(Work::Flows(65_536)));
        for wrong in ["", "flows-", "flows-0", "flows-x", "riches"] {
            assert_eq!(Work::parse(wrong), None, "{wrong}");
        }
        let contender = Contender::of("xdp/flows-1").expect("there is one");
        assert_eq!((contender.title().as_str(), contender.is_ours()), ("xdp, 1 flow", true));
        assert!(Contender::of("sendmmsg/rich").expect("it has a name").check(false).is_err());
        assert!(Contender::of("trafgen").expect("it has a name").check(true).is_ok());
    }

    #[test]
    fn without_peers_engines_alone_take_part() {
        let (wirerate, own) = ("/w".into(), "/o".into());
        let programs = Programs { wirerate, against: None, own, only: Vec::new(), has_peers: false };
        let taking_part = GENERATORS.iter().filter(|tool| tool.takes_part(&programs)).map(|tool| tool.name);
        assert_eq!(
            taking_part.collect::<Vec<_>>(),
            [
                "xdp",
                "skb",
                "af_packet",
                "af_xdp",
                "files",
                "replay",
                "streams",
                "xdp-tui",
                "xdp-web",
                "xdp-metrics"
            ]
        );
    }
}
