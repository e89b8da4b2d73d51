//! Namespaces and what is in them, on the real kernel. Needs root; makes and removes its own namespaces.

use host::{HostError, MacAddr, Netns, NewRoute, Stack, VethEnd};
use std::net::IpAddr;

/// A namespace with a name that goes away with the value, also when a test panics.
struct Named(String);

impl Named {
    fn new(what: &str) -> (Self, Netns) {
        let name = format!("wrh-{}-{what}", std::process::id());
        let netns = Netns::create(&name).unwrap();
        (Self(name), netns)
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        let _ = Netns::remove(&self.0);
    }
}

/// True when this process may make namespaces; otherwise says so, and fails where CI promised the right.
fn may_make_namespaces() -> bool {
    match Netns::anonymous() {
        Ok(_) => true,
        Err(error) if error.errno() == Some(libc::EPERM) => {
            println!("skip: needs CAP_NET_ADMIN");
            assert!(std::env::var("CI").as_deref() != Ok("true"), "CI must be able to make namespaces");
            false
        }
        Err(error) => panic!("{error}"),
    }
}

fn end(name: &str) -> VethEnd<'_> {
    VethEnd { name, mac: None, queues: 1, mtu: None }
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Two stacks in private namespaces with veth `a` in the first and `b` in the second, both up.
fn pair() -> (Stack, Stack) {
    let (near, far) = (Netns::anonymous().unwrap(), Netns::anonymous().unwrap());
    let (near, far) = (Stack::of(&near).unwrap(), Stack::of(&far).unwrap());
    near.create_veth(&end("a"), &end("b"), far.netns()).unwrap();
    near.set_up("a").unwrap();
    far.set_up("b").unwrap();
    (near, far)
}

#[test]
fn a_named_namespace_can_be_found_entered_and_removed() {
    if !may_make_namespaces() {
        return;
    }
    let (named, netns) = Named::new("named");
    assert_eq!(Netns::named(&named.0).unwrap(), netns);
    assert!(Netns::exists(&named.0) && Netns::names().unwrap().contains(&named.0));
    assert_ne!(Netns::current().unwrap(), netns);
    let inside = netns.run(|| Netns::current().unwrap().id()).unwrap();
    assert_eq!(inside, netns.id());
    let again = Netns::create(&named.0).unwrap_err();
    assert_eq!(again.errno(), Some(libc::EEXIST), "{again}");
    Netns::remove(&named.0).unwrap();
    assert!(!Netns::exists(&named.0));
    assert!(matches!(Netns::remove(&named.0), Err(HostError::NoNetns { .. })));
    // The handle keeps the namespace itself.
    assert_eq!(
        Stack::of(&netns).unwrap().links().unwrap().len(),
        count_of_links(&Netns::anonymous().unwrap())
    );
}

fn count_of_links(netns: &Netns) -> usize {
    Stack::of(netns).unwrap().links().unwrap().len()
}

#[test]
fn ip_netns_sees_what_we_made_and_we_see_what_it_made() {
    if !may_make_namespaces() {
        return;
    }
    let Ok(listing) = std::process::Command::new("ip").args(["netns", "list"]).output() else {
        println!("skip: needs the program ip");
        assert!(std::env::var("CI").as_deref() != Ok("true"), "CI must have iproute2");
        return;
    };
    assert!(listing.status.success());
    let (ours, _) = Named::new("ours");
    let listing = std::process::Command::new("ip").args(["netns", "list"]).output().unwrap();
    assert!(String::from_utf8_lossy(&listing.stdout).contains(&ours.0));
    let theirs = Named(format!("wrh-{}-theirs", std::process::id()));
    let made = std::process::Command::new("ip").args(["netns", "add", &theirs.0]).status().unwrap();
    assert!(made.success());
    assert!(Netns::named(&theirs.0).is_ok());
    Netns::remove(&theirs.0).unwrap();
    let listing = std::process::Command::new("ip").args(["netns", "list"]).output().unwrap();
    assert!(!String::from_utf8_lossy(&listing.stdout).contains(&theirs.0));
}

#[test]
fn a_veth_pair_has_what_was_asked_for_and_knows_its_peer() {
    if !may_make_namespaces() {
        return;
    }
    let (near, far) = (Netns::anonymous().unwrap(), Netns::anonymous().unwrap());
    let (near, far) = (Stack::of(&near).unwrap(), Stack::of(&far).unwrap());
    let mac = MacAddr([2, 0, 0, 0, 0, 0x0a]);
    let a = VethEnd { name: "a", mac: Some(mac), queues: 4, mtu: Some(2000) };
    near.create_veth(&a, &VethEnd { queues: 3, ..end("b") }, far.netns()).unwrap();

    let (a, b) = (near.link("a").unwrap(), far.link("b").unwrap());
    assert_eq!((a.mac, a.mtu, a.tx_queues, a.rx_queues), (Some(mac), 2000, 4, 4));
    assert_eq!((b.mtu, b.tx_queues, b.rx_queues), (1500, 3, 3));
    assert!(a.is_kind("veth") && !a.is_up() && !a.has_carrier());
    assert_eq!(a.peer.unwrap().index, b.index);
    assert_eq!(a.peer.unwrap().netns_number, near.number_of(far.netns()).unwrap());
    let seen = near.peer(&a).unwrap().unwrap();
    assert_eq!((seen.name.as_str(), seen.index), ("b", b.index));

    near.set_up(&a).unwrap();
    assert!(near.link(&a).unwrap().is_up() && !near.link(&a).unwrap().has_carrier());
    far.set_up("b").unwrap();
    assert!(near.link(&a).unwrap().has_carrier());
    assert!(far.link("b").unwrap().has_carrier());
    near.set_down(&a).unwrap();
    assert!(!near.link(&a).unwrap().is_up());
}

#[test]
fn a_veth_pair_inside_one_namespace_has_a_peer_without_number() {
    if !may_make_namespaces() {
        return;
    }
    let stack = Stack::of(&Netns::anonymous().unwrap()).unwrap();
    stack.create_veth(&end("a"), &end("b"), stack.netns()).unwrap();
    let a = stack.link("a").unwrap();
    assert_eq!(a.peer.unwrap().netns_number, None);
    assert_eq!(stack.peer(&a).unwrap().unwrap().name, "b");
}

#[test]
fn a_device_can_be_changed_renamed_moved_and_deleted() {
    if !may_make_namespaces() {
        return;
    }
    let (near, far) = pair();
    let a = near.link("a").unwrap();
    let mac = MacAddr([2, 0, 0, 0, 0, 7]);
    near.set_mac("a", mac).unwrap();
    near.set_mtu("a", 1400).unwrap();
    near.set_down("a").unwrap();
    near.rename("a", "c").unwrap();
    let c = near.link(&a).unwrap();
    assert_eq!((c.name.as_str(), c.mac, c.mtu), ("c", Some(mac), 1400));
    assert!(near.find_link("a").unwrap().is_none());
    near.move_link("c", far.netns()).unwrap();
    assert!(near.find_link("c").unwrap().is_none());
    far.delete_link("c").unwrap();
    assert!(far.find_link("b").unwrap().is_none(), "the peer goes with it");
    assert!(matches!(far.delete_link("c"), Err(HostError::NoLink { .. })));
    assert!(matches!(far.set_mtu("c", 1400), Err(HostError::NoLink { .. })));
}

#[test]
fn refusals_say_what_the_kernel_said() {
    if !may_make_namespaces() {
        return;
    }
    let (near, far) = pair();
    let error = near.create_veth(&end("a"), &end("b"), far.netns()).unwrap_err();
    assert_eq!(error.errno(), Some(libc::EEXIST), "{error}");
    let HostError::Refused { source, .. } = near.set_mtu("a", 5).unwrap_err() else { panic!("not refused") };
    assert_eq!(source.errno, libc::EINVAL);
    assert_eq!(source.detail.as_deref(), Some("mtu less than device minimum"));
    near.add_address("a", ip("192.0.2.1"), 24).unwrap();
    assert_eq!(near.add_address("a", ip("192.0.2.1"), 24).unwrap_err().errno(), Some(libc::EEXIST));
    let route = NewRoute { destination: ip("198.51.100.0"), prefix_len: 24, via: Some(ip("203.0.113.9")) };
    assert_eq!(near.add_route("a", &route).unwrap_err().errno(), Some(libc::ENETUNREACH));
}
