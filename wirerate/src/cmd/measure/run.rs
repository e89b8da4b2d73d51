//! A run of `wirerate measure`: receiver, sender, drain, both reports.

use super::Args;
use crate::cmd::receive::{self, Receipt};
use crate::cmd::send;
use crate::outcome::{Failure, Outcome};
use crate::stop::Stop;
use capture::Receiving;
use std::thread;
use std::time::{Duration, Instant};

/// The counters of the receiver have no event, so they are read at this interval.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// The wait for late frames ends after this even if frames still arrive.
const DRAIN_MAX: Duration = Duration::from_secs(2);

/// Sends, receives, and prints both reports. The exit code is that of the worse one.
///
/// # Errors
/// Bad usage, or refused by the host or a device.
pub fn run(args: &Args, stop: &Stop) -> Result<Outcome, Failure> {
    let sender = args.sender()?;
    let config = send::config::config(&sender)?;
    let pace = send::rate::Rate::of(&sender)?;
    check(&sender)?;
    let copies = config.clone_skb.max(1) as u64;
    let receiving = receive::start(&args.rx, args.rx_netns.as_deref(), &args.options)?;
    let source = receiving.xdp().to_string();
    let (report, error) = send::run::transmit(&sender, config, pace, stop)?;
    drain(&receiving, report.sent, Duration::from_nanos(args.settle.0));
    let result = receiving.stop();
    let print = |report: &_| send::run::print(&sender, report);
    let sent_well = send::run::conclude(&sender.device, sender.netns.as_deref(), &report, error, print)?;
    let receipt = Receipt {
        device: &args.rx,
        netns: args.rx_netns.as_deref(),
        options: &args.options,
        source,
        // Each number is sent as often as there are copies.
        sent: Some(report.sent.div_ceil(copies)),
        is_report_on_stderr: false,
    };
    let received_well = receipt.conclude(&result)?;
    Ok(if sent_well == Outcome::Done { received_well } else { sent_well })
}

/// Refuses what cannot be measured with pktgen's header alone.
fn check(sender: &send::Args) -> Result<(), Failure> {
    let act = "measure this run";
    if sender.dry_run.is_some() {
        return Err(Failure::usage(act, "a dry run sends nothing").try_this("wirerate send --dry-run"));
    }
    let thread_count = match &sender.cpus {
        Some(cpus) => cpus.0.len() as u32,
        None => sender.threads.unwrap_or(1),
    };
    if thread_count > 1 {
        let why =
            "the numbers of several threads overlap in time, and pktgen's header does not name the thread";
        return Err(Failure::usage(act, why).try_this("--threads 1"));
    }
    Ok(())
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
