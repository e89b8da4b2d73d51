//! Words for a shell.

use std::path::Path;

/// A path as one word of a command line: as it is if a shell takes it so, else in quotes, which end
/// at a quote and begin again after it. One that looks like an option begins with `./`.
pub fn shell_word(path: &Path) -> String {
    let text = path.to_string_lossy();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+,:@%=".contains(&byte);
    let here = if text.starts_with('-') && text != "-" { "./" } else { "" };
    match !text.is_empty() && text.bytes().all(is_plain) {
        true => format!("{here}{text}"),
        false => format!("'{here}{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_one_word_of_the_shell() {
        for (path, word) in [
            ("/a/b-c_1.pcap", "/a/b-c_1.pcap"),
            ("/a b/it's", r"'/a b/it'\''s'"),
            ("$HOME", "'$HOME'"),
            ("-x.snoop", "./-x.snoop"),
            ("-", "-"),
            ("-a b", "'./-a b'"),
            ("", "''"),
        ] {
            assert_eq!(shell_word(Path::new(path)), word);
        }
    }
}
