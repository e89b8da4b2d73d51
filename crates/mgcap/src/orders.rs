//! The words of `ip mgcap`: verbs may be cut short while it is clear which one is meant, `dev` may
//! be left out.

use std::fmt;

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MgcapOrder {
    /// Capture a device, in mirror mode.
    Start(String),
    /// Capture it no more.
    Stop(String),
    /// What becomes of captured frames.
    SetMode(String, String),
    /// Say what is captured: one device, or all.
    Show(Option<String>),
    /// Print the usage.
    Help,
}

impl MgcapOrder {
    /// An infinitive, for messages.
    pub fn act(&self) -> String {
        match self {
            Self::Start(device) => format!("capture {device}"),
            Self::Stop(device) => format!("end the capture of {device}"),
            Self::SetMode(device, mode) => format!("set the mode of {device} to {mode}"),
            Self::Show(_) => "show the captures".to_owned(),
            Self::Help => "print the usage".to_owned(),
        }
    }
}

/// The text that the hidden control file takes.
impl fmt::Display for MgcapOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start(device) => write!(f, "start {device}"),
            Self::Stop(device) => write!(f, "stop {device}"),
            Self::SetMode(device, mode) => write!(f, "set {device} mode {mode}"),
            Self::Show(_) => f.write_str("show"),
            Self::Help => f.write_str("help"),
        }
    }
}

/// What `ip mgcap` and `ip mgcap help` print.
pub(super) const USAGE: &str = "\
Usage: ip mgcap { start | stop } dev DEV
       ip mgcap set dev DEV mode { mirror | drop }
       ip mgcap show [ dev DEV ]
       ip mgcap help
";

const VERBS: [&str; 5] = ["start", "stop", "set", "show", "help"];

/// Reads the words.
///
/// # Errors
/// What is wrong with them, as the end of a sentence.
pub fn parse(words: &[String]) -> Result<MgcapOrder, String> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let Some((verb, rest)) = words.split_first() else { return Ok(MgcapOrder::Show(None)) };
    let meant: Vec<&str> = VERBS.into_iter().filter(|known| known.starts_with(verb)).collect();
    let verb = match meant[..] {
        [one] => one,
        [] => return Err(format!("\"{verb}\" is none of {}", VERBS.join(", "))),
        _ => return Err(format!("\"{verb}\" may be any of {}", meant.join(", "))),
    };
    let rest = match rest {
        ["dev", rest @ ..] => rest,
        rest => rest,
    };
    let own = |device: &&str| (*device).to_owned();
    match (verb, rest) {
        ("help", _) => Ok(MgcapOrder::Help),
        ("show", []) => Ok(MgcapOrder::Show(None)),
        ("show", [device]) => Ok(MgcapOrder::Show(Some(own(device)))),
        ("start", [device]) => Ok(MgcapOrder::Start(own(device))),
        ("stop", [device]) => Ok(MgcapOrder::Stop(own(device))),
        ("set", [device, "mode", mode]) if ["mirror", "drop"].contains(mode) => {
            Ok(MgcapOrder::SetMode(own(device), own(mode)))
        }
        ("set", [_, "mode", mode]) => Err(format!("\"{mode}\" is neither mirror nor drop")),
        ("set", [_]) | ("set", [_, "mode"]) => Err("the mode is missing: mirror or drop".to_owned()),
        (_, []) => Err("\"dev\" must be specified".to_owned()),
        (_, [.., last]) => Err(format!("\"{last}\" is a word too many")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(text: &str) -> Result<String, String> {
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        parse(&words).map(|order| order.to_string())
    }

    #[test]
    fn the_documents_lines_are_understood() {
        for (text, expected) in [
            ("start dev lo", "start lo"),
            ("stop dev lo", "stop lo"),
            ("set dev enp1s0f1 mode drop", "set enp1s0f1 mode drop"),
            ("sta lo", "start lo"),
            ("se dev dev mode mirror", "set dev mode mirror"),
            ("show", "show"),
            ("sh dev lo", "show"),
            ("", "show"),
            ("help", "help"),
        ] {
            assert_eq!(order(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn other_words_are_told_apart() {
        for (text, why) in [
            ("begin dev lo", "\"begin\" is none of start, stop, set, show, help"),
            ("st dev lo", "\"st\" may be any of start, stop"),
            ("start", "\"dev\" must be specified"),
            ("start dev", "\"dev\" must be specified"),
            ("start dev lo now", "\"now\" is a word too many"),
            ("set dev lo", "the mode is missing: mirror or drop"),
            ("set dev lo mode", "the mode is missing: mirror or drop"),
            ("set dev lo mode pass", "\"pass\" is neither mirror nor drop"),
        ] {
            assert_eq!(order(text), Err(why.to_owned()), "{text}");
        }
    }
}
