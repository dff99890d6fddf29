//! What ghz's output needs beside the result: its format, its names, and the options that its reports
//! echo.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::call::nanoseconds;
use super::load::Planned;
use super::settings::Settings;
use tollhouse_load::case::{GrpcCall, GrpcData};
use tollhouse_load::error::BenchError;

/// The largest file of data that is echoed.
const ECHO_BYTES_MAX: u64 = 4 << 20;
/// ghz's default for opening a connection.
const CONNECT_TIMEOUT_NS: u64 = 10_000_000_000;

/// How ghz prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// A text for people.
    #[default]
    Summary,
    /// A line a request.
    Csv,
    /// JSON in one line.
    Json,
    /// Our own page.
    Html,
    /// The text exposition of Prometheus.
    Prometheus,
}

const FORMATS: [(&str, Format); 5] = [
    ("summary", Format::Summary),
    ("csv", Format::Csv),
    ("json", Format::Json),
    ("html", Format::Html),
    ("prometheus", Format::Prometheus),
];

/// Formats of ghz that are not written, and what to do instead.
const REFUSED_FORMATS: [(&str, &str); 3] = [
    ("pretty", "write `json`, and lay it out with `jq .`"),
    ("influx-summary", INSTEAD_OF_INFLUX),
    ("influx-details", INSTEAD_OF_INFLUX),
];
const INSTEAD_OF_INFLUX: &str =
    "write `prometheus` or `json`, which the collectors of InfluxDB read";

impl Format {
    /// Whether single requests appear in it.
    pub fn lists_requests(self) -> bool {
        matches!(self, Format::Csv | Format::Json)
    }
}

/// What ghz's output needs beside the result.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct GhzOptions {
    /// How it is printed.
    pub format: Format,
    /// Where to; standard output when absent.
    pub output: Option<PathBuf>,
    /// What the report calls itself.
    pub name: String,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
    /// Whether failures count in times.
    pub count_errors: bool,
    /// How many requests are left out at the start.
    pub skip_first: u64,
    /// What the report echoes.
    pub echo: Options,
}

/// The options as ghz's JSON report echoes them: the same keys in the same order, left out when ghz
/// leaves them out. Times are nanoseconds.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Options {
    /// The call.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub call: String,
    /// The host as written.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub host: String,
    /// The `.proto` file.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub proto: String,
    /// The descriptor set.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub protoset: String,
    /// Where imports were looked for, the file's own folder and the current one included.
    #[serde(rename = "import-paths", skip_serializing_if = "Vec::is_empty")]
    pub import_paths: Vec<String>,
    /// Whether messages were compressed.
    #[serde(rename = "enable-compression", skip_serializing_if = "std::ops::Not::not")]
    pub enable_compression: bool,
    /// Authorities that were trusted.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cacert: String,
    /// The client certificate.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cert: String,
    /// Its key's file.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub key: String,
    /// The server name that was verified.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cname: String,
    /// Whether any certificate was taken.
    #[serde(rename = "skipTLS", skip_serializing_if = "std::ops::Not::not")]
    pub skip_tls: bool,
    /// Whether there was no TLS.
    pub insecure: bool,
    /// The `:authority`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub authority: String,
    /// Requests a second; 0 for as fast as possible.
    #[serde(skip_serializing_if = "is_zero")]
    pub rps: u64,
    /// `const`, `step` or `line`.
    #[serde(rename = "load-schedule")]
    pub load_schedule: String,
    /// See [`crate::ghz`].
    #[serde(rename = "load-start")]
    pub load_start: u64,
    /// See there.
    #[serde(rename = "load-end")]
    pub load_end: u64,
    /// See there.
    #[serde(rename = "load-step")]
    pub load_step: i64,
    /// See there.
    #[serde(rename = "load-step-duration")]
    pub load_step_duration_ns: u64,
    /// See there.
    #[serde(rename = "load-max-duration")]
    pub load_max_duration_ns: u64,
    /// Requests at the same time.
    #[serde(skip_serializing_if = "is_zero")]
    pub concurrency: u64,
    /// `const`, `step` or `line`.
    #[serde(rename = "concurrency-schedule")]
    pub concurrency_schedule: String,
    /// See there.
    #[serde(rename = "concurrency-start")]
    pub concurrency_start: u64,
    /// See there.
    #[serde(rename = "concurrency-end")]
    pub concurrency_end: u64,
    /// See there.
    #[serde(rename = "concurrency-step")]
    pub concurrency_step: i64,
    /// See there.
    #[serde(rename = "concurrency-step-duration")]
    pub concurrency_step_duration_ns: u64,
    /// See there.
    #[serde(rename = "concurrency-max-duration")]
    pub concurrency_max_duration_ns: u64,
    /// Requests in all; the largest 32-bit number when a time ended the run.
    pub total: u32,
    /// Whether requests did not wait for answers.
    #[serde(rename = "async", skip_serializing_if = "std::ops::Not::not")]
    pub is_async: bool,
    /// Connections.
    #[serde(skip_serializing_if = "is_zero")]
    pub connections: u64,
    /// How long, when a time ended the run.
    #[serde(rename = "duration", skip_serializing_if = "is_zero")]
    pub duration_ns: u64,
    /// The longest that a request might take.
    #[serde(rename = "timeout", skip_serializing_if = "is_zero")]
    pub timeout_ns: u64,
    /// The longest that connecting might take.
    #[serde(rename = "dial-timeout", skip_serializing_if = "is_zero")]
    pub dial_timeout_ns: u64,
    /// The time between pings.
    #[serde(rename = "keepalive", skip_serializing_if = "is_zero")]
    pub keepalive_ns: u64,
    /// The messages.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub data: Value,
    /// Whether the message was an encoded one.
    pub binary: bool,
    /// The metadata.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<BTreeMap<String, String>>,
    /// Threads.
    #[serde(rename = "CPUs")]
    pub cpus: u64,
    /// What the report calls itself.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// How many requests are left out at the start.
    #[serde(rename = "skipFirst", skip_serializing_if = "is_zero")]
    pub skip_first: u64,
    /// Whether failures count in times.
    #[serde(rename = "count-errors", skip_serializing_if = "std::ops::Not::not")]
    pub count_errors: bool,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The format asked for.
pub(super) fn format(settings: &Settings) -> Result<Format, BenchError> {
    let asked = settings.text("format")?.unwrap_or_default().to_ascii_lowercase();
    if let Some((_, instead)) = REFUSED_FORMATS.iter().find(|(name, _)| *name == asked) {
        return Err(settings.error("format", format!("`{asked}` is not written; {instead}")));
    }
    let names = FORMATS.map(|(name, _)| name);
    let name = settings.word("format", &names)?;
    let found = FORMATS.iter().find(|(known, _)| Some(*known) == name);
    Ok(found.map_or(Format::Summary, |(_, format)| *format))
}

/// What ghz would echo.
pub(super) fn echo(
    settings: &Settings,
    planned: &Planned,
    grpc: &GrpcCall,
) -> Result<Options, BenchError> {
    let text = |key: &str| Ok::<_, BenchError>(settings.text(key)?.unwrap_or_default());
    let count = |key: &str| Ok::<_, BenchError>(settings.count(key)?.unwrap_or(0));
    let time_ns = |key: &str| Ok::<_, BenchError>(settings.time(key)?.map_or(0, nanoseconds));
    let stair_ns = |key: &str, schedule: &str| match schedule {
        "line" => Ok(1_000_000_000),
        _ => time_ns(key),
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    Ok(Options {
        call: grpc.call.clone(),
        host: text("host")?,
        import_paths: import_paths(grpc),
        proto: text("proto")?,
        protoset: text("protoset")?,
        enable_compression: grpc.compression,
        cacert: text("cacert")?,
        cert: text("cert")?,
        key: text("key")?,
        cname: text("cname")?,
        skip_tls: settings.toggle("skipTLS")?,
        insecure: settings.toggle("insecure")?,
        authority: text("authority")?,
        rps: count("rps")?,
        load_schedule: planned.load_schedule.into(),
        load_start: count("load-start")?,
        load_end: count("load-end")?,
        load_step: settings.signed("load-step")?.unwrap_or(0),
        load_step_duration_ns: stair_ns("load-step-duration", planned.load_schedule)?,
        load_max_duration_ns: time_ns("load-max-duration")?,
        concurrency: planned.concurrency,
        concurrency_schedule: planned.concurrency_schedule.into(),
        // The defaults of files and of flags differ in ghz.
        concurrency_start: settings
            .count("concurrency-start")?
            .unwrap_or(u64::from(settings.has_file())),
        concurrency_end: count("concurrency-end")?,
        concurrency_step: settings
            .signed("concurrency-step")?
            .unwrap_or(i64::from(!settings.has_file())),
        concurrency_step_duration_ns: stair_ns(
            "concurrency-step-duration",
            planned.concurrency_schedule,
        )?,
        concurrency_max_duration_ns: time_ns("concurrency-max-duration")?,
        total: planned.total,
        is_async: settings.toggle("async")?,
        connections: planned.connections,
        duration_ns: nanoseconds(planned.duration),
        timeout_ns: nanoseconds(planned.timeout),
        dial_timeout_ns: settings.time("connect-timeout")?.map_or(CONNECT_TIMEOUT_NS, nanoseconds),
        keepalive_ns: time_ns("keepalive")?,
        data: data(grpc),
        binary: matches!(grpc.data, Some(GrpcData::BinaryFile(_))),
        metadata: metadata(grpc),
        cpus: settings.count("cpus")?.filter(|count| *count > 0).unwrap_or(cores),
        name: text("name")?,
        skip_first: count("skipFirst")?,
        count_errors: settings.toggle("count-errors")?,
    })
}

/// As ghz completes them: the file's folder, the current one, what was given.
fn import_paths(grpc: &GrpcCall) -> Vec<String> {
    let Some(proto) = &grpc.proto else { return Vec::new() };
    let folder = proto.parent().map(|folder| folder.to_string_lossy().into_owned());
    let folder = folder.map(|folder| folder.trim_start_matches("./").to_owned());
    let folder = folder.filter(|folder| !folder.is_empty() && folder != ".");
    let given = grpc.import_paths.iter().map(|path| path.to_string_lossy().into_owned());
    folder.into_iter().chain([".".to_owned()]).chain(given).collect()
}

/// Messages that are JSON; a file that is too large or no JSON before it is filled in is left out.
fn data(grpc: &GrpcCall) -> Value {
    let text = match &grpc.data {
        Some(GrpcData::Json(text)) => Some(text.clone()),
        Some(GrpcData::JsonFile(path)) if path.is_file() => {
            tollhouse_load::file::read_text(path, ECHO_BYTES_MAX).ok()
        }
        _ => None,
    };
    text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or(Value::Null)
}

fn metadata(grpc: &GrpcCall) -> Option<BTreeMap<String, String>> {
    let texts = grpc.metadata.as_ref()?.as_object()?.iter();
    texts.map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect()
}
