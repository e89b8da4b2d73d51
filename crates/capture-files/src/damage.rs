//! Damaged places of capture files: counts by kind, and the first ones in words.

use facts::Described;
use serde::Serialize;
use std::collections::BTreeMap;

/// Damaged places that are kept in words; the others are counted only.
pub const DAMAGE_TEXTS_MAX: usize = 100;

/// The damaged places of one or more files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Described)]
pub struct Damages {
    /// The number of damaged places.
    pub total: u64,
    /// The places by kind: `packet`, `interface`, `statistics`, `section`, `names` and `other` for
    /// blocks that were skipped, `options` for packets whose options are broken, `rest_of_file` for
    /// files that could not be read to their end.
    pub kinds: BTreeMap<&'static str, u64>,
    /// The first 100 places, in words.
    pub places: Vec<String>,
}

impl Damages {
    /// Adds a place.
    pub fn add(&mut self, kind: &'static str, place: impl FnOnce() -> String) {
        self.total += 1;
        *self.kinds.entry(kind).or_default() += 1;
        if self.places.len() < DAMAGE_TEXTS_MAX {
            self.places.push(place());
        }
    }

    /// Adds the places of other files.
    pub fn merge(&mut self, other: Self) {
        self.total += other.total;
        for (kind, count) in other.kinds {
            *self.kinds.entry(kind).or_default() += count;
        }
        let more = DAMAGE_TEXTS_MAX.saturating_sub(self.places.len());
        self.places.extend(other.places.into_iter().take(more));
    }

    /// True without a damaged place.
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// The kinds with their counts: `packet 2, statistics 1`.
    pub fn kinds_text(&self) -> String {
        let kinds = self.kinds.iter().map(|(kind, count)| format!("{} {count}", kind.replace('_', " ")));
        kinds.collect::<Vec<_>>().join(", ")
    }

    /// The places in words, and the number of the others.
    pub fn lines(&self) -> Vec<String> {
        let others = self.total - self.places.len() as u64;
        let rest = (others > 0).then(|| {
            let places = units::quantity_of(others, "more damaged place");
            format!("{places} ({} in all)", self.kinds_text())
        });
        self.places.iter().cloned().chain(rest).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundred_places_are_kept_and_all_are_counted() {
        let mut damages = Damages::default();
        for number in 0..1_000_000 {
            damages.add(if number % 2 == 0 { "packet" } else { "statistics" }, || format!("place {number}"));
        }
        let mut all = Damages::default();
        all.add("rest_of_file", || "the end".to_owned());
        all.merge(damages);
        assert_eq!((all.total, all.places.len()), (1_000_001, 100));
        assert_eq!(all.kinds_text(), "packet 500000, rest of file 1, statistics 500000");
        assert_eq!(all.lines().len(), 101);
        assert!(all.lines()[100].starts_with("999,901 more damaged places ("), "{}", all.lines()[100]);
    }
}
