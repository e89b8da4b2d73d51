//! The BPF program and `Plan::emit` give the same bytes, the same cursor and the same flow table.

use super::translate;
use bpf::{BpfError, Sender};
use packet::{Cursor, Plan, Rng, WallTime, sample};

const XDP_REDIRECT: u32 = 4;
const PLANS: u64 = 2000;
const FRAMES: usize = 9;

/// Runs one plan on both, from one cursor.
fn compare(seed: u64) -> Result<(), BpfError> {
    let rng = &mut Rng(seed);
    let mut config = sample::config(rng, 1514);
    let facts = sample::facts();
    config.prepare(&facts);
    let mut cursor = Cursor { src_v6: config.src6, dst_v6: config.dst6, ..Cursor::default() };
    cursor.ip_id = rng.next_u32() as u16;
    cursor.start(&config, &facts, seed).expect("random configurations are good");
    cursor.seq_num = u32::MAX - 3;
    let plan = Plan::new(&config, &facts, &cursor).expect("random configurations are good");

    let sender = Sender::load(&translate::plan(&plan, 1, false))?;
    sender.set_cursor(&translate::cursor(&cursor, &plan));
    sender.set_flows(&translate::flows(&cursor.flows));
    let dirty = vec![0xee; plan.frame_len_max() as usize];
    for frame in 0..FRAMES {
        let mut start = dirty.clone();
        start[plan.layout.end..].fill(0);
        let (verdict, sent) = sender.run_once(&start).expect("the program can be run");
        assert_eq!(verdict, XDP_REDIRECT, "seed {seed} frame {frame}: {config:?}");
        let after = sender.cursor();
        let now = WallTime { sec: after.built_sec, usec: after.built_usec };
        let mut expected = dirty.clone();
        let len = plan.emit(&mut cursor, now, &mut expected);
        assert_eq!(sent, expected[..len], "seed {seed} frame {frame}: {config:?}");
    }
    let mut back = cursor.clone();
    translate::update(&mut back, &sender.cursor());
    assert_eq!(back, cursor, "seed {seed}: {config:?}");
    let flows = translate::flows_back(&sender.flows());
    assert_eq!(flows[..cursor.flows.len()], cursor.flows, "seed {seed}: {config:?}");
    Ok(())
}

#[test]
fn program_and_plan_give_the_same_bytes_for_random_plans() {
    let started = std::time::Instant::now();
    for seed in 0..PLANS {
        match compare(seed) {
            Ok(()) => {}
            Err(error) => panic!("seed {seed}: {error}"),
        }
    }
    println!("{PLANS} plans in {:?}", started.elapsed());
}
