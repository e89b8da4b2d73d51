//! The veth lab of `host` with its namespaces, a sender of raw frames and a listener.

use capture::{Options, Output};
use host::{LabOptions, Netns, PacketSocket, Stack};
use std::io;
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use testkit::Folder;

pub(crate) const TX_DEV: &str = "tx0";
pub(crate) const RX_DEV: &str = "rx0";

/// True when the test can run; if not, it is skipped.
pub(crate) fn can_run() -> bool {
    testkit::is_root("CAP_NET_ADMIN, CAP_SYS_ADMIN, CAP_BPF")
}

pub(crate) struct Lab {
    _pair: host::Lab,
    pub(crate) tx: Netns,
    pub(crate) rx: Netns,
}

impl Lab {
    pub(crate) fn new(queues: u32) -> Self {
        Self::with_mtu(queues, 1500)
    }

    pub(crate) fn with_mtu(queues: u32, mtu: u32) -> Self {
        let pair = host::Lab::new(&LabOptions { queues, mtu, ..LabOptions::default() }).unwrap();
        Self { tx: pair.tx.netns().clone(), rx: pair.rx.netns().clone(), _pair: pair }
    }

    /// A capture at the receiving end.
    pub(crate) fn options(&self, output: Output) -> Options {
        Options { netns: Some(self.rx.clone()), output, ..Options::new(RX_DEV) }
    }

    pub(crate) fn sender(&self) -> RawSocket {
        RawSocket::open(&self.tx, TX_DEV, 0)
    }

    /// Sends frames and waits until the receiving end has counted them: on a busy machine that
    /// comes late.
    pub(crate) fn send(&self, frames: impl IntoIterator<Item = Vec<u8>>) {
        let stack = Stack::of(&self.rx).unwrap();
        let received = || stack.link(RX_DEV).unwrap().counters.rx_packets;
        let (before, sender) = (received(), self.sender());
        let count = frames.into_iter().inspect(|frame| sender.send(frame)).count() as u64;
        wait_until(|| received() >= before + count);
    }

    /// Counts what the receiving host gets to see.
    pub(crate) fn listener(&self) -> RawSocket {
        RawSocket::open(&self.rx, RX_DEV, libc::ETH_P_ALL as u16)
    }
}

/// A packet socket on one device.
pub(crate) struct RawSocket(PacketSocket);

impl RawSocket {
    pub(crate) fn open(netns: &Netns, device: &str, protocol: u16) -> Self {
        let index = Stack::of(netns).unwrap().link(device).unwrap().index;
        let socket = netns.run(PacketSocket::open).unwrap().unwrap();
        let buffer_bytes: i32 = 512 << 20;
        for option in [libc::SO_RCVBUFFORCE, libc::SO_SNDBUFFORCE] {
            socket.set(libc::SOL_SOCKET, option, &buffer_bytes).unwrap();
        }
        socket.bind(index, protocol).unwrap();
        Self(socket)
    }

    pub(crate) fn send(&self, frame: &[u8]) {
        // SAFETY: the call reads `frame.len()` bytes of `frame`, which lives during the call.
        let sent = unsafe { libc::send(self.0.as_fd().as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        assert_eq!(sent, frame.len() as isize, "send: {}", io::Error::last_os_error());
    }

    /// Frames received since the socket was opened, as the kernel counts them, lost ones included.
    pub(crate) fn received(&self) -> u64 {
        let [packets, _lost] = self.0.get(libc::PACKET_STATISTICS).unwrap();
        packets.into()
    }
}

/// Waits for something that a busy machine does late, but does.
#[track_caller]
pub(crate) fn wait_until(mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < deadline, "waited in vain");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A UDP frame whose bytes tell its number, `len` bytes long or 42, whichever is more.
pub(crate) fn frame(number: u32, len: usize) -> Vec<u8> {
    let len = len.max(46);
    let mut frame = vec![0_u8; len];
    frame[..6].fill(0xff);
    frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    frame[12..14].copy_from_slice(&[8, 0]);
    let ip_len = (len - 14) as u16;
    frame[14] = 0x45;
    frame[16..18].copy_from_slice(&ip_len.to_be_bytes());
    frame[22..24].copy_from_slice(&[64, 17]);
    frame[26..34].copy_from_slice(&[198, 18, 0, 1, 198, 18, 0, 2]);
    let sum =
        (14..34).step_by(2).map(|i| u32::from(u16::from_be_bytes([frame[i], frame[i + 1]]))).sum::<u32>();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame[34..36].copy_from_slice(&(1024 + (number % 512) as u16).to_be_bytes());
    frame[36..38].copy_from_slice(&[0, 9]);
    frame[38..40].copy_from_slice(&(ip_len - 20).to_be_bytes());
    frame[42..46].copy_from_slice(&number.to_be_bytes());
    frame[46..].iter_mut().enumerate().for_each(|(i, byte)| *byte = (i as u32 + number) as u8);
    frame
}

/// A small tmpfs on a temporary folder; dropping it removes both.
#[derive(Debug)]
pub(crate) struct SmallFileSystem(Folder);

impl SmallFileSystem {
    /// `size` as mount(8) takes it, such as `10m`.
    pub(crate) fn new(name: &str, size: &str) -> Self {
        let folder = Folder::new(name);
        let (options, flags) = (format!("size={size}"), nix::mount::MsFlags::empty());
        nix::mount::mount(Some("wrc"), &*folder, Some("tmpfs"), flags, Some(options.as_str())).unwrap();
        Self(folder)
    }
}

impl Deref for SmallFileSystem {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for SmallFileSystem {
    fn drop(&mut self) {
        // Also runs while a failed test unwinds, so it must not panic.
        let _ = nix::mount::umount(&*self.0);
    }
}

/// What a program that we trust says; its exit code must be 0.
pub(crate) fn run(program: &str, args: &[&str]) -> String {
    let output =
        Command::new(program).args(args).output().unwrap_or_else(|error| panic!("{program}: {error}"));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{program} {args:?}: {said}{}", String::from_utf8_lossy(&output.stderr));
    said
}

/// One row for each packet of a file as tshark reads it, with these fields.
pub(crate) fn tshark(file: &Path, fields: &[&str]) -> Vec<Vec<String>> {
    let mut args = vec!["-r", file.to_str().unwrap(), "-T", "fields", "-E", "separator=;"];
    fields.iter().for_each(|field| args.extend(["-e", field]));
    let said = run("tshark", &args);
    said.lines().map(|line| line.split(';').map(str::to_owned).collect()).collect()
}
