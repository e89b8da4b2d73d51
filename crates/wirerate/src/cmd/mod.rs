//! The subcommands: one enum, one file each.

pub mod accept;
pub mod analyze;
pub mod capture;
pub mod count;
pub mod ctl;
pub mod demo;
pub mod exec;
pub mod help;
pub mod info;
pub mod man;
pub mod measure;
pub mod reflect;
pub mod replay;
pub mod rewrite;
pub mod serve;
pub mod timestamp;
pub mod trafgen;

use crate::completions;
use crate::deferred::Deferred;
use host::DevicePlace;
use options::receive::ReceiveArgs;
use options::send::SendArgs;
use options::stream_file::job_of;
use program::monitor::{Monitored, RunSubject};
use program::outcome::{Failure, Outcome};
use program::stop::Stop;
use receiver::count::CountKind;

const COUNT_HELP: &str = "\
Prints a row each second on a terminal or with --every-second. Ctrl-C ends it.\n\n\
Examples:\n  \
wirerate count eth1\n  \
wirerate count eth1 --every-second --json\n  \
wirerate count eth1 tcp port 80";

const CTL_HELP: &str = "\
For a multi-device capture, name any of its devices; the command applies to the whole capture.\n\n\
Examples:\n  \
wirerate ctl eth1 mode drop\n  \
wirerate ctl eth1 mode mirror\n  \
wirerate ctl eth1 stats\n  \
wirerate ctl eth1 rotate\n  \
wirerate ctl eth1 stop";

const SINK_HELP: &str = "\
The cheapest receiver, for measuring a sender: the host receives none of the frames.\n\
Prints a row each second on a terminal or with --every-second. Ctrl-C ends it.\n\
A filter counts the sender's frames only; the host receives the others.\n\n\
Examples:\n  \
wirerate sink eth1 --duration 10s\n  \
wirerate sink eth1 udp port 9\n  \
wirerate sink veth1 --netns lab";

const RECEIVE_HELP: &str = "\
Start it before the sender, and measure one run of one sender at a time. It ends with a sender that\n\
announces its end (send --signature full, or --end-frames 5). The host receives frames without a\n\
signature. The docs explain each result (docs/measure.md).\n\n\
Examples:\n  \
wirerate receive eth1\n  \
wirerate receive eth1 --count 1M --sent 1M --expect lost=0 --expect 'p99<50us'\n  \
wirerate receive veth1 --netns lab --duration 10s --flows-out flows.csv";

const MEASURE_HELP: &str = "\
Takes all options of send for the frames. The receiver starts first. When all frames are sent, the\n\
receiver waits until no more arrive, and both reports are printed.\n\n\
Examples:\n  \
wirerate measure --tx eth1 --rx eth2 --dst 198.18.0.2 --count 1M --pps 100k\n  \
wirerate measure --tx veth0 --rx veth1@lab --expect lost=0 --dst 198.18.0.2 --count 1M";

const REFLECT_HELP: &str = "\
Swaps MAC addresses, IP addresses and ports of frames with a signature, and sends them back by XDP.\n\
The host receives all others. The sender measures round trips on the device that it sends on. Run\n\
one reflector on a path: two would send the frames to and fro.\n\n\
Examples:\n  \
wirerate reflect eth2\n  \
wirerate measure --tx eth1 --rx eth1 --dst 198.18.0.2 --count 1M --pps 100k";

const CONNECT_HELP: &str = "\
Opens TCP connections with any server, through firewalls, NAT and load balancers: an XDP program\n\
answers the server in the kernel, without sockets. The docs explain each result\n\
(docs/connect.md).\n\n\
Examples:\n  \
wirerate connect eth1 --dst 198.18.0.2:80 --src 198.18.64.0/20 --cps 20k -t 10s\n  \
wirerate connect eth1 --dst 198.18.0.2:80 --src 198.18.64.0/20 --open 64 --requests 100 -t 10s\n  \
wirerate connect eth1 --dst 198.18.0.2:80 --src 198.18.64.0/20 --hold 200k --cps 50k -t 60s\n  \
wirerate connect eth1 --dst 198.18.0.2:53 --src 198.18.64.0/24 --dns example.com --open 100 -t 10s";

const ACCEPT_HELP: &str = "\
Answers SYNs, requests and FINs by XDP, without sockets and without memory of connections, so that\n\
client and server of a test can be two ports of one machine. The host receives all other frames.\n\n\
Examples:\n  \
wirerate accept eth2\n  \
wirerate accept eth2 --dst-port 80 --response-bytes 1000 -t 60s\n  \
wirerate accept s0@server --response-bytes 0 --close client";

const INFO_HELP: &str = "\
Files are pcap or pcapng, plain or compressed (gzip, zstd, lz4, xz). The exit code is 1 if a file is\n\
damaged.\n\n\
Examples:\n  \
wirerate info capture.pcapng\n  \
wirerate info -J *.pcap.zst";

const ANALYZE_HELP: &str = "\
Files are pcap or pcapng, plain or compressed (gzip, zstd, lz4, xz). The frames are those of `send`\n\
and of the kernel's pktgen, captured anywhere on their way. The docs explain each result\n\
(docs/measure.md).\n\n\
Examples:\n  \
wirerate analyze capture.pcapng\n  \
wirerate analyze capture.pcapng.zst --sent 1M --expect lost=0\n  \
tcpdump -i eth1 -w - udp port 9 | wirerate analyze -";

#[cfg(feature = "export")]
const EXPORT_HELP: &str = "\
Files are pcap or pcapng, plain or compressed (gzip, zstd, lz4, xz). The data set is\n\
DIR/run=ID/host=NAME/device=DEV/part-TIME-N.parquet, with what the capture lost in loss-N.parquet.\n\
The docs explain each column and have queries for DuckDB and Spark (docs/parquet.md).\n\n\
Examples:\n  \
wirerate export capture.pcapng.zst -o packets\n  \
wirerate export day/*.pcapng -o packets --run monday --no-bytes\n  \
wirerate export capture.pcapng.zst -o s3://captures/lab\n  \
wirerate export packets/run=monday --to pcapng -o monday.pcapng";

#[cfg(feature = "otg")]
const OTG_HELP: &str = "\
Clients name a port by its device: eth1, or lab/eth1 in the namespace lab. Ctrl-C ends all flows and\n\
lets the devices go.\n\n\
Examples:\n  \
wirerate otg\n  \
wirerate otg --listen 127.0.0.1:8443 --port localhost:5555=eth1@lab\n  \
wirerate otg run config.json --expect lost=0";

#[cfg(feature = "fleet")]
const AGENT_HELP: &str = "\
Controllers (wirerate fleet run) may send and receive on the ports of its file, within its limits.\n\
Nothing is ever sent on the device of the default route.\n\n\
Examples:\n  \
wirerate fleet init --hosts h1,h2 --address 192.0.2.1\n  \
wirerate agent --config agent-h1.toml";

#[cfg(feature = "fleet")]
const FLEET_HELP: &str = "\
The hub is an unmodified nats-server (2.10 or later) with JetStream; each host runs wirerate agent\n\
(docs/fleet.md).\n\n\
Exit codes: 0 whole; 1 not whole, or not started; 2 usage error; 3 the hub was not reached.\n\n\
Examples:\n  \
wirerate fleet init --hosts h1,h2 --address 192.0.2.1\n  \
wirerate fleet hosts\n  \
wirerate fleet run test.toml\n  \
wirerate fleet report RUN --json";

#[cfg(feature = "report")]
const REPORT_HELP: &str = "\
The page has no scripts and needs no network. Several files are compared with the first one.\n\n\
Examples:\n  \
wirerate report results.jsonl -o report.html\n  \
wirerate report kernel-6.1.jsonl kernel-6.12.jsonl -o report.html";

/// What wirerate can do.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Generate frames and send them on a device
    Send(Deferred<Monitored<SendArgs>>),
    /// Send the packets of capture files, with their own times or at a rate
    Replay(Deferred<Monitored<replay::Args>>),
    /// Edit the packets of capture files: addresses, ports, tags, checksums, lengths
    Rewrite(Deferred<rewrite::Args>),
    /// Send the packets of capture files as tcpreplay does; also by that name
    #[command(hide = true, name = "tcpreplay")]
    Tcpreplay(Deferred<replay::tcpreplay::TcpreplayArgs>),
    /// Send frames in trafgen's packet language, or write them to a file
    Trafgen(Deferred<Monitored<trafgen::Args>>),
    /// Capture the frames that a device receives
    Capture(Deferred<Monitored<capture::Args>>),
    /// Control a running capture: change its mode, print statistics, or stop it
    #[command(after_help = CTL_HELP, alias = "tell")]
    Ctl(Deferred<ctl::Args>),
    /// Count the frames that a device receives
    #[command(after_help = COUNT_HELP, override_usage = "wirerate count [OPTIONS] DEV [FILTER]")]
    Count(Deferred<Monitored<count::Args>>),
    /// Count the frames that a device receives and drop them in the driver
    #[command(after_help = SINK_HELP, override_usage = "wirerate sink [OPTIONS] DEV [FILTER]")]
    Sink(Deferred<Monitored<count::Args>>),
    /// Measure loss, duplicates, order and latency of the frames of a sender
    #[command(after_help = RECEIVE_HELP)]
    Receive(Deferred<Monitored<ReceiveArgs>>),
    /// Send through a device under test, and measure what comes back
    #[command(after_help = MEASURE_HELP)]
    Measure(Deferred<Monitored<measure::Args>>),
    /// Send measured frames back, so that their sender measures round trips
    #[command(after_help = REFLECT_HELP)]
    Reflect(Deferred<Monitored<reflect::Args>>),
    /// Open connections with a live server, and send requests
    #[command(after_help = CONNECT_HELP)]
    Connect(Deferred<Monitored<connections::Args>>),
    /// Accept connections: the far end of connect
    #[command(after_help = ACCEPT_HELP)]
    Accept(Deferred<Monitored<accept::Args>>),
    /// Measure loss, duplicates, order and latency of the frames in capture files
    #[command(after_help = ANALYZE_HELP)]
    Analyze(Deferred<analyze::Args>),
    /// Show what capture files are and what is in them
    #[command(after_help = INFO_HELP)]
    Info(Deferred<info::Args>),
    #[cfg(feature = "export")]
    /// Write capture files as a Parquet data set for DuckDB, Spark and others, or one as pcapng
    #[command(after_help = EXPORT_HELP)]
    Export(Deferred<export::Args>),
    /// Let a device stamp the frames that it receives, and show what it can do
    Timestamp(Deferred<timestamp::Args>),
    /// Send ten million frames between devices made for it, capture them, and account for each
    Demo(Deferred<demo::Args>),
    #[cfg(feature = "report")]
    /// Find the highest load that passes between two devices without loss
    Search(Deferred<Monitored<trials::search::Args>>),
    #[cfg(feature = "report")]
    /// Run the tests of RFC 2544: throughput, latency, loss, bursts, recovery
    #[command(name = "rfc2544")]
    Rfc2544(Deferred<Monitored<trials::rfc2544::Args>>),
    #[cfg(feature = "report")]
    /// Render result files as one HTML page and compare them
    #[command(after_help = REPORT_HELP)]
    Report(Deferred<trials::page::Args>),
    #[cfg(feature = "otg")]
    /// Serve the Open Traffic Generator API, for snappi, gosnappi and otgen
    #[command(after_help = OTG_HELP)]
    Otg(Deferred<Monitored<ports::Args>>),
    #[cfg(feature = "fleet")]
    /// Let a fleet send and receive on ports of this host
    #[command(after_help = AGENT_HELP)]
    Agent(Deferred<fleets::agent::Args>),
    #[cfg(feature = "fleet")]
    /// Run one test over many hosts: loss, latency and rates of flows between them
    #[command(after_help = FLEET_HELP)]
    Fleet(Deferred<fleets::Args>),
    /// Report what works on this machine, what limits it, and what to change
    Doctor(Deferred<doctor::Args>),
    /// Run a command that finds pktgen's control files at /proc/net/pktgen
    Exec(Deferred<exec::Args>),
    /// Keep pktgen's control files on a directory, for everyone
    Serve(Deferred<Monitored<serve::Args>>),
    #[cfg(feature = "mgcap")]
    /// Capture to output.pcapng as mgcap's mgdump did; also by that name
    Mgdump(Deferred<mgcap::mgdump::Args>),
    #[cfg(feature = "mgcap")]
    /// Keep captures that are read from /dev/mgcap/DEV; also by that name
    Mgcap(Deferred<mgcap::Args>),
    #[cfg(feature = "mgcap")]
    /// Switch the time stamps of a network card as mgcap_hwtstamp_config did
    #[command(hide = true, name = "mgcap_hwtstamp_config")]
    MgcapHwtstampConfig(Deferred<timestamp::OldArgs>),
    /// Explain wirerate or one of its commands
    Help(Deferred<help::Args>),
    /// Print the completion script of a shell
    Completions(Deferred<completions::Args>),
    /// Print the candidates for a word, for completion scripts
    #[command(hide = true)]
    Complete(Deferred<completions::WordsArgs>),
    /// Print a manual page, or write all of them
    Man(Deferred<man::Args>),
}

impl Command {
    /// True for commands that queue signals themselves, and must find them as the caller left them.
    pub fn owns_signals(&self) -> bool {
        matches!(self, Self::Exec(_) | Self::Serve(_))
    }

    /// True for a command that prints its counts at SIGUSR1. A replay pauses.
    pub fn prints_counts(&self) -> bool {
        !matches!(self, Self::Replay(_) | Self::Tcpreplay(_))
    }

    /// True for a command whose threads allocate little once they run.
    pub fn is_frugal(&self) -> bool {
        matches!(self, Self::Send(_))
    }

    /// True for a command that becomes another user once devices are open.
    pub fn becomes_other_user(&self) -> bool {
        matches!(self, Self::Capture(command) if command.args.user.is_some())
    }

    /// Takes the namespace from a device that is named `DEV@NETNS`. Commands with several devices
    /// do it themselves.
    ///
    /// # Errors
    /// Bad usage for a capture on devices of several namespaces.
    fn split_device(&mut self) -> Result<(), Failure> {
        let (device, netns) = match self {
            Self::Send(Deferred(command)) => (&mut command.args.device, &mut command.args.netns),
            Self::Replay(Deferred(command)) => (&mut command.args.device, &mut command.args.netns),
            Self::Tcpreplay(Deferred(args)) => (&mut args.device, &mut args.netns),
            Self::Receive(Deferred(command)) => (&mut command.args.run.device, &mut command.args.run.netns),
            Self::Reflect(Deferred(command)) => (&mut command.args.run.device, &mut command.args.run.netns),
            Self::Connect(Deferred(command)) => (&mut command.args.device, &mut command.args.netns),
            Self::Accept(Deferred(command)) => (&mut command.args.device, &mut command.args.netns),
            Self::Ctl(Deferred(args)) => (&mut args.device, &mut args.netns),
            Self::Timestamp(Deferred(args)) => (&mut args.device, &mut args.netns),
            #[cfg(feature = "mgcap")]
            Self::MgcapHwtstampConfig(Deferred(args)) => (&mut args.device, &mut args.netns),
            #[cfg(feature = "mgcap")]
            Self::Mgdump(Deferred(args)) => (&mut args.device, &mut args.netns),
            Self::Doctor(Deferred(args)) => match &mut args.device {
                Some(device) => (device, &mut args.netns),
                None => return Ok(()),
            },
            Self::Capture(command) => return command.args.rx.split_devices("capture"),
            Self::Count(command) => return command.args.rx.split_devices("count"),
            Self::Sink(command) => return command.args.rx.split_devices("sink"),
            _ => return Ok(()),
        };
        let place = DevicePlace::of(device, netns.as_deref());
        (*device, *netns) = (place.device, place.netns);
        Ok(())
    }

    /// Does it. `stop` is set by Ctrl-C.
    ///
    /// # Errors
    /// What could not be done, ready to be printed.
    pub fn run(mut self, stop: &Stop) -> Result<Outcome, Failure> {
        self.split_device()?;
        match self {
            Self::Send(command) => {
                let subject = subject("send", &command.args.device, command.args.netns.as_deref());
                command.run(subject, stop, |args| sender::run(&job_of(args.clone())?, stop))
            }
            Self::Replay(command) => {
                let subject = subject("replay", &command.args.device, command.args.netns.as_deref());
                command.run(subject, stop, |args| replay::run(args, stop))
            }
            Self::Rewrite(args) => rewrite::run(&args, stop),
            Self::Tcpreplay(args) => replay::tcpreplay::run(*args.0, stop),
            Self::Trafgen(command) => {
                command.run(subject("trafgen", "", None), stop, |args| trafgen::run(args, stop))
            }
            Self::Capture(command) => {
                let subject = subject("capture", "", command.args.rx.netns.as_deref());
                command.run(subject, stop, |args| capture::run(args, stop))
            }
            Self::Ctl(args) => ctl::run(&args),
            Self::Count(command) => {
                let subject = subject("count", "", command.args.rx.netns.as_deref());
                command.run(subject, stop, |args| receiver::count::run(&args.job(CountKind::Count)?, stop))
            }
            Self::Sink(command) => {
                let subject = subject("sink", "", command.args.rx.netns.as_deref());
                command.run(subject, stop, |args| receiver::count::run(&args.job(CountKind::Sink)?, stop))
            }
            Self::Receive(command) => {
                let subject = subject("receive", &command.args.run.device, command.args.run.netns.as_deref());
                command.run(subject, stop, |args| receiver::run(&args.job(), stop))
            }
            Self::Measure(command) => {
                let place = command.args.transmitter();
                let subject = subject("measure", &place.device, place.netns.as_deref());
                command.run(subject, stop, |args| measure::run(args, stop))
            }
            Self::Reflect(command) => {
                let subject = subject("reflect", &command.args.run.device, command.args.run.netns.as_deref());
                command.run(subject, stop, |args| reflect::run(args, stop))
            }
            Self::Connect(command) => {
                let subject = subject("connect", &command.args.device, command.args.netns.as_deref());
                command.run(subject, stop, |args| connections::run(args, stop))
            }
            Self::Accept(command) => {
                let subject = subject("accept", &command.args.device, command.args.netns.as_deref());
                command.run(subject, stop, |args| accept::run(args, stop))
            }
            Self::Analyze(args) => analyze::run(&args, stop),
            Self::Info(args) => info::run(&args, stop),
            #[cfg(feature = "export")]
            Self::Export(args) => export::run(&args, stop),
            Self::Timestamp(args) => timestamp::run(&args),
            Self::Demo(args) => demo::run(&args, stop),
            #[cfg(feature = "report")]
            Self::Search(command) => {
                command.run(subject("search", "", None), stop, |args| trials::search::run(args, stop))
            }
            #[cfg(feature = "report")]
            Self::Rfc2544(command) => {
                command.run(subject("rfc2544", "", None), stop, |args| trials::rfc2544::run(args, stop))
            }
            #[cfg(feature = "report")]
            Self::Report(args) => trials::page::run(&args),
            #[cfg(feature = "otg")]
            Self::Otg(command) => command.run(subject("otg", "", None), stop, |args| ports::run(args, stop)),
            #[cfg(feature = "fleet")]
            Self::Agent(args) => fleets::agent::run(&args, stop),
            #[cfg(feature = "fleet")]
            Self::Fleet(args) => fleets::run(&args, stop),
            Self::Doctor(args) => doctor::run(&args),
            Self::Exec(args) => exec::run(&args),
            Self::Serve(command) => {
                command.run(subject("serve", "", None), stop, |args| serve::run(args, stop))
            }
            #[cfg(feature = "mgcap")]
            Self::Mgdump(args) => mgcap::mgdump::run(&args, stop),
            #[cfg(feature = "mgcap")]
            Self::Mgcap(args) => mgcap::run(&args),
            #[cfg(feature = "mgcap")]
            Self::MgcapHwtstampConfig(args) => timestamp::run(&(*args.0).into()),
            Self::Help(args) => help::run(&args),
            Self::Completions(args) => completions::run(&args),
            Self::Complete(args) => completions::complete(&args),
            Self::Man(args) => man::run(&args),
        }
    }
}

fn subject(command: &'static str, device: &str, netns: Option<&str>) -> RunSubject {
    RunSubject { command, device: device.to_owned(), netns: netns.unwrap_or_default().to_owned() }
}
