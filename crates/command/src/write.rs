//! One write to the file of a device instance.

use crate::device::Device;
use crate::scan::{Scan, until_nul};
use crate::set::{Argument, Reply};
use crate::table::{Action, Spec, Touches, device_command};
use crate::{Facts, Fault, Refusal};
use std::ops::Range;

/// Bytes of a command word on device files.
const WORD_LEN_MAX: usize = 15;

impl Device {
    /// One `write(2)` to its file: reads one command, changes settings and cursor, stores the
    /// result text. Returns the number of bytes taken, which is always all.
    ///
    /// Many bad values are no error of the write: see [`Device::is_ok`].
    ///
    /// # Errors
    /// [`Refusal`]. The settings stay, except for `imix_weights` and `mpls`, which are emptied.
    /// Only an unknown command and a bad address change the result text.
    pub fn write(&mut self, bytes: &[u8], facts: &Facts) -> Result<usize, Refusal> {
        let (mut scan, word, word_span) = Scan::command_word(bytes, WORD_LEN_MAX)?;
        let Some((spec, set)) = find(word, facts) else {
            return Err(self.no_such_parameter(word, word_span));
        };
        let value_start = scan.at();
        let (number, text) = spec.takes.read(&mut scan);
        let span = value_start..value_start + text.len();
        if self.is_running {
            self.cursor.write_back(&mut self.config);
        }
        let answer = set(self, &Argument { word: spec.word, number, text, span, facts });
        self.cursor.follow(&self.config);
        if let Reply::Result(text) = answer? {
            self.result = text;
        }
        Ok(bytes.len())
    }

    fn no_such_parameter(&mut self, word: &[u8], span: Range<usize>) -> Refusal {
        self.result = [b"No such parameter \"", word, b"\""].concat();
        let word = String::from_utf8_lossy(word).into_owned();
        Refusal { fault: Fault::UnknownCommand { file: "device", word }, span }
    }
}

/// What a write to the file of a device instance changes in its transmission while it runs.
pub fn touches(bytes: &[u8], facts: &Facts) -> Touches {
    let mut scan = Scan::new(bytes);
    scan.skip_separators();
    find(until_nul(scan.word(WORD_LEN_MAX)), facts).map_or(Touches::Nothing, |(spec, _)| spec.touches)
}

fn find(word: &[u8], facts: &Facts) -> Option<(&'static Spec, crate::set::Setter)> {
    let spec = device_command(word)?;
    match spec.act {
        Action::Device(set) if facts.has_xfrm || spec.word != "spi" => Some((spec, set)),
        _ => None,
    }
}
