//! What the hardware of a device could tell of each frame, and whether it is worth asking.
//!
//! Asking costs a call into the driver for each frame, so only what can have an answer is asked: tags where the device
//! takes them off, time stamps where it makes some.

use crate::phc::PhcClock;
use crate::{CaptureError, ClockWish};
use bpf::capture::Ask;
use host::{Features, HostError, Link, Phc, Stack, StampConfig, StampDriver, Timestamping, XdpFeatures};
use std::sync::Arc;

/// ethtool's names for "tags are taken off received frames".
const STRIPS: [&str; 2] = ["rx-vlan-hw-parse", "rx-vlan-stag-hw-parse"];

/// What to ask about frames of `link`, a device of `stack`. What the kernel does not tell is not asked.
pub(crate) fn ask(stack: &Stack, link: &Link, wants_time: bool) -> Option<Ask> {
    let able = stack.xdp_features(link).ok().flatten()?;
    let features = stack.features(link).unwrap_or_default();
    worth_asking(link.index, &able, &features, wants_time)
}

/// The clock of the stamps of `link`, or nothing where frames get the kernel's time: it was asked for, the device makes
/// no stamps now, or its clock cannot be read.
///
/// # Errors
/// Under [`ClockWish::Phc`], why there is none.
pub(crate) fn clock(
    stack: &Stack,
    link: &Link,
    wish: ClockWish,
) -> Result<Option<Arc<PhcClock>>, CaptureError> {
    if wish == ClockWish::System {
        return Ok(None);
    }
    match open_clock(stack, link) {
        Ok(clock) => Ok(Some(Arc::new(clock))),
        Err(_) if wish == ClockWish::Utc => Ok(None),
        Err(error) => Err(error),
    }
}

/// True when `link` stamps frames now, by a clock that can be read, and XDP programs do not get the stamps. What the
/// driver does not tell is no reason to leave the faster way.
pub(crate) fn only_sockets_get_stamps(stack: &Stack, link: &Link, wish: ClockWish) -> bool {
    let config = || stack.stamps(link).ok()?.config().ok()?;
    let able = || stack.xdp_features(link).ok().flatten();
    wish != ClockWish::System && is_beyond_xdp(config(), able()) && open_clock(stack, link).is_ok()
}

/// Frames are stamped, and the driver does not say that programs may read that.
fn is_beyond_xdp(config: Option<StampConfig>, able: Option<XdpFeatures>) -> bool {
    config.is_some_and(|config| config.is_receive_on()) && !able.is_some_and(|able| able.rx_timestamp)
}

fn open_clock(stack: &Stack, link: &Link) -> Result<PhcClock, CaptureError> {
    let stamps = stack.stamps(link)?;
    let index = clock_index(&stamps.object(), &stamps.abilities()?, stamps.config()?)?;
    let phc = Phc::open(index)?;
    PhcClock::new(index, Box::new(phc), host::monotonic_ns())
        .map_err(|source| CaptureError::PhcRead { index, source })
}

/// The clock of a device that stamps received frames now, or may: not every driver tells.
fn clock_index(
    object: &str,
    abilities: &Timestamping,
    config: Option<StampConfig>,
) -> Result<u32, CaptureError> {
    let none = || HostError::NoStamps { object: object.to_owned() };
    let index = abilities.clock_index.filter(|_| abilities.is_hardware_receive()).ok_or_else(none)?;
    match config {
        Some(config) if !config.is_receive_on() => {
            Err(CaptureError::NotStamping { device: object.to_owned() })
        }
        _ => Ok(index),
    }
}

fn worth_asking(ifindex: u32, able: &XdpFeatures, features: &Features, wants_time: bool) -> Option<Ask> {
    let strips = STRIPS.iter().any(|name| features.is_on(name));
    let ask = Ask { ifindex, time: wants_time && able.rx_timestamp, vlan: strips && able.rx_vlan_tag };
    (ask.time || ask.vlan).then_some(ask)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_one_that_stamps_now_or_may() {
        let able = Timestamping {
            abilities: ["hardware-receive", "hardware-raw-clock"].map(str::to_owned).to_vec(),
            clock_index: Some(2),
            ..Timestamping::default()
        };
        let config = |rx_filter| Some(StampConfig { rx_filter, ..StampConfig::default() });
        assert_eq!(clock_index("x", &able, config(1)).unwrap(), 2);
        assert_eq!(clock_index("x", &able, None).unwrap(), 2);
        let error = clock_index("x", &able, config(0)).unwrap_err();
        assert_eq!(error.to_string(), "x stamps no received frames now");
        let clockless = Timestamping { clock_index: None, ..able.clone() };
        let unable = Timestamping { abilities: vec!["software-receive".to_owned()], ..able };
        for abilities in [clockless, unable, Timestamping::default()] {
            let error = clock_index("x", &abilities, config(1)).unwrap_err();
            assert_eq!(error.to_string(), "x has no clock of its own that stamps received frames");
        }
    }

    /// A capture on igb, whose driver stamps and tells packet sockets only, had no stamp in its file.
    #[test]
    fn stamps_that_xdp_cannot_read_are_left_to_packet_sockets() {
        let config = |rx_filter| Some(StampConfig { rx_filter, ..StampConfig::default() });
        let able = |rx_timestamp| Some(XdpFeatures { rx_timestamp, ..XdpFeatures::default() });
        assert!(is_beyond_xdp(config(12), able(false)) && is_beyond_xdp(config(1), None));
        assert!(!is_beyond_xdp(config(1), able(true)), "XDP gets them");
        assert!(!is_beyond_xdp(config(0), able(false)), "nothing is stamped");
        assert!(!is_beyond_xdp(None, able(false)), "the driver does not tell");
    }

    #[test]
    fn what_cannot_have_an_answer_is_not_asked() {
        let able =
            |rx_timestamp, rx_vlan_tag| XdpFeatures { rx_timestamp, rx_vlan_tag, ..XdpFeatures::default() };
        let keeps = Features::default();
        let strips = Features::with_active(&["rx-vlan-hw-parse"]);
        let asked = |able: &XdpFeatures, features, wants_time| {
            worth_asking(3, able, features, wants_time).map(|ask| (ask.time, ask.vlan))
        };
        assert_eq!(asked(&able(true, true), &strips, true), Some((true, true)));
        assert_eq!(asked(&able(true, true), &strips, false), Some((false, true)));
        assert_eq!(asked(&able(true, true), &keeps, true), Some((true, false)));
        assert_eq!(asked(&able(false, true), &strips, true), Some((false, true)));
        for (able, features) in [(able(false, false), &strips), (able(false, true), &keeps)] {
            assert_eq!(asked(&able, features, true), None);
        }
    }
}
