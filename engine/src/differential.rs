//! Differential test: for random plans, every BPF program that builds frames gives the same bytes,
//! cursor and flow table as `Plan::emit`.

use crate::translate;
use bpf::{BpfError, Sender, SkbParams, SkbSender, State, abi};
use host::{Netns, Stack};
use packet::{Config, Cursor, Plan, Rng, sample};

const XDP_REDIRECT: u32 = 4;
const LOOPBACK: u32 = 1;
const PLANS: u64 = 2000;
const FRAMES: usize = 9;

/// A program that builds frames.
trait Writer: Sized {
    fn load(plan: &abi::Plan) -> Result<Self, BpfError>;
    fn state(&self) -> &State;
    /// Sets whether the frame of the cursor is built already, if the program has that state.
    fn set_frame_kept(&self, _is_kept: bool) {}
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

    fn set_frame_kept(&self, is_kept: bool) {
        self.set_frame_kept(is_kept);
    }

    fn write(&self, start: &[u8]) -> Vec<u8> {
        let params = SkbParams { batch: 1, ..SkbParams::default() };
        let mut frame = vec![0; start.len()];
        let (result, len) = self.run(start, &mut frame, 1, &params).expect("the program can be run");
        assert_eq!(result, bpf::SendResult::default());
        frame.truncate(len);
        frame
    }
}

/// Runs one plan on both, from one cursor. In every fourth plan, repeats and ports change in
/// between.
fn compare<W: Writer>(seed: u64) -> Result<(), BpfError> {
    let rng = &mut Rng(seed);
    let mut config = sample::config(rng, 1514);
    let facts = sample::facts();
    config.signature = sample::signature(rng);
    config.prepare(&facts);
    let mut cursor = Cursor { src_v6: config.src6, dst_v6: config.dst6, ..Cursor::default() };
    cursor.ip_id = rng.next_u32() as u16;
    cursor.start(&config, &facts, seed);
    cursor.seq_num = u32::MAX - 3;
    let mut repeats = go_on::<W>(&config, &mut cursor, seed)?;
    for _ in 0..if seed.is_multiple_of(4) { 2 } else { 0 } {
        (config.clone_skb, config.burst) = (rng.below(4) as i32, 1 + rng.below(3));
        config.udp_dst_max = config.udp_dst_min.saturating_add(rng.below(9) as u16);
        if rng.below(2) == 0 {
            cursor.end_repeats(repeats);
        }
        repeats = go_on::<W>(&config, &mut cursor, seed)?;
    }
    Ok(())
}

/// Sends some frames of one plan on both; returns the repeat count.
fn go_on<W: Writer>(config: &Config, cursor: &mut Cursor, seed: u64) -> Result<u32, BpfError> {
    let plan = Plan::new(config, &sample::facts(), cursor).expect("random configurations are good");
    let writer = W::load(&translate::plan(&plan, cursor, LOOPBACK, false))?;
    let state = writer.state();
    state.set_cursor(&translate::cursor(cursor, &plan));
    state.set_flows(&translate::flows(&cursor.flows));
    writer.set_frame_kept(cursor.repeats_left > 0);
    let dirty = vec![0xee; plan.frame_len_max() as usize];
    for frame in 0..FRAMES {
        let mut start = dirty.clone();
        start[plan.layout.end..].fill(0);
        let sent = writer.write(&start);
        let after = state.cursor();
        let usec = u64::from(after.built_sec) * 1_000_000 + u64::from(after.built_usec);
        let now_ns = usec * 1000 + u64::from(after.built_nsec);
        let mut expected = dirty.clone();
        let len = plan.emit(cursor, now_ns, &mut expected);
        assert_eq!(sent, expected[..len], "seed {seed} frame {frame}: {config:?}");
    }
    let mut back = cursor.clone();
    translate::update(&mut back, &state.cursor());
    assert_eq!(&back, cursor, "seed {seed}: {config:?}");
    let flows = translate::flows_back(&state.flows());
    assert_eq!(flows[..cursor.flows.len()], cursor.flows, "seed {seed}: {config:?}");
    Ok(plan.repeats)
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

/// A new namespace; `None` without the capabilities.
fn netns() -> Option<Netns> {
    testkit::is_root("CAP_NET_ADMIN, CAP_BPF").then(|| Netns::anonymous().expect("root may make a namespace"))
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
