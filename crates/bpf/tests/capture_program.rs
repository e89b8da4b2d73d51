//! Every branch of `capture.bpf.c`, run by `BPF_PROG_RUN` on made-up frames: what lands in the
//! ring, what is counted, and which verdict comes back. Needs CAP_BPF.

mod common;

use bpf::abi::{CaptureCpu, CaptureMode, LINE, RecordKind};
use bpf::capture::{CaptureProgram, Geometry, RecordFormat};
use bpf::sys::{ProgRun, prog_run};
use common::{XDP_DROP, XDP_PASS, may_load};
use std::mem::offset_of;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::Ordering::Relaxed;

const SEGMENT: u64 = 4096;

/// The program with one small ring for CPU 0, on which the calling thread runs from now on.
fn load(snaplen: u32, segments: u32) -> CaptureProgram {
    load_as(snaplen, segments, RecordFormat::Records)
}

fn load_as(snaplen: u32, segments: u32, format: RecordFormat) -> CaptureProgram {
    run_on_cpu(0);
    let cpus = libbpf_rs::num_possible_cpus().expect("CPUs can be counted") as u32;
    let segment_bytes = SEGMENT as u32;
    CaptureProgram::load(Geometry { snaplen, segment_bytes, segments, rings: 1, cpus, format })
        .expect("the program loads")
}

fn run_on_cpu(cpu: usize) {
    // SAFETY: `set` is a whole cpu_set_t of zeros, changed and read only by these two calls.
    let result = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &set)
    };
    assert_eq!(result, 0, "CPU {cpu} can be chosen");
}

/// Bytes that tell where they were.
fn frame(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + len) as u8).collect()
}

/// Runs the program on one frame as if it came in on the loopback device.
fn receive(program: &CaptureProgram, frame: &[u8]) -> u32 {
    receive_by(program.as_fd(), frame)
}

fn receive_by(program: BorrowedFd<'_>, frame: &[u8]) -> u32 {
    let mut run = ProgRun { data_in: frame, repeat: 1, ..Default::default() };
    prog_run(program, &mut run).expect("the program runs").return_value
}

fn counter(program: &CaptureProgram, cpu: usize, field: usize) -> u64 {
    program.memory().cpus.atomic_u64(cpu * size_of::<CaptureCpu>() + field).load(Relaxed)
}

/// Number of records written.
fn captured(program: &CaptureProgram) -> u64 {
    counter(program, 0, offset_of!(CaptureCpu, captured))
}

fn head(program: &CaptureProgram) -> u64 {
    counter(program, 0, offset_of!(CaptureCpu, head))
}

fn lost(program: &CaptureProgram) -> u64 {
    counter(program, 0, offset_of!(CaptureCpu, lost_ring))
}

fn give_back(program: &CaptureProgram, tail: u64) {
    program.memory().cpus.atomic_u64(LINE).store(tail, Relaxed);
}

fn set_mode(program: &CaptureProgram, mode: u32) {
    program.memory().cpus.atomic_u32(offset_of!(CaptureCpu, mode)).store(mode, Relaxed);
}

/// What a record or a block of the ring holds.
#[derive(Debug)]
struct Taken {
    is_block: bool,
    kind: u32,
    queue_or_interface: u32,
    time_ns: u64,
    captured_len: usize,
    frame_len: usize,
    /// Of a record.
    lost_before: u32,
    /// Everything behind the head.
    bytes: Vec<u8>,
    /// Place of the next one.
    next: u64,
}

/// The record of CPU 0 at a place.
fn record(program: &CaptureProgram, place: u64) -> Taken {
    let geometry = program.memory().geometry();
    let segment = (place / SEGMENT) as usize % geometry.segments as usize;
    let at = segment * geometry.segment_stride_bytes() as usize + (place % SEGMENT) as usize;
    // SAFETY: the only producer is `receive`, called by this thread and not running now.
    let bytes = unsafe { program.memory().rings.bytes(at, geometry.record_size_bytes_max() as usize) };
    let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let size = u64::from(word(4));
    let is_in_segment = place % SEGMENT + size < SEGMENT;
    let is_block = word(0) == 6;
    let (low, high) = if is_block { (word(16), word(12)) } else { (word(8), word(12)) };
    let (captured_len, frame_len, lost_before) =
        if is_block { (word(20), word(24), 0) } else { (word(16), word(20), word(24)) };
    Taken {
        is_block,
        kind: word(0) & 0xffff,
        queue_or_interface: if is_block { word(8) } else { word(0) >> 16 },
        time_ns: u64::from(low) | u64::from(high) << 32,
        captured_len: captured_len as usize,
        frame_len: frame_len as usize,
        lost_before,
        bytes: bytes[28..size as usize].to_vec(),
        next: if is_in_segment { place + size } else { place / SEGMENT * SEGMENT + SEGMENT },
    }
}

const FRAME_LENS: [usize; 21] =
    [14, 15, 16, 31, 32, 33, 47, 59, 60, 63, 64, 65, 94, 95, 96, 97, 127, 128, 129, 1514, 3000];
const SNAPLENS: [u32; 12] = [1, 13, 32, 64, 95, 96, 97, 128, 256, 1514, 4000, 65_535];

#[test]
fn every_length_against_every_snaplen_keeps_the_right_bytes() {
    testkit::needs!(may_load());
    for snaplen in SNAPLENS {
        let (program, mut place) = (load(snaplen, 32), 0);
        for len in FRAME_LENS {
            let sent = frame(len);
            assert_eq!(receive(&program, &sent), XDP_PASS);
            let taken = record(&program, place);
            let kept = len.min(snaplen as usize);
            assert_eq!((taken.frame_len, taken.captured_len), (len, kept), "snaplen {snaplen}, frame {len}");
            assert_eq!(taken.bytes[..kept], sent[..kept], "snaplen {snaplen}, frame {len}");
            assert!(taken.bytes[kept..].iter().all(|&b| b == 0), "zeros and no tag: {taken:?}");
            assert_eq!(taken.bytes.len(), kept.next_multiple_of(4) + 4);
            assert_eq!(taken.kind, RecordKind::WR_RECORD.0);
            place = taken.next;
        }
        assert_eq!(place, head(&program));
        assert_eq!((captured(&program), lost(&program)), (FRAME_LENS.len() as u64, 0));
        let bytes = counter(&program, 0, offset_of!(CaptureCpu, frame_bytes));
        assert_eq!(bytes, FRAME_LENS.iter().sum::<usize>() as u64);
    }
}

#[test]
fn blocks_are_those_that_a_capture_file_has() {
    testkit::needs!(may_load());
    for snaplen in SNAPLENS {
        let format = RecordFormat::Blocks { first_interface: 3, interface_count: 1 };
        let (program, mut place) = (load_as(snaplen, 32, format), 0);
        program.memory().cpus.atomic_u64(2 * LINE).store(1_700_000_000_000_000_000, Relaxed);
        for len in FRAME_LENS {
            let sent = frame(len);
            let before_ns = monotonic_ns();
            assert_eq!(receive(&program, &sent), XDP_PASS);
            let taken = record(&program, place);
            let kept = len.min(snaplen as usize);
            assert!(taken.is_block);
            let time_ns = taken.time_ns - 1_700_000_000_000_000_000;
            assert!((before_ns..=monotonic_ns()).contains(&time_ns), "{time_ns} is not between");
            let padded = kept.next_multiple_of(4);
            let size = (28 + padded + 24) as u32;
            assert_eq!((taken.captured_len, taken.frame_len, taken.queue_or_interface), (kept, len, 3));
            assert_eq!(taken.bytes[..kept], sent[..kept], "snaplen {snaplen}, frame {len}");
            assert!(taken.bytes[kept..padded].iter().all(|&b| b == 0));
            let tail: Vec<u32> = taken.bytes[padded..]
                .chunks_exact(4)
                .map(|word| u32::from_ne_bytes(word.try_into().expect("four bytes")))
                .collect();
            assert_eq!(tail, [0x0004_0002, 1, 0x0004_0006, 0, 0, size]);
            place = taken.next;
        }
        assert_eq!((place, lost(&program)), (head(&program), 0));
    }
}

#[test]
fn frames_in_several_pieces_keep_the_right_bytes() {
    testkit::needs!(may_load());
    for snaplen in [96, 65_535] {
        let (program, mut place) = (load(snaplen, 32), 0);
        let Some(frags) = program.frags_program() else {
            return testkit::skip("needs Linux 5.18");
        };
        // The kernel's test run puts what does not fit into the first page into frags.
        for len in [14, 31, 60, 64, 96, 97, 3_000, 4_000, 5_000, 9_014, 20_000] {
            let sent = frame(len);
            assert_eq!(receive_by(frags, &sent), XDP_PASS);
            let taken = record(&program, place);
            let kept = len.min(snaplen as usize);
            assert_eq!((taken.frame_len, taken.captured_len), (len, kept));
            assert_eq!(taken.bytes[..kept], sent[..kept], "frame of {len}");
            place = taken.next;
        }
        assert_eq!((captured(&program), lost(&program)), (11, 0));
    }
}

#[test]
fn record_has_the_monotonic_time_and_no_flags() {
    testkit::needs!(may_load());
    let program = load(96, 2);
    let before_ns = monotonic_ns();
    receive(&program, &frame(60));
    let taken = record(&program, 0);
    assert!((before_ns..=monotonic_ns()).contains(&taken.time_ns), "{} is not between", taken.time_ns);
    let flags = (taken.kind, taken.queue_or_interface, taken.lost_before);
    assert_eq!(flags, (RecordKind::WR_RECORD.0, 0, 0));
}

fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is ours and the call fills it.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) }, 0);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[test]
fn full_ring_counts_each_lost_frame_and_the_next_record_tells() {
    testkit::needs!(may_load());
    for format in [RecordFormat::Records, RecordFormat::Blocks { first_interface: 0, interface_count: 1 }] {
        let program = load_as(2048, 2, format);
        // Records of 1,532 bytes or a little more: three in a segment, as the last one exceeds it.
        for _ in 0..9 {
            assert_eq!(receive(&program, &frame(1500)), XDP_PASS);
        }
        let held = captured(&program);
        assert!((5..=6).contains(&held) && lost(&program) == 9 - held, "{held}");
        give_back(&program, SEGMENT);
        let place = head(&program);
        receive(&program, &frame(61));
        let taken = record(&program, place);
        let told = (taken.is_block, taken.frame_len, u64::from(taken.lost_before));
        assert_eq!(told, (false, 61, 9 - held), "a record, as there is more to tell");
        assert_eq!(taken.bytes[..61], frame(61));
        receive(&program, &frame(60));
        let next = record(&program, taken.next);
        assert_eq!((next.is_block, next.lost_before), (format != RecordFormat::Records, 0));
        let bytes = counter(&program, 0, offset_of!(CaptureCpu, frame_bytes));
        assert_eq!(bytes, 9 * 1500 + 121, "bytes of lost frames count as received");
    }
}

#[test]
fn ring_wraps_for_many_laps_and_every_record_is_whole() {
    testkit::needs!(may_load());
    for format in [RecordFormat::Records, RecordFormat::Blocks { first_interface: 0, interface_count: 1 }] {
        let (program, mut place) = (load_as(1514, 2, format), 0);
        for i in 0..400 {
            let sent = frame(60 + i * 37 % 1455);
            receive(&program, &sent);
            let taken = record(&program, place);
            assert_eq!((taken.frame_len, taken.lost_before), (sent.len(), 0), "frame {i}");
            assert_eq!(taken.bytes[..sent.len()], sent, "frame {i}");
            place = taken.next;
            assert_eq!(place, head(&program));
            give_back(&program, place);
        }
        assert!(place > 20 * SEGMENT);
        assert_eq!((captured(&program), lost(&program)), (400, 0));
    }
}

#[test]
fn mode_decides_the_verdict_from_the_next_frame_on() {
    testkit::needs!(may_load());
    let program = load(4000, 2);
    assert_eq!(receive(&program, &frame(60)), XDP_PASS);
    set_mode(&program, CaptureMode::WR_CAPTURE_DROP.0);
    while lost(&program) == 0 {
        assert_eq!(receive(&program, &frame(3000)), XDP_DROP, "also when the ring is full");
    }
    set_mode(&program, CaptureMode::WR_CAPTURE_MIRROR.0);
    assert_eq!(receive(&program, &frame(3000)), XDP_PASS, "also when the ring is full");
    assert_eq!(lost(&program), 2);
}

#[test]
fn cpu_without_a_ring_counts_its_frames_as_lost() {
    testkit::needs!(may_load());
    let program = load(96, 4);
    if program.memory().geometry().cpus < 2 {
        return testkit::skip("needs two CPUs");
    }
    run_on_cpu(1);
    assert_eq!(receive(&program, &frame(60)), XDP_PASS);
    assert_eq!((head(&program), lost(&program)), (0, 0));
    assert_eq!(counter(&program, 1, offset_of!(CaptureCpu, head)), 0);
    assert_eq!(counter(&program, 1, offset_of!(CaptureCpu, lost_ring)), 1);
}
