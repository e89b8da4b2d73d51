//! The bytes behind the headers.

use crate::header::parse_hex;
use crate::node::ConfigNode;

/// Payload behind the headers: the same bytes in each frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Payload {
    /// A pattern, repeated or followed by zeros.
    Fixed { pattern: Vec<u8>, repeats: bool },
    /// Big-endian numbers of `width` bytes from 0 on; inverted if they count down.
    Count { width: usize, is_down: bool },
}

impl Payload {
    pub(crate) fn read(node: Option<ConfigNode>) -> Self {
        let zeros = Self::Fixed { pattern: vec![0], repeats: true };
        let Some(node) = node else { return zeros };
        node.whole(|node| {
            node.ignore(&["choice"]);
            match node.choice("fixed") {
                "increment_byte" => Self::Count { width: 1, is_down: false },
                "decrement_byte" => Self::Count { width: 1, is_down: true },
                "increment_word" => Self::Count { width: 2, is_down: false },
                "decrement_word" => Self::Count { width: 2, is_down: true },
                _ => node.object("fixed").map_or(zeros, |fixed| fixed.whole(read_fixed)),
            }
        })
    }

    /// Fills the payload of a frame.
    pub(crate) fn write(&self, out: &mut [u8]) {
        match self {
            Self::Fixed { pattern, repeats } => {
                let count = if *repeats { out.len() } else { pattern.len() };
                out.iter_mut().zip(pattern.iter().cycle()).take(count).for_each(|(out, byte)| *out = *byte);
            }
            Self::Count { width, is_down } => {
                for (index, out) in out.iter_mut().enumerate() {
                    let number = (index / width) as u16;
                    let byte = if index % width == width - 1 { number } else { number >> 8 } as u8;
                    *out = if *is_down { !byte } else { byte };
                }
            }
        }
    }
}

fn read_fixed(node: &ConfigNode) -> Payload {
    let text = node.text("pattern").unwrap_or("00");
    // A single digit counts as a byte.
    let digits = if text.len() % 2 == 1 { format!("0{text}") } else { text.to_owned() };
    let pattern = parse_hex(&digits).filter(|pattern| !pattern.is_empty()).unwrap_or_else(|| {
        node.findings().error(&node.at("pattern"), "is not a list of bytes in hexadecimal");
        vec![0]
    });
    Payload::Fixed { pattern, repeats: node.flag("repeat", true) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(payload: &Payload) -> [u8; 5] {
        let mut out = [0; 5];
        payload.write(&mut out);
        out
    }

    #[test]
    fn payloads() {
        let fixed = |repeats| Payload::Fixed { pattern: vec![0xc0, 0xff, 0xee], repeats };
        assert_eq!(written(&fixed(true)), [0xc0, 0xff, 0xee, 0xc0, 0xff]);
        assert_eq!(written(&fixed(false)), [0xc0, 0xff, 0xee, 0, 0]);
        assert_eq!(written(&Payload::Count { width: 1, is_down: true }), [255, 254, 253, 252, 251]);
        assert_eq!(written(&Payload::Count { width: 2, is_down: false }), [0, 0, 0, 1, 0]);
        assert_eq!(written(&Payload::Count { width: 2, is_down: true }), [255, 255, 255, 254, 255]);
    }
}
