//! The cases that run on every kernel: one table, one module per subject.

mod engines;
mod ipsec;
mod measure;
mod netem;
mod nics;
pub mod oracle;
mod queues;
mod rates;
pub(crate) mod services;
mod stamps;
mod tests;
mod wireguard;
mod wireless;

use crate::archive::Archive;
use anyhow::Result;
use std::collections::BTreeMap;

/// What a case found out while it ran.
#[derive(Debug, Default)]
pub struct CaseReport {
    /// For the table, by a short name.
    pub facts: BTreeMap<String, String>,
    /// Texts to compare with those of the repository.
    pub golden: BTreeMap<String, String>,
    /// Results as rows of JSON for the page of the bench.
    pub rows: Vec<serde_json::Value>,
    /// What this kernel does not have, when that ends the case.
    pub lacks: Option<String>,
}

impl CaseReport {
    /// Notes a fact for the table.
    pub fn note(&mut self, name: &str, value: impl ToString) {
        self.facts.insert(name.to_owned(), value.to_string());
    }

    /// Adds a row for the page of the bench; its case is without the name of the kernel.
    pub fn row(&mut self, row: serde_json::Value) {
        self.rows.push(row);
    }

    /// Has a text compared with this kernel's file in `lab/vm/tests/golden/NAME`.
    pub fn compare(&mut self, name: &str, text: String) {
        self.golden.insert(name.to_owned(), text);
    }
}

/// A machine of a kernel, with the cases that share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MachineType {
    /// One processor. A conversation of many words is several times faster there: to wake another
    /// emulated processor takes longer than all else.
    Single,
    /// Two processors, and network cards.
    Cards,
    /// Two processors, and the tests of other crates.
    Tests,
    /// Two processors.
    Common,
    /// Two processors, network cards, and no other machine beside it: for cases that have to reach
    /// a rate.
    Alone,
    /// Two processors, and a Debian system that systemd starts; only if the Debian package is
    /// named.
    Systemd,
}

impl MachineType {
    /// All, those that take longest first.
    pub const ALL: [Self; 6] =
        [Self::Single, Self::Tests, Self::Cards, Self::Common, Self::Alone, Self::Systemd];

    /// How many processors it has.
    #[must_use]
    pub fn cpus(self) -> u32 {
        match self {
            Self::Single => 1,
            Self::Cards | Self::Tests | Self::Common | Self::Alone | Self::Systemd => 2,
        }
    }
}

impl MachineType {
    /// Puts what its cases need, and no others do, into its archive.
    pub(crate) fn add_files(self, archive: &mut Archive) -> Result<()> {
        match self {
            Self::Single => oracle::add_recorded(archive),
            Self::Tests => tests::executables::add(archive),
            Self::Common | Self::Cards => oracle::add_samples(archive),
            Self::Alone => Ok(()),
            Self::Systemd => services::add_files(archive),
        }
    }
}

/// One row of the table.
pub struct Case {
    /// Lower case, with `_`.
    pub name: &'static str,
    /// What it shows, in a line for a person.
    pub what: &'static str,
    /// Kernel modules that it loads.
    pub modules: &'static [&'static str],
    /// Arguments of QEMU for the devices that it needs; cases that name the same ones share them.
    pub devices: &'static str,
    /// In which machine.
    pub machine: MachineType,
    /// Runs it, in the machine.
    pub run: fn(&mut CaseReport) -> Result<()>,
}

impl Case {
    /// True when it needs no card, no module, and no files but the programs of every machine.
    #[must_use]
    pub fn is_for_any_processor(&self) -> bool {
        self.machine == MachineType::Common && self.modules.is_empty() && self.devices.is_empty()
    }

    /// True when it needs what [`taps`](crate::taps) makes.
    #[must_use]
    pub fn has_taps(&self) -> bool {
        crate::taps::are_in(self.devices)
    }
}

/// All of them, in the order in which they run.
#[must_use]
pub fn all() -> Vec<&'static Case> {
    [
        engines::CASES,
        ipsec::CASES,
        measure::CASES,
        netem::CASES,
        wireless::CASES,
        wireguard::CASES,
        nics::CASES,
        queues::CASES,
        stamps::CASES,
        services::CASES,
        rates::CASES,
        oracle::CASES,
        tests::CASES,
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The case of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Case> {
    all().into_iter().find(|case| case.name == name)
}
