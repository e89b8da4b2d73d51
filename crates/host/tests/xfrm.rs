//! The kernel's IPsec associations, as far as every kernel has them. Needs root;
//! `crates/engine/tests/ipsec` reads real ones.

mod common;

use common::may_make_namespaces;
use host::{HostError, Netns, Stack};
use testkit::skip;

#[test]
fn a_new_namespace_has_no_associations() {
    testkit::needs!(may_make_namespaces());
    let stack = Stack::of(&Netns::anonymous().unwrap()).unwrap();
    match stack.associations() {
        Ok(none) => assert!(none.usable().is_empty()),
        Err(HostError::Missing { .. }) => skip("needs a kernel with CONFIG_XFRM_USER"),
        Err(error) => panic!("{error}"),
    }
}
