//! Walks over the headers of random and damaged frames.

use packet::Rng;
use packet::headers::{FirstHeader, SumFinder, Walk, for_each_address, port_places};

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
            for_each_address(&frame, &header, &mut |place| {
                assert!(place.at >= header.at && place.at + place.len <= header.visible_end, "{place:?}");
            });
            for at in port_places(&frame, &header).into_iter().flatten() {
                assert!(at + 2 <= header.visible_end);
            }
            if let Some(sum) = sums.see(&frame, &header) {
                let width = sum.stored(&frame).map_or(0, |_| 2);
                assert!(width == 2 && sum.from <= sum.at && sum.at < frame.len(), "{sum:?}");
                let _ = sum.is_right(&frame);
            }
        }
        assert!(walk.end().at <= frame.len() && headers <= frame.len());
        assert_eq!(walk.next(), None, "an ended walk has no further headers");
    });
}
