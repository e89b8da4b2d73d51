//! A small table of names and values: names to the left, counts to the right, remarks behind them.

use super::human_count;
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
}

#[derive(Clone, Debug)]
enum TableValue {
    Count { digits: String, remark: String },
    Text(String),
}

impl Table {
    /// Adds a count and a remark about it.
    pub fn count(&mut self, name: &str, count: u64, remark: &str) {
        let value = TableValue::Count { digits: human_count(count), remark: remark.to_owned() };
        self.rows.push(TableRow { name: name.to_owned(), value });
    }

    /// Adds a text.
    pub fn text(&mut self, name: &str, text: &str) {
        self.rows.push(TableRow { name: name.to_owned(), value: TableValue::Text(text.to_owned()) });
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
        for TableRow { name, value } in &self.rows {
            let line = match value {
                TableValue::Count { digits, remark } => {
                    format!("  {name:names$}  {digits:>digits_len$}  {remark}")
                }
                TableValue::Text(text) => format!("  {name:names$}  {text}"),
            };
            writeln!(f, "{}", line.trim_end())?;
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
}
