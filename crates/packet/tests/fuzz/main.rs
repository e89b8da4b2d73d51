//! Frames of random plans, read by a decoder that shares nothing with us (etherparse) and held
//! against what the configuration asks for: lengths, tags, labels, addresses, ports, checksums, the
//! pktgen header, and the order in which ranges are gone through.
//!
//! Nothing here asks the plan or the cursor what it sent; only the security associations are left
//! to tests of their own.

mod frame;
mod walk;
mod wanted;

use packet::{Config, Cursor, DeviceFacts, ImixEntry, Plan, PlanError, Rng, WallTime, sample};
use std::net::Ipv4Addr;
use wanted::Wanted;

/// Frames of each run.
const FRAMES: u32 = 40;

#[test]
fn another_decoder_finds_in_random_frames_what_was_asked_for() {
    testkit::fuzz!("another_decoder_finds_in_random_frames_what_was_asked_for", 6_000, |seed| {
        let rng = &mut Rng(seed);
        let facts = facts(rng);
        let mut config = config(rng);
        config.prepare(&facts);
        let mut cursor = Cursor::of_v6(config.src6, config.dst6);
        let mut built = 0;
        for run in 1..=2 {
            cursor.start(&config, &facts, u64::from(rng.next_u32()));
            // What was drawn in the run before stays, as in pktgen.
            cursor.write_back(&mut config);
            let plan = match Plan::new(&config, &facts, &cursor) {
                Ok(plan) => plan,
                Err(PlanError::NoDestination { .. }) => return,
                Err(error) => panic!("run {run}: {error}\n{config:?}\n{facts:?}"),
            };
            built += check_run(&config, &facts, &plan, &mut cursor, built)
                .unwrap_or_else(|what| panic!("run {run}: {what}\n{config:?}\n{facts:?}"));
        }
    });
}

/// Sends and reads the frames of one run; the number of those built, clones not counted.
fn check_run(
    config: &Config,
    facts: &DeviceFacts,
    plan: &Plan,
    cursor: &mut Cursor,
    built_before: u32,
) -> Result<u32, String> {
    let wanted = Wanted::new(config, facts);
    let longest = plan.frame_len_max() as usize;
    let mut bytes = vec![0; longest + 8];
    let mut before = Vec::new();
    for number in 0..FRAMES {
        let build = number / plan.repeats;
        bytes.fill(0xee);
        let mut skipped = cursor.clone();
        let len = plan.emit(cursor, time_ns(number), &mut bytes[..longest]);
        let said = |what: String| format!("frame {number}: {what}\n{:02x?}", &bytes[..len]);
        if bytes[len..].iter().any(|byte| *byte != 0xee) {
            return Err(said("bytes behind its end were written".to_owned()));
        }
        let frame = frame::decode(&bytes[..len]).map_err(said)?;
        let time = WallTime::from_ns(time_ns(build * plan.repeats));
        wanted.check(&frame, build, built_before + build, time).map_err(said)?;
        wanted.check_queue(cursor.queue, build, built_before > 0).map_err(said)?;
        if number % plan.repeats != 0 && bytes[..len] != before {
            return Err(said("a clone differs".to_owned()));
        }
        before = bytes[..len].to_vec();
        plan.skip(&mut skipped);
        plan.read_times(&mut skipped, &bytes[..len]);
        if skipped != *cursor {
            return Err(said("skipping it leads elsewhere".to_owned()));
        }
    }
    Ok(FRAMES.div_ceil(plan.repeats))
}

/// Near the end of the 32-bit seconds of a signature.
fn time_ns(number: u32) -> u64 {
    let number = u64::from(number);
    (0xffff_fff0 + number) * 1_000_000_000 + (999_999 - number) * 1000 + number
}

/// Every device has some facts that another one has not.
fn facts(rng: &mut Rng) -> DeviceFacts {
    let mut facts = DeviceFacts { tx_queues: 1 + rng.below(9) as u16, cpu: rng.below(12), ..sample::facts() };
    facts.v4 = facts.v4.filter(|_| rng.below(4) > 0);
    facts.v6_link_local = facts.v6_link_local.filter(|_| rng.below(4) > 0);
    facts
}

/// A configuration of [`sample`] pushed to the edges that it leaves out.
fn config(rng: &mut Rng) -> Config {
    let frame_len_max = if rng.below(8) == 0 { packet::FRAME_LEN_MAX } else { 1514 };
    let mut config = sample::config(rng, frame_len_max);
    let edge = |rng: &mut Rng| [0, 1, 9, 0x7fff, 0xfffe, 0xffff][rng.below(6) as usize];
    match rng.below(16) {
        0 => (config.udp_src_min, config.udp_src_max) = (edge(rng), edge(rng)),
        1 => (config.udp_dst_min, config.udp_dst_max) = (edge(rng), edge(rng)),
        2 if config.mpls.is_empty() => (config.vlan_id, config.svlan_id) = (None, Some(edge(rng) & 0xfff)),
        3 => (config.src_mac_count, config.dst_mac_count) = (u32::MAX, 1 + rng.below(0xffff_ffff)),
        4 => (config.dst_min, config.dst_max) = (v4("0.0.0.0"), v4("255.255.255.255")),
        5 => (config.dst_min, config.dst_max) = (v4("223.255.255.254"), v4("240.0.0.3")),
        6 => (config.src_min, config.src_max) = (v4("255.255.255.250"), v4("255.255.255.255")),
        7 => config.imix = vec![ImixEntry { size: 60 + rng.below(9), weight: u64::MAX }; 20],
        8 => (config.queue_map_min, config.queue_map_max) = (rng.below(9) as u16, rng.below(9) as u16),
        9 => (config.min_pkt_size, config.max_pkt_size) = (0, 0),
        10 => (config.clone_skb, config.burst) = (1 + rng.below(9) as i32, 1 + rng.below(9)),
        _ => {}
    }
    config
}

fn v4(text: &str) -> Option<Ipv4Addr> {
    text.parse().ok()
}
