//! Data sets in a bucket of S3: moto serves it, and a relay cuts the connections to it.

use super::{PacketBuf, START_NS, export_command, file_of, kept, report_of};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use packet::Rng;
use serde_json::{Value, json};
use std::fs;
use std::io::{self, BufRead, BufReader, Lines, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use testkit::Folder;

/// The Python environment that has moto.
const PYTHON: &str = "/var/cache/wirerate/python-moto/bin/python";

/// The server, with its bucket `bucket`.
struct S3Server {
    child: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
    url: String,
}

impl S3Server {
    /// `None` and skipped without moto.
    fn start() -> Option<Self> {
        let has_moto = Command::new(PYTHON).args(["-c", "import moto"]).output();
        if !has_moto.is_ok_and(|output| output.status.success()) {
            testkit::skip("needs the Python package moto (tools/install.sh test)");
            return None;
        }
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/export/s3_server.py");
        let mut child = Command::new(PYTHON)
            .arg(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("python runs");
        let (input, output) = (child.stdin.take(), child.stdout.take().expect("it is a pipe"));
        let mut server = Self { child, input, output: BufReader::new(output).lines(), url: String::new() };
        server.url = server.answer().as_str().expect("the server prints its URL").to_owned();
        Some(server)
    }

    fn answer(&mut self) -> Value {
        let line = self.output.next().expect("the server runs").expect("it answers in text");
        serde_json::from_str(&line).expect("it answers in JSON")
    }

    /// Names of objects, and of those whose uploads are not complete.
    fn ask(&mut self, command: &str) -> [Vec<String>; 2] {
        writeln!(self.input.as_mut().expect("it is open"), "{command}").expect("the server reads");
        serde_json::from_value(self.answer()).expect("two lists of names")
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        // The end of its input ends it.
        self.input = None;
        let _ = self.child.wait();
    }
}

/// A relay to a server. It returns its URL. Each connection goes on while `may_pass` returns true,
/// which gets the number of bytes that the client sent on it before, and that of the next ones.
fn relay(server: &str, may_pass: impl Fn(usize, usize) -> bool + Send + Sync + 'static) -> String {
    let server = server.strip_prefix("http://").expect("a server without TLS").to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let url = format!("http://{}", listener.local_addr().expect("it has an address"));
    let may_pass = Arc::new(may_pass);
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let (server, may_pass) = (server.clone(), Arc::clone(&may_pass));
            std::thread::spawn(move || forward(&client, &server, &*may_pass));
        }
    });
    url
}

/// Forwards one connection.
fn forward(mut client: &TcpStream, server: &str, may_pass: &impl Fn(usize, usize) -> bool) -> io::Result<()> {
    let mut server = TcpStream::connect(server)?;
    let (mut answers, mut to_client) = (server.try_clone()?, client.try_clone()?);
    std::thread::spawn(move || {
        let _ = io::copy(&mut answers, &mut to_client);
        to_client.shutdown(Shutdown::Both)
    });
    let (mut buffer, mut passed) = (vec![0; 1 << 16], 0);
    loop {
        let read = client.read(&mut buffer)?;
        if read == 0 || !may_pass(passed, read) {
            return server.shutdown(Shutdown::Both);
        }
        server.write_all(&buffer[..read])?;
        passed += read;
    }
}

/// An export to a server.
fn upload_command(folder: &Path, url: &str, args: &str) -> Command {
    let mut command = export_command(folder, &format!("{args} --json"));
    command.env("AWS_ENDPOINT_URL", url).env("AWS_REGION", "us-east-1").env_remove("AWS_SESSION_TOKEN");
    command.env("AWS_ACCESS_KEY_ID", "key").env("AWS_SECRET_ACCESS_KEY", "secret");
    command
}

/// The report of an export to a server, and what it prints to standard error.
fn upload(folder: &Path, url: &str, args: &str, code: i32) -> (Value, String) {
    report_of(&mut upload_command(folder, url, args), code)
}

/// A capture file whose only part takes two requests, since its bytes do not compress.
fn capture_file(folder: &Path) -> Vec<u8> {
    let mut rng = Rng(5);
    let packets: Vec<PacketBuf> = (0..9000)
        .map(|number| {
            let data: Vec<u8> = (0..125).flat_map(|_| rng.next_u64().to_be_bytes()).collect();
            PacketBuf { time_ns: START_NS + number, frame_len: 1000, data, ..PacketBuf::default() }
        })
        .collect();
    let file = file_of(&packets);
    fs::write(folder.join("frames.pcapng"), &file).unwrap();
    file
}

/// The objects, as packets.
fn from_bucket(folder: &Path, server: &mut S3Server) -> Vec<(PacketBuf, String)> {
    server.ask(&format!("copy {}", folder.join("bucket").display()));
    report_of(&mut export_command(folder, "bucket --to pcapng -o back.pcapng --json"), 0);
    kept(&fs::read(folder.join("back.pcapng")).unwrap())
}

#[test]
fn packets_come_back_from_a_bucket() {
    let folder = Folder::new("export-bucket");
    let Some(mut server) = S3Server::start() else { return };
    let original = capture_file(&folder);
    let url = server.url.clone();
    let (done, _) = upload(&folder, &url, "frames.pcapng -o s3://bucket/lab/one --host h", 0);
    assert_eq!((&done["stored"], &done["not_stored"], &done["files"]), (&json!(9000), &json!(0), &json!(2)));
    let [names, unfinished] = server.ask("names");
    let start = "lab/one/run=frames/host=h/device=eth0/";
    assert!(names.iter().any(|name| name.starts_with(&format!("{start}part-"))), "{names:?}");
    assert!(names.contains(&format!("{start}loss-0.parquet")), "{names:?}");
    assert!(unfinished.is_empty(), "{unfinished:?}");
    assert!(from_bucket(&folder, &mut server) == kept(&original));

    // What is there is not replaced.
    let refused = |args: &str| {
        let mut command = export_command(&folder, args);
        command.env("AWS_ENDPOINT_URL", &url).env("AWS_ACCESS_KEY_ID", "key");
        let output = command.env("AWS_SECRET_ACCESS_KEY", "secret").output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, stderr) = refused("frames.pcapng -o s3://bucket/lab/one/");
    assert_eq!(code, Some(3));
    assert!(stderr.contains("it is there already") && stderr.contains("try: another --run"), "{stderr}");
    let (code, stderr) = refused("frames.pcapng -o s3://other");
    assert_eq!(code, Some(3));
    assert_eq!(stderr.matches("NoSuchBucket").count(), 1, "{stderr}");
    assert!(stderr.contains("try: AWS_ACCESS_KEY_ID"), "{stderr}");
    for args in ["s3://bucket/lab -o packets", "bucket --to pcapng -o s3://bucket/back.pcapng"] {
        let (code, stderr) = refused(args);
        assert_eq!(code, Some(2), "{args}");
        assert!(stderr.contains("try: "), "{stderr}");
    }
    assert_eq!(server.ask("names")[0], names);
}

/// The relay holds a chunk until the next one is on its way, too.
#[test]
fn chunks_do_not_wait_for_the_answers_to_others() {
    const BEGUN: usize = 500_000;
    let folder = Folder::new("export-bucket-at-once");
    let Some(mut server) = S3Server::start() else { return };
    let original = capture_file(&folder);
    let (begun, both) = (Mutex::new(0), Condvar::new());
    let url = relay(&server.url, move |passed, read| {
        if passed < BEGUN && passed + read >= BEGUN {
            let mut begun = begun.lock().unwrap();
            *begun += 1;
            both.notify_all();
            let (_begun, waited) =
                both.wait_timeout_while(begun, Duration::from_secs(20), |begun| *begun < 2).unwrap();
            return !waited.timed_out();
        }
        true
    });
    let (done, stderr) = upload(&folder, &url, "frames.pcapng -o s3://bucket", 0);
    assert_eq!(done["stored"], 9000, "{stderr}");
    assert!(from_bucket(&folder, &mut server) == kept(&original));
}

#[test]
fn an_upload_that_is_cut_off_leaves_no_object_and_is_repeated() {
    let folder = Folder::new("export-bucket-cut");
    let Some(mut server) = S3Server::start() else { return };
    let original = capture_file(&folder);
    // In the first request of the part, then in its second one.
    for bytes_max in [1 << 20, (8 << 20) + 500_000] {
        let bytes_left = AtomicI64::new(bytes_max);
        let url = relay(&server.url, move |_, read| {
            bytes_left.fetch_sub(read as i64, Ordering::Relaxed) >= read as i64
        });
        let (cut, stderr) = upload(&folder, &url, "frames.pcapng -o s3://bucket", 1);
        assert_eq!(
            (&cut["packets"], &cut["not_stored"], &cut["files"]),
            (&json!(9000), &json!(9000), &json!(0))
        );
        let place = "9,000 packets not stored: cannot write s3://bucket/run=frames/";
        assert!(stderr.contains(place) && stderr.contains("try: AWS_ACCESS_KEY_ID"), "{stderr}");
        assert_eq!(server.ask("names")[0], [""; 0]);
    }
    let url = server.url.clone();
    upload(&folder, &url, "frames.pcapng -o s3://bucket", 0);
    assert!(from_bucket(&folder, &mut server) == kept(&original));
}

/// The relay passes 64 KiB in 0.2 s once the first chunk has begun.
#[test]
fn a_first_signal_ends_an_upload_and_removes_its_parts() {
    const BEGUN: usize = 500_000;
    let folder = Folder::new("export-bucket-signal");
    let Some(mut server) = S3Server::start() else { return };
    capture_file(&folder);
    let (begun, has_begun) = std::sync::mpsc::channel();
    let url = relay(&server.url, move |passed, _| {
        if passed >= BEGUN {
            // The test ends before all of it has passed.
            let _ = begun.send(());
            std::thread::sleep(Duration::from_millis(200));
        }
        true
    });
    let mut command = upload_command(&folder, &url, "frames.pcapng -o s3://bucket");
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    has_begun.recv().expect("the upload has begun");
    let signaled = std::time::Instant::now();
    kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).unwrap();
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    // All of it takes 28 s.
    assert!(signaled.elapsed() < Duration::from_secs(15), "{:?}", signaled.elapsed());
    assert!(stderr.contains("a signal ended the upload"), "{stderr}");
    assert_eq!(server.ask("names"), [Vec::<String>::new(), Vec::new()]);
}

#[test]
fn what_looks_like_a_url_of_another_kind_makes_no_folder() {
    let folder = Folder::new("export-bucket-scheme");
    capture_file(&folder);
    for (place, right) in [("gs://b/x", "try: -o s3://b/x"), ("s3:/bkt", "try: -o s3://bkt")] {
        let output = export_command(&folder, &format!("frames.pcapng -o {place}")).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(right), "{stderr}");
        assert!(!folder.join(place.split('/').next().unwrap()).exists(), "{place}");
    }
}
