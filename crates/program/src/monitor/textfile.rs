//! `--metrics-file FILE`: the counters in a file for node_exporter's textfile collector.

use crate::outcome::Failure;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Time between two writes.
const PERIOD: Duration = Duration::from_secs(1);

/// Writes the file each second until it is dropped, and then once more.
#[derive(Debug)]
pub(super) struct TextFile {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl TextFile {
    /// Writes `text` to `path` for the first time.
    ///
    /// # Errors
    /// Bad usage for a name that node_exporter does not read; refused when it cannot be written.
    pub(super) fn start(path: &Path, text: impl Fn() -> String + Send + 'static) -> Result<Self, Failure> {
        let act = format!("write metrics to {}", path.display());
        if path.extension().is_none_or(|extension| extension != "prom") {
            let why = "node_exporter reads only files whose names end in .prom";
            return Err(Failure::usage(act, why).try_this(format!("--metrics-file {}.prom", path.display())));
        }
        write_whole(path, &text()).map_err(|why| Failure::refused(&act, why))?;
        let (end, ended) = channel();
        let path = path.to_owned();
        let write = move || {
            let mut has_failed = false;
            loop {
                let is_last = ended.recv_timeout(PERIOD) != Err(RecvTimeoutError::Timeout);
                if let Err(why) = write_whole(&path, &text()) {
                    // Once: a full disk would fail each second.
                    if !std::mem::replace(&mut has_failed, true) || is_last {
                        crate::note!("cannot write metrics to {}: {why}", path.display());
                    }
                }
                if is_last {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("metrics-file".to_owned()).spawn(write);
        let thread = thread.map_err(|why| Failure::refused(&act, why))?;
        Ok(Self { end: Some(end), thread: Some(thread) })
    }
}

impl Drop for TextFile {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // A panic was already printed.
            let _ = thread.join();
        }
    }
}

/// A reader finds the old text or the new one: the file gets its name when it is complete.
fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    // Without .prom at its end, so that it is not read.
    let mut part = path.as_os_str().to_owned();
    part.push(format!(".{}", std::process::id()));
    let part = PathBuf::from(part);
    let written = fs::write(&part, text).and_then(|()| fs::rename(&part, path));
    if written.is_err() {
        // It may not be there.
        let _ = fs::remove_file(&part);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    use testkit::Folder;

    #[test]
    fn a_reader_never_finds_half_a_file() {
        let folder = Folder::new("textfile");
        let path = PathBuf::from(folder.file("wirerate.prom"));
        let lines = |value: u64| format!("x {value}\n").repeat(2000);
        write_whole(&path, &lines(0)).unwrap();
        let (writer, target) = (path.clone(), lines);
        let written =
            thread::spawn(move || (1..300).try_for_each(|value| write_whole(&writer, &target(value))));
        while !written.is_finished() {
            let text = fs::read_to_string(&path).unwrap();
            let first = text.lines().next().unwrap_or_default();
            assert!(text == format!("{first}\n").repeat(2000), "{} bytes", text.len());
        }
        written.join().unwrap().unwrap();
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "no part is left");
    }

    #[test]
    fn the_last_text_is_in_the_file_after_the_end() {
        let folder = Folder::new("textfile-end");
        let path = PathBuf::from(folder.file("wirerate.prom"));
        let count = Arc::new(AtomicU64::new(1));
        let read = Arc::clone(&count);
        let file = TextFile::start(&path, move || read.load(Relaxed).to_string()).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "1");
        count.store(2, Relaxed);
        drop(file);
        assert_eq!(fs::read_to_string(&path).unwrap(), "2");
    }

    #[test]
    fn a_name_that_is_not_read_is_bad_usage() {
        let failure = TextFile::start(Path::new("/tmp/x.txt"), String::new).unwrap_err().to_string();
        assert!(failure.contains("end in .prom") && failure.contains("try: --metrics-file /tmp/x.txt.prom"));
        let failure = TextFile::start(Path::new("/nosuch/x.prom"), String::new).unwrap_err().to_string();
        assert!(failure.contains("cannot write metrics to /nosuch/x.prom: "), "{failure}");
    }
}
