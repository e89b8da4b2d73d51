//! The number of CPUs that are online, and of those that are possible.

use std::fs;

/// CPU numbers now in use end before this; at least 1, at most `possible`.
pub(crate) fn online_end(possible: u32) -> u32 {
    let text = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    // Not readable or not understood: a ring for every CPU is never wrong, only larger.
    list_end(&text).unwrap_or(possible).clamp(1, possible)
}

/// One more than the highest number in a list such as `0-3,8,10-11`.
fn list_end(text: &str) -> Option<u32> {
    text.trim().rsplit([',', '-']).next()?.parse::<u32>().ok()?.checked_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_number_of_a_cpu_list_is_the_highest() {
        for (text, end) in [
            ("0\n", Some(1)),
            ("0-3\n", Some(4)),
            ("0-3,8", Some(9)),
            ("0,2-11", Some(12)),
            ("", None),
            ("x", None),
        ] {
            assert_eq!(list_end(text), end, "{text:?}");
        }
    }

    #[test]
    fn this_machine_has_a_cpu() {
        assert!((1..=64).contains(&online_end(64)));
        assert_eq!(online_end(1), 1);
    }
}
