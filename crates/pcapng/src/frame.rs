//! The envelope of every block: type, total length, body, total length again.
//!
//! It serves the rare blocks; `packet` has a faster encoder for packets.

use crate::ByteOrder;

pub(crate) const SECTION: u32 = 0x0a0d_0d0a;
pub(crate) const INTERFACE: u32 = 1;
pub(crate) const OLD_PACKET: u32 = 2;
pub(crate) const SIMPLE_PACKET: u32 = 3;
pub(crate) const NAMES: u32 = 4;
pub(crate) const STATISTICS: u32 = 5;
pub(crate) const PACKET: u32 = 6;
/// Secrets for decryption: a type, a length, and the secrets.
pub(crate) const SECRETS: u32 = 10;
pub(crate) const CUSTOM: u32 = 0x0000_0bad;
pub(crate) const CUSTOM_DO_NOT_COPY: u32 = 0x4000_0bad;

/// Zero bytes that bring `len` to a multiple of four.
#[inline(always)]
pub(crate) fn pad_len(len: usize) -> usize {
    len.wrapping_neg() & 3
}

/// Appends one block whose body `body` writes; pads the body to a multiple of four.
///
/// # Panics
/// When the block does not fit the format's 32-bit length.
pub(crate) fn emit(order: ByteOrder, block_type: u32, out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&order.emit_u32(block_type));
    out.extend_from_slice(&[0; 4]);
    body(out);
    pad(out, start);
    let total_len = u32::try_from(out.len() - start + 4).expect("a pcapng block is shorter than 4 GiB");
    out[start + 4..start + 8].copy_from_slice(&order.emit_u32(total_len));
    out.extend_from_slice(&order.emit_u32(total_len));
}

/// Appends zeros until `out` is a multiple of four bytes longer than `start`.
pub(crate) fn pad(out: &mut Vec<u8>, start: usize) {
    let zeros = pad_len(out.len() - start);
    out.extend_from_slice(&[0; 3][..zeros]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_padded_and_its_length_said_twice() {
        let mut out = vec![0xee; 3];
        emit(ByteOrder::Big, 0x0102_0304, &mut out, |out| out.extend_from_slice(b"hello"));
        let block = [1, 2, 3, 4, 0, 0, 0, 20, b'h', b'e', b'l', b'l', b'o', 0, 0, 0, 0, 0, 0, 20];
        assert_eq!(out[..3], [0xee; 3]);
        assert_eq!(out[3..], block);
    }
}
