//! Result files: JSON lines to trials, searches and tables.

use crate::human::quantity_of;
use search::record::{ResultLine, Rfc2544Record, SearchRecord, TrafficShape, TrialRecord};

/// A result file as the caller read it.
#[derive(Clone, Debug)]
pub struct ResultFile {
    /// Its name, for the headings of the report.
    pub name: String,
    /// Its lines.
    pub text: String,
}

/// A report that cannot be made.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages name the fields")]
pub enum ReportError {
    /// A line is not one of a result file.
    #[error("{file}, line {line}: not a result line: {source}")]
    Line { file: String, line: usize, source: serde_json::Error },
    /// A file without any line of a known schema.
    #[error("{file} has no line of wirerate.trial/1, wirerate.search/1 or wirerate.rfc2544/1")]
    Empty { file: String },
    /// A template failed, which is a mistake of this crate.
    #[error("the page could not be rendered: {0}")]
    Page(#[from] askama::Error),
}

/// The results of one file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Results {
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) trials: Vec<TrialRecord>,
    pub(crate) searches: Vec<SearchRecord>,
    pub(crate) tables: Vec<Rfc2544Record>,
}

impl Results {
    pub(crate) fn read(file: &ResultFile) -> Result<Self, ReportError> {
        let mut results = Self { name: file.name.clone(), text: file.text.clone(), ..Self::default() };
        for (index, text) in file.text.lines().enumerate().filter(|(_, text)| !text.trim().is_empty()) {
            let line = serde_json::from_str(text).map_err(|source| ReportError::Line {
                file: file.name.clone(),
                line: index + 1,
                source,
            })?;
            match line {
                ResultLine::Trial(trial) => results.trials.push(*trial),
                ResultLine::Search(search) => results.searches.push(search),
                ResultLine::Rfc2544(table) => results.tables.push(table),
                ResultLine::Other => {}
            }
        }
        if results.trials.is_empty() && results.searches.is_empty() && results.tables.is_empty() {
            return Err(ReportError::Empty { file: file.name.clone() });
        }
        Ok(results)
    }

    /// The trials of a search, in order.
    pub(crate) fn trials_of<'a>(&'a self, shape: &'a TrafficShape) -> impl Iterator<Item = &'a TrialRecord> {
        self.trials.iter().filter(move |trial| trial.shape == *shape)
    }
}

/// A frame size and number of flows in words.
pub(crate) fn shape_name(shape: &TrafficShape) -> String {
    if let Some(connections) = shape.connections {
        return connections.text().to_owned();
    }
    let size = shape.frame_size.map_or("mixed sizes".to_owned(), |size| {
        format!("{} bytes, {size} with FCS", size.saturating_sub(4))
    });
    let counted = |count: Option<u64>, noun: &str| count.map(|count| quantity_of(count, noun));
    let both = shape.is_bidirectional.then(|| "sum of both directions".to_owned());
    let words = [Some(size), counted(shape.flows, "flow"), counted(shape.threads, "thread"), both];
    words.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Results, ReportError> {
        Results::read(&ResultFile { name: "a.jsonl".to_owned(), text: text.to_owned() })
    }

    #[test]
    fn a_broken_line_is_named() {
        let error = read("{\"schema\":\"wirerate.send/2\"}\n{").expect_err("line 2 is not JSON");
        assert!(error.to_string().starts_with("a.jsonl, line 2: not a result line"), "{error}");
    }

    #[test]
    fn a_file_without_results_is_refused() {
        let error = read("{\"schema\":\"wirerate.send/2\"}\n").expect_err("nothing to report");
        assert!(matches!(error, ReportError::Empty { .. }));
    }
}
