//! Words that name several devices: `any`, and patterns such as `'veth*'`.

use capture::DeviceGroup;
use host::Stack;

/// The word for all devices of a namespace.
pub const ANY: &str = "any";

/// True for a word that can name several devices. A device of that very name comes first.
pub fn is_pattern(word: &str, stack: &Stack) -> bool {
    (word == ANY || word.contains(['*', '?'])) && stack.link(word).is_err()
}

/// The devices that words name, now and later.
pub fn group(words: &[String], stack: &Stack) -> DeviceGroup {
    let (patterns, names): (Vec<&String>, Vec<&String>) =
        words.iter().partition(|word| is_pattern(word, stack));
    // A device has its other names only while it is there.
    let name = |word: &String| stack.link(word.as_str()).map_or_else(|_| word.clone(), |link| link.name);
    let pattern = |word: &String| if word == ANY { "*".to_owned() } else { word.clone() };
    DeviceGroup::new(names.into_iter().map(name).collect(), patterns.into_iter().map(pattern).collect())
}

/// The devices that a word names now, in the order of their numbers.
pub fn matching(word: &str, stack: &Stack) -> Vec<String> {
    let group = group(&[word.to_owned()], stack);
    let links = stack.links().unwrap_or_default();
    links.into_iter().map(|link| link.name).filter(|name| group.has(name)).collect()
}
