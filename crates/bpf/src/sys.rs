//! Unsafe calls: bpf(2), netlink through libbpf, and memory shared with the kernel.
//!
//! Kernel names stay in this module. All functions return the error of the kernel as an
//! `io::Error`; the callers add act and device.

#![allow(unsafe_code)]

use crate::specialize::Code;
use std::ffi::{CStr, c_int, c_void};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// libbpf returns a negative errno and sets `errno` as well; older paths only set `errno`.
fn checked(result: c_int) -> io::Result<c_int> {
    match result {
        0.. => Ok(result),
        -1 => Err(io::Error::last_os_error()),
        code => Err(io::Error::from_raw_os_error(-code)),
    }
}

/// How a program is loaded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoadParams<'a> {
    /// `BPF_PROG_TYPE_*`.
    pub(crate) kind: u32,
    /// `BPF_XDP` and others, or 0.
    pub(crate) attach_type: u32,
    pub(crate) name: &'a CStr,
    /// An XDP program takes frames in several buffers.
    pub(crate) frags: bool,
    /// The device of the caller's network namespace whose program it is; 0 for any.
    pub(crate) bound_to: u32,
    /// The functions, with the object that has their types.
    pub(crate) functions: Option<(BorrowedFd<'a>, &'a [libbpf_sys::bpf_func_info])>,
}

impl<'a> LoadParams<'a> {
    pub(crate) fn new(kind: u32, attach_type: u32, name: &'a CStr) -> Self {
        Self { kind, attach_type, name, frags: false, bound_to: 0, functions: None }
    }
}

/// The text in a verifier log, which ends with a zero.
pub(crate) fn log_text(log: &[u8]) -> String {
    let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
    String::from_utf8_lossy(&log[..end]).into_owned()
}

/// Loads a program. `log` receives the verifier log if the program is rejected.
pub(crate) fn load(
    params: LoadParams<'_>,
    instructions: &[libbpf_sys::bpf_insn],
    log: &mut [u8],
) -> io::Result<OwnedFd> {
    let flag = |is_set, flag| if is_set { flag } else { 0 };
    let (btf, functions) = match params.functions {
        Some((btf, functions)) => (btf.as_raw_fd() as u32, functions),
        None => (0, &[][..]),
    };
    let mut opts = libbpf_sys::bpf_prog_load_opts {
        sz: size_of::<libbpf_sys::bpf_prog_load_opts>() as _,
        expected_attach_type: params.attach_type,
        prog_flags: flag(params.frags, libbpf_sys::BPF_F_XDP_HAS_FRAGS)
            | flag(params.bound_to != 0, libbpf_sys::BPF_F_XDP_DEV_BOUND_ONLY),
        prog_ifindex: params.bound_to,
        prog_btf_fd: btf,
        func_info: if functions.is_empty() { std::ptr::null() } else { functions.as_ptr().cast() },
        func_info_cnt: functions.len() as u32,
        func_info_rec_size: if functions.is_empty() { 0 } else { size_of_val(&functions[0]) as u32 },
        log_buf: log.as_mut_ptr().cast(),
        log_size: log.len() as u32,
        ..Default::default()
    };
    // SAFETY: both strings end with a zero, `instructions` is passed with its length, `opts` is a
    // whole structure with its own size in `sz` and names `log` and the functions with their
    // lengths; the log has no other user during the call. The kernel copies all it reads and keeps
    // no pointer. With a log level of 0 libbpf asks for the log when the first try fails.
    let fd = checked(unsafe {
        libbpf_sys::bpf_prog_load(
            params.kind,
            params.name.as_ptr(),
            c"Dual BSD/GPL".as_ptr(),
            instructions.as_ptr(),
            instructions.len() as _,
            &mut opts,
        )
    })?;
    // SAFETY: the call succeeded, so `fd` is a new descriptor with no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Makes the maps of an object and puts their descriptors into its programs, which are not loaded.
pub(crate) fn prepare(object: NonNull<libbpf_sys::bpf_object>) -> io::Result<()> {
    // SAFETY: the caller's object is open.
    checked(unsafe { libbpf_sys::bpf_object__prepare(object.as_ptr()) }).map(drop)
}

/// A copy of the instructions of a program of a prepared object, and of where its functions are.
pub(crate) fn code(program: NonNull<libbpf_sys::bpf_program>) -> Code {
    let program = program.as_ptr();
    // SAFETY: libbpf keeps as many instructions as it says while the object is open, and changes
    // none during this call. It has at least one instruction, so the pointer is not null.
    let insns = unsafe {
        std::slice::from_raw_parts(
            libbpf_sys::bpf_program__insns(program),
            libbpf_sys::bpf_program__insn_cnt(program) as usize,
        )
    };
    // SAFETY: as above.
    let (functions, count) = unsafe {
        (libbpf_sys::bpf_program__func_info(program), libbpf_sys::bpf_program__func_info_cnt(program))
    };
    let functions = if functions.is_null() {
        &[]
    } else {
        // SAFETY: as above; the pointer is not null.
        unsafe { std::slice::from_raw_parts(functions, count as usize) }
    };
    Code { insns: insns.to_vec(), functions: functions.to_vec() }
}

/// Descriptor and length of a value of each map of a prepared object that was made.
pub(crate) fn maps(object: NonNull<libbpf_sys::bpf_object>) -> Vec<(c_int, usize)> {
    let mut maps = Vec::new();
    let mut map = std::ptr::null();
    loop {
        // SAFETY: the object is open, and `map` is null or one of its maps.
        map = unsafe { libbpf_sys::bpf_object__next_map(object.as_ptr(), map) };
        if map.is_null() {
            return maps;
        }
        // SAFETY: it is one of its maps.
        let (fd, len) = unsafe { (libbpf_sys::bpf_map__fd(map), libbpf_sys::bpf_map__value_size(map)) };
        if fd >= 0 {
            maps.push((fd, len as usize));
        }
    }
}

/// Writes an entry of an array map.
pub(crate) fn update(map: BorrowedFd<'_>, index: u32, value: &[u8]) -> io::Result<()> {
    // SAFETY: the key is four bytes and `value` one whole entry, as in every map of this crate; the
    // call copies both.
    checked(unsafe {
        libbpf_sys::bpf_map_update_elem(
            map.as_raw_fd(),
            std::ptr::from_ref(&index).cast(),
            value.as_ptr().cast(),
            libbpf_sys::BPF_ANY.into(),
        )
    })
    .map(drop)
}

/// `BPF_PROG_TYPE_*` of a program of an object, and where it may be attached.
pub(crate) fn kind(program: NonNull<libbpf_sys::bpf_program>) -> (u32, u32) {
    let program = program.as_ptr();
    // SAFETY: the caller's object is open; both calls read a number of its program.
    unsafe {
        (libbpf_sys::bpf_program__type(program), libbpf_sys::bpf_program__expected_attach_type(program))
    }
}

/// The descriptor of a map of a prepared object as a number, which instructions have.
pub(crate) fn map_number(map: NonNull<libbpf_sys::bpf_map>) -> io::Result<c_int> {
    // SAFETY: the caller's object is open.
    checked(unsafe { libbpf_sys::bpf_map__fd(map.as_ptr()) })
}

/// A descriptor of its own for a map of a prepared object.
pub(crate) fn map_fd(map: NonNull<libbpf_sys::bpf_map>) -> io::Result<OwnedFd> {
    let number = map_number(map)?;
    // SAFETY: the caller's object is open, and so is the descriptor until it is duplicated.
    unsafe { BorrowedFd::borrow_raw(number) }.try_clone_to_owned()
}

/// The descriptor of the types of a prepared object.
pub(crate) fn btf_fd(object: NonNull<libbpf_sys::bpf_object>) -> io::Result<OwnedFd> {
    // SAFETY: the caller's object is open. The descriptor is borrowed until it is duplicated.
    unsafe { BorrowedFd::borrow_raw(checked(libbpf_sys::bpf_object__btf_fd(object.as_ptr()))?) }
        .try_clone_to_owned()
}

/// Attaches an XDP program to the device `ifindex` of the caller's network namespace as a link,
/// which the kernel removes when the last descriptor of it is closed. `flags` are `XDP_FLAGS_*`.
pub(crate) fn xdp_link(program: BorrowedFd<'_>, ifindex: c_int, flags: u32) -> io::Result<OwnedFd> {
    let opts = libbpf_sys::bpf_link_create_opts {
        sz: size_of::<libbpf_sys::bpf_link_create_opts>() as _,
        flags,
        ..Default::default()
    };
    // SAFETY: `opts` is a whole, zero-filled structure with its own size in `sz` and lives during
    // the call, which reads it and keeps nothing. Both numbers are plain values that the kernel
    // checks.
    let fd = checked(unsafe {
        libbpf_sys::bpf_link_create(program.as_raw_fd(), ifindex, libbpf_sys::BPF_XDP, &opts)
    })?;
    // SAFETY: the call succeeded, so `fd` is a new descriptor with no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Detaches a link, even if other descriptors of it exist.
pub(crate) fn link_detach(link: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: a plain number in, an error out; the descriptor is open during the call.
    checked(unsafe { libbpf_sys::bpf_link_detach(link.as_raw_fd()) }).map(drop)
}

/// The device that an XDP link is on; 0 when the device is gone.
pub(crate) fn xdp_link_ifindex(link: BorrowedFd<'_>) -> io::Result<u32> {
    let mut info = libbpf_sys::bpf_link_info::default();
    let mut len = size_of::<libbpf_sys::bpf_link_info>() as u32;
    // SAFETY: `info` is `len` bytes, exclusively ours, and zero, so that it asks for no arrays to
    // be filled.
    checked(unsafe { libbpf_sys::bpf_link_get_info_by_fd(link.as_raw_fd(), &mut info, &mut len) })?;
    // SAFETY: the link was made as one of type XDP, whose part of the union is this; it is a plain
    // number, and all bytes of the union were zero before the call.
    Ok(unsafe { info.__bindgen_anon_1.xdp.ifindex })
}

/// The link, of any process, that keeps the XDP program `id` attached; `None` if it is gone.
pub(crate) fn xdp_link_of(program_id: u32) -> io::Result<Option<OwnedFd>> {
    let mut id = 0;
    loop {
        let mut next = 0;
        // SAFETY: a plain number in; the call writes one number to `next`, which is exclusively
        // ours.
        match checked(unsafe { libbpf_sys::bpf_link_get_next_id(id, &mut next) }) {
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(None),
            ended => ended?,
        };
        id = next;
        // SAFETY: a plain number in, a descriptor or an error out.
        let fd = match checked(unsafe { libbpf_sys::bpf_link_get_fd_by_id(id) }) {
            // It was removed between the two calls.
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => continue,
            got => got?,
        };
        // SAFETY: the call succeeded, so `fd` is a new descriptor with no other owner.
        let link = unsafe { OwnedFd::from_raw_fd(fd) };
        let mut info = libbpf_sys::bpf_link_info::default();
        let mut len = size_of::<libbpf_sys::bpf_link_info>() as u32;
        // SAFETY: `info` is `len` bytes, exclusively ours, and zero, so that it asks for no arrays
        // to be filled.
        checked(unsafe { libbpf_sys::bpf_link_get_info_by_fd(link.as_raw_fd(), &mut info, &mut len) })?;
        if info.prog_id == program_id {
            return Ok(Some(link));
        }
    }
}

/// Ids of the XDP programs on a device; 0 for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct XdpIds {
    pub(crate) native: u32,
    pub(crate) generic: u32,
    pub(crate) offloaded: u32,
}

/// The XDP programs on the device `ifindex` of the caller's network namespace.
pub(crate) fn xdp_query(ifindex: c_int) -> io::Result<XdpIds> {
    let mut opts = libbpf_sys::bpf_xdp_query_opts {
        sz: size_of::<libbpf_sys::bpf_xdp_query_opts>() as _,
        ..Default::default()
    };
    // SAFETY: `opts` is a whole structure with its own size in `sz`, exclusively ours; the call
    // fills at most that many bytes and keeps no pointer.
    checked(unsafe { libbpf_sys::bpf_xdp_query(ifindex, 0, &mut opts) })?;
    Ok(XdpIds { native: opts.drv_prog_id, generic: opts.skb_prog_id, offloaded: opts.hw_prog_id })
}

/// Detaches the program `id` from a device, unless it was replaced meanwhile. `flag` is the
/// `XDP_FLAGS_*` of its mode.
pub(crate) fn xdp_detach(ifindex: c_int, id: u32, flag: u32) -> io::Result<()> {
    // SAFETY: a plain number in, a descriptor or an error out.
    let fd = checked(unsafe { libbpf_sys::bpf_prog_get_fd_by_id(id) })?;
    // SAFETY: the call succeeded, so `fd` is a new descriptor with no other owner.
    let program = unsafe { OwnedFd::from_raw_fd(fd) };
    let opts = libbpf_sys::bpf_xdp_attach_opts {
        sz: size_of::<libbpf_sys::bpf_xdp_attach_opts>() as _,
        old_prog_fd: program.as_raw_fd(),
        ..Default::default()
    };
    // SAFETY: `opts` is a whole structure with its own size in `sz` that lives during the call,
    // which keeps nothing.
    checked(unsafe { libbpf_sys::bpf_xdp_detach(ifindex, flag, &opts) })?;
    Ok(())
}

/// A descriptor of a loaded program.
pub(crate) fn program_by_id(id: u32) -> io::Result<OwnedFd> {
    // SAFETY: a plain number in, a descriptor or an error out.
    let fd = checked(unsafe { libbpf_sys::bpf_prog_get_fd_by_id(id) })?;
    // SAFETY: the call succeeded, so `fd` is a new descriptor with no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn program_info(program: BorrowedFd<'_>, info: &mut libbpf_sys::bpf_prog_info) -> io::Result<()> {
    let mut len = size_of::<libbpf_sys::bpf_prog_info>() as u32;
    // SAFETY: `info` is `len` bytes, exclusively ours. The arrays that it asks for are those that
    // its caller has put into it.
    checked(unsafe { libbpf_sys::bpf_prog_get_info_by_fd(program.as_raw_fd(), info, &mut len) }).map(drop)
}

/// Name of a loaded program, at most 15 bytes long.
pub(crate) fn program_name(id: u32) -> io::Result<String> {
    let mut info = libbpf_sys::bpf_prog_info::default();
    program_info(program_by_id(id)?.as_fd(), &mut info)?;
    let bytes: Vec<u8> = info.name.iter().map(|&c| c as u8).take_while(|&c| c != 0).collect();
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Instructions that the verifier followed before it accepted a program (Linux 5.16). It takes
/// about a microsecond for each.
///
/// # Errors
/// From bpf(2).
pub fn verified_instructions(program: BorrowedFd<'_>) -> io::Result<u32> {
    let mut info = libbpf_sys::bpf_prog_info::default();
    program_info(program, &mut info)?;
    Ok(info.verified_insns)
}

/// The type of the first function of a program in its BTF; `None` for a program without BTF.
pub(crate) fn program_function(program: BorrowedFd<'_>) -> io::Result<Option<u32>> {
    let mut function = libbpf_sys::bpf_func_info::default();
    let mut info = libbpf_sys::bpf_prog_info {
        nr_func_info: 1,
        func_info_rec_size: size_of::<libbpf_sys::bpf_func_info>() as u32,
        func_info: std::ptr::from_mut(&mut function) as u64,
        ..Default::default()
    };
    program_info(program, &mut info)?;
    Ok((info.btf_id != 0 && info.nr_func_info > 0).then_some(function.type_id))
}

/// Attaches a program that traces another one. The link ends with its last descriptor.
pub(crate) fn attach_tracing(program: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    // SAFETY: without a name the call takes the target from the program; a descriptor or an error
    // comes out.
    let fd = checked(unsafe { libbpf_sys::bpf_raw_tracepoint_open(std::ptr::null(), program.as_raw_fd()) })?;
    // SAFETY: the call succeeded, so `fd` is a new descriptor with no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Parameters of [`prog_run`].
#[derive(Debug, Default)]
pub struct ProgRun<'a> {
    /// The packet; empty for programs without one.
    pub data_in: &'a [u8],
    /// Receives the resulting packet, truncated to this length. Unused for live frames.
    pub data_out: &'a mut [u8],
    /// The context of the program (`struct xdp_md` for XDP), or empty.
    pub context_in: &'a [u8],
    /// Number of runs; 0 counts as 1.
    pub repeat: u32,
    /// `BPF_F_TEST_*`.
    pub flags: u32,
    /// Batch size of a live-frame run, 0 for the default of the kernel (64).
    pub batch_size: u32,
}

/// Result of [`prog_run`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgRan {
    /// The program's return value, for XDP the verdict.
    pub return_value: u32,
    /// Length of the resulting packet.
    pub data_out_len: u32,
    /// Mean time of one run.
    pub duration_ns: u32,
}

/// Runs a program with `BPF_PROG_RUN`, in the network namespace of the calling thread.
///
/// # Errors
/// From bpf(2): EPERM without CAP_BPF, ENOSPC if `data_out` was too short, EINTR after a signal.
pub fn prog_run(program: BorrowedFd<'_>, run: &mut ProgRun<'_>) -> io::Result<ProgRan> {
    let pointer =
        |bytes: &[u8]| if bytes.is_empty() { std::ptr::null() } else { bytes.as_ptr().cast::<c_void>() };
    let mut opts = libbpf_sys::bpf_test_run_opts {
        sz: size_of::<libbpf_sys::bpf_test_run_opts>() as _,
        data_in: pointer(run.data_in),
        data_size_in: run.data_in.len() as u32,
        data_out: if run.data_out.is_empty() {
            std::ptr::null_mut()
        } else {
            run.data_out.as_mut_ptr().cast()
        },
        data_size_out: run.data_out.len() as u32,
        ctx_in: pointer(run.context_in),
        ctx_size_in: run.context_in.len() as u32,
        repeat: run.repeat as c_int,
        flags: run.flags,
        batch_size: run.batch_size,
        ..Default::default()
    };
    // SAFETY: each pointer is null with size 0 or comes from a slice that `run` borrows for the
    // whole call, with that slice's length beside it; only `data_out` is written and it is borrowed
    // exclusively.
    checked(unsafe { libbpf_sys::bpf_prog_test_run_opts(program.as_raw_fd(), &mut opts) })?;
    Ok(ProgRan { return_value: opts.retval, data_out_len: opts.data_size_out, duration_ns: opts.duration })
}

/// Runs an XDP program on `frames` live copies of `page`, `batch` at a time. A signal makes it
/// return early without an error; the program counts the frames that it handled.
pub(crate) fn run_live(
    program: BorrowedFd<'_>,
    page: &[u8],
    context: &[u8],
    frames: u32,
    batch: u32,
) -> io::Result<()> {
    let mut run = ProgRun {
        data_in: page,
        context_in: context,
        repeat: frames,
        flags: libbpf_sys::BPF_F_TEST_XDP_LIVE_FRAMES,
        batch_size: batch,
        ..ProgRun::default()
    };
    match prog_run(program, &mut run) {
        Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
        _ => Ok(()),
    }
}

/// The values of an array map made with `BPF_F_MMAPABLE`, mapped into this process.
///
/// The kernel may write at any time, so access is by atomics; plain bytes need an unsafe call.
#[derive(Debug)]
pub struct MapMemory {
    base: NonNull<u8>,
    len: usize,
    is_writable: bool,
}

// SAFETY: the mapping belongs to the process, not to a thread, and every access goes through
// atomics or through `bytes`, whose caller excludes writers.
unsafe impl Send for MapMemory {}
// SAFETY: as above; `&MapMemory` gives no plain mutable access.
unsafe impl Sync for MapMemory {}

impl MapMemory {
    /// Maps the first `len` bytes of the values of `map`, with all pages present.
    ///
    /// # Errors
    /// From mmap(2): EINVAL when `len` is 0 or more than the map has, EPERM for writing to a frozen
    /// map.
    pub fn new(map: BorrowedFd<'_>, len: usize, is_writable: bool) -> io::Result<Self> {
        Self::at(map, 0, len, is_writable)
    }

    /// Maps `len` bytes of `map` from `offset` on, which selects one of the rings of an AF_XDP
    /// socket, with all pages present.
    ///
    /// # Errors
    /// From mmap(2).
    pub fn at(map: BorrowedFd<'_>, offset: i64, len: usize, is_writable: bool) -> io::Result<Self> {
        let protection = if is_writable { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        // SAFETY: no address is asked for, so nothing of ours is replaced; the kernel checks length
        // and descriptor.
        let base =
            unsafe { libc::mmap(std::ptr::null_mut(), len, protection, flags, map.as_raw_fd(), offset) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mapped at address zero"))?;
        Ok(Self { base, len, is_writable })
    }

    /// Mapped length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True when nothing is mapped, which `new` prevents.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The word at `offset`, which must be a multiple of 8 inside a writable mapping.
    #[inline]
    pub fn atomic_u64(&self, offset: usize) -> &AtomicU64 {
        self.check_word(offset, 8);
        // SAFETY: `check_word` asserted that 8 aligned bytes at `offset` lie inside the mapping and
        // may be written; they stay mapped until drop, which the borrow prevents. The other writer
        // (BPF) uses whole aligned words.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(offset).cast()) }
    }

    /// The word at `offset`, which must be a multiple of 4 inside a writable mapping.
    #[inline]
    pub fn atomic_u32(&self, offset: usize) -> &AtomicU32 {
        self.check_word(offset, 4);
        // SAFETY: as for `atomic_u64`, with 4 bytes.
        unsafe { AtomicU32::from_ptr(self.base.as_ptr().add(offset).cast()) }
    }

    /// `len` bytes from `offset`.
    ///
    /// # Safety
    /// Until the borrow ends nothing may write to these bytes: neither the kernel side, with which
    /// the caller has a protocol (say, a ring's tail that is not moved yet), nor another mapping of
    /// the same map.
    pub unsafe fn bytes(&self, offset: usize, len: usize) -> &[u8] {
        let end = offset.checked_add(len).expect("the range fits into memory");
        assert!(end <= self.len, "bytes {offset} to {end} of {}", self.len);
        // SAFETY: the range was just checked against the mapping, which lives as long as the
        // borrow; the kernel filled it with zeros when it made the map; the caller excludes
        // writers.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(offset), len) }
    }

    /// Copies `bytes` to `offset`. A program may read these bytes only when the caller has told it
    /// so afterwards.
    ///
    /// # Panics
    /// Outside of a writable mapping.
    pub(crate) fn write(&mut self, offset: usize, bytes: &[u8]) {
        let end = offset.checked_add(bytes.len()).expect("the range fits into memory");
        assert!(self.is_writable && end <= self.len, "bytes {offset} to {end} of {}", self.len);
        // SAFETY: the range was just checked against the mapping, which is writable and lives as
        // long as `self`. `&mut self` excludes borrows of its bytes, so `bytes` lies elsewhere. A
        // program that reads the range meanwhile sees old and new bytes, in its own memory access.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.base.as_ptr().add(offset), bytes.len());
        }
    }

    #[inline]
    fn check_word(&self, offset: usize, size: usize) {
        assert!(self.is_writable, "atomics need a writable mapping");
        assert!(offset.is_multiple_of(size), "offset {offset} of a word of {size} bytes");
        assert!(offset < self.len && self.len - offset >= size, "word at {offset} of {}", self.len);
    }
}

impl Drop for MapMemory {
    fn drop(&mut self) {
        // SAFETY: `base` and `len` are what mmap gave in `new`, unmapped once, and every borrow
        // ended before drop.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// The values of an array map that only a program of its owner uses: plain bytes between two runs.
///
/// `BPF_F_RDONLY_PROG` would let the verifier enforce that, but such a map cannot be mapped for
/// writing.
#[derive(Debug)]
pub(crate) struct OwnValues(MapMemory);

impl OwnValues {
    /// Maps the first `len` bytes of the values of `map` and closes its descriptor, so that it is
    /// not mapped again. Only the owner of the result runs the program that uses the map, and does
    /// so under `&mut`.
    pub(crate) fn new(map: OwnedFd, len: usize) -> io::Result<Self> {
        MapMemory::new(map.as_fd(), len, true).map(Self)
    }

    /// `len` bytes from `offset`.
    pub(crate) fn bytes(&self, offset: usize, len: usize) -> &[u8] {
        // SAFETY: ours is the only mapping, writing to that needs the exclusive borrow that
        // `bytes_mut` takes, and the program runs under an exclusive borrow of the owner, which
        // ends this one.
        unsafe { self.0.bytes(offset, len) }
    }

    /// `len` bytes from `offset`, to be written.
    pub(crate) fn bytes_mut(&mut self, offset: usize, len: usize) -> &mut [u8] {
        let end = offset.checked_add(len).expect("the range fits into memory");
        assert!(end <= self.0.len, "bytes {offset} to {end} of {}", self.0.len);
        // SAFETY: the range was just checked against the mapping, which is writable and lives as
        // long as the borrow. The borrow is exclusive, ours is the only mapping, and the program
        // runs under an exclusive borrow of the owner, which ends this one.
        unsafe { std::slice::from_raw_parts_mut(self.0.base.as_ptr().add(offset), len) }
    }
}

/// Waits until every BPF program that was running when this was called has ended (one RCU grace
/// period).
///
/// # Errors
/// EINVAL on kernels that run with `nohz_full`, ENOSYS without `CONFIG_MEMBARRIER`.
pub fn wait_for_running_programs() -> io::Result<()> {
    const MEMBARRIER_CMD_GLOBAL: c_int = 1; // is synchronize_rcu() in the kernel
    // SAFETY: a system call with numbers only; it touches no memory of ours.
    let result = unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
