//! Options of ghz's output: its format, names, and the settings that its reports repeat.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::call::nanoseconds;
use super::load::LoadPlan;
use super::settings::Settings;
use tollhouse_load::case::{GrpcCall, GrpcData};
use tollhouse_load::error::BenchError;

/// Largest data file that the report repeats, in bytes.
const ECHO_BYTES_MAX: u64 = 4 << 20;
/// Default of `connect-timeout` in ghz, in nanoseconds.
const CONNECT_TIMEOUT_NS: u64 = 10_000_000_000;

/// Output format of ghz.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// Summary as text for people.
    #[default]
    Summary,
    /// List with a line for each request.
    Csv,
    /// JSON in a single line.
    Json,
    /// Tollhouse's HTML report in place of ghz's.
    Html,
}

const FORMATS: [(&str, Format); 4] = [
    ("summary", Format::Summary),
    ("csv", Format::Csv),
    ("json", Format::Json),
    ("html", Format::Html),
];

/// Formats of ghz that are not supported, with an alternative.
const REFUSED_FORMATS: [(&str, &str); 4] = [
    ("pretty", "write `json`, and lay it out with `jq .`"),
    ("prometheus", "add `--prometheus FILE`, whose metrics have names of our own"),
    ("influx-summary", INSTEAD_OF_INFLUX),
    ("influx-details", INSTEAD_OF_INFLUX),
];
const INSTEAD_OF_INFLUX: &str =
    "add `--prometheus FILE`, or write `json`: the collectors of InfluxDB read both";

impl Format {
    /// Whether the format lists single requests.
    pub fn lists_requests(self) -> bool {
        matches!(self, Format::Csv | Format::Json)
    }
}

/// Settings that decide about ghz's output.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct GhzOptions {
    pub format: Format,
    /// File for the output; `None` for standard output.
    pub output: Option<PathBuf>,
    pub name: String,
    pub tags: BTreeMap<String, String>,
    /// Whether failed requests count in the times.
    pub count_errors: bool,
    /// Number of requests that are skipped at the start.
    pub skip_first: u64,
    /// Settings that the JSON report repeats.
    pub echo: Options,
}

/// Settings as ghz's JSON report repeats them: keys and order are ghz's, and settings are omitted
/// where ghz omits them. Times are in nanoseconds.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Options {
    /// Called method as written, such as `package.Service.Method`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub call: String,
    /// Target address as written on the command line.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub host: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub proto: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub protoset: String,
    /// Import paths, including the folder of the `.proto` file and the current one.
    #[serde(rename = "import-paths", skip_serializing_if = "Vec::is_empty")]
    pub import_paths: Vec<String>,
    /// Whether messages were compressed with gzip.
    #[serde(rename = "enable-compression", skip_serializing_if = "std::ops::Not::not")]
    pub enable_compression: bool,
    /// File with trusted certificate authorities.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cacert: String,
    /// File with the client certificate.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cert: String,
    /// File with the client's private key.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub key: String,
    /// Server name that the certificate was verified for.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cname: String,
    /// Whether any server certificate was accepted.
    #[serde(rename = "skipTLS", skip_serializing_if = "std::ops::Not::not")]
    pub skip_tls: bool,
    /// Whether connections were not encrypted.
    pub insecure: bool,
    /// Value of `:authority`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub authority: String,
    /// Requests per second; 0 if unlimited.
    #[serde(skip_serializing_if = "is_zero")]
    pub rps: u64,
    /// Schedule of the rate: `const`, `step` or `line`.
    #[serde(rename = "load-schedule")]
    pub load_schedule: String,
    /// Rate at the start of a schedule.
    #[serde(rename = "load-start")]
    pub load_start: u64,
    /// Rate at the end of a schedule.
    #[serde(rename = "load-end")]
    pub load_end: u64,
    /// Change of the rate per step.
    #[serde(rename = "load-step")]
    pub load_step: i64,
    /// Duration of one step of the rate in nanoseconds.
    #[serde(rename = "load-step-duration")]
    pub load_step_duration_ns: u64,
    /// Duration of the whole rate schedule in nanoseconds.
    #[serde(rename = "load-max-duration")]
    pub load_max_duration_ns: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub concurrency: u64,
    /// Schedule of the concurrency: `const`, `step` or `line`.
    #[serde(rename = "concurrency-schedule")]
    pub concurrency_schedule: String,
    /// Concurrency at the start of a schedule.
    #[serde(rename = "concurrency-start")]
    pub concurrency_start: u64,
    /// Concurrency at the end of a schedule.
    #[serde(rename = "concurrency-end")]
    pub concurrency_end: u64,
    /// Change of the concurrency per step.
    #[serde(rename = "concurrency-step")]
    pub concurrency_step: i64,
    /// Duration of one step of the concurrency in nanoseconds.
    #[serde(rename = "concurrency-step-duration")]
    pub concurrency_step_duration_ns: u64,
    /// Duration of the whole concurrency schedule in nanoseconds.
    #[serde(rename = "concurrency-max-duration")]
    pub concurrency_max_duration_ns: u64,
    /// Number of requests; the largest 32-bit integer if a time ended the run.
    pub total: u32,
    /// Whether requests did not wait for answers.
    #[serde(rename = "async", skip_serializing_if = "std::ops::Not::not")]
    pub is_async: bool,
    #[serde(skip_serializing_if = "is_zero")]
    pub connections: u64,
    /// Duration of the run, if a time ended it.
    #[serde(rename = "duration", skip_serializing_if = "is_zero")]
    pub duration_ns: u64,
    /// Timeout of a request in nanoseconds.
    #[serde(rename = "timeout", skip_serializing_if = "is_zero")]
    pub timeout_ns: u64,
    /// Timeout for opening a connection in nanoseconds.
    #[serde(rename = "dial-timeout", skip_serializing_if = "is_zero")]
    pub dial_timeout_ns: u64,
    /// Interval between pings in nanoseconds.
    #[serde(rename = "keepalive", skip_serializing_if = "is_zero")]
    pub keepalive_ns: u64,
    /// Request messages as JSON.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub data: Value,
    /// Whether the message was given in encoded form.
    pub binary: bool,
    /// Metadata sent with every call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<BTreeMap<String, String>>,
    /// Number of threads, as requested with `--cpus`.
    #[serde(rename = "CPUs")]
    pub cpus: u64,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Number of requests that are skipped at the start.
    #[serde(rename = "skipFirst", skip_serializing_if = "is_zero")]
    pub skip_first: u64,
    /// Whether failed requests count in the times.
    #[serde(rename = "count-errors", skip_serializing_if = "std::ops::Not::not")]
    pub count_errors: bool,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

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

/// Returns the settings that ghz would repeat in its report.
pub(super) fn echo(
    settings: &Settings,
    planned: &LoadPlan,
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
        // ghz has different defaults for files and flags.
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

/// Returns the import paths as ghz completes them: the folder of the file, the current one, the
/// given ones.
fn import_paths(grpc: &GrpcCall) -> Vec<String> {
    let Some(proto) = &grpc.proto else { return Vec::new() };
    let folder = proto.parent().map(|folder| folder.to_string_lossy().into_owned());
    let folder = folder.map(|folder| folder.trim_start_matches("./").to_owned());
    let folder = folder.filter(|folder| !folder.is_empty() && folder != ".");
    let given = grpc.import_paths.iter().map(|path| path.to_string_lossy().into_owned());
    folder.into_iter().chain([".".to_owned()]).chain(given).collect()
}

/// Returns the messages as JSON. A file that is too large, or not JSON before its placeholders are
/// filled in, is omitted.
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
