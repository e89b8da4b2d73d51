//! The interfaces of the current section: the part that packets need.

use crate::ReadError;
use crate::time::TimeScale;

/// Most interfaces of one section that a reader keeps track of.
pub const INTERFACE_COUNT_MAX: usize = 65_536;

/// The interfaces of a section. One whose description could not be read keeps its place, so that
/// the following ones keep their numbers.
#[derive(Debug, Default)]
pub(crate) struct Sources(Vec<Option<Source>>);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Source {
    pub(crate) scale: TimeScale,
    pub(crate) snaplen: u32,
}

impl Source {
    /// `units` of the block at `offset` in nanoseconds since 1970.
    pub(crate) fn time_ns(self, offset: u64, units: u64) -> Result<u64, ReadError> {
        let scale = self.scale;
        scale.to_ns(units).ok_or(ReadError::TimeOutOfRange { offset, units, scale })
    }
}

impl Sources {
    /// The interface of the block at `offset`.
    pub(crate) fn find(&self, offset: u64, interface: u32) -> Result<Source, ReadError> {
        let source = self.0.get(interface as usize).copied().flatten();
        let count = || self.0.iter().flatten().count();
        source.ok_or_else(|| ReadError::NoSuchInterface { offset, interface, count: count() })
    }

    /// Adds the next interface.
    pub(crate) fn add(&mut self, offset: u64, source: Option<Source>) -> Result<(), ReadError> {
        if self.0.len() == INTERFACE_COUNT_MAX {
            return Err(ReadError::TooManyInterfaces { offset, limit: INTERFACE_COUNT_MAX });
        }
        self.0.push(source);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_out_of_range_is_told_with_its_unit() {
        let scale = TimeScale { resolution: 0x80 | 3, offset_s: -9 };
        assert_eq!(
            Source { scale, snaplen: 0 }.time_ns(40, 7).unwrap_err().to_string(),
            "byte 40: a time from 1970 to 2554 expected, 7 units found at 2^-3 s each from -9 s after 1970"
        );
    }
}
