//! The demo: a veth lab, a capture at one end, frames from the other, and the report.

use super::report::Report;
use capture::{Format, Mode, Options, Output, Session};
use capture_files::names::format_of;
use host::{CpuList, Lab, LabOptions};
use packet::{Config, Flags};
use program::outcome::{Failure, Outcome, Refused};
use program::stop::Stop;
use sender::device::TxDevice;
use sender::report as send;
use sender::run::{DeviceJob, nearest_cpus};
use sender::watch::View;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};
use units::Count;

/// Frames that the file gets.
const FILE_FRAMES: u64 = 100_000;
/// Timeout for the last frames to arrive.
const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(2);
/// Memory for all rings together: on two CPUs half a million frames each, so that a writer that
/// waits for its CPU costs no frames.
const RINGS_SIZE_BYTES: u64 = 128 << 20;
const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// At the end of the names of counters, one a queue.
const NOT_TAKEN: &str = "_xdp_xmit_errors";

/// Arguments of `wirerate demo`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Makes two network namespaces with a veth pair between them, sends from one end, captures at \
                        the other, and removes everything again, also after Ctrl-C. Needs root. The exit code is 1 \
                        when a frame is missing and no counter says why."
)]
pub struct Args {
    /// Frames to send
    #[arg(long, value_name = "N", default_value = "10M")]
    pub count: Count,
    /// File for the first 100,000 frames
    #[arg(short, long, value_name = "FILE", default_value = "wirerate-demo.pcapng")]
    pub write: PathBuf,
    /// Print the report as one line of JSON (docs/json.md)
    #[arg(long, short = 'J')]
    pub json: bool,
    /// Print no progress and no notes, only errors and the report
    #[arg(long, short)]
    pub quiet: bool,
}

/// Runs the demo and prints its table.
///
/// # Errors
/// Refused when the host does not let us make namespaces, load programs or write the file.
pub fn run(args: &Args, stop: &Stop) -> Result<Outcome, Failure> {
    if args.count.0 == 0 {
        return Err(Failure::usage("run a demo of 0 frames", "there would be nothing to see"));
    }
    let lab = Lab::new(&LabOptions::default()).map_err(|why| Failure::host("make a lab", why))?;
    let ended = run_in(&lab, args, stop);
    lab.remove().map_err(|why| Failure::host("remove the lab", why))?;
    let report = ended?;
    stop.console().text(&if args.json { report.json_line() } else { report.to_string() })?;
    Ok(if report.unexplained() == 0 { Outcome::Done } else { Outcome::No })
}

fn run_in(lab: &Lab, args: &Args, stop: &Stop) -> Result<Report, Failure> {
    let [tx, rx] = [&lab.tx, &lab.rx];
    if !args.quiet {
        program::note!("{} in {} sends to {} in {}", tx.ifname, tx.netns_name, rx.ifname, rx.netns_name);
    }
    let device =
        TxDevice::find_in(tx.netns().clone(), tx.ifname).map_err(|why| Failure::host("find tx0", why))?;
    let before = dropped(lab)?;
    let session = start_capture(lab, args)?;
    let cpus = nearest_cpus(&device, None, 1)?;
    let job = DeviceJob::new(&device, Some(&tx.netns_name), cpus, config(lab, args.count.0));
    let (sent, error) = job.run(stop, View { progress: !args.json && !args.quiet, ..View::default() })?;
    if let Some(error) = error {
        return Err(Failure::engine(format!("send on {}", tx.ifname), error, Some(&tx.netns_name)));
    }
    let dropped = || Ok::<_, Failure>(dropped(lab)?.saturating_sub(before));
    let deadline = Instant::now() + ARRIVAL_TIMEOUT;
    while session.stats().total().received + dropped()? < sent.sent && Instant::now() < deadline {
        sleep(POLL_INTERVAL);
    }
    let captured = session.stop();
    if let Some(error) = captured.output_error {
        return Err(Failure::refused(format!("write {}", args.write.display()), error));
    }
    Ok(report(args, &sent, &captured, dropped()?))
}

/// Frames that the receiving device has dropped. A veth also counts frames that its peer rejected
/// from XDP because of a full ring (`rx_drops + peer_tq_xdp_xmit_err` in the kernel); these are
/// retries of the sender.
fn dropped(lab: &Lab) -> Result<u64, Failure> {
    let link = lab.rx.link().map_err(|why| Failure::host("read the counters of rx0", why))?;
    let rows = lab.tx.stack.driver_counters(lab.tx.ifname);
    let rows = rows.map_err(|why| Failure::host("read the counters of tx0's driver", why))?;
    let not_taken = rows.iter().filter(|(name, _)| name.ends_with(NOT_TAKEN)).map(|(_, count)| count);
    Ok(link.counters.rx_dropped.saturating_sub(not_taken.sum()))
}

/// Drop mode: the frames have served their purpose when they were copied.
fn start_capture(lab: &Lab, args: &Args) -> Result<Session, Failure> {
    let cpus = CpuList::online().map_err(|why| Failure::host("count the CPUs", why))?;
    let ring_size_bytes = RINGS_SIZE_BYTES / cpus.len().max(1) as u64;
    let options = Options {
        ring_size_bytes: Some(ring_size_bytes.max(capture::RING_SIZE_BYTES_DEFAULT)),
        netns: Some(lab.rx.netns().clone()),
        mode: Mode::Drop,
        frames_max: Some(FILE_FRAMES),
        format: args.write.to_str().map_or_else(Format::default, format_of),
        output: Output::File(args.write.clone()),
        application: format!("wirerate {} demo", env!("CARGO_PKG_VERSION")),
        ..Options::new(lab.rx.ifname)
    };
    Session::start(options).refused(format!("capture on {}", lab.rx.ifname))
}

/// Frames with something to see in them: a thousand ports, checksums, times.
fn config(lab: &Lab, count: u64) -> Config {
    let mut config = Config {
        count,
        min_pkt_size: 60,
        max_pkt_size: 60,
        dst_mac: lab.rx.mac,
        dst_min: Some(lab.rx.v4),
        udp_dst_min: 40000,
        udp_dst_max: 41000,
        ..Config::default()
    };
    config.flags.set(Flags::UDPCSUM, true);
    config
}

fn report(args: &Args, sent: &send::Report, captured: &capture::SessionReport, dropped: u64) -> Report {
    let total = captured.stats.total();
    Report {
        offered: sent.offered,
        sent: sent.sent,
        errors: sent.errors,
        retries: sent.retries,
        lost_at_device: dropped,
        received: total.received,
        lost_ring: total.lost_ring,
        captured: total.captured,
        written: total.written,
        after_limit: total.after_limit,
        lost_disk: total.lost_disk,
        file: args.write.display().to_string(),
        file_bytes: captured.stats.output_bytes,
        duration_ns: sent.duration_ns,
        engine: sent.engine.name.to_owned(),
        source: captured.devices[0].source.to_string(),
        stopped: sent.end == send::EndReason::Stopped,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::MacAddr;

    const OTHER_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);

    /// Seen on Linux 6.1 with a full ring; frames too long for the peer are rejected in the same
    /// way.
    #[test]
    fn what_the_driver_did_not_take_is_not_lost_behind_it() {
        testkit::needs!(testkit::is_root("CAP_NET_ADMIN"));
        let lab = Lab::new(&LabOptions { rx_gro: true, ..LabOptions::default() }).expect("a lab can be made");
        let (netns, rx) = (&lab.rx.netns_name, lab.rx.ifname);
        let script = format!(
            "until ip -n {netns} -s link show {rx} | awk '/RX:/ {{ getline; exit !($2 > 0) }}'; do sleep 0.02; done
             ip -n {netns} link set {rx} mtu 500"
        );
        let tx = &lab.tx;
        let device = TxDevice::find_in(tx.netns().clone(), tx.ifname).expect("there is a device");
        let cpus = nearest_cpus(&device, None, 1).expect("there is a CPU");
        let config = Config { min_pkt_size: 1000, max_pkt_size: 1000, dst_mac: OTHER_MAC, ..config(&lab, 0) };
        let job = DeviceJob {
            duration_ns: 60_000_000_000,
            engine: Some(engine::EngineKind::Xdp),
            ..DeviceJob::new(&device, Some(&tx.netns_name), cpus, config)
        };
        let shell = std::process::Command::new("timeout").args(["50", "sh", "-c", &script]).spawn();
        let (sent, error) = job.run(&Stop::default(), View::default()).expect("it begins");
        assert!(shell.expect("there is a shell").wait().expect("it ends").success());
        assert!(error.is_some() && sent.sent > 0 && sent.replaced > 0, "{sent:?}");
        let counted = lab.rx.link().expect("there is a link").counters.rx_dropped;
        assert!(counted > 0, "the other end counts them as dropped");
        assert_eq!(dropped(&lab).expect("there are counters"), 0);
    }
}
