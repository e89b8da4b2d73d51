//! Fields of frames in the arguments: `--each-loop FIELD+=N`, `--split RULE`.

use crate::edit_args::fields::value;
use packet::MacAddr;
use replay::{InterfaceChoice, PerLoop, Prefix, SplitRule};
use std::str::FromStr;

const STEP_FIELDS: &str = "dst, src, dst-port, src-port, dst-mac, src-mac or vlan";
const VLAN_ID_MAX: u16 = 4095;

/// One field that changes from loop to loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopStep {
    field: StepField,
    step: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StepField {
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
        let (field, step_max) = match field {
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
            Ok(Self { field, step })
        }
    }
}

impl LoopStep {
    /// Enters the step.
    pub fn apply(self, steps: &mut PerLoop) {
        // The parser checked the width of each field.
        let short = self.step as u16;
        match self.field {
            StepField::Dst => steps.dst = self.step,
            StepField::Src => steps.src = self.step,
            StepField::DstPort => steps.dst_port = short,
            StepField::SrcPort => steps.src_port = short,
            StepField::DstMac => steps.dst_mac = self.step,
            StepField::SrcMac => steps.src_mac = self.step,
            StepField::Vlan => steps.vlan = short,
        }
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
        _ => {
            Err("auto, sources=PREFIX,..., macs=MAC,..., interface=IF, port or direction expected".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_and_rules_are_parsed() {
        let mut steps = PerLoop::default();
        for text in ["src+=256", "vlan+=1", "dst-port+=65535"] {
            text.parse::<LoopStep>().unwrap().apply(&mut steps);
        }
        assert_eq!(steps, PerLoop { src: 256, vlan: 1, dst_port: 65_535, ..PerLoop::default() });
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
