//! Limits of clients: idle and slow connections, long bodies, and many of them.

use serde_json::{Value, json};
use server::{ApiBackend, ApiError, ApiReply, ListenAddress, Operation, Server, ServerConfig};
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};

/// Answers requests for a capture with 30 MiB, others with a few bytes.
struct LongAnswers;

impl ApiBackend for LongAnswers {
    fn call(&self, operation: Operation, _body: Value) -> Result<ApiReply, ApiError> {
        Ok(match operation {
            Operation::GetCapture => ApiReply::Bytes(vec![7; 30 << 20]),
            _ => ApiReply::Json(json!({"warnings": []})),
        })
    }
}

/// Ends each test that waits for a server that does not answer.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The address that the system chose.
fn ip_of(server: &Server) -> SocketAddr {
    match server.addresses()[..] {
        [ListenAddress::Ip(address)] => address,
        _ => panic!("there is one address"),
    }
}

fn serve(config: ServerConfig) -> (Runtime, SocketAddr) {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let config = ServerConfig { addresses: vec!["127.0.0.1:0".parse().unwrap()], ..config };
    let server = runtime.block_on(Server::bind(&config, Arc::new(LongAnswers))).unwrap();
    let address = ip_of(&server);
    runtime.spawn(server.run());
    (runtime, address)
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream
}

fn send(address: SocketAddr, head: &str, body: &str) -> TcpStream {
    let mut stream = connect(address);
    // The server may refuse the body before all of it is sent.
    let _ = write!(stream, "{head} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{body}");
    stream
}

/// What the server sends until it closes the connection.
fn rest_of(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    // A reset after the answer is an end, too.
    let _ = stream.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

fn status_of(text: &str) -> &str {
    text.split(' ').nth(1).unwrap_or_default()
}

#[test]
fn idle_connections_do_not_delay_another_client() {
    let (_runtime, address) = serve(ServerConfig { connections_max: 64, ..ServerConfig::default() });
    let (mut idle, mut times) = (VecDeque::new(), Vec::new());
    for round in 0..15 {
        idle.extend((0..100).map(|_| connect(address)));
        idle.drain(..idle.len().saturating_sub(300));
        let started = Instant::now();
        let answer = rest_of(send(address, "GET /capabilities/version", "\r\n"));
        assert_eq!(status_of(&answer), "200", "round {round}: {answer}");
        times.push(started.elapsed());
    }
    times.sort();
    // The slowest ones are those of a busy machine.
    assert!(times[times.len() / 2] < Duration::from_millis(100), "{times:?}");
}

/// The time limits of the server, which are ten seconds.
#[test]
fn connections_without_a_whole_head_end() {
    let (_runtime, address) = serve(ServerConfig::default());
    let beginnings: [&[u8]; 4] =
        [b"", b"GET /config HTTP/1.1\r\nHost:", b"\x16\x03\x01\x02\x00", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"];
    let mut streams = beginnings.map(|bytes| {
        let mut stream = connect(address);
        stream.write_all(bytes).unwrap();
        stream
    });
    let started = Instant::now();
    for (stream, bytes) in streams.iter_mut().zip(beginnings) {
        let mut rest = Vec::new();
        let ended = stream.read_to_end(&mut rest);
        let is_reset = |kind| kind == std::io::ErrorKind::ConnectionReset;
        assert!(ended.as_ref().is_ok() || ended.is_err_and(|e| is_reset(e.kind())), "{bytes:?}");
        // A client has time for its head.
        assert!(started.elapsed() > Duration::from_secs(5), "{bytes:?}: {:?}", started.elapsed());
    }
}

#[test]
fn bodies_have_a_longest_length() {
    let (_runtime, address) = serve(ServerConfig { body_max: 1000, ..ServerConfig::default() });
    let body = |len: usize| format!("Content-Length: {len}\r\n\r\n{{{}}}", " ".repeat(len - 2));
    assert_eq!(status_of(&rest_of(send(address, "POST /config", &body(1000)))), "200");
    let text = rest_of(send(address, "POST /config", &body(1001)));
    assert_eq!(status_of(&text), "413");
    assert!(text.contains("the body is longer than 1000 bytes: start the server with a higher --max-body"));
    let chunk = format!("1f4\r\n{}\r\n", " ".repeat(500));
    let chunked = format!("Transfer-Encoding: chunked\r\n\r\n{chunk}{chunk}{chunk}0\r\n\r\n");
    assert_eq!(status_of(&rest_of(send(address, "POST /config", &chunked))), "413");
}

#[test]
fn bodies_of_all_calls_together_are_bounded() {
    let (_runtime, address) = serve(ServerConfig { body_max: 1000, ..ServerConfig::default() });
    let part = |len: usize| format!("Content-Length: 1000\r\n\r\n{}", " ".repeat(len));
    let mut open = Vec::new();
    let deadline = Instant::now() + TIMEOUT;
    let small = "Content-Length: 5\r\n\r\n{   }";
    let answer = || rest_of(send(address, "POST /config", small));
    while status_of(&answer()) != "429" {
        assert!(Instant::now() < deadline, "a body of 5 bytes is taken: {}", answer());
        // Four of them leave four bytes.
        open.push(send(address, "POST /config", &part(999)));
    }
    drop(open);
    while status_of(&answer()) != "200" {
        assert!(Instant::now() < deadline, "a body of 5 bytes is refused");
    }
}

/// Unread answers of 30 MiB take 64 MiB and one more answer.
#[test]
fn clients_that_do_not_read_their_answers_make_space() {
    let (_runtime, address) = serve(ServerConfig::default());
    let ask =
        || send(address, "POST /monitor/capture", "Content-Length: 22\r\n\r\n{\"port_name\":\"p\"     }");
    let mut first = [ask(), ask(), ask(), ask(), ask()];
    let mut begun = [0; 1];
    first.iter_mut().for_each(|stream| stream.read_exact(&mut begun).unwrap());
    let lengths: Vec<usize> = first.into_iter().map(|stream| rest_of(stream).len()).collect();
    assert!(lengths.iter().any(|len| *len < 30 << 20), "one has ended: {lengths:?}");
    assert!(rest_of(ask()).len() > 30 << 20);
}
