//! One device instance: what it was told, how far its run has come, and the text of its last result.

use crate::scan::{Scan, until_nul};
use crate::set::{Given, Reply};
use crate::table::{Act, device_command};
use crate::{Facts, Fault, Refused, RunTotals, Spec, Touches, interface_of};
use packet::{Config, Cursor, DeviceFacts, Plan, PlanError};
use std::ops::Range;

/// Bytes of a command word on device files.
const WORD_LEN_MAX: usize = 15;

/// What a result says for the fragments of the last frame when no frame is held.
pub const NO_FRAME: i32 = -1;

/// What a run has come to so far.
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

/// One device instance, `DEV[@NAME]`.
#[derive(Clone, Debug)]
pub struct Device {
    name: String,
    /// What was asked for.
    pub config: Config,
    /// Where the next frame starts from.
    pub cursor: Cursor,
    /// The run that goes on, or the last one.
    pub counters: Counters,
    /// A run goes on.
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

    /// One `write(2)` to its file: reads one command, changes settings and cursor, stores the result text.
    /// Returns the number of bytes taken, which is always all.
    ///
    /// Many bad values are no error of the write: see [`Device::is_ok`].
    ///
    /// # Errors
    /// [`Refused`]. The settings are as before, except for `imix_weights` and `mpls`, which have been emptied.
    /// Only an unknown command and a bad address change the result text.
    pub fn write(&mut self, bytes: &[u8], facts: &Facts) -> Result<usize, Refused> {
        if bytes.is_empty() {
            return Err(Refused { fault: Fault::Empty, span: 0..0 });
        }
        let mut scan = Scan::new(bytes);
        scan.skip_separators();
        let start = scan.at();
        let word = until_nul(scan.word(WORD_LEN_MAX));
        let word_span = start..start + word.len();
        scan.skip_separators();
        let Some((spec, set)) = find(word, facts) else {
            return Err(self.no_such_parameter(word, word_span));
        };
        let value_start = scan.at();
        let (number, text) = spec.takes.read(&mut scan);
        let span = value_start..value_start + text.len();
        if self.is_running {
            self.cursor.write_back(&mut self.config);
        }
        let answer = set(self, &Given { word: spec.word, number, text, span, facts });
        self.cursor.follow(&self.config);
        if let Reply::Say(text) = answer? {
            self.result = text;
        }
        Ok(bytes.len())
    }

    fn no_such_parameter(&mut self, word: &[u8], span: Range<usize>) -> Refused {
        self.result = [b"No such parameter \"", word, b"\""].concat();
        let word = String::from_utf8_lossy(word).into_owned();
        Refused { fault: Fault::UnknownCommand { file: "device", word }, span }
    }

    /// Starts a run: default sizes, cursors to their beginning, counters to zero, and the plan to send by.
    /// A run that goes on starts anew. `fresh_seed` is for settings without a seed of their own.
    ///
    /// # Errors
    /// [`PlanError`] for settings that no frame can be made of; the result text says so, and nothing runs.
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

    /// Ends the run and stores its result; nothing happens when none goes on. `fragments` is what
    /// [`crate::fragments`] says of the last frame, [`NO_FRAME`] when none was built.
    pub fn stop(&mut self, now_ns: u64, fragments: i32) {
        if !self.is_running {
            return;
        }
        self.is_running = false;
        self.counters.stopped_ns = now_ns;
        self.cursor.write_back(&mut self.config);
        self.result = self.totals(fragments).text().into_bytes();
    }

    /// Ends the run because it cannot go on, and says why behind `ERROR: `.
    pub fn fail(&mut self, now_ns: u64, why: &str) {
        self.stop(now_ns, NO_FRAME);
        self.result = format!("ERROR: {why}").into_bytes();
    }

    /// What the run came to.
    pub fn totals(&self, fragments: i32) -> RunTotals {
        let counters = &self.counters;
        let mix = self.config.imix.iter().zip(&self.cursor.imix_counts);
        RunTotals {
            elapsed_ns: counters.stopped_ns.wrapping_sub(counters.started_ns),
            idle_ns: counters.idle_ns,
            sent: counters.sofar,
            errors: counters.errors,
            frame_size: self.cursor.frame_size,
            fragments,
            imix_bytes: (!self.config.imix.is_empty())
                .then(|| mix.map(|(entry, count)| u128::from(entry.size) * u128::from(*count)).sum()),
        }
    }
}

/// What a write to the file of a device instance changes in its transmission while it runs.
pub fn touches(bytes: &[u8], facts: &Facts) -> Touches {
    let mut scan = Scan::new(bytes);
    scan.skip_separators();
    find(until_nul(scan.word(WORD_LEN_MAX)), facts).map_or(Touches::Nothing, |(spec, _)| spec.touches)
}

fn find(word: &[u8], facts: &Facts) -> Option<(&'static Spec, crate::set::Setter)> {
    let spec = device_command(word)?;
    match spec.act {
        Act::Device(set) if facts.has_xfrm || spec.word != "spi" => Some((spec, set)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::told::Told;
    use packet::{MacAddr, WallTime};

    #[test]
    fn words_are_cut_at_15_bytes_and_compared_up_to_a_nul() {
        let mut told = Told::new();
        told.expect(&[
            ("max_before_softirq 5", "EINVAL No such parameter \"max_before_soft\""),
            ("count\0 99", "OK: count=99"),
            ("count,5", "EINVAL No such parameter \"count,5\""),
            ("Count 5", "EINVAL No such parameter \"Count\""),
            (" \n", "EINVAL No such parameter \"\""),
            ("start", "EINVAL No such parameter \"start\""),
            ("add_device lo", "EINVAL No such parameter \"add_device\""),
        ]);
        assert_eq!(told.device.write(b"", &told.facts).unwrap_err().fault, Fault::Empty);
        let refused = told.device.write(b"\t\xffoo 5", &told.facts).unwrap_err();
        assert_eq!((refused.errno(), refused.span), (crate::Errno::EINVAL, 1..4));
        assert_eq!(told.device.result, b"No such parameter \"\xffoo\"", "bytes, not characters");
    }

    #[test]
    fn ports_are_compared_as_typed_and_cut_to_16_bits() {
        let mut told = Told::new();
        told.expect(&[("udp_src_min 9", "OK: udp_src_min=9"), ("udp_dst_max 70000", "OK: udp_dst_max=4464")]);
        assert_eq!(
            told.line("cur_udp_dst").unwrap(),
            "cur_udp_dst: 4464  cur_udp_src: 0",
            "9 was set already"
        );
        told.expect(&[("udp_src_min 65545", "OK: udp_src_min=9")]);
        assert_eq!(told.line("cur_udp_dst").unwrap(), "cur_udp_dst: 4464  cur_udp_src: 9");
    }

    #[test]
    fn mac_counts_start_over_when_they_change() {
        let mut told = Told::new();
        (told.device.cursor.src_mac_offset, told.device.cursor.dst_mac_offset) = (2, 3);
        told.expect(&[
            ("src_mac_count 0", "OK: src_mac_count=0"),
            ("dst_mac_count 4294967295", "OK: dst_mac_count=-1"),
        ]);
        assert_eq!(told.line("seq_num").unwrap(), "seq_num: 0  cur_dst_mac_offset: 0  cur_src_mac_offset: 2");
    }

    #[test]
    fn plain_numbers_have_the_widths_of_the_kernel() {
        Told::new().expect(&[
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
        let mut told = Told::after(&["count 3", "src_mac_count 2"]);
        let facts = DeviceFacts { mac: MacAddr([2; 6]), tx_queues: 1, ..DeviceFacts::default() };
        let plan = told.device.start(&facts, 5_000, 1).unwrap();
        assert_eq!((told.device.result.as_slice(), told.device.is_running), (&b"Starting"[..], true));
        let mut frame = [0; 58];
        for _ in 0..3 {
            plan.emit(&mut told.device.cursor, WallTime::default(), &mut frame);
            told.device.counters.sofar += 1;
        }
        let text = String::from_utf8(told.device.read(&told.facts, 9_999, None)).unwrap();
        assert!(text.contains("\n     started: 5us  stopped: 9us idle: 0us\n"), "{text}");
        assert!(text.contains("min_pkt_size: 58  max_pkt_size: 58\n"), "{text}");
        told.device.stop(2_000_005_000, crate::fragments(&told.device.config, &plan, 58));
        assert_eq!(
            String::from_utf8_lossy(&told.device.result),
            "OK: 2000000(c2000000+d0) usec, 3 (58byte,0frags)\n  1pps 0Mb/sec (464bps) errors: 0"
        );
        told.device.stop(9_000_000_000, NO_FRAME);
        assert_eq!(told.device.counters.stopped_ns, 2_000_005_000, "it had stopped already");
        told.device.start(&facts, 1, 1).unwrap();
        assert_eq!((told.device.counters.sofar, told.device.cursor.seq_num), (0, 1));
    }

    #[test]
    fn a_run_that_cannot_be_planned_says_why() {
        let mut told = Told::after(&["dst_min 224.0.0.1", "dst_max 239.0.0.1", "flag IPDST_RND"]);
        told.device.start(&DeviceFacts::default(), 1, 1).unwrap_err();
        assert!(told.device.result.starts_with(b"ERROR: IPDST_RND: no address from 224.0.0.1"));
        assert!(!told.device.is_running);
        let mut told = Told::new();
        told.device.start(&DeviceFacts::default(), 1, 1).unwrap();
        told.device.fail(2, "no engine");
        assert_eq!(
            (told.device.result.as_slice(), told.device.is_running),
            (&b"ERROR: no engine"[..], false)
        );
    }

    #[test]
    fn the_rate_of_a_mix_is_that_of_its_sizes() {
        let mut told = Told::after(&["imix_weights 100,1 200,1"]);
        told.device.start(&DeviceFacts::default(), 0, 1).unwrap();
        told.device.cursor.imix_counts = vec![3, 1];
        told.device.counters.sofar = 4;
        told.device.stop(1_000_000_000, 0);
        assert!(told.device.result.ends_with(b"4pps 0Mb/sec (4000bps) errors: 0"));
        assert_eq!(told.line("imix_size_counts").unwrap(), "imix_size_counts: 100,3 200,1 ");
    }

    #[test]
    fn a_mix_changed_during_a_run_never_leaves_a_frame_longer_than_its_plan() {
        let mut told = Told::after(&["pkt_size 100", "burst 4", "imix_weights 700,1"]);
        let link = told.facts.link;
        let mut plan = told.device.start(&link, 0, 1).unwrap();
        for (command, frame_len) in [
            ("imix_weights 60,1", 60),
            ("imix_weights 700,1", 700),
            ("pkt_size 1400", 700),
            ("imix_weights x", 700),
        ] {
            let mut bytes = vec![0; plan.frame_len_max() as usize];
            plan.emit(&mut told.device.cursor, WallTime::default(), &mut bytes);
            // One that is no mix takes the old one away, and the last size stays, as in the kernel.
            let _ = told.device.write(command.as_bytes(), &told.facts);
            plan = Plan::new(&told.device.config, &link, &told.device.cursor).unwrap();
            let mut bytes = vec![0; plan.frame_len_max() as usize];
            assert_eq!(plan.emit(&mut told.device.cursor, WallTime::default(), &mut bytes), frame_len);
        }
    }

    #[test]
    fn random_tags_show_and_stay() {
        let mut told = Told::after(&["vlan_id 5", "flag VID_RND"]);
        told.device.start(&DeviceFacts::default(), 0, 1).unwrap();
        told.device.cursor.vlan_id = 77;
        assert_eq!(told.line("vlan_id").unwrap(), "vlan_id: 77  vlan_p: 0  vlan_cfi: 0");
        told.tell("count 5");
        assert_eq!(told.line("vlan_id").unwrap(), "vlan_id: 77  vlan_p: 0  vlan_cfi: 0");
        told.tell("vlan_id 6");
        assert_eq!(told.line("vlan_id").unwrap(), "vlan_id: 6  vlan_p: 0  vlan_cfi: 0");
        told.device.cursor.vlan_id = 78;
        told.device.stop(1, 0);
        assert_eq!(told.device.config.vlan_id, Some(78));
    }
}
