//! All packets of a run: several files one after another or merged by time, in one or more loops.

use super::damage::Damages;
use super::input::{OtherFormat, file_len, is_stdin};
use super::losses::Losses;
use super::records::{FileRecords, OddPackets};
use program::console::Console;
use program::outcome::Failure;
use program::shell::shell_word;
use replay::{InterfaceChoice, Record};
use std::path::{Path, PathBuf};
use units::{human_duration, quantity_of};

/// What happens to frame check sequences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FcsPolicy {
    /// Those that the file declares are removed.
    #[default]
    Declared,
    /// The last 4 bytes are removed where none is declared, too.
    Strip,
    /// All bytes stay.
    Keep,
}

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
    /// The packet at hand is the first one of a file behind another one.
    begins_file: bool,
    /// What the first loop found in the files.
    facts: FileFindings,
    /// Losses of these interfaces count, or of all if there are none.
    loss_interfaces: Vec<InterfaceChoice>,
    fcs: FcsPolicy,
    console: Console,
    order: FileOrder,
}

/// What the files have beside packets.
#[derive(Debug, Default)]
struct FileFindings {
    damages: Damages,
    losses: Losses,
    odd: OddPackets,
    /// A file was opened.
    has_opened: bool,
    /// Why the first file of those that cannot be read was not.
    unreadable: Option<Failure>,
    /// A file describes an interface that was asked for.
    has_chosen_interface: bool,
}

/// How files are played.
#[derive(Clone, Debug, Default)]
pub struct PlaylistOptions {
    /// The command of the user up to the files, such as `replay eth1`.
    pub command: String,
    /// Packets of all files are merged by their times.
    pub merges: bool,
    /// Files are sorted by their first packets.
    pub sorts: bool,
    /// Loops over all files; 0 for no end.
    pub loops: u64,
    /// Losses of these interfaces count, or of all if there are none.
    pub loss_interfaces: Vec<InterfaceChoice>,
    /// What happens to frame check sequences.
    pub fcs: FcsPolicy,
    /// Where packets are counted in.
    pub console: Console,
}

/// What the next call of [`Playlist::advance`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Played {
    /// A packet, which [`Playlist::record`] has.
    Packet,
    /// The files begin again.
    NextLoop,
    /// The last packet of the last loop was read.
    End,
}

/// Borders between files that are named; the others are counted.
const BORDERS_SHOWN: usize = 3;

/// Finds files that begin before the file in front of them ends.
#[derive(Debug, Default)]
pub struct FileOrder {
    /// The file at hand and the latest time in it.
    file: Option<(PathBuf, u64)>,
    backwards: u64,
    /// The first of them in words.
    places: Vec<String>,
}

impl FileOrder {
    /// A packet of a file with its time.
    pub fn see(&mut self, file: &Path, time_ns: u64) {
        match &mut self.file {
            Some((before, last_ns)) if before.as_os_str() == file.as_os_str() => {
                *last_ns = time_ns.max(*last_ns)
            }
            Some((before, last_ns)) => {
                if time_ns < *last_ns {
                    self.backwards += 1;
                    if self.places.len() < BORDERS_SHOWN {
                        let gap = human_duration(*last_ns - time_ns);
                        let (before, file) = (before.display(), file.display());
                        self.places.push(format!("{file} begins {gap} before {before} ends"));
                    }
                }
                self.file = Some((file.to_owned(), time_ns));
            }
            None => self.file = Some((file.to_owned(), time_ns)),
        }
    }

    /// Notes for the user.
    pub fn notes(&self) -> Vec<String> {
        let Some((last, places)) = self.places.split_last() else { return Vec::new() };
        let others = self.backwards - self.places.len() as u64;
        let more = if others > 0 { format!("; {others} more files begin so") } else { String::new() };
        let last = format!("{last}{more}: --sort orders the files by their first packets");
        places.iter().cloned().chain([last]).collect()
    }
}

/// Notes about packets that the user may not expect.
pub fn odd_notes(counts: OddPackets) -> impl Iterator<Item = String> {
    let OddPackets { not_recorded, out_of_range, with_fcs, fcs_too_long } = counts;
    let notes = [
        (not_recorded, "without a time in the file"),
        (out_of_range, "with a time before 1970 or after 2554, which counts as no time"),
        (with_fcs, "with a frame check sequence, which is not part of the frame"),
        (fcs_too_long, "not longer than the frame check sequence that the file declares, so left as it is"),
    ];
    let notes = notes.into_iter().filter(|(count, _)| *count > 0);
    notes.map(|(count, what)| format!("{} {what}", quantity_of(count, "packet")))
}

/// Sorts files by the times of their first packets; files without one come last.
///
/// # Errors
/// Bad usage for standard input and pipes, which cannot be read twice.
pub fn sort_by_first_packets(files: &mut [PathBuf]) -> Result<(), Failure> {
    const ACT: &str = "sort the files";
    refuse_stdin(files, ACT)?;
    if let Some(pipe) = files.iter().find(|file| file.exists() && !file.is_file()) {
        let why = format!("{} is no regular file and cannot be read again", pipe.display());
        return Err(Failure::usage(ACT, why));
    }
    files.sort_by_cached_key(|file| {
        // Its packets are counted when they are played.
        let mut records = FileRecords::open(file, &Console::default()).ok()?;
        let mut time_ns = None;
        while time_ns.is_none() && records.advance() {
            time_ns = records.record(0).time_ns;
        }
        Some(time_ns.unwrap_or(u64::MAX))
    });
    // Files that cannot be opened are first here; the error says so.
    Ok(())
}

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
    /// Opens the first file, or all to be merged.
    ///
    /// # Errors
    /// Refused when a file cannot be opened; bad usage for several loops of standard input.
    pub fn open(mut files: Vec<PathBuf>, options: PlaylistOptions) -> Result<Self, Failure> {
        let PlaylistOptions { command, merges, sorts, loops, loss_interfaces, fcs, console } = options;
        if loops != 1 {
            refuse_stdin(&files, "send standard input several times")?;
        }
        // A file that is missing is reported before the first frame is sent, not after hours.
        for file in files.iter().filter(|file| !is_stdin(file)) {
            std::fs::metadata(file).map_err(|why| Failure::read(file, why))?;
        }
        if sorts {
            sort_by_first_packets(&mut files)?;
        }
        let file_lens = files.iter().map(|file| file_len(file)).collect();
        let mut playlist = Self {
            file_lens,
            files,
            command,
            merges,
            loops_left: loops.checked_sub(1),
            loops_done: 0,
            open: Vec::new(),
            next_file: 0,
            current: None,
            number: 0,
            begins_file: false,
            facts: FileFindings::default(),
            loss_interfaces,
            fcs,
            console,
            order: FileOrder::default(),
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

    /// The damaged places of the files.
    pub fn damages(&self) -> &Damages {
        &self.facts.damages
    }

    /// What the captures lost, as far as the files say.
    pub fn take_losses(&mut self) -> Losses {
        std::mem::take(&mut self.facts.losses)
    }

    /// True if a file describes an interface whose losses count, also without a packet.
    pub fn has_chosen_interface(&self) -> bool {
        self.facts.has_chosen_interface
    }

    /// Notes about the files, such as times that run backwards.
    pub fn notes(&self) -> Vec<String> {
        self.order.notes().into_iter().chain(odd_notes(self.facts.odd)).collect()
    }

    /// True if the packet at hand is the first one of a file that follows another one in this loop.
    pub fn begins_file(&self) -> bool {
        self.begins_file
    }

    /// The file of the packet at hand.
    ///
    /// # Panics
    /// Unless the last call of [`Playlist::advance`] gave [`Played::Packet`].
    pub fn path(&self) -> &Path {
        self.open[self.current.expect("there is a packet at hand")].path()
    }

    /// The packet at hand.
    ///
    /// # Panics
    /// Unless the last call of [`Playlist::advance`] gave [`Played::Packet`].
    #[inline]
    pub fn record(&self) -> Record<'_> {
        record_of(&self.open[self.current.expect("there is a packet at hand")], self.number, self.fcs)
    }

    /// The bytes of the packet at hand without its frame check sequence.
    ///
    /// # Panics
    /// Unless the last call of [`Playlist::advance`] gave [`Played::Packet`].
    #[inline]
    pub fn frame(&self) -> &[u8] {
        self.open[self.current.expect("there is a packet at hand")].frame()
    }

    /// Reads on.
    ///
    /// # Errors
    /// Refused when a file cannot be opened.
    pub fn advance(&mut self) -> Result<Played, Failure> {
        if let Some(current) = self.current.take() {
            self.begins_file = false;
            if self.merges {
                self.step(current);
            }
        }
        loop {
            if self.merges {
                let earliest = (0..self.open.len()).min_by_key(|place| self.open[*place].order_ns());
                match earliest {
                    Some(place) => return Ok(self.found(place)),
                    None => return self.end_loop(),
                }
            }
            if self.open.is_empty() {
                self.begins_file = self.next_file > 0;
                if !self.open_next()? {
                    return self.end_loop();
                }
            }
            if self.step(0) {
                return Ok(self.found(0));
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
        if self.loops_done > 0 {
            return Played::Packet;
        }
        let file = &self.open[place];
        if let Some(time_ns) = file.time_ns()
            && !self.merges
        {
            self.order.see(file.path(), time_ns);
        }
        if let Some(drop_count) = file.extras().drop_count
            && is_chosen(&self.loss_interfaces, |choice| choice.is_of(&file.record(self.number)))
        {
            let device = file.interface().and_then(|interface| interface.device()).unwrap_or_default();
            let device = self.facts.losses.device(device);
            self.facts.losses.packet(device, file.time_ns(), Some(drop_count));
        }
        Played::Packet
    }

    /// Reads the next packet of an open file; closes it at its end, and returns false then.
    fn step(&mut self, place: usize) -> bool {
        let is_packet = self.open[place].advance();
        if !is_packet {
            let file = self.open.remove(place);
            self.conclude(file);
        }
        is_packet
    }

    /// Keeps what the first loop found in a file.
    fn conclude(&mut self, mut file: FileRecords) {
        if self.loops_done > 0 {
            return;
        }
        let facts = &mut self.facts;
        facts.damages.merge(file.take_damages());
        facts.odd.add(odd_of(&file, self.fcs));
        facts.has_chosen_interface |= (0..).zip(file.interfaces()).any(|(number, interface)| {
            is_chosen(&self.loss_interfaces, |choice| choice.is_named(number, interface.name.as_deref()))
        });
        for found in file.statistics() {
            let name = found.interface.name.as_deref();
            if is_chosen(&self.loss_interfaces, |choice| choice.is_named(found.number, name)) {
                let device = found.interface.device().unwrap_or_default();
                facts.losses.statistics(device, found);
            }
        }
        facts.losses.end_file();
    }

    /// Keeps what was found in the files that are read when the user ends the run.
    pub fn stop(&mut self) {
        self.current = None;
        while let Some(file) = self.open.pop() {
            self.conclude(file);
        }
    }

    fn open_next(&mut self) -> Result<bool, Failure> {
        while let Some(path) = self.files.get(self.next_file) {
            self.next_file += 1;
            match FileRecords::open(path, &self.console) {
                Ok(mut opened) => {
                    opened.set_number(self.next_file - 1);
                    self.open.push(opened);
                    self.facts.has_opened = true;
                    return Ok(true);
                }
                // A file that cannot be read takes nothing from the others.
                Err(why) if self.loops_done == 0 => {
                    self.facts.damages.add("rest_of_file", || unread(path, &why, &self.command));
                    let failure = || Some(unreadable(path, why, &self.command));
                    self.facts.unreadable = self.facts.unreadable.take().or_else(failure);
                }
                Err(_) => {}
            }
        }
        match self.facts.unreadable.take().filter(|_| !self.facts.has_opened) {
            Some(failure) => Err(failure),
            None => Ok(false),
        }
    }

    fn start_loop(&mut self) -> Result<(), Failure> {
        (self.next_file, self.number, self.current, self.begins_file) = (0, 0, None, false);
        self.open.clear();
        if !self.merges {
            return self.open_next().map(drop);
        }
        while self.open_next()? {}
        // Each file needs its first packet to be compared.
        for place in (0..self.open.len()).rev() {
            self.step(place);
        }
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

/// The odd packets of a file so far; those with a frame check sequence only if it is removed.
pub fn odd_of(file: &FileRecords, fcs: FcsPolicy) -> OddPackets {
    match fcs {
        FcsPolicy::Keep => OddPackets { with_fcs: 0, fcs_too_long: 0, ..file.odd_packets() },
        FcsPolicy::Strip | FcsPolicy::Declared => file.odd_packets(),
    }
}

/// Bytes of a frame check sequence that no file declares.
const FCS_LEN: u8 = 4;

/// The packet at hand of a file, as number `number` of the loop, without the frame check sequences
/// that are to be removed.
pub fn record_of(file: &FileRecords, number: u64, fcs: FcsPolicy) -> Record<'_> {
    match fcs {
        FcsPolicy::Keep => file.record_with_fcs(number),
        FcsPolicy::Strip if file.extras().fcs_len == 0 => file.record_without_fcs(number, FCS_LEN),
        FcsPolicy::Strip | FcsPolicy::Declared => file.record(number),
    }
}

/// True if one of the interfaces is chosen, or none is.
fn is_chosen(interfaces: &[InterfaceChoice], is_of: impl Fn(&InterfaceChoice) -> bool) -> bool {
    interfaces.is_empty() || interfaces.iter().any(is_of)
}

/// Opens a capture file, whose packets are counted in at `console`. `command` is that of the user
/// up to the files.
///
/// # Errors
/// Refused when it cannot be opened or is no capture file.
pub fn open_records(path: &Path, command: &str, console: &Console) -> Result<FileRecords, Failure> {
    FileRecords::open(path, console).map_err(|why| unreadable(path, why, command))
}

/// One of several files that cannot be read, for a line of damages; with the command that reads it
/// if there is one.
pub fn unread(path: &Path, why: &anyhow::Error, command: &str) -> String {
    let unpack = why.downcast_ref::<OtherFormat>().map(|other| other.advice(path, command));
    let unpack = unpack.map(|unpack| format!("; try: {unpack}")).unwrap_or_default();
    format!("{}: {why:#}{unpack}", path.display())
}

/// A capture file cannot be read; the advice names the command that reads it.
pub fn unreadable(path: &Path, why: anyhow::Error, command: &str) -> Failure {
    let unpack = why.downcast_ref::<OtherFormat>().map(|other| other.advice(path, command));
    let failure = Failure::read(path, why);
    let (is_folder, is_stdin) = (path.is_dir(), is_stdin(path));
    let path = shell_word(path);
    match unpack {
        Some(unpack) => failure.try_this(unpack),
        None if is_folder => {
            failure.try_this(format!("wirerate {command} {path}/*, for all files of the folder"))
        }
        None if failure.has_advice() => failure,
        None if is_stdin => failure.try_this(format!(
            "a program that writes pcap or pcapng, also compressed: tcpdump -w - | wirerate {command} -"
        )),
        None => failure
            .try_this(format!("pcap and pcapng files, also compressed; `file {path}` shows what it is"))
            .try_this(format!("editcap -F pcapng {path} NEW.pcapng, if Wireshark reads it")),
    }
}
