//! The emulated interfaces of a port: a thread answers for them and resolves their gateways.

use host::ResolutionSocket;
use otg::{AddressResolution, EmulatedInterface, PingState};
use sender::device::TxDevice;
use std::io::{self, PipeReader, PipeWriter};
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// RFC 4861 repeats a solicitation after this time, Linux an ARP request.
const REQUEST_INTERVAL: Duration = Duration::from_secs(1);
/// Bytes of the longest message; jumbo frames of the kind are cut.
const MESSAGE_LEN_MAX: usize = 2048;

/// Address resolution of a port. Dropping it ends its thread.
pub(super) struct PortNeighbours {
    shared: Arc<NeighbourState>,
    /// Closed to end the thread.
    stop: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
}

struct NeighbourState {
    socket: ResolutionSocket,
    resolution: Mutex<AddressResolution>,
    /// After each frame, and when the port is closed.
    learned: Condvar,
    /// No thread takes frames any more.
    is_closed: AtomicBool,
}

/// The pings of a port. It does not keep the thread that answers for the port: the next
/// configuration may have other interfaces.
pub(super) struct Pinger(Arc<NeighbourState>);

impl PortNeighbours {
    /// Starts to answer for the interfaces of a port; `None` if it has no addresses.
    ///
    /// # Errors
    /// In one line.
    pub(super) fn start(
        interfaces: &[EmulatedInterface],
        port: &str,
        device: &TxDevice,
    ) -> Result<Option<Self>, String> {
        let resolution = AddressResolution::new(interfaces, port);
        if resolution.is_empty() {
            return Ok(None);
        }
        let failed = |error: io::Error| format!("address resolution: {error}");
        let index = device.link.index;
        let socket = device.netns.run(|| ResolutionSocket::open(index)).map_err(|error| error.to_string())?;
        let socket = socket.map_err(failed)?;
        let shared = Arc::new(NeighbourState {
            socket,
            resolution: Mutex::new(resolution),
            learned: Condvar::default(),
            is_closed: AtomicBool::default(),
        });
        let (stopped, stop) = io::pipe().map_err(failed)?;
        let of_thread = Arc::clone(&shared);
        let thread = thread::Builder::new().name("otg-neighbours".to_owned());
        let thread = thread.spawn(move || of_thread.run(&stopped)).map_err(failed)?;
        Ok(Some(Self { shared, stop: Some(stop), thread: Some(thread) }))
    }

    /// The MAC address of the gateway of an interface, if it is known.
    pub(super) fn gateway_mac(&self, interface: &str) -> Option<[u8; 6]> {
        self.shared.lock().gateway_mac(interface)
    }

    /// The gateway of an interface of this port.
    pub(super) fn gateway(&self, interface: &str) -> String {
        self.shared.lock().gateway(interface).map_or_else(String::new, |gateway| gateway.to_string())
    }

    /// Pings from the interfaces of this port.
    pub(super) fn pinger(&self) -> Pinger {
        Pinger(Arc::clone(&self.shared))
    }

    /// Waits at most `timeout` for the gateway of an interface.
    pub(super) fn wait_for(&self, interface: &str, timeout: Duration) -> Option<[u8; 6]> {
        let is_unknown = |resolution: &mut AddressResolution| resolution.gateway_mac(interface).is_none();
        let waited = self.shared.learned.wait_timeout_while(self.shared.lock(), timeout, is_unknown);
        waited.unwrap_or_else(PoisonError::into_inner).0.gateway_mac(interface)
    }
}

impl Pinger {
    /// Pings an address from an interface of the port, each second. True if it answers within
    /// `timeout`, and before the port is closed.
    pub(super) fn ping(&self, interface: &str, to: IpAddr, timeout: Duration) -> bool {
        let Self(port) = self;
        let Some(id) = port.lock().ping(interface, to) else { return false };
        let deadline = Instant::now() + timeout;
        let is_answered = loop {
            let mut resolution = port.lock();
            let (state, left) =
                (resolution.ping_state(id), deadline.saturating_duration_since(Instant::now()));
            if state == Some(PingState::Answered) || left.is_zero() || port.is_closed() {
                break state == Some(PingState::Answered);
            }
            if let Some(frame) = resolution.ping_frame(id) {
                // Where the link is down, the next one may succeed.
                drop(port.socket.send(&frame));
            }
            let is_same =
                |resolution: &mut AddressResolution| resolution.ping_state(id) == state && !port.is_closed();
            let interval = REQUEST_INTERVAL.min(left);
            drop(port.learned.wait_timeout_while(resolution, interval, is_same));
        };
        port.lock().end_ping(id);
        is_answered
    }
}

impl Drop for PortNeighbours {
    fn drop(&mut self) {
        self.stop = None;
        self.shared.is_closed.store(true, Relaxed);
        self.shared.learned.notify_all();
        if let Some(thread) = self.thread.take() {
            // The thread does not panic; it has nothing to report.
            drop(thread.join());
        }
    }
}

impl NeighbourState {
    fn is_closed(&self) -> bool {
        self.is_closed.load(Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, AddressResolution> {
        self.resolution.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for gateways and answers until the other end of `stop` is closed or the device is gone.
    fn run(&self, stop: &PipeReader) {
        loop {
            let requests = self.lock().requests();
            for request in &requests {
                // Where the link is down, the next one may succeed.
                drop(self.socket.send(request));
            }
            let until = (!requests.is_empty()).then(|| Instant::now() + REQUEST_INTERVAL);
            if !self.answer(stop, until) {
                return;
            }
        }
    }

    /// Answers until this time. False if it is to end.
    fn answer(&self, stop: &PipeReader, until: Option<Instant>) -> bool {
        loop {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return true;
            }
            match self.socket.wait(stop.as_fd(), left) {
                Ok(true) => self.exchange(),
                Ok(false) => return false,
                Err(error) => {
                    tracing::warn!("address resolution: {error}");
                    return false;
                }
            }
            if !self.socket.is_bound() {
                return false;
            }
        }
    }

    /// Takes and answers all frames that are there.
    fn exchange(&self) {
        let mut buffer = [0; MESSAGE_LEN_MAX];
        // An error says that the link is down.
        while let Ok(Some(frame)) = self.socket.receive(&mut buffer) {
            let answer = self.lock().receive(frame);
            self.learned.notify_all();
            if let Some(answer) = answer {
                drop(self.socket.send(&answer));
            }
        }
    }
}
