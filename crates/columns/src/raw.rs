//! The column of the captured bytes, which has most of the work of a file: it can be encoded on
//! another thread.

use crate::column::{AnyColumn, BytesColumn, ColumnMaker, EncodedColumn};
use parquet::data_type::ByteArrayType;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes that are collected before they are encoded: few enough to stay in the cache of a CPU.
const BYTES_AT_ONCE: usize = 512 << 10;
/// Packets that are collected at most, for those with few bytes.
const PACKETS_AT_ONCE: usize = 8192;

/// Work for another thread.
pub type EncodeJob = Box<dyn FnOnce() + Send>;

/// Gives jobs to one thread, which runs them in their order. The caller of this crate makes the
/// thread.
#[derive(Clone)]
pub struct EncodeQueue(Arc<dyn Fn(EncodeJob) + Send + Sync>);

impl EncodeQueue {
    /// A queue that `give` fills. It may wait until the thread has done earlier jobs, which bounds
    /// the memory of those that wait.
    pub fn new(give: impl Fn(EncodeJob) + Send + Sync + 'static) -> Self {
        Self(Arc::new(give))
    }
}

/// Bytes of packets, one behind the other.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

/// The column of a row group.
pub(crate) struct RawColumn {
    batch: Batch,
    column: Arc<Mutex<BytesColumn<ByteArrayType>>>,
    /// Empty batches, whose memory is used again.
    spare: Arc<Mutex<Vec<Batch>>>,
    queue: Option<EncodeQueue>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl RawColumn {
    /// The last column of the schema.
    pub(crate) fn new(make: &mut ColumnMaker<'_>, queue: Option<EncodeQueue>) -> Self {
        Self {
            batch: Batch::default(),
            column: Arc::new(Mutex::new(AnyColumn::next_of(make))),
            spare: Arc::default(),
            queue,
        }
    }

    /// Adds the bytes of a packet.
    #[inline]
    pub(crate) fn push(&mut self, data: &[u8]) {
        self.batch.bytes.extend_from_slice(data);
        self.batch.ends.push(self.batch.bytes.len());
        if self.batch.bytes.len() >= BYTES_AT_ONCE || self.batch.ends.len() >= PACKETS_AT_ONCE {
            self.encode();
        }
    }

    fn run(&self, job: impl FnOnce() + Send + 'static) {
        match &self.queue {
            Some(EncodeQueue(give)) => give(Box::new(job)),
            None => job(),
        }
    }

    fn encode(&mut self) {
        let next = locked(&self.spare).pop().unwrap_or_default();
        let mut batch = std::mem::replace(&mut self.batch, next);
        let (column, spare) = (Arc::clone(&self.column), Arc::clone(&self.spare));
        self.run(move || {
            locked(&column).encode_values(&mut batch.bytes, &mut batch.ends);
            // That of a packet of many megabytes is given back.
            if batch.bytes.capacity() <= 4 * BYTES_AT_ONCE {
                locked(&spare).push(batch);
            }
        });
    }

    /// Ends the column, once, when all of it is encoded.
    pub(crate) fn close(&mut self) -> EncodedColumn {
        self.encode();
        let (sender, closed) = sync_channel(1);
        let column = Arc::clone(&self.column);
        // The receiver is below.
        self.run(move || drop(sender.send(locked(&column).close())));
        closed.recv().expect("the thread of the queue runs each job")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PacketReader, PacketRow, PartFile};
    use bytes::Bytes;
    use std::sync::mpsc::channel;
    use std::thread;

    /// The file is the same byte for byte.
    #[test]
    fn another_thread_encodes_the_same_file() {
        let (give, jobs) = channel::<EncodeJob>();
        let worker = thread::spawn(move || jobs.into_iter().for_each(|job| job()));
        let queue = EncodeQueue::new(move |job| give.send(job).expect("the thread waits for jobs"));
        let file = |queue: Option<EncodeQueue>| {
            let mut part = PartFile::with_queue(true, queue);
            let mut file = PartFile::header().to_vec();
            for group in 0..2_u32 {
                for number in 0..40_000_u32 {
                    // Up to 1.2 MB of bytes that differ, then packets without a byte.
                    let len = if number < 2_000 { number % 1_200 } else { number % 3 };
                    let data: Vec<u8> = (0..len).map(|at| (at * number + group) as u8).collect();
                    let time_ns = Some(u64::from(number));
                    part.push(&PacketRow { time_ns, link_type: 1, data: &data, ..PacketRow::default() });
                }
                let group = part.end_row_group().unwrap();
                file.extend_from_slice(group.bytes());
                part.keep(group);
            }
            file.extend(part.footer(&[]));
            file
        };
        let threaded = file(Some(queue));
        assert!(threaded == file(None));
        worker.join().unwrap();
        let mut reader = PacketReader::new(Bytes::from(threaded)).unwrap();
        let mut count = 0;
        while reader.next_packet().unwrap().is_some() {
            count += 1;
        }
        assert_eq!(count, 80_000);
    }
}
