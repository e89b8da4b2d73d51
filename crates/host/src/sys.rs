//! Ioctls of drivers without a netlink equivalent, or with a recent one: driver identity, counters,
//! timestamping, clocks of cards; and supported socket families.

use crate::stamp_config::StampConfig;
use nix::errno::Errno;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

const GET_DRIVER: u32 = 0x03;
const GET_STRINGS: u32 = 0x1b;
const GET_STATS: u32 = 0x1d;
/// `ETH_SS_STATS`: the names of the driver's counters.
const SET_STATS: u32 = 1;
/// `ETH_GSTRING_LEN`.
const STRING_LEN: usize = 32;

/// True if the kernel supports sockets of that address family.
pub(crate) fn knows_sockets(family: i32) -> bool {
    // SAFETY: numbers in, a descriptor or an error out. Protocol 0 receives nothing.
    let fd = unsafe { libc::socket(family, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return io::Error::last_os_error().raw_os_error() == Some(libc::EPERM);
    }
    // SAFETY: the call succeeded, so `fd` is a new descriptor with no other owner.
    drop(unsafe { OwnedFd::from_raw_fd(fd) });
    true
}

/// True if this process ignores a signal, as after `nohup` or in the background of a script.
pub fn is_signal_ignored(signal: i32) -> bool {
    // SAFETY: `struct sigaction` is integers, a set of bits and an optional function, for which
    // zeros are valid.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: without a new action the call changes nothing; it writes one `struct sigaction`,
    // which `action` is; it is ours alone and outlives the call.
    let asked = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
    asked == 0 && action.sa_sigaction == libc::SIG_IGN
}

/// Lets all threads of this process take memory from one arena of the C library, for a command
/// whose threads allocate little: the first memory of an arena, and more of it page by page, take
/// some 60 system calls of a short run.
pub fn share_one_arena() {
    // SAFETY: two numbers in, and memory that was taken before stays where it is.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// What the kernel says about `CLOCK_REALTIME` (adjtimex(2)).
pub(crate) struct ClockState {
    /// -1 if the kernel refuses.
    pub(crate) state: i32,
    pub(crate) status: i32,
    pub(crate) max_error_us: u64,
    /// How much `CLOCK_TAI` is ahead.
    pub(crate) tai_offset_s: i32,
}

pub(crate) fn clock_state() -> ClockState {
    // SAFETY: `struct timex` is plain integers, for which zeros are valid.
    let mut timex: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: with `modes` 0 the call changes nothing; it writes one `struct timex`, which `timex`
    // is; it is ours alone and outlives the call.
    let state = unsafe { libc::adjtimex(&raw mut timex) };
    ClockState {
        state,
        status: timex.status,
        max_error_us: u64::try_from(timex.maxerror).unwrap_or(0),
        tai_offset_s: timex.tai,
    }
}

/// `struct ethtool_drvinfo`.
#[repr(C)]
pub(crate) struct DriverInfo {
    command: u32,
    pub(crate) driver: [u8; 32],
    pub(crate) version: [u8; 32],
    pub(crate) firmware: [u8; 32],
    pub(crate) bus_info: [u8; 32],
    rom: [u8; 32],
    reserved: [u8; 12],
    private_flag_count: u32,
    pub(crate) counter_count: u32,
    other_counts: [u32; 3],
}
const _: () = assert!(size_of::<DriverInfo>() == 196, "keep in step with linux/ethtool.h");

/// The driver of device `ifname` in the namespace of `socket`.
pub(crate) fn driver_info(socket: BorrowedFd<'_>, ifname: &str) -> io::Result<DriverInfo> {
    let mut info = DriverInfo {
        command: GET_DRIVER,
        driver: [0; 32],
        version: [0; 32],
        firmware: [0; 32],
        bus_info: [0; 32],
        rom: [0; 32],
        reserved: [0; 12],
        private_flag_count: 0,
        counter_count: 0,
        other_counts: [0; 3],
    };
    // SAFETY: ETHTOOL_GDRVINFO reads and writes exactly one `struct ethtool_drvinfo`, which `info`
    // is; it is ours alone and outlives the call.
    unsafe { ethtool(socket, ifname, (&raw mut info).cast())? };
    Ok(info)
}

/// Counters of the driver by name; `count` is from [`driver_info`].
pub(crate) fn driver_counters(
    socket: BorrowedFd<'_>,
    ifname: &str,
    count: u32,
) -> io::Result<(Vec<String>, Vec<u64>)> {
    let names = counter_names(socket, ifname, count)?;
    let values = counter_values(socket, ifname, count)?;
    Ok((names, values))
}

fn counter_names(socket: BorrowedFd<'_>, ifname: &str, count: u32) -> io::Result<Vec<String>> {
    // struct ethtool_gstrings: command, set, count, then 32 bytes each.
    const HEAD_LEN: usize = 12;
    let mut buffer = vec![0u32; (HEAD_LEN + capacity(count) * STRING_LEN).div_ceil(4)];
    buffer[..3].copy_from_slice(&[GET_STRINGS, SET_STATS, count]);
    // SAFETY: `buffer` is ours alone, outlives the call and holds the head and `capacity(count)`
    // names. The kernel writes as many as the driver has now; `capacity` leaves space for an
    // increase.
    unsafe { ethtool(socket, ifname, buffer.as_mut_ptr().cast())? };
    let found = (buffer[2] as usize).min(capacity(count));
    let bytes: Vec<u8> = buffer[3..].iter().flat_map(|word| word.to_ne_bytes()).collect();
    Ok(bytes.chunks_exact(STRING_LEN).take(found).map(text).collect())
}

fn counter_values(socket: BorrowedFd<'_>, ifname: &str, count: u32) -> io::Result<Vec<u64>> {
    // struct ethtool_stats: command and count in one word of 8 bytes, then the values.
    let mut buffer = vec![0u64; 1 + capacity(count)];
    buffer[0] = pair(GET_STATS, count);
    // SAFETY: as for the names: the head and `capacity(count)` values, ours alone for the time of
    // the call.
    unsafe { ethtool(socket, ifname, buffer.as_mut_ptr().cast())? };
    let [_, _, _, _, count @ ..] = buffer[0].to_ne_bytes();
    let found = (u32::from_ne_bytes(count) as usize).min(buffer.len() - 1);
    Ok(buffer[1..=found].to_vec())
}

/// Capacity for more counters than there were, because a device that gets queues between two calls
/// has more. Twice the number and 4096 is more than any driver adds at once.
fn capacity(count: u32) -> usize {
    count as usize * 2 + 4096
}

/// Two words as one, in memory order.
fn pair(first: u32, second: u32) -> u64 {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&first.to_ne_bytes());
    bytes[4..].copy_from_slice(&second.to_ne_bytes());
    u64::from_ne_bytes(bytes)
}

/// `struct hwtstamp_config`.
#[repr(C)]
struct KernelStampConfig {
    flags: libc::c_int,
    tx_type: libc::c_int,
    rx_filter: libc::c_int,
}

impl From<StampConfig> for KernelStampConfig {
    fn from(config: StampConfig) -> Self {
        let StampConfig { tx_type, rx_filter, flags } = config;
        Self {
            flags: flags.cast_signed(),
            tx_type: tx_type.cast_signed(),
            rx_filter: rx_filter.cast_signed(),
        }
    }
}

impl From<KernelStampConfig> for StampConfig {
    fn from(config: KernelStampConfig) -> Self {
        Self {
            tx_type: config.tx_type.cast_unsigned(),
            rx_filter: config.rx_filter.cast_unsigned(),
            flags: config.flags.cast_unsigned(),
        }
    }
}

/// Timestamping settings (`SIOCGHWTSTAMP`). EOPNOTSUPP from drivers that do not report them.
pub(crate) fn stamp_config(socket: BorrowedFd<'_>, ifname: &str) -> io::Result<StampConfig> {
    exchange_stamp_config(socket, libc::SIOCGHWTSTAMP as _, ifname, StampConfig::default())
}

/// Sets timestamping (`SIOCSHWTSTAMP`); returns what was granted.
pub(crate) fn set_stamp_config(
    socket: BorrowedFd<'_>,
    ifname: &str,
    config: StampConfig,
) -> io::Result<StampConfig> {
    exchange_stamp_config(socket, libc::SIOCSHWTSTAMP as _, ifname, config)
}

fn exchange_stamp_config(
    socket: BorrowedFd<'_>,
    request: libc::c_ulong,
    ifname: &str,
    config: StampConfig,
) -> io::Result<StampConfig> {
    let mut config = KernelStampConfig::from(config);
    // SAFETY: both requests read and write exactly one `struct hwtstamp_config`, which `config` is;
    // it is ours alone and outlives the call.
    unsafe { device_ioctl(socket, request, ifname, (&raw mut config).cast())? };
    Ok(config.into())
}

/// `struct ptp_clock_time`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct PtpTime {
    sec: i64,
    nsec: u32,
    reserved: u32,
}

impl PtpTime {
    fn ns(self) -> i64 {
        self.sec.saturating_mul(1_000_000_000).saturating_add(self.nsec.into())
    }
}

/// `struct ptp_sys_offset_precise`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct PtpPrecise {
    device: PtpTime,
    realtime: PtpTime,
    raw_monotonic: PtpTime,
    reserved: [u32; 4],
}
const _: () = assert!(size_of::<PtpPrecise>() == 64, "keep in step with linux/ptp_clock.h");

/// `PTP_MAX_SAMPLES`.
const PTP_SAMPLES_MAX: usize = 25;

/// `struct ptp_sys_offset_extended`.
#[repr(C)]
struct PtpExtended {
    sample_count: u32,
    /// The clock to compare with; 0 is the time of day.
    clock: i32,
    reserved: [u32; 2],
    samples: [[PtpTime; 3]; PTP_SAMPLES_MAX],
}
const _: () = assert!(size_of::<PtpExtended>() == 1216, "keep in step with linux/ptp_clock.h");

/// `_IOWR('=', number, T)` of linux/ptp_clock.h, for the supported machines (not MIPS, PowerPC and
/// SPARC, which encode directions differently).
const fn ptp_request<T>(number: libc::c_ulong) -> libc::c_ulong {
    const READ_AND_WRITE: libc::c_ulong = 3;
    READ_AND_WRITE << 30 | (size_of::<T>() as libc::c_ulong) << 16 | (b'=' as libc::c_ulong) << 8 | number
}

/// The clock of a card and the time of day, latched at once.
pub(crate) fn phc_precise(clock: BorrowedFd<'_>) -> io::Result<[i64; 2]> {
    const PTP_SYS_OFFSET_PRECISE: libc::c_ulong = ptp_request::<PtpPrecise>(8);
    let mut times = PtpPrecise::default();
    // SAFETY: the request reads and writes exactly one `struct ptp_sys_offset_precise`, which
    // `times` is; it is ours alone and outlives the call.
    Errno::result(unsafe { libc::ioctl(clock.as_raw_fd(), PTP_SYS_OFFSET_PRECISE as _, &raw mut times) })?;
    Ok([times.device.ns(), times.realtime.ns()])
}

/// `count` times the time of day, the clock of a card, and the time of day again.
pub(crate) fn phc_extended(clock: BorrowedFd<'_>, count: u32) -> io::Result<Vec<[i64; 3]>> {
    const PTP_SYS_OFFSET_EXTENDED: libc::c_ulong = ptp_request::<PtpExtended>(9);
    let count = count.min(PTP_SAMPLES_MAX as u32);
    let mut samples = PtpExtended {
        sample_count: count,
        clock: 0,
        reserved: [0; 2],
        samples: [[PtpTime::default(); 3]; PTP_SAMPLES_MAX],
    };
    // SAFETY: the request reads and writes exactly one `struct ptp_sys_offset_extended`, which
    // `samples` is; it is ours alone and outlives the call.
    Errno::result(unsafe { libc::ioctl(clock.as_raw_fd(), PTP_SYS_OFFSET_EXTENDED as _, &raw mut samples) })?;
    Ok(samples.samples[..count as usize].iter().map(|sample| sample.map(PtpTime::ns)).collect())
}

/// Bytes up to the first zero.
pub(crate) fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).trim().to_owned()
}

/// # Safety
/// `argument` begins with an ethtool command and is valid for every byte that command reads and
/// writes.
unsafe fn ethtool(socket: BorrowedFd<'_>, ifname: &str, argument: *mut libc::c_char) -> io::Result<()> {
    // SAFETY: the caller's promise.
    unsafe { device_ioctl(socket, libc::SIOCETHTOOL as _, ifname, argument) }
}

/// # Safety
/// `argument` is valid for every byte that `request` reads and writes behind the pointer of a
/// `struct ifreq`.
unsafe fn device_ioctl(
    socket: BorrowedFd<'_>,
    request_number: libc::c_ulong,
    ifname: &str,
    argument: *mut libc::c_char,
) -> io::Result<()> {
    // SAFETY: `ifreq` is plain integers, arrays and pointers, for which zero is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if ifname.len() >= request.ifr_name.len() {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(ifname.bytes()) {
        *to = libc::c_char::from_ne_bytes([from]);
    }
    request.ifr_ifru.ifru_data = argument;
    // SAFETY: `request` is a whole `struct ifreq` with a terminated name, ours for the time of the
    // call; what its pointer leads to is the caller's promise.
    Errno::result(unsafe { libc::ioctl(socket.as_raw_fd(), request_number as _, &raw mut request) })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_end_at_their_zero_byte() {
        assert_eq!(text(b"veth\0garbage"), "veth");
        assert_eq!(text(b"full"), "full");
        assert_eq!(text(b""), "");
    }

    /// The start of a Rust program lets it ignore one of these.
    #[test]
    fn an_ignored_signal_is_told_from_others() {
        assert!(is_signal_ignored(libc::SIGPIPE));
        assert!(!is_signal_ignored(libc::SIGWINCH));
    }

    /// The numbers that strace shows for phc_ctl and chronyd.
    #[test]
    fn requests_have_the_numbers_of_the_kernel() {
        assert_eq!(ptp_request::<PtpPrecise>(8), 0xc040_3d08);
        assert_eq!(ptp_request::<PtpExtended>(9), 0xc4c0_3d09);
        assert_eq!(PtpTime { sec: 2, nsec: 5, reserved: 0 }.ns(), 2_000_000_005);
    }

    #[test]
    fn a_pair_lies_in_memory_in_order() {
        assert_eq!(pair(1, 2).to_ne_bytes()[..4], 1u32.to_ne_bytes());
    }
}
