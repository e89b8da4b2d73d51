//! A plan in the types of the programs that build frames, and its maps.

use crate::specialize::{Area, specialize};
use crate::sys::{self, LoadParams};
use crate::{abi, log};
use bytemuck::Pod;
use libbpf_rs::{AsRawLibbpf, OpenMapMut, OpenProgram};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::ptr::NonNull;

/// The important lines of a verifier log are at its end, so it must fit whole.
const LOG_LEN: usize = 1 << 20;

/// A plan for `send.bpf.c` and `skb.bpf.c`.
#[derive(Debug)]
pub struct PlanProgram {
    /// Its read-only data.
    pub plan: abi::Plan,
    /// The packets, if they are in maps; only for [`crate::Sender`].
    pub packets: Vec<abi::Packet>,
    /// Their fields.
    pub fields: Vec<abi::Field>,
    /// The steps of their checksums.
    pub ops: Vec<abi::SumOp>,
    /// The lists of values of all fields.
    pub values: Vec<u64>,
    /// Number of field states.
    pub state_count: usize,
    /// Number of field states with a count of frames that keep a value; 0 if no field holds values.
    pub held_count: usize,
}

impl PlanProgram {
    /// Entries of the flow table: at least one.
    pub(crate) fn flow_entries(&self) -> u32 {
        self.plan.flow_count.max(1)
    }

    /// Entries of the counts of frames that keep a value: at least one.
    pub(crate) fn held_entries(&self) -> u32 {
        self.held_count.max(1) as u32
    }

    /// True if the packets are in maps.
    pub(crate) fn is_in_maps(&self) -> bool {
        self.plan.flags & abi::PlanFlag::WR_PLAN_IN_MAPS.0 != 0
    }

    /// True if the frames go into the receive path of the device.
    pub(crate) fn receives(&self) -> bool {
        self.plan.flags & abi::PlanFlag::WR_PLAN_RECEIVE.0 != 0
    }

    /// The length of all frames, if they have one.
    pub(crate) fn fixed_frame_len(&self) -> Option<u32> {
        let varies = abi::PlanFlag::WR_PLAN_SIZE_MOVES.0 | abi::PlanFlag::WR_PLAN_IN_MAPS.0;
        (self.plan.flags & varies == 0).then_some(self.plan.frame_len_max)
    }
}

/// A program that was loaded with a plan. The descriptors keep it alive after the libbpf object is
/// closed.
pub(crate) struct LoadedPlan {
    pub(crate) program: OwnedFd,
    pub(crate) memory: PlanMemory,
    /// A map that other programs have not.
    pub(crate) own: OwnedFd,
}

/// The maps that a worker and a program that builds frames share.
pub(crate) struct PlanMemory {
    pub(crate) cursor: OwnedFd,
    pub(crate) states: OwnedFd,
    pub(crate) held: OwnedFd,
    pub(crate) flows: OwnedFd,
}

/// Loads a program with a plan, as a [`LoadedPlan`] with map `$own`. The program is specialized for
/// the plan.
///
/// A macro, because each skeleton is a type of its own.
macro_rules! load_plan {
    ($builder:ty, $plan:expr, $program:ident, $own:ident) => {{
        use libbpf_rs::AsRawLibbpf as _;
        use libbpf_rs::skel::{OpenSkel as _, SkelBuilder as _};
        use $crate::plan_program::{fill, load_specialized, make_room};
        use $crate::sys::{map_fd, prepare};
        let plan: &$crate::PlanProgram = $plan;
        let constants = bytemuck::bytes_of(&plan.plan);
        let mut storage = std::mem::MaybeUninit::uninit();
        let mut open = <$builder>::default().open(&mut storage)?;
        open.maps.rodata.set_initial_value(constants)?;
        open.maps.wr_flows.set_max_entries(plan.flow_entries())?;
        open.maps.wr_held.set_max_entries(plan.held_entries())?;
        let is_in_maps = plan.is_in_maps();
        make_room(&mut open.maps.wr_packets, &plan.packets, is_in_maps)?;
        make_room(&mut open.maps.wr_fields, &plan.fields, is_in_maps)?;
        make_room(&mut open.maps.wr_sum_ops, &plan.ops, is_in_maps)?;
        make_room(&mut open.maps.wr_values, &plan.values, is_in_maps)?;
        let object = open.open_object().as_libbpf_object();
        prepare(object)?;
        let maps = &open.maps;
        fill(maps.wr_packets.as_libbpf_object(), &plan.packets)?;
        fill(maps.wr_fields.as_libbpf_object(), &plan.fields)?;
        fill(maps.wr_sum_ops.as_libbpf_object(), &plan.ops)?;
        fill(maps.wr_values.as_libbpf_object(), &plan.values)?;
        let rodata = maps.rodata.as_libbpf_object();
        Ok($crate::plan_program::LoadedPlan {
            program: load_specialized(object, &open.progs.$program, rodata, constants)?,
            memory: $crate::plan_program::PlanMemory {
                cursor: map_fd(maps.bss.as_libbpf_object())?,
                states: map_fd(maps.data_states.as_libbpf_object())?,
                held: map_fd(maps.wr_held.as_libbpf_object())?,
                flows: map_fd(maps.wr_flows.as_libbpf_object())?,
            },
            own: map_fd(maps.$own.as_libbpf_object())?,
        })
    }};
}
pub(crate) use load_plan;

/// Loads a program of a prepared object, specialized for the constants in one of its maps.
pub(crate) fn load_specialized(
    object: NonNull<libbpf_sys::bpf_object>,
    program: &OpenProgram<'_>,
    rodata: NonNull<libbpf_sys::bpf_map>,
    constants: &[u8],
) -> libbpf_rs::Result<OwnedFd> {
    let rodata = sys::map_number(rodata)?;
    let areas: Vec<Area<'_>> = sys::maps(object)
        .into_iter()
        .map(|(map, len)| Area { map, len, constants: (map == rodata).then_some(constants) })
        .collect();
    let unusable = |why: String| io::Error::other(format!("the program cannot be specialized: {why}"));
    let code = specialize(&sys::code(program.as_libbpf_object()), &areas).map_err(unusable)?;
    let btf = sys::btf_fd(object)?;
    let name = CString::new(program.name().as_bytes()).map_err(io::Error::other)?;
    let (kind, attach_type) = sys::kind(program.as_libbpf_object());
    let functions = Some((btf.as_fd(), &code.functions[..]));
    let params = LoadParams { functions, ..LoadParams::new(kind, attach_type, &name) };
    let mut text = vec![0; LOG_LEN];
    sys::load(params, &code.insns, &mut text).map_err(|error| {
        log::add(sys::log_text(&text));
        error.into()
    })
}

/// Lets a map have an entry for each value. Without values it is not made, unless the plan is in
/// maps, and its program looks into all of them.
pub(crate) fn make_room<T>(
    map: &mut OpenMapMut<'_>,
    values: &[T],
    is_in_maps: bool,
) -> libbpf_rs::Result<()> {
    if values.is_empty() && !is_in_maps {
        return map.set_autocreate(false);
    }
    map.set_max_entries(values.len().max(1) as u32)
}

/// Writes the entries of a map.
pub(crate) fn fill<T: Pod>(map: NonNull<libbpf_sys::bpf_map>, values: &[T]) -> io::Result<()> {
    if values.is_empty() {
        return Ok(());
    }
    let map = sys::map_fd(map)?;
    let bytes = values.iter().map(bytemuck::bytes_of);
    (0..).zip(bytes).try_for_each(|(index, value)| sys::update(map.as_fd(), index, value))
}
