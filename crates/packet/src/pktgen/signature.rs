//! Which signature the frames of a plan carry at the start of their payload. `measure` reads it;
//! its documentation has the layout.

use crate::plan::{Field, FieldMode, FrameSpec};
use crate::wire::{PKTGEN_HEADER_LEN, PKTGEN_MAGIC};

/// Names the fields behind the nanoseconds.
const TAG: [u8; 2] = 0x5752_u16.to_be_bytes();
/// Where the fields are that the template holds: thread (in the bits above the nanoseconds), tag,
/// and run.
const NANOS_AT: usize = 16;
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
    pub(crate) fn template(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.level.byte_count()];
        if self.level >= SignatureLevel::Pktgen {
            bytes[..4].copy_from_slice(&PKTGEN_MAGIC.to_be_bytes());
        }
        if self.level >= SignatureLevel::Short {
            bytes[NANOS_AT..NANOS_AT + 2].copy_from_slice(&self.stream_bits().to_be_bytes());
        }
        if self.level == SignatureLevel::Full {
            bytes[TAG_AT..TAG_AT + 2].copy_from_slice(&TAG);
            bytes[RUN_AT..].copy_from_slice(&self.run.to_be_bytes());
        }
        bytes
    }

    /// Its thread, in the bits above the nanoseconds.
    fn stream_bits(&self) -> u16 {
        u16::from(self.stream) << 10
    }

    /// The fields that differ from frame to frame, in the order of their places: offset in the
    /// signature, width, and mode, which a level without the field does not have.
    pub(crate) fn fields(&self, has_time: bool) -> [(usize, usize, Option<FieldMode>); 6] {
        let nanos = FieldMode::WallNanos { bits: self.stream_bits() };
        [
            (SignatureLevel::Pktgen, 4, 4, Some(FieldMode::Sequence)),
            (SignatureLevel::Pktgen, 8, 4, has_time.then_some(FieldMode::WallSeconds)),
            (SignatureLevel::Pktgen, 12, 4, has_time.then_some(FieldMode::WallMicros)),
            (SignatureLevel::Short, NANOS_AT, 2, has_time.then_some(nanos)),
            (SignatureLevel::Full, 20, 4, Some(FieldMode::Flow)),
            (SignatureLevel::Full, 24, 6, Some(FieldMode::FlowNumber)),
        ]
        .map(|(level, offset, width, mode)| (offset, width, mode.filter(|_| self.level >= level)))
    }

    /// Writes the signature into the template of any frame from byte `at` on, and adds its fields.
    /// Other fields do not change these bytes any more. `has_time` lets frames carry the time of
    /// day.
    ///
    /// # Panics
    /// With fewer bytes from `at` on than the level has.
    pub fn add(&self, at: usize, has_time: bool, spec: &mut FrameSpec) {
        let bytes = self.template();
        let place = at..at + bytes.len();
        spec.template[place.clone()].copy_from_slice(&bytes);
        spec.spare(place);
        for (offset, width, mode) in self.fields(has_time) {
            spec.fields.extend(mode.map(|mode| Field::whole(at + offset, width, mode)));
        }
    }
}
