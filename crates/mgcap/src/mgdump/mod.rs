//! `wirerate mgdump`: what mgcap's capture program did, for those who know it.
//!
//! A device that is captured already (`mgcap start`) is read from its device file, slot by
//! slot, by a thread for each CPU; any other is captured here, with all that `wirerate capture`
//! has.

mod direct;
mod file;
mod merge;
mod output;
mod slots;
mod text;

use capture::Mode;
use capture_files::names::asks_for_other;
use ctlfs::slots::DEFAULT_DIR;
use program::outcome::{Failure, Outcome};
use program::stop::Stop;
use std::path::{Path, PathBuf};
use std::time::Duration;
use units::{Count, Nanos, human_count};

/// Time between two looks at what may end it.
const LOOK: Duration = Duration::from_millis(5);

/// Arguments of `wirerate mgdump`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Each second one line on standard output: frames of each CPU, their sum, and frames in that second. Ctrl-C ends it.\n\n\
Examples:\n  \
mgdump /dev/mgcap/lo\n  \
mgdump eth1 --per-cpu")]
pub struct Args {
    /// The device (DEV, or DEV@NETNS in another network namespace), or its file, such as
    /// /dev/mgcap/eth1
    #[arg(value_name = "DEV")]
    pub device: String,
    /// The file to write
    #[arg(short, long, value_name = "FILE", default_value = "output.pcapng")]
    pub write: PathBuf,
    /// Write a file for each CPU, whose number is put before the ending of the name
    #[arg(long)]
    pub per_cpu: bool,
    /// Print the slots of a device file instead: time, length on the wire and bytes, one line for
    /// each
    #[arg(long, conflicts_with_all = ["write", "per_cpu", "drop", "netns"])]
    pub text: bool,
    /// Frames to write; it ends then
    #[arg(long, value_name = "N")]
    pub count: Option<Count>,
    /// Time to capture for, such as 10s
    #[arg(long, value_name = "TIME")]
    pub duration: Option<Nanos>,
    /// End frames here instead of letting the host have them (not for device files: `mgcap set`)
    #[arg(long)]
    pub drop: bool,
    /// Network namespace of a device that is named without one
    #[arg(long, value_name = "NAME", conflicts_with_all = ["dir"])]
    pub netns: Option<String>,
    /// Directory of the device files
    #[arg(long, value_name = "DIR", default_value = DEFAULT_DIR)]
    pub dir: PathBuf,
}

impl Args {
    fn mode(&self) -> Mode {
        if self.drop { Mode::Drop } else { Mode::Mirror }
    }

    fn frames_max(&self) -> Option<u64> {
        self.count.map(|count| count.0).filter(|count| *count > 0)
    }

    fn duration(&self) -> Option<Duration> {
        self.duration.map(|duration| Duration::from_nanos(duration.0))
    }
}

/// The file for frames of a CPU.
fn name_for(args: &Args, cpu: u32) -> PathBuf {
    match args.write.to_str() {
        Some(name) if args.per_cpu => capture::names::with_number(name, cpu.into(), 1).into(),
        _ => args.write.clone(),
    }
}

/// Where frames come from.
#[derive(Clone, Debug, PartialEq, Eq)]
enum DumpSource {
    /// A device file that is there.
    File { path: PathBuf, device: String },
    /// A device, to be captured here.
    Device(String),
}

/// The file when there is one; else the device that it would be of. A path is a path: a device file
/// that is not there is an error, unless a network namespace is named, whose devices have none.
fn place(args: &Args, exists: impl Fn(&Path) -> bool) -> Result<DumpSource, Failure> {
    let given = Path::new(&args.device);
    let device =
        given.file_name().map_or_else(|| args.device.clone(), |name| name.to_string_lossy().into_owned());
    let is_path = args.device.contains('/');
    let path = if is_path { given.to_owned() } else { args.dir.join(given) };
    match args.netns {
        None if exists(&path) => Ok(DumpSource::File { path, device }),
        None if is_path => {
            let why = std::io::Error::from(std::io::ErrorKind::NotFound);
            Err(Failure::refused(format!("read {}", path.display()), why)
                .try_this(format!("`mgcap start dev {device}` makes the file (with wirerate serve running)"))
                .try_this(format!("mgdump {device}, which captures the device itself")))
        }
        _ => Ok(DumpSource::Device(device)),
    }
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct DumpSummary {
    device: String,
    written: u64,
    /// Each place where frames were lost; `None` if they are not counted.
    lost: Vec<(&'static str, Option<u64>)>,
    files: Vec<PathBuf>,
    /// The device was deleted.
    is_gone: bool,
    /// The file that was read ends inside of a slot.
    is_cut: bool,
}

impl DumpSummary {
    fn lost(&self) -> u64 {
        self.lost.iter().filter_map(|(_, count)| *count).sum()
    }

    fn text(&self) -> String {
        let files: Vec<_> = self.files.iter().map(|path| path.display().to_string()).collect();
        let places = self.lost.iter().filter_map(|(place, count)| match count {
            Some(0) => None,
            Some(count) => Some(format!("{} {place}", human_count(*count))),
            None => Some(format!("unknown {place}")),
        });
        let places: Vec<_> = places.collect();
        let lost = match self.lost() {
            0 if places.is_empty() => "none lost".to_owned(),
            lost => format!("{} lost ({})", human_count(lost), places.join(", ")),
        };
        format!(
            "{}: {} frames captured, {lost}: {}\n",
            self.device,
            human_count(self.written),
            files.join(" ")
        )
    }
}

/// Captures until a limit, a signal or an error.
///
/// # Errors
/// Refused by the host, the device or the file.
pub fn run(args: &Args, stop: &Stop) -> Result<Outcome, Failure> {
    let name = args.write.to_string_lossy();
    if asks_for_other(&name) {
        return Err(Failure::usage(format!("write {name}"), "mgdump writes pcapng, not compressed")
            .try_this(format!("--write FILE.pcapng, or wirerate capture {} --write {name}", args.device)));
    }
    let summary = match place(args, |path| path.exists())? {
        DumpSource::File { path, .. } if args.text => return text::run(args, &path, stop),
        DumpSource::Device(device) if args.text => {
            let why = "slots are what device files have, and it has none";
            return Err(Failure::usage(format!("print slots of {device}"), why)
                .try_this(format!("mgcap start dev {device} (with wirerate serve running)"))
                .try_this(format!("wirerate capture {device} -w - | tshark -i -")));
        }
        DumpSource::File { .. } if args.drop => {
            return Err(Failure::usage("use --drop with a device file", "its capture has a mode of its own")
                .try_this(format!("mgcap set dev {} mode drop", args.device)));
        }
        DumpSource::File { path, device } => file::run(args, &path, device, stop)?,
        DumpSource::Device(device) => direct::run(args, device, stop)?,
    };
    program::out::text(&summary.text())?;
    Ok(if summary.lost() > 0 || summary.is_gone || summary.is_cut { Outcome::No } else { Outcome::Done })
}

#[cfg(test)]
mod tests {
    use super::*;
    fn args(words: &str) -> Args {
        program::args_of(words).unwrap()
    }

    #[test]
    fn a_device_file_is_read_where_there_is_one() {
        let file = |path: &str, device: &str| DumpSource::File { path: path.into(), device: device.into() };
        let device = |name: &str| DumpSource::Device(name.into());
        for (words, there, expected) in [
            ("lo", true, file("/dev/mgcap/lo", "lo")),
            ("lo", false, device("lo")),
            ("/dev/mgcap/lo", true, file("/dev/mgcap/lo", "lo")),
            ("/dev/mgcap/lo --netns lab", false, device("lo")),
            ("lo --dir /tmp/x", true, file("/tmp/x/lo", "lo")),
            ("lo --netns lab", true, device("lo")),
        ] {
            assert_eq!(place(&args(words), |_| there).ok(), Some(expected), "{words}");
        }
        assert!(place(&args("/dev/mgcap/nope"), |_| false).is_err(), "a path is no device name");
    }

    #[test]
    fn the_end_tells_what_was_lost_and_where_and_what_nobody_counts() {
        let summary = |nic, ring| DumpSummary {
            device: "lo".into(),
            written: 12_345,
            lost: vec![("at the device", nic), ("in the ring", Some(ring))],
            files: vec!["output_0.pcapng".into(), "output_1.pcapng".into()],
            ..DumpSummary::default()
        };
        for (nic, ring, lost) in [
            (Some(0), 0, "none lost"),
            (None, 0, "0 lost (unknown at the device)"),
            (Some(3), 1_200, "1,203 lost (3 at the device, 1,200 in the ring)"),
        ] {
            let expected = format!("lo: 12,345 frames captured, {lost}: output_0.pcapng output_1.pcapng\n");
            assert_eq!(summary(nic, ring).text(), expected);
        }
    }
}
