//! Content negotiation: the format that a scraper's `Accept` header asks for (RFC 9110).

/// A text format of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextFormat {
    /// Prometheus text, version 0.0.4.
    Prometheus,
    /// OpenMetrics text, version 1.0.0.
    OpenMetrics,
}

impl TextFormat {
    /// The format for a request with this `Accept` header: OpenMetrics if the scraper accepts it at
    /// least as gladly as plain text, else Prometheus text.
    pub fn accepted(accept: Option<&str>) -> Self {
        let ranges: Vec<MediaRange<'_>> =
            accept.unwrap_or_default().split(',').filter_map(MediaRange::parse).collect();
        let quality = |is_wanted: fn(&MediaRange<'_>) -> bool| {
            ranges.iter().filter(|range| is_wanted(range)).map(|range| range.quality_milli).max()
        };
        let open = quality(|range| range.is_open_metrics()).unwrap_or(0);
        let plain = quality(|range| range.name.eq_ignore_ascii_case("text/plain"))
            .or(quality(|range| range.name == "text/*" || range.name == "*/*"))
            .unwrap_or(0);
        if open > 0 && open >= plain { Self::OpenMetrics } else { Self::Prometheus }
    }

    /// The `Content-Type` of the text.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// One element of an `Accept` header.
struct MediaRange<'a> {
    name: &'a str,
    version: Option<&'a str>,
    /// Quality in thousandths: 1000 if none is given.
    quality_milli: u32,
}

impl<'a> MediaRange<'a> {
    /// `None` for a quality that is not a number from 0 to 1.
    fn parse(text: &'a str) -> Option<Self> {
        let mut parts = text.split(';').map(str::trim);
        let name = parts.next().filter(|name| !name.is_empty())?;
        let mut range = Self { name, version: None, quality_milli: 1000 };
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            match name.trim() {
                "q" | "Q" => {
                    let quality: f64 = value.trim().parse().ok()?;
                    range.quality_milli =
                        (0.0..=1.0).contains(&quality).then_some((quality * 1000.0) as u32)?;
                }
                "version" => range.version = Some(value.trim().trim_matches('"')),
                _ => {}
            }
        }
        Some(range)
    }

    fn is_open_metrics(&self) -> bool {
        let is_named = self.name.eq_ignore_ascii_case("application/openmetrics-text");
        is_named && self.version.is_none_or(|version| version == "1.0.0")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use TextFormat::{OpenMetrics, Prometheus};

    #[test]
    fn the_header_of_prometheus_asks_for_openmetrics() {
        for accept in [
            "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
             text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
            "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,\
             text/plain;version=0.0.4;q=0.5",
            "application/openmetrics-text",
            "Application/OpenMetrics-Text; version=\"1.0.0\"",
        ] {
            assert_eq!(TextFormat::accepted(Some(accept)), OpenMetrics, "{accept}");
        }
    }

    #[test]
    fn all_others_get_plain_text() {
        for accept in [
            "",
            "*/*",
            "text/plain;version=0.0.4",
            "text/html,application/xhtml+xml,*/*;q=0.8",
            "application/openmetrics-text;version=1.0.0;q=0",
            "application/openmetrics-text;version=0.0.1",
            "application/openmetrics-text;version=1.0.0;q=0.2,text/plain;q=0.3",
            "application/openmetrics-text;q=0.2,*/*",
            "application/openmetrics-text;q=2",
        ] {
            assert_eq!(TextFormat::accepted(Some(accept)), Prometheus, "{accept}");
        }
        assert_eq!(TextFormat::accepted(None), Prometheus);
    }
}
