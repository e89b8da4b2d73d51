//! The report of `wirerate count`: a table, or JSON as `wirerate.count/1`.

use facts::{Described, Document};
use program::out;
use program::rx_stats::{Cpu, RxHead};
use serde::Serialize;
use std::fmt;

/// The report of `wirerate count` and `wirerate sink`.
pub const COUNT: Document =
    Document::of::<Report>("wirerate.count/1", "wirerate count --json and wirerate sink --json");

/// Everything counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Described)]
pub struct Report {
    /// Device, mode, source, duration and receive rate of the run.
    #[serde(flatten)]
    pub head: RxHead,
    /// True if every device was promiscuous.
    pub promiscuous: bool,
    /// The filter: which frames were counted; `null` if all.
    pub filter: Option<String>,
    /// Frames that matched the filter, or all.
    #[fact(unit = "frames")]
    pub received: u64,
    /// Frames that did not match the filter.
    #[fact(unit = "frames")]
    pub filtered: u64,
    /// Bytes of the received frames, without FCS: the sum of their `frame_len`.
    pub received_bytes: u64,
    /// One entry for each CPU that received frames.
    pub cpus: Vec<Cpu>,
}

impl Report {
    /// The report as one line of JSON.
    pub fn json_line(&self) -> String {
        out::json_line(&COUNT, self)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = self.head.write(f, self.received)?;
        for Cpu { cpu, received } in self.cpus.iter().filter(|_| self.cpus.len() > 1) {
            table.count(&format!("CPU {cpu}"), *received, "");
        }
        if let Some(filter) = &self.filter {
            table.count("filtered", self.filtered, &format!("did not match '{filter}'"));
        }
        table.text("source", &self.head.source_text(self.promiscuous));
        fmt::Display::fmt(&table, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use program::active_window::ActiveRate;
    use std::time::Duration;

    fn report() -> Report {
        Report {
            head: RxHead {
                device: "veth1".into(),
                netns: Some("lab".into()),
                mode: "drop",
                source: "XDP, native".into(),
                duration_ns: 2_000_000_000,
                active: ActiveRate::of_span(1_000_001, 60_000_060, Duration::from_secs(2)),
            },
            promiscuous: true,
            filter: Some("udp port 9".into()),
            received: 1_000_000,
            received_bytes: 60_000_000,
            filtered: 12,
            cpus: vec![Cpu { cpu: 0, received: 600_000 }, Cpu { cpu: 1, received: 400_000 }],
        }
    }

    #[test]
    fn a_report_reads_like_this() {
        assert_eq!(
            report().to_string(),
            "veth1 in lab: 1,000,000 frames received in 2.000 s\n  \
             received  1,000,000  500.0 kpps, 240.0 Mbit/s without FCS\n  \
             CPU 0       600,000\n  \
             CPU 1       400,000\n  \
             filtered         12  did not match 'udp port 9'\n  \
             source    XDP, native, drop mode, promiscuous\n"
        );
    }

    #[test]
    fn a_report_is_one_line_of_json() {
        let line = report().json_line();
        assert!(
            line.starts_with("{\"schema\":\"wirerate.count/1\",\"device\":\"veth1\",\"netns\":\"lab\""),
            "{line}"
        );
        assert!(
            line.ends_with("\"cpus\":[{\"cpu\":0,\"received\":600000},{\"cpu\":1,\"received\":400000}]}\n"),
            "{line}"
        );
    }
}
