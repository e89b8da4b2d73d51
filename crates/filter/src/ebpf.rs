//! eBPF instructions as words, and an assembler with labels.
//!
//! Only what the translation of a filter needs. Numbers are those of `linux/bpf.h` and of the
//! instruction set's own standard (RFC 9669).

/// One instruction, as it is stored (`struct bpf_insn`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ebpf {
    /// What to do.
    pub code: u8,
    /// Destination register.
    pub dst: u8,
    /// Source register.
    pub src: u8,
    /// Offset of an access, distance of a jump.
    pub off: i16,
    /// Constant.
    pub imm: i32,
}

/// Registers: r0 is a function's result, r1 to r5 are lost in calls, r6 to r9 are kept, r10 is the
/// stack's end.
pub(crate) type RegisterNumber = u8;

/// Codes that take the operand from the constant; with [`code::SOURCE`] it comes from the source
/// register.
pub(crate) mod code {
    pub(crate) const ADD_32: u8 = 0x04;
    pub(crate) const SUB_32: u8 = 0x14;
    pub(crate) const MUL_32: u8 = 0x24;
    pub(crate) const DIV_32: u8 = 0x34;
    pub(crate) const OR_32: u8 = 0x44;
    pub(crate) const AND_32: u8 = 0x54;
    pub(crate) const SHL_32: u8 = 0x64;
    pub(crate) const SHR_32: u8 = 0x74;
    pub(crate) const NEG_32: u8 = 0x84;
    pub(crate) const MOD_32: u8 = 0x94;
    pub(crate) const XOR_32: u8 = 0xa4;
    pub(crate) const MOV_32: u8 = 0xb4;
    pub(crate) const TO_BIG_ENDIAN: u8 = 0xdc;
    pub(crate) const ADD_64: u8 = 0x07;
    pub(crate) const MOV_64: u8 = 0xb7;
    pub(crate) const LOAD_WORD: u8 = 0x61;
    pub(crate) const LOAD_HALF: u8 = 0x69;
    pub(crate) const LOAD_BYTE: u8 = 0x71;
    pub(crate) const STORE_WORD: u8 = 0x63;
    pub(crate) const STORE_CONST_WORD: u8 = 0x62;
    pub(crate) const JUMP: u8 = 0x05;
    pub(crate) const JUMP_GREATER_64: u8 = 0x25;
    pub(crate) const JUMP_NOT_EQUAL_64: u8 = 0x55;
    pub(crate) const JUMP_EQUAL_32: u8 = 0x16;
    pub(crate) const JUMP_GREATER_32: u8 = 0x26;
    pub(crate) const JUMP_GREATER_EQUAL_32: u8 = 0x36;
    pub(crate) const JUMP_ANY_BIT_32: u8 = 0x46;
    pub(crate) const JUMP_NOT_EQUAL_32: u8 = 0x56;
    pub(crate) const JUMP_LESS_32: u8 = 0xa6;
    pub(crate) const JUMP_LESS_EQUAL_32: u8 = 0xb6;
    pub(crate) const CALL: u8 = 0x85;
    pub(crate) const EXIT: u8 = 0x95;
    pub(crate) const SOURCE: u8 = 0x08;
}

/// A place in the code that may come later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JumpLabel(usize);

/// Collects instructions; jumps get their distances at the end.
#[derive(Debug, Default)]
pub(crate) struct Assembler {
    code: Vec<Ebpf>,
    /// Where each label is.
    labels: Vec<Option<usize>>,
    /// Jumps, and where they go.
    jumps: Vec<(usize, JumpLabel)>,
}

impl Assembler {
    pub(crate) fn label(&mut self) -> JumpLabel {
        self.labels.push(None);
        JumpLabel(self.labels.len() - 1)
    }

    /// The label is here.
    pub(crate) fn place(&mut self, label: JumpLabel) {
        assert_eq!(self.labels[label.0], None, "a label has one place");
        self.labels[label.0] = Some(self.code.len());
    }

    /// True when a jump goes there.
    pub(crate) fn is_used(&self, label: JumpLabel) -> bool {
        self.jumps.iter().any(|(_, to)| *to == label)
    }

    /// `dst = dst op imm`, or whatever the code does with a register and a constant.
    pub(crate) fn with_const(&mut self, code: u8, dst: RegisterNumber, imm: u32) {
        self.code.push(Ebpf { code, dst, imm: imm.cast_signed(), ..Ebpf::default() });
    }

    /// `dst = dst op src`.
    pub(crate) fn with_register(&mut self, code: u8, dst: RegisterNumber, src: RegisterNumber) {
        self.code.push(Ebpf { code: code | code::SOURCE, dst, src, ..Ebpf::default() });
    }

    /// `dst = *(src + off)`, zero-extended.
    pub(crate) fn load(&mut self, code: u8, dst: RegisterNumber, src: RegisterNumber, off: i16) {
        self.code.push(Ebpf { code, dst, src, off, ..Ebpf::default() });
    }

    /// `*(dst + off) = src`, a word.
    pub(crate) fn store_word(&mut self, dst: RegisterNumber, off: i16, src: RegisterNumber) {
        self.code.push(Ebpf { code: code::STORE_WORD, dst, src, off, ..Ebpf::default() });
    }

    /// `*(dst + off) = 0`, a word.
    pub(crate) fn clear_word(&mut self, dst: RegisterNumber, off: i16) {
        self.code.push(Ebpf { code: code::STORE_CONST_WORD, dst, off, ..Ebpf::default() });
    }

    pub(crate) fn call(&mut self, helper: u32) {
        self.with_const(code::CALL, 0, helper);
    }

    pub(crate) fn exit(&mut self) {
        self.with_const(code::EXIT, 0, 0);
    }

    pub(crate) fn jump(&mut self, to: JumpLabel) {
        self.jump_if_const(code::JUMP, 0, 0, to);
    }

    pub(crate) fn jump_if_const(&mut self, code: u8, dst: RegisterNumber, imm: u32, to: JumpLabel) {
        self.jumps.push((self.code.len(), to));
        self.with_const(code, dst, imm);
    }

    pub(crate) fn jump_if_register(
        &mut self,
        code: u8,
        dst: RegisterNumber,
        src: RegisterNumber,
        to: JumpLabel,
    ) {
        self.jumps.push((self.code.len(), to));
        self.with_register(code, dst, src);
    }

    /// The code, or its length when a jump is too long.
    pub(crate) fn finish(mut self) -> Result<Vec<Ebpf>, usize> {
        for (at, label) in self.jumps {
            let to = self.labels[label.0].expect("every label that is jumped to has a place");
            let distance = to as i64 - at as i64 - 1;
            self.code[at].off = i16::try_from(distance).map_err(|_| self.code.len())?;
        }
        Ok(self.code)
    }
}
