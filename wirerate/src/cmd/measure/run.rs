//! A run of `wirerate measure`: receiver, sender, drain, both reports.

use super::Args;
use crate::cmd::receive::ReceiverArgs;
use crate::cmd::receive::{self, Receipt};
use crate::cmd::send;
use crate::cmd::send::run::{STREAMS, flows_per_thread};
use crate::outcome::{Failure, Outcome};
use crate::stop::Stop;
use capture::Receiving;
use packet::{Config, SignatureLevel};
use std::thread;
use std::time::{Duration, Instant};

/// The counters of the receiver have no event, so they are read at this interval.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Runs have numbers of 12 bits.
const RUN_MASK: u64 = 0xfff;
/// Flows that a receiver has memory for: 64 MB.
const FLOWS_MAX: u32 = 1 << 20;
/// The wait for late frames ends after this even if frames still arrive.
const DRAIN_MAX: Duration = Duration::from_secs(2);

/// Sends, receives, and prints both reports. The exit code is that of the worse one.
///
/// # Errors
/// Bad usage, or refused by the host or a device.
pub fn run(args: &Args, stop: &Stop) -> Result<Outcome, Failure> {
    let mut sender = args.sender()?;
    // The report of the sender is at hand.
    sender.end_frames.get_or_insert(0);
    let mut config = send::config::config(&sender)?;
    let pace = send::rate::Rate::of(&sender)?;
    if sender.signature.is_none() {
        send::config::sign_in_full(&mut config);
    }
    let options = &join(&args.options, &sender, &mut config)?;
    let copies = config.clone_skb.max(1) as u64;
    let (device, netns) = args.receiver();
    let receiving = receive::start(device, netns, options)?;
    let _counted = receive::count_frames(&receiving, device, netns);
    let source = receiving.xdp().to_string();
    let (report, error) = send::run::transmit(&sender, config, pace, stop)?;
    // Each number is sent as often as there are copies.
    let numbers = report.sent.div_ceil(copies);
    drain(&receiving, Drain::new(report.sent, numbers, Duration::from_nanos(args.settle.0)));
    let result = receiving.stop();
    let print = |report: &_| send::run::print(&sender, report);
    let sent_well = send::run::conclude(&sender.device, sender.netns.as_deref(), &report, error, print)?;
    let receipt = Receipt { device, netns, options, source, sent: Some(numbers), is_report_on_stderr: false };
    let received_well = receipt.conclude(&result)?;
    Ok(if sent_well == Outcome::Done { received_well } else { sent_well })
}

/// Options of the receiver for what the sender sends.
///
/// # Errors
/// Bad usage for a run that cannot be measured.
fn join(options: &ReceiverArgs, sender: &send::Args, config: &mut Config) -> Result<ReceiverArgs, Failure> {
    let act = "measure this run";
    if sender.dry_run.is_some() {
        return Err(Failure::usage(act, "a dry run sends nothing").try_this("wirerate send --dry-run"));
    }
    if sender.streams.is_some() {
        let why = "the frames of streams have no flow numbers";
        return Err(Failure::usage(act, why).try_this("wirerate send --streams"));
    }
    let thread_count = match &sender.cpus {
        Some(cpus) => cpus.0.len() as u32,
        None => sender.threads.unwrap_or(1),
    };
    let level = config.signature.level;
    if level == SignatureLevel::None {
        return Err(Failure::usage(act, "frames without a signature cannot be measured")
            .try_this("--signature pktgen"));
    }
    if thread_count > 1 && level == SignatureLevel::Pktgen {
        let why =
            "the numbers of several threads overlap in time, and pktgen's header does not name the thread";
        return Err(Failure::usage(act, why).try_this("--size 60, or --threads 1"));
    }
    if thread_count > STREAMS {
        return Err(Failure::usage(act, format!("a signature names one of {STREAMS} threads"))
            .try_this(format!("--threads {STREAMS}")));
    }
    let mut options = options.clone();
    if level == SignatureLevel::Full {
        // Each run has a number of its own, so frames of the run before are told apart.
        let run = options.run.or(sender.run).unwrap_or_else(|| (send::fresh_seed() & RUN_MASK) as u16);
        (options.run, config.signature.run) = (Some(run), run);
        if flows_per_thread(config).saturating_mul(thread_count) > FLOWS_MAX {
            config.signature.flow_count = 1;
        }
        options.carried_flows = Some(flows_per_thread(config) * thread_count);
    }
    Ok(options)
}

/// Waits for late frames.
fn drain(receiving: &Receiving, mut drain: Drain) {
    let started = Instant::now();
    while !drain.is_over(receiving.received(), || receiving.unique(), started.elapsed()) {
        thread::sleep(POLL_INTERVAL);
    }
}

/// The wait for late frames: until the first copy of each number has arrived, or no frame has for
/// the time `settle`.
#[derive(Debug)]
struct Drain {
    sent: u64,
    numbers: u64,
    settle: Duration,
    /// Frames received so far, and when the last one was noticed.
    last: Option<(u64, Duration)>,
}

impl Drain {
    /// After `sent` frames with so many different `numbers`.
    fn new(sent: u64, numbers: u64, settle: Duration) -> Self {
        Self { sent, numbers, settle, last: None }
    }

    /// True if it is over at `now`, after its start. `unique` counts first copies, which takes long
    /// with many flows: it is called only if enough frames have arrived, once for each new count.
    fn is_over(&mut self, received: u64, unique: impl FnOnce() -> u64, now: Duration) -> bool {
        let since = match self.last {
            Some((last, since)) if last == received => since,
            _ => {
                if received >= self.sent && unique() >= self.numbers {
                    return true;
                }
                self.last = Some((received, now));
                now
            }
        };
        now - since >= self.settle || now >= DRAIN_MAX.max(self.settle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTLE: Duration = Duration::from_millis(200);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn duplicates_do_not_end_the_wait_for_a_late_first_copy() {
        let mut drain = Drain::new(10, 10, SETTLE);
        assert!(!drain.is_over(10, || 9, ms(0)), "one of them is a duplicate");
        assert!(!drain.is_over(10, || panic!("nothing arrived"), ms(199)));
        assert!(drain.is_over(11, || 10, ms(199)));
    }

    #[test]
    fn copies_are_waited_for() {
        let mut drain = Drain::new(10, 5, SETTLE);
        assert!(!drain.is_over(9, || panic!("not all have arrived"), ms(0)));
        assert!(drain.is_over(10, || 5, ms(1)));
        assert!(Drain::new(0, 0, SETTLE).is_over(0, || 0, ms(0)), "nothing was sent");
    }

    #[test]
    fn without_a_frame_the_wait_ends_and_it_never_takes_long() {
        let mut drain = Drain::new(10, 10, SETTLE);
        assert!(!drain.is_over(8, || 8, ms(0)));
        assert!(!drain.is_over(9, || 9, ms(150)));
        assert!(!drain.is_over(9, || 9, ms(349)));
        assert!(drain.is_over(9, || 9, ms(350)));
        let mut endless = Drain::new(1_000_000, 1_000_000, SETTLE);
        assert!((0..20).all(|step| !endless.is_over(step, || step, ms(100 * step))));
        assert!(endless.is_over(20, || 20, ms(2000)));
    }
}
