//! What the name of a capture file says.

use capture::Format;

/// A name without the suffix of its compression.
pub(crate) fn plain_name(name: &str) -> &str {
    [".zst", ".lz4"].iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name)
}

/// The format that a name asks for: `x.pcap` and `x.pcap.zst` are pcap.
pub fn format_of(name: &str) -> Format {
    if plain_name(name).ends_with(".pcap") { Format::Pcap } else { Format::Pcapng }
}
