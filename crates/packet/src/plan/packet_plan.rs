//! One packet of a plan.

use super::spec::Field;
use super::sums::SumPlan;

/// One packet, prepared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PacketPlan {
    /// The bytes of the frame before fields and checksums are applied.
    pub template: Vec<u8>,
    /// Applied in order.
    pub fields: Vec<Field>,
    /// For each field, the place of its state in [`Cursor::states`](crate::Cursor::states).
    pub slots: Vec<usize>,
    /// Computed in order after the fields.
    pub sums: Vec<SumPlan>,
}
