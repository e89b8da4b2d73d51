//! The facts of a dry run: those of the device if it exists, else invented ones.

use super::device::TxDevice;
use super::next_hop;
use host::HostError;
use packet::ipsec::Associations;
use packet::{Config, DeviceFacts, MacAddr};
use program::outcome::Failure;
use std::sync::Arc;
use units::Addresses;

/// Source of the frames of a dry run when there is no such device.
const MAC_MADE_UP: MacAddr = MacAddr([0x02, 0, 0, 0, 0, 0x01]);

/// The facts of a dry run, and where they differ from a real run.
#[derive(Debug)]
pub struct DryRunFacts {
    /// Facts of the device, or invented ones.
    pub facts: DeviceFacts,
    /// The security associations for IPsec.
    pub associations: Arc<Associations>,
    /// Differences from a real run.
    pub notes: Vec<String>,
}

/// Facts for frames that are only shown: those of the device if it exists, else invented ones with
/// a note. Sends no ARP request.
///
/// # Errors
/// Refused for a namespace that does not exist.
pub fn for_show(
    netns: Option<&str>,
    name: &str,
    config: &mut Config,
    to: &Addresses,
) -> Result<DryRunFacts, Failure> {
    let mut notes = Vec::new();
    let mut associations = Arc::default();
    let made_up = || DeviceFacts { mac: MAC_MADE_UP, tx_queues: 1, ..DeviceFacts::default() };
    let facts = match TxDevice::find(netns, name) {
        Ok(device) => {
            // An unknown address is not an error here: the note below reports it.
            let _ = next_hop::fill_in(&device, config, to, false);
            associations = device
                .associations(config)
                .map_err(|why| Failure::host("read security associations", why))?;
            device.facts
        }
        Err(HostError::NoLink { .. }) => {
            notes.push(format!("there is no device {name}: the frames are shown as from {MAC_MADE_UP}"));
            made_up()
        }
        Err(why) if netns.is_none() => {
            notes.push(format!("{why}: the frames are shown as from {MAC_MADE_UP}"));
            made_up()
        }
        Err(why) => return Err(Failure::host(format!("look at {name}"), why)),
    };
    if config.dst_mac.is_zero() {
        notes.push(
            "no destination MAC is known here: the frames are shown with zeros in its place".to_owned(),
        );
    }
    Ok(DryRunFacts { facts, associations, notes })
}
