//! What repeats trials, and what makes pages of their results.
//!
//! [`search`] finds the highest load without loss, [`rfc2544`] runs the tests of RFC 2544,
//! [`page`] makes an HTML page of result files.
#![forbid(unsafe_code)]

pub mod page;
pub mod rfc2544;
pub mod search;

use ::search::record::{Rfc2544Record, SearchRecord, TrialRecord};
use facts::Document;

/// A trial.
pub const TRIAL: Document = Document::of::<TrialRecord>(
    "wirerate.trial/1",
    "wirerate search --json and wirerate rfc2544 --json: a trial",
);

/// The end of a search.
pub const SEARCH: Document = Document::of::<SearchRecord>(
    "wirerate.search/1",
    "wirerate search --json: the end; wirerate rfc2544 --json: the end of a search",
);

/// The end of the tests of RFC 2544.
pub const RFC2544: Document =
    Document::of::<Rfc2544Record>("wirerate.rfc2544/1", "wirerate rfc2544 --json: the end");
