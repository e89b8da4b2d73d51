//! What can go wrong when blocks are written and read.

/// Why a block was not written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The output refused the bytes.
    #[error("writing the {block} block of {len} bytes at byte {offset} failed")]
    Io {
        /// Which block.
        block: &'static str,
        /// Its length in bytes.
        len: usize,
        /// Bytes written before it.
        offset: u64,
        /// What the output said.
        #[source]
        source: std::io::Error,
    },
    /// A packet or statistics block names an interface that the section does not have.
    #[error(
        "a {block} block is for interface {interface}, but the section has {count} (add_interface comes first)"
    )]
    NoSuchInterface {
        /// Which block.
        block: &'static str,
        /// The number it names.
        interface: u32,
        /// Interfaces of the section so far.
        count: usize,
    },
    /// The time does not fit the file's field.
    #[error("the time {time_ns} ns of a {block} block does not fit: {limit}")]
    TimeOutOfRange {
        /// Which block or record.
        block: &'static str,
        /// The time, in nanoseconds since 1970.
        time_ns: u64,
        /// What it would have to obey.
        limit: &'static str,
    },
}
