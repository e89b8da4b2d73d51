//! Random configurations: no text does harm, and where trafgen is installed, its frames are ours.

#[path = "../verify/mod.rs"]
mod verify;
mod write;

use frames::{
    CaptureFrames, ConfigError, Expander, FRAME_BYTES_MAX, FrameSpec, PacketOrder, ParseSettings, parse,
};
use packet::Rng;
use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
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
    testkit::fuzz!("no_text_does_harm", 150_000, |seed| {
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
    testkit::needs!(testkit::has_program("trafgen"));
    testkit::fuzz!("frames_are_those_of_the_installed_trafgen", 500, |seed| {
        compare(seed);
    });
}

/// Compares the frames of configurations that are the same in each run with those of trafgen.
#[test]
fn a_hundred_configurations_give_the_frames_of_the_installed_trafgen() {
    testkit::needs!(testkit::has_program("trafgen"));
    let compared = (0..110).filter(|seed| compare(*seed)).count();
    assert!(compared >= 100, "trafgen hangs or crashes on {} of 110", 110 - compared);
}

/// Compares the frames of a random configuration. False if trafgen hangs or crashes on it.
fn compare(seed: u64) -> bool {
    let config = write::config(&mut Rng(seed));
    let count = 1 + Rng(seed ^ 1).below(12) as usize;
    let Some(recorded) = run_trafgen(&config, count) else { return false };
    let specs = read(config.as_bytes()).unwrap_or_else(|error| panic!("{error}\n{config}"));
    let mut expander = Expander::new(&specs, PacketOrder::RoundRobin, 1);
    for (number, recorded) in recorded.iter().enumerate() {
        let frame = expander.next_frame().expect("there are packets");
        let at = format!("\nframe {number} of {config}");
        verify::checksums_are_right(frame, &at);
        verify::equal_but_for_checksums(frame, recorded, &specs[number % specs.len()], &at);
    }
    true
}

/// trafgen takes a few milliseconds, or hangs.
const TRAFGEN_TIME_MAX: Duration = Duration::from_secs(20);

/// The frames that trafgen writes; `None` where it hangs, or fails while it frees its memory.
fn run_trafgen(config: &str, count: usize) -> Option<Vec<Vec<u8>>> {
    // Tests run side by side.
    let thread = format!("{:?}", std::thread::current().id()).replace(['(', ')'], "");
    let name = format!("trafgen-{}-{thread}", std::process::id());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).expect("a folder for the files");
    std::fs::write(folder.join("c.cfg"), config).expect("the configuration can be written");
    let _ = std::fs::remove_file(folder.join("c.pcap"));
    let count_text = count.to_string();
    let arguments = ["-i", "c.cfg", "-o", "c.pcap", "-n", &count_text, "-P", "1"];
    let errors = File::create(folder.join("errors")).expect("a file for its errors");
    let mut command = Command::new("trafgen");
    command.args(arguments).current_dir(&folder).stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors);
    let status = finished(command.spawn().expect("it is installed"))?;
    let errors = std::fs::read_to_string(folder.join("errors")).expect("its errors are text");
    if errors.starts_with("xfree: NULL pointer") {
        return None;
    }
    assert!(status.success(), "{errors}\n{config}");
    let file = File::open(folder.join("c.pcap")).expect("trafgen wrote a file");
    let mut reader = pcapng::pcap::Reader::new(file).expect("it is a pcap file");
    let mut frames = Vec::new();
    while let Some(record) = reader.next_record().expect("its records are whole") {
        frames.push(record.data.to_vec());
    }
    assert_eq!(frames.len(), count, "{config}");
    Some(frames)
}

/// Its exit status; `None` after it was killed because it hung.
fn finished(mut child: Child) -> Option<ExitStatus> {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("it is our child") {
            return Some(status);
        }
        if started.elapsed() > TRAFGEN_TIME_MAX {
            child.kill().expect("it is our child");
            child.wait().expect("it is our child");
            return None;
        }
        // The standard library has no wait with a timeout.
        std::thread::sleep(Duration::from_millis(2));
    }
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
