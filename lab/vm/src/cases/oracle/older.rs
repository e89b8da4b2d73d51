//! What the pktgen of older kernels does otherwise than the newest, under the names of
//! docs/pktgen.md. Each is found by a query to the module, not by its version. Sequences leave
//! out what a kernel lacks; all else must agree.

use super::generate::Sequence;
use super::step::OracleStep;
use super::step::Texts;
use anyhow::Result;

/// One of them.
pub(super) struct Older {
    /// As docs/pktgen.md calls it.
    pub(super) name: &'static str,
    /// A write to a new device file: the bytes, how many of them are written, the errno on the
    /// newest kernel (0: none) and the result there.
    asks: (&'static str, usize, i32, &'static str),
    /// The sequence without it.
    leave_out: fn(&mut Sequence),
    /// A text without it.
    even_out: fn(&str) -> String,
}

/// The number of an error that has no name outside the kernel, where newer ones say EOPNOTSUPP.
pub(super) const ENOTSUPP: &str = "ENOTSUPP";
/// That number.
pub(super) const ENOTSUPP_NUMBER: i32 = 524;

/// All that are known.
pub(super) const ALL: &[Older] = &[
    Older {
        name: "SHARED",
        asks: ("flag SHARED\n", 12, 0, "OK: flags=0x40000"),
        leave_out: |sequence| leave_out_those(sequence, |command| command.contains("SHARED")),
        even_out: without_shared,
    },
    Older {
        name: "flags in order",
        asks: ("flag BOGUS\n", 11, 0, NEWEST_FLAGS),
        leave_out: nothing,
        even_out: without_list,
    },
    Older {
        name: "word=value",
        asks: ("delay=0\n", 8, 0, "OK: delay=0"),
        leave_out: |sequence| change(sequence, |command| command.replace('=', " ")),
        even_out: str::to_owned,
    },
    Older {
        name: "the end of a write",
        asks: ("count 123\n", 8, 0, "OK: count=12"),
        leave_out: |sequence| {
            leave_out_those(sequence, ends_early);
            change(sequence, with_newline);
        },
        even_out: str::to_owned,
    },
    Older {
        name: "short labels",
        asks: ("mpls 1\n", 7, 0, "OK: mpls=00000001"),
        leave_out: |sequence| leave_out_those(sequence, has_short_hex),
        even_out: str::to_owned,
    },
    Older {
        name: "rate 0",
        asks: ("rate 0\n", 7, libc::EINVAL, "Idle"),
        leave_out: |sequence| leave_out_those(sequence, is_no_rate),
        even_out: str::to_owned,
    },
    Older {
        name: ENOTSUPP,
        asks: ("clone_skb 1\n", 12, libc::EOPNOTSUPP, "Idle"),
        leave_out: nothing,
        even_out: str::to_owned,
    },
];

/// The answer to a flag that does not exist.
const NEWEST_FLAGS: &str = "Flag -:BOGUS:- unknown\nAvailable flags, (prepend ! to un-set flag):\nIPV6, IPSRC_RND, \
     IPDST_RND, TXSIZE_RND, UDPSRC_RND, UDPDST_RND, UDPCSUM, NO_TIMESTAMP, MPLS_RND, QUEUE_MAP_RND, QUEUE_MAP_CPU, \
     FLOW_SEQ, IPSEC, MACSRC_RND, MACDST_RND, VID_RND, SVID_RND, NODE, SHARED";

impl Older {
    /// Asks the module; the answer, where it is another than that of the newest kernel.
    pub(super) fn is_here(&self, device: &str) -> Result<bool> {
        let (bytes, len, errno, expected) = self.asks;
        super::replay::write("kpktgend_0", &format!("add_device {device}\n"))?;
        // A refusal is an answer as well.
        let written = super::replay::write(device, &bytes[..len]);
        let text = Texts::default().read(device)?;
        super::replay::clear()?;
        let said = written.err().and_then(|error| error.raw_os_error()).unwrap_or(0);
        let result = text.split_once("Result: ").map(|(_, result)| result.trim_end());
        Ok((said, result) != (errno, Some(expected)))
    }

    /// Takes it out of a sequence.
    pub(super) fn leave_out(&self, sequence: &mut Sequence) {
        (self.leave_out)(sequence);
    }

    /// Takes it out of a text.
    pub(super) fn even_out(&self, text: &str) -> String {
        (self.even_out)(text)
    }
}

fn nothing(_: &mut Sequence) {}

fn change(sequence: &mut Sequence, how: impl Fn(&str) -> String) {
    sequence.steps.iter_mut().for_each(|step| step.rewrite(&how));
}

fn leave_out_those(sequence: &mut Sequence, is_one: fn(&str) -> bool) {
    let steps = sequence.steps.iter_mut().filter(|step| step.written().is_some_and(is_one));
    steps.for_each(|step| *step = OracleStep::Nothing);
}

/// A word without its value, or no word at all: the module takes for it what stands behind the end.
fn ends_early(command: &str) -> bool {
    let mut words = words(command);
    match words.next() {
        None => true,
        Some("clear_counters" | "start" | "stop" | "reset" | "STOP" | "add_device") => false,
        Some(_) => words.next().is_none(),
    }
}

fn words(command: &str) -> impl Iterator<Item = &str> {
    command.split([' ', '\t', '=', '"', '\n', '\r', '\0']).filter(|word| !word.is_empty())
}

/// The module reads on behind the end of what was written, until it finds one of these.
fn with_newline(command: &str) -> String {
    if command.ends_with('\n') { command.to_owned() } else { format!("{command}\n") }
}

/// Without the flag itself, and without its bit in the answers.
fn without_shared(text: &str) -> String {
    let text = text.replace("SHARED  ", "");
    match text.split_once("OK: flags=0x") {
        Some((head, bits)) => {
            let bits = bits.trim_end();
            let number = u64::from_str_radix(bits, 16)
                .map_or(bits.to_owned(), |bits| format!("{:x}", bits & !0x40000));
            format!("{head}OK: flags=0x{number}\n")
        }
        None => text,
    }
}

/// The list of flags stands on the third line.
fn without_list(text: &str) -> String {
    match text.split_once("(prepend ! to un-set flag):\n") {
        Some((head, _)) => head.to_owned(),
        None => text.to_owned(),
    }
}

/// `rate abc` and the like: older modules take it, and keep the rate they have.
fn is_no_rate(command: &str) -> bool {
    let mut words = words(command);
    let is_rate = matches!(words.next(), Some("rate" | "ratep"));
    is_rate
        && words.next().is_some_and(|value| !value.starts_with(|first: char| ('1'..='9').contains(&first)))
}

/// A number in base 16 with fewer digits than its field has.
fn has_short_hex(command: &str) -> bool {
    let mut words = words(command);
    let digits = match words.next() {
        Some("mpls") => 8,
        _ => return false,
    };
    words.next().is_none_or(|value| value.split(',').any(|number| number.len() < digits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_shared_is_evened_out_and_no_other() {
        assert_eq!(without_shared("OK: flags=0x44000\n"), "OK: flags=0x4000\n");
        assert_eq!(without_shared("     Flags: IPV6  SHARED  "), "     Flags: IPV6  ");
        assert_eq!(without_shared("OK: count=4\n"), "OK: count=4\n");
    }

    #[test]
    fn words_without_a_value_end_early() {
        assert!(ends_early("\n") && ends_early("udp_src_min \n") && ends_early("flag=\0\n"));
        assert!(!ends_early("count 0\n") && !ends_early("clear_counters \n") && !ends_early("start\n"));
    }

    #[test]
    fn a_rate_of_zero_or_of_no_number_is_none() {
        assert!(is_no_rate("rate 0\n") && is_no_rate("ratep abc") && is_no_rate("rate=00"));
        assert!(!is_no_rate("rate 300M\n") && !is_no_rate("ratep 1\n") && !is_no_rate("delay 0\n"));
    }

    #[test]
    fn every_name_is_in_the_docs() {
        let page = include_str!("../../../../../docs/pktgen.md");
        for older in ALL {
            assert!(page.contains(&format!("\n| {} | ", older.name)), "{}", older.name);
        }
    }

    #[test]
    fn short_labels_are_found_behind_any_separator() {
        assert!(has_short_hex("mpls 1,2 \n") && has_short_hex("mpls=0\n") && has_short_hex("mpls\txyz\n"));
        assert!(!has_short_hex("mpls 0001000a,0002000a\n") && !has_short_hex("count 1\n"));
    }
}
