//! `wirerate measure --tx DEV --rx DEV`: senders and receivers in one process, and their reports.

mod all_lost;
mod direction;
mod receiver_rows;
mod run;
mod sender;
mod total;

use crate::bad_usage;
use ::sender::SendJob;
use clap::Parser;
use direction::MeasuredPath;
use host::{DevicePlace, StartTime};
use options::receive::ReceiverArgs;
use options::send::SendArgs;
use options::stream_file::job_of;
use program::outcome::{Failure, Outcome};
use program::runs::Repeated;
use program::stop::Stop;
use std::ffi::OsString;
use units::Nanos;

/// Arguments of `wirerate measure`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The device to send on, with its network namespace. May be repeated, each with a --rx
    #[arg(long, value_name = "DEV[@NETNS]", required = true)]
    pub tx: Vec<String>,
    /// The device to receive on
    #[arg(long, value_name = "DEV[@NETNS]", required = true)]
    pub rx: Vec<String>,
    /// Network namespace of devices that are named without one
    #[arg(long, value_name = "NETNS")]
    pub netns: Option<String>,
    /// Measure from --rx to --tx at the same time, with addresses and ports exchanged
    #[arg(long)]
    pub bidirectional: bool,
    /// Measure from --rx to --tx at the same time, with these options of `wirerate send` for the
    /// frames. Count, time and rate are those of the other direction, unless the value has its own
    #[arg(long, value_name = "OPTIONS", allow_hyphen_values = true)]
    pub reverse: Option<String>,
    /// Network namespace of the sending device
    #[arg(long, value_name = "NAME", hide = true)]
    pub tx_netns: Option<String>,
    /// Network namespace of the receiving device
    #[arg(long, value_name = "NAME", hide = true)]
    pub rx_netns: Option<String>,
    /// Options of the receiver: source, mirroring, flows, and what becomes of the results
    #[command(flatten)]
    pub options: ReceiverArgs,
    /// How long to wait for a frame after sending has ended, before all others count as lost
    #[arg(long, value_name = "TIME", default_value = "200ms")]
    pub settle: Nanos,
    /// Start sending at this time, with everything ready before (docs/pacing.md)
    #[arg(long, value_name = "TIME", value_parser = units::start_time)]
    pub start_at: Option<StartTime>,
    /// Do this N times; print each run, then mean, standard deviation, minimum and maximum of all
    #[arg(long, value_name = "N", conflicts_with_all = ["start_at", "csv"], value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub runs: Option<u32>,
    /// Print a row for each receiver each second and at the end, with --json as JSON
    #[arg(long)]
    pub every_second: bool,
    /// Print these rows as CSV; the reports go to standard error
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
    /// Print no progress and no notes, only errors and the reports
    #[arg(short, long)]
    pub quiet: bool,
    /// Options of `wirerate send`: frames, rate, count, duration. They may stand anywhere, without
    /// `--`
    #[arg(last = true, value_name = "OPTIONS OF SEND")]
    pub send: Vec<OsString>,
}

/// The options of send, parsed as send parses them.
#[derive(Debug, Parser)]
#[command(name = "wirerate measure", disable_help_flag = true, args_override_self = true)]
struct SendLine {
    #[command(flatten)]
    args: SendArgs,
}

/// Measures, once or `--runs` times.
///
/// # Errors
/// Bad usage, or refused by the host or a device.
pub fn run(args: &Args, stop: &Stop) -> Result<Outcome, Failure> {
    let Some(runs) = args.runs.filter(|runs| *runs > 1) else { return run::run(args, stop) };
    let json = args.options.counting.results.json;
    Repeated { command: "measure", runs, json, quiet: args.quiet, stop }.run(|| run::run(args, stop))
}

impl Args {
    /// True if rows are printed while the run lasts.
    fn has_rows(&self) -> bool {
        self.every_second || self.csv
    }

    /// The first sending device.
    pub fn transmitter(&self) -> DevicePlace {
        self.place(&self.tx[0], self.tx_netns.as_deref())
    }

    /// A device of --tx or --rx. `netns` is the namespace of --tx-netns or --rx-netns.
    fn place(&self, device: &str, netns: Option<&str>) -> DevicePlace {
        DevicePlace::of(device, netns.or(self.netns.as_deref()))
    }

    /// All directions: those of each pair, and back.
    ///
    /// # Errors
    /// Bad usage if the numbers of devices differ, or two receivers are the same.
    fn directions(&self) -> Result<Vec<MeasuredPath>, Failure> {
        let (senders, receivers) = (self.tx.len(), self.rx.len());
        if senders != receivers {
            let why = format!("there are {senders} devices to send on and {receivers} to receive on");
            return Err(Failure::usage("pair --tx and --rx", why)
                .try_this("wirerate measure --tx DEV1 --rx DEV2 --tx DEV3 --rx DEV4"));
        }
        let mut directions = Vec::new();
        for (tx, rx) in self.tx.iter().zip(&self.rx) {
            let from = self.place(tx, self.tx_netns.as_deref());
            let to = self.place(rx, self.rx_netns.as_deref());
            let forward = MeasuredPath { from, to, is_back: false };
            let back = MeasuredPath { from: forward.to.clone(), to: forward.from.clone(), is_back: true };
            directions.push(forward);
            directions.extend((self.bidirectional || self.reverse.is_some()).then_some(back));
        }
        for (index, direction) in directions.iter().enumerate() {
            if directions[..index].iter().any(|other| other.to == direction.to) {
                let why = "a device has one receiver";
                return Err(Failure::usage(format!("receive on {} twice", direction.to), why));
            }
        }
        Ok(directions)
    }

    /// What the sender of a direction does.
    fn sender(&self, from: &DevicePlace) -> Result<SendJob, Failure> {
        self.sender_with(from, &self.send)
    }

    /// What the sender does from --rx to --tx with the options of --reverse. Count, time and
    /// rate are those of `forward`, unless there are others.
    fn reverse_sender(
        &self,
        from: &DevicePlace,
        options: &str,
        forward: SendJob,
    ) -> Result<SendJob, Failure> {
        let words: Vec<OsString> = options.split_whitespace().map(OsString::from).collect();
        let own = self.sender_with(from, &words)?;
        let limited = match own.count.is_some() || own.duration.is_some() {
            true => own,
            false => SendJob { count: forward.count, duration: forward.duration, ..own },
        };
        let paced = match limited.has_rate() {
            true => limited,
            false => SendJob {
                rate: forward.rate,
                pps: forward.pps,
                delay: forward.delay,
                ramp: forward.ramp,
                ..limited
            },
        };
        Ok(SendJob { start_at: forward.start_at, ..paced })
    }

    fn sender_with(&self, from: &DevicePlace, options: &[OsString]) -> Result<SendJob, Failure> {
        let words = ["send", &from.device].map(OsString::from).into_iter().chain(options.iter().cloned());
        let line = SendLine::try_parse_from(words).map_err(|error| {
            bad_usage::explain(&error, &["wirerate", "send", &from.device].map(OsString::from))
        })?;
        let job = job_of(line.args)?;
        let json = job.json || self.options.counting.results.json;
        if json && job.csv {
            return Err(Failure::usage("print rows of the sender as CSV", "its report is JSON")
                .try_this("--json, or --csv"));
        }
        let netns = job.netns.or(from.netns.clone());
        Ok(SendJob { netns, json, quiet: job.quiet || self.quiet, ..job })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &str) -> Args {
        program::args_of(words).unwrap()
    }

    #[test]
    fn options_after_the_dashes_are_those_of_send() {
        let args = parsed("--tx a0 --rx b0 --tx-netns lab --expect lost=0 -- --dst 198.18.0.2 --count 10");
        let [direction] = &args.directions().unwrap()[..] else { panic!("one direction") };
        let sender = args.sender(&direction.from).unwrap();
        assert_eq!((sender.device.as_str(), sender.netns.as_deref()), ("a0", Some("lab")));
        assert_eq!(sender.count.map(|count| count.0), Some(10));
        assert_eq!(direction.to.to_string(), "b0");
        let json = parsed("--tx a0 --rx b0 --json");
        assert!(!sender.json && json.sender(&direction.from).unwrap().json);
    }

    /// `measure --tx DEV@NETNS`, as `search` takes it, said that there was no device DEV@NETNS.
    #[test]
    fn devices_have_their_namespaces_as_for_search() {
        let args = parsed("--tx a0@lab --rx b0@far --tx a1 --rx b1 --bidirectional");
        let directions = args.directions().unwrap();
        let names: Vec<String> =
            directions.iter().map(|direction| format!("{} > {}", direction.from, direction.to)).collect();
        assert_eq!(names, ["a0@lab > b0@far", "b0@far > a0@lab", "a1 > b1", "b1 > a1"]);
        let back: Vec<bool> = directions.iter().map(|direction| direction.is_back).collect();
        assert_eq!(back, [false, true, false, true]);
        assert_eq!(args.transmitter().to_string(), "a0@lab");
    }

    #[test]
    fn each_sender_has_a_receiver_of_its_own() {
        for (words, why) in [
            ("--tx a --tx b --rx c", "there are 2 devices to send on and 1 to receive on"),
            ("--tx a --rx c --tx b --rx c", "cannot receive on c twice"),
            ("--tx a --rx b --tx b --rx a --bidirectional", "cannot receive on a twice"),
        ] {
            let refusal = parsed(words).directions().unwrap_err().to_string();
            assert!(refusal.contains(why), "{words}: {refusal}");
        }
    }

    #[test]
    fn an_option_that_send_does_not_have_is_bad_usage() {
        let place = DevicePlace { device: "a0".into(), netns: None };
        let failure = parsed("--tx a0 --rx b0 -- --no-such 1").sender(&place).unwrap_err().to_string();
        assert!(failure.starts_with("wirerate: cannot use --no-such with send: "), "{failure}");
    }
}
