//! The filter compiler of libpcap, loaded when a filter is used.
//!
//! It is loaded at run time and not linked, so that the program starts on machines without libpcap.

use filter::Instruction;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::sync::{Mutex, PoisonError};

/// Names of the library: its own, and what Debian and its kin call it.
const NAMES: [&CStr; 3] = [c"libpcap.so.1", c"libpcap.so.0.8", c"libpcap.so"];

/// For a device without an IPv4 address: `ip broadcast` is refused.
pub(crate) const NETMASK_UNKNOWN: u32 = 0xffff_ffff;

/// `struct bpf_program`; `struct bpf_insn` has the layout of [`Instruction`].
#[repr(C)]
struct CompiledProgram {
    len: c_uint,
    instructions: *mut Instruction,
}

/// Why there is no program.
#[derive(Debug)]
pub(crate) enum CompileError {
    /// No compiler: what could not be loaded or run, and why.
    Missing(String),
    /// The compiler does not understand the expression, in its own words.
    Refused(String),
    /// The compiler was ended because it took too long.
    TakesLong,
}

type OpenDead = unsafe extern "C" fn(c_int, c_int) -> *mut c_void;
type Compile = unsafe extern "C" fn(*mut c_void, *mut CompiledProgram, *const c_char, c_int, c_uint) -> c_int;
type ErrorText = unsafe extern "C" fn(*mut c_void) -> *const c_char;
type FreeCode = unsafe extern "C" fn(*mut CompiledProgram);
type Close = unsafe extern "C" fn(*mut c_void);

/// The functions used, which stay loaded until the process ends.
#[derive(Clone, Copy)]
struct Library {
    open_dead: OpenDead,
    compile: Compile,
    error_text: ErrorText,
    free_code: FreeCode,
    close: Close,
}

/// Loaded once; libpcap before 1.8 compiles for one thread at a time, so the lock is held
/// meanwhile.
static LIBRARY: Mutex<Option<Library>> = Mutex::new(None);

/// The last program that was compiled, and from what: each device, and packet sockets after XDP,
/// ask for the same one.
static LAST: Mutex<Option<(Key, Vec<Instruction>)>> = Mutex::new(None);

/// Expression, link type, snaplen and netmask.
type Key = (CString, c_int, c_int, u32);

/// Compiles `expression` for frames of a link type (`DLT_*`): to keep the first `snaplen` bytes of
/// those that match. `netmask` is that of the device's network, in host order.
pub(crate) fn compile(
    expression: &CStr,
    link_type: c_int,
    snaplen: c_int,
    netmask: u32,
) -> Result<Vec<Instruction>, CompileError> {
    let key = (expression.to_owned(), link_type, snaplen, netmask);
    if let Some((of, program)) = &*LAST.lock().unwrap_or_else(PoisonError::into_inner)
        && *of == key
    {
        return Ok(program.clone());
    }
    let mut loaded = LIBRARY.lock().unwrap_or_else(PoisonError::into_inner);
    let library = match *loaded {
        Some(library) => library,
        None => *loaded.insert(load()?),
    };
    // SAFETY: numbers in; a handle of our own, or null, out.
    let handle = unsafe { (library.open_dead)(link_type, snaplen) };
    if handle.is_null() {
        return Err(CompileError::Refused("out of memory".to_owned()));
    }
    let compiled = compile_with(&library, handle, expression, netmask);
    // SAFETY: the handle came from open_dead, was not closed yet, and is not used again.
    unsafe { (library.close)(handle) };
    if let Ok(program) = &compiled {
        *LAST.lock().unwrap_or_else(PoisonError::into_inner) = Some((key, program.clone()));
    }
    compiled
}

fn compile_with(
    library: &Library,
    handle: *mut c_void,
    expression: &CStr,
    netmask: u32,
) -> Result<Vec<Instruction>, CompileError> {
    let optimize = 1;
    let mut program = CompiledProgram { len: 0, instructions: std::ptr::null_mut() };
    // SAFETY: the handle is open and used by this thread only, `program` is a whole structure that
    // lives during the call, and the expression ends with a zero.
    let result = unsafe { (library.compile)(handle, &mut program, expression.as_ptr(), optimize, netmask) };
    if result != 0 {
        // SAFETY: the handle is open; its text ends with a zero and stays until the next call with
        // the handle.
        let text = unsafe { CStr::from_ptr((library.error_text)(handle)) };
        return Err(CompileError::Refused(text.to_string_lossy().into_owned()));
    }
    // SAFETY: compile succeeded, so `instructions` points to `len` instructions, which are copied
    // before they are freed and which have no other owner. A program is never empty, so the pointer
    // is not null.
    let instructions =
        unsafe { std::slice::from_raw_parts(program.instructions, program.len as usize) }.to_vec();
    // SAFETY: the program came from compile and is freed once.
    unsafe { (library.free_code)(&mut program) };
    Ok(instructions)
}

fn load() -> Result<Library, CompileError> {
    let library =
        NAMES.iter().find_map(|name| open(name)).ok_or_else(|| CompileError::Missing(c_error_text()))?;
    // SAFETY: each type is that of the function in `pcap/pcap.h`, unchanged since libpcap 0.8; the
    // library is never closed, so the addresses stay good.
    unsafe {
        Ok(Library {
            open_dead: std::mem::transmute::<*mut c_void, OpenDead>(symbol(library, c"pcap_open_dead")?),
            compile: std::mem::transmute::<*mut c_void, Compile>(symbol(library, c"pcap_compile")?),
            error_text: std::mem::transmute::<*mut c_void, ErrorText>(symbol(library, c"pcap_geterr")?),
            free_code: std::mem::transmute::<*mut c_void, FreeCode>(symbol(library, c"pcap_freecode")?),
            close: std::mem::transmute::<*mut c_void, Close>(symbol(library, c"pcap_close")?),
        })
    }
}

fn open(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the name ends with a zero. Loading runs the library's initialisers; libpcap has none
    // of consequence.
    let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    (!library.is_null()).then_some(library)
}

fn symbol(library: *mut c_void, name: &CStr) -> Result<*mut c_void, CompileError> {
    // SAFETY: the library was opened and is never closed; the name ends with a zero.
    let address = unsafe { libc::dlsym(library, name.as_ptr()) };
    if address.is_null() { Err(CompileError::Missing(c_error_text())) } else { Ok(address) }
}

/// What the dynamic linker said last.
fn c_error_text() -> String {
    // SAFETY: no arguments; the text, when there is one, ends with a zero and stays until the next
    // call on this thread.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "no reason given".to_owned();
    }
    // SAFETY: as above, and it is copied at once.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// The expression for C.
pub(crate) fn c_string(expression: &str) -> Result<CString, CompileError> {
    CString::new(expression)
        .map_err(|_| CompileError::Refused("the expression has a zero byte in it".to_owned()))
}
