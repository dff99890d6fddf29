//! OpenAPI document (3.0 and 3.1), compiled for the check of requests.

use std::collections::HashMap;

use serde_json::{Map, Value, json};
use tollhouse_model::schema::{Schema, Subject};

/// Methods that a path may have.
const METHODS: [&str; 8] = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];

/// Deepest chain of references, which may form a circle.
const REFERENCES_MAX: usize = 32;

/// Limit of schemas that are read for the types of one parameter.
const SCHEMAS_MAX: usize = 1_000;

/// Place of the schema that is compiled, beside the components that it refers to.
const ROOT: &str = "x-root";

/// Compiled document.
#[derive(Debug)]
pub(super) struct Spec {
    /// Paths of servers, which precede the paths of operations.
    bases: Vec<String>,
    operations: Vec<Operation>,
}

/// Operation with its path.
#[derive(Debug)]
pub(super) struct Operation {
    method: String,
    segments: Vec<Segment>,
    pub(super) parameters: Vec<Parameter>,
    pub(super) body: Option<Body>,
}

#[derive(Debug)]
enum Segment {
    Fixed(String),
    /// Name of a parameter, between fixed texts.
    Parameter {
        before: String,
        name: String,
        after: String,
    },
}

#[derive(Debug)]
pub(super) struct Parameter {
    pub(super) place: Place,
    pub(super) name: String,
    pub(super) is_required: bool,
    /// Whether several values are several arguments, and not one with commas.
    pub(super) is_exploded: bool,
    pub(super) kinds: Kinds,
    pub(super) schema: Schema,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Path,
    Query,
    Header,
    Cookie,
}

#[derive(Debug)]
pub(super) struct Body {
    pub(super) is_required: bool,
    /// Schemas by media type, with the kinds of the fields of forms.
    pub(super) types: Vec<(String, Option<Schema>, Map<String, Value>)>,
}

/// Types that a text may be converted to.
#[derive(Debug, Clone, Default)]
pub(super) struct Kinds {
    pub(super) integer: bool,
    pub(super) number: bool,
    pub(super) boolean: bool,
    pub(super) array: bool,
    /// Types of the items of an array.
    pub(super) items: Option<Box<Kinds>>,
}

impl Spec {
    /// Compiles a document.
    ///
    /// # Errors
    /// If the document is not one of OpenAPI, or a schema is invalid.
    pub(super) fn compile(text: &[u8]) -> Result<Self, String> {
        let document: Value = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        let version = document["openapi"].as_str().unwrap_or_default();
        if !version.starts_with("3.") {
            return Err("the document is not OpenAPI 3".into());
        }
        let mut compiler = Compiler::new(&document);
        let mut operations = Vec::new();
        for (path, item) in document["paths"].as_object().into_iter().flatten() {
            let item = compiler.resolved(item)?;
            for method in METHODS {
                if let Some(operation) = item.get(method) {
                    operations.push(compiler.operation(path, method, item, operation)?);
                }
            }
        }
        Ok(Self { bases: bases(&document["servers"]), operations })
    }

    /// Returns the operation for a request, with the values of its path's parameters. Paths with
    /// fewer parameters win.
    pub(super) fn find(
        &self,
        method: &str,
        path: &str,
    ) -> Option<(&Operation, Vec<(&str, String)>)> {
        let rests = self.bases.iter().filter_map(|base| path.strip_prefix(base.as_str()));
        let rests: Vec<&str> = rests.filter(|rest| rest.starts_with('/')).collect();
        let mut best: Option<(&Operation, Vec<(&str, String)>)> = None;
        for operation in self.operations.iter().filter(|it| it.method.eq_ignore_ascii_case(method))
        {
            for rest in &rests {
                let Some(values) = operation.matches(rest) else { continue };
                if best.as_ref().is_none_or(|(_, others)| values.len() < others.len()) {
                    best = Some((operation, values));
                }
            }
        }
        best
    }
}

/// Returns the paths of servers; a server without a path has an empty one.
fn bases(servers: &Value) -> Vec<String> {
    let urls = servers.as_array().into_iter().flatten().filter_map(|it| it["url"].as_str());
    let path = |url: &str| {
        let path = match url.split_once("://") {
            Some((_, rest)) => rest.find('/').map_or("", |at| &rest[at..]),
            None => url,
        };
        path.trim_end_matches('/').to_owned()
    };
    let mut bases: Vec<String> = urls.map(path).collect();
    if bases.is_empty() {
        bases.push(String::new());
    }
    bases
}

impl Operation {
    fn matches(&self, path: &str) -> Option<Vec<(&str, String)>> {
        let parts: Vec<&str> = path.split('/').skip(1).collect();
        if parts.len() != self.segments.len() {
            return None;
        }
        let mut values = Vec::new();
        for (segment, part) in self.segments.iter().zip(parts) {
            match segment {
                Segment::Fixed(text) if text == part => {}
                Segment::Fixed(_) => return None,
                Segment::Parameter { before, name, after } => {
                    let value = part.strip_prefix(before.as_str())?.strip_suffix(after.as_str())?;
                    if value.is_empty() {
                        return None;
                    }
                    values.push((name.as_str(), value.to_owned()));
                }
            }
        }
        Some(values)
    }
}

struct Compiler<'d> {
    document: &'d Value,
    /// Components in the form of JSON Schema, with room for the schema that is compiled.
    schemas: Value,
    anchors: Anchors,
}

/// Places of schemas by the names that `$dynamicAnchor` gives them. Of equal names, the first counts.
type Anchors = HashMap<String, String>;

impl<'d> Compiler<'d> {
    fn new(document: &'d Value) -> Self {
        let mut components = document["components"].clone();
        let mut anchors = Anchors::new();
        collect_anchors(&components, "#/components", &mut anchors);
        as_json_schema(&mut components, &anchors);
        let schemas = json!({"$ref": format!("#/{ROOT}"), "components": components});
        Self { document, schemas, anchors }
    }

    /// Follows references.
    fn resolved(&self, value: &'d Value) -> Result<&'d Value, String> {
        let mut value = value;
        for _ in 0..REFERENCES_MAX {
            let Some(reference) = value.get("$ref").and_then(Value::as_str) else {
                return Ok(value);
            };
            let target = reference.strip_prefix('#').and_then(|path| self.document.pointer(path));
            value = target.ok_or_else(|| format!("unknown reference {reference:?}"))?;
        }
        Err("references form a circle".into())
    }

    fn operation(
        &mut self,
        path: &str,
        method: &str,
        item: &'d Value,
        operation: &'d Value,
    ) -> Result<Operation, String> {
        let own = operation["parameters"].as_array().into_iter().flatten();
        let common = item["parameters"].as_array().into_iter().flatten();
        let mut parameters: Vec<Parameter> = Vec::new();
        for parameter in own.chain(common) {
            let Some(parameter) = self.parameter(parameter)? else { continue };
            let is_known =
                |other: &Parameter| other.place == parameter.place && other.name == parameter.name;
            if !parameters.iter().any(is_known) {
                parameters.push(parameter);
            }
        }
        let body = match operation.get("requestBody") {
            Some(body) => Some(self.body(body)?),
            None => None,
        };
        let segments = path.split('/').skip(1).map(segment).collect();
        Ok(Operation { method: method.to_owned(), segments, parameters, body })
    }

    fn parameter(&mut self, parameter: &'d Value) -> Result<Option<Parameter>, String> {
        let parameter = self.resolved(parameter)?;
        let place = match parameter["in"].as_str() {
            Some("path") => Place::Path,
            Some("query") => Place::Query,
            Some("header") => Place::Header,
            Some("cookie") => Place::Cookie,
            _ => return Err("a parameter has no place".into()),
        };
        let name = parameter["name"].as_str().ok_or("a parameter has no name")?;
        // Parameters with a media type, and objects in deep style, are not described by a schema of
        // the text.
        let Some(schema) = parameter.get("schema") else { return Ok(None) };
        if parameter["style"] == "deepObject" {
            return Ok(None);
        }
        Ok(Some(Parameter {
            place,
            name: name.to_owned(),
            is_required: place == Place::Path || parameter["required"] == true,
            is_exploded: match parameter["explode"].as_bool() {
                Some(is_exploded) => is_exploded,
                None => matches!(place, Place::Query | Place::Cookie),
            },
            kinds: self.kinds(schema, 0, &mut { SCHEMAS_MAX }),
            schema: self.schema(schema)?,
        }))
    }

    fn body(&mut self, body: &'d Value) -> Result<Body, String> {
        let body = self.resolved(body)?;
        let mut types = Vec::new();
        for (name, content) in body["content"].as_object().into_iter().flatten() {
            let name = name.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
            let schema = content.get("schema");
            let compiled = schema.map(|schema| self.schema(schema)).transpose()?;
            let fields = schema.map(|schema| self.resolved(schema)).transpose()?;
            let fields = fields.and_then(|schema| schema["properties"].as_object()).cloned();
            types.push((name, compiled, fields.unwrap_or_default()));
        }
        Ok(Body { is_required: body["required"] == true, types })
    }

    fn schema(&mut self, schema: &Value) -> Result<Schema, String> {
        let mut schema = schema.clone();
        as_json_schema(&mut schema, &self.anchors);
        self.schemas[ROOT] = schema;
        Schema::compile_for(&self.schemas, Subject::Traffic).map_err(|error| error.to_string())
    }

    /// Returns the types that a schema allows, from at most `left` schemas within it: branches that
    /// refer to each other would double at each level.
    fn kinds(&self, schema: &'d Value, depth: usize, left: &mut usize) -> Kinds {
        let mut kinds = Kinds::default();
        let Ok(schema) = self.resolved(schema) else { return kinds };
        if depth == REFERENCES_MAX || *left == 0 {
            return kinds;
        }
        *left -= 1;
        let listed = schema["type"].as_array().into_iter().flatten().chain([&schema["type"]]);
        for kind in listed.filter_map(Value::as_str) {
            match kind {
                "integer" => kinds.integer = true,
                "number" => kinds.number = true,
                "boolean" => kinds.boolean = true,
                "array" => {
                    kinds.array = true;
                    let items = schema.get("items").map(|items| self.kinds(items, depth + 1, left));
                    kinds.items = items.map(Box::new);
                }
                _ => {}
            }
        }
        for keyword in ["allOf", "anyOf", "oneOf"] {
            for branch in schema[keyword].as_array().into_iter().flatten() {
                let other = self.kinds(branch, depth + 1, left);
                kinds.integer |= other.integer;
                kinds.number |= other.number;
                kinds.boolean |= other.boolean;
                kinds.array |= other.array;
                kinds.items = kinds.items.take().or(other.items);
            }
        }
        kinds
    }
}

fn segment(text: &str) -> Segment {
    let parameter = text.split_once('{').and_then(|(before, rest)| {
        let (name, after) = rest.split_once('}')?;
        Some((before.to_owned(), name.to_owned(), after.to_owned()))
    });
    match parameter {
        Some((before, name, after)) => Segment::Parameter { before, name, after },
        None => Segment::Fixed(text.to_owned()),
    }
}

/// Notes the place of each schema with a `$dynamicAnchor` below `path`.
fn collect_anchors(value: &Value, path: &str, anchors: &mut Anchors) {
    match value {
        Value::Object(fields) => {
            if let Some(name) = fields.get("$dynamicAnchor").and_then(Value::as_str) {
                anchors.entry(name.to_owned()).or_insert_with(|| path.to_owned());
            }
            for (name, value) in fields {
                let name = name.replace('~', "~0").replace('/', "~1");
                collect_anchors(value, &format!("{path}/{name}"), anchors);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                collect_anchors(item, &format!("{path}/{index}"), anchors);
            }
        }
        _ => {}
    }
}

/// Rewrites the parts of OpenAPI that differ from the drafts of JSON Schema that are compiled: of 3.0
/// `nullable`, and bounds with a flag that excludes them; of 3.1 `prefixItems` and `$dynamicRef`,
/// which leads to the only schema that it can mean in a document of one resource.
fn as_json_schema(value: &mut Value, anchors: &Anchors) {
    match value {
        Value::Object(fields) => {
            fields.values_mut().for_each(|value| as_json_schema(value, anchors));
            if let Some(Value::Array(_)) = fields.get("prefixItems")
                && let Some(places) = fields.shift_remove("prefixItems")
                && let Some(rest) = fields.insert("items".into(), places)
            {
                fields.insert("additionalItems".into(), rest);
            }
            if let Some(Value::String(reference)) = fields.shift_remove("$dynamicRef") {
                // An unknown name stays, and is refused as an unknown reference.
                let place = reference.strip_prefix('#').and_then(|name| anchors.get(name));
                fields.insert("$ref".into(), place.cloned().unwrap_or(reference).into());
            }
            let is_nullable = fields.get("nullable") == Some(&Value::Bool(true));
            if let (true, Some(kind)) =
                (is_nullable, fields.get("type").and_then(Value::as_str).map(str::to_owned))
            {
                fields.insert("type".into(), json!([kind, "null"]));
                if let Some(Value::Array(values)) = fields.get_mut("enum") {
                    values.push(Value::Null);
                }
            }
            for (bound, flag) in [("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")]
            {
                let Some(Value::Bool(is_exclusive)) = fields.get(flag).cloned() else { continue };
                fields.shift_remove(flag);
                if let (true, Some(limit)) = (is_exclusive, fields.get(bound).cloned()) {
                    fields.shift_remove(bound);
                    fields.insert(flag.into(), limit);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| as_json_schema(item, anchors)),
        _ => {}
    }
}
