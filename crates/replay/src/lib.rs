//! Captured records as frames to send: link types, cut records, rewriting, splitting, times.
//!
//! [`FrameMaker`] turns one [`Record`] into the bytes of one frame or of several segments, or names
//! the [`Fate`] of a record that is not sent. [`Fates`] counts all records: read = the sum of all
//! fates. [`Timing`] gives each frame its due time. [`Comparison`] compares what arrived with what
//! was sent. No I/O, no clock; the caller reads the files and sends.
#![forbid(unsafe_code)]

mod comparison;
mod difference;
mod edit;
mod fate;
mod fragments;
mod frame_maker;
mod link_type;
mod outer;
mod per_loop;
mod prefix;
mod record;
mod roles;
#[cfg(any(test, feature = "sample"))]
pub mod sample;
mod segment;
mod selection;
mod split;
mod timing;

pub use comparison::{Comparison, ComparisonResult, FrameDigest, queue_of};
pub use difference::{IgnoredFields, difference};
pub use edit::{
    AddressRule, AnonymizeKey, ChecksumPolicy, EditCounts, EditUses, Edits, FieldEdit, FieldValue,
    HeaderChoice, MacMap, MapScope, NotEdited, NotFixed, PortMap, SumCounts, TagEdits, TagFields, TagUses,
    TtlEdit, VlanEdit,
};
pub use fate::{Fate, Fates};
pub use frame_maker::{CutPolicy, FrameMaker, FrameSettings, LongPolicy, MadeFrame, StopCause};
pub use link_type::{LinkType, TargetKind, UnusableLink};
pub use outer::{FlowKey, flow_hash, flow_key};
pub use per_loop::{LoopSteps, PerLoop};
pub use prefix::{AddressMap, BadAddressMap, Prefix};
pub use record::{Direction, Record};
pub use roles::HostRoles;
pub use selection::{BadNumbers, InterfaceChoice, NumberSet, Selection};
pub use split::{OutputPort, SplitRule};
pub use timing::{Due, FILE_GAP_NS_MAX, Timing, TimingRule};
