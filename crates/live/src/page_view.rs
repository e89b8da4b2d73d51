//! The readings of a command for a web page.

use crate::figures::LiveFigures;
use crate::graphs::{Graph, GraphKind, bound, clock, graphs, histogram};
use crate::history::History;
use crate::screen::{RunState, ScreenHead};
use crate::table_view::{cells, header};
use metrics::MetricSet;
use report::human::{human_count, human_pps};
use report::{CurveUnit, PageRun, RunCurve, RunTable};
use serde::Serialize;
use std::time::Duration;

/// What a web page shows of one command.
#[derive(Clone, Debug, Default)]
pub struct PageView {
    head: ScreenHead,
    state: RunState,
    elapsed: Duration,
    history: History,
}

/// The message of one reading.
#[derive(Serialize)]
struct PageMessage<'a> {
    command: &'a str,
    device: &'a str,
    netns: &'a str,
    state: &'a str,
    /// True if the user can pause what is sent and change its rate.
    has_rate: bool,
    elapsed: String,
    target: Option<String>,
    sent: Option<u64>,
    received: Option<u64>,
    lost: u64,
    /// Number of the first point below, from 0 on.
    first_point: u64,
    graphs: Vec<PageGraph>,
    histogram: Option<PageHistogram>,
    tables: Vec<PageTable>,
}

#[derive(Serialize)]
struct PageGraph {
    name: &'static str,
    title: String,
    /// The oldest first: height and text. `null` where nothing was counted.
    points: Vec<Option<(u64, String)>>,
    /// Heights and their values; the last one is the height of the graph.
    scale: Vec<(u64, String)>,
}

#[derive(Serialize)]
struct PageHistogram {
    title: String,
    /// Bound, count, and part of all in percent.
    rows: Vec<(String, String, f64)>,
}

#[derive(Serialize)]
struct PageTable {
    title: &'static str,
    key_count: usize,
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl PageView {
    /// A view without a reading.
    pub fn new(head: ScreenHead) -> Self {
        Self { head, ..Self::default() }
    }

    /// Adds a reading at `elapsed` after the start.
    pub fn add(&mut self, elapsed: Duration, state: RunState, set: &MetricSet) {
        (self.elapsed, self.state) = (elapsed, state);
        self.history.add(elapsed, LiveFigures::of(set));
    }

    /// Number of points of each graph so far.
    pub fn point_count(&self) -> u64 {
        self.history.point_count()
    }

    /// The last reading as JSON, with the points of the graphs from number `from` on, as far as
    /// they are kept.
    pub fn json(&self, from: u64) -> String {
        let now = self.history.now();
        let kept = self.history.points().count() as u64;
        let first_point = from.max(self.point_count() - kept).min(self.point_count());
        let wanted = (self.point_count() - first_point) as usize;
        let message = PageMessage {
            command: &self.head.command,
            device: &self.head.device,
            netns: &self.head.netns,
            state: self.state.word,
            has_rate: self.state.has_rate,
            elapsed: clock(self.elapsed),
            target: now.target_pps.map(human_pps),
            sent: now.sent,
            received: now.received,
            lost: now.lost_total(),
            first_point,
            graphs: graphs(&self.history).into_iter().map(|graph| self.graph(graph, wanted)).collect(),
            histogram: self.histogram(),
            tables: self.tables(),
        };
        serde_json::to_string(&message).expect("texts and whole numbers are representable as JSON")
    }

    fn graph(&self, graph: Graph, wanted: usize) -> PageGraph {
        let Graph { kind, title } = graph;
        let point = |point| Some((kind.height(point)?, kind.text(kind.value(point)?)));
        let points = self.history.points().take(wanted).collect::<Vec<_>>();
        let points = points.into_iter().rev().map(point).collect();
        PageGraph { name: kind.name(), title, points, scale: kind.scale(self.history.points()) }
    }

    fn histogram(&self) -> Option<PageHistogram> {
        let (name, octaves) = histogram(&self.history)?;
        let total = octaves.total();
        let share = |count| count as f64 * 100.0 / total.max(1) as f64;
        let rows = octaves.used().into_iter();
        let rows = rows.map(|(ns, count)| (bound(ns), human_count(count), share(count))).collect();
        Some(PageHistogram { title: format!("{name} of {} frames", human_count(total)), rows })
    }

    fn tables(&self) -> Vec<PageTable> {
        let tables = (0..self.history.now().tables.len()).filter_map(|index| self.history.table(index));
        let page_table = |(table, rates): (crate::figures::CountTable, Vec<f64>)| PageTable {
            title: table.title,
            key_count: table.keys.len(),
            header: header(&table),
            rows: table.rows.iter().zip(rates).map(|(row, rate)| cells(&table, row, rate)).collect(),
        };
        tables.map(page_table).collect()
    }

    /// The readings as one HTML file without scripts: counts, curves and tables. `text` is the
    /// report of the command, empty before its end.
    pub fn report(&self, text: &str) -> String {
        let ScreenHead { command, device, netns } = &self.head;
        let fact = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let mut facts = vec![fact("state", self.state.word), fact("time", &clock(self.elapsed))];
        for (name, value) in [("device", device), ("network namespace", netns)] {
            facts.extend((!value.is_empty()).then(|| fact(name, value)));
        }
        let graphs = graphs(&self.history);
        let tables = self.tables().into_iter();
        let report = PageRun {
            title: format!("wirerate {command}"),
            facts,
            curves: graphs.into_iter().map(|graph| self.curve(graph)).collect(),
            tables: tables
                .map(|table| RunTable { title: table.title, header: table.header, rows: table.rows })
                .collect(),
            text: text.to_owned(),
        };
        report::render_run(&report)
    }

    /// Points lie one second apart, the newest at the present time.
    fn curve(&self, graph: Graph) -> RunCurve {
        let Graph { kind, title } = graph;
        let last = self.elapsed.as_secs_f64();
        let points = self.history.points().enumerate();
        let points = points.filter_map(|(ago, point)| Some((last - ago as f64, kind.value(point)?)));
        let (unit, factor) = match kind {
            GraphKind::Sent | GraphKind::Received | GraphKind::Lost => (CurveUnit::FramesPerSecond, 1.0),
            GraphKind::Latency | GraphKind::GapError => (CurveUnit::Time, 1.0),
            GraphKind::Ring => (CurveUnit::Percent, 0.1),
        };
        // A bound that is above all bounds has no place.
        let points = points.filter(|(_, value)| *value < u64::MAX);
        let mut points: Vec<_> = points.map(|(time, value)| (time.max(0.0), value as f64 * factor)).collect();
        points.reverse();
        RunCurve { name: kind.name(), title, unit, points }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use metrics::families::{RECEIVE_MISSING, SEND_FRAMES, SEND_GAP_ERROR};
    use serde_json::{Value, json};

    fn set(sent: u64) -> MetricSet {
        let mut set = MetricSet::default();
        set.count(&SEND_FRAMES, &["eth1", "", "0", "2", "xdp"], sent);
        set
    }

    fn view(seconds: u64) -> PageView {
        let head = ScreenHead { command: "send".into(), device: "eth<1>".into(), netns: String::new() };
        let mut view = PageView::new(head);
        for second in 0..=seconds {
            view.add(
                Duration::from_secs(second),
                RunState { word: "running", has_rate: true },
                &set(second * 1000),
            );
        }
        view
    }

    fn read(view: &PageView, from: u64) -> Value {
        serde_json::from_str(&view.json(from)).expect("JSON")
    }

    #[test]
    fn a_message_has_the_numbers_of_the_screen() {
        let message = read(&view(3), 0);
        assert_eq!((&message["sent"], &message["received"]), (&Value::from(3000), &Value::Null));
        assert_eq!(message["elapsed"], "00:00:03");
        let graph = &message["graphs"][0];
        assert_eq!(graph["title"], "sent 3,000  1.000 kpps");
        assert_eq!(graph["points"][2], json!([1000, "1.000 kpps"]));
        assert_eq!(graph["scale"], json!([[0, "0 pps"], [500, "500.0 pps"], [1000, "1.000 kpps"]]));
        let table = &message["tables"][0];
        assert_eq!(
            table["header"],
            json!(["device", "thread", "cpu", "engine", "sent", "rate", "offered", "retries"])
        );
        assert_eq!(table["rows"][0], json!(["eth1", "0", "2", "xdp", "3,000", "1.000 kpps", "-", "-"]));
    }

    #[test]
    fn a_client_gets_each_point_once_and_the_kept_ones_at_first() {
        let view = view(700);
        assert_eq!(view.point_count(), 700);
        let count = |message: &Value| message["graphs"][0]["points"].as_array().map_or(0, Vec::len);
        let first = read(&view, 0);
        assert_eq!((&first["first_point"], count(&first)), (&Value::from(100), 600));
        let next = read(&view, 699);
        assert_eq!((&next["first_point"], count(&next)), (&Value::from(699), 1));
        assert_eq!(count(&read(&view, 700)), 0);
        assert_eq!(count(&read(&view, u64::MAX)), 0, "a client of an earlier run");
    }

    #[test]
    fn the_report_is_one_small_file_with_the_curves() {
        let mut view = view(650);
        let mut last = set(650_000);
        last.histogram(&SEND_GAP_ERROR, &["eth1", ""], &[1; 20], 1.0);
        last.gauge(&RECEIVE_MISSING, &["eth2", ""], 3.0);
        view.add(Duration::from_secs(651), RunState { word: "ended", has_rate: false }, &last);
        let page = view.report("eth1: 650,000 sent & <done>");
        assert!(page.contains("650,000 sent &#38; &#60;done&#62;"), "{page}");
        assert!(page.contains("eth&#60;1&#62;") && page.contains("missing 3"));
        assert_eq!(page.matches("<figure>").count(), 3);
        assert!(page.len() < 100_000 && !page.contains("<script"), "{}", page.len());
    }
}
