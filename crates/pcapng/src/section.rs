//! Section header block: the first block of a file, and of each later section with its own byte
//! order and interfaces.

use crate::body::Body;
use crate::options::{self, COMMENT, Emitter, set};
use crate::{ByteOrder, RawOption, ReadError, frame};

pub(crate) const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
pub(crate) const VERSION_MAJOR: u16 = 1;
pub(crate) const VERSION_MINOR: u16 = 0;

pub(crate) const HARDWARE: u16 = 2;
pub(crate) const OS: u16 = 3;
pub(crate) const APPLICATION: u16 = 4;

/// Who made a section, and on what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Section {
    /// The machine, as a person would name it ("x86_64, 2 CPUs").
    pub hardware: Option<String>,
    /// The operating system and its version.
    pub os: Option<String>,
    /// The program that wrote the section, with its version.
    pub application: Option<String>,
    /// Comment of the author.
    pub comment: Option<String>,
    /// Options that no field above holds.
    pub other: Vec<RawOption>,
}

impl Section {
    /// Appends the block in little-endian order, of unknown length (-1) so that it can be streamed.
    pub fn emit(&self, out: &mut Vec<u8>) {
        self.emit_as(ByteOrder::Little, out);
    }

    /// Appends the block; every later block of the section must be in the same order.
    pub fn emit_as(&self, order: ByteOrder, out: &mut Vec<u8>) {
        frame::emit(order, frame::SECTION, out, |out| {
            out.extend_from_slice(&order.emit_u32(BYTE_ORDER_MAGIC));
            out.extend_from_slice(&order.emit_u16(VERSION_MAJOR));
            out.extend_from_slice(&order.emit_u16(VERSION_MINOR));
            out.extend_from_slice(&order.emit_u64(u64::MAX));
            let mut options = Emitter::new(order, out);
            options.text(COMMENT, self.comment.as_deref());
            options.text(HARDWARE, self.hardware.as_deref());
            options.text(OS, self.os.as_deref());
            options.text(APPLICATION, self.application.as_deref());
            options.raw(&self.other);
            options.end();
        });
    }

    /// The block whose body, after byte-order magic and version, is `body`.
    pub(crate) fn parse(mut body: Body<'_>) -> Result<Self, ReadError> {
        body.u64("the section's length")?;
        let mut section = Self::default();
        options::parse(body, &mut section.other, |option| match option.code {
            COMMENT => set(&mut section.comment, option.string()),
            HARDWARE => set(&mut section.hardware, option.string()),
            OS => set(&mut section.os, option.string()),
            APPLICATION => set(&mut section.application, option.string()),
            _ => false,
        })?;
        Ok(section)
    }
}
