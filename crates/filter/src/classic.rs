//! Classic BPF: the instructions, and which sequences of them are a filter.
//!
//! The machine of McCanne and Jacobson (1993) as Linux has it
//! (`Documentation/networking/filter.rst`): two 32-bit registers A and X, 16 words of memory, jumps
//! forward only, and a return value that says how many bytes to keep, 0 for none. A load beyond the
//! end of the frame and a division by zero end the filter with 0.

use crate::FilterError;

/// Most instructions of a filter (the kernel's `BPF_MAXINSNS`).
pub const INSTRUCTIONS_MAX: usize = 4096;

/// Words of memory that a filter has.
pub(crate) const MEMORY_WORDS: u32 = 16;

/// From here on an offset is a negative number, by which the kernel means something beside the
/// frame (`SKF_*_OFF`).
const EXTENSIONS_START: u32 = 0x8000_0000;

/// One instruction as the kernel and libpcap store it (`struct sock_filter`, `struct bpf_insn`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Instruction {
    /// What to do.
    pub code: u16,
    /// Instructions to skip when a test holds.
    pub jt: u8,
    /// Instructions to skip when it does not.
    pub jf: u8,
    /// Constant, offset or distance.
    pub k: u32,
}

/// One of the two registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Register {
    /// The accumulator.
    A,
    /// The index.
    X,
}

/// The second operand of a calculation or a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// A constant.
    K(u32),
    /// The register X.
    X,
}

/// How much of a frame is loaded; numbers are big-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// One byte.
    Byte,
    /// Two bytes.
    Half,
    /// Four bytes.
    Word,
}

impl Size {
    /// In bytes.
    pub fn bytes(self) -> u32 {
        match self {
            Self::Byte => 1,
            Self::Half => 2,
            Self::Word => 4,
        }
    }
}

/// Where in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValuePlace {
    /// So many bytes from its beginning.
    At(u32),
    /// So many bytes after byte X; the sum is a number of 33 bits, it does not wrap.
    AfterX(u32),
}

/// What A is calculated with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum AluOp {
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    Or,
    And,
    Xor,
    ShiftLeft,
    ShiftRight,
}

/// What A is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Test {
    /// A is the operand.
    Equal,
    /// A is greater.
    Greater,
    /// A is not less.
    GreaterOrEqual,
    /// A and the operand have a bit in common.
    AnyBit,
}

/// One instruction, understood. Jumps name the instruction they go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// A becomes a number of the frame.
    Load(Size, ValuePlace),
    /// X becomes four times the low half of a byte: the length of an IPv4 header.
    LoadHeaderLen(u32),
    /// A becomes the type of the packet: 4 for one that this host sends.
    LoadPacketType,
    /// A becomes the number of the device.
    LoadIfindex,
    /// A register becomes a constant.
    Set(Register, u32),
    /// A register becomes the length of the frame.
    SetLen(Register),
    /// A register becomes a word of memory.
    Recall(Register, u8),
    /// A word of memory becomes a register.
    Remember(Register, u8),
    /// A becomes A with the operand.
    Alu(AluOp, Operand),
    /// A becomes -A.
    Negate,
    /// X becomes A.
    CopyToX,
    /// A becomes X.
    CopyToA,
    /// On to another instruction.
    Jump(usize),
    /// On to one or another instruction.
    Branch {
        /// What is asked.
        test: Test,
        /// Of A and this.
        operand: Operand,
        /// Where it goes on when the answer is yes.
        yes: usize,
        /// And when it is no.
        no: usize,
    },
    /// The end, with a constant.
    ReturnK(u32),
    /// The end, with A.
    ReturnA,
}

/// A filter whose every instruction is known and which comes to an end on every way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Classic {
    instructions: Vec<Instruction>,
    ops: Vec<Op>,
    has_loops: bool,
}

impl Classic {
    /// Checks a program as the kernel would, and for what it has that only Linux sockets know.
    ///
    /// # Errors
    /// Every variant of [`FilterError`] but [`FilterError::TooLong`].
    pub fn new(instructions: Vec<Instruction>) -> Result<Self, FilterError> {
        let filter = Self::with_loops(instructions)?;
        match filter.ops.iter().enumerate().find(|(at, op)| matches!(op, Op::Jump(to) if to <= at)) {
            Some((at, _)) => Err(FilterError::Loop { at }),
            None => Ok(filter),
        }
    }

    /// Checks a program as the kernel would, but lets it jump back, as `protochain` does. Neither
    /// the kernel nor [`crate::translate()`] takes a program that does ([`Self::has_loops`]).
    ///
    /// # Errors
    /// Every variant of [`FilterError`] but [`FilterError::Loop`] and [`FilterError::TooLong`].
    pub fn with_loops(instructions: Vec<Instruction>) -> Result<Self, FilterError> {
        let count = instructions.len();
        if count == 0 || count > INSTRUCTIONS_MAX {
            return Err(FilterError::Length { count, max: INSTRUCTIONS_MAX });
        }
        let decoded = instructions.iter().enumerate().map(|(at, one)| decode(at, one, count));
        let ops = decoded.collect::<Result<Vec<Op>, FilterError>>()?;
        match ops[count - 1] {
            Op::ReturnK(_) | Op::ReturnA => {
                let jumps_back = |(at, op): (usize, &Op)| matches!(op, Op::Jump(to) if *to <= at);
                let has_loops = ops.iter().enumerate().any(jumps_back);
                Ok(Self { instructions, ops, has_loops })
            }
            _ => Err(FilterError::PastEnd { at: count - 1 }),
        }
    }

    /// A filter that keeps the first `len` bytes of every frame; of 0 bytes: that keeps no frame.
    pub fn keep(len: u32) -> Self {
        let instruction = Instruction { code: code::RET_K, k: len, ..Instruction::default() };
        Self { instructions: vec![instruction], ops: vec![Op::ReturnK(len)], has_loops: false }
    }

    /// True for a program that jumps back.
    pub fn has_loops(&self) -> bool {
        self.has_loops
    }

    /// True if the program asks which way the packet goes.
    pub fn asks_for_direction(&self) -> bool {
        self.ops.contains(&Op::LoadPacketType)
    }

    /// True if the program asks for something that is not in a frame: its direction or its device.
    pub fn asks_for_device(&self) -> bool {
        self.asks_for_direction() || self.ops.contains(&Op::LoadIfindex)
    }

    /// Adapts the filter to a socket, to pass frames whose VLAN tag the kernel took off: the
    /// program would not see the tag, so the process has to run it on the whole frame.
    #[must_use]
    pub fn passing_removed_tags(&self) -> Self {
        let load = Instruction { code: code::LD_W_ABS, k: EXTENSION_HAS_TAG, ..Instruction::default() };
        let test = Instruction { code: code::JEQ_K, jt: 1, jf: 0, k: 0 };
        let pass = Instruction { code: code::RET_K, k: WHOLE_FRAME, ..Instruction::default() };
        // A filter may count on A being 0 at its start.
        let clear = Instruction { code: code::LD_IMM, ..Instruction::default() };
        let instructions = [load, test, pass, clear].into_iter().chain(self.instructions.iter().copied());
        Self { instructions: instructions.collect(), ops: self.ops.clone(), has_loops: self.has_loops }
    }

    /// Puts a check of the packet type (`PACKET_OUTGOING`, ...), which only sockets know, before
    /// the filter: with `is_wanted` the filter decides about frames of that type only, without
    /// about all others. The rest do not pass.
    pub fn for_socket_with_type(&self, packet_type: u32, is_wanted: bool) -> Vec<Instruction> {
        // As many instructions to skip as `ret 0` is long.
        let (jt, jf) = if is_wanted { (1, 0) } else { (0, 1) };
        let load = Instruction { code: code::LD_W_ABS, k: EXTENSION_PACKET_TYPE, ..Instruction::default() };
        let test = Instruction { code: code::JEQ_K, jt, jf, k: packet_type };
        let refuse = Instruction { code: code::RET_K, ..Instruction::default() };
        // A filter may count on A being 0 at its start.
        let clear = Instruction { code: code::LD_IMM, ..Instruction::default() };
        [load, test, refuse, clear].into_iter().chain(self.instructions.iter().copied()).collect()
    }

    /// Adapts the filter to a socket that frames of several devices reach: frames of a device in
    /// `refused` do not pass, frames of a device of another type than those in `asked` (`ARPHRD_*`)
    /// pass without being asked about, so that the process can, and the filter decides about the
    /// rest. With `loopback_once` frames that leave by a loopback device (`ARPHRD_LOOPBACK`), where
    /// they come in again, do not pass.
    #[must_use]
    pub fn for_devices(&self, refused: &[u32], asked: Option<&[u32]>, loopback_once: bool) -> Self {
        let load = |k| Instruction { code: code::LD_W_ABS, k, ..Instruction::default() };
        let jump = |jt, jf, k| Instruction { code: code::JEQ_K, jt, jf, k };
        let end = |k| Instruction { code: code::RET_K, k, ..Instruction::default() };
        let mut program = Vec::new();
        if !refused.is_empty() {
            program.push(load(EXTENSION_IFINDEX));
            program.extend(refused.iter().flat_map(|ifindex| [jump(0, 1, *ifindex), end(0)]));
        }
        if loopback_once {
            program.extend([load(EXTENSION_DEVICE_TYPE), jump(0, 3, TYPE_LOOPBACK)]);
            program.extend([load(EXTENSION_PACKET_TYPE), jump(0, 1, PACKET_OUTGOING), end(0)]);
        }
        if let Some(asked) = asked {
            program.push(load(EXTENSION_DEVICE_TYPE));
            // Each skips the questions behind it, and the end.
            let skips = (1..=asked.len() as u8).rev();
            program.extend(asked.iter().zip(skips).map(|(device_type, skip)| jump(skip, 0, *device_type)));
            program.push(end(WHOLE_FRAME));
        }
        // A filter may count on A being 0 at its start.
        program.push(Instruction { code: code::LD_IMM, ..Instruction::default() });
        program.extend_from_slice(&self.instructions);
        Self { instructions: program, ops: self.ops.clone(), has_loops: self.has_loops }
    }

    /// The program, for a socket.
    pub fn instructions(&self) -> &[Instruction] {
        &self.instructions
    }

    /// The program, understood.
    pub fn ops(&self) -> &[Op] {
        &self.ops
    }
}

/// Loads the type of a packet (`SKF_AD_OFF + SKF_AD_PKTTYPE`).
const EXTENSION_PACKET_TYPE: u32 = 0xffff_f004;
/// Loads the number of the device (`SKF_AD_OFF + SKF_AD_IFINDEX`).
const EXTENSION_IFINDEX: u32 = 0xffff_f008;
/// Loads the type of the device, `ARPHRD_*` (`SKF_AD_OFF + SKF_AD_HATYPE`).
const EXTENSION_DEVICE_TYPE: u32 = 0xffff_f01c;
/// `ARPHRD_LOOPBACK`, and the type of packets that the host sends.
const TYPE_LOOPBACK: u32 = 772;
const PACKET_OUTGOING: u32 = 4;
/// Loads whether the kernel took a tag off (`SKF_AD_OFF + SKF_AD_VLAN_TAG_PRESENT`).
const EXTENSION_HAS_TAG: u32 = 0xffff_f030;
/// More bytes than any frame has.
const WHOLE_FRAME: u32 = 262_144;

/// Codes: the low three bits are the class (`linux/bpf_common.h`, `linux/filter.h`).
#[allow(missing_docs, reason = "the kernel's names")]
pub(crate) mod code {
    pub(crate) const LD_W_ABS: u16 = 0x20;
    pub(crate) const LD_H_ABS: u16 = 0x28;
    pub(crate) const LD_B_ABS: u16 = 0x30;
    pub(crate) const LD_W_IND: u16 = 0x40;
    pub(crate) const LD_H_IND: u16 = 0x48;
    pub(crate) const LD_B_IND: u16 = 0x50;
    pub(crate) const LD_IMM: u16 = 0x00;
    pub(crate) const LD_MEM: u16 = 0x60;
    pub(crate) const LD_LEN: u16 = 0x80;
    pub(crate) const LDX_IMM: u16 = 0x01;
    pub(crate) const LDX_MEM: u16 = 0x61;
    pub(crate) const LDX_LEN: u16 = 0x81;
    pub(crate) const LDX_B_MSH: u16 = 0xb1;
    pub(crate) const ST: u16 = 0x02;
    pub(crate) const STX: u16 = 0x03;
    pub(crate) const NEG: u16 = 0x84;
    pub(crate) const JA: u16 = 0x05;
    pub(crate) const JEQ_K: u16 = 0x15;
    pub(crate) const RET_K: u16 = 0x06;
    pub(crate) const RET_A: u16 = 0x16;
    pub(crate) const TAX: u16 = 0x07;
    pub(crate) const TXA: u16 = 0x87;
    /// Set where the operand is X.
    pub(crate) const SOURCE_X: u16 = 0x08;
    pub(crate) const CLASS_ALU: u16 = 0x04;
    pub(crate) const CLASS_JMP: u16 = 0x05;
}

fn decode(at: usize, one: &Instruction, count: usize) -> Result<Op, FilterError> {
    use Register::{A, X};
    let k = one.k;
    let word = || match k {
        0..MEMORY_WORDS => Ok(k as u8),
        _ => Err(FilterError::Memory { at, word: k }),
    };
    let load = |size, place| match k {
        0..EXTENSIONS_START => Ok(Op::Load(size, place)),
        _ => Err(FilterError::Extension { at, offset: k }),
    };
    match one.code {
        code::LD_W_ABS | code::LD_B_ABS | code::LD_H_ABS if k == EXTENSION_PACKET_TYPE => {
            Ok(Op::LoadPacketType)
        }
        code::LD_W_ABS if k == EXTENSION_IFINDEX => Ok(Op::LoadIfindex),
        code::LD_W_ABS => load(Size::Word, ValuePlace::At(k)),
        code::LD_H_ABS => load(Size::Half, ValuePlace::At(k)),
        code::LD_B_ABS => load(Size::Byte, ValuePlace::At(k)),
        code::LD_W_IND => Ok(Op::Load(Size::Word, ValuePlace::AfterX(k))),
        code::LD_H_IND => Ok(Op::Load(Size::Half, ValuePlace::AfterX(k))),
        code::LD_B_IND => Ok(Op::Load(Size::Byte, ValuePlace::AfterX(k))),
        code::LD_IMM => Ok(Op::Set(A, k)),
        code::LDX_IMM => Ok(Op::Set(X, k)),
        code::LD_MEM => Ok(Op::Recall(A, word()?)),
        code::LDX_MEM => Ok(Op::Recall(X, word()?)),
        code::LD_LEN => Ok(Op::SetLen(A)),
        code::LDX_LEN => Ok(Op::SetLen(X)),
        code::LDX_B_MSH => load(Size::Byte, ValuePlace::At(k)).map(|_| Op::LoadHeaderLen(k)),
        code::ST => Ok(Op::Remember(A, word()?)),
        code::STX => Ok(Op::Remember(X, word()?)),
        code::NEG => Ok(Op::Negate),
        code::TAX => Ok(Op::CopyToX),
        code::TXA => Ok(Op::CopyToA),
        code::RET_K => Ok(Op::ReturnK(k)),
        code::RET_A => Ok(Op::ReturnA),
        code::JA => target(at, k, count).map(Op::Jump),
        _ => decode_with_operand(at, one, count),
    }
}

/// Calculations and tests: a class, an operation, and where the operand comes from.
fn decode_with_operand(at: usize, one: &Instruction, count: usize) -> Result<Op, FilterError> {
    let operand = if one.code & code::SOURCE_X == 0 { Operand::K(one.k) } else { Operand::X };
    let operation = one.code & !(code::SOURCE_X | 7);
    let unknown = || FilterError::Unknown { at, code: one.code };
    match one.code & 7 {
        code::CLASS_ALU => {
            let op = alu(operation).ok_or_else(unknown)?;
            check_constant(at, op, operand)?;
            Ok(Op::Alu(op, operand))
        }
        code::CLASS_JMP => {
            let test = test(operation).ok_or_else(unknown)?;
            let (yes, no) = (target(at, one.jt.into(), count)?, target(at, one.jf.into(), count)?);
            Ok(Op::Branch { test, operand, yes, no })
        }
        _ => Err(unknown()),
    }
}

fn alu(operation: u16) -> Option<AluOp> {
    Some(match operation {
        0x00 => AluOp::Add,
        0x10 => AluOp::Sub,
        0x20 => AluOp::Mul,
        0x30 => AluOp::Div,
        0x40 => AluOp::Or,
        0x50 => AluOp::And,
        0x60 => AluOp::ShiftLeft,
        0x70 => AluOp::ShiftRight,
        0x90 => AluOp::Mod,
        0xa0 => AluOp::Xor,
        _ => return None,
    })
}

fn test(operation: u16) -> Option<Test> {
    Some(match operation {
        0x10 => Test::Equal,
        0x20 => Test::Greater,
        0x30 => Test::GreaterOrEqual,
        0x40 => Test::AnyBit,
        _ => return None,
    })
}

fn check_constant(at: usize, op: AluOp, operand: Operand) -> Result<(), FilterError> {
    match (op, operand) {
        (AluOp::Div | AluOp::Mod, Operand::K(0)) => Err(FilterError::Constant { at, value: 0 }),
        (AluOp::ShiftLeft | AluOp::ShiftRight, Operand::K(value @ 32..)) => {
            Err(FilterError::Constant { at, value })
        }
        _ => Ok(()),
    }
}

/// The instruction that a jump over `distance` others leads to.
fn target(at: usize, distance: u32, count: usize) -> Result<usize, FilterError> {
    let target = (at + 1).checked_add_signed(distance.cast_signed() as isize);
    target.filter(|target| *target < count).ok_or(FilterError::PastEnd { at })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(code: u16, jt: u8, jf: u8, k: u32) -> Instruction {
        Instruction { code, jt, jf, k }
    }

    const RETURN: Instruction = Instruction { code: code::RET_K, jt: 0, jf: 0, k: 96 };

    #[test]
    fn what_the_kernel_refuses_is_refused_with_its_place() {
        use FilterError as E;
        for (bad, error) in [
            (one(0x0e, 0, 0, 0), E::Unknown { at: 0, code: 0x0e }),
            (one(0xb4, 0, 0, 0), E::Unknown { at: 0, code: 0xb4 }),
            (one(code::JA, 0, 0, 0xffff_ffff), E::Loop { at: 0 }),
            (one(code::JA, 0, 0, 0xffff_fff0), E::PastEnd { at: 0 }),
            (one(code::JA, 0, 0, 1), E::PastEnd { at: 0 }),
            (one(code::JEQ_K, 1, 0, 0), E::PastEnd { at: 0 }),
            (one(code::JEQ_K, 0, 1, 0), E::PastEnd { at: 0 }),
            (one(0x34, 0, 0, 0), E::Constant { at: 0, value: 0 }),
            (one(0x94, 0, 0, 0), E::Constant { at: 0, value: 0 }),
            (one(0x64, 0, 0, 32), E::Constant { at: 0, value: 32 }),
            (one(code::ST, 0, 0, 16), E::Memory { at: 0, word: 16 }),
            (one(code::LDX_MEM, 0, 0, 99), E::Memory { at: 0, word: 99 }),
            (one(code::LD_H_ABS, 0, 0, 0xffff_f02c), E::Extension { at: 0, offset: 0xffff_f02c }),
        ] {
            assert_eq!(Classic::new(vec![bad, RETURN]), Err(error), "{bad:?}");
        }
        assert_eq!(Classic::new(vec![]), Err(E::Length { count: 0, max: 4096 }));
        assert_eq!(Classic::new(vec![RETURN; 4097]), Err(E::Length { count: 4097, max: 4096 }));
        assert_eq!(Classic::new(vec![RETURN, one(code::TAX, 0, 0, 0)]), Err(E::PastEnd { at: 1 }));
    }

    #[test]
    fn a_loop_is_for_the_process_only() {
        let back = vec![one(code::JA, 0, 0, 0), one(code::JA, 0, 0, 0xffff_fffe), RETURN];
        assert_eq!(Classic::new(back.clone()), Err(FilterError::Loop { at: 1 }));
        let filter = Classic::with_loops(back).unwrap();
        assert!(filter.has_loops() && filter.ops()[1] == Op::Jump(0));
        assert!(!Classic::keep(1).has_loops());
    }

    #[test]
    fn direction_and_device_are_asked_for_beside_the_frame() {
        let inbound = vec![one(code::LD_H_ABS, 0, 0, EXTENSION_PACKET_TYPE), RETURN];
        let device = vec![one(code::LD_W_ABS, 0, 0, EXTENSION_IFINDEX), RETURN];
        let [inbound, device] = [inbound, device].map(|program| Classic::new(program).unwrap());
        assert!(inbound.asks_for_direction() && inbound.asks_for_device());
        assert!(!device.asks_for_direction() && device.asks_for_device());
        assert!(!Classic::keep(1).asks_for_device());
    }

    #[test]
    fn a_socket_passes_frames_whose_tag_is_beside_them() {
        let filter = Classic::keep(96).passing_removed_tags();
        let [load, test, pass, clear, plain] = *filter.instructions() else { panic!() };
        assert_eq!((load.k, test.jt, test.jf, test.k), (EXTENSION_HAS_TAG, 1, 0, 0));
        assert_eq!((pass.k, clear.code, plain), (WHOLE_FRAME, code::LD_IMM, RETURN));
        assert_eq!(filter.ops(), Classic::keep(96).ops(), "the process runs the filter itself");
    }

    #[test]
    fn a_filter_is_understood_word_by_word() {
        // `tcpdump -ddd ip`
        let ip = [one(0x28, 0, 0, 12), one(0x15, 0, 1, 0x800), RETURN, one(code::RET_K, 0, 0, 0)];
        let filter = Classic::new(ip.to_vec()).unwrap();
        let branch = Op::Branch { test: Test::Equal, operand: Operand::K(0x800), yes: 2, no: 3 };
        let ops = [Op::Load(Size::Half, ValuePlace::At(12)), branch, Op::ReturnK(96), Op::ReturnK(0)];
        assert_eq!(filter.ops(), ops);
        assert_eq!(filter.instructions(), ip);
    }

    #[test]
    fn a_socket_filter_asks_for_the_packet_type_first() {
        let outgoing_only = Classic::keep(96).for_socket_with_type(4, true);
        assert_eq!(outgoing_only.len(), 5);
        assert_eq!((outgoing_only[1].jt, outgoing_only[1].jf, outgoing_only[1].k), (1, 0, 4));
        let others = Classic::keep(96).for_socket_with_type(4, false);
        assert_eq!((others[1].jt, others[1].jf), (0, 1));
        assert_eq!(others[2..], [one(code::RET_K, 0, 0, 0), one(code::LD_IMM, 0, 0, 0), RETURN]);
    }
}
