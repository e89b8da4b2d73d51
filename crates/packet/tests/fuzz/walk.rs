//! Walks over the headers of random and damaged frames.

use packet::Rng;
use packet::headers::{FirstHeader, SumFinder, Walk, for_each_address, is_plain_and_right, port_places};

/// Headers that a frame is put together from, each with the type that the next one needs.
const PARTS: [&[u8]; 24] = [
    &[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x00],
    &[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x86, 0xdd],
    &[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x81, 0x00],
    &[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0x47],
    &[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0x64],
    &[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x06],
    &[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0, 40, 0xaa, 0xaa, 3, 0, 0, 0, 8, 0],
    &[0, 5, 0x08, 0x00],
    &[0, 5, 0x81, 0x00],
    &[0, 0, 0x10, 64],
    &[0, 0, 0x11, 64],
    &[0x11, 0, 0, 1, 0, 60, 0, 0x21],
    &[0, 1, 8, 0, 6, 4, 0, 1],
    &[0x45, 0, 0, 200, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2],
    &[
        0x48, 0, 0, 90, 0, 0, 0, 0, 64, 1, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 131, 11, 4, 1, 2, 3, 4, 5, 6, 7,
        8, 0,
    ],
    &[0x45, 0, 0, 200, 0, 0, 0, 0, 64, 47, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2],
    &[
        0x60, 0, 0, 0, 0, 200, 43, 64, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2,
        2, 2, 2, 2, 2, 2, 2, 2, 2,
    ],
    &[58, 2, 4, 1, 0, 0, 0, 0, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3],
    &[17, 0, 201, 16, 0, 0, 0, 0],
    &[3, 0, 0, 0, 0, 0, 0, 0],
    &[143, 0, 0, 0, 0, 0, 0, 2, 4, 0, 0, 3],
    &[0, 9, 0x12, 0xb5, 0, 100, 0, 0, 8, 0, 0, 0, 0, 0, 5, 0],
    &[0, 9, 8, 104, 0, 100, 0, 0, 0x34, 255, 0, 50, 0, 0, 0, 0, 0, 0, 0, 0x85, 0, 0, 0, 0],
    &[0xb0, 0, 0x88, 0xbe, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 0],
];

fn frame(rng: &mut Rng) -> Vec<u8> {
    let mut frame = Vec::new();
    for _ in 0..rng.next_u32() % 8 {
        frame.extend_from_slice(PARTS[rng.next_u32() as usize % PARTS.len()]);
    }
    frame.extend((0..rng.next_u32() % 64).map(|_| rng.next_u32() as u8));
    for _ in 0..rng.next_u32() % 4 {
        let at = rng.next_u32() as usize % frame.len().max(1);
        if let Some(byte) = frame.get_mut(at) {
            *byte = rng.next_u32() as u8;
        }
    }
    frame
}

#[test]
fn a_walk_stays_in_its_frame_and_goes_forward() {
    testkit::fuzz!("a_walk_stays_in_its_frame_and_goes_forward", 400_000, |seed| {
        let rng = &mut Rng(seed);
        let frame = frame(rng);
        let firsts =
            [FirstHeader::Ethernet, FirstHeader::Sll, FirstHeader::Sll2, FirstHeader::Null, FirstHeader::Ip];
        let first = firsts[rng.next_u32() as usize % firsts.len()];
        let mut walk = Walk::new(&frame, first);
        let (mut sums, mut at_before, mut headers) = (SumFinder::default(), 0, 0);
        for header in walk.by_ref() {
            assert!(header.at >= at_before && header.len > 0, "{header:?}");
            assert!(header.at < frame.len() && header.visible_end <= frame.len(), "{header:?}");
            assert!(header.visible_end <= header.end, "{header:?}");
            (at_before, headers) = (header.at + 1, headers + 1);
            let hidden = for_each_address(&frame, &header, &mut |place| {
                assert!(place.at >= header.at && place.at + place.len <= header.visible_end, "{place:?}");
            });
            assert!(
                hidden.is_none_or(|end| (header.at..=header.visible_end).contains(&end.at)),
                "{hidden:?}"
            );
            for at in port_places(&frame, &header).into_iter().flatten() {
                assert!(at + 2 <= header.visible_end);
            }
            if let Some(sum) = sums.see(&frame, &header) {
                let width = sum.stored(&frame).map_or(0, |_| 2);
                assert!(width == 2 && sum.from <= sum.at && sum.at < frame.len(), "{sum:?}");
                let is_wrong = sum.is_right(&frame) == Some(false);
                assert!(
                    !is_wrong || first != FirstHeader::Ethernet || !is_plain_and_right(&frame),
                    "{sum:?}"
                );
            }
        }
        assert!(walk.end().at <= frame.len() && headers <= frame.len());
        assert_eq!(walk.next(), None, "an ended walk has no further headers");
    });
}

#[test]
fn plain_frames_are_those_whose_checksums_are_right() {
    testkit::fuzz!("plain_frames_are_those_whose_checksums_are_right", 20_000, |seed| {
        let (frame, is_spoiled) = plain_frame(&mut Rng(seed));
        let mut sums = SumFinder::default();
        let is_wrong = Walk::new(&frame, FirstHeader::Ethernet)
            .any(|header| sums.see(&frame, &header).is_some_and(|sum| sum.is_right(&frame) == Some(false)));
        assert!(!is_wrong || !is_plain_and_right(&frame), "{frame:02x?}");
        if !is_spoiled {
            let frame = mended(frame);
            assert!(is_plain_and_right(&frame), "{frame:02x?}");
        }
    });
}

/// A whole frame of TCP or UDP over IPv4 or IPv6 with random bytes, and whether one bit is spoiled.
fn plain_frame(rng: &mut Rng) -> (Vec<u8>, bool) {
    let payload: Vec<u8> = (0..rng.below(80)).map(|_| rng.next_u32() as u8).collect();
    let (is_v4, is_udp) = (rng.below(2) == 0, rng.below(2) == 0);
    let len = payload.len() + if is_udp { 8 } else { 20 };
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    let protocol = if is_udp { 17 } else { 6 };
    let random = |rng: &mut Rng, count: usize| (0..count).map(|_| rng.next_u32() as u8).collect::<Vec<u8>>();
    if is_v4 {
        frame.extend([8, 0, 0x45, 0]);
        frame.extend((20 + len as u16).to_be_bytes());
        frame.extend([0, 1, 0x40, 0, 64, protocol, 0, 0]);
        frame.extend(random(rng, 8));
    } else {
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        frame.extend((len as u16).to_be_bytes());
        frame.extend([protocol, 64]);
        frame.extend(random(rng, 32));
    }
    frame.extend([3, 232, 3, 233]);
    match is_udp {
        true => frame.extend([(len >> 8) as u8, len as u8, 0, 0]),
        false => frame.extend([0, 0, 0, 1, 0, 0, 0, 2, 0x50, 16, 1, 0, 0, 0, 0, 0]),
    }
    frame.extend(payload);
    let is_spoiled = rng.below(3) == 0;
    if is_spoiled {
        let at = rng.below(frame.len() as u32) as usize;
        frame[at] ^= 1 << rng.below(8);
    }
    (frame, is_spoiled)
}

/// The frame with right checksums.
fn mended(mut frame: Vec<u8>) -> Vec<u8> {
    let mut sums = SumFinder::default();
    let headers: Vec<_> = Walk::new(&frame, FirstHeader::Ethernet).collect();
    for place in headers.iter().filter_map(|header| sums.see(&frame, header)).collect::<Vec<_>>() {
        let sum = place.computed(&frame).expect("the frame is whole");
        frame[place.at..place.at + 2].copy_from_slice(&sum.to_be_bytes());
    }
    frame
}
