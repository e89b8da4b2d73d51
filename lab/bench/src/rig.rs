//! What all measurements of a run share.

use crate::programs::Programs;
use crate::report::BenchReport;
use crate::settings::Deadline;
use crate::table::{BenchPlan, BenchSize};
use crate::testbed::Testbed;

/// The machine, the plan and the report.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rig<'a> {
    pub(crate) bed: &'a Testbed,
    pub(crate) programs: &'a Programs,
    pub(crate) size: BenchSize,
    pub(crate) plan: &'a BenchPlan,
    pub(crate) deadline: Deadline,
    pub(crate) report: &'a BenchReport,
}
