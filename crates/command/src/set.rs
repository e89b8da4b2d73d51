//! The setters of the commands: functions that change settings, and the cursor where the kernel
//! does so at once.
//!
//! A setter returns the text for `Result: `, or that the old one stays, or a refusal.

mod addresses;
mod frames;
mod tags;
mod transmit;

pub(crate) use addresses::{dst_mac, dst6, dst6_max, dst6_min, ipv4, set_ipv4, src_mac, src6};
pub(crate) use frames::{
    flows, imix_weights, max_pkt_size, min_pkt_size, pkt_size, rate, ratep, size_to_write,
};
pub(crate) use tags::{mpls, svlan_cfi, svlan_id, svlan_p, tos, traffic_class, vlan_cfi, vlan_id, vlan_p};
pub(crate) use transmit::{
    NEVER, burst, clear_counters, clone_skb, debug, delay, flag, node, seed, show_engine, xmit_mode,
};

use crate::{Device, Facts, Fault, Refusal};
use std::fmt::Display;
use std::ops::Range;

/// What a setter is arg: the word and its value, read by the kind that the table says.
pub(crate) struct Argument<'a> {
    /// The command, in the spelling of the table.
    pub(crate) word: &'static str,
    /// The value of a number, 0 for anything else.
    pub(crate) number: u64,
    /// The bytes of the value: the digits of a number, a word up to a NUL, all that is left of a
    /// list.
    pub(crate) text: &'a [u8],
    /// Where they are in the write.
    pub(crate) span: Range<usize>,
    /// The device and its host.
    pub(crate) facts: &'a Facts,
}

/// The result text after a command.
pub(crate) enum Reply {
    /// A new one.
    Result(Vec<u8>),
    /// The old one stays.
    Unchanged,
}

/// The answer of a setter.
pub(crate) type SetterResult = Result<Reply, Refusal>;
/// Applies one command to a device instance.
pub(crate) type Setter = fn(&mut Device, &Argument<'_>) -> SetterResult;

impl Argument<'_> {
    /// `OK: word=value`.
    pub(crate) fn ok(&self, value: impl Display) -> SetterResult {
        result(format!("OK: {}={value}", self.word))
    }

    pub(crate) fn refuse(&self, fault: Fault) -> SetterResult {
        Err(Refusal { fault, span: self.span.clone() })
    }

    /// The value as text for messages.
    pub(crate) fn lossy(&self) -> String {
        String::from_utf8_lossy(self.text).into_owned()
    }

    /// A refusal that the result text tells as well: `ERROR: word: "value" problem`.
    pub(crate) fn refuse_with_result(
        &self,
        device: &mut Device,
        problem: &str,
        fault: Fault,
    ) -> SetterResult {
        let head = format!("ERROR: {}: \"", self.word).into_bytes();
        device.result = [head.as_slice(), self.text, b"\" ", problem.as_bytes()].concat();
        self.refuse(fault)
    }
}

pub(crate) fn result(text: impl Into<String>) -> SetterResult {
    Ok(Reply::Result(text.into().into_bytes()))
}
