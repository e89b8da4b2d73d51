//! The mem engine: frames into memory, for dry runs and tests. It needs no device and no
//! privileges.

use crate::clock::Clock;
use crate::engine::{Burst, Engine, Errors};
use crate::engine_kind::EngineKind;
use crate::{EngineError, SystemClock};
use packet::{Cursor, Plan};
use std::num::NonZeroU32;

/// Where the frames of the mem engine go.
pub trait FrameSink {
    /// Takes one frame.
    ///
    /// # Errors
    /// Why it was not taken; the frame then counts as refused.
    fn take(&mut self, frame: &[u8]) -> std::io::Result<()>;
}

impl FrameSink for Vec<Vec<u8>> {
    fn take(&mut self, frame: &[u8]) -> std::io::Result<()> {
        self.push(frame.to_vec());
        Ok(())
    }
}

/// Drops the frames: of a dry run, nothing is sent.
impl FrameSink for () {
    fn take(&mut self, _: &[u8]) -> std::io::Result<()> {
        Ok(())
    }
}

/// Writes the frames of a plan into a sink.
#[derive(Debug)]
pub struct MemEngine<S, C = SystemClock> {
    plan: Plan,
    cursor: Cursor,
    clock: C,
    frame: Vec<u8>,
    sink: S,
}

impl<S: FrameSink> MemEngine<S> {
    /// With the machine's clock.
    pub fn new(plan: Plan, cursor: Cursor, sink: S) -> Self {
        Self::with_clock(plan, cursor, sink, SystemClock)
    }
}

impl<S: FrameSink, C: Clock> MemEngine<S, C> {
    /// With a clock of the caller's.
    pub fn with_clock(plan: Plan, cursor: Cursor, sink: S, clock: C) -> Self {
        let frame = vec![0; plan.frame_len_max() as usize];
        Self { plan, cursor, clock, frame, sink }
    }

    /// What was taken so far.
    pub fn sink_mut(&mut self) -> &mut S {
        &mut self.sink
    }

    /// What was taken.
    pub fn into_sink(self) -> S {
        self.sink
    }
}

impl<S: FrameSink, C: Clock> Engine for MemEngine<S, C> {
    fn kind(&self) -> EngineKind {
        EngineKind::Mem
    }

    fn device_name(&self) -> String {
        "memory".to_owned()
    }

    fn send_burst(&mut self, budget: NonZeroU32) -> Result<Burst, EngineError> {
        let mut burst = Burst::default();
        for _ in 0..budget.get() {
            let now_ns = self.clock.of_frame(&self.plan);
            let len = self.plan.emit(&mut self.cursor, now_ns, &mut self.frame);
            if len == 0 {
                burst.errors.causes.refused += 1;
                burst.errors.last_errno = libc::ENOENT;
                continue;
            }
            burst.frame_bytes += len as u64;
            match self.sink.take(&self.frame[..len]) {
                Ok(()) => burst.sent += 1,
                Err(error) => {
                    burst.errors.causes.refused += 1;
                    burst.errors.last_errno = error.raw_os_error().unwrap_or(libc::EIO);
                    break;
                }
            }
        }
        Ok(burst)
    }

    fn explain(&mut self, errors: &Errors) -> Option<EngineError> {
        let source = std::io::Error::from_raw_os_error(errors.last_errno);
        Some(EngineError::Refused { ifname: self.device_name(), source })
    }

    fn cursor(&self) -> Cursor {
        self.cursor.clone()
    }
}
