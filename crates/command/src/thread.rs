//! One thread: its device instances, its three commands, and its file `kpktgend_N`.

use crate::device::{Device, NAME_LEN_MAX};
use crate::scan::{Scan, until_nul};
use crate::table::{Action, COMMANDS, FileKind};
use crate::{Fault, Refusal};

/// Bytes of a command word on thread files.
const WORD_LEN_MAX: usize = 39;
/// One command of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ThreadCommand {
    /// Add a device instance.
    AddDevice {
        /// `DEV[@NAME]` as written, at most 31 bytes.
        name: Vec<u8>,
    },
    /// Remove all device instances of this thread.
    RemoveAll,
    /// A setting of 2005 that has no effect any more.
    MaxBeforeSoftirq,
}

impl ThreadCommand {
    /// Reads one write.
    ///
    /// # Errors
    /// [`Fault::Empty`] and [`Fault::UnknownCommand`], both EINVAL; the thread's result stays.
    pub fn parse(bytes: &[u8]) -> Result<Self, Refusal> {
        let (mut scan, word, span) = Scan::command_word(bytes, WORD_LEN_MAX)?;
        let mut commands = COMMANDS.iter().filter(|spec| spec.place == FileKind::Thread);
        match commands.find(|spec| spec.word.as_bytes() == word).map(|spec| &spec.act) {
            Some(Action::AddDevice) => {
                Ok(Self::AddDevice { name: until_nul(scan.word(NAME_LEN_MAX)).to_vec() })
            }
            Some(Action::RemoveAll) => Ok(Self::RemoveAll),
            Some(Action::MaxBeforeSoftirq) => Ok(Self::MaxBeforeSoftirq),
            _ => {
                let word = String::from_utf8_lossy(word).into_owned();
                Err(Refusal { fault: Fault::UnknownCommand { file: "thread", word }, span })
            }
        }
    }
}

/// One thread of the tree, bound to a CPU.
#[derive(Clone, Debug)]
pub struct Thread {
    cpu: u32,
    pub(crate) devices: Vec<Device>,
    pub(crate) result: Vec<u8>,
}

impl Thread {
    pub(crate) fn new(cpu: u32) -> Self {
        Self { cpu, devices: Vec::new(), result: Vec::new() }
    }

    /// The CPU it sends from.
    pub fn cpu(&self) -> u32 {
        self.cpu
    }

    /// The name of its file.
    pub fn file_name(&self) -> String {
        format!("kpktgend_{}", self.cpu)
    }

    /// Its device instances, newest first.
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// Mutable references to the device instances of the thread, newest first.
    pub fn devices_mut(&mut self) -> &mut [Device] {
        &mut self.devices
    }

    /// What reading its file says.
    pub fn read(&self) -> Vec<u8> {
        let mut text = b"Running: ".to_vec();
        text.extend(self.names(true));
        text.extend(b"\nStopped: ");
        text.extend(self.names(false));
        text.extend(b"\nResult: ");
        text.extend(if self.result.is_empty() { b"NA" } else { self.result.as_slice() });
        text.push(b'\n');
        text
    }

    fn names(&self, running: bool) -> Vec<u8> {
        let names = self.devices.iter().filter(|device| device.is_running == running);
        names.flat_map(|device| format!("{} ", device.name()).into_bytes()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Errno;

    fn added(bytes: &[u8]) -> Vec<u8> {
        match ThreadCommand::parse(bytes) {
            Ok(ThreadCommand::AddDevice { name }) => name,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn names_end_at_separators_nul_and_31_bytes() {
        assert_eq!(added(b" \t\n=\"add_device\" lo@7 junk more\n"), b"lo@7");
        assert_eq!(added(b"add_device=lo@8"), b"lo@8");
        assert_eq!(added(b"add_device lo@0\0x"), b"lo@0");
        assert_eq!(added(b"add_device"), b"");
        assert_eq!(added(b"add_device lo@abcdefghijklmnopqrstuvwxyz0123456789").len(), 31);
        assert_eq!(added(b"add_device\0junk lo"), b"lo");
    }

    #[test]
    fn words_are_exact_and_39_bytes_at_most() {
        assert_eq!(ThreadCommand::parse(b"rem_device_all now\n"), Ok(ThreadCommand::RemoveAll));
        assert_eq!(ThreadCommand::parse(b"max_before_softirq 10000"), Ok(ThreadCommand::MaxBeforeSoftirq));
        for bad in ["", "\n", "rem_device lo", "start", "count 5", "ADD_DEVICE lo", "add_device,lo"] {
            assert_eq!(ThreadCommand::parse(bad.as_bytes()).unwrap_err().errno(), Errno::EINVAL, "{bad}");
        }
        let refused = ThreadCommand::parse(&[b'x'; 60]).unwrap_err();
        assert_eq!(refused.span, 0..39);
    }
}
