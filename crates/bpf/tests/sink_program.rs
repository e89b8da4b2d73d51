//! `sink.bpf.c`, run by `BPF_PROG_RUN` on made-up frames. Needs CAP_BPF.

mod common;

use bpf::sys::{ProgRun, prog_run};
use bpf::{Sink, SinkCount, SinkVerdict};
use common::{XDP_DROP, XDP_PASS, may_load};
use filter::{Classic, Instruction};
use std::os::fd::AsFd;

#[test]
fn every_frame_is_counted_and_dropped() {
    testkit::needs!(may_load());
    let sink = Sink::load().expect("the program loads");
    assert_eq!(sink.total(), SinkCount::default());
    for len in [14, 60, 1514, 3000] {
        let mut run = ProgRun { data_in: &vec![0xee; len], repeat: 5, ..Default::default() };
        assert_eq!(prog_run(sink.as_fd(), &mut run).expect("the program runs").return_value, XDP_DROP);
    }
    let expected = SinkCount { frames: 20, frame_bytes: 5 * (14 + 60 + 1514 + 3000), filtered: 0 };
    assert_eq!(sink.total(), expected);
    // A test run stays on one CPU, unless the thread was moved between two of them.
    assert!(sink.per_cpu().any(|cpu| cpu.frames >= 5));
    assert_eq!(sink.per_cpu().map(|cpu| cpu.frames).sum::<u64>(), 20);
}

#[test]
fn a_frame_in_pieces_is_counted_whole_and_can_go_on() {
    testkit::needs!(may_load());
    for (verdict, answer) in [(SinkVerdict::Drop, XDP_DROP), (SinkVerdict::Pass, XDP_PASS)] {
        let sink = Sink::load_with(verdict).expect("the program loads");
        let program = sink.frags_program().expect("this kernel supports multi-buffer");
        for len in [60, 9014, 60_000] {
            let mut run = ProgRun { data_in: &vec![0xee; len], ..Default::default() };
            assert_eq!(prog_run(program, &mut run).expect("the program runs").return_value, answer, "{len}");
        }
        assert_eq!(sink.total(), SinkCount { frames: 3, frame_bytes: 60 + 9014 + 60_000, filtered: 0 });
    }
}

#[test]
fn frames_that_do_not_match_the_filter_are_counted_apart_and_reach_the_host() {
    testkit::needs!(may_load());
    // Frames whose first byte is 0x02.
    let first_byte = |k| [(0x30, 0, 0, 0), (0x15, 0, 1, k), (0x06, 0, 0, 1), (0x06, 0, 0, 0)];
    let instruction = |(code, jt, jf, k)| Instruction { code, jt, jf, k };
    let classic = Classic::new(first_byte(2).map(instruction).to_vec()).expect("a good filter");
    let filter = filter::translate(&classic, 0).expect("it translates");
    let sink = Sink::load_filtered(SinkVerdict::Drop, Some(&filter)).expect("the program loads");
    let programs = [Some(sink.as_fd()), sink.frags_program()];
    for program in programs.into_iter().flatten() {
        for (byte, verdict) in [(2, XDP_DROP), (3, XDP_PASS), (3, XDP_PASS)] {
            let mut run = ProgRun { data_in: &[byte; 60], ..Default::default() };
            assert_eq!(prog_run(program, &mut run).expect("the program runs").return_value, verdict);
        }
    }
    assert_eq!(sink.total(), SinkCount { frames: 2, frame_bytes: 120, filtered: 4 });
}
