//! The file `pgctrl`: three words and a time to start at, and one line to read.

use crate::scan::until_nul;
use crate::table::{Action, COMMANDS, FileKind, PgctrlCommand};
use crate::{Fault, Refusal};

/// All that reading `pgctrl` ever says, newline included.
pub const VERSION_LINE: &str = "Packet Generator for packet performance testing. Version: 2.75\n";

/// Bytes of a write that are looked at.
const LOOKED_AT: usize = 127;

impl PgctrlCommand {
    /// Reads one write: exactly a word, or `start_at` and a number, one newline behind it or a NUL
    /// and anything.
    ///
    /// # Errors
    /// [`Fault::Empty`], [`Fault::UnknownCommand`] and [`Fault::NotATime`], all EINVAL.
    pub fn parse(bytes: &[u8]) -> Result<Self, Refusal> {
        if bytes.is_empty() {
            return Err(Refusal { fault: Fault::Empty, span: 0..0 });
        }
        let seen = &bytes[..bytes.len().min(LOOKED_AT)];
        let word = until_nul(seen.strip_suffix(b"\n").unwrap_or(seen));
        if let Some(text) = word.strip_prefix(b"start_at ") {
            return start_at(text);
        }
        let commands = COMMANDS.iter().filter(|spec| spec.place == FileKind::Pgctrl);
        let found = commands.filter(|spec| spec.word.as_bytes() == word).find_map(|spec| match spec.act {
            Action::Pgctrl(Self::StartAt { .. }) => None,
            Action::Pgctrl(command) => Some(command),
            _ => None,
        });
        found.ok_or_else(|| Refusal {
            fault: Fault::UnknownCommand { file: "pgctrl", word: String::from_utf8_lossy(word).into_owned() },
            span: 0..word.len(),
        })
    }
}

/// The command to start at a time, which is written as digits only.
fn start_at(text: &[u8]) -> Result<PgctrlCommand, Refusal> {
    let digits = text.iter().all(u8::is_ascii_digit).then(|| String::from_utf8_lossy(text));
    let unix_ns = digits.and_then(|digits| digits.parse().ok());
    unix_ns.map(|unix_ns| PgctrlCommand::StartAt { unix_ns }).ok_or_else(|| Refusal {
        fault: Fault::NotATime { text: String::from_utf8_lossy(text).into_owned() },
        span: "start_at ".len().."start_at ".len() + text.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Errno;

    #[test]
    fn a_word_one_newline_or_a_nul() {
        assert_eq!(PgctrlCommand::parse(b"start"), Ok(PgctrlCommand::Start));
        assert_eq!(PgctrlCommand::parse(b"stop\n"), Ok(PgctrlCommand::Stop));
        assert_eq!(PgctrlCommand::parse(b"reset\0junk"), Ok(PgctrlCommand::Reset));
        let unix_ns = 1_795_313_700_250_000_000;
        let start_at = PgctrlCommand::StartAt { unix_ns };
        assert_eq!(PgctrlCommand::parse(b"start_at 1795313700250000000\n"), Ok(start_at));
        let bad: [&[u8]; 17] = [
            b"start_at",
            b"start_at ",
            b"start_at +5s",
            b"start_at 1 2",
            b"start_at -1",
            b"start_at 18446744073709551616",
            b"",
            b"\n",
            b"stop ",
            b" stop",
            b"STOP",
            b"stop\n\n",
            b"stop\r\n",
            b"start now",
            b"sto",
            b"stopp",
            b"count",
        ];
        for bytes in bad {
            assert_eq!(PgctrlCommand::parse(bytes).unwrap_err().errno(), Errno::EINVAL, "{bytes:?}");
        }
    }

    #[test]
    fn only_127_bytes_are_looked_at() {
        let mut bytes = b"stop\0".to_vec();
        bytes.resize(1000, b'x');
        assert_eq!(PgctrlCommand::parse(&bytes), Ok(PgctrlCommand::Stop));
        // The newline that is dropped is the last byte looked at, not the last one written.
        let mut bytes = vec![b'x'; 200];
        bytes[..4].copy_from_slice(b"stop");
        bytes[126] = b'\n';
        assert!(PgctrlCommand::parse(&bytes).is_err());
    }
}
