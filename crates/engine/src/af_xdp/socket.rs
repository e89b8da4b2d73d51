//! One AF_XDP socket on one queue: frame memory, a transmit ring, and the completions that free its
//! chunks.

use super::ring::Ring;
use super::sys;
use bpf::sys::MapMemory;
use memmap2::MmapMut;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// Descriptors of each ring: a few hundred microseconds at the fastest rates.
pub(super) const RING_ENTRIES: u32 = 2048;
/// Chunks of frame memory: one for each descriptor, and one for a frame that may be put again.
const CHUNKS: usize = RING_ENTRIES as usize + 1;
/// The kernel requires a fill ring even for a socket that never receives.
const FILL_ENTRIES: u32 = 2;
const CHUNK_SMALL: usize = 2048;
pub(super) const CHUNK_LARGE: usize = 4096;
/// Timeout for a busy queue.
const BUSY_TIMEOUT: Duration = Duration::from_secs(3);
const CACHE_LINE: usize = 64;
/// Cache lines of one page.
const COLOURS_MAX: usize = 64;
const TX_DESCRIPTOR_LEN: usize = 16;
const ADDRESS_LEN: usize = 8;

/// Copy mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Copying {
    /// Zero-copy if supported, else copying. Zero-copy can take a queue from the traffic of the
    /// host.
    Avoid,
    /// The kernel copies each frame into an skb.
    Always,
}

/// Result of one kick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Kicked {
    /// Frames that were consumed and dropped by the driver: 0 or 1.
    pub(super) dropped: u64,
}

/// The socket. Its memory outlives it: fields drop in order, the descriptor first.
#[derive(Debug)]
pub(super) struct Xsk {
    socket: OwnedFd,
    tx: Ring,
    completion: Ring,
    _fill: MapMemory,
    memory: MmapMut,
    chunk_len: usize,
    /// Bytes that a frame of one chunk may take.
    data_len: usize,
    /// Where in the memory the frames of free chunks begin.
    free: Vec<u64>,
    /// Descriptors that were put and have not come back.
    descriptors: u32,
    /// Of each chunk how many of them it is in, and one more for the frame that may be put again.
    /// Empty where no frame is put again.
    uses: Vec<u32>,
    /// Where the frame that may be put again begins, and its bytes.
    kept: Option<(u64, u32)>,
    is_zero_copy: bool,
}

impl Xsk {
    /// Opens a socket on `queue` of the device `ifindex` of the caller's namespace, for frames of
    /// at most `frame_len_max` bytes.
    pub(super) fn open(ifindex: u32, queue: u32, frame_len_max: usize, copying: Copying) -> io::Result<Self> {
        let flags = |extra: u16| libc::XDP_USE_NEED_WAKEUP | extra | sg_flag(frame_len_max);
        if copying == Copying::Avoid
            && let Ok(socket) =
                Self::bind_with_retry(ifindex, queue, frame_len_max, flags(libc::XDP_ZEROCOPY))
            && socket.is_served()
        {
            return Ok(socket);
        }
        Self::bind_with_retry(ifindex, queue, frame_len_max, flags(libc::XDP_COPY))
    }

    /// False if the driver accepted the socket but does not send for it: some require an XDP
    /// program. A driver that is still busy with its queue counts as working.
    fn is_served(&self) -> bool {
        sys::kick(self.socket.as_fd())
            .err()
            .is_none_or(|error| !matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENXIO)))
    }

    /// The kernel frees a queue some time after the last socket on it was closed.
    fn bind_with_retry(ifindex: u32, queue: u32, frame_len_max: usize, flags: u16) -> io::Result<Self> {
        let deadline = Instant::now() + BUSY_TIMEOUT;
        loop {
            match Self::bound(ifindex, queue, frame_len_max, flags) {
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) && Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                other => return other,
            }
        }
    }

    fn bound(ifindex: u32, queue: u32, frame_len_max: usize, flags: u16) -> io::Result<Self> {
        let chunk_len = if frame_len_max <= CHUNK_SMALL { CHUNK_SMALL } else { CHUNK_LARGE };
        let memory = MmapMut::map_anon(chunk_len * CHUNKS)?;
        let socket = sys::socket()?;
        sys::register_umem(&socket, &memory, chunk_len as u32)?;
        sys::make_ring(&socket, libc::XDP_TX_RING, RING_ENTRIES)?;
        sys::make_ring(&socket, libc::XDP_UMEM_FILL_RING, FILL_ENTRIES)?;
        sys::make_ring(&socket, libc::XDP_UMEM_COMPLETION_RING, RING_ENTRIES)?;
        sys::raise_send_budget(&socket, RING_ENTRIES);
        let [tx, fill, completion] = sys::layouts(&socket)?;
        let map = |offset: u64, layout, entries, entry_len| {
            MapMemory::at(
                socket.as_fd(),
                offset.cast_signed(),
                Ring::map_len(layout, entries, entry_len),
                true,
            )
        };
        let tx_memory = map(libc::XDP_PGOFF_TX_RING as u64, &tx, RING_ENTRIES, TX_DESCRIPTOR_LEN)?;
        let fill_memory = map(libc::XDP_UMEM_PGOFF_FILL_RING, &fill, FILL_ENTRIES, ADDRESS_LEN)?;
        let completion_memory =
            map(libc::XDP_UMEM_PGOFF_COMPLETION_RING, &completion, RING_ENTRIES, ADDRESS_LEN)?;
        sys::bind(&socket, ifindex, queue, flags)?;
        Ok(Self {
            is_zero_copy: sys::is_zero_copy(&socket)?,
            tx: Ring::new(tx_memory, tx, RING_ENTRIES, TX_DESCRIPTOR_LEN),
            completion: Ring::new(completion_memory, completion, RING_ENTRIES, ADDRESS_LEN),
            _fill: fill_memory,
            free: starts(chunk_len, frame_len_max),
            descriptors: 0,
            uses: Vec::new(),
            kept: None,
            memory,
            data_len: frame_len_max.min(chunk_len),
            chunk_len,
            socket,
        })
    }

    pub(super) fn is_zero_copy(&self) -> bool {
        self.is_zero_copy
    }

    /// Bytes that one descriptor can hold.
    pub(super) fn chunk_len(&self) -> usize {
        self.chunk_len
    }

    /// From now on the frame of [`Self::put_whole`] is kept, to be put again.
    pub(super) fn keep_frames(&mut self) {
        self.uses = vec![0; CHUNKS];
    }

    /// Descriptors in use by the driver.
    pub(super) fn under_way(&self) -> u32 {
        self.descriptors - self.tx.not_taken()
    }

    /// Takes back completed chunks. The last ones are used next, because they are in the cache.
    pub(super) fn reap(&mut self) {
        let (free, uses, shift) = (&mut self.free, &mut self.uses, self.chunk_len.trailing_zeros());
        // The address is that of the descriptor.
        self.descriptors -= if uses.is_empty() {
            self.completion.take_all(|address| free.push(address))
        } else {
            self.completion.take_all(|address| {
                let uses = &mut uses[(address >> shift) as usize];
                *uses -= 1;
                if *uses == 0 {
                    free.push(address);
                }
            })
        };
    }

    /// Descriptors that can be put now. Each is in one chunk at most, so there is a free chunk
    /// where there is a place.
    fn room_descriptors(&self) -> u32 {
        RING_ENTRIES - self.descriptors
    }

    /// True when `count` descriptors can be put now.
    pub(super) fn has_room(&self, count: usize) -> bool {
        self.room_descriptors() as usize >= count
    }

    /// Puts one descriptor of `len` bytes, written by `fill`. There must be a free descriptor.
    pub(super) fn put(&mut self, len: usize, is_continued: bool, fill: impl FnOnce(&mut [u8])) {
        let start = self.free.pop().expect("has_room was asked");
        fill(&mut self.memory[start as usize..start as usize + len]);
        let options = if is_continued { libc::XDP_PKT_CONTD } else { 0 };
        self.tx.put(start, len as u32, options);
        self.descriptors += 1;
    }

    /// Puts one descriptor whose length is known only when it is written; `fill` returns it, 0 to
    /// put none.
    pub(super) fn put_whole(&mut self, fill: impl FnOnce(&mut [u8]) -> usize) -> usize {
        self.let_go();
        let start = self.free.pop().expect("has_room was asked");
        let len = fill(&mut self.memory[start as usize..start as usize + self.data_len]);
        if len == 0 {
            self.free.push(start);
            return 0;
        }
        self.tx.put(start, len as u32, 0);
        self.descriptors += 1;
        if !self.uses.is_empty() {
            self.uses[start as usize / self.chunk_len] = 2;
            self.kept = Some((start, len as u32));
        }
        len
    }

    /// Repeats the kept frame in the same chunk, up to `most` times. Returns its length and how
    /// often; `None` without a kept frame.
    pub(super) fn put_again(&mut self, most: u32) -> Option<(u32, u32)> {
        let (start, len) = self.kept?;
        let count = most.min(self.room_descriptors());
        for _ in 0..count {
            self.tx.put(start, len, 0);
        }
        self.descriptors += count;
        self.uses[start as usize / self.chunk_len] += count;
        Some((len, count))
    }

    /// The frame that was kept is not put again.
    fn let_go(&mut self) {
        if let Some((start, _)) = self.kept.take() {
            let uses = &mut self.uses[start as usize / self.chunk_len];
            *uses -= 1;
            if *uses == 0 {
                self.free.push(start);
            }
        }
    }

    /// Puts a descriptor that leaves its chunk.
    #[cfg(test)]
    pub(super) fn put_invalid(&mut self) {
        let chunk = self.free.pop().expect("a chunk is free");
        self.tx.put(chunk, self.chunk_len as u32 + 1, 0);
        self.descriptors += 1;
    }

    /// Publishes the new descriptors to the kernel.
    pub(super) fn publish(&self) {
        self.tx.publish();
    }

    /// Descriptors that the kernel has not consumed.
    pub(super) fn not_taken(&self) -> u32 {
        self.tx.not_taken()
    }

    /// Descriptors that the kernel found invalid since the socket was opened.
    pub(super) fn invalid_descriptors(&self) -> io::Result<u64> {
        sys::invalid_descriptors(&self.socket)
    }

    /// Rings the doorbell if the kernel needs it.
    pub(super) fn kick(&self) -> io::Result<Kicked> {
        if self.is_zero_copy && !self.tx.needs_wakeup() {
            return Ok(Kicked::default());
        }
        match sys::kick(self.socket.as_fd()) {
            Ok(()) => Ok(Kicked::default()),
            Err(error) => match error.raw_os_error() {
                // The driver dropped one frame; the rest of the ring is unchanged.
                Some(libc::EBUSY) => Ok(Kicked { dropped: 1 }),
                Some(libc::EAGAIN | libc::ENOBUFS | libc::EINTR) => Ok(Kicked::default()),
                _ => Err(error),
            },
        }
    }
}

/// Where the frame of each chunk begins: one cache line further from chunk to chunk, so that
/// neighbours do not push each other out of a cache whose sets are half a page apart.
fn starts(chunk_len: usize, frame_len_max: usize) -> Vec<u64> {
    let colours = (chunk_len.saturating_sub(frame_len_max) / CACHE_LINE + 1).min(COLOURS_MAX);
    let start = |chunk: usize| (chunk * chunk_len + chunk % colours * CACHE_LINE) as u64;
    (0..CHUNKS).map(start).collect()
}

/// Frames of more than one chunk need a bind flag (Linux 6.6).
fn sg_flag(frame_len_max: usize) -> u16 {
    if frame_len_max > CHUNK_LARGE { libc::XDP_USE_SG } else { 0 }
}
