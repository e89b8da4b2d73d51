//! Differential test: for random general plans, the BPF program gives the same bytes and cursor as
//! `Plan::emit`.

use crate::translate_general;
use bpf::Sender;
use packet::general::{FrameSpec, GeneralPlan, PacketOrder, sample};
use packet::{Cursor, DeviceFacts, Plan, Rng};

const XDP_REDIRECT: u32 = 4;
const LOOPBACK: u32 = 1;
const PLANS: u64 = 600;
const FRAMES: usize = 9;

/// A plan of one packet, of several, or of one or two in several lengths; some with more fields
/// than the program has unrolled.
fn plan(seed: u64) -> (Plan, Cursor) {
    let rng = &mut Rng(seed);
    let order = if seed % 4 < 2 { PacketOrder::RoundRobin } else { PacketOrder::Random };
    if seed % 6 == 5 {
        let specs = sample::lengths_of_one_packet(rng, 5, 1514);
        return Plan::of_packets(GeneralPlan::of_lengths(&specs, order), &DeviceFacts::default());
    }
    if seed % 6 == 3 {
        let [one, other] = [(); 2].map(|()| sample::lengths_of_one_packet(rng, 5, 1514));
        let specs: Vec<FrameSpec> =
            one.into_iter().zip(other).flat_map(|(one, other)| [one, other]).collect();
        let general = GeneralPlan::of_packet_lengths(&specs, 2, order);
        return Plan::of_packets(general, &DeviceFacts::default());
    }
    let mut specs = sample::frame_specs(rng, if seed.is_multiple_of(2) { 1 } else { 5 }, 1514);
    if seed % 5 == 4 {
        let fields = specs[0].fields.clone();
        specs[0].fields.extend((0..30).flat_map(|_| fields.clone()));
    }
    Plan::of_packets(GeneralPlan::new(&specs, order), &DeviceFacts::default())
}

fn compare(seed: u64) {
    let (plan, mut cursor) = plan(seed);
    cursor.rng = Rng(seed);
    let general = plan.general.as_ref().expect("it is general");
    let program = translate_general::program(general, LOOPBACK, false).expect("BPF can do it");
    let sender = Sender::load_general(&program).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    let state = sender.state();
    state.set_cursor(&translate_general::cursor(&cursor));
    state.set_field_states(&cursor.general.states);
    state.set_clock(0, 1);
    // A page has the whole template of an only packet; the first bytes and all that moves may be
    // those of another frame.
    let mut page = vec![0xee; plan.frame_len_max() as usize];
    if general.packets().len() == 1 {
        let first = page.len().min(bpf::abi::TEMPLATE_MAX);
        page[first..].copy_from_slice(&plan.header[first..]);
    }
    for frame in 0..FRAMES {
        let (verdict, sent) = sender.run_once(&page).expect("the program can be run");
        assert_eq!(verdict, XDP_REDIRECT, "seed {seed} frame {frame}");
        let mut expected = vec![0xee; page.len()];
        let len = plan.emit(&mut cursor, state.cursor().now_ns, &mut expected);
        let place = sent.iter().zip(&expected[..len]).position(|(sent, expected)| sent != expected);
        let place = place.map(|place| (place, &plan.general));
        assert_eq!((sent.len(), place), (len, None), "seed {seed} frame {frame}");
    }
    let mut back = cursor.clone();
    translate_general::update(&mut back, &state.cursor(), state.field_states());
    assert_eq!(back, cursor, "seed {seed}");
}

#[test]
fn xdp_program_and_plan_give_the_same_bytes_for_random_general_plans() {
    if testkit::is_root("CAP_NET_ADMIN, CAP_BPF") {
        (0..PLANS).for_each(compare);
    }
}
