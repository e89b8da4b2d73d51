//! Numbers and addresses at a place of a header, in network byte order.

/// The 16-bit number at `at`, if the bytes have it.
pub(super) fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Defines `View`, the bytes of a header from its first one on, with the length of its fixed part.
/// `no halves` is for a header without 16-bit fields.
macro_rules! view {
    ($what:literal, $len:literal) => {
        $crate::headers::bytes::view!($what, $len, no halves);

        impl View<'_> {
            fn half(&self, at: usize) -> u16 {
                u16::from_be_bytes([self.0[at], self.0[at + 1]])
            }
        }
    };
    ($what:literal, $len:literal, no halves) => {
        #[doc = concat!("The bytes of ", $what, ", and what follows.")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct View<'a>(&'a [u8; $len], &'a [u8]);

        impl<'a> View<'a> {
            #[doc = concat!("Of bytes that begin with ", $what, "; nothing if the first ", $len, " are not there.")]
            pub fn new(bytes: &'a [u8]) -> Option<Self> {
                Some(Self(bytes.first_chunk()?, bytes))
            }
        }
    };
}
pub(super) use view;
