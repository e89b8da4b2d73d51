//! `wirerate timestamp DEV on|off|show`: whether the device stamps the frames that it receives.

use clap::ValueEnum;
use facts::{Described, Document};
use host::{HostError, Netns, Stack, StampConfig, StampDriver, StampMode, Timestamping, XdpFeatures};
use program::out;
use program::outcome::{Failure, Outcome};
use serde::Serialize;
use std::fmt;
use units::Table;

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TimestampAction {
    /// Stamp received frames
    On,
    /// Stamp no received frames
    Off,
    /// Say what is set and what the device can do
    Show,
}

/// Which frames to stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Filter {
    /// Every received frame
    All,
    /// Event messages of PTP version 2
    Ptp,
}

/// Arguments of `wirerate timestamp`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
What is printed is what the driver granted, read back from it. Stamps of transmitted frames stay as they \
are, so that a ptp4l that runs goes on running.\n\n\
Examples:\n  \
wirerate timestamp eth1 show\n  \
wirerate timestamp eth1 on\n  \
wirerate timestamp eth1 on --filter ptp")]
pub struct Args {
    /// The device: DEV, or DEV@NETNS in another network namespace
    #[arg(value_name = "DEV")]
    pub device: String,
    /// What to do
    #[arg(value_enum, default_value = "show")]
    pub act: TimestampAction,
    /// Which frames to stamp [default: all]
    #[arg(long, value_enum)]
    pub filter: Option<Filter>,
    /// Network namespace of a device that is named without one
    #[arg(long, value_name = "NAME")]
    pub netns: Option<String>,
    /// Print the report as one line of JSON (docs/json.md)
    #[arg(long, short = 'J')]
    pub json: bool,
    /// Print no notes, only errors and the report
    #[arg(long, short)]
    pub quiet: bool,
}

/// Arguments of `mgcap_hwtstamp_config`.
#[derive(Clone, Debug, clap::Args)]
pub struct OldArgs {
    /// The device: DEV, or DEV@NETNS in another network namespace
    #[arg(value_name = "DEV")]
    pub device: String,
    /// 1 to stamp every received frame, 0 to stamp none
    #[arg(value_name = "1|0", value_parser = clap::value_parser!(u8).range(0..=1))]
    pub is_on: u8,
    /// Network namespace of a device that is named without one
    #[arg(long, value_name = "NAME")]
    pub netns: Option<String>,
}

impl From<OldArgs> for Args {
    fn from(old: OldArgs) -> Self {
        let act = if old.is_on == 1 { TimestampAction::On } else { TimestampAction::Off };
        Self { device: old.device, act, filter: None, netns: old.netns, json: false, quiet: false }
    }
}

/// The report of `wirerate timestamp`.
pub const TIMESTAMP: Document = Document::of::<Report>("wirerate.timestamp/1", "wirerate timestamp --json");

/// Everything about the stamps of one device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Described)]
pub struct Report {
    /// The device.
    pub device: String,
    /// Its network namespace; `null` where none was named.
    pub netns: Option<String>,
    /// Its driver; `null` where there is none.
    pub driver: Option<String>,
    /// Which received frames are stamped now, in ethtool's words; `null` if the driver does not
    /// report it.
    pub rx_filter: Option<String>,
    /// Which transmitted frames are stamped now, in ethtool's words; `null` if the driver does not
    /// report it.
    pub tx_type: Option<String>,
    /// N of `/dev/ptpN`; `null` without a clock.
    pub clock_index: Option<u32>,
    /// True if the device can stamp received frames with that clock.
    pub hardware_receive: bool,
    /// Its capabilities, in ethtool's words.
    pub abilities: Vec<String>,
    /// The supported filters.
    pub rx_filters: Vec<String>,
    /// The supported transmit types.
    pub tx_types: Vec<String>,
    /// Whether XDP programs can read timestamps; `null` if the kernel does not report it.
    pub xdp_rx_timestamp: Option<bool>,
    /// Whether XDP programs can read VLAN tags that the device stripped; `null` if the kernel does
    /// not report it.
    pub xdp_rx_vlan_tag: Option<bool>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = match &self.netns {
            Some(netns) => format!("{} in {netns}", self.device),
            None => self.device.clone(),
        };
        let state = match (&self.rx_filter, self.hardware_receive) {
            (_, false) => "cannot be stamped by the device".to_owned(),
            (None, true) => "may be stamped: the driver does not tell".to_owned(),
            (Some(filter), true) if filter == "none" => "are not stamped by the device".to_owned(),
            (Some(filter), true) => format!("are stamped by the device (filter {filter})"),
        };
        writeln!(f, "{place}: received frames {state}")?;
        let list = |words: &[String]| if words.is_empty() { "none".to_owned() } else { words.join(", ") };
        let told = |word: &Option<String>| word.clone().unwrap_or_else(|| "not told".to_owned());
        let mut table = Table::default();
        table.text("driver", self.driver.as_deref().unwrap_or("none"));
        table.text("transmit", &told(&self.tx_type));
        let clock = self.clock_index.map_or_else(|| "none".to_owned(), |index| format!("/dev/ptp{index}"));
        table.text("clock", &clock);
        table.text("abilities", &list(&self.abilities));
        table.text("filters", &list(&self.rx_filters));
        table.text("in XDP", &self.xdp_words());
        fmt::Display::fmt(&table, f)
    }
}

impl Report {
    fn xdp_words(&self) -> String {
        if self.xdp_rx_timestamp.is_none() && self.xdp_rx_vlan_tag.is_none() {
            return "the kernel does not tell".to_owned();
        }
        let words = [("time stamps", self.xdp_rx_timestamp), ("VLAN tags", self.xdp_rx_vlan_tag)];
        let able: Vec<_> = words.iter().filter(|(_, is)| *is == Some(true)).map(|(word, _)| *word).collect();
        if able.is_empty() { "nothing".to_owned() } else { able.join(", ") }
    }
}

/// Changes what is asked and prints what is so.
///
/// # Errors
/// When the device is not there, cannot stamp, or has no such filter.
pub fn run(args: &Args) -> Result<Outcome, Failure> {
    let setting = setting(args)?;
    let report = report(args, setting).map_err(|why| Failure::host(act_words(args), why))?;
    if !args.quiet
        && setting == Some(StampMode::Off)
        && report.tx_type.as_deref().is_some_and(|word| word != "off")
    {
        program::note!(
            "{} stamps transmitted frames: a PTP daemon on it now misses the stamps of received ones",
            args.device
        );
    }
    out::text(&if args.json { out::json_line(&TIMESTAMP, &report) } else { report.to_string() })?;
    Ok(Outcome::Done)
}

fn setting(args: &Args) -> Result<Option<StampMode>, Failure> {
    match (args.act, args.filter) {
        (TimestampAction::On, None | Some(Filter::All)) => Ok(Some(StampMode::All)),
        (TimestampAction::On, Some(Filter::Ptp)) => Ok(Some(StampMode::Ptp)),
        (TimestampAction::Off, None) => Ok(Some(StampMode::Off)),
        (TimestampAction::Show, None) => Ok(None),
        (TimestampAction::Off | TimestampAction::Show, Some(_)) => {
            Err(Failure::usage("use --filter with off or show", "it says which frames to stamp")
                .try_this("wirerate timestamp DEV on --filter ptp"))
        }
    }
}

fn act_words(args: &Args) -> String {
    let act = match args.act {
        TimestampAction::On => "switch on the time stamps of",
        TimestampAction::Off => "switch off the time stamps of",
        TimestampAction::Show => "show the time stamps of",
    };
    match &args.netns {
        Some(netns) => format!("{act} {} in {netns}", args.device),
        None => format!("{act} {}", args.device),
    }
}

fn report(args: &Args, setting: Option<StampMode>) -> Result<Report, HostError> {
    let stack = match &args.netns {
        Some(netns) => Stack::of(&Netns::named(netns)?)?,
        None => Stack::here()?,
    };
    let device = args.device.as_str();
    let stamps = stack.stamps(device)?;
    let config = match setting {
        Some(setting) => Some(host::switch_stamps(&stamps, setting)?.now),
        None => stamps.config()?,
    };
    // What XDP can read is known only to newer kernels, and no reason to fail.
    let xdp = stack.xdp_features(device).ok().flatten();
    let driver = stack.driver(device)?.map(|driver| driver.name);
    Ok(describe(args, driver, &stamps.abilities()?, config, xdp.as_ref()))
}

fn describe(
    args: &Args,
    driver: Option<String>,
    abilities: &Timestamping,
    config: Option<StampConfig>,
    xdp: Option<&XdpFeatures>,
) -> Report {
    Report {
        device: args.device.clone(),
        netns: args.netns.clone(),
        driver,
        rx_filter: config.map(|config| config.rx_word()),
        tx_type: config.map(|config| config.tx_word()),
        clock_index: abilities.clock_index,
        hardware_receive: abilities.is_hardware_receive(),
        abilities: abilities.abilities.clone(),
        rx_filters: abilities.rx_filters.clone(),
        tx_types: abilities.tx_types.clone(),
        xdp_rx_timestamp: xdp.map(|xdp| xdp.rx_timestamp),
        xdp_rx_vlan_tag: xdp.map(|xdp| xdp.rx_vlan_tag),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(act: TimestampAction, filter: Option<Filter>) -> Args {
        Args { device: "eth1".into(), act, filter, netns: None, json: false, quiet: false }
    }

    fn igb() -> Report {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let abilities = Timestamping {
            abilities: words(&["hardware-raw-clock", "hardware-receive", "hardware-transmit"]),
            rx_filters: words(&["all", "none"]),
            tx_types: words(&["off", "on"]),
            clock_index: Some(0),
        };
        let config = StampConfig { tx_type: 1, rx_filter: 1, flags: 0 };
        let xdp = XdpFeatures { rx_timestamp: true, ..XdpFeatures::default() };
        describe(&args(TimestampAction::On, None), Some("igb".into()), &abilities, Some(config), Some(&xdp))
    }

    #[test]
    fn a_device_that_stamps_reads_like_this() {
        assert_eq!(
            igb().to_string(),
            "eth1: received frames are stamped by the device (filter all)\n  \
             driver     igb\n  \
             transmit   on\n  \
             clock      /dev/ptp0\n  \
             abilities  hardware-raw-clock, hardware-receive, hardware-transmit\n  \
             filters    all, none\n  \
             in XDP     time stamps\n"
        );
    }

    #[test]
    fn states_are_told_apart() {
        let first = |report: Report| report.to_string().lines().next().unwrap_or_default().to_owned();
        let none = Report { rx_filter: Some("none".into()), ..igb() };
        assert_eq!(first(none), "eth1: received frames are not stamped by the device");
        let untold = Report { rx_filter: None, ..igb() };
        assert_eq!(first(untold), "eth1: received frames may be stamped: the driver does not tell");
        let cannot = Report { hardware_receive: false, ..igb() };
        assert_eq!(first(cannot), "eth1: received frames cannot be stamped by the device");
    }

    #[test]
    fn a_report_is_one_line_of_json() {
        assert_eq!(
            out::json_line(&TIMESTAMP, &igb()),
            "{\"schema\":\"wirerate.timestamp/1\",\"device\":\"eth1\",\"netns\":null,\"driver\":\"igb\",\
             \"rx_filter\":\"all\",\"tx_type\":\"on\",\"clock_index\":0,\"hardware_receive\":true,\
             \"abilities\":[\"hardware-raw-clock\",\"hardware-receive\",\"hardware-transmit\"],\
             \"rx_filters\":[\"all\",\"none\"],\"tx_types\":[\"off\",\"on\"],\
             \"xdp_rx_timestamp\":true,\"xdp_rx_vlan_tag\":false}\n"
        );
    }

    #[test]
    fn a_filter_belongs_to_on() {
        assert_eq!(setting(&args(TimestampAction::On, Some(Filter::Ptp))).unwrap(), Some(StampMode::Ptp));
        assert_eq!(setting(&args(TimestampAction::Show, None)).unwrap(), None);
        assert!(setting(&args(TimestampAction::Off, Some(Filter::All))).is_err());
    }
}
