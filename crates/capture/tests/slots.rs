//! mgcap's slots from a real device: each frame once, of the ring of its CPU, in the form that
//! mgcap's programs read.

#[allow(dead_code, reason = "each file of tests uses a part of it")]
mod lab;

use capture::{MgcapSlot, Mode, SLOT_LEN, SlotCapture, SlotReader};
use lab::{Lab, RX_DEV, can_run, frame};

fn parse(bytes: &[u8]) -> Vec<(u16, i64, Vec<u8>)> {
    let mut found = Vec::new();
    let mut reader = SlotReader::new(bytes, 16);
    let mut keep = |slot: MgcapSlot<'_>| found.push((slot.frame_len, slot.time_ns, slot.data.to_vec()));
    while reader.read(&mut keep).expect("whole slots").is_some() {}
    found
}

#[test]
fn frames_are_slots_once_each_and_losses_are_counted() {
    testkit::needs!(can_run());
    let lab = Lab::new(1);
    let capture = lab.rx.run(|| SlotCapture::start(RX_DEV)).unwrap().unwrap();
    let listener = lab.listener();
    let sender = lab.sender();
    (0..100).for_each(|number| sender.send(&frame(number, 60 + number as usize)));
    let mut bytes = Vec::new();
    // A reader of few slots at a time, and of odd sizes, gets whole slots all the same.
    while bytes.len() < 100 * SLOT_LEN {
        let before = bytes.len();
        capture.take(None, 3 * SLOT_LEN + 50, &mut bytes);
        assert!(bytes.len() > before && bytes.len() - before <= 3 * SLOT_LEN);
    }
    capture.take(None, 1 << 20, &mut bytes);
    let mut found = parse(&bytes);
    assert_eq!(found.len(), 100);
    found.sort_by_key(|slot| slot.0);
    for (number, (frame_len, time_ns, data)) in found.iter().enumerate() {
        let sent = frame(number as u32, 60 + number);
        assert_eq!(usize::from(*frame_len), sent.len());
        assert_eq!(data[..], sent[..sent.len().min(96)]);
        assert!(*time_ns > 1_600_000_000_000_000_000, "time of day, not zero");
    }
    let counts = capture.counts();
    assert_eq!((counts.received, counts.delivered, counts.lost), (100, 100, 0));
    assert_eq!(listener.received(), 100);

    capture.set_mode(Mode::Drop).unwrap();
    assert_eq!(capture.mode(), Mode::Drop);
    let mut sent = 100;
    // The scheduler decides how many rings get frames.
    while capture.counts().lost == 0 {
        assert!(sent < 10_000_000, "nothing was read, and rings are finite");
        (0..70_000).for_each(|number| sender.send(&frame(number, 60)));
        sent += 70_000;
    }
    let counts = capture.counts();
    assert_eq!(counts.received, sent);
    let mut bytes = Vec::new();
    let mut len = usize::MAX;
    while bytes.len() != len {
        len = bytes.len();
        capture.take(None, 1 << 20, &mut bytes);
    }
    assert_eq!((bytes.len() / SLOT_LEN) as u64 + 100 + counts.lost, sent);
    assert_eq!(listener.received(), 0, "the host saw none of them");
}

#[test]
fn a_reader_of_one_cpu_gets_what_came_there() {
    testkit::needs!(can_run());
    let lab = Lab::new(1);
    let capture = lab.rx.run(|| SlotCapture::start(RX_DEV)).unwrap().unwrap();
    let sender = lab.sender();
    (0..50).for_each(|number| sender.send(&frame(number, 60)));
    let cpus = std::thread::available_parallelism().unwrap().get() as u32;
    let mut sum = 0;
    assert!(capture.is_ready(None) && (0..cpus).any(|cpu| capture.is_ready(Some(cpu))));
    for cpu in 0..cpus {
        let mut bytes = Vec::new();
        capture.take(Some(cpu), 1 << 20, &mut bytes);
        sum += parse(&bytes).len();
        let mut again = Vec::new();
        capture.take(Some(cpu), 1 << 20, &mut again);
        assert!(again.is_empty());
    }
    assert_eq!(sum, 50, "a look whether something is there takes nothing away");
    assert!(!capture.is_ready(None));
}
