//! FILES and SEE ALSO of each manual page.

/// What a page refers to besides the argument parser.
pub(super) struct References {
    /// Files that the command reads, writes or serves, each with its meaning.
    pub(super) files: &'static [(&'static str, &'static str)],
    /// Pages to read next: name and section.
    pub(super) see_also: &'static [&'static str],
}

const ALL: &[(&str, References)] = &[
    (
        "wirerate",
        References {
            files: &[
                ("/run/wirerate/pktgen", "control files of pktgen while wirerate serve runs"),
                ("/proc/net/pktgen", "the same files, for a command that wirerate exec runs"),
                ("/dev/mgcap", "device files of captures that wirerate mgcap started"),
                ("/run/wirerate/capture", "sockets of running captures, for wirerate ctl"),
            ],
            see_also: &["ip-netns(8)", "ethtool(8)", "tcpdump(8)", "trafgen(8)", "capabilities(7)"],
        },
    ),
    (
        "send",
        References {
            files: &[],
            see_also: &[
                "wirerate-trafgen(1)",
                "wirerate-sink(1)",
                "wirerate-doctor(1)",
                "ip-netns(8)",
                "trafgen(8)",
            ],
        },
    ),
    ("trafgen", References { files: &[], see_also: &["wirerate-send(1)", "trafgen(8)", "pcap-savefile(5)"] }),
    (
        "capture",
        References {
            files: &[("/run/wirerate/capture", "socket of the capture, for wirerate ctl")],
            see_also: &[
                "wirerate-ctl(1)",
                "wirerate-count(1)",
                "pcap-filter(7)",
                "strftime(3)",
                "dumpcap(1)",
                "tcpdump(8)",
            ],
        },
    ),
    (
        "ctl",
        References {
            files: &[("/run/wirerate/capture", "sockets of running captures")],
            see_also: &["wirerate-capture(1)"],
        },
    ),
    ("count", References { files: &[], see_also: &["wirerate-sink(1)", "wirerate-capture(1)"] }),
    ("analyze", References { files: &[], see_also: &["wirerate-receive(1)", "wirerate-capture(1)"] }),
    ("info", References { files: &[], see_also: &["wirerate-analyze(1)", "capinfos(1)"] }),
    ("export", References { files: &[], see_also: &["wirerate-capture(1)", "editcap(1)"] }),
    ("measure", References { files: &[], see_also: &["wirerate-send(1)", "wirerate-receive(1)"] }),
    ("reflect", References { files: &[], see_also: &["wirerate-measure(1)", "wirerate-receive(1)"] }),
    (
        "connect",
        References { files: &[], see_also: &["wirerate-accept(1)", "wirerate-send(1)", "ss(8)", "nstat(8)"] },
    ),
    ("accept", References { files: &[], see_also: &["wirerate-connect(1)", "wirerate-receive(1)"] }),
    ("receive", References { files: &[], see_also: &["wirerate-send(1)", "wirerate-count(1)"] }),
    ("sink", References { files: &[], see_also: &["wirerate-send(1)", "wirerate-count(1)"] }),
    (
        "timestamp",
        References {
            files: &[],
            see_also: &["wirerate-capture(1)", "ethtool(8)", "hwstamp_ctl(8)", "ptp4l(8)"],
        },
    ),
    (
        "demo",
        References {
            files: &[("wirerate-demo.pcapng", "the first 100,000 frames, in the current directory")],
            see_also: &["wirerate-send(1)", "wirerate-capture(1)"],
        },
    ),
    (
        "agent",
        References {
            files: &[("/etc/wirerate/agent.toml", "the file of the agent that systemd starts")],
            see_also: &["wirerate-fleet(1)", "wirerate-send(1)", "wirerate-receive(1)"],
        },
    ),
    (
        "fleet",
        References {
            files: &[("fleet.toml", "the file of the controller, in the current directory")],
            see_also: &["wirerate-agent(1)", "wirerate-send(1)", "wirerate-doctor(1)"],
        },
    ),
    (
        "doctor",
        References {
            files: &[],
            see_also: &["wirerate-send(1)", "wirerate-capture(1)", "ethtool(8)", "capabilities(7)"],
        },
    ),
    (
        "exec",
        References {
            files: &[
                ("/proc/net/pktgen", "the control files, seen by CMD and its children"),
                ("/dev/mgcap/DEV", "device files of captures that CMD starts with ip mgcap"),
                ("/dev/fuse", "must exist and be accessible"),
            ],
            see_also: &["wirerate-serve(1)", "wirerate-send(1)", "ip-netns(8)"],
        },
    ),
    (
        "serve",
        References {
            files: &[
                ("/run/wirerate/pktgen", "the control files, without --mount"),
                ("/dev/mgcap", "the device files of captures, without --mgcap"),
                ("/dev/fuse", "must exist and be accessible"),
            ],
            see_also: &["wirerate-exec(1)", "wirerate-mgcap(1)", "systemd.service(5)"],
        },
    ),
    (
        "mgdump",
        References {
            files: &[
                ("output.pcapng", "the file, in the current directory"),
                ("/dev/mgcap/DEV", "frames of a capture"),
            ],
            see_also: &["wirerate-mgcap(1)", "wirerate-capture(1)"],
        },
    ),
    (
        "mgcap",
        References {
            files: &[
                ("/dev/mgcap/DEV", "frames of a captured device"),
                ("/dev/mgcap/.control", "orders and state"),
            ],
            see_also: &["wirerate-mgdump(1)", "wirerate-serve(1)", "wirerate-capture(1)"],
        },
    ),
];

/// The references of the page of a command; "wirerate" is the program.
pub(super) fn of(name: &str) -> &'static References {
    const NONE: References = References { files: &[], see_also: &[] };
    ALL.iter().find(|(own, _)| *own == name).map_or(&NONE, |(_, references)| references)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_referred_to_exists() {
        let pages: Vec<String> = super::super::pages().into_iter().map(|(name, _)| name).collect();
        for (name, references) in ALL {
            assert!(*name == "wirerate" || pages.contains(&format!("wirerate-{name}.1")), "{name}");
            for page in references.see_also.iter().filter(|page| page.starts_with("wirerate")) {
                assert!(pages.contains(&page.replace("(1)", ".1")), "{page}");
            }
        }
    }
}
