//! Calls in which the program waits until each of its frames is due: what they have in common in
//! runs and replays.
//!
//! A program that waits sends frames closer to their times than a thread that waits and then makes
//! a call, because what a call costs before its first frame passes before that frame is due.

/// A program waits no longer than this for a frame, because it holds off softirqs of its CPU. They
/// run after each frame.
pub(crate) const WAIT_NS_MAX: u64 = 100_000;
/// A call takes the frames of this time at most, so that a stop takes effect soon. A call of a
/// replay takes those of twice this time if they are close together. Between two calls pass some
/// microseconds, in which no frame can be sent.
pub(crate) const CALL_NS_MAX: u64 = 1_000_000;
/// A call starts this long before its first frame is due: the time that a call needs to begin. In
/// 2026 on a virtual machine it needed 8 µs after another call, and up to 30 µs after a sleep, when
/// caches were cold.
pub(crate) const LEAD_NS: u64 = 30_000;
/// The first call, which allocates, starts this long before its frame is due. In 2026 on a virtual
/// machine it needed up to 460 µs.
pub(crate) const LEAD_FIRST_NS: u64 = 800_000;
/// With this many frames overdue, they go in batches; each frame is flushed by itself otherwise.
pub(crate) const OVERDUE_BATCH_MIN: u64 = 16;
