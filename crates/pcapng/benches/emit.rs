//! Time to encode one packet into a buffer: `cargo bench -p pcapng`.
//!
//! Loops over a buffer that stays in the cache; medians of several rounds. Without `--bench` (as
//! under `cargo test --benches`) it runs one short round, so that it keeps compiling and running.

use pcapng::{Interface, Packet, PacketFlags, Template};
use std::hint::black_box;
use std::time::Instant;

const BUFFER_LEN: usize = 256 << 10;

fn main() {
    let is_bench = std::env::args().any(|arg| arg == "--bench");
    let (rounds, packets) = if is_bench { (15, 4_000_000) } else { (1, 1_000) };
    let frame = [0x5a; 1514];
    for captured_len in [60, 96, 97, 128, 1514] {
        let data = &frame[..captured_len];
        let like = Packet {
            flags: Some(PacketFlags::INBOUND),
            queue: Some(3),
            frame_len: 1514,
            data,
            ..Packet::default()
        };
        let template = Template::new(&Interface::default(), &like);
        report("template, flags and queue", captured_len, rounds, packets, |time_ns, out| {
            template.emit(time_ns, 1514, black_box(data), out);
        });
        report("packet, queue", captured_len, rounds, packets, |time_ns, out| {
            Packet { time_ns, data: black_box(data), flags: None, ..like }.emit(out);
        });
        report("packet, every number", captured_len, rounds, packets, |time_ns, out| {
            let packet_id = Some(time_ns);
            Packet { time_ns, data: black_box(data), packet_id, drop_count: Some(1), ..like }.emit(out);
        });
    }
}

/// Prints the median of `rounds` in nanoseconds for each packet.
fn report(what: &str, captured_len: usize, rounds: usize, packets: u64, emit: impl Fn(u64, &mut Vec<u8>)) {
    let mut out = Vec::with_capacity(BUFFER_LEN);
    let mut rounds_ns: Vec<f64> = (0..rounds)
        .map(|_| {
            let start = Instant::now();
            for time_ns in 0..packets {
                if out.len() > BUFFER_LEN - 4096 {
                    black_box(&out);
                    out.clear();
                }
                emit(black_box(time_ns), &mut out);
            }
            start.elapsed().as_nanos() as f64 / packets as f64
        })
        .collect();
    rounds_ns.sort_by(f64::total_cmp);
    let median_ns = rounds_ns[rounds / 2];
    println!("{captured_len:5} bytes  {what:28} {median_ns:6.1} ns  {:7.1} Mpps", 1_000.0 / median_ns);
    assert!(out.capacity() == BUFFER_LEN, "the buffer grew: encoding allocated");
}
