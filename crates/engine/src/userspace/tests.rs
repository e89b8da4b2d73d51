//! Frames that are not accepted at once: kept, sent unchanged, counted once. No socket, no device.

use super::*;
use crate::clock::fake::FakeClock;
use packet::{Config, DeviceFacts, Flags, Plan, Rng, sample};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// Result of one call.
#[derive(Clone, Copy, Debug)]
enum Says {
    /// It accepts at most this many.
    Takes(usize),
    /// It accepts none.
    Refuses(i32),
}

/// Follows its script, then accepts everything.
#[derive(Clone, Default)]
struct Script(Rc<RefCell<Played>>);

/// The remaining script, and the accepted frames.
type Played = (VecDeque<Says>, Vec<Vec<u8>>);

impl Script {
    fn of(says: &[Says]) -> Self {
        Self(Rc::new(RefCell::new((says.iter().copied().collect(), Vec::new()))))
    }

    fn taken(&self) -> Vec<Vec<u8>> {
        self.0.borrow().1.clone()
    }
}

/// A ring of eleven slots with old contents, emptied by a script.
struct ScriptedRing {
    script: Script,
    slots: Vec<(Vec<u8>, usize)>,
}

impl ScriptedRing {
    fn new(script: &Script, slot_len: usize) -> Self {
        Self { script: script.clone(), slots: vec![(vec![0xee; slot_len], 0); 11] }
    }
}

impl TxRing for ScriptedRing {
    const KIND: EngineKind = EngineKind::AfPacket;
    const CALL: &'static str = "a script";

    fn slots(&self) -> usize {
        self.slots.len()
    }

    fn slot(&mut self, index: usize) -> Option<&mut [u8]> {
        Some(&mut self.slots[index].0)
    }

    fn set_frame_len(&mut self, index: usize, frame_len: usize) {
        self.slots[index].1 = frame_len;
    }

    fn frame(&self, index: usize) -> &[u8] {
        let (bytes, len) = &self.slots[index];
        &bytes[..*len]
    }

    fn send(&mut self, first: usize, count: usize) -> io::Result<Accepted> {
        let (script, taken) = &mut *self.script.0.borrow_mut();
        let count = match script.pop_front().unwrap_or(Says::Takes(count)) {
            Says::Takes(most) => most.min(count),
            Says::Refuses(errno) => return Err(io::Error::from_raw_os_error(errno)),
        };
        let slots = self.slots.len();
        taken.extend((first..first + count).map(|index| self.frame(index % slots).to_vec()));
        Ok(Accepted { count, congested: 0 })
    }
}

/// A device that is up or down.
#[derive(Clone, Copy, Default)]
struct Patient {
    is_down: bool,
    mtu: u32,
}

impl LinkHealth for Patient {
    fn name(&self) -> String {
        "patient".to_owned()
    }

    fn trouble(&self) -> Result<Option<EngineError>, EngineError> {
        Ok(self.is_down.then(|| EngineError::Down { ifname: self.name() }))
    }

    fn length_trouble(&self, frame_len: u32, _: bool) -> Result<Option<EngineError>, EngineError> {
        let (ifname, mtu) = (self.name(), self.mtu);
        Ok((frame_len > mtu + 14).then_some(EngineError::LongerThanMtu { ifname, frame_len, mtu }))
    }
}

const WELL: Patient = Patient { is_down: false, mtu: 1500 };

type Tested = UserspaceEngine<ScriptedRing, Patient, FakeClock>;

fn engine(script: &Script, health: Patient, config: &Config) -> Tested {
    let (plan, cursor) = start(config);
    let ring = ScriptedRing::new(script, plan.frame_len_max() as usize);
    UserspaceEngine::over(ring, health, FakeClock::default(), FrameSource::new(plan, cursor), 8)
}

fn start(config: &Config) -> (Plan, Cursor) {
    let (mut config, facts): (_, DeviceFacts) = (config.clone(), sample::facts());
    config.prepare(&facts);
    let mut cursor = Cursor::of_v6(config.src6, config.dst6);
    cursor.start(&config, &facts, 7);
    (Plan::new(&config, &facts, &cursor).expect("a good configuration"), cursor)
}

/// The first frames of a plan, with the time at zero, and the cursor after each of them.
fn expected(config: &Config, count: usize) -> Vec<(Vec<u8>, Cursor)> {
    let (plan, mut cursor) = start(config);
    let next = |_| {
        let mut frame = vec![0xee; plan.frame_len_max() as usize];
        let len = plan.emit(&mut cursor, 0, &mut frame);
        frame.truncate(len);
        (frame, cursor.clone())
    };
    (0..count).map(next).collect()
}

fn budget(frames: u32) -> NonZeroU32 {
    NonZeroU32::new(frames).expect("not zero")
}

#[test]
fn refused_frames_go_first_the_next_time_and_as_they_were() {
    use Says::{Refuses, Takes};
    let script = Script::of(&[Takes(3), Refuses(libc::ENOBUFS), Takes(1), Refuses(libc::EAGAIN)]);
    let config = Config::default();
    let mut engine = engine(&script, WELL, &config);
    let bursts = [20, 17, 16].map(|frames| engine.send_burst(budget(frames)).expect("not an error"));
    assert_eq!(bursts.map(|burst| (burst.sent, burst.retries)), [(3, 1), (1, 1), (16, 0)]);
    assert!(bursts.iter().all(|burst| burst.errors == Errors::default() && burst.offered() == burst.sent));
    assert_eq!(bursts.iter().map(|burst| burst.frame_bytes).sum::<u64>(), 20 * 58);
    let wanted: Vec<_> = expected(&config, 20).into_iter().map(|(frame, _)| frame).collect();
    assert_eq!(script.taken(), wanted);
}

/// Whatever the device accepts: it gets the first frames of the plan, and the cursor is behind
/// them.
#[test]
fn random_refusals_lose_nothing_and_the_cursor_knows_it() {
    for seed in 0..300 {
        let rng = &mut Rng(seed);
        let mut config = sample::config(rng, 400);
        config.signature = sample::signature(rng);
        config.flags.set(Flags::NO_TIMESTAMP, rng.below(2) == 0);
        let says: Vec<_> = (0..40)
            .map(|_| match rng.below(3) {
                0 => Says::Refuses(
                    [libc::ENOBUFS, libc::EAGAIN, libc::EINTR, libc::ENOMEM][rng.below(4) as usize],
                ),
                _ => Says::Takes(1 + rng.below(9) as usize),
            })
            .collect();
        let script = Script::of(&says);
        let mut engine = engine(&script, WELL, &config);
        let wanted = expected(&config, 2000);
        let mut sent = 0;
        for _ in 0..12 {
            let burst = engine.send_burst(budget(1 + rng.below(150))).expect("not an error");
            sent += burst.sent as usize;
            assert_eq!(script.taken().len(), sent, "seed {seed}");
            let stands_at = if sent == 0 { start(&config).1 } else { wanted[sent - 1].1.clone() };
            assert_eq!(engine.cursor(), stands_at, "seed {seed} after {sent}");
        }
        let taken = script.taken();
        assert!(taken.iter().zip(&wanted).all(|(taken, (wanted, _))| taken == wanted), "seed {seed}");
    }
}

#[test]
fn cursor_steps_back_over_copies_made_long_ago() {
    let config =
        Config { flows: 3000, flow_len: 2, dst_max: Some([10, 0, 0, 99].into()), ..Config::default() };
    let script = Script::default();
    let mut engine = engine(&script, WELL, &config);
    engine.send_burst(budget(9001)).expect("all is taken");
    script.0.borrow_mut().0.extend([Says::Takes(2), Says::Refuses(libc::ENOBUFS)]);
    assert_eq!(engine.send_burst(budget(50)).expect("not an error").sent, 2);
    assert_eq!(engine.cursor(), expected(&config, 9003)[9002].1);
}

#[test]
fn a_frame_to_be_repeated_keeps_its_time_when_the_run_goes_on_elsewhere() {
    let config = Config { clone_skb: 10, ..Config::default() };
    let script = Script::of(&[Says::Takes(3), Says::Refuses(libc::ENOBUFS)]);
    let mut engine = engine(&script, WELL, &config);
    engine.clock.0.set(5_000_007_000);
    engine.send_burst(budget(8)).expect("not an error");
    let mut cursor = engine.cursor();
    let mut frame = [0; 58];
    engine.source.plan().emit(&mut cursor, 0, &mut frame);
    assert_eq!((cursor.repeats_left, &frame[50..58]), (6, &[0, 0, 0, 5, 0, 0, 0, 7][..]));
}

#[test]
fn a_device_that_goes_down_ends_the_run_after_what_it_took_was_counted() {
    let script = Script::of(&[Says::Takes(5), Says::Refuses(libc::ENETDOWN), Says::Refuses(libc::ENETDOWN)]);
    let mut engine = engine(&script, Patient { is_down: true, mtu: 1500 }, &Config::default());
    assert_eq!(engine.send_burst(budget(8)).expect("five were taken").sent, 5);
    let error = engine.send_burst(budget(8)).expect_err("none was taken");
    assert!(matches!(error, EngineError::Down { .. }), "{error}");
    assert_eq!(engine.cursor().seq_num, 6);
}

#[test]
fn no_carrier_looks_like_a_full_ring_and_is_told_apart() {
    let refusals = [Says::Refuses(libc::ENOBUFS); 4];
    let mut sick = engine(&Script::of(&refusals), Patient { is_down: true, mtu: 1500 }, &Config::default());
    sick.clock.0.set(2 * CHECK_INTERVAL_NS);
    assert!(matches!(sick.send_burst(budget(8)), Err(EngineError::Down { .. })));
    let mut well = engine(&Script::of(&refusals), WELL, &Config::default());
    well.clock.0.set(2 * CHECK_INTERVAL_NS);
    assert_eq!(well.send_burst(budget(8)).expect("only full").retries, 1);
}

#[test]
fn a_frame_beyond_the_mtu_says_so() {
    let config = Config { min_pkt_size: 1200, ..Config::default() };
    let script = Script::of(&[Says::Refuses(libc::EMSGSIZE)]);
    let error = engine(&script, Patient { is_down: false, mtu: 1000 }, &config)
        .send_burst(budget(1))
        .expect_err("too long");
    assert_eq!(error.to_string(), "frames of 1200 bytes are too long for patient: its MTU is 1000");
    assert!(matches!(error, EngineError::LongerThanMtu { frame_len: 1200, .. }));
}

#[test]
fn what_nobody_expected_names_the_call_and_the_device() {
    let script = Script::of(&[Says::Refuses(libc::EPERM)]);
    let error = engine(&script, WELL, &Config::default()).send_burst(budget(1)).expect_err("not allowed");
    assert!(matches!(error, EngineError::Syscall { call: "a script", .. }), "{error}");
}

#[test]
fn a_packet_without_a_peer_of_wireguard_says_so() {
    for (errno, lack) in [(libc::ENOKEY, "allowed IPs"), (libc::EDESTADDRREQ, "no endpoint")] {
        let script = Script::of(&[Says::Takes(3), Says::Refuses(errno)]);
        let mut engine = engine(&script, WELL, &Config::default());
        assert_eq!(engine.send_burst(budget(8)).expect("three were taken").sent, 3);
        script.0.borrow_mut().0.push_back(Says::Refuses(errno));
        let error = engine.send_burst(budget(8)).expect_err("it has no peer").to_string();
        assert!(error.starts_with("patient does not send a packet: ") && error.contains(lack), "{error}");
    }
}
