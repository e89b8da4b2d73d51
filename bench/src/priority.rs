//! The session that a bench runs in goes before other sessions, for as long as the bench runs.
//!
//! Where the kernel groups threads by session (autogroup), the niceness of a thread counts within its own
//! session only; between sessions that of the groups does.

use anyhow::{Context, Result};
use std::fs;

const AUTOGROUP: &str = "/proc/self/autogroup";
const FIRST: i32 = -20;

/// Gives the session its former place back when dropped.
#[derive(Debug)]
pub(crate) struct FirstSession {
    /// `None` where the kernel does not group by session.
    former: Option<i32>,
}

impl FirstSession {
    /// Begins.
    pub(crate) fn begin() -> Result<Self> {
        let Ok(text) = fs::read_to_string(AUTOGROUP) else { return Ok(Self { former: None }) };
        let former = niceness(&text).with_context(|| format!("{AUTOGROUP} says {text:?}"))?;
        fs::write(AUTOGROUP, FIRST.to_string()).with_context(|| format!("cannot write to {AUTOGROUP}"))?;
        Ok(Self { former: Some(former) })
    }
}

impl Drop for FirstSession {
    fn drop(&mut self) {
        if let Some(former) = self.former {
            // Nobody is left to tell, and it ends with the session anyway.
            let _ = fs::write(AUTOGROUP, former.to_string());
        }
    }
}

/// Of `/autogroup-123 nice 0`.
fn niceness(text: &str) -> Option<i32> {
    text.trim().rsplit_once(" nice ")?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn niceness_is_read_as_the_kernel_writes_it() {
        assert_eq!(niceness("/autogroup-123 nice 0\n"), Some(0));
        assert_eq!(niceness("/autogroup-4 nice -20\n"), Some(-20));
        assert_eq!(niceness("/autogroup-4\n"), None);
    }
}
