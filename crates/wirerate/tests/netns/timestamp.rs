//! `wirerate timestamp` on a veth, which has software stamps and no clock: what it can do is told,
//! the rest refused.

use crate::lab::{Lab, Peer, RX_DEV};
use crate::program::wirerate_run;
use crate::{Case, TestResult, case};

/// Tests of the time stamp command.
pub(crate) const CASES: &[Case] = &[
    case("timestamp::shows_what_the_device_can_do", &[], shows_what_the_device_can_do),
    case("timestamp::refuses_what_the_device_cannot_do", &[], refuses_what_the_device_cannot_do),
];

fn shows_what_the_device_can_do() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let shown =
        wirerate_run(&format!("timestamp {RX_DEV} show --netns {} --json", lab.rx_netns)).expect_code(0);
    let report: serde_json::Value = serde_json::from_str(&shown.stdout).expect("one line of JSON");
    assert_eq!(report["schema"], "wirerate.timestamp/1");
    assert_eq!((&report["driver"], &report["netns"]), (&"veth".into(), &lab.rx_netns.as_str().into()));
    assert_eq!((&report["hardware_receive"], &report["xdp_rx_timestamp"]), (&false.into(), &true.into()));
    let abilities = report["abilities"].as_array().expect("a list");
    assert!(abilities.contains(&"software-receive".into()), "{report}");
    let shown = wirerate_run(&format!("timestamp {RX_DEV} --netns {}", lab.rx_netns)).expect_code(0);
    let first = format!("rx0 in {}: received frames cannot be stamped by the device\n", lab.rx_netns);
    assert!(shown.stdout.starts_with(&first), "{}", shown.stdout);
    assert!(shown.stdout.contains("in XDP     time stamps, VLAN tags\n"), "{}", shown.stdout);
    Ok(())
}

fn refuses_what_the_device_cannot_do() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    for filter in ["", "--filter all", "--filter ptp"] {
        let command = format!("timestamp {RX_DEV} on {filter} --netns {}", lab.rx_netns);
        wirerate_run(&command).expect_code(3).says(&[
            "cannot switch on the time stamps of rx0 in ",
            "rx0 in namespace ",
            "has no clock of its own that stamps received frames",
        ]);
    }
    wirerate_run(&format!("timestamp {RX_DEV} off --netns {}", lab.rx_netns)).expect_code(0);
    wirerate_run("timestamp no-such-dev").expect_code(3).says(&["there is no device no-such-dev"]);
    wirerate_run("timestamp lo off --filter ptp").expect_code(2).says(&["cannot use --filter with off"]);
    Ok(())
}
