//! For unit tests: a device instance that takes commands.

use crate::{Device, Facts};

/// A device instance, its host, and what it answers.
pub(crate) struct TestDevice {
    pub(crate) device: Device,
    pub(crate) facts: Facts,
}

impl TestDevice {
    pub(crate) fn new() -> Self {
        Self { device: Device::new("eth0@1"), facts: Facts::default() }
    }

    /// One after `commands`, none of which may fail.
    pub(crate) fn after(commands: &[&str]) -> Self {
        let mut test = Self::new();
        for command in commands {
            test.device.write(command.as_bytes(), &test.facts).unwrap();
        }
        test
    }

    /// The result text; with the errno before it when the write fails.
    pub(crate) fn write(&mut self, command: &str) -> String {
        let answer = self.device.write(command.as_bytes(), &self.facts);
        let result = String::from_utf8_lossy(&self.device.result).into_owned();
        match answer {
            Ok(len) => {
                assert_eq!(len, command.len(), "a success takes all bytes");
                result
            }
            Err(refused) => {
                let inside = refused.span.start <= refused.span.end && refused.span.end <= command.len();
                assert!(inside, "{command:?}: {:?}", refused.span);
                assert!(!refused.to_string().is_empty());
                format!("{:?} {result}", refused.errno())
            }
        }
    }

    /// Writes the commands and compares each answer.
    pub(crate) fn expect(&mut self, answers: &[(&str, &str)]) {
        for (command, answer) in answers {
            assert_eq!(self.write(command), *answer, "{command:?}");
        }
    }

    /// The line of the read-out that begins with `start` behind its five spaces.
    pub(crate) fn line(&self, start: &str) -> Option<String> {
        let text = String::from_utf8(self.device.read(&self.facts, 0, None)).unwrap();
        let line =
            text.lines().find(|line| line.strip_prefix("     ").is_some_and(|line| line.starts_with(start)));
        line.map(|line| line.trim_start().to_owned())
    }
}
