//! One small file with each kind of block, byte by byte as the draft defines it, and the blocks
//! that the reader returns.

use pcapng::{
    Block, ByteOrder, Custom, Interface, Name, Names, NoTime, Packet, PacketBuf, PacketFlags, RawOption,
    Reader, Section, Statistics, Unknown, Writer,
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Little-endian. Each line is one field or option; the words behind `#` say which.
const FILE: &str = "
    0a0d0d0a 48000000                # section header, 72 bytes
    4d3c2b1a 0100 0000               # byte-order magic, version 1.0
    ffffffffffffffff                 # section length not known
    0100 0200 68690000               # opt_comment 'hi'
    0200 0300 78383600               # shb_hardware 'x86'
    0300 0500 4c696e7578000000       # shb_os 'Linux'
    0400 0800 7769726572617465       # shb_userappl 'wirerate'
    0000 0000                        # opt_endofopt
    48000000

    01000000 78000000                # interface description, 120 bytes
    0100 0000 60000000               # Ethernet, reserved, snaplen 96
    0200 0400 65746830               # if_name 'eth0'
    0300 0500 666972737400 0000      # if_description 'first'
    0600 0600 0200000000fe 0000      # if_MACaddr
    0800 0800 00e40b5402000000       # if_speed 10 Gbit/s
    0900 0100 09000000               # if_tsresol: nanoseconds
    0b00 0b00 00 7564702070 6f72742039 00 # if_filter: libpcap text 'udp port 9'
    0c00 0300 36 2e 31 00            # if_os '6.1'
    0f00 0400 76657468               # if_hardware 'veth'
    0e00 0800 0a00000000000000       # if_tsoffset 10 s
    0000 0000
    78000000

    06000000 5c000000                # enhanced packet, 92 bytes
    00000000                         # interface 0
    44332211 88776655                # time, high word first
    05000000 ea050000                # captured 5 of 1514 bytes
    0102030405 000000
    0100 0300 6f646400               # opt_comment 'odd'
    0200 0400 01000000               # epb_flags: inbound
    0400 0800 0700000000000000       # epb_dropcount 7
    0500 0800 0900000000000000       # epb_packetid 9
    0600 0400 03000000               # epb_queue 3
    0000 0000
    5c000000

    06000000 20000000                # enhanced packet, 32 bytes: nothing captured, no options
    00000000 00000000 00000000 00000000 3c000000
    20000000

    04000000 4c000000                # name resolution, 76 bytes
    0100 0b00 7f000001 6c6f00 616c6c00 00 # 127.0.0.1: 'lo', 'all'
    0200 1300 00000000000000000000000000000001 6c6f00 00 # ::1: 'lo'
    0000 0000                        # nrb_record_end
    0200 0200 6e730000               # ns_dnsname 'ns'
    0300 0400 c0000201               # ns_dnsIP4addr 192.0.2.1
    0000 0000
    4c000000

    05000000 70000000                # interface statistics, 112 bytes
    00000000 00000000 00000000       # interface 0, time 0
    0200 0800 0000000000000000       # isb_starttime
    0300 0800 0000000001000000       # isb_endtime, high word first
    0400 0800 0500000000000000       # isb_ifrecv
    0500 0800 0400000000000000       # isb_ifdrop
    0600 0800 0300000000000000       # isb_filteraccept
    0700 0800 0200000000000000       # isb_osdrop
    0800 0800 0100000000000000       # isb_usrdeliv
    0000 0000
    70000000

    ad0b0000 14000000 01000000 61626300 14000000 # custom, may be copied, number 1, 'abc'
    ad0b0040 10000000 02000000 10000000          # custom, not to be copied, number 2
    0a000000 10000000 deadbeef 10000000          # decryption secrets: a type that is not read here
";

fn bytes_of(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .lines()
        .flat_map(|line| line.split('#').next().unwrap_or("").bytes())
        .filter(|byte| !byte.is_ascii_whitespace())
        .map(|byte| (byte as char).to_digit(16).expect("a hex digit") as u8)
        .collect();
    digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

fn section() -> Section {
    Section {
        comment: text("hi"),
        hardware: text("x86"),
        os: text("Linux"),
        application: text("wirerate"),
        other: vec![],
    }
}

fn interface() -> Interface {
    Interface {
        snaplen: 96,
        name: text("eth0"),
        description: text("first"),
        mac: Some([2, 0, 0, 0, 0, 0xfe]),
        speed_bps: Some(10_000_000_000),
        filter: text("udp port 9"),
        os: text("6.1"),
        hardware: text("veth"),
        time_offset_s: 10,
        ..Interface::default()
    }
}

/// Time zero of the file.
const ZERO_NS: u64 = 10_000_000_000;

fn packets() -> [Packet<'static>; 2] {
    let first = Packet {
        time_ns: 0x1122_3344_5566_7788 + ZERO_NS,
        frame_len: 1514,
        data: &[1, 2, 3, 4, 5],
        flags: Some(PacketFlags::INBOUND),
        queue: Some(3),
        packet_id: Some(9),
        drop_count: Some(7),
        comment: Some("odd"),
        ..Packet::default()
    };
    [first, Packet { time_ns: ZERO_NS, frame_len: 60, ..Packet::default() }]
}

fn names() -> Names {
    let entry =
        |address, names: &[&str]| Name { address, names: names.iter().map(|&n| n.to_owned()).collect() };
    Names {
        entries: vec![
            entry(IpAddr::V4(Ipv4Addr::LOCALHOST), &["lo", "all"]),
            entry(IpAddr::V6(Ipv6Addr::LOCALHOST), &["lo"]),
        ],
        dns_name: text("ns"),
        dns_v4: Some(Ipv4Addr::new(192, 0, 2, 1)),
        ..Names::default()
    }
}

fn statistics() -> Statistics {
    Statistics {
        time_ns: ZERO_NS,
        start_time_ns: Some(ZERO_NS),
        end_time_ns: Some(ZERO_NS + 1),
        received: Some(5),
        dropped_by_interface: Some(4),
        accepted_by_filter: Some(3),
        dropped_by_os: Some(2),
        delivered: Some(1),
        ..Statistics::default()
    }
}

fn write_all() -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), &section()).unwrap();
    assert_eq!(writer.add_interface(&interface()).unwrap(), 0);
    packets().iter().for_each(|packet| writer.packet(packet).unwrap());
    writer.names(&names()).unwrap();
    writer.statistics(&statistics()).unwrap();
    writer.custom(&Custom { enterprise: 1, may_copy: true, data: b"abc".to_vec() }).unwrap();
    writer.custom(&Custom { enterprise: 2, may_copy: false, data: vec![] }).unwrap();
    writer.unknown(&Unknown { block_type: 10, body: vec![0xde, 0xad, 0xbe, 0xef] }).unwrap();
    writer.finish().unwrap()
}

/// The blocks of the file; a custom block's padding cannot be told from its data.
fn blocks() -> Vec<Block<PacketBuf>> {
    let [first, second] = packets();
    vec![
        Block::Section(section()),
        Block::Interface(interface()),
        Block::Packet(first.to_buf()),
        Block::Packet(second.to_buf()),
        Block::Names(names()),
        Block::Statistics(statistics()),
        Block::Custom(Custom { enterprise: 1, may_copy: true, data: b"abc\0".to_vec() }),
        Block::Custom(Custom { enterprise: 2, may_copy: false, data: vec![] }),
        Block::Unknown(Unknown { block_type: 10, body: vec![0xde, 0xad, 0xbe, 0xef] }),
    ]
}

#[test]
fn each_block_is_written_as_the_draft_has_it() {
    let (written, golden) = (write_all(), bytes_of(FILE));
    let first_difference = written.iter().zip(&golden).position(|(a, b)| a != b);
    assert_eq!((first_difference, written.len()), (None, golden.len()), "written: {written:02x?}");
}

#[test]
fn each_block_is_read_as_it_was_meant() {
    let read: Result<Vec<_>, _> = Reader::new(&bytes_of(FILE)[..]).collect();
    assert_eq!(read.unwrap(), blocks());
}

/// What the writers here never make: big-endian, microseconds by default, old and simple packets,
/// options of wrong lengths, a second section of the other order.
const FOREIGN: &str = "
    0a0d0d0a 0000001c 1a2b3c4d 0001 0002 0000000000000000 0000001c # version 1.2, big-endian
    00000001 00000014 0001 0000 00000004 00000014 # interface 0: snaplen 4, microseconds
    00000001 00000020 0001 0000 00000000 # interface 1: no limit
    0009 0001 8a000000               # if_tsresol: 2^-10 s
    0000 0000 00000020
    00000002 00000028                # packet block (obsolete)
    0001 0003 00000000 00000200      # interface 1, 3 dropped, time 512
    00000002 00000040 abcd0000       # captured 2 of 64
    0000 0000 00000028
    00000003 00000014 00000009 01020304 00000014 # simple packet, of 9 bytes, cut by snaplen
    00000006 0000003c 00000000 00000000 0000000f # enhanced packet, interface 0, 15 us
    00000000 00000000
    0002 0003 01020300               # epb_flags of three bytes
    0001 0002 fffe0000               # opt_comment that is not UTF-8
    0bad 0000                        # an unknown option, empty
    0006 0004 0000000a               # epb_queue 10; no opt_endofopt
    0000003c

    0a0d0d0a 1c000000 4d3c2b1a 0100 0000 ffffffffffffffff 1c000000
    01000000 14000000 6900 0000 00000000 14000000 # interface 0 of this section: 802.11
    06000000 20000000 00000000 00000000 01000000 00000000 00000000 20000000
";

#[test]
fn files_of_others_are_read() {
    let file = bytes_of(FOREIGN);
    let mut reader = Reader::new(&file[..]);
    let blocks: Vec<_> = reader.by_ref().map(|block| block.unwrap()).collect();
    let raw = |code, value: &[u8]| RawOption { code, value: value.to_vec() };
    let interface = Interface { snaplen: 4, ..Interface::default() };
    let section = Block::Section(Section::default());
    let expected = [
        section.clone(),
        Block::Interface(interface),
        Block::Interface(Interface::default()),
        Block::Packet(PacketBuf {
            interface: 1,
            time_ns: 500_000_000,
            frame_len: 64,
            data: vec![0xab, 0xcd],
            drop_count: Some(3),
            ..PacketBuf::default()
        }),
        Block::Packet(PacketBuf {
            frame_len: 9,
            data: vec![1, 2, 3, 4],
            no_time: Some(NoTime::NotRecorded),
            ..PacketBuf::default()
        }),
        Block::Packet(PacketBuf {
            time_ns: 15_000,
            queue: Some(10),
            other: vec![raw(2, &[1, 2, 3]), raw(1, &[0xff, 0xfe]), raw(0xbad, &[])],
            ..PacketBuf::default()
        }),
        section,
        Block::Interface(Interface { link_type: 105, ..Interface::default() }),
        Block::Packet(PacketBuf { time_ns: 1000, ..PacketBuf::default() }),
    ];
    assert_eq!(blocks, expected);
    assert_eq!((reader.order(), reader.offset()), (Some(ByteOrder::Little), file.len() as u64));
    assert_eq!(reader.time_scale(0).map(|scale| scale.resolution), Some(6));
}
