//! `wirerate measure --tx DEV --rx DEV`: sender and receiver in one process, and their reports.

mod run;

pub use run::run;

use crate::bad_usage;
use crate::cmd::receive::ReceiverArgs;
use crate::cmd::send;
use crate::outcome::Failure;
use crate::units::Nanos;
use clap::Parser;
use std::ffi::OsString;

/// Arguments of `wirerate measure`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The device to send on
    #[arg(long, value_name = "DEV")]
    pub tx: String,
    /// The device to receive on
    #[arg(long, value_name = "DEV")]
    pub rx: String,
    /// Network namespace of the sending device
    #[arg(long, value_name = "NAME")]
    pub tx_netns: Option<String>,
    /// Network namespace of the receiving device
    #[arg(long, value_name = "NAME")]
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
    /// The arguments of the sender.
    fn sender(&self) -> Result<send::Args, Failure> {
        let netns = self.tx_netns.iter().flat_map(|netns| ["--netns", netns]).map(OsString::from);
        let json = self.options.json.then(|| OsString::from("--json"));
        let words = [OsString::from("send"), OsString::from(&self.tx)].into_iter().chain(netns).chain(json);
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
        assert!(!sender.json && parsed("--json").sender().unwrap().json);
    }

    #[test]
    fn an_option_that_send_does_not_have_is_bad_usage() {
        let failure = parsed("-- --no-such 1").sender().unwrap_err().to_string();
        assert!(failure.starts_with("wirerate: cannot use --no-such with send: "), "{failure}");
    }
}
