//! Fields of `--set FIELD=VALUE`.

use replay::{FieldEdit, FieldValue, HeaderChoice, TagFields, TtlEdit, VlanEdit};
use std::fmt::Display;
use std::str::FromStr;
use units::{self, VlanId, VlanPriority, VlanType};

const NAMES: &str = "dst-mac, src-mac, dst, src, dst-port, src-port, ttl, tos, dscp, ecn, flow-label, vlan, vlan-prio, \
                     vlan-dei, vlan-type, inner-vlan, inner-vlan-prio, inner-vlan-dei, inner-vlan-type; inner.FIELD in a \
                     tunnel";
const FLOW_LABEL_MAX: u32 = 0xf_ffff;

/// Which VLAN tag of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagPlace {
    /// The outer one.
    Outer,
    /// The second one.
    Second,
    /// The outer one inside a tunnel.
    Inner,
    /// The second one inside a tunnel.
    InnerSecond,
}

/// What a field changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldChange {
    /// A field of a header.
    Field(FieldEdit),
    /// A part of a VLAN tag.
    Tag(TagPlace, TagFields),
}

/// One field that is set in every frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetField {
    /// Name of the field, such as `inner.ttl`.
    pub name: String,
    /// The text of the option.
    pub text: String,
    /// The change.
    pub change: FieldChange,
}

/// Parses a value with the message of its type.
///
/// # Errors
/// That message.
pub fn value<T: FromStr>(text: &str) -> Result<T, String>
where
    T::Err: Display,
{
    text.parse().map_err(|why: T::Err| format!("\"{text}\": {why}"))
}

/// Parses 0 or 1.
///
/// # Errors
/// For all other texts.
pub fn bit(text: &str) -> Result<bool, String> {
    match text {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => Err(format!("\"{text}\" is not 0 or 1")),
    }
}

/// A whole number up to `max`.
fn number(text: &str, max: u32) -> Result<u32, String> {
    let value = units::number(text).filter(|value| *value <= max);
    value.ok_or_else(|| format!("\"{text}\" is not a number from 0 to {max}"))
}

impl FromStr for SetField {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (field, value) = text.split_once('=').ok_or("FIELD=VALUE expected, such as vlan=7")?;
        let (field, sign) = match field.strip_suffix(['+', '-']) {
            Some(name) => (name, field.chars().last()),
            None => (field, None),
        };
        let (choice, bare) = match field.strip_prefix("inner.") {
            Some(bare) => (HeaderChoice::Innermost, bare),
            None => (HeaderChoice::Outermost, field),
        };
        let unknown = || format!("there is no field {field}: {NAMES}");
        if sign.is_some() && bare != "ttl" {
            return Err(format!("only ttl has += and -=: {field}=VALUE sets {field}"));
        }
        let change = match tag_change(bare, value, choice) {
            Some(change) => change?,
            None => {
                let value = field_value(bare, value, sign).ok_or_else(unknown)??;
                FieldChange::Field(FieldEdit { choice, value })
            }
        };
        Ok(Self { name: field.to_owned(), text: text.to_owned(), change })
    }
}

impl SetField {
    /// True if it sets this value in the outermost header.
    pub fn is_value(&self, value: FieldValue) -> bool {
        self.change == FieldChange::Field(FieldEdit { choice: HeaderChoice::Outermost, value })
    }

    /// True if both change bits of one byte: `tos` has `dscp` and `ecn`.
    pub fn overlaps(&self, other: &Self) -> bool {
        let (FieldChange::Field(first), FieldChange::Field(second)) = (self.change, other.change) else {
            return false;
        };
        let is_whole = |edit: FieldEdit| matches!(edit.value, FieldValue::Tos(_));
        let is_part = |edit: FieldEdit| matches!(edit.value, FieldValue::Dscp(_) | FieldValue::Ecn(_));
        let both = (is_whole(first) && is_part(second)) || (is_part(first) && is_whole(second));
        first.choice == second.choice && both
    }

    /// True if this changes the tag that `none` removes.
    pub fn is_of_removed_tag(&self, none: &Self) -> bool {
        let (FieldChange::Tag(place, fields), FieldChange::Tag(removed, by)) = (self.change, none.change)
        else {
            return false;
        };
        place == removed && by.vlan == Some(VlanEdit::Remove) && fields.vlan.is_none()
    }
}

/// The change of a tag; nothing for other fields.
fn tag_change(field: &str, text: &str, choice: HeaderChoice) -> Option<Result<FieldChange, String>> {
    let (part, outermost, innermost) = match field.strip_prefix("inner-vlan") {
        Some(part) => (part, TagPlace::Second, TagPlace::InnerSecond),
        None => (field.strip_prefix("vlan")?, TagPlace::Outer, TagPlace::Inner),
    };
    let is_inner = choice == HeaderChoice::Innermost;
    let none = TagFields::default();
    let fields = match part {
        "" if text == "none" && is_inner => {
            Err(format!("a tag inside a tunnel can be changed, not removed: inner.{field}=ID"))
        }
        "" if text == "none" => Ok(TagFields { vlan: Some(VlanEdit::Remove), ..none }),
        "" => value::<VlanId>(text).map(|id| TagFields { vlan: Some(VlanEdit::Set(id.0)), ..none }),
        "-prio" => value::<VlanPriority>(text).map(|prio| TagFields { priority: Some(prio.0), ..none }),
        "-dei" => bit(text).map(|bit| TagFields { is_drop_eligible: Some(bit), ..none }),
        "-type" => value::<VlanType>(text).map(|tpid| TagFields { tpid: Some(tpid.0), ..none }),
        _ => return None,
    };
    Some(fields.map(|fields| FieldChange::Tag(if is_inner { innermost } else { outermost }, fields)))
}

/// The value of a field; nothing if there is no such field.
fn field_value(field: &str, text: &str, sign: Option<char>) -> Option<Result<FieldValue, String>> {
    let byte = |max: u32| number(text, max).map(|number| number as u8);
    Some(match field {
        "dst-mac" => value(text).map(FieldValue::DstMac),
        "src-mac" => value(text).map(FieldValue::SrcMac),
        "dst" => value(text).map(FieldValue::Dst),
        "src" => value(text).map(FieldValue::Src),
        "dst-port" => number(text, 65_535).map(|port| FieldValue::DstPort(port as u16)),
        "src-port" => number(text, 65_535).map(|port| FieldValue::SrcPort(port as u16)),
        "ttl" => byte(255).map(|ttl| {
            FieldValue::Ttl(match sign {
                Some('+') => TtlEdit::Add(i16::from(ttl)),
                Some(_) => TtlEdit::Add(-i16::from(ttl)),
                None => TtlEdit::Set(ttl),
            })
        }),
        "tos" => byte(255).map(FieldValue::Tos),
        "dscp" => byte(63).map(FieldValue::Dscp),
        "ecn" => byte(3).map(FieldValue::Ecn),
        "flow-label" => number(text, FLOW_LABEL_MAX).map(FieldValue::FlowLabel),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(text: &str) -> Result<FieldChange, String> {
        text.parse::<SetField>().map(|set| set.change)
    }

    #[test]
    fn fields_are_parsed() {
        let field = |choice, value| Ok(FieldChange::Field(FieldEdit { choice, value }));
        use HeaderChoice::{Innermost, Outermost};
        assert_eq!(change("ttl+=9"), field(Outermost, FieldValue::Ttl(TtlEdit::Add(9))));
        assert_eq!(change("inner.ttl-=9"), field(Innermost, FieldValue::Ttl(TtlEdit::Add(-9))));
        assert_eq!(change("tos=0x10"), field(Outermost, FieldValue::Tos(16)));
        assert_eq!(change("flow-label=0xfffff"), field(Outermost, FieldValue::FlowLabel(FLOW_LABEL_MAX)));
        let prio = TagFields { priority: Some(7), ..TagFields::default() };
        assert_eq!(change("inner-vlan-prio=7"), Ok(FieldChange::Tag(TagPlace::Second, prio)));
        assert_eq!(change("inner.vlan-prio=7"), Ok(FieldChange::Tag(TagPlace::Inner, prio)));
        assert_eq!(change("inner.inner-vlan-prio=7"), Ok(FieldChange::Tag(TagPlace::InnerSecond, prio)));
        for bad in [
            "dst",
            "dst=x",
            "vlan=4096",
            "ttl=256",
            "size=9",
            "tos+=1",
            "dscp=64",
            "ecn=4",
            "vlan-dei=2",
            "flow-label=0x100000",
            "inner.vlan=none",
            "inner.inner-vlan=none",
            "inner.inner.vlan=3",
            "vlan=+5",
            "vlan-prio=+5",
            "vlan-type=0x+8a8",
            "ttl=0x+3",
            "vlan-typ=0x8100",
            "ttl=+3",
            "ttl=",
        ] {
            assert!(change(bad).is_err(), "{bad}");
        }
    }
}
