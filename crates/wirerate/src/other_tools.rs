//! Words of other tools: those with a clear meaning are translated, the others answered.
//!
//! Each row of [`FOREIGN_WORDS`] says what wirerate has for an option of iperf3, trafgen, mausezahn
//! or pktgen's scripts. What wirerate cannot do yet is said there as well, so that no error
//! suggests an option that only looks similar.

use crate::path_words;
use std::ffi::OsString;

/// The answer to an option that a command does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForeignWord {
    /// The command.
    pub command: &'static str,
    /// The options of other tools.
    pub words: &'static [&'static str],
    /// Why it cannot be used.
    pub why: &'static str,
    /// What to use instead.
    pub tries: &'static [&'static str],
}

const MORE: &str = "send has options for TCP, ICMP and ARP; trafgen's packet language has the rest";
const OWN_FRAME: &str =
    "--frame '{ eth(da=02:00:00:00:00:02), ipv4(da=198.18.0.2, ttl=64), tcp(dp=80, syn) }' (docs/frames.md)";
const NO_MEASUREMENT: &str = "send does not see what arrives";
const NO_SOCKET: &str = "send opens no connection and no socket";
const OTHER_NAME: &str = "it has another name here";
const NO_DECODING: &str = "capture decodes no frames";
const TSHARK: &str = "wirerate capture DEV -w - | tshark -i - -Y 'udp.port == 9'";
const TCPDUMP: &str = "wirerate capture DEV -w - | tcpdump -n -r -";

/// What wirerate has for the options of other tools.
pub const FOREIGN_WORDS: &[ForeignWord] = &[
    of_send(&["--ping"], OTHER_NAME, &["--icmp echo"]),
    of_send(
        &["--sctp"],
        MORE,
        &[
            "--frame '{ eth(da=02:00:00:00:00:02), ipv4(da=198.18.0.2, ttl=64), sctp(dp=80) }' (docs/frames.md)",
        ],
    ),
    of_send(
        &["--igmp", "--proto", "--protocol", "--flags"],
        MORE,
        &["--tcp --syn", "--icmp echo", OWN_FRAME],
    ),
    of_send(
        &["--ack", "--fin", "--rst", "--psh"],
        "one option makes a SYN, the others are in the language",
        &[OWN_FRAME],
    ),
    of_send(
        &["--hex", "--data", "--conf", "--pattern"],
        OTHER_NAME,
        &["--payload 0x68656c6c6f (or text, or @FILE)"],
    ),
    of_send(&["--gtp"], OTHER_NAME, &["--gtpu 5"]),
    of_send(
        &["--latency", "--jitter", "--loss", "--rtt"],
        NO_MEASUREMENT,
        &["wirerate measure --help (loss, latency and jitter)"],
    ),
    of_send(
        &["--replay", "--pcap", "--pcap-file", "--read", "-r", "--loop"],
        "send makes its own frames",
        &["wirerate replay --help (the packets of a file)"],
    ),
    of_send(
        &["--file", "-F"],
        "send makes its own frames",
        &[
            "--frames FILE (in trafgen's packet language)",
            "wirerate replay DEV FILE (the packets of a capture)",
        ],
    ),
    of_send(&["--mac", "-m", "--dmac"], "there are two MAC addresses", &["--dst-mac 02:00:00:00:00:01"]),
    of_send(&["--smac", "-a"], OTHER_NAME, &["--src-mac 02:00:00:00:00:01"]),
    of_send(
        &["--dest", "--host", "--ip", "-d", "--destination", "--client"],
        OTHER_NAME,
        &["--dst 198.18.0.2"],
    ),
    of_send(
        &["-B"],
        "it is the source in iperf3 and the destination in mausezahn",
        &["--src 198.18.0.1", "--dst 198.18.0.2"],
    ),
    of_send(
        &["-S"],
        "it is the type of service in iperf3 and the source in nping",
        &["--tos 184 (DSCP 46)", "--src 198.18.0.1"],
    ),
    of_send(&["-A", "--source", "--bind"], OTHER_NAME, &["--src 198.18.0.1"]),
    of_send(&["-Q"], OTHER_NAME, &["--vlan 5"]),
    of_send(
        &["-n", "--num", "--number", "--bytes"],
        "it counts bytes in iperf3 and frames in trafgen",
        &["--count 1000 (frames)"],
    ),
    of_send(
        &["-s"],
        "it is a size in pktgen's scripts and a server in iperf3",
        &["--size 60 (bytes without FCS)", "wirerate receive DEV (the receiver)"],
    ),
    of_capture(&["-F"], "a filter is given as words", &["--filter \"$(cat FILE)\" (the filter of a file)"]),
    of_capture(&["-B", "--buffer-size"], OTHER_NAME, &["--ring 64MiB (bytes for each CPU)"]),
    of_capture(
        &["-I", "--monitor-mode"],
        "iw(8) sets monitor mode",
        &["ip link set DEV down; iw dev DEV set type monitor; ip link set DEV up"],
    ),
    of_capture(&["-P"], "the format is an option with a value", &["--format pcap"]),
    of_capture(&["-Y", "-R", "-T", "-V", "-O"], NO_DECODING, &[TSHARK]),
    of_capture(
        &["-E", "-H", "-K", "-M", "-N", "-S", "-u", "-#", "--number", "--lengths"],
        NO_DECODING,
        &[TCPDUMP],
    ),
    of_capture(
        &["-d"],
        "capture prints no filter programs",
        &["tcpdump -d 'udp port 9' (the program of a filter)"],
    ),
    of_capture(
        &["-y", "-L", "--linktype", "--list-data-link-types"],
        "a device has one link type, and the file has it, too",
        &["tcpdump -L -i DEV (link types of a device)"],
    ),
    of_capture(
        &["-z", "--postrotate-command"],
        OTHER_NAME,
        &["--rotate-size 100MB --rotate-command gzip -w FILE (a command for each complete file)"],
    ),
    of_capture(
        &["-j", "--time-stamp-type"],
        "the clock is an option with another name",
        &[
            "--clock phc (adapter_unsynced: the clock of the card as it is)",
            "--clock utc (adapter: converted to UTC)",
            "--clock system (host: kernel time)",
        ],
    ),
    of_capture(&["--micro"], "times are in nanoseconds always", &["wirerate capture DEV -w frames.pcapng"]),
    of_send(&["--server"], "send only sends", &["wirerate receive DEV (the receiver)"]),
    of_send(
        &["-R", "--reverse", "--bidir"],
        "send only sends",
        &["wirerate send DEV --dst 198.18.0.1 (on the other host)"],
    ),
    of_send(&["-o", "--out"], "the device has no option", &["wirerate send DEV --dst 198.18.0.2"]),
    of_send(
        &["-w"],
        "it is a file in tcpdump and the size of a socket's window in iperf3; send writes files in dry runs only",
        &["--dry-run=1000 --write frames.pcapng"],
    ),
    of_send(
        &[
            "--window",
            "-C",
            "--congestion",
            "-M",
            "--set-mss",
            "-N",
            "--no-delay",
            "-X",
            "-Z",
            "--zerocopy",
            "-O",
            "--omit",
        ],
        NO_SOCKET,
        &["iperf3 -c 198.18.0.2 (throughput of TCP)"],
    ),
    of_send(&["-4", "-6"], "the address of --dst decides", &["--dst 198.18.0.2", "--dst fd00::2"]),
    of_send(
        &["-v", "-V", "--verbose"],
        "send has no longer report",
        &["--dry-run (shows the frames)", "--histogram (gaps of a paced run)"],
    ),
    of_send(
        &["-f"],
        "it is the unit of the report in iperf3 and the first CPU in pktgen's scripts",
        &["--json (plain numbers)", "--cpus 1"],
    ),
    of_send(&["--format"], "units are chosen by size", &["--json (plain numbers)"]),
    of_send(&["--hop-limit", "--hlim"], OTHER_NAME, &["--ttl 64"]),
    of_send(
        &["-D", "--daemon"],
        "send stays in the foreground",
        &["nohup wirerate send DEV --dst 198.18.0.2 &"],
    ),
    of_send(
        &["--pkt-size", "--pkt_size", "--packet-size", "--mtu", "-z"],
        OTHER_NAME,
        &["--size 60 (bytes without FCS)"],
    ),
    of_send(
        &["--packets", "--pkts", "--repeat", "-k", "--blockcount"],
        OTHER_NAME,
        &["--count 1000 (frames)"],
    ),
    of_send(&["--dscp"], "the whole byte is an option", &["--tos 184 (DSCP 46)"]),
    of_send(&["--burst"], "frames go to the driver in batches", &["--batch 32", "--clone-skb 32"]),
    of_send(
        &["--flood"],
        "send is as fast as possible where no rate is given",
        &["--count 0 (until Ctrl-C)"],
    ),
    of_send(&["--json-stream"], "each second is a row", &["--json --every-second"]),
    of_send(&["--ipv4", "--ipv6"], "the address of --dst decides", &["--dst 198.18.0.2", "--dst fd00::2"]),
    of_send(&["--version"], "it is an option of wirerate", &["wirerate --version"]),
    of_replay(&["-t", "--topspeed"], &["--speed top"]),
    of_replay(&["-x", "--multiplier"], &["--speed 2"]),
    of_replay(&["-p"], &["--pps 1000"]),
    of_replay(&["-M", "--mbps"], &["--rate 10Mbit (on the wire)"]),
    of_replay(&["-l"], &["--loop 5"]),
    of_replay(&["-L"], &["--count 1000"]),
    of_connect(
        &["--rate", "--pps", "-r", "-R"],
        "a connection is several frames, which the server paces",
        &["--cps 50k (new connections per second)"],
    ),
    of_connect(
        &["--connections", "--concurrency", "--concurrent"],
        OTHER_NAME,
        &["--open 64 (at all times)", "--hold 10k (opened and kept)"],
    ),
    of_replay(&["-I", "--intf2"], &["--other eth2 --split sources=10.0.0.0/8"]),
    of_replay(&["--dualfile"], &["FILE1 FILE2 --other eth2 --split file"]),
    of_replay(&["--unique-ip"], &["--each-loop src+=1 --each-loop dst+=1"]),
    of_replay(&["--maxsleep"], &["--max-gap 100ms"]),
    of_replay(&["--loopdelay-ms", "--loopdelay-ns"], &["--loop-gap 10ms"]),
    of_replay(&["-P", "--pid", "-K", "--preload-pcap"], &["wirerate replay DEV FILE (needs no such option)"]),
];

/// What wirerate has for the names of other programs, and for commands of theirs.
const COMMANDS: &[(&[&str], &[&str])] = &[
    (&["tcpdump", "dumpcap", "tshark", "xdpdump", "dump", "sniff"], &["wirerate capture --help"]),
    (
        &["pktgen", "iperf", "iperf3", "mausezahn", "hping3", "packeth", "generate", "gen", "flood"],
        &["wirerate send --help", "wirerate exec --help (scripts for pktgen)"],
    ),
    (&["listen", "server", "recv", "rx"], &["wirerate receive --help", "wirerate sink --help"]),
    (
        &["tcprewrite", "tcpprep", "editcap", "edit", "anonymize"],
        &["wirerate rewrite IN -o OUT --map-ip 10.0.0.0/8=198.18.0.0/16", "wirerate rewrite --help"],
    ),
    (&["wrk", "ab", "dperf", "http", "tcp", "cps"], &["wirerate connect --help"]),
    (&["list", "devices", "interfaces", "check"], &["wirerate doctor"]),
    (&["version"], &["wirerate --version"]),
];

/// What to use for `word`, a command that wirerate does not have.
pub fn command_answer(word: &str) -> Option<&'static [&'static str]> {
    COMMANDS.iter().find(|(words, _)| words.contains(&word)).map(|(_, tries)| *tries)
}

const fn of_send(
    words: &'static [&'static str],
    why: &'static str,
    tries: &'static [&'static str],
) -> ForeignWord {
    ForeignWord { command: "send", words, why, tries }
}

const fn of_capture(
    words: &'static [&'static str],
    why: &'static str,
    tries: &'static [&'static str],
) -> ForeignWord {
    ForeignWord { command: "capture", words, why, tries }
}

const fn of_connect(
    words: &'static [&'static str],
    why: &'static str,
    tries: &'static [&'static str],
) -> ForeignWord {
    ForeignWord { command: "connect", words, why, tries }
}

const fn of_replay(words: &'static [&'static str], tries: &'static [&'static str]) -> ForeignWord {
    ForeignWord { command: "replay", words, why: "it is an option of tcpreplay", tries }
}

/// The answer to `word`, an option that `command` does not have.
pub fn answer(command: &str, word: &str) -> Option<&'static ForeignWord> {
    let name = word.split('=').next().unwrap_or(word);
    FOREIGN_WORDS
        .iter()
        .find(|foreign_word| foreign_word.command == command && foreign_word.words.contains(&name))
}

/// `args` in wirerate's words: `send -i DEV` is `send DEV`, `send -i 1` (iperf3) a row per second,
/// `--dry-run 10` is `--dry-run=10`, options of `send` follow those of `measure`, `COMMAND help` is
/// the help of the command, and `timestamp show DEV` is `timestamp DEV show`.
pub fn translated(args: Vec<OsString>) -> Vec<OsString> {
    let text = |at: usize| args.get(at).and_then(|arg| arg.to_str());
    if args.len() == 3 && text(2) == Some("help") && !matches!(text(1), Some("help" | "exec" | "mgcap")) {
        return [args[0].clone(), args[1].clone(), "--help".into()].into();
    }
    let is_act = |word: Option<&str>| matches!(word, Some("on" | "off" | "show"));
    if text(1) == Some("timestamp") && is_act(text(2)) && text(3).is_some() && !is_act(text(3)) {
        let mut args = args;
        args.swap(2, 3);
        return args;
    }
    if matches!(text(1), Some("replay" | "receive")) {
        return with_device_first(args);
    }
    if text(1).is_some_and(|command| path_words::COMMANDS.contains(&command)) {
        return path_words::sorted(args);
    }
    if text(1) != Some("send") {
        return args;
    }
    let mut translated = args[..2].to_vec();
    let mut rest = args[2..].iter().cloned().peekable();
    while let Some(arg) = rest.next() {
        let is_count = |next: &OsString| next.to_str().is_some_and(|next| next.parse::<u64>().is_ok());
        if arg == "--dry-run"
            && let Some(count) = rest.next_if(is_count)
        {
            translated.push(OsString::from_iter([arg, "=".into(), count]));
            continue;
        }
        let (option, value) = match arg.to_str().and_then(|arg| arg.split_once('=')) {
            Some((option, value)) => (option.to_owned(), Some(OsString::from(value))),
            None => (arg.to_string_lossy().into_owned(), None),
        };
        if !["-i", "--dev", "--interface", "--iface", "--interval"].contains(&option.as_str()) {
            translated.push(arg);
            continue;
        }
        let Some(value) = value.or_else(|| rest.next()) else {
            translated.push(arg);
            continue;
        };
        let is_number = value.to_str().is_some_and(|value| value.parse::<f64>().is_ok());
        translated.push(if is_number { "--every-second".into() } else { value });
    }
    translated
}

/// `replay -i DEV FILE`, as tcpreplay has it, is `replay DEV FILE`.
fn with_device_first(args: Vec<OsString>) -> Vec<OsString> {
    const NAMES: [&str; 3] = ["-i", "--intf1", "--interface"];
    let mut rest = args[2..].to_vec();
    // Words behind `--` are no options.
    let end = rest.iter().position(|arg| arg == "--").unwrap_or(rest.len());
    let device = rest[..end].iter().position(|arg| NAMES.iter().any(|name| arg == name));
    let joined = rest[..end].iter().position(|arg| {
        let name = arg.to_str().and_then(|arg| arg.split_once('='));
        name.is_some_and(|(name, _)| NAMES.contains(&name))
    });
    let device = match (device, joined) {
        (Some(at), _) if at + 1 < end => rest.drain(at..at + 2).nth(1),
        (_, Some(at)) => {
            rest.remove(at).to_str().and_then(|arg| arg.split_once('=')).map(|(_, dev)| dev.into())
        }
        _ => None,
    };
    args[..2].iter().cloned().chain(device).chain(rest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> String {
        let args = translated(line.split(' ').map(OsString::from).collect());
        args.join(std::ffi::OsStr::new(" ")).into_string().expect("plain words")
    }

    #[test]
    fn foreign_words_with_a_clear_meaning_are_translated() {
        for (typed, meant) in [
            ("wirerate send -i eth0 --dst 10.0.0.1", "wirerate send eth0 --dst 10.0.0.1"),
            ("wirerate send --dev=eth0 -c 5", "wirerate send eth0 -c 5"),
            ("wirerate send eth0 -i 1", "wirerate send eth0 --every-second"),
            ("wirerate send --dry-run 10 eth0", "wirerate send --dry-run=10 eth0"),
            ("wirerate send --dry-run eth0", "wirerate send --dry-run eth0"),
            ("wirerate send help", "wirerate send --help"),
            ("wirerate capture help", "wirerate capture --help"),
            ("wirerate timestamp show eth0", "wirerate timestamp eth0 show"),
            ("wirerate timestamp off eth0 --netns lab", "wirerate timestamp eth0 off --netns lab"),
            ("wirerate timestamp eth0 on", "wirerate timestamp eth0 on"),
            ("wirerate capture -i eth0", "wirerate capture -i eth0"),
            ("wirerate replay -i eth0 f.pcap", "wirerate replay eth0 f.pcap"),
            ("wirerate replay f.pcap --loop 2 --intf1=eth0", "wirerate replay eth0 f.pcap --loop 2"),
            ("wirerate replay eth0 f.pcap", "wirerate replay eth0 f.pcap"),
            ("wirerate replay eth0 -i", "wirerate replay eth0 -i"),
            ("wirerate receive -i eth0 --mirror", "wirerate receive eth0 --mirror"),
            ("wirerate send eth0 -i", "wirerate send eth0 -i"),
            ("wirerate exec help", "wirerate exec help"),
        ] {
            assert_eq!(words(typed), meant);
        }
    }

    #[test]
    fn each_word_has_one_answer_and_no_row_answers_an_option_that_exists() {
        let parser = crate::parser();
        let mut seen = Vec::new();
        for foreign_word in FOREIGN_WORDS {
            let command = parser.find_subcommand(foreign_word.command).expect("the command exists");
            for word in foreign_word.words {
                assert!(!seen.contains(&(foreign_word.command, word)), "{word} has two answers");
                seen.push((foreign_word.command, word));
                let taken = command.get_arguments().any(|arg| {
                    let longs = arg.get_long_and_visible_aliases().unwrap_or_default();
                    longs.iter().any(|long| format!("--{long}") == **word)
                        || arg
                            .get_all_aliases()
                            .unwrap_or_default()
                            .iter()
                            .any(|long| format!("--{long}") == **word)
                        || arg.get_short().is_some_and(|short| format!("-{short}") == **word)
                });
                assert!(!taken, "{} has {word}", foreign_word.command);
            }
        }
    }
}
