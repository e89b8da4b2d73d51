//! What can go wrong between us and the machine, in words a person can act on.

use std::io;

/// What the kernel answered: its error number and, from newer kernels, a sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{}", io::Error::from_raw_os_error(*errno), detail.as_ref().map(|d| format!(": {d}")).unwrap_or_default())]
pub struct KernelError {
    /// A number of `errno(3)`.
    pub errno: i32,
    /// The extended acknowledgement of netlink, where there was one.
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

/// Something the host refused or does not have.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// The kernel refused an act.
    #[error("cannot {act} {object}")]
    Refused {
        /// What was tried, an infinitive: "open", "set the MTU of".
        act: &'static str,
        /// On what.
        object: String,
        /// Its answer.
        #[source]
        source: KernelError,
    },
    /// No namespace of that name.
    #[error("there is no network namespace named {name}")]
    NoNetns {
        /// The name as given.
        name: String,
    },
    /// No device of that name or number.
    #[error("there is no device {link} in {netns}")]
    NoLink {
        /// Name or `number N`.
        link: String,
        /// The namespace, in words.
        netns: String,
    },
    /// A name the kernel would not take.
    #[error("\"{name}\" cannot be the name of a {what}: {why}")]
    BadName {
        /// Of what.
        what: &'static str,
        /// The name as given.
        name: String,
        /// The rule it breaks.
        why: &'static str,
    },
    /// An answer of the kernel that this version does not understand.
    #[error("cannot {act} {object}: the answer of the kernel cannot be read: {why}")]
    Unreadable {
        /// What was tried.
        act: &'static str,
        /// On what.
        object: String,
        /// Where reading stopped.
        why: String,
    },
    /// A device took the wish for a feature and did not follow it.
    #[error("{object} keeps {feature} {}", if *.on { "off" } else { "on" })]
    FeatureFixed {
        /// Device and namespace.
        object: String,
        /// ethtool's name of the feature.
        feature: String,
        /// What was asked for.
        on: bool,
    },
    /// No hardware time on this device.
    #[error("{object} has no clock of its own that stamps received frames")]
    NoStamps {
        /// Device and namespace.
        object: String,
    },
    /// Hardware time, but not for these frames.
    #[error("{object} cannot stamp the frames of the filter {wish}; it offers {}", offers.join(", "))]
    NoStampFilter {
        /// Device and namespace.
        object: String,
        /// ethtool's word of the filter asked for.
        wish: &'static str,
        /// ethtool's words of the filters there are.
        offers: Vec<String>,
    },
    /// The kernel here has no such interface.
    #[error("cannot {act} {object}: this kernel has no {what}")]
    Missing {
        /// What was tried.
        act: &'static str,
        /// On what.
        object: String,
        /// The interface.
        what: &'static str,
    },
    /// A device that did not come up in time.
    #[error("{object} does not carry frames: it is off, or its other end is")]
    NotRunning {
        /// Device and namespace.
        object: String,
    },
    /// Text that is not a list of CPUs.
    #[error("\"{text}\" is not a list of CPUs")]
    BadCpuList {
        /// The text as given.
        text: String,
    },
    /// A CPU that is not there, or not for this process.
    #[error("CPU {cpu} cannot be used here")]
    NoCpu {
        /// Its number.
        cpu: u32,
        /// Those that run.
        online: String,
    },
}

impl HostError {
    /// The kernel's error number, where it gave one.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::Refused { source, .. } => Some(source.errno),
            Self::NoNetns { .. } => Some(libc::ENOENT),
            Self::NoLink { .. } => Some(libc::ENODEV),
            _ => None,
        }
    }

    /// What a person could try next, without the word "try".
    pub fn advice(&self) -> Option<String> {
        match self {
            Self::NoNetns { .. } => Some("`ip netns list` shows the names there are".to_owned()),
            Self::NoLink { netns, .. } => {
                Some(format!("`ip link` in {netns}; --netns NAME looks into another namespace"))
            }
            Self::Refused { source, .. } => advice_for(source.errno).map(str::to_owned),
            Self::FeatureFixed { .. } => {
                Some("`ethtool -k` shows what the driver lets one change".to_owned())
            }
            Self::NoStamps { .. } => {
                Some("captures take the kernel's clock there; nothing to switch on".to_owned())
            }
            Self::NoStampFilter { wish: "all", offers, .. }
                if offers.iter().any(|word| word.contains("ptp")) =>
            {
                Some("`wirerate timestamp DEV on --filter ptp` stamps the event messages of PTP".to_owned())
            }
            Self::NotRunning { .. } => Some("`ip link set DEV up` at both ends".to_owned()),
            Self::BadCpuList { .. } => Some("numbers and ranges with commas, such as 0,2-3".to_owned()),
            Self::NoCpu { online, .. } => Some(format!("one of CPU {online}")),
            Self::BadName { .. }
            | Self::Unreadable { .. }
            | Self::Missing { .. }
            | Self::NoStampFilter { .. } => None,
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

fn advice_for(errno: i32) -> Option<&'static str> {
    match errno {
        libc::EPERM | libc::EACCES => Some("run as root, or with CAP_NET_ADMIN and CAP_SYS_ADMIN"),
        libc::EEXIST => Some("another name, or remove what is there first"),
        libc::EBUSY => Some("end what uses it first"),
        libc::EOPNOTSUPP => Some("another kind of device, or a newer kernel or driver"),
        libc::EMFILE | libc::ENFILE => Some("a larger `ulimit -n`"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_names_act_object_answer_and_cure() {
        let source = KernelError { errno: libc::EPERM, detail: Some("not yours".to_owned()) };
        let error = HostError::Refused { act: "delete", object: "veth0".to_owned(), source };
        assert_eq!(error.to_string(), "cannot delete veth0");
        let cause = std::error::Error::source(&error).unwrap().to_string();
        assert_eq!(cause, "Operation not permitted (os error 1): not yours");
        assert!(error.advice().unwrap().contains("root"));
        assert_eq!(error.errno(), Some(libc::EPERM));
    }
}
