//! The page for results of simulated devices: its bytes, and how a browser shows it.

mod browser;
mod sample;

use report::{ResultFile, render};

fn file(name: &str, text: String) -> ResultFile {
    ResultFile { name: name.to_owned(), text }
}

#[test]
fn page_of_a_short_search() {
    let html = render(&[file("short.jsonl", sample::short())]).expect("it renders");
    testkit::golden("short.html", &html);
    testkit::golden("short.jsonl", &sample::short());
}

#[test]
fn page_has_no_script_and_names_no_other_host() {
    let html = render(&[file("full.jsonl", sample::full())]).expect("it renders");
    for word in ["<script", "http://", "https://", "src=", "href=", "@import", "url("] {
        assert!(!html.contains(word), "{word}");
    }
}

#[test]
fn page_has_a_plot_for_each_kind_of_result() {
    let html = render(&[file("full.jsonl", sample::full())]).expect("it renders");
    let titles = [
        "Throughput over frame size",
        "Frame loss rate",
        "Search history: 60 bytes, 64 with FCS",
        "Latency percentiles",
        "Latency over time",
        "Throughput over flows",
    ];
    for title in titles {
        assert!(html.contains(title), "{title}");
    }
    assert!(html.contains("the sender paused"), "disturbed trials are listed");
    assert!(html.contains("wirerate.trial/1"), "the lines are embedded");
}

/// The tester's limit was printed as the throughput of the device.
#[test]
fn a_throughput_that_nothing_exceeded_is_at_least_that() {
    let html = render(&[file("full.jsonl", sample::full())]).expect("it renders");
    // 10 Gbit/s of frames of 1,518 bytes, which the device passed; and a device that passes less.
    let text = html.replace("&#62;", ">").replace("&gt;", ">");
    let is_shown = |rate: &str| text.contains(rate);
    assert!(is_shown(">= 812.7 k") && is_shown("6.2 M") && !is_shown(">= 6.2 M"), "{}", cells(&text));
}

/// What the cells of the tables hold, for a failed check.
fn cells(html: &str) -> String {
    let cells = html.split("<td").skip(1).filter_map(|cell| cell.split("</td>").next());
    cells.collect::<Vec<_>>().join("\n")
}

#[test]
fn text_of_a_result_file_is_escaped() {
    let text = sample::short().replace("example", "<b>example</b>");
    let html = render(&[file("<i>.jsonl", text)]).expect("it renders");
    assert!(!html.contains("<b>") && !html.contains("<i>"), "{html}");
}

#[test]
fn a_slower_run_is_marked_as_a_regression() {
    let files = [file("6.1", sample::sized(64, 1_000_000)), file("6.12", sample::sized(64, 900_000))];
    let html = render(&files).expect("it renders");
    assert!(html.contains("Comparison with 6.1"), "{html}");
    assert!(html.contains("<td class=\"bad\">regression</td>"), "{html}");
    assert!(html.contains("0.90"), "{html}");
}

#[test]
fn equal_runs_show_no_difference() {
    let files = [file("a", sample::sized(64, 1_000_000)), file("b", sample::sized(64, 1_000_000))];
    let html = render(&files).expect("it renders");
    assert!(html.contains("no difference shown") && !html.contains("<td class=\"bad\">"), "{html}");
}
