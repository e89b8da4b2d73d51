//! Slots of a device file as lines of text, as mgcap's mgbtoa printed them: for a look at what
//! comes.

use super::Args;
use super::slots::open;
use capture::{MgcapSlot, SlotReader};
use program::out;
use program::outcome::{Failure, Outcome};
use program::stop::Stop;
use std::fmt::Write;
use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// Slots of one read.
const SLOTS: usize = 256;
/// Sleep over an empty ring: a person does not see the difference.
const SLEEP: Duration = Duration::from_millis(2);

/// Prints slots until a limit, a signal or an error.
pub(super) fn run(args: &Args, path: &Path, stop: &Stop) -> Result<Outcome, Failure> {
    let failed = |act: &str, why| Failure::refused(format!("{act} {}", path.display()), why);
    let device = open(path).map_err(|why| failed("open", why))?;
    let end = args.duration().map(|duration| Instant::now() + duration);
    let (mut reader, mut lines) = (SlotReader::new(device, SLOTS), String::new());
    let mut left = args.frames_max().unwrap_or(u64::MAX);
    while left > 0 {
        // Asked before looking: what came until then is shown.
        let is_last_look = stop.is_set() || end.is_some_and(|end| Instant::now() >= end);
        lines.clear();
        let read = reader.read(|slot| {
            if left > 0 {
                left -= 1;
                line(&slot, &mut lines);
            }
        });
        out::text(&lines)?;
        match read {
            Ok(Some(_)) => {}
            Ok(None) => break,
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            Err(why) if why.kind() != io::ErrorKind::WouldBlock => return Err(failed("read", why)),
            Err(_) => thread::sleep(SLEEP),
        }
        if is_last_look {
            break;
        }
    }
    Ok(Outcome::Done)
}

/// `1700000000.000000001 60 ffffffffffff...`: seconds since 1970, length on the wire, the bytes
/// that were kept.
fn line(slot: &MgcapSlot<'_>, out: &mut String) {
    let (s, ns) = (slot.time_ns.div_euclid(1_000_000_000), slot.time_ns.rem_euclid(1_000_000_000));
    let result = write!(out, "{s}.{ns:09} {} ", slot.frame_len);
    let result =
        slot.data.iter().fold(result, |result, byte| result.and_then(|()| write!(out, "{byte:02x}")));
    result.expect("a string takes everything");
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_a_line() {
        let mut lines = String::new();
        line(
            &MgcapSlot { frame_len: 1514, time_ns: 1_700_000_000_000_000_007, data: &[0xff, 0, 0x1a] },
            &mut lines,
        );
        line(&MgcapSlot { frame_len: 0, time_ns: 0, data: &[] }, &mut lines);
        assert_eq!(lines, "1700000000.000000007 1514 ff001a\n0.000000000 0 \n");
    }
}
