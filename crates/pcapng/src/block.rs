//! Any block of a file, and the two kinds whose body is not parsed.

use crate::body::Body;
use crate::{ByteOrder, Interface, Names, Packet, PacketBuf, ReadError, Section, Statistics, frame};

/// One block of a file. `P` is [`crate::Packet`] while it lives in a reader's buffer,
/// [`crate::PacketBuf`] when it owns its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Block<P> {
    /// A new section begins; interfaces count from 0 again.
    Section(Section),
    /// The next interface of the section.
    Interface(Interface),
    /// A packet.
    Packet(P),
    /// Counts of an interface.
    Statistics(Statistics),
    /// Names of addresses.
    Names(Names),
    /// A block of some company's own.
    Custom(Custom),
    /// A block of a type that is not read here, kept as it is.
    Unknown(Unknown),
    /// A block without packets that is too long to be kept; its bytes were passed over.
    Skipped(SkippedBlock),
}

/// Type and length of a block that was passed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SkippedBlock {
    /// The block's type.
    pub block_type: u32,
    /// Its length in bytes, from its type to its second length.
    pub block_len: u32,
}

impl Block<Packet<'_>> {
    /// Turns the block into one that owns its bytes.
    #[must_use]
    pub fn into_buf(self) -> Block<PacketBuf> {
        match self {
            Self::Packet(packet) => Block::Packet(packet.to_buf()),
            Self::Section(section) => Block::Section(section),
            Self::Interface(interface) => Block::Interface(interface),
            Self::Statistics(statistics) => Block::Statistics(statistics),
            Self::Names(names) => Block::Names(names),
            Self::Custom(custom) => Block::Custom(custom),
            Self::Unknown(unknown) => Block::Unknown(unknown),
            Self::Skipped(skipped) => Block::Skipped(skipped),
        }
    }
}

/// A block whose content only its owner knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Custom {
    /// The owner's private enterprise number, as registered with IANA.
    pub enterprise: u32,
    /// Whether a program that does not know it should copy it into files made from this one.
    pub may_copy: bool,
    /// Data and options of the owner, padded with zeros to a multiple of four bytes when written.
    pub data: Vec<u8>,
}

/// A block of any type: its body as it was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unknown {
    /// The block's type.
    pub block_type: u32,
    /// The bytes between the two lengths, in the byte order of the section; padded with zeros to a
    /// multiple of four bytes when written. Type and length of decryption secrets (block type 10)
    /// are little-endian.
    pub body: Vec<u8>,
}

impl Custom {
    /// Appends the block in little-endian order.
    pub fn emit(&self, out: &mut Vec<u8>) {
        self.emit_as(ByteOrder::Little, out);
    }

    /// Appends the block in the order of its section.
    pub fn emit_as(&self, order: ByteOrder, out: &mut Vec<u8>) {
        let block_type = if self.may_copy { frame::CUSTOM } else { frame::CUSTOM_DO_NOT_COPY };
        frame::emit(order, block_type, out, |out| {
            out.extend_from_slice(&order.emit_u32(self.enterprise));
            out.extend_from_slice(&self.data);
        });
    }

    pub(crate) fn parse(mut body: Body<'_>, may_copy: bool) -> Result<Self, ReadError> {
        let enterprise = body.u32("the enterprise number")?;
        Ok(Self { enterprise, may_copy, data: body.rest().to_vec() })
    }
}

impl Unknown {
    /// Appends the block in little-endian order.
    pub fn emit(&self, out: &mut Vec<u8>) {
        self.emit_as(ByteOrder::Little, out);
    }

    /// Appends the block in the order of its section. The body is copied as it is.
    pub fn emit_as(&self, order: ByteOrder, out: &mut Vec<u8>) {
        frame::emit(order, self.block_type, out, |out| {
            let start = out.len();
            out.extend_from_slice(&self.body);
            swap_secrets(order, self.block_type, &mut out[start..]);
        });
    }

    pub(crate) fn parse(order: ByteOrder, block_type: u32, bytes: &[u8]) -> Self {
        let mut body = bytes.to_vec();
        swap_secrets(order, block_type, &mut body);
        if order == ByteOrder::Big
            && block_type == frame::SECRETS
            && let Some(len) = body.get(4..).and_then(|bytes| bytes.first_chunk())
        {
            // Options, which would have to be swapped, follow the secrets.
            body.truncate((8 + u32::from_le_bytes(*len) as usize).next_multiple_of(4));
        }
        Self { block_type, body }
    }
}

/// Swaps type and length of decryption secrets between little-endian order and `order`.
fn swap_secrets(order: ByteOrder, block_type: u32, body: &mut [u8]) {
    if order == ByteOrder::Big
        && block_type == frame::SECRETS
        && let Some(head) = body.first_chunk_mut::<8>()
    {
        head.as_chunks_mut::<4>().0.iter_mut().for_each(|word| word.reverse());
    }
}
