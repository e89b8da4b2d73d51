//! Mobility headers of IPv6 (RFC 6275, section 6).

use super::bytes::view;
use super::extension;

const BINDING_ERROR: u8 = 7;
const ALTERNATE_CARE_OF: u8 = 3;
const NETWORK_PREFIX: u8 = 6;
const HOME_PREFIX: u8 = 22;
const LINK_LOCAL: u8 = 26;
/// Bytes before the options, by the type of the message.
const OPTIONS_AT: [usize; 8] = [8, 16, 16, 24, 24, 12, 12, 24];

view!("a mobility header", 8, no halves);

impl View<'_> {
    /// Bytes of the header.
    pub fn header_len(&self) -> usize {
        8 + usize::from(self.0[1]) * 8
    }

    /// Calls `found` with the offset of each address. Returns the offset of the first part that is
    /// not read: a message or an option of another kind, or one that is not whole.
    pub fn addresses(&self, mut found: impl FnMut(usize)) -> Option<usize> {
        let kind = self.0[2];
        let Some(options_at) = OPTIONS_AT.get(usize::from(kind)).copied() else { return Some(6) };
        if kind == BINDING_ERROR {
            found(8);
        }
        let bytes = self.1.get(..self.header_len()).unwrap_or(self.1);
        let mut end = options_at;
        for (option, place) in extension::options(bytes, options_at) {
            match (option, place.len()) {
                (ALTERNATE_CARE_OF | LINK_LOCAL, 18) => found(place.start + 2),
                (NETWORK_PREFIX | HOME_PREFIX, 20) => found(place.start + 4),
                // Padding, refresh advice, nonce indices and authorization have no address.
                (1 | 2 | 4 | 5, _) => {}
                _ => return Some(place.start),
            }
            end = place.end;
        }
        // Behind the last whole option only padding may follow.
        bytes.get(end..)?.iter().position(|byte| *byte != 0).map(|offset| end + offset)
    }

    /// The fields.
    pub fn fields(&self) -> Fields {
        Fields { next: self.0[0], len: self.header_len(), kind: self.0[2] }
    }
}

/// Fields of a mobility header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    /// Protocol of the next header.
    pub next: u8,
    /// Bytes of the header.
    pub len: usize,
    /// Type of the message: 5 is a binding update.
    pub kind: u8,
}
