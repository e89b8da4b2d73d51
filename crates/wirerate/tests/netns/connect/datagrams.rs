//! Queries of DNS, with nsd; other datagrams, with servers in Python.

use super::lab::{Between, ConnectLab, count, python};
use super::{accounted, connect};
use crate::TestResult;
use crate::program::{Running, in_netns, until};

fn nsd(lab: &ConnectLab) -> Running {
    let folder = lab.file("nsd");
    std::fs::create_dir(&folder).unwrap();
    let zone = "$ORIGIN example.com.\n$TTL 300\n@ IN SOA ns host 1 3600 600 86400 300\n@ IN NS ns\n\
                @ IN A 192.0.2.1\nns IN A 192.0.2.2\n";
    std::fs::write(folder.join("zone"), zone).unwrap();
    let folder = folder.display();
    let conf = format!(
        "server:\n  ip-address: 198.18.0.2\n  ip-address: fd00:18::2\n  username: \"\"\n  database: \"\"\n\
         \x20 zonesdir: {folder}\n  pidfile: {folder}/pid\n  xfrdfile: {folder}/xfrd\n  xfrdir: {folder}\n\
         \x20 zonelistfile: {folder}/list\n  server-count: 1\n  rrl-ratelimit: 0\nremote-control:\n\
         \x20 control-enable: no\nzone:\n  name: example.com\n  zonefile: zone\n"
    );
    let path = lab.file("nsd.conf");
    std::fs::write(&path, conf).unwrap();
    let mut command = in_netns(&lab.server.name, "nsd");
    command.args(["-d", "-c", &path.display().to_string()]);
    let running = Running::start(command);
    until("nsd listens", || lab.listens(53));
    running
}

/// At a rate and in chains; what is missing is what the server's socket dropped.
pub(super) fn dns() -> TestResult {
    let lab = ConnectLab::new(Between::Nothing, "");
    let _nsd = nsd(&lab);
    let query = "--dst 198.18.0.2:53 --src 198.18.64.0/24 --dns example.com --timeout 2s";
    for more in ["--open 32 -c 20k", "--cps 5k -c 10k", "--cps 50k -c 50k"] {
        let dropped = lab.counter("UdpRcvbufErrors");
        let report = accounted(&connect(&lab, &format!("{query} {more}")));
        let dropped = lab.counter("UdpRcvbufErrors") - dropped;
        let missing = count(&report, "tried") - count(&report, "completed");
        assert_eq!((missing, count(&report, "error_answers")), (dropped, 0), "{more}: {report}");
        if more.starts_with("--open") {
            assert_eq!(missing, 0, "{report}");
        }
    }
    let nothing = "--dst [fd00:18::2]:53 --src fd00:18::1000-fd00:18::10ff --dns none.example.com,AAAA";
    let report = accounted(&connect(&lab, &format!("{nothing} --open 32 -c 5000")));
    assert_eq!(count(&report, "error_answers"), 5000, "the name does not exist: {report}");
    Ok(())
}

/// Answers datagrams of port 7, but none whose client port is a multiple of 5. Its socket has a
/// long buffer (33 is SO_RCVBUFFORCE).
const ECHO: &str = r#"
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, 33, 1 << 26)
s.bind(("198.18.0.2", 7))
print("ready", file=sys.stderr, flush=True)
while True:
    data, client = s.recvfrom(4096)
    if client[1] % 5: s.sendto(data[::-1], client)
"#;

/// Answered and missing datagrams are those that the server has answered and not.
pub(super) fn payload() -> TestResult {
    let lab = ConnectLab::new(Between::Nothing, "");
    let echo = Running::start(python(&lab, ECHO));
    echo.until_it_says("ready");
    let file = lab.file("payload");
    for len in [1, 300, 1472] {
        std::fs::write(&file, vec![b'q'; len]).unwrap();
        let words = "--dst 198.18.0.2:7 --src 198.18.64.1 --src-port 2001-3000 --timeout 2s --udp --payload";
        for more in ["--open 100 -c 1000", "--cps 2000 -c 1000"] {
            let report =
                accounted(&connect(&lab, &format!("{words} {} {more}", file.display())).expect_code(1));
            assert_eq!((count(&report, "tried"), count(&report, "timeout")), (1000, 200), "{more}: {report}");
            assert_eq!(count(&report, "completed"), 800, "{more}: {report}");
            assert_eq!(count(&report, "payload_bytes"), 800 * len as u64, "{more}: {report}");
            assert_eq!(report["protocol"], "udp", "{report}");
        }
    }
    Ok(())
}

/// Answers a long header of QUIC with a version that it does not know by a Version Negotiation
/// packet (RFC 9000, 17.2.1), if the datagram is as long as that of an Initial has to be.
const QUIC: &str = r#"
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("198.18.0.2", 443))
print("ready", file=sys.stderr, flush=True)
while True:
    data, client = s.recvfrom(4096)
    to_len = data[5]
    to = data[6:6 + to_len]
    own_len = data[6 + to_len]
    own = data[7 + to_len:7 + to_len + own_len]
    if len(data) < 1200 or data[0] & 0xc0 != 0xc0 or data[1:5] in (b"\0\0\0\0", b"\0\0\0\1"): continue
    if to_len < 8 or to_len > 20 or len(own) != own_len: continue
    s.sendto(b"\x80\0\0\0\0" + bytes([own_len]) + own + bytes([to_len]) + to + b"\0\0\0\1", client)
"#;

pub(super) fn quic() -> TestResult {
    let lab = ConnectLab::new(Between::Nothing, "");
    let server = Running::start(python(&lab, QUIC));
    server.until_it_says("ready");
    let words = "--dst 198.18.0.2:443 --src 198.18.64.0/24 --quic-initial --open 4 -c 500 --timeout 20s";
    let report = super::complete(connect(&lab, words), 500);
    assert_eq!(report["first_byte"]["count"], 500, "{report}");
    assert_eq!(report["error_answers"], 0, "{report}");
    // An answer is shorter than the next datagram, which the sender sends then.
    assert_eq!(report["lost_in_program"], 0, "{report}");
    Ok(())
}
