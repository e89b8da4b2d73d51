//! Fields of frames in the arguments: `--set FIELD=VALUE`, `--each-loop FIELD+=N`, `--split RULE`.

use packet::MacAddr;
use replay::{Edits, InterfaceChoice, PerLoop, Prefix, SplitRule, VlanEdit};
use std::fmt::Display;
use std::net::IpAddr;
use std::str::FromStr;

const SET_FIELDS: &str = "dst-mac, src-mac, dst, src, dst-port, src-port, vlan, ttl or tos";
const STEP_FIELDS: &str = "dst, src, dst-port, src-port, dst-mac, src-mac or vlan";
const VLAN_ID_MAX: u16 = 4095;

/// One field that is set in every frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetField {
    /// Destination MAC address.
    DstMac(MacAddr),
    /// Source MAC address.
    SrcMac(MacAddr),
    /// Destination address.
    Dst(IpAddr),
    /// Source address.
    Src(IpAddr),
    /// Destination port.
    DstPort(u16),
    /// Source port.
    SrcPort(u16),
    /// Outer VLAN tag.
    Vlan(VlanEdit),
    /// Time to live.
    Ttl(u8),
    /// Type of service.
    Tos(u8),
}

fn value<T: FromStr>(text: &str) -> Result<T, String>
where
    T::Err: Display,
{
    text.parse().map_err(|why: T::Err| why.to_string())
}

fn vlan_id(text: &str) -> Result<u16, String> {
    let id = value(text)?;
    if id > VLAN_ID_MAX { Err(format!("{id} is not a VLAN id from 0 to {VLAN_ID_MAX}")) } else { Ok(id) }
}

impl FromStr for SetField {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (field, text) = text.split_once('=').ok_or("FIELD=VALUE expected, such as vlan=7")?;
        Ok(match field {
            "dst-mac" => Self::DstMac(value(text)?),
            "src-mac" => Self::SrcMac(value(text)?),
            "dst" => Self::Dst(value(text)?),
            "src" => Self::Src(value(text)?),
            "dst-port" => Self::DstPort(value(text)?),
            "src-port" => Self::SrcPort(value(text)?),
            "vlan" if text == "none" => Self::Vlan(VlanEdit::Remove),
            "vlan" => Self::Vlan(VlanEdit::Set(vlan_id(text)?)),
            "ttl" => Self::Ttl(value(text)?),
            "tos" => Self::Tos(crate::units::byte(text).map_err(|why| why.to_string())?),
            _ => return Err(format!("there is no field {field}: {SET_FIELDS}")),
        })
    }
}

impl SetField {
    /// Enters the field.
    pub fn apply(self, edits: &mut Edits) {
        match self {
            Self::DstMac(mac) => edits.dst_mac = Some(mac),
            Self::SrcMac(mac) => edits.src_mac = Some(mac),
            Self::Dst(address) => edits.dst = Some(address),
            Self::Src(address) => edits.src = Some(address),
            Self::DstPort(port) => edits.dst_port = Some(port),
            Self::SrcPort(port) => edits.src_port = Some(port),
            Self::Vlan(vlan) => edits.vlan = Some(vlan),
            Self::Ttl(ttl) => edits.ttl = Some(ttl),
            Self::Tos(tos) => edits.tos = Some(tos),
        }
    }
}

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

/// `80=8080`.
pub fn port_map(text: &str) -> Result<(u16, u16), String> {
    let (from, to) = text.split_once('=').ok_or("FROM=TO expected, such as 80=8080")?;
    Ok((value(from)?, value(to)?))
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
    fn fields_are_set() {
        let mut edits = Edits::default();
        for text in
            ["dst-mac=02:00:00:00:00:01", "dst=10.0.0.1", "vlan=none", "ttl=9", "tos=0x10", "src-port=7"]
        {
            text.parse::<SetField>().unwrap().apply(&mut edits);
        }
        let expected = Edits {
            dst_mac: Some(MacAddr([2, 0, 0, 0, 0, 1])),
            dst: Some(IpAddr::from([10, 0, 0, 1])),
            vlan: Some(VlanEdit::Remove),
            ttl: Some(9),
            tos: Some(16),
            src_port: Some(7),
            ..Edits::default()
        };
        assert_eq!(edits, expected);
        for bad in ["dst", "dst=x", "vlan=4096", "ttl=256", "size=9"] {
            assert!(bad.parse::<SetField>().is_err(), "{bad}");
        }
    }

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
        assert_eq!(port_map("80=8080"), Ok((80, 8080)));
    }
}
