//! `wirerate accept DEV`: a server of TCP in XDP, as the far end of `wirerate connect`.

mod report;
mod run;

pub use report::{ACCEPT, AcceptRow, Report};
pub use run::run;

use connections::args::XdpArg;
use program::row_printer::RowArgs;
use units::{Addresses, Count, Interval, Nanos, VlanId};

/// Who ends a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum AcceptClose {
    /// The response has a FIN
    #[default]
    Server,
    /// The client; it may send several requests
    Client,
}

/// Arguments of `wirerate accept`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Device to accept on, or DEV@NETNS
    #[arg(value_name = "DEV")]
    pub device: String,
    /// Network namespace of the device, as in `ip netns`
    #[arg(long, value_name = "NAME")]
    pub netns: Option<String>,
    /// Addresses of the server [default: the first IPv4 address of the device]
    #[arg(long, value_name = "ADDRS")]
    pub dst: Option<Addresses>,
    /// Ports of the server
    #[arg(long, value_name = "PORTS", default_value = "80")]
    pub dst_port: Interval<u16>,
    /// VLAN tag of all frames
    #[arg(long, value_name = "ID")]
    pub vlan: Option<VlanId>,
    /// Bytes of the response to each request, in one segment; 0 for none
    #[arg(long, value_name = "N", default_value = "120")]
    pub response_bytes: Count,
    /// Name of this server in its responses (`Server:`)
    #[arg(long, value_name = "NAME", default_value = "wirerate")]
    pub name: String,
    /// Who ends a connection
    #[arg(long, value_name = "WHO", default_value = "server")]
    pub close: AcceptClose,
    /// Connections to accept; it ends then
    #[arg(short, long, value_name = "N")]
    pub count: Option<Count>,
    /// Time to accept, such as 10s
    #[arg(short = 't', long, value_name = "TIME")]
    pub duration: Option<Nanos>,
    /// How the XDP program is attached
    #[arg(long, value_name = "MODE", default_value = "best")]
    pub xdp: XdpArg,
    /// Send even if the device carries the default route of this host
    #[arg(long)]
    pub allow_default_route: bool,
    /// Options for a row of counts each second, as text, JSON or CSV
    #[command(flatten)]
    pub rows: RowArgs,
    /// Print the report as one line of JSON (docs/json.md)
    #[arg(long, short = 'J')]
    pub json: bool,
    /// No progress, no notes
    #[arg(long, short)]
    pub quiet: bool,
}
