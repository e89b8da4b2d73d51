//! A running generator: one process, or one per CPU if the tool uses only one CPU.

use crate::generators::{Contender, SendJob, Viewer};
use crate::page::Reader;
use crate::process::{Tool, ToolEnd};
use crate::samples::CounterSample;
use crate::stop::StopFlag;
use crate::testbed::Testbed;
use anyhow::{Context, Result, bail, ensure};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a tool may take to its first frame, and to send the frames of its proof.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// All processes of a generator. Dropping it kills them.
#[derive(Debug)]
pub(crate) struct Running {
    contender: Contender,
    tools: Vec<Tool>,
    readers: Vec<Reader>,
}

impl Running {
    /// Starts `program` as `contender`. Where it takes several processes, they share the count.
    pub(crate) fn start(program: &Path, contender: &Contender, job: &SendJob<'_>) -> Result<Self> {
        let jobs = if contender.tool.is_single { split(job) } else { vec![*job] };
        let start_tool = match contender.tool.viewer {
            Viewer::Terminal => Tool::start_on_terminal,
            Viewer::None | Viewer::Page | Viewer::Scraper => Tool::start,
        };
        let start = |job: &SendJob<'_>| {
            let cpu = *job.cpus.first().context("a generator without a CPU")?;
            start_tool(program, &(contender.tool.words)(job), job.end.netns(), cpu)
        };
        let tools = jobs.iter().map(start).collect::<Result<_>>()?;
        Ok(Self { contender: contender.clone(), tools, readers: Vec::new() })
    }

    /// Waits for the first frame after `before`, and reads what has a page or metrics.
    pub(crate) fn until_frames_come(&mut self, bed: &Testbed, before: CounterSample) -> Result<()> {
        let deadline = Instant::now() + TIMEOUT;
        while bed.sample()?.frames == before.frames {
            if self.has_ended()? || Instant::now() >= deadline {
                bail!("no frame of it arrived; it said: {}", self.last_words());
            }
            bed.stop.sleep(LOOK_EVERY)?;
        }
        for tool in &self.tools {
            self.readers.extend(Reader::of(self.contender.tool.viewer, tool, bed)?);
        }
        Ok(())
    }

    /// Fails unless all of it still runs.
    pub(crate) fn still_runs(&self) -> Result<()> {
        ensure!(!self.has_ended()?, "it ended before it was asked to: {}", self.last_words());
        Ok(())
    }

    /// Resident memory at its highest, in bytes.
    pub(crate) fn memory_peak_bytes(&self) -> Result<u64> {
        self.tools.iter().map(Tool::memory_peak_bytes).sum()
    }

    /// Interrupts it and waits for its end, which has to be a good one.
    pub(crate) fn stop(self, stop: &StopFlag) -> Result<ToolEnd> {
        self.interrupt();
        self.stopped(stop)
    }

    /// Asks it to end, as Ctrl-C does.
    pub(crate) fn interrupt(&self) {
        self.tools.iter().for_each(Tool::interrupt);
    }

    /// Waits for the end of what was interrupted, which has to be a good one.
    pub(crate) fn stopped(self, stop: &StopFlag) -> Result<ToolEnd> {
        let status = self.contender.tool.status_interrupted;
        self.end(stop, |ended| ended.is_good() || ended.status.code() == Some(status))
    }

    /// Waits for its end, which has to be a good one. Times and words are those of all processes.
    pub(crate) fn wait(self, stop: &StopFlag) -> Result<ToolEnd> {
        self.end(stop, ToolEnd::is_good)
    }

    fn end(self, stop: &StopFlag, is_good: impl Fn(&ToolEnd) -> bool) -> Result<ToolEnd> {
        let mut whole: Option<ToolEnd> = None;
        for tool in self.tools {
            let ended = tool.wait(TIMEOUT, stop)?;
            let name = &self.contender.name;
            ensure!(is_good(&ended), "{name} ended with {}: {}", ended.status, ended.said.trim());
            whole = Some(match whole {
                None => ended,
                Some(all) => ToolEnd {
                    cpu_ns: all.cpu_ns + ended.cpu_ns,
                    file_bytes: all.file_bytes + ended.file_bytes,
                    said: all.said + &ended.said,
                    status: ended.status,
                },
            });
        }
        self.readers.into_iter().try_for_each(Reader::close)?;
        whole.context("a generator without a process")
    }

    fn has_ended(&self) -> Result<bool> {
        for tool in &self.tools {
            if tool.has_ended()? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// What it has said, for an error that ends its story.
    pub(crate) fn last_words(&self) -> String {
        self.tools.iter().map(Tool::last_words).collect::<Vec<_>>().join("\n")
    }
}

/// One job a CPU; the first ones take what does not divide.
fn split<'a>(job: &SendJob<'a>) -> Vec<SendJob<'a>> {
    let parts = job.cpus.len() as u64;
    let part = |(index, cpu): (usize, &'a u32)| {
        let count = job.count / parts + u64::from((index as u64) < job.count % parts);
        SendJob { cpus: std::slice::from_ref(cpu), count, ..*job }
    };
    job.cpus.iter().enumerate().map(part).collect()
}
