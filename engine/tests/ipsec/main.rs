//! Frames sealed by wirerate, opened by a kernel: the proof that ESP and AH are what a receiver takes them for.
//!
//! Two namespaces with a veth pair. The sender's side holds the association (`ip xfrm state add`), wirerate reads
//! it and sends by it; the receiver's kernel holds the same one and a policy that lets nothing else in. What
//! arrives at a UDP socket there, with no error in `/proc/net/xfrm_stat`, was opened by the kernel.
//!
//! Needs root and a kernel with ESP and AH. Where this one has none, the tests run on Debian's kernel in a small
//! virtual machine (QEMU), whose only program is this one.

mod cases;
mod guest;
mod vm;

use cases::{CASES, Case};
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use std::collections::HashMap;
use std::sync::LazyLock;

/// How the cases ended, where they can be run at all.
enum Outcomes {
    /// Here, one after the other as they are asked for.
    Here,
    /// All at once in a virtual machine: by name, `None` for good.
    Elsewhere(HashMap<String, Option<String>>),
    /// Nowhere, and why.
    Missing(String),
}

fn main() {
    if std::process::id() == 1 {
        guest::main();
    }
    let mut arguments = Arguments::from_args();
    // Each case has the wire and the time for itself.
    arguments.test_threads = arguments.test_threads.or(Some(1));
    let trials = CASES.iter().map(|case| Trial::ignorable_test(case.name, || run(case))).collect();
    libtest_mimic::run(&arguments, trials).exit();
}

fn run(case: &Case) -> Result<Completion, Failed> {
    static OUTCOMES: LazyLock<Outcomes> = LazyLock::new(outcomes);
    match &*OUTCOMES {
        Outcomes::Here => case.run().map(|()| Completion::Completed),
        Outcomes::Elsewhere(all) => match all.get(case.name) {
            Some(None) => Ok(Completion::Completed),
            Some(Some(why)) => Err(why.into()),
            None => Err("the virtual machine ended before it".into()),
        },
        Outcomes::Missing(why) if std::env::var("CI").as_deref() == Ok("true") => {
            Err(format!("cannot run: {why}").into())
        }
        Outcomes::Missing(why) => Ok(Completion::ignored_with(format!("skip: {why}"))),
    }
}

fn outcomes() -> Outcomes {
    if !nix::unistd::geteuid().is_root() {
        return Outcomes::Missing("needs root".to_owned());
    }
    if cases::kernel_has_esp_and_ah() {
        return Outcomes::Here;
    }
    match vm::run() {
        Ok(all) => Outcomes::Elsewhere(all),
        Err(why) => Outcomes::Missing(why),
    }
}
