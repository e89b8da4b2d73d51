//! Filters inside the capture program: the verifier accepts them, and the result for every frame
//! equals that of the classic filter. Needs CAP_BPF.

mod common;

use bpf::abi::{CaptureCpu, CaptureMode};
use bpf::capture::{CaptureProgram, Geometry, RecordFormat};
use bpf::sys::{ProgRun, prog_run};
use common::{XDP_DROP, XDP_PASS, may_load};
use filter::sample::{self, SplitMix};
use filter::{Classic, Instruction, translate};
use std::mem::offset_of;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::Ordering::Relaxed;

/// Minimum length of a kernel test run.
const FRAME_LEN_MIN: u32 = 14;

/// The program in drop mode, so that the verdict shows the result of the filter.
fn load(filter: &Classic) -> CaptureProgram {
    let cpus = libbpf_rs::num_possible_cpus().expect("CPUs can be counted") as u32;
    let format = RecordFormat::Records;
    let geometry = Geometry { snaplen: 96, segment_bytes: 1 << 16, segments: 16, rings: cpus, cpus, format };
    let code = translate(filter, 0).expect("short filters can be translated");
    let program = CaptureProgram::load_filtered(geometry, Some(&code))
        .unwrap_or_else(|error| panic!("{error}\n{filter:#?}"));
    for cpu in 0..cpus as usize {
        program
            .memory()
            .cpus
            .atomic_u32(cpu * size_of::<CaptureCpu>() + offset_of!(CaptureCpu, mode))
            .store(CaptureMode::WR_CAPTURE_DROP.0, Relaxed);
    }
    program
}

fn verdict(program: BorrowedFd<'_>, frame: &[u8]) -> u32 {
    let mut run = ProgRun { data_in: frame, repeat: 1, ..Default::default() };
    prog_run(program, &mut run).expect("the program runs").return_value
}

/// Sum of a counter over all CPUs.
fn sum(program: &CaptureProgram, field: usize) -> u64 {
    let place = |cpu| cpu as usize * size_of::<CaptureCpu>() + field;
    (0..program.memory().geometry().cpus)
        .map(|cpu| program.memory().cpus.atomic_u64(place(cpu)).load(Relaxed))
        .sum()
}

#[test]
fn random_filters_pass_the_verifier_and_say_what_the_classic_ones_say() {
    testkit::needs!(may_load());
    let mut wanted_ever = 0;
    for seed in 0..60 {
        let mut numbers = SplitMix::new(seed);
        let filter = sample::filter(&mut numbers);
        let program = load(&filter);
        let (mut wanted, mut filtered) = (0, 0);
        for len_max in [60, 60, 60, 200, 200, 1514, 9000, 20_000] {
            let mut frame = sample::frame(&mut numbers, len_max);
            frame.resize(frame.len().max(FRAME_LEN_MIN as usize), 0x5a);
            // The first program does not support multi-buffer frames.
            let linear = (frame.len() < 3_000).then(|| program.as_fd());
            let expected = if filter.run(&frame) != 0 { XDP_DROP } else { XDP_PASS };
            for by in linear.into_iter().chain(program.frags_program()) {
                assert_eq!(verdict(by, &frame), expected, "seed {seed}, {frame:?}\n{filter:#?}");
                *(if expected == XDP_DROP { &mut wanted } else { &mut filtered }) += 1;
            }
        }
        assert_eq!(sum(&program, offset_of!(CaptureCpu, captured)), wanted);
        assert_eq!(sum(&program, offset_of!(CaptureCpu, filtered)), filtered);
        wanted_ever += wanted;
    }
    assert!(wanted_ever > 100, "filters that accept nothing prove little: {wanted_ever}");
}

#[test]
fn long_filters_pass_the_verifier() {
    testkit::needs!(may_load());
    // Four hundred ports: a frame is compared with one after the other.
    let one = |code, jt, jf, k| Instruction { code, jt, jf, k };
    let mut program = vec![one(0xb1, 0, 0, 14), one(0x48, 0, 0, 16)];
    for port in 0..400 {
        program.extend([one(0x15, 0, 1, port * 7), one(0x06, 0, 0, 96)]);
    }
    program.push(one(0x06, 0, 0, 0));
    let program = load(&Classic::new(program).expect("it is a filter"));
    let mut frame = [0; 60];
    frame[14] = 0x45;
    for (port, expected) in [(7 * 399_u16, XDP_DROP), (7 * 400, XDP_PASS), (8, XDP_PASS), (0, XDP_DROP)] {
        frame[36..38].copy_from_slice(&port.to_be_bytes());
        assert_eq!(verdict(program.as_fd(), &frame), expected, "port {port}");
    }
}
