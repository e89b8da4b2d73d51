//! What the tests that touch the kernel share.

use host::Netns;
use std::io::Write;

/// True when this process may make namespaces; otherwise says so, and fails where CI promised the right.
pub(crate) fn may_make_namespaces() -> bool {
    match Netns::anonymous() {
        Ok(_) => true,
        Err(error) if error.errno() == Some(libc::EPERM) => {
            skip("needs CAP_NET_ADMIN");
            false
        }
        Err(error) => panic!("{error}"),
    }
}

/// Says why a test does not run. CI has all that is needed, so there it is a failure.
pub(crate) fn skip(why: &str) {
    assert!(std::env::var("CI").as_deref() != Ok("true"), "cannot run: {why}");
    // Not `eprintln!`, which the test runner keeps to itself when a test passes.
    let _ = writeln!(std::io::stderr(), "skip: {why}");
}
