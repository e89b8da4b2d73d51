//! VLAN tags of Ethernet frames and of packets with a cooked header: removed, added and changed.

use super::counts::TagUses;
use crate::outer::{ends_in_tags, tag_count};
use packet::headers::{FirstHeader, Header, Protocol, cooked, ethernet};

const ADDRESSES_LEN: usize = 12;
const TAG_LEN: usize = 4;
const TYPE_DEFAULT: u16 = 0x8100;

/// What happens to a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VlanEdit {
    /// The frame gets a tag with this id, or its tag gets this id.
    Set(u16),
    /// The tag is removed.
    Remove,
}

/// New values of one tag. `None` keeps a field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TagFields {
    /// The tag with its id.
    pub vlan: Option<VlanEdit>,
    /// Priority, 0 to 7.
    pub priority: Option<u8>,
    /// Drop eligible indicator.
    pub is_drop_eligible: Option<bool>,
    /// Tag protocol identifier.
    pub tpid: Option<u16>,
}

impl TagFields {
    /// The tag of 4 bytes with its new values.
    fn change(&self, tag: [u8; TAG_LEN]) -> [u8; TAG_LEN] {
        let mut control = u16::from_be_bytes([tag[2], tag[3]]);
        if let Some(VlanEdit::Set(id)) = self.vlan {
            control = control & 0xf000 | id & 0x0fff;
        }
        if let Some(priority) = self.priority {
            control = control & 0x1fff | u16::from(priority) << 13;
        }
        if let Some(is_drop_eligible) = self.is_drop_eligible {
            control = control & 0xefff | u16::from(is_drop_eligible) << 12;
        }
        let [a, b] = self.tpid.map_or([tag[0], tag[1]], u16::to_be_bytes);
        let [c, d] = control.to_be_bytes();
        [a, b, c, d]
    }
}

/// What changes in the tags of a frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TagEdits {
    /// Outer tags that are removed first.
    pub pop: usize,
    /// Tags that are added then, each outside the one before.
    pub push: Vec<TagFields>,
    /// The outer tag.
    pub outer: TagFields,
    /// The second tag.
    pub second: TagFields,
    /// The outer and the second tag of the innermost Ethernet header inside a tunnel; none is added
    /// or removed.
    pub inner: [TagFields; 2],
}

impl TagEdits {
    /// True if the tags behind the first header may change.
    pub(crate) fn is_outer(&self) -> bool {
        self.pop > 0
            || !self.push.is_empty()
            || self.outer != TagFields::default()
            || self.second != TagFields::default()
    }

    /// True if the tags inside a tunnel may change.
    pub(crate) fn is_inner(&self) -> bool {
        self.inner != [TagFields::default(); 2]
    }

    /// Number of the frame's own tags that the edits read, from the outer one on.
    fn read_count(&self) -> usize {
        let count = |fields: TagFields, number: usize| match number.checked_sub(self.push.len()) {
            Some(own) if fields != TagFields::default() => self.pop + own + 1,
            _ => 0,
        };
        self.pop.max(count(self.outer, 0)).max(count(self.second, 1))
    }

    /// Changes the tags behind the first header of a frame, and counts what has changed. Returns
    /// false if the frame is cut within the tags that the edits read: it stays as it is.
    pub(crate) fn apply(&self, frame: &mut Vec<u8>, first: FirstHeader, uses: &mut TagUses) -> bool {
        let is_v2 = first == FirstHeader::Sll2;
        let len = match first {
            FirstHeader::Ethernet => return self.apply_to_ethernet(frame, uses),
            FirstHeader::Sll => cooked::SLL_LEN,
            FirstHeader::Sll2 => cooked::SLL2_LEN,
            FirstHeader::Null | FirstHeader::Ip => return true,
        };
        let Some(view) = cooked::View::new(frame, is_v2) else { return false };
        if view.protocol() < ethernet::TYPE_MIN {
            // No EtherType, so no tag stands before or behind it.
            return true;
        }
        // The EtherType, which is at the end of SLL and at the start of SLL2, gets to its place in
        // an Ethernet frame, and back.
        if is_v2 {
            frame[..len].rotate_left(2);
        }
        let head: Vec<u8> = frame.drain(..len - ethernet::LEN).collect();
        let is_whole = self.apply_to_ethernet(frame, uses);
        frame.splice(0..0, head);
        if is_v2 {
            frame[..len].rotate_right(2);
        }
        is_whole
    }

    fn apply_to_ethernet(&self, frame: &mut Vec<u8>, uses: &mut TagUses) -> bool {
        if frame.len() < ADDRESSES_LEN + 2 || ends_in_tags(frame, self.read_count()) {
            return false;
        }
        let popped = tag_count(frame).min(self.pop);
        uses.pop += u64::from(popped > 0);
        uses.push += u64::from(!self.push.is_empty());
        frame.drain(ADDRESSES_LEN..ADDRESSES_LEN + popped * TAG_LEN);
        for tag in &self.push {
            insert(frame, 0, tag);
        }
        let had = tag_count(frame);
        let removes_outer = self.outer.vlan == Some(VlanEdit::Remove);
        // The second tag first: it is the second of the tags that the frame has now.
        let has_outer = had > 0 || matches!(self.outer.vlan, Some(VlanEdit::Set(_)));
        uses.outer += u64::from(has_outer);
        if had == 0 && has_outer {
            insert(frame, 0, &self.outer);
        } else if had > 0 && !removes_outer {
            change(frame, 0, &self.outer);
        }
        let count = tag_count(frame);
        let adds_second = matches!(self.second.vlan, Some(VlanEdit::Set(_))) && count == 1 && !removes_outer;
        uses.second += u64::from(count > 1 || adds_second);
        match self.second.vlan {
            Some(VlanEdit::Remove) if count > 1 => remove(frame, 1),
            _ if adds_second => insert(frame, 1, &self.second),
            _ if count > 1 => change(frame, 1, &self.second),
            _ => {}
        }
        if removes_outer && had > 0 {
            remove(frame, 0);
        }
        true
    }

    /// What happens to the tag of this number in the innermost Ethernet header inside a tunnel.
    pub(crate) fn inner_tag(&self, number: usize, frame: &[u8], headers: &[Header]) -> InnerTag {
        let fields = self.inner[number];
        if fields == TagFields::default() {
            return InnerTag::None;
        }
        let ethernet = headers
            .iter()
            .rfind(|header| header.protocol == Protocol::Ethernet && header.depth > 0 && !header.is_quoted);
        let Some(header) = ethernet else { return InnerTag::None };
        let bytes = header.bytes(frame);
        match bytes.get(place_of(number)..).and_then(|bytes| bytes.first_chunk()) {
            Some(tag) if number < tag_count(bytes) => {
                InnerTag::Changed { at: header.at + place_of(number), tag: fields.change(*tag) }
            }
            _ if ends_in_tags(bytes, number + 1) => InnerTag::Cut,
            _ => InnerTag::None,
        }
    }
}

/// A tag inside a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InnerTag {
    /// No edit changes it, or the frame does not have it.
    None,
    /// The frame ends within the tags.
    Cut,
    /// Its new bytes are to be written at this offset.
    Changed { at: usize, tag: [u8; TAG_LEN] },
}

fn place_of(number: usize) -> usize {
    ADDRESSES_LEN + number * TAG_LEN
}

fn insert(frame: &mut Vec<u8>, number: usize, tag: &TagFields) {
    let [high, low] = TYPE_DEFAULT.to_be_bytes();
    let at = place_of(number);
    frame.splice(at..at, tag.change([high, low, 0, 0]));
}

fn remove(frame: &mut Vec<u8>, number: usize) {
    let at = place_of(number);
    frame.drain(at..at + TAG_LEN);
}

fn change(frame: &mut [u8], number: usize, tag: &TagFields) {
    let at = place_of(number);
    if let Some(bytes) = frame.get_mut(at..).and_then(|bytes| bytes.first_chunk_mut()) {
        *bytes = tag.change(*bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(edits: &TagEdits, before: &[[u8; 4]]) -> Vec<[u8; 4]> {
        let mut frame = [vec![2; 12], before.concat(), vec![8, 0, 0x45, 0]].concat();
        assert!(edits.apply(&mut frame, FirstHeader::Ethernet, &mut TagUses::default()));
        assert!(frame.ends_with(&[8, 0, 0x45, 0]), "{frame:?}");
        frame[12..frame.len() - 4].as_chunks().0.to_vec()
    }

    fn set(id: u16) -> TagFields {
        TagFields { vlan: Some(VlanEdit::Set(id)), ..TagFields::default() }
    }

    const A: [u8; 4] = [0x88, 0xa8, 0x60, 5];
    const B: [u8; 4] = [0x81, 0, 0, 6];

    #[test]
    fn tags_are_popped_then_pushed() {
        let push = vec![set(7), TagFields { tpid: Some(0x88a8), priority: Some(3), ..set(8) }];
        let edits = TagEdits { pop: 1, push, ..TagEdits::default() };
        assert_eq!(tags(&edits, &[A, B]), [[0x88, 0xa8, 0x60, 8], [0x81, 0, 0, 7], B]);
        assert_eq!(tags(&edits, &[]), [[0x88, 0xa8, 0x60, 8], [0x81, 0, 0, 7]]);
        assert_eq!(tags(&TagEdits { pop: 3, ..TagEdits::default() }, &[A, B]), [[0; 4]; 0]);
    }

    #[test]
    fn frames_whose_tags_changed_are_counted() {
        let uses = |edits: TagEdits, before: &[[u8; 4]]| {
            let mut frame = [vec![2; 12], before.concat(), vec![8, 0, 0x45, 0]].concat();
            let mut uses = TagUses::default();
            edits.apply(&mut frame, FirstHeader::Ethernet, &mut uses);
            [uses.pop, uses.push, uses.outer, uses.second]
        };
        let priority = TagFields { priority: Some(1), ..TagFields::default() };
        let all = |outer, second| TagEdits { pop: 1, push: Vec::new(), outer, second, ..TagEdits::default() };
        assert_eq!(uses(all(priority, priority), &[]), [0, 0, 0, 0]);
        assert_eq!(uses(all(priority, priority), &[A, B]), [1, 0, 1, 0]);
        assert_eq!(uses(all(set(1), set(2)), &[]), [0, 0, 1, 1]);
        assert_eq!(uses(TagEdits { push: vec![set(7)], ..all(priority, priority) }, &[]), [0, 1, 1, 0]);
    }

    /// A frame cut within a tag was taken for one without the tag, and got a further one.
    #[test]
    fn frames_cut_within_the_tags_that_are_read_stay() {
        let edits = TagEdits::default();
        let outer = |outer| TagEdits { outer, ..TagEdits::default() };
        let second = |second| TagEdits { second, ..TagEdits::default() };
        let none = TagFields { vlan: Some(VlanEdit::Remove), ..TagFields::default() };
        let priority = TagFields { priority: Some(1), ..TagFields::default() };
        let push = |count, edits| TagEdits { push: vec![set(7); count], ..edits };
        // Each edit with the bytes that it needs of a frame without tags, with one, and with two.
        for (edits, needed) in [
            (TagEdits { pop: 1, ..edits.clone() }, [14, 16, 16]),
            (TagEdits { pop: 2, ..edits.clone() }, [14, 18, 20]),
            (TagEdits { pop: 3, ..edits.clone() }, [14, 18, 22]),
            (outer(set(9)), [14, 16, 16]),
            (outer(none), [14, 16, 16]),
            (outer(priority), [14, 16, 16]),
            (second(set(9)), [14, 18, 20]),
            (second(priority), [14, 18, 20]),
            (TagEdits { pop: 1, ..second(none) }, [14, 18, 22]),
            (push(1, edits.clone()), [14, 14, 14]),
            (push(1, outer(set(9))), [14, 14, 14]),
            (push(1, second(set(9))), [14, 16, 16]),
            (push(2, second(set(9))), [14, 14, 14]),
        ] {
            for (count, needed) in needed.into_iter().enumerate() {
                let whole = [vec![2; 12], [A, B][..count].concat(), vec![8, 0, 0x45, 0]].concat();
                for len in 0..whole.len() {
                    let mut frame = whole[..len].to_vec();
                    let is_edited = edits.apply(&mut frame, FirstHeader::Ethernet, &mut TagUses::default());
                    assert_eq!(is_edited, len >= needed, "{edits:?}: {count} tags, cut to {len}");
                    assert!(is_edited || frame == whole[..len]);
                }
            }
        }
    }

    /// The tags behind cooked headers stayed, and no packet was counted.
    #[test]
    fn tags_behind_cooked_headers_change() {
        let sll = |tags: &[[u8; 4]]| [&[7; 14][..], &tags.concat(), &[8, 0, 0x45, 0]].concat();
        let sll2 = |tags: &[[u8; 4]]| {
            let types = [&tags.concat()[..], &[8, 0]].concat();
            [&types[..2], &[7; 18], &types[2..], &[0x45, 0]].concat()
        };
        for edits in [
            TagEdits { pop: 1, ..TagEdits::default() },
            TagEdits { push: vec![set(9)], ..TagEdits::default() },
            TagEdits { outer: set(9), ..TagEdits::default() },
            TagEdits { second: set(9), ..TagEdits::default() },
        ] {
            for before in [&[][..], &[A], &[A, B]] {
                let after = tags(&edits, before);
                for (first, frame) in
                    [(FirstHeader::Sll, &sll as &dyn Fn(&[[u8; 4]]) -> Vec<u8>), (FirstHeader::Sll2, &sll2)]
                {
                    let mut found = frame(before);
                    assert!(edits.apply(&mut found, first, &mut TagUses::default()));
                    assert_eq!(found, frame(&after), "{edits:?} {before:?} {first:?}");
                }
            }
        }
        let pop = TagEdits { pop: 1, ..TagEdits::default() };
        let mut cut = sll(&[A])[..17].to_vec();
        assert!(!pop.apply(&mut cut, FirstHeader::Sll, &mut TagUses::default()));
        assert_eq!(cut, sll(&[A])[..17]);
    }

    #[test]
    fn the_outer_and_the_second_tag_are_set_added_and_removed() {
        let outer = |outer| TagEdits { outer, ..TagEdits::default() };
        let second = |second| TagEdits { second, ..TagEdits::default() };
        let none = TagFields { vlan: Some(VlanEdit::Remove), ..TagFields::default() };
        assert_eq!(tags(&outer(set(9)), &[A, B]), [[0x88, 0xa8, 0x60, 9], B]);
        assert_eq!(tags(&outer(set(9)), &[]), [[0x81, 0, 0, 9]]);
        assert_eq!(tags(&outer(none), &[A, B]), [B]);
        let priority = TagFields { priority: Some(1), ..TagFields::default() };
        assert_eq!(tags(&outer(priority), &[]), [[0; 4]; 0]);
        assert_eq!(tags(&second(set(9)), &[A, B]), [A, [0x81, 0, 0, 9]]);
        assert_eq!(tags(&second(set(9)), &[A]), [A, [0x81, 0, 0, 9]]);
        assert_eq!(tags(&second(set(9)), &[]), [[0; 4]; 0]);
        assert_eq!(tags(&second(none), &[A, B]), [A]);
        let both = TagEdits { outer: set(1), second: set(2), ..TagEdits::default() };
        assert_eq!(tags(&both, &[]), [[0x81, 0, 0, 1], [0x81, 0, 0, 2]]);
        assert_eq!(
            tags(&TagEdits { outer: none, second: none, ..TagEdits::default() }, &[A, B]),
            [[0; 4]; 0]
        );
    }
}
