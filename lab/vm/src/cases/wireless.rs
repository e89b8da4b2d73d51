//! The kernel's page on pktgen with `mac80211_hwsim`: an access point, a station, ten thousand
//! frames. The kernel's pktgen and `wirerate exec` run the same commands.

use super::{Case, CaseReport, MachineType};
use crate::guest::{Background, load, sh, try_sh, unload};
use anyhow::{Context, Result, ensure};
use pcapng::{Block, Reader, pcap};
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
        name: "wireless_replay",
        what: "`wirerate replay` of beacons and data frames, with and without radiotap, by one monitor device; tcpdump at the \
               other reads them",
        modules: MODULES,
        devices: "",
        machine: MachineType::Common,
        run: replay,
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

/// Frames of each kind in a file.
const REPLAYED: u8 = 40;
/// A radiotap header without fields.
const RADIOTAP_EMPTY: [u8; 8] = [0, 0, 8, 0, 0, 0, 0, 0];
const BARE_80211: u16 = 105;
const BROADCAST: [u8; 6] = [0xff; 6];
const SENDER: [u8; 6] = [2, 0, 0, 0, 0, 7];

/// An 802.11 frame; `frame_control` is its first byte.
fn air_frame(frame_control: u8, body: &[u8]) -> Vec<u8> {
    [&[frame_control, 0, 0, 0][..], &BROADCAST, &SENDER, &SENDER, &[0, 0], body].concat()
}

/// A beacon of the network `wirerate-N`.
fn beacon(number: u8) -> Vec<u8> {
    let name = format!("wirerate-{number:02}");
    let fixed = [[0; 8].as_slice(), &[100, 0], &[1, 0]].concat();
    let elements = [&[0, name.len() as u8][..], name.as_bytes(), &[1, 1, 0x82]].concat();
    air_frame(0x80, &[fixed, elements].concat())
}

/// A data frame with an IPv4 header in LLC and SNAP, which says its number.
fn data_frame(number: u8) -> Vec<u8> {
    let snap = [0xaa, 0xaa, 3, 0, 0, 0, 8, 0];
    air_frame(
        0x08,
        &[&snap[..], &[0x45, 0, 0, 20, 0, number, 0, 0, 64, 99, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]].concat(),
    )
}

/// Two monitor devices on one channel; what `mon0` sends, tcpdump captures at `mon1`.
fn replay(finding: &mut CaseReport) -> Result<()> {
    unload("mac80211_hwsim")?;
    load("mac80211_hwsim", "radios=2")?;
    sh("for n in 0 1; do
            iw dev wlan$n interface add mon$n type monitor && ip link set mon$n up && iw dev mon$n set channel 1 || exit 1
        done")?;
    let frames = |number: u8| [beacon(number), data_frame(number)];
    for (link_type, header) in [(RADIOTAP, &RADIOTAP_EMPTY[..]), (BARE_80211, &[])] {
        let mut writer =
            pcap::Writer::new(Vec::new(), &pcap::Header { link_type, ..pcap::Header::default() })?;
        for number in 0..REPLAYED {
            for frame in frames(number) {
                let data = [header, &frame].concat();
                let time_ns = u64::from(number) * 2_000_000;
                writer.record(&pcap::Record { time_ns, frame_len: data.len() as u32, data: &data })?;
            }
        }
        std::fs::write("/tmp/air.pcap", writer.finish()?)?;
        let tcpdump = Background::start(
            "exec tcpdump -Z root -i mon1 -B 8192 --immediate-mode -U -w /tmp/heard.pcap 2>/tmp/tcpdump",
        )?;
        sh("until grep -q 'listening on' /tmp/tcpdump; do sleep 0.1; done")?;
        let text = sh("wirerate replay mon0 /tmp/air.pcap --json")?;
        let report: Value = serde_json::from_str(text.trim()).with_context(|| text.clone())?;
        ensure!(report["sent"] == 2 * u64::from(REPLAYED) && report["engine"] == "af_packet", "{report}");
        let last = format!("wirerate-{:02}", REPLAYED - 1);
        let reads = "tcpdump -Z root -nn -r /tmp/heard.pcap 2>/dev/null";
        sh(&format!(
            "for i in $(seq 100); do {reads} | grep -q {last} && break; sleep 0.1; done; sleep 0.2"
        ))?;
        tcpdump.interrupt()?;
        let beacons = sh(&format!("{reads} | grep -o 'Beacon (wirerate-[0-9]*)'"))?;
        let expected: String =
            (0..REPLAYED).map(|number| format!("Beacon (wirerate-{number:02})\n")).collect();
        ensure!(beacons == expected, "tcpdump reads these beacons:\n{beacons}");
        let heard = heard("/tmp/heard.pcap")?;
        let data: Vec<&Vec<u8>> = heard.iter().filter(|frame| frame[0] == 0x08).collect();
        ensure!(data.len() == usize::from(REPLAYED), "{} data frames", data.len());
        for (number, frame) in data.iter().enumerate() {
            // The stack numbers the frames, and a receiver may append a checksum.
            let expected = data_frame(number as u8);
            let is_same =
                frame.get(..22) == expected.get(..22) && frame.get(24..expected.len()) == expected.get(24..);
            ensure!(is_same, "data frame {number}: {frame:02x?}, not {expected:02x?}");
        }
        finding.note(&format!("link type {link_type}"), format!("{} frames", heard.len()));
    }
    // Without radiotap there is no form for a frame of Ethernet.
    sh("wirerate send lo --dst 127.0.0.1 --dry-run=5 --write /tmp/ethernet.pcapng")?;
    let refused = try_sh("wirerate replay mon0 /tmp/ethernet.pcapng --json")?;
    let report: Value = serde_json::from_slice(&refused.stdout).context("a report")?;
    ensure!(refused.status.code() == Some(1) && report["link_type"] == 5 && report["sent"] == 0, "{report}");
    unload("mac80211_hwsim")
}

/// The 802.11 frames of `SENDER` in a file, without their radiotap headers.
fn heard(path: &str) -> Result<Vec<Vec<u8>>> {
    let file = std::fs::read(path)?;
    let mut reader = pcap::Reader::new(&file[..])?;
    ensure!(reader.header().link_type == RADIOTAP, "link type {}", reader.header().link_type);
    let mut frames = Vec::new();
    while let Some(record) = reader.next_record()? {
        let radiotap_len =
            record.data.get(2..4).map_or(0, |len| usize::from(u16::from_le_bytes([len[0], len[1]])));
        let frame = record.data.get(radiotap_len..).unwrap_or_default();
        if frame.get(10..16) == Some(&SENDER[..]) {
            frames.push(frame.to_vec());
        }
    }
    Ok(frames)
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
