//! Mixes of frame sizes that have a name.

/// Mixes of frame sizes by name: sizes in bytes with FCS, and their weights. `simple` is the mix
/// that is most often meant by IMIX; the others are those of the Open Traffic Generator's model.
pub const MIXES: [(&str, &[(usize, f64)]); 6] = [
    ("simple", &[(64, 7.0), (594, 4.0), (1518, 1.0)]),
    ("imix", &[(64, 7.0), (570, 4.0), (1518, 1.0)]),
    ("ipsec_imix", &[(90, 58.67), (92, 2.0), (594, 23.66), (1418, 15.67)]),
    ("ipv6_imix", &[(60, 58.67), (496, 2.0), (594, 23.66), (1518, 15.67)]),
    ("standard_imix", &[(58, 58.67), (62, 2.0), (594, 23.66), (1518, 15.67)]),
    ("tcp_imix", &[(90, 58.67), (92, 2.0), (594, 23.66), (1518, 15.67)]),
];
