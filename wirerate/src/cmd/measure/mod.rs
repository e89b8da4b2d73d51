//! `wirerate measure --tx DEV --rx DEV`: sender and receiver in one process, and their reports.

mod run;

pub use run::run;

use crate::bad_usage;
use crate::cmd::receive::ReceiverArgs;
use crate::cmd::search::split_netns;
use crate::cmd::send;
use crate::outcome::Failure;
use crate::units::Nanos;
use clap::Parser;
use std::ffi::OsString;

/// Arguments of `wirerate measure`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The device to send on, with its network namespace
    #[arg(long, value_name = "DEV[@NETNS]")]
    pub tx: String,
    /// The device to receive on
    #[arg(long, value_name = "DEV[@NETNS]")]
    pub rx: String,
    /// Network namespace of the sending device
    #[arg(long, value_name = "NAME", hide = true)]
    pub tx_netns: Option<String>,
    /// Network namespace of the receiving device
    #[arg(long, value_name = "NAME", hide = true)]
    pub rx_netns: Option<String>,
    /// See [`ReceiverArgs`]
    #[command(flatten)]
    pub options: ReceiverArgs,
    /// How long to wait for a frame after sending has ended, before all others count as lost
    #[arg(long, value_name = "TIME", default_value = "200ms")]
    pub settle: Nanos,
    /// Options of send: frames, rate, count, duration
    #[arg(last = true, value_name = "OPTIONS OF SEND")]
    pub send: Vec<OsString>,
}

/// The options of send, parsed as send parses them.
#[derive(Debug, Parser)]
#[command(name = "wirerate measure ... --", disable_help_flag = true)]
struct SendLine {
    #[command(flatten)]
    args: send::Args,
}

impl Args {
    /// The sending device and its namespace.
    pub fn transmitter(&self) -> (&str, Option<&str>) {
        let (device, netns) = split_netns(&self.tx);
        (device, self.tx_netns.as_deref().or(netns))
    }

    /// The receiving device and its namespace.
    fn receiver(&self) -> (&str, Option<&str>) {
        let (device, netns) = split_netns(&self.rx);
        (device, self.rx_netns.as_deref().or(netns))
    }

    /// The arguments of the sender.
    fn sender(&self) -> Result<send::Args, Failure> {
        let (device, netns) = self.transmitter();
        let netns = netns.into_iter().flat_map(|netns| ["--netns", netns]).map(OsString::from);
        let json = self.options.json.then(|| OsString::from("--json"));
        let words = [OsString::from("send"), OsString::from(device)].into_iter().chain(netns).chain(json);
        let words: Vec<OsString> = words.chain(self.send.iter().cloned()).collect();
        let line = SendLine::try_parse_from(&words).map_err(|error| {
            bad_usage::explain(&error, &[OsString::from("wirerate"), OsString::from("send")])
        })?;
        Ok(line.args)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn parsed(words: &str) -> Args {
        Line::try_parse_from(format!("measure --tx a0 --rx b0 {words}").split_whitespace()).unwrap().args
    }

    #[test]
    fn options_after_the_dashes_are_those_of_send() {
        let args = parsed("--tx-netns lab --expect lost=0 -- --dst 198.18.0.2 --count 10");
        let sender = args.sender().unwrap();
        assert_eq!((sender.device.as_str(), sender.netns.as_deref()), ("a0", Some("lab")));
        assert_eq!(sender.count.map(|count| count.0), Some(10));
        assert_eq!(parsed("--rx-netns lab").receiver(), ("b0", Some("lab")));
        assert!(!sender.json && parsed("--json").sender().unwrap().json);
    }

    /// `measure --tx DEV@NETNS`, as `search` takes it, said that there was no device DEV@NETNS.
    #[test]
    fn devices_have_their_namespaces_as_for_search() {
        let line = Line::try_parse_from(["measure", "--tx", "a0@lab", "--rx", "b0@far"]).unwrap().args;
        let sender = line.sender().unwrap();
        assert_eq!((sender.device.as_str(), sender.netns.as_deref()), ("a0", Some("lab")));
        assert_eq!(line.receiver(), ("b0", Some("far")));
    }

    #[test]
    fn an_option_that_send_does_not_have_is_bad_usage() {
        let failure = parsed("-- --no-such 1").sender().unwrap_err().to_string();
        assert!(failure.starts_with("wirerate: cannot use --no-such with send: "), "{failure}");
    }
}
