//! `--web`: the page of a running command, on a thread of its own.
//!
//! It reads the same metrics as `--metrics` serves and `--tui` shows. Orders need a token, which is
//! printed with the address.

use crate::console::Console;
use crate::run_orders::{self, RunOrder};
use crate::stop::BlockedSignals;
use live::{PAGE_FILES, PageView, RunState, ScreenHead};
use metrics::MetricSet;
use server::{PageBackend, PageConfig, PageOrder, PageServer};
use std::fmt::Write;
use std::fs::File;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Bytes of a token: too many to guess.
const TOKEN_LEN: usize = 16;

/// What a page reads of the process.
pub trait WebSource: Send + Sync + 'static {
    /// The metrics of the run, and its state.
    fn read(&self) -> (MetricSet, RunState);

    /// All metrics, with those of the process.
    fn scrape(&self) -> MetricSet;
}

/// The page. It ends when this is dropped: open pages get the last numbers and the report.
pub struct Web {
    server: PageServer,
    token: String,
}

struct WebBackend {
    command: String,
    source: Arc<dyn WebSource>,
    console: Console,
    started: Instant,
    view: Mutex<PageView>,
    is_stopping: AtomicBool,
}

impl Web {
    /// Starts the page of a command.
    ///
    /// # Errors
    /// The address is in use or not of this host; no thread; no random numbers.
    pub fn start(
        address: SocketAddr,
        head: ScreenHead,
        source: Arc<dyn WebSource>,
        console: &Console,
    ) -> io::Result<Self> {
        let token = new_token()?;
        let config = PageConfig {
            address,
            token: token.clone(),
            files: &PAGE_FILES,
            events: console.events().follow(),
        };
        let backend = WebBackend {
            command: head.command.clone(),
            source,
            console: console.clone(),
            started: Instant::now(),
            view: Mutex::new(PageView::new(head)),
            is_stopping: AtomicBool::new(false),
        };
        // Signals go to the threads that send.
        let _blocked = BlockedSignals::begin();
        Ok(Self { server: PageServer::start(config, Arc::new(backend))?, token })
    }

    /// The address of the page with the token, which browsers do not send.
    pub fn url(&self) -> String {
        format!("http://{}/#token={}", self.server.address(), self.token)
    }
}

fn new_token() -> io::Result<String> {
    let mut bytes = [0; TOKEN_LEN];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().fold(String::new(), |mut token, byte| {
        write!(token, "{byte:02x}").expect("a String takes any text");
        token
    }))
}

impl WebBackend {
    fn view(&self) -> MutexGuard<'_, PageView> {
        // A panic leaves readings behind, which stay valid.
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PageBackend for WebBackend {
    fn read(&self) {
        // Locked first: an older reading never follows a newer one.
        let mut view = self.view();
        let (set, state) = self.source.read();
        view.add(self.started.elapsed(), state, &set);
    }

    fn view(&self, from: u64) -> (String, u64) {
        let view = self.view();
        (view.json(from), view.point_count())
    }

    fn end(&self) -> String {
        let report = self.console.events().report_text();
        serde_json::json!({ "html": self.view().report(&report), "report": report }).to_string()
    }

    fn metrics(&self) -> MetricSet {
        self.source.scrape()
    }

    fn report(&self) -> String {
        self.view().report(&self.console.events().report_text())
    }

    fn carry_out(&self, order: &PageOrder) -> Result<String, String> {
        let order = match order {
            PageOrder::Pause => RunOrder::Pause,
            PageOrder::Resume => RunOrder::Resume,
            // A second signal would end the program without its report.
            PageOrder::Stop if self.is_stopping.swap(true, Ordering::Relaxed) => {
                return Err("it is stopping already; Ctrl-C at its terminal ends it at once".to_owned());
            }
            PageOrder::Stop => RunOrder::Stop,
            PageOrder::Rate(text) => RunOrder::SetRate(text.clone()),
        };
        run_orders::carry_out(&order, &self.command, &self.console)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_token_is_new() {
        let [one, other] = [new_token().unwrap(), new_token().unwrap()];
        assert_ne!(one, other);
        assert!(one.len() == 32 && one.chars().all(|c| c.is_ascii_hexdigit()), "{one}");
    }
}
