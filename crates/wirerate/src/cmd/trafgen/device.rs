//! `wirerate trafgen -o DEV`: trafgen's options as a run of `send`.

use super::Args;
use super::output::FileRate;
use host::CpuList;
use packet::{Arrivals, Rate, XmitMode};
use program::outcome::{Failure, Outcome};
use program::row_printer::RowFormat;
use program::stop::Stop;
use sender::device::TxDevice;
use sender::packets::Packets;
use sender::rate::RequestedRate;
use sender::run::{DeviceJob, conclude};
use sender::watch::View;

/// Finds the device.
///
/// # Errors
/// There is none, or it carries the default route.
pub(super) fn find(args: &Args, name: &str) -> Result<TxDevice, Failure> {
    let device = TxDevice::find(args.netns.as_deref(), name)
        .map_err(|why| Failure::host(format!("send on {name}"), why))?;
    if !args.allow_default_route {
        device.spare_default_route()?;
    }
    device.check_state(true)?;
    Ok(device)
}

/// Sends the packets and prints the report.
pub(super) fn send(
    args: &Args,
    device: &TxDevice,
    packets: Packets,
    seed: u64,
    stop: &Stop,
) -> Result<Outcome, Failure> {
    let xmit_mode = if args.device.qdisc_path { XmitMode::QueueXmit } else { XmitMode::StartXmit };
    let config = packets.config(args.num, xmit_mode, seed);
    let job = DeviceJob {
        pace: pace(args, packets.mean_len()),
        packets: Some(packets),
        engine: args.engine.map(Into::into),
        keep_going: args.keep_going,
        allow_long: args.device.jumbo_support,
        long_option: "-J",
        ..DeviceJob::new(device, args.netns.as_deref(), cpus(args)?, config)
    };
    let view =
        View { progress: !args.json, are_events: stop.console().events().are_followed(), ..View::default() };
    let (report, error) = job.run(stop, view)?;
    conclude(&device.link.name, args.netns.as_deref(), &report, error, stop.console(), |report| {
        Ok(stop.console().report(RowFormat::of(args.json, false), &report.json_line(), &report)?)
    })
}

/// As trafgen: all CPUs unless `--cpus` limits them, and one for few frames.
fn cpus(args: &Args) -> Result<Vec<u32>, Failure> {
    let allowed = CpuList::allowed().map_err(|why| Failure::host("choose CPUs to send from", why))?;
    let mut cpus: Vec<u32> = allowed.iter().collect();
    let wanted = args.cpus.map_or(cpus.len(), |cpus| cpus as usize);
    if wanted > cpus.len() {
        let why = format!("each needs a CPU of its own, and there are {}", cpus.len());
        return Err(Failure::usage(format!("send from {wanted} CPUs"), why)
            .try_this(format!("--cpus {}", cpus.len())));
    }
    cpus.truncate(wanted);
    Ok(cpus)
}

/// The speed. trafgen's bit rate counts frames without FCS, preamble and gap.
fn pace(args: &Args, mean_len: usize) -> RequestedRate {
    let rate = match (args.gap, args.rate) {
        (Some(gap_ns), _) => Rate::from_interval_ns(gap_ns),
        (None, None) => None,
        (None, Some(FileRate::Frames(pps))) => Some(Rate::nearest_pps(pps)),
        (None, Some(FileRate::Bits(bps))) => Some(Rate::nearest_pps(bps / (8.0 * mean_len.max(1) as f64))),
    };
    rate.map_or(RequestedRate::LineRate, |rate| RequestedRate::Constant {
        rate,
        arrivals: Arrivals::Constant,
    })
}
