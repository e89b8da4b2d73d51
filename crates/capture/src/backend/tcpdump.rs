//! Filters compiled by tcpdump, where libpcap cannot be loaded: `tcpdump -ddd` prints the program.
//!
//! A statically linked wirerate loads no libraries, so this is its way to filters.

use crate::sys::{self, pcap::CompileError};
use filter::Instruction;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

/// Link types with tcpdump's names for them: `DLT_*` numbers of libpcap.
const LINK_TYPES: [(i32, &str); 12] = [
    (0, "NULL"),
    (1, "EN10MB"),
    (9, "PPP"),
    (12, "RAW"),
    (105, "IEEE802_11"),
    (108, "LOOP"),
    (113, "LINUX_SLL"),
    (127, "IEEE802_11_RADIO"),
    (192, "PPI"),
    (228, "IPV4"),
    (229, "IPV6"),
    (276, "LINUX_SLL2"),
];
/// CPU time of tcpdump. The kernel counts whole seconds and ends the process with SIGXCPU.
const CPU_TIME_MAX_S: u64 = 2;

/// Compiles `expression` as [`pcap::compile`](crate::sys::pcap::compile) does.
pub(crate) fn compile(
    expression: &str,
    link_type: i32,
    snaplen: u32,
) -> Result<Vec<Instruction>, CompileError> {
    let Some((_, name)) = LINK_TYPES.iter().find(|(number, _)| *number == link_type) else {
        return Err(CompileError::Refused(format!(
            "tcpdump cannot compile filters for link type {link_type}"
        )));
    };
    let mut command = Command::new("tcpdump");
    command.args(["-ddd", "-y", name, "-s", &snaplen.to_string(), "--", expression]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let missing = |error: std::io::Error| CompileError::Missing(format!("tcpdump cannot be run: {error}"));
    let child = command.spawn().map_err(missing)?;
    sys::limit_cpu_time_s(&child, CPU_TIME_MAX_S);
    let output = child.wait_with_output().map_err(missing)?;
    if output.status.signal() == Some(libc::SIGXCPU) {
        return Err(CompileError::TakesLong);
    }
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        let reason = text.trim().trim_start_matches("tcpdump: ");
        return Err(CompileError::Refused(match reason {
            "" => format!("tcpdump ended with {}", output.status),
            reason => reason.to_owned(),
        }));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    parse(&text).ok_or_else(|| CompileError::Refused(format!("tcpdump printed no program, but {text:?}")))
}

/// The number of instructions, then one per line: code, jt, jf, k.
fn parse(text: &str) -> Option<Vec<Instruction>> {
    let mut lines = text.lines();
    let count: usize = lines.next()?.parse().ok()?;
    let instructions: Option<Vec<Instruction>> = lines.map(parse_line).collect();
    instructions.filter(|all| all.len() == count)
}

fn parse_line(line: &str) -> Option<Instruction> {
    let mut words = line.split(' ');
    let instruction = Instruction {
        code: words.next()?.parse().ok()?,
        jt: words.next()?.parse().ok()?,
        jf: words.next()?.parse().ok()?,
        k: words.next()?.parse().ok()?,
    };
    words.next().is_none().then_some(instruction)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::pcap;

    /// False, and the calling test is skipped, where one of the two compilers is missing.
    fn has_both() -> bool {
        let compiled = [
            ("libpcap", pcap::compile(c"ip", 1, 96, u32::MAX).err()),
            ("tcpdump", compile("ip", 1, 96).err()),
        ];
        for (name, error) in compiled {
            if let Some(CompileError::Missing(reason)) = error {
                testkit::skip(format_args!("needs {name}: {reason}"));
                return false;
            }
        }
        true
    }

    #[test]
    fn tcpdump_compiles_the_programs_of_libpcap() {
        testkit::needs!(has_both());
        for (expression, link_type) in [
            ("", 1),
            ("udp port 9", 1),
            ("vlan 5 and net 198.18.0.0/15", 1),
            ("len > 80 or ip6[6] = 17", 1),
            ("udp port 9", 12),
            ("wlan type mgt", 127),
            ("-1 = 2", 1),
        ] {
            let text = pcap::c_string(expression).unwrap();
            let expected = pcap::compile(&text, link_type, 96, u32::MAX);
            let compiled = compile(expression, link_type, 96);
            match (expected, compiled) {
                (Ok(expected), Ok(compiled)) => assert_eq!(expected, compiled, "{expression}"),
                (Err(_), Err(CompileError::Refused(_))) => {}
                (expected, compiled) => panic!("{expression}: {expected:?}, {compiled:?}"),
            }
        }
    }

    #[test]
    fn a_wrong_expression_and_an_unknown_link_type_are_refused() {
        testkit::needs!(has_both());
        let Err(CompileError::Refused(reason)) = compile("udp prot 9", 1, 96) else { panic!() };
        assert!(reason.contains("syntax error") && !reason.starts_with("tcpdump"), "{reason}");
        assert!(matches!(compile("ip", 147, 96), Err(CompileError::Refused(_))));
    }

    #[test]
    fn a_program_is_read_whole_or_not_at_all() {
        let program = parse("2\n40 0 0 12\n6 0 0 262144\n").unwrap();
        assert_eq!(program[0], Instruction { code: 40, jt: 0, jf: 0, k: 12 });
        assert_eq!(program[1], Instruction { code: 6, jt: 0, jf: 0, k: 262_144 });
        for text in ["", "2\n6 0 0 1\n", "1\n6 0 0\n", "1\n6 0 0 1 1\n", "1\n6 256 0 1\n"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
