//! What the sender writes into a frame, and how the receiver finds it.
//!
//! At the start of the payload: pktgen's header of 16 bytes, then stream and nanoseconds (18
//! bytes), then flow, number in the flow and run (32 bytes). At the end of the payload: a mark of
//! 18 bytes. All numbers are big endian.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 4 | magic 0xbe9be955 |
//! | 4 | 4 | number in the stream |
//! | 8, 12 | 4, 4 | seconds and microseconds, UTC |
//! | 16 | 2 | stream (6 bits), nanoseconds beyond the microseconds (10 bits) |
//! | 18 | 2 | 0x5752: the fields below are there |
//! | 20 | 4 | flow |
//! | 24, 28 | 4, 2 | number in the flow: low 32 bits, high 16 bits |
//! | 30 | 2 | run |

/// Bytes of pktgen's header.
pub const HEADER_LEN: usize = 16;
/// Bytes with stream and nanoseconds.
pub const SHORT_LEN: usize = 18;
/// Bytes with flow, number in the flow and run.
pub const FULL_LEN: usize = 32;
/// Bytes of the mark at the end of the payload.
pub const END_MARK_LEN: usize = 18;

/// Bytes of an announced end.
const END_LEN: usize = 16;

const MAGIC: [u8; 4] = 0xbe9b_e955_u32.to_be_bytes();
const TAG: u16 = 0x5752;
const MARK_MAGIC: [u8; 4] = 0x5752_4f54_u32.to_be_bytes();
const END_MAGIC: [u8; 4] = 0x5752_454e_u32.to_be_bytes();
const END_HAS_RUN: u16 = 1;

/// Where the signature may start. Every header before it has an even length.
const FRONT_AT: std::ops::RangeInclusive<usize> = 14..=252;

/// The signature at the start of the payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signature {
    /// Number in the stream.
    pub seq_num: u32,
    /// Seconds, UTC.
    pub sec: u32,
    /// Whole microseconds.
    pub usec: u32,
    /// Nanoseconds beyond the microseconds, 0 to 999.
    pub nanos: u16,
    /// The sending thread, 0 to 63.
    pub stream: u8,
    /// The fields of the longest signature.
    pub full: Option<FullFields>,
}

/// Fields that only the longest signature has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FullFields {
    /// The flow.
    pub flow: u32,
    /// Number in the flow, 48 bits, from 0 on in each run.
    pub number: u64,
    /// The run.
    pub run: u16,
}

/// The mark at the end of the payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// The flow.
    pub flow: u16,
    /// The run.
    pub run: u16,
    /// Number in the flow.
    pub seq_num: u32,
    /// CLOCK_MONOTONIC of the sender in nanoseconds, modulo 2^48; 0 for no time.
    pub time_ns: u64,
}

/// What a sender announces at the end of a run, in frames that are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnnouncedEnd {
    /// The run, if the sender has one.
    pub run: Option<u16>,
    /// Numbers that were sent.
    pub sent: u64,
}

impl AnnouncedEnd {
    /// The announcement as bytes.
    pub fn emit(&self) -> [u8; END_LEN] {
        let mut bytes = [0; END_LEN];
        put(&mut bytes, 0, &END_MAGIC);
        put(&mut bytes, 4, &self.run.map_or(0, |_| END_HAS_RUN).to_be_bytes());
        put(&mut bytes, 6, &self.run.unwrap_or(0).to_be_bytes());
        put(&mut bytes, 8, &self.sent.to_be_bytes());
        bytes
    }

    /// The announcement that `payload` starts with.
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let bytes: &[u8; END_LEN] = payload.first_chunk()?;
        let half = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let sent = bytes[8..].iter().fold(0, |sent, byte| sent << 8 | u64::from(*byte));
        let run = (half(4) & END_HAS_RUN != 0).then(|| half(6));
        (bytes[..4] == END_MAGIC).then_some(Self { run, sent })
    }
}

/// What was found in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// A signature at the start of the payload.
    Front(Signature),
    /// A mark at its end.
    End(Mark),
    /// The end of a run.
    Announced(AnnouncedEnd),
}

impl Signature {
    /// The first `bytes.len()` bytes of the signature: 16, 18 or 32, then zeros.
    ///
    /// # Panics
    /// With fewer than [`HEADER_LEN`] bytes.
    pub fn emit(&self, bytes: &mut [u8]) {
        bytes.fill(0);
        put(bytes, 0, &MAGIC);
        put(bytes, 4, &self.seq_num.to_be_bytes());
        put(bytes, 8, &self.sec.to_be_bytes());
        put(bytes, 12, &self.usec.to_be_bytes());
        if bytes.len() >= SHORT_LEN {
            put(bytes, 16, &(u16::from(self.stream) << 10 | self.nanos).to_be_bytes());
        }
        if let (Some(full), true) = (self.full, bytes.len() >= FULL_LEN) {
            put(bytes, 18, &TAG.to_be_bytes());
            put(bytes, 20, &full.flow.to_be_bytes());
            put(bytes, 24, &(full.number as u32).to_be_bytes());
            put(bytes, 28, &((full.number >> 32) as u16).to_be_bytes());
            put(bytes, 30, &full.run.to_be_bytes());
        }
    }

    /// The signature that `payload` starts with.
    pub fn parse(payload: &[u8]) -> Option<Self> {
        if payload.len() < HEADER_LEN || payload[..4] != MAGIC {
            return None;
        }
        let word = |at| u32::from_be_bytes([payload[at], payload[at + 1], payload[at + 2], payload[at + 3]]);
        let half = |at: usize| match payload.get(at..at + 2) {
            Some(bytes) => u16::from_be_bytes([bytes[0], bytes[1]]),
            None => 0,
        };
        let is_full = payload.len() >= FULL_LEN && half(18) == TAG;
        Some(Self {
            seq_num: word(4),
            sec: word(8),
            usec: word(12),
            nanos: half(16) & 0x3ff,
            stream: (half(16) >> 10) as u8,
            full: is_full.then(|| FullFields {
                flow: word(20),
                number: u64::from(half(28)) << 32 | u64::from(word(24)),
                run: half(30),
            }),
        })
    }

    /// When the frame was sent, in nanoseconds since 1970; `None` without a time stamp.
    pub fn sent_ns(&self) -> Option<u64> {
        let time_ns =
            u64::from(self.sec) * 1_000_000_000 + u64::from(self.usec) * 1000 + u64::from(self.nanos);
        (self.sec != 0).then_some(time_ns)
    }

    /// False for values that no sender writes.
    pub fn is_plausible(&self) -> bool {
        self.usec < 1_000_000 && self.nanos < 1000
    }
}

impl Mark {
    /// The mark as bytes.
    pub fn emit(&self) -> [u8; END_MARK_LEN] {
        let mut bytes = [0; END_MARK_LEN];
        put(&mut bytes, 0, &MARK_MAGIC);
        put(&mut bytes, 4, &self.flow.to_be_bytes());
        put(&mut bytes, 6, &self.run.to_be_bytes());
        put(&mut bytes, 8, &self.seq_num.to_be_bytes());
        put(&mut bytes, 12, &self.time_ns.to_be_bytes()[2..]);
        bytes
    }

    /// The mark that `bytes` are.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; END_MARK_LEN] = bytes.try_into().ok()?;
        if bytes[..4] != MARK_MAGIC {
            return None;
        }
        let time_ns = bytes[12..].iter().fold(0, |time_ns, byte| time_ns << 8 | u64::from(*byte));
        Some(Self {
            flow: u16::from_be_bytes([bytes[4], bytes[5]]),
            run: u16::from_be_bytes([bytes[6], bytes[7]]),
            seq_num: u32::from_be_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]),
            time_ns,
        })
    }
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

/// The signature at the start of the payload of an Ethernet frame, behind any headers.
pub fn find_signature(frame: &[u8]) -> Option<Signature> {
    places_of(frame, MAGIC).find_map(|at| Signature::parse(frame.get(at..)?))
}

/// Pairs of bytes that are compared at once.
const PAIRS_AT_ONCE: usize = 16;

/// The places of [`FRONT_AT`] where the first two bytes of `magic` are.
///
/// Most frames have none. A block of pairs is looked through only if one of them is equal, which
/// the compiler finds with a few wide comparisons.
#[inline]
fn places_of(frame: &[u8], magic: [u8; 4]) -> impl Iterator<Item = usize> + '_ {
    let first = [magic[0], magic[1]];
    let end = frame.len().min(FRONT_AT.end() + 2);
    let (pairs, _) = frame.get(*FRONT_AT.start()..end).unwrap_or_default().as_chunks::<2>();
    let blocks = pairs.chunks(PAIRS_AT_ONCE).enumerate();
    blocks.filter(move |(_, block)| block.iter().fold(false, |any, pair| any | (*pair == first))).flat_map(
        move |(number, block)| {
            let places = block.iter().enumerate().filter(move |(_, pair)| **pair == first);
            places.map(move |(place, _)| FRONT_AT.start() + 2 * (number * PAIRS_AT_ONCE + place))
        },
    )
}

/// The number of a marked frame in its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkedNumber {
    /// The stream. Streams differ in what tells them apart in the mark; of two streams none has a
    /// number of the other.
    pub stream: u64,
    /// The number.
    pub number: u64,
    /// The number has 32 bits only, and starts again with 0 after the highest one.
    pub is_short: bool,
}

/// The stream and the number of a marked frame; `None` of any other frame.
pub fn marked_number(frame: &[u8]) -> Option<MarkedNumber> {
    let short = |stream, number: u32| Some(MarkedNumber { stream, number: number.into(), is_short: true });
    match find(frame)? {
        Found::Front(Signature { full: Some(full), stream, .. }) => {
            let stream = u64::from(full.flow) << 24 | u64::from(full.run) << 8 | u64::from(stream);
            Some(MarkedNumber { stream, number: full.number, is_short: false })
        }
        Found::Front(Signature { stream, seq_num, .. }) => short(1 << 60 | u64::from(stream), seq_num),
        Found::End(mark) => short(1 << 61 | u64::from(mark.flow) << 16 | u64::from(mark.run), mark.seq_num),
        Found::Announced(_) => None,
    }
}

/// A signature at the start of the payload, or else a mark at the end of the frame.
pub(crate) fn find(frame: &[u8]) -> Option<Found> {
    let mark = |end: usize| {
        let end = frame.len().checked_sub(end)?;
        Mark::parse(frame.get(end.checked_sub(END_MARK_LEN)?..end)?)
    };
    // A frame that was tunnelled may still have 4 bytes behind its payload.
    let announced = || places_of(frame, END_MAGIC).find_map(|at| AnnouncedEnd::parse(frame.get(at..)?));
    find_signature(frame)
        .map(Found::Front)
        .or_else(|| mark(0).or_else(|| mark(4)).map(Found::End))
        .or_else(|| announced().map(Found::Announced))
}

/// What [`find`] finds in a frame of `frame_len` bytes, if its first bytes decide that: a mark is
/// at the end, and a signature may be longer than what is known of it.
pub(crate) fn find_in_start(start: &[u8], frame_len: usize) -> Option<Found> {
    let known = |at: usize| start.len() - at >= FULL_LEN.min(frame_len.saturating_sub(at));
    for at in FRONT_AT.step_by(2) {
        let rest = start.get(at..)?;
        if let Some(signature) = Signature::parse(rest) {
            return known(at).then_some(Found::Front(signature));
        }
        if let Some(end) = AnnouncedEnd::parse(rest) {
            return Some(Found::Announced(end));
        }
    }
    None
}

/// True if a frame gets a time stamp when 1 in 2^`shift` frames do. Sender and receiver share this
/// rule. It is a hash of the number, because multiples would pick the same flows in each cycle.
pub fn is_stamped(seq_num: u32, shift: u32) -> bool {
    shift == 0 || mix(seq_num) >> (32 - shift.min(31)) == 0
}

/// The finalizer of MurmurHash3.
fn mix(number: u32) -> u32 {
    let number = (number ^ number >> 16).wrapping_mul(0x85eb_ca6b);
    let number = (number ^ number >> 13).wrapping_mul(0xc2b2_ae35);
    number ^ number >> 16
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn signature() -> Signature {
        Signature {
            seq_num: 0x0102_0304,
            sec: 0x6500_0001,
            usec: 999_999,
            nanos: 999,
            stream: 63,
            full: Some(FullFields { flow: 0xa0b0_c0d0, number: 0x1122_3344_5566, run: 0x1fff }),
        }
    }

    #[test]
    fn bytes_of_each_level_are_these() {
        let mut bytes = [0xee; FULL_LEN];
        signature().emit(&mut bytes);
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            hex,
            "be9be955\
             01020304\
             65000001\
             000f423f\
             ffe7\
             5752\
             a0b0c0d0\
             33445566\
             1122\
             1fff"
        );
        for (len, expected) in [
            (HEADER_LEN, Signature { nanos: 0, stream: 0, full: None, ..signature() }),
            (SHORT_LEN, Signature { full: None, ..signature() }),
            (FULL_LEN, signature()),
            (40, signature()),
        ] {
            let mut bytes = vec![0xee; len];
            signature().emit(&mut bytes);
            assert_eq!(Signature::parse(&bytes), Some(expected), "{len}");
        }
    }

    #[test]
    fn zeros_behind_the_header_of_kernel_pktgen_are_stream_0() {
        let mut frame = vec![0; 60];
        Signature { full: None, nanos: 0, stream: 0, ..signature() }.emit(&mut frame[42..58]);
        let found = find_signature(&frame).unwrap();
        assert_eq!((found.stream, found.nanos, found.full), (0, 0, None));
    }

    #[test]
    fn signature_is_found_behind_any_even_number_of_header_bytes() {
        for at in (14..=252).step_by(2) {
            let mut frame = vec![0xaa; at + 18];
            signature().emit(&mut frame[at..]);
            assert_eq!(find_signature(&frame).map(|found| found.seq_num), Some(0x0102_0304), "{at}");
            assert_eq!(find_signature(&frame[..at + 15]), None, "{at}");
        }
        assert_eq!(find_signature(&[]), None);
    }

    #[test]
    fn mark_is_found_at_the_end_and_4_bytes_before_it() {
        let mark = Mark { flow: 0x0102, run: 0x0304, seq_num: 0x0506_0708, time_ns: 0x0910_1112_1314 };
        let mut frame = vec![0; 42];
        frame.extend(mark.emit());
        let hex: String = frame[42..].iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "57524f54".to_owned() + "0102" + "0304" + "05060708" + "091011121314");
        assert_eq!(find(&frame), Some(Found::End(mark)));
        frame.extend([9; 4]);
        assert_eq!(find(&frame), Some(Found::End(mark)));
        frame.push(9);
        assert_eq!(find(&frame), None);
    }

    #[test]
    fn first_bytes_decide_if_they_have_the_whole_signature() {
        let mut frame = vec![0; 80];
        signature().emit(&mut frame[42..74]);
        assert_eq!(find_in_start(&frame[..74], 80), find(&frame));
        assert_eq!(find_in_start(&frame[..73], 80), None, "the run is cut");
        assert_eq!(find_in_start(&frame[..60], 80), None, "it would pass for a short one");
        signature().emit(&mut frame[42..60]);
        assert_eq!(find_in_start(&frame[..60], 60), find(&frame[..60]), "nothing is missing");
        let end = AnnouncedEnd { run: None, sent: 9 };
        let frame = [&[0; 42][..], &end.emit()].concat();
        assert_eq!(find_in_start(&frame, 400), Some(Found::Announced(end)));
        assert_eq!(find_in_start(&[0; 60], 80), None, "a mark may be at the end");
    }

    #[test]
    fn every_flow_is_stamped_about_equally_often() {
        for shift in [3, 6] {
            for flows in [1u32, 64, 1000] {
                let mut stamped = vec![0u32; flows as usize];
                for number in 0..flows * 1024 {
                    stamped[(number % flows) as usize] += u32::from(is_stamped(number, shift));
                }
                let mean = 1024 >> shift;
                assert!(stamped.iter().all(|count| *count > mean / 8), "1 in {} of {flows}", 1 << shift);
                let sum: u32 = stamped.iter().sum();
                assert!(sum.abs_diff(flows * mean) < flows * mean / 2, "{sum}");
            }
        }
        assert!((0..100).all(|number| is_stamped(number, 0)));
    }

    proptest! {
        #[test]
        fn a_signature_survives_its_bytes(
            seq_num: u32, sec: u32, usec in 0u32..1_000_000, nanos in 0u16..1000, stream in 0u8..64,
            flow: u32, number in 0u64..1 << 48, run: u16,
        ) {
            let full = Some(FullFields { flow, number, run });
            let signature = Signature { seq_num, sec, usec, nanos, stream, full };
            let mut bytes = [0xee; FULL_LEN];
            signature.emit(&mut bytes);
            prop_assert!(signature.is_plausible());
            prop_assert_eq!(Signature::parse(&bytes), Some(signature));
        }

        /// Whatever the blocks of the search are, it finds what a look at each place finds.
        #[test]
        fn each_place_is_searched(
            mut frame in proptest::collection::vec(any::<u8>(), 0..320),
            magics in proptest::collection::vec((0_usize..300, any::<bool>(), 2_usize..=4), 0..4),
        ) {
            for (at, is_signature, len) in magics {
                let magic = if is_signature { MAGIC } else { END_MAGIC };
                if let Some(place) = frame.get_mut(at..at + len) {
                    place.copy_from_slice(&magic[..len]);
                }
            }
            let at_each = |at: usize| Signature::parse(frame.get(at..)?);
            let signature = FRONT_AT.step_by(2).find_map(at_each);
            prop_assert_eq!(find_signature(&frame), signature);
            let at_each = |at: usize| AnnouncedEnd::parse(frame.get(at..)?);
            let announced = FRONT_AT.step_by(2).find_map(at_each);
            let found = places_of(&frame, END_MAGIC).find_map(|at| AnnouncedEnd::parse(&frame[at..]));
            prop_assert_eq!(found, announced);
        }

        #[test]
        fn any_bytes_can_be_searched(frame in proptest::collection::vec(any::<u8>(), 0..300)) {
            find(&frame);
        }
    }
}
