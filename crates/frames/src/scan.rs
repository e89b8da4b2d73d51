//! The text of a configuration, byte by byte: blanks, comments, words, numbers, strings.

use crate::error::ConfigError;

/// A place in the text.
#[derive(Clone, Debug)]
pub(crate) struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
}

/// True for the bytes of words and numbers.
fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0 }
    }

    /// The place of the next byte.
    pub(crate) fn place(&self) -> usize {
        self.at
    }

    /// An error at `place`.
    pub(crate) fn error_at(&self, place: usize, message: impl Into<String>) -> ConfigError {
        ConfigError::at(self.text, place, message)
    }

    /// An error here: `what` was expected.
    pub(crate) fn expected(&self, what: &str) -> ConfigError {
        self.error_at(self.at, format!("expected {what}, found {}", self.found()))
    }

    /// What stands here, for an error.
    fn found(&self) -> String {
        match self.peek() {
            None => "the end".to_owned(),
            Some(byte) if is_word(byte) => {
                let word = self.word_here();
                format!("'{}'", String::from_utf8_lossy(&word[..word.len().min(30)]))
            }
            Some(byte) if (b'!'..=b'~').contains(&byte) => format!("'{}'", char::from(byte)),
            Some(byte) => format!("the byte 0x{byte:02x}"),
        }
    }

    pub(crate) fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// Skips blanks and comments: `/* */`, `#` and `;` to the end of the line.
    pub(crate) fn skip_blanks(&mut self) -> Result<(), ConfigError> {
        while let Some(byte) = self.peek() {
            match byte {
                b' ' | b'\t' | b'\r' | b'\n' => self.at += 1,
                b'#' | b';' => {
                    let rest = &self.text[self.at..];
                    self.at += rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
                }
                b'/' if self.text.get(self.at + 1) == Some(&b'*') => {
                    let comment = &self.text[self.at + 2..];
                    let end = comment.windows(2).position(|pair| pair == b"*/");
                    let end =
                        end.ok_or_else(|| self.error_at(self.at, "this comment has no end: expected */"))?;
                    self.at += 2 + end + 2;
                }
                _ => break,
            }
        }
        Ok(())
    }

    /// Skips blanks and takes `byte` if it is next.
    pub(crate) fn eat(&mut self, byte: u8) -> Result<bool, ConfigError> {
        self.skip_blanks()?;
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        Ok(is_next)
    }

    /// Takes `byte`, which must be next.
    pub(crate) fn expect(&mut self, byte: u8, what: &str) -> Result<(), ConfigError> {
        if self.eat(byte)? { Ok(()) } else { Err(self.expected(what)) }
    }

    /// The word that starts here, which may be empty.
    fn word_here(&self) -> &'a [u8] {
        let rest = &self.text[self.at..];
        &rest[..rest.iter().position(|byte| !is_word(*byte)).unwrap_or(rest.len())]
    }

    /// Skips blanks and takes the word that is next, which may be empty.
    pub(crate) fn word(&mut self) -> Result<&'a [u8], ConfigError> {
        self.skip_blanks()?;
        let word = self.word_here();
        self.at += word.len();
        Ok(word)
    }

    /// Skips blanks and returns the next word in lower case without taking it.
    pub(crate) fn peek_word(&mut self) -> Result<String, ConfigError> {
        self.skip_blanks()?;
        Ok(String::from_utf8_lossy(self.word_here()).to_ascii_lowercase())
    }

    /// Skips blanks and takes the word that is next, with colons and dots, as in addresses.
    pub(crate) fn address(&mut self) -> Result<&'a str, ConfigError> {
        self.skip_blanks()?;
        let rest = &self.text[self.at..];
        let is_end = |byte: &u8| !is_word(*byte) && *byte != b':' && *byte != b'.';
        let word = &rest[..rest.iter().position(is_end).unwrap_or(rest.len())];
        self.at += word.len();
        Ok(std::str::from_utf8(word).unwrap_or_default())
    }

    /// Takes a number or a character: `0xff`, `xff`, `0b101`, `b101`, `017`, `42`, `a`, `'a'`,
    /// `'\x41'`.
    pub(crate) fn number(&mut self, what: &str) -> Result<i64, ConfigError> {
        self.skip_blanks()?;
        if self.peek() == Some(b'\'') {
            return self.character();
        }
        let word = self.word_here();
        let number = number(word).ok_or_else(|| self.expected(what))?;
        self.at += word.len();
        Ok(number)
    }

    fn character(&mut self) -> Result<i64, ConfigError> {
        let hex =
            |high: u8, low: u8| Some(char::from(high).to_digit(16)? * 16 + char::from(low).to_digit(16)?);
        let (value, len) = match &self.text[self.at..] {
            [_, b'\\', b'x', high, low, b'\'', ..] if hex(*high, *low).is_some() => {
                (hex(*high, *low).unwrap_or_default(), 6)
            }
            [_, byte, b'\'', ..] => (u32::from(*byte), 3),
            [_, b'\\', byte, b'\'', ..] => (u32::from(*byte), 4),
            _ => return Err(self.error_at(self.at, "expected one character in quotes, as in 'a' or '\\x41'")),
        };
        self.at += len;
        Ok(i64::from(value))
    }

    /// Takes a string in double quotes. There are no escapes, except that a string of nothing but
    /// `\x41` groups is the bytes that they name.
    pub(crate) fn string(&mut self) -> Result<Vec<u8>, ConfigError> {
        let start = self.at;
        self.expect(b'"', "a string in double quotes")?;
        let rest = &self.text[self.at..];
        let end = rest.iter().position(|byte| *byte == b'"');
        let end = end.ok_or_else(|| self.error_at(start, "this string has no end: expected '\"'"))?;
        if end == 0 {
            return Err(self.error_at(start, "this string is empty: expected at least one character"));
        }
        self.at += end + 1;
        Ok(shellcode(&rest[..end]).unwrap_or_else(|| rest[..end].to_vec()))
    }
}

/// The bytes of `\x41\x42`, if `text` is of such groups only.
fn shellcode(text: &[u8]) -> Option<Vec<u8>> {
    let (groups, []) = text.as_chunks::<4>() else { return None };
    let byte = |group: &[u8; 4]| {
        let digits = std::str::from_utf8(group.strip_prefix(b"\\x")?).ok()?;
        digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then(|| u8::from_str_radix(digits, 16).ok())?
    };
    groups.iter().map(byte).collect()
}

/// The value of a number as trafgen writes it. Numbers of more than 64 bits are the largest.
pub(crate) fn number(word: &[u8]) -> Option<i64> {
    let digits = |letter: u8, radix: u32| {
        let (first, digits) = word.strip_prefix(b"0").unwrap_or(word).split_first()?;
        let is_prefix = first.eq_ignore_ascii_case(&letter) && !digits.is_empty();
        (is_prefix && digits.iter().all(|digit| char::from(*digit).is_digit(radix)))
            .then(|| value(digits, radix))
    };
    if let Some(hex) = digits(b'x', 16) {
        return Some(hex as i64);
    }
    if let Some(binary) = digits(b'b', 2) {
        return Some(binary.min(i64::MAX as u64) as i64);
    }
    match word {
        [letter] if letter.is_ascii_alphabetic() => Some(i64::from(*letter)),
        [b'0', octal @ ..] if word.iter().all(u8::is_ascii_digit) => {
            // As strtol(3): up to the first digit that is not octal.
            let end = octal.iter().position(|digit| *digit > b'7').unwrap_or(octal.len());
            Some(value(&octal[..end], 8).min(i64::MAX as u64) as i64)
        }
        [_, ..] if word.iter().all(u8::is_ascii_digit) => Some(value(word, 10).min(i64::MAX as u64) as i64),
        _ => None,
    }
}

fn value(digits: &[u8], radix: u32) -> u64 {
    digits.iter().fold(0u64, |value, digit| {
        let digit = u64::from(char::from(*digit).to_digit(radix).unwrap_or_default());
        value.saturating_mul(u64::from(radix)).saturating_add(digit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_trafgen_writes_them() {
        for (word, value) in [
            ("0xca", 0xca),
            ("xFF", 255),
            ("0b101", 5),
            ("b11", 3),
            ("XFF", 255),
            ("B101", 5),
            ("011", 9),
            ("08", 0),
            ("018", 1),
            ("0", 0),
            ("42", 42),
            ("a", 0x61),
            ("x", 0x78),
            ("b", 0x62),
            ("G", 0x47),
            ("0xffffffffffffffff", -1),
            ("99999999999999999999", i64::MAX),
        ] {
            assert_eq!(number(word.as_bytes()), Some(value), "{word}");
        }
        for word in ["", "0b12", "12ab", "0xg", "ab", "_", "0x"] {
            assert_eq!(number(word.as_bytes()), None, "{word}");
        }
    }

    #[test]
    fn strings_are_bytes_and_shellcode_is_what_it_names() {
        let string = |text: &str| Scanner::new(text.as_bytes()).string().unwrap();
        assert_eq!(string("\"a b\""), b"a b");
        assert_eq!(string("\"\\x41\\x00\""), [0x41, 0]);
        assert_eq!(string("\"a\\x41\""), b"a\\x41");
        assert_eq!(string("\"\\n\""), b"\\n");
        assert!(Scanner::new(b"\"abc").string().is_err());
        assert!(Scanner::new(b"\"\"").string().is_err());
    }

    #[test]
    fn blanks_and_all_comments_are_skipped() {
        let mut scanner = Scanner::new(b" /* x\n * y */ # z\n; w\n\t7");
        assert_eq!(scanner.number("a number").unwrap(), 7);
        assert!(Scanner::new(b"/* no end").skip_blanks().is_err());
    }
}
