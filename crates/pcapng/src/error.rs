//! Errors of reading and writing blocks.

/// Why a block was not written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages name the fields")]
pub enum WriteError {
    /// The output refused the bytes.
    #[error("writing the {block} block of {len} bytes at byte {offset} failed")]
    Io { block: &'static str, len: usize, offset: u64, source: std::io::Error },
    /// A packet or statistics block names an interface that the section does not have.
    #[error(
        "a {block} block is for interface {interface}, but the section has {count} (add_interface comes first)"
    )]
    NoSuchInterface { block: &'static str, interface: u32, count: usize },
    /// The time does not fit the file's field.
    #[error("the time {time_ns} ns of a {block} block does not fit: {limit}")]
    TimeOutOfRange { block: &'static str, time_ns: u64, limit: &'static str },
    /// A packet without a time fits no block of the format.
    #[error(
        "a packet without a time must be of interface 0, captured up to its snaplen: found interface {interface}"
    )]
    NotSimple { interface: u32 },
}

/// Why a file, or one block of it, could not be read. `offset` is the place in the file, in bytes
/// from its start.
///
/// After [`ReadError::is_final`] errors the rest of the file is out of reach; after the others the
/// reader goes on with the next block.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages name the fields")]
pub enum ReadError {
    /// The input failed.
    #[error("reading at byte {offset} failed")]
    Io { offset: u64, source: std::io::Error },
    /// The file ends within a block or a record. All before it was whole.
    #[error("the file ends within the {what} at byte {offset}: {needed} bytes expected, {found} found")]
    Truncated { offset: u64, what: &'static str, needed: u64, found: u64 },
    /// The file is of another format.
    #[error("byte {offset}: {expected} expected, {found:#010x} found")]
    Magic { offset: u64, expected: &'static str, found: u32 },
    /// A newer format than this reader knows.
    #[error("byte {offset}: version {expected} expected, {major}.{minor} found")]
    Version { offset: u64, expected: &'static str, major: u16, minor: u16 },
    /// A length that cannot be.
    #[error("byte {offset}: the length of the {what} should be {expected}, {found} found")]
    Length { offset: u64, what: &'static str, expected: Expected, found: u64 },
    /// A block is too short for one of its fields.
    #[error("byte {offset}: {needed} bytes of {what} expected, the block has {found} left")]
    Field { offset: u64, what: &'static str, needed: u64, found: u64 },
    /// A block is for an interface that was not described before it, or whose description could not
    /// be read.
    #[error(
        "byte {offset}: one of the {count} interfaces described so far expected, number {interface} found"
    )]
    NoSuchInterface { offset: u64, interface: u32, count: usize },
    /// More interfaces than this reader will keep.
    #[error("byte {offset}: the memory for interfaces ends after {limit} of them")]
    TooManyInterfaces { offset: u64, limit: usize },
    /// A block of a packet or an interface that is longer than this reader keeps in memory. It was
    /// skipped.
    #[error("byte {offset}: a block of at most {limit} bytes expected, {found} bytes found")]
    TooLong { offset: u64, limit: u32, found: u32 },
}

impl ReadError {
    /// Whether nothing more can be read after it: the place of the next block is not known.
    #[must_use]
    pub fn is_final(&self) -> bool {
        matches!(
            self,
            Self::Io { .. }
                | Self::Truncated { .. }
                | Self::Magic { .. }
                | Self::Version { .. }
                | Self::Length { .. }
        )
    }
}

/// A rule for a length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Expected {
    /// Not less than this.
    AtLeast(u32),
    /// Not more than this.
    AtMost(u64),
    /// Exactly this.
    Exactly(u64),
}

impl std::fmt::Display for Expected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::AtLeast(least) => write!(f, "at least {least}"),
            Self::AtMost(most) => write!(f, "at most {most}"),
            Self::Exactly(len) => write!(f, "{len}"),
        }
    }
}
