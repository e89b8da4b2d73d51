//! The captures behind mgcap's device files: orders become captures, reads become slots.

use crate::out;
use capture::{CaptureError, Mode, SlotCapture};
use ctlfs::Errno;
use ctlfs::slots::SlotTree;
use facts::{Described, Document};
use host::HostError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::error::Error;
use std::sync::{Arc, PoisonError, RwLock};

/// The state of a device of `wirerate mgcap`.
pub const MGCAP: Document = Document::of::<MgcapCapture>("wirerate.mgcap/1", "wirerate mgcap --json show");

/// One capture, as the hidden file tells it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Described)]
pub struct MgcapCapture {
    /// The device.
    pub device: String,
    /// The mode.
    #[fact(kind = Kind::Word(&["mirror", "drop"]))]
    pub mode: String,
    /// How frames are taken off the device, as in `wirerate.capture/2`.
    pub source: String,
    /// Frames received by the capture program.
    #[fact(unit = "frames")]
    pub received: u64,
    /// Frames read from the device file.
    #[fact(unit = "frames")]
    pub delivered: u64,
    /// Frames lost because no reader took them in time.
    #[fact(unit = "frames")]
    pub lost: u64,
    /// True if the device was deleted. `mgcap show` omits it; open readers get the remaining
    /// frames.
    #[serde(default)]
    pub gone: bool,
}

/// All captures of this process.
#[derive(Default)]
pub struct Captures {
    by_name: RwLock<BTreeMap<String, Arc<SlotCapture>>>,
}

type ErrnoAndReason = (Errno, String);

impl Captures {
    fn find(&self, name: &str) -> Option<Arc<SlotCapture>> {
        self.by_name.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    fn captured(&self, name: &str) -> Result<Arc<SlotCapture>, ErrnoAndReason> {
        self.find(name).ok_or_else(|| (Errno::ENOENT, format!("{name} is not captured")))
    }

    fn start(&self, name: &str) -> Result<(), ErrnoAndReason> {
        // Under the lock: of two starts the second one is told that there is a first.
        let mut captures = self.by_name.write().unwrap_or_else(PoisonError::into_inner);
        if captures.get(name).is_some_and(|capture| !capture.is_gone()) {
            return Err((Errno::EBUSY, format!("{name} is captured already")));
        }
        let capture = SlotCapture::start(name).map_err(|why| refusal(&why))?;
        captures.insert(name.to_owned(), Arc::new(capture));
        Ok(())
    }

    fn stop(&self, name: &str) -> Result<(), ErrnoAndReason> {
        let capture = self.by_name.write().unwrap_or_else(PoisonError::into_inner).remove(name);
        // Readers that are at work hold it a moment longer; the last one takes the program off.
        capture.map(drop).ok_or_else(|| (Errno::ENOENT, format!("{name} is not captured")))
    }

    fn set_mode(&self, name: &str, mode: &str) -> Result<(), ErrnoAndReason> {
        let mode = match mode {
            "mirror" => Mode::Mirror,
            "drop" => Mode::Drop,
            other => return Err((Errno::EINVAL, format!("\"{other}\" is neither mirror nor drop"))),
        };
        self.captured(name)?.set_mode(mode).map_err(|why| refusal(&why))
    }
}

/// The numbers that the module's netlink family answered with.
fn refusal(why: &CaptureError) -> ErrnoAndReason {
    let errno = match why {
        CaptureError::Host(HostError::NoLink { .. }) => Errno::ENODEV,
        CaptureError::Host(HostError::BadName { .. }) => Errno::EINVAL,
        CaptureError::Bpf(error) if error.is_busy() => Errno::EBUSY,
        _ => Errno::ENOEXEC,
    };
    let mut text = why.to_string();
    let mut source = why.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    (errno, text)
}

impl SlotTree for Captures {
    fn names(&self) -> Vec<String> {
        let captures = self.by_name.read().unwrap_or_else(PoisonError::into_inner);
        captures.iter().filter(|(_, capture)| !capture.is_gone()).map(|(name, _)| name.clone()).collect()
    }

    fn contains(&self, name: &str) -> bool {
        self.find(name).is_some_and(|capture| !capture.is_gone())
    }

    fn take(&self, name: &str, cpu: Option<u32>, len_max: usize, out: &mut Vec<u8>) -> bool {
        let Some(capture) = self.find(name) else { return false };
        capture.take(cpu, len_max, out);
        // A device that went away has nothing more to give once its rings are empty.
        !(out.is_empty() && capture.is_gone())
    }

    fn is_ready(&self, name: &str, cpu: Option<u32>) -> bool {
        self.find(name).is_none_or(|capture| capture.is_ready(cpu) || capture.is_gone())
    }

    fn control(&self, order: &str) -> Result<(), ErrnoAndReason> {
        match order.split_whitespace().collect::<Vec<_>>()[..] {
            ["start", name] => self.start(name),
            ["stop", name] => self.stop(name),
            ["set", name, "mode", mode] => self.set_mode(name, mode),
            _ => Err((
                Errno::EINVAL,
                "the orders are: start DEV, stop DEV, set DEV mode mirror|drop".to_owned(),
            )),
        }
    }

    fn state(&self) -> String {
        let captures = self.by_name.read().unwrap_or_else(PoisonError::into_inner);
        captures.iter().map(|(name, capture)| out::json_line(&MGCAP, &state(name, capture))).collect()
    }
}

fn state(name: &str, capture: &SlotCapture) -> MgcapCapture {
    let counts = capture.counts();
    MgcapCapture {
        device: name.to_owned(),
        mode: match capture.mode() {
            Mode::Mirror => "mirror".to_owned(),
            Mode::Drop => "drop".to_owned(),
        },
        source: capture.source().to_string(),
        received: counts.received,
        delivered: counts.delivered,
        lost: counts.lost,
        gone: capture.is_gone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_refused_with_the_modules_numbers_and_a_sentence() {
        let captures = Captures::default();
        for (order, errno, word) in [
            ("", Errno::EINVAL, "the orders are"),
            ("start", Errno::EINVAL, "the orders are"),
            ("start no-such-dev now", Errno::EINVAL, "the orders are"),
            ("start no-such-dev", Errno::ENODEV, "there is no device no-such-dev"),
            ("start a/b", Errno::EINVAL, "a/b"),
            ("stop lo", Errno::ENOENT, "lo is not captured"),
            ("set lo mode drop", Errno::ENOENT, "lo is not captured"),
            ("set lo mode pass", Errno::EINVAL, "\"pass\" is neither mirror nor drop"),
        ] {
            let (answer, why) = captures.control(order).unwrap_err();
            assert_eq!(answer, errno, "{order}: {why}");
            assert!(why.contains(word), "{order}: {why}");
        }
        assert_eq!(captures.state(), "");
        assert!(captures.names().is_empty() && !captures.contains("lo"));
        assert!(!captures.take("lo", None, 128, &mut Vec::new()), "what is not captured has ended");
        assert!(captures.is_ready("lo", None), "and no read waits for it");
    }
}
