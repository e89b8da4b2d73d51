//! Clocks of network cards (`/dev/ptpN`), read against the time of day.
//!
//! One reading is a time of the card's clock, the time of day at that moment, and how wrong the pair can be. Who turns
//! many readings into a line is the business of the callers; [`PhcRead`] is what they see, so that their tests need no
//! card.

use crate::{HostError, realtime_ns, sys};
use nix::time::{ClockId, clock_gettime};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

const NS_PER_S: i64 = 1_000_000_000;
/// Readings of one measurement; the tightest counts.
const SAMPLES: u32 = 5;

/// Both clocks at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhcReading {
    /// The card's clock, in nanoseconds of whatever it counts from.
    pub phc_ns: i64,
    /// The time of day, in nanoseconds since 1970.
    pub utc_ns: i64,
    /// The true time of day at `phc_ns` lies within this much of `utc_ns`.
    pub uncertainty_ns: u64,
}

/// A clock that can be read against the time of day.
pub trait PhcRead: Send {
    /// One reading, as tight as it can be had.
    ///
    /// # Errors
    /// What the kernel says, such as ENODEV when the card is gone.
    fn read(&self) -> io::Result<PhcReading>;
}

/// A time of the kernel's interface (`struct ptp_clock_time`), in nanoseconds.
pub(crate) type Ns = i64;

/// From samples (time of day, card, time of day): the one whose two times of day are nearest to each other.
pub(crate) fn tightest(samples: impl IntoIterator<Item = [Ns; 3]>) -> Option<PhcReading> {
    let [before, phc_ns, after] = samples.into_iter().min_by_key(|[before, _, after]| after - before)?;
    let half = (after - before) / 2;
    Some(PhcReading { phc_ns, utc_ns: before + half, uncertainty_ns: half.unsigned_abs() + 1 })
}

/// Ways of reading, best first. What the kernel or the driver does not have is not tried twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    /// The card latches both clocks at once (`PTP_SYS_OFFSET_PRECISE`).
    Precise,
    /// The driver reads the time of day right before and after the card (`PTP_SYS_OFFSET_EXTENDED`, Linux 5.0).
    Extended,
    /// We do (`clock_gettime` on the device).
    Around,
}

const WAYS: [Way; 3] = [Way::Precise, Way::Extended, Way::Around];

/// The clock of one card.
#[derive(Debug)]
pub struct Phc {
    file: File,
    /// Place in [`WAYS`] of the best way that worked.
    way: AtomicU8,
}

impl Phc {
    /// Opens `/dev/ptp{index}`.
    ///
    /// # Errors
    /// [`HostError::Refused`]: no such clock here (containers), or no right to read it.
    pub fn open(index: u32) -> Result<Self, HostError> {
        let path = format!("/dev/ptp{index}");
        let file = File::open(&path).map_err(HostError::refused("open the clock", path))?;
        Ok(Self { file, way: AtomicU8::new(0) })
    }

    fn read_by(&self, way: Way) -> io::Result<PhcReading> {
        let nothing = || io::Error::other("the driver gave no sample");
        match way {
            Way::Precise => {
                let [phc_ns, utc_ns] = sys::phc_precise(self.file.as_fd())?;
                Ok(PhcReading { phc_ns, utc_ns, uncertainty_ns: 1 })
            }
            Way::Extended => tightest(sys::phc_extended(self.file.as_fd(), SAMPLES)?).ok_or_else(nothing),
            Way::Around => {
                let samples = (0..SAMPLES).map(|_| self.sample()).collect::<io::Result<Vec<_>>>()?;
                tightest(samples).ok_or_else(nothing)
            }
        }
    }

    fn sample(&self) -> io::Result<[Ns; 3]> {
        let clock = ClockId::from_raw(clock_of(self.file.as_raw_fd()));
        let before = realtime_ns();
        let phc = clock_gettime(clock)?;
        let after = realtime_ns();
        Ok([before.cast_signed(), phc.tv_sec() * NS_PER_S + phc.tv_nsec(), after.cast_signed()])
    }
}

/// The number by which `clock_gettime` knows an open clock device (`FD_TO_CLOCKID` of the kernel).
fn clock_of(fd: i32) -> libc::clockid_t {
    (!fd << 3) | 3
}

impl PhcRead for Phc {
    fn read(&self) -> io::Result<PhcReading> {
        let mut refusal = None;
        for (number, way) in WAYS.iter().enumerate().skip(self.way.load(Relaxed).into()) {
            match self.read_by(*way) {
                Ok(reading) => {
                    self.way.store(number as u8, Relaxed);
                    return Ok(reading);
                }
                Err(error) => refusal = Some(error),
            }
        }
        Err(refusal.expect("there is a way to try"))
    }
}

/// Whole seconds that TAI is ahead of UTC, as the kernel was told; 0 where nobody told it.
pub fn tai_offset_s() -> i64 {
    let read = |clock| clock_gettime(clock).map_or(0, |time| time.tv_sec() * NS_PER_S + time.tv_nsec());
    // Read one after the other, so a little off a whole number of seconds.
    let apart = read(ClockId::CLOCK_TAI) - read(ClockId::CLOCK_REALTIME);
    (apart + NS_PER_S / 2).div_euclid(NS_PER_S)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tightest_sample_is_the_reading() {
        let samples = [[1_000, 77, 9_000], [10_000, 5_000, 10_040], [20_000, 6_000, 20_500]];
        let reading = PhcReading { phc_ns: 5_000, utc_ns: 10_020, uncertainty_ns: 21 };
        assert_eq!(tightest(samples), Some(reading));
        assert_eq!(tightest([]), None);
        // A clock that was set back between the two looks is no better than one that was not.
        assert_eq!(tightest([[100, 1, 90]]).unwrap().uncertainty_ns, 6);
    }

    #[test]
    fn clock_numbers_are_those_of_the_kernel() {
        // FD_TO_CLOCKID(3) in tools/testing/selftests/ptp: ((~(clockid_t)3) << 3) | 3.
        assert_eq!((clock_of(3), clock_of(0)), (-29, -5));
    }

    #[test]
    fn a_clock_that_is_not_there_is_named() {
        let error = Phc::open(4_000_000).unwrap_err();
        assert_eq!(error.to_string(), "cannot open the clock /dev/ptp4000000");
        assert_eq!(error.errno(), Some(libc::ENOENT));
    }

    /// Any file can stand for a card whose driver knows none of the calls: no way works, the last refusal is told.
    #[test]
    fn a_device_that_is_no_clock_is_an_error_each_time() {
        let phc = Phc { file: File::open("/dev/null").unwrap(), way: AtomicU8::new(0) };
        for _ in 0..2 {
            assert!(phc.read().is_err());
        }
        assert_eq!(sys::phc_precise(phc.file.as_fd()).unwrap_err().raw_os_error(), Some(libc::ENOTTY));
        assert_eq!(sys::phc_extended(phc.file.as_fd(), 3).unwrap_err().raw_os_error(), Some(libc::ENOTTY));
    }

    #[test]
    fn tai_is_a_whole_number_of_seconds_ahead() {
        assert!((0..=60).contains(&tai_offset_s()));
    }
}
