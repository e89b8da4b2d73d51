//! Captures on a veth pair in namespaces of their own: what is sent is captured, written, and
//! counted to the last frame; tshark and capinfos read the files.

mod lab;

use capture::{
    CaptureError, Counts, Mode, Options, Output, Session, SourceFacts, SourceKind, XdpFacts, XdpMode,
    XdpModeChoice,
};
use host::{Netns, Stack};
use lab::{Lab, RX_DEV, SmallFileSystem, can_run, frame, run, tshark, wait_until};
use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use testkit::Folder;

/// Length of the n-th frame of a test: all from 46 to 1514.
fn frame_len(number: u32) -> usize {
    46 + (number as usize * 7) % 1469
}

fn send(lab: &Lab, count: u32) {
    lab.send((0..count).map(|number| frame(number, frame_len(number))));
}

fn bytes_sent(count: u32) -> u64 {
    (0..count).map(|number| frame_len(number) as u64).sum()
}

/// How the only device's program is attached.
fn xdp(session: &Session) -> XdpFacts {
    match &session.devices()[0].source {
        SourceFacts::Xdp(facts) => facts.clone(),
        other => panic!("{other}"),
    }
}

/// The first `count` frames that are longer than the snaplen of these tests.
fn cut(count: u32) -> u64 {
    (0..count).filter(|number| frame_len(*number) > capture::SNAPLEN_DEFAULT as usize).count() as u64
}

/// Everything received was written.
fn whole(count: u32) -> Counts {
    Counts {
        received: count.into(),
        received_bytes: bytes_sent(count),
        captured: count.into(),
        written: count.into(),
        cut: cut(count),
        ..Counts::default()
    }
}

#[test]
fn mirror_mode_writes_every_frame_and_the_host_sees_it_too() {
    testkit::needs!(can_run());
    const COUNT: u32 = 10_007;
    let (lab, folder) = (Lab::new(1), Folder::new("mirror"));
    let file = folder.join("x.pcapng");
    let session = Session::start(lab.options(Output::File(file.clone()))).unwrap();
    let listener = lab.listener();
    assert_eq!(xdp(&session).mode, XdpMode::Native);
    let before_ns = utc_ns();
    // One ring gets all frames, so the file has them in order.
    on_cpu_0(|| send(&lab, COUNT));
    wait_until(|| session.received() == (COUNT.into(), bytes_sent(COUNT)));
    let report = session.stop();
    assert!(report.output_error.is_none());
    assert_eq!(report.stats.total(), whole(COUNT));
    assert_eq!(listener.received(), u64::from(COUNT));
    assert_eq!(report.stats.output_bytes, std::fs::metadata(&file).unwrap().len());

    let rows = tshark(
        &file,
        &["frame.len", "frame.cap_len", "frame.time_epoch", "frame.interface_queue", "udp.payload"],
    );
    assert_eq!(rows.len(), COUNT as usize);
    let mut time_before_ns = before_ns;
    for (number, row) in rows.iter().enumerate() {
        let len = frame_len(number as u32);
        assert_eq!(row[0], len.to_string(), "frame {number}");
        assert_eq!(row[1], len.min(96).to_string(), "frame {number}");
        let time_ns = epoch_ns(&row[2]);
        assert!((time_before_ns..=utc_ns()).contains(&time_ns), "frame {number} at {time_ns}");
        time_before_ns = time_ns;
        assert_eq!(row[4][..8], format!("{number:08x}"), "frame {number}");
    }
    let facts = run("capinfos", &["-M", file.to_str().unwrap()]);
    assert!(facts.contains("Number of packets:   10007"), "{facts}");
    assert!(facts.contains("Capture length = 96"), "{facts}");
    assert!(facts.contains("Name = rx0") && facts.contains("Time ticks per second = 1000000000"), "{facts}");
    assert!(facts.contains("Number of stat entries = 1"), "{facts}");
}

fn on_cpu_0(work: impl FnOnce() + Send) {
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut cpus = nix::sched::CpuSet::new();
            cpus.set(0).unwrap();
            nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &cpus).unwrap();
            work();
        });
    });
}

fn utc_ns() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64
}

/// Nanoseconds of a text such as `1700000000.123456789`.
fn epoch_ns(text: &str) -> u64 {
    text.replace('.', "").parse().unwrap()
}

#[test]
fn drop_mode_writes_every_frame_and_the_host_sees_none() {
    testkit::needs!(can_run());
    const COUNT: u32 = 3_000;
    let (lab, folder) = (Lab::new(1), Folder::new("drop"));
    let file = folder.join("x.pcapng");
    let options = Options { mode: Mode::Drop, ..lab.options(Output::File(file.clone())) };
    let session = Session::start(options).unwrap();
    let listener = lab.listener();
    send(&lab, COUNT);
    assert_eq!(session.stop().stats.total(), whole(COUNT));
    assert_eq!(listener.received(), 0);
    assert_eq!(tshark(&file, &["frame.number"]).len(), COUNT as usize);
}

#[test]
fn switching_the_mode_under_load_loses_nothing() {
    testkit::needs!(can_run());
    const COUNT: u32 = 100_000;
    let lab = Lab::new(1);
    // Space for all of them: how fast a busy machine lets the writer run is not the question here.
    let options =
        Options { ring_size_bytes: Some(32 << 20), ..lab.options(Output::File("/dev/null".into())) };
    let session = Session::start(options).unwrap();
    let listener = lab.listener();
    let switches = thread::scope(|scope| {
        let sender = scope.spawn(|| send(&lab, COUNT));
        let mut switches = 0;
        while !sender.is_finished() || switches < 1_000 {
            session.set_mode(if switches % 2 == 0 { Mode::Drop } else { Mode::Mirror }).unwrap();
            switches += 1;
            thread::sleep(Duration::from_micros(100));
        }
        switches
    });
    assert_eq!(session.stop().stats.total(), whole(COUNT));
    let seen = listener.received();
    assert!(seen > 0 && seen < COUNT.into(), "{seen} of {COUNT} seen over {switches} switches");
}

#[test]
fn exactly_the_limit_is_written_and_the_rest_is_counted() {
    testkit::needs!(can_run());
    let (lab, folder) = (Lab::new(2), Folder::new("limit"));
    for limit in [1_u32, 2, 63, 64, 65, 1000] {
        let file = folder.join(format!("{limit}.pcapng"));
        let options = Options { frames_max: Some(limit.into()), ..lab.options(Output::File(file.clone())) };
        let session = Session::start(options).unwrap();
        assert!(!session.is_finished());
        send(&lab, 1500);
        wait_until(|| session.is_finished());
        let total = session.stop().stats.total();
        // Which frames are written depends on which of the two queues is read first.
        let lengths = tshark(&file, &["frame.len", "frame.cap_len"]);
        assert_eq!(lengths.len(), limit as usize);
        let cut = lengths.iter().filter(|row| row[0] != row[1]).count() as u64;
        let (written, after_limit) = (limit.into(), (1500 - limit).into());
        assert_eq!(total, Counts { written, cut, after_limit, ..whole(1500) });
    }
}

/// Takes its time for every piece.
struct Slow(Arc<Mutex<Vec<u8>>>);

impl Write for Slow {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        thread::sleep(Duration::from_millis(20));
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn frames_lost_in_a_full_ring_are_counted_and_told_in_the_file() {
    testkit::needs!(can_run());
    const COUNT: u32 = 20_000;
    let (lab, folder) = (Lab::new(1), Folder::new("full"));
    let bytes = Arc::default();
    let output = Output::Stream { name: "slow".to_owned(), to: Box::new(Slow(Arc::clone(&bytes))) };
    // Some 45 frames overflow in any flood; a slow output leaves what overflows the buffers to the
    // disk.
    let sizes = Options { snaplen: 1_500, ring_size_bytes: Some(1), ..lab.options(output) };
    let options = Options { buffer_size_bytes: 0, ..sizes };
    let session = Session::start(options).unwrap();
    on_cpu_0(|| {
        lab.send((0..COUNT).map(|number| frame(number, 1_400)));
        // Comes after the flood and into the same ring, so that it tells of the frames lost before
        // it.
        wait_until(|| session.stats().total().waiting() == 0);
        lab.send([frame(COUNT, 60)]);
        wait_until(|| session.stats().total().waiting() == 0);
    });
    let total = session.stop().stats.total();
    assert_eq!(total.received, u64::from(COUNT) + 1);
    assert!(total.lost_ring > 0, "{total:?}");
    assert_eq!(total.received, total.captured + total.lost_ring);
    assert_eq!(total.captured, total.written + total.lost_disk);

    let file = folder.join("x.pcapng");
    std::fs::write(&file, &*bytes.lock().unwrap()).unwrap();
    let told = tshark(&file, &["frame.drop_count", "frame.len"]);
    assert_eq!(told.len() as u64, total.written);
    assert_eq!(told.iter().filter_map(|row| row[0].parse::<u64>().ok()).sum::<u64>(), total.lost());
}

#[test]
fn full_disk_is_an_error_that_names_the_file_and_counts_what_it_cost() {
    testkit::needs!(can_run());
    const COUNT: u32 = 5_000;
    let (lab, folder) = (Lab::new(1), SmallFileSystem::new("enospc", "100k"));
    let file = folder.join("x.pcapng");
    let session = Session::start(lab.options(Output::File(file.clone()))).unwrap();
    send(&lab, COUNT);
    wait_until(|| session.is_finished());
    let report = session.stop();
    let total = report.stats.total();
    assert_eq!((total.received, total.captured), (COUNT.into(), COUNT.into()));
    assert!(total.lost_disk > 0 && total.written > 500, "{total:?}");
    assert_eq!(total.captured, total.written + total.lost_disk);
    let error = report.output_error.unwrap();
    assert!(error.to_string().starts_with(&format!("cannot write to {} after ", file.display())), "{error}");
    assert!(
        matches!(&error, CaptureError::Write { source, .. } if source.raw_os_error() == Some(libc::ENOSPC))
    );
    assert_eq!(report.stats.output_bytes, std::fs::metadata(&file).unwrap().len());
    assert_eq!(tshark(&file, &["frame.number"]).len() as u64, total.written);
    let facts = run("capinfos", &["-M", file.to_str().unwrap()]);
    assert!(facts.contains("Number of stat entries = 1"), "the end of the file tells of the losses: {facts}");
}

#[test]
fn disk_without_room_for_anything_is_refused_at_the_start() {
    testkit::needs!(can_run());
    let (lab, folder) = (Lab::new(1), SmallFileSystem::new("zero", "4k"));
    std::fs::write(folder.join("other"), [0; 4096]).unwrap();
    let file = folder.join("x.pcapng");
    let error = Session::start(lab.options(Output::File(file.clone()))).err().unwrap();
    assert_eq!(error.to_string(), format!("cannot write to {} after 0 bytes", file.display()));
    assert!(!file.exists(), "nothing is left behind");
    assert_eq!(Stack::of(&lab.rx).unwrap().link(RX_DEV).unwrap().xdp, None);
}

#[test]
fn device_with_a_program_is_refused_by_its_name_and_the_file_is_not_touched() {
    testkit::needs!(can_run());
    let (lab, folder) = (Lab::new(1), Folder::new("busy"));
    let file = folder.join("x.pcapng");
    std::fs::write(&file, "precious").unwrap();
    let first = Session::start(lab.options(Output::Nowhere)).unwrap();
    let second = Options { source: SourceKind::Xdp, ..lab.options(Output::File(file.clone())) };
    let error = Session::start(second).err().unwrap().to_string();
    assert!(error.starts_with("rx0 already runs the XDP program wr_capture"), "{error}");
    assert!(error.ends_with(", native)"), "{error}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
    drop(first);
    assert_eq!(Stack::of(&lab.rx).unwrap().link(RX_DEV).unwrap().xdp, None, "a dropped session takes it off");
    Session::start(lab.options(Output::Nowhere)).unwrap().stop();
}

#[test]
fn missing_device_is_named_with_its_namespace() {
    testkit::needs!(can_run());
    let lab = Lab::new(1);
    let error = Session::start(Options { ifnames: vec!["rx7".to_owned()], ..lab.options(Output::Nowhere) })
        .err()
        .unwrap();
    assert!(error.to_string().contains("rx7"), "{error}");
}

#[test]
fn generic_mode_captures_on_devices_that_know_nothing_of_xdp() {
    testkit::needs!(can_run());
    let netns = Netns::anonymous().unwrap();
    Stack::of(&netns).unwrap().set_up("lo").unwrap();
    let options = Options { netns: Some(netns.clone()), source: SourceKind::Xdp, ..Options::new("lo") };
    let session = Session::start(options).unwrap();
    assert_eq!(xdp(&session).mode, XdpMode::Generic);
    assert!(xdp(&session).native_refusal.is_some());
    netns
        .run(|| {
            let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
            for _ in 0..100 {
                socket.send_to(b"hello", socket.local_addr().unwrap()).unwrap();
            }
        })
        .unwrap();
    wait_until(|| session.stats().total().received >= 100);
    let total = session.stop().stats.total();
    assert_eq!((total.received, total.received_bytes), (100, 100 * (14 + 20 + 8 + 5)));

    let lab = Lab::new(1);
    let session = Session::start(Options {
        xdp: XdpModeChoice::Generic,
        source: SourceKind::Xdp,
        ..lab.options(Output::Nowhere)
    })
    .unwrap();
    assert_eq!(xdp(&session), XdpFacts { mode: XdpMode::Generic, native_refusal: None });
    send(&lab, 200);
    // Nothing is kept, so nothing is cut.
    assert_eq!(session.stop().stats.total(), Counts { cut: 0, ..whole(200) });
}

#[test]
fn every_queue_is_captured_and_named() {
    testkit::needs!(can_run());
    const COUNT: u32 = 2_000;
    let (lab, folder) = (Lab::new(4), Folder::new("queues"));
    let file = folder.join("x.pcapng");
    let session = Session::start(lab.options(Output::File(file.clone()))).unwrap();
    send(&lab, COUNT);
    assert_eq!(session.stop().stats.total(), whole(COUNT));
    let mut queues: Vec<String> =
        tshark(&file, &["frame.interface_queue"]).into_iter().map(|mut row| row.remove(0)).collect();
    assert_eq!(queues.len(), COUNT as usize);
    queues.sort();
    queues.dedup();
    assert!(queues.len() > 1 && queues.iter().all(|queue| queue.parse::<u32>().unwrap() < 4), "{queues:?}");
}

#[test]
fn jumbo_frames_are_captured_whole_and_native() {
    testkit::needs!(can_run());
    let (lab, folder) = (Lab::with_mtu(1, 9000), Folder::new("jumbo"));
    let file = folder.join("x.pcapng");
    let options = Options { snaplen: 65_535, ..lab.options(Output::File(file.clone())) };
    let session = Session::start(options).unwrap();
    assert_eq!(xdp(&session).mode, XdpMode::Native);
    let lens = [60, 1514, 3506, 4096, 9014];
    lab.send(lens.map(|len| frame(7, len)));
    let total = session.stop().stats.total();
    assert_eq!(
        (total.received, total.written, total.received_bytes),
        (5, 5, lens.iter().sum::<usize>() as u64)
    );
    let bytes = std::fs::read(&file).unwrap();
    for len in lens {
        let sent = frame(7, len);
        assert!(bytes.windows(len).any(|window| window == sent), "the frame of {len} bytes");
    }
}

#[test]
fn device_that_is_deleted_ends_the_capture() {
    testkit::needs!(can_run());
    let (lab, folder) = (Lab::new(1), Folder::new("gone"));
    let file = folder.join("x.pcapng");
    let session = Session::start(lab.options(Output::File(file.clone()))).unwrap();
    send(&lab, 1_000);
    assert!(!session.is_finished());
    Stack::of(&lab.tx).unwrap().delete_link(lab::TX_DEV).unwrap();
    wait_until(|| session.is_finished());
    let report = session.stop();
    assert!(report.devices[0].is_gone && report.output_error.is_none());
    assert_eq!(report.stats.total(), whole(1_000));
    assert_eq!(tshark(&file, &["frame.number"]).len(), 1_000);
}

#[test]
fn snaplen_up_to_the_whole_frame_keeps_the_right_bytes() {
    testkit::needs!(can_run());
    let (lab, folder) = (Lab::with_mtu(1, 3400), Folder::new("snaplen"));
    for snaplen in [14, 60, 200, 1514, 65_535] {
        let file = folder.join(format!("{snaplen}.pcapng"));
        let options = Options { snaplen, ..lab.options(Output::File(file.clone())) };
        let session = Session::start(options).unwrap();
        let frames = [60, 201, 1514, 3400].map(|len| frame(9, len));
        lab.send(frames.clone());
        assert_eq!(session.stop().stats.total().written, 4);
        for (row, frame) in tshark(&file, &["frame.len", "frame.cap_len"]).iter().zip(&frames) {
            assert_eq!(row[0], frame.len().to_string());
            assert_eq!(row[1], frame.len().min(snaplen as usize).to_string());
        }
        let bytes = std::fs::read(&file).unwrap();
        for frame in &frames {
            let kept = &frame[..frame.len().min(snaplen as usize)];
            assert!(bytes.windows(kept.len()).any(|window| window == kept), "snaplen {snaplen}");
        }
    }
}
