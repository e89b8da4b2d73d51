//! The `Engine` trait: a way to send the frames of a plan.

use crate::EngineError;
use crate::engine_kind::EngineKind;
use facts::SendErrors;
use packet::Cursor;
use std::num::NonZeroU32;

/// Result of one burst. `sent` + `errors` = offered, always.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Burst {
    /// Accepted by the driver.
    pub sent: u64,
    /// Not accepted, by cause.
    pub errors: Errors,
    /// Lengths of all frames offered, in bytes without FCS.
    pub frame_bytes: u64,
    /// Times that a frame was kept because the device was full. It is offered again; no frame is
    /// lost or counted by this.
    pub retries: u64,
}

impl Burst {
    /// Frames that the engine tried to send.
    pub fn offered(&self) -> u64 {
        self.sent + self.errors.total()
    }

    /// Bytes of the frames that were sent, as a share of all bytes: frames with errors are assumed
    /// to have the mean length.
    pub fn sent_bytes(&self) -> u64 {
        let product = u128::from(self.frame_bytes) * u128::from(self.sent);
        product.checked_div(self.offered().into()).unwrap_or(0) as u64
    }

    /// Frames that a full ring dropped. The run offers the next frame in the place of each.
    pub fn replaced(&self) -> u64 {
        self.errors.ring_full
    }

    /// The counts of a run of a plan as users read them: a replaced frame is a retry, and was
    /// not offered. A replay has no frame to take its place, so these counts are not for replays.
    pub fn with_retries(mut self) -> Self {
        let (offered, replaced) = (u128::from(self.offered()), self.replaced());
        self.errors.ring_full = 0;
        self.retries += replaced;
        let product = u128::from(self.frame_bytes) * u128::from(self.offered());
        self.frame_bytes = product.checked_div(offered).unwrap_or(0) as u64;
        self
    }

    /// Adds the result of another burst.
    pub fn add(&mut self, other: &Self) {
        self.sent += other.sent;
        self.frame_bytes += other.frame_bytes;
        self.retries += other.retries;
        self.errors.add(&other.errors);
    }
}

/// Frames offered and not sent, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Errors {
    /// The ring of the driver was full, and the frame was not kept.
    pub ring_full: u64,
    /// The last error of the driver as a positive errno, 0 for none.
    pub last_errno: i32,
    /// The other errors by cause. A driver refuses a whole bulk; invalid descriptors are a bug in
    /// wirerate; frames without carrier were not built, so they have no numbers.
    pub causes: SendErrors,
}

impl Errors {
    /// Sum of all errors.
    pub fn total(&self) -> u64 {
        self.ring_full + self.causes.total()
    }

    /// True if there are errors beside a full ring.
    pub fn is_serious(&self) -> bool {
        self.causes.total() > self.causes.no_carrier
    }

    fn add(&mut self, other: &Self) {
        self.ring_full += other.ring_full;
        self.causes.add(&other.causes);
        if other.last_errno != 0 {
            self.last_errno = other.last_errno;
        }
    }
}

/// A way to send frames to one device. It starts no threads, prints nothing, and returns within the
/// time that its budget takes.
pub trait Engine {
    /// Which engine this is.
    fn kind(&self) -> EngineKind;

    /// Name of the device, for messages.
    fn device_name(&self) -> String;

    /// Sends up to `budget` frames of its plan. A frame that the driver does not accept is either
    /// kept and offered again by the next call (`retries`), or counted by cause (`errors`).
    ///
    /// # Errors
    /// When nothing was sent and nothing can be sent. A kept frame was not offered.
    fn send_burst(&mut self, budget: NonZeroU32) -> Result<Burst, EngineError>;

    /// The way to send frames at given times; `None` if each call sends its frames at once.
    fn timed(&mut self) -> Option<&mut dyn TimedEngine> {
        None
    }

    /// Why frames were rejected, queried from the kernel after a burst with serious errors; `None`
    /// if the device looks able to send.
    fn explain(&mut self, _errors: &Errors) -> Option<EngineError> {
        None
    }

    /// Waits up to a timeout for frames on their way to the wire, which would be lost when the
    /// engine is dropped. Returns the number of frames of `sent` that are lost.
    fn finish(&mut self) -> u64 {
        0
    }

    /// True if the run should back off from a full ring, because what empties it may need the CPU.
    fn rests(&self) -> bool {
        false
    }

    /// Something about the run that the report should mention.
    fn note(&self) -> Option<String> {
        None
    }

    /// True once it can send at full speed. The first call starts the preparation; until then it
    /// sends, too.
    fn is_ready(&mut self) -> bool {
        true
    }

    /// Why the device cannot send now: it is gone, down, or has no carrier; `None` if it can.
    fn link_trouble(&mut self) -> Option<EngineError> {
        None
    }

    /// State of the next frame.
    fn cursor(&self) -> Cursor;

    /// Number of frames that share one clock reading. Engines that read the clock per frame ignore
    /// it.
    fn set_clock_sharing(&mut self, _frames: u32) {}

    /// Sets the mean time from one due frame to the next in nanoseconds; 0 for as fast as possible.
    /// Engines whose calls cost the same at any rate ignore it.
    fn set_gap_ns(&mut self, _gap_ns: u64) {}

    /// `CLOCK_MONOTONIC` before which a paced run makes no call, for engines whose calls are
    /// expensive for the kernel; 0 for none.
    fn next_call_ns(&self) -> u64 {
        0
    }
}

/// An engine whose calls wait until their frames are due.
pub trait TimedEngine {
    /// The length of all frames, if it is the same.
    fn frame_len(&self) -> Option<u32>;

    /// Most frames of a call.
    fn call_frames_max(&self) -> usize;

    /// Sends a frame of its plan at each of these times of `CLOCK_MONOTONIC`, or at once if it has
    /// passed. Appends the time of each frame that was offered to `sent_ns`. Frames that the driver
    /// does not accept are kept or counted as by [`Engine::send_burst`].
    ///
    /// # Errors
    /// When nothing was sent and nothing can be sent. A kept frame was not offered.
    fn send_at(&mut self, due_ns: &[u64], sent_ns: &mut Vec<u64>) -> Result<Burst, EngineError>;
}

#[cfg(test)]
mod tests {
    use super::{Burst, Errors, SendErrors};

    #[test]
    fn a_frame_that_was_replaced_is_a_retry_and_was_not_offered() {
        let causes = SendErrors { refused: 5, ..SendErrors::default() };
        let errors = Errors { ring_full: 20, causes, ..Errors::default() };
        let burst = Burst { sent: 75, errors, frame_bytes: 6000, retries: 3 };
        let counts = burst.with_retries();
        assert_eq!((counts.offered(), counts.sent, counts.errors.total(), counts.retries), (80, 75, 5, 23));
        assert_eq!((counts.frame_bytes, counts.sent_bytes()), (4800, burst.sent_bytes()));
        assert_eq!(counts.with_retries(), counts);
        assert_eq!(Burst::default().with_retries(), Burst::default());
    }
}

#[cfg(test)]
pub(crate) mod fake {
    use super::{Burst, Engine};
    use crate::EngineError;
    use crate::engine_kind::EngineKind;
    use packet::Cursor;
    use std::num::NonZeroU32;

    /// An engine of one function, which takes the budget.
    pub(crate) struct FakeEngine<F>(pub(crate) F);

    impl<F: FnMut(u32) -> Burst> Engine for FakeEngine<F> {
        fn kind(&self) -> EngineKind {
            EngineKind::Mem
        }

        fn device_name(&self) -> String {
            "fake".to_owned()
        }

        fn send_burst(&mut self, budget: NonZeroU32) -> Result<Burst, EngineError> {
            Ok((self.0)(budget.get()))
        }

        fn cursor(&self) -> Cursor {
            Cursor::default()
        }
    }
}
