//! Names of capture files.

use capture::{Format, names::plain_name};

/// The format that the end of a name asks for, if it does: `x.pcap`, `x.cap` and `x.pcap.zst` are
/// pcap.
pub fn asked_format(name: &str) -> Option<Format> {
    match plain_name(name).rsplit_once('.')?.1 {
        "pcap" | "cap" => Some(Format::Pcap),
        "pcapng" | "ntar" => Some(Format::Pcapng),
        _ => None,
    }
}

/// True if the end of a name asks for another file than a plain pcapng one.
pub fn asks_for_other(name: &str) -> bool {
    plain_name(name) != name || asked_format(name) == Some(Format::Pcap)
}

/// The format of a file to write: pcapng unless its name asks for another.
pub fn format_of(name: &str) -> Format {
    asked_format(name).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_name_asks_for_a_format() {
        for (name, asked, is_other) in [
            ("a.pcap", Some(Format::Pcap), true),
            ("a.cap.gz", Some(Format::Pcap), true),
            ("a.pcapng", Some(Format::Pcapng), false),
            ("a.ntar.lz4", Some(Format::Pcapng), true),
            ("a.zst", None, true),
            ("pcap", None, false),
            ("a.txt", None, false),
        ] {
            let found = (asked_format(name), asks_for_other(name), format_of(name));
            assert_eq!(found, (asked, is_other, asked.unwrap_or(Format::Pcapng)), "{name}");
        }
    }
}
