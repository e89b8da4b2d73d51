//! VLAN tags of emulated interfaces (IEEE 802.1Q).

use crate::node::ConfigNode;

/// Tags of an interface: as many as the filter of its packet socket looks behind.
const TAGS_MAX: usize = 2;
/// Bytes of a tag, and where it is: behind the MAC addresses.
const TAG_LEN: usize = 4;
const TAG_AT: usize = 12;
/// Names of tag protocol identifiers in the model, and their values.
const TPIDS: [(&str, u16); 5] =
    [("x8100", 0x8100), ("x88A8", 0x88a8), ("x9100", 0x9100), ("x9200", 0x9200), ("x9300", 0x9300)];

/// True for the EtherType of a tag.
pub(crate) fn is_tpid(ether_type: u128) -> bool {
    TPIDS.iter().any(|(_, tpid)| u128::from(*tpid) == ether_type)
}

/// A tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VlanTag {
    /// Tag protocol identifier: the EtherType of the tag, such as 0x8100.
    pub tpid: u16,
    /// Priority code point, 0 to 7.
    pub priority: u8,
    /// VLAN identifier, 0 to 4095.
    pub id: u16,
}

/// Reads the tags of an Ethernet interface, the outermost first.
pub(crate) fn read_tags(node: &ConfigNode) -> Vec<VlanTag> {
    let tags: Vec<VlanTag> = node.objects("vlans").into_iter().map(|tag| tag.whole(read_tag)).collect();
    if tags.len() > TAGS_MAX {
        node.findings().error(&node.at("vlans"), format!("more than {TAGS_MAX} tags are not supported"));
    }
    tags
}

fn read_tag(node: &ConfigNode) -> VlanTag {
    node.required("name");
    let tpid = node.text("tpid").unwrap_or("x8100");
    let (_, tpid) = TPIDS.into_iter().find(|(name, _)| *name == tpid).unwrap_or(TPIDS[0]);
    let priority = node.number("priority", 0, 0..=7) as u8;
    VlanTag { tpid, priority, id: node.number("id", 1, 0..=4095) as u16 }
}

impl VlanTag {
    /// Its bytes.
    fn bytes(&self) -> [u8; TAG_LEN] {
        let [a, b] = self.tpid.to_be_bytes();
        let [c, d] = (u16::from(self.priority) << 13 | self.id).to_be_bytes();
        [a, b, c, d]
    }

    /// The VLAN that it names. A tag with identifier 0 has a priority only.
    fn vlan(&self) -> Option<(u16, u16)> {
        (self.id != 0).then_some((self.tpid, self.id))
    }
}

/// True if frames with these two stacks of tags are of the same VLAN.
pub(crate) fn is_same_vlan(one: &[VlanTag], other: &[VlanTag]) -> bool {
    one.iter().filter_map(VlanTag::vlan).eq(other.iter().filter_map(VlanTag::vlan))
}

/// The tags of a frame, and the frame without them.
pub(crate) fn without_tags(frame: &[u8]) -> (Vec<VlanTag>, Vec<u8>) {
    let (mut tags, mut at) = (Vec::new(), TAG_AT);
    while let Some(&[a, b, c, d]) = frame.get(at..).and_then(|rest| rest.first_chunk()) {
        let (tpid, control) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        if !TPIDS.iter().any(|(_, known)| *known == tpid) {
            break;
        }
        tags.push(VlanTag { tpid, priority: (control >> 13) as u8, id: control & 0xfff });
        at += TAG_LEN;
    }
    let mut plain = frame.to_vec();
    plain.drain(TAG_AT.min(frame.len())..at.min(frame.len()));
    (tags, plain)
}

/// A frame with tags behind its MAC addresses.
pub(crate) fn with_tags(mut frame: Vec<u8>, tags: &[VlanTag]) -> Vec<u8> {
    frame.splice(TAG_AT..TAG_AT, tags.iter().flat_map(VlanTag::bytes));
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_taken_out_of_a_frame_and_put_back() {
        let tags =
            [VlanTag { tpid: 0x88a8, priority: 5, id: 7 }, VlanTag { tpid: 0x8100, priority: 0, id: 9 }];
        let plain: Vec<u8> = (0..12).chain([8, 6, 1, 2]).collect();
        for count in 0..=2 {
            let tagged = with_tags(plain.clone(), &tags[..count]);
            assert_eq!(tagged.len(), 16 + 4 * count);
            assert_eq!(without_tags(&tagged), (tags[..count].to_vec(), plain.clone()));
        }
        assert_eq!(with_tags(plain.clone(), &tags[..1])[12..18], [0x88, 0xa8, 0xa0, 7, 8, 6]);
        assert_eq!(without_tags(&plain[..5]), (Vec::new(), plain[..5].to_vec()));
    }

    #[test]
    fn a_tag_of_priority_is_of_no_vlan() {
        let tag = |id| VlanTag { tpid: 0x8100, priority: 3, id };
        assert!(
            is_same_vlan(&[], &[tag(0)]) && is_same_vlan(&[tag(4)], &[VlanTag { priority: 0, ..tag(4) }])
        );
        assert!(!is_same_vlan(&[], &[tag(1)]) && !is_same_vlan(&[tag(2)], &[tag(1)]));
        assert!(!is_same_vlan(&[tag(2)], &[VlanTag { tpid: 0x88a8, ..tag(2) }]));
    }
}
