//! Memory of an export is bounded, whatever is exported.

use super::{PacketBuf, START_NS, export_command, report_of};
use pcapng::{Interface, Packet, Section, Writer};
use serde_json::{Value, json};
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::process::Command;
use testkit::Folder;

/// Bytes of resident memory that an export may take.
const MEMORY_MAX: u64 = 512 << 20;
/// Runs the command of its arguments; prints the most memory that it took, in KiB, behind its
/// output.
const MEASURE: &str = "import resource, subprocess, sys
code = subprocess.run(sys.argv[1:]).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(code)";

/// The report of an export, and the most memory that it took, in bytes; `None` and skipped without
/// Python.
fn measured(folder: &Path, args: &str) -> Option<(Value, u64)> {
    testkit::needs!(testkit::has_program("python3"), None);
    let export = export_command(folder, args);
    let mut command = Command::new("python3");
    command.args(["-c", MEASURE]).arg(export.get_program()).args(export.get_args()).current_dir(folder);
    let output = command.output().expect("python3 runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let stdout = String::from_utf8(output.stdout).expect("it prints text");
    let (report, memory_kib) = stdout.trim_end().rsplit_once('\n').expect("two lines");
    let memory_kib: u64 = memory_kib.parse().expect("a number");
    Some((serde_json::from_str(report).expect("one line of JSON"), memory_kib << 10))
}

/// Packets that do not compress take the most memory, since pages and packets are of one size.
#[test]
fn a_file_longer_than_the_memory_for_packets_is_exported() {
    const COUNT: u64 = 120_000;
    let folder = Folder::new("export-memory");
    let mut rng = packet::Rng(13);
    let pool: Vec<u8> = (0..1 << 19).flat_map(|_| rng.next_u64().to_be_bytes()).collect();
    let file = BufWriter::new(File::create(folder.join("long.pcapng")).unwrap());
    let mut writer = Writer::new(file, &Section::default()).unwrap();
    writer.add_interface(&Interface::default()).unwrap();
    for number in 0..COUNT {
        let at = (number * 1499 % (pool.len() as u64 - 1500)) as usize;
        let (time_ns, data) = (START_NS + number, &pool[at..at + 1500]);
        writer.packet(&Packet { time_ns, frame_len: 1500, data, ..Packet::default() }).unwrap();
    }
    writer.finish().unwrap();
    let Some((done, memory)) = measured(&folder, "long.pcapng -o packets --json") else { return };
    assert_eq!((&done["stored"], &done["files"]), (&json!(COUNT), &json!(3)));
    assert!(memory < MEMORY_MAX, "{} MiB", memory >> 20);
}

/// Each device kept its tables until the end: 1.7 MiB of them.
#[test]
fn many_devices_take_no_more_memory() {
    const DEVICES: u32 = 600;
    let folder = Folder::new("export-devices");
    let file = BufWriter::new(File::create(folder.join("many.pcapng")).unwrap());
    let mut writer = Writer::new(file, &Section::default()).unwrap();
    for device in 0..DEVICES {
        writer
            .add_interface(&Interface { name: Some(format!("veth{device}")), ..Interface::default() })
            .unwrap();
    }
    for number in 0..2 * DEVICES {
        let packet = PacketBuf {
            interface: number % DEVICES,
            time_ns: START_NS + u64::from(number),
            frame_len: 60,
            data: vec![number as u8; 60],
            ..PacketBuf::default()
        };
        writer.packet(&packet.as_packet()).unwrap();
    }
    writer.finish().unwrap();
    let Some((done, memory)) = measured(&folder, "many.pcapng -o packets --json") else { return };
    assert_eq!(done["stored"], 2 * DEVICES);
    assert!(memory < MEMORY_MAX, "{} MiB", memory >> 20);
    let back = "packets --to pcapng -o back.pcapng --json";
    assert_eq!(report_of(&mut export_command(&folder, back), 0).0["stored"], 2 * DEVICES);
}
