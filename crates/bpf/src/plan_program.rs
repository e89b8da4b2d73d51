//! A plan in the types of the programs that build frames, and its maps.

use crate::abi;
use bytemuck::Pod;
use libbpf_rs::{MapCore, MapFlags};
use std::os::fd::OwnedFd;

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
    /// True if the fields and checksums fit into a short program.
    pub(crate) fn is_short(&self) -> bool {
        self.plan.field_count as usize <= abi::FIELDS_SHORT
            && self.plan.op_count as usize <= abi::SUM_OPS_SHORT
    }

    /// Entries of the flow table: at least one.
    pub(crate) fn flow_entries(&self) -> u32 {
        self.plan.flow_count.max(1)
    }

    /// Entries of the counts of frames that keep a value: at least one.
    pub(crate) fn held_entries(&self) -> u32 {
        self.held_count.max(1) as u32
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

/// Loads a program with a plan, as a [`LoadedPlan`] with map `$own`.
///
/// A macro, because each skeleton is a type of its own.
macro_rules! load_plan {
    ($builder:ty, $plan:expr, $program:ident, $own:ident) => {{
        use libbpf_rs::skel::{OpenSkel as _, SkelBuilder as _};
        use $crate::plan_program::{entries, fill};
        let plan: &$crate::PlanProgram = $plan;
        let mut storage = std::mem::MaybeUninit::uninit();
        let mut open = <$builder>::default().open(&mut storage)?;
        open.maps.rodata.set_initial_value(bytemuck::bytes_of(&plan.plan))?;
        open.maps.wr_flows.set_max_entries(plan.flow_entries())?;
        open.maps.wr_held.set_max_entries(plan.held_entries())?;
        open.maps.wr_packets.set_max_entries(entries(&plan.packets))?;
        open.maps.wr_fields.set_max_entries(entries(&plan.fields))?;
        open.maps.wr_sum_ops.set_max_entries(entries(&plan.ops))?;
        open.maps.wr_values.set_max_entries(entries(&plan.values))?;
        let skel = open.load()?;
        fill(&skel.maps.wr_packets, &plan.packets)?;
        fill(&skel.maps.wr_fields, &plan.fields)?;
        fill(&skel.maps.wr_sum_ops, &plan.ops)?;
        fill(&skel.maps.wr_values, &plan.values)?;
        Ok($crate::plan_program::LoadedPlan {
            program: skel.progs.$program.as_fd().try_clone_to_owned()?,
            memory: $crate::plan_program::PlanMemory {
                cursor: skel.maps.bss.as_fd().try_clone_to_owned()?,
                states: skel.maps.data_states.as_fd().try_clone_to_owned()?,
                held: skel.maps.wr_held.as_fd().try_clone_to_owned()?,
                flows: skel.maps.wr_flows.as_fd().try_clone_to_owned()?,
            },
            own: skel.maps.$own.as_fd().try_clone_to_owned()?,
        })
    }};
}
pub(crate) use load_plan;

/// Entries of a map: at least one.
pub(crate) fn entries<T>(values: &[T]) -> u32 {
    values.len().max(1) as u32
}

/// Writes the entries of a map.
pub(crate) fn fill<T: Pod>(map: &impl MapCore, values: &[T]) -> libbpf_rs::Result<()> {
    for (index, value) in (0u32..).zip(values) {
        map.update(&index.to_ne_bytes(), bytemuck::bytes_of(value), MapFlags::ANY)?;
    }
    Ok(())
}
