//! The kernel's page on pktgen with `mac80211_hwsim`: an access point, a station, ten thousand
//! frames. The kernel's pktgen and `wirerate exec` run the same commands.

use super::{Case, CaseReport, MachineType};
use crate::guest::{Background, load, sh, try_sh, unload};
use anyhow::{Context, Result, ensure};
use pcapng::{Block, Reader};
use serde_json::Value;
use std::fs::File;
use std::io::BufReader;

pub(super) const CASES: &[Case] = &[
    Case {
        name: "wireless",
        what: "the page of the kernel's documentation: 10,000 frames through mac80211 from wlan1 to wlan0; kpps and ratio are \
               the medians of five turns",
        modules: MODULES,
        devices: "",
        machine: MachineType::Common,
        run: open,
    },
    Case {
        name: "wireless_capture",
        what: "`wirerate send wlan1`, captured on wlan0 and, with its radiotap header, on hwsim0; without an access point \
               nothing is sent, in words",
        modules: MODULES,
        devices: "",
        machine: MachineType::Common,
        run: capture,
    },
    Case {
        name: "wireless_wpa2",
        what: "the same page with WPA2, the station in a namespace of its own",
        modules: MODULES,
        devices: "",
        machine: MachineType::Common,
        run: wpa2,
    },
];

pub(super) const MODULES: &[&str] = &["mac80211_hwsim", "pktgen", "ccm", "ctr", "cmac", "gcm"];
/// Of WPA2. The kernel would ask for them by the names of the algorithms, which are unknown here.
const CIPHERS: &[&str] = &["ccm", "ctr", "cmac", "gcm"];
const FRAMES: u64 = 10_000;
/// Frames of a capture: each is a frame of management time on an emulated air as well.
const CAPTURED: u64 = 2_000;
/// Turns of each, one after the other.
const TURNS: usize = 5;
/// Radiotap, as the link types of pcap have it.
const RADIOTAP: u16 = 127;

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

/// Said of a page that was not read to its end, if the module has no device.
const GONE: &str = "the device is gone";

/// What access points have in common.
const ACCESS_POINT: &str = "interface=wlan0\nssid=wirerate\nchannel=1\nhw_mode=g\n";
const WPA2: &str = "wpa=2\nwpa_key_mgmt=WPA-PSK\nrsn_pairwise=CCMP\nwpa_passphrase=wireratewirerate\n";
const STATION: &str =
    "network={\n ssid=\"wirerate\"\n psk=\"wireratewirerate\"\n key_mgmt=WPA-PSK\n proto=RSN\n}\n";

/// Two radios; `wlan0` is an access point, and `wlan1` its station or about to be. Gone when
/// dropped.
pub(super) struct Air {
    access_point: String,
    /// In front of what the station does.
    at_station: &'static str,
    hostapd: Option<Background>,
    supplicant: Option<Background>,
}

impl Air {
    pub(super) fn new(more: &str, at_station: &'static str) -> Result<Self> {
        unload("mac80211_hwsim")?;
        CIPHERS.iter().try_for_each(|cipher| load(cipher, ""))?;
        load("mac80211_hwsim", "radios=2")?;
        std::fs::write("/tmp/hostapd.conf", format!("{ACCESS_POINT}{more}"))?;
        let hostapd = Background::start("exec hostapd /tmp/hostapd.conf >/tmp/hostapd.log 2>&1")?;
        sh("for i in $(seq 300); do ip link show wlan0 | grep -q 'state UP' && break; sleep 0.1; done")?;
        let access_point = sh("cat /sys/class/net/wlan0/address")?.trim().to_owned();
        Ok(Self { access_point, at_station, hostapd: Some(hostapd), supplicant: None })
    }

    /// The address of `wlan0`.
    pub(super) fn access_point(&self) -> &str {
        &self.access_point
    }

    pub(super) fn connect(&self) -> Result<()> {
        sh("ip link set wlan1 up; iw dev wlan1 connect wirerate")?;
        self.wait()
    }

    /// Until the access point lets frames of the station through.
    fn wait(&self) -> Result<()> {
        let script = "for i in $(seq 300); do iw dev wlan0 station dump | grep -q 'authorized:.*yes' && exit 0; sleep 0.1; done; exit 1";
        sh(script).with_context(|| std::fs::read_to_string("/tmp/hostapd.log").unwrap_or_default())?;
        Ok(())
    }

    /// The script of the page.
    fn page(&self) -> Result<()> {
        let script = format!("AP={}; export AP\n{COMMANDS}", self.access_point);
        std::fs::write("/tmp/page", script).context("cannot write the page")
    }

    /// The page by wirerate and by the module in turns; the read-outs must have the same form.
    fn race(&self, turns: usize, finding: &mut CaseReport) -> Result<()> {
        self.page()?;
        let mut pps: [Vec<f64>; 2] = Default::default();
        for _ in 0..turns {
            let ours = run(&format!("{} wirerate exec -- sh -e /tmp/page", self.at_station))?;
            let theirs = self.module()?;
            ensure!(
                form(&ours.text) == form(&theirs.text),
                "the read-outs differ in form\nwirerate:\n{}\npktgen:\n{}",
                ours.text,
                theirs.text
            );
            pps[0].push(ours.pps as f64);
            pps[1].push(theirs.pps as f64);
        }
        let mut ratios: Vec<f64> = pps[0].iter().zip(&pps[1]).map(|(ours, theirs)| ours / theirs).collect();
        let [ours, theirs] = pps.each_mut().map(|pps| median(pps));
        let ratio = median(&mut ratios);
        finding.note("wirerate", format!("{:.0} kpps", ours / 1000.0));
        finding.note("pktgen", format!("{:.0} kpps", theirs / 1000.0));
        let (least, most) = (ratios[0], ratios[ratios.len() - 1]);
        finding.note("ratio", format!("{ratio:.2} ({least:.2} to {most:.2})"));
        Ok(())
    }

    /// A turn of the module. Its threads check for commands ten times per second. On a busy host
    /// `rem_device_all`, which waits 125 ms for that, may run after the line that adds the device.
    /// Then the page ends without a device, and is read again.
    fn module(&self) -> Result<PageRun> {
        let command = format!(
            "{} sh -c 'sh -e /tmp/page || {{ [ -e /proc/net/pktgen/wlan1 ] || echo {GONE}; exit 1; }}'",
            self.at_station
        );
        let turn = || {
            load("pktgen", "")?;
            let turn = run(&command);
            unload("pktgen")?;
            turn
        };
        let is_gone = |error: &anyhow::Error| format!("{error:#}").lines().any(|line| line == GONE);
        turn().or_else(|error| if is_gone(&error) { turn() } else { Err(error) })
    }
}

impl Drop for Air {
    fn drop(&mut self) {
        // What remains is in the way of the next case, which says so.
        (self.hostapd, self.supplicant) = (None, None);
        // The radio of a namespace that goes comes back later, perhaps while the module is about to
        // go.
        let _ = sh("ip netns exec sta sh -c 'for phy in $(ls /sys/class/ieee80211); do iw phy $phy set netns 1; done'
                    ip netns del sta");
        let _ = unload("mac80211_hwsim");
    }
}

/// Sorts them.
fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn open(finding: &mut CaseReport) -> Result<()> {
    let air = Air::new("", "")?;
    air.connect()?;
    air.race(TURNS, finding)
}

fn wpa2(finding: &mut CaseReport) -> Result<()> {
    let mut air = Air::new(WPA2, "ip netns exec sta")?;
    std::fs::write("/tmp/station.conf", STATION)?;
    // A radio moves to the namespace of a process.
    sh("ip netns add sta
        ip netns exec sta sleep 1000 & pid=$!
        for i in $(seq 100); do [ \"$(readlink /proc/$pid/ns/net)\" != \"$(readlink /proc/self/ns/net)\" ] && break; sleep 0.05; done
        iw phy $(cat /sys/class/net/wlan1/phy80211/name) set netns $pid
        kill $pid
        ip -n sta link set lo up")?;
    air.supplicant = Some(Background::start(
        "exec ip netns exec sta wpa_supplicant -D nl80211 -i wlan1 -c /tmp/station.conf >/tmp/station.log 2>&1",
    )?);
    air.wait().with_context(|| std::fs::read_to_string("/tmp/station.log").unwrap_or_default())?;
    air.race(1, finding)
}

fn capture(finding: &mut CaseReport) -> Result<()> {
    let air = Air::new("", "")?;
    sh("ip link set wlan1 up; ip link set hwsim0 up")?;
    let send = format!("wirerate send wlan1 --dst 192.168.1.1 --dst-mac {} --size 600", air.access_point);
    let refused = try_sh(&format!("{send} --count 5"))?;
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    ensure!(!refused.status.success() && said.contains("associated"), "not associated: {said}");
    air.connect()?;
    // The skb engine's frames carry the kernel's mark for what was redirected, which hwsim hands on
    // with them, and XDP before the stack leaves such frames alone.
    let ways = [("wlan0", 1, "--engine af_packet"), ("wlan0", 1, ""), ("hwsim0", RADIOTAP, "")];
    for (device, link_type, engine) in ways {
        let source = if device == "wlan0" && engine.is_empty() { "--source tpacket" } else { "" };
        let report = captured(&format!("{device} {source}"), &format!("{send} {engine}"))?;
        ensure!(report["written"].as_u64() >= Some(CAPTURED), "{report}");
        let (types, sizes) = read("/tmp/air.pcapng")?;
        ensure!(types.iter().all(|found| *found == link_type), "{device}: link types {types:?}");
        // The monitor sees what is said on the air beside them: beacons, acknowledgements.
        let ours = sizes.iter().filter(|size| **size >= 600).count() as u64;
        let least = if link_type == RADIOTAP { CAPTURED / 3 } else { CAPTURED * 9 / 10 };
        ensure!(ours >= least, "{device}: {ours} of {} frames are ours", sizes.len());
        let source = report["source"].as_str().unwrap_or("?").split([',', ';']).next().unwrap_or("?");
        finding.note(&format!("{device} by {source}"), format!("link type {link_type}"));
    }
    Ok(())
}

/// Captures while `send` sends; the report.
fn captured(device: &str, send: &str) -> Result<Value> {
    let text = sh(&format!(
        "wirerate capture {device} --count {CAPTURED} --duration 20s -w /tmp/air.pcapng --json >/tmp/report 2>/tmp/said &
         pid=$!
         for i in $(seq 300); do grep -q capturing /tmp/said && break; sleep 0.1; done
         kill -0 $pid || {{ cat /tmp/said; exit 1; }}
         {send} --pps 5000 --count {} >/dev/null || [ $? = 1 ] # the rate may be missed
         wait $pid; cat /tmp/report",
        CAPTURED * 2
    ))?;
    serde_json::from_str(text.lines().last().unwrap_or_default()).with_context(|| text.clone())
}

/// The link types of a file, and the lengths of its frames.
fn read(path: &str) -> Result<(Vec<u16>, Vec<u32>)> {
    let mut reader = Reader::new(BufReader::new(File::open(path)?));
    let (mut types, mut sizes) = (Vec::new(), Vec::new());
    while let Some(block) = reader.next_block()? {
        match block {
            Block::Interface(interface) => types.push(interface.link_type),
            Block::Packet(packet) => sizes.push(packet.to_buf().frame_len),
            _ => {}
        }
    }
    ensure!(!types.is_empty(), "{path} has no interface");
    Ok((types, sizes))
}

struct PageRun {
    text: String,
    pps: u64,
}

/// Runs the page; everything it sends must be received.
fn run(command: &str) -> Result<PageRun> {
    let before = received()?;
    let text = sh(command)?;
    let arrived = received()? - before;
    ensure!(arrived >= FRAMES, "{arrived} of {FRAMES} frames arrived with {command:?}:\n{text}");
    ensure!(text.contains("Result: OK: "), "{text}");
    let pps = text.split_whitespace().find_map(|word| word.strip_suffix("pps")?.parse().ok());
    Ok(PageRun { pps: pps.with_context(|| text.clone())?, text })
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
