//! Settings of the transmission: repeats, mode, flags, delay, memory, and the counters.

use super::{Argument, SetterResult, result};
use crate::flags::read_flag;
use crate::{Device, FLAGS, Fault};
use packet::{Flags, NEVER_NS, XmitMode};

/// `delay` of a device that is never to send.
pub(crate) const NEVER: u64 = 0x7fff_ffff;

pub(crate) fn clone_skb(device: &mut Device, arg: &Argument<'_>) -> SetterResult {
    let config = &mut device.config;
    if arg.number > 0 {
        if config.xmit_mode == XmitMode::NetifReceive {
            return arg.refuse(Fault::NotInMode { setting: arg.word, mode: "netif_receive" });
        }
        if arg.facts.forbids_shared_skb {
            return arg.refuse(Fault::NotShareable { setting: arg.word });
        }
        if !config.imix.is_empty() {
            return arg.refuse(Fault::ImixWithClones);
        }
        if !config.flags.has(Flags::SHARED) {
            return arg.refuse(Fault::NeedsShared { setting: arg.word });
        }
    }
    config.clone_skb = arg.number as i32;
    arg.ok(config.clone_skb)
}

pub(crate) fn burst(device: &mut Device, arg: &Argument<'_>) -> SetterResult {
    let config = &mut device.config;
    if arg.number > 1 {
        if config.xmit_mode == XmitMode::QueueXmit {
            return arg.refuse(Fault::NotInMode { setting: arg.word, mode: "queue_xmit" });
        }
        if config.xmit_mode == XmitMode::StartXmit && arg.facts.forbids_shared_skb {
            return arg.refuse(Fault::NotShareable { setting: arg.word });
        }
        if !config.flags.has(Flags::SHARED) {
            return arg.refuse(Fault::NeedsShared { setting: arg.word });
        }
    }
    config.burst = arg.number.max(1) as u32;
    arg.ok(config.burst)
}

/// The list of modes in the answer leaves one out, as the kernel's does.
pub(crate) fn xmit_mode(device: &mut Device, arg: &Argument<'_>) -> SetterResult {
    let mode = match arg.text {
        b"start_xmit" => XmitMode::StartXmit,
        b"netif_receive" => XmitMode::NetifReceive,
        b"queue_xmit" => XmitMode::QueueXmit,
        unknown => {
            let tail = b":- unknown\nAvailable modes: start_xmit, netif_receive\n";
            return Ok(super::Reply::Result([b"xmit_mode -:", unknown, tail.as_slice()].concat()));
        }
    };
    if mode == XmitMode::NetifReceive && device.config.clone_skb > 0 {
        return arg.refuse(Fault::NotInMode { setting: "clone_skb", mode: "netif_receive" });
    }
    device.config.xmit_mode = mode;
    arg.ok(arg.lossy())
}

pub(crate) fn flag(device: &mut Device, arg: &Argument<'_>) -> SetterResult {
    let config = &mut device.config;
    let Some((flag, is_on)) = read_flag(arg.text, arg.facts.has_xfrm) else {
        return Ok(super::Reply::Result(unknown_flag(arg)));
    };
    if flag == Flags::SHARED && !is_on && (config.clone_skb != 0 || config.burst as i32 > 1) {
        return arg.refuse(Fault::SharedInUse);
    }
    config.flags.set(flag, is_on);
    result(format!("OK: flags=0x{:x}", config.flags.0))
}

fn unknown_flag(arg: &Argument<'_>) -> Vec<u8> {
    let known = FLAGS.iter().filter(|spec| spec.exists(arg.facts.has_xfrm));
    let names: Vec<&str> = known.map(|spec| spec.name).collect();
    let tail = format!(":- unknown\nAvailable flags, (prepend ! to un-set flag):\n{}", names.join(", "));
    [b"Flag -:", arg.text, tail.as_bytes()].concat()
}

pub(crate) fn delay(device: &mut Device, arg: &Argument<'_>) -> SetterResult {
    device.config.delay_ns = if arg.number == NEVER { NEVER_NS } else { arg.number };
    arg.ok(device.config.delay_ns)
}

/// The kernel also takes nodes beyond its table (docs/pktgen.md, row 11).
pub(crate) fn node(device: &mut Device, arg: &Argument<'_>) -> SetterResult {
    let node = arg.number as i32;
    if !arg.facts.has_node(node) {
        return result("ERROR: node not possible");
    }
    device.config.node = node;
    arg.ok(node)
}

/// wirerate's own: repeats all random values (docs/pktgen.md, row 13). Without digits each run
/// has a new seed.
pub(crate) fn seed(device: &mut Device, arg: &Argument<'_>) -> SetterResult {
    let digits = arg.lossy();
    if digits.is_empty() {
        device.config.seed = None;
    } else if let Ok(seed) = digits.parse() {
        device.config.seed = Some(seed);
    } else {
        let fault = Fault::SeedTooLarge { text: digits };
        return arg.refuse_with_result(device, "does not fit into 64 bits", fault);
    }
    arg.ok(digits)
}

pub(crate) fn debug(device: &mut Device, arg: &Argument<'_>) -> SetterResult {
    device.debug = arg.number as u32;
    arg.ok(device.debug)
}

pub(crate) fn show_engine(device: &mut Device, arg: &Argument<'_>) -> SetterResult {
    device.show_engine = arg.number != 0;
    arg.ok(u8::from(device.show_engine))
}

/// Not the start time, nor the counts of an internet mix. The text ends in a newline of its own.
pub(crate) fn clear_counters(device: &mut Device, _: &Argument<'_>) -> SetterResult {
    device.cursor.seq_num = 1;
    let counters = &mut device.counters;
    (counters.sofar, counters.errors, counters.idle_ns) = (0, 0, 0);
    result("OK: Clearing counters.\n")
}

#[cfg(test)]
mod tests {
    use crate::testing::TestDevice;

    #[test]
    fn loopback_shares_nothing_but_bursts_into_its_receive_path() {
        let mut test = TestDevice::new();
        test.facts.forbids_shared_skb = true;
        test.expect(&[
            ("clone_skb 1", "EOPNOTSUPP "),
            ("burst 2", "EOPNOTSUPP "),
            ("burst 0", "OK: burst=1"),
            ("clone_skb 0", "OK: clone_skb=0"),
            ("xmit_mode netif_receive", "OK: xmit_mode=netif_receive"),
            ("burst 16", "OK: burst=16"),
            ("xmit_mode start_xmit", "OK: xmit_mode=start_xmit"),
            ("burst 8", "EOPNOTSUPP OK: xmit_mode=start_xmit"),
        ]);
        assert_eq!(test.line("burst").unwrap(), "burst: 16");
    }

    #[test]
    fn modes_and_clones_stand_in_each_others_way() {
        TestDevice::new().expect(&[
            ("clone_skb 3", "OK: clone_skb=3"),
            ("xmit_mode netif_receive", "EOPNOTSUPP OK: clone_skb=3"),
            ("xmit_mode queue_xmit", "OK: xmit_mode=queue_xmit"),
            ("burst 2", "EOPNOTSUPP OK: xmit_mode=queue_xmit"),
            ("clone_skb 0", "OK: clone_skb=0"),
            ("xmit_mode netif_receive", "OK: xmit_mode=netif_receive"),
            ("clone_skb 1", "EOPNOTSUPP OK: xmit_mode=netif_receive"),
        ]);
    }

    #[test]
    fn numbers_are_checked_before_they_are_cut() {
        let mut test = TestDevice::new();
        test.expect(&[
            ("clone_skb 4294967295", "OK: clone_skb=-1"),
            ("clone_skb 4294967296", "OK: clone_skb=0"),
            ("burst 4294967295", "OK: burst=4294967295"),
        ]);
        assert_eq!(test.line("burst"), None, "shown as a signed number, and only above 1");
        test.expect(&[("burst 4294967296", "OK: burst=0")]);
    }

    #[test]
    fn shared_stays_on_while_it_is_used() {
        TestDevice::new().expect(&[
            ("clone_skb 4294967295", "OK: clone_skb=-1"),
            ("flag !SHARED", "EINVAL OK: clone_skb=-1"),
            ("clone_skb 0", "OK: clone_skb=0"),
            ("burst 2", "OK: burst=2"),
            ("flag !SHARED", "EINVAL OK: burst=2"),
            ("burst 1", "OK: burst=1"),
            ("flag !SHARED", "OK: flags=0x0"),
            ("clone_skb 1", "EINVAL OK: flags=0x0"),
            ("burst 2", "EINVAL OK: flags=0x0"),
        ]);
    }

    #[test]
    fn unknown_modes_are_a_success_that_says_so() {
        let text =
            |word| format!("xmit_mode -:{word}:- unknown\nAvailable modes: start_xmit, netif_receive\n");
        let mut test = TestDevice::new();
        for (command, word) in [
            ("xmit_mode", ""),
            ("xmit_mode START_XMIT", "START_XMIT"),
            ("xmit_mode queue_xmit,", "queue_xmit,"),
            ("xmit_mode start_xmit_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "start_xmit_xxxxxxxxxxxxxxxxxxxx"),
        ] {
            assert_eq!(test.write(command), text(word));
        }
        assert_eq!(test.write("xmit_mode queue_xmit\0junk"), "OK: xmit_mode=queue_xmit");
        assert_eq!(test.line("xmit_mode").unwrap(), "xmit_mode: xmit_queue");
    }

    #[test]
    fn unknown_flags_list_the_known_ones() {
        let mut test = TestDevice::new();
        let answer = test.write("flag ! UDPCSUM");
        assert!(answer.starts_with(
            "Flag -:!:- unknown\nAvailable flags, (prepend ! to un-set flag):\nIPV6, IPSRC_RND, "
        ));
        assert!(
            answer.ends_with(", FLOW_SEQ, IPSEC, MACSRC_RND, MACDST_RND, VID_RND, SVID_RND, NODE, SHARED")
        );
        test.facts.has_xfrm = false;
        let answer = test.write("flag IPSEC");
        assert!(
            answer.starts_with("Flag -:IPSEC:- unknown\n") && answer.contains("FLOW_SEQ, MACSRC_RND"),
            "{answer}"
        );
        assert_eq!(test.write("spi 5"), "EINVAL No such parameter \"spi\"");
    }

    #[test]
    fn never_is_a_number_of_its_own() {
        TestDevice::new().expect(&[
            ("delay 2147483646", "OK: delay=2147483646"),
            ("delay 2147483647", "OK: delay=18446744073709551615"),
            ("delay 2147483648", "OK: delay=2147483648"),
            ("delay 100us", "OK: delay=100"),
        ]);
    }

    #[test]
    fn nodes_are_those_of_the_host() {
        let mut test = TestDevice::new();
        test.facts.possible_nodes = vec![0..=1];
        test.expect(&[
            ("node 1", "OK: node=1"),
            ("node 2", "ERROR: node not possible"),
            ("node 1024", "ERROR: node not possible"),
            ("node 4294967295", "ERROR: node not possible"),
            ("node 4294967296", "OK: node=0"),
        ]);
        assert_eq!(test.line("node").unwrap(), "node: 0");
    }

    #[test]
    fn seeds_are_64_bits_or_none() {
        let mut test = TestDevice::new();
        test.expect(&[
            ("seed 18446744073709551615", "OK: seed=18446744073709551615"),
            (
                "seed 18446744073709551616",
                "EINVAL ERROR: seed: \"18446744073709551616\" does not fit into 64 bits",
            ),
        ]);
        assert_eq!(test.line("seed").unwrap(), "seed: 18446744073709551615");
        test.expect(&[("seed", "OK: seed=")]);
        assert_eq!(test.device.config.seed, None);
        assert_eq!(test.line("seed:"), None);
    }

    #[test]
    fn cleared_counters_leave_the_start_time() {
        let mut test = TestDevice::new();
        test.device.counters =
            crate::Counters { sofar: 5, errors: 2, started_ns: 7000, stopped_ns: 9000, idle_ns: 1000 };
        test.device.cursor.imix_counts = vec![3];
        assert_eq!(test.write("clear_counters now"), "OK: Clearing counters.\n");
        assert_eq!(test.line("pkts-sofar").unwrap(), "pkts-sofar: 0  errors: 0");
        assert_eq!(test.line("started").unwrap(), "started: 7us  stopped: 9us idle: 0us");
        assert_eq!(test.device.cursor.seq_num, 1);
        let text = test.device.read(&test.facts, 0, None);
        assert!(text.ends_with(b"\nResult: OK: Clearing counters.\n\n"), "an empty line ends the file");
    }
}
