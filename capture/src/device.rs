//! What a capture file says about the device and the machine.

use crate::CaptureError;
use host::{Link, LinkLayer};
use nix::sys::utsname::uname;
use pcapng::{Interface, LINK_TYPE_ETHERNET, Section};

/// Link type of frames that begin with an IP header (LINKTYPE_RAW).
const LINK_TYPE_RAW: u16 = 101;

/// The section of a file that `application` writes on this machine.
pub(crate) fn section(application: &str, cpus: u32) -> Section {
    let machine = uname().map(|uts| uts.machine().to_string_lossy().into_owned());
    let plural = if cpus == 1 { "" } else { "s" };
    Section {
        hardware: machine.ok().map(|machine| format!("{machine}, {cpus} CPU{plural}")),
        os: os(),
        application: Some(application.to_owned()),
        ..Section::default()
    }
}

/// The interface of a capture on `link`.
pub(crate) fn interface(link: &Link, netns: Option<&str>, snaplen: u32) -> Result<Interface, CaptureError> {
    Ok(Interface {
        link_type: link_type(link)?,
        snaplen,
        name: Some(link.name.clone()),
        description: Some(description(link, netns)),
        mac: link.mac.map(|mac| mac.0),
        os: os(),
        hardware: Some(hardware(link)),
        ..Interface::default()
    })
}

fn os() -> Option<String> {
    let uts = uname().ok()?;
    Some(format!("{} {}", uts.sysname().to_string_lossy(), uts.release().to_string_lossy()))
}

fn link_type(link: &Link) -> Result<u16, CaptureError> {
    match link.layer {
        LinkLayer::Ethernet | LinkLayer::Loopback => Ok(LINK_TYPE_ETHERNET),
        LinkLayer::None => Ok(LINK_TYPE_RAW),
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

fn hardware(link: &Link) -> String {
    match &link.parent {
        Some(parent) => format!("{} {}", parent.bus, parent.name),
        None => "virtual".to_owned(),
    }
}
