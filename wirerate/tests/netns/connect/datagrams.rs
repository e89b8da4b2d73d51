//! Queries of DNS, with nsd.

use super::lab::{Between, ConnectLab, count};
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
