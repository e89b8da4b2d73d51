//! Namespaces and what is in them, on the real kernel. Needs root; makes and removes its own
//! namespaces.

mod common;

use common::may_make_namespaces;
use host::{
    FEATURE_GRO, HostError, MacAddr, Netns, QueueUse, Stack, StampConfig, StampDriver, StampMode, VethEnd,
    switch_stamps,
};
use std::net::IpAddr;
use std::time::Duration;
use testkit::skip;

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
    testkit::needs!(may_make_namespaces());
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
    testkit::needs!(may_make_namespaces());
    let Ok(listing) = std::process::Command::new("ip").args(["netns", "list"]).output() else {
        return skip("needs the program ip");
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
    testkit::needs!(may_make_namespaces());
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
    testkit::needs!(may_make_namespaces());
    let stack = Stack::of(&Netns::anonymous().unwrap()).unwrap();
    stack.create_veth(&end("a"), &end("b"), stack.netns()).unwrap();
    let a = stack.link("a").unwrap();
    assert_eq!(a.peer.unwrap().netns_number, None);
    assert_eq!(stack.peer(&a).unwrap().unwrap().name, "b");
}

#[test]
fn a_device_can_be_changed_renamed_and_deleted() {
    testkit::needs!(may_make_namespaces());
    let (near, far) = pair();
    let a = near.link("a").unwrap();
    near.set_mtu("a", 1400).unwrap();
    near.set_down("a").unwrap();
    near.rename("a", "c").unwrap();
    let c = near.link(&a).unwrap();
    assert_eq!((c.name.as_str(), c.mtu), ("c", 1400));
    assert!(near.find_link("a").unwrap().is_none());
    near.delete_link("c").unwrap();
    assert!(far.find_link("b").unwrap().is_none(), "the peer goes with it");
    assert!(matches!(near.delete_link("c"), Err(HostError::NoLink { .. })));
    assert!(matches!(near.set_mtu("c", 1400), Err(HostError::NoLink { .. })));
}

#[test]
fn refusals_say_what_the_kernel_said() {
    testkit::needs!(may_make_namespaces());
    let (near, far) = pair();
    let error = near.create_veth(&end("a"), &end("b"), far.netns()).unwrap_err();
    assert_eq!(error.errno(), Some(libc::EEXIST), "{error}");
    let HostError::Refused { source, .. } = near.set_mtu("a", 5).unwrap_err() else { panic!("not refused") };
    assert_eq!(source.errno, libc::EINVAL);
    assert_eq!(source.detail.as_deref(), Some("mtu less than device minimum"));
    near.add_address("a", ip("192.0.2.1"), 24).unwrap();
    assert_eq!(near.add_address("a", ip("192.0.2.1"), 24).unwrap_err().errno(), Some(libc::EEXIST));
}

#[test]
fn gro_at_one_end_makes_the_other_accept_xdp_frames() {
    testkit::needs!(may_make_namespaces());
    let (near, far) = pair();
    let Some(before) = near.xdp_features("a").unwrap() else {
        return skip("needs a kernel with the netdev family (6.3)");
    };
    assert!(before.basic && !before.redirect_target);
    assert!(!far.features("b").unwrap().is_on(FEATURE_GRO));
    far.set_feature("b", FEATURE_GRO, true).unwrap();
    assert!(far.features("b").unwrap().is_on(FEATURE_GRO));
    assert!(near.xdp_features("a").unwrap().unwrap().redirect_target);
    far.set_feature("b", FEATURE_GRO, false).unwrap();
    assert!(!near.xdp_features("a").unwrap().unwrap().redirect_target);
}

/// What an engine asks where the kernel does not tell of drivers (before 6.3).
#[test]
fn the_far_end_of_a_veth_is_asked_whether_it_polls_where_its_namespace_has_a_name() {
    testkit::needs!(may_make_namespaces());
    let (near, far) = pair();
    assert_eq!(near.peer_polls(&near.link("a").unwrap()).unwrap(), None, "it has no name");
    assert_eq!(near.peer_polls(&near.link("lo").unwrap()).unwrap(), None, "no veth");
    drop(far);
    let (_named, netns) = Named::new("polls");
    let far = Stack::of(&netns).unwrap();
    near.create_veth(&end("c"), &end("d"), far.netns()).unwrap();
    for (on, polls) in [(false, Some(false)), (true, Some(true))] {
        far.set_feature("d", FEATURE_GRO, on).unwrap();
        assert_eq!(near.peer_polls(&near.link("c").unwrap()).unwrap(), polls);
        assert_eq!(far.peer_polls(&far.link("d").unwrap()).unwrap(), None, "the near end has no name");
    }
    near.create_veth(&end("e"), &end("f"), near.netns()).unwrap();
    assert_eq!(near.peer_polls(&near.link("e").unwrap()).unwrap(), Some(false));
    near.set_feature("f", FEATURE_GRO, true).unwrap();
    assert_eq!(near.peer_polls(&near.link("e").unwrap()).unwrap(), Some(true));
}

#[test]
fn drivers_tell_who_they_are_and_what_they_counted() {
    testkit::needs!(may_make_namespaces());
    let (near, far) = (Netns::anonymous().unwrap(), Netns::anonymous().unwrap());
    let (near, far) = (Stack::of(&near).unwrap(), Stack::of(&far).unwrap());
    near.create_veth(&VethEnd { queues: 3, ..end("a") }, &end("b"), far.netns()).unwrap();
    assert_eq!(near.driver("a").unwrap().unwrap().name, "veth");
    assert_eq!(near.driver("a").unwrap(), near.driver(near.link("a").unwrap().index).unwrap());
    let counters = near.driver_counters("a").unwrap();
    for name in ["peer_ifindex", "rx_queue_0_xdp_packets", "rx_queue_2_xdp_drops"] {
        assert!(counters.iter().any(|(found, _)| found == name), "no {name} in {counters:?}");
    }
    let (_, peer) = counters.iter().find(|(name, _)| name == "peer_ifindex").unwrap();
    assert_eq!(*peer, u64::from(far.link("b").unwrap().index));
    assert_eq!(near.queues("a").unwrap(), QueueUse { tx: 3, rx: 3 });
    assert_eq!(near.queues("lo").unwrap(), QueueUse { tx: 1, rx: 1 });
    assert_eq!(near.driver("lo").unwrap(), None);
    assert_eq!(near.driver_counters("lo").unwrap(), []);
    assert_eq!(near.speed_bps("a").unwrap(), Some(10_000_000_000));
    assert_eq!(near.speed_bps("lo").unwrap(), None);
    let time = near.timestamping("a").unwrap();
    assert!(!time.is_hardware_receive() && time.abilities.iter().any(|able| able == "software-receive"));
    for device in ["a", "lo"] {
        let stamps = near.stamps(device).unwrap();
        assert_eq!(stamps.config().unwrap(), None, "{device}");
        let error = switch_stamps(&stamps, StampMode::All).unwrap_err();
        assert!(matches!(error, HostError::NoStamps { .. }), "{error}");
        assert!(!switch_stamps(&stamps, StampMode::Off).unwrap().now.is_receive_on());
        // The kernel's own answer: neither way in is closed by a mistake of ours.
        assert_eq!(stamps.set(StampConfig::default()).unwrap_err().errno(), Some(libc::EOPNOTSUPP));
    }
    assert!(matches!(near.stamps("zz"), Err(HostError::NoLink { .. })));
    for error in [near.driver("zz").unwrap_err(), near.speed_bps("zz").unwrap_err()] {
        assert!(matches!(error, HostError::NoLink { .. }), "{error}");
    }
}

#[test]
fn features_that_cannot_change_are_an_error() {
    testkit::needs!(may_make_namespaces());
    let (near, _far) = pair();
    near.set_feature("a", "tx-checksum-ip-generic", false).unwrap();
    assert!(!near.features("a").unwrap().is_on("tx-checksum-ip-generic"));
    let features = near.features("lo").unwrap();
    assert!(features.is_on("loopback"));
    let error = near.set_feature("lo", "loopback", false).unwrap_err();
    assert!(matches!(error, HostError::FeatureFixed { .. }), "{error}");
    let unknown = near.set_feature("a", "warp-drive", true).unwrap_err();
    assert!(matches!(unknown, HostError::Refused { .. }), "{unknown}");
}

#[test]
fn addresses_are_listed_in_order_and_make_the_facts() {
    testkit::needs!(may_make_namespaces());
    let (near, far) = (Netns::anonymous().unwrap(), Netns::anonymous().unwrap());
    let (near, far) = (Stack::of(&near).unwrap(), Stack::of(&far).unwrap());
    near.netns().set_sysctl("ipv6/conf/default/addr_gen_mode", "1").unwrap();
    let mac = MacAddr([2, 0, 0, 0, 0, 1]);
    near.create_veth(&VethEnd { mac: Some(mac), queues: 2, ..end("a") }, &end("b"), far.netns()).unwrap();
    near.set_up("a").unwrap();
    assert_eq!(near.addresses("a").unwrap(), []);
    for (address, prefix_len) in [("198.18.0.1", 24), ("198.18.9.1", 16), ("2001:2::1", 64), ("fe80::5", 64)]
    {
        near.add_address("a", ip(address), prefix_len).unwrap();
    }
    let found = near.addresses("a").unwrap();
    assert_eq!(found.len(), 4);
    assert!(found.iter().all(|address| address.usable), "no detection was asked for: {found:?}");
    let facts = near.facts("a").unwrap();
    assert_eq!((facts.mac, facts.tx_queues), (mac, 2));
    assert_eq!(facts.v4.map(IpAddr::from), Some(ip("198.18.0.1")));
    assert_eq!(facts.v6_link_local.map(IpAddr::from), Some(ip("fe80::5")));
    assert_eq!(near.facts("lo").unwrap().mac, MacAddr::ZERO);
}

/// Adds a route through `a`.
fn add_route(stack: &Stack, route: &str) {
    let words: Vec<&str> = "route add".split(' ').chain(route.split(' ')).chain(["dev", "a"]).collect();
    let status = stack.netns().run(|| std::process::Command::new("ip").args(words).status());
    assert!(status.expect("the namespace can be entered").expect("ip can be run").success());
}

#[test]
fn the_next_hop_comes_from_routes_and_neighbours() {
    testkit::needs!(may_make_namespaces());
    let (near, _far) = pair();
    near.add_address("a", ip("198.18.0.1"), 24).unwrap();
    near.add_address("a", ip("2001:2::1"), 64).unwrap();
    add_route(&near, "203.0.113.0/24 via 198.18.0.9");
    add_route(&near, "2001:db8::/24 via 2001:2::9");
    let hop = near.next_hop("a", ip("203.0.113.5")).unwrap();
    assert_eq!((hop.ip, hop.mac), (ip("198.18.0.9"), None));
    let mac = MacAddr([2, 0, 0, 0, 0, 9]);
    for router in ["198.18.0.9", "2001:2::9"] {
        near.add_neighbour("a", ip(router), mac).unwrap();
    }
    assert_eq!(near.next_hop("a", ip("203.0.113.5")).unwrap().mac, Some(mac));
    assert_eq!(near.next_hop("a", ip("2001:db8::5")).unwrap().mac, Some(mac));
    assert_eq!(near.neighbour("a", ip("198.18.0.8")).unwrap(), None);
    // No route at all: as if on the link.
    assert_eq!(near.next_hop("a", ip("192.0.2.1")).unwrap().ip, ip("192.0.2.1"));
    for (destination, has_route) in [
        ("203.0.113.5", true),
        ("198.18.0.77", true),
        ("192.0.2.1", false),
        ("2001:db8::5", true),
        ("2001:2::77", true),
        ("3fff::1", false),
    ] {
        assert_eq!(near.has_route("a", ip(destination)).unwrap(), has_route, "{destination}");
    }
}

#[test]
fn the_kernel_asks_a_neighbour_for_us() {
    testkit::needs!(may_make_namespaces());
    let (near, far) = pair();
    near.add_address("a", ip("198.18.0.1"), 24).unwrap();
    far.add_address("b", ip("198.18.0.2"), 24).unwrap();
    assert_eq!(near.neighbour("a", ip("198.18.0.2")).unwrap(), None);
    let silent = near.resolve_first_neighbour("a", &[ip("198.18.0.77")], Duration::from_millis(20)).unwrap();
    assert_eq!(silent, None);
    let hosts = ["198.18.0.77", "198.18.0.2", "198.18.0.78"].map(ip);
    let found = near.resolve_first_neighbour("a", &hosts, Duration::from_secs(5)).unwrap();
    let mac = far.link("b").unwrap().mac.expect("a veth has a MAC address");
    assert_eq!(found, Some((ip("198.18.0.2"), mac)));
    assert_eq!(near.next_hop("a", ip("198.18.0.2")).unwrap().mac, Some(mac));
}

#[test]
fn the_device_of_the_default_route_is_known() {
    testkit::needs!(may_make_namespaces());
    for (address, prefix_len, all) in [("198.18.0.1", 24, "0.0.0.0/0"), ("2001:2::1", 64, "::/0")] {
        let (near, _far) = pair();
        near.add_address("a", ip(address), prefix_len).unwrap();
        assert_eq!(near.default_route_links().unwrap(), [0; 0]);
        assert!(!near.carries_default_route("a").unwrap());
        add_route(&near, all);
        assert_eq!(near.default_route_links().unwrap(), [near.link("a").unwrap().index]);
        assert!(near.carries_default_route("a").unwrap() && !near.carries_default_route("lo").unwrap());
    }
}

#[test]
fn the_state_of_a_device_of_another_namespace_is_read_whole() {
    testkit::needs!(may_make_namespaces());
    let (named, netns) = Named::new("state");
    let stack = Stack::of(&netns).unwrap();
    stack.create_veth(&end("a"), &end("b"), &netns).unwrap();
    let set = "echo 1 > /sys/class/net/a/queues/rx-0/rps_cpus";
    let status = std::process::Command::new("ip").args(["netns", "exec", &named.0, "sh", "-c", set]).status();
    assert!(status.expect("ip can be run").success());
    let state = stack.device_state("a").unwrap();
    assert_eq!(state.unknown, Vec::<String>::new());
    assert_eq!(state.steering.map(|steering| (steering.rps_queues, steering.xps_queues)), Some((1, 0)));
    assert_eq!(
        (state.peer.map(|peer| peer.name), state.is_default_route),
        (Some("b".to_owned()), Some(false))
    );
    assert_eq!(state.driver.map(|driver| driver.name), Some("veth".to_owned()));
    assert!(state.xdp.is_some_and(|xdp| xdp.basic && !xdp.redirect_target));
}
