//! A stack of MPLS labels as people write it: `16,17`, or whole entries in hex, as pktgen takes
//! them.

use super::{BadText, number};
use std::fmt;
use std::str::FromStr;

/// Time to live of a label that was given as a number.
const TTL_DEFAULT: u32 = 64;
/// Highest label.
const LABEL_MAX: u32 = (1 << 20) - 1;
/// Where the label stands in a stack entry.
const LABEL_SHIFT: u32 = 12;

const LABELS: &str =
    "labels from 0 to 1048575, or stack entries of 32 bits such as 0x0001000a, with commas between them";

/// MPLS stack entries, outermost first, in the words of pktgen: label, class, bit 0x100 for one to
/// be drawn at random, time to live (RFC 3032; the bottom of the stack is marked when the frame is
/// made).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Labels(pub Vec<u32>);

impl FromStr for Labels {
    type Err = BadText;

    fn from_str(text: &str) -> Result<Self, BadText> {
        let mut entries = Vec::new();
        let mut offset = 0;
        for part in text.split(',') {
            let bad = || BadText::whole(part, format!("\"{part}\" is no label"), LABELS).within(text, offset);
            entries.push(entry(part).ok_or_else(bad)?);
            offset += part.len() + 1;
        }
        Ok(Self(entries))
    }
}

fn entry(part: &str) -> Option<u32> {
    match part.strip_prefix("0x") {
        Some(_) => number(part),
        None => {
            let label: u32 = number(part).filter(|label| *label <= LABEL_MAX)?;
            Some(label << LABEL_SHIFT | TTL_DEFAULT)
        }
    }
}

impl fmt::Display for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, entry) in self.0.iter().enumerate() {
            write!(f, "{}{entry:#010x}", if index > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_number_is_a_label_and_hex_is_a_whole_entry() {
        let read = |text: &str| text.parse::<Labels>().map(|labels| labels.0);
        assert_eq!(read("16,1048575,0"), Ok(vec![0x0001_0040, 0xffff_f040, 0x40]));
        assert_eq!(read("0x0001000a,3"), Ok(vec![0x0001_000a, 0x0000_3040]));
    }

    #[test]
    fn the_mark_stands_under_the_bad_label() {
        let mark = |text: &str| text.parse::<Labels>().unwrap_err().bad();
        assert_eq!(mark("16,1048576,17"), 3..10);
        assert_eq!(mark("16,"), 3..3);
        assert_eq!(mark("0x123456789"), 0..11);
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_the_same(entries in prop::collection::vec(any::<u32>(), 1..17)) {
            let labels = Labels(entries);
            prop_assert_eq!(labels.to_string().parse(), Ok(labels));
        }

        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,20}|[0-9x,]{0,40}") {
            let _ = text.parse::<Labels>().map_err(|bad| bad.to_string());
        }
    }
}
