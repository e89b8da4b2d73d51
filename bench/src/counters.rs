//! What a frame takes with all that the kernel does for it: counters of the processor, which `perf stat` reads on the
//! sender's CPU while an engine sends. Many virtual machines have none.

use crate::bed::Bed;
use crate::generators::{Contender, Job};
use crate::process::find_tool;
use crate::running::Running;
use crate::samples::rate_pps;
use crate::stop::Stop;
use crate::tool::GENERATOR_CPU;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Those that are counted.
const ENGINES: [&str; 4] = ["xdp", "skb", "af_packet", "af_xdp"];
const FRAME_LEN: usize = 60;
/// From the first frame to the first number.
const SETTLE: Duration = Duration::from_millis(50);
const WINDOW: Duration = Duration::from_millis(500);
/// Long enough to learn whether there is such a counter.
const PROBE: Duration = Duration::from_millis(10);

/// What an engine took.
#[derive(Debug)]
pub(crate) struct Counted {
    /// `send/xdp` and so on.
    pub(crate) work: String,
    /// Instructions, or what else the event counts, for each frame at the receiver.
    pub(crate) per_frame: f64,
}

/// Counts `event` for each frame of every engine; `Err` says in words why there is nothing to count with.
///
/// # Errors
/// When counting breaks down half way.
pub(crate) fn count(event: &str, wirerate: &Path) -> Result<Result<Vec<Counted>, String>> {
    let Some(perf) = find_tool("perf") else {
        return Ok(Err("perf is not installed; tools/install.sh bench does that".to_owned()));
    };
    let perf = Perf { program: perf, event };
    if perf.per_second(PROBE)?.is_none() {
        return Ok(Err(format!("this machine has no counter of {event}, says perf stat")));
    }
    let bed = Bed::new(GENERATOR_CPU, Stop::on_signals()?, None)?;
    let _sink = bed.sink()?;
    let measure = |engine: &&str| {
        let per_frame = measure(&bed, &perf, &Contender::of(engine)?, wirerate);
        let per_frame = per_frame.with_context(|| format!("cannot measure {engine}"))?;
        Ok(Counted { work: format!("send/{engine}"), per_frame })
    };
    ENGINES.iter().map(measure).collect::<Result<_>>().map(Ok)
}

fn measure(bed: &Bed, perf: &Perf<'_>, contender: &Contender, wirerate: &Path) -> Result<f64> {
    let before = bed.settled()?;
    let cpus = [bed.generator_cpu];
    let job = Job { count: contender.tool.plenty, ..Job::plain(bed.tx(), &cpus, FRAME_LEN) };
    let running = Running::start(wirerate, contender, &job)?;
    running.until_frames_come(bed, before)?;
    bed.stop.sleep(SETTLE)?;
    let from = bed.sample()?;
    let per_second = perf.per_second(WINDOW)?.context("the counter is gone")?;
    let to = bed.sample()?;
    running.still_runs()?;
    running.stop(&bed.stop)?;
    Ok(per_second / rate_pps(from, to).context("no time passed")?)
}

/// perf(1) and what it is to count.
struct Perf<'a> {
    program: PathBuf,
    event: &'a str,
}

impl Perf<'_> {
    /// Events a second on the sender's CPU, of programs and of the kernel; `None` without such a counter.
    fn per_second(&self, time: Duration) -> Result<Option<f64>> {
        let (cpu, time) = (GENERATOR_CPU.to_string(), time.as_secs_f64().to_string());
        let output = Command::new(&self.program)
            .args(["stat", "-C", &cpu, "-e", self.event, "-x", ",", "--", "sleep", &time])
            .env("LC_ALL", "C")
            .output()
            .context("cannot run perf")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "perf stat ended with {}: {}", output.status, said.trim());
        parse(&said).with_context(|| format!("perf stat says {said:?}"))
    }
}

/// A line of `perf stat -x ,`: value, unit, event, nanoseconds that were counted, and more.
fn parse(said: &str) -> Option<Option<f64>> {
    let fields: Vec<&str> =
        said.lines().map(|line| line.split(',').collect()).find(|fields: &Vec<_>| fields.len() > 3)?;
    if fields[0].starts_with('<') {
        return Some(None);
    }
    let (value, time_ns) = (fields[0].parse::<f64>().ok()?, fields[3].parse::<f64>().ok()?);
    (time_ns > 0.0).then(|| Some(value * 1e9 / time_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_perf_stat_are_rates() {
        let line = "2000000,,instructions,500000000,100.00,0.53,insn per cycle\n";
        assert_eq!(parse(line), Some(Some(4e6)));
        assert_eq!(parse("<not supported>,,instructions,0,100.00,,\n"), Some(None));
        assert_eq!(parse("<not counted>,,instructions,0,0.00,,\n"), Some(None));
        assert_eq!(parse(&format!("words of warning\n{line}")), Some(Some(4e6)));
        for strange in ["", "words", "1,2", "x,,instructions,7,,\n", "1,,instructions,0,,\n"] {
            assert_eq!(parse(strange), None, "{strange}");
        }
    }
}
