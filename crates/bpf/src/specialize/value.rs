//! What is known of registers and of the stack before a program runs.

use super::insn::{ALU64, BY_REGISTER, END, Insn, JMP, MOV, NEG, OP, REGISTERS, STACK, WIDE, WIDE_MAP_VALUE};
use std::collections::BTreeMap;

/// A value that is the same each time the instruction is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Value {
    Number(u64),
    /// This far from the top of the stack of the function.
    Stack(i32),
    /// This far from the start of the value of a map, whose descriptor this is.
    Map(i32, i64),
}

/// What is known at an instruction. A register of which a value is known holds it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct State {
    registers: [Option<Value>; REGISTERS],
    /// By offset: length and value.
    stack: BTreeMap<i32, (i32, Value)>,
}

impl State {
    pub(super) fn get(&self, register: u8) -> Option<Value> {
        if register == STACK { Some(Value::Stack(0)) } else { self.registers[register as usize] }
    }

    pub(super) fn set(&mut self, register: u8, value: Option<Value>) {
        self.registers[register as usize] = value;
    }

    pub(super) fn number(&self, register: u8) -> Option<u64> {
        match self.get(register) {
            Some(Value::Number(number)) => Some(number),
            _ => None,
        }
    }

    /// Keeps what is known of the registers and words of the stack that are read later.
    pub(super) fn keep(&mut self, registers: u16, words: u128) {
        for (register, value) in self.registers.iter_mut().enumerate() {
            if registers & 1 << register == 0 {
                *value = None;
            }
        }
        self.stack.retain(|&off, &mut (len, _)| super::insn::words(off, len).0 & words != 0);
    }

    /// Forgets addresses in the stack of this function.
    pub(super) fn forget_own_stack(&mut self) {
        for value in &mut self.registers {
            *value = value.filter(|value| !matches!(value, Value::Stack(_)));
        }
        self.stack.clear();
    }

    /// Forgets all that is not an address in the stack.
    pub(super) fn generalize(&mut self) {
        let is_stack = |value: &Value| matches!(value, Value::Stack(_));
        for value in &mut self.registers {
            *value = value.filter(is_stack);
        }
        self.stack.retain(|_, (_, value)| is_stack(value));
    }

    /// A load from the stack.
    pub(super) fn load(&self, off: i32, len: i32) -> Option<Value> {
        let (&start, &(stored, value)) = self.stack.range(..=off).next_back()?;
        match value {
            value if start == off && stored == len => Some(value),
            Value::Number(number) if start + stored >= off + len && cfg!(target_endian = "little") => {
                Some(Value::Number(truncated(number >> ((off - start) * 8), len)))
            }
            _ => None,
        }
    }

    /// A store to the stack.
    pub(super) fn store(&mut self, off: i32, len: i32, value: Option<Value>) {
        self.stack.retain(|&start, &mut (stored, _)| start + stored <= off || off + len <= start);
        let value = match value {
            Some(Value::Number(number)) => Some(Value::Number(truncated(number, len))),
            address => address.filter(|_| len == 8),
        };
        if let Some(value) = value {
            self.stack.insert(off, (len, value));
        }
    }

    /// Something else may have written to the stack from `off` on.
    pub(super) fn forget_stack(&mut self, off: i32) {
        self.stack.retain(|&start, &mut (len, _)| start + len <= off);
    }
}

/// The low bytes of a number.
pub(super) fn truncated(number: u64, len: i32) -> u64 {
    if len >= 8 { number } else { number & ((1 << (len * 8)) - 1) }
}

/// The number as an operand of an instruction, which the kernel extends by its sign.
pub(super) fn operand(number: u64) -> Option<i32> {
    i32::try_from(number as i64).ok()
}

/// The instructions that put a value into a register.
pub(super) fn constant(register: u8, value: Value) -> Vec<Insn> {
    let plain = |code, imm| Insn { code, dst: register, src: 0, off: 0, imm, high: 0 };
    match value {
        Value::Number(number) => match operand(number) {
            Some(imm) => vec![plain(ALU64 | MOV, imm)],
            None => vec![Insn { high: (number >> 32) as i32, ..plain(WIDE, number as i32) }],
        },
        Value::Stack(off) => {
            let copy = Insn { src: STACK, ..plain(ALU64 | MOV | BY_REGISTER, 0) };
            if off == 0 { vec![copy] } else { vec![copy, plain(ALU64, off)] }
        }
        Value::Map(map, at) => {
            vec![Insn { src: WIDE_MAP_VALUE, high: at as i32, ..plain(WIDE, map) }]
        }
    }
}

/// The result of an arithmetic instruction, if it is known.
pub(super) fn arithmetic(insn: Insn, first: Option<Value>, second: Option<Value>) -> Option<Value> {
    let is_long = insn.class() == ALU64;
    match (insn.op(), first, second) {
        (MOV, _, Some(value @ (Value::Stack(_) | Value::Map(..)))) => is_long.then_some(value),
        (MOV, _, Some(Value::Number(number))) => {
            Some(Value::Number(truncated(number, if is_long { 8 } else { 4 })))
        }
        (MOV, ..) => None,
        (END, Some(Value::Number(number)), _) => swapped(insn, number).map(Value::Number),
        (_, Some(Value::Number(first)), Some(Value::Number(second))) => {
            calculated(insn.op(), first, second, is_long).map(Value::Number)
        }
        (0x00, Some(Value::Stack(off)), Some(Value::Number(more))) if is_long => {
            Some(Value::Stack(off.wrapping_add(more as i32)))
        }
        (0x00, Some(Value::Map(map, at)), Some(Value::Number(more)))
        | (0x00, Some(Value::Number(more)), Some(Value::Map(map, at)))
            if is_long =>
        {
            Some(Value::Map(map, at.wrapping_add(more as i64)))
        }
        (0x10, Some(Value::Map(map, at)), Some(Value::Number(less))) if is_long => {
            Some(Value::Map(map, at.wrapping_sub(less as i64)))
        }
        // No bit is left, whatever the other operand is.
        (0x50, None, Some(Value::Number(0))) | (0x50, Some(Value::Number(0)), None) => Some(Value::Number(0)),
        _ => None,
    }
}

/// True if the instruction leaves its register as it is.
pub(super) fn changes_nothing(insn: Insn, second: Option<Value>) -> bool {
    // Additions, subtractions, or, shifts, exclusive or.
    insn.class() == ALU64
        && matches!(insn.op(), 0x00 | 0x10 | 0x40 | 0x60 | 0x70 | 0xa0 | 0xc0)
        && second == Some(Value::Number(0))
}

/// A number in another order of bytes. The bit of the operand's kind is the order.
fn swapped(insn: Insn, number: u64) -> Option<u64> {
    if insn.class() == ALU64 {
        return None;
    }
    let is_big = insn.code & BY_REGISTER != 0;
    Some(match (insn.imm, is_big) {
        (16, true) => (number as u16).to_be().into(),
        (32, true) => (number as u32).to_be().into(),
        (64, true) => number.to_be(),
        (16, false) => (number as u16).to_le().into(),
        (32, false) => (number as u32).to_le().into(),
        (64, false) => number.to_le(),
        _ => return None,
    })
}

fn calculated(op: u8, first: u64, second: u64, is_long: bool) -> Option<u64> {
    let (bits, low) = if is_long { (64, u64::MAX) } else { (32, u64::from(u32::MAX)) };
    let (first, second) = (first & low, second & low);
    let shift = (second % bits) as u32;
    let result = match op {
        0x00 => first.wrapping_add(second),
        0x10 => first.wrapping_sub(second),
        0x20 => first.wrapping_mul(second),
        0x30 => first.checked_div(second).unwrap_or(0),
        0x40 => first | second,
        0x50 => first & second,
        0x60 => first << shift,
        0x70 => first >> shift,
        NEG => first.wrapping_neg(),
        0x90 => first.checked_rem(second).unwrap_or(first),
        0xa0 => first ^ second,
        0xc0 if is_long => (first as i64 >> shift) as u64,
        0xc0 => (first as i32 >> shift) as u64,
        _ => return None,
    };
    Some(result & low)
}

/// Whether a conditional jump is taken, if it is known.
pub(super) fn is_taken(insn: Insn, first: Option<Value>, second: Option<Value>) -> Option<bool> {
    let is_long = insn.class() == JMP;
    let op = insn.code & OP;
    match (first?, second?) {
        (Value::Number(first), Value::Number(second)) => Some(compared(op, first, second, is_long)?),
        (Value::Map(map, first), Value::Map(other, second)) if map == other && is_long => {
            compared(op, first as u64, second as u64, true)
        }
        _ => None,
    }
}

fn compared(op: u8, first: u64, second: u64, is_long: bool) -> Option<bool> {
    let low = |number: u64| if is_long { number } else { number & u64::from(u32::MAX) };
    let signed = |number: u64| if is_long { number as i64 } else { (number as i32).into() };
    let (a, b) = (low(first), low(second));
    Some(match op {
        0x10 => a == b,
        0x20 => a > b,
        0x30 => a >= b,
        0x40 => a & b != 0,
        0x50 => a != b,
        0x60 => signed(first) > signed(second),
        0x70 => signed(first) >= signed(second),
        0xa0 => a < b,
        0xb0 => a <= b,
        0xc0 => signed(first) < signed(second),
        0xd0 => signed(first) <= signed(second),
        _ => return None,
    })
}
