//! Damage to files, for fuzz tests of readers.

/// Does to a file what disks, networks and enemies do. `below` returns a random number below its
/// argument.
pub fn spoil(file: &mut Vec<u8>, mut below: impl FnMut(usize) -> usize) {
    for _ in 0..below(6) {
        if file.is_empty() {
            return;
        }
        let at = below(file.len());
        match below(7) {
            0 => file[at] ^= 1 << below(8),
            1 => file[at] = below(256) as u8,
            2 => file.truncate(at),
            3 => {
                let end = (at + below(64)).min(file.len());
                file.drain(at..end);
            }
            4 => {
                let piece = file[at..(at + below(200)).min(file.len())].to_vec();
                let to = below(file.len());
                file.splice(to..to, piece);
            }
            5 => {
                // Lengths and counts at their ends.
                let number = [0, 1, 3, 0xffff, 0x7fff_ffff, u32::MAX][below(6)];
                let at = at & !3;
                let end = (at + 4).min(file.len());
                file[at..end].copy_from_slice(&number.to_le_bytes()[..end - at]);
            }
            _ => {
                let more = below(100);
                file.extend((0..more).map(|_| below(256) as u8));
            }
        }
    }
}
