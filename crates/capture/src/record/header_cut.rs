//! Cuts frames behind their last header.

use packet::headers::{EndCause, FirstHeader, Walk};

/// Bytes that are kept behind the last header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeaderCut {
    first: FirstHeader,
    extra_len: usize,
}

impl HeaderCut {
    /// For frames of a link type, as capture files number them; `None` for one whose headers are
    /// not known, so that frames stay whole.
    pub(crate) fn new(link_type: u16, extra_len: u32) -> Option<Self> {
        let first = FirstHeader::of_link_type(link_type)?;
        Some(Self { first, extra_len: extra_len as usize })
    }

    /// The bytes of a frame that are kept.
    pub(crate) fn kept<'a>(&self, frame: &'a [u8]) -> &'a [u8] {
        let mut walk = Walk::new(frame, self.first);
        while walk.next().is_some() {}
        let end = walk.end();
        // Of a header that is cut, all bytes are kept.
        let at = if end.cause == EndCause::Cut { frame.len() } else { end.at };
        let len = at.saturating_add(self.extra_len);
        &frame[..len.min(frame.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_cut_behind_its_last_header() {
        let mut frame = vec![0; 100];
        (frame[12], frame[14], frame[23]) = (8, 0x45, 17);
        frame[17] = 86; // IP length
        frame[39] = 66; // UDP length
        let kept = |extra_len| HeaderCut::new(1, extra_len).unwrap().kept(&frame).len();
        assert_eq!([kept(0), kept(10), kept(1_000)], [42, 52, 100]);
        assert_eq!(HeaderCut::new(101, 0).unwrap().kept(&frame[14..]).len(), 28);
        assert_eq!(HeaderCut::new(1, 0).unwrap().kept(&frame[..30]).len(), 30);
        assert!(HeaderCut::new(1, 0).unwrap().kept(&[]).is_empty());
        assert_eq!(HeaderCut::new(147, 0), None);
    }
}
