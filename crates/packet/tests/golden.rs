//! The frames of random configurations, as a number that a change of any byte changes.

use packet::{Cursor, Plan, Rng, sample};

/// FNV-1a over all frames. It changes only if a seed is to give other frames.
const FRAMES: u64 = 14_308_340_754_787_047_611;

#[test]
fn frames_of_random_configurations_stay_byte_for_byte() {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |bytes: &[u8]| {
        for byte in bytes {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    for seed in 0..4000 {
        let rng = &mut Rng(seed);
        let mut config = sample::config(rng, 1514);
        config.signature = sample::signature(rng);
        config.prepare(&sample::facts());
        let mut cursor = Cursor::of_v6(config.src6, config.dst6);
        cursor.start(&config, &sample::facts(), seed);
        let plan = Plan::new(&config, &sample::facts(), &cursor).expect("random configurations are good");
        let mut frame = vec![0xee; plan.frame_len_max() as usize];
        for number in 0..20 {
            let now_ns = (seed << 40).wrapping_add(number * 1_000_003);
            let len = plan.emit(&mut cursor, now_ns, &mut frame);
            add(&(len as u32).to_be_bytes());
            add(&cursor.queue.to_be_bytes());
            add(&frame[..len]);
        }
    }
    assert_eq!(hash, FRAMES);
}
