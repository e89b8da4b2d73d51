//! Hardware timestamping settings of a device, with the names of ethtool.

/// `enum hwtstamp_rx_filters`, by ethtool names.
pub(crate) const RX_FILTERS: [&str; 16] = [
    "none",
    "all",
    "some",
    "ptpv1-l4-event",
    "ptpv1-l4-sync",
    "ptpv1-l4-delay-req",
    "ptpv2-l4-event",
    "ptpv2-l4-sync",
    "ptpv2-l4-delay-req",
    "ptpv2-l2-event",
    "ptpv2-l2-sync",
    "ptpv2-l2-delay-req",
    "ptpv2-event",
    "ptpv2-sync",
    "ptpv2-delay-req",
    "ntp-all",
];
/// `enum hwtstamp_tx_types`, by ethtool names.
const TX_TYPES: [&str; 4] = ["off", "on", "onestep-sync", "onestep-p2p"];

pub(crate) const FILTER_NONE: u32 = 0;

/// Timestamping settings of a device (`struct hwtstamp_config`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StampConfig {
    /// Number of `enum hwtstamp_tx_types`.
    pub tx_type: u32,
    /// Number of `enum hwtstamp_rx_filters`.
    pub rx_filter: u32,
    /// `HWTSTAMP_FLAG_*`.
    pub flags: u32,
}

impl StampConfig {
    /// The receive filter, by its ethtool name.
    pub fn rx_word(&self) -> String {
        word(&RX_FILTERS, self.rx_filter)
    }

    /// The transmit type, by its ethtool name.
    pub fn tx_word(&self) -> String {
        word(&TX_TYPES, self.tx_type)
    }

    /// True if received frames are timestamped, all or some.
    pub fn is_receive_on(&self) -> bool {
        self.rx_filter != FILTER_NONE
    }
}

pub(crate) fn word(table: &[&str], number: u32) -> String {
    table.get(number as usize).map_or_else(|| format!("number {number}"), |word| (*word).to_owned())
}
