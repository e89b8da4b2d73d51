//! The time stamps of a device in a receiver: whose they are, and how the XDP program converts
//! them.
//!
//! The program cannot read the clock of the device. A thread measures it and hands the program the
//! line from that clock to CLOCK_MONOTONIC.

use crate::backend::hwtstamp::Hardware;
use crate::time::phc::PhcClock;
use crate::time::utc::{UtcClock, monotonic_now_ns};
use crate::{CaptureError, ClockMode};
use bpf::Receiver;
use host::{Link, Stack};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use std::{fmt, io};

/// Time between two looks; [`PhcClock`] decides how often it measures.
const INTERVAL: Duration = Duration::from_millis(20);
/// Measurements before the first frame: so the line has a slope.
const FIRST_READINGS: usize = 5;

/// The time stamps that a receiver gets for its frames.
#[derive(Clone)]
pub(crate) enum Stamps {
    /// Those of the kernel only; why, if the device makes some.
    Kernel(Option<String>),
    /// Those of the device, for the frames that it stamps.
    Device(Arc<PhcClock>),
}

impl fmt::Debug for Stamps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kernel(why) => f.debug_tuple("Kernel").field(why).finish(),
            Self::Device(_) => f.write_str("Device"),
        }
    }
}

impl Stamps {
    /// Those of `link`, a device of `stack`, for packet sockets.
    pub(crate) fn of_sockets(stack: &Stack, link: &Link) -> Result<Self, CaptureError> {
        let hardware = Hardware::of(stack, link, ClockMode::Utc)?;
        Ok(hardware.clock.map_or(Self::Kernel(hardware.refusal), Self::Device))
    }

    /// Time stamps that XDP programs get for frames of `link`, a device of `stack`.
    pub(crate) fn of_programs(stack: &Stack, link: &Link) -> Result<Self, CaptureError> {
        let hardware = Hardware::of(stack, link, ClockMode::Utc)?;
        Ok(match &hardware.clock {
            Some(clock) if hardware.ask(link.index).is_some_and(|ask| ask.time) => {
                Self::Device(Arc::clone(clock))
            }
            _ if hardware.only_sockets_get_stamps() => {
                Self::Kernel(Some(format!("{} gives its own to packet sockets only", link.name)))
            }
            _ => Self::Kernel(hardware.refusal),
        })
    }

    /// The clock of the device.
    pub(crate) fn clock(&self) -> Option<&Arc<PhcClock>> {
        match self {
            Self::Kernel(_) => None,
            Self::Device(clock) => Some(clock),
        }
    }

    /// Why there are none of the device, although it makes some.
    pub(crate) fn refusal(&self) -> Option<&str> {
        match self {
            Self::Kernel(why) => why.as_deref(),
            Self::Device(_) => None,
        }
    }
}

/// Keeps the line of a program up to date. Dropping it ends its thread.
#[derive(Debug)]
pub(crate) struct ReceiveClock {
    ends: Option<Sender<Infallible>>,
    thread: Option<JoinHandle<()>>,
}

impl ReceiveClock {
    /// Measures the clock and starts the thread. The program may be attached after that.
    ///
    /// # Errors
    /// When there can be no thread.
    pub(crate) fn start(clock: Arc<PhcClock>, receiver: Arc<Receiver>) -> io::Result<Self> {
        let utc = UtcClock::new();
        let update = move || {
            let (at_ns, offset_ns, drift) = clock.line(monotonic_now_ns()).parts();
            receiver.set_clock_line(at_ns, offset_ns.wrapping_sub(utc.offset_ns()), drift);
        };
        for _ in 1..FIRST_READINGS {
            update();
            // Two measurements have to be apart for the slope.
            thread::sleep(INTERVAL);
        }
        update();
        let (ends, ended) = mpsc::channel::<Infallible>();
        let run = move || {
            while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(INTERVAL) {
                update();
            }
        };
        let thread = thread::Builder::new().name("receive-clock".to_owned()).spawn(run)?;
        Ok(Self { ends: Some(ends), thread: Some(thread) })
    }
}

impl Drop for ReceiveClock {
    fn drop(&mut self) {
        self.ends = None;
        if let Some(thread) = self.thread.take()
            && !thread::panicking()
        {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    }
}
