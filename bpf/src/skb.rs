//! `skb.bpf.c` loaded with one plan: the program that hands on clones of one skb.

use crate::shared::SharedArray;
use crate::state::{State, flow_entries};
use crate::sys::{self, ProgRun};
use crate::{BpfError, abi, log, skel};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

const OBJECT: &str = "skb";
/// Place of `priority` among the words of `struct __sk_buff`.
pub(crate) const PRIORITY_WORD: usize = 8;

/// One loaded program. Run by one thread at a time; others may look at its counters meanwhile.
#[derive(Debug)]
pub struct SkbSender {
    program: OwnedFd,
    state: State,
    run: SharedArray<abi::SkbRun>,
}

/// What the frames of a call are to be like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SkbHow {
    /// Frames for each run of the program; softirqs run between two.
    pub turns: u32,
    /// `skb->priority`.
    pub priority: u32,
    /// The transmit queue of a plan that names none; `None` to have the stack choose by a hash of each frame.
    pub queue: Option<u16>,
}

/// What the kernel said to the frames of one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// Times that there was no room for a frame, which was kept.
    pub no_room: u64,
    /// Frames for which the queueing discipline dropped one, this or another.
    pub congested: u64,
    /// The error that ended the call as a positive errno, 0 for none; the frame was kept.
    pub errno: i32,
}

impl SkbSender {
    /// Loads the program with `plan` as its read-only data.
    ///
    /// # Errors
    /// [`BpfError::Load`] when the verifier refuses (EPERM without CAP_BPF and CAP_NET_ADMIN, EINVAL before
    /// Linux 5.17, which has no `bpf_loop`), [`BpfError::MapMemory`].
    pub fn load(plan: &abi::Plan) -> Result<Self, BpfError> {
        let (loaded, printed) = log::collect(|| load_fds(plan));
        let [program, cursor, flows, run] = loaded.map_err(|error| BpfError::Load {
            object: OBJECT,
            reason: error.to_string(),
            log: printed,
        })?;
        let state = State::map(plan, cursor.as_fd(), flows.as_fd())?;
        Ok(Self { program, state, run: SharedArray::new(run.as_fd(), "run", 1)? })
    }

    /// Where it stands.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// True while the frame that the cursor stands at is built and still to be sent.
    pub fn is_frame_kept(&self) -> bool {
        self.run.get(0).is_kept != 0
    }

    /// Says whether the frame that the cursor stands at is built already; not while the program runs.
    pub fn set_frame_kept(&self, is_kept: bool) {
        self.run.set(0, &abi::SkbRun { is_kept: u32::from(is_kept), ..self.run.get(0) });
    }

    /// Hands on up to `frames` frames from an skb that starts as `data`. What the skb holds at the end goes to
    /// `data_out` unless that is empty; the length of it is returned.
    ///
    /// The device is looked up in the caller's network namespace. Interrupted by a signal it returns early and
    /// without an error: [`State::offered`] says how far it came.
    ///
    /// # Errors
    /// What bpf(2) says; nothing was sent then.
    pub fn run(
        &self,
        data: &[u8],
        data_out: &mut [u8],
        frames: u32,
        how: &SkbHow,
    ) -> io::Result<(Said, usize)> {
        let before = self.run.get(0);
        self.run.set(
            0,
            &abi::SkbRun {
                left: frames,
                turns: how.turns,
                queue_mapping: how.queue.map_or(0, |queue| u32::from(queue) + 1),
                is_written: 0,
                last_error: 0,
                ..before
            },
        );
        let mut context = [0u32; PRIORITY_WORD + 1];
        context[PRIORITY_WORD] = how.priority;
        let mut run = ProgRun {
            data_in: data,
            data_out,
            context_in: bytemuck::cast_slice(&context),
            repeat: frames.div_ceil(how.turns.max(1)),
            ..ProgRun::default()
        };
        let data_out_len = match sys::prog_run(self.program.as_fd(), &mut run) {
            Ok(ran) => ran.data_out_len as usize,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            Err(error) => return Err(error),
        };
        let after = self.run.get(0);
        let said = Said {
            no_room: after.no_room - before.no_room,
            congested: after.congested - before.congested,
            errno: after.last_error.unsigned_abs() as i32,
        };
        Ok((said, data_out_len))
    }
}

/// Program, cursor, flow table and what a call says. The descriptors keep all of them alive.
fn load_fds(plan: &abi::Plan) -> libbpf_rs::Result<[OwnedFd; 4]> {
    let mut storage = MaybeUninit::uninit();
    let mut open = skel::skb::SkbSkelBuilder::default().open(&mut storage)?;
    open.maps.rodata.set_initial_value(bytemuck::bytes_of(plan))?;
    open.maps.wr_flows.set_max_entries(flow_entries(plan))?;
    let skel = open.load()?;
    Ok([
        skel.progs.wr_send_skb.as_fd().try_clone_to_owned()?,
        skel.maps.bss.as_fd().try_clone_to_owned()?,
        skel.maps.wr_flows.as_fd().try_clone_to_owned()?,
        skel.maps.data_run.as_fd().try_clone_to_owned()?,
    ])
}
