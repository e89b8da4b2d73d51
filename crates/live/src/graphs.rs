//! The graphs of a view: what each one shows, and its title with the present numbers.

use crate::figures::LiveFigures;
use crate::history::{GraphPoint, History};
use crate::octaves::Octaves;
use report::human::{human_bps, human_count, human_duration, human_pps};
use std::time::Duration;

/// What a graph shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GraphKind {
    Sent,
    Received,
    Lost,
    Latency,
    GapError,
    Ring,
}

/// A graph of what is counted, and its title.
pub(crate) struct Graph {
    pub(crate) kind: GraphKind,
    pub(crate) title: String,
}

impl GraphKind {
    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Received => "received",
            Self::Lost => "lost",
            Self::Latency => "latency",
            Self::GapError => "gap error",
            Self::Ring => "ring",
        }
    }

    /// Its value at a point: frames per second, nanoseconds, or thousandths of a ring.
    pub(crate) fn value(self, point: &GraphPoint) -> Option<u64> {
        match self {
            Self::Sent => point.sent_pps,
            Self::Received => point.received_pps,
            Self::Lost => point.lost_pps,
            Self::Latency => point.latency_p99_ns,
            Self::GapError => point.gap_error_p99_ns,
            Self::Ring => point.ring_milli,
        }
    }

    /// How high a point is drawn. Gap errors are bounds that are powers of two, so each octave is
    /// one step.
    pub(crate) fn height(self, point: &GraphPoint) -> Option<u64> {
        let value = self.value(point);
        match self {
            Self::GapError => value.map(octave),
            Self::Latency => value.filter(|ns| *ns < u64::MAX),
            Self::Sent | Self::Received | Self::Lost | Self::Ring => value,
        }
    }

    /// The scale of a graph of `points`: heights with their values, the lowest first. The last one
    /// is the height of the graph.
    pub(crate) fn scale<'a>(self, points: impl Iterator<Item = &'a GraphPoint>) -> Vec<(u64, String)> {
        let highest = points.filter_map(|point| self.height(point)).max().unwrap_or(0);
        if self == Self::GapError {
            let top = highest.max(2);
            return [top / 2, top].map(|octave| (octave, human_duration(1 << octave.min(63)))).to_vec();
        }
        let top = if self == Self::Ring { 1000 } else { round_above(highest.max(1)) };
        [0, top / 2, top].map(|height| (height, self.plain_text(height))).to_vec()
    }

    fn plain_text(self, value: u64) -> String {
        if self == Self::Latency { human_duration(value) } else { self.text(value) }
    }

    /// A value for people.
    pub(crate) fn text(self, value: u64) -> String {
        match self {
            Self::Sent | Self::Received | Self::Lost => human_pps(value as f64),
            Self::Latency | Self::GapError => bound(value),
            Self::Ring => format!("{:.1} %", value as f64 / 10.0),
        }
    }
}

/// The octave of a time: 1 for 1 ns, 11 for 1,024 ns.
fn octave(ns: u64) -> u64 {
    u64::from(u64::BITS - ns.leading_zeros())
}

/// The least number from `highest` on that is 1, 2, 4, 6 or 8 times a power of ten, but at least 2,
/// so that it has a half.
fn round_above(highest: u64) -> u64 {
    let step = 10_u64.pow(highest.max(2).ilog10());
    let steps = highest.max(2).div_ceil(step);
    let steps = if steps > 1 { steps.next_multiple_of(2) } else { 1 };
    steps.saturating_mul(step)
}

/// The graphs of what is counted.
pub(crate) fn graphs(history: &History) -> Vec<Graph> {
    let now = history.now();
    let mut graphs = Vec::new();
    let mut add = |kind: GraphKind, title: String| graphs.push(Graph { kind, title });
    if now.sent.is_some() {
        add(GraphKind::Sent, counted(history, "sent", |figures| figures.sent, |figures| figures.sent_bits));
    }
    if now.received.is_some() {
        let title = counted(history, "received", |figures| figures.received, |figures| figures.received_bits);
        add(GraphKind::Received, title);
    }
    add(GraphKind::Lost, lost(history));
    if now.latency.is_some() {
        add(GraphKind::Latency, times(history, "latency", |figures| figures.latency.as_ref()));
    } else if now.gap_error.is_some() {
        add(GraphKind::GapError, times(history, "gap error", |figures| figures.gap_error.as_ref()));
    }
    if let Some(milli) = now.ring_milli {
        add(GraphKind::Ring, format!("ring {} used", GraphKind::Ring.text(milli)));
    }
    graphs
}

/// `sent 12,000  1.000 Mpps  672.0 Mbit/s`.
fn counted(
    history: &History,
    name: &str,
    count: fn(&LiveFigures) -> Option<u64>,
    bits: fn(&LiveFigures) -> Option<u64>,
) -> String {
    let mut title = format!("{name} {}", human_count(history.count(count).unwrap_or(0)));
    if let Some(pps) = history.rate(count) {
        title += &format!("  {}", human_pps(pps));
    }
    if let Some(bps) = history.rate(bits) {
        title += &format!("  {}", human_bps(bps));
    }
    title
}

/// `lost 3  1.000 pps  qdisc_dropped 2, refused 1`.
fn lost(history: &History) -> String {
    let lost = history.lost();
    let total: u64 = lost.iter().map(|(_, count)| count).sum();
    if total == 0 {
        return "lost 0".to_owned();
    }
    let reasons: Vec<_> =
        lost.iter().map(|(reason, count)| format!("{reason} {}", human_count(*count))).collect();
    let rate = history.rate(|figures| Some(figures.lost_total())).unwrap_or(0.0);
    format!("lost {}  {}  {}", human_count(total), human_pps(rate), reasons.join(", "))
}

/// `latency  p50 <= 16.38 µs  p99 <= 65.54 µs  p99.9 <= 65.54 µs`.
fn times(history: &History, name: &str, which: fn(&LiveFigures) -> Option<&Octaves>) -> String {
    let octaves = history.octaves(which).unwrap_or_default();
    let at =
        |(name, share): (&str, f64)| octaves.quantile_ns(share).map(|ns| format!("  {name} {}", bound(ns)));
    let shares = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)];
    name.to_owned() + &shares.into_iter().filter_map(at).collect::<String>()
}

/// The histogram of the latency, else of the gap error, with its name.
pub(crate) fn histogram(history: &History) -> Option<(&'static str, Octaves)> {
    let latency = history.octaves(|figures| figures.latency.as_ref()).map(|octaves| ("latency", octaves));
    let gap_error =
        || history.octaves(|figures| figures.gap_error.as_ref()).map(|octaves| ("gap error", octaves));
    latency.or_else(gap_error)
}

/// A bound of a histogram.
pub(crate) fn bound(ns: u64) -> String {
    if ns == u64::MAX { "above all bounds".to_owned() } else { format!("<= {}", human_duration(ns)) }
}

/// `00:01:23`.
pub(crate) fn clock(elapsed: Duration) -> String {
    let seconds = elapsed.as_secs();
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_are_round_and_have_units() {
        assert_eq!([1, 2, 3, 10, 14, 250, 1000].map(round_above), [2, 2, 4, 10, 20, 400, 1000]);
        let point = GraphPoint {
            sent_pps: Some(1_480_000),
            latency_p99_ns: Some(37_500),
            gap_error_p99_ns: Some(1000),
            ..GraphPoint::default()
        };
        let scale = |kind: GraphKind| kind.scale([point].iter());
        let shown = |kind| scale(kind).into_iter().map(|(_, text)| text).collect::<Vec<_>>();
        assert_eq!(shown(GraphKind::Sent), ["0 pps", "1.000 Mpps", "2.000 Mpps"]);
        assert_eq!(shown(GraphKind::Latency), ["0 ns", "20.00 µs", "40.00 µs"]);
        assert_eq!(shown(GraphKind::Ring), ["0.0 %", "50.0 %", "100.0 %"]);
        assert_eq!(scale(GraphKind::GapError), [(5, "32 ns".to_owned()), (10, "1.024 µs".to_owned())]);
        assert_eq!(scale(GraphKind::Lost)[2], (2, "2.000 pps".to_owned()), "nothing was lost");
    }
}
