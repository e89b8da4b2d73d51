//! VLAN tags of the frames, from the options of the user.

use super::args::Args;
use program::outcome::Failure;
use units::{VlanId, VlanType};

/// Tags of a frame.
const TAGS_MAX: usize = 2;

/// A VLAN tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VlanTag {
    /// Its EtherType.
    pub ethertype: VlanType,
    /// The id.
    pub id: u16,
    /// The priority.
    pub priority: u8,
    /// The drop eligible indicator.
    pub dei: bool,
}

/// The tags that `args` ask for, outermost first. Two ids of `--vlan` are a service tag (IEEE
/// 802.1ad) and a customer tag; `--svlan` is pktgen's outer tag, with the EtherType of a customer
/// tag.
///
/// # Errors
/// Bad usage for options that do not belong together.
pub fn tags(args: &Args) -> Result<Vec<VlanTag>, Failure> {
    let Some(ids) = args.vlan.as_ref().map(|ids| &ids.0) else { return Ok(Vec::new()) };
    let given = ids.iter().map(|id| id.0.to_string()).collect::<Vec<_>>().join(",");
    let act = |option: &str| format!("use {option} with --vlan {given}");
    if ids.len() > TAGS_MAX {
        let why = "options give a frame two tags at most; trafgen's packet language has more";
        return Err(Failure::usage(format!("use --vlan {given}"), why).try_this(format!(
            "--frame '{{ eth(da=02:00:00:00:00:02), vlan(id={}), vlan(id={}), vlan(id={}), ipv4(), udp() }}'",
            ids[0].0, ids[1].0, ids[2].0
        )));
    }
    if let (Some(svlan), true) = (args.svlan, ids.len() > 1) {
        let why = "--vlan has the outer tag already";
        return Err(Failure::usage(act(&format!("--svlan {svlan}")), why).try_this(format!("--vlan {given}")));
    }
    let priorities = args.vlan_prio.as_ref().map_or(&[][..], |list| &list.0);
    let types = args.vlan_type.as_ref().map_or(&[][..], |list| &list.0);
    for (option, count) in [("--vlan-prio", priorities.len()), ("--vlan-type", types.len())] {
        if count > 1 && count != ids.len() {
            let why = format!("it has {count} values for {} tags", ids.len());
            return Err(Failure::usage(act(option), why).try_this("one value for each tag, outermost first"));
        }
    }
    let defaults =
        if ids.len() > 1 { [VlanType::SERVICE, VlanType::CUSTOMER] } else { [VlanType::CUSTOMER; 2] };
    let tag = |(index, id): (usize, &VlanId)| VlanTag {
        ethertype: types.get(index).copied().unwrap_or(defaults[index]),
        id: id.0,
        // One priority is that of all tags; one type is that of the outer tag.
        priority: priorities.get(index).or(priorities.first()).map_or(0, |priority| priority.0),
        dei: args.vlan_dei,
    };
    let outer = args.svlan.map(|id| VlanTag {
        ethertype: VlanType::CUSTOMER,
        id,
        priority: args.svlan_prio,
        dei: args.svlan_dei,
    });
    Ok(outer.into_iter().chain(ids.iter().enumerate().map(tag)).collect())
}

/// The note about pktgen's outer tag, if the frames have one.
pub fn note(args: &Args) -> Option<String> {
    let [VlanId(inner)] = args.vlan.as_ref()?.0[..] else { return None };
    let outer = args.svlan?;
    Some(format!("--svlan is 0x8100 twice, as in pktgen; --vlan {outer},{inner} is 802.1ad (0x88a8 outside)"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use program::args_of;

    fn text(words: &str) -> Result<String, Failure> {
        let args: Args = args_of(&format!("veth0 --dst 10.0.0.1 {words}")).unwrap();
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
            assert!(args_of::<Args>(&format!("veth0 --dst 10.0.0.1 {bad}")).is_err(), "{bad}");
        }
    }
}
