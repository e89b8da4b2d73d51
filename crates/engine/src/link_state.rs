//! The link of a run that keeps going while its device is down or without carrier.

use crate::EngineError;

/// How often such a run looks whether the link is back: the kernel is asked once for many frames.
pub(crate) const LINK_LOOK_NS: u64 = 1_000_000;

/// Times in which the link was down, of a run that kept going.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interruptions {
    /// How many.
    pub times: u64,
    /// From the last frame before the longest to the first behind it.
    pub longest_ns: u64,
}

impl Interruptions {
    /// Those of one more device or thread: the times of all, and the longest.
    pub(crate) fn add(&mut self, other: Self) {
        self.times += other.times;
        self.longest_ns = self.longest_ns.max(other.longest_ns);
    }
}

/// Whether the link of a device is down, and for how long it was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkState {
    is_down: bool,
    interruptions: Interruptions,
    /// No frame was sent since the last interruption.
    resumes: bool,
    /// When the last frame was sent.
    last_sent_ns: u64,
    /// When the kernel was asked last.
    looked_ns: u64,
}

impl LinkState {
    /// Of a run that starts now.
    pub(crate) fn new(now_ns: u64) -> Self {
        Self {
            is_down: false,
            interruptions: Interruptions::default(),
            resumes: false,
            last_sent_ns: now_ns,
            looked_ns: 0,
        }
    }

    /// True from [`Self::went_down`] until the link is seen up again.
    pub(crate) fn is_down(&self) -> bool {
        self.is_down
    }

    /// Frames are no longer accepted, because the link is down.
    pub(crate) fn went_down(&mut self) {
        self.is_down = true;
        self.interruptions.times += u64::from(!std::mem::replace(&mut self.resumes, true));
    }

    /// Looks for the link, if the last look is long enough ago. `trouble` asks the kernel why the
    /// device cannot send. Returns whether the link is down.
    ///
    /// # Errors
    /// Another trouble, such as that the device is gone.
    pub(crate) fn look(
        &mut self,
        now_ns: u64,
        trouble: impl FnOnce() -> Option<EngineError>,
    ) -> Result<bool, EngineError> {
        if self.is_down && now_ns.saturating_sub(self.looked_ns) >= LINK_LOOK_NS {
            self.looked_ns = now_ns;
            self.is_down = match trouble() {
                Some(trouble) if trouble.is_link_down() => true,
                Some(trouble) => return Err(trouble),
                None => false,
            };
        }
        Ok(self.is_down)
    }

    /// Frames were sent; the first ones behind an interruption end it.
    pub(crate) fn note_sent(&mut self, now_ns: u64) {
        if std::mem::take(&mut self.resumes) {
            let longest_ns = now_ns.saturating_sub(self.last_sent_ns);
            self.interruptions.longest_ns = self.interruptions.longest_ns.max(longest_ns);
        }
        self.last_sent_ns = now_ns;
    }

    /// All interruptions so far.
    pub(crate) fn interruptions(&self) -> Interruptions {
        self.interruptions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn down() -> Option<EngineError> {
        Some(EngineError::NoCarrier { ifname: "eth1".to_owned() })
    }

    #[test]
    fn an_interruption_lasts_from_the_last_frame_before_it_to_the_first_behind_it() {
        let mut link = LinkState::new(0);
        link.note_sent(1_000);
        link.went_down();
        assert!(link.look(2_000_000, down).unwrap());
        assert!(link.look(2_000_001, || None).unwrap(), "the kernel is not asked again at once");
        assert!(!link.look(3_000_000, || None).unwrap());
        // Frames are refused again before one was sent: the same interruption.
        link.went_down();
        assert!(!link.look(5_000_000, || None).unwrap());
        link.note_sent(6_001_000);
        link.note_sent(99_000_000);
        assert_eq!(link.interruptions(), Interruptions { times: 1, longest_ns: 6_000_000 });
    }

    #[test]
    fn a_device_that_is_gone_does_not_come_back() {
        let mut link = LinkState::new(0);
        link.went_down();
        let gone = || Some(EngineError::Gone { ifname: "eth1".to_owned() });
        assert!(matches!(link.look(2_000_000, gone), Err(EngineError::Gone { .. })));
    }
}
