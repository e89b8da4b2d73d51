//! The last records of a file, which may have to go again to make room for what stands at its end.
//!
//! The system says that a disk is full when the next bytes do not fit, and these may be few: what must end the file fits
//! then only where records were.

use crate::format::Format;
use crate::part::Part;
use std::collections::VecDeque;

/// Records that come and go together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Bytes of them in the file.
    pub(crate) len: usize,
    /// Whose they are.
    pub(crate) parts: Vec<Part>,
    /// How many go by which interface.
    pub(crate) interfaces: Vec<(u32, u64)>,
}

/// See the top of the file.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    pieces: VecDeque<Piece>,
    len: usize,
}

impl Tail {
    /// Adds a piece, and forgets those at the front without which there are still `reserve_len` bytes.
    pub(crate) fn push(&mut self, piece: Piece, reserve_len: usize) {
        self.len += piece.len;
        self.pieces.push_back(piece);
        while let Some(first) = self.pieces.front()
            && self.len - first.len >= reserve_len
        {
            self.len -= first.len;
            self.pieces.pop_front();
        }
    }

    /// Takes off as many of the last pieces as are `len` bytes together, or all of them.
    pub(crate) fn cut(&mut self, len: usize) -> Vec<Piece> {
        let (mut cut, mut cut_len) = (Vec::new(), 0);
        while cut_len < len
            && let Some(last) = self.pieces.pop_back()
        {
            cut_len += last.len;
            cut.push(last);
        }
        self.len -= cut_len;
        cut
    }
}

/// The last records of these, as many as are `len_min` bytes together; the oldest first.
pub(crate) fn last_records(format: Format, mut records: &[u8], parts: &[Part], len_min: usize) -> Vec<Piece> {
    let ones = parts.iter().rev().flat_map(|part| (0..part.count).map(|_| Part { count: 1, ..*part }));
    let (mut pieces, mut len) = (Vec::new(), 0);
    for part in ones {
        if len >= len_min {
            break;
        }
        let (before, record) = records.split_at(records.len() - format.last_len(records));
        len += record.len();
        records = before;
        pieces.push(Piece {
            len: record.len(),
            parts: vec![part],
            interfaces: vec![(format.interface(record), 1)],
        });
    }
    pieces.reverse();
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcapng::Packet;

    #[test]
    fn the_last_records_are_those_of_the_last_rings() {
        let (mut records, mut lens) = (Vec::new(), Vec::new());
        for interface in 0..5 {
            let before = records.len();
            Packet { interface, data: &vec![7; 40 * interface as usize], ..Packet::default() }
                .emit(&mut records);
            lens.push(records.len() - before);
        }
        let part = |ring, count| Part { ring, count, ..Part::default() };
        let parts = [part(3, 3), part(1, 1), part(3, 1)];
        let piece = |number: usize, ring| Piece {
            len: lens[number],
            parts: vec![part(ring, 1)],
            interfaces: vec![(number as u32, 1)],
        };
        let last = |len_min| last_records(Format::Pcapng, &records, &parts, len_min);
        assert_eq!(last(0), []);
        assert_eq!(last(1), [piece(4, 3)]);
        assert_eq!(last(lens[4] + lens[3] + 1), [piece(2, 3), piece(3, 1), piece(4, 3)]);
        assert_eq!(last(usize::MAX).len(), 5);
    }

    #[test]
    fn as_much_is_remembered_as_may_have_to_go_and_no_more() {
        let mut tail = Tail::default();
        let piece = |len| Piece { len, ..Piece::default() };
        [50, 30, 20, 40].into_iter().for_each(|len| tail.push(piece(len), 60));
        assert_eq!(tail.cut(0), []);
        assert_eq!(tail.cut(41), [piece(40), piece(20)]);
        assert_eq!(tail.cut(1), [], "the others were forgotten");
        tail.push(piece(10), 60);
        assert_eq!(tail.cut(60), [piece(10)], "all there is");
        tail.push(piece(10), 0);
        assert_eq!(tail.cut(1), []);
    }
}
