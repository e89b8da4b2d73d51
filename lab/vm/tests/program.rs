//! The program that runs the virtual machines, as `make vm` calls it.

use std::process::Command;

/// No machine is started, so this needs no kernel. Cargo builds the program for this test.
#[test]
fn help_names_the_kernels_and_starts_no_machine() {
    let help = Command::new(env!("CARGO_BIN_EXE_wirerate-vm")).arg("--help").output().expect("it starts");
    assert!(help.status.success());
    let text = String::from_utf8(help.stdout).expect("help is text");
    for word in ["6.1, 6.12, newest, or arm64", "--only <ONLY>", "--wirerate <WIRERATE>"] {
        assert!(text.contains(word), "no {word:?} in:\n{text}");
    }
}
