//! The interfaces of a file: which number frames of a device and queue go by, and what the file says of each.

use crate::{CaptureError, Options, device};
use host::{Link, Stack};
use pcapng::Interface;

/// The interface numbers of one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Numbering {
    /// Of its first queue.
    first: u32,
    /// How many interfaces it has: one, or one for each queue.
    count: u32,
}

impl Numbering {
    /// The interface of a queue. A queue beyond those that the device said to have goes by the last one; its own
    /// number is in the packet all the same.
    #[inline]
    pub(crate) fn of_queue(&self, queue_index: u16) -> u32 {
        self.first + u32::from(queue_index).min(self.count - 1)
    }

    /// That of a capture of one device, whose queues share one interface.
    #[cfg(test)]
    pub(crate) fn single() -> Self {
        Self { first: 0, count: 1 }
    }

    /// All of them.
    pub(crate) fn numbers(&self) -> std::ops::Range<u32> {
        self.first..self.first + self.count
    }
}

/// Every interface of a capture.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interfaces {
    /// In the order of their numbers.
    pub(crate) all: Vec<Interface>,
}

impl Interfaces {
    /// What the frames of each begin with.
    pub(crate) fn link_types(&self) -> Vec<u16> {
        self.all.iter().map(|interface| interface.link_type).collect()
    }

    /// Adds those of `link`, a device of `stack`.
    ///
    /// # Errors
    /// [`CaptureError::LinkLayer`].
    pub(crate) fn add(
        &mut self,
        stack: &Stack,
        link: &Link,
        options: &Options,
    ) -> Result<Numbering, CaptureError> {
        let netns = options.netns.as_ref().map(ToString::to_string);
        let interface = Interface {
            filter: options.filter.clone(),
            ..device::interface(stack, link, netns.as_deref(), options.snaplen)?
        };
        let first = self.all.len() as u32;
        if !options.per_queue {
            self.all.push(interface);
            return Ok(Numbering { first, count: 1 });
        }
        let count = link.rx_queues.max(1);
        self.all.extend((0..count).map(|queue| of_queue(&interface, queue)));
        Ok(Numbering { first, count })
    }
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
        let numbering = Numbering { first: 3, count: 4 };
        assert_eq!([0, 3, 4, 65_535].map(|queue| numbering.of_queue(queue)), [3, 6, 6, 6]);
        assert_eq!(numbering.numbers(), 3..7);
        assert_eq!(Numbering { first: 2, count: 1 }.of_queue(9), 2);
    }

    #[test]
    fn an_interface_of_a_queue_is_named_after_both() {
        let device = Interface { name: Some("eth0".to_owned()), snaplen: 96, ..Interface::default() };
        let queue = of_queue(&device, 2);
        assert_eq!((queue.name.as_deref(), queue.snaplen), (Some("eth0 queue 2"), 96));
    }
}
