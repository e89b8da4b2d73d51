//! Errors of this crate.

use std::io;

/// Error of the kernel: its number and, from newer kernels, a text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{}", io::Error::from_raw_os_error(*errno), detail.as_ref().map(|d| format!(": {d}")).unwrap_or_default())]
pub struct KernelError {
    /// A number of `errno(3)`.
    pub errno: i32,
    /// The text of a netlink extended acknowledgement.
    pub detail: Option<String>,
}

impl KernelError {
    pub(crate) fn io(error: &io::Error) -> Self {
        match error.raw_os_error() {
            Some(errno) => Self { errno, detail: None },
            None => Self { errno: libc::EIO, detail: Some(error.to_string()) },
        }
    }
}

impl From<nix::errno::Errno> for KernelError {
    fn from(errno: nix::errno::Errno) -> Self {
        Self { errno: errno as i32, detail: None }
    }
}

impl From<io::Error> for KernelError {
    fn from(error: io::Error) -> Self {
        Self::io(&error)
    }
}

/// Errors of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages name the fields")]
pub enum HostError {
    /// The kernel rejected an act.
    #[error("cannot {act} {object}")]
    Refused { act: &'static str, object: String, source: KernelError },
    /// No namespace of that name.
    #[error("there is no network namespace named {name} ({})", netns_names(existing))]
    NoNetns {
        name: String,
        /// The names of `ip netns`.
        existing: Vec<String>,
    },
    /// No device of that name or index.
    #[error("there is no device {link} in {netns}")]
    NoLink { link: String, netns: String },
    /// An invalid name.
    #[error("\"{name}\" cannot be the name of a {what}: {why}")]
    BadName { what: &'static str, name: String, why: &'static str },
    /// An answer of the kernel that cannot be parsed.
    #[error("cannot {act} {object}: cannot parse the answer of the kernel: {why}")]
    Unreadable { act: &'static str, object: String, why: String },
    /// A device did not apply a feature change.
    #[error("{object} keeps {feature} {}", if *.on { "off" } else { "on" })]
    FeatureFixed { object: String, feature: String, on: bool },
    /// The device has no hardware timestamps.
    #[error("{object} has no clock of its own that stamps received frames")]
    NoStamps { object: String },
    /// The device cannot timestamp these frames.
    #[error("{object} cannot stamp the frames of the filter {filter}; it offers {}", offers.join(", "))]
    NoStampFilter { object: String, filter: &'static str, offers: Vec<String> },
    /// The kernel does not have this interface.
    #[error("cannot {act} {object}: this kernel has no {what}")]
    Missing { act: &'static str, object: String, what: &'static str },
    /// A device that was not running in time.
    #[error("{object} is not running: it or its peer is down")]
    NotRunning { object: String },
    /// Text that is not a list of CPUs.
    #[error("\"{text}\" is not a list of CPUs")]
    BadCpuList { text: String },
    /// A CPU that does not exist or is not available to this process.
    #[error("CPU {cpu} cannot be used here")]
    NoCpu {
        cpu: u32,
        /// Online CPUs.
        online: String,
    },
}

impl HostError {
    /// The errno, if any.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::Refused { source, .. } => Some(source.errno),
            Self::NoNetns { .. } => Some(libc::ENOENT),
            Self::NoLink { .. } => Some(libc::ENODEV),
            _ => None,
        }
    }

    pub(crate) fn refused<S: Into<KernelError>>(
        act: &'static str,
        object: impl Into<String>,
    ) -> impl FnOnce(S) -> Self {
        let object = object.into();
        move |source| Self::Refused { act, object, source: source.into() }
    }
}

/// The namespaces that exist, for the error about one that does not.
fn netns_names(existing: &[String]) -> String {
    const COUNT_MAX: usize = 12;
    match existing.len() {
        0 => "no namespace has a name".to_owned(),
        1..=COUNT_MAX => format!("existing: {}", existing.join(", ")),
        count => format!("existing: {} and {} more", existing[..COUNT_MAX].join(", "), count - COUNT_MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_names_act_object_and_answer() {
        let source = KernelError { errno: libc::EPERM, detail: Some("not yours".to_owned()) };
        let error = HostError::Refused { act: "delete", object: "veth0".to_owned(), source };
        assert_eq!(error.to_string(), "cannot delete veth0");
        let cause = std::error::Error::source(&error).unwrap().to_string();
        assert_eq!(cause, "Operation not permitted (os error 1): not yours");
        assert_eq!(error.errno(), Some(libc::EPERM));
    }
}
