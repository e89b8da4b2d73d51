//! The description of device and machine in a capture file.

use crate::{CaptureError, cpus};
use host::{Driver, Link, LinkLayer, Stack};
use nix::sys::utsname::uname;
use pcapng::{Interface, LINK_TYPE_ETHERNET, Section};

/// Link type of frames that begin with an IP header (LINKTYPE_RAW).
const LINK_TYPE_RAW: u16 = 101;
/// Link types of a wireless device in monitor mode: the header of IEEE 802.11, or radiotap in front
/// of it.
const LINK_TYPE_IEEE802_11: u16 = 105;
const LINK_TYPE_RADIOTAP: u16 = 127;

/// The section of a file that `application` writes on this machine.
pub(crate) fn section(application: &str) -> Section {
    let cpus = bpf::capture::possible_cpus().map_or(1, cpus::online_end);
    let machine = uname().map(|uts| uts.machine().to_string_lossy().into_owned());
    let plural = if cpus == 1 { "" } else { "s" };
    Section {
        hardware: machine.ok().map(|machine| format!("{machine}, {cpus} CPU{plural}")),
        os: os(),
        application: Some(application.to_owned()),
        ..Section::default()
    }
}

/// The interface of a capture on `link`, a device of `stack`.
pub(crate) fn interface(
    stack: &Stack,
    link: &Link,
    netns: Option<&str>,
    snaplen: u32,
) -> Result<Interface, CaptureError> {
    // What a driver does not tell is left out of the file; it is no reason not to capture.
    let driver = stack.driver(link).ok().flatten();
    Ok(Interface {
        link_type: link_type(link)?,
        snaplen,
        name: Some(link.name.clone()),
        description: Some(description(link, netns)),
        mac: link.mac.map(|mac| mac.0),
        speed_bps: stack.speed_bps(link).ok().flatten(),
        os: os(),
        hardware: driver.as_ref().map(hardware),
        ..Interface::default()
    })
}

fn os() -> Option<String> {
    let uts = uname().ok()?;
    Some(format!("{} {}", uts.sysname().to_string_lossy(), uts.release().to_string_lossy()))
}

/// What frames of a device begin with, as capture files number it.
///
/// # Errors
/// [`CaptureError::LinkLayer`] when files have no number for it.
pub(crate) fn link_type(link: &Link) -> Result<u16, CaptureError> {
    match link.layer {
        LinkLayer::Ethernet | LinkLayer::Loopback => Ok(LINK_TYPE_ETHERNET),
        LinkLayer::None => Ok(LINK_TYPE_RAW),
        LinkLayer::Wireless { radiotap: false } => Ok(LINK_TYPE_IEEE802_11),
        LinkLayer::Wireless { radiotap: true } => Ok(LINK_TYPE_RADIOTAP),
        layer => Err(CaptureError::LinkLayer { ifname: link.name.clone(), layer }),
    }
}

fn description(link: &Link, netns: Option<&str>) -> String {
    let kind = match &link.kind {
        Some(kind) => kind,
        None if link.is_loopback() => "loopback",
        None => "network device",
    };
    match netns {
        Some(netns) => format!("{kind} in {netns}"),
        None => kind.to_owned(),
    }
}

/// `igb at 0000:01:00.0, firmware 3.25`, or just `veth`.
fn hardware(driver: &Driver) -> String {
    let mut text = driver.name.clone();
    for (word, fact) in [(" at ", &driver.bus_info), (", firmware ", &driver.firmware)] {
        if !fact.is_empty() {
            text.push_str(word);
            text.push_str(fact);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardware_is_the_driver_and_what_it_knows() {
        let mut driver = Driver { name: "veth".to_owned(), ..Driver::default() };
        assert_eq!(hardware(&driver), "veth");
        driver.firmware = "3.25".to_owned();
        assert_eq!(hardware(&driver), "veth, firmware 3.25");
        driver.bus_info = "0000:01:00.0".to_owned();
        assert_eq!(hardware(&driver), "veth at 0000:01:00.0, firmware 3.25");
    }

    #[test]
    fn section_names_machine_system_and_program() {
        let section = section("wirerate 9");
        let hardware = section.hardware.unwrap();
        assert!(hardware.ends_with(" CPUs") || hardware.ends_with(", 1 CPU"), "{hardware}");
        assert!(section.os.unwrap().starts_with("Linux "));
        assert_eq!(section.application.as_deref(), Some("wirerate 9"));
    }
}
