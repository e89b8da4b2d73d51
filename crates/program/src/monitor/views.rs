//! `--tui` and `--web`: the screen and the page of a command.

use super::{ENDED, MonitorAddress, RUNNING, RunFacts, RunSubject, STARTING};
use crate::console::Console;
use crate::outcome::Failure;
use crate::run_orders;
pub(super) use crate::tui::Tui;
pub(super) use crate::web::Web;
use crate::web::WebSource;
use live::{RunState, ScreenHead};
use metrics::MetricSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

/// Metrics count a pause as running.
const PAUSED: &str = "paused";

/// The metrics of the run, and its state before its end.
fn read_state(command: &str, console: &Console) -> (MetricSet, RunState) {
    let (set, is_counting) = console.counts();
    let is_paused = || console.control().is_some_and(|control| control.is_paused());
    let word = match is_counting {
        false => STARTING,
        true if is_paused() => PAUSED,
        true => RUNNING,
    };
    (set, RunState { word, has_rate: run_orders::can_change_rate(command, console) })
}

impl Tui {
    /// Starts the full-screen view of a command.
    pub(super) fn of_run(subject: &RunSubject, console: &Console) -> Result<Self, Failure> {
        console.keep_counts();
        let (command, of_run) = (subject.command, console.clone());
        Self::start(subject.head(), Box::new(move || read_state(command, &of_run)), console)
            .map_err(|why| Failure::refused("start the view of --tui", why))
    }
}

/// Starts the page.
pub(super) fn serve_page(address: MonitorAddress, facts: &Arc<RunFacts>) -> Result<Web, Failure> {
    let head = facts.subject.head();
    let web = Web::start(address.0, head, Arc::<RunFacts>::clone(facts), &facts.console).map_err(|why| {
        let advice = address.advice("--web", &why);
        Failure::refused(format!("serve the page of --web at {address}"), why).try_this(advice)
    })?;
    crate::note!("page at {}", web.url());
    Ok(web)
}

impl RunSubject {
    fn head(&self) -> ScreenHead {
        let Self { command, device, netns } = self;
        ScreenHead { command: (*command).to_owned(), device: device.clone(), netns: netns.clone() }
    }
}

impl WebSource for RunFacts {
    fn read(&self) -> (MetricSet, RunState) {
        let has_ended = self.has_ended.load(SeqCst);
        let (set, state) = read_state(self.subject.command, &self.console);
        (set, if has_ended { RunState { word: ENDED, has_rate: false } } else { state })
    }

    fn scrape(&self) -> MetricSet {
        self.all()
    }
}
