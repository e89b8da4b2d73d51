//! Fields of frames in the arguments: `--each-loop FIELD+=N`, `--split RULE`.

use crate::edit_args::fields::value;
use packet::MacAddr;
use replay::{InterfaceChoice, PerLoop, Prefix, SplitRule};
use std::num::NonZeroU64;
use std::str::FromStr;

const STEP_FIELDS: &str = "clients, dst, src, dst-port, src-port, dst-mac, src-mac or vlan";
const VLAN_ID_MAX: u16 = 4095;

/// One field that changes from loop to loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopStep {
    field: StepField,
    step: u32,
    /// Loops between two steps.
    every: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StepField {
    Clients,
    Dst,
    Src,
    DstPort,
    SrcPort,
    DstMac,
    SrcMac,
    Vlan,
}

impl FromStr for LoopStep {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (field, step) = text.split_once("+=").ok_or("FIELD+=N expected, such as src+=256")?;
        let (step, every) = match step.split_once('/') {
            Some((step, every)) => (step, value::<NonZeroU64>(every)?.get()),
            None => (step, 1),
        };
        let (field, step_max) = match field {
            "clients" => (StepField::Clients, u32::MAX),
            "dst" => (StepField::Dst, u32::MAX),
            "src" => (StepField::Src, u32::MAX),
            "dst-port" => (StepField::DstPort, u32::from(u16::MAX)),
            "src-port" => (StepField::SrcPort, u32::from(u16::MAX)),
            "dst-mac" => (StepField::DstMac, 0xff_ffff),
            "src-mac" => (StepField::SrcMac, 0xff_ffff),
            "vlan" => (StepField::Vlan, u32::from(VLAN_ID_MAX)),
            _ => return Err(format!("there is no field {field} to change: {STEP_FIELDS}")),
        };
        let step = value(step)?;
        if step > step_max {
            Err(format!("{step} is more than {step_max}"))
        } else {
            Ok(Self { field, step, every })
        }
    }
}

impl LoopStep {
    /// Source and destination addresses that are one higher in each loop.
    pub const NEXT_ADDRESSES: [Self; 2] = [
        Self { field: StepField::Src, step: 1, every: 1 },
        Self { field: StepField::Dst, step: 1, every: 1 },
    ];

    /// The step, and the number of loops after which it comes again.
    pub fn per_loop(self) -> (PerLoop, u64) {
        let mut steps = PerLoop::default();
        // The parser checked the width of each field.
        let short = self.step as u16;
        match self.field {
            StepField::Clients => steps.clients = self.step,
            StepField::Dst => steps.dst = self.step,
            StepField::Src => steps.src = self.step,
            StepField::DstPort => steps.dst_port = short,
            StepField::SrcPort => steps.src_port = short,
            StepField::DstMac => steps.dst_mac = self.step,
            StepField::SrcMac => steps.src_mac = self.step,
            StepField::Vlan => steps.vlan = short,
        }
        (steps, self.every)
    }

    /// True if it moves clients, which a first pass finds.
    pub fn needs_roles(self) -> bool {
        self.field == StepField::Clients
    }
}

/// How frames are divided between two devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SplitChoice {
    /// By the roles of the hosts, which a first pass over the files finds.
    Auto,
    /// By a rule.
    Rule(SplitRule),
}

impl FromStr for SplitChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "auto" { Ok(Self::Auto) } else { split_rule(text).map(Self::Rule) }
    }
}

fn split_rule(text: &str) -> Result<SplitRule, String> {
    let (rule, list) = text.split_once('=').unwrap_or((text, ""));
    match rule {
        "sources" => Ok(SplitRule::Sources(list.split(',').map(value::<Prefix>).collect::<Result<_, _>>()?)),
        "macs" => Ok(SplitRule::SourceMacs(list.split(',').map(value::<MacAddr>).collect::<Result<_, _>>()?)),
        "interface" if !list.is_empty() => Ok(SplitRule::Interface(value::<InterfaceChoice>(list)?)),
        "port" if list.is_empty() => Ok(SplitRule::Ports),
        "direction" if list.is_empty() => Ok(SplitRule::Direction),
        "file" if list.is_empty() => Ok(SplitRule::File),
        _ => Err("auto, file, sources=PREFIX,..., macs=MAC,..., interface=IF, port or direction expected"
            .to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_and_rules_are_parsed() {
        let step = |text: &str| text.parse::<LoopStep>().map(LoopStep::per_loop);
        let none = PerLoop::default();
        assert_eq!(step("src+=256"), Ok((PerLoop { src: 256, ..none }, 1)));
        assert_eq!(step("vlan+=1/10"), Ok((PerLoop { vlan: 1, ..none }, 10)));
        assert_eq!(step("clients+=3"), Ok((PerLoop { clients: 3, ..none }, 1)));
        assert!(step("vlan+=1/0").is_err());
        assert!("dst-port+=65536".parse::<LoopStep>().is_err());
        assert!("ttl+=1".parse::<LoopStep>().is_err());
        assert_eq!(split_rule("port"), Ok(SplitRule::Ports));
        assert_eq!(
            split_rule("sources=10.0.0.0/8,fd00::/8")
                .map(|rule| matches!(rule, SplitRule::Sources(list) if list.len() == 2)),
            Ok(true)
        );
        assert_eq!("auto".parse(), Ok(SplitChoice::Auto));
        assert_eq!("port".parse(), Ok(SplitChoice::Rule(SplitRule::Ports)));
        for bad in ["auto=1", "port=1", "sources", "macs=x", "interface"] {
            assert!(split_rule(bad).is_err(), "{bad}");
        }
    }
}
