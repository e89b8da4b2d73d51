//! What the program says: help, version and error texts, compared with `tests/golden`. `UPDATE=1` rewrites them.

use std::path::Path;
use std::process::{Command, Stdio};

struct Said {
    status: i32,
    stdout: String,
    stderr: String,
}

fn wirerate(args: &[&str]) -> Said {
    let output = Command::new(env!("CARGO_BIN_EXE_wirerate"))
        .args(args)
        .stdin(Stdio::null())
        .env_remove("COLUMNS")
        .output()
        .expect("the binary under test starts");
    Said {
        status: output.status.code().expect("it was not killed"),
        stdout: String::from_utf8(output.stdout).expect("it prints UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("it prints UTF-8"),
    }
}

/// Compares everything `args` makes the program say with the golden file `name`.
fn golden(name: &str, args: &[&str]) {
    let said = wirerate(args);
    let text =
        format!("$ wirerate {}\n{}{}exit code {}\n", args.join(" "), said.stdout, said.stderr, said.status);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &text).expect("the golden file can be written");
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, golden, "{} changed; UPDATE=1 rewrites it, then look at the diff", path.display());
}

#[test]
fn version() {
    golden("version.txt", &["--version"]);
}

#[test]
fn help() {
    golden("help.txt", &["--help"]);
}

#[test]
fn no_command_is_bad_usage() {
    golden("no_command.txt", &[]);
}

#[test]
fn unknown_command_is_bad_usage() {
    golden("unknown_command.txt", &["sned", "eth0"]);
    golden("help_unknown_command.txt", &["help", "sned"]);
}

#[test]
fn man_page_and_completions_name_every_command() {
    for args in [&["man"][..], &["completions", "bash"], &["completions", "zsh"], &["completions", "fish"]] {
        let said = wirerate(args);
        assert_eq!(said.status, 0, "{args:?}: {}", said.stderr);
        assert!(said.stdout.contains("help"), "{args:?}");
    }
}
