//! Every BPF program that writes frames and `Plan::emit` give the same bytes, the same cursor and the same flow
//! table, for random plans.

use crate::translate;
use bpf::{BpfError, Sender, SkbHow, SkbSender, State, abi};
use host::{Netns, Stack};
use packet::{Cursor, Plan, Rng, WallTime, sample};

const XDP_REDIRECT: u32 = 4;
const LOOPBACK: u32 = 1;
const PLANS: u64 = 2000;
const FRAMES: usize = 9;

/// A program that writes frames.
trait Writer: Sized {
    fn load(plan: &abi::Plan) -> Result<Self, BpfError>;
    fn state(&self) -> &State;
    /// The next frame, written over `start`.
    fn write(&self, start: &[u8]) -> Vec<u8>;
}

impl Writer for Sender {
    fn load(plan: &abi::Plan) -> Result<Self, BpfError> {
        Self::load(plan)
    }

    fn state(&self) -> &State {
        self.state()
    }

    fn write(&self, start: &[u8]) -> Vec<u8> {
        let (verdict, frame) = self.run_once(start).expect("the program can be run");
        assert_eq!(verdict, XDP_REDIRECT);
        frame
    }
}

impl Writer for SkbSender {
    fn load(plan: &abi::Plan) -> Result<Self, BpfError> {
        Self::load(plan)
    }

    fn state(&self) -> &State {
        self.state()
    }

    fn write(&self, start: &[u8]) -> Vec<u8> {
        let how = SkbHow { turns: 1, ..SkbHow::default() };
        let mut frame = vec![0; start.len()];
        let (said, len) = self.run(start, &mut frame, 1, &how).expect("the program can be run");
        assert_eq!(said, bpf::Said::default());
        frame.truncate(len);
        frame
    }
}

/// Runs one plan on both, from one cursor.
fn compare<W: Writer>(seed: u64) -> Result<(), BpfError> {
    let rng = &mut Rng(seed);
    let mut config = sample::config(rng, 1514);
    let facts = sample::facts();
    config.prepare(&facts);
    let mut cursor = Cursor { src_v6: config.src6, dst_v6: config.dst6, ..Cursor::default() };
    cursor.ip_id = rng.next_u32() as u16;
    cursor.start(&config, &facts, seed).expect("random configurations are good");
    cursor.seq_num = u32::MAX - 3;
    let plan = Plan::new(&config, &facts, &cursor).expect("random configurations are good");

    let writer = W::load(&translate::plan(&plan, LOOPBACK, false))?;
    let state = writer.state();
    state.set_cursor(&translate::cursor(&cursor, &plan));
    state.set_flows(&translate::flows(&cursor.flows));
    let dirty = vec![0xee; plan.frame_len_max() as usize];
    for frame in 0..FRAMES {
        let mut start = dirty.clone();
        start[plan.layout.end..].fill(0);
        let sent = writer.write(&start);
        let after = state.cursor();
        let now = WallTime { sec: after.built_sec, usec: after.built_usec };
        let mut expected = dirty.clone();
        let len = plan.emit(&mut cursor, now, &mut expected);
        assert_eq!(sent, expected[..len], "seed {seed} frame {frame}: {config:?}");
    }
    let mut back = cursor.clone();
    translate::update(&mut back, &state.cursor());
    assert_eq!(back, cursor, "seed {seed}: {config:?}");
    let flows = translate::flows_back(&state.flows());
    assert_eq!(flows[..cursor.flows.len()], cursor.flows, "seed {seed}: {config:?}");
    Ok(())
}

fn compare_all<W: Writer>() {
    let started = std::time::Instant::now();
    for seed in 0..PLANS {
        if let Err(error) = compare::<W>(seed) {
            panic!("seed {seed}: {error}");
        }
    }
    println!("{PLANS} plans in {:?}", started.elapsed());
}

/// A namespace of our own; `None`, said aloud, without the right to it. In CI that is a failure.
fn netns() -> Option<Netns> {
    match Netns::anonymous() {
        Ok(netns) => Some(netns),
        Err(error) => {
            assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "CI must run this: {error}");
            eprintln!("skip: needs CAP_NET_ADMIN and CAP_BPF");
            None
        }
    }
}

#[test]
fn xdp_program_and_plan_give_the_same_bytes_for_random_plans() {
    if netns().is_some() {
        compare_all::<Sender>();
    }
}

/// The clones go to the loopback device of a private namespace, which drops them.
#[test]
fn skb_program_and_plan_give_the_same_bytes_for_random_plans() {
    let Some(netns) = netns() else { return };
    Stack::of(&netns).expect("netlink").set_up("lo").expect("lo goes up");
    netns.run(compare_all::<SkbSender>).expect("a thread in the namespace");
}
