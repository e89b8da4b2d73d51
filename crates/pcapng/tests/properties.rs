//! Properties of every file: what was written is read back, and any input is read without a panic.

use pcapng::{
    Block, ByteOrder, Custom, Interface, Name, Names, Packet, PacketBuf, PacketFlags, RawOption, ReadError,
    Reader, Section, Statistics, Template, Unknown, Writer, pcap,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

type Blocks = Vec<Block<PacketBuf>>;

/// Earliest time of a packet: interfaces have offsets up to it.
const TIME_MIN_NS: u64 = 1_000_000_000_000;

fn order() -> impl Strategy<Value = ByteOrder> {
    prop_oneof![Just(ByteOrder::Little), Just(ByteOrder::Big)]
}

fn text() -> impl Strategy<Value = Option<String>> {
    option::of("\\PC{0,20}")
}

/// Options of codes that no field holds in any block.
fn other() -> impl Strategy<Value = Vec<RawOption>> {
    let one = (100_u16.., vec(any::<u8>(), 0..40)).prop_map(|(code, value)| RawOption { code, value });
    vec(one, 0..3)
}

/// Mostly short, now and then 65,535 bytes.
fn data() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => vec(any::<u8>(), 0..130),
        1 => any::<u8>().prop_map(|byte| vec![byte; 65_535]),
    ]
}

fn time_ns() -> impl Strategy<Value = u64> {
    prop_oneof![TIME_MIN_NS..TIME_MIN_NS + 10, (1_u64 << 60)..(1 << 61), (u64::MAX - TIME_MIN_NS)..=u64::MAX]
}

fn packet(interfaces: u32) -> impl Strategy<Value = PacketBuf> {
    let numbers = (
        option::of(any::<u32>()),
        option::of(any::<u32>()),
        option::of(any::<u64>()),
        option::of(any::<u64>()),
    );
    (0..interfaces, time_ns(), any::<u32>(), data(), numbers, text(), other()).prop_map(
        |(interface, time_ns, frame_len, data, (flags, queue, packet_id, drop_count), comment, other)| {
            PacketBuf {
                interface,
                time_ns,
                frame_len,
                data,
                flags: flags.map(PacketFlags),
                queue,
                packet_id,
                drop_count,
                comment,
                other,
                ..PacketBuf::default()
            }
        },
    )
}

fn section() -> impl Strategy<Value = Section> {
    (text(), text(), text(), text(), other()).prop_map(|(hardware, os, application, comment, other)| {
        Section { hardware, os, application, comment, other }
    })
}

fn interface() -> impl Strategy<Value = Interface> {
    let texts = (text(), text(), text(), text(), text(), text());
    let numbers = (any::<u16>(), any::<u32>(), option::of(any::<[u8; 6]>()), option::of(any::<u64>()));
    // The offset may not lie after the packets, nor put them beyond 64 bits of nanoseconds.
    let offset_s = prop_oneof![Just(0), 0..=(TIME_MIN_NS / 1_000_000_000) as i64];
    (texts, numbers, offset_s, other()).prop_map(|(texts, numbers, time_offset_s, other)| {
        let (name, description, filter, os, hardware, comment) = texts;
        let (link_type, snaplen, mac, speed_bps) = numbers;
        Interface {
            link_type,
            snaplen,
            name,
            description,
            mac,
            speed_bps,
            filter,
            os,
            hardware,
            time_offset_s,
            comment,
            other,
        }
    })
}

fn statistics(interfaces: u32) -> impl Strategy<Value = Statistics> {
    let times = (time_ns(), option::of(time_ns()), option::of(time_ns()));
    let counts = vec(option::of(any::<u64>()), 5);
    (0..interfaces, times, counts, text(), other()).prop_map(|(interface, times, counts, comment, other)| {
        let (time_ns, start_time_ns, end_time_ns) = times;
        Statistics {
            interface,
            time_ns,
            start_time_ns,
            end_time_ns,
            received: counts[0],
            dropped_by_interface: counts[1],
            accepted_by_filter: counts[2],
            dropped_by_os: counts[3],
            delivered: counts[4],
            comment,
            other,
        }
    })
}

fn names() -> impl Strategy<Value = Names> {
    let entry = (any::<std::net::IpAddr>(), vec("[a-z.é]{1,9}", 0..4))
        .prop_map(|(address, names)| Name { address, names });
    let dns = (text(), option::of(any::<std::net::Ipv4Addr>()), option::of(any::<std::net::Ipv6Addr>()));
    (vec(entry, 0..4), dns, text(), other()).prop_map(
        |(entries, (dns_name, dns_v4, dns_v6), comment, other)| Names {
            entries,
            dns_name,
            dns_v4,
            dns_v6,
            comment,
            other,
        },
    )
}

/// Whole words only: padding cannot be told from data.
fn words() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<[u8; 4]>(), 0..9).prop_map(|words| words.concat())
}

/// One section: its header, some interfaces, and blocks that refer to them.
fn blocks() -> impl Strategy<Value = Blocks> {
    let rest = |interfaces: u32| {
        prop_oneof![
            6 => packet(interfaces).prop_map(Block::Packet),
            1 => statistics(interfaces).prop_map(Block::Statistics),
            1 => names().prop_map(Block::Names),
            1 => (any::<u32>(), any::<bool>(), words())
                .prop_map(|(enterprise, may_copy, data)| Block::Custom(Custom { enterprise, may_copy, data })),
            1 => (0x100_u32..0xbad, words())
                .prop_map(|(block_type, body)| Block::Unknown(Unknown { block_type, body })),
        ]
    };
    (section(), vec(interface(), 1..4)).prop_flat_map(move |(section, interfaces)| {
        let count = interfaces.len() as u32;
        let start: Blocks = [Block::Section(section)]
            .into_iter()
            .chain(interfaces.into_iter().map(Block::Interface))
            .collect();
        vec(rest(count), 0..12).prop_map(move |rest| start.iter().cloned().chain(rest).collect())
    })
}

/// Several sections in one file.
fn file() -> impl Strategy<Value = (ByteOrder, Blocks)> {
    (order(), vec(blocks(), 1..3).prop_map(|sections| sections.concat()))
}

fn write(order: ByteOrder, blocks: &Blocks) -> Vec<u8> {
    let Some((Block::Section(section), rest)) = blocks.split_first() else {
        panic!("a file begins with a section");
    };
    let mut writer = Writer::with_order(Vec::new(), section, order).unwrap();
    for block in rest {
        match block {
            Block::Section(section) => writer.section(section),
            Block::Interface(interface) => writer.add_interface(interface).map(drop),
            Block::Packet(packet) => writer.packet(&packet.as_packet()),
            Block::Statistics(statistics) => writer.statistics(statistics),
            Block::Names(names) => writer.names(names),
            Block::Custom(custom) => writer.custom(custom),
            Block::Unknown(unknown) => writer.unknown(unknown),
            block => panic!("{block:?} has no writer"),
        }
        .unwrap();
    }
    writer.finish().unwrap()
}

/// Reads to the end; the reader must end by itself, and each error but the last must not be final.
fn read_all(file: &[u8]) -> (Blocks, Vec<ReadError>) {
    let (mut blocks, mut errors) = (Vec::new(), Vec::new());
    for block in Reader::new(file) {
        assert!(!errors.last().is_some_and(ReadError::is_final), "read on after {errors:?}");
        match block {
            Ok(block) => blocks.push(block),
            Err(error) => errors.push(error),
        }
    }
    // The shortest block has 12 bytes.
    assert!(blocks.len() + errors.len() <= file.len() / 12 + 1);
    (blocks, errors)
}

fn pcap_header() -> impl Strategy<Value = pcap::Header> {
    let precision = prop_oneof![Just(pcap::Precision::Microseconds), Just(pcap::Precision::Nanoseconds)];
    (precision, order(), 1_u32.., any::<u16>(), any::<u16>()).prop_map(
        |(precision, order, snaplen, link_type, fcs_bits)| pcap::Header {
            precision,
            order,
            snaplen,
            link_type,
            fcs_bits,
            ..pcap::Header::default()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn what_was_written_is_read((order, blocks) in file()) {
        let (read, errors) = read_all(&write(order, &blocks));
        prop_assert!(errors.is_empty(), "{errors:?}");
        prop_assert_eq!(read, blocks);
    }

    #[test]
    fn a_packet_does_not_care_what_is_before_it(packet in packet(1), dirt in vec(any::<u8>(), 0..50)) {
        let (mut clean, mut dirty) = (Vec::new(), dirt.clone());
        packet.as_packet().emit(&mut clean);
        // Memory that was used before: what is there must not shine through the padding.
        dirty.extend([0xee; 200]);
        dirty.truncate(dirt.len());
        packet.as_packet().emit(&mut dirty);
        prop_assert_eq!(&dirty[..dirt.len()], &dirt[..]);
        prop_assert_eq!(&dirty[dirt.len()..], &clean[..]);
        prop_assert_eq!(clean.len() % 4, 0);
    }

    #[test]
    fn a_template_writes_what_the_writer_writes(packet in packet(1), interface in interface()) {
        let mut file = Vec::new();
        Section::default().emit(&mut file);
        interface.emit(&mut file);
        let template = Template::new(&interface, &packet.as_packet());
        template.emit(packet.time_ns, packet.frame_len, &packet.data, &mut file);
        let blocks =
            vec![Block::Section(Section::default()), Block::Interface(interface), Block::Packet(packet)];
        prop_assert!(write(ByteOrder::Little, &blocks) == file);
    }

    #[test]
    fn a_cut_file_gives_every_whole_block((order, blocks) in file(), at in any::<prop::sample::Index>()) {
        let file = write(order, &blocks);
        let cut = at.index(file.len());
        let mut reader = Reader::new(&file[..cut]);
        let whole: Blocks = reader.by_ref().map_while(Result::ok).collect();
        prop_assert_eq!(&whole[..], &blocks[..whole.len()]);
        let end = reader.offset();
        prop_assert!(end <= cut as u64);
        let errors = read_all(&file[..cut]).1;
        match &errors[..] {
            [] => prop_assert_eq!(end, cut as u64),
            [ReadError::Truncated { offset, found, .. }] => {
                prop_assert_eq!((*offset, offset + found), (end, cut as u64));
            }
            errors => prop_assert!(false, "{:?}", errors),
        }
    }

    #[test]
    fn random_bytes_do_no_harm(bytes in vec(any::<u8>(), 0..400)) {
        read_all(&bytes);
        // And behind a good beginning, where more of the reader is reached.
        let mut file = write(ByteOrder::Little, &vec![
            Block::Section(Section::default()),
            Block::Interface(Interface::default()),
        ]);
        file.extend(&bytes);
        read_all(&file);
        pcap::Reader::new(&bytes[..]).into_iter().flatten().for_each(drop);
    }

    #[test]
    fn random_bodies_do_no_harm(order in order(), kind in 0_u32..12, body in vec(any::<u8>(), 0..100)) {
        let blocks = vec![
            Block::Section(Section::default()),
            Block::Interface(Interface::default()),
            Block::Unknown(Unknown { block_type: kind, body }),
        ];
        let (read, errors) = read_all(&write(order, &blocks));
        prop_assert_eq!(read.len() + errors.len(), 3);
        prop_assert!(errors.iter().all(|error| !error.is_final()), "{:?}", errors);
    }

    #[test]
    fn flipped_bits_do_no_harm(
        (order, blocks) in file(),
        flips in vec((any::<prop::sample::Index>(), 0..8_u32), 1..6),
    ) {
        let mut file = write(order, &blocks);
        let len = file.len();
        flips.iter().for_each(|(at, bit)| file[at.index(len)] ^= 1 << bit);
        read_all(&file);
    }

    #[test]
    fn what_was_written_as_pcap_is_read(
        header in pcap_header(),
        records in vec((0..(1_u64 << 32) * 1_000_000_000, any::<u32>(), data()), 0..12),
    ) {
        let unit_ns = if header.precision == pcap::Precision::Microseconds { 1_000 } else { 1 };
        let mut file = Vec::new();
        header.emit(&mut file);
        let records: Vec<pcap::RecordBuf> = records
            .into_iter()
            .map(|(time_ns, frame_len, data)| {
                header.emit_record(&pcap::Record { time_ns, frame_len, data: &data }, &mut file).unwrap();
                pcap::RecordBuf { time_ns: time_ns / unit_ns * unit_ns, frame_len, data }
            })
            .collect();
        let reader = pcap::Reader::new(&file[..]).unwrap();
        prop_assert_eq!(*reader.header(), header);
        let read: Result<Vec<_>, _> = reader.collect();
        prop_assert!(read.unwrap() == records);
    }

    #[test]
    fn flipped_bits_in_pcap_do_no_harm(
        header in pcap_header(),
        data in data(),
        flips in vec((any::<prop::sample::Index>(), 0..8_u32), 1..6),
    ) {
        let mut file = Vec::new();
        header.emit(&mut file);
        for time_ns in 0..3 {
            header.emit_record(&pcap::Record { time_ns, frame_len: 9, data: &data }, &mut file).unwrap();
        }
        let len = file.len();
        flips.iter().for_each(|(at, bit)| file[at.index(len)] ^= 1 << bit);
        let Ok(reader) = pcap::Reader::new(&file[..]) else { return Ok(()) };
        prop_assert!(reader.count() <= file.len() / 16 + 1);
    }
}

#[test]
fn a_bad_block_costs_only_itself() {
    let mut file = Vec::new();
    Section::default().emit(&mut file);
    // An interface whose description cannot be read keeps its number.
    Unknown { block_type: 1, body: vec![1, 0, 0, 0] }.emit(&mut file);
    Interface::default().emit(&mut file);
    for interface in 0..3 {
        Packet { interface, ..Packet::default() }.emit(&mut file);
    }
    let read: Vec<String> = Reader::new(&file[..])
        .map(|block| match block {
            Ok(Block::Packet(packet)) => format!("packet of {}", packet.interface),
            Ok(Block::Interface(_)) => "interface".to_owned(),
            Ok(Block::Section(_)) => "section".to_owned(),
            Ok(block) => format!("{block:?}"),
            Err(error) => error.to_string(),
        })
        .collect();
    assert_eq!(
        read,
        [
            "section",
            "byte 40: 4 bytes of the snaplen expected, the block has 0 left",
            "interface",
            "byte 76: one of the 1 interfaces described so far expected, number 0 found",
            "packet of 1",
            "byte 140: one of the 1 interfaces described so far expected, number 2 found",
        ]
    );
}

#[test]
fn lengths_that_cannot_be_are_refused_at_their_place() {
    let mut start = Vec::new();
    Section::default().emit(&mut start);
    for (len, expected) in [
        (0_u32, "byte 32: the length of the block should be at least 12, 0 found"),
        (8, "byte 32: the length of the block should be at least 12, 8 found"),
        (13, "byte 37: the length of the block, said again at its end, should be 13, 0 found"),
        (u32::MAX - 3, "the file ends within the block at byte 28: 4294967288 bytes expected, 48 found"),
    ] {
        let mut file = start.clone();
        file.extend(7_u32.to_le_bytes());
        file.extend(len.to_le_bytes());
        file.extend([0; 40]);
        let (blocks, errors) = read_all(&file);
        assert_eq!((blocks.len(), errors.len()), (1, 1));
        assert_eq!(errors[0].to_string(), expected);
    }
}

#[test]
fn other_formats_are_named_by_what_was_found() {
    let mut file = Vec::new();
    pcap::Header::default().emit(&mut file);
    assert_eq!(
        read_all(&file).1[0].to_string(),
        "byte 0: a pcapng section header (0x0a0d0d0a) expected, 0xa1b23c4d found"
    );
    let mut file = Vec::new();
    Section::default().emit(&mut file);
    file[12] = 2;
    assert_eq!(read_all(&file).1[0].to_string(), "byte 12: version 1.x expected, 2.0 found");
    file[8] = 0;
    assert_eq!(
        read_all(&file).1[0].to_string(),
        "byte 8: the byte-order magic 0x1a2b3c4d expected, 0x1a2b3c00 found"
    );
}

#[test]
fn an_empty_file_has_no_blocks() {
    let (blocks, errors) = read_all(&[]);
    assert!(blocks.is_empty() && errors.is_empty());
}
