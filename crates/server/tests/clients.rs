//! Unmodified snappi and curl against the server: HTTP, HTTPS, gRPC, and gRPC with streams.

use serde_json::{Value, json};
use server::{ApiBackend, ApiError, ApiReply, ListenAddress, Operation, Server, ServerConfig};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::runtime::{Builder, Runtime};

/// Where `tools/install.sh test` puts the package.
const PYTHON: &str = "/var/cache/wirerate/python/bin/python";

/// Keeps the configuration, and answers the rest with fixed values.
#[derive(Default)]
struct KeptConfig(Mutex<Value>);

impl ApiBackend for KeptConfig {
    fn call(&self, operation: Operation, body: Value) -> Result<ApiReply, ApiError> {
        let mut config = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(match operation {
            Operation::SetConfig => {
                *config = body;
                ApiReply::Json(json!({"warnings": ["kept"]}))
            }
            Operation::GetConfig => ApiReply::Json(config.clone()),
            Operation::GetVersion => ApiReply::Json(json!({
                "api_spec_version": "^1.0.0", "sdk_version": "", "app_version": "test"
            })),
            Operation::GetMetrics => ApiReply::Json(json!({"choice": "flow_metrics", "flow_metrics": [
                {"name": "f1", "frames_tx": 0, "frames_rx": u64::MAX, "loss": 0.5}
            ]})),
            Operation::GetCapture => ApiReply::Bytes(vec![7; 3 << 20]),
            Operation::SetControlState => return Err(ApiError::invalid("flow f1 is not sent")),
            _ => return Err(ApiError::unsupported("not in this test")),
        })
    }
}

/// The address that the system chose.
fn ip_of(server: &Server) -> SocketAddr {
    match server.addresses()[..] {
        [ListenAddress::Ip(address)] => address,
        _ => panic!("there is one address"),
    }
}

/// A server on loopback. It ends with the runtime.
fn serve() -> (Runtime, SocketAddr) {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let config = ServerConfig { addresses: vec!["127.0.0.1:0".parse().unwrap()], ..ServerConfig::default() };
    let server = runtime.block_on(Server::bind(&config, Arc::new(KeptConfig::default()))).unwrap();
    let address = ip_of(&server);
    runtime.spawn(server.run());
    (runtime, address)
}

#[test]
fn addresses_beyond_loopback_need_a_token_and_a_certificate() {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let token = Some("secret".to_owned());
    for token in [None, token] {
        let addresses = vec!["0.0.0.0:0".parse().unwrap()];
        let config = ServerConfig { addresses, token, ..ServerConfig::default() };
        let bound = runtime.block_on(Server::bind(&config, Arc::new(KeptConfig::default())));
        let error = bound.err().expect("it is refused");
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput, "{error}");
    }
}

/// The status of the answer to a request with these headers.
fn status(address: SocketAddr, headers: &str) -> String {
    let body = r#"{"ports": [{"name": "p1"}]}"#;
    let mut stream = TcpStream::connect(address).unwrap();
    let len = body.len();
    let head = format!("POST /config HTTP/1.1\r\n{headers}Content-Length: {len}\r\nConnection: close\r\n");
    write!(stream, "{head}\r\n{body}").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text.split(' ').nth(1).unwrap_or_default().to_owned()
}

#[test]
fn pages_of_other_sites_are_refused() {
    let (_runtime, address) = serve();
    let host = format!("Host: {address}\r\n");
    for (headers, expected) in [
        (host.clone(), "200"),
        ("Host: evil.example\r\n".to_owned(), "403"),
        (format!("{host}Origin: http://evil.example\r\nContent-Type: text/plain\r\n"), "403"),
        (format!("{host}Origin: null\r\n"), "403"),
        (format!("{host}Origin: http://{address}\r\nContent-Type: text/plain\r\n"), "415"),
        (format!("{host}Origin: http://{address}\r\nContent-Type: application/json\r\n"), "200"),
        (format!("{host}Content-Type: text/plain\r\n"), "200"),
    ] {
        assert_eq!(status(address, &headers), expected, "{headers}");
    }
}

/// Starts a server, calls it with snappi, and checks the result.
fn check(scheme: &str, transport: &str, streamed: &str) {
    let (_runtime, address) = serve();
    check_at(scheme, &address.to_string(), transport, streamed);
}

/// Calls the server at `address` with snappi, and checks the result that the script prints.
fn check_at(scheme: &str, address: &str, transport: &str, streamed: &str) {
    let is_there = Command::new(PYTHON).args(["-c", "import snappi"]).output();
    if !is_there.is_ok_and(|output| output.status.success()) {
        testkit::skip("needs PyPI snappi (tools/install.sh test)");
        return;
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients.py");
    let output =
        Command::new(PYTHON).args([script, &format!("{scheme}{address}"), transport, streamed]).output();
    let output = output.expect("python runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let got: Value = serde_json::from_slice(&output.stdout).expect("a line of JSON");
    let code = if transport == "grpc" { 3 } else { 400 };
    let expected = json!({
        "warnings": ["kept"],
        "ports": ["p1"],
        "pps": 1_u64 << 40,
        "row": ["f1", 0, u64::MAX, 0.5],
        "captured": 3 << 20,
        "refused": {"code": code, "kind": "validation", "errors": ["flow f1 is not sent"]},
    });
    assert_eq!(got, expected);
}

#[test]
fn snappi_by_http() {
    check("http://", "http", "whole");
}

#[test]
fn snappi_by_https() {
    check("https://", "http", "whole");
}

#[test]
fn snappi_by_grpc() {
    check("", "grpc", "whole");
}

#[test]
fn snappi_by_grpc_with_streams() {
    check("", "grpc", "streamed");
}

/// Status and body of a request by curl; the last argument is the path.
fn curl(address: SocketAddr, arguments: &[&str]) -> Option<(u16, Value)> {
    let (path, options) = arguments.split_last().unwrap();
    let url = format!("http://{address}{path}");
    let Ok(output) =
        Command::new("curl").args(["-s", "-w", "\n%{http_code}"]).args(options).arg(url).output()
    else {
        testkit::skip("needs curl");
        return None;
    };
    let text = String::from_utf8(output.stdout).unwrap();
    let (body, status) = text.rsplit_once('\n').unwrap();
    Some((status.parse().unwrap(), serde_json::from_str(body).unwrap()))
}

#[test]
fn unknown_paths_methods_and_fields_are_refused_by_name() {
    let (_runtime, address) = serve();
    let error = |body: &Value| body["errors"][0].as_str().unwrap().to_owned();
    let Some((status, body)) = curl(address, &["/nothing"]) else { return };
    assert_eq!((status, error(&body)), (404, "there is no /nothing".to_owned()));
    let (status, body) = curl(address, &["-X", "DELETE", "/config"]).unwrap();
    assert_eq!((status, error(&body)), (405, "/config has no method DELETE".to_owned()));
    let (status, body) = curl(address, &["-d", r#"{"flows": [{"ratee": 1}]}"#, "/config"]).unwrap();
    assert_eq!((status, &body["kind"]), (400, &json!("validation")));
    assert!(error(&body).starts_with("flows[0]") && error(&body).contains("ratee"), "{body}");
    let (status, body) = curl(address, &["-d", "{}", "/config"]).unwrap();
    assert_eq!((status, body), (200, json!({"warnings": ["kept"]})));
}

#[test]
fn other_hosts_need_tls_and_a_token() {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let config = ServerConfig { addresses: vec!["0.0.0.0:0".parse().unwrap()], ..ServerConfig::default() };
    let refused = runtime.block_on(Server::bind(&config, Arc::new(KeptConfig::default()))).err().unwrap();
    assert!(refused.to_string().contains("give --tls CERT KEY and --token-file FILE"), "{refused}");
}

#[test]
fn a_token_is_asked_of_each_caller() {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let addresses = vec!["127.0.0.1:0".parse().unwrap()];
    let config = ServerConfig { addresses, token: Some("secret".to_owned()), ..ServerConfig::default() };
    let server = runtime.block_on(Server::bind(&config, Arc::new(KeptConfig::default()))).unwrap();
    let address = ip_of(&server);
    runtime.spawn(server.run());
    let version = "/capabilities/version";
    let Some((status, _)) = curl(address, &[version]) else { return };
    assert_eq!(status, 401);
    assert_eq!(curl(address, &["-H", "Authorization: Bearer other!", version]).unwrap().0, 401);
    assert_eq!(curl(address, &["-H", "Authorization: Bearer secret", version]).unwrap().0, 200);
    assert_eq!(curl(address, &["-u", "x:other!", version]).unwrap().0, 401);
    assert_eq!(curl(address, &["-u", "x:secret", version]).unwrap().0, 200);
    // User information in the address, as clients without a header of their own have it.
    for scheme in ["http://x:secret@", "https://x:secret@"] {
        check_at(scheme, &address.to_string(), "http", "whole");
    }
    assert_eq!(
        grpc_version(&address.to_string(), "other!").as_deref().unwrap_or("UNAUTHENTICATED"),
        "UNAUTHENTICATED"
    );
    assert!(grpc_version(&address.to_string(), "secret").is_none_or(|said| said.contains("^1.0.0")));
}

/// The version or the error that a gRPC client gets with this token as metadata; `None` without
/// snappi, which has gRPC.
fn grpc_version(address: &str, token: &str) -> Option<String> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/metadata.py");
    let Ok(output) = Command::new(PYTHON).args([script, address, token]).output() else {
        testkit::skip("needs PyPI snappi (tools/install.sh test)");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[test]
fn a_socket_of_the_file_system_takes_its_owners_calls() {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let folder = testkit::Folder::new("otg-socket");
    let path = folder.file("socket");
    let config = ServerConfig {
        addresses: vec![ListenAddress::Unix((&path).into())],
        token: Some("secret".to_owned()),
        ..ServerConfig::default()
    };
    let server = runtime.block_on(Server::bind(&config, Arc::new(KeptConfig::default()))).unwrap();
    let task = runtime.spawn(server.run());
    let mut stream = std::os::unix::net::UnixStream::connect(&path).unwrap();
    write!(stream, "GET /capabilities/version HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
    let said = grpc_version(&format!("unix:{path}"), "none");
    assert!(said.is_none_or(|said| said.contains("^1.0.0")));
    task.abort();
    let _ = runtime.block_on(task);
    // The tasks that hold it end after the one that started them.
    drop(runtime);
    assert!(!std::path::Path::new(&path).exists(), "the socket goes with its server");
}
