//! The kernel's page on pktgen with `mac80211_hwsim`, word for word: an access point, a station, ten thousand
//! frames. In place of `modprobe pktgen` stands `wirerate exec`; beside it runs the kernel's own.

use super::{Case, Finding, Machine};
use crate::guest::{Background, load, sh};
use anyhow::{Context, Result, ensure};

pub(super) const CASES: &[Case] = &[Case {
    name: "wireless",
    what: "the page of the kernel's documentation: 10,000 frames through mac80211 from wlan1 to wlan0",
    modules: &["mac80211_hwsim", "pktgen", "ccm", "ctr", "cmac", "gcm"],
    devices: &[],
    machine: Machine::Common,
    run: wireless,
}];

const FRAMES: u64 = 10_000;

/// The commands of the page, with the address of the access point as it advises.
const COMMANDS: &str = r#"
cd /proc/net/pktgen
echo "rem_device_all" > kpktgend_0
echo "add_device wlan1" > kpktgend_0
echo "count 10000" > wlan1
echo "pkt_size 600" > wlan1
echo "dst 192.168.1.1" > wlan1
echo "dst_mac $AP" > wlan1
echo "start" > pgctrl
cat wlan1
echo "rem_device_all" > kpktgend_0
"#;

/// An access point without a key.
const OPEN: &str = "interface=wlan0\nssid=wirerate\nchannel=1\nhw_mode=g\n";

fn wireless(finding: &mut Finding) -> Result<()> {
    load("mac80211_hwsim", "radios=2")?;
    std::fs::write("/tmp/hostapd.conf", OPEN)?;
    let _hostapd = Background::start("exec hostapd /tmp/hostapd.conf >/tmp/hostapd.log 2>&1")?;
    sh("ip link set wlan1 up
        for i in $(seq 100); do ip link show wlan0 | grep -q 'state UP' && break; sleep 0.1; done")?;
    sh("iw dev wlan1 connect wirerate
        for i in $(seq 100); do iw dev wlan1 link | grep -q '^Connected' && break; sleep 0.1; done
        iw dev wlan1 link | grep '^Connected'")
    .with_context(|| std::fs::read_to_string("/tmp/hostapd.log").unwrap_or_default())?;
    let access_point = sh("cat /sys/class/net/wlan0/address")?;
    let script = format!("AP={}; export AP\n{COMMANDS}", access_point.trim());
    std::fs::write("/tmp/page", &script)?;
    let ours = run("wirerate exec -- sh -e /tmp/page")?;
    finding.note("wirerate", format!("{} kpps", ours.pps / 1000));
    load("pktgen", "")?;
    let theirs = run("sh -e /tmp/page")?;
    finding.note("pktgen", format!("{} kpps", theirs.pps / 1000));
    finding.note("ratio", format!("{:.2}", ours.pps as f64 / theirs.pps as f64));
    ensure!(
        form(&ours.text) == form(&theirs.text),
        "the read-outs differ in form\nwirerate:\n{}\npktgen:\n{}",
        ours.text,
        theirs.text
    );
    sh("rmmod pktgen 2>/dev/null || true")?;
    Ok(())
}

struct Run {
    text: String,
    pps: u64,
}

/// Runs the page; everything it sends must be received.
fn run(command: &str) -> Result<Run> {
    let before = received()?;
    let text = sh(command)?;
    let arrived = received()? - before;
    ensure!(arrived >= FRAMES, "{arrived} of {FRAMES} frames arrived with {command:?}:\n{text}");
    ensure!(text.contains("Result: OK: "), "{text}");
    let pps = text.split_whitespace().find_map(|word| word.strip_suffix("pps")?.parse().ok());
    Ok(Run { pps: pps.with_context(|| text.clone())?, text })
}

fn received() -> Result<u64> {
    let text = sh("cat /sys/class/net/wlan0/statistics/rx_packets")?;
    text.trim().parse().with_context(|| text.clone())
}

/// A read-out without its numbers, and without the flag SHARED, which pktgen shows since Linux 6.7.
fn form(text: &str) -> String {
    let mut out = String::new();
    for char in text.replace("SHARED  ", "").chars() {
        match char.is_ascii_digit() {
            true if out.ends_with('#') => {}
            true => out.push('#'),
            false => out.push(char),
        }
    }
    out
}
