//! Parser of health checks, with their defaults.

use std::time::Duration;

use serde_json::Value;

use super::{ActiveCheck, CheckKind, Checks, PassiveCheck, Thresholds};
use crate::limits::{CHECK_STATUSES, CHECK_THRESHOLD_MAX, SECONDS_MAX};
use crate::reader::{Fields, Reader, Unknown};

const ACTIVE_FIELDS: [&str; 13] = [
    "type",
    "timeout",
    "concurrency",
    "host",
    "port",
    "http_method",
    "http_path",
    "http_req_body",
    "grpc_service",
    "https_verify_certificate",
    "req_headers",
    "healthy",
    "unhealthy",
];
const PASSIVE_FIELDS: [&str; 3] = ["type", "healthy", "unhealthy"];
const HEALTHY_FIELDS: [&str; 3] = ["interval", "http_statuses", "successes"];
const UNHEALTHY_FIELDS: [&str; 5] =
    ["interval", "http_statuses", "http_failures", "tcp_failures", "timeouts"];

const PASSIVE_KINDS: &[(&str, CheckKind)] =
    &[("http", CheckKind::Http), ("https", CheckKind::Https), ("tcp", CheckKind::Tcp)];
const ACTIVE_KINDS: &[(&str, CheckKind)] = &[
    ("http", CheckKind::Http),
    ("https", CheckKind::Https),
    ("tcp", CheckKind::Tcp),
    ("grpc", CheckKind::Grpc),
    ("grpcs", CheckKind::Grpcs),
];

/// Methods of probes; the first is the default.
const METHODS: [&str; 10] =
    ["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "CONNECT", "TRACE", "PURGE"];

const ACTIVE_TIMEOUT_DEFAULT: Duration = Duration::from_secs(1);
const ACTIVE_CONCURRENCY_DEFAULT: u32 = 10;
const ACTIVE_INTERVAL_DEFAULT: Duration = Duration::from_secs(1);

/// Maximum number of concurrent probes that a document may configure; each takes a socket.
const ACTIVE_CONCURRENCY_MAX: i64 = 1_000;

pub(super) fn read(reader: &mut Reader<'_>, value: &Value) -> Option<Checks> {
    let fields = reader.object(value, &["active", "passive"], Unknown::Refused)?;
    if !fields.contains_key("active") {
        let reason =
            "object matches none of the required: [\"active\"] or [\"active\",\"passive\"]";
        reader.error(value, reason, "add \"active\"; {} uses its defaults");
    }
    let active = reader.optional(fields, "active", read_active);
    let passive = reader.optional(fields, "passive", read_passive);
    Some(Checks { active: active?, passive })
}

fn read_active(reader: &mut Reader<'_>, value: &Value) -> Option<ActiveCheck> {
    let fields = reader.object(value, &ACTIVE_FIELDS, Unknown::Ignored)?;
    let interval = |reader: &mut Reader<'_>, side: &str| {
        // Other errors of this side are reported with its thresholds.
        let side_fields = fields.get(side)?.as_object()?;
        reader.in_field(side, |reader| reader.optional(side_fields, "interval", read_interval))
    };
    let healthy_interval = interval(reader, "healthy");
    let unhealthy_interval = interval(reader, "unhealthy");
    Some(ActiveCheck {
        kind: read_kind(reader, fields, ACTIVE_KINDS),
        timeout: reader
            .optional(fields, "timeout", Reader::seconds_above_zero)
            .unwrap_or(ACTIVE_TIMEOUT_DEFAULT),
        concurrency: reader
            .optional(fields, "concurrency", |reader, value| {
                reader.integer(value, 1..=ACTIVE_CONCURRENCY_MAX)
            })
            .and_then(|count| count.try_into().ok())
            .unwrap_or(ACTIVE_CONCURRENCY_DEFAULT),
        host: reader.optional(fields, "host", Reader::host).map(str::to_owned),
        port: reader
            .optional(fields, "port", |reader, value| {
                reader.integer(value, 1..=i64::from(u16::MAX))
            })
            .and_then(|port| port.try_into().ok()),
        http_method: reader
            .optional(fields, "http_method", |reader, value| {
                reader.one_of(value, &METHODS.map(|name| (name, name)))
            })
            .unwrap_or(METHODS[0])
            .to_owned(),
        http_path: head_part(reader, fields, "http_path", "/"),
        http_request_body: reader
            .optional(fields, "http_req_body", |reader, value| reader.text(value))
            .unwrap_or_default()
            .to_owned(),
        grpc_service: reader
            .optional(fields, "grpc_service", |reader, value| reader.text(value))
            .unwrap_or_default()
            .to_owned(),
        https_verify_certificate: reader
            .optional(fields, "https_verify_certificate", Reader::boolean)
            .unwrap_or(true),
        request_headers: reader.optional(fields, "req_headers", read_headers).unwrap_or_default(),
        healthy_interval: healthy_interval.unwrap_or(ACTIVE_INTERVAL_DEFAULT),
        unhealthy_interval: unhealthy_interval.unwrap_or(ACTIVE_INTERVAL_DEFAULT),
        thresholds: read_thresholds(reader, fields, active_thresholds(), 1),
    })
}

fn read_passive(reader: &mut Reader<'_>, value: &Value) -> Option<PassiveCheck> {
    let fields = reader.object(value, &PASSIVE_FIELDS, Unknown::Ignored)?;
    Some(PassiveCheck {
        kind: read_kind(reader, fields, PASSIVE_KINDS),
        thresholds: read_thresholds(reader, fields, passive_thresholds(), 0),
    })
}

fn active_thresholds() -> Thresholds {
    Thresholds {
        healthy_statuses: vec![200, 302],
        successes: 2,
        unhealthy_statuses: vec![429, 404, 500, 501, 502, 503, 504, 505],
        http_failures: 5,
        tcp_failures: 2,
        timeouts: 3,
    }
}

fn passive_thresholds() -> Thresholds {
    Thresholds {
        healthy_statuses: (200..=208).chain([226]).chain(300..=308).collect(),
        successes: 5,
        unhealthy_statuses: vec![429, 500, 503],
        http_failures: 5,
        tcp_failures: 2,
        timeouts: 7,
    }
}

/// Reads the thresholds. `least` is the smallest valid one; 0, which disables a signal, is valid
/// only in passive checks.
fn read_thresholds(
    reader: &mut Reader<'_>,
    fields: &Fields,
    mut thresholds: Thresholds,
    least: i64,
) -> Thresholds {
    let threshold = |reader: &mut Reader<'_>, fields: &Fields, name: &str, slot: &mut u8| {
        let value = reader.optional(fields, name, |reader, value| {
            reader.integer(value, least..=CHECK_THRESHOLD_MAX)
        });
        *slot = value.and_then(|count| count.try_into().ok()).unwrap_or(*slot);
    };
    reader.optional(fields, "healthy", |reader, value| {
        let fields = reader.object(value, &HEALTHY_FIELDS, Unknown::Ignored)?;
        threshold(reader, fields, "successes", &mut thresholds.successes);
        let statuses = reader.optional(fields, "http_statuses", read_statuses)?;
        thresholds.healthy_statuses = statuses;
        Some(())
    });
    reader.optional(fields, "unhealthy", |reader, value| {
        let fields = reader.object(value, &UNHEALTHY_FIELDS, Unknown::Ignored)?;
        threshold(reader, fields, "http_failures", &mut thresholds.http_failures);
        threshold(reader, fields, "tcp_failures", &mut thresholds.tcp_failures);
        threshold(reader, fields, "timeouts", &mut thresholds.timeouts);
        let statuses = reader.optional(fields, "http_statuses", read_statuses)?;
        thresholds.unhealthy_statuses = statuses;
        Some(())
    });
    thresholds
}

fn read_kind(reader: &mut Reader<'_>, fields: &Fields, kinds: &[(&str, CheckKind)]) -> CheckKind {
    reader
        .optional(fields, "type", |reader, value| reader.one_of(value, kinds))
        .unwrap_or(CheckKind::Http)
}

fn read_interval(reader: &mut Reader<'_>, value: &Value) -> Option<Duration> {
    // The bound is a whole number well inside the range of the type.
    let seconds = reader.integer(value, 1..=SECONDS_MAX as i64)?;
    seconds.try_into().ok().map(Duration::from_secs)
}

fn read_statuses(reader: &mut Reader<'_>, value: &Value) -> Option<Vec<u16>> {
    let items = reader.unique_list_not_empty(value)?;
    reader.items(items, |reader, item| {
        reader.integer(item, CHECK_STATUSES.0..=CHECK_STATUSES.1)?.try_into().ok()
    })
}

/// Reads a word of the probe's request line; refuses characters that would end it early.
fn head_part(reader: &mut Reader<'_>, fields: &Fields, name: &str, default: &str) -> String {
    let text = reader.optional(fields, name, |reader, value| {
        let text = reader.text(value)?;
        if text.is_empty() || text.contains(|letter: char| letter <= ' ' || letter == '\x7f') {
            reader.error(value, "empty, or with a space or control character", "");
            return None;
        }
        Some(text)
    });
    text.unwrap_or(default).to_owned()
}

fn read_headers(reader: &mut Reader<'_>, value: &Value) -> Option<Vec<String>> {
    let items = reader.unique_list(value)?;
    reader.items(items, |reader, item| {
        let line = reader.text(item)?;
        if !is_header_line(line) {
            // Unquoted, because header lines of probes may contain credentials.
            reader.error_unquoted("invalid header line", "write it as \"Name: value\"");
            return None;
        }
        Some(line.to_owned())
    })
}

fn is_header_line(line: &str) -> bool {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let Some((name, value)) = line.split_once(':') else { return false };
    let control = |letter: char| (letter < ' ' && letter != '\t') || letter == '\x7f';
    !name.is_empty() && name.bytes().all(token) && !value.contains(control)
}
