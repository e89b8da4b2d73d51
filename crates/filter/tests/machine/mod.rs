//! As much of an eBPF machine as a translated filter needs, and one that believes nothing: every
//! access must lie in the memory it belongs to, as the verifier would prove it, or the test fails.

use filter::Ebpf;

const CTX: u64 = 0x10_0000_0000;
const FRAME: u64 = 0x20_0000_0000;
const STACK_END: u64 = 0x30_0000_0000;
const STACK_LEN: u64 = 512;
const INSTRUCTIONS_MAX: usize = 100_000;

/// A frame of which only the first `linear_len` bytes can be read without the helper.
pub(crate) struct Machine<'a> {
    frame: &'a [u8],
    linear_len: usize,
    registers: [u64; 11],
    stack: Vec<u8>,
}

impl<'a> Machine<'a> {
    pub(crate) fn new(frame: &'a [u8], linear_len: usize) -> Self {
        let mut registers = [0xdead_beef_dead_beef; 11];
        (registers[1], registers[10]) = (CTX, STACK_END);
        // Whatever was on the stack before is not to be counted on.
        Self { frame, linear_len, registers, stack: vec![0xee; STACK_LEN as usize] }
    }

    /// What the function returns.
    pub(crate) fn run(mut self, code: &[Ebpf]) -> u64 {
        let mut at = 0;
        for _ in 0..INSTRUCTIONS_MAX {
            let one = code[at];
            at += 1;
            match one.code {
                0x95 => return self.registers[0],
                0x85 => self.call(one.imm),
                _ if matches!(one.code & 7, 5 | 6) => {
                    if self.jumps(one) {
                        at = at.checked_add_signed(one.off.into()).expect("jumps stay inside");
                    }
                }
                _ => self.execute(one),
            }
        }
        panic!("no end after {INSTRUCTIONS_MAX} instructions");
    }

    fn operand(&self, one: Ebpf) -> u64 {
        if one.code & 8 == 0 { i64::from(one.imm) as u64 } else { self.registers[usize::from(one.src)] }
    }

    fn jumps(&self, one: Ebpf) -> bool {
        let (mut a, mut b) = (self.registers[usize::from(one.dst)], self.operand(one));
        if one.code & 7 == 6 {
            (a, b) = (a as u32 as u64, b as u32 as u64);
        }
        match one.code >> 4 {
            0x0 => true,
            0x1 => a == b,
            0x2 => a > b,
            0x3 => a >= b,
            0x4 => a & b != 0,
            0x5 => a != b,
            0xa => a < b,
            0xb => a <= b,
            other => panic!("jump {other:#x}"),
        }
    }

    fn execute(&mut self, one: Ebpf) {
        let dst = usize::from(one.dst);
        let address = |base: u64| base.wrapping_add_signed(one.off.into());
        match one.code {
            0x61 | 0x69 | 0x71 => {
                let len = [4, 2, 1][usize::from(one.code >> 3 & 3)];
                self.registers[dst] = self.load(address(self.registers[usize::from(one.src)]), len);
            }
            0x63 => self.store(address(self.registers[dst]), self.registers[usize::from(one.src)] as u32),
            0x62 => self.store(address(self.registers[dst]), one.imm as u32),
            0xdc if one.imm == 16 => self.registers[dst] = u64::from((self.registers[dst] as u16).to_be()),
            0xdc if one.imm == 32 => self.registers[dst] = u64::from((self.registers[dst] as u32).to_be()),
            _ if one.code & 7 == 7 => {
                let (a, b) = (self.registers[dst], self.operand(one));
                self.registers[dst] = match one.code >> 4 {
                    0x0 => a.wrapping_add(b),
                    0xb => b,
                    other => panic!("64-bit calculation {other:#x}"),
                };
            }
            _ if one.code & 7 == 4 => {
                let (a, b) = (self.registers[dst] as u32, self.operand(one) as u32);
                self.registers[dst] = u64::from(calculate(one.code >> 4, a, b));
            }
            other => panic!("code {other:#x}"),
        }
    }

    fn load(&self, address: u64, len: u64) -> u64 {
        if (CTX..CTX + 8).contains(&address) {
            assert_eq!(len, 4, "fields of the context are words");
            return if address == CTX { FRAME } else { FRAME + self.linear_len as u64 };
        }
        let (memory, start) = if address >= STACK_END - STACK_LEN {
            assert!(address + len <= STACK_END, "beyond the stack");
            (&self.stack[..], address - (STACK_END - STACK_LEN))
        } else {
            assert!(address >= FRAME, "before the frame");
            let end = address + len - FRAME;
            assert!(end <= self.linear_len as u64, "byte {end} of {} was looked at", self.linear_len);
            (self.frame, address - FRAME)
        };
        let bytes = &memory[start as usize..(start + len) as usize];
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    }

    fn store(&mut self, address: u64, word: u32) {
        let start = (address - (STACK_END - STACK_LEN)) as usize;
        self.stack[start..start + 4].copy_from_slice(&word.to_le_bytes());
    }

    fn call(&mut self, helper: i32) {
        assert_eq!(self.registers[1], CTX, "helpers get the context");
        let result = match helper {
            188 => self.frame.len() as i64,
            189 => self.load_bytes(),
            other => panic!("helper {other}"),
        };
        self.registers[0] = result as u64;
        self.registers[1..6].fill(0xdead_beef_dead_beef);
    }

    /// As `bpf_xdp_load_bytes`: offset and length are 32 bits, and neither is above 0xffff.
    fn load_bytes(&mut self) -> i64 {
        let (offset, len) = (self.registers[2] as u32 as usize, self.registers[4] as u32 as usize);
        let bytes = self.frame.get(offset..offset + len);
        let (Some(bytes), true) = (bytes, offset <= 0xffff) else { return -14 };
        let start = (self.registers[3] - (STACK_END - STACK_LEN)) as usize;
        self.stack[start..start + len].copy_from_slice(bytes);
        0
    }
}

fn calculate(operation: u8, a: u32, b: u32) -> u32 {
    match operation {
        0x0 => a.wrapping_add(b),
        0x1 => a.wrapping_sub(b),
        0x2 => a.wrapping_mul(b),
        0x3 => a.checked_div(b).expect("a division by zero is caught before"),
        0x4 => a | b,
        0x5 => a & b,
        0x6 => a.checked_shl(b).expect("a long shift is caught before"),
        0x7 => a.checked_shr(b).expect("a long shift is caught before"),
        0x8 => a.wrapping_neg(),
        0x9 => a.checked_rem(b).expect("a division by zero is caught before"),
        0xa => a ^ b,
        0xb => b,
        other => panic!("32-bit calculation {other:#x}"),
    }
}
