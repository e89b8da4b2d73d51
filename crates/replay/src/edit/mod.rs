//! Edits of frames: tags, fields, maps of addresses and ports, anonymized addresses, lengths, and
//! the checksums that cover them.

mod anonymize;
mod counts;
mod editor;
mod fields;
mod groups;
mod lengths;
mod maps;
mod tags;
mod tracked;

pub use anonymize::AnonymizeKey;
pub use counts::{EditCounts, EditUses, NotEdited, NotFixed, SumCounts, TagUses};
pub use editor::{ChecksumPolicy, Edits, FieldEdit};
pub(crate) use editor::{EditOptions, Editor};
pub use fields::{FieldValue, HeaderChoice, TtlEdit};
pub(crate) use lengths::LengthField;
pub use maps::{AddressRule, MacMap, MapScope, PortMap};
pub use tags::{TagEdits, TagFields, VlanEdit};
