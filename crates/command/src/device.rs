//! One device instance: its settings, the state of its run, and the text of its last result.

use crate::result::{NO_FRAME, RunTotals};
use packet::{Config, Cursor, DeviceFacts, Plan, PlanError, Slot};

/// Longest interface name looked for when a name has no `@` in it.
const INTERFACE_LEN_MAX: usize = 16;

/// Bytes of a device instance's name.
pub(crate) const NAME_LEN_MAX: usize = 31;

/// Counters of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames handed over.
    pub sofar: u64,
    /// Frames that failed.
    pub errors: u64,
    /// When it was started, since boot.
    pub started_ns: u64,
    /// When it ended, since boot; meaningless during the run.
    pub stopped_ns: u64,
    /// Time spent waiting in it.
    pub idle_ns: u64,
}

/// The interface of a device instance: the part before the first `@`.
pub fn interface_of(name: &str) -> &str {
    let head = name.char_indices().find(|(at, c)| *c == '@' || *at + c.len_utf8() > INTERFACE_LEN_MAX);
    head.map_or(name, |(end, _)| &name[..end])
}

/// One device instance, `DEV[@NAME]`.
#[derive(Clone, Debug)]
pub struct Device {
    name: String,
    /// Its settings.
    pub config: Config,
    /// The state from which the next frame is built.
    pub cursor: Cursor,
    /// Counters of the current or last run.
    pub counters: Counters,
    /// It is running.
    pub is_running: bool,
    /// The text behind `Result: `; empty before the first.
    pub result: Vec<u8>,
    /// The read-out names the engine (`show_engine`).
    pub show_engine: bool,
    /// The log switch as `debug` set it last.
    pub debug: u32,
}

impl Device {
    /// A device instance as `add_device` makes it.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            config: Config::default(),
            cursor: Cursor::default(),
            counters: Counters::default(),
            is_running: false,
            result: Vec::new(),
            show_engine: false,
            debug: 0,
        }
    }

    /// `DEV[@NAME]`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The interface it sends on.
    pub fn interface(&self) -> &str {
        interface_of(&self.name)
    }

    pub(crate) fn rename(&mut self, name: String) {
        self.name = name;
    }

    /// True when the last command or run was a success: scripts look for `Result: OK:`.
    pub fn is_ok(&self) -> bool {
        self.result.starts_with(b"OK:")
    }

    /// Starts or restarts a run: sets default sizes, resets cursor and counters, and returns the
    /// plan. `fresh_seed` is for settings without a seed.
    ///
    /// # Errors
    /// [`PlanError`] for settings that give no frame; the result text has the error.
    pub fn start(&mut self, facts: &DeviceFacts, now_ns: u64, fresh_seed: u64) -> Result<Plan, PlanError> {
        self.config.prepare(facts);
        self.cursor.start(&self.config, facts, fresh_seed);
        let plan = Plan::new(&self.config, facts, &self.cursor);
        self.counters = Counters { started_ns: now_ns, stopped_ns: now_ns, ..Counters::default() };
        self.is_running = plan.is_ok();
        self.result = match &plan {
            Ok(_) => b"Starting".to_vec(),
            Err(error) => format!("ERROR: {error}").into_bytes(),
        };
        plan
    }

    /// Ends the run and stores its result; does nothing without a run. `fragments` is that of
    /// [`crate::fragments`] for the last frame, [`NO_FRAME`] when none was built.
    pub fn stop(&mut self, now_ns: u64, fragments: i32) {
        if !self.is_running {
            return;
        }
        self.is_running = false;
        self.counters.stopped_ns = now_ns;
        self.cursor.write_back(&mut self.config);
        self.result = self.totals(fragments).text().into_bytes();
    }

    /// Ends the run because of an error, which the result has after `ERROR: `.
    pub fn fail(&mut self, now_ns: u64, why: &str) {
        self.stop(now_ns, NO_FRAME);
        self.result = format!("ERROR: {why}").into_bytes();
    }

    /// Totals of the run.
    pub fn totals(&self, fragments: i32) -> RunTotals {
        let counters = &self.counters;
        let mix = self.config.imix.iter().zip(&self.cursor.imix_counts);
        RunTotals {
            elapsed_ns: counters.stopped_ns.wrapping_sub(counters.started_ns),
            idle_ns: counters.idle_ns,
            sent: counters.sofar,
            errors: counters.errors,
            frame_size: self.cursor[Slot::FRAME_SIZE] as u32,
            fragments,
            imix_bytes: (!self.config.imix.is_empty())
                .then(|| mix.map(|(entry, count)| u128::from(entry.size) * u128::from(*count)).sum()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Fault;
    use crate::testing::TestDevice;
    use packet::MacAddr;

    #[test]
    fn words_are_cut_at_15_bytes_and_compared_up_to_a_nul() {
        let mut test = TestDevice::new();
        test.expect(&[
            ("max_before_softirq 5", "EINVAL No such parameter \"max_before_soft\""),
            ("count\0 99", "OK: count=99"),
            ("count,5", "EINVAL No such parameter \"count,5\""),
            ("Count 5", "EINVAL No such parameter \"Count\""),
            (" \n", "EINVAL No such parameter \"\""),
            ("start", "EINVAL No such parameter \"start\""),
            ("add_device lo", "EINVAL No such parameter \"add_device\""),
        ]);
        assert_eq!(test.device.write(b"", &test.facts).unwrap_err().fault, Fault::Empty);
        let refused = test.device.write(b"\t\xffoo 5", &test.facts).unwrap_err();
        assert_eq!((refused.errno(), refused.span), (crate::Errno::EINVAL, 1..4));
        assert_eq!(test.device.result, b"No such parameter \"\xffoo\"", "bytes, not characters");
    }

    #[test]
    fn ports_are_compared_as_typed_and_cut_to_16_bits() {
        let mut test = TestDevice::new();
        test.expect(&[("udp_src_min 9", "OK: udp_src_min=9"), ("udp_dst_max 70000", "OK: udp_dst_max=4464")]);
        assert_eq!(
            test.line("cur_udp_dst").unwrap(),
            "cur_udp_dst: 4464  cur_udp_src: 0",
            "9 was set already"
        );
        test.expect(&[("udp_src_min 65545", "OK: udp_src_min=9")]);
        assert_eq!(test.line("cur_udp_dst").unwrap(), "cur_udp_dst: 4464  cur_udp_src: 9");
    }

    #[test]
    fn mac_counts_start_over_when_they_change() {
        let mut test = TestDevice::new();
        (test.device.cursor[Slot::SRC_MAC_OFFSET], test.device.cursor[Slot::DST_MAC_OFFSET]) = (2, 3);
        test.expect(&[
            ("src_mac_count 0", "OK: src_mac_count=0"),
            ("dst_mac_count 4294967295", "OK: dst_mac_count=-1"),
        ]);
        assert_eq!(test.line("seq_num").unwrap(), "seq_num: 0  cur_dst_mac_offset: 0  cur_src_mac_offset: 2");
    }

    #[test]
    fn plain_numbers_have_the_widths_of_the_kernel() {
        TestDevice::new().expect(&[
            ("flows 4294967296", "OK: flows=0"),
            ("flows 65537", "OK: flows=65536"),
            ("flowlen 9999999999", "OK: flowlen=1410065407"),
            ("frags 4294967295", "OK: frags=-1"),
            ("queue_map_min 99999", "OK: queue_map_min=34463"),
            ("queue_map_max 123456", "OK: queue_map_max=12345"),
            ("skb_priority 4294967295", "OK: skb_priority=429496729"),
            ("spi 4294967296", "OK: spi=0"),
            ("debug 4294967295", "OK: debug=4294967295"),
            ("show_engine 10", "OK: show_engine=1"),
        ]);
    }

    #[test]
    fn a_run_goes_from_starting_to_a_result() {
        let mut test = TestDevice::after(&["count 3", "src_mac_count 2"]);
        let facts = DeviceFacts { mac: MacAddr([2; 6]), tx_queues: 1, ..DeviceFacts::default() };
        let plan = test.device.start(&facts, 5_000, 1).unwrap();
        assert_eq!((test.device.result.as_slice(), test.device.is_running), (&b"Starting"[..], true));
        let mut frame = [0; 58];
        for _ in 0..3 {
            plan.emit(&mut test.device.cursor, 0, &mut frame);
            test.device.counters.sofar += 1;
        }
        let text = String::from_utf8(test.device.read(&test.facts, 9_999, None)).unwrap();
        assert!(text.contains("\n     started: 5us  stopped: 9us idle: 0us\n"), "{text}");
        assert!(text.contains("min_pkt_size: 58  max_pkt_size: 58\n"), "{text}");
        test.device.stop(2_000_005_000, crate::fragments(&test.device.config, &plan, 58));
        assert_eq!(
            String::from_utf8_lossy(&test.device.result),
            "OK: 2000000(c2000000+d0) usec, 3 (58byte,0frags)\n  1pps 0Mb/sec (464bps) errors: 0"
        );
        test.device.stop(9_000_000_000, NO_FRAME);
        assert_eq!(test.device.counters.stopped_ns, 2_000_005_000, "it had stopped already");
        test.device.start(&facts, 1, 1).unwrap();
        assert_eq!((test.device.counters.sofar, test.device.cursor.seq_num), (0, 1));
    }

    #[test]
    fn a_run_that_cannot_be_planned_says_why() {
        let mut test = TestDevice::after(&["dst_min 224.0.0.1", "dst_max 239.0.0.1", "flag IPDST_RND"]);
        test.device.start(&DeviceFacts::default(), 1, 1).unwrap_err();
        assert!(test.device.result.starts_with(b"ERROR: IPDST_RND: no address from 224.0.0.1"));
        assert!(!test.device.is_running);
        let mut test = TestDevice::new();
        test.device.start(&DeviceFacts::default(), 1, 1).unwrap();
        test.device.fail(2, "no engine");
        assert_eq!(
            (test.device.result.as_slice(), test.device.is_running),
            (&b"ERROR: no engine"[..], false)
        );
    }

    #[test]
    fn the_rate_of_a_mix_is_that_of_its_sizes() {
        let mut test = TestDevice::after(&["imix_weights 100,1 200,1"]);
        test.device.start(&DeviceFacts::default(), 0, 1).unwrap();
        test.device.cursor.imix_counts = vec![3, 1];
        test.device.counters.sofar = 4;
        test.device.stop(1_000_000_000, 0);
        assert!(test.device.result.ends_with(b"4pps 0Mb/sec (4000bps) errors: 0"));
        assert_eq!(test.line("imix_size_counts").unwrap(), "imix_size_counts: 100,3 200,1 ");
    }

    #[test]
    fn a_mix_changed_during_a_run_never_leaves_a_frame_longer_than_its_plan() {
        let mut test = TestDevice::after(&["pkt_size 100", "burst 4", "imix_weights 700,1"]);
        let link = test.facts.link;
        let mut plan = test.device.start(&link, 0, 1).unwrap();
        for (command, frame_len) in [
            ("imix_weights 60,1", 60),
            ("imix_weights 700,1", 700),
            ("pkt_size 1400", 700),
            ("imix_weights x", 700),
        ] {
            let mut bytes = vec![0; plan.frame_len_max() as usize];
            plan.emit(&mut test.device.cursor, 0, &mut bytes);
            // One that is no mix takes the old one away, and the last size stays, as in the kernel.
            let _ = test.device.write(command.as_bytes(), &test.facts);
            plan = Plan::new(&test.device.config, &link, &test.device.cursor).unwrap();
            let mut bytes = vec![0; plan.frame_len_max() as usize];
            assert_eq!(plan.emit(&mut test.device.cursor, 0, &mut bytes), frame_len);
        }
    }

    #[test]
    fn random_tags_show_and_stay() {
        let mut test = TestDevice::after(&["vlan_id 5", "flag VID_RND"]);
        test.device.start(&DeviceFacts::default(), 0, 1).unwrap();
        test.device.cursor[Slot::VLAN] = 77;
        assert_eq!(test.line("vlan_id").unwrap(), "vlan_id: 77  vlan_p: 0  vlan_cfi: 0");
        test.write("count 5");
        assert_eq!(test.line("vlan_id").unwrap(), "vlan_id: 77  vlan_p: 0  vlan_cfi: 0");
        test.write("vlan_id 6");
        assert_eq!(test.line("vlan_id").unwrap(), "vlan_id: 6  vlan_p: 0  vlan_cfi: 0");
        test.device.cursor[Slot::VLAN] = 78;
        test.device.stop(1, 0);
        assert_eq!(test.device.config.vlan_id, Some(78));
    }
}
