//! Every `try:` that the program prints in a test is a command line that its parser accepts.

use clap::error::ErrorKind;

/// Words that stand for a value of the user's.
const PLACEHOLDERS: [(&str, &str); 5] =
    [("ADDRESS", "10.0.0.1"), ("MAC", "02:00:00:00:00:01"), ("N", "1"), ("TIME", "1s"), ("RATE", "1G")];

/// Options of docker.
const DOCKER: [&str; 1] = ["--device"];

/// Fails for advice in `stderr` that the program would reject.
#[track_caller]
pub(crate) fn check(stderr: &str) {
    for advice in stderr.lines().filter_map(|line| line.trim_start().strip_prefix("try: ")) {
        if let Err(why) = accepted(advice) {
            panic!("`{advice}` does not work when pasted: {why}");
        }
    }
}

/// Commands are between backquotes, or the whole line without its remark. Other programs' commands
/// and advice that is no command are not looked at.
fn accepted(advice: &str) -> Result<(), String> {
    let quoted: Vec<&str> = advice.split('`').skip(1).step_by(2).collect();
    let whole = advice.split([',', '(']).next().unwrap_or(advice);
    let commands = if quoted.is_empty() { vec![whole] } else { quoted };
    for command in commands {
        if let Some((_, line)) = command.split_once("wirerate ") {
            parses(line)?;
        } else if command.starts_with("--") {
            is_option(command.split([' ', '=']).next().unwrap_or(command))?;
        }
    }
    Ok(())
}

fn parses(line: &str) -> Result<(), String> {
    let args =
        words(line).into_iter().map(|word| match PLACEHOLDERS.iter().find(|(name, _)| *name == word) {
            Some((_, value)) => (*value).into(),
            None => word.into(),
        });
    let args = ["wirerate".into()].into_iter().chain(args).collect();
    match wirerate::parser().try_get_matches_from(wirerate::other_tools::translated(args)) {
        Err(why) if !matches!(why.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            Err(why.to_string())
        }
        _ => Ok(()),
    }
}

fn is_option(option: &str) -> Result<(), String> {
    let name = option.trim_start_matches("--");
    let parser = wirerate::parser();
    let has_it = |command: &clap::Command| {
        command.get_arguments().any(|arg| {
            arg.get_long() == Some(name) || arg.get_all_aliases().unwrap_or_default().contains(&name)
        })
    };
    let is_known = DOCKER.contains(&option) || parser.get_subcommands().any(has_it);
    if is_known { Ok(()) } else { Err(format!("no command has {option}")) }
}

/// The words of a line up to a pipe or the like, with quotes as in a shell.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    for letter in line.chars() {
        match (quote, letter) {
            (Some(end), _) if letter == end => quote = None,
            (None, '\'' | '"') => quote = Some(letter),
            (None, '|' | '&' | ';' | '>') => break,
            (None, ' ') => words.push(std::mem::take(&mut word)),
            _ => word.push(letter),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

#[test]
fn advice_is_parsed_as_a_shell_and_the_program_would() {
    for advice in [
        "wirerate send DEV --dst 10.0.0.1 (on the other host)",
        "`wirerate capture eth0 -w - | tcpdump -n -v -r -`",
        "wirerate trafgen '{ eth() ipv4() }' -n 1 -o frames.pcap",
        "--count 1000 (frames)",
        "run it as root",
    ] {
        assert_eq!(accepted(advice), Ok(()), "{advice}");
    }
    for advice in ["wirerate send eth0 --dts 10.0.0.1", "--no-such-option 1", "`wirerate watch`"] {
        assert!(accepted(advice).is_err(), "{advice}");
    }
}
