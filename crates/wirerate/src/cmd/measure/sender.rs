//! The sender of a direction: it announces nothing, because its report is at hand, and its frames
//! carry what the receiver needs.

use engine::EngineError;
use measure::STREAMS_MAX;
use packet::{Config, SignatureLevel};
use program::outcome::Failure;
use program::stop::Stop;
use receiver::{Counting, MeterRules, ReceiverOptions};
use sender::job::{SendJob, SignatureName};
use sender::ready::ReadyRun;
use sender::report::Report;
use sender::run::flows_per_thread;
use sender::streams::StreamSet;
use sender::workers::StartedRuns;

/// Flows that a receiver has memory for: 64 MB.
const FLOWS_MAX: u32 = 1 << 20;
/// What cannot be done.
const ACT: &str = "measure this run";

/// A sender that is ready.
#[derive(Debug)]
pub(super) struct MeasureSender {
    /// What it does.
    pub(super) job: SendJob,
    frames: MeasuredFrames,
    /// Frames with the same number.
    pub(super) copies: u64,
}

/// What is sent.
#[derive(Debug)]
enum MeasuredFrames {
    Run(Box<ReadyRun>),
    Streams(Box<StreamSet>),
}

/// Numbers that a sender took and did not send so far.
#[derive(Clone, Debug)]
pub(super) struct UnsentNumbers {
    runs: StartedRuns,
    copies: u64,
}

impl UnsentNumbers {
    /// How many there are so far.
    pub(super) fn count(&self) -> u64 {
        self.runs.totals().unsent(self.copies)
    }
}

impl MeasureSender {
    /// Prepares the sender of run number `run`, and returns the options of its receiver.
    ///
    /// # Errors
    /// Bad usage for a run that cannot be measured; refused by the host or the device.
    pub(super) fn prepare(
        mut job: SendJob,
        options: &ReceiverOptions,
        run: u16,
    ) -> Result<(Self, ReceiverOptions), Failure> {
        if job.dry_run.is_some() {
            let failure = Failure::usage(ACT, "a dry run sends nothing");
            return Err(failure.try_this("wirerate send --dry-run"));
        }
        job.end_frames.get_or_insert(0);
        let marked = |flows: u32| ReceiverOptions {
            carried_flows: Some(flows),
            counting: Counting {
                meter: MeterRules { run: Some(run), ..options.counting.meter.clone() },
                // Packets of one flow can have different addresses, which decide the receive queue.
                shared_flows: true,
                ..options.counting.clone()
            },
            ..options.clone()
        };
        if !job.streams.is_empty() {
            let streams = StreamSet::prepare(&job, Some(run))?;
            let options = marked(streams.flow_count() as u32);
            return Ok((
                Self { job, frames: MeasuredFrames::Streams(Box::new(streams)), copies: 1 },
                options,
            ));
        }
        if job.has_own_frames() {
            match job.signature {
                Some(SignatureName::None) => return Err(unsigned("--signature mark")),
                None => job.signature = Some(SignatureName::Mark),
                Some(_) => {}
            }
            job.run = Some(run);
            let ready = ReadyRun::prepare(&job, None)?;
            let mut options = marked(ready.flow_count());
            if job.front_signature().is_some() {
                options = join(&options, &job, &mut ready.config().clone(), run)?;
            }
            return Ok((Self::of_run(job, ready), options));
        }
        let mut config = sender::config::config(&job)?;
        if job.signature.is_none() {
            sender::config::sign(&mut config, SignatureLevel::Full);
        }
        let options = join(options, &job, &mut config, run)?;
        let ready = ReadyRun::prepare(&job, Some(config))?;
        Ok((Self::of_run(job, ready), options))
    }

    fn of_run(job: SendJob, ready: ReadyRun) -> Self {
        let copies = ready.copies();
        Self { job, frames: MeasuredFrames::Run(Box::new(ready)), copies }
    }

    /// The numbers that are not sent, also while it sends.
    pub(super) fn unsent(&self) -> UnsentNumbers {
        UnsentNumbers { runs: self.job.started.clone(), copies: self.copies }
    }

    /// Sends. An error is returned beside the report of what was sent before it. Without `shows`,
    /// no progress is shown.
    ///
    /// # Errors
    /// Refused by the host or the device before the first frame.
    pub(super) fn transmit(self, shows: bool, stop: &Stop) -> Result<(Report, Option<EngineError>), Failure> {
        let job = SendJob { quiet: self.job.quiet || !shows, is_measured: true, ..self.job };
        match self.frames {
            MeasuredFrames::Run(run) => run.transmit(&job, stop),
            MeasuredFrames::Streams(streams) => streams.transmit(&job, stop),
        }
    }
}

fn unsigned(advice: &str) -> Failure {
    Failure::usage(ACT, "frames without a signature cannot be measured").try_this(advice)
}

/// Options of the receiver for frames with the signature of `config`.
///
/// # Errors
/// Bad usage for a run that cannot be measured.
fn join(
    options: &ReceiverOptions,
    sender: &SendJob,
    config: &mut Config,
    run: u16,
) -> Result<ReceiverOptions, Failure> {
    let thread_count = match &sender.cpus {
        Some(cpus) => cpus.0.len() as u32,
        None => sender.threads.unwrap_or(1),
    };
    let level = config.signature.level;
    if level == SignatureLevel::None {
        return Err(unsigned("--signature pktgen"));
    }
    if thread_count > 1 && level == SignatureLevel::Pktgen {
        let why =
            "the numbers of several threads overlap in time, and pktgen's header does not name the thread";
        let longer = if sender.signature.is_some() { "--signature short" } else { "--size 60" };
        return Err(Failure::usage(ACT, why).try_this(format!("{longer}, or --threads 1")));
    }
    if thread_count as usize > STREAMS_MAX {
        return Err(Failure::usage(ACT, format!("a signature names one of {STREAMS_MAX} threads"))
            .try_this(format!("--threads {STREAMS_MAX}")));
    }
    let mut options = options.clone();
    if sender.flows.is_some() && config.flows == 0 && config.hold == 1 {
        // Frames without space for their flow go through the flows in turn.
        options.counting.meter.flows = flows_per_thread(config);
    }
    if level == SignatureLevel::Full {
        // Each run has a number of its own, so frames of the run before are told apart.
        (options.counting.meter.run, config.signature.run) = (Some(run), run);
        if flows_per_thread(config).saturating_mul(thread_count) > FLOWS_MAX {
            config.signature.flow_count = 1;
        }
        options.carried_flows = Some(flows_per_thread(config) * thread_count);
    }
    Ok(options)
}
