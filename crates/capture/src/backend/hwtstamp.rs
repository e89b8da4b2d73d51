//! Timestamps and VLAN tags that the hardware of a device supplies, and whether to query them.
//!
//! A query costs a call into the driver per frame. So tags are queried only if the device strips
//! them, and timestamps only if it makes some.

use crate::error::in_one_line;
use crate::time::phc::PhcClock;
use crate::{CaptureError, ClockMode};
use bpf::capture::Metadata;
use host::{HostError, Link, Phc, Stack, StampConfig, StampDriver, Timestamping, XdpFeatures};
use std::sync::Arc;

/// ethtool's names for "tags are taken off received frames".
const STRIPS: [&str; 2] = ["rx-vlan-hw-parse", "rx-vlan-stag-hw-parse"];

/// What one device could tell of its frames.
#[derive(Clone)]
pub(crate) struct Hardware {
    /// The clock of its stamps; none where frames get the kernel's time.
    pub(crate) clock: Option<Arc<PhcClock>>,
    /// Why there is none, although the device stamps frames and the options do not exclude it.
    pub(crate) refusal: Option<String>,
    /// True when it says that it stamps frames now; not every driver tells.
    is_stamping: bool,
    able: Option<XdpFeatures>,
    strips_tags: bool,
}

impl Hardware {
    /// Finds out about `link`, a device of `stack`. What the kernel does not tell is not asked of
    /// drivers. No clock is no error: the device makes no stamps now, or the kernel's time was
    /// asked for.
    ///
    /// # Errors
    /// Under [`ClockMode::Phc`], why there is no clock.
    pub(crate) fn of(stack: &Stack, link: &Link, mode: ClockMode) -> Result<Self, CaptureError> {
        let config = || stack.stamps(link).ok()?.config().ok()?;
        let is_stamping = mode != ClockMode::System && config().is_some_and(|config| config.is_receive_on());
        let (clock, refusal) = match mode {
            ClockMode::System => (None, None),
            ClockMode::Utc | ClockMode::Phc => match open_clock(stack, link) {
                Ok(clock) => (Some(Arc::new(clock)), None),
                Err(error) if mode == ClockMode::Phc => return Err(error),
                Err(error) => (None, is_stamping.then(|| in_one_line(&error))),
            },
        };
        let features = stack.features(link).unwrap_or_default();
        Ok(Self {
            clock,
            refusal,
            is_stamping,
            able: stack.xdp_features(link).ok().flatten(),
            strips_tags: STRIPS.iter().any(|name| features.is_on(name)),
        })
    }

    /// What XDP programs are to ask about frames of this device.
    pub(crate) fn ask(&self, ifindex: u32) -> Option<Metadata> {
        let able = self.able.as_ref()?;
        let time = self.clock.is_some() && able.rx_timestamp;
        let ask = Metadata { ifindex, time, vlan: self.strips_tags && able.rx_vlan_tag };
        (ask.time || ask.vlan).then_some(ask)
    }

    /// True when the device stamps frames now, by a clock that can be read, and XDP programs do not
    /// get the stamps. What the driver does not tell is no reason to leave the faster way.
    pub(crate) fn only_sockets_get_stamps(&self) -> bool {
        self.is_worth_leaving_xdp() && !self.able.as_ref().is_some_and(|able| able.rx_timestamp)
    }

    /// True when there are stamps for sure, which are worth the slower way.
    pub(crate) fn is_worth_leaving_xdp(&self) -> bool {
        self.is_stamping && self.clock.is_some()
    }
}

fn open_clock(stack: &Stack, link: &Link) -> Result<PhcClock, CaptureError> {
    let stamps = stack.stamps(link)?;
    let index = clock_index(&link.name, &stamps.abilities()?, stamps.config()?)?;
    let phc = Phc::open(index)?;
    PhcClock::new(index, Box::new(phc), host::monotonic_ns())
        .map_err(|source| CaptureError::PhcRead { index, source })
}

/// The clock of a device that stamps received frames now, or may: not every driver tells.
fn clock_index(
    ifname: &str,
    abilities: &Timestamping,
    config: Option<StampConfig>,
) -> Result<u32, CaptureError> {
    let none = || HostError::NoStamps { object: ifname.to_owned() };
    let index = abilities.clock_index.filter(|_| abilities.is_hardware_receive()).ok_or_else(none)?;
    match config {
        Some(config) if !config.is_receive_on() => {
            Err(CaptureError::NotStamping { device: ifname.to_owned() })
        }
        _ => Ok(index),
    }
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

    /// A device as it says that it is.
    fn hardware(
        able: Option<XdpFeatures>,
        has_clock: bool,
        is_stamping: bool,
        strips_tags: bool,
    ) -> Hardware {
        let clock = has_clock.then(PhcClock::for_test);
        Hardware { clock, refusal: None, is_stamping, able, strips_tags }
    }

    fn able(rx_timestamp: bool, rx_vlan_tag: bool) -> Option<XdpFeatures> {
        Some(XdpFeatures { rx_timestamp, rx_vlan_tag, ..XdpFeatures::default() })
    }

    /// A capture on igb, whose driver stamps and tells packet sockets only, had no stamp in its
    /// file.
    #[test]
    fn stamps_that_xdp_cannot_read_are_left_to_packet_sockets() {
        let beyond = |able, has_clock, is_stamping| {
            hardware(able, has_clock, is_stamping, false).only_sockets_get_stamps()
        };
        assert!(beyond(able(false, false), true, true) && beyond(None, true, true));
        assert!(!beyond(able(true, false), true, true), "XDP gets them");
        assert!(!beyond(able(false, false), true, false), "nothing is stamped, or the driver does not tell");
        assert!(!beyond(able(false, false), false, true), "by a clock that cannot be read");
    }

    #[test]
    fn what_cannot_have_an_answer_is_not_asked() {
        let asked = |able, strips_tags, has_clock| {
            let ask = hardware(able, has_clock, true, strips_tags).ask(3);
            ask.map(|ask| (ask.time, ask.vlan))
        };
        assert_eq!(asked(able(true, true), true, true), Some((true, true)));
        assert_eq!(asked(able(true, true), true, false), Some((false, true)));
        assert_eq!(asked(able(true, true), false, true), Some((true, false)));
        assert_eq!(asked(able(false, true), true, true), Some((false, true)));
        for (able, strips_tags) in [(able(false, false), true), (able(false, true), false), (None, true)] {
            assert_eq!(asked(able, strips_tags, true), None);
        }
    }
}
