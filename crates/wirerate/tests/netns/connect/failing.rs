//! Servers that refuse, are silent, stop, end, or lie.

use super::lab::{self, Between, ConnectLab, count, ip, python};
use super::{SERVER, accounted, connect};
use crate::TestResult;
use crate::program::{Running, TIME_LIMIT, wirerate_run, wirerate_start};
use nix::sys::signal::Signal;
use std::time::Duration;

/// No listener: refused. No host: timeout.
pub(super) fn names() -> TestResult {
    let lab = ConnectLab::new(Between::Nothing, "");
    let _nginx = lab.nginx();
    let refused = "--dst 198.18.0.2:81 --src 198.18.64.0/24 --cps 5k -c 2000";
    let report = accounted(&connect(&lab, refused).expect_code(1));
    assert_eq!((count(&report, "refused"), count(&report, "established")), (2000, 0), "{report}");
    let silent = "--dst 198.18.0.9:80 --dst-mac 02:00:00:00:00:09 --src 198.18.64.0/24 --cps 5k -c 2000";
    let report = accounted(&connect(&lab, &format!("{silent} --timeout 2500ms")).expect_code(1));
    assert_eq!((count(&report, "timeout"), count(&report, "syn_resent")), (2000, 2000), "{report}");
    Ok(())
}

/// The server is stopped for some time, its link goes away for some, and it is killed.
///
/// A kernel that cannot repeat a SYN-ACK, because there is no route, forgets that connection
/// (`reqsk_timer_handler`), and resets it when the client goes on with it. It repeats them after a
/// second, and on a busy machine the link can be away for that long: each of these is one reset.
pub(super) fn server_stops() -> TestResult {
    let lab = ConnectLab::new(Between::Nothing, "");
    let nginx = lab.nginx();
    let start = |more: &str| {
        let client = &lab.client.name;
        let words = format!("connect c0@{client} --json {SERVER} --cps 2000 -t 3s --timeout 20s {more}");
        let running = wirerate_start(&words);
        running.until_it_says("at most");
        std::thread::sleep(Duration::from_millis(700));
        running
    };
    let connecting = start("");
    nginx.signal(Signal::SIGSTOP);
    std::thread::sleep(Duration::from_secs(5));
    nginx.signal(Signal::SIGCONT);
    let report = accounted(&connecting.wait(TIME_LIMIT));
    assert_eq!(count(&report, "failed"), 0, "{report}");
    let of_server = || ["TcpPassiveOpens", "TcpOutRsts"].map(|name| lab.counter(name));
    let before = of_server();
    let connecting = start("");
    ip(&format!("-n {} link set s0 down", lab.server.name));
    std::thread::sleep(Duration::from_millis(800));
    ip(&format!("-n {} link set s0 up", lab.server.name));
    lab::gro(&lab.server.name, "s0");
    let report = accounted(&connecting.wait(TIME_LIMIT));
    let after = of_server();
    let counts = ["completed", "reset"].map(|name| count(&report, name));
    assert_eq!(counts, [after[0] - before[0], after[1] - before[1]], "{report}");
    assert_eq!(count(&report, "failed"), count(&report, "reset"), "{report}");
    let connecting = start("--timeout 2s");
    nginx.signal(Signal::SIGKILL);
    let report = accounted(&connecting.wait(TIME_LIMIT));
    assert!(count(&report, "refused") > 100, "{report}");
    Ok(())
}

/// A server that ends the connection without a byte has not answered: so does a load balancer
/// without servers behind it.
pub(super) fn no_answer() -> TestResult {
    let lab = ConnectLab::new(Between::Nothing, "");
    let program = "import socket, sys\ns = socket.create_server(('198.18.0.2', 80), backlog=512)\n\
                   print('ready', file=sys.stderr, flush=True)\n\
                   while True:\n    c = s.accept()[0]\n    c.recv(4096)\n    c.close()\n";
    let server = Running::start(python(&lab, program));
    server.until_it_says("ready");
    let report = accounted(&connect(&lab, &format!("{SERVER} --open 4 -c 100")).expect_code(1));
    let counts = |report| ["cut_off", "completed", "responses"].map(|name| count(report, name));
    assert_eq!(counts(&report), [100, 0, 0], "{report}");
    drop(server);
    // One that closes behind its first response has not answered the other requests.
    let accepting = wirerate_start(&format!("accept s0@{} --json", lab.server.name));
    accepting.until_it_says("accepting on s0");
    lab::gro(&lab.client.name, "c0");
    let report = accounted(&connect(&lab, &format!("{SERVER} --open 4 -c 100 --requests 5")).expect_code(1));
    assert_eq!(counts(&report), [100, 0, 100], "{report}");
    Ok(())
}

/// Headers that end with the length, and those without a blank before it.
pub(super) fn short_headers() -> TestResult {
    let lab = ConnectLab::new(Between::Nothing, "");
    for length in ["Content-Length: 0", "Content-Length:0", "content-length:5"] {
        let body = if length.ends_with('5') { "hello" } else { "" };
        let program = format!(
            "import socket, sys\ns = socket.create_server(('198.18.0.2', 80), backlog=512)\n\
             print('ready', file=sys.stderr, flush=True)\n\
             while True:\n    c = s.accept()[0]\n    while c.recv(4096):\n        \
             c.sendall(b'HTTP/1.1 200 OK\\r\\n{length}\\r\\n\\r\\n{body}')\n    c.close()\n"
        );
        let server = Running::start(python(&lab, &program));
        server.until_it_says("ready");
        let words = format!("{SERVER} --open 1 -c 20 --requests 3");
        let report = accounted(&connect(&lab, &words).expect_code(0));
        let counts = ["responses", "unsized_responses"].map(|name| count(&report, name));
        assert_eq!(counts, [60, 0], "{length}: {report}");
    }
    Ok(())
}

/// A server that closes before the Content-Length of its response has cut it off; without a length,
/// the end of the connection is that of the response (RFC 9112, 6.3).
pub(super) fn short_body() -> TestResult {
    let lab = ConnectLab::new(Between::Nothing, "");
    for (header, more, outcome) in [
        ("Content-Length: 100", "", "cut_off"),
        ("Content-Length: 10", "", "completed"),
        ("Server: x", "", "completed"),
        // A header of 1.3 kB that is one segment.
        ("Content-Length: 100", "Set-Cookie: ", "cut_off"),
        ("Content-Length: 10", "Set-Cookie: ", "completed"),
    ] {
        let padding =
            if more.is_empty() { String::new() } else { format!("{more}{}\\r\\n", "x".repeat(1300)) };
        let program = format!(
            "import socket, sys\ns = socket.create_server(('198.18.0.2', 80), backlog=512)\n\
             print('ready', file=sys.stderr, flush=True)\n\
             while True:\n    c = s.accept()[0]\n    c.recv(4096)\n    \
             c.sendall(b'HTTP/1.1 200 OK\\r\\n{padding}{header}\\r\\n\\r\\n0123456789')\n    c.close()\n"
        );
        let server = Running::start(python(&lab, &program));
        server.until_it_says("ready");
        let report = accounted(&connect(&lab, &format!("{SERVER} --open 1 -c 20")));
        let counts = [outcome, "unsized_responses"].map(|name| count(&report, name));
        assert_eq!(counts, [20, 0], "{more}{header}: {report}");
    }
    Ok(())
}

/// A page that does not exist, a TLS server that refuses the hello, and one that is none.
pub(super) fn errors() -> TestResult {
    let lab = ConnectLab::new(Between::Nothing, "");
    let nginx = lab.nginx();
    for (path, errors) in [("/1", 0), ("/none", 200)] {
        let report = super::complete(connect(&lab, &format!("{SERVER} --open 4 -c 200 --get {path}")), 200);
        assert_eq!(count(&report, "error_answers"), errors, "{path}: {report}");
    }
    let words = format!("{SERVER} --open 4 -c 200 --get /none --requests 3");
    let text = wirerate_run(&format!("connect c0@{} {words}", lab.client.name)).expect_code(0);
    let row = text.stdout.lines().find(|line| line.trim_start().starts_with("errors")).unwrap_or_default();
    assert!(row.contains("600") && row.contains("HTTP status"), "{}", text.stdout);
    let expected = format!("{words} --expect error_answers=0");
    connect(&lab, &expected).expect_code(1);
    let hello = "--tls-hello --close reset --open 4 -c 200";
    let report = accounted(&connect(&lab, &format!("{SERVER} {hello}")));
    assert_eq!(count(&report, "error_answers"), 200, "nginx answers with a status: {report}");
    drop(nginx);
    // A fatal alert: handshake_failure.
    let program = "import socket, sys\ns = socket.create_server(('198.18.0.2', 80), backlog=512)\n\
                   print('ready', file=sys.stderr, flush=True)\n\
                   while True:\n    c = s.accept()[0]\n    c.recv(4096)\n    \
                   c.sendall(b'\\x15\\3\\3\\0\\2\\2\\x28')\n    c.close()\n";
    let server = Running::start(python(&lab, program));
    server.until_it_says("ready");
    let report = accounted(&connect(&lab, &format!("{SERVER} {hello}")));
    assert_eq!(["responses", "error_answers"].map(|name| count(&report, name)), [200, 200], "{report}");
    Ok(())
}

/// Answers each segment with up to three wrong ones: numbers, flags, options, lengths, windows.
const LIAR: &str = r#"
import os, random, socket, struct, sys
random.seed(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
s.bind(("s0", 0))
print("ready", file=sys.stderr, flush=True)
def total(b):
    if len(b) % 2: b += b"\0"
    n = sum(struct.unpack("!%dH" % (len(b) // 2), b))
    while n > 0xffff: n = (n & 0xffff) + (n >> 16)
    return ~n & 0xffff
def send(f, seq, ack, flags, data, options, window):
    options += b"\0" * (-len(options) % 4)
    options = options[:40]
    tcp = f[36:38] + f[34:36] + struct.pack("!IIBBHHH", seq % 2**32, ack % 2**32, (20 + len(options)) << 2,
        flags, window, 0, random.choice((0, 0, 5))) + options + data
    pseudo = f[30:34] + f[26:30] + struct.pack("!HH", 6, len(tcp))
    tcp = tcp[:16] + struct.pack("!H", total(pseudo + tcp)) + tcp[18:]
    ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(tcp), 0, 0, 64, 6, 0) + f[30:34] + f[26:30]
    ip = ip[:10] + struct.pack("!H", total(ip)) + ip[12:]
    s.send(f[6:12] + f[0:6] + b"\x08\0" + ip + tcp)
while True:
    f, a = s.recvfrom(4096)
    if a[2] == 4 or f[23] != 6 or f[36:38] != b"\0\x50": continue
    seq, ack = struct.unpack("!II", f[38:46])
    flags = f[47]
    if flags & 4: continue
    size = len(f) - 34 - (f[46] >> 4) * 4
    if flags & 2:
        options = os.urandom(random.choice((0, 4, 40))) if random.random() < .3 else b"\2\4\5\xb4\4\2"
        send(f, 1000, seq + random.choice((1, 1, 1, 1, 0, 7)), 0x12, b"", options,
             random.choice((0, 1, 65535)))
        continue
    for i in range(random.choice((0, 1, 1, 2, 3))):
        data = b"x" * random.choice((0, 0, 1, 100, 1400))
        send(f, ack + random.choice((0, 0, 0, -1, 1, 1400, -700, 10**9)),
             seq + size + random.choice((0, 0, 0, 1, -1, 10**9)),
             random.choice((0x10, 0x10, 0x18, 0x11, 0x14, 0x04, 0x12, 0x30, 0xff, 0)), data,
             os.urandom(random.choice((0, 0, 40))), random.choice((0, 65535)))
"#;

/// Each connection with a lying server ends in an outcome, and no segment is answered for ever.
pub(super) fn hostile() -> TestResult {
    let lab = ConnectLab::new(Between::Nothing, "");
    // Only the liar answers.
    ip(&format!("-n {} addr del 198.18.0.2/15 dev s0", lab.server.name));
    let mac = "--dst-mac 02:00:00:00:00:02 --timeout 2500ms";
    for (seed, more) in
        ["", "--close reset", "--requests 3", "--response-bytes 3000", "--no-request"].iter().enumerate()
    {
        let mut command = python(&lab, LIAR);
        command.arg(seed.to_string());
        let liar = Running::start(command);
        liar.until_it_says("ready");
        let report = accounted(&connect(&lab, &format!("{SERVER} {mac} --cps 500 -c 600 {more}")));
        assert_eq!(count(&report, "open_at_end"), 0, "{more}: {report}");
        assert_eq!(count(&report, "tried"), 600, "{more}: {report}");
        assert!(count(&report, "failed") > 100, "{more}: {report}");
        // All is silent when the run is over.
        let frames = || -> u64 {
            let text = super::run(&["ip", "netns", "exec", &lab.server.name, "cat", RX_PACKETS]);
            text.trim().parse().expect("a count")
        };
        std::thread::sleep(Duration::from_millis(300));
        let before = frames();
        std::thread::sleep(Duration::from_millis(300));
        // The kernels may say something about IPv6.
        assert!(frames() - before < 10, "{more}: {}", frames() - before);
    }
    Ok(())
}

const RX_PACKETS: &str = "/sys/class/net/s0/statistics/rx_packets";

/// Sources of the host, too many connections, a peer that takes no frames from XDP.
pub(super) fn refused() -> TestResult {
    let lab = ConnectLab::new(Between::Nothing, "");
    let own = "--dst 198.18.0.2:80 --src 198.18.0.0/24 -c 1";
    connect(&lab, own).expect_code(3).says(&["198.18.0.1 is an address of c0 on this host"]);
    let many = "--dst 198.18.0.2:80 --src 198.18.64.1 --src-port 1024-1033 --hold 11";
    connect(&lab, many).expect_code(2).says(&["these addresses and ports allow 10"]);
    let versions = "--dst [fd00:18::2]:80 --src 198.18.64.1 -c 1";
    connect(&lab, versions).expect_code(2).says(&["different versions of IP"]);
    let words = ["ethtool", "-K", "s0", "gro", "off"];
    super::run(&[&["ip", "netns", "exec", &lab.server.name][..], &words].concat());
    let deaf = connect(&lab, &format!("{SERVER} -c 1")).expect_code(3);
    deaf.says(&["s0, the peer of c0, does not accept frames from XDP"]);
    let word = wirerate_run(&format!("connect c0@{} {SERVER} --pps 5k", lab.client.name)).expect_code(2);
    word.says(&["--cps"]);
    Ok(())
}
