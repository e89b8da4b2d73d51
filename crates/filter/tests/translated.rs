//! A translated filter says of every frame what the classic one says, and never looks outside the
//! frame.

mod machine;

use filter::sample::{self, SplitMix};
use filter::{Classic, FilterError, Instruction, translate};
use machine::Machine;
use proptest::prelude::*;

fn translated_says(filter: &Classic, frame: &[u8], linear_len: usize) -> u64 {
    Machine::new(frame, linear_len).run(&translate(filter, 0).expect("short filters can be translated"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn random_filters_on_random_frames(seed in any::<u64>()) {
        let mut numbers = SplitMix::new(seed);
        let filter = sample::filter(&mut numbers);
        for len_max in [0, 20, 64, 64, 200, 200, 1514, 9000] {
            let frame = sample::frame(&mut numbers, len_max);
            let linear_len = numbers.below(frame.len() as u32 + 1) as usize;
            for linear_len in [frame.len(), linear_len] {
                prop_assert_eq!(translated_says(&filter, &frame, linear_len), u64::from(filter.run(&frame)));
            }
        }
    }
}

fn program(lines: &[(u16, u8, u8, u32)]) -> Classic {
    let instructions = lines.iter().map(|&(code, jt, jf, k)| Instruction { code, jt, jf, k });
    Classic::new(instructions.collect()).unwrap()
}

/// `udp port 9`, as `tcpdump -dd -s 96` prints it.
fn udp_port_9() -> Classic {
    program(&[
        (0x28, 0, 0, 12),
        (0x15, 0, 6, 0x86dd),
        (0x30, 0, 0, 20),
        (0x15, 0, 15, 17),
        (0x28, 0, 0, 54),
        (0x15, 12, 0, 9),
        (0x28, 0, 0, 56),
        (0x15, 10, 11, 9),
        (0x15, 0, 10, 0x800),
        (0x30, 0, 0, 23),
        (0x15, 0, 8, 17),
        (0x28, 0, 0, 20),
        (0x45, 6, 0, 0x1fff),
        (0xb1, 0, 0, 14),
        (0x48, 0, 0, 14),
        (0x15, 2, 0, 9),
        (0x48, 0, 0, 16),
        (0x15, 0, 1, 9),
        (0x06, 0, 0, 96),
        (0x06, 0, 0, 0),
    ])
}

#[test]
fn udp_port_9_of_every_frame_cut_short() {
    let mut frame = vec![0; 80];
    frame[12] = 8;
    frame[14] = 0x46;
    frame[23] = 17;
    frame[41] = 9;
    assert_eq!(udp_port_9().run(&frame), 96);
    for len in 0..=frame.len() {
        for linear_len in 0..=len {
            let said = translated_says(&udp_port_9(), &frame[..len], linear_len);
            assert_eq!(said, if len >= 42 { 96 } else { 0 }, "{linear_len} of {len} bytes are linear");
        }
    }
}

#[test]
fn offsets_that_no_instruction_can_hold_are_asked_of_the_helper() {
    let mut frame = vec![0; 0x1_0010];
    frame[0x8000] = 5;
    frame[0xffff] = 6;
    for (offset, said) in [(0x7fff, 0), (0x8000, 5), (0xffff, 6), (0x1_0000, 0), (0x7fff_ffff, 0)] {
        let constant = program(&[(0x30, 0, 0, offset), (0x16, 0, 0, 0)]);
        assert_eq!(translated_says(&constant, &frame, 100), said, "{offset:#x}");
        let computed = program(&[(0x01, 0, 0, offset - 7), (0x50, 0, 0, 7), (0x16, 0, 0, 0)]);
        assert_eq!(translated_says(&computed, &frame, 100), said, "{offset:#x} after X");
        assert_eq!(translated_says(&computed, &frame, 0x1_0000), said, "{offset:#x} after X, linear");
    }
}

#[test]
fn what_cannot_be_reached_is_left_out() {
    let with_dead_code = program(&[(0x05, 0, 0, 1), (0x06, 0, 0, 7), (0x06, 0, 0, 8)]);
    let without = program(&[(0x05, 0, 0, 0), (0x06, 0, 0, 8)]);
    let [with_dead_code, without] = [with_dead_code, without].map(|filter| translate(&filter, 0).unwrap());
    assert_eq!(with_dead_code.len(), without.len() + 1, "only the jump itself is left");
}

#[test]
fn a_filter_that_is_too_long_for_a_jump_is_refused() {
    let mut instructions = vec![Instruction { code: 0x50, jt: 0, jf: 0, k: 1 }; 4095];
    instructions.push(Instruction { code: 0x06, jt: 0, jf: 0, k: 1 });
    let long = Classic::new(instructions).unwrap();
    assert!(matches!(translate(&long, 0), Err(FilterError::TooLong { count: 4096, translated: 32_768.. })));
}
