//! `wirerate trafgen`: trafgen's command line and packet language. It sends on devices and writes
//! files.

mod device;
mod input;
mod output;

use capture_files::names::asked_format;
use frames::{Expander, FrameSpec, PacketOrder};
use host::DevicePlace;
use options::send::EngineName;
use program::outcome::{Failure, Outcome};
use program::stop::Stop;
use sender::packets::{Packets, addresses};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// What `--example` prints.
const EXAMPLE: &str = include_str!("example.cfg");
/// Nanoseconds between two frames of a file without `--gap` and `--rate`.
const GAP_NS: u64 = 1000;

/// Arguments of `wirerate trafgen`, as trafgen has them.
#[derive(Clone, Debug, clap::Args)]
#[command(
    disable_version_flag = true,
    after_help = "\
The packet language is in docs/frames.md.\n\n\
Examples:\n  \
wirerate trafgen -i trafgen.cfg -o veth0 -n 1000000 -P 1\n  \
wirerate trafgen -i trafgen.cfg -o out.pcap -n 1000\n  \
wirerate trafgen '{ eth(da=02:00:00:00:00:02), ipv4(da=198.18.0.1), udp(dp=7), \"hello\" }' -o out.pcap -n 1\n  \
wirerate trafgen -e | wirerate trafgen -i - -o out.pcap -n 10"
)]
pub struct Args {
    /// Packets in the language, instead of --in
    #[arg(value_name = "PACKET", conflicts_with = "input")]
    pub packet: Vec<String>,
    /// Configuration or capture file (.pcap, .pcapng); - for standard input
    #[arg(short = 'i', long = "in", short_alias = 'c', visible_alias = "conf", value_name = "CFG|PCAP|-")]
    pub input: Option<PathBuf>,
    /// Device to send on, or file to write: frames (.pcap or .pcapng, each also with .gz, .zst or
    /// .lz4) or a configuration (.cfg)
    #[arg(short, long = "out", short_alias = 'd', visible_alias = "dev", value_name = "DEV|FILE")]
    pub out: Option<PathBuf>,
    /// Frames to send or write; 0 goes on until Ctrl-C
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    pub num: u64,
    /// Pick packets at random instead of one after the other
    #[arg(short, long)]
    pub rand: bool,
    /// CPUs to send from, one thread each [default: all]. For a file: only packets without cpu()
    /// and those for CPUs 0 to N-1 [default: all packets]
    #[arg(short = 'P', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub cpus: Option<u32>,
    /// Time between two frames, such as 10us (s, ms, us, ns; us without a unit)
    #[arg(short = 't', long, value_name = "TIME", value_parser = output::gap)]
    pub gap: Option<u64>,
    /// Rate of the frames, without FCS, preamble and gap, such as 1000pps or 10Mbit
    #[arg(short = 'b', long, value_name = "RATE", value_parser = output::rate, conflicts_with = "gap")]
    pub rate: Option<output::FileRate>,
    /// Seed of all random values [default: random]
    #[arg(short = 'E', long, value_name = "SEED")]
    pub seed: Option<u64>,
    /// Pass the configuration through the C preprocessor
    #[arg(short = 'p', long)]
    pub cpp: bool,
    /// Macro for the C preprocessor
    #[arg(short = 'D', long, value_name = "NAME=DEFINITION", requires = "cpp")]
    pub define: Vec<String>,
    /// Print the parsed packets
    #[arg(short = 'V', long)]
    pub verbose: bool,
    /// Print an example configuration
    #[arg(short, long)]
    pub example: bool,
    /// Print the version
    #[arg(short, long)]
    pub version: bool,
    /// Link type of the file is IEEE 802.11 with radiotap
    #[arg(short = 'R', long)]
    pub rfraw: bool,
    /// Network namespace of a device that is named without one
    #[arg(long, value_name = "NAME")]
    pub netns: Option<String>,
    /// Method to send frames: xdp, skb, af_packet or af_xdp [default: the first that works]
    #[arg(long, value_enum, value_name = "ENGINE", hide_possible_values = true)]
    pub engine: Option<EngineName>,
    /// Go on when the device is down or without carrier: frames that are due meanwhile count as
    /// `no_carrier`
    #[arg(long)]
    pub keep_going: bool,
    /// Send even if the device carries the default route of this host
    #[arg(long)]
    pub allow_default_route: bool,
    /// Print the report as one line of JSON (docs/json.md)
    #[arg(long)]
    pub json: bool,
    /// Options of trafgen that concern devices only
    #[command(flatten)]
    pub device: DeviceArgs,
}

/// Options of trafgen that have no meaning for a file; the others have none here at all.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Options of trafgen for devices")]
pub struct DeviceArgs {
    /// Send frames that are longer than the MTU of the device
    #[arg(short = 'J', long)]
    pub jumbo_support: bool,
    /// Ignored: probe a host after each frame
    #[arg(short, long, value_name = "IPV4")]
    pub smoke_test: Option<String>,
    /// Ignored: interval of the kernel
    #[arg(short = 'k', long, value_name = "US")]
    pub kernel_pull: Option<String>,
    /// Ignored: size of the ring
    #[arg(short = 'S', long, value_name = "SIZE")]
    pub ring_size: Option<String>,
    /// Ignored: user to become
    #[arg(short, long, value_name = "UID")]
    pub user: Option<String>,
    /// Ignored: group to become
    #[arg(short, long, value_name = "GID")]
    pub group: Option<String>,
    /// Ignored: high priority
    #[arg(short = 'H', long)]
    pub prio_high: bool,
    /// Ignored: leave the socket memory alone
    #[arg(short = 'A', long)]
    pub no_sock_mem: bool,
    /// Ignored: leave the interrupt affinity alone
    #[arg(short = 'Q', long)]
    pub notouch_irq: bool,
    /// Send through the qdisc of the device
    #[arg(short, long)]
    pub qdisc_path: bool,
    /// Ignored: no CPU statistics
    #[arg(short = 'C', long)]
    pub no_cpu_stats: bool,
}

impl DeviceArgs {
    /// The options that were given and have no meaning for this output.
    fn ignored(&self, is_file: bool) -> impl Iterator<Item = &'static str> {
        [
            ("--jumbo-support", self.jumbo_support && is_file),
            ("--smoke-test", self.smoke_test.is_some()),
            ("--kernel-pull", self.kernel_pull.is_some()),
            ("--ring-size", self.ring_size.is_some()),
            ("--user", self.user.is_some()),
            ("--group", self.group.is_some()),
            ("--prio-high", self.prio_high),
            ("--no-sock-mem", self.no_sock_mem),
            ("--notouch-irq", self.notouch_irq),
            ("--qdisc-path", self.qdisc_path && is_file),
            ("--no-cpu-stats", self.no_cpu_stats),
        ]
        .into_iter()
        .filter_map(|(name, is_given)| is_given.then_some(name))
    }
}

/// Writes the frames. `stop` is set by Ctrl-C.
///
/// # Errors
/// Configuration, files, or a device that cannot send.
pub fn run(args: &Args, stop: &Stop) -> Result<Outcome, Failure> {
    if args.version {
        stop.console().text(concat!(
            "wirerate ",
            env!("CARGO_PKG_VERSION"),
            " (trafgen 0.6.8's language)\n"
        ))?;
        return Ok(Outcome::Done);
    }
    if args.example {
        stop.console().text(EXAMPLE)?;
        return Ok(Outcome::Done);
    }
    let device_name = args.out.as_deref().filter(|path| !is_file(path)).map(Path::to_string_lossy);
    for option in args.device.ignored(device_name.is_none()) {
        program::note!("{option} has no meaning here and is ignored");
    }
    let seed = args.seed.unwrap_or_else(random_seed);
    let order = if args.rand { PacketOrder::Random } else { PacketOrder::RoundRobin };
    if let Some(name) = device_name {
        let place = DevicePlace::of(&name, args.netns.as_deref());
        let args = &Args { netns: place.netns.clone(), ..args.clone() };
        let device = device::find(args, &place.device)?;
        let specs = input::packets(args, seed, Some(addresses(&device.facts)))?;
        if args.verbose {
            stop.console().text(&describe(&specs))?;
        }
        return device::send(args, &device, Packets::new(specs, order)?, seed, stop);
    }
    let specs = input::packets(args, seed, None)?;
    if args.verbose {
        stop.console().text(&describe(&specs))?;
    }
    let specs = of_cpus(specs, args.cpus);
    let Some(path) = &args.out else {
        return if args.verbose {
            Ok(Outcome::Done)
        } else {
            Err(Failure::usage("send frames", "name a device or a file with --out"))
        };
    };
    write(args, path, &mut Expander::new(&specs, order, seed), stop)
}

fn write(args: &Args, path: &Path, frames: &mut Expander, stop: &Stop) -> Result<Outcome, Failure> {
    let mut file = output::FramesFile::create(path, args.rfraw)?;
    let mut time_ns = now_ns();
    let (mut count, mut bytes) = (0u64, 0u64);
    while (args.num == 0 || count < args.num) && !stop.is_set() {
        let Some(frame) = frames.next_frame() else { break };
        file.frame(time_ns, frame)?;
        count += 1;
        bytes += frame.len() as u64;
        time_ns += match (args.gap, args.rate) {
            (Some(gap_ns), _) => gap_ns,
            (None, Some(rate)) => rate.gap_ns(frame.len()),
            (None, None) => GAP_NS,
        };
    }
    file.finish()?;
    eprintln!(
        "{} frames, {} bytes in {}",
        units::human_count(count),
        units::human_count(bytes),
        path.display()
    );
    Ok(Outcome::Done)
}

/// True for the name of a file; any other output is a device.
fn is_file(path: &Path) -> bool {
    let is_config = path.extension().is_some_and(|extension| extension == "cfg");
    is_config || asked_format(&path.to_string_lossy()).is_some()
}

/// The packets that CPUs 0 to `cpus` - 1 send.
fn of_cpus(mut specs: Vec<FrameSpec>, cpus: Option<u32>) -> Vec<FrameSpec> {
    if let Some(cpus) = cpus {
        specs.retain(|spec| spec.cpus.as_ref().is_none_or(|range| *range.start() < cpus));
    }
    specs
}

/// The packets, for `--verbose`.
fn describe(specs: &[FrameSpec]) -> String {
    let mut text = String::new();
    for (index, spec) in specs.iter().enumerate() {
        text += &format!("packet {index}: {} bytes", spec.template.len());
        if let Some(cpus) = &spec.cpus {
            text += &format!(", CPUs {} to {}", cpus.start(), cpus.end());
        }
        text.push('\n');
        for (row, bytes) in spec.template.chunks(16).enumerate() {
            text += &format!("  {:04x} ", row * 16);
            bytes.iter().for_each(|byte| text += &format!(" {byte:02x}"));
            text.push('\n');
        }
        for field in &spec.fields {
            let last = field.offset + field.width - 1;
            text +=
                &format!("  bytes {} to {last}, mask {:#x}: {:?}\n", field.offset, field.mask, field.mode);
        }
        // Without fields, no frame changes, and the bytes above have the checksums.
        for sum in spec.checksums.iter().filter(|_| !spec.fields.is_empty()) {
            let last = sum.end - 1;
            text += &format!("  checksum at byte {} over bytes {} to {last}\n", sum.offset, sum.start);
        }
    }
    text
}

fn now_ns() -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since_1970.as_nanos() as u64
}

/// The nanoseconds of the clock, mixed.
fn random_seed() -> u64 {
    now_ns().wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
