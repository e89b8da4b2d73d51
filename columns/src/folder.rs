//! Where the files of a data set lie: `run=ID/host=H/device=D/part-START_NS-N.parquet`.

/// The folder of a device, relative to that of the data set. Each name is one component of the
/// path: other characters than letters, digits, `.`, `_`, `-`, `:` and `@` become `%XX`, as Hive
/// does.
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

fn escaped(name: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-:@".contains(&byte);
    let escape =
        |byte: u8| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    name.bytes().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_one_component() {
        assert_eq!(device_folder("a/b", "h 1", "eth0.7"), "run=a%2Fb/host=h%201/device=eth0.7");
        assert_eq!(parse_part_name(&part_name(17, 3)), Some((17, 3)));
        assert_eq!(parse_part_name("part-17-3.parquet.part"), None);
        assert_eq!(parse_part_name(&loss_name(3)), None);
    }
}
