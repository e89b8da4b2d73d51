//! The functions of a program as the compiler wrote it, and what each instruction needs.

use super::insn::{ALU64, Decoded, Insn, STACK, STX, words_from};

/// A decoded program.
#[derive(Debug)]
pub(super) struct Original {
    pub(super) insns: Vec<Insn>,
    /// Of each jump the place that it goes to, of each call the function.
    pub(super) targets: Vec<usize>,
    /// True where a block begins.
    pub(super) begins_block: Vec<bool>,
    /// The words of the stack that each instruction's function shares with others.
    pub(super) shared: Vec<u128>,
    /// What is read from each instruction on, before it is written.
    pub(super) needs: Vec<Needs>,
}

/// Registers and words of the stack, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Needs {
    pub(super) registers: u16,
    pub(super) words: u128,
}

impl Needs {
    pub(super) fn and(self, other: Self) -> Self {
        Self { registers: self.registers | other.registers, words: self.words | other.words }
    }

    /// What is needed before an instruction, if this is needed after it.
    pub(super) fn before(mut self, insn: Insn) -> Self {
        self.registers = self.registers & !insn.writes() | insn.reads();
        if let Some((words, is_whole)) = insn.stack_words() {
            if !insn.is_store() {
                self.words |= words;
            } else if is_whole {
                self.words &= !words;
            }
        }
        self
    }
}

impl Original {
    /// Finds blocks and what they need. `starts` are the first instructions of the functions, in
    /// order.
    pub(super) fn new(decoded: Decoded, starts: &[usize]) -> Result<Self, String> {
        let count = decoded.insns.len();
        if !decoded.insns.last().is_some_and(|insn| insn.is_exit() || insn.is_goto()) {
            return Err("the program does not end".into());
        }
        let mut targets = vec![0; count];
        let mut begins_block = vec![false; count + 1];
        starts.iter().for_each(|&start| begins_block[start] = true);
        for (place, insn) in decoded.insns.iter().enumerate() {
            if insn.is_branch() || insn.is_goto() {
                targets[place] = decoded.target(place)?;
                begins_block[targets[place]] = true;
                begins_block[place + 1] = true;
            }
            if insn.calls_function() || insn.names_function() {
                targets[place] = decoded.function(place)?;
            }
        }
        let mut shared = vec![0; count];
        for (index, &start) in starts.iter().enumerate() {
            let end = starts.get(index + 1).copied().unwrap_or(count);
            let insns = &decoded.insns[start..end];
            shared[start..end].fill(shared_words(insns));
        }
        let needs = vec![Needs::default(); count];
        let mut original = Self { insns: decoded.insns, targets, begins_block, shared, needs };
        while original.spread_needs() {}
        Ok(original)
    }

    /// Finds what each instruction needs from those that it may go to; true if that was more than
    /// before.
    fn spread_needs(&mut self) -> bool {
        let mut grew = false;
        for place in (0..self.insns.len()).rev() {
            let insn = &mut self.insns[place];
            if insn.calls_function() {
                let taken = self.needs[self.targets[place]].registers & 0b11_1110;
                insn.off = (15 - (taken | 1).leading_zeros()) as i16;
            }
            let at = |place: usize| self.needs.get(place).copied().unwrap_or_default();
            let after = match *insn {
                insn if insn.is_exit() => Needs::default(),
                insn if insn.is_goto() => at(self.targets[place]),
                insn if insn.is_branch() => at(self.targets[place]).and(at(place + 1)),
                _ => at(place + 1),
            };
            let mut before = after.before(*insn);
            before.words |= self.shared[place];
            grew |= before != self.needs[place];
            self.needs[place] = before;
        }
        grew
    }
}

/// The words of the stack of a function whose address it takes, up to the top: what gets the
/// address may read and write from there on.
fn shared_words(insns: &[Insn]) -> u128 {
    let mut words = 0;
    for (place, insn) in insns.iter().enumerate() {
        let takes = insn.reads() & 1 << STACK != 0 && insn.stack_words().is_none();
        if takes || insn.class() == STX && insn.src == STACK {
            // The compiler adds the offset at once.
            let next = insns.get(place + 1).filter(|next| next.code == ALU64 && next.dst == insn.dst);
            words |= words_from(next.map_or(i32::MIN, |next| next.imm));
        }
    }
    words
}
