//! Where frames are taken, and which: filters, packet sockets, directions, several devices, frames
//! of every length.

#[expect(dead_code, reason = "the lab serves other tests too")]
mod lab;

use capture::{
    CaptureDirection, CaptureError, Counts, Fanout, Mode, Options, Output, Session, SourceFacts, SourceKind,
};
use host::{Stack, VethEnd};
use lab::{Lab, RX_DEV, RawSocket, TX_DEV, can_run, frame, tshark, wait_until};
use std::io::{self, Write};
use std::net::UdpSocket;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex};
use testkit::Folder;

/// Port that the frames of the lab go to, and another.
const PORT: u16 = 9;
const OTHER_PORT: u16 = 10;

fn frame_to(port: u16, number: u32) -> Vec<u8> {
    let mut frame = frame(number, 60);
    frame[36..38].copy_from_slice(&port.to_be_bytes());
    frame
}

/// Inserts an 802.1Q tag into a frame, after its MAC addresses.
fn tagged(frame: &[u8], tci: u16) -> Vec<u8> {
    let mut tagged = frame[..12].to_vec();
    tagged.extend_from_slice(&[0x81, 0x00]);
    tagged.extend_from_slice(&tci.to_be_bytes());
    tagged.extend_from_slice(&frame[12..]);
    tagged
}

struct Capture {
    folder: Folder,
    session: Session,
}

impl Capture {
    /// Of the receiving end into a file, with further options.
    fn start(lab: &Lab, name: &str, change: impl FnOnce(Options) -> Options) -> Self {
        let folder = Folder::new(name);
        let options = lab.options(Output::File(folder.join("x.pcapng")));
        Self { session: Session::start(change(options)).unwrap(), folder }
    }

    fn source(&self) -> String {
        self.session.devices()[0].source.to_string()
    }

    fn file(&self) -> PathBuf {
        self.folder.join("x.pcapng")
    }

    /// The counts, and a row for each frame in the file.
    fn end(self, fields: &[&str]) -> (Counts, Vec<Vec<String>>) {
        let file = self.file();
        let report = self.session.stop();
        assert!(report.output_error.is_none());
        let counts = report.stats.total();
        let rows = tshark(&file, fields);
        assert_eq!(rows.len() as u64, counts.written);
        (counts, rows)
    }
}

fn tpacket(options: Options) -> Options {
    Options { source: SourceKind::Tpacket, ..options }
}

#[test]
fn a_filter_on_xdp_counts_what_it_turns_away_and_leaves_it_to_the_host() {
    testkit::needs!(can_run());
    const COUNT: u32 = 3_000;
    let lab = Lab::new(1);
    let filter = Some("udp dst port 9".to_owned());
    let capture = Capture::start(&lab, "filter", |options| Options { filter, mode: Mode::Drop, ..options });
    let listener = lab.listener();
    lab.send((0..COUNT).map(|number| frame_to(if number % 3 == 0 { PORT } else { OTHER_PORT }, number)));
    let (counts, rows) = capture.end(&["udp.dstport"]);
    assert_eq!(counts.received, u64::from(COUNT));
    assert_eq!((counts.written, counts.filtered, counts.lost()), (1_000, Some(2_000), 0));
    assert!(rows.iter().all(|row| row[0] == "9"));
    assert_eq!(listener.received(), 2_000, "what does not match is not ours to drop");
}

#[test]
fn the_file_names_the_filter() {
    testkit::needs!(can_run());
    let lab = Lab::new(1);
    let filter = Some("vlan 5 or udp".to_owned());
    let capture = Capture::start(&lab, "names", |options| Options { filter, ..options });
    let file = capture.file();
    capture.session.stop();
    let facts = lab::run("capinfos", &[file.to_str().unwrap()]);
    assert!(facts.contains("Filter string = vlan 5 or udp"), "{facts}");
}

#[test]
fn a_wrong_filter_is_refused_before_the_file_is_touched() {
    testkit::needs!(can_run());
    let (lab, folder) = (Lab::new(1), Folder::new("wrong"));
    let file = folder.join("x.pcapng");
    std::fs::write(&file, "precious").unwrap();
    for (filter, source) in [("udp prot 9", SourceKind::Xdp), ("ip6 prot 17", SourceKind::Tpacket)] {
        let options =
            Options { filter: Some(filter.to_owned()), source, ..lab.options(Output::File(file.clone())) };
        let error = Session::start(options).err().unwrap();
        assert!(error.to_string().contains(filter), "{error}");
        assert!(matches!(error, CaptureError::Filter { .. }), "{error:?}");
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
}

#[test]
fn packet_sockets_write_every_frame_with_its_tag() {
    testkit::needs!(can_run());
    const COUNT: u32 = 5_000;
    for fanout in [Fanout::Cpu, Fanout::Hash] {
        let lab = Lab::new(1);
        let capture = Capture::start(&lab, "tpacket", |options| tpacket(Options { fanout, ..options }));
        assert!(capture.source().starts_with("TPACKET_V3"), "{}", capture.source());
        lab.send((0..COUNT).map(|number| match number % 2 {
            0 => frame(number, 60 + number as usize % 100),
            _ => tagged(&frame(number, 60 + number as usize % 100), 0x6005),
        }));
        let fields = ["udp.payload", "frame.len", "frame.cap_len", "vlan.id", "vlan.priority"];
        let (counts, mut rows) = capture.end(&fields);
        assert_eq!((counts.received, counts.written), (COUNT.into(), COUNT.into()));
        assert_eq!((counts.lost(), counts.filtered), (0, Some(0)));
        // Several rings have an order each.
        rows.sort();
        for (number, row) in (0..COUNT).zip(&rows) {
            let (tag_len, vlan) = if number % 2 == 0 { (0, ["", ""]) } else { (4, ["5", "3"]) };
            let len = 60 + number as usize % 100 + tag_len;
            assert_eq!(row[0][..8], format!("{number:08x}"));
            assert_eq!([&row[1], &row[2]], [&len.to_string(), &len.min(96).to_string()], "frame {number}");
            assert_eq!(row[3..5], vlan, "frame {number}");
        }
    }
}

/// With packet sockets `vlan 5` matched no frame, and `not vlan` and `ip` matched tagged ones.
#[test]
fn a_filter_selects_the_same_frames_by_xdp_and_by_packet_sockets() {
    testkit::needs!(can_run());
    for (filter, expected) in [
        ("vlan", 60),
        ("vlan 5", 60),
        ("not vlan", 30),
        ("vlan 5 and udp dst port 9", 40),
        ("vlan and vlan", 20),
        ("ip", 30),
        ("vlan 7 or (vlan 5 and ip)", 0),
        ("udp dst port 9", 30),
        ("len > 100", 0),
        ("inbound and not vlan", 30),
        ("outbound", 0),
        ("ip protochain 17", 30),
    ] {
        let mut lens = Vec::new();
        for source in [SourceKind::Best, SourceKind::Tpacket] {
            let lab = Lab::new(1);
            let filter = Some(filter.to_owned());
            let capture = Capture::start(&lab, "same", |options| Options { filter, source, ..options });
            lab.send((0..90).map(|number| match number % 9 {
                0..3 => frame(number, 60),
                3..7 => tagged(&frame(number, 60), 0x6005),
                _ => tagged(&tagged(&frame(number, 60), 3), 5),
            }));
            let (counts, rows) = capture.end(&["frame.len", "frame.cap_len"]);
            assert_eq!(counts.lost(), 0);
            assert_eq!(counts.written, rows.len() as u64);
            lens.push(rows);
        }
        let [xdp, sockets] = &lens[..] else { panic!() };
        assert_eq!(xdp.len(), sockets.len(), "{filter}");
        if !filter.contains("or (") {
            assert_eq!(xdp.len(), expected, "{filter}");
        }
    }
}

#[test]
fn a_filter_that_asks_for_the_direction_decides_about_it() {
    testkit::needs!(can_run());
    let lab = Lab::new(1);
    let filter = Some("outbound and udp".to_owned());
    let capture = Capture::start(&lab, "outbound", |options| Options { filter, ..options });
    assert!(capture.source().contains("asks for the direction"), "{}", capture.source());
    lab.send((0..20).map(|number| frame(number, 60)));
    let outgoing = RawSocket::open(&lab.rx, RX_DEV, 0);
    (0..10).for_each(|number| outgoing.send(&frame(number, 80)));
    let (counts, rows) = capture.end(&["frame.len"]);
    assert_eq!((counts.written, counts.lost()), (10, 0));
    assert!(rows.iter().all(|row| row[0] == "80"));
    let options = Options { source: SourceKind::Xdp, ..lab.options(Output::Nowhere) };
    let error = Session::start(Options { filter: Some("outbound".to_owned()), ..options }).err().unwrap();
    assert!(error.to_string().contains("XDP sees incoming frames only") && error.is_bad_usage());
}

#[test]
fn a_filter_on_packet_sockets_leaves_the_rest_unknown() {
    testkit::needs!(can_run());
    let lab = Lab::new(1);
    let filter = Some("udp dst port 9".to_owned());
    let capture = Capture::start(&lab, "pfilter", |options| tpacket(Options { filter, ..options }));
    lab.send((0..300).map(|number| frame_to(if number % 3 == 0 { PORT } else { OTHER_PORT }, number)));
    let (counts, rows) = capture.end(&["udp.dstport"]);
    assert_eq!((counts.received, counts.written, counts.filtered), (100, 100, None));
    assert!(rows.iter().all(|row| row[0] == "9"));
}

#[test]
fn directions_are_told_apart() {
    testkit::needs!(can_run());
    for (direction, ins, outs) in
        [(CaptureDirection::In, 200, 0), (CaptureDirection::Out, 0, 100), (CaptureDirection::Both, 200, 100)]
    {
        let lab = Lab::new(1);
        let capture = Capture::start(&lab, "direction", |options| Options {
            direction,
            source: if direction == CaptureDirection::In { SourceKind::Tpacket } else { SourceKind::Best },
            ..options
        });
        assert!(capture.source().contains("TPACKET_V3"), "{}", capture.source());
        lab.send((0..200).map(|number| frame(number, 60)));
        let outgoing = RawSocket::open(&lab.rx, RX_DEV, 0);
        (0..100).for_each(|number| outgoing.send(&frame(number, 80)));
        let (counts, rows) = capture.end(&["frame.packet_flags_direction", "frame.len"]);
        assert_eq!(counts.lost(), 0);
        let count =
            |flag: &str, len: &str| rows.iter().filter(|row| row[0].ends_with(flag) && row[1] == len).count();
        assert_eq!((count("1", "60"), count("2", "80")), (ins, outs), "{direction:?}: {rows:?}");
    }
}

#[test]
fn loopback_is_captured_once_by_packet_sockets() {
    testkit::needs!(can_run());
    let (lab, folder) = (Lab::new(1), Folder::new("lo"));
    Stack::of(&lab.rx).unwrap().set_up("lo").unwrap();
    for direction in [CaptureDirection::In, CaptureDirection::Both] {
        let file = folder.join(format!("{direction}.pcapng"));
        let options = Options { direction, ..lab.options(Output::File(file.clone())) };
        let session = Session::start(Options { ifnames: vec!["lo".to_owned()], ..options }).unwrap();
        let SourceFacts::Tpacket(facts) = session.devices()[0].source.clone() else {
            panic!("not by packet sockets")
        };
        assert!(facts.why.is_some());
        lab.rx
            .run(|| {
                let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
                let listener = UdpSocket::bind("127.0.0.1:0").unwrap();
                for _ in 0..50 {
                    socket.send_to(b"hello", listener.local_addr().unwrap()).unwrap();
                }
            })
            .unwrap();
        assert_eq!(session.stop().stats.total().written, 50, "{direction:?}");
        assert_eq!(tshark(&file, &["udp.length"]), vec![vec!["13"]; 50]);
    }
}

#[test]
fn a_device_whose_xdp_is_taken_is_captured_by_packet_sockets_and_it_is_said() {
    testkit::needs!(can_run());
    let lab = Lab::new(1);
    let first = Session::start(lab.options(Output::Nowhere)).unwrap();
    let capture = Capture::start(&lab, "taken", |options| options);
    let source = capture.source();
    assert!(source.contains("not XDP: rx0 already runs the XDP program wr_capture"), "{source}");
    lab.send((0..100).map(|number| frame(number, 60)));
    assert_eq!(capture.end(&["udp.payload"]).0.written, 100);
    assert_eq!(first.stop().stats.total().written, 100);
}

/// Every frame was said to have come by queue 0.
#[test]
fn packet_sockets_do_not_make_up_queues() {
    testkit::needs!(can_run());
    let per_queue = |options| Options { per_queue: true, ..options };
    let lab = Lab::new(4);
    let refused = |change: Options| Session::start(per_queue(change)).err().unwrap();
    for change in [
        tpacket(lab.options(Output::Nowhere)),
        Options { direction: CaptureDirection::Both, ..lab.options(Output::Nowhere) },
    ] {
        let error = refused(change);
        assert_eq!(error.to_string(), "packet sockets cannot tell the 4 receive queues of rx0 apart");
        assert!(matches!(error, CaptureError::QueuesUntold { queues: 4, .. }), "{error:?}");
    }
    // One queue is easily told.
    let lab = Lab::new(1);
    let capture = Capture::start(&lab, "one-queue", |options| per_queue(tpacket(options)));
    lab.send((0..3).map(|number| frame(number, 60)));
    let (counts, rows) = capture.end(&["frame.interface_name"]);
    assert_eq!(counts.written, 3);
    assert_eq!(rows, [["rx0 queue 0"]; 3]);
}

#[test]
fn what_a_source_cannot_do_is_refused() {
    testkit::needs!(can_run());
    let lab = Lab::new(1);
    let start = |options| Session::start(options).err().unwrap();
    let error = start(tpacket(Options { mode: Mode::Drop, ..lab.options(Output::Nowhere) }));
    assert!(matches!(error, CaptureError::DropNeedsXdp { .. }), "{error}");
    let out = Options { direction: CaptureDirection::Out, ..lab.options(Output::Nowhere) };
    let error = start(Options { source: SourceKind::Xdp, ..out });
    assert!(matches!(error, CaptureError::OnlyIncoming { .. }), "{error}");
    let session = Session::start(tpacket(lab.options(Output::Nowhere))).unwrap();
    assert!(matches!(session.set_mode(Mode::Drop), Err(CaptureError::DropNeedsXdp { .. })));
    // Drop mode is an option that packet sockets cannot stand in for: the error is that of XDP.
    let _first = Session::start(lab.options(Output::Nowhere)).unwrap();
    let error = start(Options { mode: Mode::Drop, ..lab.options(Output::Nowhere) });
    assert!(error.to_string().contains("already runs the XDP program"), "{error}");
}

/// An output that takes the head of the file, and nothing more until it is opened.
#[derive(Clone, Default)]
struct Gate {
    bytes: Arc<Mutex<Vec<u8>>>,
    is_open: Arc<(Mutex<bool>, Condvar)>,
}

impl Gate {
    fn open(&self) {
        *self.is_open.0.lock().unwrap() = true;
        self.is_open.1.notify_all();
    }
}

impl Write for Gate {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.bytes.lock().unwrap().is_empty() {
            let is_open = self.is_open.0.lock().unwrap();
            drop(self.is_open.1.wait_while(is_open, |is_open| !*is_open).unwrap());
        }
        self.bytes.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn packet_rings_that_are_full_lose_what_they_say() {
    testkit::needs!(can_run());
    const COUNT: u32 = 60_000;
    let lab = Lab::new(1);
    // Eight blocks of 256 KiB hold fewer frames of 1514 bytes than that, and no reader empties them
    // meanwhile.
    let (gate, folder) = (Gate::default(), Folder::new("full"));
    let file = folder.join("x.pcapng");
    let stream = Output::Stream { name: "a gate".to_owned(), to: Box::new(gate.clone()) };
    let options = Options { snaplen: 1514, ring_size_bytes: Some(2 << 20), ..tpacket(lab.options(stream)) };
    let session = Session::start(options).unwrap();
    lab.send((0..COUNT).map(|number| frame(number, 1514)));
    gate.open();
    let report = session.stop();
    std::fs::write(&file, &*gate.bytes.lock().unwrap()).unwrap();
    let counts = report.stats.total();
    assert!(counts.lost_ring > 0, "{counts:?}");
    assert_eq!(counts.received, u64::from(COUNT));
    assert_eq!(counts.written + counts.lost_ring, u64::from(COUNT));
    assert_eq!(tshark(&file, &["frame.len"]).len() as u64, counts.written);
}

#[test]
fn several_devices_go_into_one_file_with_an_interface_each() {
    testkit::needs!(can_run());
    let lab = Lab::new(1);
    let end = |name| VethEnd { name, mac: None, queues: 1, mtu: None };
    let (tx, rx) = (Stack::of(&lab.tx).unwrap(), Stack::of(&lab.rx).unwrap());
    tx.create_veth(&end("tx1"), &end("rx1"), &lab.rx).unwrap();
    tx.set_up("tx1").unwrap();
    rx.set_up("rx1").unwrap();
    let capture = Capture::start(&lab, "several", |options| Options {
        ifnames: vec![RX_DEV.to_owned(), "rx1".to_owned()],
        ..options
    });
    lab.send((0..100).map(|number| frame(number, 60)));
    let other = RawSocket::open(&lab.tx, "tx1", 0);
    (0..50).for_each(|number| other.send(&frame(number, 70)));
    wait_until(|| rx.link("rx1").unwrap().counters.rx_packets == 50);
    let (counts, rows) = capture.end(&["frame.interface_name", "frame.len"]);
    assert_eq!((counts.received, counts.lost()), (150, 0));
    let count = |name: &str, len: &str| rows.iter().filter(|row| row[0] == name && row[1] == len).count();
    assert_eq!((count("rx0", "60"), count("rx1", "70")), (100, 50));
}

/// The second one went by packet sockets, and every frame was in the file twice.
#[test]
fn a_device_that_is_named_twice_is_refused() {
    testkit::needs!(can_run());
    let lab = Lab::new(1);
    let ifnames = vec![RX_DEV.to_owned(); 2];
    let error = Session::start(Options { ifnames, ..lab.options(Output::Nowhere) }).err().unwrap();
    assert_eq!(error.to_string(), "rx0 is named twice: each of its frames would come twice");
    assert!(error.is_bad_usage());
}

#[test]
fn random_lengths_from_14_to_9000_are_captured_whole() {
    testkit::needs!(can_run());
    const COUNT: usize = 3_000;
    const LEN_MAX: u32 = 9_000;
    for source in [SourceKind::Xdp, SourceKind::Tpacket] {
        let lab = Lab::with_mtu(1, LEN_MAX);
        let capture = Capture::start(&lab, "lengths", |options| Options {
            source,
            snaplen: 9_014,
            ring_size_bytes: Some(32 << 20),
            ..options
        });
        let mut numbers = filter::sample::SplitMix::new(5);
        let lens: Vec<u32> = (0..COUNT).map(|_| 14 + numbers.below(LEN_MAX - 13)).collect();
        let frames = lens.iter().map(|&len| {
            let mut frame: Vec<u8> = (0..len).map(|i| (i * 7 + len) as u8).collect();
            // For everybody, of a local experiment (IEEE 802).
            frame[..6].fill(0xff);
            frame[12..14].copy_from_slice(&[0x88, 0xb5]);
            frame
        });
        let frames: Vec<Vec<u8>> = frames.collect();
        lab.send(frames.iter().cloned());
        let bytes: u64 = lens.iter().map(|&len| u64::from(len)).sum();
        let file = capture.file();
        let report = capture.session.stop();
        let counts = report.stats.total();
        assert_eq!(
            (counts.received, counts.written, counts.received_bytes),
            (COUNT as u64, COUNT as u64, bytes)
        );
        let mut captured = packets(&file);
        captured.sort();
        let mut sent = frames;
        sent.sort();
        assert!(captured == sent, "{source:?}: some frame came out differently");
    }
}

/// The bytes of every packet of a file.
fn packets(file: &std::path::Path) -> Vec<Vec<u8>> {
    let mut reader = pcapng::Reader::new(std::fs::File::open(file).unwrap());
    let mut packets = Vec::new();
    while let Some(block) = reader.next_block().unwrap() {
        if let pcapng::Block::Packet(packet) = block {
            packets.push(packet.data.to_vec());
        }
    }
    packets
}

#[test]
fn a_deleted_device_ends_a_capture_by_packet_sockets() {
    testkit::needs!(can_run());
    let lab = Lab::new(1);
    let session = Session::start(tpacket(lab.options(Output::Nowhere))).unwrap();
    lab.send((0..10).map(|number| frame(number, 60)));
    assert!(!session.is_finished());
    Stack::of(&lab.tx).unwrap().delete_link(TX_DEV).unwrap();
    wait_until(|| session.is_finished());
    let report = session.stop();
    assert!(report.devices[0].is_gone);
    assert_eq!(report.stats.total().written, 10);
}

#[test]
fn a_mode_that_one_device_cannot_have_none_has() {
    testkit::needs!(can_run());
    let lab = Lab::new(1);
    Stack::of(&lab.rx).unwrap().set_up("lo").unwrap();
    let ifnames = vec![RX_DEV.to_owned(), "lo".to_owned()];
    let session = Session::start(Options { ifnames, ..lab.options(Output::Nowhere) }).unwrap();
    assert!(matches!(session.set_mode(Mode::Drop), Err(CaptureError::DropNeedsXdp { .. })));
    let listener = lab.listener();
    lab.send((0..20).map(|number| frame(number, 60)));
    assert_eq!(listener.received(), 20, "the device that could drop mirrors as before");
    assert_eq!(session.stop().stats.of_device(0).written, 20);
}

#[test]
fn datagrams_as_long_as_they_can_be() {
    testkit::needs!(can_run());
    // Of 65,507 bytes the frame is longer than a capture keeps.
    const LENS: [usize; 5] = [1, 1_472, 9_000, 40_000, 65_507];
    for source in [SourceKind::Xdp, SourceKind::Tpacket] {
        let (lab, folder) = (Lab::new(1), Folder::new("long"));
        Stack::of(&lab.rx).unwrap().set_up("lo").unwrap();
        let file = folder.join("x.pcapng");
        let options = Options { source, snaplen: 65_535, ..lab.options(Output::File(file.clone())) };
        let session = Session::start(Options { ifnames: vec!["lo".to_owned()], ..options }).unwrap();
        lab.rx
            .run(|| {
                let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
                let listener = UdpSocket::bind("127.0.0.1:0").unwrap();
                for len in LENS {
                    socket.send_to(&vec![7; len], listener.local_addr().unwrap()).unwrap();
                    // Handed over before the next one: what does not fit a socket is not the
                    // question.
                    assert_eq!(listener.recv(&mut vec![0; len]).unwrap(), len);
                }
            })
            .unwrap();
        assert_eq!(session.stop().stats.total().written, LENS.len() as u64, "{source:?}");
        let lens: Vec<(u32, usize)> = packets(&file)
            .iter()
            .map(|packet| (packet.len() as u32, packet.iter().filter(|byte| **byte == 7).count()))
            .collect();
        let expected = LENS.map(|len| ((42 + len).min(65_535) as u32, len.min(65_535 - 42)));
        for ((packet_len, sevens), (expected_len, expected_sevens)) in lens.into_iter().zip(expected) {
            assert_eq!(packet_len, expected_len, "{source:?}");
            assert!(sevens >= expected_sevens, "{source:?}: {sevens} of {expected_sevens} bytes");
        }
    }
}

#[test]
fn nothing_is_left_when_the_second_device_does_not_exist() {
    testkit::needs!(can_run());
    let lab = Lab::new(1);
    let ifnames = vec![RX_DEV.to_owned(), "rx9".to_owned()];
    let error = Session::start(Options { ifnames, ..lab.options(Output::Nowhere) }).err().unwrap();
    assert!(error.to_string().contains("rx9"), "{error}");
    assert_eq!(Stack::of(&lab.rx).unwrap().link(RX_DEV).unwrap().xdp, None);
}
