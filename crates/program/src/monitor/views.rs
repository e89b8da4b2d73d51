//! `--tui` and `--web`: the screen and the page of a command.

use super::{MonitorAddress, RunFacts, RunSubject, read_state};
use crate::console::Console;
use crate::outcome::Failure;
pub(super) use crate::tui::Tui;
pub(super) use crate::web::Web;
use crate::web::WebSource;
use live::ScreenHead;
use metrics::MetricSet;
use std::sync::Arc;

impl Tui {
    /// Starts the full-screen view of a command.
    pub(super) fn of_run(subject: &RunSubject, console: &Console) -> Result<Self, Failure> {
        console.keep_counts();
        let of_run = console.clone();
        Self::start(subject.head(), Box::new(move || read_state(&of_run)), console)
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
    eprintln!("wirerate: page at {}", web.url());
    Ok(web)
}

impl RunSubject {
    fn head(&self) -> ScreenHead {
        let Self { command, device, netns } = self;
        ScreenHead { command: (*command).to_owned(), device: device.clone(), netns: netns.clone() }
    }
}

impl WebSource for RunFacts {
    fn read(&self) -> (MetricSet, &'static str) {
        self.of_page()
    }

    fn scrape(&self) -> MetricSet {
        self.all()
    }
}
