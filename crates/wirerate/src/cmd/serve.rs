//! `wirerate serve`: the control files on a directory, for everyone, until it is stopped.

use ctlfs::Tree;
use ctlfs::control::{Control, StartedRun};
use ctlfs::serve::{DEFAULT_MOUNT, Serve};
use ctlfs::slots::{DEFAULT_DIR, SlotTree};
use engine::{EngineError, EngineKind};
use host::Netns;
use program::advice;
use program::device_files::Captures;
use program::log;
use program::monitor::sources::{DeviceLabels, RunList, SendSource};
use program::outcome::{Failure, Outcome};
use program::stop::Stop;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Arguments of `wirerate serve`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Runs in the foreground and tells systemd when it is ready (Type=notify). SIGTERM ends all runs, lets \
writers have their answers, and unmounts.")]
pub struct Args {
    /// Where to mount the control files; made if it is missing
    #[arg(long, value_name = "DIR", default_value = DEFAULT_MOUNT)]
    mount: PathBuf,
    /// Where to mount the device files of `mgcap start`; made if it is missing [default:
    /// /dev/mgcap, unless --mount is given]
    #[arg(long, value_name = "DIR")]
    mgcap: Option<PathBuf>,
    /// Network namespace of the devices, as in `ip netns`; without it each writer finds those of
    /// its own
    #[arg(long, value_name = "NAME")]
    netns: Option<String>,
    /// Make every frame and send none
    #[arg(long)]
    dry_run: bool,
    /// Print warnings and errors only: not where the files are, nor the writes that are refused
    #[arg(short, long)]
    quiet: bool,
}

/// A second daemon, at a place of its own, leaves the one at the usual place alone.
fn mgcap_dir(args: &Args) -> Option<PathBuf> {
    let usual = || (args.mount == Path::new(DEFAULT_MOUNT)).then(|| PathBuf::from(DEFAULT_DIR));
    args.mgcap.clone().or_else(usual)
}

/// Serves until a signal.
///
/// # Errors
/// When the directory is taken, cannot be mounted on, or is unmounted by another process.
pub fn run(args: &Args, stop: &Stop) -> Result<Outcome, Failure> {
    let level = if args.quiet { log::Level::WARN } else { log::Level::INFO };
    log::to_stderr(level, !args.quiet);
    let serve = Serve { mount: args.mount.clone(), netns: args.netns.clone() };
    let dir = mgcap_dir(args);
    let captures: Option<(_, Arc<dyn SlotTree>)> =
        dir.as_deref().map(|dir| (dir, Arc::new(Captures::default()) as _));
    let (dry_run, named, runs) = (args.dry_run, args.netns.clone(), RunList::of(stop.console()));
    let _counted = runs.count_in();
    let build = move || -> Result<Arc<dyn Tree>, EngineError> {
        // With --netns the process itself is in the namespace.
        let (runs, named, netns) = (runs.clone(), named.clone(), Netns::current()?);
        let engine = dry_run.then_some(EngineKind::Mem);
        let control = Control::here(engine, advice::for_engine_here, move |started| {
            for StartedRun { cpu, ifname, handle } in started {
                // A thread of the control files is named after its CPU.
                let run = SendSource { thread: cpu as usize, cpu, handle };
                let labels = match &named {
                    Some(name) => DeviceLabels::new(&ifname, Some(name)),
                    None => DeviceLabels::in_netns(&ifname, &netns),
                };
                runs.begin(&labels, [run]);
            }
        })?;
        Ok(Arc::new(control))
    };
    ctlfs::serve::run_with(&serve, build, captures).map(|()| Outcome::Done).map_err(|error| {
        let advice = advice::for_serve(&error);
        let failure = Failure::refused(format!("serve {}", args.mount.display()), error);
        advice.into_iter().fold(failure, Failure::try_this)
    })
}
