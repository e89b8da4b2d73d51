//! The first difference between two answers to one sequence; times and rates are ignored.

use super::generate::Sequence;
use super::replay::Answers;
use super::step::{OracleStep, StepAnswer};

/// In front of the sequence number and the time in a frame.
pub(super) const MAGIC: [u8; 4] = [0xbe, 0x9b, 0xe9, 0x55];

/// What differs, in words, if anything does.
pub(super) fn difference(sequence: &Sequence, theirs: &Answers, ours: &Answers) -> Option<String> {
    let what = first(sequence, theirs, ours)?;
    let steps: Vec<String> = sequence.steps.iter().map(|step| format!("    {}", step.words())).collect();
    Some(format!("{}: {what}\n{}", sequence.called(), steps.join("\n")))
}

/// The steps that were answered differently: which (from 1), and how.
pub(super) fn steps(sequence: &Sequence, theirs: &Answers, ours: &Answers) -> Vec<(usize, String)> {
    let all = sequence.steps.iter().zip(&theirs.steps).zip(&ours.steps).enumerate();
    let differ = all.filter_map(|(at, ((step, theirs), ours))| {
        let (theirs, ours) = (comparable(step, theirs), comparable(step, ours));
        let words = || format!("{}\n  kernel   {theirs:?}\n  wirerate {ours:?}", step.words());
        (theirs != ours).then(|| (at + 1, words()))
    });
    differ.collect()
}

/// Less times, and less the length of a text that holds them.
fn comparable(step: &OracleStep, (returned, text): &StepAnswer) -> StepAnswer {
    let returned = if let OracleStep::Read(_) = step { returned.map(|_| 0) } else { *returned };
    (returned, without_times(text))
}

fn first(sequence: &Sequence, theirs: &Answers, ours: &Answers) -> Option<String> {
    if let Some((_, what)) = steps(sequence, theirs, ours).into_iter().next() {
        return Some(what);
    }
    let is_random = sequence.is_random;
    let device =
        |text: &str| text.lines().filter(|line| !(is_random && is_drawn(line))).map(without_times).collect();
    lines("the device file", device(&theirs.device), device(&ours.device))
        .or_else(|| lines("the thread file", own(&theirs.thread), own(&ours.thread)))
        .or_else(|| frames(sequence, &theirs.frames, &ours.frames))
}

/// Lines whose numbers are drawn.
fn is_drawn(line: &str) -> bool {
    // With VID_RND and SVID_RND the two IDs are those of the last frame.
    let is_listed = DRAWN.iter().any(|head| line.starts_with(head)) && !line.contains("flowlen");
    // The result of a run has the length of its last frame.
    is_listed || line.starts_with("Result: OK: ") && line.contains("byte,")
}

const DRAWN: &[&str] = &[
    "     seq_num:",
    "     cur_",
    "     flows: ",
    "     vlan_id:",
    "     svlan_id:",
    "     mpls:",
    "     imix_size_counts:",
];

/// A thread file, less the names of other sequences' devices.
fn own(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}

pub(super) fn lines(what: &str, theirs: Vec<String>, ours: Vec<String>) -> Option<String> {
    let longest = theirs.len().max(ours.len());
    let pair = |at: usize| (theirs.get(at), ours.get(at));
    let (theirs, ours) = (0..longest).map(pair).find(|(theirs, ours)| theirs != ours)?;
    Some(format!("{what}\n  kernel   {theirs:?}\n  wirerate {ours:?}"))
}

fn frames(sequence: &Sequence, theirs: &[Vec<u8>], ours: &[Vec<u8>]) -> Option<String> {
    if theirs.len() != ours.len() {
        return Some(format!("frames\n  kernel   {}\n  wirerate {}", theirs.len(), ours.len()));
    }
    if sequence.is_random {
        return None;
    }
    let differs = |(theirs, ours): &(&Vec<u8>, &Vec<u8>)| without_stamp(theirs) != without_stamp(ours);
    let at = theirs.iter().zip(ours).position(|pair| differs(&pair))?;
    Some(format!("frame {at}\n  kernel   {}\n  wirerate {}", hex(&theirs[at]), hex(&ours[at])))
}

/// A frame whose time, and the checksum over it, are zero.
pub(super) fn without_stamp(frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    if let Some(at) = frame.windows(4).position(|window| window == MAGIC) {
        let end = frame.len().min(at + 16);
        frame[(at + 8).min(end)..end].fill(0);
        // The UDP header ends where the magic begins.
        if at >= 2 && frame[at - 2..at] != [0, 0] {
            frame[at - 2..at].fill(0xcc);
        }
    }
    frame
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A line whose times and rates are `#`; counts and lengths stay.
pub(super) fn without_times(line: &str) -> String {
    line.split('\n').map(one_line).collect::<Vec<_>>().join("\n")
}

fn one_line(line: &str) -> String {
    let text = line.trim_start().trim_start_matches("Result: ");
    if text.starts_with("started:") {
        return without_numbers(line);
    }
    if text.starts_with("OK: ") && text.contains(" (") && text.contains("frags)") {
        let (times, rest) = line.split_once(", ").unwrap_or((line, ""));
        return format!("{}, {rest}", without_numbers(times));
    }
    if text.contains("pps ") && text.contains("errors: ") {
        let (rates, errors) = line.split_once("errors: ").unwrap_or((line, ""));
        return format!("{}errors: {errors}", without_numbers(rates));
    }
    line.to_owned()
}

fn without_numbers(text: &str) -> String {
    let mut out = String::new();
    for char in text.chars() {
        match char.is_ascii_digit() {
            true if out.ends_with('#') => {}
            true => out.push('#'),
            false => out.push(char),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_rates_are_left_out_and_counts_are_not() {
        let theirs =
            "OK: 17(c5+d12) usec, 10 (60byte,0frags)\n  588235pps 282Mb/sec (282352800bps) errors: 0\n";
        let ours = "OK: 9(c9+d0) usec, 10 (60byte,0frags)\n  1111111pps 533Mb/sec (533333280bps) errors: 0\n";
        assert_eq!(without_times(theirs), without_times(ours));
        assert_ne!(without_times(theirs), without_times(&ours.replace("10 (", "11 (")));
        assert_ne!(without_times(theirs), without_times(&ours.replace("errors: 0", "errors: 1")));
        assert_eq!(without_times("OK: count=12"), "OK: count=12");
    }

    #[test]
    fn a_stamp_is_no_difference_and_a_sequence_number_is() {
        let frame = |seq: u8, time: u8| {
            [&[1, 2, 0x12, 0x34], &MAGIC[..], &[0, 0, 0, seq, time, 1, 2, 3, 4, 5, 6, 7]].concat()
        };
        assert_eq!(without_stamp(&frame(1, 1)), without_stamp(&frame(1, 9)));
        assert_ne!(without_stamp(&frame(1, 1)), without_stamp(&frame(2, 1)));
        assert_eq!(without_stamp(&[1, 2, 3]), [1, 2, 3]);
    }
}
