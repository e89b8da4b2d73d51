//! VLAN tags of the frames, from the options of the user.

use super::job::SendJob;
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

/// The tags that `job` asks for, outermost first. Two ids of `--vlan` are a service tag (IEEE
/// 802.1ad) and a customer tag; `--svlan` is pktgen's outer tag, with the EtherType of a customer
/// tag.
///
/// # Errors
/// Bad usage for options that do not belong together.
pub fn tags(job: &SendJob) -> Result<Vec<VlanTag>, Failure> {
    let Some(ids) = job.vlan.as_ref().map(|ids| &ids.0) else { return Ok(Vec::new()) };
    let given = ids.iter().map(|id| id.0.to_string()).collect::<Vec<_>>().join(",");
    let act = |option: &str| format!("use {option} with --vlan {given}");
    if ids.len() > TAGS_MAX {
        let why = "options give a frame two tags at most; trafgen's packet language has more";
        return Err(Failure::usage(format!("use --vlan {given}"), why).try_this(format!(
            "--frame '{{ eth(da=02:00:00:00:00:02), vlan(id={}), vlan(id={}), vlan(id={}), ipv4(), udp() }}'",
            ids[0].0, ids[1].0, ids[2].0
        )));
    }
    if let (Some(svlan), true) = (job.svlan, ids.len() > 1) {
        let why = "--vlan has the outer tag already";
        return Err(Failure::usage(act(&format!("--svlan {svlan}")), why).try_this(format!("--vlan {given}")));
    }
    let priorities = job.vlan_prio.as_ref().map_or(&[][..], |list| &list.0);
    let types = job.vlan_type.as_ref().map_or(&[][..], |list| &list.0);
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
        dei: job.vlan_dei,
    };
    let outer = job.svlan.map(|id| VlanTag {
        ethertype: VlanType::CUSTOMER,
        id,
        priority: job.svlan_prio,
        dei: job.svlan_dei,
    });
    Ok(outer.into_iter().chain(ids.iter().enumerate().map(tag)).collect())
}

/// The note about pktgen's outer tag, if the frames have one.
pub fn note(job: &SendJob) -> Option<String> {
    let [VlanId(inner)] = job.vlan.as_ref()?.0[..] else { return None };
    let outer = job.svlan?;
    Some(format!("--svlan is 0x8100 twice, as in pktgen; --vlan {outer},{inner} is 802.1ad (0x88a8 outside)"))
}
