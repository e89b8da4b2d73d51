//! Interface description block: the source of packets and the meaning of their times.

use crate::body::Body;
use crate::options::{self, COMMENT, Emitter, RawValue, VALUE_LEN_MAX, set};
use crate::time::TimeScale;
use crate::{ByteOrder, RawOption, ReadError, frame};

/// Link type of Ethernet frames (LINKTYPE_ETHERNET).
pub const LINK_TYPE_ETHERNET: u16 = 1;

pub(crate) const NAME: u16 = 2;
pub(crate) const DESCRIPTION: u16 = 3;
pub(crate) const MAC: u16 = 6;
pub(crate) const SPEED: u16 = 8;
pub(crate) const TIME_RESOLUTION: u16 = 9;
pub(crate) const FILTER: u16 = 11;
pub(crate) const OS: u16 = 12;
pub(crate) const TIME_OFFSET: u16 = 14;
pub(crate) const HARDWARE: u16 = 15;

/// Options with one number: time zone, and link speeds of both directions.
const NUMBERS: [u16; 3] = [10, 16, 17];

/// First byte of a filter option whose rest is the text of a libpcap filter.
pub(crate) const FILTER_TEXT: u8 = 0;
/// Times in units of 10^-9 seconds, which is what is always written.
pub(crate) const NANOSECONDS: u8 = 9;

/// One place where packets were captured. The first of a section is number 0, the next 1, and so
/// on.
///
/// Times are always written in nanoseconds (`if_tsresol` 9). `if_fcslen` is never written: Linux
/// hands frames over without their FCS and does not say how long it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// What the bytes of a packet begin with, as registered for pcap; see [`LINK_TYPE_ETHERNET`].
    pub link_type: u16,
    /// Most bytes kept of a packet; 0 for no limit.
    pub snaplen: u32,
    /// The system's name of it, such as `eth0`.
    pub name: Option<String>,
    /// A person's name of it.
    pub description: Option<String>,
    /// Its address on an Ethernet.
    pub mac: Option<[u8; 6]>,
    /// Link speed in bits per second.
    pub speed_bps: Option<u64>,
    /// The filter that packets had to pass, in libpcap's language.
    pub filter: Option<String>,
    /// The operating system of the machine it is in.
    pub os: Option<String>,
    /// The device's make ("ixgbe 10GBASE-T"); the name of its driver is a good start.
    pub hardware: Option<String>,
    /// Seconds added to every time of the file to give seconds since 1970. Written when not zero.
    pub time_offset_s: i64,
    /// Comment of the author.
    pub comment: Option<String>,
    /// Options that no field above holds.
    pub other: Vec<RawOption>,
}

impl Default for Interface {
    /// An Ethernet without a limit and without a name.
    fn default() -> Self {
        Self {
            link_type: LINK_TYPE_ETHERNET,
            snaplen: 0,
            name: None,
            description: None,
            mac: None,
            speed_bps: None,
            filter: None,
            os: None,
            hardware: None,
            time_offset_s: 0,
            comment: None,
            other: Vec::new(),
        }
    }
}

impl Interface {
    /// Appends the block in little-endian order.
    pub fn emit(&self, out: &mut Vec<u8>) {
        self.emit_as(ByteOrder::Little, out);
    }

    /// Appends the block in the order of its section.
    pub fn emit_as(&self, order: ByteOrder, out: &mut Vec<u8>) {
        frame::emit(order, frame::INTERFACE, out, |out| {
            out.extend_from_slice(&order.emit_u16(self.link_type));
            out.extend_from_slice(&[0; 2]);
            out.extend_from_slice(&order.emit_u32(self.snaplen));
            self.emit_options(Emitter::new(order, out));
        });
    }

    fn emit_options(&self, mut options: Emitter<'_>) {
        options.text(COMMENT, self.comment.as_deref());
        options.text(NAME, self.name.as_deref());
        options.text(DESCRIPTION, self.description.as_deref());
        if let Some(mac) = &self.mac {
            options.bytes(MAC, mac);
        }
        options.number_u64(SPEED, self.speed_bps);
        options.bytes(TIME_RESOLUTION, &[NANOSECONDS]);
        if let Some(filter) = &self.filter {
            options.bytes(FILTER, &filter_value(filter));
        }
        options.text(OS, self.os.as_deref());
        options.text(HARDWARE, self.hardware.as_deref());
        if self.time_offset_s != 0 {
            options.number_u64(TIME_OFFSET, Some(self.time_offset_s as u64));
        }
        let mut other = self.other.clone();
        swap_numbers(&mut other, options.order);
        options.raw(&other);
        options.end();
    }

    /// The interface, and how its times are to be read.
    pub(crate) fn parse(mut body: Body<'_>) -> Result<(Self, TimeScale), ReadError> {
        let order = body.order;
        let mut interface = Self { link_type: body.u16("the link type")?, ..Self::default() };
        body.u16("the reserved field")?;
        interface.snaplen = body.u32("the snaplen")?;
        let mut resolution = None;
        let mut time_offset_s = None;
        options::parse(body, &mut interface.other, |option| match option.code {
            COMMENT => set(&mut interface.comment, option.string()),
            NAME => set(&mut interface.name, option.string()),
            DESCRIPTION => set(&mut interface.description, option.string()),
            MAC => set(&mut interface.mac, option.bytes()),
            SPEED => set(&mut interface.speed_bps, option.number_u64()),
            FILTER => set(&mut interface.filter, filter_text(option)),
            OS => set(&mut interface.os, option.string()),
            HARDWARE => set(&mut interface.hardware, option.string()),
            // These two are never kept raw: a second one beside the one that we write would be read
            // as it likes.
            TIME_RESOLUTION => {
                set(&mut resolution, option.bytes());
                true
            }
            TIME_OFFSET => {
                set(&mut time_offset_s, option.number_u64());
                true
            }
            _ => false,
        })?;
        swap_numbers(&mut interface.other, order);
        interface.time_offset_s = time_offset_s.unwrap_or(0) as i64;
        let [resolution] = resolution.unwrap_or([TimeScale::RESOLUTION_DEFAULT]);
        let scale = TimeScale { resolution, offset_s: interface.time_offset_s };
        Ok((interface, scale))
    }
}

/// Swaps the numbers of options between little-endian order and `order`.
fn swap_numbers(options: &mut [RawOption], order: ByteOrder) {
    for option in options.iter_mut().filter(|option| NUMBERS.contains(&option.code)) {
        let len = option.value.len();
        option.swap_number(order, len);
    }
}

fn filter_text(option: &RawValue<'_>) -> Option<String> {
    let text = option.value.strip_prefix(&[FILTER_TEXT])?;
    str::from_utf8(text).ok().map(str::to_owned)
}

fn filter_value(filter: &str) -> Vec<u8> {
    let len = filter.floor_char_boundary(VALUE_LEN_MAX - 1);
    let mut value = vec![FILTER_TEXT];
    value.extend_from_slice(&filter.as_bytes()[..len]);
    value
}
