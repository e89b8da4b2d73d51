//! Which records of the files are sent: by number, time and interface.

use crate::record::Record;
use std::str::FromStr;

/// Numbers of records, from 1 on: `1-5,9,100-`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NumberSet(Vec<(u64, u64)>);

/// Text that is not a list of numbers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not a list of packet numbers from 1 on, such as 1-5,9,100-")]
pub struct BadNumbers(String);

impl NumberSet {
    /// True if `number` is in the set.
    pub fn contains(&self, number: u64) -> bool {
        self.0.iter().any(|(first, last)| (*first..=*last).contains(&number))
    }
}

impl FromStr for NumberSet {
    type Err = BadNumbers;

    fn from_str(text: &str) -> Result<Self, BadNumbers> {
        let number = |text: &str| text.parse::<u64>().ok().filter(|number| *number > 0);
        let interval = |part: &str| match part.split_once('-') {
            None => number(part).map(|number| (number, number)),
            Some((first, "")) => number(first).map(|first| (first, u64::MAX)),
            Some((first, last)) => number(first).zip(number(last)).filter(|(first, last)| first <= last),
        };
        let intervals: Option<Vec<_>> = text.split(',').map(interval).collect();
        intervals.map(Self).ok_or_else(|| BadNumbers(text.to_owned()))
    }
}

/// One interface of a pcapng file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InterfaceChoice {
    /// By its number in the file, from 0 on.
    Number(u32),
    /// By its name.
    Name(String),
}

impl InterfaceChoice {
    /// True if the record is of this interface.
    pub fn is_of(&self, record: &Record<'_>) -> bool {
        self.is_named(record.interface, record.interface_name)
    }

    /// True if this is the interface of that number and name.
    pub fn is_named(&self, number: u32, name: Option<&str>) -> bool {
        match self {
            Self::Number(chosen) => number == *chosen,
            Self::Name(chosen) => name == Some(chosen),
        }
    }
}

impl FromStr for InterfaceChoice {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(text.parse().map_or_else(|_| Self::Name(text.to_owned()), Self::Number))
    }
}

/// Which records are sent; the default is all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Only these numbers, if any are given.
    pub numbers: Option<NumberSet>,
    /// Only records of these interfaces, if any are given.
    pub interfaces: Vec<InterfaceChoice>,
    /// Only records at least this long after the first record, in nanoseconds.
    pub from_ns: u64,
    /// Only records at most this long after the first record, in nanoseconds.
    pub to_ns: Option<u64>,
}

impl Selection {
    /// True if the record is to be sent; `offset_ns` is its time after the first record.
    #[inline]
    pub fn contains(&self, record: &Record<'_>, offset_ns: u64) -> bool {
        self.numbers.as_ref().is_none_or(|numbers| numbers.contains(record.number))
            && (self.interfaces.is_empty() || self.interfaces.iter().any(|choice| choice.is_of(record)))
            && offset_ns >= self.from_ns
            && self.to_ns.is_none_or(|to_ns| offset_ns <= to_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(number: u64, interface: u32) -> Record<'static> {
        Record {
            number,
            time_ns: None,
            frame_len: 60,
            data: &[0; 60],
            link_type: 1,
            interface,
            interface_name: (interface == 1).then_some("eth1"),
            direction: None,
            file: 0,
        }
    }

    #[test]
    fn numbers_are_lists_of_intervals() {
        let numbers: NumberSet = "1-5,9,100-".parse().unwrap();
        let found: Vec<u64> = (1..103).filter(|number| numbers.contains(*number)).collect();
        assert_eq!(found, [1, 2, 3, 4, 5, 9, 100, 101, 102]);
        for bad in ["", "0", "5-1", "1,,2", "x", "-5", "1-x"] {
            assert!(bad.parse::<NumberSet>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_record_must_meet_every_condition() {
        let eth1 = vec!["eth1".parse().unwrap()];
        let selection =
            Selection { interfaces: eth1, from_ns: 10, to_ns: Some(20), numbers: "2-4".parse().ok() };
        assert!(selection.contains(&record(2, 1), 10));
        assert!(selection.contains(&record(2, 1), 20));
        assert!(!selection.contains(&record(2, 1), 21));
        assert!(!selection.contains(&record(2, 1), 9));
        assert!(!selection.contains(&record(2, 0), 10));
        assert!(!selection.contains(&record(5, 1), 10));
        let zero = Selection { interfaces: vec!["0".parse().unwrap()], ..Selection::default() };
        assert!(zero.contains(&record(9, 0), 0));
    }
}
