//! `wirerate connect` and `wirerate accept` with nginx, nsd and hostile servers. The counters of
//! the server's kernel decide.

mod datagrams;
mod failing;
mod held;
mod lab;
mod loss;
mod paths;
mod search;
mod servers;

use crate::program::{Outcome, TIME_LIMIT, run, wirerate_run};
use crate::{Case, TestResult, case};
use lab::{Between, ConnectLab, count, json};
use serde_json::Value;

/// Tests of connections.
pub(crate) const CASES: &[Case] = &[
    case("connect::each_connection_is_counted_by_both_sides", &["nginx"], counted_by_both_sides)
        .with_lock("its rate needs the CPUs"),
    case("connect::no_more_than_open_are_open", &["nginx"], no_more_than_open),
    case("connect::sizes_of_requests_and_responses", &["nginx"], sizes),
    case("connect::a_port_is_used_again_in_time_wait", &["nginx"], ports_again),
    case("connect::frames_are_well_formed", &["nginx", "tcpdump", "tshark"], well_formed),
    case("connect::accept_answers_connect_and_sockets", &[], accept),
    case("connect::a_tls_hello_is_answered", &["openssl"], tls_hello),
    case("connect::checks_decide_the_exit_code", &["nginx"], checks),
    case("connect::loss_is_repaired", &["nginx", "nft"], loss::repaired),
    case("connect::loss_is_repaired_under_a_limit_per_client", &["nginx", "nft"], loss::repaired_per_client),
    case("connect::five_percent_of_loss_is_repaired", &["nginx", "nft"], loss::much),
    case("connect::bytes_are_exact_under_loss", &["nginx", "nft"], loss::bytes_are_exact),
    case("connect::held_connections_stay_until_the_end", &["nginx"], held::stay),
    case("connect::requests_that_a_slow_server_leaves_no_room_for_are_missed", &["python3"], held::slow),
    case("connect::a_signal_closes_what_is_held", &["nginx"], held::signal),
    case("connect::a_killed_run_leaves_nothing", &["nginx"], held::killed),
    case("connect::failures_have_their_names", &["nginx"], failing::names),
    case("connect::a_server_that_stops_or_ends_is_accounted_for", &["nginx"], failing::server_stops),
    case("connect::a_server_without_an_answer_has_not_completed", &["python3"], failing::no_answer),
    case("connect::the_length_of_a_short_header_is_read", &["python3"], failing::short_headers),
    case("connect::a_body_that_the_server_cuts_is_cut_off", &["python3"], failing::short_body),
    case("connect::answers_that_report_an_error_are_counted", &["nginx", "python3"], failing::errors),
    case("connect::hostile_servers_end_in_a_counted_outcome", &["python3"], failing::hostile),
    case("connect::what_must_not_be_done_is_refused", &[], failing::refused),
    case("connect::ipv6_and_generic_mode", &["nginx"], paths::versions),
    case("connect::frames_have_the_vlan_tag", &["tcpdump"], paths::vlan),
    case("connect::through_a_router_with_nat_and_a_bridge", &["nginx", "nft"], paths::nat_and_bridge),
    case("connect::long_mtu_and_several_queues", &["nginx"], paths::long_mtu),
    case("connect::dns_answers_and_missing_are_what_was_sent", &["nsd"], datagrams::dns),
    case("connect::datagrams_are_answered_or_missing", &["python3"], datagrams::payload),
    case("connect::a_quic_server_answers_with_its_versions", &["python3"], datagrams::quic),
    case("connect::a_list_of_servers_is_counted_by_their_names", &[], servers::list),
    case("connect::a_load_balancer_is_seen_in_the_groups", &["nginx", "nft"], servers::load_balancer),
    case("connect::no_client_has_more_than_its_limit", &["nginx"], servers::per_client),
    case("connect::a_search_finds_the_size_of_a_table", &["nft"], search::held),
    case("connect::a_search_finds_the_rate_of_a_firewall", &["nft"], search::rate),
    case("connect::a_search_refuses_options_of_frames", &[], search::refused),
];

/// Runs `wirerate connect` by the device of the client.
#[track_caller]
fn connect(lab: &ConnectLab, words: &str) -> Outcome {
    wirerate_run(&format!("connect c0@{} --json --quiet {words}", lab.client.name))
}

/// The report, in which all connections are accounted for.
#[track_caller]
fn accounted(outcome: &Outcome) -> Value {
    let report = json(&outcome.stdout);
    let sum = ["completed", "refused", "reset", "timeout", "cut_off", "open_at_end"]
        .iter()
        .map(|name| count(&report, name))
        .sum::<u64>();
    assert_eq!(count(&report, "tried"), sum, "{report}");
    assert_eq!(report["unexplained"], 0, "{report}");
    report
}

/// The report of a run in which all connections were completed.
#[track_caller]
fn complete(outcome: Outcome, connections: u64) -> Value {
    let report = accounted(&outcome);
    assert_eq!(count(&report, "completed"), connections, "{report}\n{}", outcome.stderr);
    assert_eq!(count(&report, "tried"), connections, "{report}");
    report
}

const SERVER: &str = "--dst 198.18.0.2:80 --src 198.18.64.0/24";

/// Bytes of nginx's whole response to `GET path`.
fn response_len(lab: &ConnectLab, server: &str, path: &str) -> u64 {
    let program = format!(
        "import socket\ns = socket.create_connection(('{server}', 80))\n\
         s.sendall(b'GET {path} HTTP/1.1\\r\\nHost: {server}\\r\\nConnection: close\\r\\n\\r\\n')\n\
         n = 0\nwhile True:\n    b = s.recv(65536)\n    if not b: break\n    n += len(b)\nprint(n)"
    );
    let text = run(&["ip", "netns", "exec", &lab.client.name, "python3", "-c", &program]);
    text.trim().parse().unwrap()
}

fn counted_by_both_sides() -> TestResult {
    let lab = ConnectLab::new(Between::Nothing, "");
    let _nginx = lab.nginx();
    let len = response_len(&lab, "198.18.0.2", "/");
    let names = ["TcpPassiveOpens", "TcpOutRsts", "TcpRetransSegs", "TcpInErrs"];
    let before = names.map(|name| lab.counter(name));
    let outcome = connect(&lab, &format!("{SERVER} --cps 20k -c 100k"));
    let report = accounted(&outcome);
    // A server without a free CPU resets connections that have waited for seconds. Both sides count
    // them all the same.
    if count(&report, "longest_pause_ns") >= 500_000_000 {
        eprintln!("this machine is too busy for 20,000 connections per second: {report}");
        assert_eq!(count(&report, "tried"), 100_000, "{report}");
        assert_eq!(lab.counter(names[0]) - before[0], count(&report, "established"), "{report}");
        return Ok(());
    }
    let report = complete(outcome, 100_000);
    let risen: Vec<u64> = names.iter().zip(before).map(|(name, before)| lab.counter(name) - before).collect();
    assert_eq!(risen[..2], [100_000, 0], "{names:?}: {report}");
    // On a machine without a free CPU the server is late, and its kernel repeats a segment.
    if count(&report, "longest_pause_ns") < 100_000_000 {
        assert_eq!(risen[2..], [0, 0], "{names:?}: {report}");
    }
    assert_eq!(count(&report, "payload_bytes"), 100_000 * len);
    assert_eq!(count(&report, "established"), 100_000);
    assert_eq!(report["connect"]["count"], 100_000);
    assert_eq!(report["connection"]["count"], 100_000);
    assert!(!lab.has_xdp(), "the program is detached");
    Ok(())
}

fn no_more_than_open() -> TestResult {
    let lab = ConnectLab::new(Between::Nothing, "");
    let _nginx = lab.nginx();
    for more in ["", "--close reset", "--requests 20", "--close client"] {
        let report = complete(connect(&lab, &format!("{SERVER} --open 64 -c 5000 {more}")), 5000);
        assert_eq!(report["open_max"], 64, "{more}: {report}");
    }
    Ok(())
}

fn sizes() -> TestResult {
    let lab = ConnectLab::new(Between::Nothing, "");
    let _nginx = lab.nginx();
    let text = |path: &str, len: usize, more: &str| {
        let empty = format!("GET {path}? HTTP/1.1\r\nHost: h\r\n{more}\r\n");
        format!("GET {path}?{} HTTP/1.1\r\nHost: h\r\n{more}\r\n", "a".repeat(len - empty.len()))
    };
    let file = lab.file("request");
    for (number, len) in [50, 218, 219, 1000, 1400].into_iter().enumerate() {
        let path = ["/0", "/1", "/1460", "/1461", "/100000"][number];
        std::fs::write(&file, text(path, len, "Connection: close\r\n")).unwrap();
        let whole = response_len(&lab, "198.18.0.2", path);
        let words = format!("{SERVER} --open 8 -c 200 --payload {} --close server", file.display());
        let report = complete(connect(&lab, &words), 200);
        assert_eq!(count(&report, "payload_bytes"), 200 * whole, "{path}, {len}: {report}");
        assert_eq!((&report["responses"], &report["requests_resent"]), (&200.into(), &0.into()), "{report}");
        // Keep-alive, with a length that the first segment names.
        std::fs::write(&file, text(path, len, "")).unwrap();
        let words =
            format!("{SERVER} --open 8 -c 40 --payload {} --requests 5 --response-end http", file.display());
        let report = complete(connect(&lab, &words), 40);
        assert_eq!((&report["responses"], &report["requests"]), (&200.into(), &200.into()), "{report}");
        assert_eq!(report["unsized_responses"], 0, "{report}");
        // `Connection: keep-alive` is 5 bytes longer than `Connection: close`.
        assert_eq!(count(&report, "payload_bytes"), 200 * (whole + 5), "{path}, {len}: {report}");
    }
    Ok(())
}

fn ports_again() -> TestResult {
    let lab = ConnectLab::new(Between::Nothing, "");
    let _nginx = lab.nginx();
    for close in ["server", "client", "server"] {
        let words = "--dst 198.18.0.2:80 --src 198.18.64.1 --src-port 1024-2047 --open 64 -c 10k";
        let report = complete(connect(&lab, &format!("{words} --close {close}")).expect_code(0), 10_000);
        assert_eq!(report["strays"], 0, "{report}");
    }
    Ok(())
}

fn well_formed() -> TestResult {
    let lab = ConnectLab::new(Between::Nothing, "");
    let _nginx = lab.nginx();
    let file = lab.file("frames.pcap").display().to_string();
    let mut command = crate::program::in_netns(&lab.server.name, "tcpdump");
    command.args(["-i", "s0", "-w", &file, "-U", "-s", "0", "-B", "65536", "net", "198.18.64.0/24"]);
    let tcpdump = crate::program::Running::start(command);
    tcpdump.until_it_says("listening on");
    for more in ["", "--requests 3", "--close reset", "--get /100000 --close client"] {
        complete(connect(&lab, &format!("{SERVER} --open 4 -c 50 {more}")), 50);
    }
    std::thread::sleep(std::time::Duration::from_millis(300));
    tcpdump.signal(nix::sys::signal::Signal::SIGINT);
    tcpdump.wait(TIME_LIMIT);
    let shown = |filter: &str| {
        let words = ["tshark", "-r", &file, "-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE"];
        run(&[&words[..], &["-Y", filter]].concat()).lines().count()
    };
    assert!(shown("ip.src == 198.18.64.0/24") > 900, "all frames were captured");
    let bad = "(tcp.checksum.status == 0 || ip.checksum.status == 0 || _ws.malformed)";
    assert_eq!(shown(&format!("ip.src == 198.18.64.0/24 && {bad}")), 0, "bad frames of the client");
    assert_eq!(shown("tcp.analysis.retransmission || tcp.analysis.ack_lost_segment"), 0, "repeated segments");
    // An answer to a segment without data and FIN would acknowledge the same number again.
    let answered = "ip.src == 198.18.64.0/24 && tcp.analysis.duplicate_ack";
    assert_eq!(shown(answered), 0, "answers to pure ACKs");
    Ok(())
}

fn accept() -> TestResult {
    let lab = ConnectLab::new(Between::Nothing, "");
    // The client's kernel takes frames from XDP, too.
    lab::gro(&lab.client.name, "c0");
    for (more, words, requests) in [
        ("", "--open 50 -c 20k", 1),
        ("--close client --response-bytes 500", "--open 50 -c 2000 --requests 10", 10),
        ("--close client --response-bytes 0", "--open 50 -c 2000 --no-request", 0),
    ] {
        let words_of_accept = format!("accept s0@{} --json {more}", lab.server.name);
        let accepting = crate::program::wirerate_start(&words_of_accept);
        accepting.until_it_says("accepting on s0");
        if requests == 1 {
            let get = "import urllib.request; print(urllib.request.urlopen('http://198.18.0.2/').status)";
            let text = run(&["ip", "netns", "exec", &lab.client.name, "python3", "-c", get]);
            assert_eq!(text.trim(), "200");
        }
        let report = connect(&lab, &format!("{SERVER} {words}")).expect_code(0);
        let report = accounted(&report);
        accepting.signal(nix::sys::signal::Signal::SIGINT);
        let accepted = json(&accepting.wait(TIME_LIMIT).expect_code(0).stdout);
        let of_others = u64::from(requests == 1);
        let connections = count(&report, "tried") + of_others;
        assert_eq!(count(&accepted, "accepted"), connections, "{report}\n{accepted}");
        assert_eq!(count(&accepted, "closed"), connections, "{report}\n{accepted}");
        let parts = ["accepted", "requests", "closed"].map(|kind| count(&accepted, kind));
        assert!(count(&accepted, "received") >= parts.iter().sum(), "{accepted}");
        assert_eq!(count(&accepted, "responses"), count(&report, "responses") + of_others, "{accepted}");
        assert_eq!(count(&report, "responses"), requests * count(&report, "tried"), "{report}");
    }
    Ok(())
}

fn checks() -> TestResult {
    let lab = ConnectLab::new(Between::Nothing, "");
    let _nginx = lab.nginx();
    let good = "--expect failed=0 --expect cps>1 --expect connect_p50<10s --expect completed=100";
    connect(&lab, &format!("{SERVER} --open 4 -c 100 {good}")).expect_code(0);
    let bad = connect(&lab, &format!("{SERVER} --open 4 -c 100 --expect completed=99")).expect_code(1);
    bad.says(&["completed=99 failed: it is 100"]);
    Ok(())
}

fn tls_hello() -> TestResult {
    let lab = ConnectLab::new(Between::Nothing, "");
    let [key, cert] = ["key.pem", "cert.pem"].map(|name| lab.file(name).display().to_string());
    let words = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=example.com -keyout";
    run(&[&words.split(' ').collect::<Vec<_>>()[..], &[&key, "-out", &cert]].concat());
    let mut command = crate::program::in_netns(&lab.server.name, "openssl");
    command.args(["s_server", "-accept", "443", "-key", &key, "-cert", &cert, "-quiet"]);
    let _server = crate::program::Running::start(command);
    crate::program::until("the server listens", || lab.listens(443));
    let words = "--dst 198.18.0.2:443 --src 198.18.64.0/24 --tls-hello --host example.com --close reset";
    let report = complete(connect(&lab, &format!("{words} --open 1 -c 50")), 50);
    assert_eq!([&report["responses"], &report["error_answers"]], [50, 0], "{report}");
    // A ServerHello of TLS 1.3 comes with a change of ciphers and encrypted records.
    assert!(count(&report, "payload_bytes") > 50 * 200, "{report}");
    Ok(())
}
