//! Errors of engines and runs.

use super::bpf_error::for_bpf;
use super::host_error::for_host;
use engine::{BpfError, EngineError};
use host::CommandPlace;
use nix::libc;

/// What to try about an error of a device in the network namespace of the user's command.
pub fn for_engine_here(error: &EngineError) -> Option<String> {
    for_engine(error, &CommandPlace::default())
}

/// What to try about an error of an engine. Commands for the device run in `place`.
pub fn for_engine(error: &EngineError, place: &CommandPlace) -> Option<String> {
    match error {
        EngineError::Down { ifname } => Some(place.ip(&format!("link set {ifname} up"))),
        EngineError::NoCarrier { ifname } => Some(format!(
            "plug in the cable of {ifname}, or set its peer up; a wireless device may not be associated: `{}`",
            place.run(&format!("iw dev {ifname} link"))
        )),
        EngineError::NotIp { .. } => {
            Some("frames with an IP header, or a tap device instead of tun".to_owned())
        }
        EngineError::NoTunnelPeer { ifname, .. } => Some(format!(
            "only packets for the peers that `{}` shows",
            place.run(&format!("wg show {ifname}"))
        )),
        EngineError::PeerTakesNoXdp { peer, peer_place, .. } => Some(format!(
            "`{}`, or capture there: `{}`",
            peer_place.run(&format!("ethtool -K {peer} gro on")),
            peer_place.run(&format!("wirerate capture {peer}"))
        )),
        EngineError::PeerGroUnnoticed { peer, peer_place, .. } => {
            let gro = |state| peer_place.run(&format!("ethtool -K {peer} gro {state}"));
            Some(format!("`{}`, then `{}`", gro("off"), gro("on")))
        }
        EngineError::Stalled { ifname, .. } => Some(format!("check that the peer of {ifname} receives")),
        EngineError::LongerThanMtu { ifname, frame_len, .. } => {
            let mtu = frame_len.saturating_sub(14);
            Some(format!("`{}`, also at the peer", place.ip(&format!("link set {ifname} mtu {mtu}"))))
        }
        EngineError::NoXdpMemory { .. } => Some("wait a few seconds, or --engine af_packet".to_owned()),
        // Memory shared with the kernel counts as locked (limit 8 MiB by default).
        EngineError::Syscall { call, source, .. }
            if call.contains("AF_XDP") && source.raw_os_error() == Some(libc::ENOBUFS) =>
        {
            Some("`ulimit -l unlimited`, or CAP_IPC_LOCK".to_owned())
        }
        EngineError::Syscall { call, source, .. }
            if call.starts_with("socket(") && source.raw_os_error() == Some(libc::EPERM) =>
        {
            Some("run it as root, or with CAP_NET_RAW".to_owned())
        }
        EngineError::ThreadLost => Some("please report this bug, with the messages above".to_owned()),
        EngineError::Invalid { .. } => Some("another --engine; please report this bug".to_owned()),
        EngineError::NoAssociation { .. } => {
            Some(format!("--spi with one of `{}`, or an SA for each destination", place.ip("xfrm state")))
        }
        EngineError::NoEngine { is_denied: true, .. } => Some(
            "run it as root, or with CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON (CAP_SYS_ADMIN as well for the xdp \
             engine), or with CAP_NET_RAW for af_packet"
                .to_owned(),
        ),
        // No command that detaches it: it may be a firewall.
        EngineError::Bpf(BpfError::XdpBusy { id, .. }) => Some(format!(
            "--engine af_packet, which leaves the program where it is (`bpftool prog show id {id}` shows it; \
             if it is a firewall, the host is open without it)"
        )),
        EngineError::Bpf(error) => for_bpf(error).map(str::to_owned),
        EngineError::Host(error) => for_host(error),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advice(error: &EngineError, netns: Option<&str>) -> Option<String> {
        for_engine(error, &CommandPlace::of(netns))
    }

    #[test]
    fn a_device_that_is_down_is_set_up_where_it_is() {
        let error = EngineError::Down { ifname: "eth7".to_owned() };
        assert_eq!(for_engine_here(&error).as_deref(), Some("ip link set eth7 up"));
        assert_eq!(advice(&error, Some("lab")).as_deref(), Some("ip -n lab link set eth7 up"));
    }

    #[test]
    fn a_frame_beyond_the_mtu_has_the_command_for_the_mtu_it_needs() {
        let error = EngineError::LongerThanMtu { ifname: "tx0".to_owned(), frame_len: 1600, mtu: 1500 };
        assert_eq!(advice(&error, None).as_deref(), Some("`ip link set tx0 mtu 1586`, also at the peer"));
    }

    #[test]
    fn commands_for_a_peer_run_where_the_peer_is() {
        let (ifname, peer) = ("tx0".to_owned(), "rx0".to_owned());
        let peer_place = CommandPlace::of(Some("far"));
        let error = EngineError::PeerGroUnnoticed {
            ifname: ifname.clone(),
            peer: peer.clone(),
            peer_place: peer_place.clone(),
        };
        let gro = "ip netns exec far ethtool -K rx0 gro";
        assert_eq!(advice(&error, Some("near")), Some(format!("`{gro} off`, then `{gro} on`")));
        let error = EngineError::PeerTakesNoXdp { ifname, peer, peer_place };
        assert_eq!(
            advice(&error, Some("near")),
            Some(format!("`{gro} on`, or capture there: `ip netns exec far wirerate capture rx0`"))
        );
    }

    #[test]
    fn a_socket_that_is_refused_needs_a_right() {
        let refused = |call| EngineError::Syscall {
            call,
            ifname: "eth7".to_owned(),
            source: std::io::Error::from_raw_os_error(libc::EPERM),
        };
        assert!(for_engine_here(&refused("socket(AF_PACKET)")).unwrap().contains("CAP_NET_RAW"));
        assert_eq!(for_engine_here(&refused("sendto(AF_PACKET)")), None);
    }

    #[test]
    fn a_flow_without_association_is_told_where_they_are_listed() {
        let error = EngineError::NoAssociation { engine: "skb" };
        assert_eq!(
            advice(&error, None).as_deref(),
            Some("--spi with one of `ip xfrm state`, or an SA for each destination")
        );
    }
}
