//! Parser of stream routes, by the schema of APISIX's Admin API.

use std::sync::Arc;

use serde_json::Value;

use super::{StreamLogger, StreamProtocol, StreamRoute};
use crate::reader::{Fields, Reader, Unknown};
use crate::{Id, Problems, Upstream, plugins};

const FIELDS: [&str; 13] = [
    "id",
    "remote_addr",
    "server_addr",
    "server_port",
    "sni",
    "upstream",
    "upstream_id",
    "service_id",
    "plugins",
    "protocol",
    "name",
    "desc",
    "labels",
];

/// Default scheme of upstreams, also used for HTTP schemes.
const SCHEME_DEFAULT: &str = "tcp";

const STREAM_SCHEMES: [&str; 3] = ["tcp", "tls", "udp"];

/// Schemes of HTTP upstreams. APISIX up to 3.13 stores the default of its schema, `http`, in every
/// upstream, and ignores it in a stream route.
const HTTP_SCHEMES: [&str; 5] = ["http", "https", "grpc", "grpcs", "kafka"];

impl StreamRoute {
    /// Parses a document; returns `None` if any problem is an error.
    pub fn parse(id: Id, value: &Value, path: &str) -> (Option<Self>, Problems) {
        let mut problems = Problems::new();
        let mut reader = Reader::new(path, &mut problems);
        let route = reader
            .record(value, &FIELDS, Unknown::Refused)
            .map(|fields| read(&mut reader, id, fields));
        (route.filter(|_| !problems.has_errors()), problems)
    }
}

fn read(reader: &mut Reader<'_>, id: Id, fields: &Fields) -> StreamRoute {
    reader.own_keys(fields, Some(&id));
    let description = reader.description(fields);
    StreamRoute {
        id,
        remote_addr: reader.optional(fields, "remote_addr", Reader::network),
        server_addr: reader.optional(fields, "server_addr", Reader::network),
        server_port: reader.optional(fields, "server_port", |reader, value| {
            let port = reader.integer(value, 1..=i64::from(u16::MAX))?;
            port.try_into().ok()
        }),
        sni: reader.optional(fields, "sni", |reader, value| {
            reader.host(value).map(str::to_ascii_lowercase)
        }),
        upstream: reader.optional(fields, "upstream", read_upstream).map(Arc::new),
        upstream_id: reader.optional(fields, "upstream_id", Reader::id),
        service_id: reader.optional(fields, "service_id", Reader::id),
        plugins: reader
            .optional(fields, "plugins", |reader, value| Some(plugins::read(reader, value)))
            .unwrap_or_default(),
        protocol: reader.optional(fields, "protocol", read_protocol),
        name: description.name,
        desc: description.desc,
        labels: description.labels,
    }
}

/// Reads an inline upstream, whose default scheme differs from that of HTTP upstreams.
fn read_upstream(reader: &mut Reader<'_>, value: &Value) -> Option<Upstream> {
    let fields = reader.map(value)?;
    if fields.contains_key("scheme") {
        let is_stream = reader.optional(fields, "scheme", read_scheme)?;
        if is_stream {
            return Upstream::read_inline(reader, value);
        }
    }
    let mut fields = fields.clone();
    fields.insert("scheme".into(), SCHEME_DEFAULT.into());
    Upstream::read_inline(reader, &Value::Object(fields))
}

/// Returns whether the scheme is one of stream routes; `None` after reporting an invalid one. The
/// caller replaces an HTTP scheme by the default; one that implies encryption causes a warning.
fn read_scheme(reader: &mut Reader<'_>, value: &Value) -> Option<bool> {
    let name = reader.text(value)?;
    if STREAM_SCHEMES.contains(&name) {
        return Some(true);
    }
    if !HTTP_SCHEMES.contains(&name) {
        let hint = format!("use one of {}", STREAM_SCHEMES.join(", "));
        reader.error(value, "matches none of the enum values", &hint);
        return None;
    }
    if matches!(name, "https" | "grpcs") {
        let reason = "has no effect in a stream route: nodes are contacted as with \"tcp\"";
        reader.warning(value, reason, "use \"tls\" to encrypt connections to nodes");
    }
    Some(false)
}

fn read_protocol(reader: &mut Reader<'_>, value: &Value) -> Option<StreamProtocol> {
    let known = ["name", "superior_id", "conf", "logger"];
    let fields = reader.object(value, &known, Unknown::Ignored)?;
    let name = reader.required(fields, "name", Reader::text);
    let superior_id = reader.optional(fields, "superior_id", Reader::id);
    let conf = reader.optional(fields, "conf", read_object);
    let loggers = reader.optional(fields, "logger", |reader, value| {
        let items = reader.list(value)?;
        reader.items(items, read_logger)
    });
    Some(StreamProtocol {
        name: name?.to_owned(),
        superior_id,
        conf,
        loggers: loggers.unwrap_or_default(),
    })
}

fn read_logger(reader: &mut Reader<'_>, value: &Value) -> Option<StreamLogger> {
    let fields = reader.object(value, &["name", "filter", "conf"], Unknown::Refused)?;
    if fields.contains_key("name") && !fields.contains_key("conf") {
        let reason = "property \"conf\" is required when \"name\" is set";
        reader.error_unquoted(reason, "give {} for the defaults");
    }
    Some(StreamLogger {
        name: reader.optional(fields, "name", Reader::text).map(str::to_owned),
        filter: reader.optional(fields, "filter", Reader::list).map(<[Value]>::to_vec),
        conf: reader.optional(fields, "conf", read_object),
    })
}

fn read_object(reader: &mut Reader<'_>, value: &Value) -> Option<Value> {
    reader.map(value).map(|_| value.clone())
}
