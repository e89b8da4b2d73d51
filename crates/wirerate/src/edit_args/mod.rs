//! The options that edit recorded packets, which `replay` and `rewrite` share.
//!
//! [`EditArgs`] are the options, [`fields`] parses the fields of `--set`, [`address_rules`] the
//! maps of addresses in the order of the command line, [`policies`] the words of other options.
//! [`report`] is the part of a report about edits.

pub mod address_rules;
pub mod fields;
pub mod policies;
pub mod report;

use address_rules::AddressRuleArgs;
use fields::{FieldChange, SetField, TagPlace};
use packet::MacAddr;
use policies::{Checksums, Fcs};
use program::outcome::Failure;
use replay::{
    AnonymizeKey, EditCounts, EditUses, Edits, FieldEdit, FieldValue, HeaderChoice, LinkType, MacMap,
    PortMap, TagFields, TagUses, VlanEdit,
};
use std::path::Path;
use std::str::FromStr;
use units::{VlanId, VlanPriority, VlanType, decimal};

const HEADING: &str = "Rewriting";

/// A tag of `--push-vlan`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PushedTag(TagFields);

impl FromStr for PushedTag {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (id, settings) = text.split_once(',').map_or((text, None), |(id, rest)| (id, Some(rest)));
        let mut tag =
            TagFields { vlan: Some(VlanEdit::Set(fields::value::<VlanId>(id)?.0)), ..TagFields::default() };
        for setting in settings.into_iter().flat_map(|settings| settings.split(',')) {
            let had_one = match setting.split_once('=') {
                Some(("prio", value)) => {
                    tag.priority.replace(fields::value::<VlanPriority>(value)?.0).is_some()
                }
                Some(("dei", value)) => tag.is_drop_eligible.replace(fields::bit(value)?).is_some(),
                Some(("type", value)) => tag.tpid.replace(fields::value::<VlanType>(value)?.0).is_some(),
                _ => return Err(format!("\"{setting}\" is not prio=0 to 7, dei=0 or 1, or type=0x88a8")),
            };
            if had_one {
                return Err(format!("\"{setting}\" sets what an earlier part of {text} has set"));
            }
        }
        Ok(Self(tag))
    }
}

/// A map of one MAC address with its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MacMapText(String, MacMap);

impl FromStr for MacMapText {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (from, to) =
            text.split_once('=').ok_or("FROM=TO expected, such as 02:00:00:00:00:01=02:00:00:00:00:02")?;
        Ok(Self(text.to_owned(), MacMap { from: fields::value(from)?, to: fields::value(to)? }))
    }
}

/// A map of ports with its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortMapText(String, PortMap);

impl FromStr for PortMapText {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (from, to) =
            text.split_once('=').ok_or("FROM=TO expected, such as 80=8080 or 8000-8099=9000-9099")?;
        let ((first, last), (to, to_last)) = (ports(from)?, ports(to)?);
        let is_range = to_last > to;
        if is_range && to_last - to != last - first {
            return Err(format!(
                "{from} has {} ports and {text} gives them {}: two ranges of one length, or one port, are needed",
                u32::from(last - first) + 1,
                u32::from(to_last - to) + 1,
            ));
        }
        Ok(Self(text.to_owned(), PortMap { first, last, to, is_range }))
    }
}

/// A port, or the first and the last of a range.
fn ports(text: &str) -> Result<(u16, u16), String> {
    let port = |text: &str| decimal(text).ok_or(format!("\"{text}\" is not a port from 0 to 65535"));
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (port(first)?, port(last)?);
    if first > last { Err(format!("the range {text} is empty")) } else { Ok((first, last)) }
}

/// The number of `--pop-vlan`.
fn pop_count(text: &str) -> Result<u32, String> {
    decimal(text)
        .filter(|count| *count > 0)
        .ok_or_else(|| format!("\"{text}\" is not a number of tags from 1"))
}

/// Options that edit packets.
#[derive(Clone, Debug, clap::Args)]
pub struct EditArgs {
    /// Set a field: dst-mac, src-mac, dst, src, dst-port, src-port, ttl (also ttl+=N, ttl-=N), tos,
    /// dscp, ecn, flow-label, vlan (an id or none), vlan-prio, vlan-dei, vlan-type, and the same of
    /// the second tag (inner-vlan, ...). inner.FIELD is that of the innermost header in a tunnel
    #[arg(long, value_name = "FIELD=VALUE", help_heading = HEADING)]
    pub set: Vec<SetField>,
    /// `--map-ip`, `--map-src-ip` and `--map-dst-ip`.
    #[command(flatten)]
    pub address_rules: AddressRuleArgs,
    /// Replace a MAC address wherever it stands, such as 02:00:00:00:00:01=02:00:00:00:00:02
    #[arg(long, value_name = "FROM=TO", help_heading = HEADING)]
    pub map_mac: Vec<MacMapText>,
    /// Replace ports of TCP, UDP and SCTP, such as 80=8080, 8000-8099=9000-9099 or 1024-65535=9
    #[arg(long, value_name = "FROM=TO", help_heading = HEADING)]
    pub map_port: Vec<PortMapText>,
    /// Encrypt all addresses by a key, a text or @FILE; those with a common prefix keep one
    #[arg(long, value_name = "KEY", action = clap::ArgAction::Append, help_heading = HEADING)]
    pub anonymize: Vec<String>,
    /// Add a VLAN tag outside all others; may be repeated, the last one is the outermost
    #[arg(long, value_name = "ID[,prio=P][,dei=D][,type=T]", help_heading = HEADING)]
    pub push_vlan: Vec<PushedTag>,
    /// Remove the outer VLAN tags, one or N
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "1",
          value_parser = pop_count, help_heading = HEADING)]
    pub pop_vlan: Option<u32>,
    /// Destination MAC address of every frame, as --set dst-mac; packets without an Ethernet header
    /// get one
    #[arg(long, value_name = "MAC", help_heading = HEADING)]
    pub dst_mac: Option<MacAddr>,
    /// Source MAC address of every frame, as --set src-mac
    #[arg(long, value_name = "MAC", help_heading = HEADING)]
    pub src_mac: Option<MacAddr>,
    /// Checksums: keep those that an edit does not change, or fix all of whole packets
    #[arg(long, value_enum, value_name = "POLICY", default_value = "keep", help_heading = HEADING)]
    pub checksums: Checksums,
    /// Frame check sequences at the end of frames: removed where the file declares them, everywhere
    /// (strip), or nowhere (keep)
    #[arg(long, value_enum, value_name = "POLICY", default_value = "declared", help_heading = HEADING)]
    pub fcs: Fcs,
}

impl EditArgs {
    /// The edits.
    ///
    /// # Errors
    /// Bad usage for a field that two options set, refused for a key file that cannot be read.
    pub fn edits(&self) -> Result<Edits, Failure> {
        self.refuse_conflicts()?;
        let mut edits = Edits {
            address_rules: self.address_rules.rules().collect(),
            mac_maps: self.map_mac.iter().map(|MacMapText(_, map)| *map).collect(),
            port_maps: self.map_port.iter().map(|PortMapText(_, map)| *map).collect(),
            anonymize: self.anonymize.first().map(|text| key(text)).transpose()?,
            checksums: self.checksums.into(),
            ..Edits::default()
        };
        edits.tags.pop = self.pop_vlan.map_or(0, |count| count as usize);
        edits.tags.push = self.push_vlan.iter().map(|PushedTag(tag)| *tag).collect();
        for SetField { change, .. } in &self.set {
            match *change {
                FieldChange::Field(edit) => edits.fields.push(edit),
                FieldChange::Tag(place, fields) => {
                    let tag = match place {
                        TagPlace::Outer => &mut edits.tags.outer,
                        TagPlace::Second => &mut edits.tags.second,
                        TagPlace::Inner => &mut edits.tags.inner[0],
                        TagPlace::InnerSecond => &mut edits.tags.inner[1],
                    };
                    *tag = merged(*tag, fields);
                }
            }
        }
        for value in self.mac_options().into_iter().map(|(_, value)| value) {
            let edit = FieldEdit { choice: HeaderChoice::Outermost, value };
            if !edits.fields.contains(&edit) {
                edits.fields.push(edit);
            }
        }
        Ok(edits)
    }

    /// The destination MAC address that every frame gets.
    pub fn new_dst_mac(&self) -> Option<MacAddr> {
        self.outer_mac(|value| if let FieldValue::DstMac(mac) = value { Some(mac) } else { None })
    }

    /// The source MAC address that every frame gets.
    pub fn new_src_mac(&self) -> Option<MacAddr> {
        self.outer_mac(|value| if let FieldValue::SrcMac(mac) = value { Some(mac) } else { None })
    }

    fn outer_mac(&self, mac_of: impl Fn(FieldValue) -> Option<MacAddr>) -> Option<MacAddr> {
        let set = self.set.iter().filter_map(|set| match set.change {
            FieldChange::Field(FieldEdit { choice: HeaderChoice::Outermost, value }) => Some(value),
            _ => None,
        });
        let options = self.mac_options().into_iter().map(|(_, value)| value);
        set.chain(options).find_map(mac_of)
    }

    /// `--dst-mac` and `--src-mac` as fields with their names.
    fn mac_options(&self) -> Vec<(&'static str, FieldValue)> {
        let dst = self.dst_mac.map(|mac| ("dst-mac", FieldValue::DstMac(mac)));
        let src = self.src_mac.map(|mac| ("src-mac", FieldValue::SrcMac(mac)));
        dst.into_iter().chain(src).collect()
    }

    fn refuse_conflicts(&self) -> Result<(), Failure> {
        let twice = |first: &str, second: &str, why: &str| {
            Err(Failure::usage(format!("use {first} with {second}"), why).try_this(format!("{first} only")))
        };
        for (place, set) in self.set.iter().enumerate() {
            let [first, second] = [set, set].map(|set| format!("--set {}", set.text));
            for other in &self.set[place + 1..] {
                let other_text = format!("--set {}", other.text);
                if set.name == other.name {
                    return twice(&first, &other_text, &format!("both set the field {}", set.name));
                }
                if set.overlaps(other) {
                    return twice(&first, &other_text, "tos is dscp and ecn in one byte");
                }
            }
            let none = self.set.iter().find(|none| set.is_of_removed_tag(none));
            if let Some(none) = none {
                return twice(&format!("--set {}", none.text), &second, "the tag is removed");
            }
        }
        if self.anonymize.len() > 1 {
            // The keys are secret: the error does not print them.
            return Err(Failure::usage("use --anonymize twice", "one key encrypts all addresses")
                .try_this("--anonymize once, with the key of the other files"));
        }
        for (field, value) in self.mac_options() {
            let (FieldValue::DstMac(mac) | FieldValue::SrcMac(mac)) = value else { continue };
            let is_other = |set: &&SetField| set.name == field && !set.is_value(value);
            if let Some(set) = self.set.iter().find(is_other) {
                let why = "both set the same address of every frame";
                return Err(Failure::usage(format!("use --{field} {mac} with --set {}", set.text), why)
                    .try_this(format!("--{field} {mac}, without --set {field}")));
            }
        }
        Ok(())
    }

    /// Notes about packets that are not read, and a note for each option that found nothing to
    /// change.
    pub fn notes(&self, counts: &EditCounts) -> Vec<String> {
        let uses = &counts.uses;
        let fields = self.set.iter().filter(|set| matches!(set.change, FieldChange::Field(_)));
        let fields = fields.map(|set| (format!("--set {}", set.text), "has the field"));
        let rules = self.address_rules.texts().map(|text| (text, "has such an address"));
        let macs = self.map_mac.iter().map(|MacMapText(text, _)| format!("--map-mac {text}"));
        let macs = macs.map(|text| (text, "has this address"));
        let ports = self.map_port.iter().map(|PortMapText(text, _)| format!("--map-port {text}"));
        let ports = ports.map(|text| (text, "has such a port"));
        let counted = fields.zip(&uses.fields).chain(rules.zip(&uses.address_rules));
        let counted = counted.chain(macs.zip(&uses.mac_maps)).chain(ports.zip(&uses.port_maps));
        let counted = counted.map(|(text, count)| (text, *count)).chain(self.tag_uses(uses));
        let unused = counted.filter(|(_, count)| *count == 0);
        // What could not be edited may have it.
        let none = if counts.not_edited.total() > 0 { "no packet that could be edited" } else { "no packet" };
        let unread = counts.unread_link_types.iter().map(|link_type| {
            let name = LinkType::name(*link_type);
            format!("packets of link type {name} are not edited: their headers are not read")
        });
        unread.chain(unused.map(|((text, has), _)| format!("{text}: {none} {has}"))).collect()
    }

    /// The options of tags with what a frame has that they change, and how many changed.
    fn tag_uses(&self, uses: &EditUses) -> impl Iterator<Item = ((String, &'static str), u64)> {
        let TagUses { pop, push, outer, second, inner } = uses.tags;
        let has_tag = "has the tag";
        let pop = self.pop_vlan.map(|_| (("--pop-vlan".to_owned(), has_tag), pop));
        let pushes = !self.push_vlan.is_empty();
        let push = pushes.then(|| (("--push-vlan".to_owned(), "has an Ethernet header"), push));
        let sets = self.set.iter().filter_map(move |set| {
            let FieldChange::Tag(place, _) = set.change else { return None };
            let count = match place {
                TagPlace::Outer => outer,
                TagPlace::Second => second,
                TagPlace::Inner => inner[0],
                TagPlace::InnerSecond => inner[1],
            };
            Some(((format!("--set {}", set.text), has_tag), count))
        });
        pop.into_iter().chain(push).chain(sets)
    }
}

fn merged(tag: TagFields, fields: TagFields) -> TagFields {
    TagFields {
        vlan: fields.vlan.or(tag.vlan),
        priority: fields.priority.or(tag.priority),
        is_drop_eligible: fields.is_drop_eligible.or(tag.is_drop_eligible),
        tpid: fields.tpid.or(tag.tpid),
    }
}

/// The key of `--anonymize`: a text, or that of a file without the newline at its end.
fn key(text: &str) -> Result<AnonymizeKey, Failure> {
    let bytes = match text.strip_prefix('@') {
        Some(name) => {
            let path = Path::new(name);
            let mut bytes = std::fs::read(path).map_err(|why| Failure::read(path, why))?;
            if bytes.ends_with(b"\n") {
                bytes.pop();
            }
            if bytes.ends_with(b"\r") {
                bytes.pop();
            }
            bytes
        }
        None => text.as_bytes().to_vec(),
    };
    if bytes.is_empty() {
        return Err(Failure::usage("anonymize addresses", "the key is empty")
            .try_this("--anonymize 'a text that only you know', or @FILE"));
    }
    Ok(AnonymizeKey::of_text(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use program::args_of;

    fn edits(words: &str) -> Result<Edits, String> {
        let args = args_of::<EditArgs>(words).map_err(|why| why.to_string())?;
        args.edits().map_err(|why| why.to_string())
    }

    #[test]
    fn options_become_edits() {
        let edits =
            edits("--set vlan=7 --set vlan-prio=3 --push-vlan 5,type=0x88a8 --pop-vlan --dst-mac 02::1");
        assert!(edits.is_err(), "a MAC address has six numbers");
        let edits = super::tests::edits(
            "--set vlan=7 --set vlan-prio=3 --push-vlan 5,type=0x88a8 --pop-vlan=2 --dst-mac 02:00:00:00:00:01",
        )
        .unwrap();
        let outer = TagFields { vlan: Some(VlanEdit::Set(7)), priority: Some(3), ..TagFields::default() };
        assert_eq!((edits.tags.outer, edits.tags.pop), (outer, 2));
        assert_eq!(edits.tags.push[0].tpid, Some(0x88a8));
        for part in ["prio=1,prio=2", "dei=0,dei=0", "type=0x88a8,type=0x8100"] {
            assert!(format!("5,{part}").parse::<PushedTag>().is_err(), "{part}");
        }
        assert_eq!(edits.fields.len(), 1);
    }

    #[test]
    fn fields_that_are_set_twice_are_refused_by_both_names() {
        for (words, names) in [
            ("--set ttl=17 --set ttl=29", ["ttl=17", "ttl=29"]),
            ("--set ttl=17 --set ttl+=29", ["ttl=17", "ttl+=29"]),
            ("--set tos=1 --set dscp=2", ["tos=1", "dscp=2"]),
            ("--set inner.ecn=1 --set inner.tos=2", ["inner.ecn=1", "inner.tos=2"]),
            ("--set vlan=none --set vlan-prio=2", ["vlan=none", "vlan-prio=2"]),
            ("--set inner.inner-vlan=3 --set inner.inner-vlan=4", ["inner-vlan=3", "inner-vlan=4"]),
            (
                "--dst-mac 02:00:00:00:00:01 --set dst-mac=02:00:00:00:00:02",
                ["--dst-mac 02:00:00:00:00:01", "dst-mac=02:00:00:00:00:02"],
            ),
        ] {
            let why = edits(words).unwrap_err();
            assert!(names.iter().all(|name| why.contains(name)) && why.contains("try: "), "{words}: {why}");
        }
        let why = edits("--anonymize secret --anonymize other").unwrap_err();
        assert!(why.contains("twice") && !why.contains("secret"), "{why}");
        assert!(edits("--set ttl=17 --set inner.ttl=29 --set inner-vlan=4 --set inner.tos=1").is_ok());
    }

    #[test]
    fn ports_and_ranges_are_parsed() {
        let map = |text: &str| text.parse::<PortMapText>().map(|PortMapText(_, map)| map);
        assert_eq!(map("80=8080"), Ok(PortMap { first: 80, last: 80, to: 8080, is_range: false }));
        let range = PortMap { first: 8000, last: 8099, to: 9000, is_range: true };
        assert_eq!(map("8000-8099=9000-9099"), Ok(range));
        assert_eq!(map("1-9=5"), Ok(PortMap { first: 1, last: 9, to: 5, is_range: false }));
        for bad in ["80", "80=+1", "80=65536", "1-3=1-2", "3-1=4", "=", "80=", "8-9=7-8-9"] {
            assert!(map(bad).is_err(), "{bad}");
        }
    }
}
