//! Files beside the report: a line per flow, and the histogram of latencies.

use super::Results;
use capture::{ReceiveResult, open};
use facts::Document;
use measure::{FlowFigures, FlowRow, HistogramLog, flow_rows};
use program::out;
use program::outcome::{Failure, Refused};
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// A flow of a receiver.
pub const MEASURE_FLOW: Document =
    Document::of::<FlowRow>("wirerate.measure-flow/1", "wirerate receive --flows-out FILE");

const CSV_HEADER: &str = "stream,flow,received,unique,duplicate,reordered,too_old,latency_min_ns,\
                          latency_mean_ns,latency_max_ns,jitter_ns,missing,lost_by_capture";

/// Makes sure that the files of results can be written, before a run of hours. What they hold stays
/// until the results are written.
///
/// # Errors
/// A file that cannot be written.
pub fn check_files(results: &Results) -> Result<(), Failure> {
    for path in results.flows_out.iter().chain(&results.hgrm) {
        let opened = open::create_or_keep(path);
        opened.refused(format!("write {}", path.display()))?;
    }
    Ok(())
}

/// Writes a line per flow: CSV if the name ends so, else JSON lines. `lost_of` has the frames that
/// the capture lost up to the last frame of each flow.
///
/// # Errors
/// When the file cannot be written.
pub(crate) fn write_flows(
    path: &Path,
    result: &ReceiveResult,
    lost_of: Option<&[u64]>,
) -> Result<(), Failure> {
    let is_csv = path.extension().is_some_and(|end| end == "csv");
    let write = || -> io::Result<()> {
        let mut file = BufWriter::new(open::create(path)?);
        if is_csv {
            writeln!(file, "{CSV_HEADER}")?;
        }
        for (line, flow) in flow_rows(&result.options, &result.lines, &result.totals) {
            let lost_by_capture = lost_of.map(|lost_of| flow.missing.min(lost_of[line]));
            let flow = FlowRow { lost_by_capture, ..flow };
            let line = if is_csv { csv_line(&flow) } else { out::json_line(&MEASURE_FLOW, &flow) };
            file.write_all(line.as_bytes())?;
        }
        file.flush()
    };
    write().refused(format!("write {}", path.display()))
}

fn csv_line(row: &FlowRow) -> String {
    let maybe = |value: Option<u64>| value.map(|value| value.to_string()).unwrap_or_default();
    let FlowRow { stream, flow, received, missing, lost_by_capture, figures } = row;
    let of_capture = maybe(*lost_by_capture);
    let FlowFigures { unique, duplicate, reordered, too_old, .. } = figures;
    let jitter = figures.jitter_ns.map(|ns| format!("{ns:.1}")).unwrap_or_default();
    let latency =
        [figures.latency_min_ns, figures.latency_mean_ns, figures.latency_max_ns].map(maybe).join(",");
    format!(
        "{stream},{flow},{received},{unique},{duplicate},{reordered},{too_old},{latency},{jitter},\
         {missing},{of_capture}\n"
    )
}

/// Writes HdrHistogram's text.
///
/// # Errors
/// When the file cannot be written.
pub(crate) fn write_hgrm(path: &Path, result: &ReceiveResult) -> Result<(), Failure> {
    let text = HistogramLog::new(&result.histogram).hgrm();
    let written = open::create(path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.refused(format!("write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_is_a_line_of_the_columns_of_the_header() {
        let figures = FlowFigures {
            unique: 29,
            duplicate: 1,
            reordered: 4,
            too_old: 0,
            latency_min_ns: Some(500),
            latency_mean_ns: Some(700),
            latency_max_ns: Some(900),
            jitter_ns: Some(12.34),
        };
        let flow = FlowRow { stream: 1, flow: 2, received: 30, missing: 3, lost_by_capture: None, figures };
        assert_eq!(csv_line(&flow), "1,2,30,29,1,4,0,500,700,900,12.3,3,\n");
        let untimed = FlowFigures {
            latency_min_ns: None,
            latency_mean_ns: None,
            latency_max_ns: None,
            jitter_ns: None,
            ..figures
        };
        let of_file = FlowRow { figures: untimed, lost_by_capture: Some(2), ..flow };
        assert_eq!(csv_line(&of_file), "1,2,30,29,1,4,0,,,,,3,2\n");
        assert_eq!(CSV_HEADER.split(',').count(), csv_line(&flow).split(',').count());
    }
}
