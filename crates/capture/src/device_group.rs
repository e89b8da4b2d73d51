//! The rule that says which devices belong to a group.

use std::fmt;

/// Which devices belong to a group: those with these names, and those whose names match these
/// patterns, with `*` and `?` as in a shell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceGroup {
    names: Vec<String>,
    patterns: Vec<String>,
}

impl DeviceGroup {
    /// The devices whose names are one of `names` or match one of `patterns`.
    pub fn new(names: Vec<String>, patterns: Vec<String>) -> Self {
        Self { names, patterns }
    }

    /// True if there is a pattern, so that devices belong to it that the user did not name.
    pub fn has_patterns(&self) -> bool {
        !self.patterns.is_empty()
    }

    /// True for the name of a device of the group.
    pub fn has(&self, name: &str) -> bool {
        self.names.iter().any(|one| one == name)
            || self.patterns.iter().any(|pattern| is_match(pattern, name))
    }

    /// True if every device belongs to it.
    pub(crate) fn is_all(&self) -> bool {
        self.patterns.iter().any(|pattern| pattern == "*")
    }
}

impl fmt::Display for DeviceGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_all() {
            true => f.write_str("any"),
            false => f.write_str(&[&self.names[..], &self.patterns].concat().join(" and ")),
        }
    }
}

fn is_match(pattern: &str, name: &str) -> bool {
    let Some(first) = pattern.chars().next() else { return name.is_empty() };
    let rest = &pattern[first.len_utf8()..];
    let mut letters = name.chars();
    match first {
        '*' => is_match(rest, name) || (letters.next().is_some() && is_match(pattern, letters.as_str())),
        '?' => letters.next().is_some() && is_match(rest, letters.as_str()),
        _ => letters.next() == Some(first) && is_match(rest, letters.as_str()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_a_shell() {
        for (pattern, name, expected) in [
            ("*", "eth0", true),
            ("veth*", "veth12", true),
            ("veth*", "eth0", false),
            ("*0", "eth0", true),
            ("eth?", "eth0", true),
            ("eth?", "eth10", false),
            ("e*h*", "eth10", true),
            ("", "", true),
        ] {
            assert_eq!(
                DeviceGroup::new(Vec::new(), vec![pattern.to_owned()]).has(name),
                expected,
                "{pattern} {name}"
            );
        }
    }
}
