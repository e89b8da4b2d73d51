//! Words of options about checksums, lengths and frame check sequences.

use capture_files::playlist::FcsPolicy;
use clap::ValueEnum;
use replay::{ChecksumPolicy, CutPolicy, LongPolicy};

/// What happens to packets of which the file has only the first bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Cut {
    /// Fill them up with zeros to their original length
    #[default]
    Pad,
    /// Leave them as short as the file has them
    Short,
    /// As short, with length fields and checksums of that length
    Shrink,
    /// Leave them out
    Skip,
    /// End the run
    Fail,
}

impl From<Cut> for CutPolicy {
    fn from(cut: Cut) -> Self {
        match cut {
            Cut::Pad => Self::Pad,
            Cut::Short => Self::Short,
            Cut::Shrink => Self::Shrink,
            Cut::Skip => Self::Skip,
            Cut::Fail => Self::Fail,
        }
    }
}

/// What happens to frames that are longer than the MTU allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Long {
    /// Leave them out; the exit code is 1
    #[default]
    Skip,
    /// End the run
    Fail,
    /// Divide those of TCP into segments of the longest length, as a network card does (TSO); leave
    /// the others out
    Segment,
    /// Divide IP packets into fragments, unless they forbid it (DF)
    Fragment,
    /// Divide IP packets into fragments, also those with DF
    FragmentDf,
}

impl From<Long> for LongPolicy {
    fn from(long: Long) -> Self {
        match long {
            Long::Skip => Self::Skip,
            Long::Fail => Self::Fail,
            Long::Segment => Self::Segment,
            Long::Fragment => Self::Fragment,
            Long::FragmentDf => Self::FragmentDf,
        }
    }
}

/// What happens to checksums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Checksums {
    /// Edits keep right ones right and wrong ones as wrong as they were
    #[default]
    Keep,
    /// Compute those of all whole packets
    Fix,
}

impl From<Checksums> for ChecksumPolicy {
    fn from(checksums: Checksums) -> Self {
        match checksums {
            Checksums::Keep => Self::Keep,
            Checksums::Fix => Self::Fix,
        }
    }
}

/// What happens to frame check sequences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Fcs {
    /// Remove those that the file declares
    #[default]
    Declared,
    /// Remove the last 4 bytes where none is declared, too
    Strip,
    /// Leave all bytes
    Keep,
}

impl From<Fcs> for FcsPolicy {
    fn from(fcs: Fcs) -> Self {
        match fcs {
            Fcs::Declared => Self::Declared,
            Fcs::Strip => Self::Strip,
            Fcs::Keep => Self::Keep,
        }
    }
}
