//! The subcommands: one enum, one file each.

pub mod bench;
pub mod capture;
pub mod completions;
pub mod count;
pub mod demo;
pub mod doctor;
pub mod exec;
pub mod help;
pub mod man;
pub mod mgcap;
pub mod mgdump;
pub mod received;
pub mod send;
pub mod serve;
pub mod tell;
pub mod timestamp;
pub mod trafgen;

use crate::outcome::{Failure, Outcome};
use crate::stop::Stop;

const COUNT_HELP: &str = "\
Each second one line on standard output: frames of each CPU, their sum, and frames in that second.\n\
Ctrl-C ends it; the report at the end is exact.\n\n\
Examples:\n  \
wirerate count eth1\n  \
wirerate count eth1 --count 1M --json";

const TELL_HELP: &str = "\
A capture of several devices is told by the name of any of them, and it is told as a whole.\n\n\
Examples:\n  \
wirerate tell eth1 mode drop\n  \
wirerate tell eth1 mode mirror\n  \
wirerate tell eth1 stats\n  \
wirerate tell eth1 stop";

const SINK_HELP: &str = "\
The cheapest receiver there is, for measuring a sender: the host sees none of the frames.\n\
Each second one line on standard output: frames of each CPU, their sum, and frames in that second.\n\n\
Examples:\n  \
wirerate sink eth1 --duration 10s\n  \
wirerate sink veth1 --netns lab";

const BENCH_HELP: &str = "\
The counter of the receiving device decides. No other program should use the two devices meanwhile.\n\n\
Examples:\n  \
wirerate bench\n  \
wirerate bench --only pacing\n  \
wirerate bench --only generate --tx eth1 --rx eth2@receiver";

/// What wirerate can do.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Generate frames and send them on a device
    Send(Box<send::Args>),
    /// Write frames in trafgen's packet language to a file
    Trafgen(Box<trafgen::Args>),
    /// Capture the frames that a device receives
    Capture(capture::Args),
    /// Tell a running capture to switch its mode, to say how it goes, or to stop
    #[command(after_help = TELL_HELP)]
    Tell(tell::Args),
    /// Count the frames that a device receives, and do nothing else to them
    #[command(after_help = COUNT_HELP)]
    Count(count::Args),
    /// Count the frames that a device receives, and drop them in the driver
    #[command(after_help = SINK_HELP)]
    Sink(count::Args),
    /// Let a device stamp the frames that it receives, and show what it can do
    Timestamp(timestamp::Args),
    /// Send ten million frames between devices made for it, capture them, and account for each
    Demo(demo::Args),
    /// Measure rates, paces, starts and captures, on devices made for it or on two of yours
    #[command(after_help = BENCH_HELP)]
    Bench(bench::Args),
    /// Report what works on this machine, what limits it, and what to change
    Doctor(doctor::Args),
    /// Run a command that finds pktgen's control files at /proc/net/pktgen
    Exec(exec::Args),
    /// Keep pktgen's control files on a directory, for everyone
    Serve(serve::Args),
    /// Capture to output.pcapng as mgcap's mgdump did; also by that name
    Mgdump(mgdump::Args),
    /// Keep captures that are read from /dev/mgcap/DEV; also by that name
    Mgcap(mgcap::Args),
    /// Switch the time stamps of a network card as mgcap_hwtstamp_config did
    #[command(hide = true, name = "mgcap_hwtstamp_config")]
    MgcapHwtstampConfig(timestamp::OldArgs),
    /// Explain wirerate or one of its commands
    Help(help::Args),
    /// Print the completion script of a shell
    #[command(hide = true)]
    Completions(completions::Args),
    /// Print the manual page
    #[command(hide = true)]
    Man(man::Args),
}

impl Command {
    /// True for commands that queue signals themselves, and must find them as the caller left them.
    pub fn owns_signals(&self) -> bool {
        matches!(self, Self::Exec(_) | Self::Serve(_))
    }

    /// True for a command that becomes another user once devices are open.
    pub fn becomes_other_user(&self) -> bool {
        matches!(self, Self::Capture(args) if args.user.is_some())
    }

    /// Does it. `stop` is set by Ctrl-C.
    ///
    /// # Errors
    /// What could not be done, ready to be printed.
    pub fn run(self, stop: &Stop) -> Result<Outcome, Failure> {
        match self {
            Self::Send(args) => send::run(&args, stop),
            Self::Trafgen(args) => trafgen::run(&args, stop),
            Self::Capture(args) => capture::run(&args, stop),
            Self::Tell(args) => tell::run(&args),
            Self::Count(args) => count::run(count::Kind::Count, &args, stop),
            Self::Sink(args) => count::run(count::Kind::Sink, &args, stop),
            Self::Timestamp(args) => timestamp::run(&args),
            Self::Demo(args) => demo::run(&args, stop),
            Self::Bench(args) => bench::run(&args, stop),
            Self::Doctor(args) => doctor::run(&args),
            Self::Exec(args) => exec::run(&args),
            Self::Serve(args) => serve::run(&args),
            Self::Mgdump(args) => mgdump::run(&args, stop),
            Self::Mgcap(args) => mgcap::run(&args),
            Self::MgcapHwtstampConfig(args) => timestamp::run(&args.into()),
            Self::Help(args) => help::run(&args),
            Self::Completions(args) => completions::run(&args),
            Self::Man(args) => man::run(&args),
        }
    }
}
