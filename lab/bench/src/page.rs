//! An open page of `--web`, without a browser: the stream of events that the page reads.

use crate::process::Tool;
use crate::testbed::Testbed;
use anyhow::{Context, Result, ensure};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread::JoinHandle;

/// What wirerate prints before the address of its page, and after it.
const ADDRESS: (&str, &str) = ("page at http://", "/#");

/// A page whose events are read until the tool ends.
#[derive(Debug)]
pub(crate) struct OpenPage(JoinHandle<Vec<u8>>);

impl OpenPage {
    /// Opens the page of a tool in the namespace of the sender.
    pub(crate) fn of(tool: &Tool, bed: &Testbed) -> Result<Self> {
        let (before, after) = ADDRESS;
        tool.until_it_says(after, &bed.stop)?;
        let said = tool.said();
        let address = said.split_once(before).and_then(|(_, rest)| Some(rest.split_once(after)?.0));
        let address = address.with_context(|| format!("no address of a page in: {said}"))?;
        let connected = bed.tx().netns().run(|| TcpStream::connect(address))?;
        let mut stream = connected.with_context(|| format!("cannot connect to {address}"))?;
        write!(stream, "GET /view HTTP/1.1\r\nHost: {address}\r\n\r\n")?;
        Ok(Self(std::thread::spawn(move || {
            let mut events = Vec::new();
            // The end of wirerate may reset the connection.
            let _ = stream.read_to_end(&mut events);
            events
        })))
    }

    /// Waits for the end of the stream, which must have had events.
    pub(crate) fn close(self) -> Result<()> {
        let events = self.0.join().expect("reading does not panic");
        let text = String::from_utf8_lossy(&events);
        ensure!(text.contains("\ndata:"), "the page shows nothing: {text}");
        Ok(())
    }
}
