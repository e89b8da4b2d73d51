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
    let source = receiving.xdp().to_string();
    let (report, error) = send::run::transmit(&sender, config, pace, stop)?;
    drain(&receiving, report.sent, Duration::from_nanos(args.settle.0));
    let result = receiving.stop();
    let print = |report: &_| send::run::print(&sender, report);
    let sent_well = send::run::conclude(&sender.device, sender.netns.as_deref(), &report, error, print)?;
    let receipt = Receipt {
        device,
        netns,
        options,
        source,
        // Each number is sent as often as there are copies.
        sent: Some(report.sent.div_ceil(copies)),
        is_report_on_stderr: false,
    };
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

/// Waits until all frames are here, or none has arrived for the time `settle`.
fn drain(receiving: &Receiving, sent: u64, settle: Duration) {
    let started = Instant::now();
    let (mut received, mut changed) = (receiving.received(), started);
    while received < sent && changed.elapsed() < settle && started.elapsed() < DRAIN_MAX.max(settle) {
        thread::sleep(POLL_INTERVAL);
        let now = receiving.received();
        if now != received {
            (received, changed) = (now, Instant::now());
        }
    }
}
