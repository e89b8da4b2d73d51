//! Wireshark's programs and tcpdump read what this crate writes, and this crate reads what they
//! write.

use pcapng::{
    Block, Interface, Name, Names, Packet, PacketBuf, PacketFlags, Reader, Section, Statistics, Writer, pcap,
};
use std::path::{Path, PathBuf};
use std::process::Command;
use testkit::{Folder, has_program};

const TIME_NS: u64 = 1_700_000_000_123_456_789;

fn write(folder: &Folder, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

/// What a program prints; it must end well and have nothing to complain of.
fn run(program: &str, arguments: &[&str], files: &[&Path]) -> String {
    let output = Command::new(program).args(arguments).args(files).output().unwrap();
    let complaints = String::from_utf8_lossy(&output.stderr);
    let is_about_root = |line: &str| line.starts_with("Running as user") || line.starts_with("reading from");
    let complaints: Vec<&str> = complaints.lines().filter(|line| !is_about_root(line)).collect();
    assert!(output.status.success() && complaints.is_empty(), "{program} {arguments:?}: {complaints:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// An Ethernet frame of `len` bytes with some IPv4 and UDP in it.
fn frame(len: usize, seed: u8) -> Vec<u8> {
    let mut frame = vec![0x02, 0, 0, 0, 0, 1, 0x02, 0, 0, 0, 0, 2, 0x08, 0x00, 0x45, 0];
    frame.extend(u16::try_from(len - 14).unwrap().to_be_bytes());
    frame.extend([0, 0, 0, 0, 32, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2, 0, 9, 0, 9]);
    frame.extend(u16::try_from(len - 34).unwrap().to_be_bytes());
    frame.resize(len, seed);
    frame
}

fn interfaces() -> [Interface; 2] {
    let named = |name: &str| Interface {
        snaplen: 65_535,
        name: Some(name.to_owned()),
        description: Some(format!("the one called {name}")),
        speed_bps: Some(10_000_000_000),
        mac: Some([2, 0, 0, 0, 0, 1]),
        os: Some("Linux".to_owned()),
        hardware: Some("veth".to_owned()),
        ..Interface::default()
    };
    let filter = Some("udp port 9".to_owned());
    [named("left"), Interface { filter, time_offset_s: 1_600_000_000, ..named("right") }]
}

/// Packets of every length modulo four and up to the longest, on both interfaces.
fn packets() -> Vec<PacketBuf> {
    let lens = [60_usize, 61, 62, 63, 64, 96, 1514, 9000, 65_535];
    let packet = |(index, &len): (usize, &usize)| {
        let number = index as u64;
        PacketBuf {
            interface: index as u32 % 2,
            time_ns: TIME_NS + number * 1_000_000_001,
            frame_len: len as u32 + 4 * (index as u32 % 3),
            data: frame(len, index as u8),
            flags: (index % 2 == 0).then_some(PacketFlags::INBOUND),
            queue: Some(index as u32),
            packet_id: (index % 3 == 0).then_some(number + 100),
            drop_count: (index == 4).then_some(17),
            comment: (index == 5).then(|| "a comment".to_owned()),
            ..PacketBuf::default()
        }
    };
    lens.iter().enumerate().map(packet).collect()
}

fn pcapng_file() -> Vec<u8> {
    let section = Section {
        hardware: Some("a machine".to_owned()),
        os: Some("an operating system".to_owned()),
        application: Some("wirerate".to_owned()),
        ..Section::default()
    };
    let mut writer = Writer::new(Vec::new(), &section).unwrap();
    for interface in interfaces() {
        writer.add_interface(&interface).unwrap();
    }
    let entries = vec![Name { address: [192, 0, 2, 2].into(), names: vec!["sink".to_owned()] }];
    writer.names(&Names { entries, ..Names::default() }).unwrap();
    packets().iter().for_each(|packet| writer.packet(&packet.as_packet()).unwrap());
    for interface in 0..2 {
        let statistics = Statistics {
            interface,
            time_ns: TIME_NS + 10,
            start_time_ns: Some(TIME_NS),
            end_time_ns: Some(TIME_NS + 10),
            received: Some(1000),
            dropped_by_interface: Some(u64::from(interface) + 3),
            ..Statistics::default()
        };
        writer.statistics(&statistics).unwrap();
    }
    writer.finish().unwrap()
}

#[test]
fn capinfos_counts_what_was_written() {
    testkit::needs!(has_program("capinfos"));
    let folder = Folder::new("capinfos");
    let path = write(&folder, "file.pcapng", &pcapng_file());
    let text = run("capinfos", &["-M"], &[&path]);
    let has_line = |line: &[&str]| text.lines().any(|found| line.iter().all(|part| found.contains(part)));
    for line in [
        &["Number of packets:", " 9"][..],
        &["File timestamp precision:", "nanoseconds (9)"],
        &["Capture hardware:", "a machine"],
        &["Capture oper-sys:", "an operating system"],
        &["Capture application:", "wirerate"],
        &["Name = left"],
        &["Description = the one called right"],
        &["Speed = 10000000000"],
        &["Filter string = udp port 9"],
        &["Time precision = nanoseconds (9)"],
        &["Number of stat entries = 1"],
        &["Number of resolved IPv4 addresses", " 1"],
        &["Number of packets = 5"],
        &["Number of packets = 4"],
        &["First packet time:", "2023-11-14", ":20.123456789"],
    ] {
        assert!(has_line(line), "{line:?} is not in\n{text}");
    }
}

#[test]
fn tshark_sees_every_field() {
    testkit::needs!(has_program("tshark"));
    let folder = Folder::new("tshark");
    let path = write(&folder, "file.pcapng", &pcapng_file());
    let fields = [
        "frame.time_epoch",
        "frame.cap_len",
        "frame.len",
        "frame.interface_name",
        "frame.packet_flags_direction",
        "frame.interface_queue",
        "frame.packet_id",
        "frame.drop_count",
        "frame.comment",
    ];
    let mut arguments = vec!["-n", "-T", "fields"];
    fields.iter().for_each(|field| arguments.extend(["-e", field]));
    arguments.push("-r");
    let seen = run("tshark", &arguments, &[&path]);
    let number = |number: Option<u64>| number.map_or(String::new(), |number| number.to_string());
    let expected: Vec<String> = packets()
        .iter()
        .map(|packet| {
            [
                format!("{}.{:09}", packet.time_ns / 1_000_000_000, packet.time_ns % 1_000_000_000),
                packet.data.len().to_string(),
                packet.frame_len.to_string(),
                ["left", "right"][packet.interface as usize].to_owned(),
                if packet.flags.is_some() { "0x00000001".to_owned() } else { String::new() },
                number(packet.queue.map(u64::from)),
                number(packet.packet_id),
                number(packet.drop_count),
                packet.comment.clone().unwrap_or_default(),
            ]
            .join("\t")
        })
        .collect();
    assert_eq!(seen.lines().collect::<Vec<_>>(), expected);
    let resolved =
        run("tshark", &["-N", "n", "-c", "1", "-T", "fields", "-e", "ip.dst_host", "-r"], &[&path]);
    assert_eq!(resolved.trim(), "sink");
}

/// Not in the file above: editcap 4.0 loses it.
#[test]
fn tshark_sees_the_verdict_of_an_xdp_program() {
    testkit::needs!(has_program("tshark"));
    let folder = Folder::new("verdict");
    let mut writer = Writer::new(Vec::new(), &Section::default()).unwrap();
    writer.add_interface(&interfaces()[0]).unwrap();
    let data = frame(60, 1);
    for xdp_verdict in [None, Some(1), Some(4)] {
        writer.packet(&Packet { frame_len: 60, data: &data, xdp_verdict, ..Packet::default() }).unwrap();
    }
    let path = write(&folder, "file.pcapng", &writer.finish().unwrap());
    let seen = run("tshark", &["-n", "-T", "fields", "-e", "frame.verdict.ebpf_xdp", "-r"], &[&path]);
    assert_eq!(seen, "\n1\n4\n");
    let verdicts: Vec<_> = packets_of(&path).iter().map(|packet| packet.xdp_verdict).collect();
    assert_eq!(verdicts, [None, Some(1), Some(4)]);
}

#[test]
fn tshark_reads_a_cut_file_up_to_its_last_block() {
    testkit::needs!(has_program("tshark"));
    let folder = Folder::new("cut");
    let whole = pcapng_file();
    // Within the last packet, of 65,535 bytes.
    let path = write(&folder, "cut.pcapng", &whole[..whole.len() - 40_000]);
    let output = Command::new("tshark").args(["-n", "-r"]).arg(&path).output().unwrap();
    let seen = String::from_utf8_lossy(&output.stdout).lines().count();
    let mut reader = Reader::new(std::fs::File::open(&path).unwrap());
    let whole_packets =
        reader.by_ref().map_while(Result::ok).filter(|block| matches!(block, Block::Packet(_))).count();
    assert_eq!((seen, whole_packets), (8, 8));
}

/// Our packets as another program wrote them: same bytes, lengths and times (in `unit_ns`).
fn assert_same_packets(what: &str, read: &[PacketBuf], unit_ns: u64) {
    let key = |packet: &PacketBuf| {
        (packet.time_ns / unit_ns * unit_ns, packet.frame_len, packet.data.len(), packet.data.clone())
    };
    let (read, expected): (Vec<_>, Vec<_>) =
        (read.iter().map(key).collect(), packets().iter().map(key).collect());
    assert!(read == expected, "{what} differs");
}

fn packets_of(path: &Path) -> Vec<PacketBuf> {
    let blocks = Reader::new(std::fs::File::open(path).unwrap());
    let packet = |block| if let Block::Packet(packet) = block { Some(packet) } else { None };
    blocks.map(|block| block.unwrap()).filter_map(packet).collect()
}

fn records_of(path: &Path) -> Vec<PacketBuf> {
    let records = pcap::Reader::new(std::fs::File::open(path).unwrap()).unwrap();
    let packet = |record: pcap::RecordBuf| PacketBuf {
        time_ns: record.time_ns,
        frame_len: record.frame_len,
        data: record.data,
        ..PacketBuf::default()
    };
    records.map(|record| packet(record.unwrap())).collect()
}

#[test]
fn editcap_keeps_everything_there_and_back() {
    testkit::needs!(has_program("editcap"));
    let folder = Folder::new("editcap");
    let path = write(&folder, "file.pcapng", &pcapng_file());
    for (format, unit_ns) in [("pcapng", 1), ("nsecpcap", 1), ("pcap", 1_000)] {
        let copy = folder.join(format);
        run("editcap", &["-F", format], &[&path, &copy]);
        let read = if format == "pcapng" { packets_of(&copy) } else { records_of(&copy) };
        assert_same_packets(format, &read, unit_ns);
        if format == "pcapng" {
            assert!(read == packets(), "an option was lost on the way through editcap");
        }
    }
}

#[test]
fn editcap_writes_interfaces_as_we_read_them() {
    testkit::needs!(has_program("editcap"));
    let folder = Folder::new("editcap-blocks");
    let path = write(&folder, "file.pcapng", &pcapng_file());
    let copy = folder.join("copy.pcapng");
    run("editcap", &["-F", "pcapng"], &[&path, &copy]);
    let interface_of = |block| if let Block::Interface(interface) = block { Some(interface) } else { None };
    let blocks = Reader::new(std::fs::File::open(&copy).unwrap());
    let key = |interface: Interface| (interface.name, interface.description, interface.filter);
    let read: Vec<_> = blocks.filter_map(|block| interface_of(block.unwrap())).map(key).collect();
    assert_eq!(read, interfaces().map(key));
}

/// Classic pcap of the packets, in nanoseconds.
fn pcap_file() -> Vec<u8> {
    let header = pcap::Header { snaplen: 65_535, ..pcap::Header::default() };
    let mut writer = pcap::Writer::new(Vec::new(), &header).unwrap();
    for PacketBuf { time_ns, frame_len, data, .. } in packets() {
        writer.record(&pcap::Record { time_ns, frame_len, data: &data }).unwrap();
    }
    writer.finish().unwrap()
}

#[test]
fn tcpdump_copies_our_pcap_byte_for_byte() {
    testkit::needs!(has_program("tcpdump"));
    let folder = Folder::new("tcpdump");
    let path = write(&folder, "file.pcap", &pcap_file());
    let copy = folder.join("copy.pcap");
    let to = ["--time-stamp-precision=nano", "-w", copy.to_str().unwrap(), "-r"];
    run("tcpdump", &to, &[&path]);
    assert!(std::fs::read(&copy).unwrap() == pcap_file(), "tcpdump's copy differs");
    assert_same_packets("tcpdump", &records_of(&copy), 1);

    let seen = run("tcpdump", &["-n", "-tt", "--time-stamp-precision=nano", "-r"], &[&path]);
    assert_eq!(seen.lines().count(), packets().len());
    assert!(seen.starts_with("1700000000.123456789 IP 192.0.2.1.9 > 192.0.2.2.9: UDP"), "{seen}");
}

#[test]
fn tcpdump_reads_our_pcapng() {
    testkit::needs!(has_program("tcpdump"));
    let folder = Folder::new("tcpdump-ng");
    // libpcap wants one snaplen and one resolution for all interfaces, and does not know filters
    // and names.
    let path = write(&folder, "file.pcapng", &pcapng_file());
    let seen = run("tcpdump", &["-n", "-tt", "--time-stamp-precision=nano", "-r"], &[&path]);
    let times: Vec<&str> = seen.lines().filter_map(|line| line.split(' ').next()).collect();
    let time = |packet: &PacketBuf| {
        format!("{}.{:09}", packet.time_ns / 1_000_000_000, packet.time_ns % 1_000_000_000)
    };
    assert_eq!(times, packets().iter().map(time).collect::<Vec<_>>());
}

#[test]
fn a_pipe_into_dumpcap_comes_out_the_same() {
    testkit::needs!(has_program("dumpcap"));
    let folder = Folder::new("dumpcap");
    let copy = folder.join("copy.pcapng");
    let input = write(&folder, "file.pcap", &pcap_file());
    let output = Command::new("dumpcap")
        .args(["-q", "-i", "-", "-w"])
        .arg(&copy)
        .stdin(std::fs::File::open(&input).unwrap())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_same_packets("dumpcap", &packets_of(&copy), 1);
    let first = Reader::new(std::fs::File::open(&copy).unwrap()).next().unwrap().unwrap();
    let Block::Section(section) = first else { panic!("no section header first") };
    assert!(section.application.is_some_and(|name| name.contains("Dumpcap")));
}

#[test]
fn a_stream_of_ours_can_be_piped_into_tshark() {
    testkit::needs!(has_program("tshark"));
    let folder = Folder::new("pipe");
    let path = write(&folder, "file.pcapng", &pcapng_file());
    let output = Command::new("tshark")
        .args(["-n", "-l", "-i", "-", "-T", "fields", "-e", "frame.len"])
        .stdin(std::fs::File::open(&path).unwrap())
        .output()
        .unwrap();
    let seen = String::from_utf8_lossy(&output.stdout);
    let expected: Vec<String> = packets().iter().map(|packet| packet.frame_len.to_string()).collect();
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert_eq!(seen.lines().collect::<Vec<_>>(), expected, "{complaints}");
}

#[test]
fn packets_that_borrow_and_own_are_the_same() {
    for packet in packets() {
        assert_eq!(packet.as_packet().to_buf(), packet);
        assert_eq!(Packet { data: &packet.data, ..packet.as_packet() }, packet.as_packet());
    }
}
