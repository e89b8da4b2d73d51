//! `--web`: the page of running commands in a browser, and its streams of events.

use crate::browser::Browser;
use crate::lab::{Lab, Peer, RX_DEV, TX_DEV};
use crate::metrics::{get, scrape};
use crate::program::{Running, TIME_LIMIT, until, wirerate_run, wirerate_start};
use crate::{Case, TestResult, case};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;

/// Tests of the page.
pub(crate) const CASES: &[Case] = &[
    case("web::events_are_the_lines_of_json", &[], events_are_the_lines_of_json),
    case("web::the_page_shows_and_controls_a_sender", &["chromium"], the_page_controls_a_sender),
    case("web::a_page_connects_again", &["chromium"], a_page_connects_again),
    case("web::runs_of_control_files_and_flows_are_on_the_page", &["chromium"], other_commands_have_a_page),
    case("web::an_address_in_use_is_refused", &[], an_address_in_use_is_refused),
];

/// The address of the page, with the token and without.
#[track_caller]
fn page(running: &Running) -> (String, SocketAddr) {
    running.until_it_says("#token=");
    let said = running.said();
    let url = said.split_whitespace().find(|word| word.contains("#token=")).expect("an address");
    let address = url.trim_start_matches("http://").split('/').next().unwrap_or_default();
    (url.to_owned(), address.parse().expect("an address"))
}

fn sends(lab: &Lab, more: &str) -> String {
    format!("send {TX_DEV} --netns {} --dst 198.18.0.2 --size 100 {more}", lab.tx_netns)
}

/// The lines of a stream until its end, which is that of the command.
fn events(address: SocketAddr) -> Vec<String> {
    let answer = get(address, "/events", "*/*");
    let lines: Vec<String> =
        answer.lines().filter_map(|line| line.strip_prefix("data: ")).map(str::to_owned).collect();
    testkit::check_json_lines(&(lines.join("\n") + "\n"));
    lines
}

/// The status of an answer to an order.
fn order(address: SocketAddr, path: &str, header: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("the server listens");
    let head = format!("POST {path} HTTP/1.0\r\nHost: {address}\r\n{header}Content-Length: 0\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("the server reads");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("the server answers");
    text.split(' ').nth(1).unwrap_or_default().to_owned()
}

/// Rows are events whether they are printed or not; printed as JSON, they are the same lines.
fn events_are_the_lines_of_json() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let devices = format!("--tx {TX_DEV}@{} --rx {RX_DEV}@{}", lab.tx_netns, lab.rx_netns);
    let commands = [
        (sends(&lab, "--pps 1k --duration 2200ms --web 0"), "send", 2),
        (
            format!(
                "measure {devices} --web 0 %JSON% -- --dst 198.18.0.2 --size 100 --pps 1k --duration 2200ms"
            ),
            "measure",
            1,
        ),
    ];
    for (command, name, version) in commands {
        for is_printed in [true, false] {
            let json = if is_printed { "--json --every-second" } else { "" };
            let words = match command.contains("%JSON%") {
                true => command.replace("%JSON%", json),
                false => format!("{command} {json}"),
            };
            let running = wirerate_start(&words);
            let (_, address) = page(&running);
            let followed = thread::spawn(move || events(address));
            let outcome = running.wait(TIME_LIMIT);
            assert!(matches!(outcome.code, Some(0 | 1)), "{words}: {}", outcome.stderr);
            let followed = followed.join().expect("the stream ends");
            let schemas: Vec<String> = followed.iter().map(|line| schema(line)).collect();
            let of_row = format!("wirerate.{name}-second/{version}");
            let rows = schemas.iter().filter(|schema| **schema == of_row).count();
            assert!(rows >= 2, "{name}: {schemas:?}");
            assert_eq!(schemas.last().cloned(), Some(format!("wirerate.{name}/{version}")), "{schemas:?}");
            if is_printed {
                assert_eq!(followed, outcome.stdout.lines().collect::<Vec<_>>());
            }
        }
    }
    Ok(())
}

fn schema(line: &str) -> String {
    let line: Value = serde_json::from_str(line).expect("an event is JSON");
    line["schema"].as_str().expect("it has a schema").to_owned()
}

fn the_page_controls_a_sender() -> TestResult {
    let lab = Lab::new(Peer::Sink);
    let running = wirerate_start(&sends(&lab, "--pps 2k --catch-up max --count 0 --web 0 --json"));
    let (url, address) = page(&running);
    let base = format!("http://{address}/");
    let mut browser = Browser::start();
    let tab = browser.open(&url);
    browser.until_shows(&tab, "#target", "2.000 kpps requested");
    browser.until(
        &tab,
        "document.querySelector('svg[data-graph=sent] polyline:not(.grid)')?.points.length >= 2",
    );
    assert_eq!(browser.text(&tab, "#place"), format!("{TX_DEV} in {}", lab.tx_netns));
    assert_eq!(browser.value(&tab, "location.hash"), "", "the token is not in the address bar");
    // By keyboard: the first control is the pause.
    browser.press(&tab, "Tab", 9, "");
    browser.until(&tab, "document.activeElement.id === 'pause'");
    browser.press(&tab, "Enter", 13, "\r");
    browser.until_shows(&tab, "#state", "paused");
    browser.until_shows(&tab, "#message", "paused from ");
    browser.until_shows(&tab, "figcaption", "  0 pps");
    // The page, the metrics and the receiver have one number.
    let labels = [("device", TX_DEV)];
    let sent = scrape(address, false).sum("wirerate_send_frames_total", &labels).expect("it is counted");
    assert_eq!(lab.received_at_last(sent), sent);
    browser.until(&tab, &format!("last.sent === {sent}"));
    let shown = browser.text(&tab, "figcaption").replace(',', "");
    assert!(shown.starts_with(&format!("sent {sent}  ")), "{shown}");
    let row = browser.text(&tab, "#tables tbody tr").replace(',', "");
    assert!(row.starts_with(TX_DEV) && row.contains(&sent.to_string()), "{row}");
    // A second page follows; without the token it only looks.
    let other = browser.open(&base);
    browser.until_shows(&other, "#state", "paused");
    browser.click(&other, "#pause");
    browser.until_shows(&other, "#message", "needs the token");
    browser.until(&other, "!document.querySelector('#login').hidden");
    assert_eq!(browser.text(&tab, "#state"), "paused");
    for (header, status) in [("", "403"), ("Authorization: Bearer 0\r\n", "403")] {
        assert_eq!(order(address, "/stop", header), status);
    }
    let refused = browser.complaints(&base);
    assert!(!refused.is_empty() && refused.iter().all(|line| line.contains("status of 403")), "{refused:?}");
    // A reload keeps the token. A new rate, then the end of the pause.
    browser.call(Some(&tab), "Page.reload", serde_json::json!({}));
    browser.until_shows(&tab, "#state", "paused");
    browser.until(&tab, "document.querySelector('#login').hidden");
    browser.value(&tab, "document.querySelector('#rate').value = '3k'");
    browser.value(&tab, "document.querySelector('#control').requestSubmit()");
    browser.until(&tab, "document.querySelector('#message').textContent.startsWith('paused from ')");
    browser.click(&tab, "#pause");
    browser.until_shows(&tab, "#state", "running");
    browser.until_shows(&tab, "#target", "3.000 kpps requested");
    browser.click(&tab, "#faster");
    browser.until_shows(&tab, "#target", "3.300 kpps requested");
    browser.until(&tab, &format!("last.sent > {sent}"));
    // Usable on a phone and on a wide screen, in both colours, and with a name for every control.
    for colours in ["light", "dark"] {
        browser.set_colours(&tab, colours);
        for width in [360, 1600] {
            browser.set_width(&tab, width);
            let wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth";
            assert_eq!(browser.value(&tab, wide), 0, "{colours} {width}");
        }
        let back = "getComputedStyle(document.body).backgroundColor";
        let expected = if colours == "light" { "rgb(255, 255, 255)" } else { "rgb(13, 17, 23)" };
        assert_eq!(browser.value(&tab, back), expected);
    }
    let tree = browser.call(Some(&tab), "Accessibility.getFullAXTree", serde_json::json!({}));
    let nodes = tree["nodes"].as_array().expect("a tree");
    let controls = ["button", "textbox", "searchbox", "link", "image"];
    let mut named = 0;
    for node in nodes.iter().filter(|node| node["ignored"] == false) {
        if controls.iter().any(|role| node["role"]["value"] == *role) {
            assert!(node["name"]["value"].as_str().is_some_and(|name| !name.is_empty()), "{node}");
            named += 1;
        }
    }
    assert!(named >= 10, "{named} controls");
    let report = get(address, "/report.html", "*/*");
    assert!(report.len() < 500_000 && report.matches("<figure>").count() >= 2, "{} bytes", report.len());
    // The end: the page has the numbers of the report.
    browser.click(&tab, "#stop");
    browser.until_shows(&tab, "#state", "ended");
    let outcome = running.wait(TIME_LIMIT).expect_paced();
    let last: Value = serde_json::from_str(outcome.stdout.lines().last().expect("a report"))?;
    assert_eq!(browser.value(&tab, "last.sent"), last["sent"]);
    let text = browser.text(&tab, "#report").replace(',', "");
    assert!(text.contains(&last["sent"].to_string()) && text.contains("paused from "), "{text}");
    assert!(
        browser
            .value(&tab, "document.querySelector('#save').href")
            .as_str()
            .is_some_and(|href| href.starts_with("blob:"))
    );
    assert_eq!(browser.complaints(&base), [""; 0]);
    Ok(())
}

fn a_page_connects_again() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let command = |port: u16| format!("count {RX_DEV} --netns {} --web {port}", lab.rx_netns);
    let first = wirerate_start(&command(0));
    let (url, address) = page(&first);
    let mut browser = Browser::start();
    let tab = browser.open(&url);
    browser.until_shows(&tab, "#state", "running");
    first.signal(Signal::SIGKILL);
    browser.until_shows(&tab, "#state", "connection lost, trying again");
    drop(first);
    let second = wirerate_start(&command(address.port()));
    page(&second);
    browser.until_shows(&tab, "#state", "running");
    wirerate_run(&sends(&lab, "--count 500")).expect_code(0);
    browser.until_shows(&tab, "figcaption", "received 500 ");
    // The token is that of the first one.
    browser.click(&tab, "#stop");
    browser.until_shows(&tab, "#message", "needs the token");
    second.signal(Signal::SIGINT);
    browser.until_shows(&tab, "#state", "ended");
    second.wait(TIME_LIMIT).expect_code(0);
    Ok(())
}

fn other_commands_have_a_page() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let mut browser = Browser::start();
    // A receiver, with flows that are sorted and filtered.
    let receiver = wirerate_start(&format!("receive {RX_DEV} --netns {} --web 0", lab.rx_netns));
    let tab = browser.open(&page(&receiver).0);
    receiver.until_it_says("measuring frames of ");
    wirerate_run(&sends(&lab, "--count 5000 --flows 20 --signature full --end-frames 0")).expect_code(0);
    browser.until_shows(&tab, "figcaption", "received 5,000 ");
    browser.until_shows(&tab, "caption", "flows");
    browser.click(&tab, "th button");
    browser.until_shows(&tab, "#tables tbody tr", "other");
    browser.value(&tab, "document.querySelector('#filter').value = '15'");
    browser.value(&tab, "document.querySelector('#filter').dispatchEvent(new Event('input'))");
    browser.until(&tab, "document.querySelectorAll('#tables tbody tr').length === 1");
    browser.until_shows(&tab, "#histogram summary", "latency of 5,000 frames");
    browser.click(&tab, "#pause");
    browser.until_shows(&tab, "#message", "nothing is being sent here");
    browser.click(&tab, "#stop");
    receiver.wait(TIME_LIMIT).expect_code(0);
    browser.until_shows(&tab, "#report", "5,000");
    // Runs that a script starts appear by themselves.
    let dir = lab.file("pktgen");
    let server = wirerate_start(&format!("serve --netns {} --mount {} --web 0", lab.tx_netns, dir.display()));
    let tab = browser.open(&page(&server).0);
    until("the files are there", || dir.join("pgctrl").exists());
    let write = |file: &str, text: &str| std::fs::write(dir.join(file), text);
    write("kpktgend_0", &format!("add_device {TX_DEV}"))?;
    for command in ["count 1000", "dst 198.18.0.2", "dst_mac 02:00:00:00:00:02", "delay 10000"] {
        write(TX_DEV, command)?;
    }
    write("pgctrl", "start")?;
    browser.until_shows(&tab, "figcaption", "sent 1,000 ");
    browser.click(&tab, "#stop");
    server.wait(TIME_LIMIT).expect_code(0);
    Ok(())
}

fn an_address_in_use_is_refused() -> TestResult {
    let lab = Lab::new(Peer::Deaf);
    let first = wirerate_start(&format!("count {RX_DEV} --netns {} --web 0", lab.rx_netns));
    let (_, address) = page(&first);
    let words = sends(&lab, &format!("--count 1 --web {address}"));
    let refused = wirerate_run(&words).expect_code(3);
    refused.says(&["cannot serve the page of --web at ", "try: --web 0"]);
    let unclear = wirerate_run(&format!("send --web {TX_DEV} --dst 198.18.0.2")).expect_code(2);
    unclear.says(&["not a port, such as 9464"]);
    first.signal(Signal::SIGINT);
    first.wait(TIME_LIMIT).expect_code(0);
    Ok(())
}
