//! Clocks of network cards (`/dev/ptpN`), read together with the time of day.
//!
//! A reading is a time of the card's clock, the time of day at that moment, and the maximum error.
//! The callers fit a line through many readings; they use [`PhcRead`], so that their tests need no
//! card.

use crate::{HostError, realtime_ns, sys};
use nix::time::{ClockId, clock_gettime};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

const NS_PER_S: i64 = 1_000_000_000;
/// Readings per measurement; the one with the smallest error is used.
const SAMPLES: u32 = 5;

/// Both clocks at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhcReading {
    /// The clock of the card, in nanoseconds since its epoch.
    pub phc_ns: i64,
    /// The time of day, in nanoseconds since 1970.
    pub utc_ns: i64,
    /// Maximum error of `utc_ns` at `phc_ns`.
    pub uncertainty_ns: u64,
}

/// A clock that can be read together with the time of day.
pub trait PhcRead: Send {
    /// One reading, with the smallest possible error.
    ///
    /// # Errors
    /// Error of the kernel, such as ENODEV if the card is gone.
    fn read(&self) -> io::Result<PhcReading>;
}

/// A time of the kernel's interface (`struct ptp_clock_time`), in nanoseconds.
pub(crate) type Ns = i64;

/// From samples (time of day, card, time of day): the one with the smallest difference of its two
/// times of day.
pub(crate) fn tightest(samples: impl IntoIterator<Item = [Ns; 3]>) -> Option<PhcReading> {
    let [before, phc_ns, after] = samples.into_iter().min_by_key(|[before, _, after]| after - before)?;
    let half = (after - before) / 2;
    Some(PhcReading { phc_ns, utc_ns: before + half, uncertainty_ns: half.unsigned_abs() + 1 })
}

/// Methods of reading, best first. Unsupported ones are not tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    /// The card latches both clocks at once (`PTP_SYS_OFFSET_PRECISE`).
    Precise,
    /// The driver reads the time of day directly before and after the card
    /// (`PTP_SYS_OFFSET_EXTENDED`, Linux 5.0).
    Extended,
    /// User space does (`clock_gettime` on the device).
    Around,
}

const WAYS: [Way; 3] = [Way::Precise, Way::Extended, Way::Around];

/// The clock of one card.
#[derive(Debug)]
pub struct Phc {
    file: File,
    /// Index in [`WAYS`] of the best method that worked.
    way: AtomicU8,
}

impl Phc {
    /// Opens `/dev/ptp{index}`.
    ///
    /// # Errors
    /// [`HostError::Refused`]: no such clock here (containers), or no permission.
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

/// Clock id of an open clock device for `clock_gettime` (`FD_TO_CLOCKID` of the kernel).
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

/// Offset of TAI from UTC in seconds, as set in the kernel; 0 if unset.
pub fn tai_offset_s() -> i64 {
    let read = |clock| clock_gettime(clock).map_or(0, |time| time.tv_sec() * NS_PER_S + time.tv_nsec());
    // Read one after the other, so slightly off a whole number of seconds.
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
        // A clock that was stepped back between the two reads is not better.
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

    /// A file stands for a card whose driver supports none of the calls: the last error is
    /// reported.
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
