//! The report of `wirerate connect`: a table, or JSON as `wirerate.connect/1`.

use engine::{AnswerCheck, ConnectKind, ConnectResult};
use facts::{ConnectFailures, Described, Document, Fact, UnusualSegments};
use measure::HistogramLog;
use program::out;
use sender::rate::missing_by_chance;
use serde::Serialize;
use std::fmt;
use units::{Table, human_count, human_duration, per_second};

/// Percentiles of times.
pub(super) const PERCENTILES: [(&str, f64); 4] =
    [("p50", 50.0), ("p90", 90.0), ("p99", 99.0), ("p99.9", 99.9)];

/// How the run was made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Described)]
pub struct Head {
    /// The device.
    pub device: String,
    /// Its network namespace; `null` without one.
    pub netns: Option<String>,
    /// The protocol.
    #[fact(kind = Kind::Word(&["tcp", "udp", "dns"]))]
    pub protocol: &'static str,
    /// The server.
    pub server: String,
    /// How the XDP program was attached.
    pub xdp: String,
    /// Requested connections per second: `--cps`, or `null`.
    pub requested_cps: Option<f64>,
    /// Requested requests per second on held connections: `--ask-rate`, or `null`.
    #[fact(unit = "1/s")]
    pub requested_requests_ps: Option<f64>,
    /// The gaps between connections are random.
    #[serde(skip)]
    pub is_random: bool,
    /// How answers were looked at for errors.
    #[serde(skip)]
    pub answer_check: AnswerCheck,
}

/// Times in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Described)]
pub struct Times {
    /// Number of times.
    pub count: u64,
    /// The shortest.
    pub min_ns: u64,
    /// The median.
    pub p50_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p999_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// The times, as `histogram` of `wirerate.measure/1`.
    pub histogram: String,
}

impl Times {
    fn of(counts: &[u64]) -> Option<Self> {
        let log = HistogramLog::new(counts);
        let [p50_ns, p90_ns, p99_ns, p999_ns] =
            PERCENTILES.map(|(_, percentile)| log.percentile_ns(percentile));
        (!log.is_empty()).then(|| Self {
            count: log.len(),
            min_ns: log.min_ns(),
            p50_ns,
            p90_ns,
            p99_ns,
            p999_ns,
            max_ns: log.max_ns(),
            histogram: log.v2_base64(),
        })
    }

    fn text(&self) -> String {
        let [min, p50, p99, p999, max] =
            [self.min_ns, self.p50_ns, self.p99_ns, self.p999_ns, self.max_ns].map(human_duration);
        format!("min {min}, p50 {p50}, p99 {p99}, p99.9 {p999}, max {max}")
    }
}

/// Responses with the same bytes at the place of `--group-by`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Described)]
pub struct Group {
    /// The bytes as text, or as 0x and hexadecimal digits if one of them is no printable character
    /// of ASCII.
    pub value: String,
    /// The responses with them.
    pub responses: u64,
}

impl Group {
    fn of(bytes: &[u8], responses: u64) -> Self {
        let is_text = bytes.iter().all(|byte| (b' '..=b'~').contains(byte));
        let value = match is_text {
            true => String::from_utf8_lossy(bytes).into_owned(),
            false => bytes.iter().fold("0x".to_owned(), |text, byte| format!("{text}{byte:02x}")),
        };
        Self { value, responses }
    }
}

/// The report of `wirerate connect`.
pub const CONNECT: Document = Document::of::<Report>("wirerate.connect/1", "wirerate connect --json");

/// Everything counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Described)]
pub struct Report {
    /// What the report begins with.
    #[serde(flatten)]
    pub head: Head,
    /// Time in which connections were opened.
    pub opening_ns: u64,
    /// Time until the last connection was closed.
    pub run_ns: u64,
    /// Connections whose SYN was sent: `completed` + `failed` + `open_at_end`.
    pub tried: u64,
    /// SYNs that were answered.
    pub established: u64,
    /// Connections that went through all of their states.
    pub completed: u64,
    /// Connections that were not completed: the sum of `refused`, `reset`, `timeout` and `cut_off`.
    pub failed: u64,
    /// Connections that were not completed.
    #[serde(flatten)]
    pub failures: ConnectFailures,
    /// Connections open at the end.
    pub open_at_end: u64,
    /// `tried` minus the sum of what became of them: 0.
    pub unexplained: i64,
    /// Requests sent.
    pub requests: u64,
    /// With `--ask-rate`: requests sent until connections were closed.
    #[serde(skip)]
    pub requests_while_asking: u64,
    /// Time in which requests were sent, in nanoseconds; with `--ask-rate`, until connections were
    /// closed.
    #[serde(skip)]
    pub asking_ns: u64,
    /// Complete responses.
    pub responses: u64,
    /// Responses without a Content-Length in their first segment, on connections that stay open:
    /// PSH ended them.
    pub unsized_responses: u64,
    /// Answers that report an error: an HTTP status of 400 or more; with `--tls-hello` all but a
    /// ServerHello; with `--quic-initial` all but a packet with a long header; an error code of
    /// DNS.
    pub error_answers: u64,
    /// Bytes of the server; each counts once.
    pub payload_bytes: u64,
    /// Completed connections per second of `opening_ns`.
    pub rate_cps: f64,
    /// Tried connections per second of `opening_ns`.
    pub tried_cps: f64,
    /// Responses per second of `opening_ns`; with `--ask-rate`, of the time in which requests were
    /// sent.
    #[fact(unit = "1/s")]
    pub requests_ps: f64,
    /// Times from SYN to SYN-ACK; `null` without one.
    pub connect: Option<Times>,
    /// Times from a request to the first byte of its response; `null` without one.
    pub first_byte: Option<Times>,
    /// Times from SYN to the end of complete connections; `null` without one, and for held ones in
    /// a run of 18 minutes or more, which the program cannot measure.
    pub connection: Option<Times>,
    /// Most connections open at a time.
    pub open_max: u64,
    /// Most connections of one client address at a time; 0 without `--open-per-client`.
    pub open_per_client_max: u64,
    /// Responses by the bytes of `--group-by`; empty without it.
    pub groups: Vec<Group>,
    /// Responses in none of these groups: too short, or of too many groups.
    pub ungrouped: u64,
    /// Held connections that the server ended.
    pub ended_by_server: u64,
    /// Longest time without a completed connection while connections were opened; 0 with `--hold`.
    pub longest_pause_ns: u64,
    /// Unusual segments.
    #[serde(flatten)]
    pub unusual: UnusualSegments,
    /// New connections that found no free port.
    pub no_port: u64,
    /// Frames of the sender that the driver dropped; segments were sent again at once, datagrams
    /// were not.
    #[fact(unit = "frames")]
    pub dropped: u64,
    /// Frames that the program could not write, or dropped because another CPU worked with their
    /// connection: as if lost on the way.
    #[fact(unit = "frames")]
    pub lost_in_program: u64,
    /// Answers to ARP and neighbour solicitations.
    #[fact(unit = "frames")]
    pub neighbours: u64,
    /// `true` if the device was deleted before the end.
    pub is_device_gone: bool,
}

impl Report {
    /// From the counters of a run.
    pub(super) fn new(head: Head, result: &ConnectResult) -> Self {
        let (counts, frames) = (&result.counts, &result.frames);
        let whole = [counts.completed, counts.failed(), result.open_at_end].iter().sum::<u64>();
        let rate = |count| per_second(count, result.opening_ns.max(1));
        Self {
            head,
            opening_ns: result.opening_ns,
            run_ns: result.run_ns,
            tried: counts.tried,
            established: counts.established,
            completed: counts.completed,
            failed: counts.failed(),
            failures: counts.failures,
            open_at_end: result.open_at_end,
            unexplained: counts.tried.cast_signed() - whole.cast_signed(),
            requests: counts.requests,
            requests_while_asking: result.requests_while_asking,
            asking_ns: result.asking_ns,
            responses: counts.responses,
            unsized_responses: counts.unsized_responses,
            error_answers: frames.error_answers,
            payload_bytes: counts.payload_bytes,
            rate_cps: rate(result.completed_while_opening),
            tried_cps: rate(counts.tried),
            requests_ps: per_second(result.responses_while_asking, result.asking_ns.max(1)),
            connect: Times::of(&result.times.connect),
            first_byte: Times::of(&result.times.first_byte),
            connection: Times::of(&result.times.total),
            open_max: frames.open_max,
            open_per_client_max: frames.open_per_client_max,
            groups: result.groups.iter().map(|(bytes, count)| Group::of(bytes, *count)).collect(),
            ungrouped: frames.ungrouped,
            ended_by_server: counts.ended_by_server,
            longest_pause_ns: result.longest_pause_ns,
            unusual: counts.unusual,
            no_port: frames.no_port,
            dropped: result.dropped,
            lost_in_program: frames.not_written + frames.contended,
            neighbours: frames.neighbours,
            is_device_gone: result.is_device_gone,
        }
    }

    /// The report as one line of JSON.
    pub fn json_line(&self) -> String {
        out::json_line(&CONNECT, self)
    }

    /// True if all is complete, at the requested rate, and no held connection ended early.
    pub(super) fn is_whole(&self) -> bool {
        let is_complete = self.failed == 0 && self.open_at_end == 0 && self.ended_by_server == 0;
        let has_rates = self.missed_rate().is_none() && self.missed_requests().is_none();
        is_complete && !self.is_device_gone && has_rates
    }

    /// The rate that was reached, if it is more than 2 % below the requested one.
    fn missed_rate(&self) -> Option<f64> {
        let requested = self.head.requested_cps?;
        let seconds = self.opening_ns.max(1) as f64 / 1e9;
        // The first connection is due at once, so few of them take less time.
        let tried = self.tried.saturating_sub(1) as f64;
        let due = requested * seconds;
        let by_chance = if self.head.is_random { missing_by_chance(due) } else { 0.0 };
        (tried < due * 0.98 - by_chance && self.tried > 100).then_some(tried / seconds)
    }

    /// The rate of requests on held connections, if it is more than 2 % below the requested one.
    fn missed_requests(&self) -> Option<f64> {
        let requested = self.head.requested_requests_ps?;
        let seconds = self.asking_ns.max(1) as f64 / 1e9;
        // One may be due at the very end.
        let sent = self.requests_while_asking as f64;
        (sent + 1.0 < requested * seconds * 0.98).then_some(sent / seconds)
    }

    fn connection_rows(&self, table: &mut Table) {
        table.count(
            "tried",
            self.tried,
            &format!("{} SYNs sent again", human_count(self.unusual.syn_resent)),
        );
        let repeated = format!("{} SYN-ACKs repeated", human_count(self.unusual.syn_acks_repeated));
        table.count("established", self.established, &repeated);
        table.count("completed", self.completed, &self.share());
        let cause = |(fact, count): (&Fact, Option<u64>)| {
            format!("{} {}", fact.title(), human_count(count.unwrap_or(0)))
        };
        let causes = self.failures.each().map(cause).collect::<Vec<_>>().join(", ");
        table.count("failed", self.failed, &causes);
    }

    fn share(&self) -> String {
        format!("{:.2} %", self.completed as f64 * 100.0 / self.tried.max(1) as f64)
    }

    fn error_words(&self) -> &'static str {
        match self.head.answer_check {
            AnswerCheck::Http => "answers with an HTTP status of 400 or more",
            AnswerCheck::TlsHello => "answers that are no ServerHello",
            AnswerCheck::Quic => "answers that are no QUIC packet",
            AnswerCheck::Any => "answers with an error code",
        }
    }

    fn is_tcp(&self) -> bool {
        self.head.protocol == "tcp"
    }

    fn group_rows(&self, table: &mut Table) {
        let all = self.ungrouped + self.groups.iter().map(|group| group.responses).sum::<u64>();
        let share = |count: u64| format!("{:.2} %", count as f64 * 100.0 / all.max(1) as f64);
        for group in &self.groups {
            let remark = format!("{} of responses: {:?}", share(group.responses), group.value);
            table.count("group", group.responses, &remark);
        }
        if self.ungrouped > 0 {
            table.count("ungrouped", self.ungrouped, "responses too short, or of more than 256 groups");
        }
    }

    fn repair_rows(&self, table: &mut Table) {
        // Those of SYNs stand with the connections.
        let others = self.unusual.present().filter(|(fact, _)| !fact.name.starts_with("syn_"));
        others.for_each(|(fact, count)| table.count(&fact.title(), count, &fact.remark()));
        let dropped = match self.is_tcp() {
            true => "frames by the driver, sent again at once",
            false => "frames by the driver, not sent again",
        };
        for (name, count, remark) in [
            ("no port", self.no_port, "new connections waited for a free port"),
            ("dropped", self.dropped, dropped),
            ("lost here", self.lost_in_program, "frames that the program could not write"),
            ("ended early", self.ended_by_server, "held connections, by the server"),
            ("unsized", self.unsized_responses, "responses without Content-Length, ended by PSH"),
        ] {
            if count > 0 {
                table.count(name, count, remark);
            }
        }
    }
}

/// The word of a protocol in the report.
pub(super) fn protocol_of(kind: ConnectKind) -> &'static str {
    match kind {
        ConnectKind::Tcp => "tcp",
        ConnectKind::Udp => "udp",
        ConnectKind::Dns => "dns",
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_tcp = self.is_tcp();
        let place = self.head.netns.as_ref().map_or_else(String::new, |netns| format!(" in {netns}"));
        let what = if is_tcp { "connections" } else { "queries" };
        let seconds = self.opening_ns as f64 / 1e9;
        let (tried, rate) = (human_count(self.tried), human_count(self.tried_cps.round() as u64));
        writeln!(f, "{}{place}: {tried} {what} in {seconds:.3} s, {rate}/s", self.head.device)?;
        let mut table = Table::default();
        if is_tcp {
            self.connection_rows(&mut table);
            let bytes = format!(
                "{}/s, {} bytes of payload",
                human_count(self.requests_ps.round() as u64),
                human_count(self.payload_bytes)
            );
            table.count("responses", self.responses, &bytes);
        } else {
            table.count("sent", self.tried, "");
            let bytes = format!("{}, {} bytes", self.share(), human_count(self.payload_bytes));
            table.count("answered", self.completed, &bytes);
            table.count("missing", self.tried - self.completed, "without an answer within the timeout");
        }
        if self.error_answers > 0 {
            table.loss("errors", self.error_answers, self.error_words());
        }
        for (name, times) in
            [("connect", &self.connect), ("first byte", &self.first_byte), ("connection", &self.connection)]
        {
            if let Some(times) = times.as_ref().filter(|_| is_tcp || name == "first byte") {
                table.text(if is_tcp { name } else { "answer" }, &times.text());
            }
        }
        table.count("open", self.open_max, &format!("at most; {} at the end", human_count(self.open_at_end)));
        if self.open_per_client_max > 0 {
            table.count("per client", self.open_per_client_max, "open at most");
        }
        self.group_rows(&mut table);
        if self.longest_pause_ns > 0 {
            table.text("pause", &format!("at most {} without an end", human_duration(self.longest_pause_ns)));
        }
        self.repair_rows(&mut table);
        let [cps, requests_ps] = [self.head.requested_cps, self.head.requested_requests_ps];
        for (reached, requested, what) in
            [(self.missed_rate(), cps, ""), (self.missed_requests(), requests_ps, "requests: ")]
        {
            if let (Some(reached), Some(requested)) = (reached, requested) {
                let [requested, reached] = [requested, reached].map(|rate| human_count(rate.round() as u64));
                table.text("missed", &format!("{what}{requested}/s requested, {reached}/s reached"));
            }
        }
        table.loss("unexplained", self.unexplained.unsigned_abs(), "");
        table.text("source", &self.head.xdp);
        fmt::Display::fmt(&table, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use connect::Counts;
    use engine::{ConnectTimes, FrameCounts};

    fn result() -> ConnectResult {
        let mut connect = vec![0; measure::HISTOGRAM_LEN];
        connect[measure::histogram_index(3_000)] = 1_000;
        ConnectResult {
            counts: Counts {
                tried: 1_002,
                unusual: UnusualSegments { syn_resent: 12, ..UnusualSegments::default() },
                established: 1_000,
                completed: 1_000,
                failures: ConnectFailures { timeout: 1, ..ConnectFailures::default() },
                responses: 1_000,
                requests: 1_000,
                payload_bytes: 145_000,
                ..Counts::default()
            },
            frames: FrameCounts { open_max: 64, ..FrameCounts::default() },
            times: ConnectTimes { connect, ..ConnectTimes::default() },
            open_at_end: 1,
            opening_ns: 500_000_000,
            run_ns: 600_000_000,
            completed_while_opening: 990,
            asking_ns: 500_000_000,
            responses_while_asking: 990,
            ..ConnectResult::default()
        }
    }

    fn head(protocol: &'static str) -> Head {
        Head { device: "c0".into(), protocol, xdp: "XDP, native".into(), ..Head::default() }
    }

    #[test]
    fn a_report_reads_like_this() {
        assert_eq!(
            Report::new(head("tcp"), &result()).to_string(),
            "c0: 1,002 connections in 0.500 s, 2,004/s\n  \
             tried        1,002  12 SYNs sent again\n  \
             established  1,000  0 SYN-ACKs repeated\n  \
             completed    1,000  99.80 %\n  \
             failed           1  refused 0, reset 0, timeout 1, cut off 0\n  \
             responses    1,000  1,980/s, 145,000 bytes of payload\n  \
             connect      min 2.992 µs, p50 3.007 µs, p99 3.007 µs, p99.9 3.007 µs, max 3.007 µs\n  \
             open            64  at most; 1 at the end\n  \
             unexplained      0\n  \
             source       XDP, native\n"
        );
    }

    #[test]
    fn a_report_of_queries_has_answered_and_missing_ones() {
        let text = Report::new(head("dns"), &result()).to_string();
        for line in ["c0: 1,002 queries", "answered     1,000  99.80 %", "missing          2"] {
            assert!(text.contains(line), "{text}");
        }
        let dropped = ConnectResult { dropped: 3, ..result() };
        for (protocol, remark) in [("dns", "by the driver, not sent again"), ("tcp", "sent again at once")] {
            let text = Report::new(head(protocol), &dropped).to_string();
            assert!(text.contains(remark), "{text}");
        }
        assert!(!text.contains("established"), "{text}");
    }

    #[test]
    fn groups_are_rows_with_their_share() {
        let groups = vec![(b"s1".to_vec(), 600), (vec![1, 0xff], 300)];
        let frames = FrameCounts { ungrouped: 100, open_per_client_max: 2, ..FrameCounts::default() };
        let report = Report::new(head("tcp"), &ConnectResult { groups, frames, ..result() });
        let text = report.to_string();
        for line in [
            "group          600  60.00 % of responses: \"s1\"",
            "group          300  30.00 % of responses: \"0x01ff\"",
            "ungrouped      100  responses too short",
            "per client       2  open at most",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
        assert_eq!((report.groups[1].value.as_str(), report.groups[1].responses), ("0x01ff", 300));
    }

    #[test]
    fn a_connection_that_is_not_accounted_for_is_shown() {
        let mut lost = result();
        lost.counts.tried += 3;
        let report = Report::new(head("tcp"), &lost);
        assert_eq!(report.unexplained, 3);
        assert!(report.to_string().contains("unexplained      3"), "{report}");
    }

    #[test]
    fn a_rate_is_missed_by_more_than_two_percent() {
        let whole = |requested_cps| {
            let mut result = result();
            (result.counts.tried, result.counts.failures.timeout, result.open_at_end) = (1_000, 0, 0);
            let head = Head { requested_cps: Some(requested_cps), ..head("tcp") };
            Report::new(head, &result).is_whole()
        };
        assert!(whole(2_000.0) && whole(2_030.0));
        assert!(!whole(2_050.0));
    }
}
