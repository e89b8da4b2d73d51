//! `skb.bpf.c`, loaded with one plan: builds frames in one skb and sends clones of it.

use crate::plan_program::{LoadedPlan, PlanProgram, load_plan};
use crate::shared::SharedArray;
use crate::state::State;
use crate::sys::{self, ProgRun};
use crate::{BpfError, abi, log, skel};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

const OBJECT: &str = "skb";
/// Index of `priority` among the words of `struct __sk_buff`.
pub(crate) const PRIORITY_WORD: usize = 8;

/// One loaded program. Run by one thread at a time; other threads may read its counters.
#[derive(Debug)]
pub struct SkbSender {
    program: OwnedFd,
    state: State,
    run: SharedArray<abi::SkbRun>,
}

/// Parameters of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SkbParams {
    /// Frames per program run; softirqs run in between.
    pub batch: u32,
    /// `skb->priority`.
    pub priority: u32,
    /// Transmit queue, if the plan has none; `None` lets the stack choose by a hash of the frame.
    pub queue: Option<u16>,
}

/// Result of one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendResult {
    /// Times the device was full; the frame was kept.
    pub device_full: u64,
    /// Frames for which the qdisc dropped this or another frame.
    pub congested: u64,
    /// Positive errno that ended the call, or 0; the frame was kept.
    pub errno: i32,
}

impl SkbSender {
    /// Loads the program with a plan of one packet that is not in maps.
    ///
    /// # Errors
    /// [`BpfError::Load`] if the verifier rejects it (EPERM without CAP_BPF and CAP_NET_ADMIN,
    /// EINVAL before Linux 5.17, which has no `bpf_loop`), [`BpfError::MapMemory`].
    pub fn load(program: &PlanProgram) -> Result<Self, BpfError> {
        let LoadedPlan { program: fd, memory, own } = log::loading(OBJECT, || load_fds(program))?;
        let state = State::map(program, &memory)?;
        Ok(Self { program: fd, state, run: SharedArray::new(own.as_fd(), "run", 1)? })
    }

    /// Cursor, flow table and counters.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// True if the frame of the cursor is built and not sent.
    pub fn is_frame_kept(&self) -> bool {
        self.run.get(0).is_kept != 0
    }

    /// Sets whether the frame of the cursor is built already; not while the program runs.
    pub fn set_frame_kept(&self, is_kept: bool) {
        self.run.set(0, &abi::SkbRun { is_kept: u32::from(is_kept), ..self.run.get(0) });
    }

    /// Sends up to `frames` frames from an skb that is initialized with `data`. Copies the final
    /// skb to `data_out` unless that is empty, and returns its length.
    ///
    /// The device is looked up in the network namespace of the caller. A signal makes it return
    /// early without an error; [`State::offered`] has the number of frames.
    ///
    /// # Errors
    /// From bpf(2); nothing was sent then.
    pub fn run(
        &self,
        data: &[u8],
        data_out: &mut [u8],
        frames: u32,
        params: &SkbParams,
    ) -> io::Result<(SendResult, usize)> {
        let before = self.run.get(0);
        self.run.set(
            0,
            &abi::SkbRun {
                left: frames,
                batch: params.batch,
                queue_mapping: params.queue.map_or(0, |queue| u32::from(queue) + 1),
                is_written: 0,
                last_error: 0,
                ..before
            },
        );
        let mut context = [0u32; PRIORITY_WORD + 1];
        context[PRIORITY_WORD] = params.priority;
        let mut run = ProgRun {
            data_in: data,
            data_out,
            context_in: bytemuck::cast_slice(&context),
            repeat: frames.div_ceil(params.batch.max(1)),
            ..ProgRun::default()
        };
        let data_out_len = match sys::prog_run(self.program.as_fd(), &mut run) {
            Ok(ran) => ran.data_out_len as usize,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            Err(error) => return Err(error),
        };
        let after = self.run.get(0);
        let result = SendResult {
            device_full: after.device_full - before.device_full,
            congested: after.congested - before.congested,
            errno: after.last_error.unsigned_abs() as i32,
        };
        Ok((result, data_out_len))
    }
}

/// The program, with its call parameters.
fn load_fds(program: &PlanProgram) -> libbpf_rs::Result<LoadedPlan> {
    load_plan!(skel::skb::SkbSkelBuilder, program, wr_send_skb, data_run)
}
