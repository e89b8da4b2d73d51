//! The interfaces of the current section: the part that packets need.

use crate::ReadError;
use crate::time::TimeScale;

/// Memory that the interfaces of one section may take, in bytes: the length of their blocks, and of
/// the entries below.
const MEMORY_MAX: u64 = 256 << 20;

/// The interfaces of a section. One whose description could not be read keeps its place, so that
/// the following ones keep their numbers.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    all: Vec<Option<Source>>,
    /// What all of them count for in [`MEMORY_MAX`].
    memory: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Source {
    pub(crate) scale: TimeScale,
    pub(crate) snaplen: u32,
}

impl Sources {
    /// The interface of the block at `offset`.
    #[inline]
    pub(crate) fn find(&self, offset: u64, interface: u32) -> Result<Source, ReadError> {
        let source = self.all.get(interface as usize).copied().flatten();
        let count = || self.all.iter().flatten().count();
        source.ok_or_else(|| ReadError::NoSuchInterface { offset, interface, count: count() })
    }

    /// Adds the next interface, of the block of `block_len` bytes at `offset`.
    pub(crate) fn add(
        &mut self,
        offset: u64,
        block_len: usize,
        source: Option<Source>,
    ) -> Result<(), ReadError> {
        let memory = self.memory + block_len as u64 + size_of::<Option<Source>>() as u64;
        if memory > MEMORY_MAX {
            return Err(ReadError::TooManyInterfaces { offset, limit: self.all.len() });
        }
        self.memory = memory;
        self.all.push(source);
        Ok(())
    }
}
