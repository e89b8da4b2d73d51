//! Compressed files: several members, cuts, and formats that are named only.

use super::compress::{gzip, lz4, xz};
use super::readers::{packets, pcap_of, replay, wirerate};
use testkit::Folder;

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::stream::encode_all(bytes, 1).unwrap()
}

type Compress = fn(&[u8]) -> Vec<u8>;

const METHODS: [(&str, Compress); 4] = [("gz", gzip), ("zst", zstd), ("lz4", lz4), ("xz", xz)];

/// lz4 files with a frame for the header of the file were read as empty.
#[test]
fn files_of_several_members_are_read_whole() {
    let folder = Folder::new("members");
    let plain = pcap_of(3_000);
    for (suffix, compress) in METHODS {
        let parts = [&plain[..24], &plain[24..100_000], &plain[100_000..]];
        let file: Vec<u8> = parts.iter().flat_map(|part| compress(part)).collect();
        let name = format!("three.{suffix}");
        std::fs::write(folder.join(&name), file).unwrap();
        assert_eq!(packets(&folder, &name), (3_000, 0), "{name}");
    }
    // As pzstd writes.
    let skippable = [0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 9, 9, 9, 9];
    std::fs::write(folder.join("pzstd.zst"), [&skippable[..], &zstd(&plain), &skippable].concat()).unwrap();
    assert_eq!(packets(&folder, "pzstd.zst"), (3_000, 0));
}

#[test]
fn cut_files_give_the_packets_before_the_cut_and_its_place() {
    let folder = Folder::new("cut-members");
    let plain = pcap_of(3_000);
    for (suffix, compress) in METHODS {
        let first = compress(&plain[..24 + 76 * 1_000]);
        let file = [&first[..], &compress(&plain[24 + 76 * 1_000..])].concat();
        for (cut, least) in [(first.len() + 20, 1_000), (file.len() - 1, 1_000), (20, 0)] {
            let name = format!("cut-at-{cut}.{suffix}");
            std::fs::write(folder.join(&name), &file[..cut]).unwrap();
            let (found, code) = packets(&folder, &name);
            assert!(code == 1 && (least..=3_000).contains(&found), "{name}: {found} packets, exit {code}");
            let place = format!("the compressed file ends at byte {cut}, within a ");
            let said = wirerate(&folder, &["analyze", &name]).stderr;
            assert!(said.contains(&place), "{name}: {said}");
        }
    }
}

#[test]
fn formats_that_are_not_read_are_named_with_a_command() {
    let folder = Folder::new("named");
    for (name, bytes, command) in [
        ("a.bz2", &b"BZh91AY&SY"[..], "bzip2 -dc a.bz2 | wirerate replay no-device -"),
        ("a.lz4", b"\x02\x21\x4c\x18rest", "lz4 -dc a.lz4 | wirerate replay no-device -"),
        ("a.zip", b"PK\x03\x04rest", "unzip -p a.zip | wirerate replay no-device -"),
        ("a.lzma", b"\x5d\0\0\x80\0rest", "xz -dc a.lzma | wirerate replay no-device -"),
        ("a.snoop", b"snoop\0\0\0\0\0\0\x02", "editcap -F pcapng a.snoop - | wirerate replay no-device -"),
        ("a.gz", &gzip(&zstd(&pcap_of(3))), "gzip -dc a.gz | wirerate replay no-device -"),
    ] {
        std::fs::write(folder.join(name), bytes).unwrap();
        let ran = replay(&folder, &[name]);
        assert_eq!(ran.code, 3, "{ran:?}");
        assert!(ran.stderr.contains(&format!("  try: {command}\n")), "{ran:?}");
    }
    // Also as one of several files, and as a command that runs.
    std::fs::write(folder.join("f.pcap"), pcap_of(3)).unwrap();
    let ran = replay(&folder, &["f.pcap", "a.snoop"]);
    let advice = "try: editcap -F pcapng a.snoop - | wirerate replay no-device -";
    assert!(ran.code == 1 && ran.stdout.contains(advice), "{ran:?}");
    let ran = wirerate(&folder, &["rewrite", "a.snoop", "-o", "out.pcap"]);
    let advice = "try: editcap -F pcapng a.snoop - | wirerate rewrite -o out.pcap -\n";
    assert!(ran.code == 3 && ran.stderr.contains(advice), "{ran:?}");
}
