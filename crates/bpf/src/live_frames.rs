//! The longest live frame of `BPF_PROG_RUN`, which depends on the version of the kernel.

use crate::dummy_xdp::load_constant;
use crate::{BpfError, sys};
use std::io;
use std::os::fd::AsFd;

const XDP_DROP: i32 = 1;

/// Bytes of the longest live frame that the kernel accepts, at most `wanted`. It is found by trial,
/// with frames that are dropped. A kernel that accepts none of 60 bytes has no limit of length, but
/// another reason, and the answer is `wanted`.
///
/// # Errors
/// [`BpfError::Load`] without the capabilities for it.
pub fn live_frame_len_max(wanted: u32) -> Result<u32, BpfError> {
    let program = load_constant(c"wr_drop", XDP_DROP, false)?;
    let page = vec![0; wanted as usize];
    Ok(longest(wanted, |len| sys::run_live(program.as_fd(), &page[..len as usize], &[], 1, 1)))
}

/// The longest length up to `wanted` without EINVAL.
fn longest(wanted: u32, try_len: impl Fn(u32) -> io::Result<()>) -> u32 {
    let is_refused =
        |len: u32| matches!(try_len(len), Err(error) if error.raw_os_error() == Some(libc::EINVAL));
    let (mut accepted, mut refused) = (60, wanted);
    if wanted <= accepted || !is_refused(wanted) || is_refused(accepted) {
        return wanted;
    }
    while refused - accepted > 1 {
        let middle = accepted.midpoint(refused);
        *(if is_refused(middle) { &mut refused } else { &mut accepted }) = middle;
    }
    accepted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_accepted_length_is_found() {
        let up_to = |limit: u32| {
            move |len: u32| {
                if len > limit { Err(io::Error::from_raw_os_error(libc::EINVAL)) } else { Ok(()) }
            }
        };
        for (wanted, limit, answer) in [
            (3520, 3520, 3520),
            (3520, 3424, 3424),
            (3520, 61, 61),
            (1518, 3424, 1518),
            (3520, 0, 3520),
            (50, 0, 50),
        ] {
            assert_eq!(longest(wanted, up_to(limit)), answer, "{wanted} {limit}");
        }
        let busy = |_| Err(io::Error::from_raw_os_error(libc::ENOSPC));
        assert_eq!(longest(3520, busy), 3520);
    }
}
