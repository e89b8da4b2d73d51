//! All packets of a run: several files one after another or merged by time, in one or more loops.

use super::input::{OtherFormat, file_len, is_stdin};
use super::records::{Advance, FileRecords};
use crate::outcome::Failure;
use replay::Record;
use std::path::{Path, PathBuf};

/// The files of a run, from the first packet on.
pub struct Playlist {
    files: Vec<PathBuf>,
    /// The command with what stands before the files, for messages.
    command: String,
    merges: bool,
    /// Loops left after this one; `None` for no end.
    loops_left: Option<u64>,
    loops_done: u64,
    /// The files at hand: one, or all that are merged and not over.
    open: Vec<FileRecords>,
    /// Number of the next file to open.
    next_file: usize,
    /// Length of each file in bytes; nothing if one of them is a stream.
    file_lens: Option<Vec<u64>>,
    /// Place in `open` of the file of the packet at hand.
    current: Option<usize>,
    /// Packets of this loop.
    number: u64,
    /// What is wrong with the files, each once.
    troubles: Vec<String>,
    /// Files that ended before their end.
    broken: u64,
}

/// What the next call of [`Playlist::advance`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Played {
    /// A packet, which [`Playlist::record`] has.
    Packet,
    /// A packet that cannot be read.
    Damaged,
    /// The files begin again.
    NextLoop,
    /// The last packet of the last loop was read.
    End,
}

/// Troubles beyond this number are counted only.
const TROUBLES_MAX: usize = 5;

/// Refuses to read standard input twice.
///
/// # Errors
/// Bad usage, if it is one of the files.
pub fn refuse_stdin(files: &[PathBuf], act: &str) -> Result<(), Failure> {
    if !files.iter().any(|file| is_stdin(file)) {
        return Ok(());
    }
    let why = "it cannot be read again";
    Err(Failure::usage(act, why).try_this("write it to a file first: cat > FILE"))
}

impl Playlist {
    /// Opens the first file, or all to be merged. `loops` 0 has no end. `command` is that of the
    /// user up to the files, such as `replay eth1`.
    ///
    /// # Errors
    /// Refused when a file cannot be opened; bad usage for several loops of standard input.
    pub fn open(files: Vec<PathBuf>, command: &str, merges: bool, loops: u64) -> Result<Self, Failure> {
        if loops != 1 {
            refuse_stdin(&files, "send standard input several times")?;
        }
        // A file that is missing is reported before the first frame is sent, not after hours.
        for file in files.iter().filter(|file| !is_stdin(file)) {
            std::fs::metadata(file).map_err(|why| Failure::read(file, why))?;
        }
        let file_lens = files.iter().map(|file| file_len(file)).collect();
        let mut playlist = Self {
            file_lens,
            files,
            command: command.to_owned(),
            merges,
            loops_left: loops.checked_sub(1),
            loops_done: 0,
            open: Vec::new(),
            next_file: 0,
            current: None,
            number: 0,
            troubles: Vec::new(),
            broken: 0,
        };
        playlist.start_loop()?;
        Ok(playlist)
    }

    /// Loops that are complete.
    pub fn loops_done(&self) -> u64 {
        self.loops_done
    }

    /// The part of the files that was read in this loop; nothing for streams.
    pub fn position(&self) -> Option<f64> {
        let lens = self.file_lens.as_ref()?;
        let opened: u64 = lens.iter().take(self.next_file).sum();
        let left: Option<u64> = self.open.iter().map(FileRecords::bytes_left).sum();
        let all: u64 = lens.iter().sum();
        (all > 0).then_some(opened.saturating_sub(left?) as f64 / all as f64)
    }

    /// What is wrong with the files.
    pub fn troubles(&self) -> &[String] {
        &self.troubles
    }

    /// True if a file ended before its end or has damaged blocks.
    pub fn is_damaged(&self) -> bool {
        !self.troubles.is_empty()
    }

    /// The packet at hand.
    ///
    /// # Panics
    /// Unless the last call of [`Playlist::advance`] gave [`Played::Packet`].
    pub fn record(&self) -> Record<'_> {
        self.open[self.current.expect("there is a packet at hand")].record(self.number)
    }

    /// Reads on.
    ///
    /// # Errors
    /// Refused when a file cannot be opened.
    pub fn advance(&mut self) -> Result<Played, Failure> {
        loop {
            if let Some(current) = self.current.take()
                && self.merges
                && !self.step(current)
            {
                return Ok(Played::Damaged);
            }
            if self.merges {
                let earliest = (0..self.open.len()).min_by_key(|place| self.open[*place].time_ns());
                match earliest {
                    Some(place) => return Ok(self.found(place)),
                    None => return self.end_loop(),
                }
            }
            if self.open.is_empty() && !self.open_next()? {
                return self.end_loop();
            }
            match self.open[0].advance() {
                Advance::Packet => return Ok(self.found(0)),
                Advance::End => self.open.clear(),
                Advance::Damaged(why) => {
                    self.note(why);
                    return Ok(Played::Damaged);
                }
                Advance::Broken(why) => {
                    self.broken += 1;
                    self.note(why);
                    self.open.clear();
                }
            }
        }
    }

    /// Counts a loop that the caller played without the files.
    pub fn repeat(&mut self) -> Played {
        self.loops_done += 1;
        if self.loops_left == Some(0) {
            return Played::End;
        }
        self.loops_left = self.loops_left.map(|left| left - 1);
        Played::NextLoop
    }

    /// Loops left from the present one on; nothing without an end.
    pub fn loops_to_come(&self) -> Option<u64> {
        self.loops_left.map(|left| left + 1)
    }

    /// Counts loops that the caller played without the files, after the start of a loop.
    pub fn skip_loops(&mut self, loops: u64) {
        self.loops_done += loops;
        self.loops_left = self.loops_left.map(|left| left.saturating_sub(loops));
    }

    fn found(&mut self, place: usize) -> Played {
        self.current = Some(place);
        self.number += 1;
        Played::Packet
    }

    /// Reads the next packet of one of the merged files, which is closed at its end; false for a
    /// damaged block.
    fn step(&mut self, place: usize) -> bool {
        match self.open[place].advance() {
            Advance::Packet => true,
            Advance::End => {
                self.open.remove(place);
                true
            }
            Advance::Damaged(why) => {
                self.note(why);
                self.current = Some(place);
                false
            }
            Advance::Broken(why) => {
                self.broken += 1;
                self.note(why);
                self.open.remove(place);
                true
            }
        }
    }

    fn note(&mut self, why: String) {
        if self.troubles.len() < TROUBLES_MAX && !self.troubles.contains(&why) {
            self.troubles.push(why);
        }
    }

    fn open_next(&mut self) -> Result<bool, Failure> {
        let Some(path) = self.files.get(self.next_file) else { return Ok(false) };
        self.next_file += 1;
        let opened = open_records(path, &self.command)?;
        self.open.push(opened);
        Ok(true)
    }

    fn start_loop(&mut self) -> Result<(), Failure> {
        (self.next_file, self.number, self.current) = (0, 0, None);
        self.open.clear();
        if !self.merges {
            return self.open_next().map(drop);
        }
        while self.open_next()? {}
        // Each file needs its first packet to be compared.
        for place in (0..self.open.len()).rev() {
            while !self.step(place) {}
        }
        self.current = None;
        Ok(())
    }

    fn end_loop(&mut self) -> Result<Played, Failure> {
        let next = self.repeat();
        if next == Played::NextLoop {
            self.start_loop()?;
        }
        Ok(next)
    }
}

/// Opens a capture file. `command` is that of the user up to the files.
///
/// # Errors
/// Refused when it cannot be opened or is no capture file.
pub fn open_records(path: &Path, command: &str) -> Result<FileRecords, Failure> {
    FileRecords::open(path).map_err(|why| unreadable(path, why, command))
}

/// A capture file cannot be read; the advice names the command that reads it.
pub fn unreadable(path: &Path, why: anyhow::Error, command: &str) -> Failure {
    let unpack = why.downcast_ref::<OtherFormat>().map(|other| other.advice(path, command));
    let failure = Failure::read(path, why);
    let path = path.display();
    match unpack {
        Some(unpack) => failure.try_this(unpack),
        None if failure.has_advice() => failure,
        None => failure
            .try_this(format!("pcap and pcapng files, also compressed; `file {path}` shows what it is"))
            .try_this(format!("editcap -F pcapng {path} NEW.pcapng, if Wireshark reads it")),
    }
}
