//! BPF instructions (Linux, Documentation/bpf/standardization/instruction-set.rst), and what each
//! reads and writes.

use libbpf_sys::bpf_insn;

pub(super) const CLASS: u8 = 0x07;
pub(super) const LD: u8 = 0x00;
pub(super) const LDX: u8 = 0x01;
pub(super) const ST: u8 = 0x02;
pub(super) const STX: u8 = 0x03;
pub(super) const ALU: u8 = 0x04;
pub(super) const JMP: u8 = 0x05;
pub(super) const JMP32: u8 = 0x06;
pub(super) const ALU64: u8 = 0x07;

/// The operation of arithmetic and of a jump.
pub(super) const OP: u8 = 0xf0;
/// The second operand is a register.
pub(super) const BY_REGISTER: u8 = 0x08;
pub(super) const MOV: u8 = 0xb0;
pub(super) const NEG: u8 = 0x80;
pub(super) const END: u8 = 0xd0;
pub(super) const JA: u8 = 0x00;
pub(super) const CALL: u8 = 0x80;
pub(super) const EXIT: u8 = 0x90;

/// How a load or a store accesses memory.
const MODE: u8 = 0xe0;
const MODE_MEM: u8 = 0x60;
const MODE_ATOMIC: u8 = 0xc0;

/// A 64-bit constant, the only instruction of two slots.
pub(super) const WIDE: u8 = 0x18;
/// `src` of a wide constant: an address in the value of a map, or a function.
pub(super) const WIDE_MAP_VALUE: u8 = 2;
pub(super) const WIDE_FUNCTION: u8 = 4;
/// `src` of a call: a helper of the kernel, or a function of the program. Others are functions of
/// the kernel.
const CALL_HELPER: u8 = 0;
const CALL_FUNCTION: u8 = 1;
/// Registers that a call takes at most.
const ARGUMENTS_MAX: i16 = 5;

/// The register with the top of the stack.
pub(super) const STACK: u8 = 10;
pub(super) const REGISTERS: usize = 11;
/// Bytes of the stack of a function.
const STACK_LEN: i32 = 512;

/// One instruction. `off` of a call is the number of registers that it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Insn {
    pub(super) code: u8,
    pub(super) dst: u8,
    pub(super) src: u8,
    pub(super) off: i16,
    pub(super) imm: i32,
    /// The second half of a wide constant.
    pub(super) high: i32,
}

impl Insn {
    pub(super) fn class(self) -> u8 {
        self.code & CLASS
    }

    pub(super) fn op(self) -> u8 {
        self.code & OP
    }

    pub(super) fn by_register(self) -> bool {
        self.code & BY_REGISTER != 0
    }

    pub(super) fn is_arithmetic(self) -> bool {
        matches!(self.class(), ALU | ALU64)
    }

    /// Changes the order of bytes. The bit of the second operand is the order.
    pub(super) fn is_swap(self) -> bool {
        self.is_arithmetic() && self.op() == END
    }

    /// True for a jump, a call or the end of a function.
    pub(super) fn is_jump_class(self) -> bool {
        matches!(self.class(), JMP | JMP32)
    }

    pub(super) fn is_call(self) -> bool {
        self.code == JMP | CALL
    }

    pub(super) fn is_exit(self) -> bool {
        self.code == JMP | EXIT
    }

    pub(super) fn is_goto(self) -> bool {
        self.code == JMP | JA
    }

    pub(super) fn is_branch(self) -> bool {
        self.is_jump_class() && !matches!(self.op(), CALL | EXIT | JA)
    }

    pub(super) fn calls_function(self) -> bool {
        self.is_call() && self.src == CALL_FUNCTION
    }

    pub(super) fn names_function(self) -> bool {
        self.code == WIDE && self.src == WIDE_FUNCTION
    }

    /// A load from memory, without sign extension.
    pub(super) fn is_load(self) -> bool {
        self.class() == LDX && self.code & MODE == MODE_MEM
    }

    /// A store that is not atomic.
    pub(super) fn is_store(self) -> bool {
        matches!(self.class(), ST | STX) && self.code & MODE == MODE_MEM
    }

    pub(super) fn is_atomic(self) -> bool {
        self.class() == STX && self.code & MODE == MODE_ATOMIC
    }

    /// Bytes that a load or a store accesses.
    pub(super) fn width(self) -> i32 {
        match self.code & 0x18 {
            0x00 => 4,
            0x08 => 2,
            0x10 => 1,
            _ => 8,
        }
    }

    /// The register with the address of a load or a store.
    pub(super) fn base(self) -> u8 {
        if self.class() == LDX { self.src } else { self.dst }
    }

    /// The same access at another place.
    pub(super) fn based_on(self, base: u8, off: i16) -> Self {
        if self.class() == LDX { Self { src: base, off, ..self } } else { Self { dst: base, off, ..self } }
    }

    /// True if nothing but its result would be missed.
    pub(super) fn is_pure(self) -> bool {
        self.is_arithmetic() || self.class() == LDX || self.code == WIDE
    }

    /// The registers that it reads, one bit each.
    pub(super) fn reads(self) -> u16 {
        let (dst, src) = (1 << self.dst, 1 << self.src);
        let second = if self.by_register() { src } else { 0 };
        match self.class() {
            ALU | ALU64 => match self.op() {
                MOV => second,
                NEG | END => dst,
                _ => dst | second,
            },
            LDX => src,
            ST => dst,
            // Compare and exchange reads register 0, too.
            STX if self.is_atomic() => dst | src | 1,
            STX => dst | src,
            LD => 0,
            _ => match self.op() {
                JA => 0,
                EXIT => 1,
                CALL => (1 << (self.off + 1)) - 2,
                _ => dst | second,
            },
        }
    }

    /// The registers that it writes.
    pub(super) fn writes(self) -> u16 {
        match self.class() {
            ALU | ALU64 | LDX | LD => 1 << self.dst,
            STX if self.is_atomic() => 1 << self.src | 1,
            JMP if self.is_call() => 0b11_1111,
            _ => 0,
        }
    }

    /// The words of the stack that it accesses, if it does it by the register of the stack.
    pub(super) fn stack_words(self) -> Option<(u128, bool)> {
        let is_access = matches!(self.class(), LDX | ST | STX) && self.base() == STACK;
        is_access.then(|| words(i32::from(self.off), self.width()))
    }
}

/// The words of four bytes of a part of the stack, one bit each, and whether it has them whole.
pub(super) fn words(off: i32, len: i32) -> (u128, bool) {
    let (first, last) = ((off + STACK_LEN) / 4, (off + STACK_LEN + len - 1) / 4);
    let bits = (first..=last).filter(|word| (0..128).contains(word)).fold(0, |bits, word| bits | 1 << word);
    (bits, off % 4 == 0 && len % 4 == 0)
}

/// The words of the stack from an offset on.
pub(super) fn words_from(off: i32) -> u128 {
    words(off.clamp(-STACK_LEN, -1), -off.clamp(-STACK_LEN, -1)).0
}

/// Registers that a helper of the kernel takes. All for one that is not in the list: more than it
/// takes is correct, and keeps instructions that are not needed.
fn helper_arguments(helper: i32) -> i16 {
    use libbpf_sys as sys;
    match helper as u32 {
        sys::BPF_FUNC_ktime_get_ns | sys::BPF_FUNC_get_prandom_u32 => 0,
        sys::BPF_FUNC_map_lookup_elem | sys::BPF_FUNC_redirect | sys::BPF_FUNC_xdp_adjust_tail => 2,
        sys::BPF_FUNC_clone_redirect | sys::BPF_FUNC_skb_change_tail => 3,
        sys::BPF_FUNC_loop | sys::BPF_FUNC_xdp_store_bytes => 4,
        _ => ARGUMENTS_MAX,
    }
}

/// A program as its slots have it. Places are indices into `insns`.
#[derive(Debug)]
pub(super) struct Decoded {
    pub(super) insns: Vec<Insn>,
    /// Of each slot, the instruction that begins there.
    places: Vec<Option<usize>>,
    /// Of each instruction, its slot.
    slots: Vec<usize>,
}

impl Decoded {
    pub(super) fn new(slots: &[bpf_insn]) -> Result<Self, String> {
        let mut decoded = Self { insns: Vec::new(), places: vec![None; slots.len()], slots: Vec::new() };
        let mut at = 0;
        while let Some(slot) = slots.get(at) {
            let mut insn = Insn {
                code: slot.code,
                dst: slot.dst_reg(),
                src: slot.src_reg(),
                off: slot.off,
                imm: slot.imm,
                high: 0,
            };
            decoded.places[at] = Some(decoded.insns.len());
            decoded.slots.push(at);
            if insn.code == WIDE {
                insn.high = slots.get(at + 1).ok_or("the last constant has one half")?.imm;
                at += 1;
            }
            let is_known = match insn.class() {
                LD => insn.code == WIDE,
                LDX => insn.is_load(),
                ST | STX => insn.is_store() || insn.is_atomic(),
                // Signed division and moves with sign extension have an offset.
                ALU | ALU64 => insn.off == 0,
                _ => true,
            };
            if !is_known {
                return Err(format!("instruction {at} has the unknown code {:#04x}", insn.code));
            }
            if insn.is_call() {
                insn.off = if insn.src == CALL_HELPER { helper_arguments(insn.imm) } else { ARGUMENTS_MAX };
            }
            decoded.insns.push(insn);
            at += 1;
        }
        Ok(decoded)
    }

    /// The instruction at a slot.
    pub(super) fn place(&self, slot: usize) -> Result<usize, String> {
        self.places
            .get(slot)
            .copied()
            .flatten()
            .ok_or_else(|| format!("no instruction begins at slot {slot}"))
    }

    /// The place that the instruction at `place` names by a distance in slots.
    fn at_distance(&self, place: usize, distance: i32) -> Result<usize, String> {
        let slot = self.slots[place] as i64 + 1 + i64::from(distance);
        self.place(usize::try_from(slot).map_err(|_| format!("instruction {place} goes to slot {slot}"))?)
    }

    /// Where the jump at `place` goes.
    pub(super) fn target(&self, place: usize) -> Result<usize, String> {
        self.at_distance(place, self.insns[place].off.into())
    }

    /// The first instruction of the function that is called or named at `place`.
    pub(super) fn function(&self, place: usize) -> Result<usize, String> {
        self.at_distance(place, self.insns[place].imm)
    }
}

/// The slots of an instruction.
pub(super) fn encode(insn: Insn, slots: &mut Vec<bpf_insn>) {
    let mut slot = bpf_insn { code: insn.code, off: insn.off, imm: insn.imm, ..bpf_insn::default() };
    slot.set_dst_reg(insn.dst);
    slot.set_src_reg(insn.src);
    slots.push(slot);
    if insn.code == WIDE {
        slots.push(bpf_insn { imm: insn.high, ..bpf_insn::default() });
    }
}
