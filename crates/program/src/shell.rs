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
        false if text.contains(char::is_control) => format!("$'{here}{}'", bash_escapes(&text)),
        false => format!("'{here}{}'", text.replace('\'', r"'\''")),
    }
}

/// Text within `$'...'` of bash: a terminal would act on its control characters.
fn bash_escapes(text: &str) -> String {
    let mut escaped = String::new();
    for letter in text.chars() {
        match letter {
            '\'' | '\\' => escaped.extend(['\\', letter]),
            control if control.is_control() => {
                let bytes = control.to_string().into_bytes();
                bytes.iter().for_each(|byte| escaped += &format!("\\x{byte:02x}"));
            }
            other => escaped.push(other),
        }
    }
    escaped
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
            ("\u{1b}[31mit's", r"$'\x1b[31mit\'s'"),
        ] {
            assert_eq!(shell_word(Path::new(path)), word);
        }
    }
}
