//! Sizes, the internet mix, and rates that are computed from sizes.

use super::{Argument, Reply, SetterResult};
use crate::scan::Scan;
use crate::{Device, Fault};
use packet::{IMIX_ENTRIES_MAX, ImixEntry, Slot};

/// Ethernet, IPv4 and UDP headers: no size is set below this.
const SIZE_MIN: u64 = 14 + 20 + 8;
const NS_PER_US: u64 = 1_000;
const NS_PER_S: u64 = 1_000_000_000;
/// Digits of a size or a weight in a mix.
const IMIX_DIGITS: usize = 10;

/// The number to write for a size: sizes below [`SIZE_MIN`] are raised when they are set, and only
/// a number cut to 32 bits gives a smaller one.
pub(crate) fn size_to_write(size: u32) -> u64 {
    let size = u64::from(size);
    if size < SIZE_MIN { (1 << 32) + size } else { size }
}

/// True when a value as typed is another one than a signed 32-bit setting, compared in 64 bits as
/// the kernel does: sizes beyond 2^31 always differ from what they were cut to.
fn differs(typed: u64, setting: u32) -> bool {
    typed != setting as i32 as u64
}

/// Sets the size from which sizes continue. A mix does not use it, and must not repeat a frame of
/// another size: in the kernel only a burst repeats frames of a mix, and no command comes between
/// them.
fn next_size(device: &mut Device, size: u64) {
    device.cursor[Slot::FRAME_SIZE] = u64::from(size as u32);
    if !device.config.imix.is_empty() {
        device.cursor.repeats_left = 0;
    }
}

pub(crate) fn flows(device: &mut Device, arg: &Argument<'_>) -> SetterResult {
    device.config.flows = (arg.number as u32).min(packet::FLOWS_MAX);
    arg.ok(device.config.flows)
}

pub(crate) fn min_pkt_size(device: &mut Device, arg: &Argument<'_>) -> SetterResult {
    let size = arg.number.max(SIZE_MIN);
    if differs(size, device.config.min_pkt_size) {
        device.config.min_pkt_size = size as u32;
        next_size(device, size);
    }
    arg.ok(device.config.min_pkt_size as i32)
}

pub(crate) fn max_pkt_size(device: &mut Device, arg: &Argument<'_>) -> SetterResult {
    let size = arg.number.max(SIZE_MIN);
    if differs(size, device.config.max_pkt_size) {
        device.config.max_pkt_size = size as u32;
        next_size(device, size);
    }
    arg.ok(device.config.max_pkt_size as i32)
}

/// Sets both ends, but only when the lower one changes.
pub(crate) fn pkt_size(device: &mut Device, arg: &Argument<'_>) -> SetterResult {
    let size = arg.number.max(SIZE_MIN);
    if differs(size, device.config.min_pkt_size) {
        device.config.min_pkt_size = size as u32;
        device.config.max_pkt_size = size as u32;
        next_size(device, size);
    }
    arg.ok(device.config.min_pkt_size as i32)
}

/// Mbit/s into a delay, from the smallest size as it is now. The product wraps as in the kernel:
/// bits in a signed 32-bit number, nanoseconds in 64 bits.
pub(crate) fn rate(device: &mut Device, arg: &Argument<'_>) -> SetterResult {
    let bits = (device.config.min_pkt_size as i32).wrapping_mul(8);
    let total = (bits as u64).wrapping_mul(NS_PER_US);
    let Some(delay_ns) = total.checked_div(arg.number) else {
        return arg.refuse(Fault::ZeroRate { setting: arg.word });
    };
    device.config.delay_ns = delay_ns;
    arg.ok(arg.number)
}

/// Frames per second into a delay. The result says `rate`.
pub(crate) fn ratep(device: &mut Device, arg: &Argument<'_>) -> SetterResult {
    let Some(delay_ns) = NS_PER_S.checked_div(arg.number) else {
        return arg.refuse(Fault::ZeroRate { setting: arg.word });
    };
    device.config.delay_ns = delay_ns;
    super::result(format!("OK: rate={}", arg.number))
}

/// `SIZE,WEIGHT SIZE,WEIGHT ...`, exactly one space between entries. Never says anything; entries
/// read before a bad one stay.
pub(crate) fn imix_weights(device: &mut Device, arg: &Argument<'_>) -> SetterResult {
    if device.config.clone_skb > 0 {
        return arg.refuse(Fault::ImixWithClones);
    }
    let entries = &mut device.config.imix;
    entries.clear();
    device.cursor.repeats_left = 0;
    let mut scan = Scan::new(arg.text);
    loop {
        if entries.len() == IMIX_ENTRIES_MAX {
            return arg.refuse(Fault::TooMany { setting: arg.word, max: IMIX_ENTRIES_MAX });
        }
        let Some(entry) = imix_entry(&mut scan) else {
            return arg.refuse(Fault::BadImix { entry: entries.len() + 1 });
        };
        entries.push(entry);
        if scan.byte() != Some(b' ') {
            return Ok(Reply::Unchanged);
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

#[cfg(test)]
mod tests {
    use crate::testing::TestDevice;

    #[test]
    fn sizes_are_raised_to_42_and_cut_to_32_bits() {
        TestDevice::new().expect(&[
            ("min_pkt_size 41", "OK: min_pkt_size=42"),
            ("min_pkt_size 4294967295", "OK: min_pkt_size=-1"),
            ("min_pkt_size 4294967297", "OK: min_pkt_size=1"),
            ("max_pkt_size 4294967338", "OK: max_pkt_size=42"),
            ("pkt_size", "OK: pkt_size=42"),
        ]);
    }

    #[test]
    fn pkt_size_does_nothing_when_the_smallest_size_is_it_already() {
        let mut test = TestDevice::after(&["min_pkt_size 60", "max_pkt_size 1500", "pkt_size 60"]);
        assert_eq!(test.line("count"), None);
        assert_eq!((test.device.config.min_pkt_size, test.device.config.max_pkt_size), (60, 1500));
        assert_eq!(test.device.cursor[packet::Slot::FRAME_SIZE], 1500, "the size set last");
        test.write("pkt_size 61");
        assert_eq!((test.device.config.max_pkt_size, test.device.cursor[packet::Slot::FRAME_SIZE]), (61, 61));
    }

    #[test]
    fn a_size_is_compared_as_typed() {
        let mut test = TestDevice::after(&["pkt_size 60", "max_pkt_size 1500"]);
        test.write("pkt_size 4294967356");
        assert_eq!(test.device.config.max_pkt_size, 60, "2^32 + 60 is another number than 60");
    }

    #[test]
    fn rates_become_delays_by_the_size_of_now() {
        let mut test = TestDevice::new();
        test.expect(&[("rate 100", "OK: rate=100"), ("pkt_size 60", "OK: pkt_size=60")]);
        assert_eq!(test.device.config.delay_ns, 0, "no size was set yet");
        test.expect(&[("rate 300M", "OK: rate=300")]);
        assert_eq!(test.device.config.delay_ns, 1600);
        test.expect(&[("ratep 3", "OK: rate=3")]);
        assert_eq!(test.device.config.delay_ns, 333_333_333);
        test.expect(&[("rate 0", "EINVAL OK: rate=3"), ("ratep abc", "EINVAL OK: rate=3")]);
        assert_eq!(test.device.config.delay_ns, 333_333_333);
    }

    #[test]
    fn rate_wraps_like_a_signed_int() {
        let mut test = TestDevice::after(&["pkt_size 1410065407", "rate 1"]);
        assert_eq!(test.device.config.delay_ns, (-1_604_378_632_000_i64) as u64);
        test.write("rate 9999999999");
        assert_eq!(test.device.config.delay_ns, ((-1_604_378_632_000_i64) as u64) / 9_999_999_999);
    }

    fn mix(test: &TestDevice) -> Vec<(u32, u64)> {
        test.device.config.imix.iter().map(|entry| (entry.size, entry.weight)).collect()
    }

    #[test]
    fn a_mix_says_nothing_and_keeps_what_came_before_a_fault() {
        let mut test = TestDevice::new();
        test.expect(&[("imix_weights 64,7 576,4 1500,1\n", "")]);
        assert_eq!(mix(&test), [(64, 7), (576, 4), (1500, 1)]);
        assert_eq!(test.line("imix_weights").unwrap(), "imix_weights: 64,7 576,4 1500,1 ");
        assert_eq!(test.line("imix_size_counts").unwrap(), "imix_size_counts: 64,0 576,0 1500,0 ");
        for (command, kept) in [
            ("imix_weights 10,5 x", 1),
            ("imix_weights 10,5  20,5", 1),
            ("imix_weights 10,5 20", 1),
            ("imix_weights 10,5 20,", 1),
            ("imix_weights 10,5 20,0", 1),
            ("imix_weights 10,5 20,5 ", 2),
            ("imix_weights x", 0),
            ("imix_weights", 0),
        ] {
            assert_eq!(test.write(command), "EINVAL ", "{command}");
            assert_eq!(mix(&test).len(), kept, "{command}");
        }
        assert_eq!(test.write("imix_weights 10,5,20,5"), "", "any byte but a space ends the list");
        assert_eq!(mix(&test), [(42, 5)]);
        assert_eq!(test.write("imix_weights ,5"), "", "no digit is 0");
    }

    #[test]
    fn a_mix_has_20_entries_at_most() {
        let entries = |count: usize| format!("imix_weights {}", vec!["64,1"; count].join(" "));
        let mut test = TestDevice::new();
        assert_eq!(test.write(&entries(20)), "");
        assert_eq!(test.write(&entries(21)), "E2BIG ");
        assert_eq!(mix(&test).len(), 20);
    }

    #[test]
    fn a_mix_and_clones_exclude_each_other() {
        let mut test = TestDevice::after(&["clone_skb 1"]);
        assert_eq!(test.write("imix_weights 64,1"), "EINVAL OK: clone_skb=1");
        let mut test = TestDevice::after(&["imix_weights 64,1"]);
        assert_eq!(test.write("clone_skb 1"), "EINVAL ");
        assert_eq!(test.write("clone_skb 0"), "OK: clone_skb=0");
    }
}
