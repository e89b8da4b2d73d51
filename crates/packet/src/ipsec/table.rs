//! The security associations of a namespace, and the selection of one for a frame.
//!
//! The rule is pktgen's: by SPI when one is set, in any mode; else ESP in transport mode by
//! destination and source, where the source 0.0.0.0 matches any. Unlike the kernel's hash, which
//! finds a wildcard only by chance, an exact source is preferred and a wildcard always found.

use super::{IpsecMode, SecurityAssociation, Transform};
use std::collections::HashMap;
use std::net::Ipv4Addr;

/// An association that exists and cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unusable {
    /// Its number.
    pub spi: u32,
    /// Its source; 0.0.0.0 for any.
    pub src: Ipv4Addr,
    /// Its destination.
    pub dst: Ipv4Addr,
    /// It is found by addresses as well.
    pub by_address: bool,
    /// Why not.
    pub why: String,
}

/// All associations of a namespace.
#[derive(Clone, Debug, Default)]
pub struct Associations {
    usable: Vec<SecurityAssociation>,
    unusable: Vec<Unusable>,
    by_address: HashMap<(Ipv4Addr, Ipv4Addr), usize>,
}

impl Associations {
    /// Of two with the same SPI or addresses the first is used.
    pub fn new(usable: Vec<SecurityAssociation>, unusable: Vec<Unusable>) -> Self {
        let mut by_address = HashMap::new();
        for (index, association) in usable.iter().enumerate() {
            let what = association.what();
            let is_esp = !matches!(what.transform, Transform::Ah { .. });
            if what.by_address && is_esp && what.mode == IpsecMode::Transport {
                by_address.entry((what.dst, what.src)).or_insert(index);
            }
        }
        Self { usable, unusable, by_address }
    }

    /// Continues the sequence numbers of the associations in `before`: the kernel does not count
    /// the frames sent from here.
    pub fn continue_from(&mut self, before: &Self) {
        let name = |one: &SecurityAssociation| (one.what().spi, one.what().dst);
        let known: HashMap<_, _> = before.usable.iter().map(|old| (name(old), old)).collect();
        for association in &mut self.usable {
            if let Some(old) = known.get(&name(association)) {
                association.continue_from(old);
            }
        }
    }

    /// Those that can be used.
    pub fn usable(&self) -> &[SecurityAssociation] {
        &self.usable
    }

    /// The first with this SPI.
    pub(crate) fn by_spi(&self, spi: u32) -> Option<usize> {
        self.usable.iter().position(|association| association.what().spi == spi)
    }

    /// The one for frames from `src` to `dst`; an unknown source (0.0.0.0) takes any for the
    /// destination.
    pub(crate) fn by_address(&self, dst: Ipv4Addr, src: Ipv4Addr) -> Option<usize> {
        let found = |src| self.by_address.get(&(dst, src)).copied();
        let any = || {
            let for_dst = self.by_address.iter().filter(|((known, _), _)| *known == dst);
            for_dst.map(|(_, index)| *index).min()
        };
        found(src)
            .or_else(|| found(Ipv4Addr::UNSPECIFIED))
            .or_else(|| src.is_unspecified().then(any).flatten())
    }

    /// Why the kernel's association of this SPI is not among the usable; `None` when it has none.
    pub(crate) fn why_not_spi(&self, spi: u32) -> Option<&str> {
        self.unusable.iter().find(|other| other.spi == spi).map(|other| other.why.as_str())
    }

    /// Why the kernel's association for these addresses is not among the usable; `None` when it has
    /// none.
    pub(crate) fn why_not_address(&self, dst: Ipv4Addr, src: Ipv4Addr) -> Option<&str> {
        let fits = |other: &&Unusable| {
            other.by_address && other.dst == dst && (other.src == src || other.src.is_unspecified())
        };
        self.unusable.iter().find(fits).map(|other| other.why.as_str())
    }

    /// Number of associations that frames find by their addresses.
    pub(crate) fn address_count(&self) -> usize {
        self.by_address.len()
    }
}

impl PartialEq for Associations {
    fn eq(&self, other: &Self) -> bool {
        (&self.usable, &self.unusable) == (&other.usable, &other.unusable)
    }
}

impl Eq for Associations {}

#[cfg(test)]
mod tests {
    use super::super::protect::tests::association;
    use super::*;
    use crate::ipsec::{Association, Hash, Integrity, Secret};

    const NULL: Transform = Transform::EspNull { integrity: None };

    fn one(spi: u32, src: [u8; 4], dst: [u8; 4]) -> Association {
        Association { spi, src: src.into(), dst: dst.into(), ..association(IpsecMode::Transport, NULL) }
    }

    fn table(all: &[Association]) -> Associations {
        let ready = |what: &Association| SecurityAssociation::new(what.clone()).unwrap();
        Associations::new(all.iter().map(ready).collect(), Vec::new())
    }

    const SRC: [u8; 4] = [10, 0, 0, 1];
    const DST: [u8; 4] = [10, 0, 0, 2];

    #[test]
    fn addresses_find_esp_in_transport_mode_and_nothing_else() {
        let integrity = Integrity { hash: Hash::Sha1, key: Secret(vec![1; 20]), icv_len: 12 };
        let others = [
            Association { transform: Transform::Ah { integrity, align4: false }, ..one(1, SRC, DST) },
            Association { mode: IpsecMode::Tunnel, ..one(2, SRC, DST) },
            Association { by_address: false, ..one(3, SRC, DST) },
            one(4, DST, SRC),
        ];
        let find = |all: &[Association]| table(all).by_address(DST.into(), SRC.into());
        assert_eq!(find(&others), None);
        assert_eq!(find(&[others.as_slice(), &[one(5, SRC, DST), one(6, SRC, DST)]].concat()), Some(4));
        for (place, other) in others.iter().enumerate() {
            assert_eq!(table(&others).by_spi(other.spi), Some(place));
        }
    }

    #[test]
    fn an_exact_source_is_preferred_and_zero_is_any() {
        let all = table(&[one(1, [0; 4], DST), one(2, SRC, DST)]);
        let find = |src: [u8; 4]| all.by_address(DST.into(), src.into());
        assert_eq!((find(SRC), find([10, 0, 0, 9]), find([0; 4])), (Some(1), Some(0), Some(0)));
        assert_eq!(table(&[one(2, SRC, DST)]).by_address(DST.into(), Ipv4Addr::UNSPECIFIED), Some(0));
    }

    #[test]
    fn sequence_numbers_never_come_twice_when_the_kernel_is_asked_again() {
        let mut again = [one(1, SRC, DST), one(2, SRC, DST)];
        let first = table(&again);
        let taken: Vec<u64> = (0..3).map(|_| first.usable()[0].take_sequence()).collect();
        assert_eq!(taken, [1, 2, 3]);
        // The kernel itself has used the second meanwhile, and does not count the frames sent from
        // here.
        again[1].sequence = 9;
        let mut second = table(&again);
        second.continue_from(&first);
        assert_eq!(second.usable()[0].take_sequence(), 4);
        assert_eq!(second.usable()[1].take_sequence(), 10);
        assert_eq!(first.usable()[0].take_sequence(), 5, "an older run goes on beside it");
        // Another key is another association.
        again[0].transform = Transform::EspCbc { key: Secret(vec![0; 16]), integrity: None };
        let mut third = table(&again);
        third.continue_from(&second);
        assert_eq!(third.usable()[0].take_sequence(), 1);
    }
}
