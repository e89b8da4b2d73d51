//! Bytes of a terminal to keys.

/// A key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyPress {
    /// A character.
    Char(char),
    /// Enter.
    Enter,
    /// Escape.
    Escape,
    /// Backspace.
    Backspace,
    /// Tab.
    Tab,
    /// Arrow up.
    Up,
    /// Arrow down.
    Down,
    /// Ctrl-C.
    Interrupt,
}

/// The keys of what one read returned. Sequences of other keys are left out.
pub fn keys_of(bytes: &[u8]) -> Vec<KeyPress> {
    let text = String::from_utf8_lossy(bytes);
    let mut rest = text.chars().peekable();
    let mut keys = Vec::new();
    while let Some(first) = rest.next() {
        match first {
            '\x1b' if rest.next_if(|next| ['[', 'O'].contains(next)).is_some() => {
                // Parameters, then a letter or `~`.
                while rest.next_if(|next| next.is_ascii_digit() || *next == ';').is_some() {}
                match rest.next() {
                    Some('A') => keys.push(KeyPress::Up),
                    Some('B') => keys.push(KeyPress::Down),
                    _ => {}
                }
            }
            '\x1b' => keys.push(KeyPress::Escape),
            '\x03' => keys.push(KeyPress::Interrupt),
            '\r' | '\n' => keys.push(KeyPress::Enter),
            '\x08' | '\x7f' => keys.push(KeyPress::Backspace),
            '\t' => keys.push(KeyPress::Tab),
            control if control.is_control() => {}
            character => keys.push(KeyPress::Char(character)),
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_are_one_key() {
        let keys = keys_of(b"p\x1b[A\x1bOB\x1b[3~\x1b[1;5C+\r\x03\x7f\t");
        let expected = [
            KeyPress::Char('p'),
            KeyPress::Up,
            KeyPress::Down,
            KeyPress::Char('+'),
            KeyPress::Enter,
            KeyPress::Interrupt,
            KeyPress::Backspace,
            KeyPress::Tab,
        ];
        assert_eq!(keys, expected);
        assert_eq!(keys_of(b"\x1b"), [KeyPress::Escape]);
        assert_eq!(keys_of(b"\x1b["), []);
        assert_eq!(keys_of("µ\u{0}".as_bytes()), [KeyPress::Char('µ')]);
    }
}
