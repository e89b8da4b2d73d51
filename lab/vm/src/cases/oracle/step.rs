//! One operation of a script on the files of the control tree, and its answer.

use crate::guest::try_sh;
use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};

/// The control tree.
pub(super) const ROOT: &str = "/proc/net/pktgen";
/// Longer than any of the texts.
const TEXT_BYTES: usize = 1 << 16;

/// A step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum OracleStep {
    /// One open, one write, one close, as `echo` does it.
    Write {
        /// Below the tree.
        file: String,
        /// One character for each byte.
        bytes: String,
        /// Of open(2).
        flags: i32,
    },
    /// The whole file.
    Read(String),
    /// The names in the tree, less those of threads.
    List,
    /// For the shell: to prepare something, or to clear up.
    Shell(String),
    /// What was left out of a sequence, so that the others keep their numbers.
    Nothing,
    /// Some calls on one descriptor.
    Descriptor {
        /// Below the tree.
        file: String,
        /// Of open(2).
        flags: i32,
        /// In their order.
        calls: Vec<Call>,
    },
}

/// A call on a descriptor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Call {
    /// One write(2).
    Write(String),
    /// One read(2) of so many bytes at most.
    Read(usize),
    /// Until the end.
    Rest,
    /// To that place, from the start.
    Seek(u64),
}

/// What a step returned (or the errno), and the text that came with it.
pub(super) type StepAnswer = (Result<usize, i32>, String);

impl OracleStep {
    /// The usual one.
    pub(super) fn write(file: &str, bytes: String) -> Self {
        Self::Write { file: file.to_owned(), bytes, flags: libc::O_WRONLY }
    }

    /// What it writes, if that is what it does.
    pub(super) fn written(&self) -> Option<&str> {
        match self {
            Self::Write { bytes, .. } => Some(bytes),
            _ => None,
        }
    }

    /// Changes the bytes that the step writes, if it writes any.
    pub(super) fn rewrite(&mut self, how: impl Fn(&str) -> String) {
        if let Self::Write { bytes, .. } = self {
            *bytes = how(bytes);
        }
    }

    /// In words, as a shell has them.
    pub(super) fn words(&self) -> String {
        match self {
            Self::Write { file, bytes, .. } => format!("{bytes:?} > {file}"),
            Self::Read(file) => format!("cat {file}"),
            Self::List => "ls".to_owned(),
            Self::Nothing => "left out".to_owned(),
            Self::Shell(script) => script.clone(),
            Self::Descriptor { file, calls, .. } => format!("{file}: {calls:?}"),
        }
    }

    /// Does it.
    pub(super) fn answer(&self, texts: &mut Texts) -> StepAnswer {
        match self {
            Self::Write { file, bytes, flags } => {
                let written = open(file, *flags).and_then(|mut file| file.write(&latin(bytes)));
                let text = texts.read(file).unwrap_or_default();
                let result =
                    text.split_once("Result: ").map_or(String::new(), |(_, result)| result.to_owned());
                (written.map_err(errno), result)
            }
            // Of a device that went, a file that is still open would tell the last of it.
            Self::Read(file) => text_or_errno(fs::read(format!("{}/{file}", ROOT))),
            Self::List => text_or_errno(list().map(|names| names.join(" ").into_bytes())),
            Self::Nothing => (Ok(0), String::new()),
            Self::Shell(script) => match try_sh(script) {
                Ok(output) if output.status.success() => (Ok(0), String::new()),
                Ok(output) => (Err(-1), String::from_utf8_lossy(&output.stderr).into_owned()),
                Err(why) => (Err(-1), format!("{why:#}")),
            },
            Self::Descriptor { file, flags, calls } => match open(file, *flags) {
                Ok(mut file) => (Ok(0), calls.iter().map(|call| call.answer(&mut file)).collect()),
                Err(error) => (Err(errno(error)), String::new()),
            },
        }
    }
}

impl Call {
    /// In a line.
    fn answer(&self, file: &mut File) -> String {
        let mut bytes = Vec::new();
        let answer = match self {
            Self::Write(text) => file.write(&latin(text)),
            Self::Read(len) => {
                bytes.resize(*len, 0);
                file.read(&mut bytes).inspect(|read| bytes.truncate(*read))
            }
            Self::Rest => file.read_to_end(&mut bytes),
            Self::Seek(to) => file.seek(SeekFrom::Start(*to)).map(|at| at as usize),
        };
        // How long a text with times in it is differs; the text is compared itself.
        let answer = answer.map(|len| if bytes.is_empty() { len } else { 0 });
        format!("{:?} {}\n", answer.map_err(errno), String::from_utf8_lossy(&bytes))
    }
}

/// One byte for each character.
fn latin(text: &str) -> Vec<u8> {
    text.chars().map(|char| char as u8).collect()
}

fn errno(error: io::Error) -> i32 {
    error.raw_os_error().unwrap_or(-1)
}

fn text_or_errno(read: io::Result<Vec<u8>>) -> StepAnswer {
    match read {
        Ok(bytes) => (Ok(bytes.len()), String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) => (Err(errno(error)), String::new()),
    }
}

fn list() -> io::Result<Vec<String>> {
    let entries = fs::read_dir(ROOT)?.collect::<io::Result<Vec<_>>>()?;
    let names = entries.iter().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.filter(|name| !name.starts_with("kpktgend_")).collect();
    names.sort();
    Ok(names)
}

/// Opens a file with the words that open(2) has for it.
pub(super) fn open_at(path: &str, flags: i32) -> io::Result<File> {
    let access = flags & libc::O_ACCMODE;
    let (read, write) = (access != libc::O_WRONLY, access != libc::O_RDONLY);
    // O_CREAT and O_TRUNC go as they are: what std would allow of them depends on each other.
    OpenOptions::new().read(read).write(write).custom_flags(flags & !libc::O_ACCMODE).open(path)
}

/// `O_WRONLY|O_APPEND`, as the oracle writes it.
pub(super) fn flags(words: &str) -> Result<i32> {
    words.split('|').try_fold(0, |flags, word| {
        Ok(flags
            | match word {
                "O_RDONLY" => libc::O_RDONLY,
                "O_WRONLY" => libc::O_WRONLY,
                "O_RDWR" => libc::O_RDWR,
                "O_APPEND" => libc::O_APPEND,
                "O_CREAT" => libc::O_CREAT,
                "O_TRUNC" => libc::O_TRUNC,
                _ => bail!("no flag of open(2) is called {word:?}"),
            })
    })
}

/// A file of the tree, with flags of open(2).
pub(super) fn open(file: &str, flags: i32) -> io::Result<File> {
    open_at(&format!("{ROOT}/{file}"), flags)
}

/// The files of one sequence, open for reading. A read from the start is a text of this moment, and
/// a single request where an open and a close would be five more.
#[derive(Default)]
pub(super) struct Texts {
    open: HashMap<String, File>,
}

impl Texts {
    pub(super) fn read(&mut self, name: &str) -> io::Result<String> {
        if !self.open.contains_key(name) {
            self.open.insert(name.to_owned(), File::open(format!("{ROOT}/{name}"))?);
        }
        let mut bytes = vec![0; TEXT_BYTES];
        let len = self.open[name].read_at(&mut bytes, 0)?;
        bytes.truncate(len);
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_read_as_they_are_written() {
        assert_eq!(
            flags("O_WRONLY|O_CREAT|O_TRUNC").unwrap(),
            libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC
        );
        assert!(flags("O_WRONLY|O_NOTHING").is_err());
    }

    #[test]
    fn a_character_is_a_byte() {
        assert_eq!(latin("a\u{0}\u{ff}"), [b'a', 0, 0xff]);
    }
}
