//! `send.bpf.c`, loaded with one plan: builds and sends live frames.

use crate::attachable::Attachable;
use crate::due_times::DueTimes;
use crate::plan_program::{LoadedPlan, PlanProgram, load_plan};
use crate::state::State;
use crate::stream_switch::{StreamPlace, StreamSwitch};
use crate::sys::{self, ProgRun};
use crate::{BpfError, log, skel};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

const OBJECT: &str = "send";

/// One loaded program. Run by one thread at a time; other threads may read its counters.
#[derive(Debug)]
pub struct Sender {
    program: OwnedFd,
    state: State,
    due_times: DueTimes,
    ingress_ifindex: u32,
    /// `None` for a program that is called itself.
    place: Option<StreamPlace>,
}

impl Sender {
    /// Loads the program with a plan.
    ///
    /// # Errors
    /// [`BpfError::Load`] if the verifier rejects it (EPERM without CAP_BPF and CAP_NET_ADMIN),
    /// [`BpfError::MapMemory`].
    pub fn load(program: &PlanProgram) -> Result<Self, BpfError> {
        let loaded = log::loading(OBJECT, || load_fds(program))?;
        Ok(Self {
            state: State::map(program, &loaded.memory)?,
            due_times: DueTimes::map(loaded.own.as_fd())?,
            program: loaded.program,
            ingress_ifindex: if program.receives() { program.plan.ifindex } else { 0 },
            place: None,
        })
    }

    /// Live frames are sent through `switch` from now on, if it has a free place; false if not.
    ///
    /// # Errors
    /// [`BpfError::Load`] if the kernel rejects the program there.
    pub fn join(&mut self, switch: &Rc<StreamSwitch>) -> Result<bool, BpfError> {
        self.place = switch.add(self.program.as_fd())?;
        Ok(self.place.is_some())
    }

    /// A handle with which another thread attaches the program.
    ///
    /// # Errors
    /// When the process has no file descriptors left.
    pub fn attachable(&self) -> io::Result<Attachable> {
        Attachable::of(self.program.as_fd())
    }

    /// Cursor, flow table and counters.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The times of the next frames.
    pub fn due_times(&self) -> &DueTimes {
        &self.due_times
    }

    /// Runs the program on `frames` live frames, `batch` at a time (1 to 256), each initialized
    /// with `data`.
    ///
    /// The redirect looks the device up in the network namespace of the caller. A signal makes it
    /// return early without an error; [`State::offered`] has the number of frames.
    ///
    /// # Errors
    /// From bpf(2). Without memory for a batch, the batches before it are sent; see
    /// [`State::offered`].
    pub fn run_live(&self, data: &[u8], frames: u32, batch: u32) -> io::Result<()> {
        let context = libbpf_sys::xdp_md {
            data_end: data.len() as u32,
            ingress_ifindex: self.ingress_ifindex,
            ..Default::default()
        };
        let words = [
            context.data,
            context.data_end,
            context.data_meta,
            context.ingress_ifindex,
            context.rx_queue_index,
            context.egress_ifindex,
        ];
        let context = if self.ingress_ifindex == 0 { &[] } else { bytemuck::cast_slice(&words) };
        match &self.place {
            None => sys::run_live(self.program.as_fd(), data, context, frames, batch),
            Some(place) => sys::run_live(place.choose(), data, context, frames, batch),
        }
    }

    /// Runs the program once on a copy of `data`, without sending, and returns verdict and frame.
    ///
    /// # Errors
    /// From bpf(2).
    pub fn run_once(&self, data: &[u8]) -> io::Result<(u32, Vec<u8>)> {
        let mut out = vec![0; data.len()];
        let mut run = ProgRun { data_in: data, data_out: &mut out, repeat: 1, ..ProgRun::default() };
        let ran = sys::prog_run(self.program.as_fd(), &mut run)?;
        out.truncate(ran.data_out_len as usize);
        Ok((ran.return_value, out))
    }
}

impl AsFd for Sender {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.program.as_fd()
    }
}

/// The program, with its due times.
fn load_fds(program: &PlanProgram) -> libbpf_rs::Result<LoadedPlan> {
    load_plan!(skel::send::SendSkelBuilder, program, wr_send, data_due_times)
}
