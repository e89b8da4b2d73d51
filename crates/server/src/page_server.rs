//! The web page of a running command: its files, readings and lines as server-sent events, metrics,
//! a report, and orders that need a token.
//!
//! Names in the `Host` header other than `localhost` are refused: a page of another site could
//! otherwise give its own name this address (DNS rebinding), and read the answers.

use crate::http_thread::HttpThread;
use crate::metrics_server::{PLAIN, metrics_text};
use crate::origin::foreign;
use crate::request_body::{BodyBounds, BodyError};
use crate::token::has_token;
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use metrics::{EventLog, MetricSet, NextLines};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;

/// Time between two readings.
const READING: Duration = Duration::from_millis(250);
/// Readings from one message of a page to the next.
const MESSAGE_EVERY: u32 = 2;
/// Streams of events at a time: a further one ends the oldest.
const STREAMS_MAX: usize = 32;
/// Bytes of an order at most.
const ORDER_MAX: usize = 256;
/// Time for the body of an order.
const ORDER_TIME: Duration = Duration::from_secs(10);
/// Time after which a browser connects again, in milliseconds.
const RETRY: &str = "retry: 1000\n\n";
/// Scripts and styles come from this server, the icon is in the page, and nothing else is loaded.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// The report has its style inside.
const REPORT_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'";

/// What a user wants of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageOrder {
    /// Pause.
    Pause,
    /// Go on after a pause.
    Resume,
    /// End the run.
    Stop,
    /// Send at the rate that this text names.
    Rate(String),
}

/// What the page shows and does. Calls are short, because one thread makes all of them.
pub trait PageBackend: Send + Sync + 'static {
    /// Reads the counters.
    fn read(&self);

    /// The last reading as JSON, with the points of the graphs from a number on; and the number of
    /// the next point.
    fn view(&self, from: u64) -> (String, u64);

    /// The last message, as JSON.
    fn end(&self) -> String;

    /// The present values.
    fn metrics(&self) -> MetricSet;

    /// The report as one HTML file.
    fn report(&self) -> String;

    /// Carries out an order. Returns what was done.
    ///
    /// # Errors
    /// Why it cannot be carried out.
    fn carry_out(&self, order: &PageOrder) -> Result<String, String>;
}

/// What is served beside the backend.
pub struct PageConfig {
    /// Where to listen.
    pub address: SocketAddr,
    /// Orders need this token as `Authorization: Bearer TOKEN`.
    pub token: String,
    /// Path, media type and text of each file.
    pub files: &'static [(&'static str, &'static str, &'static str)],
    /// The lines of `/events`. The server closes it at its end.
    pub events: Arc<EventLog>,
}

/// A server on a thread of its own, until it is dropped. Streams get their last message then.
pub struct PageServer {
    site: Arc<Site>,
    thread: HttpThread,
}

struct Site {
    config: PageConfig,
    backend: Arc<dyn PageBackend>,
    /// Changes after each reading that is sent.
    read: watch::Sender<()>,
    /// Changes with each line of `/events` and at their end.
    lines: Arc<watch::Sender<()>>,
    has_ended: AtomicBool,
    /// Bodies of orders.
    orders: BodyBounds,
    /// What ends each stream, the oldest first.
    streams: Mutex<VecDeque<Arc<Notify>>>,
}

type PageBody = UnsyncBoxBody<Bytes, Infallible>;
type Answer = Response<PageBody>;
type EventSender = mpsc::Sender<Result<Frame<Bytes>, Infallible>>;

impl PageServer {
    /// Listens in the network namespace of the caller.
    ///
    /// # Errors
    /// The address is in use or not of this host; no thread.
    pub fn start(config: PageConfig, backend: Arc<dyn PageBackend>) -> io::Result<Self> {
        let address = config.address;
        let orders = BodyBounds::new(ORDER_MAX, ORDER_TIME);
        let streams = Mutex::default();
        let (read, has_ended) = (watch::Sender::new(()), AtomicBool::new(false));
        let lines = Arc::new(watch::Sender::new(()));
        let added = Arc::clone(&lines);
        config.events.follow(move || {
            added.send_replace(());
        });
        let site = Arc::new(Site { config, backend, read, lines, has_ended, orders, streams });
        let (reader, served) = (Arc::clone(&site), Arc::clone(&site));
        let answer = move |request| Arc::clone(&served).answer(request);
        let thread = HttpThread::start(address, "web", async move { reader.read().await }, answer)?;
        Ok(Self { site, thread })
    }

    /// The address, with the port that the system chose.
    pub fn address(&self) -> SocketAddr {
        self.thread.address()
    }
}

impl Drop for PageServer {
    fn drop(&mut self) {
        self.site.backend.read();
        self.site.has_ended.store(true, SeqCst);
        self.site.config.events.close();
        self.site.read.send_replace(());
    }
}

impl Site {
    async fn read(&self) {
        let mut interval = tokio::time::interval(READING);
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        for number in 0_u32.. {
            interval.tick().await;
            self.backend.read();
            if number.is_multiple_of(MESSAGE_EVERY) {
                self.read.send_replace(());
            }
        }
    }

    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Answer {
        if let Some(why) = foreign(&request, false) {
            return text(StatusCode::FORBIDDEN, format!("{why}\n"));
        }
        let path = request.uri().path().to_owned();
        match *request.method() {
            Method::GET | Method::HEAD => self.page(&path, &request),
            Method::POST => self.order(&path, request).await,
            _ => text(StatusCode::METHOD_NOT_ALLOWED, "use GET or POST\n"),
        }
    }

    fn page(self: Arc<Self>, path: &str, request: &Request<Incoming>) -> Answer {
        if let Some((_, content_type, content)) = self.config.files.iter().find(|(name, ..)| *name == path) {
            return whole(StatusCode::OK, content_type, *content, POLICY);
        }
        match path {
            "/view" => self.stream(|site, sender| site.send_views(sender)),
            "/events" => {
                let last = request.headers().get("last-event-id").and_then(|id| id.to_str().ok());
                let from = last.and_then(line_number).map_or(0, |last| last.saturating_add(1));
                self.stream(move |site, sender| site.send_lines(sender, from))
            }
            "/metrics" => {
                let (content_type, text) = metrics_text(request, &self.backend.metrics());
                let mut answer = whole(StatusCode::OK, content_type, text, POLICY);
                answer.headers_mut().insert(header::VARY, header::HeaderValue::from_static("Accept"));
                answer
            }
            "/report.html" => {
                whole(StatusCode::OK, "text/html; charset=utf-8", self.backend.report(), REPORT_POLICY)
            }
            _ => text(StatusCode::NOT_FOUND, "the page is at /\n"),
        }
    }

    async fn order(self: Arc<Self>, path: &str, request: Request<Incoming>) -> Answer {
        if !["/pause", "/resume", "/stop", "/rate"].contains(&path) {
            return text(StatusCode::NOT_FOUND, "orders are /pause, /resume, /stop and /rate\n");
        }
        if !has_token(request.headers(), &self.config.token) {
            let why =
                "this needs the token that the command has printed, as \"Authorization: Bearer TOKEN\"\n";
            return text(StatusCode::FORBIDDEN, why);
        }
        let (body, _share) = self.orders.bound(request.into_body());
        let body = match body.collect().await {
            Ok(body) => body,
            // The option of the other error belongs to another server.
            Err(error @ BodyError::TooLong(_)) => return text(error.status(), "the order is too long\n"),
            Err(error) => return text(error.status(), format!("{error}\n")),
        };
        let order = match path {
            "/pause" => PageOrder::Pause,
            "/resume" => PageOrder::Resume,
            "/stop" => PageOrder::Stop,
            _ => PageOrder::Rate(String::from_utf8_lossy(&body.to_bytes()).trim().to_owned()),
        };
        match self.backend.carry_out(&order) {
            Ok(done) => text(StatusCode::OK, done + "\n"),
            Err(why) => text(StatusCode::CONFLICT, why + "\n"),
        }
    }

    /// A stream of events that `send` sends.
    fn stream<Sending>(self: Arc<Self>, send: impl FnOnce(Arc<Self>, EventSender) -> Sending) -> Answer
    where
        Sending: Future<Output = ()> + Send + 'static,
    {
        let ends = self.new_stream();
        // A client that reads slowly delays its own events only.
        let (sender, receiver) = mpsc::channel(1);
        let sending = send(Arc::clone(&self), sender);
        tokio::spawn(async move {
            tokio::select! {
                () = sending => {}
                () = ends.notified() => {}
            }
            self.streams().retain(|other| !Arc::ptr_eq(other, &ends));
        });
        let body = StreamBody::new(ReceiverStream::new(receiver));
        answer(StatusCode::OK, "text/event-stream", body.boxed_unsync(), POLICY)
    }

    fn streams(&self) -> std::sync::MutexGuard<'_, VecDeque<Arc<Notify>>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What ends a new stream. If there are too many, the oldest one ends.
    fn new_stream(&self) -> Arc<Notify> {
        let mut streams = self.streams();
        if streams.len() >= STREAMS_MAX
            && let Some(oldest) = streams.pop_front()
        {
            oldest.notify_one();
        }
        streams.push_back(Arc::default());
        Arc::clone(&streams[streams.len() - 1])
    }

    /// Sends readings until the end, which is an event of its own.
    async fn send_views(self: Arc<Self>, sender: EventSender) {
        let (mut read, mut next, mut head) = (self.read.subscribe(), 0, RETRY);
        loop {
            let has_ended = self.has_ended.load(SeqCst);
            let (view, after) = self.backend.view(next);
            let event = format!("{head}event: view\ndata: {view}\n\n");
            (next, head) = (after, "");
            if !send(&sender, event).await {
                return;
            }
            if has_ended {
                send(&sender, format!("event: end\ndata: {}\n\n", self.backend.end())).await;
                return;
            }
            tokio::select! {
                _ = read.changed() => {}
                () = sender.closed() => return,
            }
        }
    }

    /// Sends the lines from number `from` on until the end.
    async fn send_lines(self: Arc<Self>, sender: EventSender, mut from: u64) {
        let mut changed = self.lines.subscribe();
        if !send(&sender, RETRY.to_owned()).await {
            return;
        }
        loop {
            let NextLines { lines, is_last } = self.config.events.from(from);
            for (number, line) in lines {
                from = number + 1;
                if !send(&sender, format!("id: {}\ndata: {line}\n\n", line_id(number))).await {
                    return;
                }
            }
            if is_last {
                return;
            }
            tokio::select! {
                _ = changed.changed() => {}
                () = sender.closed() => return,
            }
        }
    }
}

/// False when the client has gone.
async fn send(sender: &EventSender, event: String) -> bool {
    sender.send(Ok(Frame::data(event.into()))).await.is_ok()
}

/// The ID of an event, which belongs to this run: numbers begin at 0 in each.
fn line_id(number: u64) -> String {
    format!("{}-{number}", std::process::id())
}

/// The number in an ID that this run gave.
fn line_number(id: &str) -> Option<u64> {
    let (run, number) = id.split_once('-')?;
    number.parse().ok().filter(|_| run == std::process::id().to_string())
}

fn text(status: StatusCode, text: impl Into<Bytes>) -> Answer {
    whole(status, PLAIN, text, POLICY)
}

fn whole(status: StatusCode, content_type: &str, body: impl Into<Bytes>, policy: &str) -> Answer {
    answer(status, content_type, Full::new(body.into()).boxed_unsync(), policy)
}

fn answer(status: StatusCode, content_type: &str, body: PageBody, policy: &str) -> Answer {
    let response = Response::builder()
        .status(status)
        .header(header::CONTENT_TYPE, content_type)
        .header(header::CONTENT_SECURITY_POLICY, policy)
        .header(header::CACHE_CONTROL, "no-store")
        .header(header::X_CONTENT_TYPE_OPTIONS, "nosniff")
        .header(header::REFERRER_POLICY, "no-referrer");
    response.body(body).expect("status and headers are valid")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::TcpStream;
    use std::sync::Mutex;

    #[derive(Default)]
    struct FakeBackend {
        orders: Mutex<Vec<PageOrder>>,
    }

    impl PageBackend for FakeBackend {
        fn read(&self) {}

        fn view(&self, from: u64) -> (String, u64) {
            (format!("{{\"from\":{from}}}"), from + 1)
        }

        fn end(&self) -> String {
            "{\"report\":\"done\"}".to_owned()
        }

        fn metrics(&self) -> MetricSet {
            MetricSet::default()
        }

        fn report(&self) -> String {
            "<!DOCTYPE html>".to_owned()
        }

        fn carry_out(&self, order: &PageOrder) -> Result<String, String> {
            self.orders.lock().unwrap().push(order.clone());
            match order {
                PageOrder::Rate(text) if text == "fast" => Err("\"fast\" is not a rate".to_owned()),
                _ => Ok("done".to_owned()),
            }
        }
    }

    fn start() -> (PageServer, Arc<FakeBackend>, Arc<EventLog>) {
        let (backend, events) = (Arc::<FakeBackend>::default(), Arc::<EventLog>::default());
        let config = PageConfig {
            address: ([127, 0, 0, 1], 0).into(),
            token: "secret".to_owned(),
            files: &[("/", "text/html", "<p>page</p>")],
            events: Arc::clone(&events),
        };
        let server = PageServer::start(config, Arc::<FakeBackend>::clone(&backend)).unwrap();
        (server, backend, events)
    }

    fn connect(server: &PageServer, request: &str) -> TcpStream {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        let host = if request.contains("Host: ") { "" } else { "Host: localhost:1\r\n" };
        write!(
            stream,
            "{}",
            request.replace('|', "\r\n").replacen("\r\n", &format!(" HTTP/1.1\r\n{host}"), 1)
        )
        .unwrap();
        stream
    }

    /// The status and the body of an answer.
    fn ask(server: &PageServer, request: &str) -> (String, String) {
        let mut text = String::new();
        connect(server, request).read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains("\r\ncontent-security-policy: default-src 'none'"), "{head}");
        (head[9..12].to_owned(), body.to_owned())
    }

    fn status(server: &PageServer, request: &str) -> String {
        ask(server, request).0
    }

    #[test]
    fn pages_are_for_hosts_without_a_name_of_another_site() {
        let (server, ..) = start();
        for host in ["127.0.0.1:80", "localhost", "LOCALHOST:8", "[::1]:8", "192.0.2.7:80"] {
            let (status, body) = ask(&server, &format!("GET /|Host: {host}|Connection: close||"));
            assert_eq!((status.as_str(), body.as_str()), ("200", "<p>page</p>"), "{host}");
        }
        for host in ["example.org", "127.0.0.1.example.org:80", "localhost.example.org", ""] {
            assert_eq!(status(&server, &format!("GET /|Host: {host}|Connection: close||")), "403", "{host}");
        }
        for (path, expected) in [("/report.html", "200"), ("/metrics", "200"), ("/nothing", "404")] {
            assert_eq!(status(&server, &format!("GET {path}|Connection: close||")), expected, "{path}");
        }
        assert_eq!(status(&server, "PUT /|Connection: close||"), "405");
    }

    #[test]
    fn orders_need_the_token() {
        let (server, backend, _) = start();
        for wrong in ["", "Authorization: Bearer secre|", "Authorization: secret|"] {
            let request = format!("POST /stop|Connection: close|{wrong}Content-Length: 0||");
            assert_eq!(status(&server, &request), "403", "{wrong}");
        }
        assert!(backend.orders.lock().unwrap().is_empty());
        let order = |path: &str, body: &str| {
            let len = body.len();
            ask(
                &server,
                &format!(
                    "POST {path}|Connection: close|Authorization: Bearer secret|Content-Length: {len}||{body}"
                ),
            )
        };
        let answer = |status: &str, body: &str| (status.to_owned(), body.to_owned());
        assert_eq!(order("/pause", ""), answer("200", "done\n"));
        assert_eq!(order("/rate", " 1.5M "), answer("200", "done\n"));
        assert_eq!(order("/rate", "fast"), answer("409", "\"fast\" is not a rate\n"));
        assert_eq!(order("/rate", &"9".repeat(ORDER_MAX + 1)).0, "413");
        assert_eq!(order("/other", "").0, "404");
        let rate = |text: &str| PageOrder::Rate(text.to_owned());
        assert_eq!(*backend.orders.lock().unwrap(), [PageOrder::Pause, rate("1.5M"), rate("fast")]);
    }

    #[test]
    fn streams_get_every_line_and_the_end() {
        let (server, _, events) = start();
        events.add("{\"sent\":1}\n");
        let mut lines = BufReader::new(connect(&server, "GET /events||")).lines().map(Result::unwrap);
        assert!(lines.any(|line| line == "data: {\"sent\":1}"));
        let mut views = BufReader::new(connect(&server, "GET /view||")).lines().map(Result::unwrap);
        for from in 0..3 {
            assert!(views.any(|line| line == format!("data: {{\"from\":{from}}}")), "{from}");
        }
        let request = format!("GET /events|Last-Event-ID: {}||", line_id(0));
        let mut late = BufReader::new(connect(&server, &request)).lines().map(Result::unwrap);
        let other_run = "GET /events|Last-Event-ID: 0-0||";
        let mut other = BufReader::new(connect(&server, other_run)).lines().map(Result::unwrap);
        // Both are served, before the server ends.
        assert!(late.any(|line| line.starts_with("retry: ")));
        assert!(other.any(|line| line.starts_with("retry: ")));
        events.add("{\"sent\":2}\n");
        drop(server);
        assert!(lines.any(|line| line == "data: {\"sent\":2}"));
        assert!(views.any(|line| line == "event: end"));
        assert!(views.any(|line| line == "data: {\"report\":\"done\"}"));
        let is_id = |line: &String| line.starts_with("id: ");
        assert_eq!(late.find(is_id), Some(format!("id: {}", line_id(1))));
        assert_eq!(other.find(is_id), Some(format!("id: {}", line_id(0))));
    }

    #[test]
    fn a_further_stream_ends_the_oldest() {
        let (server, ..) = start();
        let head = |stream: TcpStream| {
            let mut line = String::new();
            let mut reader = BufReader::new(stream);
            reader.read_line(&mut line).unwrap();
            (line, reader)
        };
        let mut open: Vec<_> =
            (0..STREAMS_MAX).map(|_| head(connect(&server, "GET /view|Connection: close||"))).collect();
        assert!(open.iter().all(|(line, _)| line.starts_with("HTTP/1.1 200 ")));
        assert!(head(connect(&server, "GET /events||")).0.starts_with("HTTP/1.1 200 "));
        // The oldest one ends: its body is complete.
        let mut rest = String::new();
        open[0].1.read_to_string(&mut rest).unwrap();
        assert!(rest.ends_with("0\r\n\r\n"), "{rest}");
    }

    #[test]
    fn an_order_has_a_place_among_idle_connections() {
        let (server, backend, _) = start();
        let address = server.address();
        let idle: Vec<TcpStream> = (0..200).map(|_| TcpStream::connect(address).unwrap()).collect();
        assert_eq!(status(&server, "POST /stop|Authorization: Bearer secret|Connection: close||"), "200");
        assert_eq!(*backend.orders.lock().unwrap(), [PageOrder::Stop]);
        drop(idle);
    }
}
