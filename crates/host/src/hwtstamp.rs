//! Hardware timestamps of received frames: query, change, and read back.
//!
//! The decisions are tested against a simulated driver ([`StampDriver`]); the real one is in
//! `ethtool` (netlink, Linux 6.14) and `sys` (the older ioctl). The transmit settings of other
//! programs, such as ptp4l, are not changed.

use crate::stack::LinkId;
use crate::stamp_config::{FILTER_NONE, RX_FILTERS, StampConfig, word};
use crate::{HostError, Stack, Timestamping, sys};

const FILTER_ALL: u32 = 1;
const FILTER_SOME: u32 = 2;
const FILTER_PTP_V2_EVENT: u32 = 12;
const TX_OFF: u32 = 0;
const TX_ON: u32 = 1;

/// Devices that pass these queries to their lower device. For them, kernels from 6.14 to the
/// release candidates of 6.18 may crash on the netlink query; the ioctl is safe.
const STACKED: [&str; 6] = ["vlan", "macvlan", "macvtap", "ipvlan", "bond", "team"];

/// Received frames to timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StampMode {
    /// None.
    Off,
    /// All frames.
    All,
    /// The event messages of PTP version 2.
    Ptp,
}

impl StampMode {
    /// Suitable filters, best first.
    fn filters(self) -> &'static [u32] {
        match self {
            Self::Off => &[FILTER_NONE],
            Self::All => &[FILTER_ALL],
            Self::Ptp => &[FILTER_PTP_V2_EVENT, FILTER_ALL],
        }
    }

    /// True if `filter` includes the requested frames. Drivers may timestamp more.
    fn is_met_by(self, filter: u32) -> bool {
        match self {
            Self::Off => filter == FILTER_NONE,
            Self::All => filter == FILTER_ALL,
            Self::Ptp => [FILTER_PTP_V2_EVENT, FILTER_ALL, FILTER_SOME].contains(&filter),
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Off => "none",
            Self::All => "all",
            Self::Ptp => "ptpv2-event",
        }
    }
}

/// Result of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamped {
    /// The settings before; `None` if the driver does not report them.
    pub before: Option<StampConfig>,
    /// The granted settings, read back from the driver if possible.
    pub now: StampConfig,
}

/// A driver with timestamping settings.
pub trait StampDriver {
    /// Device and namespace, for messages.
    fn object(&self) -> String;
    /// Its capabilities.
    ///
    /// # Errors
    /// When there is no such device.
    fn abilities(&self) -> Result<Timestamping, HostError>;
    /// Its settings; `None` if it does not report them.
    ///
    /// # Errors
    /// When there is no such device, or the query fails for a reason other than missing support.
    fn config(&self) -> Result<Option<StampConfig>, HostError>;
    /// Applies `config` and returns what was granted.
    ///
    /// # Errors
    /// ERANGE for an unsupported filter, EPERM.
    fn set(&self, config: StampConfig) -> Result<StampConfig, HostError>;
}

/// Changes which received frames are timestamped, and nothing else.
///
/// # Errors
/// [`HostError::NoStamps`] if the device has no clock for it; [`HostError::NoStampFilter`] with the
/// supported filters; errors of the driver.
pub fn switch_stamps(driver: &dyn StampDriver, mode: StampMode) -> Result<Stamped, HostError> {
    let abilities = driver.abilities()?;
    let before = driver.config()?;
    if !abilities.is_hardware_receive() {
        return match mode {
            StampMode::Off => Ok(Stamped { before, now: before.unwrap_or_default() }),
            _ => Err(HostError::NoStamps { object: driver.object() }),
        };
    }
    if let Some(now) = before.filter(|config| mode.is_met_by(config.rx_filter)) {
        return Ok(Stamped { before, now });
    }
    // If unknown, transmit timestamps may be in use; "on" affects only frames whose sender requests
    // them.
    let kept = before.unwrap_or_else(|| StampConfig {
        tx_type: if abilities.tx_types.iter().any(|word| word == "on") { TX_ON } else { TX_OFF },
        ..StampConfig::default()
    });
    let offered = |filter: &&u32| {
        abilities.rx_filters.is_empty() || abilities.rx_filters.contains(&word(&RX_FILTERS, **filter))
    };
    for &rx_filter in mode.filters().iter().filter(offered) {
        match driver.set(StampConfig { rx_filter, ..kept }) {
            Ok(granted) => {
                let now = driver.config()?.unwrap_or(granted);
                if mode.is_met_by(now.rx_filter) {
                    return Ok(Stamped { before, now });
                }
            }
            Err(error) if error.errno() == Some(libc::ERANGE) => {}
            Err(error) => return Err(error),
        }
    }
    let offers = abilities.rx_filters;
    Err(HostError::NoStampFilter { object: driver.object(), filter: mode.words(), offers })
}

/// The driver of a device of a [`Stack`].
#[derive(Debug)]
pub struct DeviceStamps<'a> {
    stack: &'a Stack,
    id: LinkId<'a>,
    name: String,
    is_stacked: bool,
}

impl Stack {
    /// Timestamping of one device.
    ///
    /// # Errors
    /// When there is no such device.
    pub fn stamps<'a>(&'a self, id: impl Into<LinkId<'a>>) -> Result<DeviceStamps<'a>, HostError> {
        let id = id.into();
        let link = self.link(id)?;
        let is_stacked = link.kind.as_deref().is_some_and(|kind| STACKED.contains(&kind));
        Ok(DeviceStamps { stack: self, id, name: link.name, is_stacked })
    }
}

impl StampDriver for DeviceStamps<'_> {
    fn object(&self) -> String {
        self.stack.object(self.id)
    }

    fn abilities(&self) -> Result<Timestamping, HostError> {
        self.stack.timestamping(self.id)
    }

    fn config(&self) -> Result<Option<StampConfig>, HostError> {
        if !self.is_stacked
            && let Some(config) = not_supported_is_none(self.stack.stamp_config(self.id))?
        {
            return Ok(Some(config));
        }
        let answer = sys::stamp_config(self.stack.socket(&self.stack.route()), &self.name);
        not_supported_is_none(answer.map_err(HostError::refused("read the time stamping of", self.object())))
    }

    fn set(&self, config: StampConfig) -> Result<StampConfig, HostError> {
        if !self.is_stacked
            && let Some(granted) = not_supported_is_none(self.stack.set_stamp_config(self.id, config))?
        {
            return Ok(granted);
        }
        sys::set_stamp_config(self.stack.socket(&self.stack.route()), &self.name, config)
            .map_err(HostError::refused("change the time stamping of", self.object()))
    }
}

/// Missing support in kernel or driver is not an error here.
fn not_supported_is_none<T>(answer: Result<T, HostError>) -> Result<Option<T>, HostError> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.errno() == Some(libc::EOPNOTSUPP) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KernelError;
    use std::cell::RefCell;

    /// A simulated driver: its capabilities and settings.
    struct Fake {
        rx_filters: Vec<&'static str>,
        /// Filters that it accepts, and the filter that it then uses.
        grants: Vec<(u32, u32)>,
        is_readable: bool,
        config: RefCell<StampConfig>,
        asked: RefCell<Vec<StampConfig>>,
    }

    impl Fake {
        fn new(rx_filters: &[&'static str], grants: &[(u32, u32)]) -> Self {
            Self {
                rx_filters: rx_filters.to_vec(),
                grants: grants.to_vec(),
                is_readable: true,
                config: RefCell::default(),
                asked: RefCell::default(),
            }
        }

        fn with(self, tx_type: u32, rx_filter: u32) -> Self {
            self.config.replace(StampConfig { tx_type, rx_filter, flags: 0 });
            self
        }
    }

    fn refused(errno: i32) -> HostError {
        let source = KernelError { errno, detail: None };
        HostError::Refused { act: "change the time stamping of", object: "fake0".to_owned(), source }
    }

    impl StampDriver for Fake {
        fn object(&self) -> String {
            "fake0".to_owned()
        }

        fn abilities(&self) -> Result<Timestamping, HostError> {
            let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
            let hardware: &[&str] = &["hardware-transmit", "hardware-receive", "hardware-raw-clock"];
            Ok(Timestamping {
                abilities: words(if self.rx_filters.is_empty() { &["software-receive"] } else { hardware }),
                rx_filters: words(&self.rx_filters),
                tx_types: words(&["off", "on"]),
                clock_index: Some(0),
            })
        }

        fn config(&self) -> Result<Option<StampConfig>, HostError> {
            Ok(self.is_readable.then(|| *self.config.borrow()))
        }

        fn set(&self, config: StampConfig) -> Result<StampConfig, HostError> {
            self.asked.borrow_mut().push(config);
            let grant = self.grants.iter().find(|(asked, _)| *asked == config.rx_filter);
            let rx_filter = grant.ok_or_else(|| refused(libc::ERANGE))?.1;
            self.config.replace(StampConfig { rx_filter, ..config });
            Ok(*self.config.borrow())
        }
    }

    #[test]
    fn a_wish_that_is_met_already_changes_nothing() {
        for (mode, rx_filter) in [
            (StampMode::All, FILTER_ALL),
            (StampMode::Ptp, FILTER_ALL),
            (StampMode::Ptp, FILTER_PTP_V2_EVENT),
            (StampMode::Off, FILTER_NONE),
        ] {
            let fake = Fake::new(&["none", "all"], &[]).with(TX_ON, rx_filter);
            let stamped = switch_stamps(&fake, mode).unwrap();
            assert_eq!(stamped.before, Some(stamped.now));
            assert!(fake.asked.borrow().is_empty());
        }
    }

    #[test]
    fn stamps_of_transmitted_frames_stay_as_ptp4l_set_them() {
        for (mode, granted) in [(StampMode::All, FILTER_ALL), (StampMode::Off, FILTER_NONE)] {
            let fake = Fake::new(&["none", "all", "ptpv2-event"], &[(0, 0), (1, 1)]).with(2, 12);
            let now = switch_stamps(&fake, mode).unwrap().now;
            assert_eq!(now, StampConfig { tx_type: 2, rx_filter: granted, flags: 0 });
        }
    }

    #[test]
    fn where_the_driver_does_not_tell_transmit_stamps_are_allowed() {
        let fake = Fake { is_readable: false, ..Fake::new(&["all"], &[(1, 1)]) };
        let stamped = switch_stamps(&fake, StampMode::All).unwrap();
        assert_eq!(stamped.before, None);
        assert_eq!((stamped.now.tx_type, stamped.now.rx_filter), (TX_ON, FILTER_ALL));
    }

    #[test]
    fn more_than_was_asked_for_is_granted_and_said() {
        let fake = Fake::new(&["none", "ptpv2-event", "all"], &[(12, 1)]);
        assert_eq!(switch_stamps(&fake, StampMode::Ptp).unwrap().now.rx_word(), "all");
    }

    #[test]
    fn a_driver_that_stamps_only_all_does_for_ptp() {
        let fake = Fake::new(&["none", "all"], &[(1, 1)]);
        assert_eq!(switch_stamps(&fake, StampMode::Ptp).unwrap().now.rx_filter, FILTER_ALL);
        // Without a list of filters they are tried.
        let fake = Fake::new(&["none", "ptpv2-event", "all"], &[(1, 1)]);
        assert_eq!(switch_stamps(&fake, StampMode::Ptp).unwrap().now.rx_filter, FILTER_ALL);
        assert_eq!(fake.asked.borrow().len(), 2);
    }

    #[test]
    fn a_filter_that_is_refused_comes_with_those_there_are() {
        let never_offered = Fake::new(&["none", "ptpv2-l4-event", "ptpv2-event"], &[(12, 12)]);
        let offered_and_refused = Fake::new(&["none", "all"], &[]);
        for (fake, offers) in
            [(never_offered, "none, ptpv2-l4-event, ptpv2-event"), (offered_and_refused, "none, all")]
        {
            let error = switch_stamps(&fake, StampMode::All).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("fake0 cannot stamp the frames of the filter all; it offers {offers}")
            );
        }
    }

    #[test]
    fn less_than_was_asked_for_is_no_success() {
        let fake = Fake::new(&["none", "all"], &[(1, 12)]);
        assert!(matches!(switch_stamps(&fake, StampMode::All), Err(HostError::NoStampFilter { .. })));
    }

    #[test]
    fn a_device_without_a_clock_is_said_to_have_none() {
        let fake = Fake::new(&[], &[]);
        let error = switch_stamps(&fake, StampMode::All).unwrap_err();
        assert_eq!(error.to_string(), "fake0 has no clock of its own that stamps received frames");
        assert_eq!(switch_stamps(&fake, StampMode::Off).unwrap().now, StampConfig::default());
        assert!(fake.asked.borrow().is_empty());
    }

    #[test]
    fn other_refusals_are_passed_on() {
        struct Forbids(Fake);
        impl StampDriver for Forbids {
            fn object(&self) -> String {
                self.0.object()
            }
            fn abilities(&self) -> Result<Timestamping, HostError> {
                self.0.abilities()
            }
            fn config(&self) -> Result<Option<StampConfig>, HostError> {
                self.0.config()
            }
            fn set(&self, _config: StampConfig) -> Result<StampConfig, HostError> {
                Err(refused(libc::EPERM))
            }
        }
        let error = switch_stamps(&Forbids(Fake::new(&["all"], &[])), StampMode::All).unwrap_err();
        assert_eq!(error.errno(), Some(libc::EPERM));
    }

    #[test]
    fn numbers_have_ethtools_words() {
        let config = StampConfig { tx_type: 3, rx_filter: 15, flags: 0 };
        assert_eq!((config.tx_word().as_str(), config.rx_word().as_str()), ("onestep-p2p", "ntp-all"));
        assert_eq!(StampConfig { rx_filter: 16, ..config }.rx_word(), "number 16");
    }
}
