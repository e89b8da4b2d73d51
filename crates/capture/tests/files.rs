//! What captures leave on a disk: files that follow each other, order of time, formats, full disks.
//! Others read them: capinfos, tshark, editcap, tcpdump, zstd and lz4.

#[expect(dead_code, reason = "the lab serves other tests too")]
mod lab;

use capture::rotate::{FileInterval, RotatePolicy};
use capture::{Compression, Format, OnError, Options, Order, Output, Session, SessionReport};
use lab::{Lab, SmallFileSystem, can_run, frame, run, tshark, wait_until};
use pcapng::{Block, Statistics};
use std::num::{NonZeroU32, NonZeroU64};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;
use testkit::Folder;

/// Sends so many frames from each of two CPUs at a time, so that two rings are in use.
fn send_from_two_cpus(lab: &Lab, count: u32) {
    let parts = [0, 1].map(|cpu| (cpu, u32::try_from(cpu).unwrap() * count));
    thread::scope(|scope| {
        for (cpu, first) in parts {
            scope.spawn(move || {
                pin_to(cpu);
                let sender = lab.sender();
                (first..first + count)
                    .for_each(|number| sender.send(&frame(number, 60 + number as usize % 400)));
            });
        }
    });
    // Everything is in a ring when the receiver has counted it.
    lab.send([]);
}

/// One CPU is enough for the test to be right, two make it ask more.
fn pin_to(cpu: usize) {
    let mut cpus = nix::sched::CpuSet::new();
    cpus.set(cpu).unwrap();
    let _ = nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &cpus);
}

/// Rings and buffers that hold all frames of a test, however busy the machine is.
fn roomy(lab: &Lab, path: &Path) -> Options {
    Options {
        ring_size_bytes: Some(32 << 20),
        buffer_size_bytes: 64 << 20,
        ..lab.options(Output::File(path.to_owned()))
    }
}

/// Waits until so many frames were received, stops, and expects all of them in files.
fn stop_after(session: Session, count: u64) -> SessionReport {
    wait_until(|| session.stats().total().received >= count);
    let report = session.stop();
    let total = report.stats.total();
    assert!(report.output_error.is_none(), "{:?}", report.output_error);
    assert_eq!((total.received, total.written, total.lost()), (count, count, 0), "{total:?}");
    report
}

fn files_in(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// Packets in a file, as capinfos counts them; it fails on a file that is cut short.
fn packets(path: &Path) -> u64 {
    let said = run("capinfos", &["-r", "-T", "-c", "-M", path.to_str().unwrap()]);
    said.trim().rsplit('\t').next().unwrap().parse().unwrap()
}

/// The statistics at the end of a file.
fn statistics(path: &Path) -> Vec<Statistics> {
    let mut reader = pcapng::Reader::new(std::fs::File::open(path).unwrap());
    let mut statistics = Vec::new();
    while let Some(block) = reader.next_block().unwrap() {
        if let Block::Statistics(block) = block {
            statistics.push(block);
        }
    }
    statistics
}

/// Nanoseconds of each packet, in the order of the file.
fn times_ns(path: &Path) -> Vec<u64> {
    let rows = tshark(path, &["frame.time_epoch"]);
    rows.iter().map(|row| row[0].replace('.', "").parse().unwrap()).collect()
}

fn size(bytes: u64) -> Option<NonZeroU64> {
    NonZeroU64::new(bytes)
}

/// Far longer than a busy machine keeps a thread from its CPU.
const LONG_WINDOW: Order = Order::Time { window_ns: 300_000_000 };

#[test]
fn rotation_under_load_loses_nothing_and_keeps_the_order() {
    testkit::needs!(can_run());
    const COUNT: u32 = 60_000;
    let (lab, folder) = (Lab::new(2), Folder::new("rotation"));
    let policy = RotatePolicy { size_max_bytes: size(1_000_000), ..RotatePolicy::default() };
    let options = Options { rotate: policy, order: LONG_WINDOW, ..roomy(&lab, &folder.join("x.pcapng")) };
    let session = Session::start(options).unwrap();
    send_from_two_cpus(&lab, COUNT);
    let report = stop_after(session, 2 * u64::from(COUNT));
    let files = files_in(&folder);
    assert_eq!(report.files, Some(files.len() as u64));
    assert!(files.len() > 10, "{files:?}");
    assert_eq!(files.iter().map(|file| packets(file)).sum::<u64>(), 2 * u64::from(COUNT));
    let mut times = Vec::new();
    for (number, file) in files.iter().enumerate() {
        assert_eq!(file.file_name().unwrap().to_str().unwrap(), format!("x_{:05}.pcapng", number + 1));
        let len = std::fs::metadata(file).unwrap().len();
        assert!(len <= 1_000_000 + 256, "the statistics come on top: {len}");
        times.extend(times_ns(file));
        let facts = run("capinfos", &["-M", file.to_str().unwrap()]);
        assert!(facts.contains("Number of stat entries = 1"), "{facts}");
    }
    assert_eq!(report.merge.unwrap().late, 0);
    assert!(times.is_sorted(), "the order holds from file to file");
    assert_eq!(
        report.stats.output_bytes,
        files.iter().map(|file| file.metadata().unwrap().len()).sum::<u64>()
    );
}

#[test]
fn an_order_that_nobody_asked_for_is_not_made_and_loses_nothing() {
    testkit::needs!(can_run());
    const COUNT: u32 = 20_000;
    let (lab, folder) = (Lab::new(2), Folder::new("unordered"));
    let path = folder.join("x.pcapng");
    let session = Session::start(Options { order: Order::AsTheyCome, ..roomy(&lab, &path) }).unwrap();
    send_from_two_cpus(&lab, COUNT);
    let report = stop_after(session, 2 * u64::from(COUNT));
    assert_eq!((report.merge, report.files), (None, None));
    assert_eq!(packets(&path), 2 * u64::from(COUNT));
}

#[test]
fn each_cpu_has_a_file_of_its_own_and_together_they_have_everything() {
    testkit::needs!(can_run());
    const COUNT: u32 = 5_000;
    let (lab, folder) = (Lab::new(2), Folder::new("per-cpu"));
    let path = folder.join("output.pcap");
    let options = Options { order: Order::FilePerRing, format: Format::Pcap, ..roomy(&lab, &path) };
    let session = Session::start(options).unwrap();
    send_from_two_cpus(&lab, COUNT);
    let report = stop_after(session, 2 * u64::from(COUNT));
    for ring in &report.stats.rings {
        let file = folder.join(format!("output_{}.pcap", ring.cpu));
        assert_eq!(packets(&file), ring.counts.written, "{}", file.display());
        assert!(times_ns(&file).is_sorted());
    }
}

#[test]
fn the_file_of_a_cpu_tells_its_own_frames_and_not_those_of_all() {
    testkit::needs!(can_run());
    let (lab, folder) = (Lab::new(2), Folder::new("per-cpu-counts"));
    let path = folder.join("x.pcapng");
    let session = Session::start(Options { order: Order::FilePerRing, ..roomy(&lab, &path) }).unwrap();
    send_from_two_cpus(&lab, 500);
    let report = stop_after(session, 1000);
    for ring in &report.stats.rings {
        let told = statistics(&folder.join(format!("x_{}.pcapng", ring.cpu)));
        let told: Vec<_> = told.iter().map(|told| (told.interface, told.received, told.delivered)).collect();
        assert_eq!(told, [(0, Some(ring.counts.received), Some(ring.counts.written))], "CPU {}", ring.cpu);
    }
}

#[test]
fn files_of_an_interval_have_its_time_in_their_names_and_end_on_an_idle_line() {
    testkit::needs!(can_run());
    let (lab, folder) = (Lab::new(1), Folder::new("interval"));
    let interval = FileInterval { length_ns: NonZeroU64::new(200_000_000).unwrap(), is_aligned: true };
    let options = Options {
        rotate: RotatePolicy { interval: Some(interval), ..RotatePolicy::default() },
        ..roomy(&lab, &folder.join("%Y/%s_%N.pcapng"))
    };
    let session = Session::start(options).unwrap();
    for number in 0..3 {
        lab.send([frame(number, 100)]);
        // Nothing more comes, and still the file is complete after its interval.
        let complete = || {
            let folders = files_in(&folder);
            let files: Vec<PathBuf> = folders.iter().flat_map(|folder| files_in(folder)).collect();
            files.iter().filter(|file| file.extension().is_some_and(|end| end == "pcapng")).count()
        };
        wait_until(|| complete() == number as usize + 1);
    }
    let report = stop_after(session, 3);
    assert_eq!(report.files, Some(3));
    let folders = files_in(&folder);
    for file in folders.iter().flat_map(|folder| files_in(folder)) {
        let time = file.file_stem().unwrap().to_str().unwrap().replace('_', "");
        assert_eq!(times_ns(&file), [time.parse::<u64>().unwrap()], "{}", file.display());
    }
}

#[test]
fn a_ring_of_files_and_a_quota_hold_and_each_file_has_its_command() {
    testkit::needs!(can_run());
    const COUNT: u32 = 20_000;
    let (lab, folder) = (Lab::new(1), Folder::new("ring"));
    let (files, told) = (folder.join("files"), folder.join("told"));
    let options = Options {
        rotate: RotatePolicy {
            size_max_bytes: size(100_000),
            ring_files: NonZeroU32::new(4),
            quota_bytes: size(1_000_000),
            ..RotatePolicy::default()
        },
        rotate_command: Some(format!("f() {{ basename \"$1\" >> {}; }}; f", told.display())),
        ..roomy(&lab, &files.join("x.pcapng"))
    };
    let session = Session::start(options).unwrap();
    lab.send((0..COUNT).map(|number| frame(number, 100)));
    let report = stop_after(session, COUNT.into());
    let left = files_in(&files);
    assert_eq!(left.len(), 4, "{left:?}");
    let count = report.files.unwrap();
    assert!(count > 20, "{count} files");
    assert_eq!(report.commands_failed, 0);
    let told: Vec<String> = std::fs::read_to_string(told).unwrap().lines().map(str::to_owned).collect();
    let names: Vec<String> = (1..=count).map(|number| format!("x_{number:05}.pcapng")).collect();
    assert_eq!(told, names);
    let last = files.join(names.last().unwrap());
    assert_eq!(left.last(), Some(&last));
    left.iter().for_each(|file| assert!(packets(file) > 0));
}

/// True when files of this folder can be written past the page cache; if not, the calling test is
/// skipped.
fn can_be_direct(folder: &Path) -> bool {
    let path = folder.join("direct");
    let flags = nix::fcntl::OFlag::O_DIRECT.bits();
    let opened =
        std::fs::OpenOptions::new().write(true).create(true).truncate(true).custom_flags(flags).open(&path);
    let _ = std::fs::remove_file(&path);
    if let Err(error) = &opened {
        testkit::skip(format_args!("needs O_DIRECT in {} (on tmpfs Linux 6.6): {error}", folder.display()));
    }
    opened.is_ok()
}

#[test]
fn every_kind_of_file_is_read_by_every_tool() {
    testkit::needs!(can_run());
    const COUNT: u32 = 3_000;
    let (lab, folder) = (Lab::new(2), Folder::new("kinds"));
    let is_possible = can_be_direct(&folder);
    for format in [Format::Pcapng, Format::Pcap] {
        for compression in [None, Some(Compression::Zstd { level: 3 }), Some(Compression::Lz4)] {
            let name = format!("x.{}", format.name());
            let plain = folder.join(&name);
            let path = match compression {
                None => plain.clone(),
                Some(compression) => folder.join(format!("{name}{}", compression.suffix())),
            };
            // Half of them by the other way to the disk, which must not be seen in any.
            let is_direct = is_possible && (format == Format::Pcap) == compression.is_some();
            let options = Options { format, compression, is_direct, ..roomy(&lab, &path) };
            let session = Session::start(options).unwrap();
            lab.send((0..COUNT).map(|number| frame(number, 60 + number as usize % 400)));
            stop_after(session, COUNT.into());
            let [packed, unpacked] = [&path, &plain].map(|path| path.to_str().unwrap());
            match compression {
                None => {}
                Some(Compression::Zstd { .. }) => drop(run("zstd", &["-dqf", packed, "-o", unpacked])),
                Some(Compression::Lz4) => drop(run("lz4", &["-dqf", packed, unpacked])),
            }
            check_with_every_tool(&plain, COUNT);
        }
    }
}

/// Wireshark 4.0 ended at the second frame of a compressed file, after some 130 kB.
#[test]
fn a_compressed_file_is_one_frame_that_tshark_reads_whole() {
    testkit::needs!(can_run());
    const COUNT: u32 = 30_000;
    let (lab, folder) = (Lab::new(1), Folder::new("one-frame"));
    for compression in [Compression::Zstd { level: 1 }, Compression::Lz4] {
        let path = folder.join(format!("x.pcapng{}", compression.suffix()));
        let session =
            Session::start(Options { compression: Some(compression), ..roomy(&lab, &path) }).unwrap();
        // Bytes that do not compress.
        let mut numbers = filter::sample::SplitMix::new(7);
        lab.send((0..COUNT).map(|number| {
            let mut frame = frame(number, 90);
            frame[46..].fill_with(|| numbers.below(256) as u8);
            frame
        }));
        stop_after(session, COUNT.into());
        assert!(std::fs::metadata(&path).unwrap().len() > 1_000_000);
        assert_eq!(tshark(&path, &["frame.number"]).len(), COUNT as usize, "{compression:?}");
    }
}

fn check_with_every_tool(path: &Path, count: u32) {
    let text = path.to_str().unwrap();
    assert_eq!(packets(path), u64::from(count));
    let rows = tshark(path, &["frame.len", "frame.cap_len", "udp.payload"]);
    assert_eq!(rows.len(), count as usize);
    for (number, row) in (0..).zip(&rows) {
        let len = 60 + number as usize % 400;
        assert_eq!((row[0].as_str(), row[1].as_str()), (&*len.to_string(), &*len.min(96).to_string()));
        assert_eq!(row[2][..8], format!("{number:08x}"));
    }
    let lines = run("tcpdump", &["-nn", "-t", "-r", text]);
    assert_eq!(lines.lines().count(), count as usize, "tcpdump");
    let copy = path.with_extension("copy");
    run("editcap", &[text, copy.to_str().unwrap()]);
    assert_eq!(packets(&copy), u64::from(count));
    assert_eq!(run("tcpdump", &["-n", "--nano", "-r", text]).lines().count(), count as usize);
}

#[test]
fn queues_can_be_interfaces_and_packets_can_have_ids() {
    testkit::needs!(can_run());
    const COUNT: u32 = 500;
    let (lab, folder) = (Lab::new(4), Folder::new("per-queue"));
    let path = folder.join("x.pcapng");
    let session =
        Session::start(Options { per_queue: true, packet_ids: true, ..roomy(&lab, &path) }).unwrap();
    lab.send((0..COUNT).map(|number| frame(number, 100)));
    stop_after(session, COUNT.into());
    let fields = ["frame.interface_name", "frame.interface_queue", "frame.packet_id"];
    let rows = tshark(&path, &fields);
    assert_eq!(rows.len(), COUNT as usize);
    let mut ids: Vec<u64> = Vec::new();
    for row in &rows {
        assert_eq!(row[0], format!("rx0 queue {}", row[1]));
        ids.push(
            row[2]
                .trim_start_matches("0x")
                .parse()
                .unwrap_or_else(|_| u64::from_str_radix(row[2].trim_start_matches("0x"), 16).unwrap()),
        );
    }
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), COUNT as usize, "no id comes twice");
    let facts = run("capinfos", &["-M", path.to_str().unwrap()]);
    assert!(facts.contains("Number of interfaces in file: 4"), "{facts}");
    let told = statistics(&path);
    assert_eq!(told.len(), 4);
    for (queue, told) in told.iter().enumerate() {
        let frames = rows.iter().filter(|row| row[1] == queue.to_string()).count() as u64;
        assert_eq!(told.delivered, Some(frames), "queue {queue}");
        assert_eq!(told.received, (queue == 0).then_some(COUNT.into()), "known of all queues together");
    }
}

#[test]
fn ten_megabytes_of_disk_are_filled_and_what_is_in_them_is_read() {
    testkit::needs!(can_run());
    let (lab, folder) = (Lab::new(1), SmallFileSystem::new("ten", "10m"));
    let written = fill(&lab, 100_000, 100, roomy(&lab, &folder.join("x.pcapng")));
    assert!(written > 60_000, "{written}");
}

#[test]
fn a_disk_that_is_written_past_the_page_cache_is_filled_to_the_last_record() {
    testkit::needs!(can_run());
    // More than one step of allocation, and no space for a second one.
    let (lab, folder) = (Lab::new(1), SmallFileSystem::new("direct", "70m"));
    if !can_be_direct(&folder) {
        return;
    }
    let options = Options {
        snaplen: 1_500,
        ring_size_bytes: Some(128 << 20),
        is_direct: true,
        preallocate_bytes: 1 << 20,
        ..roomy(&lab, &folder.join("x.pcapng"))
    };
    let written = fill(&lab, 60_000, 1_400, options);
    assert!(written > 45_000, "{written}");
}

/// Sends frames until the file takes no more; everything is accounted for and read. How many were
/// written.
fn fill(lab: &Lab, count: u32, len: usize, options: Options) -> u64 {
    let Output::File(path) = &options.output else { panic!("a file") };
    let path = path.clone();
    let session = Session::start(options).unwrap();
    lab.send((0..count).map(|number| frame(number, len)));
    wait_until(|| session.is_finished());
    let report = session.stop();
    let total = report.stats.total();
    assert!(report.output_error.is_some());
    assert_eq!(total.received, u64::from(count));
    assert_eq!(total.received, total.written + total.lost_disk + total.lost_ring, "{total:?}");
    assert_eq!(packets(&path), total.written);
    total.written
}

/// Frames come one by one, so that none of them is long enough to free space for the end of the
/// file.
#[test]
fn a_full_disk_on_a_slow_line_leaves_a_file_with_its_statistics() {
    testkit::needs!(can_run());
    for (on_error, more) in [(OnError::Stop, 0), (OnError::GoOn, 100)] {
        let (lab, folder) = (Lab::new(1), SmallFileSystem::new("slow", "16k"));
        let path = folder.join("x.pcapng");
        let session = Session::start(Options { on_error, ..roomy(&lab, &path) }).unwrap();
        let mut sent = 0;
        let mut send_one = || {
            lab.send([frame(sent, 100)]);
            sent += 1;
            wait_until(|| session.stats().total().waiting() == 0);
        };
        while session.stats().total().lost_disk == 0 {
            send_one();
        }
        let written = session.stats().total().written;
        (0..more).for_each(|_| {
            send_one();
            // Again and again the file is tried, and the space for its end is kept.
            thread::sleep(Duration::from_millis(3));
        });
        let total = session.stop().stats.total();
        assert_eq!((total.received, total.written), (sent.into(), written), "{total:?}");
        assert_eq!(total.lost_disk, total.received - written, "what was in the file and had to go is lost");
        assert!(written > 30, "{total:?}");
        assert_eq!(packets(&path), written);
        let told: Vec<_> = statistics(&path).iter().map(|told| (told.received, told.delivered)).collect();
        assert_eq!(told, [(Some(sent.into()), Some(written))], "{on_error:?}");
    }
}

#[test]
fn a_disk_that_was_full_for_a_while_is_outlived() {
    testkit::needs!(can_run());
    const COUNT: u32 = 5_000;
    let (lab, folder) = (Lab::new(1), SmallFileSystem::new("goon", "1m"));
    let (path, filler) = (folder.join("x.pcapng"), folder.join("filler"));
    std::fs::write(&filler, vec![0; 900 << 10]).unwrap();
    let session = Session::start(Options { on_error: OnError::GoOn, ..roomy(&lab, &path) }).unwrap();
    lab.send((0..COUNT).map(|number| frame(number, 100)));
    wait_until(|| session.stats().total().waiting() == 0);
    let full = session.stats().total();
    assert!(full.lost_disk > 0 && full.written > 100, "{full:?}");
    assert!(!session.is_finished(), "it goes on");
    std::fs::remove_file(&filler).unwrap();
    // One frame at a time, until the file is tried again.
    let mut more = 0;
    wait_until(|| {
        lab.send([frame(COUNT, 100)]);
        more += 1;
        session.stats().total().written > full.written
    });
    let report = session.stop();
    let total = report.stats.total();
    assert_eq!(total.received, u64::from(COUNT) + more);
    assert_eq!(total.received, total.written + total.lost_disk, "{total:?}");
    assert!(report.output_error.is_some(), "it is told all the same");
    assert_eq!(packets(&path), total.written);
}

#[test]
fn a_compressed_file_on_a_full_disk_has_what_was_counted() {
    testkit::needs!(can_run());
    const COUNT: u32 = 100_000;
    let (lab, folder) = (Lab::new(1), SmallFileSystem::new("packed", "500k"));
    let path = folder.join("x.pcapng.zst");
    let compression = Some(Compression::Zstd { level: 1 });
    let session = Session::start(Options { compression, ..roomy(&lab, &path) }).unwrap();
    lab.send((0..COUNT).map(|number| frame(number, 100)));
    wait_until(|| session.is_finished() || session.stats().total().waiting() == 0);
    let report = session.stop();
    let total = report.stats.total();
    assert!(report.output_error.is_some(), "{total:?}");
    assert_eq!(total.received, total.written + total.lost_disk + total.lost_ring, "{total:?}");
    let plain = Folder::new("unpacked");
    let unpacked = plain.join("x.pcapng");
    run("zstd", &["-dqf", path.to_str().unwrap(), "-o", unpacked.to_str().unwrap()]);
    assert_eq!(packets(&unpacked), total.written);
    let told: Vec<_> = statistics(&unpacked).iter().map(|told| told.delivered).collect();
    assert_eq!(told, [Some(total.written)]);
}

/// The n-th of a row of lengths from 14 to 9,000 that looks random.
fn length(number: u32) -> usize {
    let mixed = (u64::from(number) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
    14 + (mixed % 8_987) as usize
}

#[test]
fn frames_of_14_to_9000_bytes_are_kept_whole() {
    testkit::needs!(can_run());
    const COUNT: u32 = 2_000;
    let (lab, folder) = (Lab::with_mtu(1, 9_000), Folder::new("lengths"));
    let path = folder.join("x.pcapng");
    let session = Session::start(Options {
        snaplen: 65_535,
        ring_size_bytes: Some(32 << 20),
        ..lab.options(Output::File(path.clone()))
    })
    .unwrap();
    let frames: Vec<Vec<u8>> = (0..COUNT)
        .map(|number| {
            let mut frame = frame(number, length(number));
            frame.truncate(length(number));
            frame
        })
        .collect();
    lab.send(frames.iter().cloned());
    stop_after(session, COUNT.into());
    let file = std::fs::File::open(&path).unwrap();
    let mut reader = pcapng::Reader::new(std::io::BufReader::new(file));
    let mut read = Vec::new();
    while let Some(block) = reader.next_block().unwrap() {
        if let pcapng::Block::Packet(packet) = block {
            assert_eq!(packet.frame_len as usize, packet.data.len());
            read.push(packet.data.to_vec());
        }
    }
    // Two CPUs may have had a part in it, and the order of sending is not what is asked here.
    let (mut sent, mut read) = (frames, read);
    sent.sort_unstable();
    read.sort_unstable();
    assert!(sent == read, "{} frames sent, {} read", sent.len(), read.len());
}

#[test]
fn the_only_file_can_be_read_while_it_grows() {
    testkit::needs!(can_run());
    let (lab, folder) = (Lab::new(1), Folder::new("live"));
    let path = folder.join("x.pcapng");
    let session = Session::start(roomy(&lab, &path)).unwrap();
    for count in 1..4 {
        lab.send((0..100).map(|number| frame(number, 100)));
        wait_until(|| session.stats().total().written == count * 100);
        assert_eq!(packets(&path), count * 100);
    }
    stop_after(session, 300);
}

/// A disk that writes next to nothing.
struct Stuck(std::sync::mpsc::Receiver<()>);

impl std::io::Write for Stuck {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if !bytes.starts_with(&[0x0a, 0x0d, 0x0d, 0x0a]) {
            // Until the test lets go of the other end.
            let _ = self.0.recv();
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn what_a_stuck_disk_costs_is_lost_at_the_disk_and_not_in_the_ring() {
    testkit::needs!(can_run());
    const COUNT: u32 = 30_000;
    let lab = Lab::new(1);
    let (let_go, held) = std::sync::mpsc::channel();
    let output = Output::Stream { name: "stuck".to_owned(), to: Box::new(Stuck(held)) };
    let options =
        Options { ring_size_bytes: Some(512 << 10), buffer_size_bytes: 1 << 20, ..lab.options(output) };
    let session = Session::start(options).unwrap();
    // In portions, so that a reader that has to wait for its CPU keeps up all the same.
    for _ in 0..COUNT / 500 {
        lab.send((0..500).map(|number| frame(number, 100)));
        thread::sleep(Duration::from_millis(1));
    }
    wait_until(|| session.stats().total().lost_disk > 0);
    drop(let_go);
    let total = session.stop().stats.total();
    assert_eq!(total.received, u64::from(COUNT));
    assert!(total.lost_disk > 1_000 && total.lost_ring < total.lost_disk, "{total:?}");
    assert_eq!(total.captured, total.written + total.lost_disk);
}

#[test]
fn a_count_is_written_though_the_disk_was_stuck_for_a_while() {
    testkit::needs!(can_run());
    const COUNT: u32 = 20_000;
    let lab = Lab::new(1);
    let (let_go, held) = std::sync::mpsc::channel();
    let output = Output::Stream { name: "stuck".to_owned(), to: Box::new(Stuck(held)) };
    let options = Options {
        frames_max: Some(COUNT.into()),
        ring_size_bytes: Some(128 << 10),
        buffer_size_bytes: 1 << 20,
        ..lab.options(output)
    };
    let session = Session::start(options).unwrap();
    wait_until(|| {
        lab.send((0..500).map(|number| frame(number, 100)));
        session.stats().total().lost_disk > 10_000
    });
    assert!(!session.is_finished(), "what is not written does not count");
    drop(let_go);
    wait_until(|| {
        lab.send((0..500).map(|number| frame(number, 100)));
        session.is_finished()
    });
    let total = session.stop().stats.total();
    assert_eq!(total.written, u64::from(COUNT), "{total:?}");
    assert_eq!(total.captured, total.written + total.lost_disk + total.after_limit, "{total:?}");
}
