//! `send.bpf.c`, loaded with one plan: builds and sends live frames.

use crate::abi;
use crate::attachable::Attachable;
use crate::due_times::DueTimes;
use crate::general::{self, GeneralProgram};
use crate::state::{State, flow_entries};
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
    /// Loads the program with `plan` as its read-only data.
    ///
    /// # Errors
    /// [`BpfError::Load`] if the verifier rejects it (EPERM without CAP_BPF and CAP_NET_ADMIN),
    /// [`BpfError::MapMemory`].
    pub fn load(plan: &abi::Plan) -> Result<Self, BpfError> {
        let [program, cursor, due_times, flows] = log::loading(OBJECT, || load_fds(plan))?;
        Ok(Self {
            program,
            state: State::map(plan, cursor.as_fd(), flows.as_fd())?,
            due_times: DueTimes::map(due_times.as_fd())?,
            ingress_ifindex: if plan.flags & abi::PlanFlag::WR_PLAN_RECEIVE.0 != 0 {
                plan.ifindex
            } else {
                0
            },
            place: None,
        })
    }

    /// Loads the program of general plans with one of them.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn load_general(general: &GeneralProgram) -> Result<Self, BpfError> {
        let [program, cursor, due_times, states] = general::load(general)?;
        let state = State::map_general(general.state_count, cursor.as_fd(), states.as_fd())?;
        let receives = general.plan.flags & abi::GeneralFlag::WR_GENERAL_RECEIVE.0 != 0;
        let ingress_ifindex = if receives { general.plan.ifindex } else { 0 };
        let due_times = DueTimes::map(due_times.as_fd())?;
        Ok(Self { program, state, due_times, ingress_ifindex, place: None })
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

/// Program, cursor, due times and flow table. The descriptors keep them alive after the libbpf
/// object is closed.
fn load_fds(plan: &abi::Plan) -> libbpf_rs::Result<[OwnedFd; 4]> {
    let mut storage = MaybeUninit::uninit();
    let mut open = skel::send::SendSkelBuilder::default().open(&mut storage)?;
    open.maps.rodata.set_initial_value(bytemuck::bytes_of(plan))?;
    open.maps.wr_flows.set_max_entries(flow_entries(plan))?;
    let skel = open.load()?;
    Ok([
        skel.progs.wr_send.as_fd().try_clone_to_owned()?,
        skel.maps.bss.as_fd().try_clone_to_owned()?,
        skel.maps.data_due_times.as_fd().try_clone_to_owned()?,
        skel.maps.wr_flows.as_fd().try_clone_to_owned()?,
    ])
}
