//! The tools that are compared, one row each: how each is started, how it is known to be ready.
//!
//! Rules: one core each, the same device, the same frame length, the same snaplen, and the same memory for the
//! ring between kernel and tool. How many frames came is never asked of the tool itself.

use crate::generators::{Generator, Job, send};
use crate::loss;
use crate::process::find_tool;
use host::LabEnd;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Memory between kernel and capture tool, for all of them: wirerate's default of 32,768 slots of 128 bytes.
const RING_MIB: u32 = 4;
const RING_SLOTS: u32 = 32_768;

/// Name of the tool under test, among generators and among captures.
pub(crate) const UNDER_TEST: &str = "wirerate";

/// Whose program a tool is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    /// The binary under test.
    Wirerate,
    /// Another build of it, where one was named.
    Against,
    /// This binary.
    Own,
    /// A command of the system.
    Installed(&'static str),
}

/// Where the programs are.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    /// The binary under test.
    pub(crate) wirerate: PathBuf,
    /// Another build of it.
    pub(crate) against: Option<PathBuf>,
    /// This binary.
    pub(crate) own: PathBuf,
    /// Names of the tools that take part; empty for all.
    pub(crate) only: Vec<String>,
    /// False: wirerate alone.
    pub(crate) has_peers: bool,
}

impl Programs {
    /// The file of a program, `None` when it is not installed.
    pub(crate) fn find(&self, program: Program) -> Option<PathBuf> {
        match program {
            Program::Wirerate => Some(self.wirerate.clone()),
            Program::Against => self.against.clone(),
            Program::Own => Some(self.own.clone()),
            Program::Installed(name) => find_tool(name),
        }
    }

    /// True for a generator that takes part when it is installed. Where some are named, wirerate takes part as well.
    pub(crate) fn wants_generator(&self, tool: &Generator) -> bool {
        tool.program == Program::Wirerate || self.has_peers && self.wants(tool.name, tool.program)
    }

    /// True for a tool that takes part when it is installed. The one under test always does.
    pub(crate) fn wants(&self, name: &str, program: Program) -> bool {
        if !self.has_peers && program != Program::Wirerate {
            return false;
        }
        let is_named =
            self.only.is_empty() || name == UNDER_TEST || self.only.iter().any(|only| only == name);
        is_named && (program != Program::Against || self.against.is_some())
    }
}

/// A flood that a generator is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flood<'a> {
    /// Where from.
    pub(crate) end: &'a LabEnd,
    /// The only CPU, or the first one.
    pub(crate) cpu: u32,
    /// The second one; the same where there is none.
    pub(crate) other_cpu: u32,
    /// Without FCS.
    pub(crate) frame_len: usize,
    /// Exactly so many frames.
    pub(crate) count: u64,
}

/// The CPU that generators run on.
pub(crate) const GENERATOR_CPU: u32 = 0;

/// `wirerate send` at a pace, from both CPUs where they differ, until it has sent its count (0 for no end) or for `time`:
/// what captures are tried with.
pub(crate) fn paced(flood: &Flood<'_>, rate_pps: f64, time: Option<Duration>) -> Vec<String> {
    let mut cpus = vec![flood.cpu, flood.other_cpu];
    cpus.dedup();
    let job = Job { count: flood.count, ..Job::plain(flood.end, &cpus, flood.frame_len) };
    let mut words = send("xdp", &Job { pace_pps: Some((rate_pps as u64).max(1)), ..job });
    words.extend(time.iter().flat_map(|time| ["--duration".to_owned(), format!("{}ms", time.as_millis())]));
    words
}

/// What a capture tool is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Take<'a> {
    /// Where.
    pub(crate) end: &'a LabEnd,
    /// The only CPU, where it has one for itself.
    pub(crate) cpu: Option<u32>,
    /// Bytes kept of each frame.
    pub(crate) snaplen: u32,
    /// Where the frames go; `/dev/null` is such a place.
    pub(crate) file: &'a Path,
    /// Space to be allocated before frames come, by tools that can.
    pub(crate) preallocate_bytes: u64,
    /// A classic BPF program that accepts everything and cuts at snaplen, for tools without such an option.
    pub(crate) cut: &'a Path,
}

/// The program of [`Take::cut`], as netsniff-ng reads it.
pub(crate) fn cut_program(snaplen: u32) -> String {
    format!("{{ 0x06, 0, 0, {snaplen:#010x} }},\n")
}

/// A capture tool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Capturer {
    /// In rows.
    pub(crate) name: &'static str,
    /// For people.
    pub(crate) title: &'static str,
    /// Whose.
    pub(crate) program: Program,
    /// What it says when it has begun.
    pub(crate) ready: &'static str,
    /// How long frames may wait in the kernel before it gets them. Some of these tools leave behind what they
    /// have not seen when they are interrupted, so they are given this time.
    pub(crate) drain: Duration,
    /// Its arguments.
    pub(crate) words: fn(&Take<'_>) -> Vec<String>,
    /// Takes part in quick runs.
    pub(crate) in_quick: bool,
    /// Frames that it says it lost; `None` when it says nothing.
    pub(crate) told_lost: fn(&str) -> Option<u64>,
}

/// All capture tools. The first one is the one under test.
pub(crate) const CAPTURERS: &[Capturer] = &[
    Capturer {
        name: "wirerate",
        title: "wirerate, drop mode",
        program: Program::Wirerate,
        ready: "capturing on",
        drain: Duration::ZERO,
        words: |take| wirerate_capture(take, "drop"),
        in_quick: true,
        told_lost: loss::of_wirerate,
    },
    Capturer {
        name: "tcpdump",
        title: "tcpdump",
        program: Program::Installed("tcpdump"),
        ready: "listening on",
        // A block of its ring that is not full comes after a second.
        drain: Duration::from_millis(1_150),
        words: |take| {
            let (snaplen, ring) = (take.snaplen.to_string(), (RING_MIB * 1024).to_string());
            owned(&["-i", take.end.ifname, "-n", "-s", &snaplen, "-B", &ring, "-Z", "root", "-w", file(take)])
        },
        in_quick: true,
        told_lost: loss::of_libpcap,
    },
    Capturer {
        name: "against",
        title: "the other wirerate, drop mode",
        program: Program::Against,
        ready: "capturing on",
        drain: Duration::ZERO,
        // An older build may not know how to allocate.
        words: |take| wirerate_capture(&Take { preallocate_bytes: 0, ..*take }, "drop"),
        in_quick: true,
        told_lost: loss::of_wirerate,
    },
    Capturer {
        name: "wirerate-mirror",
        title: "wirerate, mirror mode",
        program: Program::Wirerate,
        ready: "capturing on",
        drain: Duration::ZERO,
        words: |take| wirerate_capture(take, "mirror"),
        in_quick: false,
        told_lost: loss::of_wirerate,
    },
    Capturer {
        name: "wirerate-tpacket",
        title: "wirerate, packet sockets",
        program: Program::Wirerate,
        ready: "capturing on",
        drain: Duration::ZERO,
        words: |take| [wirerate_capture(take, "mirror"), owned(&["--source", "tpacket"])].concat(),
        in_quick: false,
        told_lost: loss::of_wirerate,
    },
    Capturer {
        name: "netsniff-ng",
        title: "netsniff-ng",
        program: Program::Installed("netsniff-ng"),
        ready: "Running!",
        drain: Duration::from_millis(150),
        words: |take| {
            let ring = format!("{RING_MIB}MiB");
            let mut words = owned(&["--in", take.end.ifname, "--out", file(take), "--silent"]);
            words.extend(take.cpu.iter().flat_map(|cpu| ["--bind-cpu".to_owned(), cpu.to_string()]));
            words.extend(owned(&["--ring-size", &ring, "--notouch-irq", "--filter"]));
            words.extend(owned(&[take.cut.to_str().expect("our own names are UTF-8")]));
            words
        },
        in_quick: false,
        told_lost: loss::of_netsniff,
    },
    Capturer {
        name: "xdpdump",
        // By its own program only where another one is on the device already, which none of the others needs.
        title: "xdpdump, packet socket",
        program: Program::Installed("xdpdump"),
        ready: "listening on",
        drain: Duration::from_millis(1_150),
        words: |take| {
            let snaplen = take.snaplen.to_string();
            owned(&["-i", take.end.ifname, "--snapshot-length", &snaplen, "-w", file(take)])
        },
        in_quick: false,
        told_lost: loss::of_libpcap,
    },
    Capturer {
        name: "dumpcap",
        title: "dumpcap",
        program: Program::Installed("dumpcap"),
        ready: "File:",
        drain: Duration::from_millis(400),
        words: |take| {
            let (snaplen, ring) = (take.snaplen.to_string(), RING_MIB.to_string());
            owned(&["-i", take.end.ifname, "-q", "-s", &snaplen, "-B", &ring, "-w", file(take)])
        },
        in_quick: false,
        told_lost: loss::of_dumpcap,
    },
];

fn wirerate_capture(take: &Take<'_>, mode: &str) -> Vec<String> {
    let (snaplen, ring) = (take.snaplen.to_string(), RING_SLOTS.to_string());
    let mut words = owned(&["capture", take.end.ifname, "--mode", mode]);
    words.extend(netns(take.end));
    words.extend(owned(&["--snaplen", &snaplen, "--ring", &ring, "--write", file(take), "--json"]));
    if take.preallocate_bytes > 0 {
        words.extend(owned(&["--preallocate", &take.preallocate_bytes.to_string()]));
    }
    words
}

/// Words for the namespace of a device, where it has a name.
pub(crate) fn netns(end: &LabEnd) -> Vec<String> {
    match end.netns_name.as_str() {
        "" => Vec::new(),
        name => owned(&["--netns", name]),
    }
}

fn file<'a>(take: &Take<'a>) -> &'a str {
    take.file.to_str().expect("our own names are UTF-8")
}

pub(crate) fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generators::GENERATORS;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_different() {
        let names: BTreeSet<_> = CAPTURERS.iter().map(|tool| tool.name).collect();
        assert_eq!(names.len(), CAPTURERS.len());
        assert_eq!((CAPTURERS[0].name, CAPTURERS[1].name), ("wirerate", "tcpdump"));
    }

    #[test]
    fn missing_tools_are_not_found() {
        let programs = programs(None, &[]);
        assert_eq!(programs.find(Program::Wirerate), Some("/w".into()));
        assert_eq!(programs.find(Program::Own), Some("/o".into()));
        assert_eq!(programs.find(Program::Installed("wirerate-bench-none")), None);
    }

    fn programs(against: Option<&str>, only: &[&str]) -> Programs {
        let against = against.map(PathBuf::from);
        Programs { wirerate: "/w".into(), against, own: "/o".into(), only: owned(only), has_peers: true }
    }

    #[test]
    fn those_take_part_that_are_named_and_there() {
        let trafgen = Program::Installed("trafgen");
        assert!(programs(None, &[]).wants("trafgen", trafgen));
        assert!(!programs(None, &["against"]).wants("trafgen", trafgen));
        assert!(programs(None, &["trafgen"]).wants(UNDER_TEST, Program::Wirerate));
        assert!(!programs(None, &["against"]).wants("against", Program::Against));
        assert!(programs(Some("/a"), &["against"]).wants("against", Program::Against));
    }

    #[test]
    fn without_peers_wirerate_is_alone() {
        let programs = Programs { has_peers: false, ..programs(Some("/a"), &[]) };
        assert!(programs.wants(UNDER_TEST, Program::Wirerate));
        assert!(!programs.wants("tcpdump", Program::Installed("tcpdump")));
        let takes_part = |name: &str| {
            let tool = GENERATORS.iter().find(|tool| tool.name == name);
            programs.wants_generator(tool.expect("there is one"))
        };
        assert!(
            takes_part("skb") && !takes_part("trafgen") && !takes_part("sendmmsg") && !takes_part("against")
        );
    }

    #[test]
    fn the_cut_is_one_return_instruction() {
        assert_eq!(cut_program(96), "{ 0x06, 0, 0, 0x00000060 },\n");
    }
}
