//! The program that an engine calls, kept in the XDP dispatcher: its own one, or one that the
//! streams of a thread share.

use super::dispatcher::DispatcherSlot;
use super::slow_calls::{SlowCalls, sleeps_of_this_thread};
use crate::EngineError;
use bpf::{Attachable, Sender, StreamSwitch};
use std::cell::RefCell;
use std::io;
use std::rc::{Rc, Weak};

/// A program that is attached from its first burst of several frames on.
#[derive(Debug)]
pub(super) struct SharedAttachment {
    program: Attachable,
    slow_calls: SlowCalls,
    /// More than one if the first got no dispatcher slot. They are dropped together: detaching the
    /// first alone would free the slot of the second, because the kernel counts attachments per
    /// program.
    slots: Vec<DispatcherSlot>,
}

impl SharedAttachment {
    fn new(program: io::Result<Attachable>) -> Result<Self, EngineError> {
        let program = program.map_err(no_descriptor)?;
        let first = DispatcherSlot::of(program.try_clone().map_err(no_descriptor)?)?;
        Ok(Self { program, slow_calls: SlowCalls::default(), slots: vec![first] })
    }

    /// For the program of `sender` alone.
    ///
    /// # Errors
    /// When this process cannot create namespaces or has no file descriptors left.
    pub(super) fn own(sender: &Sender) -> Result<Rc<RefCell<Self>>, EngineError> {
        Ok(Rc::new(RefCell::new(Self::new(sender.attachable())?)))
    }

    /// True once the program is attached, if it has to be.
    pub(super) fn is_ready(&mut self) -> Result<bool, EngineError> {
        self.slots.last_mut().map_or(Ok(true), DispatcherSlot::is_ready)
    }

    /// Attaches the program again if its calls wait for the dispatcher, because a slot became free
    /// since the first time.
    pub(super) fn add_call(&mut self, started_ns: u64, ended_ns: u64) {
        if self.slow_calls.add(started_ns, ended_ns, sleeps_of_this_thread) {
            // If the kernel rejects it, the run stays slow, and the next slow calls retry it.
            self.slots.extend(self.program.try_clone().ok().and_then(|again| DispatcherSlot::of(again).ok()));
        }
    }

    /// True if the first attachment got no slot.
    pub(super) fn was_attached_again(&self) -> bool {
        self.slots.len() > 1
    }
}

fn no_descriptor(source: io::Error) -> EngineError {
    EngineError::Syscall { call: "dup", ifname: "a program".to_owned(), source }
}

/// The program that the streams of a thread share, while there are streams.
#[derive(Debug, Default)]
pub(crate) struct SharedProgram {
    switch: Weak<StreamSwitch>,
    attachment: Weak<RefCell<SharedAttachment>>,
}

impl SharedProgram {
    /// Adds the program of `sender`.
    ///
    /// # Errors
    /// When this process cannot create namespaces or has no file descriptors left, or when the
    /// kernel rejects the shared program.
    pub(super) fn add(&mut self, sender: &mut Sender) -> Result<Rc<RefCell<SharedAttachment>>, EngineError> {
        let (switch, attachment) = match self.switch.upgrade().zip(self.attachment.upgrade()) {
            Some(existing) => existing,
            None => {
                let switch = Rc::new(StreamSwitch::load()?);
                let attachment = SharedAttachment::new(switch.attachable())?;
                (switch, Rc::new(RefCell::new(attachment)))
            }
        };
        (self.switch, self.attachment) = (Rc::downgrade(&switch), Rc::downgrade(&attachment));
        if sender.join(&switch)? { Ok(attachment) } else { SharedAttachment::own(sender) }
    }
}
