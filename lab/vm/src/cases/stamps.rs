//! Timestamps of emulated cards. QEMU's igb stamps Sync messages of PTP version 2 over Ethernet.
//! After one it stamps no other until it is reset, because its driver does not read the register
//! that would release the stamp. QEMU's e1000e offers stamps and makes none.
//!
//! A stamp is compared with the system's clock before and after the frame is sent.

use super::nics::{CardPair, E1000E, IGB};
use super::{Case, CaseReport, MachineType};
use crate::guest::sh;
use anyhow::{Context, Result, ensure};
use pcapng::{Block, PacketBuf, Reader};
use std::collections::HashMap;
use std::fs::File;
use std::io::BufReader;
use std::time::{SystemTime, UNIX_EPOCH};

pub(super) const CASES: &[Case] = &[
    Case {
        name: "stamps_igb",
        what: "the frame that igb stamped has the card's time, by `--clock utc` and `phc`; all others have the kernel's",
        modules: IGB.modules,
        devices: IGB.devices,
        machine: MachineType::Cards,
        run: igb,
    },
    Case {
        name: "stamps_igb_receiver",
        what: "the latency of the frame that igb stamped ends at the card's time, that of others at the kernel's",
        modules: IGB.modules,
        devices: IGB.devices,
        machine: MachineType::Cards,
        run: igb_receiver,
    },
    Case {
        name: "stamps_e1000e",
        what: "e1000e grants stamps and makes none: all frames have the kernel's time, and the report says so",
        modules: E1000E.modules,
        devices: E1000E.devices,
        machine: MachineType::Cards,
        run: e1000e,
    },
];

/// A Sync message to the address that PTP has for it.
const SYNC: &str = "{ 0x01,0x1b,0x19,0,0,0, 2,0,0,0,2,0, 0x88,0xf7, 0x00,0x02,0x00,0x2c,0x00,0x00,0x02,0x00,
    fill(0,8), fill(0,4), fill(0,10), 0x00,0x01, 0x00,0x00, fill(0,10), fill(0,20) }";
const SYNCS: u64 = 4;
const OTHERS: u64 = 5;
/// The system's clock goes ahead of the card's by so much.
const AHEAD_S: u64 = 1_000;
const AHEAD_NS: u64 = AHEAD_S * 1_000_000_000;
/// Processors and cards are threads that wait for each other on a machine that has other work.
const NOISE_NS: u64 = 5_000_000;

fn now_ns() -> Result<u64> {
    Ok(u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos())?)
}

/// Times of day between which something happened.
#[derive(Clone, Copy, Debug)]
struct Span(u64, u64);

impl Span {
    fn holds(self, time_ns: u64) -> bool {
        (self.0 - NOISE_NS..=self.1 + NOISE_NS).contains(&time_ns)
    }
}

/// Sends Sync messages, the first of them in a span of its own, and other frames; their spans.
fn send(pair: &CardPair) -> Result<[Span; 2]> {
    std::fs::write("/tmp/sync", SYNC)?;
    let sync = |count: u64| {
        sh(&format!("ip netns exec tx trafgen --dev tx0 --conf /tmp/sync --num {count} --cpus 1 -q"))
    };
    let begin_ns = now_ns()?;
    sync(1)?;
    // It was handed to the card; a little later it has passed the other one.
    sh("sleep 0.2")?;
    let first = Span(begin_ns, now_ns()?);
    sync(SYNCS - 1)?;
    pair.send(&format!("--count {OTHERS}"))?;
    sh("sleep 0.2")?;
    Ok([first, Span(begin_ns, now_ns()?)])
}

fn igb(finding: &mut CaseReport) -> Result<()> {
    let pair = CardPair::new(&IGB)?;
    sh("wirerate timestamp rx0 --netns rx on --filter ptp")?;
    for clock in ["utc", "phc"] {
        // After a reset the card stamps one frame again, and has its clock set to the system's.
        sh("ip -n rx link set rx0 down; ip -n rx link set rx0 up")?;
        pair.wait_for_carrier()?;
        sh(&format!("date -s @$(($(date +%s) + {AHEAD_S})) >/dev/null"))?;
        pair.start_capture(&format!("--clock {clock} --count {} -w /tmp/stamps.pcapng", SYNCS + OTHERS))?;
        let [first, all] = send(&pair)?;
        let report = pair.end_capture()?;
        sh(&format!("date -s @$(($(date +%s) - {AHEAD_S})) >/dev/null"))?;
        ensure!(report["hardware_time"] == 1 && report["software_time"] == SYNCS + OTHERS - 1, "{report}");
        let (stamped, others) = by_interface("/tmp/stamps.pcapng")?;
        let [stamped] = stamped.as_slice() else { anyhow::bail!("stamped by the card: {stamped:?}") };
        let ahead_ns = report["clocks"][0]["ahead_ns"].as_i64().context("no clock in the report")?;
        // The driver set the card's clock before the system's went ahead; `date` leaves out parts
        // of a second.
        let off_ns = ahead_ns.saturating_add(AHEAD_NS as i64).unsigned_abs();
        ensure!(off_ns < 2_000_000_000, "{report}");
        let written_ns = stamped.time_ns;
        let time_ns = if clock == "phc" { written_ns.wrapping_add_signed(-ahead_ns) } else { written_ns };
        ensure!(stamped.data.get(12..14) == Some(&[0x88, 0xf7]), "the card stamped {stamped:?}");
        ensure!(first.holds(time_ns), "--clock {clock}: {time_ns} is not in {first:?}: {report}");
        ensure!(others.iter().all(|other| all.holds(other.time_ns)), "not in {all:?}: {others:?}");
        finding.note(clock, format!("1 of {} frames by the card", SYNCS + OTHERS));
    }
    Ok(())
}

/// The driver gives its stamps to packet sockets only. Sync messages with a mark at their end are
/// measured; the card's clock is far behind the system's.
fn igb_receiver(finding: &mut CaseReport) -> Result<()> {
    let pair = CardPair::new(&IGB)?;
    std::fs::write("/tmp/sync", SYNC)?;
    sh("wirerate timestamp rx0 --netns rx on --filter ptp")?;
    sh("ip -n rx link set rx0 down; ip -n rx link set rx0 up")?;
    pair.wait_for_carrier()?;
    sh(&format!("date -s @$(($(date +%s) + {AHEAD_S})) >/dev/null"))?;
    sh(&format!(
        "rm -f /tmp/receipt
         wirerate receive rx0 --netns rx --source tpacket --count {SYNCS} --json >/tmp/receipt 2>/tmp/said &
         for i in $(seq 600); do grep -q measuring /tmp/said && exit 0; sleep 0.1; done; cat /tmp/said; exit 1"
    ))?;
    pair.wait_for_carrier()?;
    // Exit code 1: a slow machine may miss the rate.
    sh(&format!(
        "wirerate send tx0 --netns tx --frames /tmp/sync --signature mark --end-frames 0 --count {SYNCS} \
         --pps 20 || [ $? = 1 ]"
    ))?;
    let text = sh("for i in $(seq 600); do [ -s /tmp/receipt ] && break; sleep 0.1; done
                   cat /tmp/receipt /tmp/said")?;
    sh(&format!("date -s @$(($(date +%s) - {AHEAD_S})) >/dev/null"))?;
    let line = text.lines().find(|line| line.contains("wirerate.measure/1")).unwrap_or_default();
    let receipt: serde_json::Value = serde_json::from_str(line).with_context(|| text.clone())?;
    ensure!(receipt["stamped"] == SYNCS && receipt["hardware_time"] == 1, "{text}");
    ensure!(receipt["source"].as_str().is_some_and(|source| source.contains("times of /dev/ptp")), "{text}");
    // A time of the card that was not converted would be long before the frame was sent.
    let max_ns = receipt["latency"]["max_ns"].as_u64().context("no latency")?;
    ensure!(receipt["negative"] == 0 && max_ns < AHEAD_NS / 100, "{text}");
    finding.note("igb", format!("1 of {SYNCS} latencies by the card"));
    Ok(())
}

fn e1000e(finding: &mut CaseReport) -> Result<()> {
    let pair = CardPair::new(&E1000E)?;
    let granted = sh("wirerate timestamp rx0 --netns rx on --json")?;
    ensure!(granted.contains("\"rx_filter\":\"all\""), "{granted}");
    pair.start_capture(&format!("--count {} -w /tmp/stamps.pcapng", SYNCS + OTHERS))?;
    let [_, all] = send(&pair)?;
    let report = pair.end_capture()?;
    ensure!(report["hardware_time"] == 0 && report["software_time"] == SYNCS + OTHERS, "{report}");
    let (stamped, others) = by_interface("/tmp/stamps.pcapng")?;
    ensure!(stamped.is_empty() && others.len() as u64 == SYNCS + OTHERS, "{stamped:?} {others:?}");
    ensure!(others.iter().all(|other| all.holds(other.time_ns)), "not in {all:?}: {others:?}");
    finding.note("utc", format!("0 of {} frames by the card", SYNCS + OTHERS));
    sh("wirerate timestamp rx0 --netns rx off")?;
    Ok(())
}

/// The packets of a file: those that the card stamped, and those that the kernel did.
fn by_interface(path: &str) -> Result<(Vec<PacketBuf>, Vec<PacketBuf>)> {
    let mut reader = Reader::new(BufReader::new(File::open(path)?));
    let mut names = HashMap::new();
    let mut packets = Vec::new();
    while let Some(block) = reader.next_block()? {
        match block {
            Block::Interface(interface) => {
                names.insert(names.len() as u32, interface.name.unwrap_or_default());
            }
            Block::Packet(packet) => packets.push(packet.to_buf()),
            _ => {}
        }
    }
    let is_stamped =
        |packet: &PacketBuf| names.get(&packet.interface).is_some_and(|name| name.ends_with(" hardware"));
    Ok(packets.into_iter().partition(is_stamped))
}
