//! One case for each algorithm, mode and kind of number.

use engine::{End, EngineKind, Limits, Pace, Request, TxOptions, Worker};
use host::{Lab, LabOptions, Netns};
use libtest_mimic::Failed;
use packet::{Config, Cursor, Flags, PktgenHeader, Plan, XmitMode};
use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::process::Command;
use std::time::Duration;

/// Frames of one run.
const FRAMES: u64 = 60;
const SPI: u32 = 0x1_0000;
const KEY16: &str = "0x000102030405060708090a0b0c0d0e0f";
const KEY20: &str = "0x000102030405060708090a0b0c0d0e0f10111213";
const KEY24: &str = "0x000102030405060708090a0b0c0d0e0f1011121314151617";
const KEY28: &str = "0x000102030405060708090a0b0c0d0e0f101112131415161718191a1b";
const KEY32: &str = "0x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
const KEY36: &str = "0x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20212223";
const GCM: &str = "rfc4106(gcm(aes))";
const NULL: &[&str] = &["enc", "cipher_null", ""];
/// Numbers that cross the border of 32 bits in the first run.
const ESN: &[&str] = &["flag", "esn"];
const ESN_TX: &[&str] = &["replay-oseq", "0xffffffe0", "replay-oseq-hi", "2"];
const ESN_RX: &[&str] = &["replay-seq", "0xffffffe0", "replay-seq-hi", "2"];

/// Every way to send IPsec frames.
const WAYS: &[(EngineKind, XmitMode)] = &[
    (EngineKind::AfPacket, XmitMode::StartXmit),
    (EngineKind::Skb, XmitMode::StartXmit),
    (EngineKind::Skb, XmitMode::QueueXmit),
    (EngineKind::AfXdp, XmitMode::StartXmit),
];

/// What the associations of both sides are.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    protocol: &'static str,
    mode: &'static str,
    algorithms: &'static [&'static [&'static str]],
    how: How,
}

/// What is special about a case.
#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    Spi,
    Address,
    Extended,
    /// Frames in clear: the receiver must refuse them, or the other cases prove nothing.
    Clear,
    /// Another key at the receiver: the same.
    WrongKey,
}

const fn esp(
    name: &'static str,
    mode: &'static str,
    algorithms: &'static [&'static [&'static str]],
    how: How,
) -> Case {
    Case { name, protocol: "esp", mode, algorithms, how }
}

const fn ah(
    name: &'static str,
    mode: &'static str,
    algorithms: &'static [&'static [&'static str]],
    how: How,
) -> Case {
    Case { name, protocol: "ah", mode, algorithms, how }
}

const GCM_128: &[&[&str]] = &[&["aead", GCM, KEY20, "128"]];
const GCM_192: &[&[&str]] = &[&["aead", GCM, KEY28, "96"]];
const GCM_256: &[&[&str]] = &[&["aead", GCM, KEY36, "64"]];
const CBC_SHA1: &[&[&str]] = &[&["enc", "cbc(aes)", KEY16, "auth", "hmac(sha1)", KEY20]];
const CBC_SHA256: &[&[&str]] = &[&["enc", "cbc(aes)", KEY32, "auth-trunc", "hmac(sha256)", KEY32, "128"]];
const CBC_SHA256_96: &[&[&str]] = &[&["enc", "cbc(aes)", KEY24, "auth", "hmac(sha256)", KEY32]];
const CBC_ALONE: &[&[&str]] = &[&["enc", "cbc(aes)", KEY16]];
const NULL_SHA1: &[&[&str]] = &[NULL, &["auth", "hmac(sha1)", KEY20]];
const NULL_ALONE: &[&[&str]] = &[NULL];
const SHA1: &[&[&str]] = &[&["auth", "hmac(sha1)", KEY20]];
const SHA256: &[&[&str]] = &[&["auth-trunc", "hmac(sha256)", KEY32, "128"]];
const SHA256_ALIGN4: &[&[&str]] = &[&["flag", "align4"], &["auth-trunc", "hmac(sha256)", KEY32, "128"]];

pub(crate) const CASES: &[Case] = &[
    esp("the_receiver_refuses_frames_in_clear", "transport", GCM_128, How::Clear),
    esp("the_receiver_refuses_another_key", "transport", GCM_128, How::WrongKey),
    esp("gcm_128_transport", "transport", GCM_128, How::Spi),
    esp("gcm_128_transport_by_address", "transport", GCM_128, How::Address),
    esp("gcm_128_transport_esn", "transport", GCM_128, How::Extended),
    esp("gcm_128_tunnel", "tunnel", GCM_128, How::Spi),
    esp("gcm_192_icv_96_transport", "transport", GCM_192, How::Spi),
    esp("gcm_256_icv_64_tunnel", "tunnel", GCM_256, How::Spi),
    esp("cbc_128_sha1_transport", "transport", CBC_SHA1, How::Address),
    esp("cbc_128_sha1_tunnel", "tunnel", CBC_SHA1, How::Spi),
    esp("cbc_192_sha256_96_transport", "transport", CBC_SHA256_96, How::Spi),
    esp("cbc_256_sha256_transport", "transport", CBC_SHA256, How::Spi),
    esp("cbc_256_sha256_transport_esn", "transport", CBC_SHA256, How::Extended),
    esp("cbc_256_sha256_tunnel_esn", "tunnel", CBC_SHA256, How::Extended),
    esp("cbc_128_alone_transport", "transport", CBC_ALONE, How::Spi),
    esp("null_sha1_transport", "transport", NULL_SHA1, How::Address),
    esp("null_sha1_tunnel", "tunnel", NULL_SHA1, How::Spi),
    esp("null_alone_transport", "transport", NULL_ALONE, How::Spi),
    ah("ah_sha1_transport", "transport", SHA1, How::Spi),
    ah("ah_sha1_transport_esn", "transport", SHA1, How::Extended),
    ah("ah_sha256_transport", "transport", SHA256, How::Spi),
    ah("ah_sha256_align4_transport", "transport", SHA256_ALIGN4, How::Spi),
    ah("ah_sha256_tunnel", "tunnel", SHA256, How::Spi),
];

/// Asks the kernel, in a namespace of its own.
pub(crate) fn kernel_has_esp_and_ah() -> bool {
    let works = |protocol: &str, algorithm: &[&str]| {
        let mut ip = Command::new("ip");
        ip.args(["xfrm", "state", "add", "src", "10.0.0.1", "dst", "10.0.0.2", "proto", protocol])
            .args(["spi", "256", "mode", "transport"])
            .args(algorithm);
        ip.output().is_ok_and(|output| output.status.success())
    };
    let probe = || works("esp", GCM_128[0]) && works("esp", CBC_SHA1[0]) && works("ah", SHA1[0]);
    Netns::anonymous().and_then(|netns| netns.run(probe)).unwrap_or(false)
}

impl Case {
    /// Two ways to send, other ones from case to case; frames in clear go by the first, which takes
    /// all.
    fn ways(&self) -> [(EngineKind, XmitMode); 2] {
        let index = CASES.iter().position(|case| case.name == self.name).unwrap_or(0);
        match self.how {
            How::Clear => [WAYS[0]; 2],
            _ => [WAYS[index % WAYS.len()], WAYS[(index + 1) % WAYS.len()]],
        }
    }

    /// A run each by two ways, so that the numbers of the second must go on from those of the
    /// first.
    pub(crate) fn run(&self) -> Result<(), Failed> {
        let lab = Lab::new(&LabOptions::default())?;
        self.set_up(&lab)?;
        let socket = lab.rx.netns().run(|| UdpSocket::bind((lab.rx.v4, 9)))??;
        let refuses = matches!(self.how, How::Clear | How::WrongKey);
        socket.set_read_timeout(Some(Duration::from_millis(if refuses { 300 } else { 30_000 })))?;
        let worker = Worker::spawn(0, lab.tx.netns())?;
        for (engine, mode) in self.ways() {
            let expected = if refuses { 0 } else { FRAMES };
            let arrived = std::thread::scope(|scope| {
                let receiver = scope.spawn(|| receive(&socket, FRAMES));
                self.send(&lab, &worker, engine, mode)?;
                receiver.join().map_err(|_| Failed::from("the receiver panicked"))?
            })?;
            let errors = xfrm_errors(lab.rx.netns())?;
            if arrived != expected || errors.is_empty() == refuses {
                let states = ip(&["-n", &lab.rx.netns_name, "-s", "xfrm", "state"])?;
                return Err(format!(
                    "{engine}, {mode:?}: {arrived} of {FRAMES} frames arrived, the kernel counts {errors:?}\n{states}"
                )
                .into());
            }
        }
        let text = ip(&["-n", &lab.tx.netns_name, "xfrm", "state"])?;
        let start = if self.how == How::Extended { 0xffff_ffe0_u32 } else { 0 };
        let sent = if self.how == How::Clear { 0 } else { 2 * FRAMES as u32 };
        // A frame that was written and made way for another one takes its number along: some may be
        // missing, none may come twice.
        let taken = last_number(&text).map(|number| number.wrapping_sub(start));
        match taken {
            Some(taken) if (sent..=10 * sent).contains(&taken) => Ok(()),
            _ => Err(format!(
                "{sent} frames sent, and the sender's kernel has {taken:?} numbers taken:\n{text}"
            )
            .into()),
        }
    }

    fn set_up(&self, lab: &Lab) -> Result<(), Failed> {
        let (src, dst, spi) = (lab.tx.v4.to_string(), lab.rx.v4.to_string(), SPI.to_string());
        let ends = ["src", &src, "dst", &dst];
        let (extended, ours, theirs) = match self.how {
            How::Extended => (ESN, ESN_TX, ESN_RX),
            _ => (&[] as &[&str], &[] as &[&str], &[] as &[&str]),
        };
        for (netns, numbers) in [(&lab.tx.netns_name, ours), (&lab.rx.netns_name, theirs)] {
            let head = ["-n", netns, "xfrm", "state", "add"];
            let names = ["proto", self.protocol, "spi", &spi, "mode", self.mode, "replay-window", "64"];
            let algorithms = self.algorithms.concat();
            let bent: Vec<String> = algorithms
                .iter()
                .map(|word| match self.how == How::WrongKey && *netns == lab.rx.netns_name {
                    true => word.replace("0x0001", "0x0002"),
                    false => (*word).to_owned(),
                })
                .collect();
            let bent: Vec<&str> = bent.iter().map(String::as_str).collect();
            ip(&[&head as &[&str], &ends, &names, extended, numbers, &bent].concat())?;
        }
        let head = ["-n", &lab.rx.netns_name, "xfrm", "policy", "add"];
        let template = ["dir", "in", "tmpl"];
        let rule = ["proto", self.protocol, "mode", self.mode];
        let tunnel: &[&str] = if self.mode == "tunnel" { &ends } else { &[] };
        ip(&[&head as &[&str], &ends, &template, tunnel, &rule].concat())?;
        Ok(())
    }

    fn config(&self, lab: &Lab) -> Config {
        let mut config = Config {
            min_pkt_size: 60,
            max_pkt_size: 1400,
            src_min: Some(lab.tx.v4),
            dst_min: Some(lab.rx.v4),
            dst_mac: lab.rx.mac,
            flows: 3,
            flow_len: 5,
            tos: 0xb8,
            seed: Some(11),
            ..Config::default()
        };
        config.flags.set(Flags::TXSIZE_RND, true);
        config.flags.set(Flags::UDPCSUM, true);
        config.flags.set(Flags::IPSEC, self.how != How::Clear);
        config.spi = if self.how == How::Address { 0 } else { SPI };
        config
    }

    fn send(&self, lab: &Lab, worker: &Worker, engine: EngineKind, mode: XmitMode) -> Result<(), Failed> {
        let mut config = self.config(lab);
        let facts = lab.tx.stack.facts(lab.tx.ifname)?;
        config.prepare(&facts);
        let mut cursor = Cursor { associations: lab.tx.stack.associations()?, ..Cursor::default() };
        cursor.start(&config, &facts, 1);
        let plan = Plan::new(&config, &facts, &cursor)?;
        let request = Request {
            ifname: lab.tx.ifname.to_owned(),
            plan,
            cursor,
            mode,
            limits: Limits { count: FRAMES, pace: Pace::from_delay_ns(1_000_000), ..Limits::default() },
            engine: Some(engine),
            options: TxOptions::of(&config),
            batch: None,
            next_ns: None,
        };
        let run = worker.start(request);
        let report = run.wait(Duration::from_secs(60)).ok_or("the run does not end")?;
        match report.end {
            End::Count if report.total.sent == FRAMES => Ok(()),
            other => {
                let sent = report.total.sent;
                Err(format!("{engine}, {mode:?}: {sent} sent, and the run ended with {other:?}").into())
            }
        }
    }
}

/// The lower half of the last number that `ip xfrm state` tells of.
fn last_number(text: &str) -> Option<u32> {
    let digits = text.split_once("oseq 0x")?.1.split(|letter: char| !letter.is_ascii_hexdigit()).next()?;
    u32::from_str_radix(digits, 16).ok()
}

/// How many different and undamaged frames come before there is silence, at most `count`.
fn receive(socket: &UdpSocket, count: u64) -> Result<u64, Failed> {
    let mut seen = BTreeSet::new();
    let mut bytes = [0xee; 2048];
    while (seen.len() as u64) < count {
        let len = match socket.recv(&mut bytes) {
            Ok(len) => len,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(error.into()),
        };
        let stamp = PktgenHeader::parse(&bytes[..len]).ok_or("a datagram without pktgen header")?;
        if bytes[16..len].iter().any(|byte| *byte != 0) {
            return Err(format!("frame {} does not end in zeros", stamp.seq_num).into());
        }
        seen.insert(stamp.seq_num);
    }
    Ok(seen.len() as u64)
}

/// The counters of `/proc/net/xfrm_stat` that are not zero.
fn xfrm_errors(netns: &Netns) -> Result<Vec<String>, Failed> {
    // Not /proc/net, which is that of the first thread.
    let text = netns.run(|| std::fs::read_to_string("/proc/thread-self/net/xfrm_stat"))??;
    Ok(text.lines().filter(|line| !line.trim_end().ends_with("\t0")).map(str::to_owned).collect())
}

fn ip(arguments: &[&str]) -> Result<String, Failed> {
    let output = Command::new("ip").args(arguments).output().map_err(|error| format!("ip: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("ip {arguments:?}: {}", String::from_utf8_lossy(&output.stderr).trim()).into()),
    }
}
