//! Capture tools, one row each: how to start it, how it reports that it is ready and what it lost.
//!
//! All use one core, the same device, frame length and snaplen, and the same memory for the ring
//! between kernel and tool.

use crate::generators::{SendJob, send};
use crate::process::find_json;
use crate::programs::{ToolProgram, netns, owned};
use host::LabEnd;
use serde::Deserialize;
use std::path::Path;
use std::time::Duration;

/// Memory between kernel and capture tool, for all of them.
const RING_MIB: u32 = 4;

/// The snaplen of whole frames, by the number that all tools accept.
pub(crate) const WHOLE: u32 = 262_144;

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

/// `wirerate send` at a pace, from both CPUs where they differ, until it has sent its count (0 for
/// no end) or for `time`: what captures are tried with.
pub(crate) fn paced(flood: &Flood<'_>, rate_pps: f64, time: Option<Duration>) -> Vec<String> {
    let mut cpus = vec![flood.cpu, flood.other_cpu];
    cpus.dedup();
    let job = SendJob { count: flood.count, ..SendJob::plain(flood.end, &cpus, flood.frame_len) };
    let mut words = send("xdp", &SendJob { pace_pps: Some((rate_pps as u64).max(1)), ..job });
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
    /// A classic BPF program that accepts everything and cuts at snaplen, for tools without such an
    /// option.
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
    pub(crate) program: ToolProgram,
    /// What it says when it has begun.
    pub(crate) ready: &'static str,
    /// How long frames may wait in the kernel before it gets them. Some of these tools leave behind
    /// what they have not seen when they are interrupted, so they are given this time.
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
        program: ToolProgram::Wirerate,
        ready: "capturing on",
        drain: Duration::ZERO,
        words: |take| wirerate_capture(take, "drop"),
        in_quick: true,
        told_lost: of_wirerate,
    },
    Capturer {
        name: "tcpdump",
        title: "tcpdump",
        program: ToolProgram::Installed("tcpdump"),
        ready: "listening on",
        // A block of its ring that is not full comes after a second.
        drain: Duration::from_millis(1_150),
        words: |take| {
            let (snaplen, ring) = (take.snaplen.to_string(), (RING_MIB * 1024).to_string());
            owned(&["-i", take.end.ifname, "-n", "-s", &snaplen, "-B", &ring, "-Z", "root", "-w", file(take)])
        },
        in_quick: true,
        told_lost: of_libpcap,
    },
    Capturer {
        name: "against",
        title: "the other wirerate, drop mode",
        program: ToolProgram::Against,
        ready: "capturing on",
        drain: Duration::ZERO,
        words: |take| wirerate_capture(take, "drop"),
        in_quick: true,
        told_lost: of_wirerate,
    },
    Capturer {
        name: "wirerate-mirror",
        title: "wirerate, mirror mode",
        program: ToolProgram::Wirerate,
        ready: "capturing on",
        drain: Duration::ZERO,
        words: |take| wirerate_capture(take, "mirror"),
        in_quick: true,
        told_lost: of_wirerate,
    },
    Capturer {
        name: "wirerate-tpacket",
        title: "wirerate, packet sockets",
        program: ToolProgram::Wirerate,
        ready: "capturing on",
        drain: Duration::ZERO,
        words: |take| [wirerate_capture(take, "mirror"), owned(&["--source", "tpacket"])].concat(),
        in_quick: false,
        told_lost: of_wirerate,
    },
    Capturer {
        name: "netsniff-ng",
        title: "netsniff-ng",
        program: ToolProgram::Installed("netsniff-ng"),
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
        told_lost: of_netsniff,
    },
    Capturer {
        name: "xdpdump",
        // By its own program only where another one is on the device already, which none of the
        // others needs.
        title: "xdpdump, packet socket",
        program: ToolProgram::Installed("xdpdump"),
        ready: "listening on",
        drain: Duration::from_millis(1_150),
        words: |take| {
            let snaplen = take.snaplen.to_string();
            owned(&["-i", take.end.ifname, "--snapshot-length", &snaplen, "-w", file(take)])
        },
        in_quick: false,
        told_lost: of_libpcap,
    },
    Capturer {
        name: "dumpcap",
        title: "dumpcap",
        program: ToolProgram::Installed("dumpcap"),
        ready: "File:",
        drain: Duration::from_millis(400),
        words: |take| {
            let (snaplen, ring) = (take.snaplen.to_string(), RING_MIB.to_string());
            owned(&["-i", take.end.ifname, "-q", "-s", &snaplen, "-B", &ring, "-w", file(take)])
        },
        in_quick: false,
        told_lost: of_dumpcap,
    },
];

fn wirerate_capture(take: &Take<'_>, mode: &str) -> Vec<String> {
    let (snaplen, ring) = (take.snaplen.to_string(), format!("{RING_MIB}MiB"));
    let mut words = owned(&["capture", take.end.ifname, "--mode", mode]);
    words.extend(netns(take.end));
    words.extend(owned(&["--snaplen", &snaplen, "--ring", &ring, "--write", file(take), "--json"]));
    words
}

fn file<'a>(take: &Take<'a>) -> &'a str {
    take.file.to_str().expect("our own names are UTF-8")
}

/// `wirerate capture --json`.
fn of_wirerate(said: &str) -> Option<u64> {
    #[derive(Deserialize)]
    struct Account {
        lost_nic: Option<u64>,
        lost_ring: u64,
        lost_disk: u64,
    }
    let account: Account = find_json(said)?;
    Some(account.lost_nic.unwrap_or(0) + account.lost_ring + account.lost_disk)
}

/// tcpdump and xdpdump: `12 packets dropped by kernel`.
fn of_libpcap(said: &str) -> Option<u64> {
    before(said, "packets dropped by kernel")
}

/// netsniff-ng: `12  packets failed filter (out of space)`.
fn of_netsniff(said: &str) -> Option<u64> {
    before(said, "packets failed filter (out of space)")
}

/// dumpcap: `Packets received/dropped on interface 'rx0': 30/12 (pcap:12/...`.
fn of_dumpcap(said: &str) -> Option<u64> {
    let line = said.lines().find(|line| line.starts_with("Packets received/dropped on interface"))?;
    let (_, counts) = line.rsplit_once("': ")?;
    counts.split(['/', ' ']).nth(1)?.parse().ok()
}

fn before(said: &str, words: &str) -> Option<u64> {
    let line = said.lines().rev().find(|line| line.contains(words))?;
    line.split(words).next()?.split_whitespace().last()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_different() {
        let names: BTreeSet<_> = CAPTURERS.iter().map(|tool| tool.name).collect();
        assert_eq!(names.len(), CAPTURERS.len());
        assert_eq!((CAPTURERS[0].name, CAPTURERS[1].name), ("wirerate", "tcpdump"));
    }

    #[test]
    fn the_cut_is_one_return_instruction() {
        assert_eq!(cut_program(96), "{ 0x06, 0, 0, 0x00000060 },\n");
    }

    #[test]
    fn what_tools_say_of_their_losses_is_understood() {
        let tcpdump = "tcpdump: listening on rx0\n5 packets captured\n8 packets received by filter\n3 packets dropped by kernel\n";
        assert_eq!(of_libpcap(tcpdump), Some(3));
        let netsniff = "Running!\n\r           8  packets incoming (0 unread on exit)\n           4  packets passed filter\n           \
                        4  packets failed filter (out of space)\n     50.0000% packet droprate\n";
        assert_eq!(of_netsniff(netsniff), Some(4));
        let dumpcap = "Packets captured: 9\nPackets received/dropped on interface 'Loopback: lo': 9/7 \
                       (pcap:7/dumpcap:0/flushed:0/ps_ifdrop:0) (56.2%)\n";
        assert_eq!(of_dumpcap(dumpcap), Some(7));
        let wirerate =
            "capturing on rx0\n{\"written\":5,\"lost_nic\":null,\"lost_ring\":3,\"lost_disk\":1}\n";
        assert_eq!(of_wirerate(wirerate), Some(4));
        for parse in [of_libpcap, of_netsniff, of_dumpcap, of_wirerate] {
            assert_eq!(parse("it says nothing\n"), None);
        }
    }
}
