//! What repeats trials, and what makes pages of their results.
//!
//! [`search`] finds the highest load without loss, [`rfc2544`] runs the tests of RFC 2544,
//! [`page`] makes an HTML page of result files.
#![forbid(unsafe_code)]

pub mod page;
pub mod rfc2544;
pub mod search;
