//! `send.bpf.c`, loaded with one plan: builds and sends live frames.

use crate::attachable::Attachable;
use crate::due_times::DueTimes;
use crate::plan_program::{PlanProgram, fill, prepare};
use crate::state::State;
use crate::stream_switch::{StreamPlace, StreamSwitch};
use crate::sys::{self, ProgRun};
use crate::{BpfError, log, skel};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use std::io;
use std::mem::MaybeUninit;
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
        let [fd, cursor, due_times, states, flows] = log::loading(OBJECT, || load_fds(program))?;
        Ok(Self {
            program: fd,
            state: State::map(program, cursor.as_fd(), states.as_fd(), flows.as_fd())?,
            due_times: DueTimes::map(due_times.as_fd())?,
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

/// Program, cursor, due times, field states and flow table. The descriptors keep them alive after
/// the libbpf object is closed.
fn load_fds(program: &PlanProgram) -> libbpf_rs::Result<[OwnedFd; 5]> {
    macro_rules! load {
        ($builder:ty) => {{
            let mut storage = MaybeUninit::uninit();
            let mut open = <$builder>::default().open(&mut storage)?;
            prepare!(open, program)?;
            let skel = open.load()?;
            fill(&skel.maps.wr_packets, &program.packets)?;
            fill(&skel.maps.wr_fields, &program.fields)?;
            fill(&skel.maps.wr_sum_ops, &program.ops)?;
            fill(&skel.maps.wr_values, &program.values)?;
            Ok([
                skel.progs.wr_send.as_fd().try_clone_to_owned()?,
                skel.maps.bss.as_fd().try_clone_to_owned()?,
                skel.maps.data_due_times.as_fd().try_clone_to_owned()?,
                skel.maps.data_states.as_fd().try_clone_to_owned()?,
                skel.maps.wr_flows.as_fd().try_clone_to_owned()?,
            ])
        }};
    }
    if program.is_short() {
        load!(skel::send_short::SendShortSkelBuilder)
    } else {
        load!(skel::send::SendSkelBuilder)
    }
}
