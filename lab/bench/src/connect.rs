//! Connections, requests and DNS queries per second: wirerate beside wrk and dnsperf, from the same
//! servers, with the client on one CPU and the server on another; and the most that
//! `wirerate accept` takes and holds, on all CPUs.
//!
//! Each client reports its own rate, which is that of answers that it has received.

use crate::process::{Tool, find_json, find_tool};
use crate::programs::ToolProgram;
use crate::report::{self, BenchReport, ResultRow};
use crate::rig::Rig;
use crate::schedule::{Rounds, interleaved};
use crate::stats::Estimate;
use crate::testbed::Testbed;
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

const CASE: &str = "connect";
/// Clients of wirerate, in the network of the test bed.
const CLIENTS: &str = "198.18.0.100-198.18.0.199";
/// How long a server may take to begin.
const START: Duration = Duration::from_secs(2);
/// How long a client may take beyond its time.
const MORE: Duration = Duration::from_secs(20);

/// The server of a contender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Server {
    Nginx,
    Nsd,
    /// Answers requests, and closes.
    Accept,
    /// Answers nothing, and leaves the end to the client.
    AcceptHeld,
}

impl Server {
    fn is_ours(self) -> bool {
        matches!(self, Self::Accept | Self::AcceptHeld)
    }
}

/// What the figure of a contender counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Figure {
    Connections,
    Requests,
    /// Connections held at a time, if all were closed in the end.
    Held,
}

struct ConnectContender {
    name: &'static str,
    title: &'static str,
    /// The command of another tool; `None` for wirerate.
    tool: Option<&'static str>,
    server: Server,
    figure: Figure,
    /// Words of the command; `SECONDS` and `DIR` are filled in, and `~` is a space within a word.
    words: &'static str,
    /// The contender to compare with, and the goal.
    against: Option<(usize, f64)>,
}

const CONTENDERS: [ConnectContender; 8] = [
    ConnectContender {
        name: "wrk-close",
        title: "wrk, a connection per request",
        tool: Some("wrk"),
        server: Server::Nginx,
        figure: Figure::Requests,
        words: "-t1 -c64 -dSECONDS -H Connection:~close http://198.18.0.2/",
        against: None,
    },
    ConnectContender {
        name: "connect",
        title: "wirerate connect, a connection per request",
        tool: None,
        server: Server::Nginx,
        figure: Figure::Connections,
        words: "--dst 198.18.0.2:80 --open 64 -t SECONDSs",
        against: Some((0, 3.0)),
    },
    ConnectContender {
        name: "wrk-keep-alive",
        title: "wrk, keep-alive",
        tool: Some("wrk"),
        server: Server::Nginx,
        figure: Figure::Requests,
        words: "-t1 -c64 -dSECONDS http://198.18.0.2/",
        against: None,
    },
    ConnectContender {
        name: "connect-keep-alive",
        title: "wirerate connect, 1,000 requests per connection",
        tool: None,
        server: Server::Nginx,
        figure: Figure::Requests,
        words: "--dst 198.18.0.2:80 --open 64 --requests 1000 -t SECONDSs",
        against: Some((2, 2.5)),
    },
    ConnectContender {
        name: "dnsperf",
        title: "dnsperf",
        tool: Some("dnsperf"),
        server: Server::Nsd,
        figure: Figure::Requests,
        words: "-s 198.18.0.2 -d DIR/queries -l SECONDS -c 64 -q 64 -T 1",
        against: None,
    },
    ConnectContender {
        name: "connect-dns",
        title: "wirerate connect, DNS",
        tool: None,
        server: Server::Nsd,
        figure: Figure::Connections,
        words: "--dst 198.18.0.2:53 --open 64 --dns example.com -t SECONDSs",
        against: Some((4, 1.2)),
    },
    ConnectContender {
        name: "connect-accept",
        title: "wirerate connect to accept, 200 open",
        tool: None,
        server: Server::Accept,
        figure: Figure::Connections,
        words: "--dst 198.18.0.2:80 --open 200 -t SECONDSs",
        against: None,
    },
    ConnectContender {
        name: "connect-held",
        title: "held by connect with accept, of 2 million (opened at 400,000 /s)",
        tool: None,
        server: Server::AcceptHeld,
        figure: Figure::Held,
        words: "--dst 198.18.0.2:80 --no-request --hold 2M --cps 400k -t 8s",
        against: None,
    },
];

/// One measured run.
#[derive(Debug, Serialize)]
struct Connected {
    case: &'static str,
    round: usize,
    tool: &'static str,
    rate: f64,
}

/// The figures of wirerate's report.
#[derive(Debug, Deserialize)]
struct ConnectFigures {
    rate_cps: f64,
    requests_ps: f64,
    open_max: f64,
    tried: u64,
    completed: u64,
}

/// Measures all contenders in turn.
pub(crate) fn run(rig: Rig<'_>) -> Result<()> {
    let Rig { bed, programs, plan, deadline, report, .. } = rig;
    if !bed.is_ours() {
        return report.say(&format!("\n{CASE}: only on devices made for it, with servers of its own"));
    }
    let wirerate = programs.find(ToolProgram::Wirerate).context("there is no wirerate to measure")?;
    let folder = bed.file("connect");
    fs::create_dir_all(&folder)?;
    write_files(&folder)?;
    let seconds = plan.times.window().as_secs().max(1);
    report.say(&format!(
        "\n{CASE}: 64 connections at all times, client and server on a CPU each; {} rounds of {seconds} s",
        plan.times.rounds
    ))?;
    let trials = ConnectTrials { bed, wirerate, folder, seconds };
    let present: Vec<bool> = CONTENDERS.iter().map(|contender| trials.is_present(contender)).collect();
    for (contender, _) in CONTENDERS.iter().zip(&present).filter(|(_, is_present)| !**is_present) {
        report.warn(&format!("{}: a program is not installed, so it is left out", contender.title))?;
    }
    let mut rates = Rounds::new(CONTENDERS.len());
    for turn in interleaved(CONTENDERS.len(), plan.times.rounds) {
        if turn.contender == 0 && turn.round > 0 && deadline.is_over() {
            break;
        }
        if !present[turn.contender] {
            continue;
        }
        let contender = &CONTENDERS[turn.contender];
        let tool = contender.name;
        let rate = trials.measure(contender).with_context(|| format!("cannot measure {tool}"))?;
        report.row("connected", &Connected { case: CASE, round: turn.round, tool, rate })?;
        rates.push(turn, rate);
    }
    results(&rates, report)
}

fn results(rates: &Rounds, report: &BenchReport) -> Result<()> {
    for (index, contender) in CONTENDERS.iter().enumerate() {
        let Some(rate) = Estimate::of(rates.of(index)) else { continue };
        let (unit, key) = if contender.figure == Figure::Held { ("  ", "held") } else { ("/s", "rate_ps") };
        report.say(&format!("  {:>12.0} {unit}  {}", rate.median, contender.title))?;
        report.row("result", &ResultRow::time(CASE, contender.name, key, rate))?;
    }
    for (index, contender) in CONTENDERS.iter().enumerate() {
        let Some((other, goal)) = contender.against else { continue };
        let Some(ratio) = Estimate::of_ratios(rates.of(index), rates.of(other)) else { continue };
        let of = CONTENDERS[other].title;
        report.say(&format!("  {}: {ratio} x of {of}{}", contender.title, report::goal(Some(goal))))?;
        let row = ResultRow::ratio(CASE, contender.name, CONTENDERS[other].name, ratio, Some(goal));
        report.row("result", &row)?;
    }
    Ok(())
}

/// Everything that a run needs.
struct ConnectTrials<'a> {
    bed: &'a Testbed,
    wirerate: PathBuf,
    folder: PathBuf,
    seconds: u64,
}

impl ConnectTrials<'_> {
    /// True if the programs of client and server are installed.
    fn is_present(&self, contender: &ConnectContender) -> bool {
        let server = match contender.server {
            Server::Nginx => find_tool("nginx").is_some(),
            Server::Nsd => find_tool("nsd").is_some(),
            Server::Accept | Server::AcceptHeld => true,
        };
        server && contender.tool.is_none_or(|tool| find_tool(tool).is_some())
    }

    /// Starts the server on the second CPU and the client on the first one. The work of both is
    /// that of one softirq if the server is `accept`: then they may use all CPUs.
    fn measure(&self, contender: &ConnectContender) -> Result<f64> {
        let stop = &self.bed.stop;
        let server = self.start_server(contender.server)?;
        stop.sleep(START)?;
        let words = self.words(contender);
        let program = match contender.tool {
            Some(tool) => find_tool(tool).context("it was there")?,
            None => self.wirerate.clone(),
        };
        let cpu = (!contender.server.is_ours()).then_some(0);
        let client = Tool::start_on(&program, &words, self.bed.tx().netns(), cpu)?;
        let end = client.wait(Duration::from_secs(self.seconds) + MORE, stop)?;
        server.stop(stop)?;
        rate_of(contender, &end.said)
    }

    fn start_server(&self, server: Server) -> Result<Tool> {
        let folder = self.folder.display();
        let (program, words) = match server {
            Server::Nginx => (find_tool("nginx").context("no nginx")?, format!("-c {folder}/nginx.conf")),
            Server::Nsd => (find_tool("nsd").context("no nsd")?, format!("-d -c {folder}/nsd.conf")),
            Server::Accept => (self.wirerate.clone(), format!("accept {} --quiet", self.bed.rx().ifname)),
            Server::AcceptHeld => {
                let held =
                    format!("accept {} --quiet --response-bytes 0 --close client", self.bed.rx().ifname);
                (self.wirerate.clone(), held)
            }
        };
        let second = if host::CpuList::allowed()?.contains(1) { 1 } else { 0 };
        let cpu = (!server.is_ours()).then_some(second);
        Tool::start_on(&program, &split(&words), self.bed.rx().netns(), cpu)
    }

    fn words(&self, contender: &ConnectContender) -> Vec<String> {
        let filled = contender
            .words
            .replace("SECONDS", &self.seconds.to_string())
            .replace("DIR", &self.folder.display().to_string());
        if contender.tool.is_some() {
            return split(&filled);
        }
        split(&format!(
            "connect {} --src {CLIENTS} --timeout 5s --json --quiet {filled}",
            self.bed.tx().ifname
        ))
    }
}

fn split(words: &str) -> Vec<String> {
    words.split_whitespace().map(|word| word.replace('~', " ")).collect()
}

/// The rate that a client has printed.
fn rate_of(contender: &ConnectContender, said: &str) -> Result<f64> {
    let number = |word: &str| {
        let line = said.lines().find(|line| line.trim_start().starts_with(word))?;
        line.split_whitespace().last()?.parse().ok()
    };
    let rate = match contender.tool {
        Some("wrk") => number("Requests/sec:"),
        Some(_) => number("Queries per second:"),
        None => find_json::<ConnectFigures>(said).map(|figures| match contender.figure {
            Figure::Connections => figures.rate_cps,
            Figure::Requests => figures.requests_ps,
            Figure::Held if figures.tried == figures.completed => figures.open_max,
            Figure::Held => 0.0,
        }),
    };
    match rate {
        Some(rate) => Ok(rate),
        None => bail!("{} printed no rate: {said}", contender.title),
    }
}

fn write_files(folder: &Path) -> Result<()> {
    let dir = folder.display();
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|name| format!("{name}_temp_path {dir}/{name};\n"))
        .collect();
    let nginx = format!(
        "worker_processes 1; worker_rlimit_nofile 20000; pid {dir}/nginx.pid; error_log {dir}/error.log;\n\
         daemon off; user root; events {{ worker_connections 19000; multi_accept on; }}\n\
         http {{ access_log off; keepalive_requests 1000000; {temporary}\n\
         server {{ listen 80 backlog=65535 reuseport; location = / {{ return 200 \"ok\\n\"; }} }} }}\n"
    );
    let nsd = format!(
        "server:\n  ip-address: 198.18.0.2\n  username: \"\"\n  database: \"\"\n  zonesdir: {dir}\n\
         \x20 pidfile: {dir}/nsd.pid\n  xfrdfile: {dir}/xfrd\n  xfrdir: {dir}\n  zonelistfile: {dir}/list\n\
         \x20 server-count: 1\n  rrl-ratelimit: 0\nremote-control:\n  control-enable: no\n\
         zone:\n  name: example.com\n  zonefile: zone\n"
    );
    let zone = "$ORIGIN example.com.\n$TTL 300\n@ IN SOA ns host 1 3600 600 86400 300\n@ IN NS ns\n\
                @ IN A 192.0.2.1\nns IN A 192.0.2.2\n";
    for (name, text) in
        [("nginx.conf", nginx.as_str()), ("nsd.conf", &nsd), ("zone", zone), ("queries", "example.com A\n")]
    {
        fs::write(folder.join(name), text)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_from_what_clients_print() {
        let rate = |index: usize, said: &str| rate_of(&CONTENDERS[index], said).ok();
        assert_eq!(
            rate(0, "  20 requests in 2s\nRequests/sec:  15241.54\nTransfer/sec: 2MB\n"),
            Some(15_241.54)
        );
        assert_eq!(rate(4, "Statistics:\n\n  Queries per second:   108213.574331\n"), Some(108_213.574_331));
        let json = "{\"schema\":\"wirerate.connect/1\",\"rate_cps\":5.5,\"requests_ps\":7.5,\
                    \"open_max\":9,\"tried\":9,\"completed\":9}\n";
        assert_eq!([1, 3, 7].map(|index| rate(index, json)), [Some(5.5), Some(7.5), Some(9.0)]);
        let failed = json.replace("\"completed\":9", "\"completed\":8");
        assert_eq!(rate(7, &failed), Some(0.0), "one was not closed");
        assert_eq!(rate(0, "unable to connect to 198.18.0.2:80 Connection refused\n"), None);
    }

    #[test]
    fn each_goal_is_against_a_contender_with_the_same_server() {
        for contender in &CONTENDERS {
            if let Some((other, _)) = contender.against {
                assert_eq!(CONTENDERS[other].server, contender.server);
                assert!(CONTENDERS[other].tool.is_some());
            }
        }
    }
}
