//! Switches to another user once the devices are open.

use crate::CaptureError;
use nix::unistd::{Gid, Uid, User, initgroups, setresgid, setresuid};
use std::ffi::CString;
use std::io;

/// A user to become.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunAs {
    name: CString,
    uid: Uid,
    gid: Gid,
}

impl RunAs {
    /// The user of that name.
    ///
    /// # Errors
    /// [`CaptureError::NoUser`].
    pub fn named(name: &str) -> Result<Self, CaptureError> {
        let no_user = || CaptureError::NoUser { name: name.to_owned() };
        let user = User::from_name(name).ok().flatten().ok_or_else(no_user)?;
        Ok(Self { name: CString::new(name).map_err(|_| no_user())?, uid: user.uid, gid: user.gid })
    }

    /// Every thread of this process is that user from now on, with its groups and without
    /// capabilities. None of them may have given up the right to it before.
    pub(crate) fn take_effect(&self) -> Result<(), CaptureError> {
        // The C library does the same in every thread; the kernel takes the capabilities away with
        // root.
        initgroups(&self.name, self.gid)
            .and_then(|()| setresgid(self.gid, self.gid, self.gid))
            .and_then(|()| setresuid(self.uid, self.uid, self.uid))
            .map_err(io::Error::from)
            .and_then(|()| host::keep_capabilities(&[]))
            .map_err(|source| CaptureError::RunAs { name: self.name.to_string_lossy().into_owned(), source })
    }
}
