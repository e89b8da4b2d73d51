//! The end of a run, announced to a receiver by a few frames that neither side counts.

use super::device::TxDevice;
use super::job::{SendJob, SignatureName};
use super::workers::WorkerSet;
use engine::{EngineKind, Limits, Pace, Request, TxOptions};
use packet::ipsec::Associations;
use packet::plan::{FrameSpec, PacketOrder};
use packet::{Config, DeviceFacts, Flags, Plan, SignatureLevel, XmitMode};
use program::outcome::Failure;
use program::stop::Stop;
use std::sync::Arc;

/// Enough for one to arrive through a device that loses most frames.
const COUNT_DEFAULT: u32 = 5;
/// Slow enough for a device that was overloaded to recover meanwhile.
const RATE_PPS: u64 = 100;

/// End frames that `job` asks for.
///
/// # Errors
/// Bad usage where none can be sent.
pub fn count(job: &SendJob) -> Result<u32, Failure> {
    let is_signed =
        matches!(job.signature, Some(SignatureName::Short | SignatureName::Full | SignatureName::Mark));
    let obstacle = match () {
        () if job.ipsec => "a receiver could not read them: IPsec hides payloads",
        () if job.xmit_mode == XmitMode::NetifReceive => "they are sent, and these frames are received here",
        () => return Ok(job.end_frames.unwrap_or(if is_signed { COUNT_DEFAULT } else { 0 })),
    };
    match job.end_frames {
        Some(count @ 1..) => {
            Err(Failure::usage(format!("use --end-frames {count}"), obstacle).try_this("--end-frames 0"))
        }
        _ => Ok(0),
    }
}

/// A frame like the first one of `config` that says that `sent` numbers were sent.
///
/// # Errors
/// Bad usage for a configuration that gives no frame.
pub fn of_pktgen(device: &TxDevice, cpu: u32, config: &Config, sent: u64) -> Result<Vec<u8>, Failure> {
    let mut config = Config { imix: Vec::new(), clone_skb: 0, flows: 0, ..config.clone() };
    config.signature.level = SignatureLevel::Full;
    for flag in [Flags::TXSIZE_RND, Flags::IPSEC] {
        config.flags.set(flag, false);
    }
    config.min_pkt_size = config.default_size() + config.tags_len();
    config.max_pkt_size = config.min_pkt_size;
    let facts = DeviceFacts { cpu, ..device.facts };
    let (plan, mut cursor) = super::plan(&mut config, &facts, 0, &Arc::<Associations>::default())?;
    Ok(plan.end_frame(&mut cursor, sent))
}

/// No packet of the user's can announce the end.
pub fn no_frame(count: u32) -> Failure {
    let why = "no packet has a mark, or its headers are longer than 252 bytes";
    Failure::usage(format!("announce the end in {count} frames"), why).try_this("--signature mark")
}

/// Sends `frame` `count` times.
///
/// # Errors
/// Refused by the host.
pub fn send(device: &TxDevice, cpu: u32, frame: Vec<u8>, count: u32) -> Result<(), Failure> {
    let frame = FrameSpec { template: frame, ..FrameSpec::default() };
    let facts = DeviceFacts { cpu, ..device.facts };
    let (plan, cursor) = Plan::of_specs(&[frame], PacketOrder::default()).on(&facts);
    let request = Request {
        ifname: device.link.name.clone(),
        plan,
        cursor,
        mode: XmitMode::StartXmit,
        options: TxOptions::default(),
        limits: Limits { count: count.into(), pace: Pace::from_pps(RATE_PPS), ..Limits::default() },
        engine: Some(EngineKind::AfPacket),
        batch: None,
        next_ns: None,
    };
    // A run that a signal ended announces its end as well; a second signal ends the program.
    let stop = Stop::default();
    let done = WorkerSet::start(&device.netns, vec![(cpu, request)], &stop, None)?.finish(&stop, |_| ());
    match super::report::failure(done) {
        Some(why) => Err(Failure::engine(format!("announce the end on {}", device.link.name), why, None)),
        None => Ok(()),
    }
}
