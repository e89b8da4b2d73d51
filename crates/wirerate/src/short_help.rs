//! `-h` of commands with many options: the important ones on one screen. `--help` has all.
//!
//! A page has at most 40 lines of 80 columns. Names and values of options are those of the parser.

use clap::{Arg, Command};
use std::ffi::OsString;

/// A page.
struct Page {
    /// The name of the command.
    command: &'static str,
    /// What stands behind the name.
    usage: &'static str,
    /// Headings, each with the long names of options and their descriptions.
    groups: &'static [(&'static str, &'static [(&'static str, &'static str)])],
    /// Lines that can be pasted.
    examples: [&'static str; 4],
}

const RESULT: (&str, &[(&str, &str)]) = (
    "Result",
    &[
        ("every-second", "a row per second"),
        ("json", "JSON instead of text"),
        ("web", "a live page, http://127.0.0.1:9465"),
        ("quiet", "no progress, no notes"),
    ],
);

const RECEIVED: (&str, &[(&str, &str)]) = (
    "Result",
    &[
        ("expect", "exit code 1 unless true: 'lost<0.1%'"),
        ("flows-out", "a row per flow"),
        ("every-second", "a row per second"),
        ("json", "JSON instead of text"),
        ("web", "a live page, http://127.0.0.1:9465"),
        ("quiet", "no progress, no notes"),
    ],
);

const PATH: (&str, &[(&str, &str)]) = (
    "Devices",
    &[
        ("tx", "sends"),
        ("rx", "receives"),
        ("bidirectional", "both ways at once"),
        ("reverse", "options of send for the way back"),
    ],
);

const HOW_LONG: (&str, &[(&str, &str)]) =
    ("How long", &[("count", "frames to receive"), ("duration", "time, such as 10s")]);

const COUNTED: &[(&str, &[(&str, &str)])] =
    &[("Frames", &[("filter", "as in tcpdump: \"udp port 53\"")]), HOW_LONG, RESULT];

const PAGES: &[Page] = &[
    Page {
        command: "send",
        usage: "DEV[@NETNS] [OPTIONS]",
        groups: &[
            (
                "What to send",
                &[
                    ("dst", "destination, range or prefix"),
                    ("src", "source [default: the device's]"),
                    ("udp-dst", "destination port [default: 9]"),
                    ("size", "bytes without FCS [default: 60]"),
                    ("frame-size", "bytes with FCS"),
                    ("imix", "a mix of lengths: simple"),
                    ("flows", "exactly N flows"),
                    ("vlan", "tags, outer one first"),
                    ("tcp", "TCP instead of UDP"),
                    ("frame", "any packet, in trafgen's language"),
                    ("streams", "several streams"),
                ],
            ),
            ("How much", &[("count", "frames [default: 1000]"), ("duration", "time, such as 10s")]),
            (
                "How fast [default: as fast as possible]",
                &[
                    ("pps", "frames per second: 10k, 0.5"),
                    ("rate", "bits on the wire: 1Gbit, 40%"),
                    ("arrivals", "poisson, or burst:N"),
                    ("threads", "sending threads [default: 1]"),
                ],
            ),
            (
                "Result",
                &[
                    ("dry-run", "show the first frames, send none"),
                    ("json", "JSON instead of text"),
                    ("web", "a live page, http://127.0.0.1:9465"),
                    ("quiet", "no progress, no notes"),
                ],
            ),
        ],
        examples: [
            "wirerate send eth1 --dst 198.18.0.2 --count 1M --pps 100k",
            "wirerate send eth1 --dst 198.18.0.0/24 --flows 1000 -t 10s --rate 1Gbit",
            "wirerate send veth0@lab --dst 198.18.0.2 --imix simple",
            "wirerate send eth1 --dst 198.18.0.2 --tcp --syn --dry-run",
        ],
    },
    Page {
        command: "capture",
        usage: "DEV[@NETNS] [OPTIONS] [FILTER]",
        groups: &[
            (
                "Frames",
                &[
                    ("filter", "as in tcpdump: \"udp port 53\""),
                    ("snaplen", "bytes to keep of each frame"),
                    ("direction", "in, out or inout"),
                    ("mode", "mirror, or drop (hosts get none)"),
                    ("source", "xdp or tpacket"),
                    ("print", "a line per frame"),
                ],
            ),
            (
                "Files",
                &[
                    ("write", "- for standard output"),
                    ("format", "pcapng, pcap or parquet"),
                    ("compress", "while writing: zstd, lz4"),
                    ("rotate-size", "a new file after so many bytes"),
                    ("rotate-every", "a new file after this time"),
                    ("files", "keep the last N files"),
                    ("quota", "all files together"),
                ],
            ),
            HOW_LONG,
            RESULT,
        ],
        examples: [
            "wirerate capture eth1 -w eth1.pcapng",
            "wirerate capture eth1 -w - udp port 53 | tshark -r -",
            "wirerate capture eth1 -w day.pcapng --rotate-every 1h --quota 100GiB",
            "wirerate capture eth1 --mode drop -t 10s",
        ],
    },
    Page {
        command: "count",
        usage: "DEV[@NETNS] [OPTIONS] [FILTER]",
        groups: COUNTED,
        examples: [
            "wirerate count eth1",
            "wirerate count eth1 tcp port 80",
            "wirerate count eth1 -t 10s --json",
            "wirerate count veth1@lab --every-second",
        ],
    },
    Page {
        command: "sink",
        usage: "DEV[@NETNS] [OPTIONS] [FILTER]",
        groups: COUNTED,
        examples: [
            "wirerate sink eth1 -t 10s",
            "wirerate sink eth1 udp port 9",
            "wirerate sink veth1@lab",
            "wirerate sink eth1 -c 1M --json",
        ],
    },
    Page {
        command: "receive",
        usage: "DEV[@NETNS] [OPTIONS]",
        groups: &[
            HOW_LONG,
            (
                "Frames",
                &[
                    ("sent", "how many were sent"),
                    ("flows", "how many flows were sent"),
                    ("run", "only frames of this run"),
                    ("deadline", "later frames count as late"),
                    ("mirror", "the host receives them, too"),
                ],
            ),
            RECEIVED,
        ],
        examples: [
            "wirerate receive eth1",
            "wirerate receive eth1 --count 1M --sent 1M --expect lost=0",
            "wirerate receive veth1@lab -t 10s --flows-out flows.csv",
            "wirerate receive eth1 --expect 'p99<50us' --json",
        ],
    },
    Page {
        command: "reflect",
        usage: "DEV[@NETNS] [OPTIONS]",
        groups: &[
            HOW_LONG,
            (
                "Frames",
                &[
                    ("sent", "how many were sent"),
                    ("flows", "how many flows were sent"),
                    ("run", "only this run"),
                ],
            ),
            RECEIVED,
        ],
        examples: [
            "wirerate reflect eth2",
            "wirerate reflect veth1@lab -t 10s",
            "wirerate reflect eth2 --json",
            "wirerate measure --tx eth1 --rx eth1 --dst 198.18.0.2 -c 1M --pps 100k",
        ],
    },
    Page {
        command: "connect",
        usage: "DEV[@NETNS] --dst ADDR:PORT --src ADDRS [OPTIONS]",
        groups: &[
            ("Addresses", &[("dst", "the server"), ("src", "the clients: a range or prefix")]),
            (
                "How many",
                &[
                    ("cps", "new connections per second"),
                    ("open", "as many at all times"),
                    ("hold", "open as many and keep them"),
                    ("ask-rate", "requests per second on held ones"),
                    ("count", "connections in all"),
                    ("duration", "time, such as 10s"),
                ],
            ),
            (
                "Requests",
                &[
                    ("get", "HTTP request"),
                    ("no-request", "open and close only"),
                    ("requests", "per connection (keep-alive)"),
                    ("dns", "queries over UDP"),
                    ("close", "who ends: server, client, reset"),
                    ("timeout", "without progress: failed"),
                ],
            ),
            (
                "Result",
                &[
                    ("expect", "exit code 1 unless true: 'failed=0'"),
                    ("group-by", "responses by these bytes: payload:25:2"),
                    ("every-second", "a row per second"),
                    ("json", "JSON instead of text"),
                    ("quiet", "no progress, no notes"),
                ],
            ),
        ],
        examples: [
            "wirerate connect c0 --dst 198.18.0.2:80 --src 198.18.64.0/24 -c 100k",
            "wirerate connect c0 --dst 198.18.0.2:80 --src 198.18.64.0/24 --cps 20k",
            "wirerate connect c0 --dst 198.18.0.2:80 --src 198.18.64.0/24 --hold 50k",
            "wirerate connect c0 --dst 198.18.0.2:53 --src 198.18.64.0/24 --dns a.b",
        ],
    },
    Page {
        command: "accept",
        usage: "DEV[@NETNS] [OPTIONS]",
        groups: &[
            (
                "Server",
                &[
                    ("dst", "its addresses"),
                    ("dst-port", "its ports"),
                    ("response-bytes", "bytes of each response"),
                    ("close", "who ends: server, client"),
                ],
            ),
            ("How long", &[("count", "connections to accept"), ("duration", "time, such as 10s")]),
            RESULT,
        ],
        examples: [
            "wirerate accept s0",
            "wirerate accept s0@server --response-bytes 1000 -t 60s",
            "wirerate accept s0 --dst 198.18.0.0/28 --dst-port 80-89",
            "wirerate accept s0 --response-bytes 0 --close client --json",
        ],
    },
    Page {
        command: "measure",
        usage: "--tx DEV --rx DEV [OPTIONS] [OPTIONS OF SEND]",
        groups: &[
            PATH,
            (
                "Frames (and all options of `wirerate send`, such as --dst, --count, --pps)",
                &[
                    ("flows", "exactly N flows"),
                    ("deadline", "later frames count as late"),
                    ("mirror", "the host receives them, too"),
                    ("settle", "wait for late frames [default: 200ms]"),
                ],
            ),
            RECEIVED,
        ],
        examples: [
            "wirerate measure --tx eth1 --rx eth2 --dst 198.18.0.2 -c 1M --pps 100k",
            "wirerate measure --tx veth0 --rx veth1@lab --dst 198.18.0.2 -t 10s",
            "wirerate measure --tx eth1 --rx eth2 --dst 198.18.0.2 --expect lost=0",
            "wirerate measure --tx eth1 --rx eth2 --bidirectional --dst 198.18.0.2",
        ],
    },
    Page {
        command: "search",
        usage: "--tx DEV --rx DEV [OPTIONS] [OPTIONS OF SEND]",
        groups: &[
            PATH,
            (
                "Loads",
                &[
                    ("max-pps", "highest load"),
                    ("min-pps", "lowest load"),
                    ("loss", "loss that still passes, such as 0.1%"),
                    ("method", "mlr, or quick"),
                    ("budget", "time for all trials"),
                    ("connections", "of connect instead of frames"),
                ],
            ),
            (
                "Frames (and options of `wirerate send`, such as --dst)",
                &[
                    ("size", "sizes without FCS, one after another"),
                    ("frame-sizes", "sizes with FCS"),
                    ("flows", "numbers of flows"),
                    ("threads", "numbers of threads"),
                ],
            ),
            (
                "Result",
                &[
                    ("resume", "keep and repeat no trial"),
                    ("json", "JSON lines"),
                    ("quiet", "no progress, no notes"),
                ],
            ),
        ],
        examples: [
            "wirerate search --tx eth1 --rx eth2 --dst 198.18.0.2",
            "wirerate search --tx eth1 --rx eth2 --dst 198.18.0.2 --loss 0.1%",
            "wirerate search --tx eth1 --rx eth2 --dst 198.18.0.2 --frame-sizes 64,1518",
            "wirerate search --tx veth0 --rx veth1@lab --dst 198.18.0.2 -t 30s",
        ],
    },
    Page {
        command: "rfc2544",
        usage: "--tx DEV --rx DEV [OPTIONS] [OPTIONS OF SEND]",
        groups: &[
            PATH,
            (
                "Tests",
                &[
                    ("tests", "throughput,latency,loss,..."),
                    ("frame-sizes", "with FCS [default: those of RFC 2544]"),
                    ("max-pps", "highest load"),
                    ("throughput", "instead of the first test"),
                    ("budget", "time for each search"),
                    ("quick", "short trials"),
                ],
            ),
            (
                "Result",
                &[
                    ("resume", "keep and repeat no trial"),
                    ("json", "JSON lines"),
                    ("quiet", "no progress, no notes"),
                ],
            ),
        ],
        examples: [
            "wirerate rfc2544 --tx eth1 --rx eth2 --dst 198.18.0.2",
            "wirerate rfc2544 --tx eth1 --rx eth2 --dst 198.18.0.2 --quick",
            "wirerate rfc2544 --tx eth1 --rx eth2 --dst 198.18.0.2 --tests throughput",
            "wirerate rfc2544 --tx eth1 --rx eth2 --dst 198.18.0.2 --frame-sizes 64,512",
        ],
    },
    Page {
        command: "replay",
        usage: "DEV[@NETNS] FILE... [OPTIONS]",
        groups: &[
            (
                "What to send",
                &[
                    ("filter", "as in tcpdump: \"udp port 53\""),
                    ("packets", "numbers, such as 1-5,9,100-"),
                    ("dst-mac", "destination of every frame"),
                    ("map-ip", "other addresses, by prefix"),
                    ("map-port", "other ports"),
                    ("set", "one value for a field: ttl=9"),
                    ("other", "a second device, with --split"),
                    ("split", "auto, sources=PREFIX, ..."),
                ],
            ),
            (
                "How much",
                &[
                    ("loop", "times [default: 1]"),
                    ("count", "frames at most"),
                    ("duration", "time, such as 10s"),
                ],
            ),
            (
                "How fast [default: the times of the file]",
                &[
                    ("speed", "a factor, or top"),
                    ("pps", "frames per second: 10k, 0.5"),
                    ("rate", "bits on the wire: 1Gbit, 40%"),
                ],
            ),
            (
                "Result",
                &[
                    ("verify", "compare what arrives there"),
                    ("dry-run", "send none"),
                    ("json", "JSON instead of text"),
                    ("web", "a live page, http://127.0.0.1:9465"),
                    ("quiet", "no progress, no notes"),
                ],
            ),
        ],
        examples: [
            "wirerate replay eth1 capture.pcapng",
            "wirerate replay eth1 capture.pcap --speed top --loop 100",
            "wirerate replay eth1 day.pcapng.zst --rate 2Gbit",
            "wirerate replay eth1 capture.pcap --other eth2 --split auto",
        ],
    },
    Page {
        command: "rewrite",
        usage: "FILE... -o OUT [OPTIONS]",
        groups: &[
            ("Files", &[("output", ".pcap or .pcapng, also .gz, .zst, .lz4")]),
            (
                "Everywhere in a packet",
                &[
                    ("map-ip", "addresses, by prefix"),
                    ("map-mac", "MAC addresses"),
                    ("map-port", "ports, or ranges of them"),
                    ("anonymize", "all addresses, keeping prefixes"),
                ],
            ),
            (
                "One field",
                &[
                    ("set", "of the outer header: ttl=9, vlan=7"),
                    ("push-vlan", "a tag outside the others"),
                    ("pop-vlan", "no outer tag"),
                    ("dst-mac", "destination of every frame"),
                    ("src-mac", "source of every frame"),
                ],
            ),
            (
                "Lengths and checksums",
                &[
                    ("checksums", "keep, or fix"),
                    ("cut", "packets cut by the capture"),
                    ("fcs", "the frame check sequence"),
                    ("strict", "fail if a packet is not edited"),
                ],
            ),
            ("Result", &[("json", "JSON instead of text"), ("quiet", "no notes")]),
        ],
        examples: [
            "wirerate rewrite a.pcap -o b.pcapng --map-ip 10.0.0.0/8=198.18.0.0/16",
            "wirerate rewrite a.pcap -o b.pcap --checksums fix",
            "wirerate rewrite a.pcapng -o b.pcapng.zst --anonymize @key",
            "wirerate rewrite a.pcap -o - --set vlan=7 | wirerate replay eth1 -",
        ],
    },
    Page {
        command: "trafgen",
        usage: "[OPTIONS] [PACKETS]",
        groups: &[
            (
                "What to send",
                &[
                    ("in", "packets or a capture file"),
                    ("out", "a device, or a file"),
                    ("num", "packets, 0 for no end"),
                    ("rand", "packets in random order"),
                    ("seed", "of random numbers"),
                    ("cpp", "run the C preprocessor"),
                    ("define", "with --cpp"),
                ],
            ),
            (
                "How fast",
                &[("gap", "between packets"), ("rate", "1000pps or 1Mbit"), ("cpus", "sending CPUs")],
            ),
            (
                "Result",
                &[
                    ("example", "print an example of PACKETS"),
                    ("json", "JSON instead of text"),
                    ("web", "a live page"),
                ],
            ),
        ],
        examples: [
            "wirerate trafgen -o eth1 -n 1000 '{ udp(dport=53) }'",
            "wirerate trafgen -i packets.cfg -o eth1 -b 1000pps",
            "wirerate trafgen -i packets.cfg -o packets.pcap -n 100",
            "wirerate trafgen -e",
        ],
    },
    Page {
        command: "analyze",
        usage: "FILE... [OPTIONS]",
        groups: &[
            (
                "Frames",
                &[
                    ("sent", "how many were sent"),
                    ("flows", "how many flows were sent"),
                    ("run", "only frames of this run"),
                    ("merge", "several files by their times"),
                    ("interface", "only these of a pcapng file"),
                ],
            ),
            (
                "Result",
                &[
                    ("expect", "exit code 1 unless true: 'lost<0.1%'"),
                    ("flows-out", "a row per flow"),
                    ("hgrm", "all latencies, for plots"),
                    ("json", "JSON instead of text"),
                    ("quiet", "no notes"),
                ],
            ),
        ],
        examples: [
            "wirerate analyze capture.pcapng",
            "wirerate analyze capture.pcapng.zst --sent 1M --expect lost=0",
            "wirerate analyze capture.pcapng --flows-out flows.csv",
            "wirerate analyze a.pcapng b.pcapng --merge --json",
        ],
    },
    Page {
        command: "otg",
        usage: "[OPTIONS]",
        groups: &[
            (
                "Clients",
                &[
                    ("listen", "[default: 127.0.0.1:8443]"),
                    ("tls", "certificate and key"),
                    ("token-file", "token that clients must send"),
                ],
            ),
            ("Ports", &[("port", "other names of devices"), ("hub", "ports of other hosts")]),
            ("Result", &[("web", "a live page, http://127.0.0.1:9465"), ("metrics", "for Prometheus")]),
        ],
        examples: [
            "wirerate otg",
            "wirerate otg --port localhost:5555=eth1@lab",
            "wirerate otg run config.json --expect lost=0",
            "wirerate otg --web",
        ],
    },
];

/// The page for a command line that asks for `-h`; `None` for other commands, which have few
/// options, and for `--help`.
pub fn page(args: &[OsString]) -> Option<String> {
    let words = || args.iter().skip(1).take_while(|word| *word != "--");
    let page = PAGES.iter().find(|page| args.get(1).is_some_and(|name| name == page.command))?;
    let is_sub = words().any(|word| page.command == "otg" && word == "run");
    (words().any(|word| word == "-h") && !words().any(|word| word == "--help") && !is_sub)
        .then(|| page.text(&crate::parser_of(&[page.command, "send"])))
}

impl Page {
    fn text(&self, parser: &Command) -> String {
        let command = parser.find_subcommand(self.command).expect("pages are those of commands");
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        let mut text = format!("{about}\n\nUsage: wirerate {} {}\n", self.command, self.usage);
        let option = |name: &str| {
            let options = command.get_arguments();
            let send = parser.find_subcommand("send").into_iter().flat_map(Command::get_arguments);
            options.chain(send).find(|arg| arg.get_long() == Some(name)).expect("pages have options only")
        };
        for (heading, rows) in self.groups {
            text += &format!("\n{heading}:\n");
            for (name, meaning) in *rows {
                text += &format!("  {:<32} {meaning}\n", spelling(option(name)));
            }
        }
        text += "\nExamples:\n";
        self.examples.iter().for_each(|example| text += &format!("  {example}\n"));
        let is_counted = |arg: &&Arg| arg.get_long().is_some_and(|name| name != "help") && !arg.is_hide_set();
        let count = command.get_arguments().filter(is_counted).count();
        text + &format!("\nAll {count} options: wirerate {} --help\n", self.command)
    }
}

/// `-c, --count N`, with a short value.
fn spelling(option: &Arg) -> String {
    let short = option.get_short().map_or("    ".to_owned(), |short| format!("-{short}, "));
    let long = option.get_long().unwrap_or_default();
    let takes_value = option.get_action().takes_values();
    let values = option.get_value_names().unwrap_or_default();
    let value = values.first().filter(|_| takes_value).map_or(String::new(), |value| {
        // Of `[ADDR:]PORT` the port, of `IP[-IP]` the first address.
        let needed =
            value.strip_prefix('[').and_then(|value| value.split_once(']')).map_or(&**value, |it| it.1);
        let first = needed.split(['[', ',']).next().unwrap_or(needed);
        let is_optional = option.get_num_args().is_some_and(|range| range.min_values() == 0);
        if is_optional { format!("[={first}]") } else { format!(" {first}") }
    });
    format!("{short}--{long}{value}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn a_page_is_one_screen() {
        let parser = crate::parser();
        for page in PAGES {
            let text = page.text(&parser);
            assert!(text.lines().count() <= 40, "{}: {} lines", page.command, text.lines().count());
            for line in text.lines() {
                assert!(line.chars().count() <= 80, "{}: {line}", page.command);
                assert!(!line.contains("  ") || line.starts_with("  "), "{line}");
            }
            for row in text.lines().filter(|line| line.trim_start().starts_with('-')) {
                assert!(row.as_bytes().get(34) == Some(&b' '), "an option fits its column: {row}");
            }
        }
    }

    #[test]
    fn commands_with_more_options_than_a_screen_have_a_page() {
        for command in crate::parser().get_subcommands_mut() {
            let help = command.clone().term_width(80).render_help().to_string();
            let has_page = PAGES.iter().any(|page| page.command == command.get_name());
            assert!(has_page || help.lines().count() <= 40, "{}", command.get_name());
        }
    }

    #[test]
    fn examples_can_be_typed() {
        for example in PAGES.iter().flat_map(|page| page.examples) {
            let words = example.split(" | ").next().unwrap_or(example).replace('\'', "");
            let words = words.replace("{ udp(dport=53) }", "{udp()}").replace('"', "");
            let words = crate::other_tools::translated(words.split(' ').map(OsString::from).collect());
            assert!(crate::Cli::try_parse_from(&words).is_ok(), "{example}");
        }
    }

    #[test]
    fn only_the_short_option_asks_for_a_page() {
        let asked = |line: &str| page(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert!(asked("wirerate send -h").unwrap().starts_with("Generate frames"));
        assert!(asked("wirerate send eth1 --pps 5 -h").is_some());
        for line in ["wirerate send --help", "wirerate doctor -h", "wirerate -h", "wirerate otg run -h"] {
            assert!(asked(line).is_none(), "{line}");
        }
    }
}
