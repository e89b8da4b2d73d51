//! Every branch of `capture.bpf.c`, run by `BPF_PROG_RUN` on made-up frames: what lands in the
//! ring, what is counted, and which verdict comes back. Needs CAP_BPF.

mod common;

use bpf::abi::{CaptureCpu, CaptureMode, LINE, Slot};
use bpf::capture::{CaptureProgram, Geometry};
use bpf::sys::{ProgRun, prog_run};
use common::{XDP_DROP, XDP_PASS, may_load};
use std::mem::offset_of;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::Ordering::Relaxed;

/// The program with one small ring for CPU 0, on which the calling thread runs from now on.
fn load(snaplen: u32, slots: u32) -> CaptureProgram {
    run_on_cpu(0);
    let cpus = libbpf_rs::num_possible_cpus().expect("CPUs can be counted") as u32;
    CaptureProgram::load(Geometry { snaplen, slots, rings: 1, cpus }).expect("the program loads")
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
    program.cpus.atomic_u64(cpu * size_of::<CaptureCpu>() + field).load(Relaxed)
}

fn head(program: &CaptureProgram) -> u64 {
    counter(program, 0, offset_of!(CaptureCpu, head))
}

fn lost(program: &CaptureProgram) -> u64 {
    counter(program, 0, offset_of!(CaptureCpu, lost_ring))
}

fn give_back(program: &CaptureProgram, tail: u64) {
    program.cpus.atomic_u64(LINE).store(tail, Relaxed);
}

fn set_mode(program: &CaptureProgram, mode: u32) {
    program.cpus.atomic_u32(2 * LINE).store(mode, Relaxed);
}

/// Head and bytes of a slot of CPU 0.
fn slot(program: &CaptureProgram, index: usize) -> (Slot, Vec<u8>) {
    let size = program.geometry().slot_size_bytes() as usize;
    // SAFETY: the only producer is `receive`, called by this thread and not running now.
    let bytes = unsafe { program.rings.bytes(index * size, size) };
    let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let half = |at: usize| u16::from_ne_bytes(bytes[at..at + 2].try_into().expect("two bytes"));
    let head = Slot {
        time_ns: u64::from(word(0)) | u64::from(word(4)) << 32,
        frame_len: word(8),
        captured_len: word(12),
        ifindex: word(16),
        queue_index: half(20),
        flags: half(22),
        lost_before: word(24),
        vlan_tpid: half(28),
        vlan_tci: half(30),
    };
    (head, bytes[size_of::<Slot>()..].to_vec())
}

#[test]
fn every_length_against_every_snaplen_keeps_the_right_bytes() {
    testkit::needs!(may_load());
    let frame_lens =
        [14, 15, 16, 31, 32, 33, 47, 59, 60, 63, 64, 65, 94, 95, 96, 97, 127, 128, 129, 1514, 3000];
    for snaplen in [1, 13, 32, 64, 95, 96, 97, 128, 256, 1514, 4000, 65_535] {
        let program = load(snaplen, 64);
        for (index, &len) in frame_lens.iter().enumerate() {
            let sent = frame(len);
            assert_eq!(receive(&program, &sent), XDP_PASS);
            let (head, bytes) = slot(&program, index);
            let kept = len.min(snaplen as usize);
            assert_eq!(head.frame_len as usize, len, "snaplen {snaplen}");
            assert_eq!(head.captured_len as usize, kept, "snaplen {snaplen}, frame {len}");
            assert_eq!(bytes[..kept], sent[..kept], "snaplen {snaplen}, frame {len}");
            assert!(
                bytes[kept..].iter().all(|&b| b == 0),
                "snaplen {snaplen}, frame {len}: written past the end"
            );
        }
        assert_eq!((head(&program), lost(&program)), (frame_lens.len() as u64, 0));
        let bytes = counter(&program, 0, offset_of!(CaptureCpu, frame_bytes));
        assert_eq!(bytes, frame_lens.iter().sum::<usize>() as u64);
    }
}

#[test]
fn frames_in_several_pieces_keep_the_right_bytes() {
    testkit::needs!(may_load());
    let program = load(65_535, 16);
    let Some(frags) = program.frags_program() else {
        return testkit::skip("needs Linux 5.18");
    };
    // The kernel's test run puts what does not fit into the first page into frags.
    for (index, len) in [14, 60, 96, 97, 3_000, 4_000, 5_000, 9_014, 20_000].into_iter().enumerate() {
        let sent = frame(len);
        assert_eq!(receive_by(frags, &sent), XDP_PASS);
        let (head, bytes) = slot(&program, index);
        assert_eq!((head.frame_len as usize, head.captured_len as usize), (len, len));
        assert_eq!(bytes[..len], sent, "frame of {len}");
    }
    assert_eq!((head(&program), lost(&program)), (9, 0));
}

#[test]
fn short_snaplens_of_frames_in_several_pieces() {
    testkit::needs!(may_load());
    let program = load(96, 16);
    let Some(frags) = program.frags_program() else { return };
    for (index, len) in [14, 31, 64, 96, 9_014].into_iter().enumerate() {
        let sent = frame(len);
        receive_by(frags, &sent);
        let (head, bytes) = slot(&program, index);
        assert_eq!((head.frame_len as usize, head.captured_len as usize), (len, len.min(96)));
        assert_eq!(bytes[..len.min(96)], sent[..len.min(96)], "frame of {len}");
    }
}

#[test]
fn record_has_time_and_no_flags() {
    testkit::needs!(may_load());
    let program = load(96, 8);
    let before_ns = monotonic_ns();
    receive(&program, &frame(60));
    let (head, _) = slot(&program, 0);
    assert!((before_ns..=monotonic_ns()).contains(&head.time_ns), "{} is not between", head.time_ns);
    assert_eq!((head.ifindex, head.queue_index), (0, 0), "the program is on no device");
    assert_eq!((head.flags, head.lost_before), (0, 0));
    assert_eq!((head.vlan_tpid, head.vlan_tci), (0, 0));
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
    let program = load(96, 4);
    for _ in 0..7 {
        assert_eq!(receive(&program, &frame(60)), XDP_PASS);
    }
    assert_eq!((head(&program), lost(&program)), (4, 3));
    give_back(&program, 1);
    receive(&program, &frame(61));
    assert_eq!((head(&program), lost(&program)), (5, 3));
    let (record, bytes) = slot(&program, 0);
    assert_eq!((record.frame_len, record.lost_before), (61, 3), "slot 0 is used again");
    assert_eq!(bytes[..61], frame(61));
    receive(&program, &frame(60));
    assert_eq!((head(&program), lost(&program)), (5, 4));
    let bytes = counter(&program, 0, offset_of!(CaptureCpu, frame_bytes));
    assert_eq!(bytes, 8 * 60 + 61, "bytes of lost frames count as received");
}

#[test]
fn ring_wraps_for_many_laps() {
    testkit::needs!(may_load());
    let program = load(96, 4);
    for i in 0..50 {
        receive(&program, &frame(60 + i));
        let (record, bytes) = slot(&program, i % 4);
        assert_eq!((record.frame_len as usize, record.lost_before), (60 + i, 0));
        let kept = (60 + i).min(96);
        assert_eq!(bytes[..kept], frame(60 + i)[..kept]);
        give_back(&program, i as u64 + 1);
    }
    assert_eq!((head(&program), lost(&program)), (50, 0));
}

#[test]
fn mode_decides_the_verdict_from_the_next_frame_on() {
    testkit::needs!(may_load());
    let program = load(96, 2);
    assert_eq!(receive(&program, &frame(60)), XDP_PASS);
    set_mode(&program, CaptureMode::WR_CAPTURE_DROP.0);
    assert_eq!(receive(&program, &frame(60)), XDP_DROP);
    assert_eq!(receive(&program, &frame(60)), XDP_DROP, "also when the ring is full");
    set_mode(&program, CaptureMode::WR_CAPTURE_MIRROR.0);
    assert_eq!(receive(&program, &frame(60)), XDP_PASS, "also when the ring is full");
    assert_eq!((head(&program), lost(&program)), (2, 2));
}

#[test]
fn cpu_without_a_ring_counts_its_frames_as_lost() {
    testkit::needs!(may_load());
    let program = load(96, 4);
    if program.geometry().cpus < 2 {
        return testkit::skip("needs two CPUs");
    }
    run_on_cpu(1);
    assert_eq!(receive(&program, &frame(60)), XDP_PASS);
    assert_eq!((head(&program), lost(&program)), (0, 0));
    assert_eq!(counter(&program, 1, offset_of!(CaptureCpu, head)), 0);
    assert_eq!(counter(&program, 1, offset_of!(CaptureCpu, lost_ring)), 1);
}
