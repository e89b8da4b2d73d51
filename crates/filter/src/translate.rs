//! From a classic filter to an eBPF function for XDP programs.
//!
//! The result is `u32 filter(struct xdp_md *ctx)`: bytes to keep, 0 for a frame that is not
//! accepted. It needs the helpers `bpf_xdp_get_buff_len` and `bpf_xdp_load_bytes` (Linux 5.18),
//! which see frames in several pieces whole.
//!
//! | register | holds |
//! |---|---|
//! | r6 | the context |
//! | r7, r8 | A and X, always zero above 32 bits |
//! | r9 | first byte of the frame |
//! | stack | a word loaded by the helper, the frame's length, the 16 words of memory |
//!
//! A load whose bytes lie in the linear part is a load instruction behind a check against
//! `data_end`. The verifier asks for that check; where it fails the helper is asked, and where that
//! fails the filter ends with 0. Frames are rarely shorter than the headers that a filter looks at,
//! so the whole filter comes twice: once behind a single check for all constant offsets, and once
//! with a check at every load for frames that did not pass.

use crate::classic::{AluOp, Classic, Op, Operand, Register as Variable, Size, Test, ValuePlace};
use crate::ebpf::{Assembler, Ebpf, JumpLabel, RegisterNumber, code};
use crate::error::FilterError;

const CTX: RegisterNumber = 6;
const A: RegisterNumber = 7;
const X: RegisterNumber = 8;
const DATA: RegisterNumber = 9;
const STACK: RegisterNumber = 10;

/// `struct xdp_md`.
const CTX_DATA: i16 = 0;
const CTX_DATA_END: i16 = 4;

/// On the stack, from its end downwards.
const LEN_AT: i16 = -4;
const LOADED_AT: i16 = -8;
const MEMORY_AT: i16 = -72;

const HELPER_FRAME_LEN: u32 = 188; // bpf_xdp_get_buff_len
const HELPER_LOAD_BYTES: u32 = 189; // bpf_xdp_load_bytes

/// The helper refuses offsets above this.
const OFFSET_MAX: u32 = 0xffff;
/// The verifier wants an offset that it does not know to stay so far below 65,535 that the access
/// does, too.
const LINEAR_OFFSET_MAX: u32 = OFFSET_MAX - 15;
/// Offsets from here on do not fit into a load instruction.
const CONST_END_MAX: u32 = 0x7fff;
/// The single check covers at most so many bytes: longer frames would be rare.
const COMMON_REACH_MAX: u32 = 256;
/// Filters longer than this come once, with a check at every load, so that jumps stay short.
const TWICE_MAX: usize = 512;

/// Translates a filter for frames that a device of this number receives.
///
/// # Errors
/// [`FilterError::TooLong`] for a filter of a thousand instructions and more;
/// [`FilterError::Loop`].
pub fn translate(filter: &Classic, ifindex: u32) -> Result<Vec<Ebpf>, FilterError> {
    let ops = filter.ops();
    if let Some(at) = ops.iter().enumerate().position(|(at, op)| matches!(op, Op::Jump(to) if *to <= at)) {
        return Err(FilterError::Loop { at });
    }
    let mut translator = Translator::new(ifindex);
    translator.prologue(ops);
    let reach = common_reach(ops);
    if reach > 0 && ops.len() <= TWICE_MAX {
        let careful = translator.asm.label();
        translator.jump_unless_linear(reach, careful);
        translator.body(ops, reach);
        translator.asm.place(careful);
    }
    translator.body(ops, 0);
    translator.epilogue();
    let count = ops.len();
    translator.asm.finish().map_err(|translated| FilterError::TooLong { count, translated })
}

/// Bytes that hold what all loads at constant offsets look at, as far as that is near.
fn common_reach(ops: &[Op]) -> u32 {
    let ends = ops.iter().filter_map(|op| match op {
        Op::Load(size, ValuePlace::At(offset)) => Some(offset + size.bytes()),
        Op::LoadHeaderLen(offset) => Some(offset + 1),
        _ => None,
    });
    ends.filter(|end| *end <= COMMON_REACH_MAX).max().unwrap_or(0)
}

/// Which instructions can be reached: the verifier refuses a program with others.
fn reachable(ops: &[Op]) -> Vec<bool> {
    let mut reached = vec![false; ops.len()];
    reached[0] = true;
    // Jumps go forward only, so one pass sees every jump to a place before the place.
    for (at, op) in ops.iter().enumerate() {
        if !reached[at] {
            continue;
        }
        match *op {
            Op::ReturnK(_) | Op::ReturnA => {}
            Op::Jump(to) => reached[to] = true,
            Op::Branch { yes, no, .. } => {
                reached[yes] = true;
                reached[no] = true;
            }
            _ => reached[at + 1] = true,
        }
    }
    reached
}

/// What is left to write for a load whose bytes were not in the linear part.
struct SlowLoad {
    start: JumpLabel,
    back: JumpLabel,
    offset: SlowOffset,
    size: Size,
    to: RegisterNumber,
}

enum SlowOffset {
    Const(u32),
    /// In r5, and not checked yet.
    Computed,
}

struct Translator {
    asm: Assembler,
    /// Where the filter ends with 0.
    reject: JumpLabel,
    slow: Vec<SlowLoad>,
    ifindex: u32,
}

impl Translator {
    fn new(ifindex: u32) -> Self {
        let mut asm = Assembler::default();
        let reject = asm.label();
        Self { asm, reject, slow: Vec::new(), ifindex }
    }

    /// The registers, and of the rest what the filter uses.
    fn prologue(&mut self, ops: &[Op]) {
        let asm = &mut self.asm;
        asm.with_register(code::MOV_64, CTX, 1);
        if ops.iter().any(|op| matches!(op, Op::SetLen(_))) {
            asm.call(HELPER_FRAME_LEN);
            asm.store_word(STACK, LEN_AT, 0);
        }
        asm.load(code::LOAD_WORD, DATA, CTX, CTX_DATA);
        asm.with_const(code::MOV_32, A, 0);
        asm.with_const(code::MOV_32, X, 0);
        let recalled = |word| ops.iter().any(|op| matches!(op, Op::Recall(_, which) if *which == word));
        for word in (0..16).filter(|word| recalled(*word)) {
            asm.clear_word(STACK, memory_at(word));
        }
    }

    fn jump_unless_linear(&mut self, end: u32, to: JumpLabel) {
        self.asm.with_register(code::MOV_64, 1, DATA);
        self.asm.with_const(code::ADD_64, 1, end);
        self.asm.load(code::LOAD_WORD, 2, CTX, CTX_DATA_END);
        self.asm.jump_if_register(code::JUMP_GREATER_64, 1, 2, to);
    }

    /// The whole filter. The first `known` bytes of the frame have been checked already.
    fn body(&mut self, ops: &[Op], known: u32) {
        let places: Vec<JumpLabel> = ops.iter().map(|_| self.asm.label()).collect();
        for (at, is_reached) in reachable(ops).into_iter().enumerate() {
            self.asm.place(places[at]);
            if is_reached {
                self.op(ops[at], at, known, &places);
            }
        }
        for slow in std::mem::take(&mut self.slow) {
            self.slow_load(slow);
        }
    }

    fn epilogue(&mut self) {
        let is_used = self.asm.is_used(self.reject);
        self.asm.place(self.reject);
        if is_used {
            self.asm.with_const(code::MOV_32, 0, 0);
            self.asm.exit();
        }
    }

    fn op(&mut self, op: Op, at: usize, known: u32, places: &[JumpLabel]) {
        let asm = &mut self.asm;
        match op {
            Op::Load(size, ValuePlace::At(offset)) => self.load_at(offset, size, A, known),
            Op::Load(size, ValuePlace::AfterX(offset)) => self.load_after_x(offset, size),
            Op::LoadHeaderLen(offset) => {
                self.load_at(offset, Size::Byte, X, known);
                self.asm.with_const(code::AND_32, X, 0xf);
                self.asm.with_const(code::SHL_32, X, 2);
            }
            // XDP sees frames that come in.
            Op::LoadPacketType => asm.with_const(code::MOV_32, A, 0),
            Op::LoadIfindex => asm.with_const(code::MOV_32, A, self.ifindex),
            Op::Set(variable, k) => asm.with_const(code::MOV_32, register(variable), k),
            Op::SetLen(variable) => asm.load(code::LOAD_WORD, register(variable), STACK, LEN_AT),
            Op::Recall(variable, word) => {
                asm.load(code::LOAD_WORD, register(variable), STACK, memory_at(word));
            }
            Op::Remember(variable, word) => asm.store_word(STACK, memory_at(word), register(variable)),
            Op::Alu(op, operand) => self.calculate(op, operand),
            Op::Negate => asm.with_const(code::NEG_32, A, 0),
            Op::CopyToX => asm.with_register(code::MOV_32, X, A),
            Op::CopyToA => asm.with_register(code::MOV_32, A, X),
            Op::Jump(to) => self.go(at, to, places),
            Op::Branch { test, operand, yes, no } => self.branch(at, test, operand, (yes, no), places),
            Op::ReturnK(k) => {
                asm.with_const(code::MOV_32, 0, k);
                asm.exit();
            }
            Op::ReturnA => {
                asm.with_register(code::MOV_32, 0, A);
                asm.exit();
            }
        }
    }

    fn load_at(&mut self, offset: u32, size: Size, to: RegisterNumber, known: u32) {
        let end = offset + size.bytes();
        if end > CONST_END_MAX {
            return self.load_by_helper(&SlowOffset::Const(offset), size, to);
        }
        if end > known {
            let (start, back) = self.leave_to_helper(SlowOffset::Const(offset), size, to);
            self.jump_unless_linear(end, start);
            self.load(size, to, DATA, offset as i16);
            self.asm.place(back);
        } else {
            self.load(size, to, DATA, offset as i16);
        }
    }

    fn load_after_x(&mut self, offset: u32, size: Size) {
        let (start, back) = self.leave_to_helper(SlowOffset::Computed, size, A);
        let asm = &mut self.asm;
        // In 64 bits, so that the sum does not wrap.
        asm.with_const(code::MOV_32, 5, offset);
        asm.with_register(code::ADD_64, 5, X);
        asm.jump_if_const(code::JUMP_GREATER_64, 5, LINEAR_OFFSET_MAX, start);
        asm.with_register(code::MOV_64, 1, DATA);
        asm.with_register(code::ADD_64, 1, 5);
        asm.with_register(code::MOV_64, 3, 1);
        asm.with_const(code::ADD_64, 3, size.bytes());
        asm.load(code::LOAD_WORD, 2, CTX, CTX_DATA_END);
        asm.jump_if_register(code::JUMP_GREATER_64, 3, 2, start);
        self.load(size, A, 1, 0);
        self.asm.place(back);
    }

    /// Where a load goes on whose bytes are not in the linear part, and where that comes back.
    fn leave_to_helper(
        &mut self,
        offset: SlowOffset,
        size: Size,
        to: RegisterNumber,
    ) -> (JumpLabel, JumpLabel) {
        let (start, back) = (self.asm.label(), self.asm.label());
        self.slow.push(SlowLoad { start, back, offset, size, to });
        (start, back)
    }

    fn slow_load(&mut self, slow: SlowLoad) {
        self.asm.place(slow.start);
        self.load_by_helper(&slow.offset, slow.size, slow.to);
        self.asm.jump(slow.back);
    }

    fn load_by_helper(&mut self, offset: &SlowOffset, size: Size, to: RegisterNumber) {
        match *offset {
            SlowOffset::Const(offset) => self.asm.with_const(code::MOV_32, 2, offset),
            SlowOffset::Computed => {
                // The helper takes 32 bits and would not see the rest.
                self.asm.jump_if_const(code::JUMP_GREATER_64, 5, OFFSET_MAX, self.reject);
                self.asm.with_register(code::MOV_64, 2, 5);
            }
        }
        self.asm.with_register(code::MOV_64, 1, CTX);
        self.asm.with_register(code::MOV_64, 3, STACK);
        self.asm.with_const(code::ADD_64, 3, i32::from(LOADED_AT).cast_unsigned());
        self.asm.with_const(code::MOV_32, 4, size.bytes());
        self.asm.call(HELPER_LOAD_BYTES);
        self.asm.jump_if_const(code::JUMP_NOT_EQUAL_64, 0, 0, self.reject);
        self.load(size, to, STACK, LOADED_AT);
    }

    /// A number from the network, in host order.
    fn load(&mut self, size: Size, to: RegisterNumber, from: RegisterNumber, offset: i16) {
        let load = match size {
            Size::Byte => code::LOAD_BYTE,
            Size::Half => code::LOAD_HALF,
            Size::Word => code::LOAD_WORD,
        };
        self.asm.load(load, to, from, offset);
        if size != Size::Byte {
            self.asm.with_const(code::TO_BIG_ENDIAN, to, 8 * size.bytes());
        }
    }

    fn calculate(&mut self, op: AluOp, operand: Operand) {
        let code = match op {
            AluOp::Add => code::ADD_32,
            AluOp::Sub => code::SUB_32,
            AluOp::Mul => code::MUL_32,
            AluOp::Div => code::DIV_32,
            AluOp::Mod => code::MOD_32,
            AluOp::Or => code::OR_32,
            AluOp::And => code::AND_32,
            AluOp::Xor => code::XOR_32,
            AluOp::ShiftLeft => code::SHL_32,
            AluOp::ShiftRight => code::SHR_32,
        };
        match (op, operand) {
            (_, Operand::K(k)) => self.asm.with_const(code, A, k),
            (AluOp::Div | AluOp::Mod, Operand::X) => {
                self.asm.jump_if_const(code::JUMP_EQUAL_32, X, 0, self.reject);
                self.asm.with_register(code, A, X);
            }
            (AluOp::ShiftLeft | AluOp::ShiftRight, Operand::X) => self.shift(code),
            (_, Operand::X) => self.asm.with_register(code, A, X),
        }
    }

    /// eBPF looks at five bits of the distance only; nothing is left of A when there are others.
    fn shift(&mut self, code: u8) {
        let (short, done) = (self.asm.label(), self.asm.label());
        self.asm.jump_if_const(code::JUMP_LESS_32, X, 32, short);
        self.asm.with_const(code::MOV_32, A, 0);
        self.asm.jump(done);
        self.asm.place(short);
        self.asm.with_register(code, A, X);
        self.asm.place(done);
    }

    fn go(&mut self, at: usize, to: usize, places: &[JumpLabel]) {
        if to != at + 1 {
            self.asm.jump(places[to]);
        }
    }

    fn branch(
        &mut self,
        at: usize,
        test: Test,
        operand: Operand,
        (yes, no): (usize, usize),
        places: &[JumpLabel],
    ) {
        if yes == no {
            return self.go(at, yes, places);
        }
        let (holds, fails) = match test {
            Test::Equal => (code::JUMP_EQUAL_32, Some(code::JUMP_NOT_EQUAL_32)),
            Test::Greater => (code::JUMP_GREATER_32, Some(code::JUMP_LESS_EQUAL_32)),
            Test::GreaterOrEqual => (code::JUMP_GREATER_EQUAL_32, Some(code::JUMP_LESS_32)),
            Test::AnyBit => (code::JUMP_ANY_BIT_32, None),
        };
        match fails {
            Some(fails) if yes == at + 1 => self.jump_if(fails, operand, places[no]),
            _ => {
                self.jump_if(holds, operand, places[yes]);
                self.go(at, no, places);
            }
        }
    }

    fn jump_if(&mut self, code: u8, operand: Operand, to: JumpLabel) {
        match operand {
            Operand::K(k) => self.asm.jump_if_const(code, A, k, to),
            Operand::X => self.asm.jump_if_register(code, A, X, to),
        }
    }
}

fn register(variable: Variable) -> RegisterNumber {
    match variable {
        Variable::A => A,
        Variable::X => X,
    }
}

fn memory_at(word: u8) -> i16 {
    MEMORY_AT + 4 * i16::from(word)
}
