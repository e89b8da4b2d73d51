//! A server of TCP on a device, for tests of what lies between it and a client.

use crate::EngineError;
use crate::device::OutputDevice;
use bpf::xdp::{XdpLink, XdpMode, XdpModeChoice};
use bpf::{AcceptCounts, AcceptParams, AcceptProgram};
use host::{Netns, Stack};
use std::net::IpAddr;

/// A server.
#[derive(Clone, Debug)]
pub struct AcceptRequest {
    /// The namespace of the device.
    pub netns: Netns,
    /// The device.
    pub ifname: String,
    /// MAC address of the device.
    pub own_mac: [u8; 6],
    /// VLAN ID of all frames; 0 for no tag.
    pub vlan: u16,
    /// The first address.
    pub address: IpAddr,
    /// Number of addresses.
    pub address_count: u32,
    /// True if the host does not have the addresses.
    pub answers_neighbours: bool,
    /// The first port.
    pub port: u16,
    /// Number of ports.
    pub port_count: u32,
    /// Bytes of a segment at most.
    pub segment_max: u16,
    /// The response; empty for none.
    pub response: Vec<u8>,
    /// True if the response ends the connection.
    pub closes: bool,
    /// Attach modes that may be used.
    pub xdp: XdpModeChoice,
}

/// A server that answers until it is dropped.
#[derive(Debug)]
pub struct Accepting {
    link: XdpLink,
    program: AcceptProgram,
    trouble: Option<EngineError>,
}

impl Accepting {
    /// Loads and attaches the program.
    ///
    /// # Errors
    /// When the device is down or has another XDP program, or the kernel rejects the program.
    pub fn start(request: &AcceptRequest) -> Result<Self, EngineError> {
        request.netns.run(|| attach(request))?
    }

    /// How the program is attached.
    pub fn mode(&self) -> XdpMode {
        self.link.mode()
    }

    /// Why the native mode failed, if it was tried.
    pub fn native_refusal(&self) -> Option<String> {
        self.link.native_refusal().map(ToString::to_string)
    }

    /// Why answers are not sent yet: a veth refuses frames while its peer has neither an XDP
    /// program nor GRO. `wirerate connect` at the peer attaches a program.
    pub fn trouble(&self) -> Option<&EngineError> {
        self.trouble.as_ref()
    }

    /// False once the device is gone.
    pub fn is_attached(&self) -> bool {
        self.link.is_attached()
    }

    /// The counters so far.
    pub fn counts(&self) -> AcceptCounts {
        self.program.counts()
    }
}

fn attach(request: &AcceptRequest) -> Result<Accepting, EngineError> {
    let device = OutputDevice::new(Stack::here()?, &request.ifname)?;
    for trouble in [device.layer_trouble(), device.trouble(false)?] {
        trouble.map_or(Ok(()), Err)?;
    }
    let by_redirect = device.is_kind("veth")?;
    let params = AcceptParams {
        ifindex: device.ifindex(),
        by_redirect,
        vlan: request.vlan,
        own_mac: request.own_mac,
        address: request.address,
        address_count: request.address_count,
        answers_neighbours: request.answers_neighbours,
        port: request.port,
        port_count: request.port_count,
        segment_max: request.segment_max,
        response: request.response.clone(),
        closes: request.closes,
        key: crate::connecting::boot_key(),
    };
    let program = AcceptProgram::load(&params)?;
    let link = program.attach(device.ifindex(), &device.name(), request.xdp)?;
    Ok(Accepting { link, program, trouble: device.xdp_trouble()? })
}
