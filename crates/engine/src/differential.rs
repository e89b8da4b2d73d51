//! Differential test: for random plans, of pktgen's settings and of packets, every BPF program that
//! builds frames gives the same bytes, cursor and flow table as `Plan::emit`.

use crate::translate;
use bpf::{BpfError, PlanProgram, Sender, SkbParams, SkbSender, State};
use host::{Netns, Stack};
use packet::plan::{FieldMode, FrameSpec, PacketOrder};
use packet::{Config, Cursor, DeviceFacts, FrameClock, Plan, Rng, Slot, plan, sample};

const XDP_REDIRECT: u32 = 4;
const LOOPBACK: u32 = 1;
const PLANS: u64 = 2000;
const PLANS_OF_PACKETS: u64 = 600;
const FRAMES: usize = 9;

/// A program that builds frames.
trait Writer: Sized {
    /// It builds plans of one packet only.
    const IS_FOR_SKB: bool = false;

    fn load(program: &PlanProgram) -> Result<Self, BpfError>;
    fn state(&self) -> &State;
    /// Sets whether the frame of the cursor is built already, if the program has that state.
    fn set_frame_kept(&self, _is_kept: bool) {}
    /// The next frame, written over `start`.
    fn write(&self, start: &[u8]) -> Vec<u8>;
}

impl Writer for Sender {
    fn load(program: &PlanProgram) -> Result<Self, BpfError> {
        Self::load(program)
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
    const IS_FOR_SKB: bool = true;

    fn load(program: &PlanProgram) -> Result<Self, BpfError> {
        Self::load(program)
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
    if seed.is_multiple_of(3) {
        sample::add_ranges(&mut config, rng);
    }
    if seed % 5 < 2 {
        sample::add_holds(&mut config, rng);
    }
    config.prepare(&facts);
    let mut cursor = Cursor::of_v6(config.src6, config.dst6);
    cursor[Slot::IP_ID] = u64::from(rng.next_u32() as u16);
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
    send_some::<W>(&plan, cursor, &format!("seed {seed}: {config:?}"))?;
    Ok(plan.repeats)
}

/// Sends some frames of a plan on both.
fn send_some<W: Writer>(plan: &Plan, cursor: &mut Cursor, what: &str) -> Result<(), BpfError> {
    let program = translate::program(plan, cursor, LOOPBACK, false).expect("BPF can do it");
    if W::IS_FOR_SKB && !translate::is_for_skb(&program) {
        return Ok(());
    }
    let writer = W::load(&program)?;
    let state = writer.state();
    translate::set_cursor(state, plan, cursor);
    state.set_clock(0, 1);
    writer.set_frame_kept(cursor.repeats_left > 0);
    let dirty = vec![0xee; plan.frame_len_max() as usize];
    // A page has the whole template of an only packet, and zeros behind it; the first bytes and all
    // that moves may be those of another frame.
    let mut start = dirty.clone();
    if let [only] = plan.packets() {
        let first = start.len().min(bpf::abi::TEMPLATE_MAX).min(only.template.len());
        start[first..].fill(0);
        start[first..only.template.len()].copy_from_slice(&only.template[first..]);
    }
    for frame in 0..FRAMES {
        let sent = writer.write(&start);
        let after = state.cursor();
        let usec = u64::from(after.now_sec) * 1_000_000 + u64::from(after.now_usec);
        let now_ns = match plan.clock() {
            FrameClock::Monotonic => after.now_ns,
            FrameClock::Wall => usec * 1000 + u64::from(after.now_nsec),
        };
        let mut expected = dirty.clone();
        let len = plan.emit(cursor, now_ns, &mut expected);
        let place = sent.iter().zip(&expected[..len]).position(|(sent, expected)| sent != expected);
        assert_eq!((sent.len(), place), (len, None), "frame {frame} of {what}: {sent:02x?} {expected:02x?}");
    }
    let mut back = cursor.clone();
    translate::update(&mut back, plan, state);
    if plan.repeats == 1 {
        // The xdp program keeps no values then.
        back.values.clone_from(&cursor.values);
    }
    assert_eq!(&back, cursor, "{what}");
    Ok(())
}

/// A plan of one packet, of several, or of one or two in several lengths; some with more fields
/// than the program has unrolled, and some with repeats.
fn plan_of_packets(seed: u64) -> (Plan, Cursor) {
    let rng = &mut Rng(seed);
    let order = if seed % 4 < 2 { PacketOrder::RoundRobin } else { PacketOrder::Random };
    let plan = match seed % 6 {
        5 => Plan::of_lengths(&plan::sample::lengths_of_one_packet(rng, 5, 1514), order),
        3 => {
            let [one, other] = [(); 2].map(|()| plan::sample::lengths_of_one_packet(rng, 5, 1514));
            let specs: Vec<FrameSpec> =
                one.into_iter().zip(other).flat_map(|(one, other)| [one, other]).collect();
            Plan::of_packet_lengths(&specs, 2, order)
        }
        _ => {
            let count_max = if seed.is_multiple_of(2) { 1 } else { 5 };
            let mut specs = plan::sample::frame_specs(rng, count_max, 1514);
            if seed % 5 == 4 {
                let fields = specs[0].fields.clone();
                specs[0].fields.extend((0..30).flat_map(|_| fields.clone()));
            }
            Plan::of_specs(&specs, order)
        }
    };
    let repeats = if seed % 7 < 2 { 1 + rng.below(4) } else { 1 };
    let (mut plan, cursor) = plan.on(&DeviceFacts::default());
    plan.repeats = repeats;
    (plan, Cursor { rng: Rng(seed), ..cursor })
}

fn compare_packets<W: Writer>() {
    for seed in 0..PLANS_OF_PACKETS {
        let (plan, mut cursor) = plan_of_packets(seed);
        let modes = || plan.packets().iter().flat_map(|packet| &packet.fields).map(|field| &field.mode);
        let what = format!("seed {seed}: {:?}", modes().collect::<Vec<&FieldMode>>());
        for _ in 0..2 {
            if let Err(error) = send_some::<W>(&plan, &mut cursor, &what) {
                panic!("{what}: {error}");
            }
        }
    }
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

#[test]
fn xdp_program_and_plan_give_the_same_bytes_for_random_packets() {
    if netns().is_some() {
        compare_packets::<Sender>();
    }
}

/// The clones go to the loopback device of a private namespace, which drops them.
#[test]
fn skb_program_and_plan_give_the_same_bytes_for_random_plans() {
    let Some(netns) = netns() else { return };
    Stack::of(&netns).expect("netlink").set_up("lo").expect("lo goes up");
    netns.run(compare_all::<SkbSender>).expect("a thread in the namespace");
    netns.run(compare_packets::<SkbSender>).expect("a thread in the namespace");
}
