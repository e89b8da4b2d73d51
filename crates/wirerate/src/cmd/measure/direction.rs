//! A direction that is measured.

use host::DevicePlace;

/// From one device to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MeasuredPath {
    pub(super) from: DevicePlace,
    pub(super) to: DevicePlace,
    /// From --rx to --tx: addresses and ports are exchanged.
    pub(super) is_back: bool,
}
