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
