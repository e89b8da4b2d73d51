//! Whole screens as text, in the sizes of common terminals.

use live::{KeyPress, RunState, Screen, ScreenHead, keys_of};
use metrics::MetricSet;
use metrics::families::{
    CAPTURE_BYTES, CAPTURE_FRAMES, CAPTURE_RING_USED, FLOW_FRAMES, FLOW_LATENCY, RECEIVE_CPU_FRAMES,
    RECEIVE_FRAMES, RECEIVE_MISSING, SEND_BYTES, SEND_ERRORS, SEND_FRAMES, SEND_GAP_ERROR, SEND_OFFERED,
    SEND_TARGET,
};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::style::Color;
use std::time::Duration;

const SIZES: [(u16, u16); 3] = [(80, 24), (120, 40), (200, 60)];

const RUNNING: RunState = RunState { word: "running", has_rate: true };

fn head(command: &str) -> ScreenHead {
    ScreenHead { command: command.to_owned(), device: "eth1".to_owned(), netns: "lab".to_owned() }
}

/// A sender on two threads, whose rate falls for a while.
fn sending(second: u64) -> MetricSet {
    let mut set = MetricSet::default();
    let sent = (0..second).map(|second| if second % 20 < 15 { 500_000 } else { 350_000 }).sum::<u64>();
    for (thread, cpu) in [("0", "1"), ("1", "0")] {
        let labels = ["eth1", "lab", thread, cpu, "xdp"];
        set.count(&SEND_FRAMES, &labels, sent);
        set.count(&SEND_OFFERED, &labels, sent + second * 3);
        set.count(&SEND_BYTES, &labels, sent * 60);
        set.add_gauge(&SEND_TARGET, &["eth1", "lab"], 500_000.0);
    }
    set.count(&SEND_ERRORS, &["eth1", "lab", "qdisc_dropped"], second * 4);
    set.count(&SEND_ERRORS, &["eth1", "lab", "refused"], second * 2);
    let mut buckets = vec![0; SEND_GAP_ERROR.bounds().len() + 1];
    (buckets[0], buckets[1], buckets[5]) = (sent, sent / 3, second + second % 7);
    set.histogram(&SEND_GAP_ERROR, &["eth1", "lab"], &buckets, 0.0);
    set
}

/// A sender on two threads, and a receiver of 17 flows.
fn measuring(second: u64) -> MetricSet {
    let mut set = sending(second);
    for flow in 0..17u64 {
        let name = if flow == 16 { "other".to_owned() } else { flow.to_string() };
        for (fate, count) in
            [("in_order", 1000 * (flow + 1)), ("reordered", flow % 3), ("duplicate", 0), ("too_old", 0)]
        {
            set.count(&FLOW_FRAMES, &["eth2", "far", &name, fate], count * second);
        }
    }
    set.count(&RECEIVE_FRAMES, &["eth2", "far"], 153_016 * second);
    set.count(&RECEIVE_CPU_FRAMES, &["eth2", "far", "1"], 153_016 * second);
    set.gauge(&RECEIVE_MISSING, &["eth2", "far"], (second * 5) as f64);
    let mut buckets = vec![0; FLOW_LATENCY.bounds().len() + 1];
    (buckets[6], buckets[8], buckets[12]) = (150_000 * second, 3_000 * second, (second / 4) * 16);
    set.histogram(&FLOW_LATENCY, &["eth2", "far", "all"], &buckets, 0.0);
    set
}

fn capturing(second: u64) -> MetricSet {
    let mut set = MetricSet::default();
    for (fate, count) in [
        ("written", 900_000 * second),
        ("filtered", 10 * second),
        ("after_limit", 0),
        ("lost_nic", 0),
        ("lost_ring", (0..second).map(|second| second % 9 * 100).sum()),
        ("lost_disk", 0),
    ] {
        set.count(&CAPTURE_FRAMES, &["eth1", "lab", fate], count);
    }
    for cpu in ["0", "1"] {
        set.count(&RECEIVE_CPU_FRAMES, &["eth1", "lab", cpu], 455_000 * second);
    }
    set.count(&CAPTURE_BYTES, &["eth1", "lab"], 910_000 * 60 * second);
    set.gauge(&CAPTURE_RING_USED, &["eth1", "lab"], (second % 10) as f64 / 10.0);
    set
}

/// A screen after 90 s.
fn screen(command: &str, has_colours: bool, read: fn(u64) -> MetricSet) -> Screen {
    let mut screen = Screen::new(head(command), has_colours);
    let state = RunState { word: "running", has_rate: command != "capture" };
    (0..=90).for_each(|second| screen.add(Duration::from_secs(second), state, &read(second)));
    screen.message("wirerate: measuring frames of eth2 (XDP, native)");
    screen
}

fn press(screen: &mut Screen, keys: &str) {
    keys_of(keys.as_bytes()).into_iter().for_each(|key| assert_eq!(screen.key(key), None));
}

fn drawn(screen: &Screen, (columns, rows): (u16, u16)) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).expect("it has a size");
    terminal.draw(|frame| screen.draw(frame)).expect("it draws into memory");
    terminal.backend().buffer().clone()
}

/// The text of a buffer, without the blanks at the ends of its lines.
fn text(buffer: &Buffer) -> String {
    let rows = buffer.content.chunks(usize::from(buffer.area.width));
    let line = |row: &[ratatui::buffer::Cell]| row.iter().map(|cell| cell.symbol()).collect::<String>();
    rows.map(|row| line(row).trim_end().to_owned() + "\n").collect()
}

#[test]
fn screens_are_as_the_golden_files() {
    for size in SIZES {
        let (columns, rows) = size;
        for (command, read) in
            [("send", sending as fn(u64) -> MetricSet), ("measure", measuring), ("capture", capturing)]
        {
            let buffer = drawn(&screen(command, true, read), size);
            testkit::golden(&format!("{command}-{columns}x{rows}.txt"), &text(&buffer));
        }
    }
    let mut help = screen("send", true, sending);
    press(&mut help, "?");
    testkit::golden("help.txt", &text(&drawn(&help, SIZES[0])));
    let mut histogram = screen("measure", true, measuring);
    press(&mut histogram, "h");
    testkit::golden("histogram.txt", &text(&drawn(&histogram, SIZES[0])));
}

#[test]
fn without_colours_the_text_is_the_same() {
    for size in SIZES {
        let plain = drawn(&screen("measure", false, measuring), size);
        let painted = drawn(&screen("measure", true, measuring), size);
        assert_eq!(text(&plain), text(&painted));
        assert!(plain.content.iter().all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset));
        assert!(painted.content.iter().any(|cell| cell.fg == Color::Red));
    }
}

#[test]
fn every_size_is_drawn() {
    let mut screens = vec![screen("send", true, sending), screen("measure", true, measuring)];
    let mut help = screen("capture", true, capturing);
    press(&mut help, "h?");
    screens.push(help);
    screens.push(Screen::new(head("replay"), true));
    for screen in &screens {
        for columns in [1, 39, 40, 119, 120, 250] {
            for rows in [1, 9, 10, 17, 80] {
                drawn(screen, (columns, rows));
            }
        }
    }
    assert!(text(&drawn(&screens[0], (39, 24))).starts_with("the terminal is too small"));
}

#[test]
fn a_frozen_screen_keeps_its_numbers_and_goes_on_with_the_present_ones() {
    let mut screen = screen("send", true, sending);
    let before = text(&drawn(&screen, SIZES[0]));
    press(&mut screen, " ");
    (91..95).for_each(|second| screen.add(Duration::from_secs(second), RUNNING, &sending(second)));
    let frozen = text(&drawn(&screen, SIZES[0]));
    assert!(frozen.contains("screen frozen"));
    assert_eq!(before.lines().skip(1).collect::<Vec<_>>(), frozen.lines().skip(1).collect::<Vec<_>>());
    press(&mut screen, " ");
    let after = text(&drawn(&screen, SIZES[0]));
    assert!(after.contains("00:01:34") && !after.contains("screen frozen"), "{after}");
    assert_ne!(before, after);
}

#[test]
fn flows_are_sorted_and_filtered_on_the_screen() {
    let mut screen = screen("measure", true, measuring);
    press(&mut screen, "o");
    let sorted = text(&drawn(&screen, SIZES[1]));
    let first = sorted.lines().skip_while(|line| !line.starts_with("device")).nth(1).unwrap_or_default();
    assert!(first.starts_with("eth2    other"), "{sorted}");
    press(&mut screen, "/15\r");
    let filtered = text(&drawn(&screen, SIZES[1]));
    assert_eq!(filtered.lines().filter(|line| line.starts_with("eth2")).count(), 1, "{filtered}");
    assert!(filtered.contains("flows (1 of 3), most received first, with \"15\""), "{filtered}");
    press(&mut screen, "/");
    assert_eq!(screen.key(KeyPress::Char('x')), None);
    assert!(text(&drawn(&screen, SIZES[0])).contains("show rows with (enter sets it, esc does not): x_"));
}

#[test]
fn clearing_counts_from_zero() {
    let mut screen = screen("send", true, sending);
    press(&mut screen, "c");
    let cleared = text(&drawn(&screen, SIZES[0]));
    assert!(cleared.contains(" sent 0 ") && cleared.contains(" lost 0 "), "{cleared}");
    screen.add(Duration::from_secs(91), RUNNING, &sending(91));
    let after = text(&drawn(&screen, SIZES[0]));
    assert!(after.contains("sent 1,000,000  1.000 Mpps") && after.contains("lost 6  6.000 pps"), "{after}");
}

#[test]
fn without_a_terminal_the_numbers_are_one_line() {
    assert_eq!(
        screen("send", true, sending).line(),
        "00:01:30 running: sent 84,000,000  1.000 Mpps  672.0 Mbit/s; lost 540  6.000 pps  qdisc_dropped 360, \
         refused 180; gap error  p50 <= 64 ns  p99 <= 128 ns  p99.9 <= 128 ns  max <= 2.048 µs"
    );
}
