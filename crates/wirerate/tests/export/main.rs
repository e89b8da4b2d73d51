//! `wirerate export` on files that are made here: packets come back bit for bit, fields agree with
//! tshark, and the queries of docs/parquet.md give what the packets are.

mod bucket;
mod frames;
mod memory;

use frames::random_frame;
use packet::Rng;
use pcapng::{Block, Interface, Packet, PacketBuf, PacketFlags, Reader, Section, Statistics, Writer};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use testkit::Folder;

const START_NS: u64 = 1_795_367_298_000_000_000;
const PYTHON: &str = "/var/cache/wirerate/python/bin/python";

fn export_command(folder: &Path, args: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wirerate"));
    command.arg("export").args(args.split_whitespace()).current_dir(folder);
    command
}

fn export(folder: &Path, args: &str) -> Output {
    export_command(folder, args).output().expect("the program runs")
}

/// The report of an export that ends with this exit code, and what it prints to standard error.
fn report_of(command: &mut Command, code: i32) -> (Value, String) {
    let output = command.output().expect("the program runs");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    testkit::check_json_lines(&String::from_utf8_lossy(&output.stdout));
    (serde_json::from_slice(&output.stdout).unwrap_or_else(|why| panic!("{why}: {stderr}")), stderr)
}

fn report(folder: &Path, args: &str, code: i32) -> Value {
    report_of(&mut export_command(folder, &format!("{args} --json")), code).0
}

/// A file of two interfaces.
fn file_of(packets: &[PacketBuf]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), &Section::default()).unwrap();
    for name in ["eth0", "eth1"] {
        let interface = Interface { name: Some(name.into()), snaplen: 96, ..Interface::default() };
        writer.add_interface(&interface).unwrap();
    }
    packets.iter().for_each(|packet| writer.packet(&packet.as_packet()).unwrap());
    writer.finish().unwrap()
}

/// What an export keeps of packets, and the names of their interfaces.
fn kept(bytes: &[u8]) -> Vec<(PacketBuf, String)> {
    let (mut names, mut packets) = (Vec::new(), Vec::new());
    for block in Reader::new(bytes) {
        match block.unwrap() {
            Block::Interface(interface) => names.push(interface.name.unwrap_or_default()),
            Block::Packet(packet) => {
                let name = names[packet.interface as usize].clone();
                let PacketBuf { time_ns, frame_len, data, queue, flags, packet_id, comment, .. } = packet;
                let fields = PacketBuf { time_ns, frame_len, data, queue, ..PacketBuf::default() };
                packets.push((PacketBuf { flags, packet_id, comment, ..fields }, name));
            }
            _ => {}
        }
    }
    packets
}

/// Files of packets below a folder.
fn parts(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        match entry.path() {
            path if path.is_dir() => found.extend(parts(&path)),
            path if entry.file_name().to_string_lossy().starts_with("part-") => found.push(path),
            _ => {}
        }
    }
    found
}

/// 1,000 random frames at each length of their captured part, two packets per second.
#[test]
fn packets_come_back_bit_for_bit() {
    let folder = Folder::new("export-back");
    let mut rng = Rng(7);
    let mut packets = Vec::new();
    for number in 0..1000_u64 {
        let frame = random_frame(&mut rng);
        for cap_len in [number as usize % 97, 96, frame.len()] {
            packets.push(PacketBuf {
                interface: (packets.len() % 3 / 2) as u32,
                time_ns: START_NS + packets.len() as u64 * 500_000_000 + number,
                frame_len: frame.len() as u32,
                data: frame[..cap_len.min(frame.len())].to_vec(),
                queue: number.is_multiple_of(2).then_some(number as u32 % 5),
                flags: [None, Some(PacketFlags::INBOUND), Some(PacketFlags::OUTBOUND)][number as usize % 3],
                packet_id: number.is_multiple_of(5).then_some(u64::MAX - number),
                comment: number.is_multiple_of(7).then(|| format!("number {number}")),
                ..PacketBuf::default()
            });
        }
    }
    let original = file_of(&packets);
    fs::write(folder.join("frames.pcapng"), &original).unwrap();
    let done = report(&folder, "frames.pcapng -o packets", 0);
    assert_eq!(
        (&done["packets"], &done["stored"], &done["not_stored"]),
        (&json!(3000), &json!(3000), &json!(0))
    );
    // 25 minutes of two devices.
    assert!(parts(&folder.join("packets")).len() >= 50);
    let back = report(&folder, "packets --to pcapng -o back.pcapng", 0);
    assert_eq!(back["stored"], 3000);
    let restored = fs::read(folder.join("back.pcapng")).unwrap();
    assert!(kept(&original) == kept(&restored));
    // The same run again would mix with the first one.
    let again = export(&folder, "frames.pcapng -o packets");
    assert_eq!(again.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&again.stderr).contains("try: another --run"));
    report(&folder, "frames.pcapng -o packets --run two --no-bytes", 0);
    let refused = export(&folder, "packets/run=two --to pcapng -o none.pcapng");
    assert_eq!(refused.status.code(), Some(3));
    assert!(!folder.join("none.pcapng").exists());
}

/// The last packet of a part was written under the interfaces of the next part, and damage at the
/// beginning of the first part was not reported.
#[test]
fn packets_keep_their_interface_when_the_next_file_has_others() {
    let folder = Folder::new("export-interfaces");
    // Two interfaces of Ethernet, then one of IP packets, then one of Ethernet.
    for (number, link_types) in [&[1, 1][..], &[101], &[1]].into_iter().enumerate() {
        let mut writer = Writer::new(Vec::new(), &Section::default()).unwrap();
        for (interface, link_type) in link_types.iter().enumerate() {
            writer.add_interface(&Interface { link_type: *link_type, ..Interface::default() }).unwrap();
            let time_ns = START_NS + (10 * number + interface) as u64;
            let packet = Packet { interface: interface as u32, time_ns, frame_len: 20, ..Packet::default() };
            writer.packet(&Packet { data: &[0x45; 20], ..packet }).unwrap();
        }
        fs::write(folder.join(format!("{number}.pcapng")), writer.finish().unwrap()).unwrap();
    }
    report(&folder, "0.pcapng 1.pcapng 2.pcapng -o packets", 0);
    report(&folder, "packets --to pcapng -o back.pcapng", 0);
    let (mut link_types, mut of_packets) = (Vec::new(), Vec::new());
    for block in Reader::new(&fs::read(folder.join("back.pcapng")).unwrap()[..]) {
        match block.unwrap() {
            Block::Interface(interface) => link_types.push(interface.link_type),
            Block::Packet(packet) => of_packets.push(link_types[packet.interface as usize]),
            _ => {}
        }
    }
    assert_eq!(of_packets, [1, 1, 101, 1]);

    let mut parts = parts(&folder.join("packets"));
    parts.sort();
    let mut bytes = fs::read(&parts[0]).unwrap();
    bytes[4..40].fill(0xff);
    fs::write(&parts[0], bytes).unwrap();
    let damaged = report(&folder, "packets --to pcapng -o back.pcapng", 1);
    assert_eq!((&damaged["packets"], damaged["damages"]["total"].as_u64()), (&json!(2), Some(1)));
}

/// The packets of the files before it were written, and the exit code was 1.
#[test]
fn a_damaged_footer_of_a_later_file_is_refused_by_its_name() {
    let folder = Folder::new("export-footer");
    // Parts of a device have at most a minute.
    let packets: Vec<PacketBuf> = (0..3)
        .map(|number| PacketBuf {
            time_ns: START_NS + number * 61_000_000_000,
            frame_len: 60,
            data: vec![0; 60],
            ..PacketBuf::default()
        })
        .collect();
    fs::write(folder.join("a.pcapng"), file_of(&packets)).unwrap();
    report(&folder, "a.pcapng -o packets", 0);
    let mut parts = parts(&folder.join("packets"));
    parts.sort();
    assert_eq!(parts.len(), 3);
    let mut bytes = fs::read(&parts[1]).unwrap();
    let footer = bytes.len() - 200;
    bytes[footer..footer + 100].fill(0xff);
    fs::write(&parts[1], bytes).unwrap();
    let refused = export(&folder, "packets --to pcapng -o back.pcapng");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(3), "{said}");
    let name = parts[1].file_name().unwrap().to_str().unwrap();
    assert!(said.contains(name) && said.contains("  try: "), "{said}");
    assert!(!folder.join("back.pcapng").exists(), "refused before anything is written");
}

#[test]
fn packets_that_do_not_fit_the_disk_are_counted() {
    let folder = Folder::new("export-full");
    let mut rng = Rng(11);
    let packets: Vec<PacketBuf> = (0..20_000)
        .map(|number| {
            let data: Vec<u8> = (0..200).map(|_| rng.next_u32() as u8).collect();
            let time_ns = START_NS + number * 60_000_000;
            PacketBuf { time_ns, frame_len: 200, data, ..PacketBuf::default() }
        })
        .collect();
    fs::write(folder.join("frames.pcapng"), file_of(&packets)).unwrap();
    // 20 parts of 200 kB each; no file may be longer than 100 kB.
    let limited = format!(
        "trap '' XFSZ; ulimit -f 100; exec {} export frames.pcapng -o packets --json",
        env!("CARGO_BIN_EXE_wirerate")
    );
    let output = Command::new("bash").args(["-c", &limited]).current_dir(&*folder).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["packets"], &report["not_stored"]), (&json!(20_000), &json!(20_000)));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("20,000 packets not stored: cannot write packets/run=frames/"), "{stderr}");
    assert!(parts(&folder.join("packets")).is_empty(), "an unfinished file is of no use");
}

/// An export is killed while it writes the fourth file.
#[test]
fn killed_it_leaves_whole_files_and_is_repeated() {
    const LONG: u64 = 92_000;
    let folder = Folder::new("export-killed");
    // Three minutes of 100 packets, and later one whose first row group is written before its end.
    let minutes = (0..300).map(|number| (number / 100, number, 60));
    let packets: Vec<PacketBuf> = minutes
        .chain((0..LONG).map(|number| (4, number, 1500)))
        .map(|(minute, number, len)| {
            let time_ns = START_NS + minute * 60_000_000_000 + number;
            let data = vec![number as u8; len];
            PacketBuf { time_ns, frame_len: len as u32, data, ..PacketBuf::default() }
        })
        .collect();
    let bytes = file_of(&packets);
    fs::write(folder.join("frames.pcapng"), &bytes).unwrap();
    let mut killed =
        export_command(&folder, "- -o packets --run killed").stdin(Stdio::piped()).spawn().unwrap();
    let mut input = killed.stdin.take().unwrap();
    input.write_all(&bytes).unwrap();
    input.flush().unwrap();
    // The pipe stays open, so the file does not end.
    let unfinished = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "part");
    let run = folder.join("packets/run=killed");
    let is_writing = || {
        let files = if run.exists() { parts(&run) } else { Vec::new() };
        files.iter().any(|path| unfinished(path) && fs::metadata(path).is_ok_and(|file| file.len() > 1000))
    };
    let since = Instant::now();
    while !is_writing() {
        assert!(killed.try_wait().unwrap().is_none() && since.elapsed() < Duration::from_secs(120));
        std::thread::sleep(Duration::from_millis(10));
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert_eq!(parts(&run).iter().filter(|path| unfinished(path)).count(), 1);
    assert_eq!(parts(&run).len(), 4);
    let refused = export(&folder, "frames.pcapng -o packets --run killed");
    assert_eq!(refused.status.code(), Some(3));
    let done = report(&folder, "frames.pcapng -o packets --run again", 0);
    assert_eq!((&done["stored"], &done["not_stored"]), (&json!(300 + LONG), &json!(0)));
    let query = "select run, count(*), count(distinct time_ns) from packets group by run order by run";
    let Some(answers) = answers(&folder, &[query.to_owned()]) else { return };
    assert_eq!(answers[0], json!([["again", 300 + LONG, 300 + LONG], ["killed", 300, 300]]));
}

/// Few flows of IMIX, then a flow for each packet, with 96 bytes of each.
#[test]
fn a_data_set_takes_a_tenth_of_the_file_and_with_bytes_a_quarter() {
    let folder = Folder::new("export-size");
    let mut packets: Vec<PacketBuf> = Vec::new();
    for (words, count) in [
        ("--dst 198.18.0.0/15 --flows 72 --flow-len 8 --imix 64:7,594:4,1514:1", 36_000),
        (
            "--dst 198.18.0.0/15 --src 10.0.0.0/8 --udp-src 1024-65534 --udp-dst 1-9999 --vlan 42 --size 66-1514 \
             --random dst,src,udp-src,udp-dst,size",
            84_000,
        ),
    ] {
        let words =
            format!("send lo {words} --count {count} --seed 5 --dry-run={count} --write frames.pcapng");
        let mut send = Command::new(env!("CARGO_BIN_EXE_wirerate"));
        let output = send.args(words.split_whitespace()).current_dir(&*folder).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let sent = kept(&fs::read(folder.join("frames.pcapng")).unwrap());
        assert_eq!(sent.len(), count);
        for (mut packet, _) in sent {
            packet.data.truncate(96);
            packet.time_ns = START_NS + packets.len() as u64 * 2_500;
            packets.push(packet);
        }
    }
    let file = file_of(&packets);
    fs::write(folder.join("frames.pcapng"), &file).unwrap();
    for (words, percent_max) in [("--run fields --no-bytes", 10), ("--run bytes", 25)] {
        let done = report(&folder, &format!("frames.pcapng -o packets {words}"), 0);
        let (stored, bytes) = (&done["stored"], done["bytes"].as_u64().unwrap());
        assert_eq!(*stored, packets.len());
        println!("{words}: {:.1} % of {} bytes", 100.0 * bytes as f64 / file.len() as f64, file.len());
        assert!(bytes * 100 <= file.len() as u64 * percent_max, "{words}: {bytes} of {}", file.len());
    }
}

/// A file that cannot be read ended the export after the ones before it were stored, without a
/// report.
#[test]
fn a_file_that_cannot_be_read_takes_nothing_from_the_others() {
    let folder = Folder::new("export-unreadable");
    let packet = PacketBuf { time_ns: START_NS, frame_len: 60, data: vec![0; 60], ..PacketBuf::default() };
    fs::write(folder.join("good.pcapng"), file_of(&[packet])).unwrap();
    fs::write(folder.join("bad.pcapng"), "no capture file").unwrap();
    let refused = export(&folder, "good.pcapng bad.pcapng -o packets");
    assert_eq!(refused.status.code(), Some(3));
    assert!(!folder.join("packets").exists(), "refused before anything is written");
    // What comes from a pipe is not known before.
    let piped = format!(
        "exec {} export good.pcapng - -o packets --json < <(echo no capture file)",
        env!("CARGO_BIN_EXE_wirerate")
    );
    let output = Command::new("bash").args(["-c", &piped]).current_dir(&*folder).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["stored"], report["damages"]["total"].as_u64()), (&json!(1), Some(1)));
    assert_eq!(parts(&folder.join("packets")).len(), 1);
}

#[test]
fn losses_of_a_device_without_packets_are_stored() {
    let folder = Folder::new("export-lost-only");
    let mut writer = Writer::new(Vec::new(), &Section::default()).unwrap();
    writer.add_interface(&Interface { name: Some("eth0".into()), ..Interface::default() }).unwrap();
    let statistics = Statistics {
        time_ns: START_NS + 1000,
        start_time_ns: Some(START_NS),
        dropped_by_interface: Some(2),
        dropped_by_os: Some(5),
        ..Statistics::default()
    };
    writer.statistics(&statistics).unwrap();
    fs::write(folder.join("lost.pcapng"), writer.finish().unwrap()).unwrap();
    let done = report(&folder, "lost.pcapng -o packets --host lab", 0);
    assert_eq!((&done["lost"], &done["files"]), (&json!(7), &json!(1)));
    assert!(folder.join("packets/run=lost/host=lab/device=eth0/loss-0.parquet").exists());
}

/// The answers of DuckDB to queries; `None` and skipped without it.
fn answers(folder: &Path, queries: &[String]) -> Option<Vec<Value>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let has_duckdb = Command::new(PYTHON).args(["-c", "import duckdb"]).output();
    if !has_duckdb.is_ok_and(|output| output.status.success()) {
        testkit::skip("needs the Python package duckdb (tools/install.sh test)");
        return None;
    }
    let mut child = Command::new(PYTHON)
        .arg(root.join("tests/export/queries.py"))
        .arg(testkit::root().join("docs/views-duckdb.sql"))
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("python runs");
    let input = serde_json::to_vec(queries).unwrap();
    child.stdin.take().expect("it is a pipe").write_all(&input).expect("python reads");
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let lines = String::from_utf8(output.stdout).unwrap();
    Some(lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

/// 10,000 random frames: what the columns say and what tshark says.
#[test]
fn fields_agree_with_tshark() {
    let folder = Folder::new("export-tshark");
    let mut rng = Rng(3);
    let packets: Vec<PacketBuf> = (0..10_000)
        .map(|number| {
            let data = random_frame(&mut rng);
            let (time_ns, frame_len) = (START_NS + number, data.len() as u32);
            PacketBuf { time_ns, frame_len, data, ..PacketBuf::default() }
        })
        .collect();
    fs::write(folder.join("frames.pcapng"), file_of(&packets)).unwrap();
    let fields = "frame.time_epoch frame.len frame.cap_len eth.dst eth.src vlan.id mpls.label ip.version ipv6.version \
                  ip.src ip.dst ipv6.src ipv6.dst ip.ttl ipv6.hlim ip.dsfield ipv6.tclass ip.id tcp.srcport \
                  udp.srcport tcp.dstport udp.dstport tcp.flags ieee8021ad.id ieee8021ad.svid ieee8021ad.cvid \
                  ip.proto ipv6.fraghdr.nxt ipv6.dstopts.nxt ipv6.hopopts.nxt ipv6.nxt \
                  ip.flags.mf ip.frag_offset ipv6.fraghdr.more ipv6.fraghdr.offset";
    let mut tshark = Command::new("tshark");
    tshark.args(["-n", "-r", "frames.pcapng", "-T", "fields", "-E", "separator=|", "-E", "occurrence=a"]);
    tshark.args(["-o", "ip.defragment:FALSE", "-o", "ipv6.defragment:FALSE"]);
    fields.split_whitespace().for_each(|field| {
        tshark.args(["-e", field]);
    });
    testkit::needs!(testkit::has_program("tshark"));
    let output = tshark.current_dir(&*folder).output().expect("tshark runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    report(&folder, "frames.pcapng -o packets", 0);
    let query = "select orig_len, cap_len, dst_mac, src_mac, vlan, vlan_inner, mpls, ip_version, src, dst, \
                 hop_limit, tos, ip_id, src_port, dst_port, tcp_flags, proto, is_fragment from packets order by time_ns";
    let Some(answers) = answers(&folder, &[query.to_owned()]) else { return };
    let text = String::from_utf8(output.stdout).unwrap();
    let rows = answers[0].as_array().unwrap();
    assert_eq!((rows.len(), text.lines().count()), (10_000, 10_000));
    for (number, (row, line)) in rows.iter().zip(text.lines()).enumerate() {
        let tshark: Vec<&str> = line.split('|').collect();
        let frame = &packets[number].data;
        assert_eq!(
            frames::of_row(row),
            frames::of_tshark(&tshark, frame),
            "frame {number}: {frame:02x?}\n{line}\n{row}"
        );
    }
}

/// Two streams with known loss, disorder and doubles, TCP connections, and losses of the capture.
#[test]
fn the_queries_of_the_page_answer_the_ten_questions() {
    let folder = Folder::new("export-queries");
    let file = File::create(folder.join("run.pcapng")).unwrap();
    let mut writer = Writer::new(file, &Section::default()).unwrap();
    writer.add_interface(&Interface { name: Some("eth0".into()), ..Interface::default() }).unwrap();
    let mut packet = |time_ns: u64, data: &[u8], drop_count: Option<u64>| {
        let frame_len = data.len() as u32;
        writer.packet(&Packet { time_ns, frame_len, data, drop_count, ..Packet::default() }).unwrap();
    };
    // 3 s of 1,000 frames per second and stream. Of stream 1 the network lost 10 frames in the
    // first second, and the capture 5 in the next one. In the third, one frame came twice, and two
    // changed places.
    for number in 0..3000_u64 {
        for stream in [0, 1] {
            let is_lost = stream == 1 && ((100..110).contains(&number) || (1500..1505).contains(&number));
            if is_lost {
                continue;
            }
            let seq = match (stream, number) {
                (0, 2500) => 2501,
                (0, 2501) => 2500,
                _ => number,
            };
            let time_ns = START_NS + number * 1_000_000 + stream;
            let frame = frames::signed(stream as u8, seq as u32, time_ns - 5_000 - stream * 100);
            packet(time_ns, &frame, (stream == 1 && number == 1505).then_some(5));
            if stream == 1 && number == 2600 {
                packet(time_ns + 10, &frame, None);
            }
        }
    }
    // Ten connections, of which three got no answer; then silence for 2 s and a last frame.
    for port in 0..10 {
        let time_ns = START_NS + 3_000_000_000 + u64::from(port) * 1000;
        packet(time_ns, &frames::tcp([10, 0, 0, 1], [10, 0, 0, 2], 5000 + port, 80, false), None);
        if port >= 3 {
            packet(time_ns + 500, &frames::tcp([10, 0, 0, 2], [10, 0, 0, 1], 80, 5000 + port, true), None);
        }
    }
    packet(START_NS + 5_000_000_000, &frames::tcp([10, 0, 0, 1], [10, 0, 0, 2], 5003, 80, false), None);
    let statistics = Statistics {
        time_ns: START_NS + 5_000_000_000,
        start_time_ns: Some(START_NS),
        dropped_by_interface: Some(2),
        dropped_by_os: Some(5),
        ..Statistics::default()
    };
    writer.statistics(&statistics).unwrap();
    writer.finish().unwrap();
    report(&folder, "run.pcapng -o packets --host lab", 0);

    let page = fs::read_to_string(testkit::root().join("docs/parquet.md")).unwrap();
    let queries: Vec<String> =
        page.split("```sql\n").skip(1).map(|rest| rest.split("```").next().unwrap().to_owned()).collect();
    assert_eq!(queries.len(), 10);
    let Some(answers) = answers(&folder, &queries) else { return };
    let second = |number: u64| START_NS + number * 1_000_000_000;
    assert_eq!(answers[0][0], json!(["198.18.0.1", "198.18.0.2", 17, 1000, 9, 3000, 3000 * 74]));
    assert_eq!(answers[0][1], json!(["198.18.0.1", "198.18.0.2", 17, 1001, 9, 2986, 2986 * 74]));
    assert_eq!(answers[1][0], json!([START_NS + 2_600_000_000, 2100, 2100 * 74 * 8]));
    // The device lost two frames, at no known time, which the account has in the first second.
    let lost = [(0, 10, 2, 8), (1, 5, 5, 0), (2, 0, 0, 0)];
    let lost = lost.map(|(number, missing, here, there)| json!([second(number), missing, here, there]));
    assert_eq!(answers[2], json!(lost));
    assert_eq!(answers[3], json!([[0, 3000, 5000, 5000.0, 5000], [1, 2986, 5100, 5100.0, 5110]]));
    assert_eq!(answers[4], json!([[1000, START_NS, START_NS + 999_000_000]]));
    assert_eq!(
        answers[5],
        json!([[null, 17, 3000, 3000 * 74], [5, 17, 2986, 2986 * 74], [null, 6, 18, 18 * 54]])
    );
    assert_eq!(answers[6], json!([["10.0.0.1", "10.0.0.2", 3]]));
    assert_eq!(answers[7], json!([[0, 3000, 1, 0], [1, 2986, 0, 2]]));
    assert_eq!(answers[8][0], json!(["eth0", START_NS + 3_000_009_500, 1_999_990_500]));
    assert_eq!(answers[9], json!([["run", "lab", "eth0", 6004, 7, 6011]]));
}
