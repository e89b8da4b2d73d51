//! Connections with a live server: a thread opens them, sends again what was lost, and closes what
//! is held; the program at the receive side of the device answers the server.
//!
//! The crate `connect` has the rules of connections; `crates/bpf/src/bpf/connect.bpf.c` carries
//! them out.

mod scan;
mod sender;

use crate::device::OutputDevice;
use crate::pacer::Pace;
use crate::{EngineError, Event};
use bpf::xdp::{XdpLink, XdpMode, XdpModeChoice};
use bpf::{AnswerCheck, ConnectKind, ConnectParams, ConnectProgram, ConnectTimes, FrameCounts, GroupBy};
use connect::{Addresses, Counts, Settings};
use host::{Netns, Stack};
use sender::Sender;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

/// A run of connections.
#[derive(Clone, Debug)]
pub struct ConnectRequest {
    /// The namespace of the device.
    pub netns: Netns,
    /// The device.
    pub ifname: String,
    /// MAC address of the device.
    pub own_mac: [u8; 6],
    /// MAC address of the server, or of the router to it, for each range of servers.
    pub next_hop_macs: Vec<[u8; 6]>,
    /// VLAN ID of all frames; 0 for no tag.
    pub vlan: u16,
    /// Addresses and ports of both sides.
    pub addresses: Addresses,
    /// What a connection does.
    pub settings: Settings,
    /// TCP, UDP or DNS.
    pub kind: ConnectKind,
    /// How answers are looked at for errors.
    pub answer_check: AnswerCheck,
    /// The request.
    pub request: Vec<u8>,
    /// When connections are opened; unpaced for as soon as [`Self::open_max`] allows.
    pub pace: Pace,
    /// Connections that may be open at a time.
    pub open_max: u64,
    /// Connections of each client address that may be open at a time.
    pub open_per_client: Option<u32>,
    /// Groups of responses to count.
    pub group_by: Option<GroupBy>,
    /// Connections to open.
    pub count: Option<u64>,
    /// Time of opening and holding.
    pub duration_ns: Option<u64>,
    /// When requests are sent on held connections.
    pub ask_pace: Option<Pace>,
    /// A connection without progress for this time has failed.
    pub timeout_ns: u64,
    /// Attach modes that may be used.
    pub xdp: XdpModeChoice,
    /// CPU of the sending thread.
    pub cpu: Option<u32>,
}

/// How a run ended.
#[derive(Clone, Debug, Default)]
pub struct ConnectResult {
    /// Counters of connections.
    pub counts: Counts,
    /// Counters of frames.
    pub frames: FrameCounts,
    /// Responses of each group, by the bytes of the group.
    pub groups: Vec<(Vec<u8>, u64)>,
    /// Times of connections. [`ConnectTimes::total`] has no counts if connections are held in a run
    /// of 18 minutes or more, since their times wrap.
    pub times: ConnectTimes,
    /// Connections that were open at the end.
    pub open_at_end: u64,
    /// Time in which connections were opened.
    pub opening_ns: u64,
    /// Connections completed in this time.
    pub completed_while_opening: u64,
    /// Time in which requests were sent: [`Self::opening_ns`], or until connections were closed in
    /// a run that sends requests on held ones.
    pub asking_ns: u64,
    /// Requests sent in this time.
    pub requests_while_asking: u64,
    /// Responses received in this time.
    pub responses_while_asking: u64,
    /// Time of the run.
    pub run_ns: u64,
    /// Longest time in which no connection was completed, while connections were opened; 0 for held
    /// ones.
    pub longest_pause_ns: u64,
    /// Frames of the sender that the driver dropped; segments were sent again at once.
    pub dropped: u64,
    /// True if the device was deleted before the end.
    pub is_device_gone: bool,
}

/// A run in progress. Dropping it stops it.
#[derive(Debug)]
pub struct Connecting {
    program: Arc<ConnectProgram>,
    stop: Arc<AtomicBool>,
    ended: Arc<Event>,
    thread: Option<JoinHandle<Result<ConnectResult, EngineError>>>,
    mode: XdpMode,
    native_refusal: Option<String>,
}

/// State that the sending thread reports to its creator.
#[derive(Debug)]
struct Attached {
    program: Arc<ConnectProgram>,
    link: XdpLink,
}

impl Connecting {
    /// Loads and attaches the programs, and starts the run.
    ///
    /// # Errors
    /// When the device cannot send from XDP (with the reason), has another XDP program, or the
    /// kernel rejects the programs.
    pub fn start(request: ConnectRequest) -> Result<Self, EngineError> {
        let netns = request.netns.clone();
        let attached = netns.run(|| attach(&request))??;
        let program = Arc::clone(&attached.program);
        let mode = attached.link.mode();
        let native_refusal = attached.link.native_refusal().map(ToString::to_string);
        let (stop, ended) = (Arc::new(AtomicBool::new(false)), Arc::new(Event::default()));
        let (stop_too, ended_too) = (Arc::clone(&stop), Arc::clone(&ended));
        let body = move || {
            let result = run(request, attached, &stop_too);
            ended_too.notify();
            result
        };
        let thread = std::thread::Builder::new().name("connect".to_owned()).spawn(body);
        let thread = thread.map_err(|source| EngineError::Syscall {
            call: "clone",
            ifname: "the thread of connections".to_owned(),
            source,
        })?;
        Ok(Self { program, stop, ended, thread: Some(thread), mode, native_refusal })
    }

    /// How the answering program is attached.
    pub fn mode(&self) -> XdpMode {
        self.mode
    }

    /// Why the native mode failed, if it was tried.
    pub fn native_refusal(&self) -> Option<&str> {
        self.native_refusal.as_deref()
    }

    /// The counters, also for other threads.
    pub fn program(&self) -> &Arc<ConnectProgram> {
        &self.program
    }

    /// Stops opening, and closes what is open.
    pub fn stop(&self) {
        self.stop.store(true, Relaxed);
    }

    /// Waits for the end, at most `timeout`; true if it has come.
    pub fn wait_for_end(&self, timeout: Duration) -> bool {
        self.ended.wait(0, timeout);
        // A thread that panicked has sent no event.
        self.ended.times() > 0 || self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// When the run failed.
    pub fn result(mut self) -> Result<ConnectResult, EngineError> {
        let thread = self.thread.take().expect("it is taken once");
        thread.join().map_err(|_| EngineError::ThreadLost)?
    }
}

impl Drop for Connecting {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Loads the program and attaches it. In the namespace of the device.
fn attach(request: &ConnectRequest) -> Result<Attached, EngineError> {
    let device = OutputDevice::new(Stack::here()?, &request.ifname)?;
    // Some drivers send from XDP only while a program is attached, as the one of this run will be.
    let is_decided_later = device.may_take_xdp_with_a_program()?;
    let xdp_trouble = if is_decided_later { None } else { device.xdp_trouble()? };
    for trouble in [device.layer_trouble(), device.trouble(true)?, xdp_trouble] {
        trouble.map_or(Ok(()), Err)?;
    }
    let params = ConnectParams {
        ifindex: device.ifindex(),
        by_redirect: device.is_kind("veth")?,
        vlan: request.vlan,
        own_mac: request.own_mac,
        next_hop_macs: request.next_hop_macs.clone(),
        addresses: request.addresses.clone(),
        open_per_client: request.open_per_client,
        group_by: request.group_by,
        settings: request.settings,
        kind: request.kind,
        answer_check: request.answer_check,
        request: request.request.clone(),
        key: boot_key(),
        has_test_clock: false,
    };
    let program = ConnectProgram::load(&params)?;
    program.set_open_max(request.open_max);
    let link = program.attach(device.ifindex(), &device.name(), request.xdp)?;
    if is_decided_later {
        // Cards drop their link for some seconds when a program is attached.
        device.wait_for_carrier()?;
        device.xdp_trouble()?.map_or(Ok(()), Err)?;
    }
    Ok(Attached { program: Arc::new(program), link })
}

fn run(request: ConnectRequest, attached: Attached, stop: &AtomicBool) -> Result<ConnectResult, EngineError> {
    request.netns.enter()?;
    if let Some(cpu) = request.cpu {
        host::pin_thread(cpu)?;
    }
    Sender::new(request, attached)?.run(stop)
}

/// Key of initial sequence numbers: the same in all processes until the next boot, so that the
/// numbers of a port grow from one run to the next.
pub(crate) fn boot_key() -> u64 {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    // FNV-1a.
    id.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
