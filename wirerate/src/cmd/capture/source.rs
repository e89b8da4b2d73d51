//! The arguments of `wirerate capture` that say which frames are taken, and where.

use capture::Options;
use clap::ValueEnum;

/// Which of the two ways is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Source {
    /// A program in the driver, or where the stack begins
    Xdp,
    /// Packet sockets beside the stack: outgoing frames, loopback, any device
    Tpacket,
}

/// Frames on their way to the host, from it, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Direction {
    /// Frames that the device received
    In,
    /// Frames that the host sends
    Out,
    /// All of them
    Both,
}

/// Whose clock gives the times of frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Clock {
    /// The device's where it stamps frames, converted to time of day; the kernel's for all others
    #[default]
    Utc,
    /// The device's as it is, for the frames that it stamps
    Phc,
    /// The kernel's for every frame
    System,
}

/// What shares frames out among the threads of packet sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Fanout {
    /// The CPU that handles a frame
    Cpu,
    /// Its addresses and ports
    Hash,
}

/// See the top of the file.
#[derive(Clone, Debug, clap::Args)]
pub struct SourceArgs {
    /// Capture only frames that match, such as 'udp port 9'; in the language of pcap-filter(7)
    #[arg(long, value_name = "EXPRESSION")]
    pub filter: Option<String>,
    /// Where frames are taken off the device [default: xdp where it can]
    #[arg(long, value_enum)]
    pub source: Option<Source>,
    /// Whose clock gives the times of frames
    #[arg(long, value_enum, default_value = "utc")]
    pub clock: Clock,
    /// Which frames; all but `in` need packet sockets
    #[arg(long, value_enum, default_value = "in")]
    pub direction: Direction,
    /// What shares frames out among packet sockets
    #[arg(long, value_enum, default_value = "cpu")]
    pub fanout: Fanout,
    /// Replace an XDP program that an earlier wirerate left on the device; never another program
    #[arg(long)]
    pub force: bool,
}

impl SourceArgs {
    /// `options` with these wishes.
    pub fn apply(&self, options: Options) -> Options {
        Options {
            filter: self.filter.clone(),
            source: match self.source {
                None => capture::SourceKind::Best,
                Some(Source::Xdp) => capture::SourceKind::Xdp,
                Some(Source::Tpacket) => capture::SourceKind::Tpacket,
            },
            clock: match self.clock {
                Clock::Utc => capture::ClockMode::Utc,
                Clock::Phc => capture::ClockMode::Phc,
                Clock::System => capture::ClockMode::System,
            },
            direction: match self.direction {
                Direction::In => capture::Direction::In,
                Direction::Out => capture::Direction::Out,
                Direction::Both => capture::Direction::Both,
            },
            fanout: match self.fanout {
                Fanout::Cpu => capture::Fanout::Cpu,
                Fanout::Hash => capture::Fanout::Hash,
            },
            replace_ours: self.force,
            ..options
        }
    }
}
