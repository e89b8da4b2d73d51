//! Random filters and frames from a seed, for the tests of this and other crates.
//!
//! The filters are valid and mostly pointless, which finds mistakes. Frames look like IPv4 often
//! enough for header lengths and ports to matter.

use crate::classic::code;
use crate::{Classic, Instruction};

/// A stream of numbers that depends on the seed alone (splitmix64).
#[derive(Clone, Debug)]
pub struct SplitMix(u64);

impl SplitMix {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number, 32 bits of it.
    pub fn word(&mut self) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) as u32
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u32) -> u32 {
        self.word() % end
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u32) as usize]
    }
}

/// A frame of up to `len_max` bytes.
pub fn frame(numbers: &mut SplitMix, len_max: u32) -> Vec<u8> {
    let len = numbers.below(len_max + 1);
    let mut frame: Vec<u8> = (0..len).map(|_| numbers.word() as u8).collect();
    if frame.len() > 24 && numbers.below(2) == 0 {
        frame[12..14].copy_from_slice(&[8, 0]);
        frame[14] = 0x40 | (frame[14] & 0xf);
        frame[23] = numbers.pick(&[6, 17]);
    }
    frame
}

/// A filter.
pub fn filter(numbers: &mut SplitMix) -> Classic {
    let count = 2 + numbers.below(40);
    let mut program: Vec<Instruction> = (1..count).map(|at| instruction(numbers, count - 1 - at)).collect();
    let end = numbers.pick(&[code::RET_K, code::RET_A]);
    program.push(Instruction { code: end, k: 1 + numbers.below(0xffff), ..Instruction::default() });
    Classic::new(program).expect("what is made here is a filter")
}

/// Any instruction that has `left` others behind the next one.
fn instruction(numbers: &mut SplitMix, left: u32) -> Instruction {
    let one = |code, k| Instruction { code, jt: 0, jf: 0, k };
    match numbers.below(16) {
        0..=3 => one(
            numbers.pick(&[code::LD_W_ABS, code::LD_H_ABS, code::LD_B_ABS, code::LDX_B_MSH]),
            offset(numbers),
        ),
        4..=5 => one(numbers.pick(&[code::LD_W_IND, code::LD_H_IND, code::LD_B_IND]), offset(numbers)),
        6 => one(numbers.pick(&[code::LD_IMM, code::LDX_IMM]), constant(numbers)),
        7 => one(numbers.pick(&[code::LD_LEN, code::LDX_LEN, code::TAX, code::TXA, code::NEG]), 0),
        8 => one(numbers.pick(&[code::LD_MEM, code::LDX_MEM, code::ST, code::STX]), numbers.below(16)),
        9..=11 => calculation(numbers),
        12 if left > 0 => one(code::JA, numbers.below(left)),
        13 if numbers.below(8) == 0 => one(code::RET_K, numbers.below(3)),
        _ => {
            let test = numbers.pick(&[0x15, 0x25, 0x35, 0x45]) | numbers.pick(&[0, code::SOURCE_X]);
            let end = (left + 1).min(256);
            let (jt, jf) = (numbers.below(end) as u8, numbers.below(end) as u8);
            Instruction { code: test, jt, jf, k: constant(numbers) }
        }
    }
}

fn calculation(numbers: &mut SplitMix) -> Instruction {
    let operation = numbers.pick(&[0x00, 0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70, 0x90, 0xa0]);
    let source = numbers.pick(&[0, code::SOURCE_X]);
    let k = match operation {
        0x60 | 0x70 => numbers.below(32),
        _ => constant(numbers).max(1),
    };
    Instruction { code: code::CLASS_ALU | operation | source, jt: 0, jf: 0, k }
}

fn offset(numbers: &mut SplitMix) -> u32 {
    match numbers.below(12) {
        0 => numbers.below(0x1_0010),
        1 => numbers.word() >> 1,
        2..=4 => numbers.pick(&[12, 14, 20, 23, 26, 30, 36]),
        _ => numbers.below(128),
    }
}

fn constant(numbers: &mut SplitMix) -> u32 {
    match numbers.below(4) {
        0 => numbers.word(),
        1 => numbers.pick(&[0, 1, 31, 32, 0x800, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff]),
        _ => numbers.below(256),
    }
}
