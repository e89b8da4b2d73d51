//! One packet as a file has it.

/// Direction of a packet, where the file has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Received.
    Inbound,
    /// Sent.
    Outbound,
}

/// One packet of a file, borrowing its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Its number within one loop, from 1 on.
    pub number: u64,
    /// When it passed, in nanoseconds since 1970; `None` if the file has no time for it.
    pub time_ns: Option<u64>,
    /// Its length on the link, in bytes.
    pub frame_len: u32,
    /// The captured bytes.
    pub data: &'a [u8],
    /// LINKTYPE_ number of its interface.
    pub link_type: u16,
    /// Number of its interface in the file.
    pub interface: u32,
    /// Name of its interface, where the file has it.
    pub interface_name: Option<&'a str>,
    /// Its direction, where the file has it.
    pub direction: Option<Direction>,
    /// Number of its file among those of a run, from 0 on.
    pub file: usize,
}

impl Record<'_> {
    /// True if the file has fewer bytes than the packet had.
    pub fn is_cut(&self) -> bool {
        self.frame_len as usize > self.data.len()
    }
}
