//! Choice of the format by the header `Accept`.

/// Format of the metrics page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// Text format 0.0.4 of Prometheus.
    #[default]
    Text,
    /// OpenMetrics 1.0.0.
    OpenMetrics,
    /// Delimited messages `io.prometheus.client.MetricFamily`.
    Protobuf,
}

/// Type of the protocol buffers, whose parameters are checked too.
const PROTOBUF: &str = "application/vnd.google.protobuf";

/// Preference of a type without `q`, in thousandths.
const QUALITY_DEFAULT: u32 = 1000;

impl Format {
    pub fn content_type(self) -> &'static str {
        match self {
            Format::Text => "text/plain; version=0.0.4; charset=utf-8",
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Format::Protobuf => {
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; \
                 encoding=delimited"
            }
        }
    }

    /// The known format that the client prefers most; of equal ones the first. Text if it accepts
    /// none of them, as Prometheus expects.
    pub fn accepted(accept: &str) -> Self {
        let mut best = (0, Self::Text);
        for range in accept.split(',') {
            let mut parts = range.split(';').map(str::trim);
            let kind = parts.next().unwrap_or_default();
            let parameters: Vec<(&str, &str)> =
                parts.filter_map(|part| part.split_once('=')).collect();
            let parameter = |name: &str| {
                let found = parameters.iter().find(|(it, _)| it.eq_ignore_ascii_case(name));
                found.map(|(_, value)| value.trim_matches('"'))
            };
            let format = match kind {
                PROTOBUF
                    if parameter("proto") == Some("io.prometheus.client.MetricFamily")
                        && parameter("encoding").is_none_or(|it| it == "delimited") =>
                {
                    Self::Protobuf
                }
                "application/openmetrics-text"
                    if parameter("version").is_none_or(|it| it == "1.0.0") =>
                {
                    Self::OpenMetrics
                }
                "text/plain" | "text/*" | "*/*" => Self::Text,
                _ => continue,
            };
            let quality = parameter("q").map_or(QUALITY_DEFAULT, thousandths);
            if quality > best.0 {
                best = (quality, format);
            }
        }
        best.1
    }
}

fn thousandths(quality: &str) -> u32 {
    let quality: f64 = quality.parse().unwrap_or(0.0);
    (quality.clamp(0.0, 1.0) * 1000.0) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Prometheus 3 sends by default, and with native histograms.
    const DEFAULT: &str = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,\
         application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;\
         escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1";
    const NATIVE: &str = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;\
         encoding=delimited;q=0.6,application/openmetrics-text;version=1.0.0;q=0.5,*/*;q=0.1";

    #[test]
    fn the_client_chooses_the_format() {
        for (accept, expected) in [
            (DEFAULT, Format::OpenMetrics),
            (NATIVE, Format::Protobuf),
            ("", Format::Text),
            ("*/*", Format::Text),
            ("text/html", Format::Text),
            ("text/plain;version=0.0.4", Format::Text),
            ("application/openmetrics-text;version=0.0.1", Format::Text),
            ("application/openmetrics-text; version=1.0.0; q=0, text/plain", Format::Text),
            ("application/vnd.google.protobuf;proto=other", Format::Text),
            (
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily",
                Format::Protobuf,
            ),
            (
                "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=text",
                Format::Text,
            ),
        ] {
            assert_eq!(Format::accepted(accept), expected, "{accept}");
        }
    }
}
