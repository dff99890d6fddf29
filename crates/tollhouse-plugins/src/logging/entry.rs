//! Log entry of an exchange, in the default format or that of the conf.

use serde_json::{Map, Value, json};
use tollhouse_model::variable::Variable;
use tollhouse_plugin::{
    Brand, ConfError, LogContext, Phases, RequestContext, ResponseContext, Scope, Step, Transfer,
};
use tollhouse_stdx::civil::CivilTime;

use super::bodies::{Bodies, BodyCapture};
use super::format::Fields;
use super::{BodyFields, FormatFields, hostname};
use crate::shared::messages::request_document::{headers_document, query_document, text};

/// Header in which servers name themselves.
const SERVER: &str = "server";

#[derive(Debug)]
pub(crate) struct Entries {
    bodies: Bodies,
    shape: Shape,
    extra: Fields,
    version: String,
    /// Value of the header `Server` in answers to clients.
    server: String,
}

#[derive(Debug)]
enum Shape {
    Default,
    Own(Fields),
}

/// Data from earlier phases for the log phase.
#[derive(Default)]
struct PhaseData {
    request_body: Option<Vec<u8>>,
    response_headers: Option<Value>,
    response_body: Option<BodyCapture>,
}

/// Entry of an exchange, with the additional fields of `log_format_extra` apart.
pub(crate) struct EntryParts {
    pub layout: Layout,
    pub fields: Map<String, Value>,
    pub extra: Map<String, Value>,
}

/// Origin of an entry's fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    Default,
    /// Fields of a `log_format`.
    Custom,
}

impl EntryParts {
    /// Returns all fields; an additional field replaces one of the same name.
    pub(crate) fn join(mut self) -> Map<String, Value> {
        self.fields.extend(self.extra);
        self.fields
    }
}

impl Entries {
    /// Phases of loggers whose entries never have bodies.
    pub(crate) const PHASES_WITHOUT_BODIES: Phases = Phases::RESPONSE.union(Phases::LOG);

    /// Phases in which entries are collected and written.
    pub(crate) const PHASES: Phases = Phases::ACCESS.union(Phases::RESPONSE).union(Phases::LOG);

    /// Compiles the conf, with plugin metadata as defaults.
    pub(crate) fn compile(
        bodies: BodyFields,
        format: FormatFields,
        scope: &Scope<'_>,
    ) -> Result<Self, ConfError> {
        let from_metadata = |name: &str| {
            let format = scope.metadata_field(name).and_then(Value::as_object).cloned();
            format.filter(|format| !format.is_empty())
        };
        let own = format.log_format.or_else(|| from_metadata("log_format"));
        let extra = format.log_format_extra.or_else(|| from_metadata("log_format_extra"));
        let token = &scope.services.server_token;
        Ok(Self {
            bodies: Bodies::compile(bodies)?,
            shape: own.map_or(Shape::Default, |format| Shape::Own(Fields::parse(&format))),
            extra: extra.map_or_else(Fields::default, |format| Fields::parse(&format)),
            server: token.clone(),
            version: match (token.split_once('/'), scope.services.brand) {
                (Some((_, version)), _) => version.into(),
                (None, Brand::Tollhouse) => env!("CARGO_PKG_VERSION").into(),
                (None, Brand::Apisix) => token.as_str().into(),
            },
        })
    }

    /// Stores the request's body if it is to be logged.
    pub(crate) fn access<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        self.bodies.request(cx, |cx, body| {
            cx.remember(PhaseData { request_body: Some(body), ..PhaseData::default() });
        })
    }

    /// Stores the answer's headers, and its body if it is to be logged.
    pub(crate) fn response(&self, cx: &mut ResponseContext<'_>) {
        let headers = self.headers(cx);
        let body = self.bodies.response(cx);
        let mut seen = cx.recall::<PhaseData>().map(std::mem::take).unwrap_or_default();
        seen.response_headers = Some(headers);
        seen.response_body = body;
        cx.remember(seen);
    }

    /// Returns the headers as the client gets them. `Server` is the gateway's, unless a plugin has
    /// changed it.
    fn headers(&self, cx: &ResponseContext<'_>) -> Value {
        let is_edited = cx.is_edited(SERVER);
        headers_document(|visit| {
            cx.each_header(&mut |name, value| {
                if is_edited || !name.eq_ignore_ascii_case(SERVER.as_bytes()) {
                    visit(name, value);
                }
            });
            if !is_edited {
                visit(SERVER.as_bytes(), self.server.as_bytes());
            }
        })
    }

    pub(crate) fn entry(&self, cx: &mut LogContext<'_>) -> Value {
        Value::Object(self.parts(cx).join())
    }

    /// Returns the entry with its additional fields apart, for plugins that arrange the default
    /// fields in their own way.
    pub(crate) fn parts(&self, cx: &mut LogContext<'_>) -> EntryParts {
        let seen = recall(cx);
        let (layout, fields) = match &self.shape {
            Shape::Default => (Layout::Default, self.default_entry(cx, &seen)),
            Shape::Own(fields) => (Layout::Custom, own_entry(fields, cx, &seen)),
        };
        let mut extra = Map::new();
        self.extra.add_to(&mut extra, &|name, variable| value_of(cx, &seen, name, variable));
        EntryParts { layout, fields, extra }
    }

    /// Returns the request as text: request line, headers, and the body if it was stored.
    pub(crate) fn original(&self, cx: &mut LogContext<'_>) -> String {
        let seen = recall(cx);
        let uri = variable(cx, &Variable::RequestUri).unwrap_or_default();
        let version = variable(cx, &Variable::ServerProtocol);
        let version = version.unwrap_or_else(|| "HTTP/1.1".to_owned());
        let mut original = format!("{} {uri} {version}\r\n", text(cx.request().method()));
        cx.each_header(&mut |name, value| {
            let name = text(name).to_ascii_lowercase();
            original.push_str(&format!("{name}: {}\r\n", text(value)));
        });
        original.push_str("\r\n");
        if let Some(body) = &seen.request_body {
            original.push_str(&text(body));
        }
        original
    }

    fn default_entry(&self, cx: &LogContext<'_>, seen: &PhaseData) -> Map<String, Value> {
        let transfer = cx.transfer();
        let mut entry = Map::new();
        let mut put = |name: &str, value: Value| {
            entry.insert(name.to_owned(), value);
        };
        put("request", request_part(cx, seen));
        put("response", response_part(transfer, seen));
        put("server", json!({"hostname": hostname(), "version": self.version}));
        if !transfer.upstream.is_empty() {
            put("upstream", json!(transfer.upstream));
        }
        // As in APISIX, requests without a route have the requested host as `service_id`.
        if transfer.route_id.is_empty() {
            put("service_id", json!(variable(cx, &Variable::Host)));
        } else {
            put("service_id", json!(transfer.service_id));
            put("route_id", json!(transfer.route_id));
        }
        if !transfer.consumer.is_empty() {
            put("consumer", json!({"username": transfer.consumer}));
        }
        put("client_ip", json!(variable(cx, &Variable::RemoteAddr)));
        put("start_time", json!(transfer.started_unix_ms));
        put("latency", json!(transfer.request_ms));
        if let Some(upstream_ms) = transfer.upstream_ms {
            put("upstream_latency", json!(upstream_ms));
        }
        let own_ms = transfer.request_ms.saturating_sub(transfer.upstream_ms.unwrap_or(0));
        put("apisix_latency", json!(own_ms));
        entry
    }
}

/// Returns the data of earlier phases. A masked body replaces the request's, in its length.
fn recall(cx: &mut LogContext<'_>) -> PhaseData {
    let mut seen = cx.recall::<PhaseData>().map(std::mem::take).unwrap_or_default();
    let masked = cx.masked().and_then(|masked| masked.body.as_deref());
    if let (Some(body), Some(masked)) = (&mut seen.request_body, masked) {
        let bytes_max = body.len();
        *body = masked[..masked.len().min(bytes_max)].to_vec();
    }
    seen
}

fn request_part(cx: &LogContext<'_>, seen: &PhaseData) -> Value {
    let part = |variable_name: Variable| variable(cx, &variable_name).unwrap_or_default();
    let (scheme, host) = (part(Variable::Scheme), part(Variable::Host));
    let (port, uri) = (part(Variable::ServerPort), part(Variable::RequestUri));
    let headers = headers_document(|visit| cx.each_header(visit));
    let mut document = json!({
        "url": format!("{scheme}://{host}:{port}{uri}"),
        "uri": uri,
        "method": text(cx.request().method()),
        "headers": headers,
        "querystring": query_document(cx.query()),
        "size": cx.transfer().bytes_received,
    });
    if let Some(body) = &seen.request_body {
        document["body"] = json!(text(body));
    }
    document
}

fn response_part(transfer: &Transfer<'_>, seen: &PhaseData) -> Value {
    let mut document = json!({
        "status": transfer.status,
        "headers": seen.response_headers.clone().unwrap_or_else(|| json!({})),
        "size": transfer.bytes_sent,
    });
    if let Some(body) = &seen.response_body {
        document["body"] = body.look(|body| json!(text(body)));
    }
    document
}

fn own_entry(fields: &Fields, cx: &LogContext<'_>, seen: &PhaseData) -> Map<String, Value> {
    let mut entry = Map::new();
    fields.add_to(&mut entry, &|name, variable| value_of(cx, seen, name, variable));
    let transfer = cx.transfer();
    for (name, id) in [("service_id", transfer.service_id), ("route_id", transfer.route_id)] {
        if !id.is_empty() {
            entry.insert(name.into(), json!(id));
        }
    }
    entry
}

/// Returns the value of a variable after the exchange: a number for the status and most sizes,
/// otherwise a text.
fn value_of(
    cx: &LogContext<'_>,
    seen: &PhaseData,
    name: &str,
    variable_name: &Variable,
) -> Option<Value> {
    let transfer = cx.transfer();
    let filled = |text: &str| (!text.is_empty()).then(|| json!(text));
    let seconds = |ms: u64| json!(format!("{}.{:03}", ms / 1_000, ms % 1_000));
    match name {
        "status" => Some(json!(transfer.status)),
        "request_length" => Some(json!(transfer.bytes_received)),
        "bytes_sent" => Some(json!(transfer.bytes_sent)),
        // APISIX logs this one as a text, unlike the other sizes.
        "body_bytes_sent" => Some(json!(transfer.body_bytes_sent.to_string())),
        "request_time" => Some(seconds(transfer.request_ms)),
        "upstream_response_time" | "apisix_upstream_response_time" => {
            transfer.upstream_ms.map(seconds)
        }
        "upstream_addr" => filled(transfer.upstream),
        "upstream_status" => transfer.upstream_status.map(|status| json!(status.to_string())),
        "route_id" => filled(transfer.route_id),
        "service_id" => filled(transfer.service_id),
        "consumer_name" => filled(transfer.consumer),
        "request_body" => seen.request_body.as_ref().map(|body| json!(text(body))),
        "resp_body" => seen.response_body.as_ref().map(|body| body.look(|body| json!(text(body)))),
        "hostname" => Some(json!(hostname())),
        "msec" => Some(seconds(cx.now().unix_ms)),
        "time_iso8601" => Some(json!(text(&civil(cx).iso_date()))),
        "time_local" => Some(json!(text(&civil(cx).log_date()))),
        _ => sent_header(seen, name).or_else(|| variable(cx, variable_name).map(Value::String)),
    }
}

/// Returns the value of `sent_http_<name>` or `upstream_http_<name>`.
fn sent_header(seen: &PhaseData, name: &str) -> Option<Value> {
    let header = name.strip_prefix("sent_http_").or(name.strip_prefix("upstream_http_"))?;
    seen.response_headers.as_ref()?.get(header.replace('_', "-")).cloned()
}

fn civil(cx: &LogContext<'_>) -> CivilTime {
    CivilTime::from_unix_seconds(i64::try_from(cx.now().unix_ms / 1_000).unwrap_or(i64::MAX))
}

fn variable(cx: &LogContext<'_>, variable: &Variable) -> Option<String> {
    let value = cx.variables().variable(variable)?;
    Some(text(&value).into_owned())
}
