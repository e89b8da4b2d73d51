//! A window over more numbers of a flow than its line has space for, kept beside the line.
//!
//! The words are a ring: number n is bit n % 64 of word n / 64 % 16, and words are cleared when the
//! highest number enters them. So at least 960 numbers below the highest one are known.

/// Numbers below the highest one for which a first copy can be told from a duplicate.
pub const WIDE_WINDOW_LEN: u64 = 960;

const WORDS: u64 = 16;
const WORD_BITS: u64 = 64;

/// The received numbers of a flow; `struct wr_wide_window` in the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WideWindow {
    /// A bit for each of the last 1,024 numbers of a flow: 1 if it was received.
    pub words: [u64; WORDS as usize],
}

impl WideWindow {
    /// Notes `number`, which is at least `high`: the highest one so far + 1, or 0 for none.
    pub(crate) fn advance(&mut self, high: u64, number: u64) {
        let entered = match high {
            0 => WORDS,
            high => (number / WORD_BITS - (high - 1) / WORD_BITS).min(WORDS),
        };
        (0..entered).for_each(|back| *self.word((number / WORD_BITS).wrapping_sub(back)) = 0);
        *self.word(number / WORD_BITS) |= 1 << (number % WORD_BITS);
    }

    /// Notes `number`, which is less than [`WIDE_WINDOW_LEN`] below `highest`. Returns the number
    /// of frames with higher numbers, or `None` if it was there.
    pub(crate) fn note(&mut self, number: u64, highest: u64) -> Option<u32> {
        let bit = 1 << (number % WORD_BITS);
        let word = self.word(number / WORD_BITS);
        if *word & bit != 0 {
            return None;
        }
        *word |= bit;
        let above_in_word = (*word & !(bit | (bit - 1))).count_ones();
        let above = (number / WORD_BITS + 1..=highest / WORD_BITS).map(|word| self.word(word).count_ones());
        Some(above_in_word + above.sum::<u32>())
    }

    fn word(&mut self, number: u64) -> &mut u64 {
        &mut self.words[(number % WORDS) as usize]
    }
}
