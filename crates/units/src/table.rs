//! A small table of names and values: names to the left, counts to the right, remarks behind them.
//! Rows with a meaning have its colour as `{:#}`.

use super::human_count;
use report::Meaning;
use std::fmt;

/// Rows in the order they were added.
#[derive(Clone, Debug, Default)]
pub struct Table {
    rows: Vec<TableRow>,
}

#[derive(Clone, Debug)]
struct TableRow {
    name: String,
    value: TableValue,
    meaning: Meaning,
}

#[derive(Clone, Debug)]
enum TableValue {
    Count { digits: String, remark: String },
    Text(String),
}

impl Table {
    /// Adds a count and a remark about it.
    pub fn count(&mut self, name: &str, count: u64, remark: &str) {
        self.add_count(name, count, remark, Meaning::Fact);
    }

    /// Adds a count of frames that were lost or had an error, and a remark about it.
    pub fn loss(&mut self, name: &str, count: u64, remark: &str) {
        self.add_count(name, count, remark, Meaning::of_loss(count));
    }

    /// Adds a text.
    pub fn text(&mut self, name: &str, text: &str) {
        self.add(name, TableValue::Text(text.to_owned()), Meaning::Fact);
    }

    /// Adds something to know.
    pub fn note(&mut self, text: &str) {
        self.add("note", TableValue::Text(text.to_owned()), Meaning::Advice);
    }

    fn add_count(&mut self, name: &str, count: u64, remark: &str, meaning: Meaning) {
        let value = TableValue::Count { digits: human_count(count), remark: remark.to_owned() };
        self.add(name, value, meaning);
    }

    fn add(&mut self, name: &str, value: TableValue, meaning: Meaning) {
        self.rows.push(TableRow { name: name.to_owned(), value, meaning });
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.rows.iter().map(|row| row.name.len()).max().unwrap_or(0);
        let digits = self.rows.iter().filter_map(|row| match &row.value {
            TableValue::Count { digits, .. } => Some(digits.len()),
            TableValue::Text(_) => None,
        });
        let digits_len = digits.max().unwrap_or(0);
        for TableRow { name, value, meaning } in &self.rows {
            let line = match value {
                TableValue::Count { digits, remark } => {
                    format!("  {name:names$}  {digits:>digits_len$}  {remark}")
                }
                TableValue::Text(text) => format!("  {name:names$}  {text}"),
            };
            meaning.write_line(f, line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_stand_under_each_other() {
        let mut table = Table::default();
        table.count("offered", 1000, "");
        table.count("  lost", 5, "ring");
        table.text("engine", "xdp");
        assert_eq!(table.to_string(), "  offered  1,000\n    lost       5  ring\n  engine   xdp\n");
    }

    #[test]
    fn losses_and_notes_have_colours() {
        let mut table = Table::default();
        table.loss("lost", 5, "ring");
        table.loss("errors", 0, "");
        table.note("slow");
        assert_eq!(table.to_string(), "  lost    5  ring\n  errors  0\n  note    slow\n");
        assert_eq!(
            format!("{table:#}"),
            "\x1b[31m  lost    5  ring\x1b[0m\n  errors  0\n\x1b[33m  note    slow\x1b[0m\n"
        );
    }
}
