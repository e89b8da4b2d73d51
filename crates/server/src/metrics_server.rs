//! The page of metrics: `GET /metrics` over HTTP/1.1, in the format that the scraper accepts.

use crate::http_thread::HttpThread;
use crate::origin::foreign;
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use metrics::{MetricSet, TextFormat};
use std::future::ready;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

/// Reads the present values.
pub type ReadMetrics = dyn Fn() -> MetricSet + Send + Sync;

/// A server on a thread of its own, until it is dropped.
#[derive(Debug)]
pub struct MetricsServer(HttpThread);

impl MetricsServer {
    /// Listens on `address` in the network namespace of the caller. `read` is called for each
    /// scrape.
    ///
    /// # Errors
    /// The address is in use or not of this host; no thread.
    pub fn start(address: SocketAddr, read: Arc<ReadMetrics>) -> io::Result<Self> {
        // Scrapers of other hosts call this one by its name.
        let allows_names = !address.ip().is_loopback();
        let answer = move |request: Request<Incoming>| ready(answer(&request, allows_names, &*read));
        HttpThread::start(address, "metrics", ready(()), answer).map(Self)
    }

    /// The address, with the port that the system chose.
    pub fn address(&self) -> SocketAddr {
        self.0.address()
    }
}

fn answer(request: &Request<Incoming>, allows_names: bool, read: &ReadMetrics) -> Response<Full<Bytes>> {
    let is_read = [Method::GET, Method::HEAD].contains(request.method());
    let why = foreign(request, allows_names);
    let (status, content_type, body) = match (why, request.uri().path(), is_read) {
        (Some(why), ..) => (StatusCode::FORBIDDEN, PLAIN, format!("{why}\n")),
        (None, "/metrics", true) => {
            let (content_type, text) = metrics_text(request, &read());
            (StatusCode::OK, content_type, text)
        }
        (None, "/metrics", false) => (StatusCode::METHOD_NOT_ALLOWED, PLAIN, "use GET\n".to_owned()),
        _ => (StatusCode::NOT_FOUND, PLAIN, "metrics are at /metrics\n".to_owned()),
    };
    let response = Response::builder().status(status).header(header::CONTENT_TYPE, content_type);
    let response = response.header(header::VARY, "Accept");
    response.body(Full::new(body.into())).expect("status and headers are valid")
}

/// The values in the format that the client accepts, and its media type.
pub(crate) fn metrics_text(request: &Request<Incoming>, set: &MetricSet) -> (&'static str, String) {
    let accept = request.headers().get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    let format = TextFormat::accepted(accept);
    (format.content_type(), set.text(format))
}

pub(crate) const PLAIN: &str = "text/plain; charset=utf-8";

#[cfg(test)]
mod tests {
    use super::*;
    use metrics::families::RECEIVE_FRAMES;
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use testkit::Exposition;

    /// The head and the body of an answer.
    fn ask(server: &MetricsServer, request: &str) -> (String, String) {
        ask_host(server, request, "localhost")
    }

    fn ask_host(server: &MetricsServer, request: &str, host: &str) -> (String, String) {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        write!(stream, "{request}\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        (head.to_owned(), body.to_owned())
    }

    fn sample() -> MetricSet {
        let mut set = MetricSet::default();
        set.count(&RECEIVE_FRAMES, &["eth1", ""], 5);
        set
    }

    #[test]
    fn a_scraper_gets_the_format_that_it_accepts() {
        let server = MetricsServer::start(([127, 0, 0, 1], 0).into(), Arc::new(sample)).unwrap();
        for (accept, is_open) in [("*/*", false), ("application/openmetrics-text; version=1.0.0", true)] {
            let (head, body) = ask(&server, &format!("GET /metrics HTTP/1.1\r\nAccept: {accept}"));
            assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
            let name = if is_open {
                "content-type: application/openmetrics-text; version=1.0.0"
            } else {
                "content-type: text/plain; version=0.0.4"
            };
            assert!(head.contains(name), "{head}");
            let read = Exposition::read(&body, is_open).unwrap();
            assert_eq!(read.sum("wirerate_receive_frames_total", &[("device", "eth1")]), Some(5));
        }
        assert_eq!(ask(&server, "HEAD /metrics HTTP/1.1").1, "");
        assert!(ask(&server, "POST /metrics HTTP/1.1\r\nContent-Length: 0").0.starts_with("HTTP/1.1 405 "));
        assert!(ask(&server, "GET / HTTP/1.1").0.starts_with("HTTP/1.1 404 "));
        let (head, _) = ask_host(&server, "GET /metrics HTTP/1.1", "evil.example");
        assert!(head.starts_with("HTTP/1.1 403 "), "{head}");
        let of_page = "GET /metrics HTTP/1.1\r\nOrigin: http://evil.example";
        assert!(ask(&server, of_page).0.starts_with("HTTP/1.1 403 "));
    }

    #[test]
    fn a_dropped_server_lets_the_port_go() {
        let server = MetricsServer::start(([127, 0, 0, 1], 0).into(), Arc::new(sample)).unwrap();
        let address = server.address();
        let idle = TcpStream::connect(address).unwrap();
        assert_eq!(
            MetricsServer::start(address, Arc::new(sample)).unwrap_err().kind(),
            io::ErrorKind::AddrInUse
        );
        drop(server);
        assert!(TcpStream::connect(address).is_err());
        drop(idle);
    }
}
