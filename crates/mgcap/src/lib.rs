//! `wirerate mgcap`: captures that are read from device files, ordered about as `ip mgcap` did it.
//! [`mgdump`] reads them into files.
#![forbid(unsafe_code)]

pub mod mgdump;
mod orders;

pub use orders::{MgcapOrder, parse};

use ctlfs::slots::{CONTROL, DEFAULT_DIR};
use program::device_files::MgcapCapture;
use program::out;
use program::outcome::{Failure, Outcome};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use units::human_count;

/// Arguments of `wirerate mgcap`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Orders:\n  \
  mgcap start dev DEV\n  \
  mgcap stop dev DEV\n  \
  mgcap set dev DEV mode mirror|drop\n  \
  mgcap show [dev DEV]\n  \
  mgcap help\n\n\
Frames of a captured device are read from /dev/mgcap/DEV: by mgdump, or by any program that read the kernel module's \
slots. `wirerate serve` keeps the files for everyone; under `wirerate exec`, `ip mgcap` is this command.\n\n\
Small names for this program, made by `make install`: ln -s wirerate mgcap; ln -s wirerate mgdump; ln -s wirerate \
mgcap_hwtstamp_config")]
pub struct Args {
    /// Directory of the device files
    #[arg(long, value_name = "DIR", default_value = DEFAULT_DIR)]
    pub dir: PathBuf,
    /// Print what `show` finds as lines of JSON (docs/json.md)
    #[arg(long, short = 'J')]
    pub json: bool,
    /// What to do
    #[arg(value_name = "ORDER", trailing_var_arg = true)]
    pub words: Vec<String>,
}

/// Carries out the order.
///
/// # Errors
/// Bad usage; no `wirerate mgcap` serves device files here; what was refused.
pub fn run(args: &Args) -> Result<Outcome, Failure> {
    match parse(&args.words)
        .map_err(|why| Failure::usage("read the order", why).try_this("wirerate mgcap --help"))?
    {
        MgcapOrder::Show(device) => show(args, device.as_deref()),
        MgcapOrder::Help => {
            out::text(orders::USAGE)?;
            Ok(Outcome::Done)
        }
        order => {
            tell(&args.dir, &order.to_string()).map_err(|why| failure(args, order.act(), why))?;
            Ok(Outcome::Done)
        }
    }
}

fn show(args: &Args, device: Option<&str>) -> Result<Outcome, Failure> {
    let lines = read_state(&args.dir).map_err(|why| failure(args, "show the captures".to_owned(), why))?;
    let mut found = false;
    for line in lines.lines() {
        let Ok(state) = serde_json::from_str::<MgcapCapture>(line) else { continue };
        if state.gone || device.is_some_and(|device| device != state.device) {
            continue;
        }
        found = true;
        out::text(&if args.json { format!("{line}\n") } else { people(&state) })?;
    }
    // Asked for one device, "no" is an answer.
    Ok(if device.is_some() && !found { Outcome::No } else { Outcome::Done })
}

fn people(state: &MgcapCapture) -> String {
    let [received, delivered, lost] = [state.received, state.delivered, state.lost].map(human_count);
    format!(
        "{}: mode {}, {received} received, {delivered} read, {lost} lost ({})\n",
        state.device, state.mode, state.source
    )
}

/// What keeps an order from being carried out.
enum MgcapRefusal {
    /// No process serves device files in the directory.
    NotServed(io::Error),
    /// They do, and said no.
    Refused(io::Error, String),
}

fn failure(args: &Args, act: String, why: MgcapRefusal) -> Failure {
    match why {
        MgcapRefusal::Refused(error, said) => {
            let is_right_missing = error.kind() == io::ErrorKind::PermissionDenied;
            let said = said.trim();
            let error = if said.is_empty() { error } else { io::Error::other(said.to_owned()) };
            let failure = Failure::refused(act, error);
            if is_right_missing { failure.try_this("run it as root, with CAP_NET_ADMIN") } else { failure }
        }
        MgcapRefusal::NotServed(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Failure::refused(act, error).try_this("run it as root")
        }
        MgcapRefusal::NotServed(_) => {
            let why = io::Error::other(format!("no process serves device files at {}", args.dir.display()));
            Failure::refused(act, why)
                .try_this("`wirerate serve` keeps them for everyone, `wirerate exec -- CMD` for one command")
        }
    }
}

/// Writes a command. If it is refused, the reason can be read from the same descriptor.
fn tell(dir: &Path, order: &str) -> Result<(), MgcapRefusal> {
    let path = dir.join(CONTROL);
    let mut control = File::options().read(true).write(true).open(path).map_err(MgcapRefusal::NotServed)?;
    control.write_all(order.as_bytes()).map_err(|error| {
        let mut said = String::new();
        let _ = control.read_to_string(&mut said);
        MgcapRefusal::Refused(error, said)
    })
}

fn read_state(dir: &Path) -> Result<String, MgcapRefusal> {
    std::fs::read_to_string(dir.join(CONTROL)).map_err(MgcapRefusal::NotServed)
}

/// What is known of the capture of one device, if it is captured.
pub(crate) fn state_of(dir: &Path, device: &str) -> Option<MgcapCapture> {
    let lines = std::fs::read_to_string(dir.join(CONTROL)).ok()?;
    lines
        .lines()
        .filter_map(|line| serde_json::from_str::<MgcapCapture>(line).ok())
        .find(|state| state.device == device)
}
