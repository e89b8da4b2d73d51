//! What reads a running tool over HTTP: an open page of `--web`, without a browser, which is the
//! stream of events that the page reads, or a server that scrapes `--metrics`.

use crate::generators::Viewer;
use crate::process::Tool;
use crate::testbed::Testbed;
use anyhow::{Context, Result, ensure};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread::JoinHandle;
use std::time::Duration;

/// Time between two scrapes: four times as often as servers scrape, so that each window has one.
const SCRAPE_EVERY: Duration = Duration::from_millis(250);

/// A reader, which reads until the tool ends.
#[derive(Debug)]
pub(crate) struct Reader {
    /// What each answer has.
    wanted: &'static str,
    answers: JoinHandle<Vec<u8>>,
}

impl Reader {
    /// The reader of a tool in the namespace of the sender; `None` for viewers without one.
    pub(crate) fn of(viewer: Viewer, tool: &Tool, bed: &Testbed) -> Result<Option<Self>> {
        // What wirerate prints before the address and after it, the path, and what an answer has.
        let (before, after, path, wanted) = match viewer {
            Viewer::None | Viewer::Terminal => return Ok(None),
            Viewer::Page => ("page at http://", "/#", "/view", "\ndata:"),
            Viewer::Scraper => {
                ("metrics at http://", "/metrics\n", "/metrics", "wirerate_send_frames_total{")
            }
        };
        tool.until_it_says(after, &bed.stop)?;
        let said = tool.said();
        let address = said.split_once(before).and_then(|(_, rest)| Some(rest.split_once(after)?.0));
        let address = address.with_context(|| format!("no address of a page in: {said}"))?.to_owned();
        let connected = bed.tx().netns().run(|| TcpStream::connect(&address))?;
        let mut stream = connected.with_context(|| format!("cannot connect to {address}"))?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n");
        if viewer == Viewer::Scraper {
            let mut asking = stream.try_clone()?;
            // Ends with the connection.
            std::thread::spawn(move || {
                while asking.write_all(request.as_bytes()).is_ok() {
                    std::thread::sleep(SCRAPE_EVERY);
                }
            });
        } else {
            stream.write_all(request.as_bytes())?;
        }
        let answers = std::thread::spawn(move || {
            let mut answers = Vec::new();
            // The end of wirerate may reset the connection.
            let _ = stream.read_to_end(&mut answers);
            answers
        });
        Ok(Some(Self { wanted, answers }))
    }

    /// Waits for the end of the answers.
    pub(crate) fn close(self) -> Result<()> {
        let answers = self.answers.join().expect("reading does not panic");
        let text = String::from_utf8_lossy(&answers);
        ensure!(text.contains(self.wanted), "no {} in: {text}", self.wanted.trim());
        Ok(())
    }
}
