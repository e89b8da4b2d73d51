//! A bare loop: one packet socket, one frame, sendmmsg(2) in batches.
//!
//! This is the least work per frame that a program can do with a socket, so it is the baseline.

use crate::frame;
use crate::sys::{FloodSocket, MessageBatch};
use anyhow::{Context, Result};
use host::{MacAddr, Stack};
use std::net::Ipv4Addr;

/// Frames of one call: more gain nothing.
const BATCH: usize = 64;

/// Arguments of the hidden command `flood`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The device, in the namespace that this runs in
    pub(crate) device: String,
    /// Frame length in bytes without FCS
    #[arg(long)]
    pub(crate) size: usize,
    /// Frames to send
    #[arg(long)]
    pub(crate) count: u64,
}

/// Sends until all frames are sent or it is killed.
pub(crate) fn run(args: &Args) -> Result<()> {
    let link = Stack::here()?.link(&args.device)?;
    let socket = FloodSocket::open(link.index).context("cannot open a packet socket")?;
    let bytes = frame::udp(link.mac.unwrap_or(MacAddr::ZERO), Ipv4Addr::new(198, 18, 0, 1), args.size);
    let mut batch = MessageBatch::new(&bytes, BATCH);
    let mut left = args.count;
    while left > 0 {
        let count = BATCH.min(usize::try_from(left).unwrap_or(BATCH));
        match socket.send(&mut batch, count) {
            Ok(sent) => left -= sent as u64,
            // The queue of the device is full: try again, as trafgen does.
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {}
            Err(error) => return Err(error).context(format!("cannot send on {}", args.device)),
        }
    }
    Ok(())
}
