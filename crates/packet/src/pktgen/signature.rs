//! Which signature the frames of a plan carry at the start of their UDP payload. `measure` reads
//! it; its documentation has the layout.

use crate::wire::PKTGEN_HEADER_LEN;

/// Names the fields behind the nanoseconds.
const TAG: [u8; 2] = 0x5752_u16.to_be_bytes();
/// Where the fields are that the template holds: tag, and run.
const TAG_AT: usize = 18;
const RUN_AT: usize = 30;

/// How much of the signature frames carry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum SignatureLevel {
    /// Nothing.
    None,
    /// pktgen's header: number and time in microseconds.
    #[default]
    Pktgen,
    /// The header, nanoseconds and the sending thread.
    Short,
    /// All of these, flow, number in the flow and run.
    Full,
}

impl SignatureLevel {
    /// Its length in bytes.
    pub const fn byte_count(self) -> usize {
        match self {
            Self::None => 0,
            Self::Pktgen => PKTGEN_HEADER_LEN,
            Self::Short => 18,
            Self::Full => 32,
        }
    }
}

/// The signature of the frames of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignatureSetting {
    /// How much of it.
    pub level: SignatureLevel,
    /// The thread, 0 to 63.
    pub stream: u8,
    /// Flows that frames go through in turn if the plan has no flow table; at least 1.
    pub flow_count: u32,
    /// Frames of one of these flows in a row; at least 1.
    pub flow_len: u32,
    /// Flow of the first of these, or of the first entry of the flow table.
    pub flow_first: u32,
    /// The run.
    pub run: u16,
}

impl Default for SignatureSetting {
    fn default() -> Self {
        Self {
            level: SignatureLevel::default(),
            stream: 0,
            flow_count: 1,
            flow_len: 1,
            flow_first: 0,
            run: 0,
        }
    }
}

impl SignatureSetting {
    /// The signature with its constant fields; the others are zero.
    pub(crate) fn template(&self, magic: u32) -> Vec<u8> {
        let mut bytes = vec![0; self.level.byte_count()];
        if self.level >= SignatureLevel::Pktgen {
            bytes[..4].copy_from_slice(&magic.to_be_bytes());
        }
        if self.level == SignatureLevel::Full {
            bytes[TAG_AT..TAG_AT + 2].copy_from_slice(&TAG);
            bytes[RUN_AT..].copy_from_slice(&self.run.to_be_bytes());
        }
        bytes
    }
}
