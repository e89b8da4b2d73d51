//! Sizes, the internet mix, and rates that are reckoned from sizes.

use super::{Answer, Given, Reply};
use crate::scan::Scan;
use crate::{Device, Fault};
use packet::{IMIX_ENTRIES_MAX, ImixEntry};

/// Ethernet, IPv4 and UDP headers: no size is set below this.
const SIZE_MIN: u64 = 14 + 20 + 8;
const NS_PER_US: u64 = 1_000;
const NS_PER_S: u64 = 1_000_000_000;
/// Digits of a size or a weight in a mix.
const IMIX_DIGITS: usize = 10;

/// True when a value as typed is another one than a signed 32-bit setting, compared in 64 bits as the kernel
/// does: sizes beyond 2^31 always differ from what they were cut to.
fn differs(typed: u64, setting: u32) -> bool {
    typed != setting as i32 as u64
}

pub(crate) fn min_pkt_size(device: &mut Device, given: &Given<'_>) -> Answer {
    let size = given.number.max(SIZE_MIN);
    if differs(size, device.config.min_pkt_size) {
        device.config.min_pkt_size = size as u32;
        device.cursor.frame_size = size as u32;
    }
    given.ok(device.config.min_pkt_size as i32)
}

pub(crate) fn max_pkt_size(device: &mut Device, given: &Given<'_>) -> Answer {
    let size = given.number.max(SIZE_MIN);
    if differs(size, device.config.max_pkt_size) {
        device.config.max_pkt_size = size as u32;
        device.cursor.frame_size = size as u32;
    }
    given.ok(device.config.max_pkt_size as i32)
}

/// Sets both ends, but only when the lower one changes.
pub(crate) fn pkt_size(device: &mut Device, given: &Given<'_>) -> Answer {
    let size = given.number.max(SIZE_MIN);
    if differs(size, device.config.min_pkt_size) {
        device.config.min_pkt_size = size as u32;
        device.config.max_pkt_size = size as u32;
        device.cursor.frame_size = size as u32;
    }
    given.ok(device.config.min_pkt_size as i32)
}

/// Mbit/s into a delay, from the smallest size as it is now. The product wraps as in the kernel: bits in a
/// signed 32-bit number, nanoseconds in 64 bits.
pub(crate) fn rate(device: &mut Device, given: &Given<'_>) -> Answer {
    let bits = (device.config.min_pkt_size as i32).wrapping_mul(8);
    let total = (bits as u64).wrapping_mul(NS_PER_US);
    let Some(delay_ns) = total.checked_div(given.number) else {
        return given.refuse(Fault::ZeroRate { setting: given.word });
    };
    device.config.delay_ns = delay_ns;
    given.ok(given.number)
}

/// Frames per second into a delay. The result says `rate`.
pub(crate) fn ratep(device: &mut Device, given: &Given<'_>) -> Answer {
    let Some(delay_ns) = NS_PER_S.checked_div(given.number) else {
        return given.refuse(Fault::ZeroRate { setting: given.word });
    };
    device.config.delay_ns = delay_ns;
    super::say(format!("OK: rate={}", given.number))
}

/// `SIZE,WEIGHT SIZE,WEIGHT ...`, exactly one space between entries. Never says anything; entries read before
/// a bad one stay.
pub(crate) fn imix_weights(device: &mut Device, given: &Given<'_>) -> Answer {
    if device.config.clone_skb > 0 {
        return given.refuse(Fault::ImixWithClones);
    }
    let entries = &mut device.config.imix;
    entries.clear();
    let mut scan = Scan::new(given.text);
    loop {
        if entries.len() == IMIX_ENTRIES_MAX {
            return given.refuse(Fault::TooMany { setting: given.word, max: IMIX_ENTRIES_MAX });
        }
        let Some(entry) = imix_entry(&mut scan) else {
            return given.refuse(Fault::BadImix { entry: entries.len() + 1 });
        };
        entries.push(entry);
        if scan.byte() != Some(b' ') {
            return Ok(Reply::Stale);
        }
    }
}

fn imix_entry(scan: &mut Scan<'_>) -> Option<ImixEntry> {
    let (size, _) = scan.decimal(IMIX_DIGITS);
    if scan.byte() != Some(b',') {
        return None;
    }
    let (weight, _) = scan.decimal(IMIX_DIGITS);
    // Cut to 32 bits, as the kernel does when it takes the size for a frame.
    (weight > 0).then(|| ImixEntry { size: size.max(SIZE_MIN) as u32, weight })
}
