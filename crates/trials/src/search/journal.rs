//! The trials of `--resume DIR`: each finished trial is a line of `DIR/trials.jsonl`. Searches
//! follow from their results alone, so earlier results lead to the trial that comes next. What was
//! measured is in `DIR/measurement.txt`: results of other devices or frames are no results here.

use program::outcome::Failure;
use search::record::{ResultLine, TrafficShape, TrialRecord};
use search::{TrialRequest, TrialResult};
use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Trials of an interrupted measurement, and the file for the new ones.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    earlier: VecDeque<TrialRecord>,
    file: File,
}

impl Journal {
    /// Reads the trials of the folder, or makes it. `measurement` says what is measured.
    ///
    /// # Errors
    /// A folder that cannot be written, one of another measurement, or a file with other lines.
    pub(super) fn open(folder: &Path, measurement: &str) -> Result<Self, Failure> {
        let path = folder.join("trials.jsonl");
        let failed = |error| Failure::refused(format!("resume in {}", folder.display()), error);
        fs::create_dir_all(folder).map_err(failed)?;
        let what = folder.join("measurement.txt");
        match fs::read_to_string(&what) {
            Ok(text) if text != measurement => {
                let why = format!(
                    "its trials are those of another measurement:\n{text}this one is:\n{measurement}"
                );
                let act = format!("resume from {}", what.display());
                return Err(Failure::usage(act, why.trim_end())
                    .try_this(format!("--resume {}-new", folder.display())));
            }
            Ok(_) => {}
            Err(why) if why.kind() == io::ErrorKind::NotFound => {
                fs::write(&what, measurement).map_err(failed)?
            }
            Err(why) => return Err(failed(why)),
        }
        let text = if path.exists() { fs::read_to_string(&path).map_err(failed)? } else { String::new() };
        // A trial whose line was cut off by the interruption is repeated.
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let file = OpenOptions::new().create(true).append(true).open(&path).map_err(failed)?;
        file.set_len(whole as u64).map_err(failed)?;
        let earlier = text[..whole].lines().map(|line| record(&path, line)).collect::<Result<_, _>>()?;
        Ok(Self { path, earlier, file })
    }

    /// The result of this trial from before the interruption; `None` when there are no more.
    ///
    /// # Errors
    /// The next trial of the file is another one: it belongs to another measurement.
    pub(super) fn take(
        &mut self,
        shape: &TrafficShape,
        request: &TrialRequest,
    ) -> Result<Option<TrialResult>, Failure> {
        let Some(next) = self.earlier.pop_front() else { return Ok(None) };
        if next.shape == *shape && next.request == *request {
            return Ok(Some(next.result));
        }
        let why = format!("trial {} is not of this measurement", next.number);
        let folder = self.path.parent().unwrap_or(&self.path).display();
        Err(Failure::usage(format!("resume from {}", self.path.display()), why)
            .try_this(format!("--resume {folder}-new")))
    }

    /// Adds a trial.
    ///
    /// # Errors
    /// A full disk.
    pub(super) fn add(&mut self, line: &str) -> Result<(), Failure> {
        let failed = |error| Failure::refused(format!("write {}", self.path.display()), error);
        self.file.write_all(line.as_bytes()).and_then(|()| self.file.sync_data()).map_err(failed)
    }
}

fn record(path: &Path, line: &str) -> Result<TrialRecord, Failure> {
    match serde_json::from_str(line) {
        Ok(ResultLine::Trial(trial)) => Ok(*trial),
        Ok(_) => Err("a line is not a trial".to_owned()),
        Err(error) => Err(error.to_string()),
    }
    .map_err(|why| Failure::usage(format!("resume from {}", path.display()), why))
}
