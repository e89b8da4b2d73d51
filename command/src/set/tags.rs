//! MPLS labels, VLAN tags, and the traffic class bytes.

use super::{Answer, Given, Reply, say};
use crate::scan::Scan;
use crate::{Device, Fault};
use packet::{Config, Flags, MPLS_LABELS_MAX};

/// Highest VLAN id; anything above turns tags off.
const VLAN_ID_MAX: u64 = 4095;
/// In a label as typed: this one is to be drawn at random.
const RANDOM_LABEL: u32 = 0x100;
/// Hex digits of a label.
const LABEL_DIGITS: usize = 8;

/// Labels with one comma between them. One that is zero or no number empties the list, which is how MPLS is
/// turned off. MPLS and VLAN exclude each other.
pub(crate) fn mpls(device: &mut Device, given: &Given<'_>) -> Answer {
    let config = &mut device.config;
    config.mpls.clear();
    let labels = read_labels(given, &mut config.flags)?;
    if !labels.is_empty() && config.vlan_id.is_some() {
        remove_tags(config);
    }
    let words: Vec<String> = labels.iter().map(|label| format!("{label:08x}")).collect();
    config.mpls = labels;
    given.ok(words.join(","))
}

fn read_labels(given: &Given<'_>, flags: &mut Flags) -> Result<Vec<u32>, crate::Refused> {
    let refused = |fault| crate::Refused { fault, span: given.span.clone() };
    let mut labels = Vec::new();
    let mut scan = Scan::new(given.text);
    loop {
        if labels.len() == MPLS_LABELS_MAX {
            return Err(refused(Fault::TooMany { setting: given.word, max: MPLS_LABELS_MAX }));
        }
        if scan.is_at_end() {
            return Err(refused(Fault::NoLabel));
        }
        let label = scan.hexadecimal(LABEL_DIGITS).0 as u32;
        if label == 0 {
            return Ok(Vec::new());
        }
        if label & RANDOM_LABEL != 0 {
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
pub(crate) fn vlan_id(device: &mut Device, given: &Given<'_>) -> Answer {
    if given.number > VLAN_ID_MAX {
        remove_tags(&mut device.config);
        return Ok(Reply::Stale);
    }
    device.config.vlan_id = Some(given.number as u16);
    device.config.mpls.clear();
    given.ok(given.number)
}

/// An outer tag needs an inner one; without, both are off.
pub(crate) fn svlan_id(device: &mut Device, given: &Given<'_>) -> Answer {
    if given.number > VLAN_ID_MAX || device.config.vlan_id.is_none() {
        remove_tags(&mut device.config);
        return Ok(Reply::Stale);
    }
    device.config.svlan_id = Some(given.number as u16);
    device.config.mpls.clear();
    given.ok(given.number)
}

pub(crate) fn vlan_p(device: &mut Device, given: &Given<'_>) -> Answer {
    let is_on = device.config.vlan_id.is_some();
    set_tag_bits(given, is_on, 7, &mut device.config.vlan_p)
}

pub(crate) fn vlan_cfi(device: &mut Device, given: &Given<'_>) -> Answer {
    let is_on = device.config.vlan_id.is_some();
    set_tag_bits(given, is_on, 1, &mut device.config.vlan_cfi)
}

pub(crate) fn svlan_p(device: &mut Device, given: &Given<'_>) -> Answer {
    let is_on = device.config.svlan_id.is_some();
    set_tag_bits(given, is_on, 7, &mut device.config.svlan_p)
}

pub(crate) fn svlan_cfi(device: &mut Device, given: &Given<'_>) -> Answer {
    let is_on = device.config.svlan_id.is_some();
    set_tag_bits(given, is_on, 1, &mut device.config.svlan_cfi)
}

/// Says the same for a value too large and for a tag that is off; both are no error of the write.
fn set_tag_bits(given: &Given<'_>, is_on: bool, max: u8, setting: &mut u8) -> Answer {
    if given.number > u64::from(max) || !is_on {
        return say(format!("ERROR: {} must be 0-{max}", given.word));
    }
    *setting = given.number as u8;
    given.ok(given.number)
}

pub(crate) fn tos(device: &mut Device, given: &Given<'_>) -> Answer {
    set_class(given, &mut device.config.tos)
}

pub(crate) fn traffic_class(device: &mut Device, given: &Given<'_>) -> Answer {
    set_class(given, &mut device.config.traffic_class)
}

/// Exactly two hex digits.
fn set_class(given: &Given<'_>, setting: &mut u8) -> Answer {
    if given.text.len() != 2 {
        return say(format!("ERROR: {} must be 00-ff", given.word));
    }
    *setting = given.number as u8;
    given.ok(format_args!("0x{setting:02x}"))
}

#[cfg(test)]
mod tests {
    use crate::told::Told;

    #[test]
    fn labels_are_hex_and_one_bad_one_empties_the_list() {
        let mut told = Told::new();
        told.expect(&[
            ("mpls 0001000a,0002000a,0000000a", "OK: mpls=0001000a,0002000a,0000000a"),
            ("mpls 1", "OK: mpls=00000001"),
            ("mpls 123456789,5", "OK: mpls=12345678"),
            ("mpls 1000a, 2000a", "OK: mpls="),
            ("mpls a,xyz", "OK: mpls="),
            ("mpls 0x10", "OK: mpls="),
            ("mpls a;b", "OK: mpls=0000000a"),
            ("mpls", "EINVAL OK: mpls=0000000a"),
        ]);
        assert_eq!(told.line("mpls"), None);
        told.expect(&[
            ("mpls a,b\n", "OK: mpls=0000000a,0000000b"),
            ("mpls a,", "EINVAL OK: mpls=0000000a,0000000b"),
        ]);
        assert_eq!(told.line("mpls"), None, "a refused list leaves none");
    }

    #[test]
    fn there_are_16_labels_at_most() {
        let labels = |count: usize| format!("mpls {}", vec!["a"; count].join(","));
        let mut told = Told::new();
        assert!(told.tell(&labels(16)).starts_with("OK: mpls=0000000a,"));
        assert!(told.tell(&labels(17)).starts_with("E2BIG OK: mpls="));
        assert_eq!(told.line("mpls"), None);
    }

    #[test]
    fn bit_0x100_turns_the_random_flag_on_for_good() {
        let mut told = Told::after(&["mpls 10a", "mpls 0"]);
        assert_eq!(told.line("Flags").unwrap(), "Flags: MPLS_RND  SHARED  ");
        told.tell("flag !MPLS_RND");
        assert_eq!(told.line("Flags").unwrap(), "Flags: SHARED  ");
    }

    #[test]
    fn labels_and_tags_exclude_each_other() {
        let mut told = Told::after(&["vlan_id 5", "svlan_id 6", "mpls a"]);
        assert_eq!((told.line("vlan_id"), told.line("svlan_id")), (None, None));
        told.tell("vlan_id 7");
        assert_eq!(told.line("mpls"), None);
        told.tell("mpls 0");
        assert!(told.line("vlan_id").is_some(), "an empty list leaves the tag");
    }

    #[test]
    fn tags_turn_off_in_silence() {
        let mut told = Told::new();
        told.expect(&[
            ("svlan_id 5", ""),
            ("vlan_p 3", "ERROR: vlan_p must be 0-7"),
            ("vlan_id 77", "OK: vlan_id=77"),
            ("svlan 22", "OK: svlan_id=22"),
            ("svlan_p 9", "ERROR: svlan_p must be 0-7"),
            ("svlan_p 50", "OK: svlan_p=5"),
            ("svlan_cfi 2", "ERROR: svlan_cfi must be 0-1"),
            ("vlan_cfi 1", "OK: vlan_cfi=1"),
        ]);
        assert_eq!(told.line("svlan_id").unwrap(), "svlan_id: 22  vlan_p: 5  vlan_cfi: 0");
        told.expect(&[("vlan_id 40950", "OK: vlan_id=4095"), ("svlan_id 9999", "OK: vlan_id=4095")]);
        assert_eq!((told.line("vlan_id"), told.line("svlan_id")), (None, None));
        told.expect(&[("svlan_cfi 1", "ERROR: svlan_cfi must be 0-1"), ("vlan_id", "OK: vlan_id=0")]);
        assert_eq!(
            told.line("vlan_id").unwrap(),
            "vlan_id: 0  vlan_p: 0  vlan_cfi: 1",
            "bits outlive the tag"
        );
    }

    #[test]
    fn classes_are_two_hex_digits() {
        let mut told = Told::new();
        told.expect(&[
            ("tos fff", "OK: tos=0xff"),
            ("tos 1", "ERROR: tos must be 00-ff"),
            ("tos 0x1", "ERROR: tos must be 00-ff"),
            ("tos", "ERROR: tos must be 00-ff"),
            ("traffic_class B8", "OK: traffic_class=0xb8"),
        ]);
        assert_eq!(told.line("tos").unwrap(), "tos: 0xff");
        told.tell("tos 00");
        assert_eq!(told.line("tos"), None);
    }
}
