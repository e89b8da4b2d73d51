//! `wirerate connect DEV --dst A:P --src A`: connections and requests with a live server.
//!
//! [`args`] has the options that `accept` has as well; [`Setup`] is what searches repeat.
#![forbid(unsafe_code)]

pub mod args;
mod expect;
mod report;
mod request;
mod row;
mod run;
mod run_setup;

pub use expect::Expectation;
pub use report::{CONNECT, Report};
pub use row::ConnectRow;
pub use run::run;
pub use run_setup::Setup;

use crate::args::{GroupArg, Target, XdpArg};
use connect::Query;
use packet::{Arrivals, MacAddr};
use program::row_printer::RowArgs;
use std::path::PathBuf;
use units::{Addresses, Count, FrameRate, Interval, Nanos, VlanId, arrivals};

/// Who ends a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum CloseArg {
    /// The server, after its last response
    Server,
    /// The client with a FIN, after the last response
    Client,
    /// The client with a reset, after the last response
    Reset,
}

/// When a response is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ResponseEndArg {
    /// A segment with PSH
    Push,
    /// The FIN of the server
    Close,
    /// Header and Content-Length, read in the first segment
    Http,
    /// The first segment
    First,
}

/// Arguments of `wirerate connect`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Device to connect by, or DEV@NETNS
    #[arg(value_name = "DEV")]
    pub device: String,
    /// Network namespace of the device, as in `ip netns`
    #[arg(long, value_name = "NAME")]
    pub netns: Option<String>,

    /// Servers: address and port, or ranges of them, such as 198.18.0.2:80 or
    /// `[fd00::2]:8000-8009`; several with commas
    #[arg(
        long,
        value_name = "ADDR:PORT,...",
        required = true,
        value_delimiter = ',',
        help_heading = "Addresses",
        help = "Servers: address and port, or ranges of them, such as 198.18.0.2:80 or \
                [fd00::2]:8000-8009; several with commas"
    )]
    pub dst: Vec<Target>,
    /// Client addresses, such as 198.18.64.0/20; no address of this host
    #[arg(long, value_name = "ADDRS", required = true, help_heading = "Addresses")]
    pub src: Addresses,
    /// Client ports [default: as many of 1024-65535 as are needed]
    #[arg(long, value_name = "PORTS", help_heading = "Addresses")]
    pub src_port: Option<Interval<u16>>,
    /// MAC address of the server or the router to it [default: by ARP or neighbour discovery]
    #[arg(long, value_name = "MAC", help_heading = "Addresses")]
    pub dst_mac: Option<MacAddr>,
    /// VLAN tag of all frames; needs --dst-mac
    #[arg(long, value_name = "ID", requires = "dst_mac", help_heading = "Addresses")]
    pub vlan: Option<VlanId>,
    /// Allow client addresses that this host has; it answers the server with resets
    #[arg(long, help_heading = "Addresses")]
    pub use_host_address: bool,

    /// New connections per second, such as 50k or 0.5
    #[arg(long, value_name = "N", help_heading = "How many")]
    pub cps: Option<FrameRate>,
    /// Arrivals of new connections at --cps: constant, poisson, poisson:SEED
    #[arg(long, value_name = "PROCESS", value_parser = arrivals, requires = "cps", help_heading = "How many")]
    pub arrivals: Option<Arrivals>,
    /// N connections at all times: the end of one opens the next. With --cps: at most N
    /// [default: 64 without --cps and --hold]
    #[arg(long, value_name = "N", help_heading = "How many")]
    pub open: Option<Count>,
    /// At most N connections of each client address at a time
    #[arg(long, value_name = "N", help_heading = "How many", value_parser = clap::value_parser!(u32).range(1..))]
    pub open_per_client: Option<u32>,
    /// Open N connections and keep them until -t has passed, or Ctrl-C
    #[arg(long, value_name = "N", conflicts_with_all = ["open", "count", "requests"], help_heading = "How many")]
    pub hold: Option<Count>,
    /// Requests per second on held connections, one after another
    #[arg(
        long,
        value_name = "N",
        requires = "hold",
        conflicts_with = "no_request",
        help_heading = "How many"
    )]
    pub ask_rate: Option<FrameRate>,
    /// Connections in all
    #[arg(short, long, value_name = "N", help_heading = "How many")]
    pub count: Option<Count>,
    /// Time to open and hold connections, such as 10s
    #[arg(short = 't', long, value_name = "TIME", help_heading = "How many")]
    pub duration: Option<Nanos>,

    /// GET request of HTTP/1.1 [default: / with nothing else to send]
    #[arg(long, value_name = "PATH", group = "sent", help_heading = "Requests")]
    pub get: Option<String>,
    /// Host header of --get, and name of --tls-hello [default for --get: the address of the
    /// first server, and its port unless that is 80]
    #[arg(long, value_name = "NAME", help_heading = "Requests")]
    pub host: Option<String>,
    /// Send the bytes of this file as the request
    #[arg(long, value_name = "FILE", group = "sent", help_heading = "Requests")]
    pub payload: Option<PathBuf>,
    /// Open and close only
    #[arg(long, group = "sent", help_heading = "Requests")]
    pub no_request: bool,
    /// DNS queries over UDP for a name, such as example.com or example.com,AAAA
    #[arg(long, value_name = "NAME[,TYPE]", group = "sent", help_heading = "Requests")]
    pub dns: Option<Query>,
    /// A ClientHello of TLS; the response is its first segment, a ServerHello or an error
    #[arg(long, group = "sent", help_heading = "Requests")]
    pub tls_hello: bool,
    /// A QUIC packet over UDP that the server answers with its versions
    #[arg(long, group = "sent", help_heading = "Requests")]
    pub quic_initial: bool,
    /// Datagrams instead of connections: the first one back is the answer. Needs --payload
    #[arg(long, requires = "payload", help_heading = "Requests")]
    pub udp: bool,
    /// Requests of a connection, one after another (keep-alive)
    #[arg(long, value_name = "N", default_value = "1", help_heading = "Requests",
          value_parser = clap::value_parser!(u16).range(1..))]
    pub requests: u16,
    /// A response is complete after N bytes, its header included
    #[arg(long, value_name = "N", conflicts_with = "response_end", help_heading = "Requests")]
    pub response_bytes: Option<Count>,
    /// What completes a response [default: http with --get, first with --tls-hello, push with
    /// --payload, or close if the server closes]
    #[arg(long, value_name = "WHAT", help_heading = "Requests")]
    pub response_end: Option<ResponseEndArg>,
    /// Who ends a connection [default: the server after a single GET, or the client]
    #[arg(long, value_name = "WHO", help_heading = "Requests")]
    pub close: Option<CloseArg>,
    /// Time without progress after which a connection has failed [default: 30s, datagrams: 5s]
    #[arg(long, value_name = "TIME", help_heading = "Requests")]
    pub timeout: Option<Nanos>,

    /// How the XDP program is attached
    #[arg(long, value_name = "MODE", default_value = "best")]
    pub xdp: XdpArg,
    /// CPU of the sending thread
    #[arg(long, value_name = "N")]
    pub cpu: Option<u32>,
    /// Send even if the device carries the default route of this host
    #[arg(long)]
    pub allow_default_route: bool,
    /// Allow more than 100,000 new connections per second to a server behind a router
    #[arg(long)]
    pub allow_routed: bool,
    /// Count responses by these bytes of their first segment, such as payload:25:2: how a load
    /// balancer distributes them
    #[arg(long, value_name = "BYTES", help_heading = "Result")]
    pub group_by: Option<GroupArg>,
    /// Exit code 1 unless true: 'failed=0', 'cps>=50k', 'connect_p99<1ms'; may be repeated
    #[arg(long = "expect", value_name = "CHECK", help_heading = "Result")]
    pub expect: Vec<Expectation>,
    /// Options for a row of counts each second, as text, JSON or CSV
    #[command(flatten, next_help_heading = "Result")]
    pub rows: RowArgs,
    /// Print the report as one line of JSON (docs/json.md)
    #[arg(long, short = 'J', help_heading = "Result")]
    pub json: bool,
    /// No progress, no notes
    #[arg(long, short, help_heading = "Result")]
    pub quiet: bool,
}
