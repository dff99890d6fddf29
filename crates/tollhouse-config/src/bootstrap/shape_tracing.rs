//! Shapes of the settings of tracing. Names are those of OpenTelemetry's environment variables.

use serde_json::{Map, Value};

use super::shape::{Read, Shape, refuse, show_list, text_of, texts_of};
use super::shape_more::{PrivateTable, Table};
use super::tracing::{Compression, Propagation, SpanProtocol, SpanSampler};

/// Finds a value by its name, or refuses with all names.
fn named<T: Copy>(value: &Value, names: &[(&str, T)]) -> Read<T> {
    let text = text_of(value)?;
    match names.iter().find(|(name, _)| *name == text.trim()) {
        Some((_, found)) => Ok(*found),
        None => refuse(format!("unknown value {text:?}"), format!("use {}", list(names))),
    }
}

fn list<T>(names: &[(&str, T)]) -> String {
    names.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

fn name_of<T: PartialEq>(value: &T, names: &[(&str, T)]) -> String {
    let found = names.iter().find(|(_, other)| other == value);
    found.map_or_else(String::new, |(name, _)| (*name).to_owned())
}

/// Syntax of the URL of a collector, which may be unset.
pub(crate) struct CollectorUrl;

impl Shape for CollectorUrl {
    type Value = Option<String>;
    fn takes() -> String {
        "URL with http:// or https://, or null".to_owned()
    }
    fn read(value: &Value) -> Read<Option<String>> {
        let text = text_of(value)?;
        let text = text.trim();
        if text.is_empty() {
            return Ok(None);
        }
        let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
        match rest {
            Some(rest) if !rest.is_empty() && !rest.starts_with(['/', ':']) => {
                Ok(Some(text.to_owned()))
            }
            _ => refuse(format!("invalid URL {text:?}"), "for example http://collector:4318"),
        }
    }
    fn show(value: &Option<String>) -> String {
        value.clone().unwrap_or_else(|| "null".to_owned())
    }
}

pub(crate) struct ProtocolName;

const PROTOCOLS: [(&str, SpanProtocol); 2] =
    [("http/protobuf", SpanProtocol::Http), ("grpc", SpanProtocol::Grpc)];

impl Shape for ProtocolName {
    type Value = SpanProtocol;
    fn takes() -> String {
        list(&PROTOCOLS)
    }
    fn read(value: &Value) -> Read<SpanProtocol> {
        named(value, &PROTOCOLS)
    }
    fn show(value: &SpanProtocol) -> String {
        name_of(value, &PROTOCOLS)
    }
}

pub(crate) struct CompressionName;

const COMPRESSIONS: [(&str, Compression); 2] =
    [("none", Compression::None), ("gzip", Compression::Gzip)];

impl Shape for CompressionName {
    type Value = Compression;
    fn takes() -> String {
        list(&COMPRESSIONS)
    }
    fn read(value: &Value) -> Read<Compression> {
        named(value, &COMPRESSIONS)
    }
    fn show(value: &Compression) -> String {
        name_of(value, &COMPRESSIONS)
    }
}

pub(crate) struct SamplerName;

const SAMPLERS: [(&str, SpanSampler); 6] = [
    ("always_on", SpanSampler::Always),
    ("always_off", SpanSampler::Never),
    ("traceidratio", SpanSampler::Ratio),
    ("parentbased_always_on", SpanSampler::ParentAlways),
    ("parentbased_always_off", SpanSampler::ParentNever),
    ("parentbased_traceidratio", SpanSampler::ParentRatio),
];

impl Shape for SamplerName {
    type Value = SpanSampler;
    fn takes() -> String {
        list(&SAMPLERS)
    }
    fn read(value: &Value) -> Read<SpanSampler> {
        named(value, &SAMPLERS)
    }
    fn show(value: &SpanSampler) -> String {
        name_of(value, &SAMPLERS)
    }
}

/// Syntax of a list of propagators. `baggage` and `none` are accepted and add none.
pub(crate) struct Propagations;

const PROPAGATIONS: [(&str, Propagation); 3] = [
    ("tracecontext", Propagation::TraceContext),
    ("b3", Propagation::B3Single),
    ("b3multi", Propagation::B3Multi),
];

impl Shape for Propagations {
    type Value = Vec<Propagation>;
    fn takes() -> String {
        format!("list of {}", list(&PROPAGATIONS))
    }
    fn read(value: &Value) -> Read<Vec<Propagation>> {
        let texts = texts_of(value)?;
        let added = texts.iter().filter(|text| !["baggage", "none"].contains(&text.as_str()));
        added.map(|text| named(&Value::from(text.as_str()), &PROPAGATIONS)).collect()
    }
    fn show(value: &Vec<Propagation>) -> String {
        show_list(value.iter().map(|it| name_of(it, &PROPAGATIONS)), "[]")
    }
}

/// Syntax of a table of header lines, which may be secrets.
pub(crate) struct HeaderTable;

impl Shape for HeaderTable {
    type Value = Map<String, Value>;
    const SECRET: bool = true;
    fn takes() -> String {
        "table of header names and texts".to_owned()
    }
    fn read(value: &Value) -> Read<Map<String, Value>> {
        let table = PrivateTable::read(value)?;
        let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        let is_name = |name: &String| !name.is_empty() && name.bytes().all(token);
        if let Some(name) = table.keys().find(|name| !is_name(name)) {
            return refuse(format!("invalid header name {name:?}"), "for example api-key");
        }
        match table.values().all(|value| value.is_string()) {
            true => Ok(table),
            false => refuse("a header's value is not a text", "write it in quotes"),
        }
    }
    fn show(value: &Map<String, Value>) -> String {
        PrivateTable::show(value)
    }
}

/// Syntax of the attributes of a resource.
pub(crate) struct ResourceTable;

impl Shape for ResourceTable {
    type Value = Map<String, Value>;
    fn takes() -> String {
        "table of names and texts, numbers or booleans".to_owned()
    }
    fn read(value: &Value) -> Read<Map<String, Value>> {
        let table = Table::read(value)?;
        let is_plain = |value: &Value| value.is_string() || value.is_number() || value.is_boolean();
        match table.iter().find(|(_, value)| !is_plain(value)) {
            Some((name, _)) => refuse(
                format!("the value of {name:?} is not plain"),
                "give a text, number or boolean",
            ),
            None => Ok(table),
        }
    }
    fn show(value: &Map<String, Value>) -> String {
        Table::show(value)
    }
}
