//! The services of the Debian package, started by systemd under their sandboxes.

use super::engines::Pair;
use super::{Case, CaseReport, MachineType};
use crate::archive::Archive;
use crate::guest::{Background, sh, try_sh, unload};
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// The Debian package in the machine.
pub(crate) const PACKAGE: &str = "/root/wirerate.deb";
const UNITS: [&str; 3] = ["wirerate", "wirerate-otg", "wirerate-agent"];
/// The hub of a fleet, as `tools/install.sh` has built it.
const NATS_SERVER: &str = "/var/cache/wirerate/nats/nats-server";
const TIMEOUT: Duration = Duration::from_secs(120);

pub(super) const CASES: &[Case] = &[Case {
    name: "services",
    what: "systemd starts the three services of the Debian package under their sandboxes; they send, \
           answer, stop during a run, are upgraded and purged, and leave nothing",
    modules: &[],
    devices: "",
    machine: MachineType::Systemd,
    run: services,
}];

/// What these cases need beside the system.
pub(super) fn add_files(archive: &mut Archive) -> Result<()> {
    let server = Path::new(NATS_SERVER);
    ensure!(server.exists(), "no {NATS_SERVER}; try: tools/install.sh vm-systemd");
    archive.program("usr/bin/nats-server", server)
}

/// The line of a service by which systemd runs a case.
pub(crate) fn call(case: &str) -> String {
    format!("ExecStart=-/usr/bin/env WIRERATE_CASE={case} /init\n")
}

fn services(finding: &mut CaseReport) -> Result<()> {
    sh(&format!("dpkg --install {PACKAGE}"))?;
    for unit in UNITS {
        ensure!(is(unit, "is-enabled")? == "disabled", "{unit} is enabled by installing it");
        ensure!(is(unit, "is-active")? == "inactive", "{unit} was started by installing it");
    }
    control_files(finding)?;
    let _pair = Pair::new("on")?;
    open_traffic_generator(finding)?;
    agent(finding)?;
    purge()
}

/// What `systemctl` answers, whatever its exit code.
fn is(unit: &str, question: &str) -> Result<String> {
    let output = try_sh(&format!("systemctl {question} {unit}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Tries a script until it succeeds: what other processes do has no event here.
fn until(script: &str) -> Result<()> {
    let deadline = Instant::now() + TIMEOUT;
    while !try_sh(script)?.status.success() {
        if Instant::now() > deadline {
            sh(script).with_context(|| format!("still so after {TIMEOUT:?}"))?;
        }
        thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// Enables and starts a service; how long the start took.
fn start(unit: &str) -> Result<Duration> {
    sh(&format!("systemctl enable {unit}"))?;
    let started = Instant::now();
    sh(&format!("systemctl start {unit} || {{ journalctl --no-pager --unit {unit}; exit 1; }}"))?;
    Ok(started.elapsed())
}

/// Stops a service, which must end without an error, and for the first time: one that its sandbox
/// killed is started again. How long the stop took.
fn stop(unit: &str) -> Result<Duration> {
    let started = Instant::now();
    sh(&format!("systemctl stop {unit}"))?;
    let took = started.elapsed();
    sh(&format!("systemctl disable {unit}"))?;
    let ends = sh(&format!("systemctl show --property Result --property NRestarts {unit}"))?;
    let mut ends: Vec<&str> = ends.lines().collect();
    ends.sort_unstable();
    ensure!(ends == ["NRestarts=0", "Result=success"], "{unit}: {ends:?}\n{}", journal(unit)?);
    Ok(took)
}

/// The exposure of a service, as systemd rates it, is 4.5 at most.
fn is_confined(unit: &str) -> Result<()> {
    sh(&format!("systemd-analyze security --no-pager --threshold=45 {unit}")).map(drop)
}

fn journal(unit: &str) -> Result<String> {
    sh(&format!("journalctl --no-pager --unit {unit}"))
}

fn milliseconds(time: Duration) -> String {
    format!("{} ms", time.as_millis())
}

/// `wirerate serve`: processes outside of the service use the files that it mounts.
fn control_files(finding: &mut CaseReport) -> Result<()> {
    let unit = "wirerate";
    // The service loads the module that it needs.
    sh("umount /sys/fs/fuse/connections || true")?;
    unload("fuse")?;
    finding.note("serve starts in", milliseconds(start(unit)?));
    sh("ip link add c0 numtxqueues 2 type veth peer c1 numrxqueues 2
        ip link set c0 up; ip link set c1 up
        cd /run/wirerate/pktgen
        echo add_device c0 >kpktgend_0
        echo count 1000 >c0
        echo dst 198.18.0.2 >c0
        echo dst_mac $(cat /sys/class/net/c1/address) >c0
        echo start >pgctrl
        grep '^Result: OK' c0
        [ $(cat /sys/class/net/c1/statistics/rx_packets) -ge 1000 ]")
    .or_else(|why| Err(why.context(journal(unit)?)))?;
    // An upgrade restarts it.
    let process = || sh("systemctl show --property MainPID --value wirerate");
    let before = process()?;
    sh(&format!("dpkg --install {PACKAGE}"))?;
    until("systemctl is-active wirerate && [ -e /run/wirerate/pktgen/pgctrl ]")?;
    ensure!(process()? != before, "the upgrade left the old program running");
    // Stopping ends a run that has no end.
    sh("cd /run/wirerate/pktgen
        echo add_device c0 >kpktgend_0; echo count 0 >c0; echo dst 198.18.0.2 >c0
        echo dst_mac $(cat /sys/class/net/c1/address) >c0")?;
    let run = Background::start("echo start >/run/wirerate/pktgen/pgctrl")?;
    until("[ $(cat /sys/class/net/c1/statistics/rx_packets) -gt 20000 ]")?;
    finding.note("serve stops in", milliseconds(stop(unit)?));
    drop(run);
    let count = || sh("cat /sys/class/net/c1/statistics/rx_packets");
    let sent = count()?;
    thread::sleep(Duration::from_millis(300));
    ensure!(count()? == sent, "something still sends after the stop");
    sh("! grep wirerate /proc/mounts; ! ip -d link show | grep xdp; ip link del c0")?;
    Ok(())
}

/// `wirerate otg`, used by curl: 1,000 frames from one namespace to another.
fn open_traffic_generator(finding: &mut CaseReport) -> Result<()> {
    let unit = "wirerate-otg";
    is_confined(unit)?;
    start(unit)?;
    let configuration = serde_json::json!({
        "ports": [{"name": "tx", "location": "tx/tx0"}, {"name": "rx", "location": "rx/rx0"}],
        "flows": [{
            "name": "flow",
            "tx_rx": {"choice": "port", "port": {"tx_name": "tx", "rx_names": ["rx"]}},
            "packet": [
                {"choice": "ethernet", "ethernet": {"dst": {"choice": "value", "value": "02:00:00:00:00:02"}}},
                {"choice": "ipv4", "ipv4": {"dst": {"choice": "value", "value": "198.18.0.2"}}},
                {"choice": "udp", "udp": {}}
            ],
            "rate": {"choice": "pps", "pps": 1000},
            "duration": {"choice": "fixed_packets", "fixed_packets": {"packets": 1000}},
            "metrics": {"enable": true, "loss": true}
        }]
    });
    let state = serde_json::json!({"choice": "traffic", "traffic": {
        "choice": "flow_transmit", "flow_transmit": {"state": "start"}
    }});
    let call = |path: &str, body: &serde_json::Value| {
        format!("curl -sS --fail-with-body --data-binary '{body}' http://127.0.0.1:8443{path}")
    };
    until(&call("/config", &configuration)).or_else(|why| Err(why.context(journal(unit)?)))?;
    sh(&call("/control/state", &state))?;
    let metrics = call("/monitor/metrics", &serde_json::json!({"choice": "flow", "flow": {}}));
    until(&format!("{metrics} | grep '\"transmit\":\"stopped\"'"))?;
    let counts = sh(&metrics)?;
    ensure!(counts.contains(r#""frames_tx":1000,"frames_rx":1000,"#), "{counts}");
    finding.note("otg stops in", milliseconds(stop(unit)?));
    sh("! ip -n rx -d link show | grep xdp; ! ip -n tx -d link show | grep xdp")?;
    Ok(())
}

/// `wirerate agent`, with a hub: a run of 1,000 frames between its two ports.
fn agent(finding: &mut CaseReport) -> Result<()> {
    let unit = "wirerate-agent";
    is_confined(unit)?;
    sh(r#"mkdir -p /etc/wirerate /root/fleet; cd /root/fleet
          wirerate fleet init --hosts h1 --ports tx0,rx0
          cp agent-h1.toml /etc/wirerate/agent.toml; cp h1.nk hub-cert.pem /etc/wirerate
          sed -i 's/^device = "\(..\)0"/&\nnetns = "\1"/' /etc/wirerate/agent.toml
          cat >test.toml <<END
seconds = 60
arm = "120s"
[[flow]]
name = "one"
from = "h1/tx0"
to = "h1/rx0"
send = "--count 1000 --pps 1000 --dst 198.18.0.2 --dst-mac 02:00:00:00:00:02"
END"#)?;
    let hub = Background::start("cd /root/fleet; exec nats-server -c hub.conf >hub.log 2>&1")?;
    start(unit)?;
    until("cd /root/fleet; wirerate fleet hosts | grep h1")
        .or_else(|why| Err(why.context(journal(unit)?)))?;
    // On a loaded host the machine may stand still for longer than a fleet waits for a host. The
    // hub has all counts later.
    sh("cd /root/fleet; wirerate fleet run test.toml --json >account || [ $? = 1 ]")?;
    let report = r#"cd /root/fleet
        wirerate fleet report $(sed 's/.*"run":"\([^"]*\)".*/\1/' account) --json"#;
    until(&format!("{report} | grep '\"verdict\":\"whole\"'"))?;
    // A loaded machine may miss the rate, which is exit code 1.
    let account = sh(&format!("{report} || [ $? = 1 ]"))?;
    let account: serde_json::Value = serde_json::from_str(account.trim()).with_context(|| account.clone())?;
    ensure!(account["verdict"] == "whole" && account["flows"][0]["received"] == 1000, "{account}");
    finding.note("agent stops in", milliseconds(stop(unit)?));
    drop(hub);
    Ok(())
}

/// Purging stops the services and leaves nothing of the package.
fn purge() -> Result<()> {
    start("wirerate")?;
    start("wirerate-otg")?;
    sh("dpkg --purge wirerate")?;
    for unit in UNITS {
        let state = is(unit, "is-active")?;
        ensure!(state == "inactive", "{unit} is {state} after purging");
    }
    sh("! grep wirerate /proc/mounts
        [ ! -e /run/wirerate ]
        ! find /etc/systemd /lib/systemd /usr/bin /usr/share /var/lib -name '*wirerate*' ! -name 'wirerate-cases*' | grep .
        ! pgrep -x wirerate
        ! systemctl list-units --failed --plain --no-legend | grep wirerate")?;
    Ok(())
}
