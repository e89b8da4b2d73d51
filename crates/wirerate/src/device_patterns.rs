//! Words that name several devices: `any`, and patterns such as `'veth*'`.

use host::Stack;

/// The word for all devices of a namespace.
pub const ANY: &str = "any";

/// True for a word that can name several devices. A device of that very name comes first.
pub fn is_pattern(word: &str, stack: &Stack) -> bool {
    (word == ANY || word.contains(['*', '?'])) && stack.link(word).is_err()
}

/// The devices that a word names now, in the order of their numbers.
pub fn matching(word: &str, stack: &Stack) -> Vec<String> {
    let pattern = if word == ANY { "*" } else { word };
    let links = stack.links().unwrap_or_default();
    links.into_iter().map(|link| link.name).filter(|name| is_match(pattern, name)).collect()
}

/// Matches `*` and `?` as a shell does.
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
            assert_eq!(is_match(pattern, name), expected, "{pattern} {name}");
        }
    }
}
