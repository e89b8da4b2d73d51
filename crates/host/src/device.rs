//! Facts about a device that matter for packet rates: a read-only snapshot.

use crate::ethtool::{Driver, Features, QueueUse, Timestamping};
use crate::hwtstamp::StampDriver;
use crate::irq::{Interrupt, Steering};
use crate::link::Link;
use crate::ring_params::{FlowControl, Rings};
use crate::stack::Stack;
use crate::stamp_config::StampConfig;
use crate::xdp::XdpFeatures;
use crate::{HostError, KernelError};

/// A snapshot of a device. `None` where its driver or the kernel does not provide the fact.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceState {
    /// The device.
    pub link: Link,
    /// The peer of a veth.
    pub peer: Option<Link>,
    /// The driver.
    pub driver: Option<Driver>,
    /// XDP features of the driver.
    pub xdp: Option<XdpFeatures>,
    /// Offloads.
    pub features: Option<Features>,
    /// Line rate in bits per second.
    pub speed_bps: Option<u64>,
    /// Ring sizes.
    pub rings: Option<Rings>,
    /// Queues in use.
    pub queues: Option<QueueUse>,
    /// Maximum queue counts.
    pub queues_max: Option<QueueUse>,
    /// Flow control.
    pub pause: Option<FlowControl>,
    /// Timestamping capabilities.
    pub timestamping: Option<Timestamping>,
    /// Current timestamping settings.
    pub stamps: Option<StampConfig>,
    /// Its NUMA node.
    pub node: Option<u32>,
    /// Interrupts of its hardware.
    pub interrupts: Vec<Interrupt>,
    /// RPS and XPS.
    pub steering: Option<Steering>,
    /// Its IOMMU domain.
    pub iommu_domain: Option<String>,
    /// It carries a default route of the host.
    pub is_default_route: Option<bool>,
    /// What could not be determined, and why, one line each.
    pub unknown: Vec<String>,
}

impl Stack {
    /// Reads all facts.
    ///
    /// # Errors
    /// When there is no such device. Other failures are listed in `unknown`.
    pub fn device_state(&self, name: &str) -> Result<DeviceState, HostError> {
        let link = self.link(name)?;
        let mut unknown = Vec::new();
        Ok(DeviceState {
            peer: known(&mut unknown, self.peer(&link)).flatten(),
            driver: known(&mut unknown, self.driver(&link)).flatten(),
            xdp: known(&mut unknown, self.xdp_features(&link)).flatten(),
            features: known(&mut unknown, self.features(&link)),
            speed_bps: known(&mut unknown, self.speed_bps(&link)).flatten(),
            rings: known(&mut unknown, self.rings(&link)).flatten(),
            queues: known(&mut unknown, self.queues(&link)),
            queues_max: known(&mut unknown, self.queues_max(&link)).flatten(),
            pause: known(&mut unknown, self.pause(&link)).flatten(),
            timestamping: known(&mut unknown, self.timestamping(&link)),
            stamps: known(&mut unknown, self.stamps(&link).and_then(|stamps| stamps.config())).flatten(),
            node: known(&mut unknown, self.numa_node(&link)).flatten(),
            interrupts: self.interrupts(&link),
            steering: known(&mut unknown, self.steering(&link)),
            iommu_domain: self.iommu_domain(&link),
            is_default_route: known(&mut unknown, self.carries_default_route_of_host(&link)),
            unknown,
            link,
        })
    }
}

/// The value; failures other than "not supported" are listed.
fn known<T>(unknown: &mut Vec<String>, answer: Result<T, HostError>) -> Option<T> {
    match answer {
        Ok(value) => Some(value),
        Err(HostError::Refused { source: KernelError { errno: libc::EOPNOTSUPP, .. }, .. }) => None,
        Err(error) => {
            let why = std::error::Error::source(&error).map(|source| format!(": {source}"));
            unknown.push(format!("{error}{}", why.unwrap_or_default()));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_looked_at_without_a_right() {
        let state = Stack::here().unwrap().device_state("lo").unwrap();
        assert!(state.link.is_loopback() && state.features.is_some());
        assert_eq!((state.driver, state.rings, state.peer), (None, None, None));
        assert_eq!(state.unknown, Vec::<String>::new());
        let missing = Stack::here().unwrap().device_state("wrh-none");
        assert!(matches!(missing, Err(HostError::NoLink { .. })));
    }

    #[test]
    fn a_refusal_is_told_and_a_thing_that_is_not_there_is_not() {
        let refused = |errno| HostError::Refused {
            act: "read",
            object: "x".to_owned(),
            source: KernelError { errno, detail: None },
        };
        let mut unknown = Vec::new();
        assert_eq!(known::<u32>(&mut unknown, Err(refused(libc::EOPNOTSUPP))), None);
        assert_eq!(known(&mut unknown, Ok(7)), Some(7));
        assert_eq!(known::<u32>(&mut unknown, Err(refused(libc::EPERM))), None);
        assert_eq!(unknown, ["cannot read x: Operation not permitted (os error 1)"]);
    }
}
