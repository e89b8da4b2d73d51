//! A regular file that grows: space is allocated ahead of writes, and writes may bypass the page
//! cache.
//!
//! Allocated space is never part of the file: its length is that of the written bytes at any
//! moment, so a program that is killed leaves no zeros after the last record. Direct writes
//! (O_DIRECT) consist of whole pages; the rest of the last page waits here for more bytes and is
//! written through the page cache if none come. Its space is already allocated, so a full disk
//! cannot refuse it.

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, OFlag, fallocate};
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::statfs::{TMPFS_MAGIC, fstatfs};
use nix::unistd::{Whence, lseek};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};

/// What addresses, lengths and places have to be multiples of: enough for every disk there is.
const PAGE_LEN: usize = 4096;
/// Bytes of one write at most. Those of a capture are a little longer than a buffer of records.
const WRITE_LEN_MAX: usize = 512 << 10;
/// Bytes that are allocated ahead for direct writes.
const DIRECT_AHEAD_LEN: u64 = 64 << 20;
/// Bytes that are allocated ahead for other writes: as many as the file has, between these two.
const AHEAD_LEN_MIN: u64 = 64 << 10;
const AHEAD_LEN_MAX: u64 = 4 << 20;

/// How space is had and bytes go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ways {
    /// Space to be allocated when a file begins.
    pub(crate) preallocate_bytes: u64,
    /// Past the page cache.
    pub(crate) is_direct: bool,
    /// True before frames come, when there is time.
    pub(crate) is_first: bool,
}

/// A regular file that allocates space ahead of its writes.
pub(crate) struct DiskFile {
    file: File,
    direct: Option<Direct>,
    /// Bytes of the file, with those that still wait for their page to be full.
    len: u64,
    /// Bytes that have space.
    allocated: u64,
    /// False once the file system turned out to have no `fallocate`.
    can_allocate: bool,
    /// True if more than `allocated` may have space.
    has_surplus: bool,
}

/// The way past the page cache.
struct Direct {
    file: File,
    /// Where `page` begins to be well placed.
    start: usize,
    /// What is about to be written, and after that the beginning of a page.
    page: Vec<u8>,
    page_len: usize,
    /// Bytes of `page` that are in the file by the page cache.
    shown_len: usize,
    /// Nothing came since this was last asked.
    is_idle: bool,
}

impl DiskFile {
    /// Takes a file and empties it; a file that is refused keeps what it holds.
    ///
    /// # Errors
    /// When there is no space for what is to be allocated before frames come, or the file system
    /// knows no such thing.
    pub(crate) fn new(file: File, ways: Ways) -> io::Result<Self> {
        let direct = ways.is_direct.then(|| Direct::open(&file)).transpose()?;
        let old_len = file.metadata()?.len();
        if ways.is_first && old_len < ways.preallocate_bytes {
            // Behind what the file holds, so that a refusal costs none of it.
            let behind = (old_len.cast_signed(), (ways.preallocate_bytes - old_len).cast_signed());
            let allocated = fallocate(&file, FallocateFlags::FALLOC_FL_KEEP_SIZE, behind.0, behind.1);
            if let Err(error) = allocated {
                // Gives back what was allocated before the refusal.
                let _ = file.set_len(old_len);
                return Err(error.into());
            }
        }
        if old_len > 0 {
            // Also what was allocated above.
            file.set_len(0)?;
        }
        let mut file = Self { file, direct, len: 0, allocated: 0, can_allocate: true, has_surplus: false };
        // In memory, each page that was allocated before is looked up a second time. Direct writes
        // need it, because their last page must find space.
        let is_worth_it = file.direct.is_some() || !file.is_in_memory();
        file.can_allocate = ways.preallocate_bytes > 0 || is_worth_it;
        // On tmpfs it takes as long as writing, and then frames would have to wait.
        if ways.preallocate_bytes > 0 && (ways.is_first || !file.is_in_memory()) {
            let allocated = file.allocate(ways.preallocate_bytes);
            if ways.is_first {
                allocated?;
            }
        }
        Ok(file)
    }

    /// Makes sure that `len` more bytes have space. In memory, and on a file system without
    /// `fallocate`, only the size limit of the process is checked.
    ///
    /// # Errors
    /// When the disk, a quota or a size limit has no space for them.
    pub(crate) fn reserve(&mut self, len: usize) -> io::Result<()> {
        let needed = self.len + len as u64 + if self.direct.is_some() { PAGE_LEN as u64 } else { 0 };
        if needed <= self.allocated {
            return Ok(());
        }
        // Not every file system checks this limit for space beyond the end of the file.
        let (len_max, _) = getrlimit(Resource::RLIMIT_FSIZE)?;
        if needed > len_max {
            return Err(Errno::EFBIG.into());
        }
        if !self.can_allocate {
            return Ok(());
        }
        let ahead = match self.direct {
            Some(_) => needed.next_multiple_of(DIRECT_AHEAD_LEN),
            None => needed + self.len.clamp(AHEAD_LEN_MIN, AHEAD_LEN_MAX),
        };
        let allocated = self.allocate(ahead.min(len_max)).or_else(|_| self.allocate(needed));
        if matches!(&allocated, Err(error) if has_no_fallocate(error)) {
            self.can_allocate = false;
            return self.leave_direct();
        }
        allocated
    }

    /// Writes everything, or returns how many bytes were written before the failure.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), (usize, io::Error)> {
        self.check_len().map_err(|error| (0, error))?;
        if self.direct.is_some() {
            if self.write_direct(bytes).is_ok() {
                self.len += bytes.len() as u64;
                return Ok(());
            }
            // Whatever that was, the page cache does it or says why not.
            self.leave_direct().map_err(|error| (0, error))?;
        }
        let mut written = 0;
        while written < bytes.len() {
            match self.file.write_at(&bytes[written..], self.len) {
                Ok(0) => return Err((written, io::ErrorKind::WriteZero.into())),
                Ok(len) => {
                    written += len;
                    self.len += len as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err((written, error)),
            }
        }
        Ok(())
    }

    /// Lets others see what waits for its page to be full, on an idle line.
    pub(crate) fn show(&mut self) -> io::Result<()> {
        let Some(direct) = &mut self.direct else { return Ok(()) };
        if std::mem::replace(&mut direct.is_idle, true) { direct.show(&self.file, self.len) } else { Ok(()) }
    }

    /// Writes everything to the disk.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        if let Some(direct) = &mut self.direct {
            direct.show(&self.file, self.len)?;
        }
        self.file.sync_data()
    }

    /// Shortens the file to `len` bytes and frees all other space.
    pub(crate) fn cut(&mut self, len: u64) -> io::Result<()> {
        (self.len, self.allocated) = (len, len);
        self.file.set_len(len)
    }

    /// Brings everything into the file and gives back what it does not need.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.check_len()?;
        self.leave_direct()?;
        // Truncated between a check and a write, the file has a hole: nothing that is written here
        // makes one.
        let hole = lseek(&self.file, 0, Whence::SeekHole).map_or(self.len, i64::cast_unsigned);
        if hole < self.len {
            return Err(self.truncated(hole));
        }
        if self.allocated > self.len || self.has_surplus { self.file.set_len(self.len) } else { Ok(()) }
    }

    /// An error when another program has truncated the file.
    fn check_len(&self) -> io::Result<()> {
        let waiting = self.direct.as_ref().map_or(0, |direct| direct.page_len - direct.shown_len) as u64;
        let len = self.file.metadata()?.len();
        if len < self.len - waiting { Err(self.truncated(len)) } else { Ok(()) }
    }

    fn truncated(&self, len: u64) -> io::Error {
        let why = format!("another program truncated it to {len} of {} bytes while it was written", self.len);
        io::Error::other(why)
    }

    /// Everything goes by the page cache from now on.
    fn leave_direct(&mut self) -> io::Result<()> {
        match self.direct.take() {
            Some(mut direct) => direct.show(&self.file, self.len),
            None => Ok(()),
        }
    }

    fn write_direct(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(direct) = &mut self.direct else { return Ok(()) };
        direct.write(bytes, self.len)
    }

    /// Allocates space up to this length of the file.
    fn allocate(&mut self, end: u64) -> io::Result<()> {
        let from = self.allocated.max(self.len).min(end);
        let (from, len) = (from.cast_signed(), (end - from).cast_signed());
        loop {
            match fallocate(&self.file, FallocateFlags::FALLOC_FL_KEEP_SIZE, from, len) {
                Err(Errno::EINTR) => {}
                Err(error) => {
                    // Some file systems keep what they allocated before they failed.
                    self.has_surplus = true;
                    return Err(error.into());
                }
                Ok(()) => {
                    self.allocated = end;
                    return Ok(());
                }
            }
        }
    }

    fn is_in_memory(&self) -> bool {
        fstatfs(&self.file).is_ok_and(|place| place.filesystem_type() == TMPFS_MAGIC)
    }
}

/// True if this error means that the file system cannot allocate space at all.
fn has_no_fallocate(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw);
    matches!(errno, Some(Errno::EOPNOTSUPP | Errno::ENOSYS | Errno::ENODEV))
}

impl Direct {
    fn open(file: &File) -> io::Result<Self> {
        // By the descriptor: the name may be another file's by now.
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let flags = OFlag::O_DIRECT.bits();
        let direct = OpenOptions::new().write(true).custom_flags(flags).open(path).map_err(|error| {
            io::Error::new(error.kind(), format!("its file system has no way past the page cache ({error})"))
        })?;
        let page = vec![0; WRITE_LEN_MAX + PAGE_LEN];
        let start = page.as_ptr().align_offset(PAGE_LEN);
        Ok(Self { file: direct, start, page, page_len: 0, shown_len: 0, is_idle: false })
    }

    /// Writes whole pages and keeps the rest. When it fails, what was kept before is still here and
    /// nothing of `bytes` counts. `file_len` is without `bytes`.
    fn write(&mut self, bytes: &[u8], file_len: u64) -> io::Result<()> {
        let kept = self.page_len;
        let page_start = file_len - kept as u64;
        let (mut at, mut rest) = (page_start, bytes);
        let first: Vec<u8> = self.page[self.start..self.start + kept].to_vec();
        while !rest.is_empty() {
            let space = &mut self.page[self.start..self.start + WRITE_LEN_MAX][self.page_len..];
            let (now, later) = rest.split_at(space.len().min(rest.len()));
            space[..now.len()].copy_from_slice(now);
            self.page_len += now.len();
            rest = later;
            let whole = self.page_len - self.page_len % PAGE_LEN;
            let written = self.file.write_all_at(&self.page[self.start..self.start + whole], at);
            if let Err(error) = written {
                self.page[self.start..self.start + kept].copy_from_slice(&first);
                (self.page_len, self.shown_len) = (kept, 0);
                return Err(error);
            }
            at += whole as u64;
            self.page.copy_within(self.start + whole..self.start + self.page_len, self.start);
            self.page_len -= whole;
            self.shown_len = if whole > 0 { 0 } else { self.shown_len };
        }
        self.is_idle = false;
        Ok(())
    }

    /// Writes what is kept by the page cache, and goes on keeping it.
    fn show(&mut self, file: &File, file_len: u64) -> io::Result<()> {
        if self.shown_len < self.page_len {
            let kept = &self.page[self.start..self.start + self.page_len];
            file.write_all_at(kept, file_len - self.page_len as u64)?;
            self.shown_len = self.page_len;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::fs;
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;
    use testkit::Folder;

    const FILE: &str = "x";

    fn begin(folder: &Folder, ways: Ways) -> io::Result<DiskFile> {
        DiskFile::new(File::create(folder.join(FILE)).unwrap(), ways)
    }

    const ALL: [Ways; 4] = [
        Ways { preallocate_bytes: 0, is_direct: false, is_first: true },
        Ways { preallocate_bytes: 3 << 20, is_direct: false, is_first: true },
        Ways { preallocate_bytes: 0, is_direct: true, is_first: true },
        Ways { preallocate_bytes: 3 << 20, is_direct: true, is_first: false },
    ];

    /// The ways that there are here: tmpfs has none past the page cache before Linux 6.6.
    fn ways() -> Vec<Ways> {
        let scratch = Folder::new("ways");
        let is_there = |ways: &Ways| {
            let begun = begin(&scratch, *ways).map(drop);
            begun.map_err(|why| testkit::skip(format_args!("{ways:?}: {why}"))).is_ok()
        };
        ALL.into_iter().filter(is_there).collect()
    }

    /// A full disk refuses space, not the last page of direct writes.
    #[test]
    fn space_is_allocated_ahead_on_disks_and_for_direct_writes() {
        let in_memory = Path::new("/dev/shm").join(format!("wirerate-ahead-{}", std::process::id()));
        let folder = Folder::new("ahead");
        for path in [folder.join(FILE), in_memory] {
            for is_direct in [false, true] {
                let created = File::create(&path).unwrap();
                let begun = DiskFile::new(created, Ways { is_direct, ..Ways::default() });
                let begun = begun.map_err(|why| testkit::skip(format_args!("{}: {why}", path.display())));
                let Ok(mut file) = begun else { continue };
                file.reserve(1).unwrap();
                assert_eq!(file.allocated > 0, is_direct || !file.is_in_memory(), "{}", path.display());
            }
            fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn there_are_no_zeros_behind_what_was_written_and_no_space_at_the_end() {
        let scratch = Folder::new("space");
        for ways in ways() {
            let mut file = begin(&scratch, ways).unwrap();
            assert_eq!(fs::metadata(scratch.join(FILE)).unwrap().len(), 0, "{ways:?}");
            file.write(&[7; 100_000]).unwrap();
            let now = fs::metadata(scratch.join(FILE)).unwrap();
            assert!(now.len() <= 100_000 && now.len() > 95_000, "{ways:?}: {} bytes", now.len());
            if ways.preallocate_bytes > 0 && ways.is_first {
                assert!(now.blocks() * 512 >= ways.preallocate_bytes, "{ways:?}: {} blocks", now.blocks());
            }
            // Something came, then nothing: now it is shown.
            file.show().unwrap();
            file.show().unwrap();
            assert_eq!(fs::read(scratch.join(FILE)).unwrap(), [7; 100_000], "{ways:?}");
            file.finish().unwrap();
            let end = fs::metadata(scratch.join(FILE)).unwrap();
            assert!(
                end.len() == 100_000 && end.blocks() * 512 < 300_000,
                "{ways:?}: {} blocks",
                end.blocks()
            );
        }
    }

    #[test]
    fn more_than_there_is_room_for_is_refused_before_frames_come() {
        let ways = Ways { preallocate_bytes: 1 << 60, is_direct: false, is_first: true };
        assert!(begin(&Folder::new("much"), ways).is_err());
    }

    #[test]
    fn a_refused_preallocation_leaves_what_the_file_holds() {
        let scratch = Folder::new("refused");
        fs::write(scratch.join(FILE), "precious").unwrap();
        let file = OpenOptions::new().write(true).open(scratch.join(FILE)).unwrap();
        let ways = Ways { preallocate_bytes: 1 << 60, is_direct: false, is_first: true };
        assert!(DiskFile::new(file, ways).is_err());
        assert_eq!(fs::read(scratch.join(FILE)).unwrap(), b"precious");
    }

    #[test]
    fn a_file_that_another_program_truncates_is_not_said_to_be_written() {
        for ways in ways() {
            let scratch = Folder::new("truncated");
            let mut file = begin(&scratch, ways).unwrap();
            file.write(&[7; 100_000]).unwrap();
            let other = OpenOptions::new().write(true).open(scratch.join(FILE)).unwrap();
            other.set_len(0).unwrap();
            let (written, error) = file.write(&[7; 100]).unwrap_err();
            assert_eq!(written, 0);
            let said = "another program truncated it to 0 of 100000 bytes while it was written";
            assert_eq!(error.to_string(), said, "{ways:?}");
            assert!(file.finish().is_err());
            // Between a check and the write that follows it.
            let mut file = begin(&scratch, Ways { is_direct: false, ..ways }).unwrap();
            file.write(&[7; 100_000]).unwrap();
            other.set_len(0).unwrap();
            file.file.write_all_at(&[7; 100], 100_000).unwrap();
            file.len += 100;
            assert!(file.finish().unwrap_err().to_string().starts_with("another program truncated"));
        }
    }

    #[test]
    fn a_file_that_is_cut_goes_on_where_it_was_cut() {
        let scratch = Folder::new("cut");
        let mut file = begin(&scratch, ALL[1]).unwrap();
        file.write(b"one two").unwrap();
        file.cut(3).unwrap();
        file.write(b" three").unwrap();
        file.finish().unwrap();
        assert_eq!(fs::read(scratch.join(FILE)).unwrap(), b"one three");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        /// Pieces of any length, shown or not between them: the file holds them in their order, and
        /// never anything else.
        #[test]
        fn what_is_written_is_in_the_file(
            pieces in vec((prop_oneof![0..9000_usize, 250_000..600_000_usize], any::<bool>()), 1..12),
            ways in prop::sample::select(ways()),
        ) {
            let scratch = Folder::new("pieces");
            let (mut file, mut expected) = (begin(&scratch, ways).unwrap(), Vec::new());
            for (number, (len, is_shown)) in pieces.into_iter().enumerate() {
                let piece: Vec<u8> = (0..len).map(|at| (at * 7 + number) as u8 | 1).collect();
                file.write(&piece).unwrap();
                expected.extend_from_slice(&piece);
                if is_shown {
                    file.show().unwrap();
                    file.show().unwrap();
                }
                let now = fs::read(scratch.join(FILE)).unwrap();
                prop_assert!(now.len() + PAGE_LEN > expected.len() && expected.starts_with(&now));
            }
            file.finish().unwrap();
            prop_assert!(fs::read(scratch.join(FILE)).unwrap() == expected);
        }
    }
}
