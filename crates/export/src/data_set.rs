//! The files of a data set while they are written: one part at a time for each device.

use super::source::Source;
use super::store::{Store, StoredFile};
use columns::{CapturedInterface, EncodeJob, EncodeQueue, Key, PacketRow, PartFile, ROWS_MAX, SourceFile};
use measure::LossRow;
use std::collections::BTreeMap;
use std::io;
use std::sync::mpsc::sync_channel;
use std::thread;

/// A part ends before it is longer than this.
const PART_LEN_MAX: u64 = 256_000_000;
/// A part has packets of at most this time.
const PART_NS_MAX: u64 = 60_000_000_000;
/// Packets of all devices that wait for the end of their row groups take at most this much memory.
const PENDING_LEN_MAX: u64 = 128 << 20;
/// Devices whose parts are written at the same time: each takes 2 MB of tables, and an open file.
const OPEN_PARTS_MAX: usize = 128;
/// Packets between two looks at that memory.
const LOOK_EVERY: u64 = 1024;
/// Jobs of the encoding thread that wait, at most: each has half a megabyte of packets.
const JOBS_MAX: usize = 4;

/// What became of the packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stored {
    /// Packets in complete files.
    pub(super) packets: u64,
    /// Complete files, those of losses included.
    pub(super) files: u64,
    /// Their length in bytes.
    pub(super) bytes: u64,
}

/// The files of a data set while they are written, one part per device.
pub(super) struct DataSet {
    store: Store,
    run: String,
    host: String,
    has_bytes: bool,
    devices: Vec<DeviceParts>,
    by_name: BTreeMap<String, usize>,
    /// Parts that are being written.
    open_parts: usize,
    /// Parts so far.
    parts: u64,
    pushed: u64,
    pub(super) stored: Stored,
    /// The files so far; the last one is being read.
    sources: Vec<Source>,
    /// A thread that encodes the bytes of packets.
    queue: EncodeQueue,
}

/// The part of one device that is being written.
struct DeviceParts {
    device: String,
    folder: String,
    /// `None` until it has a packet.
    part: Option<PartFile>,
    file: Option<StoredFile>,
    name: String,
    packets: u64,
    first_ns: u64,
    last_group_len: u64,
    interfaces: BTreeMap<u32, CapturedInterface>,
    /// Numbers of the files that its packets are from.
    sources: Vec<usize>,
}

/// A file could not be written.
#[derive(Debug, thiserror::Error)]
#[error("{place}")]
pub(super) struct StoreError {
    place: String,
    source: io::Error,
}

impl DataSet {
    /// A data set without packets.
    ///
    /// # Errors
    /// When the kernel refuses a thread.
    pub(super) fn new(store: Store, run: &str, host: &str, has_bytes: bool) -> io::Result<Self> {
        Ok(Self {
            store,
            run: run.to_owned(),
            host: host.to_owned(),
            has_bytes,
            devices: Vec::new(),
            by_name: BTreeMap::new(),
            open_parts: 0,
            parts: 0,
            pushed: 0,
            stored: Stored::default(),
            sources: Vec::new(),
            queue: encode_queue()?,
        })
    }

    /// Packets that follow are from this file.
    pub(super) fn begin_source(&mut self, source: Source) {
        self.sources.push(source);
    }

    /// The number of a device, for packets of one of its interfaces.
    pub(super) fn device(&mut self, name: &str, interface: CapturedInterface) -> Result<usize, StoreError> {
        let number = self.number_of(name);
        let known = self.devices[number].interfaces.get(&interface.number);
        if known.is_some_and(|known| *known != interface) {
            // Another file counts its interfaces differently.
            self.end_part(number)?;
            self.devices[number].interfaces.clear();
        }
        self.devices[number].interfaces.insert(interface.number, interface);
        Ok(number)
    }

    fn number_of(&mut self, device: &str) -> usize {
        if let Some(number) = self.by_name.get(device) {
            return *number;
        }
        let folder = columns::device_folder(&self.run, &self.host, device);
        self.devices.push(DeviceParts::new(device, folder));
        self.by_name.insert(device.to_owned(), self.devices.len() - 1);
        self.devices.len() - 1
    }

    /// Adds a packet of a device.
    pub(super) fn push(&mut self, device: usize, row: &PacketRow<'_>) -> Result<(), StoreError> {
        let end_ns = self.devices[device].first_ns.saturating_add(PART_NS_MAX);
        if self.devices[device].packets > 0 && row.time_ns.is_some_and(|time_ns| time_ns >= end_ns) {
            self.end_part(device)?;
        }
        if self.devices[device].part.is_none() {
            self.limit_parts()?;
            self.open_parts += 1;
        }
        let parts = &mut self.devices[device];
        let part =
            parts.part.get_or_insert_with(|| PartFile::with_queue(self.has_bytes, Some(self.queue.clone())));
        if parts.packets == 0 {
            // The parts of a device follow each other by their names.
            parts.first_ns = row.time_ns.unwrap_or(parts.first_ns);
            parts.name = format!("{}/{}", parts.folder, columns::part_name(parts.first_ns, self.parts));
            self.parts += 1;
        }
        let source = self.sources.len() - 1;
        if parts.sources.last() != Some(&source) {
            parts.sources.push(source);
        }
        part.push(row);
        parts.packets += 1;
        if part.rows() >= ROWS_MAX || part.pending_len() >= PENDING_LEN_MAX {
            self.end_group(device)?;
        }
        self.pushed += 1;
        if self.pushed.is_multiple_of(LOOK_EVERY) { self.limit_memory() } else { Ok(()) }
    }

    /// Ends all parts, and writes the losses of each device.
    pub(super) fn finish(&mut self, losses: &BTreeMap<String, Vec<LossRow>>) -> Result<(), StoreError> {
        // Devices without packets have losses, too.
        losses.keys().for_each(|device| {
            self.number_of(device);
        });
        let sources: Vec<SourceFile> = self.sources.iter_mut().map(Source::facts).collect();
        for number in 0..self.devices.len() {
            self.end_part(number)?;
            let parts = &self.devices[number];
            let interfaces: Vec<_> = parts.interfaces.values().cloned().collect();
            let keys = [Key::source(&sources), Key::interfaces(&interfaces)];
            let rows = losses.get(&parts.device).map_or(&[][..], Vec::as_slice);
            let rows: Vec<LossRow> =
                rows.iter().map(|row| LossRow { host: self.host.clone(), ..row.clone() }).collect();
            let name = format!("{}/{}", parts.folder, columns::loss_name(0));
            let bytes = columns::loss_file(&rows, &keys);
            let write = || -> io::Result<()> {
                let mut file = self.store.create(&name)?;
                file.write(&bytes)?;
                file.finish()
            };
            write().map_err(|source| self.failed(&name, source))?;
            self.stored.files += 1;
            self.stored.bytes += bytes.len() as u64;
        }
        Ok(())
    }

    /// Writes what has the most memory if all take too much.
    fn limit_memory(&mut self) -> Result<(), StoreError> {
        let is_too_much = |devices: &[DeviceParts]| {
            devices.iter().map(DeviceParts::pending_len).sum::<u64>() >= PENDING_LEN_MAX
        };
        let largest = (0..self.devices.len()).max_by_key(|number| self.devices[*number].pending_len());
        let Some(largest) = largest.filter(|_| is_too_much(&self.devices)) else { return Ok(()) };
        self.end_group(largest)?;
        // What waits for the next request of an upload is sent at the end of the part.
        if is_too_much(&self.devices) { self.end_part(largest) } else { Ok(()) }
    }

    /// Ends the part with the most packets if there are too many.
    fn limit_parts(&mut self) -> Result<(), StoreError> {
        if self.open_parts < OPEN_PARTS_MAX {
            return Ok(());
        }
        let longest = (0..self.devices.len()).max_by_key(|number| self.devices[*number].packets);
        longest.map_or(Ok(()), |longest| self.end_part(longest))
    }

    fn end_group(&mut self, device: usize) -> Result<(), StoreError> {
        let written = self.devices[device].write_group(&self.store);
        let is_long = written.map_err(|source| self.failed(&self.devices[device].name, source))?;
        if is_long { self.end_part(device) } else { Ok(()) }
    }

    fn end_part(&mut self, device: usize) -> Result<(), StoreError> {
        if self.devices[device].packets == 0 {
            return Ok(());
        }
        let numbers = std::mem::take(&mut self.devices[device].sources);
        let sources: Vec<SourceFile> =
            numbers.into_iter().map(|number| self.sources[number].facts()).collect();
        let written = self.devices[device].finish(&self.store, &sources);
        let len = written.map_err(|source| self.failed(&self.devices[device].name, source))?;
        self.open_parts -= 1;
        self.stored.packets += std::mem::take(&mut self.devices[device].packets);
        self.stored.files += 1;
        self.stored.bytes += len;
        Ok(())
    }

    fn failed(&self, name: &str, source: io::Error) -> StoreError {
        StoreError { place: self.store.place(name), source }
    }
}

/// Starts a thread that encodes; it ends with the last queue.
fn encode_queue() -> io::Result<EncodeQueue> {
    let (give, jobs) = sync_channel::<EncodeJob>(JOBS_MAX);
    let work = move || jobs.into_iter().for_each(|job| job());
    thread::Builder::new().name("encode".to_owned()).spawn(work)?;
    Ok(EncodeQueue::new(move |job| give.send(job).expect("the thread ends with the queue")))
}

impl DeviceParts {
    fn new(device: &str, folder: String) -> Self {
        Self {
            device: device.to_owned(),
            folder,
            part: None,
            file: None,
            name: String::new(),
            packets: 0,
            first_ns: 0,
            last_group_len: 0,
            interfaces: BTreeMap::new(),
            sources: Vec::new(),
        }
    }

    /// Bytes in memory that wait to be written.
    fn pending_len(&self) -> u64 {
        let part = self.part.as_ref().map_or(0, PartFile::pending_len);
        part + self.file.as_ref().map_or(0, StoredFile::waiting_len)
    }

    /// Writes the row group at hand. True if another one would make the part too long.
    fn write_group(&mut self, store: &Store) -> io::Result<bool> {
        let Some(part) = &mut self.part else { return Ok(false) };
        let Some(group) = part.end_row_group() else { return Ok(false) };
        if self.file.is_none() {
            let mut file = store.create(&self.name)?;
            file.write(PartFile::header())?;
            self.file = Some(file);
        }
        self.file.as_mut().expect("it was created").write(group.bytes())?;
        self.last_group_len = group.bytes().len() as u64;
        part.keep(group);
        Ok(part.len() + self.last_group_len > PART_LEN_MAX)
    }

    /// Completes the part; returns its length.
    fn finish(&mut self, store: &Store, sources: &[SourceFile]) -> io::Result<u64> {
        self.write_group(store)?;
        let interfaces: Vec<_> = self.interfaces.values().cloned().collect();
        let keys = [Key::source(sources), Key::interfaces(&interfaces)];
        let mut part = self.part.take().expect("a part with packets");
        let len = part.len();
        let footer = part.footer(&keys);
        let mut file = self.file.take().expect("a part with packets has a row group");
        file.write(&footer)?;
        file.finish()?;
        Ok(len + footer.len() as u64)
    }
}
