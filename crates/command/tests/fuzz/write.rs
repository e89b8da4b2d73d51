//! Random writes to control files, made from the table of commands.

use command::{Arg, COMMANDS, FLAGS, FileKind, Spec};
use packet::Rng;

/// Numbers at which something changes: widths, limits, and what the kernel takes for special.
const EDGES: &[u64] = &[
    0,
    1,
    2,
    9,
    14,
    41,
    42,
    58,
    60,
    1514,
    4095,
    4096,
    9999,
    65_535,
    65_536,
    0x7fff_fffe,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x1_0000_0000,
    9_999_999_999,
    u64::MAX,
];

const V4_EDGES: &[&str] = &[
    "0.0.0.0",
    "255.255.255.255",
    "127.0.0.1",
    "224.0.0.1",
    "239.255.255.255",
    "198.18.0.0/15",
    "1.2.3",
    "1.2.3.4.5",
    "256.1.1.1",
    "",
];

const V6_EDGES: &[&str] =
    &["::", "::1", "ff02::1", "fd00::", "::ffff:1.2.3.4", "1:2:3:4:5:6:7:8", "1:2", ":", "::g", "fe80::1%lo"];

/// A kind of file: mostly one of a device instance.
pub(crate) fn place(rng: &mut Rng) -> FileKind {
    match rng.below(20) {
        0 => FileKind::Pgctrl,
        1 | 2 => FileKind::Thread,
        _ => FileKind::Device,
    }
}

/// A command of the table, or something close to one.
pub(crate) fn write(rng: &mut Rng, place: FileKind) -> Vec<u8> {
    let specs: Vec<&Spec> = COMMANDS.iter().filter(|spec| spec.place == place).collect();
    let spec = specs[rng.below(specs.len() as u32) as usize];
    let names: Vec<&str> = std::iter::once(spec.word).chain(spec.aliases.iter().copied()).collect();
    let mut bytes = pick(rng, &names).as_bytes().to_vec();
    bytes.extend(pick(rng, &[" ", " ", " ", " ", "=", "\t", " \"", "  "]).bytes());
    bytes.extend(value(rng, spec.takes));
    bytes.extend(pick(rng, &["\n", "\n", "\n", "", " junk\n", "\0junk"]).bytes());
    if rng.below(3) == 0 {
        for _ in 0..1 + rng.below(3) {
            spoil(rng, &mut bytes);
        }
    }
    bytes
}

/// Bytes of any kind and number.
pub(crate) fn bytes(rng: &mut Rng) -> Vec<u8> {
    let len = if rng.below(20) == 0 { rng.below(5000) } else { rng.below(200) };
    let mut bytes: Vec<u8> = (0..len).map(|_| rng.next_u32() as u8).collect();
    if rng.below(2) == 0 {
        let word = COMMANDS[rng.below(COMMANDS.len() as u32) as usize].word;
        bytes.splice(0..0, [word.as_bytes(), b" "].concat());
    }
    bytes
}

/// One change: a byte lost, doubled, cut off at, or turned into another.
fn spoil(rng: &mut Rng, bytes: &mut Vec<u8>) {
    if bytes.is_empty() {
        return;
    }
    let at = rng.below(bytes.len() as u32) as usize;
    match rng.below(5) {
        0 => drop(bytes.remove(at)),
        1 => bytes.insert(at, bytes[at]),
        2 => bytes.truncate(at),
        3 => bytes[at] = rng.next_u32() as u8,
        _ => bytes[at] = pick(rng, &["0", "9", "f", ".", ":", ",", " ", "\0", "@", "-"]).as_bytes()[0],
    }
}

fn value(rng: &mut Rng, takes: Arg) -> Vec<u8> {
    let text = match takes {
        Arg::None => String::new(),
        Arg::Number { .. } => number(rng).to_string(),
        Arg::Hex { .. } => format!("{:x}", number(rng)),
        Arg::Flag => flag(rng),
        Arg::XmitMode => pick(rng, &["start_xmit", "queue_xmit", "netif_receive", "xmit"]).to_owned(),
        Arg::Ipv4 => ipv4(rng),
        Arg::Ipv6 => ipv6(rng),
        Arg::Mac => mac(rng),
        Arg::DeviceName => device_name(rng),
        Arg::Imix => {
            let entry = |rng: &mut Rng| format!("{},{}", number(rng), 1 + rng.below(99));
            list(rng, 24, " ", entry)
        }
        Arg::Labels => list(rng, 18, ",", |rng| format!("{:x}", rng.next_u32() >> rng.below(32))),
    };
    text.into_bytes()
}

/// Often one that a person would type, else one at an edge, else any.
fn number(rng: &mut Rng) -> u64 {
    match rng.below(8) {
        0..4 => u64::from(rng.below(2000)),
        4..7 => EDGES[rng.below(EDGES.len() as u32) as usize],
        _ => u64::from(rng.next_u32()) << rng.below(32) | u64::from(rng.next_u32()),
    }
}

fn flag(rng: &mut Rng) -> String {
    let spec = &FLAGS[rng.below(FLAGS.len() as u32) as usize];
    let names: Vec<&str> = std::iter::once(spec.name)
        .chain(spec.aliases.iter().copied())
        .chain(spec.opposite)
        .chain(std::iter::once("NO_SUCH_FLAG"))
        .collect();
    format!("{}{}", pick(rng, &["", "", "!", "!!"]), pick(rng, &names))
}

fn ipv4(rng: &mut Rng) -> String {
    if rng.below(4) == 0 {
        return pick(rng, V4_EDGES).to_owned();
    }
    // Close to each other, so that ranges come about.
    format!("10.{}.{}.{}", rng.below(2), rng.below(2), rng.below(256))
}

fn ipv6(rng: &mut Rng) -> String {
    if rng.below(3) == 0 {
        return pick(rng, V6_EDGES).to_owned();
    }
    let bits = |rng: &mut Rng| u128::from(rng.next_u32()) << (32 * rng.below(4));
    std::net::Ipv6Addr::from(bits(rng) | bits(rng)).to_string()
}

fn mac(rng: &mut Rng) -> String {
    let text = packet::MacAddr([2, 0xff, 0xff, 0xff, rng.next_u32() as u8, rng.next_u32() as u8]).to_string();
    match rng.below(8) {
        0 => text.to_uppercase(),
        1 => text.replace(':', "-"),
        2 => text[..rng.below(18) as usize].to_owned(),
        3 => "00:00:00:00:00:00".to_owned(),
        _ => text,
    }
}

fn device_name(rng: &mut Rng) -> String {
    let suffix = match rng.below(4) {
        0 => String::new(),
        1 => format!("@{}", "x".repeat(rng.below(40) as usize)),
        _ => format!("@{}", rng.below(6)),
    };
    format!("{}{suffix}", pick(rng, &["eth0", "lo", "pgctrl", "kpktgend_0", "..", "a/b", "wlp0s20f3u1u2i5"]))
}

fn list(rng: &mut Rng, most: u32, between: &str, mut entry: impl FnMut(&mut Rng) -> String) -> String {
    let entries: Vec<String> = (0..rng.below(most)).map(|_| entry(rng)).collect();
    entries.join(between)
}

fn pick<'a>(rng: &mut Rng, from: &[&'a str]) -> &'a str {
    from[rng.below(from.len() as u32) as usize]
}
