//! The options of a rate, which `send` and `replay` share.

use crate::outcome::Failure;
use packet::Rate;
use units::{BitRate, FrameRate, WireRate};

/// `--pps`.
///
/// # Errors
/// Bad usage for 0.
pub fn frame_rate(FrameRate(micropps): FrameRate) -> Result<Rate, Failure> {
    Rate::from_micropps(micropps).ok_or_else(|| zero("--pps"))
}

/// `--rate`, for a line with the speed that `line_bps` finds out, in bits per second.
///
/// # Errors
/// Bad usage for 0; those of `line_bps`.
pub fn rate_on_line(
    rate: WireRate,
    line_bps: impl FnOnce() -> Result<u64, Failure>,
) -> Result<Rate, Failure> {
    let BitRate(bps) = match rate {
        WireRate::Bits(rate) => rate,
        WireRate::Share(share) => share.of(line_bps()?),
    };
    Rate::from_wire_bps(bps).ok_or_else(|| zero("--rate"))
}

/// The error of a share of a line without a known speed.
pub fn unknown_speed(act: String) -> Failure {
    Failure::usage(act, "the driver reports no speed of the device")
        .try_this("--rate 4Gbit, in bits per second")
}

fn zero(option: &str) -> Failure {
    Failure::usage(format!("send at {option} 0"), "no frame would be sent")
        .try_this(format!("leave {option} out to send as fast as possible"))
}
