//! Classic filters run in Rust: the reference for the other two ways of running them.

use crate::classic::{AluOp, Classic, MEMORY_WORDS, Op, Operand, Register, Size, Test, ValuePlace};

/// The state of a running filter.
#[derive(Default)]
struct FilterMachine {
    a: u32,
    x: u32,
    /// Length on the link.
    frame_len: u32,
    memory: [u32; MEMORY_WORDS as usize],
    beside: BesideFrame,
}

/// What a filter may ask beside the bytes of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BesideFrame {
    /// True for a frame that this host sends.
    pub is_outgoing: bool,
    /// Number of the device.
    pub ifindex: u32,
}

/// The packet type of a frame that this host sends (`PACKET_OUTGOING`).
const OUTGOING: u32 = 4;
/// Instructions after which a filter that loops is given up: more than any chain of headers needs.
const STEPS_MAX: usize = 100_000;

impl Classic {
    /// Bytes of the frame that the filter would keep, 0 for a frame that it does not accept.
    pub fn run(&self, frame: &[u8]) -> u32 {
        self.run_captured(frame, frame.len() as u32)
    }

    /// Bytes that the filter would keep of a frame of `frame_len` bytes, of which `captured` has
    /// the first; 0 for a frame that it does not accept.
    pub fn run_captured(&self, captured: &[u8], frame_len: u32) -> u32 {
        self.run_beside(captured, frame_len, BesideFrame::default())
    }

    /// Bytes that the filter would keep of a frame whose direction and device are known; 0 for a
    /// frame that it does not accept. `captured` has the first of the `frame_len` bytes. A filter
    /// that does not come to an end keeps nothing.
    pub fn run_beside(&self, captured: &[u8], frame_len: u32, beside: BesideFrame) -> u32 {
        let mut machine = FilterMachine { frame_len, beside, ..FilterMachine::default() };
        let mut at = 0;
        for _ in 0..STEPS_MAX {
            match machine.step(self.ops()[at], at, captured) {
                NextInstruction::At(next) => at = next,
                NextInstruction::End(kept) => return kept,
            }
        }
        0
    }
}

enum NextInstruction {
    At(usize),
    End(u32),
}

impl FilterMachine {
    fn step(&mut self, op: Op, at: usize, frame: &[u8]) -> NextInstruction {
        match op {
            Op::Load(size, place) => match self.number(size, place, frame) {
                Some(number) => self.a = number,
                None => return NextInstruction::End(0),
            },
            Op::LoadHeaderLen(offset) => match self.number(Size::Byte, ValuePlace::At(offset), frame) {
                Some(number) => self.x = 4 * (number & 0xf),
                None => return NextInstruction::End(0),
            },
            Op::LoadPacketType => self.a = if self.beside.is_outgoing { OUTGOING } else { 0 },
            Op::LoadIfindex => self.a = self.beside.ifindex,
            Op::Set(register, k) => *self.register(register) = k,
            Op::SetLen(register) => *self.register(register) = self.frame_len,
            Op::Recall(register, word) => *self.register(register) = self.memory[usize::from(word)],
            Op::Remember(register, word) => self.memory[usize::from(word)] = *self.register(register),
            Op::Alu(op, operand) => match calculate(op, self.a, self.operand(operand)) {
                Some(number) => self.a = number,
                None => return NextInstruction::End(0),
            },
            Op::Negate => self.a = self.a.wrapping_neg(),
            Op::CopyToX => self.x = self.a,
            Op::CopyToA => self.a = self.x,
            Op::Jump(target) => return NextInstruction::At(target),
            Op::Branch { test, operand, yes, no } => {
                let holds = holds(test, self.a, self.operand(operand));
                return NextInstruction::At(if holds { yes } else { no });
            }
            Op::ReturnK(k) => return NextInstruction::End(k),
            Op::ReturnA => return NextInstruction::End(self.a),
        }
        NextInstruction::At(at + 1)
    }

    fn register(&mut self, register: Register) -> &mut u32 {
        match register {
            Register::A => &mut self.a,
            Register::X => &mut self.x,
        }
    }

    fn operand(&self, operand: Operand) -> u32 {
        match operand {
            Operand::K(k) => k,
            Operand::X => self.x,
        }
    }

    fn number(&self, size: Size, place: ValuePlace, frame: &[u8]) -> Option<u32> {
        let start = match place {
            ValuePlace::At(offset) => offset as usize,
            ValuePlace::AfterX(offset) => self.x as usize + offset as usize,
        };
        let bytes = frame.get(start..start + size.bytes() as usize)?;
        Some(bytes.iter().fold(0, |number, &byte| number << 8 | u32::from(byte)))
    }
}

/// `None` for a division by zero. A shift by 32 or more leaves nothing.
fn calculate(op: AluOp, a: u32, operand: u32) -> Option<u32> {
    Some(match op {
        AluOp::Add => a.wrapping_add(operand),
        AluOp::Sub => a.wrapping_sub(operand),
        AluOp::Mul => a.wrapping_mul(operand),
        AluOp::Div => a.checked_div(operand)?,
        AluOp::Mod => a.checked_rem(operand)?,
        AluOp::Or => a | operand,
        AluOp::And => a & operand,
        AluOp::Xor => a ^ operand,
        AluOp::ShiftLeft => a.checked_shl(operand).unwrap_or(0),
        AluOp::ShiftRight => a.checked_shr(operand).unwrap_or(0),
    })
}

fn holds(test: Test, a: u32, operand: u32) -> bool {
    match test {
        Test::Equal => a == operand,
        Test::Greater => a > operand,
        Test::GreaterOrEqual => a >= operand,
        Test::AnyBit => a & operand != 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Instruction;

    fn run(program: &[(u16, u8, u8, u32)], frame: &[u8]) -> u32 {
        let program = program.iter().map(|&(code, jt, jf, k)| Instruction { code, jt, jf, k });
        Classic::new(program.collect()).unwrap().run(frame)
    }

    #[test]
    fn udp_port_9_as_libpcap_compiles_it() {
        let program = [
            (0x28, 0, 0, 12),
            (0x15, 0, 8, 0x800),
            (0x30, 0, 0, 23),
            (0x15, 0, 6, 17),
            (0x28, 0, 0, 20),
            (0x45, 4, 0, 0x1fff),
            (0xb1, 0, 0, 14),
            (0x48, 0, 0, 16),
            (0x15, 0, 1, 9),
            (0x06, 0, 0, 96),
            (0x06, 0, 0, 0),
        ];
        let mut frame = [0; 60];
        frame[12] = 8;
        frame[14] = 0x45;
        frame[23] = 17;
        frame[37] = 9;
        assert_eq!(run(&program, &frame), 96);
        assert_eq!(run(&program, &frame[..37]), 0, "the port is cut off");
        frame[20] = 1;
        assert_eq!(run(&program, &frame), 0, "a fragment");
    }

    #[test]
    fn direction_and_device_are_known_and_endless_loops_keep_nothing() {
        let program = |code, k| {
            let load = Instruction { code, k, ..Instruction::default() };
            Classic::with_loops(vec![load, Instruction { code: 0x16, ..Instruction::default() }]).unwrap()
        };
        let beside = BesideFrame { is_outgoing: true, ifindex: 7 };
        assert_eq!(program(0x28, 0xffff_f004).run_beside(&[], 0, beside), 4);
        assert_eq!(program(0x28, 0xffff_f004).run_captured(&[], 0), 0);
        assert_eq!(program(0x20, 0xffff_f008).run_beside(&[], 0, beside), 7);
        assert_eq!(program(0x05, 0xffff_ffff).run(&[1]), 0);
    }

    #[test]
    fn divisions_by_zero_and_long_shifts() {
        assert_eq!(run(&[(0x00, 0, 0, 8), (0x3c, 0, 0, 0), (0x06, 0, 0, 1)], &[]), 0);
        assert_eq!(run(&[(0x00, 0, 0, 8), (0x9c, 0, 0, 0), (0x06, 0, 0, 1)], &[]), 0);
        assert_eq!(run(&[(0x00, 0, 0, 8), (0x01, 0, 0, 32), (0x6c, 0, 0, 0), (0x16, 0, 0, 0)], &[]), 0);
        assert_eq!(run(&[(0x00, 0, 0, 8), (0x01, 0, 0, 3), (0x7c, 0, 0, 0), (0x16, 0, 0, 0)], &[]), 1);
    }

    #[test]
    fn a_sum_beyond_32_bits_is_beyond_the_frame() {
        assert_eq!(run(&[(0x01, 0, 0, 0xffff_ffff), (0x50, 0, 0, 1), (0x06, 0, 0, 1)], &[7, 7]), 0);
    }
}
