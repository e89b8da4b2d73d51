//! Attach modes of XDP programs.

use std::fmt;

/// Attach mode of an XDP program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XdpMode {
    /// In the driver, before an skb is allocated.
    Native,
    /// In the stack, on an skb, for any driver.
    Generic,
    /// On the card.
    Offloaded,
}

impl XdpMode {
    pub(crate) fn flag(self) -> u32 {
        match self {
            Self::Native => libbpf_sys::XDP_FLAGS_DRV_MODE,
            Self::Generic => libbpf_sys::XDP_FLAGS_SKB_MODE,
            Self::Offloaded => libbpf_sys::XDP_FLAGS_HW_MODE,
        }
    }
}

impl fmt::Display for XdpMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Native => "native",
            Self::Generic => "generic",
            Self::Offloaded => "offloaded",
        })
    }
}
