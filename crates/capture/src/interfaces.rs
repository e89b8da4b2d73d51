//! The interfaces of a file: their numbers per device, queue and clock, and their descriptions.

use crate::record::batch::INTERFACE_COUNT_MAX;
use crate::record::format::Format;
use crate::time::phc::PhcClock;
use crate::{CaptureError, ClockMode, Options, describe};
use bpf::capture::RecordFormat;
use host::{Link, Stack};
use pcapng::Interface;

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

    /// The same device with stamps of its own.
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

/// Every interface of a capture.
#[derive(Clone, Debug, Default)]
pub(crate) struct InterfaceList {
    /// In the order of their numbers.
    pub(crate) all: Vec<Interface>,
}

impl InterfaceList {
    /// What the frames of each begin with.
    pub(crate) fn link_types(&self) -> Vec<u16> {
        self.all.iter().map(|interface| interface.link_type).collect()
    }

    /// Adds those of `link`, a device of `stack`; frames stamped by `clock` have interfaces of
    /// their own.
    ///
    /// # Errors
    /// [`CaptureError::LinkLayer`].
    pub(crate) fn add(
        &mut self,
        stack: &Stack,
        link: &Link,
        options: &Options,
        clock: Option<&PhcClock>,
        is_promiscuous: bool,
    ) -> Result<Numbering, CaptureError> {
        let netns = options.netns.as_ref().map(ToString::to_string);
        let interface = Interface {
            filter: options.filter.clone(),
            comment: is_promiscuous.then(|| "promiscuous mode".to_owned()),
            ..describe::interface(stack, link, netns.as_deref(), options.snaplen)?
        };
        let first = self.all.len() as u32;
        let own = match options.per_queue {
            false => vec![interface],
            true => (0..link.rx_queues.max(1)).map(|queue| of_queue(&interface, queue)).collect(),
        };
        self.all.extend_from_slice(&own);
        // One kind of interface for each clock: any tool shows by which one a packet came.
        let has_clock = clock.is_some() && options.format != Format::Pcap;
        if let Some(clock) = clock.filter(|_| has_clock) {
            self.all.extend(own.iter().map(|interface| stamped(interface, clock, options.clock)));
        }
        if self.all.len() > INTERFACE_COUNT_MAX {
            let must = format!("at most {INTERFACE_COUNT_MAX}");
            return Err(CaptureError::BadOption {
                what: "the number of interfaces",
                value: self.all.len() as u64,
                must,
            });
        }
        Ok(Numbering { first, count: own.len() as u32, has_clock })
    }
}

/// The same place for frames that the device stamped: `eth0 hardware`.
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
