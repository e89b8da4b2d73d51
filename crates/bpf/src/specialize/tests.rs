//! Programs of a few instructions, run by an interpreter before and after they are specialized.

use super::insn::{
    ALU, ALU64, BY_REGISTER, CALL, CLASS, Decoded, END, EXIT, Insn, JA, JMP, JMP32, LDX, MOV, NEG, OP, ST,
    STX, WIDE, WIDE_FUNCTION, WIDE_MAP_VALUE,
};
use super::value::State;
use super::{Area, Code, specialize};
use libbpf_sys::{bpf_func_info, bpf_insn};
use proptest::prelude::*;

/// The descriptor of the map with the constants, of one that programs write, and where both are.
const CONSTANTS: i32 = 5;
const MEMORY: i32 = 6;
const AREA_START: u64 = 1 << 40;
const AREA_LEN: usize = 64;
const STACK_END: u64 = 1 << 41;
const STACK_LEN: usize = 512;
/// Widths of loads and stores.
const DW: u8 = 0x78;
const W: u8 = 0x60;
const H: u8 = 0x68;
const B: u8 = 0x70;

fn insn(code: u8, dst: u8, src: u8, off: i16, imm: i32) -> bpf_insn {
    let mut slot = bpf_insn { code, off, imm, ..bpf_insn::default() };
    slot.set_dst_reg(dst);
    slot.set_src_reg(src);
    slot
}

fn mov(dst: u8, imm: i32) -> bpf_insn {
    insn(ALU64 | MOV, dst, 0, 0, imm)
}

fn copy(dst: u8, src: u8) -> bpf_insn {
    insn(ALU64 | MOV | BY_REGISTER, dst, src, 0, 0)
}

fn add(dst: u8, imm: i32) -> bpf_insn {
    insn(ALU64, dst, 0, 0, imm)
}

fn map_value(dst: u8, map: i32, at: i32) -> [bpf_insn; 2] {
    [insn(WIDE, dst, WIDE_MAP_VALUE, 0, map), insn(0, 0, 0, 0, at)]
}

fn call(distance: i32) -> bpf_insn {
    insn(JMP | CALL, 0, 1, 0, distance)
}

fn exit() -> bpf_insn {
    insn(JMP | EXIT, 0, 0, 0, 0)
}

fn code(functions: &[&[bpf_insn]]) -> Code {
    let mut code = Code::default();
    for (type_id, insns) in (1..).zip(functions) {
        code.functions.push(bpf_func_info { insn_off: code.insns.len() as u32, type_id });
        code.insns.extend(*insns);
    }
    code
}

/// What is left of a program that reads these constants.
fn left(code: &Code, constants: &[u8; AREA_LEN]) -> Result<Code, String> {
    let areas = [
        Area { map: CONSTANTS, len: AREA_LEN, constants: Some(constants) },
        Area { map: MEMORY, len: AREA_LEN, constants: None },
    ];
    specialize(code, &areas)
}

fn insns(code: &Code) -> Vec<Insn> {
    Decoded::new(&code.insns).unwrap().insns
}

/// A machine that runs programs: result, and the memory that they wrote.
struct Machine {
    areas: [[u8; AREA_LEN]; 2],
    stack: Vec<u8>,
    steps: usize,
}

impl Machine {
    fn run(code: &Code, constants: &[u8; AREA_LEN], argument: u64) -> (u64, [u8; AREA_LEN]) {
        let mut machine =
            Self { areas: [*constants, [0; AREA_LEN]], stack: vec![0; 4 * STACK_LEN], steps: 0 };
        let mut registers = [0; 11];
        registers[1] = argument;
        registers[10] = STACK_END;
        let result = machine.function(code, 0, registers);
        (result, machine.areas[1])
    }

    fn bytes(&mut self, address: u64, len: usize) -> &mut [u8] {
        let memory = if address < STACK_END / 2 + (1 << 20) {
            let at = (address - AREA_START) as usize;
            &mut self.areas[at / 4096][at % 4096..]
        } else {
            let from_end = (STACK_END - address) as usize;
            let at = self.stack.len() - from_end;
            &mut self.stack[at..]
        };
        &mut memory[..len]
    }

    fn function(&mut self, code: &Code, start: usize, mut registers: [u64; 11]) -> u64 {
        let mut at = start;
        loop {
            self.steps += 1;
            assert!(self.steps < 100_000, "the program ends");
            let slot = code.insns[at];
            let (dst, src) = (slot.dst_reg() as usize, slot.src_reg() as usize);
            let imm = i64::from(slot.imm) as u64;
            let second = if slot.code & BY_REGISTER != 0 { registers[src] } else { imm };
            at += 1;
            match slot.code & CLASS {
                ALU | ALU64 => registers[dst] = calculate(slot, registers[dst], second),
                LDX => {
                    let address = registers[src].wrapping_add_signed(slot.off.into());
                    let mut whole = [0; 8];
                    let len = width(slot.code);
                    whole[..len].copy_from_slice(self.bytes(address, len));
                    registers[dst] = u64::from_le_bytes(whole);
                }
                ST | STX => {
                    let address = registers[dst].wrapping_add_signed(slot.off.into());
                    let value = if slot.code & CLASS == ST { imm } else { registers[src] };
                    let len = width(slot.code);
                    self.bytes(address, len).copy_from_slice(&value.to_le_bytes()[..len]);
                }
                _ if slot.code == WIDE => {
                    let high = code.insns[at].imm;
                    at += 1;
                    let map = |map: i32| AREA_START + (map - CONSTANTS) as u64 * 4096 + high as u64;
                    registers[dst] = match slot.src_reg() {
                        WIDE_MAP_VALUE => map(slot.imm),
                        WIDE_FUNCTION => 0,
                        _ => u64::from(slot.imm as u32) | (high as u64) << 32,
                    };
                }
                _ if slot.code == JMP | EXIT => return registers[0],
                _ if slot.code == JMP | CALL => {
                    let mut inner = registers;
                    inner[10] -= STACK_LEN as u64;
                    registers[0] = self.function(code, (at as i64 + i64::from(slot.imm)) as usize, inner);
                }
                _ => {
                    if slot.code == JMP | JA || is_taken(slot, registers[dst], second) {
                        at = (at as i64 + i64::from(slot.off)) as usize;
                    }
                }
            }
        }
    }
}

fn width(code: u8) -> usize {
    match code & 0x18 {
        0x00 => 4,
        0x08 => 2,
        0x10 => 1,
        _ => 8,
    }
}

fn calculate(slot: bpf_insn, first: u64, second: u64) -> u64 {
    if slot.code & OP == END {
        return match slot.imm {
            16 => u64::from((first as u16).swap_bytes()),
            32 => u64::from((first as u32).swap_bytes()),
            _ => first.swap_bytes(),
        };
    }
    if slot.code & CLASS == ALU64 {
        return match slot.code & OP {
            0x00 => first.wrapping_add(second),
            0x10 => first.wrapping_sub(second),
            0x20 => first.wrapping_mul(second),
            0x30 => first.checked_div(second).unwrap_or(0),
            0x40 => first | second,
            0x50 => first & second,
            0x60 => first.wrapping_shl(second as u32),
            0x70 => first.wrapping_shr(second as u32),
            NEG => first.wrapping_neg(),
            0x90 => first.checked_rem(second).unwrap_or(first),
            0xa0 => first ^ second,
            0xc0 => (first as i64).wrapping_shr(second as u32) as u64,
            _ => second,
        };
    }
    let (first, second) = (first as u32, second as u32);
    u64::from(match slot.code & OP {
        0x00 => first.wrapping_add(second),
        0x10 => first.wrapping_sub(second),
        0x20 => first.wrapping_mul(second),
        0x30 => first.checked_div(second).unwrap_or(0),
        0x40 => first | second,
        0x50 => first & second,
        0x60 => first.wrapping_shl(second),
        0x70 => first.wrapping_shr(second),
        NEG => first.wrapping_neg(),
        0x90 => first.checked_rem(second).unwrap_or(first),
        0xa0 => first ^ second,
        0xc0 => (first as i32).wrapping_shr(second) as u32,
        _ => second,
    })
}

fn is_taken(slot: bpf_insn, first: u64, second: u64) -> bool {
    let is_short = slot.code & CLASS == JMP32;
    let (a, b) = if is_short { (first & 0xffff_ffff, second & 0xffff_ffff) } else { (first, second) };
    let signed = |number: u64| if is_short { i64::from(number as i32) } else { number as i64 };
    let (c, d) = (signed(a), signed(b));
    match slot.code & OP {
        0x10 => a == b,
        0x20 => a > b,
        0x30 => a >= b,
        0x40 => a & b != 0,
        0x50 => a != b,
        0x60 => c > d,
        0x70 => c >= d,
        0xa0 => a < b,
        0xb0 => a <= b,
        0xc0 => c < d,
        _ => c <= d,
    }
}

/// A program that adds `constants[1]` to its argument, `constants[0]` times.
fn loop_of_constants() -> Code {
    let mut insns = map_value(6, CONSTANTS, 0).to_vec();
    insns.extend([
        insn(LDX | W, 2, 6, 0, 0),
        insn(LDX | W, 3, 6, 4, 0),
        copy(0, 1),
        mov(4, 0),
        insn(JMP | 0x30 | BY_REGISTER, 4, 2, 3, 0),
        insn(ALU64 | BY_REGISTER, 0, 3, 0, 0),
        add(4, 1),
        insn(JMP | JA, 0, 0, -4, 0),
        exit(),
    ]);
    code(&[&insns])
}

fn constants(words: &[u32]) -> [u8; AREA_LEN] {
    let mut constants = [0; AREA_LEN];
    for (bytes, word) in constants.chunks_exact_mut(4).zip(words) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    constants
}

#[test]
fn a_loop_over_constants_is_unrolled() {
    let whole = loop_of_constants();
    for count in [0, 1, 5] {
        let constants = constants(&[count, 7]);
        let left = left(&whole, &constants).unwrap();
        let added = vec![add(0, 7); count as usize];
        let expected = code(&[&[vec![copy(0, 1)], added, vec![exit()]].concat()]);
        assert_eq!(insns(&left), insns(&expected));
        assert_eq!(Machine::run(&left, &constants, 30).0, u64::from(30 + count * 7));
    }
}

/// The number of turns depends on the argument, so the loop stays one, after some turns.
#[test]
fn a_loop_that_depends_on_the_packet_ends_in_a_loop() {
    let body =
        [mov(0, 0), insn(JMP | 0x10 | BY_REGISTER, 0, 1, 2, 0), add(0, 1), insn(JMP | JA, 0, 0, -3, 0)];
    let whole = code(&[&[&body[..], &[exit()]].concat()]);
    let constants = constants(&[]);
    let left = left(&whole, &constants).unwrap();
    for argument in [0, 3, 5_000] {
        assert_eq!(Machine::run(&left, &constants, argument).0, argument);
    }
}

#[test]
fn a_branch_on_the_packet_stays_and_one_on_constants_goes() {
    let mut insns_of = map_value(6, CONSTANTS, 0).to_vec();
    insns_of.extend([
        insn(LDX | W, 2, 6, 0, 0),
        mov(0, 1),
        insn(JMP32 | 0x10, 2, 0, 1, 9),
        mov(0, 2),
        insn(JMP | 0x20, 1, 0, 1, 100),
        add(0, 10),
        exit(),
    ]);
    let whole = code(&[&insns_of]);
    for (constant, small, large) in [(9, 11, 1), (8, 12, 2)] {
        let constants = constants(&[constant]);
        let left = left(&whole, &constants).unwrap();
        assert_eq!(insns(&left).iter().filter(|insn| insn.is_branch()).count(), 1);
        assert_eq!(Machine::run(&left, &constants, 100).0, small);
        assert_eq!(Machine::run(&left, &constants, 101).0, large);
    }
}

#[test]
fn a_function_is_copied_for_each_set_of_constants() {
    let caller = [
        copy(6, 1),
        mov(2, 5),
        call(7),
        copy(7, 0),
        copy(1, 6),
        mov(2, 6),
        call(3),
        insn(ALU64 | BY_REGISTER, 0, 7, 0, 0),
        exit(),
        exit(),
    ];
    let callee = [copy(0, 1), insn(ALU64 | 0x20 | BY_REGISTER, 0, 2, 0, 0), exit()];
    let whole = code(&[&caller, &callee]);
    let constants = constants(&[]);
    let left = left(&whole, &constants).unwrap();
    assert_eq!(left.functions.len(), 3, "two copies");
    assert_eq!(left.functions[1].type_id, 2);
    assert_eq!(Machine::run(&left, &constants, 3).0, 33);
    let multiplications = insns(&left).into_iter().filter(|insn| insn.op() == 0x20 && insn.is_arithmetic());
    assert_eq!(multiplications.map(|insn| insn.imm).collect::<Vec<_>>(), [5, 6]);
}

/// A function gets the address of a part of the stack and writes there; what is below stays known.
#[test]
fn a_function_changes_what_it_gets_the_address_of() {
    let caller = [
        insn(ST | DW, 10, 0, -8, 1),
        insn(ST | DW, 10, 0, -24, 4),
        copy(1, 10),
        add(1, -8),
        call(5),
        insn(LDX | DW, 0, 10, -8, 0),
        insn(LDX | DW, 2, 10, -24, 0),
        insn(ALU64 | BY_REGISTER, 0, 2, 0, 0),
        exit(),
        exit(),
    ];
    let callee = [insn(ST | DW, 1, 0, 0, 70), mov(0, 0), exit()];
    let whole = code(&[&caller, &callee]);
    let constants = constants(&[]);
    let left = left(&whole, &constants).unwrap();
    assert_eq!(Machine::run(&left, &constants, 0).0, 74);
    let loads = insns(&left).into_iter().filter(|insn| insn.is_load()).count();
    assert_eq!(loads, 1, "the 4 is known");
}

#[test]
fn what_cannot_be_read_is_refused_with_its_cause() {
    let refused = |insns: &[bpf_insn]| left(&code(&[insns]), &constants(&[])).unwrap_err();
    let mut stored = map_value(2, MEMORY, 0).to_vec();
    stored.extend([insn(STX | DW, 2, 10, 0, 0), mov(0, 0), exit()]);
    assert_eq!(refused(&stored), "an address in the stack is stored elsewhere");
    let mut outside = map_value(2, CONSTANTS, 62).to_vec();
    outside.extend([insn(LDX | W, 0, 2, 0, 0), exit()]);
    assert_eq!(refused(&outside), "4 bytes at 62 are not in the constants");
    assert_eq!(refused(&[insn(0x81, 0, 1, 0, 0), exit()]), "instruction 0 has the unknown code 0x81");
    assert_eq!(refused(&[insn(JMP | JA, 0, 0, 7, 0), exit()]), "no instruction begins at slot 8");
    assert_eq!(refused(&[mov(0, 0)]), "the program does not end");
    assert_eq!(refused(&[mov(0, 0), insn(JMP | 0x10, 0, 0, -2, 0)]), "the program does not end");
}

/// Numbers that are known are wider than an operand, and their low halves are negative operands.
#[test]
fn numbers_of_all_widths_survive() {
    for number in [0, 5, u64::MAX, 0x8000_0000, 0xffff_ffff, 0x1234_5678_9abc_def0, 1 << 63] {
        let insns = super::constant(3, super::Value::Number(number));
        let mut slots = Vec::new();
        insns.into_iter().for_each(|insn| super::insn::encode(insn, &mut slots));
        slots.extend([copy(0, 3), exit()]);
        assert_eq!(Machine::run(&code(&[&slots]), &constants(&[]), 0).0, number);
    }
    let mut state = State::default();
    state.store(-8, 8, Some(super::Value::Number(0x1122_3344_5566_7788)));
    assert_eq!(state.load(-6, 2), Some(super::Value::Number(0x5566)));
    state.store(-6, 1, None);
    assert_eq!(state.load(-8, 8), None);
}

/// An instruction of a random program. Registers 0 to 5 are numbers, 6 the constants, 7 memory.
fn random_insn(left: usize) -> impl Strategy<Value = bpf_insn> {
    let operations = vec![0x00, 0x10, 0x20, 0x40, 0x50, 0xa0, MOV, 0x30, 0x90, NEG];
    let number = prop_oneof![any::<i32>(), -2..20i32, Just(0)];
    let operand = prop_oneof![Just(0), Just(BY_REGISTER)];
    let class = prop_oneof![Just(ALU), Just(ALU64)];
    let arithmetic =
        (class.clone(), proptest::sample::select(operations), operand.clone(), 0..6u8, 0..6u8, number)
            .prop_map(|(class, op, operand, dst, src, imm)| {
                let operand = if op == NEG { 0 } else { operand };
                // The verifier rejects constants that divide by zero.
                let imm = if matches!(op, 0x30 | 0x90) && imm == 0 { 1 } else { imm };
                insn(class | op | operand, dst, if operand == 0 { 0 } else { src }, 0, imm)
            });
    let shift = (class, proptest::sample::select(vec![0x60, 0x70, 0xc0]), 0..6u8, 0..32i32)
        .prop_map(|(class, op, dst, bits)| insn(class | op, dst, 0, 0, bits));
    let swap = (0..6u8, proptest::sample::select(vec![16, 32, 64]))
        .prop_map(|(dst, bits)| insn(ALU | END | BY_REGISTER, dst, 0, 0, bits));
    let access = (proptest::sample::select(vec![DW, W, H, B]), 0..6u8, 0..4i16, 0..8i16, 0..7, any::<i32>())
        .prop_map(|(width_bits, register, word, byte, kind, imm)| {
            let len = width(width_bits) as i16;
            let at = word * 8 + byte / len * len;
            let (on_stack, in_memory) = (at - 32, at);
            match kind {
                0 => insn(LDX | width_bits, register, 6, at, 0),
                1 => insn(LDX | width_bits, register, 10, on_stack, 0),
                2 => insn(STX | width_bits, 10, register, on_stack, 0),
                3 => insn(ST | width_bits, 10, 0, on_stack, imm),
                4 => insn(STX | width_bits, 7, register, in_memory, 0),
                5 => insn(ST | width_bits, 7, 0, in_memory, imm),
                _ => insn(LDX | width_bits, register, 7, in_memory, 0),
            }
        });
    let comparisons = vec![0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70, 0xa0, 0xb0, 0xc0, 0xd0];
    let class = prop_oneof![Just(JMP), Just(JMP32)];
    let branch =
        (class, proptest::sample::select(comparisons), operand, 0..6u8, 0..6u8, 0..=left as i16, -2..20i32)
            .prop_map(|(class, op, operand, dst, src, off, imm)| {
                insn(class | op | operand, dst, if operand == 0 { 0 } else { src }, off, imm)
            });
    prop_oneof![3 => arithmetic, 1 => shift, 1 => swap, 4 => access, 2 => branch]
}

/// Every register and the stack has a number first; all registers are in the result.
fn random_program(body: Vec<bpf_insn>) -> Code {
    let mut insns = map_value(6, CONSTANTS, 0).to_vec();
    insns.extend(map_value(7, MEMORY, 0));
    insns.extend([mov(0, 3), mov(2, -1), mov(3, 0), mov(4, 77), copy(5, 1)]);
    insns.extend((1..=4).map(|word| insn(ST | DW, 10, 0, word * -8, i32::from(word))));
    insns.extend(body);
    insns.extend((1..=5).map(|register| insn(ALU64 | 0xa0 | BY_REGISTER, 0, register, 0, 0)));
    insns.push(exit());
    code(&[&insns])
}

proptest! {
    #[test]
    fn random_programs_do_what_they_did(
        body in (0..40usize).prop_flat_map(|len| (0..len).rev().map(random_insn).collect::<Vec<_>>()),
        constants in any::<[[u8; 32]; 2]>(),
        arguments in any::<[u64; 3]>(),
    ) {
        let whole = random_program(body);
        let constants: [u8; AREA_LEN] = constants.concat().try_into().unwrap();
        let left = left(&whole, &constants).unwrap();
        for argument in arguments.into_iter().chain([0, 5]) {
            prop_assert_eq!(
                Machine::run(&left, &constants, argument),
                Machine::run(&whole, &constants, argument)
            );
        }
    }
}
