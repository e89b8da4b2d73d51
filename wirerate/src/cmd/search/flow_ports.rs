//! Numbers of flows as ranges of UDP ports: the frames go through all flows in turn.
//!
//! Both ports change with each frame, so the number of combinations is the product of the ranges if
//! these have no common factor.

/// The first port of both ranges.
const FIRST: u64 = 1024;
/// Most ports of a range.
const PORTS_MAX: u64 = 64_000;

/// The options of `wirerate send` for this number of flows.
///
/// # Errors
/// A number that is no such product.
pub(super) fn send_options(flows: u64) -> Result<Vec<String>, String> {
    let mut sources = (1..=PORTS_MAX.min(flows)).rev();
    let is_product = |sources: &u64| {
        flows.is_multiple_of(*sources) && flows / sources <= PORTS_MAX && gcd(*sources, flows / sources) == 1
    };
    let sources = sources.find(is_product).ok_or_else(|| {
        format!(
            "{flows} is not the product of two numbers of ports up to {PORTS_MAX} without a common factor"
        )
    })?;
    let ranges = [("--udp-src", sources), ("--udp-dst", flows / sources)];
    let used = ranges.into_iter().filter(|(_, ports)| *ports > 1);
    let words = |(option, ports): (&str, u64)| [option.to_owned(), format!("{FIRST}-{}", FIRST + ports - 1)];
    Ok(used.flat_map(words).collect())
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_are_combinations_of_ports() {
        let options = |flows| send_options(flows).map(|words| words.join(" "));
        assert_eq!(options(1).as_deref(), Ok(""));
        assert_eq!(options(1000).as_deref(), Ok("--udp-src 1024-2023"));
        assert_eq!(options(100_000).as_deref(), Ok("--udp-src 1024-4148 --udp-dst 1024-1055"));
        assert_eq!(options(1_000_000).as_deref(), Ok("--udp-src 1024-16648 --udp-dst 1024-1087"));
        assert!(options(0).is_err() && options(1 << 20).is_err() && options(64_007).is_err());
    }
}
