//! What can fail between a program and its hub.

use report::human::printable;

/// An error of the hub, or of the way to it.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// No connection.
    #[error("{url} was not reached: {why}")]
    NotReached {
        /// Its address.
        url: String,
        /// Why.
        why: String,
    },
    /// The server is too old.
    #[error("{url} is nats-server {version}: {oldest} or later is needed")]
    TooOld {
        /// Its address.
        url: String,
        /// Its version.
        version: String,
        /// The oldest that works.
        oldest: &'static str,
    },
    /// A file with a key or certificate is missing or wrong.
    #[error("{0}")]
    Key(String),
    /// An operation on the hub failed.
    #[error("{act}: {why}")]
    Failed {
        /// What was done.
        act: &'static str,
        /// Why.
        why: String,
    },
    /// The key has no right to do this.
    #[error("the hub refuses it to this key: {0}")]
    Refused(String),
    /// There is no such run.
    #[error("the hub has no run {0}")]
    NoRun(String),
}

impl HubError {
    /// Adds what was being done.
    pub(crate) fn at<E: std::fmt::Display>(act: &'static str) -> impl FnOnce(E) -> Self {
        move |why| Self::Failed { act, why: printable(&why.to_string()).into_owned() }
    }
}
