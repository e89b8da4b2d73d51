//! The interfaces of files: their numbers per device, queue and clock, and their descriptions.

use crate::record::batch::INTERFACE_COUNT_MAX;
use crate::record::format::Format;
use crate::time::phc::PhcClock;
use crate::{CaptureError, ClockMode, Options, describe};
use bpf::capture::RecordFormat;
use host::{Link, Stack};
use pcapng::{Interface, Section};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, PoisonError, RwLock};

/// The interface numbers of one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Numbering {
    /// Of its first queue.
    first: u32,
    /// How many interfaces it has: one, or one for each queue.
    count: u32,
    /// True when as many follow for the frames that the device stamped.
    has_clock: bool,
}

impl Numbering {
    /// The interface of a queue. A queue beyond those that the device said to have goes by the last
    /// one; its own number is in the packet all the same.
    #[inline]
    fn of_queue(&self, queue_index: u16) -> u32 {
        self.first + u32::from(queue_index).min(self.count - 1)
    }

    /// The interface of a queue, for frames that the device stamped or for all others.
    #[inline]
    pub(crate) fn interface(&self, queue_index: u16, is_stamped: bool) -> u32 {
        self.of_queue(queue_index) + if is_stamped && self.has_clock { self.count } else { 0 }
    }

    /// That of a capture of one device, whose queues share one interface.
    #[cfg(test)]
    pub(crate) fn single() -> Self {
        Self { first: 0, count: 1, has_clock: false }
    }

    /// That of a device with this interface.
    #[cfg(test)]
    pub(crate) fn of_one(first: u32) -> Self {
        Self { first, ..Self::single() }
    }

    /// Numbers a second set of interfaces, for frames that the device stamps itself.
    #[cfg(test)]
    pub(crate) fn with_clock(self) -> Self {
        Self { has_clock: true, ..self }
    }

    /// Finished blocks of frames that the device did not stamp.
    pub(crate) fn blocks(&self) -> RecordFormat {
        RecordFormat::Blocks { first_interface: self.first, interface_count: self.count }
    }

    /// All of them.
    pub(crate) fn numbers(&self) -> std::ops::Range<u32> {
        self.first..self.first + self.count * if self.has_clock { 2 } else { 1 }
    }
}

/// Every interface of a capture, in the order of their numbers. Devices that appear later add
/// theirs.
#[derive(Debug)]
pub(crate) struct InterfaceTable {
    all: RwLock<Vec<Interface>>,
    /// Of [`Self::all`], for those who look before each write.
    count: AtomicUsize,
    netns: Option<String>,
    filter: Option<String>,
    snaplen: u32,
    per_queue: bool,
    format: Format,
    clock: ClockMode,
}

impl InterfaceTable {
    /// Without an interface.
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            all: RwLock::default(),
            count: AtomicUsize::new(0),
            netns: options.netns.as_ref().map(ToString::to_string),
            filter: options.filter.clone(),
            snaplen: options.snaplen,
            per_queue: options.per_queue,
            format: options.format,
            clock: options.clock,
        }
    }

    /// How many there are.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.count.load(Acquire)
    }

    /// Those from number `first` on.
    pub(crate) fn since(&self, first: usize) -> Vec<Interface> {
        self.all.read().unwrap_or_else(PoisonError::into_inner)[first..].to_vec()
    }

    /// What the frames of each begin with.
    pub(crate) fn link_types(&self) -> Vec<u16> {
        self.since(0).iter().map(|interface| interface.link_type).collect()
    }

    /// Adds those of `link`, a device of `stack`; frames stamped by `clock` have interfaces of
    /// their own.
    ///
    /// # Errors
    /// [`CaptureError::LinkLayer`]; [`CaptureError::BadOption`] if there are too many.
    pub(crate) fn add(
        &self,
        stack: &Stack,
        link: &Link,
        clock: Option<&PhcClock>,
        is_promiscuous: bool,
    ) -> Result<Numbering, CaptureError> {
        let interface = Interface {
            filter: self.filter.clone(),
            comment: is_promiscuous.then(|| "promiscuous mode".to_owned()),
            ..describe::interface(stack, link, self.netns.as_deref(), self.snaplen)?
        };
        let mut own = match self.per_queue {
            false => vec![interface],
            true => (0..link.rx_queues.max(1)).map(|queue| of_queue(&interface, queue)).collect(),
        };
        let count = own.len() as u32;
        // One kind of interface for each clock: any tool shows by which one a packet came.
        let has_clock = clock.is_some() && self.format != Format::Pcap;
        if let Some(clock) = clock.filter(|_| has_clock) {
            own.extend_from_within(..);
            own[count as usize..].iter_mut().for_each(|one| *one = stamped(one, clock, self.clock));
        }
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        let total = all.len() + own.len();
        if total > INTERFACE_COUNT_MAX {
            let must = format!("at most {INTERFACE_COUNT_MAX}");
            return Err(CaptureError::BadOption {
                what: "the number of interfaces",
                value: total as u64,
                must,
            });
        }
        let first = all.len() as u32;
        all.append(&mut own);
        self.count.store(total, Release);
        Ok(Numbering { first, count, has_clock })
    }
}

/// What the files of one output begin with.
#[derive(Clone, Debug)]
pub(crate) struct FileHead {
    pub(crate) format: Format,
    pub(crate) section: Section,
    pub(crate) interfaces: Arc<InterfaceTable>,
    /// Filter and snaplen of one of several outputs.
    pub(crate) of_output: Option<(Option<String>, u32)>,
}

impl FileHead {
    /// Interfaces of the capture by now.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.interfaces.count()
    }

    /// The first bytes of a file, and the interfaces that they describe.
    pub(crate) fn header(&self) -> (Vec<u8>, usize) {
        let all = self.interfaces_since(0);
        (self.format.header(&self.section, &all), all.len())
    }

    /// Descriptions of the interfaces from number `first` on, for a file that has the others; and
    /// how many it has then.
    pub(crate) fn blocks_since(&self, first: usize) -> (Vec<u8>, usize) {
        let more = self.interfaces_since(first);
        let mut blocks = Vec::new();
        if self.format != Format::Pcap {
            more.iter().for_each(|interface| interface.emit(&mut blocks));
        }
        (blocks, first + more.len())
    }

    fn interfaces_since(&self, first: usize) -> Vec<Interface> {
        let mut all = self.interfaces.since(first);
        if let Some((filter, snaplen)) = &self.of_output {
            all.iter_mut().for_each(|one| (one.filter, one.snaplen) = (filter.clone(), *snaplen));
        }
        all
    }

    /// Of one interface, without its device, for tests.
    #[cfg(test)]
    pub(crate) fn for_test(format: Format) -> Self {
        let interfaces = InterfaceTable::new(&Options { format, ..Options::new("eth0") });
        interfaces.add_for_test(Interface::default());
        Self { format, section: Section::default(), interfaces: Arc::new(interfaces), of_output: None }
    }
}

#[cfg(test)]
impl InterfaceTable {
    pub(crate) fn add_for_test(&self, interface: Interface) {
        let mut all = self.all.write().unwrap();
        all.push(interface);
        self.count.store(all.len(), Release);
    }
}

/// The interface for frames that the device stamped, made of the one for all others:
/// `eth0 hardware`.
fn stamped(interface: &Interface, clock: &PhcClock, mode: ClockMode) -> Interface {
    let what = match mode {
        ClockMode::Phc => "as they are",
        ClockMode::Utc | ClockMode::System => "converted to time of day",
    };
    let words = [interface.description.as_deref().unwrap_or_default(), &clock.describe(), what].join("; ");
    let name = interface.name.as_deref().unwrap_or_default();
    Interface { name: Some(format!("{name} hardware")), description: Some(words), ..interface.clone() }
}

/// `eth0` and its third queue make `eth0 queue 2`.
fn of_queue(interface: &Interface, queue: u32) -> Interface {
    let name = interface.name.as_deref().unwrap_or_default();
    Interface { name: Some(format!("{name} queue {queue}")), ..interface.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_without_an_interface_go_by_the_last_one() {
        let numbering = Numbering { first: 3, count: 4, has_clock: false };
        assert_eq!([0, 3, 4, 65_535].map(|queue| numbering.of_queue(queue)), [3, 6, 6, 6]);
        assert_eq!(numbering.numbers(), 3..7);
        assert_eq!(numbering.interface(3, true), 6);
        let clocked = Numbering { has_clock: true, ..numbering };
        assert_eq!([0, 3, 65_535].map(|queue| clocked.interface(queue, true)), [7, 10, 10]);
        assert_eq!((clocked.of_queue(3), clocked.numbers()), (6, 3..11));
        assert_eq!(Numbering { first: 2, count: 1, has_clock: false }.of_queue(9), 2);
    }

    #[test]
    fn an_interface_of_a_queue_is_named_after_both() {
        let device = Interface { name: Some("eth0".to_owned()), snaplen: 96, ..Interface::default() };
        let queue = of_queue(&device, 2);
        assert_eq!((queue.name.as_deref(), queue.snaplen), (Some("eth0 queue 2"), 96));
    }
}
