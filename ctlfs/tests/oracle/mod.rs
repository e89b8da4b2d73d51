//! What a real pktgen answered, replayed against the tree of `exec` (root, python3, `../shared/oracle`).
//!
//! Every step passes, but for those that wirerate answers in another way on purpose: they are listed here with
//! their row of `docs/differences.md`, and each of them has to differ.

use crate::dry;
use std::path::{Path, PathBuf};

/// Scenario, step, and why it differs.
const DIFFERENT: &[(&str, &[u32], &str)] = &[
    (
        "thread/rename",
        &[3, 4, 5, 7, 8, 9],
        "row 7: a renamed interface keeps its device instances and their suffix",
    ),
    ("xmit/veth", &[2, 3, 8, 9, 10, 11, 12], "row 8: no skb is shared, so veth may have clone_skb and burst"),
    ("flag/each", &[22], "row 10: NODE_ALLOC as the HOWTO has it"),
    ("device/unknown", &[9, 12, 13, 14], "row 10: svlan, dstmac and srcmac as the HOWTO has them"),
];

/// A tap carries no frames here, but it is a device that shares skbs.
const SETUP: &str = "ip link set lo up; ip tuntap add wrtap0 mode tap && ip link set wrtap0 up";

fn oracle() -> Option<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let found = here.ancestors().map(|dir| dir.join("shared/oracle")).find(|dir| dir.is_dir());
    if found.is_none() {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "../shared/oracle is missing");
        println!("skip: needs ../shared/oracle");
    }
    found
}

#[test]
fn the_tree_answers_as_a_real_pktgen_did() {
    let (Some(oracle), Some(mut command)) = (oracle(), dry::command("oracle")) else { return };
    let name = format!("wrdo{}", std::process::id());
    host::Netns::create(&name).unwrap();
    let replay = format!(
        "{SETUP}; exec python3 {0}/replay_commands.py --fresh --sharing-device wrtap0 {0}/commands.jsonl",
        oracle.display()
    );
    let output = command.args(["exec", "--netns", &name, "--", "sh", "-c", &replay]).output().unwrap();
    host::Netns::remove(&name).unwrap();
    let out = String::from_utf8_lossy(&output.stdout);
    let failed: Vec<_> = out.lines().filter(|line| !line.ends_with(" skipped")).collect();
    let mut expected = Vec::new();
    for (scenario, steps, _) in DIFFERENT {
        expected.extend(steps.iter().map(|step| format!("FAIL {scenario} step {step}: ")));
    }
    for line in &failed {
        assert!(expected.iter().any(|start| line.starts_with(start)), "{line}\n{output:?}");
    }
    for start in &expected {
        assert!(failed.iter().any(|line| line.starts_with(start)), "{start}differs no longer");
    }
    let summary = out.lines().last().unwrap_or_default();
    assert!(summary.ends_with(&format!(" passed, {} failed, 0 skipped", expected.len())), "{summary}");
    let passed: usize = summary.split(' ').next().and_then(|number| number.parse().ok()).unwrap();
    assert!(passed > 500, "{summary}");
}
