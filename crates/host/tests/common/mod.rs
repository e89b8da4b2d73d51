//! What the tests that touch the kernel share.

use host::Netns;

/// True when this process may make namespaces; otherwise says so, and fails where CI promised the
/// right.
pub(crate) fn may_make_namespaces() -> bool {
    match Netns::anonymous() {
        Ok(_) => true,
        Err(error) if error.errno() == Some(libc::EPERM) => {
            testkit::skip("needs CAP_NET_ADMIN");
            false
        }
        Err(error) => panic!("{error}"),
    }
}
