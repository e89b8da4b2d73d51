//! Writers of random configurations. What [`config`] writes, trafgen takes, and its frames are the
//! same whenever it runs.

use packet::Rng;

fn pick<'a>(rng: &mut Rng, of: &[&'a str]) -> &'a str {
    of[rng.below(of.len() as u32) as usize]
}

/// A configuration of one to four packets.
pub(crate) fn config(rng: &mut Rng) -> String {
    (0..1 + rng.below(4)).map(|index| packet(rng, index == 0)).collect()
}

fn packet(rng: &mut Rng, is_first: bool) -> String {
    let comment = pick(rng, &["", "# a packet\n", "/* a packet */ ", "cpu(0): ", "cpu(0-3): "]);
    let mut elements = match rng.below(4) {
        0 => raw(rng),
        _ => headers(rng, is_first),
    };
    elements.extend((0..rng.below(4)).map(|_| payload(rng)));
    let between = pick(rng, &[", ", " ", ",\n   "]);
    format!("{comment}{{ {} }}\n", elements.join(between))
}

fn byte(rng: &mut Rng) -> String {
    let value = rng.below(256);
    match rng.below(6) {
        0 => format!("{value}"),
        1 => format!("0x{value:02x}"),
        2 => format!("0b{value:b}"),
        3 => format!("x{value:x}"),
        4 => format!("0{value:o}"),
        _ => format!("'{}'", char::from(b'a' + (value % 26) as u8)),
    }
}

fn expression(rng: &mut Rng) -> String {
    let operand = |rng: &mut Rng| match rng.below(3) {
        0 => format!("({}{}{})", rng.below(99), pick(rng, &["+", "*", "<<"]), rng.below(9)),
        1 => format!("0x{:x}", rng.next_u32()),
        _ => format!("{}", rng.below(1000)),
    };
    let mut text = operand(rng);
    for _ in 0..rng.below(4) {
        let operator = pick(rng, &["+", "-", "*", "&", "|", "^", " + ", " | "]);
        text = format!("{text}{operator}{}", operand(rng));
    }
    text
}

fn payload(rng: &mut Rng) -> String {
    match rng.below(9) {
        0 => format!("fill({}, {})", byte(rng), 1 + rng.below(40)),
        1 => format!("seqinc({},{},{})", rng.below(256), 1 + rng.below(20), 1 + rng.below(5)),
        2 => format!("seqdec({},{})", rng.below(256), 1 + rng.below(20)),
        3 => format!("c{}({})", pick(rng, &["8", "16", "32", "64"]), expression(rng)),
        4 => format!("const{}({})", pick(rng, &["8", "16", "32", "64"]), expression(rng)),
        5 => pick(rng, &["\"hello\"", "\"a b\"", "\"\\x41\\xff\"", "\"a\\x41\""]).to_owned(),
        6 => dynamic(rng),
        _ => byte(rng),
    }
}

fn dynamic(rng: &mut Rng) -> String {
    let (min, size) = (rng.below(200), 1 + rng.below(50));
    let step = 1 + rng.below(9);
    match rng.below(3) {
        0 => format!("dinc({min},{})", min + size),
        1 => format!("dinc({min},{},{step})", min + size),
        _ => format!("ddec({min},{},{step})", min + size),
    }
}

/// A packet of bytes with checksum functions.
fn raw(rng: &mut Rng) -> Vec<String> {
    let [proto, function] = [["17", "csumudp(14, 34)"], ["6", "csumtcp(14, 34)"]][rng.below(2) as usize];
    let address = |rng: &mut Rng| match rng.below(3) {
        0 => "198, 18, 0, dinc(1,9)".to_owned(),
        1 => "198, 18, 0, ddec(1,9)".to_owned(),
        _ => format!("198, 18, {}, 1", rng.below(256)),
    };
    let transport = match proto {
        "17" => vec!["c16(4000)".to_owned(), "c16(53)".to_owned(), "c16(26)".to_owned()],
        _ => ["c16(4000)", "c16(80)", "c32(7)", "c32(0)", "c16((5 << 12) | 2)", "c16(512)"]
            .map(str::to_owned)
            .to_vec(),
    };
    let mut elements = vec![
        "fill(2, 12)".to_owned(),
        "c16(0x0800), 0b01000101, 0".to_owned(),
        format!("c16({})", if proto == "17" { 46 } else { 48 }),
        "c16(7), c16(0), 64".to_owned(),
        proto.to_owned(),
        "csumip(14, 33)".to_owned(),
        address(rng),
        address(rng),
    ];
    elements.extend(transport);
    elements.push(function.to_owned());
    elements.push(if proto == "17" { "fill(0x41, 18)" } else { "c16(0), \"abcdefgh\"" }.to_owned());
    elements
}

fn number(rng: &mut Rng, max: u32) -> String {
    match rng.below(6) {
        0 => format!("0x{:x}", rng.below(max)),
        1 => "dinc()".to_owned(),
        2 => format!("dinc({})", 1 + rng.below(9)),
        3 => {
            let min = rng.below(max / 2);
            format!("dinc({min},{},{})", min + 1 + rng.below(9), 1 + rng.below(4))
        }
        _ => format!("{}", rng.below(max)),
    }
}

fn mac(rng: &mut Rng) -> String {
    format!("2:{:x}:{:02x}:0:{:02x}:1", rng.below(256), rng.below(256), rng.below(256))
}

fn ip4(rng: &mut Rng) -> String {
    format!("198.18.{}.{}", rng.below(256), rng.below(256))
}

fn ip6(rng: &mut Rng) -> String {
    format!("fd00:{:x}::{:x}", 1 + rng.below(65535), 1 + rng.below(65535))
}

/// Some fields of a header.
fn fields(rng: &mut Rng, of: &[&str], all: &[(&str, u32)]) -> String {
    let mut fields: Vec<String> = of.iter().map(|&field| field.to_owned()).collect();
    for (name, max) in all {
        if rng.below(3) == 0 {
            fields.push(if *max == 0 { (*name).to_owned() } else { format!("{name}={}", number(rng, *max)) });
        }
    }
    let between = pick(rng, &[", ", " ", ","]);
    fields.join(between)
}

fn moving_address(rng: &mut Rng, name: &str) -> String {
    match rng.below(8) {
        0 => format!("{name}=dinc()"),
        1 => format!("{name}[{}]=dinc()", rng.below(4)),
        2 => format!("{name}[2:2]=dinc(100,200,{})", 1 + rng.below(30)),
        3 => format!("{name}=dinc(1,{})", 2 + rng.below(5)),
        _ => String::new(),
    }
}

fn addresses(rng: &mut Rng, [source, destination]: [String; 2]) -> Vec<String> {
    let mut given = vec![format!("sa={source}"), format!("daddr={destination}")];
    for name in ["sa", "da"] {
        given.extend(Some(moving_address(rng, name)).filter(|moving| !moving.is_empty()));
    }
    given
}

fn headers(rng: &mut Rng, is_first: bool) -> Vec<String> {
    let mut headers = Vec::new();
    let eth = [mac(rng), mac(rng)];
    let eth = addresses(rng, eth).join(", ");
    let is_v6 = rng.below(3) == 0;
    // Without the EtherType, trafgen's checksums are expected, wrong ones too.
    headers.push(match is_v6 && rng.below(2) == 0 {
        true => format!("eth({eth}, type=0x86dd)"),
        false => format!("eth({eth})"),
    });
    match rng.below(10) {
        0 if !is_v6 => {
            let fixed = [format!("sip={}", ip4(rng)), format!("tmac={}", mac(rng))];
            let fixed: Vec<&str> = fixed.iter().map(String::as_str).collect();
            headers
                .push(format!("arp({})", fields(rng, &fixed, &[("reply", 0), ("htype", 9), ("ptype", 999)])));
            return headers;
        }
        1 if !is_v6 => {
            return vec![format!("pause({})", fields(rng, &[], &[("code", 9), ("time", 65536)]))];
        }
        2 if !is_v6 => {
            let all = [("code", 9), ("pri(1)", 2), ("prio(7)", 2), ("time(0)", 65536), ("time(6)", 65536)];
            return vec![format!("pfc({})", fields(rng, &[], &all))];
        }
        _ => {}
    }
    for _ in 0..rng.below(3) {
        let all = [("id", 4096), ("pcp", 8), ("dei", 2), ("1ad", 0), ("tpid", 65536)];
        let all = &all[..3 + rng.below(2) as usize];
        headers.push(format!("vlan({})", fields(rng, &[], all)));
    }
    if !is_v6 {
        for _ in 0..rng.below(3).saturating_sub(1) {
            let all = [("label", 1 << 20), ("tc", 8), ("ttl", 256)];
            headers.push(format!("mpls({})", fields(rng, &[], &all)));
        }
    }
    if is_v6 {
        let given = [ip6(rng), ip6(rng)];
        let given: Vec<String> = addresses(rng, given);
        let fixed: Vec<&str> = given.iter().map(String::as_str).collect();
        let all = [("tc", 256), ("fl", 1 << 20), ("hl", 256)];
        headers.push(format!("{}({})", pick(rng, &["ipv6", "ip6"]), fields(rng, &fixed, &all)));
    } else {
        let given = [ip4(rng), ip4(rng)];
        let given: Vec<String> = addresses(rng, given);
        let fixed: Vec<&str> = given.iter().map(String::as_str).collect();
        let all = [("tos", 256), ("dscp", 64), ("ecn", 4), ("id", 65536), ("df", 0), ("ttl", 256)];
        headers.push(format!("{}({})", pick(rng, &["ipv4", "ip4"]), fields(rng, &fixed, &all)));
    }
    headers.push(transport(rng, is_v6, is_first));
    headers
}

fn transport(rng: &mut Rng, is_v6: bool, is_first: bool) -> String {
    match rng.below(5) {
        0 | 1 => {
            let all = [("sp", 65536), ("dport", 65536)];
            format!("udp({})", fields(rng, &[], &all))
        }
        2 if is_v6 => format!("icmp6({})", fields(rng, &["echorequest"], &[("code", 256)])),
        2 => {
            let all = [("code", 256), ("id", 65536), ("seq", 65536)];
            format!("icmpv4({})", fields(rng, &["echorequest"], &all))
        }
        // trafgen writes the records of later packets into the first one.
        3 if is_first => {
            format!(
                "dns({}, query(name=\"ab.c\", type={}))",
                fields(rng, &["op=2"], &[("id", 65536)]),
                rng.below(99)
            )
        }
        _ => {
            let all = [
                ("sport", 65536),
                ("dp", 65536),
                ("seq", u32::MAX),
                ("aseq", u32::MAX),
                ("win", 65536),
                ("syn", 0),
                ("ack", 0),
                ("psh", 0),
                ("urgptr", 65536),
            ];
            format!("tcp({})", fields(rng, &[], &all))
        }
    }
}

/// Words of the language in any order.
pub(crate) fn words(rng: &mut Rng) -> Vec<u8> {
    let mut text = String::from("{ ");
    for _ in 0..rng.below(40) {
        let word = match rng.below(4) {
            0 => pick(
                rng,
                &["(", ")", "{", "}", ",", "=", "[", "]", ":", "-", "\"", "'", "/*", "*/", "#", "\n"],
            ),
            1 => {
                let protocol = &frames::PROTOCOLS[rng.below(frames::PROTOCOLS.len() as u32) as usize];
                let field = &protocol.fields[rng.below(protocol.fields.len() as u32) as usize];
                text.push_str(protocol.names[0]);
                text.push('(');
                text.push_str(field.names[0]);
                pick(
                    rng,
                    &["=", "=dinc()", "=1", "=values(1,2)", "=drnd(1,5)", "[0:4]=dinc()", "=1.2.3.4", ")"],
                )
            }
            2 => {
                let function = &frames::FUNCTIONS[rng.below(frames::FUNCTIONS.len() as u32) as usize];
                text.push_str(function.names[0]);
                pick(
                    rng,
                    &[
                        "(1)",
                        "(1,2)",
                        "(0,9,1)",
                        "()",
                        "(99999999999)",
                        "(",
                        "(14,34)",
                        "(\"00\")",
                        "(\"f\",2)",
                    ],
                )
            }
            _ => pick(
                rng,
                &["1", "0xff", "a", "b1", "dinc", "query(", "cpu(1):", "\"x\"", "1:2:3:4:5:6", "::1"],
            ),
        };
        text.push_str(word);
        text.push_str(pick(rng, &["", " ", " ", ", ", ") "]));
    }
    text.push('}');
    text.into_bytes()
}

/// Changes, drops, doubles or adds bytes.
pub(crate) fn change(rng: &mut Rng, text: &mut Vec<u8>) {
    let at = rng.below(text.len() as u32 + 1) as usize;
    match rng.below(4) {
        0 if at < text.len() => text[at] = rng.next_u32() as u8,
        1 if at < text.len() => {
            text.remove(at);
        }
        2 => text.truncate(at),
        _ => text.insert(at, b"(){}[],=:;\"'#/*19axd "[rng.below(21) as usize]),
    }
}
