//! Records: from the ring of a backend to encoded batches with an index.

pub(crate) mod batch;
pub(crate) mod consumer;
pub(crate) mod encode;
pub(crate) mod format;
pub(crate) mod header_cut;
pub(crate) mod pool;
pub(crate) mod ring;
pub(crate) mod ring_handle;
pub(crate) mod slot;
