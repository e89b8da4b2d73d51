//! What captures lose when more is offered than they keep, and whether they say so.
//!
//! Lost is what arrived by the receiver's counter less the records in the file. What a tool says of its losses is read
//! here, and nowhere else, to be held against that.

use crate::capture::{Contender, Ground, Output};
use crate::process::find_json;
use crate::report::Report;
use anyhow::Result;
use serde::{Deserialize, Serialize};

/// Rates, as multiples of the highest that a tool kept.
const FACTORS: [f64; 2] = [1.5, 2.0];

#[derive(Debug, Serialize)]
struct LossRow<'a> {
    case: &'a str,
    tool: &'a str,
    factor: f64,
    asked_pps: f64,
    arrived_pps: f64,
    arrived: u64,
    kept: u64,
    lost: u64,
    /// `null` for a tool that says nothing.
    told_lost: Option<u64>,
    is_true: bool,
}

/// Offers each of them more than it kept.
pub(crate) fn run(ground: &Ground<'_>, contenders: &[&Contender], report: &mut Report) -> Result<()> {
    let output = Output::File;
    let case = format!("losses {}", output.title());
    report.say(&format!("  {case}, and what is said of them"))?;
    for contender in contenders {
        let Some(best_pps) = ground.best_pps(output, contender) else { continue };
        for factor in FACTORS {
            let asked_pps = best_pps * factor;
            let tried = ground.try_rate(output, contender, asked_pps, true)?;
            let (arrived, kept) = (tried.arrived, tried.counted.unwrap_or(0));
            let (lost, told_lost) =
                (arrived.saturating_sub(kept), (contender.tool.told_lost)(&tried.capture_said));
            let is_true = told_lost == Some(lost);
            let (tool, arrived_pps) = (contender.tool.name, tried.arrived_pps);
            let row = LossRow {
                case: &case,
                tool,
                factor,
                asked_pps,
                arrived_pps,
                arrived,
                kept,
                lost,
                told_lost,
                is_true,
            };
            report.row("loss", &row)?;
            let told = told_lost.map_or("nothing".to_owned(), |told| told.to_string());
            report.say(&format!(
                "  {factor} x: of {arrived} at {:.2} Mpps {lost} lost, it says {told}  {}",
                arrived_pps / 1e6,
                contender.tool.title
            ))?;
        }
    }
    Ok(())
}

/// `wirerate capture --json`.
pub(crate) fn of_wirerate(said: &str) -> Option<u64> {
    #[derive(Deserialize)]
    struct Account {
        lost_nic: Option<u64>,
        lost_ring: u64,
        lost_disk: u64,
    }
    let account: Account = find_json(said)?;
    Some(account.lost_nic.unwrap_or(0) + account.lost_ring + account.lost_disk)
}

/// tcpdump and xdpdump: `12 packets dropped by kernel`.
pub(crate) fn of_libpcap(said: &str) -> Option<u64> {
    before(said, "packets dropped by kernel")
}

/// netsniff-ng: `12  packets failed filter (out of space)`.
pub(crate) fn of_netsniff(said: &str) -> Option<u64> {
    before(said, "packets failed filter (out of space)")
}

/// dumpcap: `Packets received/dropped on interface 'rx0': 30/12 (pcap:12/...`.
pub(crate) fn of_dumpcap(said: &str) -> Option<u64> {
    let line = said.lines().find(|line| line.starts_with("Packets received/dropped on interface"))?;
    let (_, counts) = line.rsplit_once("': ")?;
    counts.split(['/', ' ']).nth(1)?.parse().ok()
}

fn before(said: &str, words: &str) -> Option<u64> {
    let line = said.lines().rev().find(|line| line.contains(words))?;
    line.split(words).next()?.split_whitespace().last()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tools_say_of_their_losses_is_understood() {
        let tcpdump = "tcpdump: listening on rx0\n5 packets captured\n8 packets received by filter\n3 packets dropped by kernel\n";
        assert_eq!(of_libpcap(tcpdump), Some(3));
        let netsniff = "Running!\n\r           8  packets incoming (0 unread on exit)\n           4  packets passed filter\n           \
                        4  packets failed filter (out of space)\n     50.0000% packet droprate\n";
        assert_eq!(of_netsniff(netsniff), Some(4));
        let dumpcap = "Packets captured: 9\nPackets received/dropped on interface 'Loopback: lo': 9/7 \
                       (pcap:7/dumpcap:0/flushed:0/ps_ifdrop:0) (56.2%)\n";
        assert_eq!(of_dumpcap(dumpcap), Some(7));
        let wirerate =
            "capturing on rx0\n{\"written\":5,\"lost_nic\":null,\"lost_ring\":3,\"lost_disk\":1}\n";
        assert_eq!(of_wirerate(wirerate), Some(4));
        for parse in [of_libpcap, of_netsniff, of_dumpcap, of_wirerate] {
            assert_eq!(parse("it says nothing\n"), None);
        }
    }
}
