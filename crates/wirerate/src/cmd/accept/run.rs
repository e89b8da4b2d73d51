//! A run of `wirerate accept`: start, rows if requested, end, report.

use super::report::AcceptRow;
use super::{AcceptClose, Args, Report};
use anyhow::anyhow;
use connections::args::{Target, count_of, xdp_text};
use engine::{AcceptRequest, Accepting};
use program::active_window::ActiveWindow;
use program::monitor::sources::{self, DeviceLabels};
use program::out::OutError;
use program::outcome::{Failure, Outcome};
use program::row_printer::{PERIOD, RowFormat, RowTime};
use program::stop::Stop;
use sender::device::TxDevice;
use std::net::IpAddr;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use units::{Addresses, Interval, time_of_day_ns};

/// The counters of the program have no event, so they are read at this interval.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
const TCP_LEN: u32 = 20;
/// Longest segment in the page of a frame.
const SEGMENT_MAX: u32 = 2_000;

/// Accepts until a limit, a signal or the end of the device, and prints the report.
///
/// # Errors
/// Bad usage, or refused by the host or the device.
pub fn run(args: &Args, stop: &Stop) -> Result<Outcome, Failure> {
    let act = format!("accept on {}", args.device);
    let (request, server) = request(args, &act)?;
    let accepting = Accepting::start(&request)
        .map(Arc::new)
        .map_err(|why| Failure::engine(&act, why, args.netns.as_deref()))?;
    let labels = DeviceLabels::new(&request.ifname, args.netns.as_deref());
    let observed = Arc::clone(&accepting);
    let counted = stop.console().count_in(sources::accept(move || observed.counts().segments, labels));
    let xdp = xdp_text(accepting.mode(), accepting.native_refusal().as_deref());
    if !args.quiet {
        program::note!("accepting on {} at {server} ({xdp})", request.ifname);
        if let Some(trouble) = accepting.trouble() {
            program::note!("nothing can be answered yet: {trouble}");
        }
    }
    let mut report = Report {
        device: request.ifname.clone(),
        netns: args.netns.clone(),
        server: server.to_string(),
        xdp,
        ..Report::default()
    };
    let start = Instant::now();
    let mut window = ActiveWindow::default();
    let watched = watch(&accepting, args, stop, start, &mut window);
    report.accepted_ps = window.rate().and_then(|rate| rate.rate_pps);
    report.duration_ns = start.elapsed().as_nanos() as u64;
    report.is_device_gone = !accepting.is_attached();
    report.count(&accepting.counts());
    drop((counted, accepting));
    watched?;
    if report.is_device_gone {
        program::note!("{} went away: the run ends here", report.device);
    }
    stop.console().report(RowFormat::of(args.json, args.rows.csv), &report.json_line(), &report)?;
    Ok(if report.is_device_gone { Outcome::No } else { Outcome::Done })
}

fn request(args: &Args, act: &str) -> Result<(AcceptRequest, Target), Failure> {
    let device =
        TxDevice::find(args.netns.as_deref(), &args.device).map_err(|why| Failure::host(act, why))?;
    if !args.allow_default_route {
        device.spare_default_route()?;
    }
    device.check_state(false)?;
    let addresses = match args.dst {
        Some(addresses) => addresses,
        None => first_address(&device, act)?,
    };
    let server = Target { addresses, ports: args.dst_port };
    let ip_len = if addresses.is_v6() { 40 } else { 20 };
    let segment_max = device.link.mtu.saturating_sub(ip_len + TCP_LEN).clamp(64, SEGMENT_MAX);
    let response = response(args, segment_max)?;
    let own_mac = device
        .link
        .mac
        .ok_or_else(|| Failure::refused(act, anyhow!("{} has no MAC address", device.link.name)))?;
    let answers_neighbours = !is_own(&device, &addresses, act)?;
    let request = AcceptRequest {
        netns: device.netns,
        ifname: device.link.name,
        own_mac: own_mac.0,
        vlan: args.vlan.map_or(0, |vlan| vlan.0),
        address: addresses.first(),
        address_count: count_of("--dst", &addresses)?,
        answers_neighbours,
        port: args.dst_port.first,
        port_count: u32::from(args.dst_port.last - args.dst_port.first) + 1,
        segment_max: segment_max as u16,
        closes: args.close == AcceptClose::Server && !response.is_empty(),
        response,
        xdp: args.xdp.choice(),
    };
    Ok((request, server))
}

fn first_address(device: &TxDevice, act: &str) -> Result<Addresses, Failure> {
    let own = device.stack.addresses(&device.link).map_err(|why| Failure::host(act, why))?;
    let first = own.iter().find_map(|address| match address.ip {
        IpAddr::V4(ip) => Some(Addresses::V4(Interval::one(ip))),
        IpAddr::V6(_) => None,
    });
    first.ok_or_else(|| {
        Failure::refused(act, anyhow!("{} has no IPv4 address", device.link.name))
            .try_this("--dst 198.18.0.2, or another address of the server")
    })
}

/// True if the server has one address, which the device has, too: the host answers for it.
fn is_own(device: &TxDevice, addresses: &Addresses, act: &str) -> Result<bool, Failure> {
    let own = device.stack.addresses(&device.link).map_err(|why| Failure::host(act, why))?;
    Ok(addresses.is_one() && own.iter().any(|address| address.ip == addresses.first()))
}

/// A response of HTTP, or without a header if it is too short for one.
fn response(args: &Args, segment_max: u32) -> Result<Vec<u8>, Failure> {
    let len = args.response_bytes.0;
    if len > u64::from(segment_max) {
        let why = format!("a response is one segment, of at most {segment_max} bytes on this device");
        return Err(Failure::usage(format!("answer with {len} bytes"), why)
            .try_this(format!("--response-bytes {segment_max}")));
    }
    let len = len as usize;
    let close = if args.close == AcceptClose::Server { "Connection: close\r\n" } else { "" };
    let header = |number: &str| {
        format!("HTTP/1.1 200 OK\r\nServer: {}\r\n{close}Content-Length: {number}\r\n\r\n", args.name)
    };
    // The digits of the number are part of the response, too. For some lengths it begins with a 0.
    let left = len.saturating_sub(header("").len());
    let fitting = (1..=left)
        .map(|digits| (digits, format!("{:0digits$}", left - digits)))
        .find(|(digits, number)| number.len() == *digits);
    let mut response = fitting.map(|(_, number)| header(&number).into_bytes()).unwrap_or_default();
    response.resize(len, b'x');
    Ok(response)
}

/// Prints the requested rows until the run ends.
fn watch(
    accepting: &Accepting,
    args: &Args,
    stop: &Stop,
    start: Instant,
    window: &mut ActiveWindow,
) -> Result<(), OutError> {
    let duration = args.duration.map(|duration| Duration::from_nanos(duration.0));
    let mut printer = args.rows.printer(stop.console(), args.json, args.quiet);
    let mut last: Option<AcceptRow> = None;
    loop {
        let elapsed = start.elapsed();
        let counts = accepting.counts();
        let accepted = counts.segments.accepted;
        window.observe(elapsed, accepted, counts.request_bytes);
        let last_ns = last.as_ref().map_or(0, |last| last.time.elapsed_ns);
        if let Some(printer) =
            printer.as_mut().filter(|_| elapsed.as_secs() > last_ns / PERIOD.as_nanos() as u64)
        {
            let elapsed_ns = elapsed.as_nanos() as u64;
            let since = accepted - last.as_ref().map_or(0, |last| last.segments.accepted);
            let row = AcceptRow {
                time: RowTime { time_ns: time_of_day_ns(), elapsed_ns },
                segments: counts.segments,
                accepted_ps: since as f64 * 1e9 / (elapsed_ns - last_ns).max(1) as f64,
            };
            printer.print(&row)?;
            last = Some(row);
        }
        let is_enough = args.count.is_some_and(|count| accepted >= count.0);
        let is_late = duration.is_some_and(|duration| elapsed >= duration);
        if stop.is_set() || is_enough || is_late || !accepting.is_attached() {
            return Ok(());
        }
        let left = duration.map_or(POLL_INTERVAL, |duration| duration.saturating_sub(elapsed));
        thread::sleep(POLL_INTERVAL.min(left));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use program::args_of;
    use units::Count;

    #[test]
    fn a_response_has_the_requested_length_and_names_it() {
        let mut args: Args = args_of("s0").unwrap();
        for len in 0..=1460 {
            args.response_bytes = Count(len as u64);
            let bytes = response(&args, 1460).unwrap();
            assert_eq!(bytes.len(), len);
            // Lengths of 176 and 1077 bytes need a number with a leading 0.
            if len >= 90 {
                assert_eq!(connect::response_len(&bytes), Some(len as u32), "{len}");
            }
        }
        let args: Args = args_of("s0 --response-bytes 1461").unwrap();
        assert!(response(&args, 1460).is_err());
    }
}
