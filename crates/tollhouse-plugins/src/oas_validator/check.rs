//! Check of a request against an operation.

use serde_json::{Map, Number, Value};
use tollhouse_model::variable::{cookie_value, decode_argument};

use super::spec::{Body, Kinds, Operation, Parameter, Place, Spec};
use crate::shared::messages::unique_members::UniqueMembers;

/// Parts of requests that are not checked.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Skipped {
    pub body: bool,
    pub headers: bool,
    pub query: bool,
    pub path: bool,
}

/// Request as the check sees it.
#[derive(Debug, Default)]
pub(super) struct Request {
    pub method: String,
    pub path: String,
    pub query: Vec<u8>,
    /// Lower-case names with their values.
    pub headers: Vec<(String, Vec<u8>)>,
}

impl Spec {
    /// Checks a request.
    ///
    /// # Errors
    /// The first part that does not fit the document.
    pub(super) fn check(
        &self,
        request: &Request,
        body: &[u8],
        skipped: Skipped,
    ) -> Result<(), String> {
        let found = self.find(&request.method, &request.path);
        let (operation, path_values) =
            found.ok_or_else(|| "no operation of the document matches the request".to_owned())?;
        check_parameters(operation, request, &path_values, skipped)?;
        match &operation.body {
            Some(rules) if !skipped.body => check_body(rules, request, body),
            _ => Ok(()),
        }
    }
}

fn check_parameters(
    operation: &Operation,
    request: &Request,
    path_values: &[(&str, String)],
    skipped: Skipped,
) -> Result<(), String> {
    for parameter in &operation.parameters {
        let is_skipped = match parameter.place {
            Place::Path => skipped.path,
            Place::Query => skipped.query,
            Place::Header | Place::Cookie => skipped.headers,
        };
        if is_skipped {
            continue;
        }
        let values = values(parameter, request, path_values);
        let name = &parameter.name;
        if values.is_empty() {
            if parameter.is_required {
                return Err(format!("parameter \"{name}\" is required"));
            }
            continue;
        }
        // Nodes do not agree on which of several values counts.
        if values.len() > 1 && !parameter.kinds.array {
            return Err(format!("parameter \"{name}\" is repeated"));
        }
        let value = parameter.convert(values);
        parameter
            .schema
            .validate(&value)
            .map_err(|fault| format!("parameter \"{name}\": {}", String::from(fault)))?;
    }
    Ok(())
}

fn values(parameter: &Parameter, request: &Request, path_values: &[(&str, String)]) -> Vec<String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let name = parameter.name.as_str();
    match parameter.place {
        Place::Path => {
            let named = path_values.iter().filter(|(other, _)| *other == name);
            named.map(|(_, value)| value.clone()).collect()
        }
        Place::Query => arguments(&request.query)
            .filter(|(other, _)| &**other == name.as_bytes())
            .map(|(_, value)| text(&value))
            .collect(),
        Place::Header => {
            let named =
                request.headers.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name));
            named.map(|(_, value)| text(value)).collect()
        }
        Place::Cookie => {
            let lines = request.headers.iter().filter(|(other, _)| other == "cookie");
            lines.filter_map(|(_, value)| cookie_value(value, name)).map(text).collect()
        }
    }
}

/// Returns the fields of a query or form, decoded.
fn arguments(text: &[u8]) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
    let pairs = text.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty());
    pairs.map(|pair| {
        let at = pair.iter().position(|byte| *byte == b'=').unwrap_or(pair.len());
        let value = pair.get(at + 1..).unwrap_or_default();
        (decode_argument(&pair[..at]).into_owned(), decode_argument(value).into_owned())
    })
}

impl Parameter {
    /// Converts texts to a JSON value of one of the allowed types.
    fn convert(&self, values: Vec<String>) -> Value {
        if !self.kinds.array {
            let first = values.into_iter().next().unwrap_or_default();
            return self.kinds.scalar(first);
        }
        let items = self.kinds.items.as_deref().cloned().unwrap_or_default();
        let parts: Vec<String> = match self.is_exploded {
            true => values,
            false => values.iter().flat_map(|it| it.split(',')).map(str::to_owned).collect(),
        };
        Value::Array(parts.into_iter().map(|part| items.scalar(part)).collect())
    }
}

impl Kinds {
    fn scalar(&self, text: String) -> Value {
        if self.integer
            && let Ok(number) = text.parse::<i64>()
        {
            return number.into();
        }
        if (self.number || self.integer)
            && let Some(number) = text.parse().ok().and_then(Number::from_f64)
        {
            return Value::Number(number);
        }
        match text.as_str() {
            "true" if self.boolean => Value::Bool(true),
            "false" if self.boolean => Value::Bool(false),
            _ => Value::String(text),
        }
    }
}

fn check_body(rules: &Body, request: &Request, body: &[u8]) -> Result<(), String> {
    if body.is_empty() {
        let text = "the body is required".to_owned();
        return if rules.is_required { Err(text) } else { Ok(()) };
    }
    let mut content_types = request.headers.iter().filter(|(name, _)| name == "content-type");
    let content_type = content_types.next();
    if content_types.next().is_some() {
        return Err("the header \"content-type\" is repeated".to_owned());
    }
    let content_type =
        content_type.map_or(b"application/json".as_slice(), |(_, value)| value.as_slice());
    let content_type = String::from_utf8_lossy(content_type);
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let Some((range, schema, fields)) = media_type(rules, &essence) else {
        return Err(format!("the document has no content type \"{essence}\""));
    };
    let Some(schema) = schema else { return Ok(()) };
    let value = match essence.as_str() {
        "application/x-www-form-urlencoded" => form(body, fields)?,
        name if name == "application/json" || name.ends_with("+json") => json(body)?,
        name if name.starts_with("text/") => {
            Value::String(String::from_utf8_lossy(body).into_owned())
        }
        // Other bodies, such as files, are not described by a schema of JSON.
        name if name == range => return Ok(()),
        // A range does not let a client choose a type that is not checked.
        _ => json(body)?,
    };
    schema.validate(&value).map_err(String::from)
}

type MediaType<'r> = &'r (String, Option<tollhouse_model::schema::Schema>, Map<String, Value>);

/// Returns the rules for a media type: those of its name, or those of a range.
fn media_type<'r>(rules: &'r Body, essence: &str) -> Option<MediaType<'r>> {
    let main = essence.split('/').next().unwrap_or_default();
    let ranges = [essence.to_owned(), format!("{main}/*"), "*/*".to_owned()];
    ranges.iter().find_map(|range| rules.types.iter().find(|(name, ..)| name == range))
}

/// Parses JSON without repeated members, of which other parsers may take another one.
fn json(body: &[u8]) -> Result<Value, String> {
    let invalid = |error: serde_json::Error| format!("invalid JSON body: {error}");
    serde_json::from_slice::<UniqueMembers>(body).map_err(invalid)?;
    serde_json::from_slice(body).map_err(invalid)
}

/// Returns the fields of a form, with the types that the schema gives them.
fn form(body: &[u8], fields: &Map<String, Value>) -> Result<Value, String> {
    let mut found: Map<String, Value> = Map::new();
    for (name, value) in arguments(body) {
        let name = String::from_utf8_lossy(&name).into_owned();
        let text = String::from_utf8_lossy(&value).into_owned();
        let schema = fields.get(&name).unwrap_or(&Value::Null);
        let kind = |schema: &Value| Kinds {
            integer: schema["type"] == "integer",
            number: schema["type"] == "number",
            boolean: schema["type"] == "boolean",
            ..Kinds::default()
        };
        if schema["type"] == "array" {
            let item = kind(&schema["items"]).scalar(text);
            match found.get_mut(&name) {
                Some(Value::Array(items)) => items.push(item),
                _ => drop(found.insert(name, Value::Array(vec![item]))),
            }
        } else {
            let value = kind(schema).scalar(text);
            if found.contains_key(&name) {
                return Err(format!("field \"{name}\" is repeated"));
            }
            found.insert(name, value);
        }
    }
    Ok(Value::Object(found))
}
