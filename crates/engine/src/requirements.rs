//! What a run requires of an engine.

use crate::{EngineKind, Pace};
use packet::{Config, Cursor, Flags, Plan, Range, Walk, XmitMode, checksum};

/// Settings of a transmission that do not change the bytes of its frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxOptions {
    /// `skb->priority` of each frame.
    pub priority: u32,
    /// Page fragments for the payload; 0 for none.
    pub frags: u32,
    /// NUMA node for the memory of the frames.
    pub node: Option<u32>,
    /// Use the transmit queue of the CPU (QUEUE_MAP_CPU). On CPU 0 the plan looks the same without
    /// it.
    pub queue_of_cpu: bool,
    /// What frames have in place of the right frame check sequence; `None` if the card adds that.
    pub fcs: Option<SendFcs>,
}

/// What engines other than af_packet do not support of [`TxOptions::fcs`].
pub(crate) const OWN_FCS: &str = "frames with a given FCS: only packet sockets can send them";

/// What a frame has in place of the right frame check sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendFcs {
    /// The right one with all bits inverted.
    Bad,
    /// These bytes, in their order on the wire.
    Value([u8; 4]),
}

impl SendFcs {
    /// The four bytes behind `frame`.
    pub fn of(self, frame: &[u8]) -> [u8; 4] {
        match self {
            Self::Bad => checksum::frame_check_sequence(frame).map(|byte| !byte),
            Self::Value(bytes) => bytes,
        }
    }
}

impl TxOptions {
    /// The options of `config`.
    pub fn of(config: &Config) -> Self {
        let node = u32::try_from(config.node).ok();
        Self {
            priority: config.skb_priority,
            frags: u32::try_from(config.frags).unwrap_or(0),
            node: node.filter(|_| config.flags.has(Flags::NODE)),
            queue_of_cpu: config.flags.has(Flags::QUEUE_MAP_CPU),
            fcs: None,
        }
    }
}

/// What an engine must do. The calling thread is pinned to `cpu` and in the namespace of the
/// device.
#[derive(Debug)]
pub(crate) struct Requirements<'a> {
    pub(crate) ifname: &'a str,
    pub(crate) plan: &'a Plan,
    pub(crate) cursor: Cursor,
    pub(crate) mode: XmitMode,
    pub(crate) options: TxOptions,
    pub(crate) engine: Option<EngineKind>,
    pub(crate) pace: Pace,
    /// Engines that were tried and sent nothing, and why.
    pub(crate) ruled_out: &'a [(EngineKind, String)],
    pub(crate) batch: Option<u32>,
    pub(crate) cpu: u32,
    /// The thread has other runs.
    pub(crate) is_one_of_several: bool,
}

/// Options of an engine beside the plan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BuildOptions {
    pub(crate) tx: TxOptions,
    pub(crate) queues: QueueMap,
    /// Batch size; each engine has its own limits.
    pub(crate) batch: Option<u32>,
}

/// Transmit queues of the frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueMap {
    /// Any queue.
    Any,
    /// The queue of the sending CPU.
    OfCpu,
    /// The queue that the plan has for each frame.
    Listed,
}

impl QueueMap {
    /// The queues for frames of `plan` sent from `cpu`. Queue 0 alone is the default of pktgen and
    /// counts as unset.
    pub(crate) fn of(plan: &Plan, cpu: u32, options: TxOptions) -> Self {
        let count = u32::from(plan.queue_count);
        match plan.queue {
            _ if count <= 1 => Self::Any,
            _ if options.queue_of_cpu => Self::OfCpu,
            Range { walk: Walk::Fixed, min: 0, .. } => Self::Any,
            Range { walk: Walk::Fixed, min, .. } if min == cpu % count => Self::OfCpu,
            _ => Self::Listed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::{DeviceFacts, sample};

    fn queue_map(change: fn(&mut Config), tx_queues: u16) -> QueueMap {
        let mut config = Config::default();
        change(&mut config);
        let facts = DeviceFacts { tx_queues, ..sample::facts() };
        config.prepare(&facts);
        let mut cursor = Cursor::default();
        cursor.start(&config, &facts, 1);
        let plan = Plan::new(&config, &facts, &cursor).expect("a good configuration");
        QueueMap::of(&plan, facts.cpu, TxOptions::of(&config))
    }

    #[test]
    fn queue_zero_alone_is_unset_and_one_queue_needs_no_map() {
        assert_eq!(queue_map(|_| (), 4), QueueMap::Any);
        assert_eq!(queue_map(|config| config.queue_map_max = 2, 4), QueueMap::Listed);
        assert_eq!(queue_map(|config| config.queue_map_max = 2, 1), QueueMap::Any);
        assert_eq!(queue_map(|config| config.flags.set(Flags::QUEUE_MAP_CPU, true), 4), QueueMap::OfCpu);
        assert_eq!(queue_map(|config| config.flags.set(Flags::QUEUE_MAP_CPU, true), 1), QueueMap::Any);
        let one = |config: &mut Config| (config.queue_map_min, config.queue_map_max) = (2, 2);
        assert_eq!(queue_map(one, 4), QueueMap::Listed);
    }

    #[test]
    fn a_node_without_its_flag_is_unset() {
        let mut config = Config { node: 1, frags: -3, ..Config::default() };
        assert_eq!(TxOptions::of(&config), TxOptions::default());
        config.flags.set(Flags::NODE, true);
        assert_eq!(TxOptions::of(&config).node, Some(1));
    }
}
