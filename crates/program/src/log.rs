//! Log events of the crates as lines on stderr, for commands that run as long as others use them.

use std::fmt;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;

pub use tracing::Level;

/// Prints events from `level` on, and with `has_refused` each refused write to a control file.
pub fn to_stderr(level: Level, has_refused: bool) {
    let refused = if has_refused { LevelFilter::INFO } else { LevelFilter::OFF };
    let filter = Targets::new().with_default(level).with_target(ctlfs::REFUSED, refused);
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).event_format(PlainLines);
    // A second call, in tests, changes nothing.
    let _ = tracing_subscriber::registry().with(filter).with(lines).try_init();
}

/// `wirerate: MESSAGE: ERROR (FIELD VALUE, ...)`, as the other lines of wirerate on stderr.
struct PlainLines;

impl<S, N> FormatEvent<S, N> for PlainLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut line = EventText::default();
        event.record(&mut line);
        writeln!(writer, "wirerate: {line}")
    }
}

/// The fields of one event.
#[derive(Debug, Default)]
struct EventText {
    message: String,
    error: Option<String>,
    others: Vec<String>,
}

impl Visit for EventText {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            "error" => self.error = Some(format!("{value:?}")),
            name => self.others.push(format!("{name} {value:?}")),
        }
    }
}

impl fmt::Display for EventText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.error.iter().try_for_each(|error| write!(f, ": {error}"))?;
        if self.others.is_empty() { Ok(()) } else { write!(f, " ({})", self.others.join(", ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_message_the_error_and_the_other_fields() {
        let text = EventText {
            message: "cannot unmount".into(),
            error: Some("busy".into()),
            others: vec!["path /mnt".into(), "pid 7".into()],
        };
        assert_eq!(text.to_string(), "cannot unmount: busy (path /mnt, pid 7)");
        let text = EventText { message: "serving".into(), ..EventText::default() };
        assert_eq!(text.to_string(), "serving");
    }
}
