//! `send_general.bpf.c`, loaded with one general plan: builds and sends live frames.

use crate::{BpfError, abi, log, skel};
use bytemuck::Pod;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

const OBJECT: &str = "send_general";

/// A general plan in the types of the program.
#[derive(Debug)]
pub struct GeneralProgram {
    /// Its read-only data.
    pub plan: abi::General,
    /// The packets, if they are in maps.
    pub packets: Vec<abi::Packet>,
    /// Their fields.
    pub fields: Vec<abi::Field>,
    /// The steps of their checksums.
    pub ops: Vec<abi::SumOp>,
    /// The lists of values of all fields.
    pub values: Vec<u64>,
    /// Number of field states.
    pub state_count: usize,
}

/// Program, cursor, due times and field states. The descriptors keep them alive after the libbpf
/// object is closed.
pub(crate) fn load(general: &GeneralProgram) -> Result<[OwnedFd; 4], BpfError> {
    log::loading(OBJECT, || load_fds(general))
}

fn load_fds(general: &GeneralProgram) -> libbpf_rs::Result<[OwnedFd; 4]> {
    let mut storage = MaybeUninit::uninit();
    let mut open = skel::send_general::SendGeneralSkelBuilder::default().open(&mut storage)?;
    open.maps.rodata.set_initial_value(bytemuck::bytes_of(&general.plan))?;
    open.maps.wr_packets.set_max_entries(entries(&general.packets))?;
    open.maps.wr_fields.set_max_entries(entries(&general.fields))?;
    open.maps.wr_sum_ops.set_max_entries(entries(&general.ops))?;
    open.maps.wr_values.set_max_entries(entries(&general.values))?;
    let skel = open.load()?;
    fill(&skel.maps.wr_packets, &general.packets)?;
    fill(&skel.maps.wr_fields, &general.fields)?;
    fill(&skel.maps.wr_sum_ops, &general.ops)?;
    fill(&skel.maps.wr_values, &general.values)?;
    Ok([
        skel.progs.wr_send_general.as_fd().try_clone_to_owned()?,
        skel.maps.bss.as_fd().try_clone_to_owned()?,
        skel.maps.data_due_times.as_fd().try_clone_to_owned()?,
        skel.maps.data_states.as_fd().try_clone_to_owned()?,
    ])
}

/// Entries of a map: at least one.
fn entries<T>(values: &[T]) -> u32 {
    values.len().max(1) as u32
}

fn fill<T: Pod>(map: &impl MapCore, values: &[T]) -> libbpf_rs::Result<()> {
    for (index, value) in (0u32..).zip(values) {
        map.update(&index.to_ne_bytes(), bytemuck::bytes_of(value), MapFlags::ANY)?;
    }
    Ok(())
}
