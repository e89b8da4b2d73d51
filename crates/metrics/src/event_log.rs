//! Lines that a running command has printed or could have printed, for any number of readers.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Lines that are kept for readers who come later.
const LINES_MAX: usize = 1000;

/// A list of lines that grows until it is closed.
#[derive(Default)]
pub struct EventLog {
    kept: Mutex<KeptLines>,
    /// Functions that are called after each line and at the end.
    followers: Mutex<Vec<Box<Follower>>>,
}

type Follower = dyn Fn() + Send + Sync;

impl fmt::Debug for EventLog {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kept.fmt(formatter)
    }
}

#[derive(Debug, Default)]
struct KeptLines {
    /// Number of the first line that is kept, from 0 on.
    first: u64,
    lines: VecDeque<String>,
    is_closed: bool,
}

/// What follows a line.
#[derive(Debug, PartialEq, Eq)]
pub struct NextLines {
    /// The lines with their numbers.
    pub lines: Vec<(u64, String)>,
    /// True if no more will come.
    pub is_last: bool,
}

impl EventLog {
    /// Adds a line; a line end at its end is left out.
    pub fn add(&self, line: &str) {
        let mut kept = self.lock();
        kept.lines.push_back(line.trim_end_matches('\n').to_owned());
        if kept.lines.len() > LINES_MAX {
            kept.lines.pop_front();
            kept.first += 1;
        }
        drop(kept);
        self.call_followers();
    }

    /// No line follows.
    pub fn close(&self) {
        self.lock().is_closed = true;
        self.call_followers();
    }

    /// The lines from number `from` on, as far as they are kept, and the number of the next one.
    pub fn lines_from(&self, from: u64) -> (Vec<String>, u64) {
        let next = self.from(from);
        let number = next.lines.last().map_or(from, |(number, _)| number + 1);
        (next.lines.into_iter().map(|(_, line)| line).collect(), number)
    }

    /// The lines from number `from` on, as far as they are kept.
    pub fn from(&self, from: u64) -> NextLines {
        let kept = self.lock();
        let skipped = from.saturating_sub(kept.first) as usize;
        let lines = kept.lines.iter().enumerate().skip(skipped);
        NextLines {
            lines: lines.map(|(place, line)| (kept.first + place as u64, line.clone())).collect(),
            is_last: kept.is_closed,
        }
    }

    /// Calls `follower` after each line from now on, and at the end.
    pub fn follow(&self, follower: impl Fn() + Send + Sync + 'static) {
        self.followers.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(follower));
    }

    fn call_followers(&self) {
        let followers = self.followers.lock().unwrap_or_else(PoisonError::into_inner);
        followers.iter().for_each(|follower| follower());
    }

    fn lock(&self) -> MutexGuard<'_, KeptLines> {
        // Nothing panics while it is held.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_kept_with_their_numbers() {
        let log = EventLog::default();
        (0..=LINES_MAX).for_each(|number| log.add(&format!("{number}\n")));
        let NextLines { lines, is_last } = log.from(0);
        assert_eq!((lines.len(), lines[0].clone(), is_last), (LINES_MAX, (1, "1".to_owned()), false));
        log.close();
        let last = (LINES_MAX as u64, LINES_MAX.to_string());
        assert_eq!(log.from(LINES_MAX as u64), NextLines { lines: vec![last], is_last: true });
        assert_eq!(log.from(u64::MAX).lines, []);
    }
}
