//! The instructions that are left of a function, in blocks, and their clean-up.

use super::insn::{ALU64, BY_REGISTER, Insn, LDX, MOV, ST, STX};
use super::original::Needs;

/// A block, by its index in the function.
pub(super) type Label = usize;

/// How a block ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Exit,
    Goto(Label),
    /// A conditional jump: where it goes, and where it does not.
    Branch(Insn, Label, Label),
}

#[derive(Clone, Debug)]
pub(super) struct Block {
    pub(super) insns: Vec<Insn>,
    pub(super) end: End,
}

/// A function; its first block is the first one.
#[derive(Clone, Debug)]
pub(super) struct Function {
    pub(super) blocks: Vec<Block>,
    /// Words of the stack whose address it passes on.
    pub(super) shared: u128,
}

impl End {
    fn needs(self, at: impl Fn(Label) -> Needs) -> Needs {
        match self {
            Self::Exit => Needs { registers: 1, words: 0 },
            Self::Goto(label) => at(label),
            Self::Branch(insn, taken, other) => at(taken).and(at(other)).before(insn),
        }
    }

    fn labels_mut(&mut self) -> impl Iterator<Item = &mut Label> {
        let (first, second) = match self {
            Self::Exit => (None, None),
            Self::Goto(label) => (Some(label), None),
            Self::Branch(_, taken, other) => (Some(taken), Some(other)),
        };
        first.into_iter().chain(second)
    }
}

impl Function {
    /// Removes what has no effect, until nothing is left to remove.
    pub(super) fn clean(&mut self) {
        loop {
            self.thread_jumps();
            self.join_blocks();
            for block in &mut self.blocks {
                fold_addresses(&mut block.insns);
            }
            if !self.remove_unread() {
                return;
            }
        }
    }

    /// Jumps to empty blocks go where those go.
    fn thread_jumps(&mut self) {
        let ends: Vec<Option<Label>> = self
            .blocks
            .iter()
            .map(|block| match block.end {
                End::Goto(label) if block.insns.is_empty() => Some(label),
                _ => None,
            })
            .collect();
        let last = |mut label: Label| {
            // A circle of empty blocks waits forever; any of them will do.
            for _ in 0..ends.len() {
                match ends[label] {
                    Some(next) => label = next,
                    None => break,
                }
            }
            label
        };
        for block in &mut self.blocks {
            block.end.labels_mut().for_each(|label| *label = last(*label));
            if let End::Branch(_, taken, other) = block.end
                && taken == other
            {
                block.end = End::Goto(taken);
            }
        }
    }

    /// Of each block, the number of jumps to it from blocks that are reached.
    fn jumps_into(&self) -> Vec<usize> {
        let mut jumps = vec![0; self.blocks.len()];
        let mut left = vec![0];
        while let Some(label) = left.pop() {
            jumps[label] += 1;
            if jumps[label] == 1 {
                let mut end = self.blocks[label].end;
                left.extend(end.labels_mut().map(|label| *label));
            }
        }
        jumps
    }

    /// A block that one block goes to, and no other, becomes its end.
    fn join_blocks(&mut self) {
        let jumps = self.jumps_into();
        for label in 0..self.blocks.len() {
            while let End::Goto(next) = self.blocks[label].end
                && jumps[next] == 1
                && jumps[label] > 0
                && next != label
                && next != 0
            {
                let joined = std::mem::take(&mut self.blocks[next].insns);
                self.blocks[label].insns.extend(joined);
                self.blocks[label].end = self.blocks[next].end;
                // It is not reached any more.
                self.blocks[next].end = End::Exit;
            }
        }
    }

    /// Removes instructions whose results are not read; true if there were any.
    fn remove_unread(&mut self) -> bool {
        let mut needs = vec![Needs::default(); self.blocks.len()];
        let after = |needs: &[Needs], end: End| {
            let mut after = end.needs(|label| needs[label]);
            after.words |= self.shared;
            after
        };
        loop {
            let mut grew = false;
            for (label, block) in self.blocks.iter().enumerate().rev() {
                let first = after(&needs, block.end);
                let before = block.insns.iter().rev().fold(first, |needs, &insn| needs.before(insn));
                grew |= before != needs[label];
                needs[label] = before;
            }
            if !grew {
                break;
            }
        }
        let mut removed = false;
        let firsts: Vec<Needs> = self.blocks.iter().map(|block| after(&needs, block.end)).collect();
        for (block, mut needs) in self.blocks.iter_mut().zip(firsts) {
            let mut kept = Vec::with_capacity(block.insns.len());
            for &insn in block.insns.iter().rev() {
                let is_read = if insn.is_pure() {
                    insn.writes() & needs.registers != 0
                } else if insn.is_store()
                    && let Some((words, _)) = insn.stack_words()
                {
                    words & needs.words != 0
                } else {
                    true
                };
                if is_read {
                    needs = needs.before(insn);
                    kept.push(insn);
                }
            }
            removed |= kept.len() < block.insns.len();
            kept.reverse();
            block.insns = kept;
        }
        removed
    }

    /// The blocks in the order in which they are written, with the one that follows where the
    /// branch is not taken behind it if that is possible.
    pub(super) fn order(&self) -> Vec<Label> {
        let mut order = Vec::new();
        let mut is_placed = vec![false; self.blocks.len()];
        let mut left = vec![0];
        while let Some(label) = left.pop() {
            if std::mem::replace(&mut is_placed[label], true) {
                continue;
            }
            order.push(label);
            match self.blocks[label].end {
                End::Exit => {}
                End::Goto(next) => left.push(next),
                End::Branch(_, taken, other) => left.extend([taken, other]),
            }
        }
        order
    }
}

/// Loads and stores by a register that is another one plus a constant use the other one.
fn fold_addresses(insns: &mut [Insn]) {
    let mut known: [Option<(u8, i64)>; 11] = [None; 11];
    for insn in insns {
        if matches!(insn.class(), LDX | ST | STX)
            && let Some((base, more)) = known[insn.base() as usize]
            && let Ok(off) = i16::try_from(i64::from(insn.off) + more)
        {
            *insn = insn.based_on(base, off);
        }
        let is_copy = insn.code == ALU64 | MOV | BY_REGISTER;
        let sum = match known[insn.dst as usize] {
            Some((base, more)) if insn.code == ALU64 && base != insn.dst => {
                Some((base, more + i64::from(insn.imm)))
            }
            _ if is_copy && insn.src == insn.dst => continue,
            _ if is_copy => known[insn.src as usize].or(Some((insn.src, 0))),
            _ => None,
        };
        let written = insn.writes();
        for (register, known) in known.iter_mut().enumerate() {
            if written & 1 << register != 0 || known.is_some_and(|(base, _)| written & 1 << base != 0) {
                *known = None;
            }
        }
        if let Some((base, more)) = sum
            && base != insn.dst
        {
            known[insn.dst as usize] = Some((base, more));
        }
    }
}
