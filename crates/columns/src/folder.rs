//! Where the files of a data set lie: `run=ID/host=H/device=D/part-START_NS-N.parquet`.

/// The folder of a device, relative to that of the data set. Each name is one component of the
/// path: other characters than letters, digits, `.`, `_`, `-`, `:` and `@` become `%XX`, as Hive
/// does. Long names are cut and end with a hash of the name, because file systems take 255 bytes.
/// An empty name is `unknown`.
pub fn device_folder(run: &str, host: &str, device: &str) -> String {
    format!("{}/host={}/device={}", run_folder(run), escaped(host), escaped(device))
}

/// The folder of a run, relative to that of the data set.
pub fn run_folder(run: &str) -> String {
    format!("run={}", escaped(run))
}

/// The name of a file of packets: the time of its first one, and its number in the run.
pub fn part_name(start_ns: u64, number: u64) -> String {
    format!("part-{start_ns}-{number}.parquet")
}

/// Time and number in the name of a file of packets; `None` for other files.
pub fn parse_part_name(name: &str) -> Option<(u64, u64)> {
    let (start_ns, number) = name.strip_prefix("part-")?.strip_suffix(".parquet")?.split_once('-')?;
    Some((start_ns.parse().ok()?, number.parse().ok()?))
}

/// The name of a file of losses.
pub fn loss_name(number: u64) -> String {
    format!("loss-{number}.parquet")
}

/// Longest escaped name: with `device=` it fits into a component of 255 bytes.
const ESCAPED_LEN_MAX: usize = 240;

fn escaped(name: &str) -> String {
    if name.is_empty() {
        return "unknown".to_owned();
    }
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-:@".contains(&byte);
    let escape =
        |byte: u8| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    let whole: String = name.bytes().map(escape).collect();
    if whole.len() <= ESCAPED_LEN_MAX {
        return whole;
    }
    let hash = format!("-{:016x}", hash(name.as_bytes()));
    let mut end = ESCAPED_LEN_MAX - hash.len();
    // An escape is not cut.
    if let Some(escape) = whole[end - 2..end].find('%') {
        end = end - 2 + escape;
    }
    format!("{}{hash}", &whole[..end])
}

/// FNV-1a, which is the same in every version.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_one_component() {
        assert_eq!(device_folder("a/b", "h 1", "eth0.7"), "run=a%2Fb/host=h%201/device=eth0.7");
        for len in 230..260 {
            for character in ["x", "é", "/"] {
                let name = format!("{}{}", "n".repeat(len % 3), character.repeat(len));
                let folder = device_folder("r", "h", &name);
                let last = folder.rsplit('/').next().unwrap();
                assert!(last.len() <= 255, "{last}");
                assert_ne!(folder, device_folder("r", "h", &format!("{name}x")));
                let escapes = last.split('%').skip(1);
                assert!(escapes.clone().all(|rest| u8::from_str_radix(&rest[..2], 16).is_ok()), "{last}");
            }
        }
        assert_eq!(device_folder("", "", ""), "run=unknown/host=unknown/device=unknown");
        assert_eq!(parse_part_name(&part_name(17, 3)), Some((17, 3)));
        assert_eq!(parse_part_name("part-17-3.parquet.part"), None);
        assert_eq!(parse_part_name(&loss_name(3)), None);
    }
}
