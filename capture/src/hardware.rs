//! What the hardware of a device could tell of each frame, and whether it is worth asking.
//!
//! Asking costs a call into the driver for each frame, so only what can have an answer is asked: tags where the device
//! takes them off, time stamps where it makes some.

use bpf::capture::Ask;
use host::{Features, Link, Stack, XdpFeatures};

/// ethtool's names for "tags are taken off received frames".
const STRIPS: [&str; 2] = ["rx-vlan-hw-parse", "rx-vlan-stag-hw-parse"];

/// What to ask about frames of `link`, a device of `stack`. What the kernel does not tell is not asked.
pub(crate) fn ask(stack: &Stack, link: &Link, wants_time: bool) -> Option<Ask> {
    let able = stack.xdp_features(link).ok().flatten()?;
    let features = stack.features(link).unwrap_or_default();
    worth_asking(link.index, &able, &features, wants_time)
}

fn worth_asking(ifindex: u32, able: &XdpFeatures, features: &Features, wants_time: bool) -> Option<Ask> {
    let strips = STRIPS.iter().any(|name| features.is_on(name));
    let ask = Ask { ifindex, time: wants_time && able.rx_timestamp, vlan: strips && able.rx_vlan_tag };
    (ask.time || ask.vlan).then_some(ask)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_have_an_answer_is_not_asked() {
        let able =
            |rx_timestamp, rx_vlan_tag| XdpFeatures { rx_timestamp, rx_vlan_tag, ..XdpFeatures::default() };
        let keeps = Features::default();
        let strips = Features::with_active(&["rx-vlan-hw-parse"]);
        let asked = |able: &XdpFeatures, features, wants_time| {
            worth_asking(3, able, features, wants_time).map(|ask| (ask.time, ask.vlan))
        };
        assert_eq!(asked(&able(true, true), &strips, true), Some((true, true)));
        assert_eq!(asked(&able(true, true), &strips, false), Some((false, true)));
        assert_eq!(asked(&able(true, true), &keeps, true), Some((true, false)));
        assert_eq!(asked(&able(false, true), &strips, true), Some((false, true)));
        for (able, features) in [(able(false, false), &strips), (able(false, true), &keeps)] {
            assert_eq!(asked(&able, features, true), None);
        }
    }
}
