//! Transmit queues as people write them: `2`, `0-3`, or `cpu`.

use super::{BadText, Interval};
use std::fmt;
use std::str::FromStr;

/// The word for the queue of the sending CPU.
const OF_CPU: &str = "cpu";

/// The transmit queues that frames are to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queues {
    /// That of the CPU that sends.
    OfCpu,
    /// These, one after the other.
    Listed(Interval<u16>),
}

impl FromStr for Queues {
    type Err = BadText;

    fn from_str(text: &str) -> Result<Self, BadText> {
        match text {
            OF_CPU => Ok(Self::OfCpu),
            _ => text.parse().map(Self::Listed),
        }
    }
}

impl fmt::Display for Queues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OfCpu => f.write_str(OF_CPU),
            Self::Listed(queues) => queues.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_a_range_or_the_cpus() {
        assert_eq!("cpu".parse(), Ok(Queues::OfCpu));
        assert_eq!("1-3".parse(), Ok(Queues::Listed(Interval { first: 1, last: 3 })));
        assert!("cpus".parse::<Queues>().is_err() && "3-1".parse::<Queues>().is_err());
        for text in ["cpu", "0", "0-7"] {
            assert_eq!(text.parse::<Queues>().map(|queues| queues.to_string()), Ok(text.to_owned()));
        }
    }
}
