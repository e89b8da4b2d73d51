//! How frames go out: repeats, mode, flags, delay, memory, and the counters.

use super::{Answer, Given, say};
use crate::flags::read_flag;
use crate::{Device, FLAGS, Fault};
use packet::{Flags, NEVER_NS, XmitMode};

/// `delay` of a device that is never to send.
const NEVER: u64 = 0x7fff_ffff;

pub(crate) fn clone_skb(device: &mut Device, given: &Given<'_>) -> Answer {
    let config = &mut device.config;
    if given.number > 0 {
        if config.xmit_mode == XmitMode::NetifReceive {
            return given.refuse(Fault::NotInMode { setting: given.word, mode: "netif_receive" });
        }
        if given.facts.forbids_shared_skb {
            return given.refuse(Fault::NotShareable { setting: given.word });
        }
        if !config.imix.is_empty() {
            return given.refuse(Fault::ImixWithClones);
        }
        if !config.flags.has(Flags::SHARED) {
            return given.refuse(Fault::NeedsShared { setting: given.word });
        }
    }
    config.clone_skb = given.number as i32;
    given.ok(config.clone_skb)
}

pub(crate) fn burst(device: &mut Device, given: &Given<'_>) -> Answer {
    let config = &mut device.config;
    if given.number > 1 {
        if config.xmit_mode == XmitMode::QueueXmit {
            return given.refuse(Fault::NotInMode { setting: given.word, mode: "queue_xmit" });
        }
        if config.xmit_mode == XmitMode::StartXmit && given.facts.forbids_shared_skb {
            return given.refuse(Fault::NotShareable { setting: given.word });
        }
        if !config.flags.has(Flags::SHARED) {
            return given.refuse(Fault::NeedsShared { setting: given.word });
        }
    }
    config.burst = given.number.max(1) as u32;
    given.ok(config.burst)
}

/// The list of modes in the answer leaves one out, as the kernel's does.
pub(crate) fn xmit_mode(device: &mut Device, given: &Given<'_>) -> Answer {
    let mode = match given.text {
        b"start_xmit" => XmitMode::StartXmit,
        b"netif_receive" => XmitMode::NetifReceive,
        b"queue_xmit" => XmitMode::QueueXmit,
        unknown => {
            let tail = b":- unknown\nAvailable modes: start_xmit, netif_receive\n";
            return Ok(super::Reply::Say([b"xmit_mode -:", unknown, tail.as_slice()].concat()));
        }
    };
    if mode == XmitMode::NetifReceive && device.config.clone_skb > 0 {
        return given.refuse(Fault::NotInMode { setting: "clone_skb", mode: "netif_receive" });
    }
    device.config.xmit_mode = mode;
    given.ok(given.lossy())
}

pub(crate) fn flag(device: &mut Device, given: &Given<'_>) -> Answer {
    let config = &mut device.config;
    let Some((flag, is_on)) = read_flag(given.text, given.facts.has_xfrm) else {
        return Ok(super::Reply::Say(unknown_flag(given)));
    };
    if flag == Flags::SHARED && !is_on && (config.clone_skb != 0 || config.burst as i32 > 1) {
        return given.refuse(Fault::SharedInUse);
    }
    config.flags.set(flag, is_on);
    say(format!("OK: flags=0x{:x}", config.flags.0))
}

fn unknown_flag(given: &Given<'_>) -> Vec<u8> {
    let known = FLAGS.iter().filter(|spec| spec.exists(given.facts.has_xfrm));
    let names: Vec<&str> = known.map(|spec| spec.name).collect();
    let tail = format!(":- unknown\nAvailable flags, (prepend ! to un-set flag):\n{}", names.join(", "));
    [b"Flag -:", given.text, tail.as_bytes()].concat()
}

pub(crate) fn delay(device: &mut Device, given: &Given<'_>) -> Answer {
    device.config.delay_ns = if given.number == NEVER { NEVER_NS } else { given.number };
    given.ok(device.config.delay_ns)
}

/// The kernel also takes nodes beyond its table (docs/differences.md, row 11).
pub(crate) fn node(device: &mut Device, given: &Given<'_>) -> Answer {
    let node = given.number as i32;
    if !given.facts.has_node(node) {
        return say("ERROR: node not possible");
    }
    device.config.node = node;
    given.ok(node)
}

/// Not the kernel's: makes every random draw repeat (docs/differences.md, row 13). No digits: a new seed for
/// each run, as without the command.
pub(crate) fn seed(device: &mut Device, given: &Given<'_>) -> Answer {
    let digits = given.lossy();
    if digits.is_empty() {
        device.config.seed = None;
    } else if let Ok(seed) = digits.parse() {
        device.config.seed = Some(seed);
    } else {
        let fault = Fault::SeedTooLarge { text: digits };
        return given.refuse_aloud(device, "does not fit into 64 bits", fault);
    }
    given.ok(digits)
}

/// Not the start time, nor the counts of an internet mix. The text ends in a newline of its own.
pub(crate) fn clear_counters(device: &mut Device, _: &Given<'_>) -> Answer {
    device.cursor.seq_num = 1;
    let counters = &mut device.counters;
    (counters.sofar, counters.errors, counters.idle_ns) = (0, 0, 0);
    say("OK: Clearing counters.\n")
}
