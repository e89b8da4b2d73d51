//! Completion scripts in their shells: devices of a namespace, namespaces, options, files.

use crate::lab::{Lab, Peer, TX_DEV};
use crate::program::{Running, wirerate, wirerate_run};
use crate::{Case, TestResult, case};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Tests of completion scripts.
pub(crate) const CASES: &[Case] = &[
    case("completions::bash_completes_devices_and_namespaces", &["bash"], bash),
    case("completions::zsh_completes_devices_and_namespaces", &["zsh"], zsh),
    case("completions::fish_completes_devices_and_namespaces", &["fish"], fish),
];

/// Bash calls the function with the line and the place of the cursor.
const BASH: &str = r#"source "$SCRIPT"; COMP_LINE=$LINE COMP_POINT=${#LINE}
_wirerate; printf '%s\n' "${COMPREPLY[@]}""#;

/// The functions that zsh offers to completion functions are replaced by ones that print.
const ZSH: &str = r#"compdef() { } ; _describe() { print -rl -- "${(@P)2}" } ; _files() { print files }
_normal() { print "command $words[CURRENT]" }
source $SCRIPT; words=("${(@s: :)LINE}"); CURRENT=$#words; _wirerate"#;

const FISH: &str = r#"source $SCRIPT; complete -C "$LINE""#;

/// What the shell offers for `line`, without help texts.
fn offered(lab: &Lab, shell: &str, glue: &str, line: &str) -> Vec<String> {
    let script = lab.file(&format!("wirerate.{shell}"));
    std::fs::write(&script, wirerate_run(&format!("completions {shell}")).expect_code(0).stdout)
        .expect("the folder is ours");
    let binary = wirerate().get_program().to_owned();
    let folder = Path::new(&binary).parent().expect("the binary is in a folder").display().to_string();
    let mut command = Command::new(shell);
    if shell == "zsh" {
        command.arg("-f");
    }
    command.args(["-c", glue]).env("SCRIPT", &script).env("LINE", line);
    command.env("PATH", format!("{folder}:{}", std::env::var("PATH").unwrap_or_default()));
    let outcome = Running::start(command).wait(Duration::from_secs(60)).expect_code(0);
    outcome.stdout.lines().map(|line| line.split(['\t', ':']).next().unwrap_or_default().to_owned()).collect()
}

fn check(shell: &str, glue: &str) -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let netns = &lab.tx_netns;
    let of = |line: &str| offered(&lab, shell, glue, line);
    assert_eq!(of(&format!("wirerate send --netns {netns} t")), [TX_DEV]);
    assert_eq!(of(&format!("wirerate capture -w x --netns {netns} t")), [TX_DEV]);
    assert_eq!(of(&format!("wirerate sink --netns {}", &netns[..netns.len() - 1])), [netns.as_str()]);
    assert_eq!(of("wirerate help cap"), ["capture"]);
    assert_eq!(of("wirerate help commands clone"), ["clone_skb"]);
    assert_eq!(of("wirerate send lo --engine af_p"), ["af_packet"]);
    Ok(())
}

fn bash() -> TestResult {
    check("bash", BASH)?;
    let lab = Lab::new(Peer::Gro);
    let commands = offered(&lab, "bash", BASH, "wirerate exec -- bas");
    assert!(commands.iter().any(|command| command == "bash"), "{commands:?}");
    Ok(())
}

fn zsh() -> TestResult {
    check("zsh", ZSH)?;
    let lab = Lab::new(Peer::Gro);
    assert_eq!(offered(&lab, "zsh", ZSH, "wirerate capture lo -w x"), ["files"]);
    assert_eq!(offered(&lab, "zsh", ZSH, "wirerate exec -- bas"), ["command bas"]);
    Ok(())
}

fn fish() -> TestResult {
    check("fish", FISH)
}
