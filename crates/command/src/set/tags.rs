//! MPLS labels, VLAN tags, and the traffic class bytes.

use super::{Argument, Reply, SetterResult, result};
use crate::scan::Scan;
use crate::{Device, Fault};
use packet::{Config, Flags, MPLS_LABELS_MAX, MPLS_RANDOM};

/// Highest VLAN id; anything above turns tags off.
const VLAN_ID_MAX: u64 = 4095;
/// Hex digits of a label.
const LABEL_DIGITS: usize = 8;

/// Labels with one comma between them. One that is zero or no number empties the list, which is how
/// MPLS is turned off. MPLS and VLAN exclude each other.
pub(crate) fn mpls(device: &mut Device, arg: &Argument<'_>) -> SetterResult {
    let config = &mut device.config;
    config.mpls.clear();
    let labels = read_labels(arg, &mut config.flags)?;
    if !labels.is_empty() && config.vlan_id.is_some() {
        remove_tags(config);
    }
    let words: Vec<String> = labels.iter().map(|label| format!("{label:08x}")).collect();
    config.mpls = labels;
    arg.ok(words.join(","))
}

fn read_labels(arg: &Argument<'_>, flags: &mut Flags) -> Result<Vec<u32>, crate::Refusal> {
    let refused = |fault| crate::Refusal { fault, span: arg.span.clone() };
    let mut labels = Vec::new();
    let mut scan = Scan::new(arg.text);
    loop {
        if labels.len() == MPLS_LABELS_MAX {
            return Err(refused(Fault::TooMany { setting: arg.word, max: MPLS_LABELS_MAX }));
        }
        if scan.is_at_end() {
            return Err(refused(Fault::NoLabel));
        }
        let label = scan.hexadecimal(LABEL_DIGITS).0 as u32;
        if label == 0 {
            return Ok(Vec::new());
        }
        if label & MPLS_RANDOM != 0 {
            flags.set(Flags::MPLS_RND, true);
        }
        labels.push(label);
        if scan.byte() != Some(b',') {
            return Ok(labels);
        }
    }
}

fn remove_tags(config: &mut Config) {
    config.vlan_id = None;
    config.svlan_id = None;
}

/// Turning off says nothing, as in the kernel.
pub(crate) fn vlan_id(device: &mut Device, arg: &Argument<'_>) -> SetterResult {
    if arg.number > VLAN_ID_MAX {
        remove_tags(&mut device.config);
        return Ok(Reply::Unchanged);
    }
    device.config.vlan_id = Some(arg.number as u16);
    device.config.mpls.clear();
    arg.ok(arg.number)
}

/// An outer tag needs an inner one; without, both are off.
pub(crate) fn svlan_id(device: &mut Device, arg: &Argument<'_>) -> SetterResult {
    if arg.number > VLAN_ID_MAX || device.config.vlan_id.is_none() {
        remove_tags(&mut device.config);
        return Ok(Reply::Unchanged);
    }
    device.config.svlan_id = Some(arg.number as u16);
    device.config.mpls.clear();
    arg.ok(arg.number)
}

pub(crate) fn vlan_p(device: &mut Device, arg: &Argument<'_>) -> SetterResult {
    let is_on = device.config.vlan_id.is_some();
    set_tag_bits(arg, is_on, 7, &mut device.config.vlan_p)
}

pub(crate) fn vlan_cfi(device: &mut Device, arg: &Argument<'_>) -> SetterResult {
    let is_on = device.config.vlan_id.is_some();
    set_tag_bits(arg, is_on, 1, &mut device.config.vlan_cfi)
}

pub(crate) fn svlan_p(device: &mut Device, arg: &Argument<'_>) -> SetterResult {
    let is_on = device.config.svlan_id.is_some();
    set_tag_bits(arg, is_on, 7, &mut device.config.svlan_p)
}

pub(crate) fn svlan_cfi(device: &mut Device, arg: &Argument<'_>) -> SetterResult {
    let is_on = device.config.svlan_id.is_some();
    set_tag_bits(arg, is_on, 1, &mut device.config.svlan_cfi)
}

/// Says the same for a value too large and for a tag that is off; both are no error of the write.
fn set_tag_bits(arg: &Argument<'_>, is_on: bool, max: u8, setting: &mut u8) -> SetterResult {
    if arg.number > u64::from(max) || !is_on {
        return result(format!("ERROR: {} must be 0-{max}", arg.word));
    }
    *setting = arg.number as u8;
    arg.ok(arg.number)
}

pub(crate) fn tos(device: &mut Device, arg: &Argument<'_>) -> SetterResult {
    set_class(arg, &mut device.config.tos)
}

pub(crate) fn traffic_class(device: &mut Device, arg: &Argument<'_>) -> SetterResult {
    set_class(arg, &mut device.config.traffic_class)
}

/// Exactly two hex digits.
fn set_class(arg: &Argument<'_>, setting: &mut u8) -> SetterResult {
    if arg.text.len() != 2 {
        return result(format!("ERROR: {} must be 00-ff", arg.word));
    }
    *setting = arg.number as u8;
    arg.ok(format_args!("0x{setting:02x}"))
}

#[cfg(test)]
mod tests {
    use crate::testing::TestDevice;

    #[test]
    fn labels_are_hex_and_one_bad_one_empties_the_list() {
        let mut test = TestDevice::new();
        test.expect(&[
            ("mpls 0001000a,0002000a,0000000a", "OK: mpls=0001000a,0002000a,0000000a"),
            ("mpls 1", "OK: mpls=00000001"),
            ("mpls 123456789,5", "OK: mpls=12345678"),
            ("mpls 1000a, 2000a", "OK: mpls="),
            ("mpls a,xyz", "OK: mpls="),
            ("mpls 0x10", "OK: mpls="),
            ("mpls a;b", "OK: mpls=0000000a"),
            ("mpls", "EINVAL OK: mpls=0000000a"),
        ]);
        assert_eq!(test.line("mpls"), None);
        test.expect(&[
            ("mpls a,b\n", "OK: mpls=0000000a,0000000b"),
            ("mpls a,", "EINVAL OK: mpls=0000000a,0000000b"),
        ]);
        assert_eq!(test.line("mpls"), None, "a refused list leaves none");
    }

    #[test]
    fn there_are_16_labels_at_most() {
        let labels = |count: usize| format!("mpls {}", vec!["a"; count].join(","));
        let mut test = TestDevice::new();
        assert!(test.write(&labels(16)).starts_with("OK: mpls=0000000a,"));
        assert!(test.write(&labels(17)).starts_with("E2BIG OK: mpls="));
        assert_eq!(test.line("mpls"), None);
    }

    #[test]
    fn bit_0x100_turns_the_random_flag_on_for_good() {
        let mut test = TestDevice::after(&["mpls 10a", "mpls 0"]);
        assert_eq!(test.line("Flags").unwrap(), "Flags: MPLS_RND  SHARED  ");
        test.write("flag !MPLS_RND");
        assert_eq!(test.line("Flags").unwrap(), "Flags: SHARED  ");
    }

    #[test]
    fn labels_and_tags_exclude_each_other() {
        let mut test = TestDevice::after(&["vlan_id 5", "svlan_id 6", "mpls a"]);
        assert_eq!((test.line("vlan_id"), test.line("svlan_id")), (None, None));
        test.write("vlan_id 7");
        assert_eq!(test.line("mpls"), None);
        test.write("mpls 0");
        assert!(test.line("vlan_id").is_some(), "an empty list leaves the tag");
    }

    #[test]
    fn tags_turn_off_in_silence() {
        let mut test = TestDevice::new();
        test.expect(&[
            ("svlan_id 5", ""),
            ("vlan_p 3", "ERROR: vlan_p must be 0-7"),
            ("vlan_id 77", "OK: vlan_id=77"),
            ("svlan 22", "OK: svlan_id=22"),
            ("svlan_p 9", "ERROR: svlan_p must be 0-7"),
            ("svlan_p 50", "OK: svlan_p=5"),
            ("svlan_cfi 2", "ERROR: svlan_cfi must be 0-1"),
            ("vlan_cfi 1", "OK: vlan_cfi=1"),
        ]);
        assert_eq!(test.line("svlan_id").unwrap(), "svlan_id: 22  vlan_p: 5  vlan_cfi: 0");
        test.expect(&[("vlan_id 40950", "OK: vlan_id=4095"), ("svlan_id 9999", "OK: vlan_id=4095")]);
        assert_eq!((test.line("vlan_id"), test.line("svlan_id")), (None, None));
        test.expect(&[("svlan_cfi 1", "ERROR: svlan_cfi must be 0-1"), ("vlan_id", "OK: vlan_id=0")]);
        assert_eq!(
            test.line("vlan_id").unwrap(),
            "vlan_id: 0  vlan_p: 0  vlan_cfi: 1",
            "bits outlive the tag"
        );
    }

    #[test]
    fn classes_are_two_hex_digits() {
        let mut test = TestDevice::new();
        test.expect(&[
            ("tos fff", "OK: tos=0xff"),
            ("tos 1", "ERROR: tos must be 00-ff"),
            ("tos 0x1", "ERROR: tos must be 00-ff"),
            ("tos", "ERROR: tos must be 00-ff"),
            ("traffic_class B8", "OK: traffic_class=0xb8"),
        ]);
        assert_eq!(test.line("tos").unwrap(), "tos: 0xff");
        test.write("tos 00");
        assert_eq!(test.line("tos"), None);
    }
}
