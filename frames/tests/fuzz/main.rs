//! Random configurations: no text does harm, and where trafgen is installed, its frames are ours.

#[path = "../verify/mod.rs"]
mod verify;
mod write;

use frames::{
    CaptureFrames, ConfigError, Expander, FRAME_BYTES_MAX, FrameSpec, PacketOrder, ParseSettings, parse,
};
use packet::Rng;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Capture files of a few frames.
struct SomeCaptures;

impl CaptureFrames for SomeCaptures {
    fn frame(&mut self, _: &str, number: u64) -> Result<Vec<u8>, String> {
        if (1..4).contains(&number) { Ok(vec![7; 60]) } else { Err("no frame has that number".to_owned()) }
    }
}

fn read(text: &[u8]) -> Result<Vec<FrameSpec>, ConfigError> {
    parse(text, &ParseSettings::default(), &mut SomeCaptures)
}

/// Expands some frames, if the text is a configuration, and shows the error if it is not.
fn expand(text: &[u8]) {
    match read(text) {
        Ok(specs) => {
            let mut expander = Expander::new(&specs, PacketOrder::RoundRobin, 1);
            for _ in 0..2 * specs.len() {
                let frame = expander.next_frame().expect("there are packets");
                assert!((1..=FRAME_BYTES_MAX).contains(&frame.len()));
            }
        }
        Err(error) => assert!(error.caret <= error.excerpt.len() && error.to_string().lines().count() == 3),
    }
}

#[test]
fn no_text_does_harm() {
    testkit::fuzz("no_text_does_harm", |seed| {
        let mut rng = Rng(seed);
        let mut text = match rng.below(3) {
            0 => write::words(&mut rng),
            _ => write::config(&mut rng).into_bytes(),
        };
        expand(&text);
        for _ in 0..rng.below(8) {
            write::change(&mut rng, &mut text);
            expand(&text);
        }
    });
}

#[test]
fn frames_are_those_of_the_installed_trafgen() {
    if !testkit::has_program("trafgen") {
        return;
    }
    testkit::fuzz("frames_are_those_of_the_installed_trafgen", |seed| {
        let config = write::config(&mut Rng(seed));
        let count = 1 + Rng(seed ^ 1).below(12) as usize;
        let Some(recorded) = run_trafgen(&config, count) else { return };
        let specs = read(config.as_bytes()).unwrap_or_else(|error| panic!("{error}\n{config}"));
        let mut expander = Expander::new(&specs, PacketOrder::RoundRobin, 1);
        for (number, recorded) in recorded.iter().enumerate() {
            let frame = expander.next_frame().expect("there are packets");
            let at = format!("\nframe {number} of {config}");
            verify::checksums_are_right(frame, &at);
            verify::equal_but_for_checksums(frame, recorded, &at);
        }
    });
}

/// The frames that trafgen writes; `None` where it fails while it frees its memory.
fn run_trafgen(config: &str, count: usize) -> Option<Vec<Vec<u8>>> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("trafgen-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for the files");
    std::fs::write(folder.join("c.cfg"), config).expect("the configuration can be written");
    let _ = std::fs::remove_file(folder.join("c.pcap"));
    let count_text = count.to_string();
    let arguments = ["-i", "c.cfg", "-o", "c.pcap", "-n", &count_text, "-P", "1"];
    let run = Command::new("trafgen").args(arguments).current_dir(&folder).output().expect("it is installed");
    let errors = String::from_utf8_lossy(&run.stderr);
    if errors.starts_with("xfree: NULL pointer") {
        return None;
    }
    assert!(run.status.success(), "{errors}\n{config}");
    let file = std::fs::File::open(folder.join("c.pcap")).expect("trafgen wrote a file");
    let mut reader = pcapng::pcap::Reader::new(file).expect("it is a pcap file");
    let mut frames = Vec::new();
    while let Some(record) = reader.next_record().expect("its records are whole") {
        frames.push(record.data.to_vec());
    }
    assert_eq!(frames.len(), count, "{config}");
    Some(frames)
}

#[test]
fn a_megabyte_parses_in_a_second() {
    // Without optimization, and beside other tests.
    let limit = Duration::from_secs(if cfg!(debug_assertions) { 5 } else { 1 });
    let mut rng = Rng(1);
    let mut text = String::new();
    while text.len() < 1 << 20 {
        text.push_str(&write::config(&mut rng));
    }
    // The fastest of a few attempts counts.
    let attempt = || {
        let start = Instant::now();
        read(text.as_bytes()).unwrap_or_else(|error| panic!("{error}"));
        start.elapsed()
    };
    let fastest = (0..5).map(|_| attempt()).min().expect("there are attempts");
    assert!(fastest < limit, "{fastest:?}");
}
