//! The readers on damaged input: good files with bytes changed, cut or doubled, and random bytes.
//!
//! A reader must end with an error or the end of the file. It must not panic and must not allocate
//! more memory than the file has bytes. Blocks that it returns can be written and read again.

use packet::Rng;
use pcapng::{Block, Interface, Packet, PacketFlags, PlainPacket, Reader, Section, Statistics, Writer, pcap};

/// A number below `end`.
fn below(rng: &mut Rng, end: usize) -> usize {
    rng.below(end.max(1) as u32) as usize
}

/// A file with blocks of every kind that capture programs write.
fn good_file(rng: &mut Rng) -> Vec<u8> {
    let section = Section { os: Some("Linux".to_owned()), ..Section::default() };
    let mut writer = Writer::new(Vec::new(), &section).unwrap();
    for _ in 0..1 + below(rng, 3) {
        let interface = Interface { name: Some("eth0".to_owned()), snaplen: 96, ..Interface::default() };
        writer.add_interface(&interface).unwrap();
    }
    for time_ns in 0..below(rng, 20) as u64 {
        let data = vec![0xa5; below(rng, 120)];
        let packet = Packet {
            time_ns,
            frame_len: 1514,
            data: &data,
            flags: (below(rng, 2) == 0).then_some(PacketFlags::INBOUND),
            queue: (below(rng, 2) == 0).then_some(3),
            drop_count: (below(rng, 2) == 0).then_some(7),
            comment: (below(rng, 4) == 0).then_some("why"),
            ..Packet::default()
        };
        writer.packet(&packet).unwrap();
    }
    writer.statistics(&Statistics { received: Some(9), ..Statistics::default() }).unwrap();
    writer.finish().unwrap()
}

fn good_pcap(rng: &mut Rng) -> Vec<u8> {
    let mut writer = pcap::Writer::new(Vec::new(), &pcap::Header::default()).unwrap();
    for time_ns in 0..below(rng, 20) as u64 {
        let data = vec![0xa5; below(rng, 120)];
        writer.record(&pcap::Record { time_ns, frame_len: 1514, data: &data }).unwrap();
    }
    writer.finish().unwrap()
}

/// What was read from a block is written and read again.
fn read_all(file: &[u8]) {
    let mut reader = Reader::new(file);
    let mut again = Vec::new();
    let mut packets = 0;
    while let Ok(Some(block)) = reader.next_block() {
        if let Block::Packet(packet) = block {
            assert!(packet.data.len() <= file.len(), "a packet is longer than its file");
            again.clear();
            packet.emit(&mut again);
            packets += 1;
            assert!(packets <= file.len() / 12, "more packets than fit");
        }
    }
    assert!(reader.offset() <= file.len() as u64);
}

/// A packet, its bytes, and where the next block begins.
type FoundPacket = (PlainPacket, Vec<u8>, u64);

/// Reads all packets, and how each error of the file is called. Of a plain packet, the fields that
/// it has.
fn packets(file: &[u8], takes_plain: bool) -> (Vec<FoundPacket>, Vec<String>) {
    let mut reader = Reader::new(file);
    let (mut found, mut errors) = (Vec::new(), Vec::new());
    loop {
        let plain = if takes_plain { reader.next_plain_packet() } else { None };
        let packet = match plain {
            Some(plain) => plain,
            None => match reader.next_block() {
                Ok(None) => return (found, errors),
                Ok(Some(Block::Packet(packet))) => {
                    let Packet { interface, time_ns, frame_len, flags, queue, drop_count, .. } = packet;
                    PlainPacket { interface, time_ns, frame_len, flags, queue, drop_count }
                }
                Ok(Some(_)) => continue,
                Err(error) => {
                    errors.push(error.to_string());
                    continue;
                }
            },
        };
        assert_eq!(reader.block_kind(), "packet");
        found.push((packet, reader.data().to_vec(), reader.offset()));
    }
}

#[test]
fn plain_packets_are_those_of_their_blocks() {
    testkit::fuzz!("plain_packets_are_those_of_their_blocks", 75_000, |seed| {
        let rng = &mut Rng(seed);
        let mut file = good_file(rng);
        assert_eq!(packets(&file, true), packets(&file, false));
        testkit::spoil(&mut file, |end| below(rng, end));
        assert_eq!(packets(&file, true), packets(&file, false));
    });
}

#[test]
fn pcapng_reader_survives_everything() {
    testkit::fuzz!("pcapng_reader_survives_everything", 75_000, |seed| {
        let rng = &mut Rng(seed);
        let mut file = good_file(rng);
        read_all(&file);
        testkit::spoil(&mut file, |end| below(rng, end));
        read_all(&file);
    });
}

#[test]
fn pcap_reader_survives_everything() {
    testkit::fuzz!("pcap_reader_survives_everything", 150_000, |seed| {
        let rng = &mut Rng(seed);
        let mut file = good_pcap(rng);
        testkit::spoil(&mut file, |end| below(rng, end));
        let Ok(mut reader) = pcap::Reader::new(&file[..]) else { return };
        let mut count = 0;
        while let Ok(Some(record)) = reader.next_record() {
            assert!(record.data.len() <= file.len());
            count += 1;
        }
        assert!(count <= file.len() / pcap::RECORD_HEADER_LEN);
    });
}
