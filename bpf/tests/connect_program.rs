//! `connect.bpf.c`, run by `BPF_PROG_RUN` on made-up frames, against the rules of the crate
//! `connect`. Needs CAP_BPF.

mod common;

use bpf::{ConnectKind, ConnectParams, ConnectProgram};
use common::may_load;
use connect::{Addresses, Close, ResponseEnd, Settings};

const OWN_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const SERVER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];

fn params(is_v6: bool, vlan: u16, settings: Settings, request: &[u8]) -> ConnectParams {
    let [client, server] = match is_v6 {
        true => ["fd00:18::1000", "fd00:18::2"],
        false => ["198.18.64.1", "198.18.0.2"],
    };
    ConnectParams {
        ifindex: 1,
        by_redirect: false,
        vlan,
        own_mac: OWN_MAC,
        next_hop_mac: SERVER_MAC,
        addresses: Addresses {
            client: client.parse().unwrap(),
            client_count: 2,
            client_port: 1024,
            client_port_count: 2,
            server: server.parse().unwrap(),
            server_count: 1,
            server_port: 80,
            server_port_count: 1,
        },
        settings,
        kind: ConnectKind::Tcp,
        request: request.to_vec(),
        key: 0x1234_5678_9abc_def0,
        has_test_clock: true,
    }
}

#[test]
fn all_settings_load() {
    if !may_load() {
        return;
    }
    let plain = Settings {
        request_len: 100,
        requests: 1,
        response_end: ResponseEnd::Push,
        close: Close::Server,
        holds: false,
        segment_max: 1460,
    };
    for is_v6 in [false, true] {
        for vlan in [0, 7] {
            for kind in [ConnectKind::Tcp, ConnectKind::Udp, ConnectKind::Dns] {
                for response_end in [ResponseEnd::Push, ResponseEnd::Http, ResponseEnd::Bytes(0)] {
                    for close in [Close::Server, Close::Client, Close::Reset] {
                        let settings = Settings { response_end, close, ..plain };
                        let params = ConnectParams { kind, ..params(is_v6, vlan, settings, &[0; 100]) };
                        if let Err(why) = ConnectProgram::load(&params) {
                            panic!("{params:?}: {why}");
                        }
                    }
                }
            }
        }
    }
}
