//! ESP and AH frames of wirerate, decrypted and verified by a kernel.
//!
//! Two namespaces with a veth pair. The sender's side holds the association (`ip xfrm state add`),
//! wirerate reads it and sends by it; the receiver's kernel holds the same one and a policy that
//! lets nothing else in. What arrives at a UDP socket there, with no error in
//! `/proc/net/xfrm_stat`, was opened by the kernel.
//!
//! One more case uses that the machine's kernel is an old one: `candidates`.
//!
//! Needs root and a kernel with ESP and AH. Where this one has none, the tests run on Debian's
//! kernel in a small virtual machine (QEMU), whose only program is this one.

mod candidates;
mod cases;
mod elsewhere;
mod guest;

use cases::CASES;
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use std::collections::HashMap;
use std::sync::LazyLock;

/// What is tried: a name, and what it does.
type Tried = (&'static str, Box<dyn Fn() -> Result<(), Failed>>);

/// Everything, in the order in which it is tried.
fn everything() -> Vec<Tried> {
    let cases = CASES.iter().map(|case| -> Tried { (case.name, Box::new(|| case.run())) });
    cases.chain([(candidates::NAME, Box::new(candidates::run) as Box<dyn Fn() -> _>)]).collect()
}

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
    let names = everything().into_iter().map(|(name, _)| name);
    let trials = names.map(|name| Trial::ignorable_test(name, move || run(name))).collect();
    libtest_mimic::run(&arguments, trials).exit();
}

fn run(name: &str) -> Result<Completion, Failed> {
    static OUTCOMES: LazyLock<Outcomes> = LazyLock::new(outcomes);
    match &*OUTCOMES {
        Outcomes::Here => match everything().into_iter().find(|(other, _)| *other == name) {
            Some((_, body)) => body().map(|()| Completion::Completed),
            None => Err(format!("there is no case {name}").into()),
        },
        Outcomes::Elsewhere(all) => match all.get(name) {
            Some(None) => Ok(Completion::Completed),
            Some(Some(why)) => Err(why.into()),
            None => Err("the virtual machine ended before it".into()),
        },
        Outcomes::Missing(why) => testkit::skip_trial(name, why),
    }
}

fn outcomes() -> Outcomes {
    if !nix::unistd::geteuid().is_root() {
        return Outcomes::Missing("needs root".to_owned());
    }
    if cases::kernel_has_esp_and_ah() {
        return Outcomes::Here;
    }
    match elsewhere::run() {
        Ok(all) => Outcomes::Elsewhere(all),
        Err(why) => Outcomes::Missing(why),
    }
}
