//! Why a classic program is not a filter that wirerate can run.

/// Errors of this crate. Places count instructions from 0, as `tcpdump -d` numbers them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages name the fields")]
pub enum FilterError {
    /// No instructions, or more than a socket takes.
    #[error("a filter of {count} instructions: the kernel takes 1 to {max}")]
    Length { count: usize, max: usize },
    /// A code that is no instruction.
    #[error("instruction {at} of the filter is unknown (code {code:#06x})")]
    Unknown { at: usize, code: u16 },
    /// A jump to an earlier instruction: `ip6 protochain` and `icmp6 protochain` walk headers in a
    /// loop.
    #[error(
        "the filter loops (instruction {at}), as `protochain` does, and the kernel runs no filter with a loop"
    )]
    Loop { at: usize },
    /// A jump past the end, or an end that is no return.
    #[error("the filter runs past its end (instruction {at})")]
    PastEnd { at: usize },
    /// A division by the constant 0, or a shift by 32 or more.
    #[error("instruction {at} of the filter divides by zero or shifts by 32 or more ({value})")]
    Constant { at: usize, value: u32 },
    /// There are 16 words of memory.
    #[error("instruction {at} of the filter uses word {word} of 16 words of memory")]
    Memory { at: usize, word: u32 },
    /// A load of something that is no byte of the frame: the kernel's extensions.
    #[error("instruction {at} of the filter loads {offset:#010x}, which is no place in a frame")]
    Extension { at: usize, offset: u32 },
    /// The translation has jumps that are longer than an instruction can say.
    #[error("the filter is too long for XDP ({count} instructions become {translated})")]
    TooLong { count: usize, translated: usize },
}
