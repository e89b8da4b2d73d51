//! Gives a bench and the tools that it starts priority over other processes.
//!
//! Where the kernel groups threads by session (autogroup), the niceness of a thread counts within
//! its session only; between sessions that of the groups counts. So a bench raises both.

use crate::sys;
use anyhow::{Context, Result};
use std::fs;

const AUTOGROUP: &str = "/proc/self/autogroup";
const FIRST: i32 = -20;

/// Gives session and thread their former priority back when dropped.
#[derive(Debug)]
pub(crate) struct HighPriority {
    /// `None` where the kernel does not group by session, or not this one.
    former: Option<i32>,
}

impl HighPriority {
    /// For the session, the calling thread and what that starts from now on.
    pub(crate) fn begin() -> Result<Self> {
        sys::set_niceness(FIRST).context("cannot raise the priority of this process")?;
        let Ok(text) = fs::read_to_string(AUTOGROUP) else { return Ok(Self { former: None }) };
        let former = niceness(&text)?;
        if former.is_some() {
            fs::write(AUTOGROUP, FIRST.to_string())
                .with_context(|| format!("cannot write to {AUTOGROUP}"))?;
        }
        Ok(Self { former })
    }
}

impl Drop for HighPriority {
    fn drop(&mut self) {
        // To lower a priority takes no right.
        let _ = sys::set_niceness(0);
        if let Some(former) = self.former {
            // An error here cannot be reported, and the priority ends with the session.
            let _ = fs::write(AUTOGROUP, former.to_string());
        }
    }
}

/// Of `/autogroup-123 nice 0`; `None` of an empty file, which is what a process has that never was
/// in a session of its own, such as the child of a container's first process.
fn niceness(text: &str) -> Result<Option<i32>> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let number = text.rsplit_once(" nice ").and_then(|(_, number)| number.parse().ok());
    number.map(Some).with_context(|| format!("{AUTOGROUP} says {text:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn niceness_is_read_as_the_kernel_writes_it() {
        assert_eq!(niceness("/autogroup-123 nice 0\n").unwrap(), Some(0));
        assert_eq!(niceness("/autogroup-4 nice -20\n").unwrap(), Some(-20));
        assert_eq!(
            niceness("/autogroup-4\n").unwrap_err().to_string(),
            r#"/proc/self/autogroup says "/autogroup-4""#
        );
    }

    #[test]
    fn a_process_that_was_never_in_a_session_of_its_own_is_not_an_error() {
        assert_eq!(niceness("").unwrap(), None);
    }
}
