//! Specializes a program by the read-only data that it is loaded with.
//!
//! A program that builds frames reads the plan for each frame: how many fields there are, what kind
//! each is, where it is written. The plan does not change once the program is loaded. So the
//! program is run here as far as the plan decides, before the kernel gets it: loads of the plan
//! become constants, branches that the plan decides disappear, loops over its fields are unrolled,
//! and functions are copied for the arguments that they are called with. What is left is the code
//! that one would have written for this plan alone, and the verifier reads only that. (Jones,
//! Gomard and Sestoft, "Partial Evaluation and Automatic Program Generation", 1993.)
//!
//! The result does for each frame what the program does, under one condition, which holds for
//! compiled C: a function accesses memory of its caller from the addresses on that it gets, not in
//! front of them.

mod insn;
mod original;
mod residual;
#[cfg(test)]
mod tests;
mod value;

use insn::{BY_REGISTER, Decoded, Insn, ST, STX, WIDE, WIDE_MAP_VALUE};
use libbpf_sys::{bpf_func_info, bpf_insn};
use original::{Needs, Original};
use residual::{Block, End, Function, Label};
use std::collections::BTreeMap;
use value::{State, Value, arithmetic, changes_nothing, constant, is_taken, operand, truncated};

/// More instructions than any plan needs.
const INSNS_MAX: usize = 100_000;
/// Copies of a block for different values. All others share one for which these count as unknown,
/// so that a loop whose end depends on the packet stays a loop.
const COPIES_MAX: usize = 512;

/// A program as the kernel gets it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Code {
    pub(crate) insns: Vec<bpf_insn>,
    /// Where each function begins, the first one at 0, and its type.
    pub(crate) functions: Vec<bpf_func_info>,
}

/// The value of an array map of one entry, which a program addresses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Area<'a> {
    /// The descriptor of the map.
    pub(crate) map: i32,
    /// Bytes of the value.
    pub(crate) len: usize,
    /// What it holds, if that never changes.
    pub(crate) constants: Option<&'a [u8]>,
}

/// What is left of `code` if the constants of `areas` are known.
///
/// # Errors
/// What the program has that this cannot read: instructions of newer compilers, a stack whose
/// address is stored, more than 100,000 instructions.
pub(crate) fn specialize(code: &Code, areas: &[Area<'_>]) -> Result<Code, String> {
    let decoded = Decoded::new(&code.insns)?;
    let starts: Vec<usize> =
        code.functions.iter().map(|info| decoded.place(info.insn_off as usize)).collect::<Result<_, _>>()?;
    let types = starts.iter().copied().zip(code.functions.iter().map(|info| info.type_id)).collect();
    let original = Original::new(decoded, &starts)?;
    let mut specializer =
        Specializer { original: &original, areas, copies: BTreeMap::new(), functions: Vec::new(), count: 0 };
    specializer.copy_of(0, State::default());
    let mut at = 0;
    while at < specializer.functions.len() {
        let (start, state, _) = specializer.functions[at].clone();
        specializer.functions[at].2 = Some(specializer.function(start, state)?);
        at += 1;
    }
    encode(specializer.functions, &types)
}

/// A copy of a function: its first instruction, what is known of its arguments, and its code, once
/// it is there.
type Copied = (usize, State, Option<Function>);

struct Specializer<'a> {
    original: &'a Original,
    areas: &'a [Area<'a>],
    copies: BTreeMap<(usize, State), usize>,
    functions: Vec<Copied>,
    /// Instructions so far.
    count: usize,
}

/// The blocks of a function that are made.
struct Copying {
    function: Function,
    labels: BTreeMap<(usize, State), Label>,
    /// Copies of the block that begins at a place.
    copies: BTreeMap<usize, usize>,
    /// Blocks without code.
    left: Vec<(Label, usize, State)>,
}

impl Copying {
    /// The block that begins at `place` if this is known there.
    fn label(&mut self, place: usize, mut state: State, needs: Needs) -> Label {
        state.keep(needs.registers, needs.words);
        let copies = self.copies.entry(place).or_default();
        if *copies >= COPIES_MAX {
            state.generalize();
        }
        *self.labels.entry((place, state)).or_insert_with_key(|(place, state)| {
            *copies += 1;
            let label = self.function.blocks.len();
            self.function.blocks.push(Block { insns: Vec::new(), end: End::Exit });
            self.left.push((label, *place, state.clone()));
            label
        })
    }
}

impl<'a> Specializer<'a> {
    /// The copy of the function that begins at `start` for these arguments.
    fn copy_of(&mut self, start: usize, mut state: State) -> usize {
        // An address in the stack of the caller is not one in that of the function.
        state.forget_own_stack();
        state.keep(self.original.needs[start].registers, 0);
        let functions = &mut self.functions;
        *self.copies.entry((start, state)).or_insert_with_key(|(start, state)| {
            functions.push((*start, state.clone(), None));
            functions.len() - 1
        })
    }

    fn function(&mut self, start: usize, state: State) -> Result<Function, String> {
        let function = Function { blocks: Vec::new(), shared: self.original.shared[start] };
        let mut copying =
            Copying { function, labels: BTreeMap::new(), copies: BTreeMap::new(), left: Vec::new() };
        copying.label(start, state, self.original.needs[start]);
        while let Some((label, place, state)) = copying.left.pop() {
            let block = self.block(place, state, &mut copying)?;
            self.count += block.insns.len() + 1;
            if self.count > INSNS_MAX {
                return Err(format!("more than {INSNS_MAX} instructions are left"));
            }
            copying.function.blocks[label] = block;
        }
        copying.function.clean();
        Ok(copying.function)
    }

    /// The code of the block that begins at `place`.
    fn block(&mut self, mut place: usize, mut state: State, copying: &mut Copying) -> Result<Block, String> {
        let original = self.original;
        let mut insns = Vec::new();
        let goto = |place: usize, state: State, copying: &mut Copying| {
            End::Goto(copying.label(place, state, original.needs[place]))
        };
        loop {
            let insn = original.insns[place];
            if insn.is_exit() {
                return Ok(Block { insns, end: End::Exit });
            }
            if insn.is_goto() {
                let end = goto(original.targets[place], state, copying);
                return Ok(Block { insns, end });
            }
            if insn.is_branch() {
                let end = match is_taken(insn, state.get(insn.dst), second_operand(insn, &state)) {
                    Some(true) => goto(original.targets[place], state, copying),
                    Some(false) => goto(place + 1, state, copying),
                    None => {
                        let target = original.targets[place];
                        let taken = copying.label(target, state.clone(), original.needs[target]);
                        let insn = with_constant(insn, &state);
                        let other = copying.label(place + 1, state, original.needs[place + 1]);
                        End::Branch(insn, taken, other)
                    }
                };
                return Ok(Block { insns, end });
            }
            if insn.is_call() {
                self.call(place, &mut state, &mut insns);
            } else {
                self.plain(insn, place, &mut state, &mut insns)?;
            }
            place += 1;
            if original.begins_block[place] {
                let end = goto(place, state, copying);
                return Ok(Block { insns, end });
            }
        }
    }

    fn call(&mut self, place: usize, state: &mut State, insns: &mut Vec<Insn>) {
        let insn = self.original.insns[place];
        let arguments = 1..=insn.off as u8;
        let mut called = insn;
        if insn.calls_function() {
            called.imm = self.copy_of(self.original.targets[place], state.clone()) as i32;
        }
        insns.push(called);
        for register in arguments {
            if let Some(Value::Stack(off)) = state.get(register) {
                state.forget_stack(off);
            }
        }
        (0..=5).for_each(|register| state.set(register, None));
    }

    /// An instruction that goes on with the next one.
    fn plain(
        &mut self,
        insn: Insn,
        place: usize,
        state: &mut State,
        insns: &mut Vec<Insn>,
    ) -> Result<(), String> {
        if insn.names_function() {
            // The kernel calls it with arguments of its own.
            let copy = self.copy_of(self.original.targets[place], State::default());
            insns.push(Insn { imm: copy as i32, ..insn });
            state.set(insn.dst, None);
        } else if insn.code == WIDE {
            let value = match insn.src {
                0 => Some(Value::Number(u64::from(insn.imm as u32) | (insn.high as u64) << 32)),
                WIDE_MAP_VALUE => Some(Value::Map(insn.imm, insn.high.into())),
                _ => None,
            };
            insns.push(insn);
            state.set(insn.dst, value);
        } else if insn.is_arithmetic() {
            let second = second_operand(insn, state);
            match arithmetic(insn, state.get(insn.dst), second) {
                Some(value) => self.put(insn.dst, value, state, insns),
                None if changes_nothing(insn, second) => {}
                None => {
                    insns.push(with_constant(insn, state));
                    state.set(insn.dst, None);
                }
            }
        } else if insn.is_load() {
            self.load(insn, state, insns)?;
        } else {
            store(insn, state, insns)?;
        }
        Ok(())
    }

    /// Puts a value that is known into a register.
    fn put(&self, register: u8, value: Value, state: &mut State, insns: &mut Vec<Insn>) {
        state.set(register, Some(value));
        match value {
            // The kernel does not take an address behind the end as a constant.
            Value::Map(map, at) if !self.has(map, at) => {
                insns.extend(constant(register, Value::Map(map, 0)));
                let code = insn::ALU64;
                insns.push(Insn { code, dst: register, src: 0, off: 0, imm: at as i32, high: 0 });
            }
            value => insns.extend(constant(register, value)),
        }
    }

    fn has(&self, map: i32, at: i64) -> bool {
        self.areas.iter().any(|area| area.map == map && (0..area.len as i64).contains(&at))
    }

    fn load(&self, insn: Insn, state: &mut State, insns: &mut Vec<Insn>) -> Result<(), String> {
        let (off, width) = (i32::from(insn.off), insn.width());
        let value = match state.get(insn.src) {
            Some(Value::Stack(base)) => state.load(base + off, width),
            Some(Value::Map(map, at)) => self.constant(map, at + i64::from(off), width)?,
            _ => None,
        };
        match value {
            Some(value) => self.put(insn.dst, value, state, insns),
            None => {
                insns.push(on_stack(insn, state));
                state.set(insn.dst, None);
            }
        }
        Ok(())
    }

    /// A number of the constants.
    fn constant(&self, map: i32, at: i64, width: i32) -> Result<Option<Value>, String> {
        let area = self.areas.iter().find(|area| area.map == map);
        let Some(constants) = area.and_then(|area| area.constants) else { return Ok(None) };
        let bytes = usize::try_from(at).ok().and_then(|at| constants.get(at..at + width as usize));
        let bytes = bytes.ok_or_else(|| format!("{width} bytes at {at} are not in the constants"))?;
        let mut whole = [0; 8];
        if cfg!(target_endian = "little") {
            whole[..bytes.len()].copy_from_slice(bytes);
        } else {
            whole[8 - bytes.len()..].copy_from_slice(bytes);
        }
        Ok(Some(Value::Number(u64::from_ne_bytes(whole))))
    }
}

/// The second operand of arithmetic or of a jump.
fn second_operand(insn: Insn, state: &State) -> Option<Value> {
    if insn.by_register() && !insn.is_swap() {
        state.get(insn.src)
    } else {
        Some(Value::Number(i64::from(insn.imm) as u64))
    }
}

/// The instruction with its second operand as a constant, if that is known and fits.
fn with_constant(insn: Insn, state: &State) -> Insn {
    if !insn.by_register() || insn.is_swap() {
        return insn;
    }
    let is_short = matches!(insn.class(), insn::ALU | insn::JMP32);
    let number = state.number(insn.src);
    let imm = if is_short { number.map(|number| number as i32) } else { number.and_then(operand) };
    // The verifier rejects constants that divide by zero, and shifts by more bits than there are.
    let bits = if is_short { 32 } else { 64 };
    let is_allowed = |imm: i32| match insn.op() {
        0x30 | 0x90 => imm != 0,
        0x60 | 0x70 | 0xc0 if insn.is_arithmetic() => (0..bits).contains(&imm),
        _ => true,
    };
    match imm {
        Some(imm) if is_allowed(imm) => Insn { code: insn.code & !BY_REGISTER, src: 0, imm, ..insn },
        _ => insn,
    }
}

/// A load or a store of the stack by the register of the stack.
fn on_stack(insn: Insn, state: &State) -> Insn {
    match state.get(insn.base()) {
        Some(Value::Stack(base)) => match i16::try_from(base + i32::from(insn.off)) {
            Ok(off) => insn.based_on(insn::STACK, off),
            Err(_) => insn,
        },
        _ => insn,
    }
}

fn store(insn: Insn, state: &mut State, insns: &mut Vec<Insn>) -> Result<(), String> {
    let (off, width) = (i32::from(insn.off), insn.width());
    let value = match insn.class() {
        ST => Some(Value::Number(truncated(i64::from(insn.imm) as u64, width))),
        _ if insn.is_atomic() => None,
        _ => state.get(insn.src),
    };
    let mut stored = on_stack(insn, state);
    if let (true, Some(Value::Number(number))) = (insn.class() == STX && insn.is_store(), value)
        && let Some(imm) = if width < 8 { Some(number as i32) } else { operand(number) }
    {
        stored = Insn { code: insn.code & !insn::CLASS | ST, src: 0, imm, ..stored };
    }
    insns.push(stored);
    match state.get(insn.dst) {
        Some(Value::Stack(base)) => state.store(base + off, width, value),
        _ if matches!(value, Some(Value::Stack(_))) => {
            return Err("an address in the stack is stored elsewhere".into());
        }
        _ => {}
    }
    if insn.is_atomic() {
        state.set(insn.src, None);
        state.set(0, None);
    }
    Ok(())
}

/// The functions behind each other, with jumps and calls by distances.
fn encode(functions: Vec<Copied>, types: &BTreeMap<usize, u32>) -> Result<Code, String> {
    let mut code = Code::default();
    let mut calls = Vec::new();
    for (start, _, function) in functions {
        let function = function.ok_or("a function has no code")?;
        let type_id = *types.get(&start).ok_or("a function has no type")?;
        code.functions.push(bpf_func_info { insn_off: code.insns.len() as u32, type_id });
        encode_function(&function, &mut code.insns, &mut calls)?;
    }
    for (slot, copy) in calls {
        code.insns[slot].imm = code.functions[copy].insn_off as i32 - slot as i32 - 1;
    }
    Ok(code)
}

/// `calls` gets the slots that name functions, and which.
fn encode_function(
    function: &Function,
    slots: &mut Vec<bpf_insn>,
    calls: &mut Vec<(usize, usize)>,
) -> Result<(), String> {
    let order = function.order();
    let mut begins = vec![0; function.blocks.len()];
    let mut jumps = Vec::new();
    let goto = Insn { code: insn::JMP | insn::JA, dst: 0, src: 0, off: 0, imm: 0, high: 0 };
    for (index, &label) in order.iter().enumerate() {
        let block = &function.blocks[label];
        begins[label] = slots.len();
        for &insn in &block.insns {
            if insn.calls_function() || insn.names_function() {
                calls.push((slots.len(), insn.imm as usize));
            }
            let off = if insn.is_call() { 0 } else { insn.off };
            insn::encode(Insn { off, ..insn }, slots);
        }
        let next = match block.end {
            End::Exit => {
                insn::encode(Insn { code: insn::JMP | insn::EXIT, ..goto }, slots);
                continue;
            }
            End::Goto(next) => next,
            End::Branch(insn, taken, other) => {
                jumps.push((slots.len(), taken));
                insn::encode(insn, slots);
                other
            }
        };
        if order.get(index + 1) != Some(&next) {
            jumps.push((slots.len(), next));
            insn::encode(goto, slots);
        }
    }
    for (slot, label) in jumps {
        let distance = begins[label] as i64 - slot as i64 - 1;
        slots[slot].off = i16::try_from(distance).map_err(|_| "a jump is longer than 32,767 slots")?;
    }
    Ok(())
}
