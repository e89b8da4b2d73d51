//! Golden files of cases: one file per text and kernel in `lab/vm/tests/golden`.

use crate::{CaseOutcome, Ending};
use std::path::Path;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden");

/// Fails the outcomes whose texts differ from their files; `UPDATE=1` rewrites the files instead.
pub(crate) fn check(kernel: &str, mut outcomes: Vec<CaseOutcome>) -> Vec<CaseOutcome> {
    for outcome in &mut outcomes {
        for (name, found) in &outcome.golden {
            let path = Path::new(FOLDER).join(name).join(format!("{kernel}.txt"));
            let compared = testkit::compare(&path, found);
            if let (Ending::Passed, Err(difference)) = (&outcome.ending, compared) {
                outcome.ending = Ending::Failed(difference);
            }
        }
    }
    outcomes
}
