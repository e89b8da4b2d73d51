//! Replaces the filter function of the capture program and of the sink.
//!
//! `capture.bpf.c` and `sink.bpf.c` end with a placeholder function `wr_filter`. libbpf loads the
//! object once unchanged, which creates the maps, resolves addresses and appends the functions.
//! Then the instructions of `wr_filter` are replaced by the filter, and the result is loaded again.
//! The direct call also works in device-bound programs, where tail calls do not, and on kernels
//! without freplace.

use crate::BpfError;
use crate::sys::{self, LoadParams};
use filter::Ebpf;
use libbpf_sys::bpf_insn;
use std::io;
use std::os::fd::OwnedFd;

/// The constant that identifies `wr_filter`.
const MARK: i32 = 0x7772_6662;

const CODE_CALL: u8 = 0x85;
/// Source register of a call of a function of the same program.
const CALL_LOCAL: u8 = 1;

/// Load options of the second load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoadOptions {
    /// What is loaded, for messages.
    pub(crate) object: &'static str,
    /// Name of the program, at most 15 bytes.
    pub(crate) name: &'static std::ffi::CStr,
    /// True for a multi-buffer program.
    pub(crate) frags: bool,
    /// The device that it is bound to, or 0.
    pub(crate) bound_to: u32,
}

/// Loads `program` again, with `filter` in place of `wr_filter`.
pub(crate) fn load(program: &[bpf_insn], filter: &[Ebpf], options: LoadOptions) -> Result<OwnedFd, BpfError> {
    let whole = replace_filter(program, filter);
    let mut log = vec![0; LOG_LEN];
    let params = LoadParams {
        frags: options.frags,
        bound_to: options.bound_to,
        ..LoadParams::new(libbpf_sys::BPF_PROG_TYPE_XDP, libbpf_sys::BPF_XDP, options.name)
    };
    sys::load(params, &whole, &mut log).map_err(|source: io::Error| BpfError::Load {
        object: options.object,
        reason: source.to_string(),
        log: sys::log_text(&log),
    })
}

/// The important lines of a verifier log are at its end, so it must fit whole.
const LOG_LEN: usize = 1 << 20;

/// # Panics
/// If the program does not end with `wr_filter`, which is a bug in its C code.
fn replace_filter(program: &[bpf_insn], filter: &[Ebpf]) -> Vec<bpf_insn> {
    let start = last_function(program);
    let is_marked = program[start..].iter().any(|one| one.imm == MARK);
    assert!(is_marked, "the last function of the program is wr_filter");
    let mut whole = program[..start].to_vec();
    whole.extend(filter.iter().map(instruction));
    whole
}

/// Index of the last function: the highest call target.
fn last_function(program: &[bpf_insn]) -> usize {
    let calls = program.iter().enumerate();
    let local = calls.filter(|(_, one)| one.code == CODE_CALL && one.src_reg() == CALL_LOCAL);
    let targets = local.map(|(at, one)| at as i64 + 1 + i64::from(one.imm));
    targets.max().expect("the program calls wr_filter") as usize
}

fn instruction(one: &Ebpf) -> bpf_insn {
    let mut instruction = bpf_insn { code: one.code, off: one.off, imm: one.imm, ..bpf_insn::default() };
    instruction.set_dst_reg(one.dst);
    instruction.set_src_reg(one.src);
    instruction
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(code: u8, src: u8, imm: i32) -> bpf_insn {
        instruction(&Ebpf { code, src, imm, ..Ebpf::default() })
    }

    fn program(mark: i32) -> Vec<bpf_insn> {
        // A helper, a function, the end; the function.
        vec![
            one(CODE_CALL, 0, 188),
            one(CODE_CALL, CALL_LOCAL, 1),
            one(0x95, 0, 0),
            one(0xb7, 0, mark),
            one(0x95, 0, 0),
        ]
    }

    #[test]
    fn the_last_function_is_replaced_and_nothing_else() {
        let filter = [Ebpf { code: 0xb4, imm: 1, ..Ebpf::default() }, Ebpf { code: 0x95, ..Ebpf::default() }];
        let whole = replace_filter(&program(MARK), &[filter[0], filter[0], filter[1]]);
        let codes: Vec<(u8, i32)> = whole.iter().map(|one| (one.code, one.imm)).collect();
        assert_eq!(codes, [(0x85, 188), (0x85, 1), (0x95, 0), (0xb4, 1), (0xb4, 1), (0x95, 0)]);
    }

    #[test]
    fn registers_are_encoded_as_the_kernel_expects() {
        let made = instruction(&Ebpf { code: 0x61, dst: 7, src: 6, off: -8, imm: 0 });
        assert_eq!((made.dst_reg(), made.src_reg(), made.off), (7, 6, -8));
    }

    #[test]
    #[should_panic(expected = "is wr_filter")]
    fn another_function_at_the_end_is_a_broken_promise() {
        replace_filter(&program(5), &[]);
    }
}
