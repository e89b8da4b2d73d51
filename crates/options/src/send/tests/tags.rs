//! Options of `send`: tags.

use super::job_of;
use program::outcome::Failure;
use sender::tags::*;

fn text(words: &str) -> Result<String, Failure> {
    let args = job_of(format!("veth0 --dst 10.0.0.1 {words}"));
    let text = |tag: VlanTag| {
        format!("{}:{}:{}{}", tag.ethertype, tag.id, tag.priority, if tag.dei { "d" } else { "" })
    };
    Ok(tags(&args)?.into_iter().map(text).collect::<Vec<_>>().join(" "))
}

#[test]
fn two_ids_are_a_service_tag_and_a_customer_tag() {
    for (words, expected) in [
        ("", ""),
        ("--vlan 5", "0x8100:5:0"),
        ("--vlan 5,6", "0x88a8:5:0 0x8100:6:0"),
        ("--vlan 5,6 --vlan-prio 3", "0x88a8:5:3 0x8100:6:3"),
        ("--vlan 5,6 --vlan-prio 3,1 --vlan-dei", "0x88a8:5:3d 0x8100:6:1d"),
        ("--vlan 5,6 --vlan-type 0x9100", "0x9100:5:0 0x8100:6:0"),
        ("--vlan 5,6 --vlan-type 802.1q,802.1ad", "0x8100:5:0 0x88a8:6:0"),
        ("--vlan 5 --vlan-type 802.1ad", "0x88a8:5:0"),
        ("--vlan 5 --svlan 6 --svlan-prio 2", "0x8100:6:2 0x8100:5:0"),
    ] {
        assert_eq!(text(words).unwrap(), expected, "{words}");
    }
    for (words, why) in [
        ("--vlan 1,2,3", "two tags at most"),
        ("--vlan 1,2 --svlan 3", "try: --vlan 1,2\n"),
        ("--vlan 1 --vlan-prio 1,2", "it has 2 values for 1 tags"),
    ] {
        let refusal = text(words).unwrap_err().to_string();
        assert!(refusal.contains(why), "{words}: {refusal}");
    }
    for bad in ["--vlan 4096", "--vlan 5,", "--vlan 5 --vlan-prio 8", "--vlan 5 --vlan-type 0x5ff"] {
        assert!(
            program::args_of::<crate::send::SendArgs>(&format!("veth0 --dst 10.0.0.1 {bad}")).is_err(),
            "{bad}"
        );
    }
}
