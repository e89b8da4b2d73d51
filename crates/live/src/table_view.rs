//! A table as lines of text: sorted, filtered, in columns.

use crate::figures::{CountRow, CountTable};
use report::human::{human_count, human_duration, human_pps};

/// What the user wants to see of the tables.
#[derive(Clone, Debug, Default)]
pub(crate) struct TableView {
    /// Number of the table among those that have rows.
    pub(crate) index: usize,
    /// 0 for the order of the keys, N for the count N, the largest first.
    pub(crate) sort: usize,
    /// Rows without this text in a key are not shown.
    pub(crate) filter: String,
    /// Rows above the first one that is shown.
    pub(crate) skipped: usize,
}

impl TableView {
    /// The title of `table`, with the order and the filter where these are not the normal ones.
    pub(crate) fn title(&self, table: &CountTable, table_count: usize) -> String {
        let mut title = table.title.to_owned();
        if table_count > 1 {
            title += &format!(" ({} of {table_count})", self.index + 1);
        }
        if let Some(column) = self.sort_column(table) {
            title += &format!(", most {} first", in_words(table.counts[column]));
        }
        if !self.filter.is_empty() {
            title += &format!(", with \"{}\"", self.filter);
        }
        title
    }

    /// The column of a count that rows are sorted by.
    fn sort_column(&self, table: &CountTable) -> Option<usize> {
        (self.sort % (table.counts.len() + 1)).checked_sub(1)
    }

    /// The header and the rows, at most `lines_max` lines, with the first columns, as many as fit
    /// into `width`.
    pub(crate) fn lines(
        &self,
        table: &CountTable,
        rates: &[f64],
        lines_max: usize,
        width: usize,
    ) -> Vec<String> {
        let is_wanted = |row: &CountRow| row.keys.iter().any(|key| key.contains(&self.filter));
        let mut rows: Vec<(&CountRow, f64)> = table.rows.iter().zip(rates.iter().copied()).collect();
        rows.retain(|(row, _)| self.filter.is_empty() || is_wanted(row));
        if let Some(column) = self.sort_column(table) {
            // Unknown counts are last.
            rows.sort_by_key(|(row, _)| std::cmp::Reverse(row.counts[column].map_or(-1, i128::from)));
        }
        let skipped = self.skipped.min(rows.len().saturating_sub(1));
        let left = rows.len() - skipped;
        // The last line may be that of the rows that do not fit.
        let fitting = lines_max.saturating_sub(1);
        let shown = if left > fitting { fitting.saturating_sub(1) } else { left };
        let mut grid = vec![header(table)];
        grid.extend(rows[skipped..skipped + shown].iter().map(|(row, rate)| cells(table, row, *rate)));
        let mut lines = in_columns(&grid, table.keys.len(), width);
        lines.truncate(lines_max);
        if shown < left && lines.len() < lines_max {
            lines.push(format!("{} more", left - shown));
        }
        lines
    }
}

/// The name of a column in words: `too old` for `too_old`.
fn in_words(name: &str) -> String {
    name.replace('_', " ")
}

/// The names of the columns: keys, the first count, its rate, the other counts, times.
pub(crate) fn header(table: &CountTable) -> Vec<String> {
    let (first, others) = table.counts.split_at(1);
    let names = table.keys.iter().chain(first).chain(&["rate"]).chain(others).chain(table.times);
    names.map(|name| in_words(name)).collect()
}

/// The texts of a row below [`header`].
pub(crate) fn cells(table: &CountTable, row: &CountRow, rate: f64) -> Vec<String> {
    let rate = match table.counts_frames {
        true => human_pps(rate),
        false => format!("{}/s", human_count(rate.round() as u64)),
    };
    let count = |count: &Option<u64>| count.map_or_else(|| "-".to_owned(), human_count);
    let (first, others) = row.counts.split_at(1);
    let time = |time: &Option<u64>| time.map_or_else(|| "-".to_owned(), human_duration);
    let counts = first.iter().map(count).chain([rate]).chain(others.iter().map(count));
    row.keys.iter().cloned().chain(counts).chain(row.times.iter().map(time)).collect()
}

/// Columns two blanks apart: words to the left, numbers to the right. Columns that would end behind
/// `width_max` are left out.
fn in_columns(grid: &[Vec<String>], key_count: usize, width_max: usize) -> Vec<String> {
    let width = |column: usize| grid.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..grid.first().map_or(0, Vec::len)).map(width).collect();
    let ends = widths.iter().scan(0, |end, width| {
        let start = *end;
        *end += width + 2;
        Some(start + width)
    });
    let fitting = ends.take_while(|end| *end <= width_max).count().max(1);
    let cell = |(column, text): (usize, &String)| match (column < key_count, widths[column]) {
        (true, width) => format!("{text:<width$}"),
        (false, width) => format!("{text:>width$}"),
    };
    let line =
        |row: &Vec<String>| row.iter().take(fitting).enumerate().map(cell).collect::<Vec<_>>().join("  ");
    grid.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> (CountTable, Vec<f64>) {
        let row = |flow: &str, received, reordered| CountRow {
            keys: vec!["eth1".to_owned(), flow.to_owned()],
            counts: vec![Some(received), reordered],
            times: vec![reordered.map(|count| count * 1000)],
        };
        let rows = vec![row("0", 1500, None), row("1", 20, Some(7)), row("other", 90_000, Some(2))];
        let table = CountTable {
            title: "flows",
            keys: &["device", "flow"],
            counts_frames: true,
            counts: vec!["received", "too_old"],
            times: &["mean latency"],
            rows,
        };
        (table, vec![10.0, 0.0, 1e6])
    }

    #[test]
    fn rows_are_in_columns() {
        let (table, rates) = table();
        let lines = TableView::default().lines(&table, &rates, 10, 80);
        assert_eq!(
            lines,
            [
                "device  flow   received        rate  too old  mean latency",
                "eth1    0         1,500   10.00 pps        -             -",
                "eth1    1            20       0 pps        7      7.000 µs",
                "eth1    other    90,000  1.000 Mpps        2      2.000 µs",
            ]
        );
    }

    #[test]
    fn only_frames_have_a_rate_in_packets() {
        let (frames, _) = table();
        let connections = CountTable { counts_frames: false, ..frames.clone() };
        let rate = |table: &CountTable| cells(table, &table.rows[0], 19.98)[3].clone();
        assert_eq!([rate(&frames), rate(&connections)], ["19.98 pps", "20/s"]);
    }

    #[test]
    fn columns_that_do_not_fit_are_left_out() {
        let (table, rates) = table();
        let lines = TableView::default().lines(&table, &rates, 10, 50);
        assert_eq!(lines[0], "device  flow   received        rate  too old");
    }

    #[test]
    fn rows_are_sorted_filtered_and_skipped() {
        let (table, rates) = table();
        let flows = |view: &TableView, lines_max| {
            let lines = view.lines(&table, &rates, lines_max, 80);
            let second = |line: &String| line.split_whitespace().nth(1).unwrap_or_default().to_owned();
            lines[1..].iter().map(second).collect::<Vec<_>>().join(" ")
        };
        let view = TableView::default();
        assert_eq!(flows(&view, 10), "0 1 other");
        assert_eq!(flows(&TableView { sort: 1, ..view.clone() }, 10), "other 0 1");
        assert_eq!(flows(&TableView { sort: 2, ..view.clone() }, 10), "1 other 0");
        assert_eq!(flows(&TableView { sort: 3, ..view.clone() }, 10), "0 1 other");
        assert_eq!(flows(&TableView { filter: "oth".into(), ..view.clone() }, 10), "other");
        assert_eq!(flows(&TableView { skipped: 1, ..view.clone() }, 10), "1 other");
        assert_eq!(flows(&TableView { skipped: 99, ..view.clone() }, 10), "other");
        assert_eq!(flows(&view, 3), "0 more", "the last line counts the rows that do not fit");
        let sorted = TableView { sort: 2, filter: "e".into(), ..view };
        assert_eq!(sorted.title(&table, 2), "flows (1 of 2), most too old first, with \"e\"");
    }
}
