//! The parts of a check of `--expect`, such as `lost=0`: a result, a comparison and a limit.
//!
//! Each command has results of its own, and reads their limits.

/// Compares a value with a limit.
pub type Comparison = fn(u128, u128) -> bool;

/// Comparisons by their signs; those of two characters first.
const COMPARISONS: [(&str, Comparison); 6] = [
    ("<=", |found, limit| found <= limit),
    (">=", |found, limit| found >= limit),
    ("!=", |found, limit| found != limit),
    ("=", |found, limit| found == limit),
    ("<", |found, limit| found < limit),
    (">", |found, limit| found > limit),
];

/// Splits a check into the name of a result, the comparison, and the limit. `examples` are checks
/// for the error.
pub fn split_check<'a>(text: &'a str, examples: &str) -> Result<(&'a str, Comparison, &'a str), String> {
    let split = |(sign, holds): (&str, Comparison)| {
        text.split_once(sign).map(|(name, limit)| (name.trim(), holds, limit.trim()))
    };
    let found = COMPARISONS.into_iter().find_map(split);
    found.ok_or_else(|| format!("not a check such as {examples} (comparisons: = != < <= > >=)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_has_a_name_a_comparison_and_a_limit() {
        for (text, below, equal, above) in [
            ("lost = 5", false, true, false),
            ("lost!=5", true, false, true),
            ("lost<5", true, false, false),
            ("lost<=5", true, true, false),
            ("lost>5", false, false, true),
            ("lost>=5", false, true, true),
        ] {
            let (name, holds, limit) = split_check(text, "").unwrap();
            assert_eq!((name, limit), ("lost", "5"), "{text}");
            assert_eq!([holds(4, 5), holds(5, 5), holds(6, 5)], [below, equal, above], "{text}");
        }
        assert_eq!(
            split_check("lost", "lost=0").err().unwrap(),
            "not a check such as lost=0 (comparisons: = != < <= > >=)"
        );
    }
}
